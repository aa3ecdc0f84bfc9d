"""Pull records: the format, the store on disk, and what is written before and after a pull."""

from __future__ import annotations

import asyncio
import os
import stat
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from keyferry._core.files import Folder
from keyferry.api.kubeletconfig.records import (
    ImagePullCredentials,
    encode_record,
)
from keyferry.errors import EnvironmentProblem, PolicyError, RecordError
from keyferry.pulls.records.decide import PodCredentials
from keyferry.pulls.records.disk import MAX_BYTES, Disk, FolderLock
from keyferry.pulls.records.format import (
    decode_intent,
    decode_record,
    file_name,
)
from keyferry.pulls.records.policy import VerificationPolicy
from keyferry.pulls.records.records import Records, inspect_records, load_records, open_records
from keyferry.pulls.records.store import CacheSizes, Known, RecordFiles
from support.locks import PATIENCE_SECONDS, replaced_while_waited_for
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


@pytest.mark.parametrize(
    ("data", "cause"),
    [(b'{"kind":"ImagePulledRecord","apiVersion":"a/b/c"}', "type"), (b"{" * 200_000, "syntax")],
    ids=["slashes", "depth"],
)
def test_what_is_no_record_says_why(data: bytes, cause: str) -> None:
    """Every damage is one error with its cause."""
    with pytest.raises(RecordError) as caught:
        decode_record(data, "/f")
    assert caught.value.kind == cause
    assert str(caught.value).startswith("/f: ")


def test_an_error_quotes_no_hash() -> None:
    """A damaged record's hashes stay where they are, in words and in what Python keeps of an error."""
    data = encode_record(record(entry=with_secrets(secret())))
    for broken in (data[:-4], data.replace(b'"uid"', b'"uid":"x","uid"'), data.replace(b'"kind"', b'"kin"')):
        with pytest.raises(RecordError) as caught:
            decode_record(broken)
        assert HASH not in f"{caught.value}{caught.value!r}{caught.value.__context__!r}"


def test_a_repeated_yaml_key_is_refused() -> None:
    """Repeated keys are told in YAML as well."""
    data = b"kind: ImagePullIntent\napiVersion: kubelet.config.k8s.io/v1beta1\nimage: a\nimage: b\n"
    with pytest.raises(RecordError, match="more than once") as caught:
        decode_intent(data)
    assert caught.value.document_kind == "strict"


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
    """Records that others could read no longer can once they are opened for pulls; the root stays as it is."""
    tmp_path.chmod(0o755)
    folder_of(tmp_path).chmod(0o755)
    opened(tmp_path)
    assert (mode_of(tmp_path), mode_of(folder_of(tmp_path))) == (0o755, 0o700)


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


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Disk(durable=False).make_folder(str(tmp_path), "a", "b")


def put(folder: Folder, content: bytes, mode: int = 0o600) -> Path:
    path = Path(folder.path_of("file"))
    path.write_bytes(content)
    path.chmod(mode)
    return path


