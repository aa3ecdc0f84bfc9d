"""Requests and replies on the agent's socket: HTTP/1.1 with JSON documents."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import NamedTuple

from keyferry._net.agent import API_VERSION
from keyferry.agent.access import Caller
from keyferry.agent.journal import RequestDecision

JSON = b"application/json"
_ENCODER = json.JSONEncoder(separators=(",", ":"))
_NO_HEADERS: Mapping[bytes, bytes] = {}
_STATUS_LINES = {
    status.value: f"HTTP/1.1 {status.value} {status.phrase}\r\n".encode() for status in HTTPStatus
}


class AgentRequest(NamedTuple):
    """A whole request, and who sent it; *headers* has those that are kept, by their names in lower case.

    *number* is its id in the log.
    """

    method: bytes
    path: bytes
    body: bytes
    caller: Caller
    traceparent: str = ""
    query: bytes = b""
    headers: Mapping[bytes, bytes] = _NO_HEADERS
    number: int = 0


class EventSink:
    """Where a reply without an end is written to."""

    def write(self, data: bytes) -> bool:
        """Send more; return False if the client does not read what was sent before."""
        raise NotImplementedError

    def close(self) -> None:
        """End the reply, after all that was sent."""
        raise NotImplementedError


class AgentReply(NamedTuple):
    """The answer to a request; *retry_after_seconds* is given with a refusal that ends by itself.

    *decision* returns what the journal says of it. *headers* are more lines of the head, each with its end. A reply
    with *follow* has no end of its own: it is called with the sink for what follows, and returns what to call when the
    client has gone.
    """

    status: int
    body: bytes
    content_type: bytes = JSON
    retry_after_seconds: int = 0
    decision: Callable[[], RequestDecision] | None = None
    headers: bytes = b""
    follow: Callable[[EventSink], Callable[[], None]] | None = None


def reply_document(kind: str, status: int = 200, /, **fields: object) -> AgentReply:
    """Return a document as a reply."""
    return AgentReply(
        status=status, body=encode_document({"apiVersion": API_VERSION, "kind": kind, **fields})
    )


def encode_document(document: object) -> bytes:
    """Return a document as the body of a reply."""
    return _ENCODER.encode(document).encode()


def reply_status(status: int, reason: str, message: str, retry_after_seconds: int = 0) -> AgentReply:
    """Return a refusal; *reason* is one word for programs."""
    reply = reply_document("Status", status, reason=reason, message=message)
    return reply._replace(retry_after_seconds=retry_after_seconds)


def encode_reply(reply: AgentReply, *, is_kept_alive: bool, has_body: bool = True) -> bytes:
    """Return the bytes of a reply; without the body, whose length is told all the same, for HEAD."""
    more = reply.headers if is_kept_alive else reply.headers + b"connection: close\r\n"
    if reply.retry_after_seconds:
        more += b"retry-after: %d\r\n" % reply.retry_after_seconds
    return b"%bcontent-type: %b\r\ncontent-length: %d\r\n%b\r\n%b" % (
        _STATUS_LINES[reply.status],
        reply.content_type,
        len(reply.body),
        more,
        reply.body if has_body else b"",
    )


def encode_stream_head(reply: AgentReply) -> bytes:
    """Return the head of a reply that ends with its connection."""
    return b"%bcontent-type: %b\r\n%bconnection: close\r\n\r\n" % (
        _STATUS_LINES[reply.status],
        reply.content_type,
        reply.headers,
    )
