"""Validate a kubeconfig as client-go does: the whole of it, or the entries that one context uses."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator

from keyferry._core.gotext import go_strerror, quote
from keyferry._core.paths import Path
from keyferry._core.user_info import hide_in_url
from keyferry._net.url import parse_url
from keyferry.api.codec import aggregate
from keyferry.api.kubeconfig.v1 import AuthInfo, Cluster, Context, ExecConfig, Kubeconfig
from keyferry.clusters.kubeconfig.files import KubeconfigFile, place
from keyferry.errors import Problem

INTERACTIVE_MODES = ("Never", "IfAvailable", "Always")
PROXY_SCHEMES = ("http", "https", "socks5")
EMPTY_CONFIG = "no configuration has been provided, try setting KUBERNETES_MASTER environment variable"
EMPTY_CLUSTER = "cluster has no server defined"

_DNS_LABEL = r"[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?"

# A UID, groups or extra fields of a user to impersonate, without the user.
WITHOUT_IMPERSONATION = "KF227"
# A problem without its position: the path inside the entry, and the problem.
_Found = tuple[Path, Problem]


def validate(config: Kubeconfig, files: Iterable[KubeconfigFile] = ()) -> tuple[Problem, ...]:
    """Return all problems that client-go finds in *config*; *files* provide their positions."""
    files = tuple(files)
    if config.is_empty:
        return (_problem("KF210", "no kubeconfig was found, or it is empty", EMPTY_CONFIG),)
    problems = list(_check_current(config.current_context, config, files))
    for name, context in config.contexts.items():
        found = _check_context(name, context, config)
        problems += _placed(found, files, context.origin, ("contexts", name))
    for name, user in config.users.items():
        problems += _placed(_check_user(name, user), files, user.origin, ("users", name))
    for name, cluster in config.clusters.items():
        problems += _placed(_check_cluster(name, cluster), files, cluster.origin, ("clusters", name))
    return tuple(problems)


def confirm_usable(
    config: Kubeconfig,
    context_name: str,
    user: tuple[str, AuthInfo],
    cluster: tuple[str, Cluster],
    files: Iterable[KubeconfigFile] = (),
) -> tuple[Problem, ...]:
    """Return the problems of one context and its *user* and *cluster*, each with its name.

    An entry that does not exist counts as empty, so an unknown user is not a problem here.
    """
    files = tuple(files)
    problems = list(_check_current(context_name, config, files))
    problems += _placed(_check_user(*user), files, user[1].origin, ("users", user[0]))
    if cluster[1] == Cluster():
        # If there is no other problem, client-go reports the whole config as empty.
        empty = ("KF216", EMPTY_CLUSTER) if problems else ("KF210", EMPTY_CONFIG)
        problem = _problem(empty[0], _describe_emptiness(config, context_name, cluster[0]), empty[1])
        problems.append(_place_emptiness(config, context_name, cluster[0], files, problem))
    else:
        problems += _placed(_check_cluster(*cluster), files, cluster[1].origin, ("clusters", cluster[0]))
    return tuple(problems)


def kubernetes_validation_text(problems: Iterable[Problem]) -> str:
    """Return client-go's error text for the problems that validation found."""
    return f"invalid configuration: {aggregate(problem.kubernetes_text for problem in problems)}"


def _placed(
    found: Iterable[_Found], files: tuple[KubeconfigFile, ...], origin: str, entry: tuple[str, str]
) -> Iterator[Problem]:
    return (place(files, origin, entry, at, problem) for at, problem in found)


def _problem(code: str, message: str, kubernetes_text: str) -> Problem:
    return Problem("", message, code=code, kubernetes_text=kubernetes_text)


def _describe_emptiness(config: Kubeconfig, context_name: str, cluster_name: str) -> str:
    if cluster_name:
        known = ", ".join(map(repr, config.clusters)) or "none"
        return f"context {context_name!r} names the cluster {cluster_name!r}, which does not exist (existing: {known})"
    if context_name:
        return f"context {context_name!r} names no cluster"
    known = ", ".join(map(repr, config.contexts)) or "none"
    return f"current-context is not set and no context is given (existing: {known})"


