"""The sync calls of a program, observed at the system's interface and not in the program."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from support.parts import need
from support.records import TESTS

SOURCE = Path(__file__).with_suffix(".c")


def build(folder: Path) -> Path:
    """Build a library that records the calls of the program that it is loaded into."""
    library = folder / "system_calls.so"
    subprocess.run(
        [need("cc"), "-shared", "-fPIC", "-O1", "-w", "-o", str(library), str(SOURCE), "-ldl"], check=True
    )
    return library


def steps_of(library: Path, folder: Path, code: str) -> list[str]:
    """Return the calls of Python code below a folder, in order, with paths relative to the folder."""
    written = folder.parent / f"{folder.name}.steps"
    setup = f"import sys; sys.path[:0] = {[str(TESTS), *sys.path]!r}\n"
    environment = {**os.environ, "LD_PRELOAD": str(library), "STEPS_FILE": str(written)}
    subprocess.run(
        [sys.executable, "-c", setup + code, str(folder)], env=environment, check=True, timeout=120
    )
    lines = written.read_text().splitlines() if written.exists() else []
    inside = [line for line in lines if str(folder) in line]
    return [line.replace(f"{folder}/", "").replace(str(folder), ".").replace("\t", " ") for line in inside]
