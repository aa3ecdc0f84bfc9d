"""Which image of the node a pod's image is."""

from __future__ import annotations

import pytest

from keyferry.errors import EnvironmentProblem
from keyferry.pulls.records.access import NodeImages, parse_crictl_images
from support.records import Present, record

LIST = (
    b'{"images":[{"id":"sha256:1","repoTags":["docker.io/library/busybox:1"],"repoDigests":[],"size":"5"}]}'
)
DIGEST = "sha256:" + "0" * 64


def test_the_runtimes_names_are_in_full_and_a_pods_need_not_be() -> None:
    """A short name finds the image by what it means, tag included."""
    images = NodeImages([], parse_crictl_images(LIST, "f"))
    assert images.find("busybox:1") == "sha256:1"
    assert images.find("busybox") == ""
    assert images.find("sha256:1") == "sha256:1"


def test_a_digest_decides_whatever_the_tag() -> None:
    """With a digest the tag before it says nothing."""
    images = NodeImages([], [Present(id="id", tags=(), digests=(f"reg.example/x@{DIGEST}",))])
    assert images.find(f"reg.example/x:9@{DIGEST}") == "id"


def test_without_a_list_the_latest_record_counts() -> None:
    """Records know names without tags, so the one changed last is taken."""
    assert NodeImages([record("a"), record("b")]).find("reg.example/team/app:v7") == "b"


@pytest.mark.parametrize(
    "data", [b"", b"[]", b'{"images":{}}', b'{"images":[{}]}', b'{"images":[{"id":"a","repoTags":[1]}]}']
)
def test_another_document_is_refused(data: bytes) -> None:
    """What crictl would not print is an error that says what is expected."""
    with pytest.raises(EnvironmentProblem, match=r"^f: "):
        parse_crictl_images(data, "f")
