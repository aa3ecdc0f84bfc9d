"""Lint a kubeconfig: report what client-go refuses, and what is valid but probably not intended.

Client-go's rules are not repeated here: the code that uses kubeconfigs loads, validates and resolves the
file, once for every context, and its refusals get a code. Clusters and users have a module of their own.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable, Iterator, Mapping

from keyferry._core.documents import is_json
from keyferry._core.gotext import quote
from keyferry._core.severity import Severity
from keyferry._core.user_info import hide_in_url
from keyferry._core.values import replace
from keyferry.api.clientauthentication.v1 import encode_exec_info
from keyferry.api.kubeconfig.v1 import SECTIONS, AuthInfo, Cluster, Kubeconfig, read_kubeconfig
from keyferry.clusters.auth.plugin_environment import check_size
from keyferry.clusters.kubeconfig.choose import choose
from keyferry.clusters.kubeconfig.files import (
    KubeconfigFile,
    LoadedKubeconfig,
    decode_file,
    merge_configs,
    place,
)
from keyferry.clusters.kubeconfig.resolve import ClientConfig, check_transport, judge_api_version, resolve
from keyferry.clusters.kubeconfig.validate import confirm_usable, kubernetes_validation_text, validate
from keyferry.clusters.options import Overrides
from keyferry.errors import ConfigError, Detail, EnvironmentProblem, Kind, Problem
from keyferry.lint.code import Code, Finding, Rules, finding_of
from keyferry.lint.kinds.kubeconfig_entries import (
    KF264,
    KF270,
    KF271,
    ClusterEntry,
    ExecEntry,
    UserEntry,
    cluster_rule,
    exec_rule,
    user_rule,
)
from keyferry.lint.report import FileKind, LintReport, make_report
from keyferry.lint.source import (
    NotingReader,
    SourceFile,
    find_later_document,
    find_unknown_fields,
    find_writers,
)

# A server for users that no context names, so that they are checked too.
_SOMEWHERE = "https://unused.invalid"
_MAX_FILE = 16 << 20
_NOT_FILES = ("/proc/", "/sys/", "/dev/")

file_rule = Rules[KubeconfigFile]()


def lint_kubeconfig(source: SourceFile) -> LintReport:
    """Return all problems of a kubeconfig."""
    # Client-go reads JSON as YAML, too.
    file = decode_file(source.path, source.data, None if is_json(source.data) else source.read)
    # As kubectl reads this file alone; relative paths start at the folder of the file.
    loaded = LoadedKubeconfig(config=merge_configs([file.config], None), files=(file,), paths=(source.path,))
    usable = _without_odd_files(loaded)
    refusals = [*file.problems, *_invalid(loaded, file)]
    text = file.kubernetes_text
    if not file.problems:
        refusals += _unusable(usable)
        text = _first_refusal(usable) or kubernetes_validation_text(refusals)
    refusals += _old_protocols(loaded, file)
    problems = [_with_code(source.path, problem, loaded.config) for problem in refusals]
    findings = [*map(finding_of, problems), *_check_values(file, loaded.config, usable.config)]
    findings += _too_large(usable)
    if file.document is not None:
        findings += (finding.placed(file.path, file.document) for finding in file_rule.check(file))
        findings += _repeated_keys(file)
        findings += find_later_document(KF252, file.path, source.data)
    findings += list(_check_permissions(source.path, file.config, findings))
    return make_report(FileKind.KUBECONFIG, source, findings, _scrub(text, loaded.config))


def _check_values(file: KubeconfigFile, anchored: Kubeconfig, usable: Kubeconfig) -> Iterator[Finding]:
    """Yield what is suspicious in clusters and users; *anchored* has the folders at which relative paths start."""
    indices = _entry_indices(file, "clusters")
    for name, cluster in file.config.clusters.items():
        entry = ClusterEntry(written=cluster, usable=usable.clusters.get(name, cluster))
        inside = ("clusters", indices.get(name, 0), SECTIONS["clusters"])
        for finding in cluster_rule.check(entry):
            yield finding.placed(file.path, file.document, inside)
    indices = _entry_indices(file, "users")
    for name, user in file.config.users.items():
        there = anchored.users.get(name, user)
        inside = ("users", indices.get(name, 0), SECTIONS["users"])
        for finding in user_rule.check(
            UserEntry(written=user, anchored=there, usable=usable.users.get(name, user))
        ):
            yield finding.placed(file.path, file.document, inside)
        if user.exec is not None and there.exec is not None:
            for finding in exec_rule.check(ExecEntry(written=user.exec, anchored=there.exec)):
                yield finding.placed(file.path, file.document, (*inside, "exec"))


def _entry_indices(file: KubeconfigFile, section: str) -> dict[str, int]:
    """Return the indices of a section's entries by name; of two with one name, the last one's."""
    value = file.document.value if file.document else None
    entries = value.get(section) if isinstance(value, dict) else None
    listed = enumerate(entries if isinstance(entries, list) else ())
    return {str(item.get("name") or ""): index for index, item in listed if isinstance(item, dict)}


# What client-go refuses.

KF201 = Code(
    "KF201",
    Severity.ERROR,
    "the kubeconfig is not valid YAML",
    why="if one file cannot be parsed, kubectl uses none of them; kubeconfigs are YAML 1.1 or JSON",
    fix="correct the syntax at the given position",
)
KF202 = Code(
    "KF202",
    Severity.ERROR,
    "apiVersion or kind is not that of a kubeconfig",
    why="both are optional, but must be 'v1' and 'Config' if they are set",
    fix="correct or remove them, or use another file",
)
KF203 = Code(
    "KF203",
    Severity.ERROR,
    "a value has the wrong type",
    why=(
        "client-go ignores unknown fields but rejects wrong types: unquoted yes, no, on, off and numbers are not "
        "strings in YAML"
    ),
    fix="put quotes around the value, or use the expected type",
)
KF204 = Code(
    "KF204",
    Severity.ERROR,
    "a value is not base64",
    why="fields that end in -data contain PEM text in base64 with padding",
    fix="encode the content with base64, or set a file in the field without -data",
)
KF205 = Code(
    "KF205",
    Severity.ERROR,
    "a name is given twice in a list",
    why="names of clusters, users, contexts and extensions must be unique in a file",
    fix="rename or remove one of them",
)
KF210 = Code(
    "KF210",
    Severity.ERROR,
    "the kubeconfig is empty",
    why="without clusters, users and contexts kubectl reports that no configuration has been provided",
    fix="use another file",
)
KF211 = Code(
    "KF211",
    Severity.ERROR,
    "the current context does not exist",
    why="kubectl fails unless --context names another one",
    fix="set current-context to the name of a context",
)
KF212 = Code(
    "KF212",
    Severity.ERROR,
    "a context has no name",
    why="it cannot be selected",
    fix="give it a name, or remove it",
)
KF213 = Code(
    "KF213",
    Severity.ERROR,
    "a context has no user or cluster",
    why="a context combines a cluster and a user, each by name",
    fix="set both",
)
KF214 = Code(
    "KF214",
    Severity.ERROR,
    "a context names a user or cluster that does not exist",
    why="without the cluster the context cannot be used, and without the user requests are anonymous",
    fix="correct the name, or add the missing entry",
)
KF215 = Code(
    "KF215",
    Severity.ERROR,
    "a namespace is not valid",
    why="the name of a namespace is a DNS label",
    fix="use at most 63 of a-z, 0-9 and inner dashes",
)
KF216 = Code(
    "KF216",
    Severity.ERROR,
    "a cluster has no server",
    why="there is no default",
    fix="set server to the cluster's https URL",
)
KF217 = Code(
    "KF217",
    Severity.ERROR,
    "proxy-url is not valid",
    why="it must be a URL with the scheme http, https or socks5",
    fix="write for example 'https://proxy.example:3128'",
)
KF218 = Code(
    "KF218",
    Severity.ERROR,
    "a file and its content are both given",
    why="it is not clear which of them to use",
    fix="remove the field without -data, or the one with it",
)
KF219 = Code(
    "KF219",
    Severity.ERROR,
    "a file cannot be read",
    why="relative paths start at the folder of the kubeconfig",
    fix="correct the path or the permissions",
    on_this_machine=True,
)
KF220 = Code(
    "KF220",
    Severity.ERROR,
    "a client certificate has no key",
    why="a certificate cannot be used without its key",
    fix="add the key",
)
KF221 = Code(
    "KF221",
    Severity.ERROR,
    "exec and auth-provider exclude each other",
    why="only one can be used",
    fix="remove auth-provider",
)
KF222 = Code(
    "KF222",
    Severity.ERROR,
    "exec has no command",
    why="there is no program to run",
    fix="set command to the plugin",
)
KF223 = Code(
    "KF223",
    Severity.ERROR,
    "exec has no apiVersion",
    why="it is the version of the protocol that the plugin uses",
    fix="write 'apiVersion: client.authentication.k8s.io/v1'",
)
KF224 = Code(
    "KF224",
    Severity.ERROR,
    "a variable has no name",
    why="it cannot be set",
    fix="give it a name, or remove it",
)
KF225 = Code(
    "KF225",
    Severity.ERROR,
    "interactiveMode is missing or unknown",
    why="it sets whether the plugin may read input from the user, and has no default in v1 of the protocol",
    fix="set Never, IfAvailable or Always",
)
KF226 = Code(
    "KF226",
    Severity.ERROR,
    "a user has a token and a username or password",
    why="only one of them can be sent",
    fix="remove the others",
)
KF227 = Code(
    "KF227",
    Severity.ERROR,
    "as-uid, as-groups or as-user-extra without 'as'",
    why="they describe the impersonated user",
    fix="add 'as', or remove them",
)
KF228 = Code(
    "KF228",
    Severity.ERROR,
    "exec has an apiVersion that no client supports",
    why="the plugin cannot be run; v1alpha1 was removed",
    fix="set client.authentication.k8s.io/v1 if the plugin supports it, and an interactiveMode",
    kubernetes="v1alpha1 was removed in 1.24",
)
KF229 = Code(
    "KF229",
    Severity.ERROR,
    "the auth provider was removed",
    why="exec plugins have replaced auth-provider; kubectl still has oidc only",
    fix="use exec: gke-gcloud-auth-plugin or kubelogin",
)
KF285 = Code(
    "KF285",
    Severity.WARNING,
    "the auth provider oidc works in kubectl only",
    why="kubectl still has it; keyferry and most other clients do not, and exec plugins have replaced it",
    fix="use exec, such as 'kubectl oidc-login'",
)

_BY_KIND = {
    Kind.YAML_SYNTAX: KF201,
    Kind.JSON_SYNTAX: KF201,
    Kind.UNKNOWN_TYPE: KF202,
    Kind.MISSING_API_VERSION: KF202,
    Kind.GROUP_VERSION: KF202,
    Kind.WRONG_TYPE: KF203,
    Kind.BASE64: KF204,
}


def _with_code(path: str, problem: Problem, config: Kubeconfig) -> Problem:
    other = KF205 if problem.detail is Detail.REPEATED_NAME else KF201
    code = problem.code or _BY_KIND.get(problem.kind, other).code
    is_no_text = problem.detail in (Detail.SCALAR_FOR_TEXT, Detail.NO_TEXT)
    hint = "; put it in quotes" if code == KF203.code and is_no_text else ""
    if code == KF219.code:
        hint = " (on this machine)"
    return problem.changed(
        message=f"{problem.message}{hint}",
        code=code,
        kubernetes_text=_scrub(problem.kubernetes_text, config),
        file=problem.file or path,
    )


def _scrub(text: str, config: Kubeconfig) -> str:
    """Return Kubernetes' message without the passwords of proxies, which it quotes."""
    for cluster in config.clusters.values():
        if cluster.proxy_url:
            hidden = hide_in_url(cluster.proxy_url)
            text = text.replace(cluster.proxy_url, hidden).replace(quote(cluster.proxy_url), quote(hidden))
    return text


