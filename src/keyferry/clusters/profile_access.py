"""Which provider of a file serves a ClusterProfile (KEP-5339), and what the profile adds to its plugin.

Others than the owner of the provider file write profiles. What a profile adds to the arguments and variables of a
plugin is therefore decided by the file, and a variable that changes how programs are loaded is refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from keyferry._core.gotext import quote
from keyferry._core.json import loads
from keyferry._core.user_info import hide_in_url
from keyferry._core.values import Value, field, replace
from keyferry._net.url import parse_url
from keyferry.api.clientauthentication.v1 import ClusterInfo
from keyferry.api.clusterinventory.v1alpha1 import ClusterProfile, PluginProvider, PluginProviders
from keyferry.api.kubeconfig.v1 import Cluster, ExecConfig, ExecEnvVar
from keyferry.clusters.kubeconfig.resolve import EXEC_EXTENSION, ClientConfig
from keyferry.clusters.kubeconfig.validate import PROXY_SCHEMES
from keyferry.errors import ConfigError, PolicyError, Problem
from keyferry.invoke.executable import is_loader_variable

ARGS_EXTENSION = "clusterprofiles.multicluster.x-k8s.io/exec/additional-args"
ENV_EXTENSION = "clusterprofiles.multicluster.x-k8s.io/exec/additional-envs"
IGNORE = "Ignore"
APPEND = "Append"
APPEND_IF_NOT_EXISTS = "AppendIfNotExists"
REPLACE = "Replace"
# The policies of a provider, by the fields that have them; an empty one is that of IGNORE.
ARGS_POLICY, ENV_POLICY = "profileSourcedCLIArgsPolicy", "profileSourcedEnvVarsPolicy"
POLICIES = {ARGS_POLICY: (APPEND, IGNORE), ENV_POLICY: (APPEND_IF_NOT_EXISTS, REPLACE, IGNORE)}
_NEVER = "Never"
# The file that an interactive shell reads first, and some Korn shells always. In files of one's own it is the name
# of a stage more often, so it is not among the variables that lint reports.
_SHELL_START = "ENV"
_UNUSED = "only server, certificate-authority-data and proxy-url of a profile are used"


class IgnoredSetting(Value):
    """A setting of a profile that has no effect, and why."""

    name: str
    why: str


class ProfileChoice(Value):
    """The provider that serves a profile, and what came of what the profile has for its plugin.

    *passed_over* are the providers of the file before it, which the profile does not have. *listed_in* is the list of
    the profile that has it. Of the profile's variables, those that the file has too are *replaced*, or *kept* as the
    file has them.
    """

    profile: str
    provider: str
    listed_in: str
    passed_over: tuple[str, ...] = ()
    added_args: tuple[str, ...] = field(default=(), repr=False)
    added_variables: tuple[str, ...] = ()
    replaced_variables: tuple[str, ...] = ()
    kept_variables: tuple[str, ...] = ()
    ignored: tuple[IgnoredSetting, ...] = ()


class ResolvedProfile(Value):
    """The client configuration for a profile, and how it was chosen."""

    config: ClientConfig
    choice: ProfileChoice


class RefusedProfile(Value):
    """A profile that cannot be used with the providers of *file*, and the *error* that tells why.

    *provider* is the first of the file that the profile has, empty if there is none; *passed_over* are those before it.
    """

    profile: str
    file: str
    error: ConfigError | PolicyError
    provider: str = ""
    passed_over: tuple[str, ...] = ()


def resolve_profile(
    profile: ClusterProfile,
    known: PluginProviders,
    *,
    file: str = "",
    allow_loader_variables: bool = False,
) -> ResolvedProfile:
    """Return the client configuration for *profile*, with the first provider of *file* that it has.

    Raises ConfigError, and PolicyError for a variable that changes how programs are loaded.
    """
    passed_over: list[str] = []
    for provider in known.providers:
        cluster, where = _find_access(profile, provider.name)
        if cluster is None:
            passed_over.append(provider.name)
            continue
        name = profile.metadata.name
        choice = ProfileChoice(
            profile=name, provider=provider.name, listed_in=where, passed_over=tuple(passed_over)
        )
        plugin, choice = _make_plugin(
            provider, cluster, choice, file, allow_loader_variables=allow_loader_variables
        )
        return ResolvedProfile(config=_make_config(name, provider, cluster, plugin, file), choice=choice)
    raise _no_provider(profile, passed_over, file)


def refused_profile(
    profile: ClusterProfile, known: PluginProviders, file: str, error: ConfigError | PolicyError
) -> RefusedProfile:
    """Return what led to the *error* of ``resolve_profile``."""
    names = [each.name for each in known.providers]
    at = next((at for at, name in enumerate(names) if _find_access(profile, name)[0] is not None), len(names))
    return RefusedProfile(
        profile=profile.metadata.name,
        file=file,
        error=error,
        provider=names[at] if at < len(names) else "",
        passed_over=tuple(names[:at]),
    )


def _find_access(profile: ClusterProfile, name: str) -> tuple[Cluster | None, str]:
    """Return the cluster that the profile has for the provider *name*, and the list that has it."""
    status = profile.status
    lists = {"accessProviders": status.access_providers, "credentialProviders": status.credential_providers}
    for where, listed in lists.items():
        for each in listed:
            if each.name == name:
                return each.cluster, where
    return None, ""


def _no_provider(profile: ClusterProfile, listed: Sequence[str], file: str) -> ConfigError:
    name, status = profile.metadata.name, profile.status
    has = [each.name for each in (*status.access_providers, *status.credential_providers)]
    return _problem(
        file,
        f"no provider of this file is one of the ClusterProfile {name!r}: it has {_names(has)}, "
        f"the file has {_names(listed)}",
        f"no matching cluster accessor found for cluster profile {quote(name)}",
    )


def _make_config(
    name: str, provider: PluginProvider, cluster: Cluster, plugin: ExecConfig, file: str
) -> ClientConfig:
    url = parse_url(cluster.server)
    if url is None or url.scheme != "https" or not url.host:
        found = hide_in_url(cluster.server)
        raise _problem("", f"the server of the ClusterProfile {name!r} is {found!r}, expected https://")
    proxy = parse_url(cluster.proxy_url) if cluster.proxy_url else None
    if cluster.proxy_url and (proxy is None or proxy.scheme not in PROXY_SCHEMES):
        found, expected = hide_in_url(cluster.proxy_url), ", ".join(PROXY_SCHEMES)
        raise _problem(
            "", f"the proxy-url of the ClusterProfile {name!r} is {found!r}, expected a URL of {expected}"
        )
    extension = cluster.extensions.get(EXEC_EXTENSION, "null")
    return ClientConfig(
        server=cluster.server,
        ca_data=cluster.certificate_authority_data,
        proxy_url=str(proxy or ""),
        uses_environment_proxy=False,
        exec=plugin,
        exec_cluster=ClusterInfo(
            server=cluster.server,
            certificate_authority_data=cluster.certificate_authority_data,
            proxy_url=str(proxy or ""),
            config=None if extension == "null" else extension,
        ),
        cluster_name=name,
        user_name=provider.name,
        user_origin=file,
    )


def _make_plugin(
    provider: PluginProvider,
    cluster: Cluster,
    choice: ProfileChoice,
    file: str,
    *,
    allow_loader_variables: bool,
) -> tuple[ExecConfig, ProfileChoice]:
    """Return a copy of the provider's plugin with what its policies let the profile add, and what that is."""
    plugin = provider.exec_config
    if plugin is None:
        raise _problem(
            file,
            f"the provider {provider.name!r} has no execConfig",
            f"no exec config found for provider {quote(provider.name)}",
        )
    args = _added_args(provider, cluster, file)
    env = _added_variables(provider, cluster, file)
    refused = [name for name in env if name == _SHELL_START or is_loader_variable(name)]
    if refused and not allow_loader_variables:
        raise PolicyError(
            f"the ClusterProfile sets the variable {refused[0]!r} of the provider {provider.name!r}, which changes how "
            "programs are loaded; leave it out, or pass --allow-loader-variables (allow_loader_variables=True in "
            "Python)"
        )
    own = {each.name: each.value for each in plugin.env}
    replaces = provider.env_policy == REPLACE
    # With AppendIfNotExists the file's value wins.
    merged = own | env if replaces else env | own
    added = tuple(name for name in env if name not in own)
    common = tuple(name for name in env if name in own)
    made = replace(
        plugin,
        args=(*(plugin.args or ()), *args) or None,
        env=tuple(ExecEnvVar(name=name, value=merged[name]) for name in (*own, *added)),
        interactive_mode=_NEVER,
    )
    return made, replace(
        choice,
        added_args=tuple(args),
        added_variables=added,
        replaced_variables=common if replaces else (),
        kept_variables=() if replaces else common,
        ignored=tuple(_ignored_settings(provider, cluster, plugin)),
    )


