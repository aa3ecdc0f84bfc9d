"""Check whether only the user or root could have written a kubeconfig, and refuse settings of one that is not trusted.

A kubeconfig names programs to run, files to read and servers that receive credentials. kubectl uses any
kubeconfig; keyferry does not use one that another user could have written unless it is explicitly trusted.
Windows has no such owners and modes, so every file is trusted there.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator, Sequence

from keyferry._core.gotext import go_strerror
from keyferry._core.user_info import hide_in_url
from keyferry._core.values import Value
from keyferry.errors import PolicyError

TYPE_CHECKING = False
if TYPE_CHECKING:
    import pwd

    from keyferry.clusters.kubeconfig.resolve import ClientConfig


# A file that was not checked is not trusted.
UNJUDGED = "its owner and mode were not checked"

# The number of symbolic links that Linux follows.
_MAX_LINKS = 40
_KINDS = (
    (stat.S_ISFIFO, "a named pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)


class Distrust(Value):
    """A setting, *what*, in a *file* that is not trusted; *why* states who else could have written the file.

    *consequence* is what kubectl does with the setting.
    """

    file: str
    why: str
    what: str
    consequence: str


def check_trust(config: ClientConfig, *, trust: bool) -> None:
    """Raise PolicyError if *config* depends on a file that another user could have written, unless *trust*."""
    found = None if trust else find_distrust(config)
    if found is not None:
        raise PolicyError(
            f"{found.what} is named by {found.file}, which is not trusted: {found.why}; expected that "
            "only you or root can write the file and its folders; check it with 'keyferry lint "
            f"{found.file}', then use chown or chmod go-w, or pass --trust (trust=True in Python)"
        )


def find_distrust(config: ClientConfig) -> Distrust | None:
    """Return the first setting of *config* that comes from a file another user could have written; None if none.

    A plugin named by such a file would run as this user, and a credential file that it names may be readable by
    this user only. A context or cluster in such a file would send the credential of another file to a server,
    proxy or authority of the writer's choice, and so would one beside a token that the caller passed. A token in the
    file itself is allowed: its writer knows it already.
    """
    why = _why_untrusted(config, config.user_origin)
    if why and config.exec is not None and config.uses_plugin:
        what = f"program {config.exec.command!r}"
        return Distrust(file=config.user_origin, why=why, what=what, consequence="runs it")
    if why and config.credential_files:
        names = " and ".join(map(repr, config.credential_files))
        return Distrust(
            file=config.user_origin, why=why, what=f"credential file {names}", consequence="reads it"
        )
    return _find_diversion(config) if config.has_credential else None


def _find_diversion(config: ClientConfig) -> Distrust | None:
    """Return the setting of a file that is not trusted which determines where another file's credential is sent."""
    server = hide_in_url(config.server)
    whose = f"would get the credential of user {config.user_name!r} of {config.user_origin},"
    if config.token_is_given:
        whose = "would get the token that is given,"
    for origin, what in (
        (config.cluster_origin, f"server {server!r}, which {whose}"),
        (config.context_origin, f"context {config.context!r}, by which {server!r} {whose}"),
    ):
        why = _why_untrusted(config, origin)
        if why and (config.token_is_given or origin != config.user_origin):
            return Distrust(file=origin, why=why, what=what, consequence="sends it there")
    return None


def _why_untrusted(config: ClientConfig, origin: str) -> str:
    """Return who else could have written the file *origin*; empty for settings that the caller passed."""
    if not origin:
        return ""
    judged = {file.path: file.untrusted for file in config.files}
    return judged.get(origin, UNJUDGED)


def why_untrusted(path: str, read: os.stat_result) -> str:
    """Return who else could have written the data that was read from *path*; empty if nobody.

    *read* is the status of the descriptor that was read, since the path may name another file by now. Regular
    files and unnamed pipes can be trusted. The file and every folder and link of its path must belong to this
    user or root, and nobody else may have write permission. If that cannot be determined, the file is not trusted.
    """
    if os.name == "nt":
        return ""
    try:
        problem = _why_file(read) or next(filter(None, map(_why_step, _steps(path))), "")
        # The folders that were checked are those of the file only if the path still names it. A pipe is in no
        # folder, and on macOS its path, /dev/fd/N, has another inode.
        is_file = stat.S_ISREG(read.st_mode)
        if not problem and is_file and not os.path.samestat(read, os.stat(path)):
            problem = "it was replaced while it was read"
    except FileNotFoundError:
        return "it was removed while it was read"
    except OSError as error:
        return f"its owner and mode cannot be read: {go_strerror(error)}"
    return problem


