"""Run another program from a plugin: no shell, a deadline, bounded output, nothing left behind."""

import os
from time import sleep

from keyferry._core.values import Value, field
from keyferry.errors import ProvideError

TYPE_CHECKING = False  # spelled out: a plugin run must not pay for typing
if TYPE_CHECKING:
    import subprocess
    from collections.abc import Mapping, Sequence

    from keyferry._net.deadline import Deadline

__all__ = ["Finished", "run_program"]

_MOST_BYTES = 1 << 20
_CHUNK = 1 << 16
_SHORTEST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 0.001, 0.05


class Finished(Value):
    """A program that ended by itself: its exit status and what it wrote."""

    status: int
    stdout: bytes = field(repr=False)
    stderr: bytes = field(repr=False)

    @property
    def complaint(self) -> str:
        """The end of its standard error, with everything that looks like a secret masked."""
        from keyferry._core.secrets import stderr_tail

        return stderr_tail(self.stderr)


def run_program(
    argv: "Sequence[str]",
    *,
    deadline: "Deadline",
    stdin: bytes = b"",
    environ: "Mapping[str, str] | None" = None,
) -> Finished:
    """Run ``argv[0]``, from PATH if it has no slash, to its end; past the deadline its whole group is killed.

    Raises ProvideError if it cannot be started, does not end in time, or writes more than a megabyte.
    """
    name = os.path.basename(argv[0])
    started: list[subprocess.Popen[bytes]] = []
    try:
        _start(started, name, argv, environ)
        stdout, stderr, problem = _exchange(started[0], stdin, deadline)
    finally:
        try:
            _end(started)
        finally:
            _end(started)  # again, for an interrupt that came just as the first began
    if problem:
        raise ProvideError(f"the program {name!r} {problem}, and was killed")
    return Finished(started[0].returncode, stdout, stderr)


def _start(
    started: "list[subprocess.Popen[bytes]]",
    name: str,
    argv: "Sequence[str]",
    environ: "Mapping[str, str] | None",
) -> None:
    """Start the program and note it in a list of the caller's, who is to end it whatever comes in between."""
    from subprocess import PIPE

    from keyferry._core.popen import HeldSignals, popen

    try:
        with HeldSignals():
            started.append(popen(argv, (PIPE, PIPE, PIPE), environ))
    except FileNotFoundError:
        raise ProvideError(f"the program {name!r} is not installed, or not on PATH") from None
    except (OSError, ValueError) as error:
        reason = (error.strerror if isinstance(error, OSError) else "") or "a null byte in what it is given"
        raise ProvideError(
            f"the program {name!r} cannot be started: {reason[:1].lower()}{reason[1:]}"
        ) from None


def _exchange(
    process: "subprocess.Popen[bytes]", stdin: bytes, deadline: "Deadline"
) -> tuple[bytes, bytes, str]:
    """What the program writes until it ends, and why it must be killed, if it must."""
    from selectors import EVENT_READ, EVENT_WRITE, DefaultSelector

    assert process.stdin and process.stdout and process.stderr  # noqa: S101, PT018 - for the type checker
    stdout, stderr = bytearray(), bytearray()
    with DefaultSelector() as waiting:
        os.set_blocking(process.stdin.fileno(), False)
        waiting.register(process.stdin, EVENT_WRITE)
        waiting.register(process.stdout, EVENT_READ, stdout)
        waiting.register(process.stderr, EVENT_READ, stderr)
        while waiting.get_map():
            ready = waiting.select(max(deadline.seconds_left, 0))
            if not ready:
                return b"", b"", "did not end in time"
            for key, _ in ready:
                if key.data is not None:
                    is_open = _drain(key.fd, key.data)
                else:
                    stdin = _feed(key.fd, stdin)
                    is_open = bool(stdin)
                if not is_open:
                    waiting.unregister(key.fileobj)
                    if key.data is None:
                        process.stdin.close()
            # Not collected to the end: a program that never stops would take all memory there is.
            if max(len(stdout), len(stderr)) > _MOST_BYTES:
                return b"", b"", f"wrote more than {_MOST_BYTES} bytes"
    return (
        (bytes(stdout), bytes(stderr), "") if _ends(process, deadline) else (b"", b"", "did not end in time")
    )


def _ends(process: "subprocess.Popen[bytes]", deadline: "Deadline") -> bool:
    """Wait for the program's end; it is not collected yet, so that its group's number stays its own until ``_end``."""
    if not hasattr(os, "waitid"):
        return _ends_elsewhere(process, deadline)
    pause = _SHORTEST_PAUSE_SECONDS
    while os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
        if deadline.seconds_left <= 0:
            return False
        sleep(pause)
        pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)
    return True


def _ends_elsewhere(process: "subprocess.Popen[bytes]", deadline: "Deadline") -> bool:
    from subprocess import TimeoutExpired

    try:
        process.wait(max(deadline.seconds_left, 0))
    except TimeoutExpired:
        return False
    return True


def _feed(fd: int, data: bytes) -> bytes:
    """Write what the pipe takes, and give the rest; none where the program does not read it."""
    try:
        return data[os.write(fd, data) :] if data else data
    except BlockingIOError:
        return data
    except OSError:
        return b""


def _drain(fd: int, into: bytearray) -> bool:
    """Take in what there is; False at the end."""
    piece = os.read(fd, _CHUNK)
    into += piece
    return bool(piece)


def _end(started: "list[subprocess.Popen[bytes]]") -> None:
    """Kill what is left of the program's process group, and collect the program itself, if that is not done yet."""
    for process in started:
        if process.returncode is None:
            _kill(process)
        for stream in (process.stdin, process.stdout, process.stderr):
            if stream is not None:
                stream.close()
        process.wait()


def _kill(process: "subprocess.Popen[bytes]") -> None:
    if hasattr(os, "killpg"):
        import signal

        try:
            os.killpg(process.pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            pass
    elif process.poll() is None:
        process.kill()
