"""A process of this node that matters for pulls: a kubelet or a container runtime, read from ``/proc``."""

from __future__ import annotations

import os

from keyferry._core.values import Value, field

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["NodeProcess", "RuntimeProcess", "parse_runtime_flags", "read_process_file", "runtime_program"]

_MOST_BYTES = 1 << 21
# The container runtimes whose files name mirrors, and the short forms of their flags.
_RUNTIMES = ("containerd", "crio")
_SHORT_FLAGS = {"-c": "--config", "-a": "--address", "-d": "--config-dir"}
_RUNTIME_FLAGS = ("--config", "--address", "--config-dir", "--listen")


class NodeProcess(Value):
    """A process: *process* is its folder in ``/proc``; *users* are the owner and the real, effective and saved IDs."""

    pid: int
    program: str
    process: str
    users: frozenset[int]
    flags: Mapping[str, str] = field(repr=False)

    @property
    def is_trusted(self) -> bool:
        """Whether it belongs to root or to this user; any user can start a program of the same name."""
        return self.belongs_to({os.geteuid()})

    def belongs_to(self, users: set[int]) -> bool:
        """Return whether all its users are root or in *users*."""
        return self.users <= {0, *users}

    @property
    def started(self) -> float | None:
        """When it started, in seconds since the epoch, up to a second too early; None if that cannot be read."""
        # The folder may be a link to one of /proc.
        proc = os.path.dirname(os.path.realpath(self.process))
        try:
            # Field 22; the second one is the program's name in brackets, which may have any characters.
            ticks = int(read_process_file(f"{self.process}/stat").rpartition(b")")[2].split()[19])
            lines = read_process_file(f"{proc}/stat").splitlines()
            booted = next(int(line.split()[1]) for line in lines if line.startswith(b"btime "))
            return booted + ticks / os.sysconf("SC_CLK_TCK")
        except (OSError, ValueError, IndexError, StopIteration):
            return None

    def inside(self, path: str) -> str:
        """Return a path of the process as seen from this one; their roots and working directories may differ."""
        start, absolute = ("root", path) if path.startswith("/") else ("cwd", f"/{path}")
        seen = f"{self.process}/{start}{absolute}"
        # The plain path, if it is the same file or the other cannot be accessed.
        is_plain = not os.path.exists(seen) or (os.path.exists(path) and os.path.samefile(seen, path))
        return path if is_plain else seen

    def read_environment(self) -> Mapping[str, str] | None:
        """Return the environment that it was started with, or None if it cannot be read."""
        try:
            raw = read_process_file(f"{self.process}/environ")
        except OSError:
            return None
        pairs = (os.fsdecode(entry).partition("=") for entry in raw.split(b"\0"))
        return {name: value for name, equals, value in pairs if name and equals}


class RuntimeProcess(NodeProcess):
    """A running container runtime."""

    def __str__(self) -> str:
        return f"{self.program}, process {self.pid}"


def runtime_program(argv: Sequence[str]) -> str:
    """Return the name of a container runtime, or an empty string for other programs."""
    name = os.path.basename(argv[0]) if argv else ""
    return name if name in _RUNTIMES else ""


def parse_runtime_flags(argv: Sequence[str]) -> dict[str, str]:
    """Return the flags of a container runtime's command line that are used here."""
    flags: dict[str, str] = {}
    words = iter(argv)
    for word in words:
        name, equals, value = word.partition("=")
        name = _SHORT_FLAGS.get(name, name)
        if name in _RUNTIME_FLAGS:
            flags[name] = value if equals else next(words, "")
    return flags


def read_process_file(path: str) -> bytes:
    """Return the content of a file in ``/proc``, up to a limit."""
    with open(path, "rb") as stream:
        return stream.read(_MOST_BYTES)
