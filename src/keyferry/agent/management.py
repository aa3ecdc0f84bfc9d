"""A client for people and for a successor: status, reload and hand-over, by one request on the agent's socket."""

import json
import socket

from keyferry._core.gotext import go_strerror
from keyferry._net.errors import NetworkError
from keyferry._net.messages import Incoming, encode_request_head
from keyferry.agent.sockets import peer_of
from keyferry.errors import EnvironmentProblem

__all__ = ["AgentAbsentError", "AgentUnavailableError", "ask_agent"]

_CONNECT_SECONDS = 5.0
_ANSWER_SECONDS = 70.0
_MOST_BYTES = 32 * 1024 * 1024
_PIECE = 1 << 16
# A refused config is an answer: the document has its problems.
_ANSWERS = (200, 422)


class AgentUnavailableError(EnvironmentProblem):
    """There is no agent at the socket, or it did not give the answer."""


class AgentAbsentError(AgentUnavailableError):
    """Nobody listens at the socket; the socket of an agent that was killed may be there."""


def ask_agent(path: str, method: str, target: str, *, only_uid: int | None = None) -> dict[str, object]:
    """Send one request without a body and return the document of the answer; raise AgentUnavailableError.

    With *only_uid*, nothing is sent unless this user listens.
    """
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connected:
            connected.settimeout(_CONNECT_SECONDS)
            connected.connect(path)
            if only_uid is not None and peer_of(connected).uid != only_uid:
                raise AgentUnavailableError(f"{path}: another user than {only_uid} listens here")
            connected.settimeout(_ANSWER_SECONDS)
            headers = [("host", "agent"), ("connection", "close"), ("content-length", "0")]
            connected.sendall(encode_request_head(method, target, headers))
            status, body = _read(connected, method)
    except (FileNotFoundError, NotADirectoryError, ConnectionRefusedError):
        raise AgentAbsentError(
            f"{path}: no agent listens here; start one with 'keyferry agent run'"
        ) from None
    except OSError as error:
        raise AgentUnavailableError(f"{path}: the agent does not answer: {go_strerror(error)}") from None
    except NetworkError as error:
        raise AgentUnavailableError(f"{path}: {error}") from None
    return _document(path, status, body)


def _read(connected: socket.socket, method: str) -> tuple[int, bytes]:
    incoming = Incoming(lambda: connected.recv(_PIECE))
    head = incoming.read_head()
    body = bytearray()
    for piece in incoming.read_body(head, method):
        body += piece
        if len(body) > _MOST_BYTES:
            raise OSError("the answer is too long")
    return head.status, bytes(body)


def _document(path: str, status: int, body: bytes) -> dict[str, object]:
    try:
        document = json.loads(body)
    except ValueError:
        document = None
    if not isinstance(document, dict):
        raise AgentUnavailableError(f"{path}: the answer is not a JSON object")
    if status not in _ANSWERS:
        raise AgentUnavailableError(f"{path}: the agent refuses: {document.get('message', status)}")
    return document