def _invalid(loaded: LoadedKubeconfig, file: KubeconfigFile) -> Iterator[Problem]:
    """Yield the problems that validation finds; if the file does not load, only in entries that were fully read."""
    broken = {_entry(problem.path) for problem in file.problems}
    if file.problems and not all(broken):
        return
    for problem in validate(loaded.config, (file,)):
        entry = _entry(problem.path)
        if not broken or (entry and entry not in broken):
            yield problem


def _entry(path: str) -> str:
    """Return ``clusters[0]`` for a path inside that entry; empty for other paths and for an entry's name."""
    match = re.match(r"(?:clusters|users|contexts)\[\d+\](?!\.name)", path)
    return match[0] if match else ""


def _unusable(loaded: LoadedKubeconfig) -> Iterator[Problem]:
    """Yield the problems that appear when a context is used; every context is tried, and users without one."""
    for overrides in _uses(loaded.config):
        try:
            config = _resolved(loaded, overrides)
            if config is not None:
                check_transport(config)
        except ConfigError as error:
            yield from error.problems


def _uses(config: Kubeconfig) -> Iterator[Overrides]:
    for name in config.contexts:
        if name:
            yield Overrides(context=name)
    named = {context.user for context in config.contexts.values()}
    for name in config.users:
        if name and name not in named:
            yield Overrides(user=name, server=_SOMEWHERE)


