"""Hostile records: damaged, planted, linked, opened to others; crashes at every step; two programs at once."""

from __future__ import annotations

import json
import os
import shutil
import signal
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from keyferry.api.kubeletconfig.records import ImagePullIntent, encode_intent, encode_record
from keyferry.errors import RecordError
from keyferry.pulls.records.decide import PodCredentials
from keyferry.pulls.records.disk import FolderLock
from keyferry.pulls.records.format import file_name
from keyferry.pulls.records.policy import VerificationPolicy
from keyferry.pulls.records.records import inspect_records, load_records
from support.commands import run_keyferry
from support.folders import contents
from support.kubelets import Processes
from support.parts import root as as_root
from support.plugins import exit_code_in_fork
from support.records import (
    EVERYBODY,
    HASH,
    IMAGE,
    NAME,
    REF,
    WHEN,
    Present,
    finish,
    folder_of,
    open_quickly,
    plant,
    record,
    run_python,
    secret,
    with_secrets,
)

GRANTING = encode_record(record())
NOBODY_USER = 65534


def link(root: Path, make: Callable[[Path, Path], None]) -> None:
    target = root / "elsewhere"
    target.write_bytes(GRANTING)
    target.chmod(0o600)
    make(target, folder_of(root) / plant(root).name)


def symlink(target: Path, path: Path) -> None:
    path.unlink()
    path.symlink_to(target)


def hard_link(target: Path, path: Path) -> None:
    path.unlink()
    path.hardlink_to(target)


def fifo(root: Path) -> None:
    path = plant(root)
    path.unlink()
    os.mkfifo(path, 0o600)


def folder_in_its_place(root: Path) -> None:
    path = plant(root)
    path.unlink()
    path.mkdir()


def huge(root: Path) -> None:
    path = plant(root)
    with path.open("ab") as stream:
        stream.truncate(1 << 40)


def rename(root: Path, name: str) -> None:
    plant(root).rename(folder_of(root) / name)


# How each is made, and what the reasons call it.
PLANTED: dict[str, tuple[Callable[[Path], object], str]] = {
    "truncated": (lambda root: plant(root, GRANTING[:-9]), "syntax"),
    "zero-length": (lambda root: plant(root, b""), "type"),
    "zeros": (lambda root: plant(root, bytes(4096)), "syntax"),
    "garbage": (lambda root: plant(root, b"{garbage"), "syntax"),
    "two documents": (lambda root: plant(root, GRANTING * 2), "syntax"),
    "unknown version": (lambda root: plant(root, GRANTING.replace(b"v1beta1", b"v9")), "type"),
    "unknown field": (lambda root: plant(root, GRANTING.replace(b'"kind"', b'"x":1,"kind"')), "content"),
    "repeated field": (lambda root: plant(root, GRANTING.replace(b'"kind"', b'"imageRef":"","kind"')), "content"),
    "intent in its place": (lambda root: plant(root, GRANTING.replace(b"PulledRecord", b"PullIntent")), "type"),
    "symbolic link": (lambda root: link(root, symlink), "trust"),
    "hard link": (lambda root: link(root, hard_link), "trust"),
    "named pipe": (fifo, "trust"),
    "folder": (folder_in_its_place, "trust"),
    "huge": (huge, "trust"),
    "world-readable": (lambda root: plant(root, mode=0o644), "trust"),
    "group-writable": (lambda root: plant(root, mode=0o660), "trust"),
    "another name": (lambda root: plant(root).rename(folder_of(root) / "sha256-0"), "misplaced"),
    "the end of its name": (lambda root: rename(root, f"sha256-x{file_name(REF)}"), "misplaced"),
    "its name twice": (lambda root: rename(root, file_name(REF) * 2), "misplaced"),
    "its name and more": (lambda root: rename(root, f"{file_name(REF)}.bak"), "misplaced"),
}  # fmt: skip


