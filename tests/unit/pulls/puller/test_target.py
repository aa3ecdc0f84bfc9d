"""A container runtime as a place to pull to: messages that threads share, and answers that say nothing."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from keyferry.errors import ContainerRuntimeError
from keyferry.images.reference import parse_image
from keyferry.pulls.cri import Runtime, RuntimeTarget, message


def test_a_runtime_that_gives_no_reference_has_not_pulled(tmp_path: Path) -> None:
    """There is nothing that a record could be kept under."""
    with serving_cri(tmp_path / "c.sock", PullImage=message("PullImageResponse")()) as runtime:
        target = RuntimeTarget(runtime)
        assert target.place == f"unix://{tmp_path}/c.sock"
        with pytest.raises(ContainerRuntimeError, match='imageRef of image "a:1" is not set'):
            target.pull_image(parse_image("a:1"), None)
        target.close()


class serving_cri:  # noqa: N801 - used as a block
    """A runtime that gives one answer to each call, and checks what it is sent."""

    def __init__(self, socket: Path, **answers: Any) -> None:
        import grpc

        self._socket = str(socket)
        self._server = grpc.server(ThreadPoolExecutor(2))
        handlers = {name: _handler(name, answer) for name, answer in answers.items()}
        service = grpc.method_handlers_generic_handler("runtime.v1.ImageService", handlers)
        self._server.add_generic_rpc_handlers((service,))
        assert self._server.add_insecure_port(f"unix:{socket}")

    def __enter__(self) -> Runtime:
        self._server.start()
        return Runtime(self._socket, timeout_seconds=20)

    def __exit__(self, *_: object) -> None:
        self._server.stop(None).wait()


def _handler(name: str, answer: Any) -> Any:
    import grpc

    def respond(request: Any, _: object) -> Any:
        assert request.image.image
        return answer

    return grpc.unary_unary_rpc_method_handler(
        respond,
        request_deserializer=message(f"{name}Request").FromString,
        response_serializer=type(answer).SerializeToString,
    )
