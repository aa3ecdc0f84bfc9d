"""Put a shim into the kubelet's folder of plugins, and take it away, without a moment in which a plugin is missing.

A plugin is linked to its second name first; then the shim is renamed over it, and back by one rename. The program of a
shim is a small launcher of the Python one, or the static one in C. The folder of the agent's socket is given to the
agent's user, so that it can listen there, and removed again.
"""

from __future__ import annotations

import os
import site
import stat
import sys
import sysconfig
from enum import StrEnum

import keyferry
from keyferry._core.files import Folder, open_folder, reason_of
from keyferry._core.values import Value
from keyferry._net.agent import AUTO, find_socket, try_agent
from keyferry.errors import EnvironmentProblem
from keyferry.invoke.shim import BESIDE, IN_FRONT, LINK, MARK, MAX_SHIM_BYTES, is_shim, read_shim_mark
from keyferry.kit.install import program_text

# A link to the kubelet's config, if an entry for the shim was added there.
_ENTRY = ".entry"
_MODE = 0o755
_SCRIPT = b"#!"
NATIVE, PYTHON = "C", "Python"
_FOLDER_MODE = 0o750
_OTHERS_WRITE = 0o022
_CONNECT_SECONDS = 1.0


class ShimPosition(StrEnum):
    """How a shim stands to a plugin."""

    IN_FRONT = "in front"
    BESIDE = "beside"
    OVERWRITTEN = "overwritten"
    BROKEN = "broken"


class InstalledShim(Value):
    """A shim in a folder of plugins: its provider, the plugin behind it, and the agent's socket.

    *plugin* is empty if there is none. An *overwritten* shim is one in whose place another program stands now.
    *language* is that of the shim's program, empty if no shim is there.
    *agent_user* owns the link to the socket, and the shim trusts sockets of that user.
    """

    name: str
    position: ShimPosition
    plugin: str
    socket: str
    language: str
    agent_user: int = 0


def install_in_front(
    bin_dir: str, name: str, program: bytes, socket: str = AUTO, *, agent_user: int | None = None
) -> InstalledShim:
    """Put the shim *program* in the place of the plugin *name*, which becomes ``NAME.real``.

    With *agent_user*, the shim trusts a socket of that user too.
    Raise EnvironmentProblem if there is no such plugin, or another program has moved it to that name.
    """
    path = _path(bin_dir, name)
    with _open(bin_dir) as folder:
        if _has_shim(path):
            if not folder.has(name + IN_FRONT):
                raise EnvironmentProblem(f"{path!r} is a shim already, and there is no plugin behind it")
        else:
            _check_plugin(path)
            _check_second_name(folder, path, name + IN_FRONT)
            _link(folder, name, name + IN_FRONT)
        _write(folder, name, program, socket, agent_user)
    return _describe(bin_dir, name, has_shim=True)


def install_beside(
    bin_dir: str,
    name: str,
    program: bytes,
    socket: str = AUTO,
    plugin: str = "",
    *,
    agent_user: int | None = None,
) -> InstalledShim:
    """Put the shim *program* into the folder as a provider of its own, with *plugin* as what it falls back to.

    With *agent_user*, the shim trusts a socket of that user too.
    Raise EnvironmentProblem if a program of that name is there.
    """
    path = _path(bin_dir, name)
    with _open(bin_dir) as folder:
        is_ours = _has_shim(path) and folder.has(name + LINK) and not folder.has(name + IN_FRONT)
        if os.path.lexists(path) and not is_ours:
            raise EnvironmentProblem(
                f"{path!r} exists already; to stand in front of it, use --in-front-of {name}"
            )
        if plugin:
            _check_plugin(plugin)
            if _has_shim(plugin):
                raise EnvironmentProblem(f"{plugin!r} is a shim; give the plugin itself")
            _point(folder, name + BESIDE, _target(bin_dir, plugin))
        _write(folder, name, program, socket, agent_user)
    return _describe(bin_dir, name, has_shim=True)


