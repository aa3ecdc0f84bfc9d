"""Pull records: the format, the store on disk, and what is written before and after a pull."""

from __future__ import annotations

import asyncio
import os
import stat
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from keyferry import PodCredentials, Records, VerificationPolicy, load_records, pull_metrics_collector
from keyferry._core.files import Folder
from keyferry.api.kubeletconfig.records import (
    ImagePullCredentials,
    encode_record,
)
from keyferry.errors import EnvironmentProblem, PolicyError, RecordError
from keyferry.pulls.records.disk import MAX_BYTES, Disk, FolderLock
from keyferry.pulls.records.format import (
    file_name,
)
from keyferry.pulls.records.records import open_records
from keyferry.pulls.records.store import CacheSizes
from support.folders import contents
from support.locks import replaced_while_waited_for
from support.plugins import exit_code_in_fork
from support.records import (
    EVERYBODY,
    HASH,
    IMAGE,
    NAME,
    REF,
    CountingDisk,
    Present,
    folder_of,
    open_quickly,
    plant,
    record,
    secret,
    with_secrets,
)


def failure_of(root: Path, data: bytes) -> RecordError:
    """Why a record with this content is in doubt."""
    plant(root, data)
    failure = open_quickly(root).find(REF).failure
    assert failure is not None
    return failure


@pytest.mark.parametrize(
    ("data", "cause"),
    [(b'{"kind":"ImagePulledRecord","apiVersion":"a/b/c"}', "type"), (b"{" * 200_000, "syntax")],
    ids=["slashes", "depth"],
)
def test_what_is_no_record_says_why(tmp_path: Path, data: bytes, cause: str) -> None:
    """Every damage is one error with its cause and its file."""
    failure = failure_of(tmp_path, data)
    assert failure.kind == cause
    assert str(failure).startswith(f"{plant(tmp_path, data)}: ")


def test_an_error_quotes_no_hash(tmp_path: Path) -> None:
    """A damaged record's hashes stay where they are, in words and in what Python keeps of an error."""
    data = encode_record(record(entry=with_secrets(secret())))
    for broken in (data[:-4], data.replace(b'"uid"', b'"uid":"x","uid"'), data.replace(b'"kind"', b'"kin"')):
        failure = failure_of(tmp_path, broken)
        assert HASH not in f"{failure}{failure!r}{failure.__context__!r}"


def test_a_repeated_key_is_refused_in_yaml_too(tmp_path: Path) -> None:
    path = folder_of(tmp_path, "pulling") / file_name(IMAGE)
    path.write_text("kind: ImagePullIntent\napiVersion: kubelet.config.k8s.io/v1beta1\nimage: a\nimage: b\n")
    path.chmod(0o600)
    (problem,) = open_quickly(tmp_path).list_intents().problems
    assert "more than once" in str(problem)
    assert problem.document_kind == "strict"


@pytest.mark.parametrize("size", [4095, 4096, 4097, 200_000, MAX_BYTES])
def test_all_of_a_file_is_read(tmp_path: Path, size: int) -> None:
    """However long it is, up to a limit."""
    plant(tmp_path, encode_record(record()).ljust(size))
    assert open_quickly(tmp_path).find(REF).record == record()


