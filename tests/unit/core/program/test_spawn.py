"""Both ways to start a program on POSIX keep the same promises: the quick one of CPython, and Popen."""

from __future__ import annotations

import ast
import errno
import inspect
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from keyferry._core.program import fork_exec
from keyferry._core.program import spawn as spawn_module
from keyferry._core.program.child import USUAL_WAY, Child, Way
from keyferry._core.program.pipes import EMPTY, PIPE
from keyferry._core.program.spawn import new_child, spawn
from keyferry.invoke.run import Ending, Limits, run
from support.plugins import (
    PATIENCE_SECONDS,
    compile_program,
    exit_code_in_fork,
    run_script,
    write_executable,
)

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="runs shell scripts")

KNOWN = pytest.mark.skipif(not fork_exec.CAN_FORK_EXEC, reason="this Python's call is not known")
WAYS = (pytest.param(Way.FORK_EXEC, id="fork_exec", marks=KNOWN), pytest.param(Way.POPEN, id="popen"))
SHELL = "/bin/sh"


@pytest.fixture(params=WAYS)
def way(request: pytest.FixtureRequest) -> Way:
    """Each way to start a program that this system has."""
    asked: Way = request.param
    return asked


@pytest.fixture(autouse=True)
def nothing_is_left() -> Iterator[None]:
    """Whatever a test does: no descriptor and no child more than before."""
    before = sorted(os.listdir("/dev/fd"))
    yield
    assert sorted(os.listdir("/dev/fd")) == before
    with pytest.raises(ChildProcessError):
        os.waitpid(-1, os.WNOHANG)


def shell(way: Way, script: str, **options: object) -> str:
    """What a shell script prints that was started with options of ``spawn``."""
    child = new_child(way=way)
    options.setdefault("streams", (EMPTY, PIPE, EMPTY))
    try:
        spawn(child, SHELL, ("sh", "-c", script), dict(os.environb), **options)  # type: ignore[arg-type] # any of them
        pump = child.pump(b"", Limits())
        assert child.follow(pump, time.monotonic() + PATIENCE_SECONDS) is Ending.EXITED
        return pump.stdout.decode()
    finally:
        child.end()


def test_the_usual_way_is_the_quickest_there_is() -> None:
    """On Linux, in the versions whose call is known, without Popen."""
    is_known = sys.platform == "linux" and sys.version_info < (3, 15) and sys.implementation.name == "cpython"
    assert USUAL_WAY is (Way.FORK_EXEC if is_known else Way.POPEN)


@KNOWN
def test_the_call_has_as_many_arguments_as_popen_gives() -> None:
    """The private call is made as the standard library of this version makes it."""
    [made_by_popen] = [
        call
        for call in ast.walk(ast.parse(inspect.getsource(subprocess)))
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "_fork_exec"
    ]
    [ours] = [
        assigned.value
        for assigned in ast.walk(ast.parse(inspect.getsource(fork_exec)))
        if isinstance(assigned, ast.Assign) and isinstance(assigned.value, ast.Tuple)
        if ast.unparse(assigned.targets[0]) == "arguments"
    ]
    starred = {"report": 2, "_LAST": len(fork_exec._LAST)}
    assert len(made_by_popen.args) == sum(
        starred[ast.unparse(each.value)] if isinstance(each, ast.Starred) else 1 for each in ours.elts
    )


def test_audit_hooks_are_told(way: Way) -> None:
    """Who watches programs that start, by the event of Popen, sees each of them."""
    script = f"""
import sys
from keyferry._core.program.child import Way
from keyferry.invoke.run import run
sys.addaudithook(lambda event, args: event == "subprocess.Popen" and print(args[0], list(args[1])))
run(("/bin/echo", "x"), environ={{}}, way=Way.{way.name})
"""
    done = run_script(script)
    assert done.stdout == "/bin/echo ['/bin/echo', 'x']\n", done.stderr


# What the program is given


@pytest.mark.parametrize("own_session", [True, False])
def test_a_session_is_its_own_or_ours(way: Way, own_session: bool) -> None:
    """As the caller wants it; with it comes a group of processes."""
    pid, group, session = shell(
        way,
        'cut -d" " -f1,5,6 /proc/$$/stat 2>/dev/null || ps -o pid=,pgid=,sess= -p $$',
        own_session=own_session,
    ).split()
    assert (pid == group == session) is own_session
    if not own_session:
        assert (int(group), int(session)) == (os.getpgrp(), os.getsid(0))