def _place_emptiness(
    config: Kubeconfig,
    context_name: str,
    cluster_name: str,
    files: tuple[KubeconfigFile, ...],
    problem: Problem,
) -> Problem:
    context = config.contexts.get(context_name)
    if context is None:
        return problem
    at = ("cluster",) if cluster_name else ()
    return place(files, context.origin, ("contexts", context_name), at, problem)


def _check_current(name: str, config: Kubeconfig, files: tuple[KubeconfigFile, ...]) -> Iterator[Problem]:
    if not name or name in config.contexts:
        return
    known = ", ".join(map(repr, config.contexts)) or "none"
    message = f"context {name!r} does not exist (existing: {known})"
    problem = _problem("KF211", message, f"context was not found for specified context: {name}")
    holder = next((file for file in files if file.config.current_context == name), None)
    yield holder.problem(("current-context",), problem) if holder else problem


def _check_context(name: str, context: Context, config: Kubeconfig) -> Iterator[_Found]:
    if not name:
        shown = (
            f"api.Context{{LocationOfOrigin:{quote(context.origin)}, Cluster:{quote(context.cluster)}, "
            f"AuthInfo:{quote(context.user)}, Namespace:{quote(context.namespace)}, "
            "Extensions:map[string]runtime.Object{}}"
        )
        yield (
            (),
            _problem("KF212", "the context has no name", f"empty context name for {shown} is not allowed"),
        )
    for kind, target, known in (
        ("user", context.user, config.users),
        ("cluster", context.cluster, config.clusters),
    ):
        if not target:
            text = f"{kind} was not specified for context {quote(name)}"
            yield (), _problem("KF213", f"context {name!r} names no {kind}", text)
        elif target not in known:
            text = f"{kind} {quote(target)} was not found for context {quote(name)}"
            yield (kind,), _problem("KF214", f"{kind} {target!r} does not exist", text)
    if context.namespace and not re.fullmatch(_DNS_LABEL, context.namespace):
        text = (
            f"namespace {quote(context.namespace)} for context {quote(name)} "
            "does not conform to the kubernetes DNS_LABEL rules"
        )
        message = f"{context.namespace!r} is not a namespace, expected at most 63 of a-z, 0-9 and inner '-'"
        yield ("namespace",), _problem("KF215", message, text)


def _check_cluster(name: str, cluster: Cluster) -> Iterator[_Found]:
    if not cluster.server:
        text = (
            f"no server found for cluster {quote(name)}" if name else "default cluster has no server defined"
        )
        yield (), _problem("KF216", f"cluster {name!r} has no server", text)
    if cluster.proxy_url:
        yield from _check_proxy(name, cluster.proxy_url)
    if cluster.certificate_authority and cluster.certificate_authority_data:
        text = (
            f"certificate-authority-data and certificate-authority are both specified for {name}. "
            "certificate-authority-data will override."
        )
        message = "certificate-authority and certificate-authority-data are both set, expected one of them"
        yield ("certificate-authority",), _problem("KF218", message, text)
    if cluster.certificate_authority:
        yield from _check_file(
            "certificate-authority", "certificate-authority", cluster.certificate_authority, name
        )


def _check_proxy(name: str, proxy: str) -> Iterator[_Found]:
    url = parse_url(proxy)
    expected = "expected a URL such as 'http://proxy:3128' (or https, socks5)"
    message, reason = f"{hide_in_url(proxy)!r} is not a URL, {expected}", f"could not parse: {proxy}"
    if url is not None:
        message = f"{hide_in_url(proxy)!r} has the scheme {url.scheme!r}, {expected}"
        reason = f"unsupported scheme {quote(url.scheme)}, must be http, https, or socks5"
    if url is None or url.scheme not in PROXY_SCHEMES:
        text = f"invalid 'proxy-url' {quote(proxy)} for cluster {quote(name)}: {reason}"
        yield ("proxy-url",), _problem("KF217", message, text)


