"""``keyferry records recover``: pulls whose process died, settled with what a container runtime has."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import grpc
import pytest

from keyferry.pulls.records.records import inspect_records
from support.commands import run_in_process
from support.cri_server import Message, RefusalError, encode, image, running_cri
from support.pulling import intents_in, records_in
from support.records import HASH, finish, open_quickly, run_python, secret, with_secrets

HERE, GONE, DIGESTED = "reg.example/here:v1", "reg.example/gone:v1", "reg.example/it@sha256:" + "c" * 64
REF, OTHER_REF = "sha256:" + "a" * 64, "sha256:" + "b" * 64


def listing(_: Message) -> bytes:
    """A runtime that has two of the three images, one of them by its digest, and others."""
    return encode(
        image(REF, HERE, "reg.example/other:v1"),
        image(OTHER_REF, digests=[DIGESTED]),
        image("sha256:" + "d" * 64, "reg.example/never:noted"),
    )


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A kubelet's root with three pulls that were begun by a process that is gone."""
    records = open_quickly(tmp_path)
    for each in (HERE, GONE, DIGESTED):
        records.record_intent(each)
    records.close()
    return tmp_path


def snapshot(root: Path) -> dict[str, bytes]:
    """Every file below, but for the lock's number."""
    files = [path for path in sorted(root.rglob("*")) if path.is_file() and path.name != "keyferry.lock"]
    return {str(path.relative_to(root)): path.read_bytes() for path in files}


def test_without_yes_it_is_only_shown(root: Path) -> None:
    """Which pulls would be settled as which image, which stay; the runtime is asked for its list and nothing else."""
    before = snapshot(root)
    with running_cri(ListImages=listing) as server:
        options = ["--cri", server.address, "--root", str(root)]
        table = run_in_process("records", "recover", *options)
        document = run_in_process("records", "recover", *options, "-o", "json")
    assert (table.returncode, document.returncode) == (1, 1)
    assert "not present: the intent stays" in table.stdout
    assert "2 of 3 pulls would be completed; complete them with --yes" in table.stderr
    shown = json.loads(document.stdout)
    assert (shown["kind"], shown["done"], shown["problems"]) == ("PullRecovery", False, [])
    assert shown["recovered"] == [
        {"image": HERE, "imageRef": REF},
        {"image": DIGESTED, "imageRef": OTHER_REF},
    ]
    assert shown["left"] == [GONE]
    assert snapshot(root) == before
    assert {method for method, _ in server.received} == {"/runtime.v1.ImageService/ListImages"}


def test_with_yes_images_that_are_there_get_a_record_that_names_nobody(root: Path) -> None:
    """So that every use is verified; their intents go, and that of an image that is not there stays."""
    with running_cri(ListImages=listing) as server:
        options = ["--cri", server.address, "--root", str(root), "--yes"]
        done = run_in_process("records", "recover", *options, "-o", "json")
        again = run_in_process("records", "recover", *options)
    assert (done.returncode, again.returncode) == (0, 0), done.stderr
    shown = json.loads(done.stdout)
    assert shown["done"] is True
    assert [each["imageRef"] for each in shown["recovered"]] == [REF, OTHER_REF]
    assert intents_in(root) == [GONE]
    assert records_in(root) == {REF: {}, OTHER_REF: {}}
    assert inspect_records(str(root)).decide(HERE, REF).must_pull
    assert "0 of 1 pulls completed" in again.stderr


def test_who_may_use_an_image_already_goes_on_to(root: Path) -> None:
    """A record that is there loses nobody."""
    open_quickly(root).record_pulled("reg.example/other:v1", REF, with_secrets(secret()))
    with running_cri(ListImages=listing) as server:
        done = run_in_process("records", "recover", "--cri", server.address, "--root", str(root), "--yes")
    assert done.returncode == 0, done.stderr
    assert HASH in str(records_in(root)[REF])
    assert HERE not in intents_in(root)


HOLD = """
from support.records import open_quickly
from pathlib import Path
open_quickly(Path(sys.argv[1])).record_intent(sys.argv[2])
print("held", flush=True)
sys.stdin.readline()
"""


def test_a_pull_whose_process_lives_stays(root: Path) -> None:
    """Its image may be there, and it will settle it itself."""
    child = run_python(HOLD, str(root), HERE)
    try:
        assert child.stdout is not None
        assert child.stdout.readline() == b"held\n"
        with running_cri(ListImages=listing) as server:
            done = run_in_process("records", "recover", "--cri", server.address, "--root", str(root), "--yes")
    finally:
        child.kill()
        finish([child])
    assert done.returncode == 0, done.stderr
    assert sorted(intents_in(root)) == sorted([HERE, GONE])


def refuse(code: grpc.StatusCode, said: str) -> Callable[[Message], bytes]:
    def answer(_: Message) -> bytes:
        raise RefusalError(code, said)

    return answer


@pytest.mark.parametrize("options", [[], ["--yes"]], ids=["look", "yes"])
def test_a_runtime_that_fails_changes_nothing(root: Path, options: list[str]) -> None:
    """Its words are told without escapes; nobody is taken for gone because it did not answer."""
    before = snapshot(root)
    failing = refuse(grpc.StatusCode.UNAVAILABLE, "shim is \x1b[31mdown")
    with running_cri(ListImages=failing) as server:
        done = run_in_process("records", "recover", "--cri", server.address, "--root", str(root), *options)
    assert (done.returncode, done.stdout) == (3, "")
    assert "container runtime: shim is" in done.stderr
    assert "\x1b" not in done.stderr
    assert snapshot(root) == before
    gone = run_in_process("records", "recover", "--cri", server.address, "--root", str(root), *options)
    assert gone.returncode == 3
    assert "is the container runtime running?" in gone.stderr
    assert snapshot(root) == before


def test_a_list_in_a_file_does_as_well(root: Path, tmp_path: Path) -> None:
    """As crictl prints it; without any list there is nothing to go by."""
    images = tmp_path / "images.json"
    images.write_text(json.dumps({"images": [{"id": REF, "repoTags": [HERE], "repoDigests": []}]}))
    done = run_in_process("records", "recover", "--images", str(images), "--root", str(root), "--yes")
    assert done.returncode == 0, done.stderr
    assert sorted(intents_in(root)) == sorted([GONE, DIGESTED])
    nothing = run_in_process("records", "recover", "--root", str(root), "--yes")
    assert nothing.returncode == 2
    assert "the present images are unknown" in nothing.stderr


def test_a_broken_note_is_told_and_stays(root: Path) -> None:
    """The others are settled all the same."""
    broken = root / "image_manager" / "pulling" / ("sha256-" + "0" * 64)
    broken.write_bytes(b"{")
    broken.chmod(0o600)
    with running_cri(ListImages=listing) as server:
        done = run_in_process("records", "recover", "--cri", server.address, "--root", str(root), "--yes")
    assert broken.name in done.stderr
    assert broken.read_bytes() == b"{"
    assert "2 of 3 pulls completed" in done.stderr


def test_where_nothing_is_noted_nothing_is_to_be_settled(tmp_path: Path) -> None:
    """And a root without records is told."""
    open_quickly(tmp_path).close()
    with running_cri(ListImages=listing) as server:
        options = ["--cri", server.address]
        done = run_in_process("records", "recover", *options, "--root", str(tmp_path))
        missing = run_in_process("records", "recover", *options, "--root", str(tmp_path / "none"))
    assert (done.returncode, done.stdout) == (0, "")
    assert "0 of 0 pulls" in done.stderr
    assert missing.returncode == 3
    assert "/none: there is no such folder; expected the root of a kubelet" in missing.stderr