def uninstall(bin_dir: str, name: str) -> ShimPosition:
    """Remove a shim; a plugin behind it takes its place again. Return how the shim stood.

    Where another program has taken the shim's place, such as a new version of the plugin, that program stays, and only
    the shim's other files are removed. Raise EnvironmentProblem if no shim was installed.
    """
    path = _path(bin_dir, name)
    with _open(bin_dir) as folder:
        has_shim = _has_shim(path)
        if not has_shim and not folder.has(name + LINK):
            raise EnvironmentProblem(f"{path!r} is not a shim of keyferry, and none was installed there")
        position = _describe(bin_dir, name, has_shim=has_shim).position
        is_missing = not os.path.lexists(path)
        try:
            if folder.has(name + IN_FRONT) and (is_missing or position is ShimPosition.IN_FRONT):
                folder.rename(name + IN_FRONT, name)
            elif position is not ShimPosition.OVERWRITTEN:
                folder.unlink(name)
            for suffix in (IN_FRONT, BESIDE, _ENTRY, LINK):
                folder.unlink(name + suffix)
            folder.sync()
        except OSError as error:
            raise EnvironmentProblem(f"{error.filename!r} cannot be removed: {_reason(error)}") from None
    return position


def note_entry(bin_dir: str, name: str, config: str) -> None:
    """Remember that an entry for a shim was added to the kubelet's config at this path."""
    with _open(bin_dir) as folder:
        _point(folder, name + _ENTRY, os.path.abspath(config))


def noted_entry(bin_dir: str, name: str) -> str:
    """Return the path of the kubelet's config to which an entry for a shim was added, or nothing."""
    try:
        return os.readlink(_path(bin_dir, name) + _ENTRY)
    except OSError:
        return ""


def list_shims(bin_dir: str) -> tuple[InstalledShim, ...]:
    """Return the shims in a folder of plugins, by name, with those that were overwritten."""
    with _open(bin_dir) as folder:
        names = folder.names(folders=False)
    linked = {each.removesuffix(LINK) for each in names if each.endswith(LINK)}
    found = {
        each
        for each in names
        if not each.endswith((IN_FRONT, BESIDE)) and is_shim(os.path.join(bin_dir, each))
    }
    return tuple(_describe(bin_dir, name, has_shim=name in found) for name in sorted(linked | found))


def _describe(bin_dir: str, name: str, *, has_shim: bool) -> InstalledShim:
    path = os.path.join(bin_dir, name)
    has_real = os.path.exists(path + IN_FRONT)
    behind = next((path + suffix for suffix in (IN_FRONT, BESIDE) if os.path.exists(path + suffix)), "")
    if not has_shim:
        position = ShimPosition.OVERWRITTEN if os.path.lexists(path) else ShimPosition.BROKEN
    elif has_real:
        position = ShimPosition.IN_FRONT
    else:
        is_broken = os.path.lexists(path + IN_FRONT) or os.path.lexists(path + BESIDE)
        position = ShimPosition.BROKEN if is_broken and not behind else ShimPosition.BESIDE
    language = _language(path) if has_shim else ""
    return InstalledShim(
        name=name,
        position=position,
        plugin=behind,
        socket=_socket(path),
        language=language,
        agent_user=_agent_user(path),
    )


def _socket(path: str) -> str:
    try:
        target = os.readlink(path + LINK)
    except OSError:
        target = AUTO
    return find_socket({}, target)


def _agent_user(path: str) -> int:
    try:
        return os.lstat(path + LINK).st_uid
    except OSError:
        return 0


def _language(path: str) -> str:
    try:
        with open(path, "rb") as stream:
            return PYTHON if stream.read(len(_SCRIPT)) == _SCRIPT else NATIVE
    except OSError:
        return ""


def _path(bin_dir: str, name: str) -> str:
    if not name or name in (".", "..") or "/" in name or name.endswith((IN_FRONT, BESIDE, LINK, _ENTRY)):
        raise EnvironmentProblem(f"{name!r} is not the name of a provider that a shim can have")
    return os.path.join(bin_dir, name)


def _has_shim(path: str) -> bool:
    """Return whether a shim is at *path*; raise EnvironmentProblem if a program there cannot be read.

    A shim that is taken for a plugin would be put in the place of the plugin behind it, which would be lost.
    """
    try:
        return read_shim_mark(path)
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError, ValueError):
        return False
    except OSError as error:
        raise EnvironmentProblem(f"{path!r} cannot be read: {_reason(error)}") from None