def test_a_file_that_grows_while_it_is_read_ends_at_the_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What somebody goes on writing is neither read for ever nor byte by byte."""
    path, read, reads = plant(tmp_path), os.read, 0

    def read_and_grow(fd: int, size: int) -> bytes:
        nonlocal reads
        reads += 1
        if path.stat().st_size < 2 * MAX_BYTES:
            with path.open("ab") as stream:
                stream.write(b" " * 65_536)
        return read(fd, size)

    records = open_quickly(tmp_path, cached=False)
    monkeypatch.setattr(os, "read", read_and_grow)
    assert f"it has more than {MAX_BYTES} bytes" in str(records.find(REF).failure)
    assert reads < 10_000


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


def test_folders_and_files_are_private(tmp_path: Path) -> None:
    """Folders have mode 0700 and files 0600, whatever the umask."""
    before = os.umask(0)
    try:
        records = open_quickly(tmp_path / "kubelet")
        records.record_intent(IMAGE)
        records.record_pulled(IMAGE, REF, None)
        records.record_intent("reg.example/other:v1")
    finally:
        os.umask(before)
    folder = tmp_path / "kubelet" / "image_manager"
    assert {mode_of(each) for each in (folder, folder / "pulling", folder / "pulled")} == {0o700}
    assert {mode_of(each) for each in folder.rglob("*") if each.is_file()} == {0o600}


def test_a_folder_of_ours_that_is_open_is_closed(tmp_path: Path) -> None:
    """Records that others could read no longer can once they are opened for pulls; the root stays as it is."""
    tmp_path.chmod(0o755)
    folder_of(tmp_path).chmod(0o755)
    open_quickly(tmp_path)
    assert (mode_of(tmp_path), mode_of(folder_of(tmp_path))) == (0o755, 0o700)


def test_leftovers_of_ours_are_swept_and_the_kubelets_are_not(tmp_path: Path) -> None:
    """Temporary files of crashed writers go at the next start; a kubelet's own are its own business."""
    ours = folder_of(tmp_path) / f"{file_name(REF)}.keyferry-0011223344556677.tmp"
    theirs = folder_of(tmp_path) / f"{file_name(REF)}.tmp"
    for each in (ours, theirs):
        each.write_bytes(b"{")
    records = open_quickly(tmp_path)
    assert (ours.exists(), theirs.exists()) == (False, True)
    assert records.list().values == ()


def test_a_root_that_cannot_be_made_is_one_error(tmp_path: Path) -> None:
    """The system's refusal comes as ours, with the path."""
    (tmp_path / "file").write_text("")
    with pytest.raises(RecordError, match="image_manager"):
        open_quickly(tmp_path / "file")


def open_with_memory(root: Path, size: int = 10, disk: CountingDisk | None = None) -> Records:
    return open_records(str(root), disk=disk, sizes=CacheSizes(intents=size, records=size))


@pytest.mark.parametrize(
    ("pods", "pulls", "sizes"),
    [(110, None, (220, 550)), (110, 500, (1000, 550)), (500, None, (1000, 2000)), (1000, 900, (1024, 2000))],
)
def test_sizes_are_the_kubelets(pods: int, pulls: int | None, sizes: tuple[int, int]) -> None:
    """Two and five times the pods, or twice the pulls, within bounds."""
    found = CacheSizes.for_node(pods, pulls)
    assert (found.intents, found.records) == sizes


def test_what_does_not_fit_is_found_in_the_files(tmp_path: Path) -> None:
    """And what is nowhere is not found, by who wrote it and by who opens the records later."""
    records = open_with_memory(tmp_path, 2)
    for at in range(4):
        records.record_pulled(IMAGE, f"ref{at}", None)
    for each in (records, open_with_memory(tmp_path, 2)):
        assert all(each.find(f"ref{at}").exists for at in range(4))
        assert not each.find("ref9").exists
    metrics = CollectorRegistry()
    metrics.register(pull_metrics_collector(each))
    said = generate_latest(metrics).decode()
    assert "\nkubelet_imagemanager_inmemory_pulledrecords_usage_percent 100.0\n" in said


def test_a_change_by_another_process_is_seen(tmp_path: Path) -> None:
    """Two memories over one folder: what one writes or removes, the other sees at once."""
    mine, other = open_quickly(tmp_path), open_quickly(tmp_path)
    assert not mine.find(REF).exists
    other.record_pulled(IMAGE, REF, None)
    assert mine.find(REF).exists
    other.prune([])
    assert not mine.find(REF).exists
    other.record_intent(IMAGE)
    assert mine.decide(IMAGE, REF).situation.has_intent


