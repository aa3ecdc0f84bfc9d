"""The memory in front of the files: bounded, written through, sure of absence only when it knows all."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from keyferry.errors import RecordError
from keyferry.pulls.records.records import Records, inspect_records, open_records
from keyferry.pulls.records.store import CacheSizes, Known
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


def opened(root: Path, size: int = 10, disk: CountingDisk | None = None) -> Records:
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
    records = opened(tmp_path, disk=disk)
    disk.steps.clear()
    assert not records.find("sha256:none").exists
    assert disk.steps == []


def test_what_does_not_fit_is_found_in_the_files(tmp_path: Path) -> None:
    """And what is nowhere is not found."""
    records = opened(tmp_path, 2)
    for at in range(4):
        write(records, f"ref{at}")
    assert all(records.find(f"ref{at}").exists for at in range(4))
    assert not records.find("ref9").exists


def test_a_change_by_another_process_is_seen(tmp_path: Path) -> None:
    """Two memories over one folder: what one writes or removes, the other sees at once."""
    mine, other = opened(tmp_path), opened(tmp_path)
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
    mine, other = opened(tmp_path), opened(tmp_path)
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
    records = opened(tmp_path, disk=disk)
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
    records = opened(tmp_path, disk=CountingDisk(fail))
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