def _resolved(loaded: LoadedKubeconfig, overrides: Overrides) -> ClientConfig | None:
    """Return a client config; None if validation has already reported why there is none."""
    choice = choose(loaded.config, overrides)
    user, cluster = (choice.user_name, choice.user), (choice.cluster_name, choice.cluster)
    if confirm_usable(loaded.config, choice.context_name, user, cluster):
        return None
    return resolve(loaded, overrides)


def _first_refusal(loaded: LoadedKubeconfig) -> str:
    """Return the error with which kubectl fails without any flags; empty if there is none."""
    try:
        check_transport(resolve(loaded))
    except ConfigError as error:
        return error.kubernetes_text
    return ""


def _old_protocols(loaded: LoadedKubeconfig, file: KubeconfigFile) -> Iterator[Problem]:
    """Yield versions of the plugin protocol that no client has, also of users whose context cannot be used."""
    for name, user in loaded.config.users.items():
        problem = judge_api_version(user.exec) if user.exec and user.exec.api_version else None
        if problem is not None and _reaches_tls(name, loaded.config):
            yield place((file,), file.path, ("users", name), ("exec", "apiVersion"), problem)


def _reaches_tls(user: str, config: Kubeconfig) -> bool:
    """Return whether a context uses *user* over https, or none uses it; over http client-go ignores its plugin."""
    names = [context.cluster for context in config.contexts.values() if context.user == user]
    found = (config.clusters[name].server for name in names if name in config.clusters)
    servers = [server for server in found if server]
    return not servers or any(server.lower().startswith("https://") for server in servers)


