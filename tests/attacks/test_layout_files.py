"""What somebody prepared below ``--to DIR``: links, hard links, pipes and folders of their own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from keyferry.errors import EnvironmentProblem, ImagePullError
from keyferry.pulls.layout import Layout
from keyferry.pulls.layout_target import LayoutTarget
from keyferry.pulls.request import PullOutcome
from support.fake_cloud import FakeServer, Reply, serving
from support.fake_registry import FakeRegistry, blob_path, image_of
from support.folders import contents
from support.images import build, digest_of
from support.layouts import pull_to_layout
from support.parts import root as as_root

IMAGE = build(b"content of the only layer")
_, LAYER = IMAGE.blobs.values()
DRAFT = digest_of(LAYER).replace(":", "-")
NOBODY = 65534
_PUTS = 300


@pytest.fixture(scope="module")
def registry() -> Iterator[FakeServer]:
    with serving(FakeRegistry(IMAGE)) as server:
        yield server


def pull(server: FakeServer, folder: Path) -> PullOutcome:
    return pull_to_layout(image_of(server), folder)


def make_victim(root: Path) -> Path:
    """A folder of ours with a file in it, which is nobody's business."""
    victim = root / "victim"
    (victim / "sha256").mkdir(parents=True)
    (victim / "precious").write_bytes(b"keep me")
    victim.chmod(0o751)
    return victim


@pytest.mark.parametrize("name", [".keyferry", "blobs", "blobs/sha256"])
@pytest.mark.parametrize("when", ["before", "between"])
def test_a_link_in_the_place_of_a_folder_is_not_followed(
    tmp_path: Path, registry: FakeServer, name: str, when: str
) -> None:
    """Neither in a new folder nor in a layout that has images: nothing comes to be where it leads."""
    victim, folder = make_victim(tmp_path), tmp_path / "layout"
    if when == "between":
        pull(registry, folder)
        (folder / name).rename(tmp_path / "moved")
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    (folder / name).symlink_to(victim)
    before = contents(victim)
    with pytest.raises(EnvironmentProblem, match="is a symbolic link, which is not followed") as caught:
        pull(registry, folder)
    assert str(caught.value).startswith(f"{folder / name}: ")
    assert contents(victim) == before


@pytest.mark.parametrize("name", ["blobs", "blobs/sha256"])
def test_what_is_there_is_not_looked_for_behind_a_link(
    tmp_path: Path, registry: FakeServer, name: str
) -> None:
    """An image whose blobs are somewhere else is not in the layout."""
    folder = tmp_path / "layout"
    pull(registry, folder)
    (folder / name).rename(tmp_path / "moved")
    (folder / name).symlink_to(tmp_path / "moved")
    with pytest.raises(EnvironmentProblem, match="is a symbolic link"):
        LayoutTarget(folder).find_image(image_of(registry))


FILES = ["index.json", "oci-layout", ".keyferry/lock", f".keyferry/{DRAFT}"]


@pytest.mark.parametrize("kind", ["symbolic link", "dangling link", "hard link", "pipe"])
@pytest.mark.parametrize("name", FILES)
def test_what_is_no_file_of_the_layout_is_not_written_through(
    tmp_path: Path, registry: FakeServer, name: str, kind: str
) -> None:
    """The file that another name leads to stays as it is; where it would be written in place, that is an error."""
    victim, folder = make_victim(tmp_path), tmp_path / "layout"
    pull(registry, folder)
    precious = victim / ("new" if kind == "dangling link" else "precious")
    for path in (folder / name, folder / "blobs" / "sha256" / digest_of(LAYER).removeprefix("sha256:")):
        path.unlink(missing_ok=True)
    if kind == "hard link":
        os.link(precious, folder / name)
    elif kind == "pipe":
        os.mkfifo(folder / name)
    else:
        (folder / name).symlink_to(precious)
    before = contents(victim)
    with pytest.raises((EnvironmentProblem, ImagePullError)):
        pull(registry, folder)
    assert contents(victim) == before


def test_a_folder_that_is_a_link_is_followed(tmp_path: Path, registry: FakeServer) -> None:
    """It is what the user named."""
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    assert pull(registry, tmp_path / "link").manifest_digest == IMAGE.digest
    assert (tmp_path / "real" / "index.json").exists()


@as_root
@pytest.mark.parametrize("name", [".keyferry", "blobs", "blobs/sha256"])
def test_a_folder_of_a_stranger_is_not_used(tmp_path: Path, registry: FakeServer, name: str) -> None:
    """Its owner could exchange whatever is put into it."""
    folder = tmp_path / "layout"
    (folder / name).mkdir(parents=True)
    os.chown(folder / name, NOBODY, NOBODY)
    with pytest.raises(EnvironmentProblem, match="belongs to user 65534, expected user 0") as caught:
        pull(registry, folder)
    assert str(caught.value).startswith(f"{folder / name}: ")
    assert list((folder / name).iterdir()) == []


