"""What must be on the disk before it counts is: seen by the calls that reach the system."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from keyferry.pulls.records.format import file_name
from support.images import digest_of
from support.records import IMAGE, REF, plant
from support.system_calls import build, steps_of

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="loads a library into programs as Linux does")

RECORD = f"image_manager/pulled/{file_name(REF)}"
INTENT = f"image_manager/pulling/{file_name(IMAGE)}"
BLOB = digest_of(b"blob").removeprefix("sha256:")
OPEN = """
from support.records import *
from keyferry.pulls.records.store import RecordFiles
files = RecordFiles(sys.argv[1])
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("library"))


def named(steps: list[str]) -> list[str]:
    """Steps with one name for all drafts, which have a part that nobody can guess."""
    return [re.sub(r"\S+(\.keyferry-[0-9a-f]+\.tmp|\.\d+\.[0-9a-f]+)\b", "DRAFT", step) for step in steps]


def written(path: str, folder: str) -> list[str]:
    return ["sync DRAFT", f"rename DRAFT {path}", f"sync {folder}"]


def test_a_record_is_on_the_disk_before_it_has_its_name_and_its_name_before_the_next_step(
    library: Path, tmp_path: Path
) -> None:
    """The file, then the name, then the folder; the same for an intent, and when it takes another's place.

    Before that, a new folder is: with it, all that is in it would be lost.
    """
    changes = 2 * "files.write_record(record())\n" + 2 * "files.write_intent(IMAGE)\n"
    steps = named(steps_of(library, tmp_path, f"{OPEN}files.prepare()\n{changes}"))
    assert steps == [
        *("sync .", "sync image_manager", "sync image_manager"),
        *2 * written(RECORD, RECORD.rpartition("/")[0]),
        *2 * written(INTENT, INTENT.rpartition("/")[0]),
    ]


def test_what_was_removed_does_not_come_back(library: Path, tmp_path: Path) -> None:
    """An intent that came back would have an image verified for ever; a record that did would let somebody in."""
    plant(tmp_path)
    (tmp_path / "image_manager" / "pulling").mkdir(exist_ok=True)
    steps = steps_of(library, tmp_path, f"{OPEN}files.delete_record(REF)\nfiles.delete_intent(IMAGE)")
    assert steps == [
        *(f"unlink {RECORD}", f"sync {RECORD.rpartition('/')[0]}"),
        *(f"unlink {INTENT}", f"sync {INTENT.rpartition('/')[0]}"),
    ]


def test_without_durability_nothing_waits_for_the_disk(library: Path, tmp_path: Path) -> None:
    """As the kubelet does it; and so it is seen that the calls above are keyferry's own."""
    code = """
from support.records import *
records = open_quickly(Path(sys.argv[1]))
records.record_intent(IMAGE)
records.record_pulled(IMAGE, REF, with_secrets(secret()))
"""
    steps = named(steps_of(library, tmp_path, code))
    assert steps == [f"rename DRAFT {INTENT}", f"rename DRAFT {RECORD}", f"unlink {INTENT}"]


LAYOUT = """
from keyferry.pulls.layout import IndexEntry, Layout
from keyferry.pulls.manifest import Platform
from support.images import digest_of
layout = Layout(sys.argv[1])
"""
ENTRY = (
    'IndexEntry(media_type="application/x", digest=digest_of(b"blob"), size=4, '
    'platform=Platform(os="linux", architecture="amd64"), image="reg.io/app:v1", tag="v1")'
)


def test_an_image_is_in_the_index_when_all_of_it_is_on_the_disk(library: Path, tmp_path: Path) -> None:
    """A blob, its folder, and only then the index."""
    code = LAYOUT + f'layout.prepare()\nlayout.put(b"blob", digest_of(b"blob"))\nlayout.add({ENTRY})'
    steps = named(steps_of(library, tmp_path, code))
    assert steps == [
        "sync .",
        *written("oci-layout", "."),
        *written("index.json", "."),
        "sync .",
        "sync blobs",
        *written(f"blobs/sha256/{BLOB}", "blobs/sha256"),
        "sync blobs/sha256",
        *written("index.json", "."),
    ]


PULL = """
from support.layouts import pull_to_layout
from support.fake_cloud import serving
from support.fake_registry import *
from support.images import build
with serving(FakeRegistry(build(b"blob"))) as server:
    pull_to_layout(f"127.0.0.1:{server.port}/{REPOSITORY}:{TAG}", sys.argv[1])
"""


def test_a_layer_is_on_the_disk_before_it_has_its_name(library: Path, tmp_path: Path) -> None:
    """Its draft is synced, then renamed; its folder before the index is."""
    steps = steps_of(library, tmp_path, PULL)
    adopted = [step for step in steps if step.startswith("rename .keyferry/sha256-")]
    assert len(adopted) == 2
    for step in adopted:
        _, draft, blob = step.split()
        assert draft.replace(".keyferry/sha256-", "blobs/sha256/") == blob
        assert steps.index(f"sync {draft}") < steps.index(step)
    last = max(map(steps.index, adopted))
    (entered,) = [at for at, step in enumerate(steps) if step.endswith(" index.json") and at > last]
    assert "sync blobs/sha256" in steps[last:entered]


PRIVATE = """
from keyferry.sdk.files import write_private
assert write_private(f"{sys.argv[1]}/cache", b"secret")
assert write_private(f"{sys.argv[1]}/a/b/cache", b"secret")
"""


def test_a_private_file_is_on_the_disk_before_it_has_its_name(library: Path, tmp_path: Path) -> None:
    """After a power cut the old secret is there or the new one, never an empty file; its folders come before it."""
    steps = named(steps_of(library, tmp_path, PRIVATE))
    assert steps == [*written("cache", "."), "sync .", "sync a", *written("a/b/cache", "a/b")]


INSTALL = """
from keyferry.kit.install import PLUGINS, install
install(PLUGINS["static"], sys.argv[1], "keyferry-static")
"""


def test_a_plugin_is_on_the_disk_before_it_has_its_name(library: Path, tmp_path: Path) -> None:
    """A kubelet that starts after a power cut finds all of it, or nothing."""
    steps = named(steps_of(library, tmp_path, INSTALL))
    assert steps == written("keyferry-static", ".")
