"""Lint a kubeconfig: report what client-go refuses, and what is valid but probably not intended.

Client-go's rules are not repeated here: the code that uses kubeconfigs loads, validates and resolves the
file, once for every context, and its refusals get a code.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator

from keyferry._core.gotext import quote
from keyferry._core.user_info import hide_in_url
from keyferry._core.values import replace
from keyferry.api.clientauthentication.v1 import encode_exec_info
from keyferry.api.kubeconfig.v1 import AuthInfo, Cluster, Kubeconfig
from keyferry.clusters.auth.plugin_environment import check_size
from keyferry.clusters.kubeconfig.choose import Overrides, choose
from keyferry.clusters.kubeconfig.files import (
    KubeconfigFile,
    LoadedKubeconfig,
    decode_file,
    merge_configs,
    place,
)
from keyferry.clusters.kubeconfig.resolve import ClientConfig, check_transport, judge_api_version, resolve
from keyferry.clusters.kubeconfig.validate import confirm_usable, kubernetes_validation_text, validate
from keyferry.errors import ConfigError, Detail, EnvironmentProblem, Kind, Problem
from keyferry.lint.kubeconfig.fields import check_fields
from keyferry.lint.kubeconfig.files import check_file
from keyferry.lint.kubeconfig.transport import check_transports
from keyferry.lint.kubeconfig.values import check_values
from keyferry.lint.report import FileKind, LintReport, make_report

__all__ = ["lint_kubeconfig"]

# A server for users that no context names, so that they are checked too.
_SOMEWHERE = "https://unused.invalid"
_SYNTAX, _FOREIGN, _TOO_LARGE = "KF201", "KF202", "KF286"
_TYPE, _ABSENT = "KF203", "KF219"
_BY_KIND = {
    Kind.YAML_SYNTAX: _SYNTAX,
    Kind.JSON_SYNTAX: _SYNTAX,
    Kind.UNKNOWN_TYPE: _FOREIGN,
    Kind.MISSING_API_VERSION: _FOREIGN,
    Kind.GROUP_VERSION: _FOREIGN,
    Kind.WRONG_TYPE: _TYPE,
    Kind.BASE64: "KF204",
}
_BY_DETAIL = {Detail.REPEATED_NAME: "KF205"}
_LARGEST_FILE = 16 << 20
_NOT_FILES = ("/proc/", "/sys/", "/dev/")


def lint_kubeconfig(path: str, data: bytes) -> LintReport:
    """Return all problems of the kubeconfig *path*, whose content is *data*."""
    file = decode_file(path, data)
    # As kubectl reads this file alone; relative paths start at the folder of the file.
    loaded = LoadedKubeconfig(config=merge_configs([file.config], None), files=(file,), paths=(path,))
    refusals = [*file.problems, *_invalid(loaded, file)]
    text = file.kubernetes_text
    usable = _readable(loaded)
    if not file.problems:
        refusals += _unusable(usable)
        text = _first_refusal(usable) or kubernetes_validation_text(refusals)
    refusals += _old_protocols(loaded, file)
    problems = [_with_code(path, problem, loaded.config) for problem in refusals]
    worries = [*check_fields(file, data), *check_values(file, loaded.config), *_too_large(usable)]
    worries += check_transports(file, usable.config)
    worries += check_file(path, file.config, worries)
    return make_report(FileKind.KUBECONFIG, path, [*problems, *worries], _scrub(text, loaded.config))


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


def _too_large(loaded: LoadedKubeconfig) -> Iterator[Problem]:
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
            problem = Problem("", f"the plugin cannot be started: {error.message}", code=_TOO_LARGE)
            yield place(loaded.files, context.origin, ("contexts", name), (), problem)


def _readable(loaded: LoadedKubeconfig) -> LoadedKubeconfig:
    """Return *loaded* without special or very large files, on which the linter could hang."""
    config = loaded.config
    users = {name: _without_odd_files(user) for name, user in config.users.items()}
    clusters = {name: _without_odd_authority(cluster) for name, cluster in config.clusters.items()}
    return replace(loaded, config=replace(config, users=users, clusters=clusters))


def _without_odd_files(user: AuthInfo) -> AuthInfo:
    return replace(
        user,
        token_file="" if _is_odd(user.token_file) else user.token_file,
        client_certificate="" if _is_odd(user.client_certificate) else user.client_certificate,
        client_key="" if _is_odd(user.client_key) else user.client_key,
    )


def _without_odd_authority(cluster: Cluster) -> Cluster:
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
    is_plain = stat.S_ISREG(status.st_mode) and status.st_size <= _LARGEST_FILE
    return not is_plain or real.startswith(_NOT_FILES)


def _with_code(path: str, problem: Problem, config: Kubeconfig) -> Problem:
    code = problem.code or _BY_KIND.get(problem.kind) or _BY_DETAIL.get(problem.detail, _SYNTAX)
    is_no_text = problem.detail in (Detail.SCALAR_FOR_TEXT, Detail.NO_TEXT)
    hint = "; put it in quotes" if code == _TYPE and is_no_text else ""
    if code == _ABSENT:
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
