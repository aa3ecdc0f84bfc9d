"""Starting a program: what cannot be started, and what may happen meanwhile."""

from __future__ import annotations

import errno
import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from keyferry.invoke.run import Ending, Limits, run
from support.children import child_states
from support.plugins import compile_program, run_script, write_executable

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="runs shell scripts")


@pytest.fixture(autouse=True)
def nothing_is_left() -> Iterator[None]:
    """Whatever a test does: no descriptor and no child more than before."""
    before = sorted(os.listdir("/dev/fd")), child_states().keys()
    yield
    assert (sorted(os.listdir("/dev/fd")), child_states().keys()) == before


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
@pytest.mark.parametrize(
    "limits", [Limits(), Limits(timeout_seconds=0), Limits(stderr_bytes=0)], ids=["", "no time", "no errors"]
)
def test_an_error_has_the_number_and_the_path(kind: str, number: int, limits: Limits, tmp_path: Path) -> None:
    """And the type that goes with the number, under any limits: they are a program's, which there is not."""
    path = broken(tmp_path, kind)
    with pytest.raises(type(OSError(number, "")), match=r"\[Errno") as caught:
        run((path,), limits=limits)
    error = caught.value
    assert (error.errno, error.strerror, error.filename) == (number, os.strerror(number), path)


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
    argv: tuple[str, ...], environ: dict[bytes, bytes]
) -> None:
    """Nulls, and a name that holds an equals sign."""
    with pytest.raises(ValueError, match=r"null byte|illegal environment variable name"):
        run(argv, environ=environ)


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere a file that is written to can be run")
def test_a_file_that_is_still_written_is_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """For a moment; then it is an error."""
    path = compile_program(tmp_path / "plugin", "int main(void) { return 7; }")
    held = path.open("ab")
    # Whoever wrote it is ready when the start has waited once.
    monkeypatch.setattr(time, "sleep", lambda _: held.close())
    assert run((str(path),)).status == 7
    with path.open("ab"), pytest.raises(OSError, match="Text file busy"):
        run((str(path),))


def test_without_descriptors_the_start_fails_cleanly() -> None:
    """Wherever in a start the last one is used up; the check around each test finds what is left."""
    script = """
import errno, os, resource
from keyferry.invoke.run import run
run(("/bin/true",))
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
        came.append(run(("/bin/true",)).status)
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


# A program that has ended before anything of it is read


AT_ONCE = """
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
static char data[1 << 20];
int main(int count, char **words) {
  long size = atol(words[1]);
  memset(data, 'x', sizeof data);
  fcntl(1, F_SETPIPE_SZ, 1 << 20);
  return write(2, words[2], strlen(words[2])) < 0 || write(1, data, size) != size;
}
"""


@pytest.fixture(scope="module")
def at_once(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A program that writes so many bytes, and these errors, and ends."""
    return str(compile_program(tmp_path_factory.mktemp("at-once") / "plugin", AT_ONCE))


@pytest.mark.skipif(sys.platform != "linux", reason="makes a pipe larger")
@pytest.mark.parametrize("size", [0, 65_537, 200_000])
def test_an_answer_that_is_there_at_once_is_whole(size: int, at_once: str) -> None:
    """Also one that fills several reads, from a program that ended before the first."""
    done = run((at_once, str(size), "said"))
    assert (done.ending, done.status) == (Ending.EXITED, 0)
    assert (done.stdout, done.stderr) == (b"x" * size, b"said")


def test_output_that_another_still_holds_is_waited_for() -> None:
    """The program has ended, and what it left running goes on writing."""
    done = run(("/bin/sh", "-c", "printf a; (sleep 0.1; printf b) &"))
    assert (done.ending, done.stdout) == (Ending.EXITED, b"ab")


# What happens in the middle of a start

