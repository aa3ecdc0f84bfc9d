"""Start a program by ``subprocess.Popen``, which is available on every system."""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    import subprocess
    from collections.abc import Mapping, Sequence

    Environ = Mapping[bytes, bytes] | Mapping[str, str]

__all__ = ["popen"]


def popen(
    path: str | None,
    argv: Sequence[str],
    environ: Environ | None,
    streams: tuple[int, int, int],
    *,
    own_session: bool,
    kept_fds: Sequence[int] = (),
) -> subprocess.Popen[bytes]:
    """Start a program; raise OSError or ValueError if it cannot be started.

    The program inherits only its three streams and *kept_fds*. All other descriptors are closed in the new process,
    because a list made in this one would lack those that other threads open meanwhile.
    """
    from subprocess import Popen

    stdin, stdout, stderr = streams
    return Popen(
        argv,
        executable=path,
        stdin=stdin,
        stdout=stdout,
        stderr=stderr,
        env=environ,
        close_fds=True,
        start_new_session=own_session,
        pass_fds=(*kept_fds, *_open_standard_fds()) if os.name == "posix" else (),
    )


def _open_standard_fds() -> list[int]:
    """Return the standard descriptors that are open, which the program has in any case.

    With one of them to pass, Popen does not use posix_spawn, which since 3.13 makes variables of entries that are none.
    """
    found = []
    for fd in range(3):
        try:
            os.fstat(fd)
        except OSError:
            continue
        found.append(fd)
    return found
