"""What is to be released, built when the first step needs it, and how programs are run on it."""

from __future__ import annotations

import shutil
import subprocess
import tomllib
import venv
from collections.abc import Iterable
from functools import cached_property
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / ".cache" / "release"
LOCK = ROOT / "tools" / "lock.txt"
# The machines that there are shims for, and what runs them elsewhere.
RUNNERS = {"x86_64": "qemu-x86_64-static", "aarch64": "qemu-aarch64-static"}


class Problem(Exception):
    """A step that does not hold."""


class Release:
    """What is to be released, built when the first step needs it."""

    @cached_property
    def project(self) -> dict[str, Any]:
        """The table ``project`` of pyproject.toml."""
        found: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))[
            "project"
        ]
        return found

    @cached_property
    def version(self) -> str:
        """The version to be released."""
        return str(self.project["version"])

    @cached_property
    def tools(self) -> Path:
        """The programs of the environment of tools."""
        ready = FOLDER / "tools" / ".ready"
        wanted = (ROOT / "pyproject.toml").read_bytes() + LOCK.read_bytes()
        if content(ready) != wanted:
            groups = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["dependency-groups"]
            make_environment(FOLDER / "tools", "--constraint", str(LOCK), *groups["release"])
            ready.write_bytes(wanted)
        return FOLDER / "tools" / "bin"

    @cached_property
    def packages(self) -> Path:
        """The folder of the packages, built from this tree."""
        target = FOLDER / "packages"
        shutil.rmtree(target, ignore_errors=True)
        run("sh", str(ROOT / "tools" / "parts.sh"), "zig", cwd=ROOT)
        self.build(ROOT, target)
        return target

    def build(self, source: Path, target: Path, **options: Any) -> None:
        """Build the packages of a tree."""
        run(str(self.tools / "python"), str(source / "tools" / "build_packages.py"), str(target), **options)

    @property
    def wheel(self) -> Path:
        """The wheel of keyferry."""
        return only(self.packages.glob("keyferry-*.whl"))

    @property
    def sdist(self) -> Path:
        """The source distribution."""
        return only(self.packages.glob("*.tar.gz"))

    @property
    def shims(self) -> dict[str, Path]:
        """The wheels of the shim, by machine."""
        return {machine: only(self.packages.glob(f"keyferry_shim-*_{machine}.whl")) for machine in RUNNERS}

    @property
    def zipapp(self) -> Path:
        """The file with all plugins."""
        return only(self.packages.glob("keyferry-plugins.pyz"))


def only(paths: Iterable[Path]) -> Path:
    """Return the one path that there is."""
    found = list(paths)
    if len(found) != 1:
        raise Problem(f"expected one file, found {[path.name for path in found]}")
    return found[0]


def run(*words: str, **options: Any) -> str:
    """Return what a program prints; raise Problem with the end of it if the program fails."""
    done: subprocess.CompletedProcess[str] = subprocess.run(
        words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, text=True, check=False,
        **options,
    )  # fmt: skip
    if done.returncode != 0:
        raise Problem(f"{Path(words[0]).name} exits with {done.returncode}: {done.stdout.strip()[-600:]}")
    return done.stdout


def make_environment(folder: Path, *requirements: str, python: str = "") -> Path:
    """Return the programs of a new environment with nothing but what is given."""
    if python:
        run(python, "-m", "venv", "--clear", str(folder))
    else:
        venv.create(folder, clear=True, with_pip=True)
    pip = [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    run(*pip, *requirements)
    return folder / "bin"


def content(path: Path) -> bytes:
    """Return the content of a file, empty if there is none."""
    return path.read_bytes() if path.exists() else b""