# A start tells audit hooks just before the program begins.
AT_START = """
import os, signal, sys, threading, time
from keyferry.invoke.run import run
in_the_middle = None
def hook(event, args):
    global in_the_middle
    if event == "subprocess.Popen" and in_the_middle:
        work, in_the_middle = in_the_middle, None
        work()
sys.addaudithook(hook)
came = []
class Stop(Exception): pass
def note(number, frame):
    came.append(signal.Signals(number).name)
def note_and_raise(number, frame):
    note(number, frame)
    raise Stop
signal.signal(signal.SIGUSR1, note_and_raise)
signal.signal(signal.SIGUSR2, note)
"""


def at_start(script: str) -> str:
    """What a script prints that has hooks for the middle of a start."""
    done = run_script(AT_START + script)
    assert done.stderr == ""
    return done.stdout


def test_a_fork_in_the_middle_of_a_start_does_not_block_the_child() -> None:
    """Another thread starts a program, and does not exist in the child."""
    printed = at_start("""
entered, leave = threading.Event(), threading.Event()
def hold():
    entered.set()
    leave.wait(20)
in_the_middle = hold
thread = threading.Thread(target=run, args=(("/bin/true",),))
thread.start()
entered.wait(20)
pid = os.fork()
if not pid:
    signal.alarm(20)
    os._exit(run(("/bin/echo", "ran")).stdout != b"ran\\n")
print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
leave.set()
thread.join()
""")
    assert printed == "0\n"


def test_a_handler_runs_after_the_start() -> None:
    """What comes meanwhile is neither handled at once nor lost, and handlers are as before."""
    printed = at_start("""
def work():
    signal.raise_signal(signal.SIGUSR2)
    print(came)
in_the_middle = work
print(run(("/bin/echo", "ran")).stdout, came, signal.getsignal(signal.SIGUSR2) is note)
""")
    assert printed == "[]\nb'ran\\n' ['SIGUSR2'] True\n"


def test_a_handler_that_raises_ends_the_program() -> None:
    """And keeps no other handler from being run, nor from being put back."""
    printed = at_start("""
def work():
    signal.raise_signal(signal.SIGUSR1)
    signal.raise_signal(signal.SIGUSR2)
in_the_middle = work
try:
    run(("/bin/sleep", "60"))
except Stop:
    print(came)
print(signal.getsignal(signal.SIGUSR1) is note_and_raise, signal.getsignal(signal.SIGUSR2) is note)
try:
    os.waitpid(-1, os.WNOHANG)
except ChildProcessError:
    print("nothing is left")
""")
    assert printed == "['SIGUSR1', 'SIGUSR2']\nTrue True\nnothing is left\n"


def test_handlers_are_as_before_after_a_start_that_fails() -> None:
    """Each of them."""
    printed = at_start("""
before = [signal.getsignal(number) for number in range(1, signal.NSIG)]
try:
    run(("/nonexistent/program",))
except FileNotFoundError:
    print(before == [signal.getsignal(number) for number in range(1, signal.NSIG)])
""")
    assert printed == "True\n"


def test_a_start_in_another_thread_holds_nothing_back() -> None:
    """Handlers run in the main thread, which is not held up."""
    printed = at_start("""
entered, leave = threading.Event(), threading.Event()
def hold():
    entered.set()
    leave.wait(20)
in_the_middle = hold
thread = threading.Thread(target=run, args=(("/bin/true",),))
thread.start()
entered.wait(20)
signal.raise_signal(signal.SIGUSR2)
print(came)
leave.set()
thread.join()
""")
    assert printed == "['SIGUSR2']\n"


def test_a_child_that_is_forked_in_the_middle_of_a_start_handles_its_signals() -> None:
    """Another thread may fork while the main thread starts a program, and its child must not be deaf for ever."""
    printed = at_start("""
def fork():
    pid = os.fork()
    if not pid:
        signal.alarm(20)
        signal.raise_signal(signal.SIGUSR2)
        os._exit(came != ["SIGUSR2"])
    print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), came)
def work():
    thread = threading.Thread(target=fork)
    thread.start()
    thread.join()
in_the_middle = work
run(("/bin/true",))
""")
    assert printed == "0 []\n"