def _why_file(status: os.stat_result) -> str:
    if not stat.S_ISREG(status.st_mode) and not _is_unnamed_pipe(status):
        kind = next((name for applies, name in _KINDS if applies(status.st_mode)), "not a file")
        return f"it is {kind}, expected a regular file"
    if _is_foreign(status):
        return f"it belongs to user {status.st_uid}"
    who = _who_else_writes(status)
    return f"{who} can write it" if who else ""


def _why_step(step: tuple[str, os.stat_result]) -> str:
    place, status = step
    is_link = stat.S_ISLNK(status.st_mode)
    what = f"{'the link' if is_link else 'its folder'} {place}"
    if _is_foreign(status):
        return f"{what} belongs to user {status.st_uid}"
    # In a sticky folder such as /tmp, users cannot replace files of others; the mode of a link has no meaning.
    who = "" if is_link or status.st_mode & stat.S_ISVTX else _who_else_writes(status)
    return f"{who} can write {what}" if who else ""


def _steps(path: str) -> Iterator[tuple[str, os.stat_result]]:
    """Yield every folder and link that the kernel goes through to resolve *path*."""
    yield os.sep, os.lstat(os.sep)
    place, links = os.sep, 0
    rest = _parts(path if os.path.isabs(path) else os.path.join(os.getcwd(), path))
    while rest:
        part = rest.pop()
        if part == os.pardir:
            place = os.path.dirname(place)
            continue
        entry = os.path.join(place, part)
        try:
            status = os.lstat(entry)
        except FileNotFoundError:
            # A link in /proc may have a target without a name: a pipe, or a file that was removed.
            if links and not rest:
                return
            raise
        if stat.S_ISLNK(status.st_mode):
            links += 1
            if links > _MAX_LINKS:
                raise OSError(f"more than {_MAX_LINKS} links")
            yield entry, status
            target = os.readlink(entry)
            place = os.sep if os.path.isabs(target) else place
            rest += _parts(target)
        elif rest:
            yield entry, status
            place = entry


def _parts(path: str) -> list[str]:
    """Return the names in *path* in reverse order."""
    return [part for part in reversed(path.split(os.sep)) if part not in ("", os.curdir)]


def _is_unnamed_pipe(status: os.stat_result) -> bool:
    """Return whether this is an unnamed pipe, as a shell makes; a named pipe is on another device."""
    if not stat.S_ISFIFO(status.st_mode):
        return False
    ends = os.pipe()
    try:
        return os.fstat(ends[0]).st_dev == status.st_dev
    finally:
        for end in ends:
            os.close(end)


def _is_foreign(status: os.stat_result) -> bool:
    return status.st_uid not in (0, os.geteuid())


def _who_else_writes(status: os.stat_result) -> str:
    if status.st_mode & stat.S_IWOTH:
        return "everybody"
    is_shared = status.st_mode & stat.S_IWGRP and not _is_private_group(status.st_gid)
    return f"group {status.st_gid}" if is_shared else ""


def _is_private_group(gid: int) -> bool:
    import grp
    import pwd

    try:
        listed = grp.getgrgid(gid).gr_mem
    except KeyError:
        return False
    return is_private(gid, listed, pwd.getpwall(), os.geteuid())


def is_private(gid: int, listed: Iterable[str], users: Sequence[pwd.struct_passwd], uid: int) -> bool:
    """Return whether the only members of a group are the user *uid* and root, as OpenSSH does.

    *listed* are the names of its members, in addition to the *users* whose primary group it is. A group without
    members is not private: programs may run with it, or its members cannot be listed.
    """
    uids = {user.pw_name: user.pw_uid for user in users}
    members = {user.pw_uid for user in users if user.pw_gid == gid} | {uids.get(name, -1) for name in listed}
    return bool(members) and members <= {0, uid}
