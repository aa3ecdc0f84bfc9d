"""A server for the container runtime interface on a real socket, which records every request.

Messages are encoded and decoded by the field numbers of the interface's own definition, so that the client's table
is not checked against itself.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import grpc

IMAGE_SERVICE, RUNTIME_SERVICE = "/runtime.v1.ImageService/", "/runtime.v1.RuntimeService/"
# A field is its number and a number, text, bytes or a message.
Field = tuple[int, "int | str | bytes | Sequence[Field]"]
Message = dict[int, list[Any]]
_VARINT, _BYTES, _LOW_BITS, _MORE = 0, 2, 0x7F, 0x80


def encode(*fields: Field) -> bytes:
    """Return a message in protobuf's encoding."""
    parts = []
    for number, value in fields:
        if isinstance(value, int):
            parts.append(_varint(number << 3 | _VARINT) + _varint(value))
            continue
        data = value.encode() if isinstance(value, str) else value
        data = data if isinstance(data, bytes) else encode(*data)
        parts.append(_varint(number << 3 | _BYTES) + _varint(len(data)) + data)
    return b"".join(parts)


def decode(data: bytes) -> Message:
    """Return the fields of a message by number: numbers, and bytes for everything else."""
    found: Message = {}
    at = 0
    while at < len(data):
        key, at = _read_varint(data, at)
        number, at = _read_varint(data, at)
        if key & 7 == _BYTES:
            found.setdefault(key >> 3, []).append(data[at : at + number])
            at += number
        else:
            assert key & 7 == _VARINT
            found.setdefault(key >> 3, []).append(number)
    assert at == len(data)
    return found


def _varint(number: int) -> bytes:
    parts = bytearray()
    while number > _LOW_BITS:
        parts.append(number & _LOW_BITS | _MORE)
        number >>= 7
    return bytes((*parts, number))


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    number = shift = 0
    while True:
        number |= (data[at] & _LOW_BITS) << shift
        shift, at = shift + 7, at + 1
        if not data[at - 1] & _MORE:
            return number, at


def image(ref: str, *tags: str, digests: Sequence[str] = (), size: int = 7) -> Field:
    """Return an image as an entry of a list."""
    fields: list[Field] = [(1, ref), *((2, tag) for tag in tags), *((3, each) for each in digests), (4, size)]
    return 1, fields


class RefusalError(Exception):
    """Raised by a handler to answer with a status instead of a message."""

    def __init__(self, code: grpc.StatusCode, details: str = "") -> None:
        super().__init__(code, details)
        self.code = code
        self.details = details


Handler = Callable[[Message], bytes]


class CriServer:
    """A server that answers calls by functions of their messages, and fails calls without a function."""

    def __init__(self, folder: str, handlers: dict[str, Handler]) -> None:
        self.socket = f"{folder}/cri.sock"
        self.received: list[tuple[str, Message]] = []
        self.seconds_left: list[float] = []
        self._handlers = handlers
        # Threads that do not outlive the test, whatever they wait for.
        self._server = grpc.server(ThreadPoolExecutor(4), handlers=[_Generic(self)])
        self._server.add_insecure_port(f"unix:{self.socket}")
        self._server.start()

    @property
    def address(self) -> str:
        """The value for ``--cri``."""
        return f"unix://{self.socket}"

    def stop(self) -> None:
        """Stop immediately, calls in progress included."""
        self._server.stop(None).wait()

    def answer(self, method: str, data: bytes, context: grpc.ServicerContext) -> bytes:
        """Answer one call."""
        self.seconds_left.append(context.time_remaining() or 0.0)
        message = decode(data)
        self.received.append((method, message))
        handler = self._handlers.get(method)
        try:
            if handler is None:
                raise RefusalError(grpc.StatusCode.UNIMPLEMENTED, f"unknown method {method}")
            return handler(message)
        except RefusalError as refusal:
            context.abort(refusal.code, refusal.details)


class _Generic(grpc.GenericRpcHandler):
    def __init__(self, server: CriServer) -> None:
        self._server = server

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler[bytes, bytes]:
        method = handler_call_details.method
        return grpc.unary_unary_rpc_method_handler(
            lambda data, context: self._server.answer(method, data, context)
        )


@contextmanager
def running_cri(**handlers: Handler) -> Iterator[CriServer]:
    """Yield a server for the length of a block, with handlers by the names of their methods."""
    # Not below pytest's folder: the path of a socket has room for a hundred characters.
    folder = tempfile.mkdtemp(prefix="kf-cri-")
    services = {"Version": RUNTIME_SERVICE}
    server = CriServer(
        folder, {services.get(name, IMAGE_SERVICE) + name: handler for name, handler in handlers.items()}
    )
    try:
        yield server
    finally:
        server.stop()
        shutil.rmtree(folder)
