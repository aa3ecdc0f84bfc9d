"""The program of a shim: the Python one as a small launcher, or the static one in C."""

from __future__ import annotations

import os
import site
import sys
import sysconfig

import keyferry
from keyferry.errors import EnvironmentProblem
from keyferry.invoke.shim import MARK, MOST_SHIM_BYTES
from keyferry.kit.install import program_text

__all__ = ["find_native_shim", "python_shim", "read_native_shim"]


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
            data = stream.read(MOST_SHIM_BYTES + 1)
    except OSError as error:
        raise EnvironmentProblem(f"{path!r} cannot be read: {(error.strerror or '').lower()}") from None
    if len(data) > MOST_SHIM_BYTES or MARK not in data or not data.startswith(b"\x7fELF"):
        raise EnvironmentProblem(f"{path!r} is not the static shim; 'make shim' builds it")
    return data
