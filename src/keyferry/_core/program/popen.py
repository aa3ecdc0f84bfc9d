"""Start a program by ``subprocess.Popen``, which every system and every Python has."""

TYPE_CHECKING = False  # spelled out: a plugin run must not pay for typing
if TYPE_CHECKING:
    import subprocess
    from collections.abc import Mapping, Sequence

    Environ = Mapping[bytes, bytes] | Mapping[str, str]

__all__ = ["popen"]


def popen(
    path: str | None,
    argv: "Sequence[str]",
    environ: "Environ | None",
    streams: tuple[int, int, int],
    *,
    own_session: bool,
    kept_fds: "Sequence[int]" = (),
) -> "subprocess.Popen[bytes]":
    """Start a program; raises OSError or ValueError if it cannot be started.

    No descriptor of ours reaches it beyond its three streams and *kept_fds*: they are closed in the new process,
    since a list of them made here would miss those that other threads make meanwhile.
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
        pass_fds=kept_fds,
    )