@pytest.mark.parametrize("size", [0, 1, 4095, 4096, 4097, 200_000, MAX_BYTES])
def test_all_of_a_file_is_read(folder: Folder, size: int) -> None:
    """However long it is, up to a limit."""
    content = os.urandom(1000) * (size // 1000) + b"x" * (size % 1000)
    put(folder, content)
    assert Disk().read(folder, "file") == content
    assert Disk().read(folder, "none") is None


def test_a_file_that_grows_while_it_is_read_ends_at_the_limit(folder: Folder) -> None:
    """What somebody goes on writing is neither read for ever nor byte by byte."""
    path, done = put(folder, b"x"), threading.Event()

    def grow() -> None:
        with path.open("ab") as stream:
            while not done.is_set() and stream.tell() <= MAX_BYTES:
                stream.write(b"x" * 65_536)

    thread = threading.Thread(target=grow)
    thread.start()
    try:
        data = Disk().read(folder, "file")
        assert data is not None
        assert len(data) <= MAX_BYTES
    except RecordError as error:
        assert "bytes" in error.message
    finally:
        done.set()
        thread.join()


@pytest.mark.parametrize(("mode", "what"), [(0o620, "write"), (0o602, "write"), (0o604, "read")])
def test_a_file_of_others_is_not_believed(folder: Folder, mode: int, what: str) -> None:
    """Whoever can write it, or has read the hashes in it."""
    put(folder, b"x", mode)
    with pytest.raises(RecordError, match=f"other users can {what} it"):
        Disk().read(folder, "file")


def link(path: Path, precious: Path) -> None:
    path.symlink_to(precious)


def dangling_link(path: Path, precious: Path) -> None:
    path.symlink_to(precious.with_name("new"))


def hard_link(path: Path, precious: Path) -> None:
    path.hardlink_to(precious)


def pipe(path: Path, _: Path) -> None:
    os.mkfifo(path)


def lock_folder(path: Path, _: Path) -> None:
    path.mkdir()


def hold(lock: FolderLock) -> None:
    with lock.held():
        pass


PLANTED = [link, dangling_link, hard_link, pipe, lock_folder]


@pytest.mark.parametrize("plant", PLANTED)
@pytest.mark.parametrize("when", ["opened", "held"])
def test_what_lies_in_the_place_of_the_lock_is_not_written_to(
    tmp_path: Path, plant: Callable[[Path, Path], None], when: str
) -> None:
    """A number is written into the lock, so it must be a plain file with one name."""
    precious = tmp_path / "precious"
    precious.write_bytes(b"keep me, all of me")
    place = folder_of(tmp_path).parent
    lock = FolderLock(str(place)) if when == "held" else None
    (place / "keyferry.lock").unlink(missing_ok=True)
    plant(place / "keyferry.lock", precious)
    with pytest.raises(RecordError, match="cannot use the lock") as caught:
        hold(lock or FolderLock(str(place)))
    assert caught.value.path == str(place / "keyferry.lock")
    assert precious.read_bytes() == b"keep me, all of me"
    assert not (tmp_path / "new").exists()


def test_a_folders_lock_that_is_replaced_under_a_waiter_is_waited_for_again(tmp_path: Path) -> None:
    """The file that has the name now is the lock."""
    place = folder_of(tmp_path).parent
    lock = FolderLock(str(place), timeout_seconds=PATIENCE_SECONDS)
    replaced_while_waited_for(place / "keyferry.lock", lambda: hold(lock))


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


def everything_below(root: Path) -> dict[str, tuple[int, int, bytes]]:
    """Every file and folder, with its mode and the time of its last change."""
    return {
        str(path.relative_to(root)): (
            path.stat().st_mode,
            path.stat().st_mtime_ns,
            b"" if path.is_dir() else path.read_bytes(),
        )
        for path in [root, *sorted(root.rglob("*"))]
    }


@pytest.mark.parametrize("has_lock", [True, False])
def test_who_only_looks_decides_the_same_and_writes_nothing(tmp_path: Path, has_lock: bool) -> None:
    """A secret that a kubelet would record now is not recorded, and that is no problem of the decision."""
    pull(tmp_path)
    if not has_lock:
        (tmp_path / "image_manager" / "keyferry.lock").unlink()
    before = everything_below(tmp_path)
    records = inspect_records(str(tmp_path))
    decision = records.decide(IMAGE, REF, PodCredentials(secrets=(secret("copy"),)))
    assert (decision.must_pull, decision.rule) == (False, "same-credential")
    assert decision.addition is not None
    assert decision.write_problem is None
    assert everything_below(tmp_path) == before


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
    before = everything_below(tmp_path)
    with pytest.raises(RecordError, match="open for reading only"):
        write(inspect_records(str(tmp_path)))
    assert everything_below(tmp_path) == before


def names_of(root: Path) -> list[str]:
    found = inspect_records(str(root)).find(REF).record
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
    child = os.fork()
    if not child:
        try:
            records.record_failed(IMAGE)
        finally:
            os._exit(0 if records.decide(IMAGE, REF).must_pull else 1)
    assert os.waitpid(child, 0)[1] == 0
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
    """Beyond what memory holds, a decision is one look at one file, however many there are."""
    for at in range(300):
        plant(tmp_path, ref=f"ref{at}")
    disk = CountingDisk()
    records = open_records(str(tmp_path), disk=disk, sizes=CacheSizes(intents=5, records=5))
    for ref, reads in (("ref1", 1), ("ref299", 1), ("missing", 3)):
        disk.steps.clear()
        records.decide(IMAGE, ref)
        assert len(disk.steps) <= reads


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
    assert records.memory is not None
    assert records.memory.records.is_complete


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


def test_a_missing_folder_says_where_records_are(tmp_path: Path) -> None:
    """Looking at nothing is an error with a way out."""
    with pytest.raises(EnvironmentProblem, match="--root"):
        inspect_records(str(tmp_path))


def test_the_door_checks_the_policy(tmp_path: Path) -> None:
    """A policy that makes no sense is refused before anything is made."""
    with pytest.raises(PolicyError):
        load_records(str(tmp_path), policy="Sometimes")
    assert list(tmp_path.iterdir()) == []
    records = load_records(str(tmp_path), policy="NeverVerifyAllowlistedImages", allowlist=["reg.example/*"])
    assert not records.decide(IMAGE, REF).must_pull