@pytest.mark.parametrize("policy", ["AlwaysVerify", "NeverVerifyPreloadedImages", "NeverVerify"])
@pytest.mark.parametrize("how", PLANTED)
def test_a_record_in_doubt_lets_nobody_in(tmp_path: Path, how: str, policy: str) -> None:
    """Whatever is wrong with it, the image is verified again, the reasons say so, and a new pull mends it."""
    make, cause = PLANTED[how]
    make(tmp_path)
    records = open_quickly(tmp_path, policy)
    decision = records.decide(IMAGE, REF, PodCredentials(secrets=(secret(),)))
    assert (decision.must_pull, decision.rule) == (True, "unreadable")
    assert decision.reasons[0].outcome == cause
    if how == "folder":
        return  # only a person can remove it
    records.record_pulled(IMAGE, REF, with_secrets(secret()))
    found = records.find(REF).record
    assert found is not None
    assert found.credential_mapping == {NAME: with_secrets(secret())}


def test_a_folder_in_the_place_of_a_record_is_an_error_when_written(tmp_path: Path) -> None:
    """A record that cannot be replaced fails, and the intent stays, so the image is verified."""
    folder_in_its_place(tmp_path)
    records = open_quickly(tmp_path, "NeverVerifyPreloadedImages")
    records.record_intent(IMAGE)
    with pytest.raises(RecordError, match="is a directory"):
        records.record_pulled(IMAGE, REF, None)
    assert records.decide(IMAGE, REF).must_pull
    assert not [each for each in folder_of(tmp_path).iterdir() if each.name.endswith(".tmp")]


def test_a_record_of_another_image_grants_nothing(tmp_path: Path) -> None:
    """A copied record counts as absent, as in the kubelet, and is told."""
    plant(tmp_path, encode_record(record("sha256:other")))
    decision = open_quickly(tmp_path, cached=False).decide(IMAGE, REF)
    assert (decision.must_pull, decision.rule) == (True, "no-record")
    assert decision.reasons[0].outcome == "foreign"


@as_root
def test_a_record_of_somebody_else_grants_nothing(tmp_path: Path) -> None:
    """A file that another user owns is his word, not the kubelet's."""
    os.chown(plant(tmp_path), NOBODY_USER, NOBODY_USER)
    assert open_quickly(tmp_path).decide(IMAGE, REF).rule == "unreadable"


@as_root
def test_a_folder_of_somebody_else_grants_nothing(tmp_path: Path) -> None:
    """Its owner can put any file into it, also one of ours from elsewhere; nothing is written into it either."""
    plant(tmp_path)
    os.chown(folder_of(tmp_path), NOBODY_USER, NOBODY_USER)
    assert inspect_records(str(tmp_path)).decide(IMAGE, REF).rule == "unreadable"
    with pytest.raises(RecordError, match="belongs to user 65534, expected user 0") as caught:
        open_quickly(tmp_path)
    assert caught.value.kind == "trust"


@as_root
def test_folders_of_the_one_who_owns_the_root_are_used_and_their_records_not_believed(tmp_path: Path) -> None:
    """As with a mounted folder: what is in it may be his, so the image is verified, and recorded again by us."""
    path = plant(tmp_path)
    for each in (tmp_path, path.parent.parent, path.parent, folder_of(tmp_path, "pulling")):
        os.chown(each, NOBODY_USER, NOBODY_USER)
    records = open_quickly(tmp_path)
    assert records.decide(IMAGE, REF).rule == "unreadable"
    records.record_pulled(IMAGE, REF, with_secrets(secret()))
    assert path.stat().st_uid == os.geteuid()


LINKED = {
    "image_manager": "image_manager",
    "pulling": "image_manager/pulling",
    "pulled": "image_manager/pulled",
}


def lead_away(root: Path, name: str) -> Path:
    """Put a link in the place of a folder; gives what it leads to, which holds all that was there."""
    plant(root)
    folder_of(root, "pulling")
    victim = root.with_name(f"{root.name}-victim")
    (root / name).rename(victim)
    (root / name).symlink_to(victim)
    victim.chmod(0o755)
    return victim


