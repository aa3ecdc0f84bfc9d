"""Loading of providers from a config on disk, with all checks that a kubelet makes when it starts."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping

from keyferry._core.clock import check_timeout, monotonic_ns
from keyferry._core.host_root import check_chroot, host_root
from keyferry._core.log import log_debug
from keyferry._core.values import Value, field
from keyferry.api.kubeletconfig.v1 import CredentialProvider
from keyferry.errors import ConfigError, Problem, ServiceAccountError
from keyferry.images.answer import LookupInput, MissingInput, Provision, ProvisionOutcome
from keyferry.images.config.contents import config_hash
from keyferry.images.config.read import ReadConfig, read_config
from keyferry.images.config.refusals import LoadStage, Refusals, find_refusals
from keyferry.images.config.validate import plugin_path
from keyferry.images.lookup import Providers
from keyferry.images.match import Pattern
from keyferry.images.node.discover import discover
from keyferry.images.provider.accounts import NotApplicable, NotGivenError, Pod, ServiceAccounts, identify
from keyferry.images.provider.agent import AgentSource, AgentUse, check_agent, choose_agent
from keyferry.images.provider.cache import CacheEntry, CacheLimits
from keyferry.images.provider.plugin import ExecPlugin, encode_environment
from keyferry.images.provider.provider import Provider, unrun_provision
from keyferry.invoke.run import Limits

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TypeVar

    P = TypeVar("P", bound=Providers)

_CONFIG_ADVICE = "set KEYFERRY_CONFIG and KEYFERRY_BIN_DIR, or call load_providers(config, bin_dir)"
_BIN_DIR_ADVICE = "set KEYFERRY_BIN_DIR, or call load_providers(config, bin_dir)"
_OWN_ENVIRONMENT = "the environment of the plugins is given, and the agent's plugins have its own"


class ProviderSettings(Value):
    """The settings of lookups and plugin runs; see ``load_providers``.

    *listen* receives the standard error of every run, and returns what messages may quote of it.
    """

    service_accounts: ServiceAccounts | None = None
    service_account_tokens: bool = True
    docker_config: str | None = None
    timeout_seconds: float = 60.0
    withhold_env: frozenset[str] = frozenset()
    environ: Mapping[str, str] | None = field(default=None, repr=False)
    coalesce: bool = True
    clock: Callable[[], int] = monotonic_ns
    cache_limits: CacheLimits = CacheLimits()
    on_cached: Callable[[Provider, CacheEntry], None] | None = None
    listen: Callable[[bytes], bytes] | None = None
    agent: AgentUse | None = None


def load_providers(
    config: str | os.PathLike[str] | None = None,
    bin_dir: str | os.PathLike[str] | None = None,
    *,
    service_accounts: ServiceAccounts | None = None,
    service_account_tokens: bool = True,
    docker_config: str | os.PathLike[str] | None = None,
    timeout_seconds: float = 60.0,
    withhold_env: Iterable[str] = (),
    environ: Mapping[str, str] | None = None,
    coalesce: bool = True,
    clock: Callable[[], int] = monotonic_ns,
    agent: str = "off",
) -> Providers:
    """Load the provider config in a file or a directory, and return its providers.

    If *config* or *bin_dir* is not given, it is searched as by the command line: in
    KEYFERRY_CONFIG and KEYFERRY_BIN_DIR, then in the places that this node uses. Raise
    ConfigError, with all problems, for a config that would stop a kubelet,
    EnvironmentProblem if no config is found, and ValueError if *timeout_seconds* is not positive or *agent* is none
    of its values.

    *service_accounts* supplies accounts and tokens to providers with ``tokenAttributes``;
    *service_account_tokens* is the feature gate for them. *environ* is the environment
    of plugins, by default that of this process; *withhold_env* names variables that are
    removed from it. If *coalesce* is false, images of one registry never share a run.

    *agent* is ``off``, ``auto``, or the path of a node agent's socket. The agent is asked before a plugin is run, and
    only what it has for the same config and bin dir counts; the reasons of an answer tell where it is from. ``auto`` is
    KEYFERRY_AGENT, else the usual place; EnvironmentProblem is raised if that variable names neither a socket nor
    ``off`` nor ``auto``. The agent is not asked if *environ* or *withhold_env* is given.
    """
    check_timeout(timeout_seconds)
    check_agent(agent)
    found = discover(_path(config), _path(bin_dir), advice=_CONFIG_ADVICE, bin_dir_advice=_BIN_DIR_ADVICE)
    settings = ProviderSettings(
        service_accounts=service_accounts,
        service_account_tokens=service_account_tokens,
        docker_config=_path(docker_config),
        timeout_seconds=timeout_seconds,
        withhold_env=frozenset(withhold_env),
        environ=environ,
        coalesce=coalesce,
        clock=clock,
        agent=choose_agent(agent, why_not=_OWN_ENVIRONMENT if environ is not None or withhold_env else ""),
    )
    return make_providers(found.config, found.bin_dir, settings)


def make_providers(
    config: str, bin_dir: str, settings: ProviderSettings, previous: Iterable[Provider] = ()
) -> Providers:
    """Return the providers of a config whose paths are known; see ``load_providers``.

    A provider of *previous* whose config and plugin have not changed is used again, with its cache.
    """
    return make_providers_of(Providers, config, bin_dir, settings, previous)


def make_providers_of(
    kind: type[P],
    config: str,
    bin_dir: str,
    settings: ProviderSettings,
    previous: Iterable[Provider] = (),
) -> P:
    """Return what ``make_providers`` returns, as *kind*."""
    read = check_config(config, bin_dir, service_account_tokens=settings.service_account_tokens)
    return _assemble(kind, read, config, bin_dir, settings, previous=previous)


def make_running_providers(
    config: str, bin_dir: str, settings: ProviderSettings
) -> tuple[Providers, tuple[Problem, ...]]:
    """Return the providers of a kubelet that runs, and the problems with executables that would stop a new start.

    A running kubelet looks at an executable only when it runs it, so one that is missing fails for its own images.
    Raise ConfigError for all other problems that would stop a kubelet.
    """
    read = read_config(config)
    found = find_refusals(read, bin_dir, service_account_tokens=settings.service_account_tokens)
    stages = [stage for stage in found if stage.problems]
    if any(stage.stage is not LoadStage.REGISTER for stage in stages):
        raise _refusal(stages)
    return _assemble(Providers, read, config, bin_dir, settings), tuple(
        each for stage in stages for each in stage.problems
    )


def _assemble(
    kind: type[P],
    read: ReadConfig,
    config: str,
    bin_dir: str,
    settings: ProviderSettings,
    *,
    previous: Iterable[Provider] = (),
) -> P:
    """Return the providers of a config that has been checked; raise EnvironmentProblem if plugins cannot be run."""
    check_chroot()
    # An absolute path, so that a later change of the working directory does not change which plugins run.
    plugins = os.path.abspath(bin_dir)
    limits = Limits(timeout_seconds=settings.timeout_seconds)
    environment = None if settings.environ is None else encode_environment(settings.environ)
    kept = {provider.name: provider for provider in previous}
    contents = tuple(file.data for file in read.files)
    agent = None if settings.agent is None else _agent_source(settings, contents, plugins)
    providers = []
    for entry in read.providers:
        plugin = exec_plugin(
            entry, plugins, limits, settings.withhold_env, environment, listen=settings.listen
        )
        before = kept.get(entry.name)
        if before is not None and before.config == entry and before.plugin == plugin:
            providers.append(before)
            continue
        providers.append(_make_provider(entry, plugin, settings, agent))
    names = ", ".join(provider.name for provider in providers)
    log_debug("images", "the config %s has the providers %s", config, names or "(none)")
    # The check has raised for patterns that do not parse.
    patterns = [[each for each in found if isinstance(each, Pattern)] for found in read.patterns]
    return kind(
        providers,
        config_hash=lambda: config_hash(contents),
        docker_config=settings.docker_config,
        clock=settings.clock,
        patterns=patterns,
    )


class UnrunProvider(Provider):
    """A provider that is never run; it is skipped for the pods that it does not apply to, as in the kubelet."""

    def provide(
        self,
        image: str,  # noqa: ARG002 - the answer is unknown for every image
        pod: Pod | None = None,
        timeout_seconds: float | None = None,  # noqa: ARG002 - nothing takes time
        *,
        waited_seconds: float = 0.0,  # noqa: ARG002 - as above
    ) -> Provision:
        """Return an unknown answer that names the plugin as missing, and the other inputs that it would need."""
        missing: tuple[MissingInput, ...] = ()
        try:
            identify(self.config.token_attributes, self._accounts, pod)
        except NotGivenError as not_given:
            missing = tuple(each for each in not_given.missing if each.input is LookupInput.POD)
        except (NotApplicable, ServiceAccountError) as why:
            return unrun_provision(self.name, why, pod)
        plugin = MissingInput(input=LookupInput.PLUGIN, name=self.name)
        return Provision(provider=self.name, outcome=ProvisionOutcome.UNKNOWN, missing=(*missing, plugin))

    def recall(self, image: str, pod: Pod | None = None) -> Provision:
        """Return what ``provide`` returns."""
        return self.provide(image, pod)


def make_unrun_providers(
    config: str, bin_dir: str | None, settings: ProviderSettings
) -> tuple[Providers, tuple[Problem, ...]]:
    """Return providers whose plugins are not run, and the problems that would stop a kubelet.

    Without *bin_dir*, plugins are not checked. Raise ConfigError if no provider can be read from the config.
    """
    read = read_config(config)
    found = find_refusals(read, bin_dir, service_account_tokens=settings.service_account_tokens)
    problems = dict.fromkeys(problem for stage in found for problem in stage.problems)
    if problems and not read.providers:
        raise ConfigError(tuple(sorted(problems, key=lambda each: each.place)), read.kubernetes_text)
    providers = [
        UnrunProvider(entry, exec_plugin(entry, bin_dir or ""), accounts=settings.service_accounts)
        for entry in read.providers
    ]
    patterns = [[each for each in found if isinstance(each, Pattern)] for found in read.patterns]
    whole = Providers(providers, docker_config=settings.docker_config, patterns=patterns)
    return whole, tuple(sorted(problems, key=lambda each: each.place))


def _agent_source(settings: ProviderSettings, contents: tuple[bytes, ...], bin_dir: str) -> AgentSource:
    assert settings.agent is not None  # noqa: S101 - the caller has checked it
    return AgentSource(
        settings.agent,
        lambda: config_hash(contents),
        bin_dir,
        clock=settings.clock,
        timeout_seconds=settings.timeout_seconds,
    )


def _make_provider(
    entry: CredentialProvider, plugin: ExecPlugin, settings: ProviderSettings, agent: AgentSource | None
) -> Provider:
    return Provider(
        entry,
        plugin,
        accounts=settings.service_accounts,
        clock=settings.clock,
        coalesce=settings.coalesce,
        timeout_seconds=settings.timeout_seconds,
        cache_limits=settings.cache_limits,
        on_cached=settings.on_cached,
        agent=agent,
    )


def check_config(config: str, bin_dir: str | None, *, service_account_tokens: bool = True) -> ReadConfig:
    """Read a config and make all checks that a kubelet makes when it starts.

    Raise ConfigError with all problems that would stop a kubelet, in the order of the files; lint reports the
    same problems as errors. Without *bin_dir*, plugins are not checked.
    """
    read = read_config(config)
    found = find_refusals(read, bin_dir, service_account_tokens=service_account_tokens)
    stages = [stage for stage in found if stage.problems]
    if stages:
        raise _refusal(stages)
    return read


def _refusal(stages: list[Refusals]) -> ConfigError:
    problems = dict.fromkeys(problem for stage in stages for problem in stage.problems)
    return ConfigError(tuple(sorted(problems, key=lambda each: each.place)), stages[0].kubernetes_text)


def exec_plugin(
    provider: CredentialProvider,
    bin_dir: str,
    limits: Limits = Limits(),
    withhold: frozenset[str] = frozenset(),
    environ: Mapping[bytes, bytes] | None = None,
    *,
    listen: Callable[[bytes], bytes] | None = None,
) -> ExecPlugin:
    """Return the executable of a configured provider."""
    return ExecPlugin(
        name=provider.name,
        path=plugin_path(bin_dir, provider.name),
        api_version=provider.api_version,
        args=provider.args or (),
        env=tuple((variable.name, variable.value) for variable in provider.env or ()),
        withhold=withhold,
        limits=limits,
        environ=environ,
        listen=listen,
        root=host_root(),
    )


def _path(path: str | os.PathLike[str] | None) -> str | None:
    return None if path is None else os.fspath(path)
