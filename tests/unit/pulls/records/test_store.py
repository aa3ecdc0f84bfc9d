"""The folders of intents and records, and their memory: bounded, and sure of absence only when it knows all."""

from __future__ import annotations

import os
import stat
import threading
from pathlib import Path

import pytest

from keyferry.api.kubeletconfig.records import ImagePullIntent, encode_intent, encode_record
from keyferry.errors import RecordError
from keyferry.pulls.records.format import file_name
from keyferry.pulls.records.records import Records, inspect_records, open_records
from keyferry.pulls.records.store import CacheSizes, Known, RecordFiles
from support.records import (
    EVERYBODY,
    IMAGE,
    REF,
    CountingDisk,
    folder_of,
    open_quickly,
    plant,
    record,
    secret,
    with_secrets,
)

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


def open_with_memory(root: Path, size: int = 10, disk: CountingDisk | None = None) -> Records:
    return open_records(str(root), disk=disk, sizes=CacheSizes(intents=size, records=size))


def write(records: Records, ref: str = REF) -> None:
    with records.files.writing():
        records.files.write_record(record(ref))


@pytest.mark.parametrize(
    ("pods", "pulls", "sizes"),
    [(110, None, (220, 550)), (110, 500, (1000, 550)), (500, None, (1000, 2000)), (1000, 900, (1024, 2000))],
)
def test_sizes_are_the_kubelets(pods: int, pulls: int | None, sizes: tuple[int, int]) -> None:
    """Two and five times the pods, or twice the pulls, within bounds."""
    found = CacheSizes.for_node(pods, pulls)
    assert (found.intents, found.records) == sizes


def test_a_full_memory_is_not_sure_of_absence() -> None:
    """Strictly fewer entries than room: one that is just full may have lost some."""
    known: Known[str] = Known(2)
    known.fill({"a": "1", "b": "2"}, is_complete=True)
    sure = [known.look_up("z")[0]]
    known.fill({"a": "1"}, is_complete=True)
    sure.append(known.look_up("z")[0])
    for key in "bc":
        known.put(key, "2")
        sure.append(known.look_up("z")[0])
    assert sure == [False, True, True, False]
    assert (known.look_up("a"), known.look_up("c")) == ((True, "1"), (False, None))
    assert known.usage_percent == 100


def test_an_incomplete_listing_gives_no_authority() -> None:
    """With a file that could not be read nobody knows what is missing."""
    known: Known[str] = Known(5)
    known.fill({"a": "1"}, is_complete=False)
    assert (known.look_up("a"), known.look_up("b")) == ((True, "1"), (False, None))


def test_absence_is_known_without_a_look_at_the_disk(tmp_path: Path) -> None:
    """A memory that knows all reads no file for what is not there."""
    disk = CountingDisk()
    records = open_with_memory(tmp_path, disk=disk)
    disk.steps.clear()
    assert not records.find("sha256:none").exists
    assert disk.steps == []


def test_what_does_not_fit_is_found_in_the_files(tmp_path: Path) -> None:
    """And what is nowhere is not found."""
    records = open_with_memory(tmp_path, 2)
    for at in range(4):
        write(records, f"ref{at}")
    assert all(records.find(f"ref{at}").exists for at in range(4))
    assert not records.find("ref9").exists


def test_a_change_by_another_process_is_seen(tmp_path: Path) -> None:
    """Two memories over one folder: what one writes or removes, the other sees at once."""
    mine, other = open_with_memory(tmp_path), open_with_memory(tmp_path)
    assert not mine.find(REF).exists
    write(other)
    assert mine.find(REF).record == record()
    with other.files.writing():
        other.files.delete_record(REF)
        other.files.write_intent(IMAGE)
    assert not mine.find(REF).exists
    assert mine.decide(IMAGE, REF).situation.has_intent


def test_a_writer_that_died_leaves_no_belief(tmp_path: Path) -> None:
    """While a change is under way, or was cut short, every look goes to the files."""
    mine, other = open_with_memory(tmp_path), open_with_memory(tmp_path)
    changing = other.files.writing()
    changing.__enter__()
    other.files.write_record(record())
    assert mine.find(REF).exists
    other.files.delete_record(REF)
    assert not mine.find(REF).exists
    changing.__exit__(None, None, None)


def test_own_changes_cost_no_memory(tmp_path: Path) -> None:
    """A process that writes goes on knowing all, also while others of its threads look."""
    disk = CountingDisk()
    records = open_with_memory(tmp_path, disk=disk)
    with records.files.writing():
        found = []
        looking = threading.Thread(target=lambda: found.append(records.find("ref1").exists))
        looking.start()
        looking.join()
        records.files.write_record(record())
    assert found == [False]
    disk.steps.clear()
    assert records.find(REF).exists
    assert not records.find("ref1").exists
    assert disk.steps == []


def test_a_write_that_fails_half_way_is_looked_up_again(tmp_path: Path) -> None:
    """After an error nobody knows what the file holds, so the memory does not say."""

    def fail(_: int, step: str) -> None:
        if step == "sync_folder" and is_broken:
            raise OSError(5, "Input/output error")

    is_broken = False
    records = open_with_memory(tmp_path, disk=CountingDisk(fail))
    is_broken = True
    with pytest.raises(RecordError, match="input/output error"):
        write(records)
    assert records.find(REF).exists


@pytest.mark.parametrize("how", ["memory", "files", "reading"])
def test_a_record_under_another_name_is_not_believed(tmp_path: Path, how: str) -> None:
    """A search finds it all the same, and then it is in doubt, until it is written where it belongs."""
    plant(tmp_path).rename(folder_of(tmp_path) / "sha256-planted")
    records = open_quickly(tmp_path, cached=how == "memory")
    lookup = (inspect_records(str(tmp_path)) if how == "reading" else records).find(REF)
    assert (lookup.record, lookup.exists) == (None, True)
    assert lookup.failure is not None
    assert lookup.failure.kind == "misplaced"
    records.record_pulled(IMAGE, REF, with_secrets(secret()))
    found = records.find(REF).record
    assert found is not None
    assert EVERYBODY not in found.credential_mapping.values()
