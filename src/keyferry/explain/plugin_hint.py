"""The command that shows more about a plugin that failed."""

from __future__ import annotations

import shlex
from os.path import join

from keyferry.errors import KeyferryError, Kind, PluginError

__all__ = ["lint_command", "plugin_command", "trace_command"]


def plugin_command(error: KeyferryError, provider: str, image: str, config: str, bin_dir: str) -> str:
    """Return the command to try after *error* of a provider for *image*; empty if no command shows more."""
    if not isinstance(error, PluginError) or not bin_dir:
        return ""
    if error.kind is Kind.NOT_FOUND:
        return lint_command(config, bin_dir)
    return trace_command(provider, image, config, bin_dir)


def lint_command(config: str, bin_dir: str) -> str:
    """Return the command that lists the plugins that are missing; empty without a config."""
    return shlex.join(("keyferry", "lint", config, "--bin-dir", bin_dir)) if config else ""


def trace_command(provider: str, image: str, config: str, bin_dir: str) -> str:
    """Return the command that shows a plugin's request and response."""
    options = ("--config", config) if config else ()
    return shlex.join(("keyferry", "plugin", "trace", join(bin_dir, provider), image, *options, "-o", "text"))