def _added_args(provider: PluginProvider, cluster: Cluster, file: str) -> Sequence[str]:
    value = _extension(cluster, ARGS_EXTENSION)
    if value is None or _is_ignored(provider, ARGS_POLICY, provider.args_policy, file):
        return ()
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        raise _problem(file, f"the extension {ARGS_EXTENSION!r} of the profile is no list of strings")
    if any("\0" in each for each in value):
        raise _problem(file, f"the extension {ARGS_EXTENSION!r} of the profile has an argument with a NUL")
    return value


def _added_variables(provider: PluginProvider, cluster: Cluster, file: str) -> dict[str, str]:
    value = _extension(cluster, ENV_EXTENSION)
    if value is None or _is_ignored(provider, ENV_POLICY, provider.env_policy, file):
        return {}
    if not isinstance(value, dict) or not all(isinstance(each, str) for each in value.values()):
        raise _problem(file, f"the extension {ENV_EXTENSION!r} of the profile is no object of strings")
    # "LD_PRELOAD=/x:" would set another variable than its name says.
    wrong = [name for name in value if not name or "=" in name or "\0" in name + value[name]]
    if wrong:
        raise _problem(
            file,
            f"the extension {ENV_EXTENSION!r} of the profile has the variable {wrong[0].partition('=')[0]!r}, whose "
            "name is empty or has a '=', or which has a NUL",
        )
    return value


