"""Failed pulls that no credential is to blame for: one function per kind of failure, with its sentence and cures."""

from __future__ import annotations

from collections.abc import Callable

from keyferry._core.values import Value
from keyferry.explain.explanation import Cure
from keyferry.explain.facts import Facts
from keyferry.explain.secret_cures import new_secret
from keyferry.explain.wording import registry, wait_cure, who
from keyferry.pulls.failure_text import FailureKind, PullFailure
from keyferry.show.paste import quote_word

__all__ = ["OtherCause", "find_other_cause"]

# Where containerd reads how to reach a registry, if its config_path is this folder, as most nodes have it.
_HOSTS_DIR = "/etc/containerd/certs.d"


class OtherCause(Value):
    """Why a pull fails, and what cures it."""

    cause: str
    cures: tuple[Cure, ...] = ()


_Tell = Callable[[Facts, PullFailure], OtherCause]
_BY_KIND: dict[FailureKind, _Tell] = {}


def find_other_cause(facts: Facts) -> OtherCause | None:
    """Return why the last attempt failed, if no credential is to blame for it."""
    failure = facts.evidence.last_attempt.failure
    tell = None if failure is None else _BY_KIND.get(failure.kind)
    return None if failure is None or tell is None else tell(facts, failure)


def _of(*kinds: FailureKind) -> Callable[[_Tell], _Tell]:
    """Return a decorator that enters a function for failures of *kinds*."""

    def enter(tell: _Tell) -> _Tell:
        _BY_KIND.update(dict.fromkeys(kinds, tell))
        return tell

    return enter


def _host(facts: Facts, failure: PullFailure) -> str:
    return failure.host or registry(facts)


@_of(FailureKind.NOT_FOUND)
def _no_such_image(facts: Facts, _: PullFailure) -> OtherCause:
    users = " and ".join(who(each) for each in facts.answer.credentials)
    whom = users or "users without access"
    access = f"give {users} access to it" if users else "give the pod a credential that may read it"
    return OtherCause(
        f"the registry has no such image or tag, or hides it from {whom}: {facts.answer.image}",
        (Cure(f"check the name and the tag in the pod; if they are right, {access}"),),
    )


@_of(FailureKind.DNS)
def _unknown_host(facts: Facts, failure: PullFailure) -> OtherCause:
    host = _host(facts, failure)
    line = f"getent hosts {quote_word(host.partition(':')[0])}"
    return OtherCause(
        f"the node cannot resolve {host}: {failure.detail}",
        (
            Cure(
                "check the name in the pod; if it is right, see whether the node resolves it, there", (line,)
            ),
        ),
    )


@_of(FailureKind.UNREACHABLE, FailureKind.TIMEOUT)
def _unreachable(facts: Facts, failure: PullFailure) -> OtherCause:
    host = _host(facts, failure)
    text = "check the name and the port in the pod, then the network, the firewall and the proxy of the node, there"
    line = f"curl -sSIo /dev/null {quote_word(f'https://{host}/v2/')}"
    return OtherCause(f"the node cannot reach {host}: {failure.detail}", (Cure(text, (line,)),))


@_of(FailureKind.CERTIFICATE)
def _untrusted(facts: Facts, failure: PullFailure) -> OtherCause:
    host, folder = _host(facts, failure), f"{_HOSTS_DIR}/{registry(facts)}"
    text = (
        f"on the node, save the authority's certificate as {folder}/ca.crt, and write this to {folder}/hosts.toml, "
        "or add it there; containerd reads it at the next pull"
    )
    lines = (f'[host."https://{host}"]', f'  ca = "{folder}/ca.crt"')
    return OtherCause(
        f"the node does not trust the certificate of {host}: {failure.detail}", (Cure(text, lines),)
    )


@_of(FailureKind.PROTOCOL)
def _other_protocol(facts: Facts, failure: PullFailure) -> OtherCause:
    host, folder = _host(facts, failure), f"{_HOSTS_DIR}/{registry(facts)}"
    text = (
        f"check the port of {host}; if it has no TLS and the network is trusted, write this to {folder}/hosts.toml "
        "on the node, or add it there"
    )
    cures = (Cure(text, (f'[host."http://{host}"]',)),)
    return OtherCause(f"the node and {host} do not speak the same protocol: {failure.detail}", cures)


@_of(FailureKind.RATE_LIMIT)
def _rate_limit(facts: Facts, failure: PullFailure) -> OtherCause:
    cause = f"{_host(facts, failure)} limits the number of pulls, and the limit is reached: {failure.detail}"
    wait = wait_cure(facts)
    if facts.answer.credentials:
        return OtherCause(cause, (wait,))
    more = Cure(f"{wait.text}; registries permit more pulls to a user of their own")
    return OtherCause(cause, (more, *new_secret(facts)))


@_of(FailureKind.SERVER)
def _server(facts: Facts, failure: PullFailure) -> OtherCause:
    cures = (wait_cure(facts), Cure("or ask who runs the registry"))
    return OtherCause(f"{_host(facts, failure)} itself fails: {failure.detail}", cures)


@_of(FailureKind.PLATFORM)
def _platform(_: Facts, failure: PullFailure) -> OtherCause:
    text = "build the image for it, or let the pod run on nodes that it is built for (nodeSelector)"
    return OtherCause(f"the image is not built for the node's platform: {failure.detail}", (Cure(text),))


@_of(FailureKind.DISK)
def _disk(facts: Facts, failure: PullFailure) -> OtherCause:
    where = f" {facts.node_name}" if facts.node_name else ""
    cures = (Cure("free space on the node", ("df -h",)),)
    return OtherCause(f"the disk of node{where} is full: {failure.detail}", cures)


@_of(FailureKind.POLICY)
def _policy(_: Facts, failure: PullFailure) -> OtherCause:
    text = "sign the image, or ask who sets that policy on the node"
    return OtherCause(
        f"a policy of the node's container runtime forbids the image: {failure.text}", (Cure(text),)
    )


@_of(FailureKind.NAME)
def _bad_name(_: Facts, failure: PullFailure) -> OtherCause:
    return OtherCause(f"the name of the image is not valid: {failure.text}", (Cure("correct it in the pod"),))
