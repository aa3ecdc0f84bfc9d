"""Run another program from a plugin: without a shell, with a deadline and bounded output."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from time import monotonic

from keyferry._core.secrets import in_one_line, stderr_tail
from keyferry._core.values import Value, field
from keyferry.errors import Kind, ProvideError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from keyferry._core.program.start import Program
    from keyferry._net.deadline import Deadline

__all__ = ["Finished", "run_program"]

_MAX_BYTES = 1 << 20


class Finished(Value):
    """The exit status and the output of a program that ended by itself."""

    status: int
    stdout: bytes = field(repr=False)
    stderr: bytes = field(repr=False)

    @property
    def complaint(self) -> str:
        """The end of the program's standard error, with everything that looks like a secret masked."""
        return in_one_line(stderr_tail(self.stderr))


def run_program(
    argv: Sequence[str],
    *,
    deadline: Deadline,
    stdin: bytes = b"",
    environ: Mapping[str, str] | None = None,
) -> Finished:
    """Run ``argv[0]``, from PATH if it has no slash, to its end; at the deadline its process group is killed.

    Raises ProvideError if it cannot be started, does not end in time, or writes more than a megabyte.
    """
    from keyferry._core.program.pump import Ending, Limits
    from keyferry._core.program.start import Program

    name = os.path.basename(argv[0])
    end = monotonic() + deadline.seconds_left
    limits = Limits(stdout_bytes=_MAX_BYTES, stderr_bytes=_MAX_BYTES, stderr_drained_bytes=_MAX_BYTES)
    program = Program(ends_group=True)
    try:
        _start(program, name, argv, environ)
        pump = program.pump(stdin, limits)
        ending = program.follow(pump, end)
    finally:
        try:
            program.end()
        finally:
            program.end()  # again, in case an interrupt arrived at the start of the first call
    if ending is Ending.EXITED and program.status is not None:
        return Finished(status=program.status, stdout=pump.stdout, stderr=pump.stderr)
    if ending is Ending.LOST:
        raise ProvideError(f"the program {name!r} {ending}")
    problem = "did not end in time" if ending is Ending.TIMED_OUT else f"wrote more than {_MAX_BYTES} bytes"
    raise ProvideError(f"the program {name!r} {problem}, and was killed")


def _start(program: Program, name: str, argv: Sequence[str], environ: Mapping[str, str] | None) -> None:
    try:
        program.start(None, argv, environ)
    except (OSError, ValueError) as error:
        raise _start_error(name, argv[0], error) from None


def _start_error(name: str, path: str, error: OSError | ValueError) -> ProvideError:
    import shutil

    from keyferry._core.program.start import describe_start_problem

    # A folder of PATH that this user may not search is a permission denied, whether the program is there or not.
    is_lookup = isinstance(error, FileNotFoundError) or (
        isinstance(error, PermissionError) and "/" not in path
    )
    found = shutil.which(path)
    if is_lookup and not found:
        return ProvideError(f"the program {name!r} is not installed, or not on PATH", kind=Kind.NOT_FOUND)
    if isinstance(error, OSError):
        return ProvideError(f"the program {name!r} {describe_start_problem(found or path, error)}")
    return ProvideError(f"the program {name!r} cannot be started: an argument or a variable has a null byte")
