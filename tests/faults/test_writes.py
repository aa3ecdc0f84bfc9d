"""Whatever happens to a write, the old file is there or the new one, an error names it, and the next run succeeds."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from support.fault_driver import EIO, EMFILE, FULL, KILL, NO_INODES, READ_ONLY
from support.fault_table import Tried
from support.parts import lacking, need
from support.records import TESTS

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="counts calls and mounts as on Linux")

SAFE = "old or new; the error names it; the next run succeeds"
SWEEPS = {
    KILL: ("SIGKILL at every step", "old or new; the next run succeeds"),
    EIO: ("an I/O error at every step", SAFE),
    EMFILE: ("no descriptor, after every number of them", SAFE),
}
MOUNTS = {
    FULL: "a full file system",
    READ_ONLY: "a read-only file system",
    NO_INODES: "a file system without inodes",
}
# Neither needs new space.
LATER = {
    FULL: "done once there is room",
    READ_ONLY: "done once it can be written",
    NO_INODES: "done once there is room",
}
UNHINDERED = {
    (FULL, "the removal of that shim"),
    (FULL, "the agent's socket"),
    (NO_INODES, "the removal of that shim"),
}
# The fewest steps of any job: fewer would mean that they are not counted.
FEWEST = {KILL: 7, EIO: 7, EMFILE: 3}


@pytest.fixture
def quick_folder() -> Iterator[Path]:
    """A folder in memory if there is one: a disk would be waited for at every step."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as folder:
        yield Path(folder)


def drive(fault: str, folder: Path, before: Sequence[str] = ()) -> dict[str, dict[str, list[str]]]:
    setup = f"import sys; sys.path[:0] = {[str(TESTS), *sys.path]!r}\n"
    code = setup + "from support.fault_driver import main; main(*sys.argv[1:])"
    done = subprocess.run(
        [*before, sys.executable, "-c", code, fault, str(folder)],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    loaded = json.loads(done.stdout)
    assert isinstance(loaded, dict)
    return loaded


@pytest.mark.parametrize("fault", SWEEPS)
def test_a_fault_at_every_step_of_a_write(fault: str, quick_folder: Path, tried: Tried) -> None:
    """Killed, or told that the disk is broken, at each call in turn; half of what a write writes is there."""
    what, outcome = SWEEPS[fault]
    for place, result in drive(fault, quick_folder).items():
        assert result["problems"] == [], place
        assert result["states"] == ["new", "old"], place
        assert int(str(result["steps"])) >= FEWEST[fault], place
        tried(what, place, outcome)


@pytest.mark.parametrize("fault", MOUNTS)
def test_a_file_system_that_takes_nothing(fault: str, quick_folder: Path, tried: Tried) -> None:
    """Real ones, mounted for this test alone."""
    private = [need("unshare"), "--mount"]
    mount = [*private, "mount", "-t", "tmpfs", "tmpfs", str(quick_folder)]
    if subprocess.run(mount, capture_output=True, check=False).returncode != 0:
        lacking("mount-namespace")
    for place, result in drive(fault, quick_folder, private).items():
        is_free = (fault, place) in UNHINDERED
        assert result["problems"] == [], place
        assert result["states"] == ["new" if is_free else "old"], place
        assert (result["errors"] == [""]) is is_free, place
        tried(MOUNTS[fault], place, "done" if is_free else f"old; the error names it; {LATER[fault]}")
