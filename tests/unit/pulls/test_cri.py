"""A container runtime over its socket: the messages byte for byte, the client, and the target of pulls."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier
from typing import Any

import pytest

from keyferry.errors import ContainerRuntimeError, Kind
from keyferry.images.reference import parse_image
from keyferry.pulls import cri
from keyferry.pulls.cri import _MESSAGES, Runtime, RuntimeTarget, classify, message


def test_a_pull_request_is_written_as_the_interface_has_it() -> None:
    """Field numbers and types are the interface's: checked against bytes written by hand from its definition."""
    request = message("PullImageRequest")(
        image={"image": "r.io/a:v1", "annotations": {"k": "v"}}, auth={"username": "u", "password": "p"}
    )
    annotations = b"\x12\x06\x0a\x01k\x12\x01v"
    image = b"\x0a\x09r.io/a:v1" + annotations
    auth = b"\x0a\x01u\x12\x01p"
    expected = b"\x0a" + bytes([len(image)]) + image + b"\x12" + bytes([len(auth)]) + auth
    assert request.SerializeToString(deterministic=True) == expected


def test_an_answer_with_fields_of_a_later_version_is_read() -> None:
    """What is not known is passed over."""
    image = b"\x0a\x08sha256:a\x12\x06r:v1.0\x20\x2a\x40\x01" + b"\xfa\x06\x03new"
    answer = message("ListImagesResponse").FromString(b"\x0a" + bytes([len(image)]) + image)
    (found,) = answer.images
    assert (found.id, list(found.repo_tags), found.size, found.pinned) == ("sha256:a", ["r:v1.0"], 42, True)


def test_an_absent_image_is_told_from_an_empty_one() -> None:
    """A runtime says that it has no image by leaving the field out."""
    assert not message("ImageStatusResponse").FromString(b"").HasField("image")
    assert message("ImageStatusResponse").FromString(b"\x0a\x00").HasField("image")


@pytest.mark.parametrize("name", _MESSAGES)
def test_every_message_can_be_made(name: str) -> None:
    """The table describes messages that the library accepts, each with its fields."""
    assert {field.name for field in message(name).DESCRIPTOR.fields} == set(_MESSAGES[name])


def test_threads_that_are_the_first_to_need_messages_get_ones_that_go_together() -> None:
    """A message of one kind fits into another, whoever made them."""
    gate = Barrier(8)

    def make(_: int) -> object:
        gate.wait(20)
        return message("PullImageRequest")(image=message("ImageSpec")(image="x")).image.image

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(8) as pool:
            for _ in range(10):
                message.cache_clear()
                cri._pool.cache_clear()
                assert set(pool.map(make, range(8))) == {"x"}
    finally:
        sys.setswitchinterval(interval)


PULL = 'failed to pull and unpack image "R": failed to resolve reference "R": '


@pytest.mark.parametrize(
    ("code", "said", "kind"),
    [
        (
            "UNKNOWN",
            PULL + "pulling from host H failed with status code [manifests v1]: 401 Unauthorized",
            "refused",
        ),
        (
            "UNKNOWN",
            PULL + "pulling from host H failed with status code [manifests v1]: 403 Forbidden",
            "refused",
        ),
        (
            "UNKNOWN",
            PULL + "failed to authorize: failed to fetch oauth token: unexpected status: 401 Unauthorized",
            "refused",
        ),
        (
            "UNKNOWN",
            PULL
            + "pull access denied, repository does not exist or may require authorization: server message: "
            "insufficient_scope: authorization failed",
            "refused",
        ),
        ("UNKNOWN", "reading manifest v1 in H/a: unauthorized: authentication required", "refused"),
        ("UNKNOWN", "unable to retrieve auth token: invalid username/password: unauthorized", "refused"),
        ("UNKNOWN", "toomanyrequests: You have reached your pull rate limit", "throttled"),
        ("UNAUTHENTICATED", "who are you", "refused"),
        ("NOT_FOUND", PULL + "R: not found", "not-found"),
        ("UNKNOWN", "reading manifest nope in H/a: manifest unknown", "not-found"),
        (
            "UNKNOWN",
            PULL + 'failed to do request: Head "http://H/v2/": dial tcp H: connect: connection refused',
            "unreachable",
        ),
        ("UNKNOWN", PULL + "failed to do request: dial tcp: lookup r.io on x: no such host", "unreachable"),
        (
            "UNKNOWN",
            PULL
            + 'failed to do request: Head "https://H/v2/": http: server gave HTTP response to HTTPS client',
            "unreachable",
        ),
        (
            "UNKNOWN",
            PULL + "pulling from host H failed with status code [manifests v1]: 503 Service",
            "error",
        ),
        ("DEADLINE_EXCEEDED", "Deadline Exceeded", "timeout"),
        ("UNAVAILABLE", "failed to connect to all addresses", "unreachable"),
        ("UNKNOWN", "", "error"),
    ],
)
def test_a_failure_is_told_by_code_or_words(code: str, said: str, kind: str) -> None:
    """A refusal, a missing image and an unreachable registry are different answers."""
    assert classify(code, said) == kind


def test_the_error_has_kubernetes_words() -> None:
    """What the kubelet would log can be searched for."""
    error = ContainerRuntimeError("/run/c.sock", "DEADLINE_EXCEEDED", "too slow", Kind.TIMEOUT)
    assert error.kubernetes_text == "rpc error: code = DeadlineExceeded desc = too slow"
    assert str(error) == "container runtime: too slow"


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