def test_a_writer_that_died_leaves_no_belief(tmp_path: Path) -> None:
    """While a change is under way, or was cut short, every look goes to the files."""
    mine, other = open_quickly(tmp_path), open_quickly(tmp_path)
    changing = other.files.writing()
    changing.__enter__()
    other.files.write_record(record())
    assert mine.find(REF).exists
    other.files.delete_record(REF)
    assert not mine.find(REF).exists
    changing.__exit__(None, None, None)


def test_a_write_that_fails_half_way_is_looked_up_again(tmp_path: Path) -> None:
    """After an error nobody knows what the file holds, so the memory does not say."""

    def fail(_: int, step: str) -> None:
        if step == "sync_folder" and is_broken:
            raise OSError(5, "Input/output error")

    is_broken = False
    records = open_with_memory(tmp_path, disk=CountingDisk(fail))
    is_broken = True
    with pytest.raises(RecordError, match="input/output error"):
        records.record_pulled(IMAGE, REF, None)
    assert records.find(REF).exists


@pytest.mark.parametrize("how", ["memory", "files", "reading"])
def test_a_record_under_another_name_is_not_believed(tmp_path: Path, how: str) -> None:
    """A search finds it all the same, and then it is in doubt, until it is written where it belongs."""
    plant(tmp_path).rename(folder_of(tmp_path) / "sha256-planted")
    records = open_quickly(tmp_path, cached=how == "memory")
    lookup = (load_records(str(tmp_path), read_only=True) if how == "reading" else records).find(REF)
    assert (lookup.record, lookup.exists) == (None, True)
    assert lookup.failure is not None
    assert lookup.failure.kind == "misplaced"
    records.record_pulled(IMAGE, REF, with_secrets(secret()))
    found = records.find(REF).record
    assert found is not None
    assert EVERYBODY not in found.credential_mapping.values()


PLANTED: dict[str, Callable[[Path, Path], None]] = {
    "link": lambda path, precious: path.symlink_to(precious),
    "dangling link": lambda path, precious: path.symlink_to(precious.with_name("new")),
    "hard link": lambda path, precious: path.hardlink_to(precious),
    "pipe": lambda path, _: os.mkfifo(path),
    "folder": lambda path, _: path.mkdir(),
}


@pytest.mark.parametrize("put", PLANTED.values(), ids=PLANTED)
@pytest.mark.parametrize("is_open", [False, True], ids=["before", "between"])
def test_what_lies_in_the_place_of_the_lock_is_not_written_to(
    tmp_path: Path, put: Callable[[Path, Path], None], is_open: bool
) -> None:
    """A number is written into the lock, so it must be a plain file with one name."""
    precious = tmp_path / "precious"
    precious.write_bytes(b"keep me, all of me")
    lock = folder_of(tmp_path).parent / "keyferry.lock"
    records = open_quickly(tmp_path) if is_open else None
    lock.unlink(missing_ok=True)
    put(lock, precious)
    with pytest.raises(RecordError, match="cannot use the lock") as caught:
        (records or open_quickly(tmp_path)).record_intent(IMAGE)
    assert caught.value.path == str(lock)
    assert precious.read_bytes() == b"keep me, all of me"
    assert not (tmp_path / "new").exists()


def test_a_lock_that_is_replaced_under_a_waiter_is_waited_for_again(tmp_path: Path) -> None:
    """The file that has the name now is the lock."""
    records = open_quickly(tmp_path)
    lock = tmp_path / "image_manager" / "keyferry.lock"
    replaced_while_waited_for(lock, lambda: records.record_intent(IMAGE))


def test_the_lock_follows_its_folder(tmp_path: Path) -> None:
    """A folder that was made anew has a new lock, and both programs that use it find that one."""
    place = folder_of(tmp_path).parent
    first, second = FolderLock(str(place)), FolderLock(str(place), timeout_seconds=0.05)
    place.rename(tmp_path / "old")
    folder_of(tmp_path)
    with first.held(), pytest.raises(RecordError, match="held the lock"), second.held():
        raise AssertionError("both have it")


PRELOADED = "NeverVerifyPreloadedImages"