def test_a_descriptor_that_is_kept_has_its_number(way: Way) -> None:
    """Though it is not inheritable here, and stays so."""
    reader, writer = os.pipe()
    os.set_blocking(reader, False)
    try:
        assert shell(way, f"echo given >/dev/fd/{writer}", kept_fds=(writer,)) == ""
        assert os.read(reader, 10) == b"given\n"
        assert not os.get_inheritable(writer)
    finally:
        os.close(reader)
        os.close(writer)


@pytest.mark.skipif(sys.platform != "linux", reason="reads signal sets in /proc")
def test_no_signal_is_blocked_or_ignored(way: Way) -> None:
    """Neither what this thread blocks, nor what Python ignores for itself; one that waits here goes on waiting."""
    blocked = {signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGCHLD}
    before = signal.pthread_sigmask(signal.SIG_BLOCK, blocked)
    try:
        signal.raise_signal(signal.SIGUSR1)
        # Not by a shell, which clears the mask itself.
        done = run(("/bin/grep", "-E", "^Sig(Blk|Ign)", "/proc/self/status"), way=way)
        during, waiting = signal.pthread_sigmask(signal.SIG_BLOCK, ()), signal.sigpending()
        signal.sigwait({signal.SIGUSR1})
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    sets = {name: int(value, 16) for name, value in map(str.split, done.stdout.decode().splitlines())}
    # What waits cannot be let through, and so stays blocked in the program.
    assert sets["SigBlk:"] == 1 << (signal.SIGUSR1 - 1)
    assert not sets["SigIgn:"] & (1 << (signal.SIGPIPE - 1) | 1 << (signal.SIGXFSZ - 1))
    assert during == blocked
    # The end of the program itself is told by a signal, which waits if no other thread takes it.
    assert waiting - {signal.SIGCHLD} == {signal.SIGUSR1}


@pytest.mark.parametrize(
    ("environ", "printed"),
    [({}, b""), ({b"A": b"\xff =b"}, b"A=\xff =b\n"), ({b"A": b"", b"B": b"2"}, b"A=\nB=2\n")],
)
def test_a_given_environment_is_the_whole_of_it(
    way: Way, environ: dict[bytes, bytes], printed: bytes
) -> None:
    """Whatever bytes it has."""
    assert run(("/usr/bin/env",), environ=environ, way=way).stdout == printed


def test_a_changed_environment_reaches_the_next_program(way: Way) -> None:
    """The same mapping with a new value, a new name and one name less; then another mapping."""
    environ = {b"A": b"1", b"B": b"2"}
    printed = []
    for change in ({}, {b"A": b"3"}, {b"C": b"4"}):
        environ |= change
        printed.append(run(("/usr/bin/env",), environ=environ, way=way).stdout)
    del environ[b"B"]
    printed += [run(("/usr/bin/env",), environ=each, way=way).stdout for each in (environ, {b"B": b"2"})]
    assert printed == [b"A=1\nB=2\n", b"A=3\nB=2\n", b"A=3\nB=2\nC=4\n", b"A=3\nC=4\n", b"B=2\n"]


def test_without_an_environment_the_program_has_ours(way: Way, monkeypatch: pytest.MonkeyPatch) -> None:
    """As it is at this moment."""
    monkeypatch.setenv("KF_OURS", "now")
    assert b"\nKF_OURS=now\n" in b"\n" + run(("/usr/bin/env",), way=way).stdout


def test_a_bare_name_is_searched_for_in_the_path_that_the_program_gets(way: Way, tmp_path: Path) -> None:
    """And is found in its second folder; with no path at all it is a file of the working directory."""
    write_executable(tmp_path / "acme-login", "#!/bin/sh\nexit 7\n")
    child = new_child(way=way)
    try:
        spawn(child, None, ["acme-login"], {b"PATH": b"/nonexistent:" + os.fsencode(tmp_path)})
        assert child.wait(time.monotonic() + PATIENCE_SECONDS) is Ending.EXITED
        assert child.status == 7
    finally:
        child.end()
    with pytest.raises(FileNotFoundError):
        spawn(Child(way=way), None, ["acme-login"], {b"PATH": b"/nonexistent"}, streams=(EMPTY, EMPTY, EMPTY))


