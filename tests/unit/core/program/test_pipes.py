"""Pipes that are made and closed without a moment in which an interrupt could lose one."""

from __future__ import annotations

import os
import sys

import pytest

from keyferry._core.program.pipes import NO_FD, closer, make_pipe, make_pipes
from support.plugins import run_script

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="reads the list of descriptors")


def open_fds() -> set[str]:
    return set(os.listdir("/dev/fd"))


def test_pipes_are_listed_and_work() -> None:
    made: list[tuple[int, int]] = []
    make_pipes(made, 3)
    assert len(made) == 3
    for reader, writer in made:
        assert os.write(writer, b"x") == 1
        assert os.read(reader, 9) == b"x"
        assert not os.get_inheritable(reader)
        assert not os.get_inheritable(writer)
    any(closer([NO_FD, *(fd for pair in made for fd in pair)]))


def test_all_descriptors_of_a_list_are_closed_and_removed() -> None:
    before = open_fds()
    fds = [NO_FD]
    closing = closer(fds)
    fds += [*make_pipe(), *make_pipe()]
    assert not any(closing)
    assert (fds, open_fds()) == ([], before)
    assert not any(closing)


def test_what_is_behind_a_descriptor_that_cannot_be_closed_stays_listed() -> None:
    reader, writer = make_pipe()
    fds = [NO_FD, writer, 1 << 20, reader]
    with pytest.raises(OSError, match="Bad file descriptor"):
        any(closer(fds))
    assert fds == [NO_FD, writer]
    os.close(writer)


def test_no_pipe_has_the_number_of_a_standard_stream() -> None:
    """In a daemon they may be closed."""
    script = """
import os, sys
from keyferry._core.program.pipes import make_pipes
kept = os.dup(1)
os.closerange(0, 3)
made = []
make_pipes(made, 2)
os.write(kept, repr(min(map(min, made)) > 2).encode())
os.write(kept, repr([fd for fd in range(3) if os.path.exists(f"/proc/self/fd/{fd}")]).encode())
"""
    assert run_script(script).stdout == "True[]"


def test_pipes_that_were_made_before_an_error_are_listed() -> None:
    script = """
import os, resource
from keyferry._core.program.pipes import NO_FD, closer, make_pipes
before = len(os.listdir("/proc/self/fd"))
resource.setrlimit(resource.RLIMIT_NOFILE, (before + 4, before + 4))
made = []
try:
    make_pipes(made, 9)
except OSError as error:
    print(error.errno, len(made))
any(closer([NO_FD, *(fd for pair in made for fd in pair)]))
print(len(os.listdir("/proc/self/fd")) == before)
"""
    assert run_script(script).stdout == "24 2\nTrue\n"


@pytest.mark.parametrize("free", range(12))
def test_no_descriptor_is_closed_twice_if_standard_streams_are_closed_and_few_are_free(free: int) -> None:
    """A number that is closed by mistake may be another thread's file by then."""
    script = f"""
import fcntl, os, resource
from keyferry._core.program.pipes import make_pipes
kept = os.dup(1)
os.closerange(0, 3)
_, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (kept + 1 + {free}, hard))
made, error = [], 0
try:
    make_pipes(made, 2)
except OSError as caught:
    error = caught.errno
resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
listed = sorted(fd for pair in made for fd in pair)
are_open = [fd for fd in range(64) if fd != kept and os.path.exists(f"/proc/self/fd/{{fd}}")]
os.write(kept, f"{{error}} {{len(made)}} {{listed == are_open}}".encode())
"""
    done = run_script(script)
    error, number, is_exact = done.stdout.split()
    assert is_exact == "True"
    assert error in ("0", "24")
    assert (error == "0") <= (number == "2")