def _open(bin_dir: str) -> Folder:
    try:
        return open_folder(bin_dir, is_strict=True)
    except OSError as error:
        raise EnvironmentProblem(
            f"the bin dir {bin_dir!r} cannot be opened: {reason_of(error, bin_dir)}"
        ) from None


def _reason(error: OSError) -> str:
    return (error.strerror or "unknown").lower()


def _check_plugin(path: str) -> None:
    try:
        mode = os.stat(path).st_mode
    except OSError as error:
        raise EnvironmentProblem(f"there is no plugin {path!r}: {_reason(error)}") from None
    if not stat.S_ISREG(mode) or not mode & 0o111:
        raise EnvironmentProblem(f"{path!r} is not an executable file")


def _check_second_name(folder: Folder, path: str, second: str) -> None:
    """Raise if *second* is somebody else's; our own may be left from before the plugin was upgraded.

    A second name of the plugin itself is left by an installation that was cut short, and nobody stands in front.
    """
    if not folder.has(second) or os.path.lexists(path + LINK):
        return
    if not os.path.samestat(os.lstat(path), folder.status_of(second)):
        raise EnvironmentProblem(
            f"{folder.path_of(second)!r} exists, and no shim of keyferry was installed: another program seems "
            f"to stand in front of {os.path.basename(path)!r}; remove that one first"
        )


def _link(folder: Folder, name: str, target: str) -> None:
    """Give the plugin a second name, over one of an earlier version; a link stays a link."""
    draft = _draft(target)
    try:
        (source, at), (place, there) = folder.place(name), folder.place(draft)
        os.link(source, place, src_dir_fd=at, dst_dir_fd=there, follow_symlinks=False)
        folder.rename(draft, target)
        # Renaming one name of a file over another does nothing, and leaves the draft.
        folder.unlink(draft)
    except OSError as error:
        folder.discard(draft)
        raise EnvironmentProblem(f"{folder.path_of(target)!r} cannot be linked: {_reason(error)}") from None


def _target(bin_dir: str, plugin: str) -> str:
    """Return where to point for *plugin*: by its name in the same folder, which may be mounted elsewhere here."""
    folder, name = os.path.split(os.path.abspath(plugin))
    return name if folder == os.path.abspath(bin_dir) else os.path.join(folder, name)


def _point(folder: Folder, name: str, target: str, user: int | None = None) -> None:
    """Make or replace a symbolic link; it is *user*'s if one is given."""
    draft = _draft(name)
    try:
        place, at = folder.place(draft)
        os.symlink(target, place, dir_fd=at)
        if user is not None:
            os.chown(place, user, -1, dir_fd=at, follow_symlinks=False)
        folder.rename(draft, name)
    except OSError as error:
        folder.discard(draft)
        raise EnvironmentProblem(f"{folder.path_of(name)!r} cannot be linked: {_reason(error)}") from None


def _draft(name: str) -> str:
    return f".{name}.{os.getpid()}.{os.urandom(6).hex()}"


def _write(folder: Folder, name: str, program: bytes, socket: str, agent_user: int | None) -> None:
    _point(folder, name + LINK, socket, agent_user)
    try:
        # The mode does not depend on the umask, because the kubelet may be another user.
        folder.replace(name, program, mode=_MODE, is_exact=True, draft=_draft(name))
    except OSError as error:
        raise EnvironmentProblem(f"{folder.path_of(name)!r} cannot be written: {_reason(error)}") from None


def python_shim(executable: str = "") -> bytes:
    """Return the launcher of the Python shim, for this interpreter or *executable*."""
    paths = [os.path.dirname(os.path.dirname(os.path.abspath(keyferry.__file__)))]
    return os.fsencode(program_text("keyferry.bridge.shim", paths, executable, f"# {MARK.decode()}\n"))


def find_native_shim() -> str:
    """Return the static shim for this machine that was installed beside keyferry; empty if none was.

    It is in keyferry's image, and in the distribution ``keyferry-shim``.
    """
    if sys.platform == "win32":
        return ""
    name = os.path.join("lib", "keyferry", f"keyferry-shim-{os.uname().machine}")
    paths = (os.path.join(folder, name) for folder in _data_folders())
    return next(filter(os.path.exists, paths), "")