def test_a_handler_may_wait_for_a_thread_that_starts_a_program() -> None:
    """The signal came in the middle of a start."""
    printed = at_start("""
lock, is_held = threading.Lock(), threading.Event()
ended = []
def work():
    with lock:
        is_held.set()
        ended.append(run(("/bin/true",)).status)
thread = threading.Thread(target=work, daemon=True)
def handle(*_):
    thread.start()
    is_held.wait(20)
    with lock:
        ended.append("handler")
signal.signal(signal.SIGUSR1, handle)
in_the_middle = lambda: signal.raise_signal(signal.SIGUSR1)
ended.append(run(("/bin/true",), stdin=b"x").status)
thread.join(20)
print(ended)
""")
    assert printed == "[0, 'handler', 0]\n"


def test_a_hook_can_start_a_program_while_one_is_started() -> None:
    """In the same thread."""
    printed = at_start("""
in_the_middle = lambda: print(run(("/bin/echo", "inner")).stdout)
print(run(("/bin/echo", "outer")).stdout)
""")
    assert printed == "b'inner\\n'\nb'outer\\n'\n"


def test_a_program_can_be_started_whichever_standard_streams_are_closed() -> None:
    """As in a daemon."""
    script = """
import itertools, os
from keyferry.invoke.run import Tail, run
kept, null = os.dup(1), os.open(os.devnull, os.O_RDWR)
os.set_inheritable(kept, False)
for number in range(4):
    for closed in itertools.combinations(range(3), number):
        for fd in range(3):
            os.dup2(null, fd)
        for fd in closed:
            os.close(fd)
        said = run(("/bin/sh", "-c", "cat; echo err >&2; ls /proc/self/fd | wc -l"), stdin=b"in")
        own = run(("/bin/sh", "-c", "cat; echo err >&2; echo x"), environ={}, terminal=(0, 2))
        empty = run(("/bin/sh", "-c", "cat; echo err >&2; echo x"), environ={}, stdin=None, stderr_tail=Tail())
        found = said.stdout, said.stderr, own.stdout, empty.stdout, empty.stderr
        if found != (b"in4\\n", b"err\\n", b"x\\n", b"x\\n", b"err\\n"):
            os.write(kept, repr((closed, found)).encode())
os.write(kept, b"done")
"""
    done = run_script(script)
    assert done.stdout == "done", done.stderr


@pytest.mark.skipif(sys.platform != "linux", reason="runs true from its usual place")
def test_a_handler_of_a_signal_can_start_a_program_while_one_is_started() -> None:
    """At any moment of the start."""
    script = """
import signal, sys
from keyferry.invoke.run import run
ran = []
signal.signal(signal.SIGUSR1, lambda *_: ran.append(run(("/bin/true",)).status))
for number in range(500):
    left = number
    def moment(frame, event, arg):
        global left
        if event in ("call", "return") and frame.f_code.co_filename.endswith(("start.py", "pump.py", "kill.py")):
            if left == 0:
                sys.setprofile(None)
                signal.raise_signal(signal.SIGUSR1)
            left -= 1
    sys.setprofile(moment)
    done = run(("/bin/true",))
    sys.setprofile(None)
    assert done.status == 0
    if left >= 0:
        break
print(number > 5, len(ran) == number, set(ran))
"""
    done = run_script(script)
    assert done.stdout == "True True {0}\n", done.stderr


# Starts that fail under any circumstances


# Popen itself complains of a process that it did not collect.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_start_that_fails_is_an_error_though_others_collect_the_process(tmp_path: Path) -> None:
    """Here the kernel does, because nobody wants to know of the ends of children."""
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    try:
        with pytest.raises(FileNotFoundError):
            run((broken(tmp_path, "missing"),))
    finally:
        signal.signal(signal.SIGCHLD, before)