# What cannot be started


def broken(folder: Path, kind: str) -> str:
    """The path of a file that cannot be run."""
    path = folder / kind
    if kind == "no-permission":
        write_executable(path, "#!/bin/sh\n", 0o644)
    elif kind == "no-format":
        write_executable(path, b"\0\0\0\0")
    elif kind == "no-interpreter":
        write_executable(path, "#!/nonexistent/interpreter\n")
    elif kind == "loop":
        path.symlink_to(path)
    return str(path)


@pytest.mark.parametrize(
    ("kind", "number"),
    [
        ("missing", errno.ENOENT),
        ("no-permission", errno.EACCES),
        ("no-format", errno.ENOEXEC),
        ("no-interpreter", errno.ENOENT),
        ("loop", errno.ELOOP),
    ],
)
def test_an_error_has_the_number_and_the_path(way: Way, kind: str, number: int, tmp_path: Path) -> None:
    """The same of both ways, and of the type that goes with the number."""
    path = broken(tmp_path, kind)
    with pytest.raises(OSError, match=r"\[Errno") as caught:
        run((path,), way=way)
    assert (caught.value.errno, caught.value.strerror, caught.value.filename) == (
        number,
        os.strerror(number),
        path,
    )
    assert type(caught.value) is type(OSError(number, ""))


@pytest.mark.parametrize(
    ("argv", "environ"),
    [
        (("/bin/echo", "a\0b"), {}),
        (("/bin/echo\0",), {}),
        (("/bin/echo",), {b"A": b"a\0b"}),
        (("/bin/echo",), {b"A\0": b"b"}),
        (("/bin/echo",), {b"A=B": b"c"}),
    ],
)
def test_what_no_program_can_be_given_is_a_value_error(
    way: Way, argv: tuple[str, ...], environ: dict[bytes, bytes]
) -> None:
    """Nulls, and a name that holds an equals sign."""
    with pytest.raises(ValueError, match=r"null byte|illegal environment variable name"):
        run(argv, environ=environ, way=way)


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere a file that is written to can be run")
def test_a_file_that_is_still_written_is_tried_again(way: Way, tmp_path: Path) -> None:
    """For a moment; then it is an error."""
    path = compile_program(tmp_path / "plugin", "int main(void) { return 7; }")
    held = path.open("ab")
    timer = threading.Timer(0.03, held.close)
    timer.start()
    try:
        assert run((str(path),), way=way).status == 7
    finally:
        timer.join()
    with path.open("ab"), pytest.raises(OSError, match="Text file busy"):
        run((str(path),), way=way)


def test_without_descriptors_the_start_fails_cleanly(way: Way) -> None:
    """Wherever in a start the last one is used up; the check around each test finds what is left."""
    script = f"""
import errno, os, resource
from keyferry._core.program.child import Way
from keyferry.invoke.run import run
run(("/bin/true",), way=Way.{way.name})
held = []
try:
    resource.setrlimit(resource.RLIMIT_NOFILE, (40, 40))
    while True:
        held.append(os.dup(0))
except OSError:
    pass
came = []
for _ in range(12):
    before = len(held)
    try:
        came.append(run(("/bin/true",), way=Way.{way.name}).status)
    except OSError as error:
        came.append(errno.errorcode[error.errno])
    os.close(held.pop())
free = 12
while True:
    try:
        os.dup(0)
        free -= 1
    except OSError:
        break
print(*came, free)
"""
    done = run_script(script)
    *came, left = done.stdout.split()
    assert came[0] == "EMFILE", done.stderr
    assert came[-1] == "0"
    assert set(came) == {"EMFILE", "0"}
    assert left == "0"


# Answers that are served in one look


