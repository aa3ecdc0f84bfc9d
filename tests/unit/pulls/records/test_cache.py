"""The memory in front of the files: bounded, written through, sure of absence only when it knows all."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from keyferry.errors import RecordError
from keyferry.pulls.records.cache import CachedRecords, CacheSizes, LruCache
from keyferry.pulls.records.files import RecordFiles
from support.records import EVERYBODY, REF, CountingDisk, folder_of, plant, record, secret, with_secrets


def opened(root: Path, size: int = 10, disk: CountingDisk | None = None) -> CachedRecords:
    store = CachedRecords(RecordFiles(str(root), disk), CacheSizes(intents=size, records=size))
    store.prepare()
    return store


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
    cache: LruCache[str] = LruCache(2)
    cache.take({"a": "1", "b": "2"}, is_complete=True)
    known = [cache.authoritative]
    cache.take({"a": "1"}, is_complete=True)
    known.append(cache.authoritative)
    for key in "bc":
        cache.put(key, "2")
        known.append(cache.authoritative)
    assert known == [False, True, True, False]
    assert cache.get("a") is None
    assert (len(cache), cache.usage_percent) == (2, 100)


def test_an_incomplete_listing_gives_no_authority() -> None:
    """With a file that could not be read nobody knows what is missing."""
    cache: LruCache[str] = LruCache(5)
    cache.take({"a": "1"}, is_complete=False)
    assert (cache.get("a"), cache.authoritative) == ("1", False)


def test_absence_is_known_without_a_look_at_the_disk(tmp_path: Path) -> None:
    """A memory that knows all reads no file for what is not there."""
    disk = CountingDisk()
    store = opened(tmp_path, disk=disk)
    disk.steps.clear()
    assert not store.find_record("sha256:none").exists
    assert disk.steps == []


def test_eviction_sends_the_next_look_to_the_files(tmp_path: Path) -> None:
    """What does not fit is still found."""
    store = opened(tmp_path, 2)
    for at in range(4):
        with store.writing():
            store.write_record(record(f"ref{at}"))
    assert all(store.find_record(f"ref{at}").exists for at in range(4))
    assert not store.find_record("ref9").exists


def test_a_change_by_another_process_is_seen(tmp_path: Path) -> None:
    """Two memories over one folder: what one writes or removes, the other sees at once."""
    mine, other = opened(tmp_path), opened(tmp_path)
    assert not mine.find_record(REF).exists
    with other.writing():
        other.write_record(record())
    assert mine.find_record(REF).record == record()
    with other.writing():
        other.delete_record(REF)
        other.write_intent("x")
    assert not mine.find_record(REF).exists
    assert mine.intent_exists("x")


def test_a_writer_that_died_leaves_no_belief(tmp_path: Path) -> None:
    """While a change is under way, or was cut short, every look goes to the files."""
    mine, other = opened(tmp_path), opened(tmp_path)
    changing = other.writing()
    changing.__enter__()
    other.files.write_record(record())
    assert mine.find_record(REF).exists
    other.files.delete_record(REF)
    assert not mine.find_record(REF).exists
    changing.__exit__(None, None, None)


def test_own_changes_cost_no_memory(tmp_path: Path) -> None:
    """A process that writes goes on knowing all, also while others of its threads look."""
    store = opened(tmp_path)
    with store.writing():
        found = []
        looking = threading.Thread(target=lambda: found.append(store.find_record("ref1").exists))
        looking.start()
        looking.join()
        store.write_record(record())
    assert found == [False]
    assert store.records.authoritative


def test_a_write_that_fails_half_way_is_looked_up_again(tmp_path: Path) -> None:
    """After an error nobody knows what the file holds, so the memory does not say."""

    def fail(_: int, step: str) -> None:
        if step == "sync_folder" and is_broken:
            raise OSError(5, "Input/output error")

    is_broken = False
    store = opened(tmp_path, disk=CountingDisk(fail))
    is_broken = True
    with pytest.raises(RecordError, match="input/output error"), store.writing():
        store.write_record(record())
    assert store.find_record(REF).exists


def test_a_record_under_another_name_is_not_believed(tmp_path: Path) -> None:
    """A listing finds it all the same, and then it is in doubt, until it is written where it belongs."""
    plant(tmp_path).rename(folder_of(tmp_path) / "sha256-planted")
    store = opened(tmp_path)
    lookup = store.find_record(REF)
    assert (lookup.record, lookup.exists) == (None, True)
    assert lookup.failure is not None
    assert lookup.failure.kind == "misplaced"
    with store.writing():
        store.write_record(record(entry=with_secrets(secret())))
    found = store.find_record(REF).record
    assert found is not None
    assert EVERYBODY not in found.credential_mapping.values()
