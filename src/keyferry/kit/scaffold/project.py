"""Write the project of a new plugin: one function, its tests, a config; its tests pass."""

from __future__ import annotations

import keyword
import os
import re
import sys
from collections.abc import Mapping

from keyferry import __version__
from keyferry.errors import EnvironmentProblem
from keyferry.kit.plugin_kind import PluginKind
from keyferry.kit.scaffold.templates import CLUSTER_FILES, IMAGE_FILES

__all__ = ["check_name", "write_files", "write_project"]

_FILES = {PluginKind.IMAGE: IMAGE_FILES, PluginKind.CLUSTER: CLUSTER_FILES}
_NAME = r"[a-z](?:[a-z0-9]|-(?=[a-z0-9])){0,62}"
_TAKEN = ("keyferry", "keyferry_plugins", "pytest", "conftest", "test", "test_plugin", "tests")
_WORDS = {
    PluginKind.IMAGE: {
        "about": "An image credential provider for the kubelet",
        "kit_options": "--image registry.example.com/team/app --env {{NAME}}_PASSWORD_FILE=/path/to/password",
        "config_words": "`config/provider.yaml` is for the kubelet; `keyferry lint config/provider.yaml` checks it.",
    },
    PluginKind.CLUSTER: {
        "about": "An exec credential plugin for kubeconfigs",
        "kit_options": "--kind cluster --env {{NAME}}_TOKEN_FILE=/path/to/token",
        "config_words": "`config/kubeconfig.yaml` shows the entry for a kubeconfig.",
    },
}


def check_name(name: str) -> str:
    """Return why *name* is not valid for a program, a Python module and a config entry; empty if it is."""
    if not re.fullmatch(_NAME, name):
        return "expected lower-case letters, digits and single dashes, first a letter, at most 63 characters"
    module = name.replace("-", "_")
    if keyword.iskeyword(module) or module in sys.stdlib_module_names or module in _TAKEN:
        return "Python, keyferry or the tests have a module of that name"
    return ""


def write_project(name: str, kind: PluginKind, folder: str) -> list[str]:
    """Write the files of a project into *folder*, as by `write_files`."""
    return write_files(_fill(name, kind), folder)


def write_files(files: Mapping[str, str], folder: str) -> list[str]:
    """Write *files*, texts by path, into *folder*, which must be new or empty; return their paths.

    Raise EnvironmentProblem. Existing files are never changed.
    """
    try:
        if os.path.isdir(folder) and os.listdir(folder):
            raise EnvironmentProblem(f"{folder!r} is not empty; choose another folder with --to")
        return [_write(folder, path, text) for path, text in files.items()]
    except OSError as error:
        raise EnvironmentProblem(f"{folder!r} cannot be written: {(error.strerror or '').lower()}") from None


def _fill(name: str, kind: PluginKind) -> dict[str, str]:
    module = name.replace("-", "_")
    words = {**_WORDS[kind], "name": name, "module": module, "NAME": module.upper(), "version": __version__}
    filled = dict(_FILES[kind])
    # Some of the replacements contain placeholders.
    for _ in range(2):
        filled = {_replace(path, words): _replace(text, words) for path, text in filled.items()}
    return filled


def _replace(text: str, words: dict[str, str]) -> str:
    return re.sub(r"\{\{(\w+)\}\}", lambda match: words[match[1]], text)


def _write(folder: str, path: str, text: str) -> str:
    target = os.path.join(folder, *path.split("/"))
    os.makedirs(os.path.dirname(target), exist_ok=True)
    with open(target, "x", encoding="utf-8") as file:
        file.write(text)
    # Whatever the umask is: a config that a group can write is a finding of lint.
    os.chmod(target, 0o644)
    return target