@pytest.mark.skipif(sys.platform != "linux", reason="makes a pipe larger")
@pytest.mark.parametrize("size", [0, 1, 65_535, 65_536, 65_537, 131_072, 200_000])
@pytest.mark.parametrize("errors", [b"", b"said"])
def test_an_answer_that_is_there_at_once_is_whole(way: Way, size: int, errors: bytes, tmp_path: Path) -> None:
    """Also one that fills several reads, from a program that ended before the first."""
    source = f"""
#define _GNU_SOURCE
#include <fcntl.h>
#include <string.h>
#include <unistd.h>
static char data[{size} + 1];
int main(void) {{
  memset(data, 'x', sizeof data);
  fcntl(1, F_SETPIPE_SZ, 1 << 20);
  return write(2, "said", {len(errors)}) < 0 || write(1, data, {size}) != {size};
}}
"""
    path = compile_program(tmp_path / "plugin", source)
    done = run((str(path),), way=way)
    assert (done.ending, done.status, done.stdout, done.stderr) == (Ending.EXITED, 0, b"x" * size, errors)
    if size:
        limited = run((str(path),), way=way, limits=Limits(20, stdout_bytes=size - 1))
        assert limited.ending is Ending.STDOUT_LIMIT


def test_output_that_another_still_holds_is_waited_for(way: Way) -> None:
    """The program has ended, and what it left running goes on writing."""
    done = run((SHELL, "-c", "printf a; (sleep 0.1; printf b) &"), way=way)
    assert (done.ending, done.stdout) == (Ending.EXITED, b"ab")


# Turns


def test_a_fork_in_the_middle_of_a_start_does_not_block_the_child(way: Way) -> None:
    """Another thread has its turn, and does not exist in the child."""
    entered, leave = threading.Event(), threading.Event()

    def hold() -> None:
        with spawn_module._turn:
            entered.set()
            leave.wait(PATIENCE_SECONDS)

    thread = threading.Thread(target=hold)
    thread.start()
    entered.wait(PATIENCE_SECONDS)

    def work() -> None:
        assert run(("/bin/echo", "ran"), way=way).stdout == b"ran\n"

    try:
        assert exit_code_in_fork(work) == 0
    finally:
        leave.set()
        thread.join()


def test_nobody_waits_long_for_a_turn(way: Way) -> None:
    """A handler in the middle of a start may wait for another thread, which may wait for its turn."""
    script = f"""
import signal, sys, threading, time
from keyferry._core.program.child import Way
from keyferry.invoke.run import run
lock, is_held = threading.Lock(), threading.Event()
ended = []
def work():
    with lock:
        is_held.set()
        ended.append(run(("/bin/true",), way=Way.{way.name}).status)
thread = threading.Thread(target=work, daemon=True)
def handle(*_):
    thread.start()
    is_held.wait(20)
    with lock:
        ended.append("handler")
signal.signal(signal.SIGUSR1, handle)
def moment(frame, event, arg):
    if frame.f_code.co_name == "_start" and event == "c_call" and arg.__name__ == "write":
        sys.setprofile(None)
        signal.raise_signal(signal.SIGUSR1)
sys.setprofile(moment)
started = time.monotonic()
ended.append(run(("/bin/true",), stdin=b"x", way=Way.{way.name}).status)
thread.join(20)
print(ended, time.monotonic() - started < 5)
"""
    done = run_script(script)
    assert done.stdout == "[0, 'handler', 0] True\n", done.stderr


def test_a_program_can_be_started_whichever_standard_streams_are_closed(way: Way) -> None:
    """As in a daemon."""
    script = f"""
import itertools, os
from keyferry._core.program.child import Way
from keyferry.invoke.attached import run_attached
from keyferry.invoke.run import run
kept, null = os.dup(1), os.open(os.devnull, os.O_RDWR)
os.set_inheritable(kept, False)
for number in range(4):
    for closed in itertools.combinations(range(3), number):
        for fd in range(3):
            os.dup2(null, fd)
        for fd in closed:
            os.close(fd)
        said = run(("/bin/sh", "-c", "cat; echo err >&2; ls /proc/self/fd | wc -l"), stdin=b"in", way=Way.{way.name})
        other = run_attached(("/bin/echo", "x"), program="/bin/echo", environ={{}}, stdin_fd=0, way=Way.{way.name})
        if (said.stdout, said.stderr, other.stdout) != (b"in4\\n", b"err\\n", b"x\\n"):
            os.write(kept, repr((closed, said.stdout, said.stderr, other)).encode())
os.write(kept, b"done")
"""
    done = run_script(script)
    assert done.stdout == "done", done.stderr