def _check_user(name: str, user: AuthInfo) -> Iterator[_Found]:
    if user.client_certificate or user.client_certificate_data:
        yield from _check_certificate(name, user)
    if user.exec is not None:
        yield from _check_exec(name, user.exec, user.auth_provider)
    if user.token and (user.username or user.password):
        found = "found [token basicAuth], only one is allowed"
        text = f"more than one authentication method found for {name}; {found}"
        message = f"user {name!r} has both a token and a username or password, expected one of them"
        yield ("token",), _problem("KF226", message, text)
    if not user.impersonate and (
        user.impersonate_uid or user.impersonate_groups or user.impersonate_user_extra
    ):
        text = f"requesting uid, groups or user-extra for {name} without impersonating a user"
        yield (
            (),
            _problem(
                WITHOUT_IMPERSONATION,
                f"user {name!r} has as-uid, as-groups or as-user-extra without 'as'",
                text,
            ),
        )


def _check_certificate(name: str, user: AuthInfo) -> Iterator[_Found]:
    if user.client_certificate and user.client_certificate_data:
        text = (
            f"client-cert-data and client-cert are both specified for {name}. client-cert-data will override."
        )
        message = "client-certificate and client-certificate-data are both set, expected one of them"
        yield ("client-certificate",), _problem("KF218", message, text)
    if user.client_key and user.client_key_data:
        text = f"client-key-data and client-key are both specified for {name}; client-key-data will override"
        message = "client-key and client-key-data are both set, expected one of them"
        yield ("client-key",), _problem("KF218", message, text)
    if not user.client_key and not user.client_key_data:
        text = (
            f"client-key-data or client-key must be specified for {name} "
            "to use the clientCert authentication method."
        )
        yield (), _problem("KF220", f"user {name!r} has a client certificate without a key", text)
    if user.client_certificate:
        yield from _check_file("client-certificate", "client-cert", user.client_certificate, name)
    if user.client_key:
        yield from _check_file("client-key", "client-key", user.client_key, name)


def _check_exec(name: str, plugin: ExecConfig, auth_provider: str | None) -> Iterator[_Found]:
    use = f"must be specified for {name} to use exec authentication plugin"
    if auth_provider is not None:
        text = f"authProvider cannot be provided in combination with an exec plugin for {name}"
        message = f"user {name!r} has both exec and auth-provider, expected one of them"
        yield ("auth-provider",), _problem("KF221", message, text)
    if not plugin.command:
        yield (
            ("exec",),
            _problem("KF222", "command is missing, expected the plugin's executable", f"command {use}"),
        )
    if not plugin.api_version:
        message = "apiVersion is missing, expected 'client.authentication.k8s.io/v1'"
        yield ("exec",), _problem("KF223", message, f"apiVersion {use}")
    for index, variable in enumerate(plugin.env):
        if not variable.name:
            yield (
                ("exec", "env", index),
                _problem("KF224", "the variable has no name", f"env variable name {use}"),
            )
    expected = "expected 'Never', 'IfAvailable' or 'Always'"
    if not plugin.interactive_mode:
        yield (
            ("exec",),
            _problem("KF225", f"interactiveMode is missing, {expected}", f"interactiveMode {use}"),
        )
    elif plugin.interactive_mode not in INTERACTIVE_MODES:
        text = f"invalid interactiveMode for {name}: {quote(plugin.interactive_mode)}"
        yield (
            ("exec", "interactiveMode"),
            _problem("KF225", f"found {plugin.interactive_mode!r}, {expected}", text),
        )


def _check_file(key: str, shown: str, path: str, name: str) -> Iterator[_Found]:
    try:
        # As in client-go, the file is opened and not read, so a directory is accepted. A pipe must not block.
        os.close(os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK))
    except (OSError, ValueError) as error:
        reason = go_strerror(error)
        text = f"unable to read {shown} {path} for {name} due to open {path}: {reason}"
        yield (key,), _problem("KF219", f"{path!r} cannot be read: {reason}", text)
