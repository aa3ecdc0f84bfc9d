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
PREPARE = OPEN + "files.prepare()\n"


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("library"))


def named(steps: list[str]) -> list[str]:
    """Steps with one name for all drafts, which have a part that nobody can guess."""
    return [re.sub(r"\S+(\.keyferry-[0-9a-f]+\.tmp|\.\d+\.[0-9a-f]+)\b", "DRAFT", step) for step in steps]


def written(path: str, folder: str) -> list[str]:
    return ["sync DRAFT", f"rename DRAFT {path}", f"sync {folder}"]


def test_a_new_folder_is_on_the_disk_before_anything_is_put_into_it(library: Path, tmp_path: Path) -> None:
    """With a folder, all that is in it would be lost."""
    steps = steps_of(library, tmp_path, PREPARE)
    assert steps == ["sync .", "sync image_manager", "sync image_manager"]


@pytest.mark.parametrize(
    ("change", "path"),
    [("files.write_record(record())", RECORD), ("files.write_intent(IMAGE)", INTENT)],
    ids=["record", "intent"],
)
def test_a_record_is_on_the_disk_before_it_has_its_name_and_its_name_before_the_next_step(
    library: Path, tmp_path: Path, change: str, path: str
) -> None:
    """The file, then the name, then the folder; the same when it takes another's place."""
    steps_of(library, tmp_path, PREPARE)
    (tmp_path.parent / f"{tmp_path.name}.steps").unlink()
    steps = named(steps_of(library, tmp_path, OPEN + change + "\n" + change))
    assert steps == 2 * written(path, path.rpartition("/")[0])


@pytest.mark.parametrize(
    ("change", "path"),
    [("files.delete_record(REF)", RECORD), ("files.delete_intent(IMAGE)", INTENT)],
    ids=["record", "intent"],
)
def test_what_was_removed_does_not_come_back(library: Path, tmp_path: Path, change: str, path: str) -> None:
    """An intent that came back would have an image verified for ever; a record that did would let somebody in."""
    plant(tmp_path)
    (tmp_path / "image_manager" / "pulling").mkdir(exist_ok=True)
    steps = steps_of(library, tmp_path, OPEN + change)
    assert steps == [f"unlink {path}", f"sync {path.rpartition('/')[0]}"]


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
"""


def test_a_private_file_is_on_the_disk_before_it_has_its_name(library: Path, tmp_path: Path) -> None:
    """After a power cut the old secret is there or the new one, never an empty file."""
    steps = named(steps_of(library, tmp_path, PRIVATE))
    assert steps == written("cache", ".")


INSTALL = """
from keyferry.kit.install import PLUGINS, install
install(PLUGINS["static"], sys.argv[1], "keyferry-static")
"""


def test_a_plugin_is_on_the_disk_before_it_has_its_name(library: Path, tmp_path: Path) -> None:
    """A kubelet that starts after a power cut finds all of it, or nothing."""
    steps = named(steps_of(library, tmp_path, INSTALL))
    assert steps == written("keyferry-static", ".")


def test_folders_for_a_private_file_are_on_the_disk_before_it(library: Path, tmp_path: Path) -> None:
    """Each of them, from the outside in."""
    steps = named(steps_of(library, tmp_path, PRIVATE.replace("/cache", "/a/b/cache")))
    assert steps == ["sync .", "sync a", *written("a/b/cache", "a/b")]