@pytest.mark.skipif(sys.platform != "linux", reason="runs true from its usual place")
def test_a_handler_of_a_signal_can_start_a_program_while_one_is_started(way: Way) -> None:
    """At any moment of the start: the handler has the turn of the thread that it interrupts."""
    script = f"""
import signal, sys
from keyferry._core.program.child import Way
from keyferry.invoke.run import run
ran = []
signal.signal(signal.SIGUSR1, lambda *_: ran.append(run(("/bin/true",), way=Way.{way.name}).status))
for number in range(60):
    left = number
    def moment(frame, event, arg):
        global left
        if event in ("call", "return") and frame.f_code.co_filename.endswith(("spawn.py", "child.py", "fork_exec.py")):
            if left == 0:
                sys.setprofile(None)
                signal.raise_signal(signal.SIGUSR1)
            left -= 1
    sys.setprofile(moment)
    done = run(("/bin/true",), way=Way.{way.name})
    sys.setprofile(None)
    assert done.status == 0
    if left >= 0:
        break
print(number > 5, len(ran) == number, set(ran))
"""
    done = run_script(script)
    assert done.stdout == "True True {0}\n", done.stderr


# Programs that look as if they could not be started


@pytest.mark.parametrize("kind", ["missing", "no-permission", "no-format"])
@pytest.mark.parametrize(
    "limits",
    [Limits(0), Limits(-1), Limits(0.0001), Limits(60, stderr_bytes=0), Limits(60, stderr_bytes=4)],
    ids=["no time", "less", "hardly any", "no standard error", "little of it"],
)
def test_a_start_that_fails_is_an_error_under_any_limits(
    way: Way, kind: str, limits: Limits, tmp_path: Path
) -> None:
    """The report of it is not subject to the limits of a program."""
    with pytest.raises(OSError, match=r"\[Errno"):
        run((broken(tmp_path, kind),), way=way, limits=limits)


# Popen itself complains of a process that it did not collect.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_start_that_fails_is_an_error_though_others_collect_the_process(way: Way, tmp_path: Path) -> None:
    """Here the kernel does, because nobody wants to know of the ends of children."""
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    try:
        with pytest.raises(FileNotFoundError):
            run((broken(tmp_path, "missing"),), way=way)
    finally:
        signal.signal(signal.SIGCHLD, before)


def test_a_program_that_runs_once_more_has_what_is_left_of_its_time(way: Way, tmp_path: Path) -> None:
    """And one that has written an answer does not run again, whatever it reports."""
    runs = tmp_path / "runs"
    script = f"echo >>{runs}; sleep 0.7; printf %s 'OSError:2:' >&2; exit 255"
    started = time.monotonic()
    done = run((SHELL, "-c", script), way=way, limits=Limits(1.2))
    assert done.ending is (Ending.TIMED_OUT if way is Way.FORK_EXEC else Ending.EXITED)
    assert time.monotonic() - started < 1.9
    runs.unlink()
    done = run((SHELL, "-c", f"echo >>{runs}; echo answer; printf %s 'OSError:2:' >&2; exit 255"), way=way)
    assert (done.status, done.stdout, runs.read_text()) == (255, b"answer\n", "\n")


@pytest.mark.parametrize("status", [255, 1])
@pytest.mark.parametrize(
    "said", ["OSError:2:", "OSError:8:noexec", "OSError: 2:", "OSError::", "OSError:2:more", ""]
)
def test_a_program_that_reports_as_a_failed_start_does_has_run(
    way: Way, status: int, said: str, tmp_path: Path
) -> None:
    """Its status and its words are its own; only the very report makes it run once more."""
    runs = tmp_path / "runs"
    done = run((SHELL, "-c", f"echo >>{runs}; printf %s '{said}' >&2; exit {status}"), way=way)
    assert (done.ending, done.status, done.stderr) == (Ending.EXITED, status, said.encode())
    is_doubtful = way is Way.FORK_EXEC and status == 255 and said in ("OSError:2:", "OSError:8:noexec")
    assert runs.read_text() == ("\n\n" if is_doubtful else "\n")