@pytest.mark.parametrize("name", LINKED.values(), ids=LINKED)
def test_a_link_in_the_place_of_a_folder_is_neither_read_nor_written_through(
    tmp_path: Path, name: str
) -> None:
    """Whoever may make links below the root does not get to say where records are, or what becomes private."""
    root = tmp_path / "root"
    victim = lead_away(root, name)
    before = contents(victim)
    with pytest.raises(RecordError, match="is a symbolic link, which is not followed") as caught:
        open_quickly(root)
    assert (caught.value.kind, caught.value.path) == ("trust", str(root / name))
    looked = inspect_records(str(root))
    for policy in ("AlwaysVerify", "NeverVerifyPreloadedImages", "NeverVerify"):
        looked.policy = VerificationPolicy(policy)
        # Intents are looked at where there is no record.
        ref = "sha256:other" if name.endswith("pulling") else REF
        assert looked.decide(IMAGE, ref).rule == "unreadable"
    with suppress(RecordError):
        looked.files.write_record(record())
    with suppress(RecordError):
        looked.files.delete_intent(IMAGE)
    assert contents(victim) == before
    assert victim.stat().st_mode & 0o777 == 0o755


def grant_elsewhere(root: Path) -> Path:
    """A folder beside the records, with a record that lets everybody in."""
    away = root.with_name(f"{root.name}-away")
    plant(away)
    return away / "image_manager"


def replace_by_link(root: Path, away: Path) -> None:
    folder_of(root).rename(root / "old")
    (root / "image_manager" / "pulled").symlink_to(away / "pulled")


def replace_above_by_link(root: Path, away: Path) -> None:
    (root / "image_manager").rename(root / "old")
    (root / "image_manager").symlink_to(away)


@pytest.mark.parametrize("cached", [True, False])
@pytest.mark.parametrize("replace", [replace_by_link, replace_above_by_link])
def test_a_link_that_comes_later_is_neither_read_nor_written_through(
    tmp_path: Path, replace: Callable[[Path, Path], None], cached: bool
) -> None:
    """Folders that were opened before are not taken for those that a link leads to."""
    root = tmp_path / "root"
    root.mkdir()
    away = grant_elsewhere(root)
    records = open_quickly(root, cached=cached)
    records.record_pulled("reg.example/other", "sha256:other", with_secrets(secret()))
    replace(root, away)
    before = contents(away)
    assert records.files.find_record(REF).record is None
    assert records.files.find_record(REF).failure is not None
    with pytest.raises(RecordError, match="is a symbolic link, which is not followed"):
        records.record_pulled(IMAGE, REF, with_secrets(secret()))
    with suppress(RecordError):
        records.files.delete_record(REF)
    assert contents(away) == before


@as_root
def test_a_strangers_folder_that_comes_later_grants_nothing(tmp_path: Path) -> None:
    """Nor is anything written into it."""
    records = open_quickly(tmp_path, cached=False)
    records.record_pulled(IMAGE, REF, with_secrets(secret()))
    folder_of(tmp_path).rename(tmp_path / "old")
    os.chown(plant(tmp_path).parent, NOBODY_USER, NOBODY_USER)
    before = contents(folder_of(tmp_path))
    assert records.decide(IMAGE, REF).rule == "unreadable"
    with pytest.raises(RecordError, match="belongs to user 65534"):
        records.record_pulled(IMAGE, REF, with_secrets(secret()))
    assert contents(folder_of(tmp_path)) == before


def test_a_folder_that_is_opened_to_others_later_is_not_believed_and_closed_by_the_next_write(
    tmp_path: Path,
) -> None:
    """Also if it was open before."""
    records = open_quickly(tmp_path, cached=False)
    records.record_pulled(IMAGE, REF, with_secrets(secret()))
    folder_of(tmp_path).chmod(0o777)
    assert records.decide(IMAGE, REF, PodCredentials(secrets=(secret(),))).rule == "unreadable"
    records.files.write_record(record())
    assert folder_of(tmp_path).stat().st_mode & 0o777 == 0o700


def remove(root: Path) -> None:
    shutil.rmtree(root / "image_manager")


def rename_away(root: Path) -> None:
    (root / "image_manager").rename(root / f"old-{len(list(root.iterdir()))}")


@pytest.mark.parametrize("vanish", [remove, rename_away])
def test_folders_that_are_made_anew_are_found(tmp_path: Path, vanish: Callable[[Path], None]) -> None:
    """Who only looks sees none, then those that a kubelet makes; who writes makes them."""
    records = open_quickly(tmp_path, cached=False)
    records.record_pulled(IMAGE, REF, with_secrets(secret()))
    looking = inspect_records(str(tmp_path))
    assert looking.find(REF).record is not None
    vanish(tmp_path)
    assert not looking.find(REF).exists
    assert not records.find(REF).exists
    plant(tmp_path)
    assert looking.decide(IMAGE, REF).rule == records.decide(IMAGE, REF).rule == "everybody"
    vanish(tmp_path)
    folder_of(tmp_path)
    records.record_pulled(IMAGE, REF, with_secrets(secret()))
    assert looking.decide(IMAGE, REF).rule == "stranger"