def pull(root: Path, policy: str = "AlwaysVerify") -> None:
    records = open_quickly(root, policy)
    records.record_intent(IMAGE)
    records.record_pulled(IMAGE, REF, with_secrets(secret()))


def test_an_image_under_way_counts_as_pulled(tmp_path: Path) -> None:
    """From the intent on an image is verified, and after a failed pull it is as before."""
    records = open_quickly(tmp_path, PRELOADED)
    assert not records.decide(IMAGE, REF).must_pull
    records.record_intent(IMAGE)
    assert records.decide(IMAGE, REF).must_pull
    records.record_failed(IMAGE)
    assert not records.decide(IMAGE, REF).must_pull


def test_an_image_is_under_way_until_no_program_pulls_it(tmp_path: Path) -> None:
    """A failure here leaves the mark of another program that still pulls the image, and its own failure takes it."""
    first, second = open_quickly(tmp_path, PRELOADED), open_quickly(tmp_path, PRELOADED)
    first.record_intent(IMAGE)
    second.record_intent(IMAGE)
    second.record_failed(IMAGE)
    assert second.decide(IMAGE, REF).must_pull
    first.record_failed(IMAGE)
    assert not second.decide(IMAGE, REF).must_pull


def test_who_pulled_it_gets_it(tmp_path: Path) -> None:
    """The secret of the pull lets its pod in, also after a restart, and no other."""
    pull(tmp_path)
    records = open_quickly(tmp_path)
    assert not records.decide(IMAGE, REF, PodCredentials(secrets=(secret(),))).must_pull
    assert records.decide(IMAGE, REF, PodCredentials(secrets=(secret("x", "y"),))).must_pull
    assert records.list_intents().values == ()


def test_a_secret_seen_with_a_known_credential_is_recorded(tmp_path: Path) -> None:
    """The next decision knows it by its own name; trying another policy records nothing."""
    pull(tmp_path)
    records = open_quickly(tmp_path)
    shown = PodCredentials(secrets=(secret("copy"),))
    records.decide(IMAGE, REF, shown, VerificationPolicy("AlwaysVerify"))
    assert len(names_of(tmp_path)) == 1
    records.decide(IMAGE, REF, shown)
    assert names_of(tmp_path) == ["copy", "s1"]


@pytest.mark.parametrize("has_lock", [True, False])
def test_who_only_looks_decides_the_same_and_writes_nothing(tmp_path: Path, has_lock: bool) -> None:
    """A secret that a kubelet would record now is not recorded, and that is no problem of the decision."""
    pull(tmp_path)
    if not has_lock:
        (tmp_path / "image_manager" / "keyferry.lock").unlink()
    before = contents(tmp_path)
    records = load_records(str(tmp_path), read_only=True)
    decision = records.decide(IMAGE, REF, PodCredentials(secrets=(secret("copy"),)))
    assert (decision.must_pull, decision.rule) == (False, "same-credential")
    assert decision.addition is not None
    assert decision.write_problem is None
    assert contents(tmp_path) == before


WRITERS: dict[str, Callable[[Records], object]] = {
    "record_intent": lambda records: records.record_intent(IMAGE),
    "record_pulled": lambda records: records.record_pulled(IMAGE, REF, None),
    "record_failed": lambda records: records.record_failed(IMAGE),
    "prune": lambda records: records.prune([]),
    "recover": lambda records: records.recover(lambda: [Present(id=REF, tags=(IMAGE,))]),
}


@pytest.mark.parametrize("write", WRITERS.values(), ids=WRITERS)
def test_records_opened_to_look_at_are_not_written(
    tmp_path: Path, write: Callable[[Records], object]
) -> None:
    """Each way to change something is refused, and leaves no trace, not even a lock."""
    pull(tmp_path)
    other = open_quickly(tmp_path)
    other.record_intent(IMAGE)
    other.close()
    (tmp_path / "image_manager" / "keyferry.lock").unlink()
    before = contents(tmp_path)
    with pytest.raises(RecordError, match="open for reading only"):
        write(load_records(str(tmp_path), read_only=True))
    assert contents(tmp_path) == before