@as_root
def test_a_draft_of_a_stranger_is_not_taken_up(tmp_path: Path, registry: FakeServer) -> None:
    """He may still have it open, and write to it when it has been verified."""
    folder = tmp_path / "layout"
    (folder / ".keyferry").mkdir(parents=True)
    (folder / ".keyferry" / DRAFT).write_bytes(LAYER[:5])
    os.chown(folder / ".keyferry" / DRAFT, NOBODY, NOBODY)
    with pytest.raises(EnvironmentProblem, match="belongs to user 65534"):
        pull(registry, folder)


@as_root
def test_folders_of_the_one_who_owns_the_layout_are_used(tmp_path: Path, registry: FakeServer) -> None:
    """A mounted folder in a container, or ``sudo keyferry pull --to ~/x``."""
    folder = tmp_path / "layout"
    (folder / "blobs" / "sha256").mkdir(parents=True)
    (folder / ".keyferry").mkdir()
    for path in (folder, *folder.rglob("*")):
        os.chown(path, NOBODY, NOBODY)
    assert pull(registry, folder).manifest_digest == IMAGE.digest
    assert LayoutTarget(folder).find_image(image_of(registry)) is not None


def start_as_nobody(code: str, folder: Path, *words: str) -> subprocess.Popen[bytes]:
    """Start Python in a folder, and there become another user, who need not be able to come so far by himself."""
    folder.chmod(0o711)
    become = "\nimport os\nos.setgid(65534)\nos.setuid(65534)\n"
    setup = f"import sys; sys.path[:0] = {sys.path!r}\nimport fcntl, keyferry.pulls.layout" + become
    return subprocess.Popen(
        [sys.executable, "-c", setup + code, *words],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


AS_USER = """
layout = keyferry.pulls.layout.Layout("layout")
layout.prepare()
layout.put(b"blob", sys.argv[1])
print(layout.read(sys.argv[1]).decode())
"""


@as_root
def test_a_user_may_use_a_layout_that_root_made_in_his_folder(tmp_path: Path) -> None:
    """What belongs to root was made by somebody who can do everything anyway."""
    folder = tmp_path / "layout"
    Layout(str(folder)).prepare()
    (folder / "blobs").mkdir()
    for path in (folder, folder / ".keyferry" / "lock"):
        os.chown(path, NOBODY, NOBODY)
    for path in (folder / "blobs", folder / ".keyferry"):
        path.chmod(0o777)
    with start_as_nobody(AS_USER, tmp_path, digest_of(b"blob")) as process:
        assert process.communicate(timeout=60) == (b"blob\n", b"")


SWAP = """
from time import sleep
print("ready", flush=True)
number = 0
while True:
    number += 1
    try:
        os.rename("layout/blobs", f"layout/aside-{number}")
        os.symlink(sys.argv[1], "layout/blobs")
        sleep(0.001)
        os.unlink("layout/blobs")
    except OSError:
        pass
    sleep(0.001)
"""


@as_root
def test_folders_that_are_exchanged_for_links_all_the_time_lead_nowhere(tmp_path: Path) -> None:
    """Another user swaps a folder of his for a link while we write: every blob lands in the layout, or is an error."""
    victim, folder = make_victim(tmp_path), tmp_path / "layout"
    layout = Layout(str(folder))
    layout.prepare()
    layout.put(b"first", digest_of(b"first"))
    os.chown(folder, NOBODY, NOBODY)
    before = contents(victim)
    with start_as_nobody(SWAP, tmp_path, str(victim)) as swapper:
        try:
            assert swapper.stdout is not None
            assert swapper.stdout.readline() == b"ready\n"
            outcomes: list[bool] = []
            while len(outcomes) < _PUTS or len(set(outcomes)) == 1:
                assert len(outcomes) < 100 * _PUTS, "no exchange came at a time that matters"
                outcomes.append(put_or_not(layout, f"blob {len(outcomes)}".encode()))
            assert swapper.poll() is None
        finally:
            swapper.kill()
    assert contents(victim) == before


def put_or_not(layout: Layout, content: bytes) -> bool:
    try:
        layout.put(content, digest_of(content))
    except EnvironmentProblem:
        return False
    return True


def test_a_blob_that_is_not_right_is_gone_even_if_the_registry_does_not_have_it(tmp_path: Path) -> None:
    """So the image does not count as present until it is mended."""
    failing = FakeRegistry(IMAGE, instead={blob_path(LAYER): lambda _: Reply(500)})
    with serving(FakeRegistry(IMAGE)) as server:
        pull(server, tmp_path)
    path = Path(Layout(str(tmp_path)).path_of(digest_of(LAYER)))
    path.write_bytes(LAYER[::-1])
    with serving(failing) as server, pytest.raises(ImagePullError):
        pull(server, tmp_path)
    assert not path.exists()
    with serving(FakeRegistry(IMAGE)) as server:
        pull(server, tmp_path)
    assert path.read_bytes() == LAYER
    assert len(json.loads((tmp_path / "index.json").read_text())["manifests"]) == 2
