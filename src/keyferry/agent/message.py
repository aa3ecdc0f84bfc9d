"""Requests and replies on the agent's socket: HTTP/1.1 with JSON documents."""

import json
from http import HTTPStatus

from keyferry._core.values import NamedTuple
from keyferry._net.agent import API_VERSION
from keyferry.agent.access import Caller

__all__ = ["API_VERSION", "AgentReply", "AgentRequest", "encode_reply", "reply_document", "reply_status"]

_JSON = b"application/json"
_STATUS_LINES = {
    status.value: f"HTTP/1.1 {status.value} {status.phrase}\r\n".encode() for status in HTTPStatus
}


class AgentRequest(NamedTuple):
    """A whole request, and who sent it."""

    method: bytes
    path: bytes
    body: bytes
    caller: Caller
    traceparent: str
    is_kept_alive: bool


class AgentReply(NamedTuple):
    """The answer to a request; *retry_after_seconds* is given with a refusal that ends by itself."""

    status: int
    body: bytes
    content_type: bytes = _JSON
    retry_after_seconds: int = 0


def reply_document(kind: str, status: int = 200, /, **fields: object) -> AgentReply:
    """Return a document as a reply."""
    document = {"apiVersion": API_VERSION, "kind": kind, **fields}
    return AgentReply(status, json.dumps(document, separators=(",", ":")).encode())


def reply_status(status: int, reason: str, message: str, retry_after_seconds: int = 0) -> AgentReply:
    """Return a refusal; *reason* is one word for programs."""
    reply = reply_document("Status", status, reason=reason, message=message)
    return reply._replace(retry_after_seconds=retry_after_seconds)


def encode_reply(reply: AgentReply, *, is_kept_alive: bool, has_body: bool = True) -> bytes:
    """Return the bytes of a reply; without the body, whose length is told all the same, for HEAD."""
    more = b"" if is_kept_alive else b"connection: close\r\n"
    if reply.retry_after_seconds:
        more += b"retry-after: %d\r\n" % reply.retry_after_seconds
    return b"%bcontent-type: %b\r\ncontent-length: %d\r\n%b\r\n%b" % (
        _STATUS_LINES[reply.status],
        reply.content_type,
        len(reply.body),
        more,
        reply.body if has_body else b"",
    )
