"""The manager of records: intents, records, decisions, recovery, pruning and opening."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from keyferry._core.files import Folder
from keyferry.api.kubeletconfig.records import ImagePullCredentials
from keyferry.errors import EnvironmentProblem, PolicyError, RecordError
from keyferry.pulls.records.decide import PodCredentials
from keyferry.pulls.records.disk import Disk
from keyferry.pulls.records.policy import VerificationPolicy
from keyferry.pulls.records.records import Records, inspect_records, load_records, open_records
from keyferry.pulls.records.store import CacheSizes
from support.records import IMAGE, NAME, REF, CountingDisk, Present, open_quickly, plant, secret, with_secrets

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


def test_recovery_leaves_pulls_that_are_under_way(tmp_path: Path) -> None:
    """A second program on the node does not take the intent of the first from it."""
    first, second = open_quickly(tmp_path), open_quickly(tmp_path)
    first.record_intent(IMAGE)
    present = [Present(id=REF, tags=(IMAGE,))]
    assert second.recover(lambda: present).left == (IMAGE,)
    first.close()
    assert second.recover(lambda: present).recovered == ((IMAGE, REF),)


def test_an_intent_goes_with_the_last_pull_of_all_programs(tmp_path: Path) -> None:
    """While another program pulls the same image, a failure here does not unmark it."""
    first, second = open_quickly(tmp_path, PRELOADED), open_quickly(tmp_path, PRELOADED)
    first.record_intent(IMAGE)
    second.record_intent(IMAGE)
    second.record_failed(IMAGE)
    assert second.decide(IMAGE, REF).must_pull
    first.record_failed(IMAGE)
    assert not second.decide(IMAGE, REF).must_pull


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


def test_reading_alone_never_writes(tmp_path: Path) -> None:
    """Records opened to look at them refuse every change, and leave no trace."""
    pull(tmp_path)
    (tmp_path / "image_manager" / "keyferry.lock").unlink()
    before = sorted(os.walk(tmp_path))
    records = inspect_records(str(tmp_path))
    assert not records.decide(IMAGE, REF, PodCredentials(secrets=(secret("copy"),))).must_pull
    for change in (
        lambda: records.record_intent(IMAGE),
        lambda: records.record_pulled(IMAGE, REF, None),
        lambda: records.record_failed(IMAGE),
        lambda: records.prune([]),
    ):
        with pytest.raises(RecordError, match="reading only"):
            change()
    assert sorted(os.walk(tmp_path)) == before


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
