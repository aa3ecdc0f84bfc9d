"""The kubelet's checks of the bin dir and of every executable in it."""

from __future__ import annotations

import os
import stat

from keyferry._core.gotext import go_strerror, quote
from keyferry.errors import Problem
from keyferry.images.config.files import ReadConfig


def check_bin_dir(bin_dir: str) -> Problem | None:
    """Return the kubelet's problem with the bin dir, or None; the kubelet checks it before it reads the config."""
    try:
        os.stat(bin_dir)
    except FileNotFoundError:
        text = f"plugin binary directory {bin_dir} did not exist"
        return Problem("", "the bin dir does not exist", code="KF140", kubernetes_text=text, file=bin_dir)
    except (OSError, ValueError) as error:
        reason = go_strerror(error)
        text = f"error inspecting binary directory {bin_dir}: stat {bin_dir}: {reason}"
        return Problem(
            "", f"the bin dir cannot be read: {reason}", code="KF140", kubernetes_text=text, file=bin_dir
        )
    return None


def check_executables(config: ReadConfig, bin_dir: str) -> tuple[Problem | None, ...]:
    """Return for each provider, in order, the problem with its executable, or None."""
    return tuple(
        _check_executable(plugin_path(bin_dir, provider.name), config, index)
        for index, provider in enumerate(config.providers)
    )


def plugin_path(bin_dir: str, name: str) -> str:
    """Return the path of a provider's executable, joined and cleaned as in Go: the bin dir for an empty name."""
    return os.path.normpath(f"{bin_dir}/{name}" if name else bin_dir)


def _check_executable(path: str, config: ReadConfig, index: int) -> Problem | None:
    try:
        mode = os.stat(path).st_mode
    except (OSError, ValueError) as error:
        if isinstance(error, FileNotFoundError):
            # Two spaces: Kubernetes prints an empty path here.
            return _place(
                config,
                index,
                "KF141",
                f"the executable {_shown(path)} is missing",
                "plugin binary executable  did not exist",
            )
        return _place(
            config,
            index,
            "KF142",
            f"{_shown(path)} cannot be read: {go_strerror(error)}",
            _inspecting(path, f"stat {path}: {go_strerror(error)}"),
        )
    if stat.S_ISDIR(mode):
        return _place(
            config,
            index,
            "KF142",
            f"{_shown(path)} is a directory, expected an executable",
            _inspecting(path, "is a directory"),
        )
    if not is_executable(path, mode):
        return _place(
            config,
            index,
            "KF142",
            f"{_shown(path)} is not executable; chmod +x {_shown(path)}",
            _inspecting(path, "permission denied"),
        )
    return None


def is_executable(path: str, mode: int) -> bool:
    """Return whether this process may execute a file; root needs at least one execute bit."""
    effective = os.access in os.supports_effective_ids
    return os.access(path, os.X_OK, effective_ids=effective) and bool(mode & 0o111 or os.name == "nt")


def _inspecting(path: str, reason: str) -> str:
    return f"error inspecting binary executable : exec: {quote(path)}: {reason}"


def _place(config: ReadConfig, index: int, code: str, message: str, text: str) -> Problem:
    location = config.locations[index]
    problem = Problem(f"providers[{location.index}].name", message, code=code, kubernetes_text=text)
    return location.problem(("name",), problem)


def _shown(path: str) -> str:
    """Return a path for a message, quoted if it contains characters that a terminal interprets."""
    return path if path.isprintable() else repr(path)