def _without_odd_files(loaded: LoadedKubeconfig) -> LoadedKubeconfig:
    """Return *loaded* without special or very large files, on which the linter could hang."""
    config = loaded.config
    users = {name: _readable_user(user) for name, user in config.users.items()}
    clusters = {name: _readable_cluster(cluster) for name, cluster in config.clusters.items()}
    return replace(loaded, config=replace(config, users=users, clusters=clusters))


def _readable_user(user: AuthInfo) -> AuthInfo:
    return replace(
        user,
        token_file="" if _is_odd(user.token_file) else user.token_file,
        client_certificate="" if _is_odd(user.client_certificate) else user.client_certificate,
        client_key="" if _is_odd(user.client_key) else user.client_key,
    )


def _readable_cluster(cluster: Cluster) -> Cluster:
    return replace(cluster, certificate_authority="") if _is_odd(cluster.certificate_authority) else cluster


def _is_odd(path: str) -> bool:
    if not path:
        return False
    try:
        status = os.stat(path)
        if stat.S_ISDIR(status.st_mode):
            return False  # reading it fails at once
        real = os.path.realpath(path)
    except (OSError, ValueError):
        return False  # reported when the file is read
    is_plain = stat.S_ISREG(status.st_mode) and status.st_size <= _MAX_FILE
    return not is_plain or real.startswith(_NOT_FILES)


# What client-go silently ignores: fields, keys, documents, and unused entries.

KF250 = Code(
    "KF250",
    Severity.WARNING,
    "unknown field",
    why="client-go silently ignores unknown fields and fields in the wrong case",
    fix="correct the spelling or remove the field",
    of_name=True,
)
KF251 = Code(
    "KF251",
    Severity.WARNING,
    "a key is given more than once",
    why="the last one is used, without a message",
    fix="keep one of them",
    of_name=True,
)
KF252 = Code(
    "KF252",
    Severity.WARNING,
    "further YAML documents are ignored",
    why="only the first document of a kubeconfig is read",
    fix="put everything in one document, or in separate files",
)


@file_rule(KF250)
def unknown_fields(file: KubeconfigFile) -> Iterator[Finding]:
    """Fields without an effect; the document is read again by a strict reader."""
    reader = NotingReader()
    read_kubeconfig(file.document.value if file.document else None, reader)
    yield from find_unknown_fields(KF250, reader, "client-go silently ignores it")


def _repeated_keys(file: KubeconfigFile) -> Iterator[Finding]:
    for each in file.document.duplicates if file.document else ():
        message = (
            f"the key is given more than once, first in line {each.first.line}; "
            "the last one is silently used ('<<' also adds keys)"
        )
        repeated = KF251.at(*each.path, message=message)
        yield replace(repeated, file=file.path, line=each.position.line, column=each.position.column, at=())


