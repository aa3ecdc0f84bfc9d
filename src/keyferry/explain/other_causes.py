"""Failed pulls that no credential is to blame for: one function per kind of failure, with its sentence and cures."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable

from keyferry._core.docker_hub import HUB, REGISTRY_HOST, is_hub_host
from keyferry.explain.cures import new_secret
from keyferry.explain.explanation import Cause, Cure, Facts, wait_cure, who
from keyferry.pulls.failure_text import FailureKind, HostRole, PullFailure

# Where containerd reads how to reach a registry, if its config_path is this folder, as most nodes have it.
_HOSTS_DIR = "/etc/containerd/certs.d"
_RUNTIME_LOG = "journalctl -u containerd -u crio --since -10min"
_PLAIN_HOST = r"(?:[A-Za-z0-9][\w.-]{0,252}|\[[0-9A-Fa-f:.]{2,45}\])(?::\d{1,5})?"
# Hosts that neither the pod nor a list of mirrors names.
_OTHER_ROLES = (HostRole.PROXY, HostRole.TOKEN_SERVER, HostRole.STORE)

_Rule = Callable[[Facts, PullFailure], Cause]
_RULES: dict[FailureKind, _Rule] = {}


def find_other_cause(facts: Facts) -> Cause | None:
    """Return why the last attempt failed, if no credential is to blame for it."""
    failure = facts.evidence.last_attempt.failure
    if failure is None or failure.kind not in _RULES:
        return None
    return _RULES[failure.kind](facts, failure)


def _cause_of(*kinds: FailureKind) -> Callable[[_Rule], _Rule]:
    """Return the decorator of a rule for failures of *kinds*."""

    def add(rule: _Rule) -> _Rule:
        _RULES.update(dict.fromkeys(kinds, rule))
        return rule

    return add


def _host(facts: Facts, failure: PullFailure) -> str:
    """Return the host that failed; empty for a proxy, token server or store that is not named."""
    return failure.host if failure.host or failure.role in _OTHER_ROLES else facts.registry


def _party(facts: Facts, failure: PullFailure) -> str:
    """Return who failed, as a phrase: the host, and what it is unless it is the registry."""
    host = _host(facts, failure)
    match failure.role:
        case HostRole.PROXY:
            return f"the proxy {host}".rstrip()
        case HostRole.TOKEN_SERVER:
            return f"the registry's token server {host}".rstrip()
        case HostRole.STORE:
            return f"{host} (where the registry keeps its layers)"
    return f"the mirror {host}" if facts.is_mirror(host) else host


def _named_in(facts: Facts, failure: PullFailure) -> str:
    """Return where the host is named that the runtime asked; empty if no setting names it, or that is not known."""
    if failure.role in _OTHER_ROLES:
        return ""
    own, name = facts.registry, _without_port(_host(facts, failure))
    if name == _without_port(own) or (own == HUB and is_hub_host(name)):
        return "the pod"
    if facts.mirrors is not None and name in (_without_port(each.host) for each in facts.mirrors.others):
        return facts.mirrors.file
    return "the container runtime's settings for mirrors" if failure.role is HostRole.REGISTRY else ""


def _without_port(host: str) -> str:
    """Return *host* without its port, which a text about its name does not have."""
    return re.sub(r":\d+$", "", host)


def _pasted(host: str, *lines: str) -> tuple[str, ...]:
    """Return *lines* with *host*, which is foreign text, or none if it is not a plain host."""
    return () if re.fullmatch(_PLAIN_HOST, host, re.ASCII) is None else lines


def _proxy_cure(more: str = "") -> Cure:
    text = f"check HTTPS_PROXY in the environment of the container runtime{more}, on the node"
    return Cure(text=text, lines=("systemctl show --property=Environment containerd crio",))


def _hosts_entry(facts: Facts, failure: PullFailure) -> str:
    """Return the host under which containerd's file for the registry has the settings that apply to the failed one.

    A host of its own would be a mirror. The settings of the registry apply to its token server and its store, too.
    """
    if failure.role in _OTHER_ROLES or not failure.host:
        return REGISTRY_HOST if facts.registry == HUB else facts.registry
    return failure.host


@_cause_of(FailureKind.NOT_FOUND)
def _no_such_image(facts: Facts, failure: PullFailure) -> Cause:
    users = " and ".join(who(each) for each in facts.answer.credentials)
    whom, access = users, f"give {users} access to it"
    if not users:
        whom, access = "users without access", "give the pod a credential that may read it"
    elif failure.is_mixed:
        # The texts do not tell which of the users were refused.
        whom = "the users that it accepts"
        access = "give one of them access to it"
    return Cause(
        cause=f"the registry has no such image or tag, or hides it from {whom}: {facts.answer.image}",
        cures=(Cure(text=f"check the name and the tag in the pod; if they are right, {access}"),),
    )


@_cause_of(FailureKind.LAYER)
def _no_such_layer(facts: Facts, failure: PullFailure) -> Cause:
    where = f" at {_host(facts, failure)}" if failure.role is HostRole.STORE else ""
    text = "push the image again, with all its layers, or ask who runs the registry what became of them"
    return Cause(
        cause=f"the registry has {facts.answer.image}, and lacks a layer of it{where}: {failure.detail}",
        cures=(Cure(text=text),),
    )


@_cause_of(FailureKind.STORE)
def _store_refuses(facts: Facts, failure: PullFailure) -> Cause:
    host = _host(facts, failure)
    text = (
        "no credential helps: the registry let the node read the image. Check the clock of the node, and whether a "
        f"firewall, a proxy or a policy keeps the node from {host}; or ask who runs the registry"
    )
    return Cause(
        cause=f"{_party(facts, failure)} refuses a layer of the image: {failure.detail}",
        cures=(Cure(text=text),),
    )


@_cause_of(FailureKind.DNS)
def _unknown_host(facts: Facts, failure: PullFailure) -> Cause:
    host = _host(facts, failure)
    cause = f"the node cannot resolve {_party(facts, failure)}: {failure.detail}"
    if failure.role is HostRole.PROXY:
        return Cause(cause=cause, cures=(_proxy_cure(),))
    named = _named_in(facts, failure)
    text = "see whether the node resolves it"
    if named:
        text = f"check the name in {named}; if it is right, {text}"
    lines = _pasted(host, f"getent hosts {shlex.quote(_without_port(host))}")
    return Cause(cause=cause, cures=(Cure(text=f"{text}, there", lines=lines, short=text),))


@_cause_of(FailureKind.UNREACHABLE, FailureKind.TIMEOUT)
def _unreachable(facts: Facts, failure: PullFailure) -> Cause:
    host = _host(facts, failure)
    cause = f"the node cannot reach {_party(facts, failure)}: {failure.detail}"
    if failure.role is HostRole.PROXY:
        return Cause(cause=cause, cures=(_proxy_cure(", and whether the proxy runs"),))
    named = _named_in(facts, failure)
    text = "the network, the firewall and the proxy of the node"
    text = f"check the name and the port in {named}, then {text}" if named else f"check {text}"
    path = "/v2/" if named else "/"
    url = f"{'http' if failure.is_plain else 'https'}://{host}{path}"
    lines = _pasted(host, f"curl -sSIo /dev/null {shlex.quote(url)}")
    return Cause(cause=cause, cures=(Cure(text=f"{text}, there", lines=lines, short=text),))


@_cause_of(FailureKind.CANCELED)
def _given_up(facts: Facts, failure: PullFailure) -> Cause:
    text = "if it is given up again, see in the log of the container runtime why, on the node"
    cause = f"the container runtime or the kubelet gave up the pull, or was stopped: {failure.detail}"
    return Cause(cause=cause, cures=(wait_cure(facts), Cure(text=text, lines=(_RUNTIME_LOG,))))


@_cause_of(FailureKind.RUNTIME)
def _runtime(_: Facts, failure: PullFailure) -> Cause:
    cures = (Cure(text="see the log of the container runtime, on the node", lines=(_RUNTIME_LOG,)),)
    return Cause(cause=f"the container runtime itself fails: {failure.text}", cures=cures)


@_cause_of(FailureKind.AUTHORITY)
def _untrusted(facts: Facts, failure: PullFailure) -> Cause:
    entry, folder = _hosts_entry(facts, failure), f"{_HOSTS_DIR}/{facts.registry}"
    cause = f"the node does not trust the certificate of {_party(facts, failure)}: {failure.detail}"
    if failure.role is HostRole.PROXY:
        text = "add the authority's certificate to those of the node's system, then restart the container runtime"
        return Cause(cause=cause, cures=(Cure(text=text),))
    text = (
        f"on the node, save the authority's certificate as {folder}/ca.crt, and write this to {folder}/hosts.toml, "
        "or add it there; containerd reads it at the next pull, if its config_path is that folder"
    )
    short = f"let the node trust the authority of the certificate, by {folder}/hosts.toml"
    lines = _pasted(entry, f'[host."https://{entry}"]', f'  ca = "{folder}/ca.crt"')
    ask = Cure(text=f"ask who runs {_party(facts, failure)}")
    return Cause(cause=cause, cures=(Cure(text=text, lines=lines, short=short) if lines else ask,))


@_cause_of(FailureKind.CERTIFICATE)
def _bad_certificate(facts: Facts, failure: PullFailure) -> Cause:
    host = _host(facts, failure)
    cause = f"the node does not accept the certificate of {_party(facts, failure)}: {failure.detail}"
    named = _named_in(facts, failure)
    name = f"the name in {named}" if named else "its name"
    text = (
        f"compare the names and dates in the certificate with {name} and with the clock of the node; who runs "
        f"{_party(facts, failure)} can renew it"
    )
    address = shlex.quote(host if _without_port(host) != host else f"{host}:443")
    line = f"openssl s_client -connect {address} </dev/null | openssl x509 -noout -dates -ext subjectAltName"
    cure = Cure(text=f"{text}. On the node", lines=_pasted(host, line), short=text)
    return Cause(cause=cause, cures=(cure,))


@_cause_of(FailureKind.CLIENT_CERTIFICATE)
def _no_client_certificate(facts: Facts, failure: PullFailure) -> Cause:
    entry, folder = _hosts_entry(facts, failure), f"{_HOSTS_DIR}/{facts.registry}"
    party = _party(facts, failure)
    cause = f"{party} does not accept the node without a certificate of its own: {failure.detail}"
    if failure.role is HostRole.PROXY:
        return Cause(cause=cause, cures=(_proxy_cure(),))
    text = (
        f"on the node, save a certificate that {party} accepts and its key as {folder}/client.cert and "
        f"client.key, and write this to {folder}/hosts.toml, or add it there; containerd reads it at the next pull"
    )
    short = f"give the node a certificate that {party} accepts, in {folder}/hosts.toml"
    client = f'  client = [["{folder}/client.cert", "{folder}/client.key"]]'
    lines = _pasted(entry, f'[host."https://{entry}"]', client)
    ask = Cure(text=f"ask who runs {_party(facts, failure)}")
    return Cause(cause=cause, cures=(Cure(text=text, lines=lines, short=short) if lines else ask,))


@_cause_of(FailureKind.PROTOCOL)
def _other_protocol(facts: Facts, failure: PullFailure) -> Cause:
    host, folder = _host(facts, failure), f"{_HOSTS_DIR}/{facts.registry}"
    cause = f"the node and {_party(facts, failure)} do not speak the same protocol: {failure.detail}"
    if failure.role is HostRole.PROXY:
        return Cause(cause=cause, cures=(_proxy_cure(": its scheme and its port"),))
    lines = _pasted(host, f'[host."http://{host}"]')
    if failure.role in _OTHER_ROLES or not lines:
        return Cause(cause=cause, cures=(Cure(text=f"ask who runs {_party(facts, failure)}"),))
    text = (
        f"check the port of {host}; if it has no TLS and the network is trusted, write this to {folder}/hosts.toml "
        "on the node, or add it there"
    )
    short = f"check the port of {host}; if it has no TLS and the network is trusted, permit it in {folder}/hosts.toml"
    return Cause(cause=cause, cures=(Cure(text=text, lines=lines, short=short),))


@_cause_of(FailureKind.RATE_LIMIT)
def _rate_limit(facts: Facts, failure: PullFailure) -> Cause:
    cause = f"{_party(facts, failure)} limits the number of pulls, and the limit is reached: {failure.detail}"
    wait = wait_cure(facts)
    if facts.answer.credentials:
        return Cause(cause=cause, cures=(wait,))
    more = "; registries permit more pulls to a user of their own"
    wait = Cure(text=f"{wait.text}{more}", short=f"{wait.short}{more}")
    return Cause(cause=cause, cures=(wait, *new_secret(facts)))


@_cause_of(FailureKind.SERVER)
def _server(facts: Facts, failure: PullFailure) -> Cause:
    cures = (wait_cure(facts), Cure(text="or ask who runs the registry"))
    return Cause(cause=f"{_party(facts, failure)} itself fails: {failure.detail}", cures=cures)


@_cause_of(FailureKind.PLATFORM)
def _platform(_: Facts, failure: PullFailure) -> Cause:
    text = "build the image for it, or let the pod run on nodes that it is built for (nodeSelector)"
    return Cause(
        cause=f"the image is not built for the node's platform: {failure.detail}", cures=(Cure(text=text),)
    )


@_cause_of(FailureKind.DISK)
def _disk(facts: Facts, failure: PullFailure) -> Cause:
    where = f" {facts.node_name}" if facts.node_name else ""
    cures = (Cure(text="free space on the node", lines=("df -h",)),)
    return Cause(cause=f"the disk of node{where} is full: {failure.detail}", cures=cures)


@_cause_of(FailureKind.POLICY)
def _policy(_: Facts, failure: PullFailure) -> Cause:
    text = "sign the image, or ask who sets that policy on the node"
    return Cause(
        cause=f"a policy of the node's container runtime forbids the image: {failure.text}",
        cures=(Cure(text=text),),
    )


@_cause_of(FailureKind.NAME)
def _bad_name(_: Facts, failure: PullFailure) -> Cause:
    return Cause(
        cause=f"the name of the image is not valid: {failure.text}",
        cures=(Cure(text="correct it in the pod"),),
    )