def _data_folders() -> list[str]:
    """Return where installers put the data of a distribution: an environment, a system's place, a user's own place."""
    folders = [sys.prefix, sysconfig.get_path("data")]
    if site.ENABLE_USER_SITE:
        folders.append(sysconfig.get_path("data", sysconfig.get_preferred_scheme("user")))
    return folders


def read_native_shim(path: str) -> bytes:
    """Return the static shim in a file; raise EnvironmentProblem if it is none."""
    try:
        with open(path, "rb") as stream:
            data = stream.read(MAX_SHIM_BYTES + 1)
    except OSError as error:
        raise EnvironmentProblem(f"{path!r} cannot be read: {(error.strerror or '').lower()}") from None
    if len(data) > MAX_SHIM_BYTES or MARK not in data or not data.startswith(b"\x7fELF"):
        raise EnvironmentProblem(f"{path!r} is not the static shim; 'make shim' builds it")
    return data


def give_socket_folder(socket: str, user: int) -> None:
    """Make the folder of *socket* unless it exists, and give it to *user*, with what an agent left in it.

    Raise EnvironmentProblem if the folder holds anything else, or cannot be given away.
    """
    path, name = os.path.split(socket)
    try:
        with open_folder(path, make=_FOLDER_MODE) as folder:
            if folder.status().st_uid != user:
                _give(folder, name, user)
            # Neither the agent nor its clients trust a folder that others can write.
            folder.restrict(stat.S_IMODE(folder.status().st_mode) & ~_OTHERS_WRITE)
    except OSError as error:
        reason = (error.strerror or "unknown").lower()
        raise EnvironmentProblem(f"{path!r} cannot be given to user {user}: {reason}") from None


def _give(folder: Folder, name: str, user: int) -> None:
    names = folder.names()
    others = [each for each in names if not each.startswith(name) or not _is_left_by_an_agent(folder, each)]
    if others:
        raise EnvironmentProblem(
            f"{folder.path!r} holds other files, such as {others[0]!r}; give the socket a folder of its own"
        )
    for each in names:
        place, at = folder.place(each)
        os.chown(place, user, -1, dir_fd=at, follow_symlinks=False)
    os.chown(folder.path if folder.descriptor is None else folder.descriptor, user, -1)


def _is_left_by_an_agent(folder: Folder, name: str) -> bool:
    """Return whether it is a socket or a file of its own: a second name of another file must not be given away."""
    found = folder.status_of(name)
    return stat.S_ISSOCK(found.st_mode) or (stat.S_ISREG(found.st_mode) and found.st_nlink == 1)


def remove_socket_folder(path: str) -> tuple[str, ...]:
    """Remove the socket at *path*, its lock and its folder; return the names of other files, which keep the folder.

    Raise EnvironmentProblem if an agent listens there, or a file cannot be removed.
    """
    folder = os.path.dirname(path)
    if _is_served(path):
        raise EnvironmentProblem(f"{path}: an agent listens here; stop it first")
    try:
        for name in _own_names(folder, os.path.basename(path)):
            os.unlink(os.path.join(folder, name))
        others = tuple(sorted(os.listdir(folder)))
        if not others:
            os.rmdir(folder)
    except FileNotFoundError:
        return ()
    except OSError as error:
        reason = (error.strerror or "unknown").lower()
        raise EnvironmentProblem(f"{error.filename or folder}: cannot be removed: {reason}") from None
    return others


def _is_served(path: str) -> bool:
    # Whoever owns the socket: nothing is sent.
    fallback = try_agent(path, _CONNECT_SECONDS, owner=None)
    if fallback is not None and not fallback.is_unattended:
        raise EnvironmentProblem(f"{path}: whether an agent listens here is not known: {fallback.message}")
    return fallback is None


def _own_names(folder: str, socket_name: str) -> list[str]:
    """Return the names of what agents put there: the lock, and sockets under their name or that of a draft."""
    lock = f"{socket_name}.lock"
    return [
        each.name
        for each in os.scandir(folder)
        if each.name == lock or (_is_socket(each) and _is_of_agent(each.name, socket_name))
    ]


def _is_socket(entry: os.DirEntry[str]) -> bool:
    return stat.S_ISSOCK(entry.stat(follow_symlinks=False).st_mode)


def _is_of_agent(name: str, socket_name: str) -> bool:
    stem, _, process = name.rpartition(".")
    return name == socket_name or (stem == socket_name and process.isdecimal())