def test_records_by_the_thousand_keep_few_files_open(tmp_path: Path) -> None:
    """Each goes on giving its own answers; those that are closed or forgotten keep nothing."""
    before = len(os.listdir("/proc/self/fd"))
    nodes = []
    for at in range(1000):
        plant(tmp_path / str(at), encode_record(record(f"sha256:{at}")), ref=f"sha256:{at}")
        nodes.append(inspect_records(str(tmp_path / str(at))))
    for _ in range(2):
        assert [node.find(f"sha256:{at}").exists for at, node in enumerate(nodes)] == [True] * 1000
    assert len(os.listdir("/proc/self/fd")) <= before
    for node in nodes:
        node.close()
    assert len(os.listdir("/proc/self/fd")) <= before
    assert nodes[0].find("sha256:0").exists


def test_a_forked_child_looks_and_writes_by_itself(tmp_path: Path) -> None:
    """And leaves its parent's folders open."""
    records = open_quickly(tmp_path, cached=False)
    records.record_pulled(IMAGE, REF, with_secrets(secret()))

    def work() -> None:
        assert records.find(REF).exists
        records.record_pulled(IMAGE, "sha256:child", None)
        records.close()

    assert exit_code_in_fork(work) == 0
    assert records.find("sha256:child").exists
    records.record_pulled(IMAGE, "sha256:parent", None)
    assert len(records.list().values) == 3


def test_a_root_that_is_a_link_is_followed(tmp_path: Path) -> None:
    """It is what the user named."""
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    open_quickly(tmp_path / "link").record_pulled(IMAGE, REF, with_secrets(secret()))
    assert open_quickly(tmp_path / "real").find(REF).record is not None


@pytest.mark.parametrize("cached", [True, False])
@pytest.mark.parametrize(
    "name", ["sha256-", f"sha256-x{file_name(REF)}", "sha256-zzz", f"{file_name(REF)}.bak"]
)
def test_a_copy_under_another_name_takes_no_place(tmp_path: Path, name: str, cached: bool) -> None:
    """Beside the record itself, before or after it in the order of names, one that lets everybody in does not count."""
    records = open_quickly(tmp_path)
    records.record_pulled(IMAGE, REF, with_secrets(secret()))
    stray = folder_of(tmp_path) / name
    for content in (GRANTING, GRANTING.replace(b"v1beta1", b"v1alpha1")):
        stray.write_bytes(content)
        stray.chmod(0o600)
        fresh = open_quickly(tmp_path, cached=cached)
        assert fresh.decide(IMAGE, REF).rule == "stranger"
        listing = fresh.list()
        assert [each.credential_mapping for each in listing.believed] == [{NAME: with_secrets(secret())}]
        assert [error.path for error in listing.strays] == [str(stray)]
        fresh.prune([], WHEN + 1)
        assert fresh.find(REF).record is not None


def test_a_folder_that_all_can_write_grants_nothing_to_those_who_look(tmp_path: Path) -> None:
    """Who only looks does not change it, and does not believe it."""
    plant(tmp_path)
    folder_of(tmp_path).chmod(0o777)
    records = inspect_records(str(tmp_path))
    assert records.find(REF).failure is not None
    assert records.list().values == ()


def test_a_file_that_appears_where_a_temporary_one_is_made_is_not_followed(tmp_path: Path) -> None:
    """Writing goes through a name nobody can guess, made anew, never through a link."""
    victim = tmp_path / "victim"
    victim.write_text("precious")
    records = open_quickly(tmp_path)
    (folder_of(tmp_path) / f"{plant(tmp_path).name}.tmp").symlink_to(victim)
    records.record_pulled(IMAGE, REF, with_secrets(secret()))
    assert victim.read_text() == "precious"


