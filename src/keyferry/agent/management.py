"""A client for people and for a successor: status, reload and hand-over, by one request on the agent's socket."""

from __future__ import annotations

import os
import re
import shlex

from keyferry._net.agent import ROOT, Fallback, SocketReply, ask_agent
from keyferry._net.listen_address import ListenAddress, parse_listen_address
from keyferry.errors import EnvironmentProblem

__all__ = [
    "AgentAbsentError",
    "AgentUnavailableError",
    "PredecessorPorts",
    "ask_for_document",
    "ask_for_page_link",
]

# People wait for an agent that is busy, or that loads its config anew.
_CONNECT_SECONDS = 5.0
_ANSWER_SECONDS = 70.0
# A successor does not wait for an agent that is stuck.
_STATUS_SECONDS = 5.0
# The whole cache, for a successor.
_MAX_BYTES = 32 * 1024 * 1024
# A refused config is an answer: the document has its problems.
_ANSWERS = (200, 422)


class AgentUnavailableError(EnvironmentProblem):
    """There is no agent at the socket, or it did not give the answer."""


class AgentAbsentError(AgentUnavailableError):
    """Nobody listens at the socket; the socket of an agent that was killed may be there."""


def ask_for_document(
    path: str,
    method: str,
    target: str,
    *,
    owner: int | None = None,
    only_uid: int | None = None,
    answer_seconds: float = _ANSWER_SECONDS,
) -> dict[str, object]:
    """Send one request without a body and return the document of the answer; raise AgentUnavailableError.

    With *only_uid*, nothing is sent unless this user listens. Who owns the socket does not matter unless *owner* is
    given, as in ``ask_agent``: the agent may have a user of its own, and nothing secret is sent.
    """
    reply = ask_agent(
        os.path.abspath(path),
        target,
        owner=owner,
        only_uid=only_uid,
        connect_seconds=_CONNECT_SECONDS,
        answer_seconds=answer_seconds,
        max_bytes=_MAX_BYTES,
        method=method,
    )
    if not isinstance(reply, Fallback):
        return _document(path, reply)
    if reply.is_unattended:
        raise AgentAbsentError(f"{path}: no agent listens here; start one with '{_start_command(path)}'")
    raise AgentUnavailableError(f"{path}: {reply.message}")


def ask_for_page_link(path: str, *, is_opened: bool = False) -> tuple[str, str]:
    """Return a link to the agent's page, and until when it works; raise AgentUnavailableError.

    A link that *is_opened* in a browser is taken from a socket of root or of this user alone.
    """
    document = ask_for_document(path, "POST", "/v1/page", owner=ROOT if is_opened else None)
    url = str(document.get("url"))
    found = re.fullmatch(r"http://([\w.:[\]]+)/[\w/?=&-]*", url, re.ASCII)
    address = parse_listen_address(found[1]) if found is not None else None
    if address is None or not address.is_loopback or not address.port:
        raise AgentUnavailableError(f"{path}: the answer is no link to a page on this machine")
    return url, str(document.get("expiresAt"))


def _start_command(path: str) -> str:

    from keyferry.agent.settings import socket_options

    return shlex.join(("keyferry", "agent", "run", *socket_options(path, os.environ)))


def _document(path: str, reply: SocketReply) -> dict[str, object]:
    document = reply.read_object()
    if not document:
        raise AgentUnavailableError(f"{path}: the answer is no document of an agent")
    if reply.status not in _ANSWERS:
        raise AgentUnavailableError(f"{path}: the agent refuses: {document.get('message', reply.status)}")
    return document


class PredecessorPorts:
    """The TCP ports of the agent whose place this process takes; only these may be shared for a while."""

    def __init__(self) -> None:
        self._ports: frozenset[int] | None = frozenset()

    def find(self, path: str) -> None:
        """Ask the agent that listens at *path*, if there is one."""
        uid = os.geteuid()
        try:
            document = ask_for_document(
                path, "GET", "/v1/status", only_uid=uid, answer_seconds=_STATUS_SECONDS
            )
        except AgentAbsentError:
            return
        except AgentUnavailableError:
            self._ports = None  # it does not tell: its place is taken all the same
            return
        # An address, and the URL of the page.
        texts = (str(document.get(name) or "").rstrip("/") for name in ("metrics", "page"))
        ports = (text.rpartition(":")[2] for text in texts)
        self._ports = frozenset(int(port) for port in ports if port.isdecimal())

    def __contains__(self, address: object) -> bool:
        return isinstance(address, ListenAddress) and (self._ports is None or address.port in self._ports)
