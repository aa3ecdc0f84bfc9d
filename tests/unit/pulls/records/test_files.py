"""The kubelet's two folders: names, modes, migration, listing, leftovers, durable writes."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from keyferry.api.kubeletconfig.records import ImagePullIntent, encode_intent, encode_record
from keyferry.errors import RecordError
from keyferry.pulls.records.format import file_name
from keyferry.pulls.records.store import RecordFiles
from support.records import IMAGE, REF, CountingDisk, folder_of, plant, record

ALPHA = "kubelet.config.k8s.io/v1alpha1"


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


def opened(root: Path) -> RecordFiles:
    files = RecordFiles(str(root))
    files.prepare()
    return files


def test_folders_and_files_are_private(tmp_path: Path) -> None:
    """Folders have mode 0700 and files 0600, whatever the umask."""
    before = os.umask(0)
    try:
        files = opened(tmp_path / "kubelet")
        files.write_intent(IMAGE)
        files.write_record(record())
    finally:
        os.umask(before)
    folder = tmp_path / "kubelet" / "image_manager"
    assert {mode_of(each) for each in (folder, folder / "pulling", folder / "pulled")} == {0o700}
    assert {mode_of(each) for each in folder.rglob("*") if each.is_file()} == {0o600}


def test_a_folder_of_ours_that_is_open_is_closed(tmp_path: Path) -> None:
    """Records that others could read no longer can once they are opened for pulls."""
    folder_of(tmp_path).chmod(0o755)
    opened(tmp_path)
    assert mode_of(folder_of(tmp_path)) == 0o700


def test_writing_is_durable_and_in_order(tmp_path: Path) -> None:
    """A file is on the disk before it has its name, and its name before the next step."""
    disk = CountingDisk()
    files = RecordFiles(str(tmp_path), disk)
    files.prepare()
    disk.steps.clear()
    files.write_record(record())
    assert disk.steps == ["make_folder", "create", "write", "write the rest", "sync", "rename", "sync_folder"]


def test_a_write_that_fails_leaves_nothing_behind(tmp_path: Path) -> None:
    """On an error the temporary file goes, and the old content stays."""

    def fail(_: int, step: str) -> None:
        if step == "sync" and is_full:
            raise OSError(28, "No space left on device")

    is_full = False
    files = RecordFiles(str(tmp_path), CountingDisk(fail))
    files.prepare()
    files.write_record(record())
    before = plant(tmp_path).read_bytes()
    is_full = True
    with pytest.raises(RecordError, match="no space left"):
        files.write_record(record(name="other.example/x"))
    assert [each.read_bytes() for each in folder_of(tmp_path).iterdir()] == [before]


def test_leftovers_of_ours_are_swept_and_the_kubelets_are_not(tmp_path: Path) -> None:
    """Temporary files of crashed writers go at the next start; a kubelet's own are its own business."""
    ours = folder_of(tmp_path) / f"{file_name(REF)}.keyferry-0011223344556677.tmp"
    theirs = folder_of(tmp_path) / f"{file_name(REF)}.tmp"
    for each in (ours, theirs):
        each.write_bytes(b"{")
    files = opened(tmp_path)
    assert (ours.exists(), theirs.exists()) == (False, True)
    assert files.count() == (0, 0)


def test_old_versions_are_rewritten_under_the_right_name(tmp_path: Path) -> None:
    """A v1alpha1 record becomes v1beta1; a file with a name of its own stays beside it."""
    odd = folder_of(tmp_path) / "sha256-odd"
    odd.write_bytes(encode_record(record(), ALPHA))
    odd.chmod(0o600)
    intent = folder_of(tmp_path, "pulling") / file_name(IMAGE)
    intent.write_bytes(encode_intent(ImagePullIntent(image=IMAGE), ALPHA))
    intent.chmod(0o600)
    opened(tmp_path)
    assert (folder_of(tmp_path) / file_name(REF)).read_bytes() == encode_record(record())
    assert intent.read_bytes() == encode_intent(ImagePullIntent(image=IMAGE))
    assert odd.read_bytes() == encode_record(record(), ALPHA)


def test_what_cannot_be_read_is_left_and_told(tmp_path: Path) -> None:
    """Damage is neither removed nor hidden."""
    path = plant(tmp_path, b"garbage")
    files = opened(tmp_path)
    assert [problem.path for problem in files.list_records().problems] == [str(path)]
    assert path.read_bytes() == b"garbage"


def test_looking_changes_nothing(tmp_path: Path) -> None:
    """Without preparation no folder, no lock and no file comes into being."""
    files = RecordFiles(str(tmp_path))
    assert files.list_records().values == ()
    assert not files.find_record(REF).exists
    assert not files.intent_exists(IMAGE)
    assert files.count() == (0, 0)
    assert list(tmp_path.iterdir()) == []


def test_a_root_that_cannot_be_made_is_one_error(tmp_path: Path) -> None:
    """The system's refusal comes as ours, with the path."""
    (tmp_path / "file").write_text("")
    with pytest.raises(RecordError, match="image_manager"):
        RecordFiles(str(tmp_path / "file")).prepare()
