"""The modules that a command loads, as an exact set; time is only benchmarked."""

import os
import subprocess
import sys

import yaml

import keyferry

# Without site, which loads modules of its own, nobody else finds PyYAML.
_PATHS = [os.path.dirname(os.path.dirname(str(package.__file__))) for package in (keyferry, yaml)]
# Up to Python 3.13 the interpreter itself loads io.
_RUN = """
import gc, io, os, sys
sys.path[:0] = {paths!r}
old = set(sys.modules)
from keyferry.cli.main import main
code = main({words!r})
sys.stderr.write("\\n" + " ".join(sorted(set(sys.modules) - old)))
sys.exit(code)
"""
# What regular expressions are made of.
_PATTERNS = {
    "collections",
    "copyreg",
    "enum",
    "functools",
    "itertools",
    "keyword",
    "operator",
    "re",
    "reprlib",
    "types",
}
# What starts a program and reads from it.
_PROGRAMS = {
    *("contextlib", "errno", "fcntl", "locale", "msvcrt", "select", "selectors", "signal", "subprocess"),
    *("threading", "warnings"),
}
_PLAIN = {"binascii", "bisect", "itertools", "math", "struct", "types", "weakref"}
# A lookup in a JSON config, of an image with a usual name: a regular expression would take a sixth of its time.
LOOKING_UP = {"errno", "select"} | _PLAIN
# The same by the node agent: no program is started, and no pattern is compiled.
ASKING = {"bisect", "math"}
READING = _PATTERNS | _PROGRAMS | _PLAIN
CONNECTING = READING | {"array", "base64", "socket", "ssl"}
YAML = {"base64", "cython_runtime", "datetime", "yaml"}


def loaded_by_command(*words: str, code: int = 0, own: bool = False, **env: str) -> set[str]:
    """Return the packages that a command loads in a fresh interpreter without site; with *own*, keyferry's modules."""
    run = [sys.executable, "-I", "-S", "-c", _RUN.format(paths=_PATHS, words=list(words))]
    done = subprocess.run(
        run, env={**os.environ, **env}, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    assert done.returncode == code, done.stderr
    modules = done.stderr.rpartition("\n")[2].split()
    if own:
        return {name for name in modules if name.startswith("keyferry.")}
    packages = {name.partition(".")[0] for name in modules}
    return {name for name in packages if name != "keyferry" and not name.startswith("_")}