KF253 = Code(
    "KF253",
    Severity.WARNING,
    "there is no current context",
    why="kubectl without --context then connects to no cluster",
    fix="set current-context, or always give --context",
)
KF254 = Code(
    "KF254",
    Severity.INFO,
    "the kubeconfig is not complete",
    why="without a context its entries are used only if another file of KUBECONFIG refers to them",
    fix="add a context if the file is used alone",
)
KF255 = Code(
    "KF255",
    Severity.INFO,
    "no context names the cluster or user",
    why="it is never used",
    fix="remove it, or add a context",
)


@file_rule(KF253, KF254, KF255)
def contexts(file: KubeconfigFile) -> Iterator[Finding]:
    """Contexts that are missing, and entries that no context names."""
    config = file.config
    if file.problems or config.is_empty:
        return  # reported as a refusal
    if not config.contexts:
        message = (
            "there are no contexts, so this file can only be used together with others (KUBECONFIG); "
            "with this file alone, kubectl reports that no configuration has been provided"
        )
        yield KF254.at(message=message)
        return
    if not config.current_context:
        message = (
            "current-context is not set: without --context kubectl tries http://localhost:8080 or fails; "
            f"set it to one of {', '.join(map(repr, config.contexts))}"
        )
        yield KF253.at(message=message)
    named = config.contexts.values()
    yield from _unused(file, "clusters", config.clusters, {context.cluster for context in named})
    yield from _unused(file, "users", config.users, {context.user for context in named})


def _unused(
    file: KubeconfigFile, section: str, entries: Mapping[str, object], named: set[str]
) -> Iterator[Finding]:
    indices = _entry_indices(file, section)
    for name in entries:
        if name not in named:
            message = (
                f"no context of this file names {section.removesuffix('s')} {name!r}; remove it, or use it"
            )
            yield KF255.at(section, indices.get(name, 0), message=message)


KF286 = Code(
    "KF286",
    Severity.WARNING,
    "the cluster's data is too large to pass to a plugin",
    why="Linux limits one variable to 128 KiB, and KUBERNETES_EXEC_INFO would be longer",
    fix="shorten certificate-authority-data or the extension, or set provideClusterInfo to false",
)


def _too_large(loaded: LoadedKubeconfig) -> Iterator[Finding]:
    for name, context in loaded.config.contexts.items():
        try:
            config = _resolved(loaded, Overrides(context=name)) if name else None
        except ConfigError:
            continue
        plugin = config.exec if config else None
        if config is None or plugin is None or not plugin.provide_cluster_info or not config.uses_plugin:
            continue
        try:
            check_size(encode_exec_info(plugin.api_version, config.exec_cluster, interactive=True))
        except EnvironmentProblem as error:
            problem = Problem("", f"the plugin cannot be started: {error.message}", code=KF286.code)
            yield finding_of(place(loaded.files, context.origin, ("contexts", name), (), problem))


# The permissions of the file.

KF290 = Code(
    "KF290",
    Severity.WARNING,
    "other users can read a kubeconfig with secrets",
    why="a user who can read the secrets can act as the kubeconfig's users",
    fix="run chmod 600 on the file",
    on_this_machine=True,
)
KF291 = Code(
    "KF291",
    Severity.WARNING,
    "other users can write the kubeconfig",
    why=(
        "a user who can write it chooses the program that runs and the server that is trusted; unless keyferry is "
        "told to trust the file, it does not run the file's plugins, does not read tokens or keys from paths in the "
        "file, and does not send credentials of another kubeconfig to its servers"
    ),
    fix="run chmod go-w on the file, and check its content",
    on_this_machine=True,
)


def _check_permissions(path: str, config: Kubeconfig, found: Iterable[Finding]) -> Iterator[Finding]:
    """Yield who else can write *path*, and who else can read it if *found* has a secret."""
    secrets = {KF264.code, KF270.code, KF271.code}
    if any(finding.code in secrets for finding in found):
        yield from _find_readers(path)
    runs = any(user.exec is not None for user in config.users.values())
    consequence = "and choose which program runs" if runs else "and choose which server is trusted"
    yield from find_writers(KF291, path, consequence)


def _find_readers(path: str) -> Iterator[Finding]:
    try:
        mode = os.stat(path).st_mode
    except (OSError, ValueError):
        return  # it was read a moment ago
    if stat.S_ISREG(mode) and mode & (stat.S_IRGRP | stat.S_IROTH):
        who = "everybody" if mode & stat.S_IROTH else "its group"
        message = f"{who} can read this file, which contains secrets; run chmod go-r {path}"
        yield KF290.of_file(path, message)