def names_of(root: Path) -> list[str]:
    found = load_records(str(root), read_only=True).find(REF).record
    assert found is not None
    return [each.name for each in found.credential_mapping[NAME].kubernetes_secrets]


def test_a_kubelets_write_beside_us_is_kept(tmp_path: Path) -> None:
    """A record that came while we thought there was none is merged with, not replaced."""
    records = open_quickly(tmp_path)
    records.record_intent(IMAGE)
    plant(tmp_path, None)
    records.record_pulled("reg.example/other:v1", REF, with_secrets(secret()))
    found = records.find(REF).record
    assert found is not None
    assert set(found.credential_mapping) == {NAME, "reg.example/other"}


def test_a_record_that_cannot_be_written_leaves_the_intent(tmp_path: Path) -> None:
    """The image then still counts as pulled, and a restart makes a record of it."""

    def fail(_: int, step: str) -> None:
        if step == "rename" and is_full:
            raise OSError(28, "No space left on device")

    is_full = False
    policy = VerificationPolicy(PRELOADED)
    records = open_records(str(tmp_path), policy=policy, disk=CountingDisk(fail))
    records.record_intent(IMAGE)
    is_full = True
    with pytest.raises(RecordError, match="no space"):
        records.record_pulled(IMAGE, REF, None)
    assert records.decide(IMAGE, REF).must_pull
    records.close()
    recovered = open_quickly(tmp_path, PRELOADED)
    recovered.recover(lambda: [Present(id=REF, tags=(IMAGE,))])
    decision = recovered.decide(IMAGE, REF)
    assert (decision.must_pull, decision.rule) == (True, "other-name")


def test_an_intent_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    """Then nothing is pulled, and nothing counted as under way."""

    def fail(_: int, step: str) -> None:
        if step == "create":
            raise OSError(30, "Read-only file system")

    records = open_records(str(tmp_path), policy=VerificationPolicy(PRELOADED), disk=CountingDisk(fail))
    with pytest.raises(RecordError, match="read-only"):
        records.record_intent(IMAGE)
    assert not records.decide(IMAGE, REF).must_pull


def test_recovery_asks_the_runtime_only_if_need_be(tmp_path: Path) -> None:
    """Without intents nobody is asked; an error of the runtime leaves them."""

    def fail() -> list[Present]:
        raise EnvironmentProblem("the runtime is down")

    records = open_quickly(tmp_path)
    assert records.recover(fail).problems == ()
    records.record_intent(IMAGE)
    records.close()
    again = open_quickly(tmp_path)
    recovery = again.recover(fail)
    assert recovery.left == (IMAGE,)
    assert [str(each) for each in recovery.problems] == ["the runtime is down"]


def test_pruning_spares_what_is_there_or_young(tmp_path: Path) -> None:
    """Only old records of images that are gone are removed, and a dry run removes none."""
    clock = [100]
    records = open_records(str(tmp_path), clock=lambda: clock[0] * 1_000_000_000)
    for ref, second in (("old", 100), ("here", 100), ("young", 200)):
        clock[0] = second
        records.record_pulled(IMAGE, ref, None)
    until = 150 * 1_000_000_000
    dry = records.prune(["here"], until, dry_run=True)
    assert [each.image_ref for each in dry.removed] == ["old"]
    assert records.find("old").exists
    assert records.prune(["here"], until) == dry
    assert sorted(each.image_ref for each in records.list().values) == ["here", "young"]


def test_a_fork_begins_anew(tmp_path: Path) -> None:
    """A child neither ends the pulls of its parent nor inherits them."""
    records = open_quickly(tmp_path, PRELOADED)
    records.record_intent(IMAGE)

    def fail_in_child() -> None:
        records.record_failed(IMAGE)
        assert records.decide(IMAGE, REF).must_pull

    assert exit_code_in_fork(fail_in_child) == 0
    assert records.decide(IMAGE, REF).must_pull
    records.record_failed(IMAGE)
    assert not records.decide(IMAGE, REF).must_pull


