"""The messages of the container runtime interface, byte for byte."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest

from keyferry.pulls import cri
from keyferry.pulls.cri import _MESSAGES, message


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
