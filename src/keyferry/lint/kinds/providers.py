"""Lint a provider config: report what stops a kubelet, and what is valid but probably not intended.

The kubelet's rules are not repeated here: the code that uses provider configs reads and validates the file, and its
refusals have codes. The patterns of a provider have a module of their own.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType

from keyferry._core.documents import Document, DocumentFormat
from keyferry._core.gotext import quote
from keyferry._core.host_root import host_root, is_on_host, on_host
from keyferry._core.paths import Path, format_path
from keyferry._core.severity import Severity
from keyferry._core.values import Value
from keyferry.api.credentialprovider.v1 import API_VERSION as PROVIDER_V1
from keyferry.api.kubeletconfig import v1
from keyferry.api.kubeletconfig.v1 import CredentialProvider, ExecEnvVar
from keyferry.api.meta import format_duration
from keyferry.errors import Kind, Problem
from keyferry.images.config.read import CONFIG_KIND, ConfigFile, ReadConfig, read_config
from keyferry.images.config.refusals import Causes, LoadStage, Refusals, find_refusals
from keyferry.images.config.validate import PROVIDER_API_VERSIONS, plugin_path
from keyferry.invoke.executable import is_loader_variable
from keyferry.invoke.shim import BEHIND, LINK, plugin_behind
from keyferry.lint.code import Code, Finding, Rules, finding_of, in_order
from keyferry.lint.kinds.patterns import check_patterns, find_shared_patterns
from keyferry.lint.report import LintReport
from keyferry.lint.secrets import looks_secret, refers_to_variable, secret_arguments
from keyferry.lint.source import SourceFile, find_later_document, who_writes
from keyferry.lint.versions import LATEST, Features, rules_for

TYPE_CHECKING = False
if TYPE_CHECKING:
    from keyferry.lint.kinds.federation import FederationFile

_NO_GATES: Mapping[str, bool] = MappingProxyType({})
_EXTENSIONS = (".json", ".yaml", ".yml")
_WINDOWS = ".exe"
_LONG_NS = 12 * 3600 * 10**9


class _Installed(Value):
    """A config, and the directory of its plugins, if they are checked too."""

    config: ReadConfig
    bin_dir: str | None


config_rule = Rules[_Installed]()
file_rule = Rules[ConfigFile]()
provider_rule = Rules[CredentialProvider]()


def lint(
    path: str,
    *,
    data: bytes | None = None,
    bin_dir: str | None = None,
    kubernetes: str = LATEST,
    gates: Mapping[str, bool] = _NO_GATES,
    beside: tuple[FederationFile, ...] = (),
    read_data: Callable[[bytes], Document] | None = None,
) -> LintReport:
    """Return all problems of the config at *path*, a file or a directory.

    *data* and *read_data* are as in ``read_config``. With *bin_dir*, the plugins are checked too. *gates* are feature
    gates of the kubelet that differ from the defaults of its version. *beside* are federation configs of its
    providers. Raise ValueError for an unknown version of Kubernetes.
    """
    features = rules_for(kubernetes, gates)
    config = read_config(path, data, read_data)
    stages = tuple(_refusals(config, bin_dir, features))
    refusals = [problem for stage in stages for problem in stage.problems]
    causes = Causes(refusals)
    found = [each for each in _suspicions(config, bin_dir, beside) if not causes.account_for(each)]
    return LintReport(
        path=path,
        kubernetes=features.version,
        bin_dir=bin_dir,
        files=tuple(file.path for file in config.files),
        providers=len(config.providers),
        findings=in_order((*map(finding_of, refusals), *found)),
        kubernetes_text=next((stage.kubernetes_text for stage in stages if stage.problems), ""),
        sources=tuple(
            SourceFile(path=file.path, data=file.data, document=file.document) for file in config.files
        ),
    )


def _suspicions(
    config: ReadConfig, bin_dir: str | None, beside: tuple[FederationFile, ...]
) -> Iterator[Finding]:
    yield from config_rule.check(_Installed(config=config, bin_dir=bin_dir))
    for file in config.files:
        yield from file_rule.check(file)
    for number, provider in enumerate(config.providers):
        for finding in (*provider_rule.check(provider), *check_patterns(provider)):
            # keyferry-federate always sets the duration.
            if finding.code != KF176.code or not _is_federate(provider, beside):
                yield _placed(config, number, finding)
    found = list(find_shared_patterns(config.providers))
    if any(_is_federate(provider, beside) for provider in config.providers):
        from keyferry.lint.kinds.federation_providers import check_federations

        found += check_federations(config.providers, beside)
    for number, finding in found:
        yield _placed(config, number, finding)


def _is_federate(provider: CredentialProvider, beside: tuple[FederationFile, ...]) -> bool:
    """Return whether a provider runs ``keyferry-federate``, whose rules are loaded only for those that may."""
    if not provider.args and not provider.env and not provider.name.startswith("keyferry-federate"):
        return False
    from keyferry.lint.kinds.federation_providers import is_federate

    return is_federate(provider, beside)


def _placed(config: ReadConfig, number: int, finding: Finding) -> Finding:
    location = config.locations[number]
    return finding.placed(location.file.path, location.file.document, ("providers", location.index))


# What stops a kubelet.

KF101 = Code(
    "KF101",
    Severity.ERROR,
    "the config cannot be read",
    why="the kubelet exits at startup if the config is missing or cannot be read",
    fix="check the path and the permissions",
)
KF102 = Code(
    "KF102",
    Severity.ERROR,
    "the config directory has no config file",
    why=(
        "in a directory only names ending in .json, .yaml or .yml are read, in lower case and not recursively"
    ),
    fix="add a config file, or rename the file",
)
KF103 = Code(
    "KF103",
    Severity.ERROR,
    "the file is not valid YAML or JSON",
    why=(
        "a file that begins with "
        "'{' must be JSON, without comments and trailing commas; any other file is YAML 1.1"
    ),
    fix="correct the syntax at the given position",
)
KF104 = Code(
    "KF104",
    Severity.ERROR,
    "apiVersion or kind is missing",
    why="without them the kubelet does not know the type of the file",
    fix="begin with 'apiVersion: kubelet.config.k8s.io/v1' and 'kind: CredentialProviderConfig'",
)
KF105 = Code(
    "KF105",
    Severity.ERROR,
    "apiVersion and kind are unknown to the kubelet",
    why="only a CredentialProviderConfig of kubelet.config.k8s.io v1, v1beta1 or v1alpha1 is read",
    fix="correct apiVersion and kind, or use another file",
)
KF106 = Code(
    "KF106",
    Severity.ERROR,
    "the file has another kind",
    why="the kubelet knows this kind, but it is not a provider config",
    fix="use a file whose kind is CredentialProviderConfig",
)
KF107 = Code(
    "KF107",
    Severity.ERROR,
    "unknown field",
    why="decoding is strict: a misspelled field, or one in the wrong case or place, is refused",
    fix="correct the spelling or remove the field",
    of_name=True,
)
KF108 = Code(
    "KF108",
    Severity.ERROR,
    "a key is given more than once",
    why="decoding is strict, and also refuses a YAML merge ('<<') whose keys are overridden",
    fix="keep one of them",
    of_name=True,
)
KF109 = Code(
    "KF109",
    Severity.ERROR,
    "a value has the wrong type",
    why="unquoted yes, no, on, off, numbers and dates are not strings in YAML",
    fix="put quotes around the value, or use the expected type",
)
KF110 = Code(
    "KF110",
    Severity.ERROR,
    "a value is not a duration",
    why="a duration is a number and a unit, ns, us, ms, s, m or h, such as '1h30m'; there is no unit for days",
    fix="use for example '12h' instead of '1d' or 43200",
)
KF111 = Code(
    "KF111",
    Severity.ERROR,
    "two providers have the same name",
    why="a name is the file name of a plugin and may be used only once in all files of a directory",
    fix="merge the two entries, or link the plugin under a second name",
)
KF112 = Code(
    "KF112",
    Severity.ERROR,
    "the config is a directory",
    why="a config directory is supported since Kubernetes 1.34",
    fix="use one file, or use Kubernetes 1.34 or later",
    kubernetes="before 1.34",
)
KF120 = Code(
    "KF120",
    Severity.ERROR,
    "no provider is configured",
    why="an empty config is refused",
    fix="add a provider, or remove the config and bin dir flags of the kubelet",
)
KF121 = Code(
    "KF121",
    Severity.ERROR,
    "a provider name is not a file name",
    why="the name is appended to the bin dir; '/', spaces, '.' and '..' are refused",
    fix="use the file name of the plugin",
)
KF122 = Code(
    "KF122",
    Severity.ERROR,
    "the provider's apiVersion is missing or unknown",
    why="it is the version of the protocol that the plugin uses, not the config's own apiVersion",
    fix="set 'apiVersion: credentialprovider.kubelet.k8s.io/v1'",
)
KF123 = Code(
    "KF123",
    Severity.ERROR,
    "matchImages is missing or empty",
    why="a provider without patterns is never used",
    fix="list at least one pattern",
)
KF124 = Code(
    "KF124",
    Severity.ERROR,
    "a pattern cannot be parsed",
    why=(
        "patterns are parsed as URLs without a scheme; character classes, wildcards in "
        "ports, spaces and several other characters are not valid"
    ),
    fix="use host, host:port or host/path, with * for any part of one host label",
)
KF125 = Code(
    "KF125",
    Severity.ERROR,
    "defaultCacheDuration is missing",
    why="there is no default",
    fix="add for example 'defaultCacheDuration: 10m'",
)
KF126 = Code(
    "KF126",
    Severity.ERROR,
    "defaultCacheDuration is negative",
    why="the duration must be zero or more",
    fix="set '0s' to turn caching off",
)
KF130 = Code(
    "KF130",
    Severity.ERROR,
    "tokenAttributes requires a feature gate that is off",
    why="service account tokens for plugins require KubeletServiceAccountTokenForCredentialProviders",
    fix="turn the gate on (--feature-gates here and on the kubelet), or remove tokenAttributes",
    kubernetes="since 1.33; the gate is off by default in 1.33",
)
KF131 = Code(
    "KF131",
    Severity.ERROR,
    "the audience of the service account token is missing",
    why="a token is issued for one audience",
    fix="set serviceAccountTokenAudience to the audience that the registry's token service expects",
    kubernetes="since 1.33",
)
KF132 = Code(
    "KF132",
    Severity.ERROR,
    "requireServiceAccount is missing",
    why="it has no default; with true, pods without a service account get no credentials",
    fix="set true or false",
    kubernetes="since 1.33",
)
KF133 = Code(
    "KF133",
    Severity.ERROR,
    "tokenAttributes requires protocol v1",
    why="requests of older versions have no field for a token",
    fix="set the provider's apiVersion to credentialprovider.kubelet.k8s.io/v1",
    kubernetes="since 1.33",
)
KF134 = Code(
    "KF134",
    Severity.ERROR,
    "annotations are required, but no service account is",
    why="without a service account there are no annotations",
    fix="set requireServiceAccount to true, or make the annotations optional",
    kubernetes="since 1.33",
)
KF135 = Code(
    "KF135",
    Severity.ERROR,
    "an annotation key is not valid, or listed twice",
    why="keys are qualified names such as example.com/name",
    fix="correct or remove the key",
    kubernetes="since 1.33",
)
KF136 = Code(
    "KF136",
    Severity.ERROR,
    "an annotation is both required and optional",
    why="a key can be in one of the lists only",
    fix="remove it from one of the lists",
    kubernetes="since 1.33",
)
KF137 = Code(
    "KF137",
    Severity.ERROR,
    "cacheType is missing or unknown",
    why="it sets whether credentials are cached for a service account or for one of its tokens",
    fix="set ServiceAccount or Token; Token is the safe choice",
    kubernetes="since 1.34",
)
KF138 = Code(
    "KF138",
    Severity.ERROR,
    "this Kubernetes version does not support a field",
    why="tokenAttributes exists since 1.33, its cacheType since 1.34; before that they are unknown fields",
    fix="remove the field for these nodes, or upgrade them first",
    kubernetes="before 1.34",
)
KF140 = Code(
    "KF140",
    Severity.ERROR,
    "the bin dir is missing or cannot be read",
    why="the kubelet checks the bin dir before it reads the config, and exits",
    fix="create it, or correct --image-credential-provider-bin-dir",
    on_this_machine=True,
)
KF141 = Code(
    "KF141",
    Severity.ERROR,
    "a plugin's executable is missing",
    why="the kubelet exits at startup if one is missing",
    fix="install the plugin in the bin dir under the provider's name",
    on_this_machine=True,
)
KF142 = Code(
    "KF142",
    Severity.ERROR,
    "a plugin cannot be executed",
    why="the kubelet exits at startup if a plugin is a directory or has no execute permission",
    fix="run chmod +x on the plugin",
    on_this_machine=True,
)


def _refusals(config: ReadConfig, bin_dir: str | None, features: Features) -> Iterator[Refusals]:
    """Yield what stops a kubelet of one version: the latest rules, and the fields that it does not know yet."""
    stages = find_refusals(
        config,
        bin_dir,
        service_account_tokens=features.gate,
        is_checked=lambda problem: _is_checked(problem, features),
    )
    for stage in stages:
        is_reading = stage.stage is LoadStage.READ
        if is_reading and not features.directory and is_on_host(config.path, os.path.isdir):
            refused = _refuse_directory(config.path, features)
            yield Refusals(stage=LoadStage.READ, problems=(refused,), kubernetes_text=refused.kubernetes_text)
        yield stage
        if is_reading:
            newer = tuple(_newer_fields(config, features))
            yield Refusals(stage=LoadStage.READ, problems=newer, kubernetes_text=_strict_text(newer))


def _is_checked(problem: Problem, features: Features) -> bool:
    """Return whether a version makes the check that found *problem*."""
    if problem.code == KF137.code:
        return features.cache_type
    return features.token_attributes or not problem.code.startswith("KF13")


def _refuse_directory(path: str, features: Features) -> Problem:
    """Return the refusal of a config directory by a kubelet that reads only single files."""
    message = (
        f"the config is a directory, which Kubernetes {features.version} does not support; "
        "use one file (directories are supported since 1.34)"
    )
    place = f"{quote(path)}: read {path}: is a directory"
    text = f"unable to read external registry credential provider configuration from {place}"
    return Problem("", message, code=KF112.code, kubernetes_text=text, file=path)


def _newer_fields(config: ReadConfig, features: Features) -> Iterator[Problem]:
    """Yield the fields that a version does not support yet."""
    for location in config.locations:
        for field, is_known, since in (
            (("tokenAttributes",), features.token_attributes, "1.33"),
            (("tokenAttributes", "cacheType"), features.cache_type or not features.token_attributes, "1.34"),
        ):
            at: Path = ("providers", location.index, *field)
            document = location.file.document
            if is_known or document is None or at not in document.positions:
                continue
            path = format_path(at)
            message = (
                f"unknown field in Kubernetes {features.version}: {field[-1]} exists since {since}; remove "
                "it for these nodes"
            )
            text = f'unknown field "{path}"'
            problem = Problem(path, message, code=KF138.code, kubernetes_text=text, kind=Kind.STRICT)
            yield location.problem(field, problem)


def _strict_text(problems: tuple[Problem, ...]) -> str:
    if not problems:
        return ""
    texts = ", ".join(problem.kubernetes_text for problem in problems if problem.file == problems[0].file)
    return f"error decoding config {problems[0].file}: strict decoding error: {texts}"


# One provider.

KF170 = Code(
    "KF170",
    Severity.WARNING,
    "a provider has no name",
    why="validation accepts it, but the kubelet then exits, because the plugin's path is the bin dir itself",
    fix="set the name to the file name of the plugin",
)
KF171 = Code(
    "KF171",
    Severity.WARNING,
    "a provider name has unusual characters",
    why=(
        "the name must be exactly the plugin's file name; such characters are easily mistyped or overlooked"
    ),
    fix="use lower-case letters, digits, '.', '_' and '-'",
)


@provider_rule(KF170, KF171)
def provider_name(provider: CredentialProvider) -> Iterator[Finding]:
    """A name that is hardly the file name of a plugin."""
    if not provider.name:
        message = (
            "the name is empty: validation accepts it, but the kubelet exits when it searches for the plugin"
        )
        yield KF170.at("name", message=f"{message}; set the file name of the plugin")
        return
    for pattern, what in (
        (r"[\x00-\x1f\x7f]", "has a control character, such as a tab or a line break"),
        (r"\\", "has a backslash"),
        (r"^-", "begins with a dash"),
        (r"[^\x00-\x7f]", "has a character outside ASCII, which may look like another one"),
    ):
        if re.search(pattern, provider.name):
            message = f"the name {provider.name!r} {what}; it must be exactly the plugin's file name"
            yield KF171.at("name", message=message)
            return


@config_rule(KF171)
def windows_names(installed: _Installed) -> Iterator[Finding]:
    """Names that end in ``.exe`` beside others that do not: in a config for Windows all of them do."""
    providers = installed.config.providers
    if all(each.name.lower().endswith(_WINDOWS) for each in providers if each.name):
        return
    for number, provider in enumerate(providers):
        if provider.name.lower().endswith(_WINDOWS):
            message = (
                f"the name {provider.name!r} ends in '.exe', which is only used on Windows nodes, and other providers "
                "do not; it must be exactly the plugin's file name"
            )
            yield _placed(installed.config, number, KF171.at("name", message=message))


KF176 = Code(
    "KF176",
    Severity.WARNING,
    "credentials are not cached",
    why="with '0s' the plugin is run for every pull, unless its response sets cacheDuration",
    fix="set for example '10m'",
)
KF177 = Code(
    "KF177",
    Severity.WARNING,
    "credentials are cached for too long",
    why=(
        "registry tokens are rarely valid for more than 12 hours (ECR: 12, others: 1); an expired "
        "one is used until the cache entry expires"
    ),
    fix="set '12h' or less, below the lifetime of the token",
)


@provider_rule(KF176, KF177)
def cache_duration(provider: CredentialProvider) -> Iterator[Finding]:
    """Credentials that are not cached, or for too long."""
    duration = provider.default_cache_duration_ns
    if duration == 0:
        message = (
            "with '0s' the plugin is run for every pull unless its response sets cacheDuration; set "
            "for example '10m'"
        )
        yield KF176.at("defaultCacheDuration", message=message)
    elif duration is not None and duration > _LONG_NS:
        shown = format_duration(duration)
        message = f"{shown!r} is longer than registry tokens are valid (ECR: 12h); set '12h' or less"
        yield KF177.at("defaultCacheDuration", message=message)


KF178 = Code(
    "KF178",
    Severity.INFO,
    "a provider uses an old version of the plugin protocol",
    why="v1 exists since Kubernetes 1.26; older versions have no service account tokens and will be removed",
    fix="set credentialprovider.kubelet.k8s.io/v1 if the plugin supports it",
    kubernetes="v1 since 1.26",
)


@provider_rule(KF178)
def protocol(provider: CredentialProvider) -> Iterator[Finding]:
    """An old version of the plugin protocol."""
    version = provider.api_version
    if version in PROVIDER_API_VERSIONS and version != PROVIDER_V1:
        message = (
            f"{version!r} is outdated since Kubernetes 1.26; set {PROVIDER_V1!r} if the plugin supports it"
        )
        yield KF178.at("apiVersion", message=message)


KF172 = Code(
    "KF172",
    Severity.WARNING,
    "an environment variable cannot be set",
    why="an empty name or one with '=' sets another variable, and with a NUL the plugin cannot be started",
    fix="correct the name or the value",
)
KF173 = Code(
    "KF173",
    Severity.WARNING,
    "an environment variable changes which code runs",
    why="it replaces the kubelet's own value for this plugin, and can load other code into it",
    fix="remove it, or make sure that only root can write to the paths in it",
)
KF174 = Code(
    "KF174",
    Severity.WARNING,
    "an environment variable is set twice",
    why="the last value is used",
    fix="keep one of them",
)
KF175 = Code(
    "KF175",
    Severity.WARNING,
    "the config contains a secret",
    why=(
        "the file is often readable by all users and copied to images and backups, and arguments "
        "are visible in the process list"
    ),
    fix="let the plugin read the secret from a file that only root can read, or use the instance's identity",
)
KF183 = Code(
    "KF183",
    Severity.WARNING,
    "the value of a variable refers to another variable",
    why="the kubelet does not expand ${NAME}, $(NAME) or $NAME: the plugin gets these characters",
    fix="write the value itself, or let the kubelet's own environment have the variable and remove this one",
)


@provider_rule(KF172, KF173, KF174, KF175, KF183)
def environment(provider: CredentialProvider) -> Iterator[Finding]:
    """Variables that cannot be set, contain a secret, or do something else than they seem to."""
    names: dict[str, int] = {}
    for index, variable in enumerate(provider.env or ()):
        yield from _check_variable(index, variable)
        first = names.setdefault(variable.name, index)
        if first != index and variable.name:
            message = f"{variable.name!r} is already set by env[{first}]; the last value is used, so remove the other"
            yield KF174.at("env", index, "name", message=message)


def _check_variable(index: int, variable: ExecEnvVar) -> Iterator[Finding]:
    name, value = variable.name, variable.value
    of_name: Path = ("env", index, "name")
    of_value: Path = ("env", index, "value")
    if not name:
        yield KF172.at(*of_name, message="the variable has no name, so the plugin cannot see it")
    elif "=" in name:
        message = f"{name!r} has a '=' in its name, so the plugin sees {name.partition('=')[0]!r}"
        yield KF172.at(*of_name, message=message)
    elif "\0" in name + value:
        message = f"{name!r} has a NUL character, so the plugin cannot be started"
        yield KF172.at(*of_name, message=message)
    if is_loader_variable(name):
        message = f"{name!r} changes which code the plugin runs, and replaces the kubelet's own value"
        yield KF173.at(*of_name, message=message)
    if looks_secret(name, value):
        message = (
            f"the value of {name!r} looks like a secret; let the plugin read it from a file that only "
            "root can read"
        )
        yield KF175.at(*of_value, message=message)
    if refers_to_variable(value):
        message = f"the value of {name!r} refers to a variable, which the kubelet does not expand"
        yield KF183.at(*of_value, message=f"{message}; write the value itself")


@provider_rule(KF175)
def arguments(provider: CredentialProvider) -> Iterator[Finding]:
    """Arguments that contain a secret."""
    for index, what in secret_arguments(provider.args or ()):
        message = f"{what} looks like a secret, and arguments are visible in the process list; use a file"
        yield KF175.at("args", index, message=message)


# The files of a config.

KF179 = Code(
    "KF179",
    Severity.INFO,
    "the config has an old version",
    why="v1 exists since Kubernetes 1.26; older versions have no tokenAttributes and will be removed",
    fix="set kubelet.config.k8s.io/v1; the fields are the same",
    kubernetes="v1 since 1.26",
)


@file_rule(KF179)
def old_version(file: ConfigFile) -> Iterator[Finding]:
    """An old version of the config itself."""
    value = file.document.value if file.document else None
    if not isinstance(value, dict) or value.get("kind") != CONFIG_KIND:
        return  # other kinds of this group have versions of their own
    version = value.get("apiVersion")
    if isinstance(version, str) and version.startswith(f"{v1.GROUP}/v1") and version != v1.API_VERSION:
        message = (
            f"{version!r} is outdated since Kubernetes 1.26; set {v1.API_VERSION!r}, the fields are the same"
        )
        yield KF179.at("apiVersion", message=message).placed(file.path, file.document)


KF180 = Code(
    "KF180",
    Severity.WARNING,
    "further YAML documents are ignored",
    why="only the first document of a file is read; the kubelet does not read providers after a '---'",
    fix="put all providers in one list, or each document in a file of a config directory",
)


@file_rule(KF180)
def later_documents(file: ConfigFile) -> Iterator[Finding]:
    """A second YAML document."""
    if file.document is not None and file.document.format is DocumentFormat.YAML:
        yield from find_later_document(KF180, file.path, file.data)


KF182 = Code(
    "KF182",
    Severity.WARNING,
    "other users can write the config",
    why="a user who can write this file chooses which programs the kubelet runs as root, with which arguments",
    fix="run chmod go-w on the file",
    on_this_machine=True,
)


@file_rule(KF182)
def writable_file(file: ConfigFile) -> Iterator[Finding]:
    """A file that others can write."""
    yield from _find_writers(file.path, "the config")


@config_rule(KF182)
def writable_directory(installed: _Installed) -> Iterator[Finding]:
    """A config directory that others can write."""
    if is_on_host(installed.config.path, os.path.isdir):
        yield from _find_writers(installed.config.path, "the config directory")


def _find_writers(path: str, what: str) -> Iterator[Finding]:
    try:
        mode = os.stat(on_host(path)).st_mode
    except OSError:
        return  # reported when it was read
    if stat.S_ISCHR(mode) or stat.S_ISFIFO(mode):
        return  # such as /dev/stdin
    who = who_writes(mode)
    if who:
        message = (
            f"{who} can write {what} and choose the programs that the kubelet runs; run chmod go-w {path}"
        )
        yield KF182.of_file(path, message)


KF181 = Code(
    "KF181",
    Severity.WARNING,
    "an entry of the config directory is ignored",
    why="only names ending in .json, .yaml or .yml are read, in lower case and not recursively",
    fix="rename it, or move it to another folder if it is not a config",
    kubernetes="since 1.34",
)


@config_rule(KF181)
def ignored_entries(installed: _Installed) -> Iterator[Finding]:
    """Entries of a config directory that are not read; plugins in it are none of them."""
    config, bin_dir = installed.config, installed.bin_dir
    if not is_on_host(config.path, os.path.isdir):
        return
    read = {os.path.basename(file.path) for file in config.files}
    is_bin_dir = bin_dir is not None and _real(config.path) == _real(bin_dir)
    named = [provider.name for provider in config.providers] if is_bin_dir else []
    plugins = {name + suffix for name in named for suffix in ("", LINK, *BEHIND)}
    try:
        names = sorted(os.listdir(on_host(config.path)))
    except OSError:
        return
    for name in names:
        # Kubernetes keeps the content of a mounted ConfigMap in "..data" and similar names.
        if name not in read and name not in plugins and not name.startswith(".."):
            yield _ignored_entry(os.path.join(config.path, name), name)


def _ignored_entry(path: str, name: str) -> Finding:
    if is_on_host(path, os.path.isdir):
        return KF181.of_file(path, "this directory is ignored: a config directory is not read recursively")
    stem, extension = os.path.splitext(name)
    advice = "; rename it if it is a config"
    if extension.lower() in _EXTENSIONS:
        advice = f", in lower case; rename it to {stem + extension.lower()!r}"
    elif any(known in name.lower() for known in _EXTENSIONS):
        advice = "; delete it if it is a backup"
    message = f"this file is ignored: only names ending in .json, .yaml or .yml are read{advice}"
    return KF181.of_file(path, message)


# Owners and permissions of the programs that a kubelet runs: the bin dir, the plugins, linked files.

KF190 = Code(
    "KF190",
    Severity.WARNING,
    "other users can write to the bin dir",
    why="a user who can write to it chooses the programs that the kubelet runs as root",
    fix="run chmod go-w on the bin dir",
    on_this_machine=True,
)
KF191 = Code(
    "KF191",
    Severity.WARNING,
    "other users can write a plugin",
    why=(
        "a user who can write the file, or the folder of a link's target, chooses the program that the kubelet runs "
        "as root"
    ),
    fix="run chmod go-w on the file or folder",
    on_this_machine=True,
)
KF192 = Code(
    "KF192",
    Severity.WARNING,
    "a plugin or the bin dir belongs to another user",
    why="its owner can change the programs that the kubelet runs as root",
    fix="run chown root on it",
    on_this_machine=True,
)
KF193 = Code(
    "KF193",
    Severity.INFO,
    "a plugin is a link to a file outside the bin dir",
    why="the permissions of the bin dir do not protect that file",
    fix="copy the plugin into the bin dir, or make sure that only root can write the target",
    on_this_machine=True,
)


@config_rule(KF190, KF192)
def bin_dir_owner(installed: _Installed) -> Iterator[Finding]:
    """Others who can change the bin dir."""
    bin_dir = installed.bin_dir
    if bin_dir is None:
        return
    try:
        found = os.stat(on_host(bin_dir))
    except OSError:
        return  # reported as an error of its own
    who = who_writes(found.st_mode)
    if who:
        message = (
            f"{who} can write to the bin dir and choose the programs that the kubelet runs as root; run chmod "
            f"go-w {bin_dir}"
        )
        yield KF190.of_file(bin_dir, message)
    if _is_foreign(found.st_uid):
        message = (
            f"the bin dir belongs to user {found.st_uid}, who can change the programs that the kubelet runs; "
            f"run chown root {bin_dir}"
        )
        yield KF192.of_file(bin_dir, message)


@config_rule(KF191, KF192, KF193)
def plugin_owners(installed: _Installed) -> Iterator[Finding]:
    """Others who can change a plugin, or the one behind it if it is a shim; nothing if it cannot be run."""
    bin_dir = installed.bin_dir
    for number, provider in enumerate(installed.config.providers if bin_dir is not None else ()):
        path = plugin_path(bin_dir or "", provider.name)
        if not provider.name or os.path.dirname(path) != os.path.normpath(bin_dir or ""):
            continue
        for program in dict.fromkeys((path, plugin_behind(path) or path)):
            for finding in _check_program(bin_dir or "", program):
                yield _placed(installed.config, number, finding)


def _check_program(bin_dir: str, path: str) -> Iterator[Finding]:
    home, target = _real(bin_dir), _real(path)
    if not is_on_host(target, os.path.isfile):
        return
    found = os.stat(on_host(target))
    is_link = target != os.path.join(home, os.path.basename(path))
    shown = f"{path} (a link to {target})" if is_link else path
    who = who_writes(found.st_mode)
    if who:
        message = (
            f"{who} can write {shown} and choose the program that the kubelet runs as root; "
            f"run chmod go-w {target}"
        )
        yield KF191.at("name", message=message)
    if _is_foreign(found.st_uid):
        message = f"{shown} belongs to user {found.st_uid}, who can change it; run chown root {target}"
        yield KF192.at("name", message=message)
    folder = os.path.dirname(target)
    if folder == home or folder.startswith(home + "/"):
        return
    message = f"{path} is a link to {target}, outside the bin dir; the bin dir's permissions do not protect that file"
    yield KF193.at("name", message=message)
    who = who_writes(os.stat(on_host(folder)).st_mode)
    if who:
        message = f"{who} can write to {folder}, where {path} points, and replace the plugin; run chmod go-w {folder}"
        yield KF191.at("name", message=message)


def _real(path: str) -> str:
    """Return a path of the node without links, as ``os.path.realpath`` does."""
    if not host_root():
        return os.path.realpath(path)
    try:
        return on_host(path).removeprefix(host_root()) or "/"
    except OSError:
        return path


def _is_foreign(uid: int) -> bool:
    return uid not in (0, os.geteuid())