def test_decisions_are_counted_by_the_kubelets_words(tmp_path: Path) -> None:
    """Each result has its counter; an absent image has none."""
    pull(tmp_path)
    records = open_quickly(tmp_path)
    records.decide(IMAGE, "")
    records.decide(IMAGE, REF)
    records.decide(IMAGE, REF, PodCredentials(secrets=(secret(),)))
    records.decide("Bad Name", REF)
    assert records.counters.checks == {"mustAuthenticate": 1, "credentialRecordFound": 1, "error": 1}


def test_the_event_loop_can_decide(tmp_path: Path) -> None:
    """The asynchronous form gives the same."""
    pull(tmp_path)
    records = open_quickly(tmp_path)
    decision = asyncio.run(records.decide_async(IMAGE, REF, PodCredentials(secrets=(secret(),))))
    assert decision.rule == "same-credential"


def test_a_decision_reads_as_little_with_many_records(tmp_path: Path) -> None:
    """Nothing of what memory holds; beyond it, one look at one file, however many there are."""
    for at in range(60):
        plant(tmp_path, ref=f"ref{at}")
    for room, reads in ((5, {"ref1": 1, "ref59": 1, "missing": 3}), (1000, {"ref1": 0, "missing": 0})):
        disk = CountingDisk()
        records = open_with_memory(tmp_path, room, disk)
        for ref, most in reads.items():
            disk.steps.clear()
            records.decide(IMAGE, ref)
            assert len(disk.steps) <= most


def test_an_entry_that_is_empty_is_kept_as_it_is(tmp_path: Path) -> None:
    """A first record takes what it is given, as in the kubelet."""
    records = open_quickly(tmp_path)
    records.record_pulled(IMAGE, REF, ImagePullCredentials())
    assert records.decide(IMAGE, REF).rule == "nobody"


def test_many_threads_lose_nothing(tmp_path: Path) -> None:
    """Threads that record and decide side by side end with everything recorded and nothing under way."""
    records = open_quickly(tmp_path)

    def work(name: str) -> None:
        for at in range(10):
            records.record_intent(IMAGE)
            records.decide(IMAGE, REF, PodCredentials(secrets=(secret("x", "y"),)))
            records.record_pulled(IMAGE, REF, with_secrets(secret(f"{name}{at}", name)))

    threads = [threading.Thread(target=work, args=(name,)) for name in "abcd"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(names_of(tmp_path)) == 40
    assert records.list_intents().values == ()


class _Between(Disk):
    """A disk on which somebody finishes a pull just before an intent is looked for."""

    def __init__(self, finish_pull: Callable[[], None]) -> None:
        super().__init__(durable=False)
        self._finish = [finish_pull]

    def read(self, folder: Folder, name: str) -> bytes | None:
        if folder.path.endswith("/pulling") and self._finish:
            self._finish.pop()()
        return super().read(folder, name)


def test_a_pull_that_ends_between_two_looks_is_not_missed(tmp_path: Path) -> None:
    """Record absent, then intent gone: the record is looked for once more before an image counts as preloaded."""
    other = open_quickly(tmp_path)
    disk = _Between(lambda: other.record_pulled(IMAGE, REF, with_secrets(secret())))
    records = open_records(str(tmp_path), policy=VerificationPolicy(PRELOADED), cached=False, disk=disk)
    other.record_intent(IMAGE)
    decision = records.decide(IMAGE, REF)
    assert (decision.must_pull, decision.rule) == (True, "stranger")


def test_the_policy_is_checked_first(tmp_path: Path) -> None:
    """A policy that makes no sense is refused before anything is made."""
    with pytest.raises(PolicyError):
        load_records(str(tmp_path), policy="Sometimes")
    assert list(tmp_path.iterdir()) == []
    records = load_records(str(tmp_path), policy="NeverVerifyAllowlistedImages", allowlist=["reg.example/*"])
    decision = records.decide(IMAGE, REF)
    assert not decision.must_pull
    assert "reg.example/*" in [each.facts.get("pattern") for each in decision.reasons]
