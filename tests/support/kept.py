"""The build of an earlier commit that is kept in the tree: its agent, its shims, its helper for docker."""

from __future__ import annotations

import json
import os
from pathlib import Path

import keyferry
from keyferry.bridge.kubelet.program import python_shim
from support.shims import Shim, build

FOLDER = Path(__file__).resolve().parents[1] / "data" / "kept"
SOURCES = FOLDER / "keyferry.zip"
NATIVE_SHIM = FOLDER / "shim-x86_64"
NOTE = json.loads((FOLDER / "kept.json").read_text(encoding="utf-8"))
AGES = ("kept", "today's")


def environ_of(age: str) -> dict[str, str]:
    """Return the variables with which Python imports keyferry of that age."""
    return {"PYTHONPATH": str(SOURCES)} if age == "kept" else {}


def shim_of(age: str, kind: str, folder: Path) -> Shim:
    """Return a shim of that age, in Python or native."""
    if age != "kept":
        return build(kind, folder)
    if kind == "native":
        return Shim(kind, NATIVE_SHIM.read_bytes())
    # The launcher names the folder that it imports from.
    program, sources = python_shim(), os.fsencode(Path(keyferry.__file__).parents[1])
    assert program.count(b"'%b'" % sources) == 1
    return Shim(kind, program.replace(b"'%b'" % sources, b"'%b'" % os.fsencode(SOURCES)))