def test_a_broken_intent_is_verified_whatever_the_policy(tmp_path: Path) -> None:
    """An intent in doubt may hide a pull that was cut short."""
    path = folder_of(tmp_path, "pulling") / file_name(IMAGE)
    path.write_bytes(b"{")
    path.chmod(0o600)
    decision = open_quickly(tmp_path, "NeverVerify").decide(IMAGE, REF)
    assert (decision.must_pull, decision.rule) == (True, "unreadable")


CRASH = "from support.records import pull_and_die; pull_and_die(sys.argv[1], int(sys.argv[2]))"


def test_a_crash_at_any_step_leaves_a_safe_state(tmp_path: Path) -> None:
    """Killed before each step from intent to record: no stranger is let in, nothing half-written counts."""
    number = 0
    statuses = {-signal.SIGKILL}
    while -signal.SIGKILL in statuses:
        batch = [(at, tmp_path / str(at)) for at in range(number + 1, number + 7)]
        children = []
        for at, root in batch:
            root.mkdir()
            children.append(run_python(CRASH, str(root), str(at)))
        results = finish(children)
        assert all(status in (0, -signal.SIGKILL) for status, _ in results), results
        for _, root in batch:
            check_after_crash(root)
        statuses = {status for status, _ in results[-1:]}
        number += len(batch)
    # Two records' worth of steps and the folders: fewer would mean that the crashes came all too early.
    assert number > 20


def check_after_crash(root: Path) -> None:
    is_present = (root / "runtime-has-it").exists()
    records = open_quickly(root, "NeverVerifyPreloadedImages")
    recovery = records.recover(lambda: [Present(id=REF, tags=(IMAGE,))] if is_present else [])
    assert recovery.problems == records.list().problems == records.list_intents().problems == ()
    assert not list(root.rglob("*.tmp"))
    if is_present:
        assert records.decide(IMAGE, REF).must_pull
        assert records.decide(IMAGE, REF, PodCredentials(secrets=(secret("x", "y"),))).must_pull
        assert records.list_intents().values == ()
        found = records.find(REF).record
        assert found is not None
        is_named = NAME in found.credential_mapping
        assert records.decide(IMAGE, REF, PodCredentials(secrets=(secret(),))).must_pull is not is_named
        assert EVERYBODY not in found.credential_mapping.values()


MANY = """
from support.records import IMAGE, REF, open_quickly, secret, with_secrets
from pathlib import Path
records = open_quickly(Path(sys.argv[1]))
print("ready", flush=True)
sys.stdin.readline()
for at in range(25):
    records.record_intent(IMAGE)
    records.record_pulled(IMAGE, REF, with_secrets(secret(f"{sys.argv[2]}-{at}", sys.argv[2])))
"""


def test_two_programs_at_once_lose_nothing(tmp_path: Path) -> None:
    """Three processes add their secrets to one record side by side; all are there in the end."""
    children = [run_python(MANY, str(tmp_path), name) for name in "abc"]
    for child in children:
        assert child.stdout is not None
        assert child.stdout.readline() == b"ready\n"
    for child in children:
        assert child.stdin is not None
        child.stdin.write(b"go\n")
        child.stdin.flush()
    assert finish(children) == [(0, "")] * 3
    found = inspect_records(str(tmp_path)).find(REF).record
    assert found is not None
    names = {each.name for each in found.credential_mapping[NAME].kubernetes_secrets}
    assert names == {f"{name}-{at}" for name in "abc" for at in range(25)}
    assert inspect_records(str(tmp_path)).list_intents().values == ()


HOLD = """
from support.records import IMAGE, open_quickly
from pathlib import Path
open_quickly(Path(sys.argv[1])).record_intent(IMAGE)
print("held", flush=True)
sys.stdin.readline()
"""


def test_a_pull_of_another_program_is_respected_until_it_dies(tmp_path: Path) -> None:
    """Its intent survives our failure and our recovery; once it is killed, recovery takes over."""
    child = run_python(HOLD, str(tmp_path))
    try:
        assert child.stdout is not None
        assert child.stdout.readline() == b"held\n"
        records = open_quickly(tmp_path, "NeverVerifyPreloadedImages")
        records.record_intent(IMAGE)
        records.record_failed(IMAGE)
        present = [Present(id=REF, tags=(IMAGE,))]
        assert records.recover(lambda: present).left == (IMAGE,)
        assert records.decide(IMAGE, REF).must_pull
    finally:
        child.kill()
        finish([child])
    assert records.recover(lambda: present).recovered == ((IMAGE, REF),)
    assert records.decide(IMAGE, REF).must_pull