def _is_ignored(provider: PluginProvider, policy: str, found: str, file: str) -> bool:
    """Return whether the provider ignores an extension that is there; raise ConfigError for an unknown policy."""
    if found in ("", IGNORE):
        return True
    if found not in POLICIES[policy]:
        expected = ", ".join(map(repr, POLICIES[policy]))
        raise _problem(
            file,
            f"the provider {provider.name!r} has the {policy} {found!r}, expected {expected}",
            f"unsupported {policy[0].upper()}{policy[1:]}: {quote(found)}",
        )
    return False


def _ignored_settings(
    provider: PluginProvider, cluster: Cluster, plugin: ExecConfig
) -> Iterator[IgnoredSetting]:
    """Yield what the profile has, and what has no effect."""
    for name, policy, found in (
        (ARGS_EXTENSION, ARGS_POLICY, provider.args_policy),
        (ENV_EXTENSION, ENV_POLICY, provider.env_policy),
    ):
        if _extension(cluster, name) is not None and found in ("", IGNORE):
            yield IgnoredSetting(name=name, why=f"the {policy} of the provider is {IGNORE}")
    if _extension(cluster, EXEC_EXTENSION) is not None and not plugin.provide_cluster_info:
        yield IgnoredSetting(
            name=EXEC_EXTENSION, why="the execConfig of the provider has no provideClusterInfo"
        )
    written = {
        "tls-server-name": cluster.tls_server_name,
        "insecure-skip-tls-verify": cluster.insecure_skip_tls_verify,
        "certificate-authority": cluster.certificate_authority,
    }
    for name in filter(written.get, written):
        yield IgnoredSetting(name=name, why=_UNUSED)


def _extension(cluster: Cluster, name: str) -> object:
    return loads(cluster.extensions.get(name, "null"))


def _problem(file: str, message: str, kubernetes_text: str = "") -> ConfigError:
    return ConfigError((Problem("", message, file=file, kubernetes_text=kubernetes_text),))


def _names(names: Sequence[str]) -> str:
    return ", ".join(map(repr, dict.fromkeys(names))) or "none"
