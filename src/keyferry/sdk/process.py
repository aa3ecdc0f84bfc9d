"""Run another program from a plugin: no shell, a deadline, bounded output, nothing left behind."""

import os

from keyferry._values import Value, field
from keyferry.errors import ProvideError

TYPE_CHECKING = False  # spelled out: a plugin run must not pay for typing
if TYPE_CHECKING:
    import subprocess
    from collections.abc import Mapping, Sequence

    from keyferry.sdk.connection import Deadline

__all__ = ["Finished", "run_program"]

_MOST_BYTES = 1 << 20


class Finished(Value):
    """A program that ended by itself: its exit status and what it wrote."""

    status: int
    stdout: bytes = field(repr=False)
    stderr: bytes = field(repr=False)

    @property
    def complaint(self) -> str:
        """The end of its standard error, with everything that looks like a secret masked."""
        from keyferry._secret import stderr_tail

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
    import subprocess

    name = os.path.basename(argv[0])
    pipe = subprocess.PIPE
    try:
        process = subprocess.Popen(
            argv, stdin=pipe, stdout=pipe, stderr=pipe, env=environ, start_new_session=True, close_fds=True
        )
    except FileNotFoundError:
        raise ProvideError(f"the program {name!r} is not installed, or not on PATH") from None
    except OSError as error:
        raise ProvideError(f"the program {name!r} cannot be started: {error.strerror}") from None
    try:
        stdout, stderr = process.communicate(stdin, timeout=max(deadline.seconds_left, 0))
    except subprocess.TimeoutExpired:
        stdout = None
    finally:
        _end(process)
    # Raised out here on purpose: what was caught holds the program's output.
    if stdout is None:
        raise ProvideError(f"the program {name!r} did not end in time, and was killed")
    if len(stdout) > _MOST_BYTES:
        raise ProvideError(f"the program {name!r} wrote more than {_MOST_BYTES} bytes")
    return Finished(process.returncode, stdout, stderr)


def _end(process: "subprocess.Popen[bytes]") -> None:
    """Kill what is left of the program's process group, and collect the program itself."""
    if hasattr(os, "killpg"):
        import signal

        try:
            os.killpg(process.pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            pass
    elif process.poll() is None:
        process.kill()
    for stream in (process.stdin, process.stdout, process.stderr):
        if stream is not None:
            stream.close()
    process.wait()