def test_a_lock_that_is_never_given_up_is_an_error_in_time(tmp_path: Path) -> None:
    """Nobody hangs because another process does."""
    folder_of(tmp_path)
    folder = str(tmp_path / "image_manager")
    holder, other = FolderLock(folder), FolderLock(folder, timeout_seconds=0.05)
    with holder.held(), pytest.raises(RecordError, match="held the lock") as caught, other.held():
        raise AssertionError("both have it")
    assert caught.value.kind == "locked"
    with other.held():
        pass


def test_no_hash_leaves_through_a_repr(tmp_path: Path) -> None:
    """Hashes have no salt, so records, secrets and decisions do not show them."""
    records = open_quickly(tmp_path)
    records.record_pulled(IMAGE, REF, with_secrets(secret()))
    decision = records.decide(IMAGE, REF, PodCredentials(secrets=(secret(),)))
    shown = f"{records!r}{records.find(REF)!r}{decision!r}{decision.reasons!r}{records.list().values!r}"
    assert HASH not in shown


def test_nothing_is_added_to_a_record_beside_a_running_kubelet(processes: Processes, tmp_path: Path) -> None:
    """It holds the record in memory, and its next write would take the addition away: it is reported, not made."""
    path = plant(tmp_path, encode_record(record(entry=with_secrets(secret()))))
    before = path.read_bytes()
    rotated = PodCredentials(secrets=(secret(credential_hash="7a" * 32),))
    with processes.kubelet(f"--root-dir={tmp_path}"):
        records = inspect_records(str(tmp_path), policy=VerificationPolicy("AlwaysVerify"), read_only=False)
        decision = records.decide(IMAGE, REF, rotated)
        assert not decision.must_pull
        assert "is the root of a kubelet" in str(decision.write_problem)
        assert path.read_bytes() == before
    assert records.decide(IMAGE, REF, rotated).write_problem is None
    assert path.read_bytes() != before


@as_root
def test_a_foreign_process_called_kubelet_neither_leads_nor_blocks(
    processes: Processes, tmp_path: Path
) -> None:
    """Root reads no file that it names, takes no root from it, and is not kept from its own records."""
    folder_of(tmp_path)
    pipe = tmp_path / "config"
    os.mkfifo(pipe)  # whoever opened it would wait for ever
    with processes.kubelet(f"--config={pipe}", f"--root-dir={tmp_path}", user=NOBODY_USER):
        done = run_keyferry("records", "list", "--root", str(tmp_path))
        assert (done.returncode, done.stderr) == (0, "")
        elsewhere = run_keyferry("records", "list")
        assert "/var/lib/kubelet" in elsewhere.stderr
        load_records(str(tmp_path)).record_intent(IMAGE)


def test_the_commands_write_nothing_beside_a_running_kubelet(processes: Processes, tmp_path: Path) -> None:
    """Pruning and settling are refused with --yes, and still show what they would do without."""
    path = plant(tmp_path)
    intent = folder_of(tmp_path, "pulling") / file_name(IMAGE)
    intent.write_bytes(encode_intent(ImagePullIntent(image=IMAGE)))
    intent.chmod(0o600)
    images = tmp_path / "images.json"
    images.write_text(json.dumps({"images": [{"id": "sha256:other", "repoTags": [IMAGE]}]}))
    words = ["--images", str(images), "--root", str(tmp_path)]
    with processes.kubelet(f"--root-dir={tmp_path}"):
        for command, hint in (("prune", "remove them with --yes"), ("recover", "complete them with --yes")):
            done = run_keyferry("records", command, *words, "--yes", "--no-kubelet")
            assert done.returncode == 3, done.stderr
            assert "is the root of a kubelet (process " in done.stderr
            shown = run_keyferry("records", command, *words)
            assert (shown.returncode, hint in shown.stderr) == (1, True)
        assert path.exists()
        assert intent.exists()
    assert run_keyferry("records", "recover", *words, "--yes").returncode == 0
    assert not intent.exists()
    assert run_keyferry("records", "prune", *words, "--yes").returncode == 0
    assert not path.exists()
