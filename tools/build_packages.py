"""Build all packages into a folder: wheel, source distribution, zipapps and the shim's wheels.

``keyferry.cdx.json`` lists what keyferry requires (SBOM, CycloneDX), and SHA256SUMS has the hashes of all files. The
same commit gives the same bytes, by the tools of ``tools/lock.txt``.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import build_shim_wheels

ROOT = Path(__file__).resolve().parent.parent
ZIPAPPS = {"keyferry": "keyferry.pyz", "plugins": "keyferry-plugins.pyz"}
PARTS = "keyferry.cdx.json"
CONSTRAINTS = ROOT / "tools" / "lock.txt"


def list_parts(target: Path) -> None:
    """Write what keyferry and its extras require, by cyclonedx-bom, in the versions that it is tested with."""
    pyproject = ROOT / "pyproject.toml"
    project = tomllib.loads(pyproject.read_text(encoding="utf-8"))["project"]
    groups = [project["dependencies"], *project["optional-dependencies"].values()]
    names = sorted({each.partition(">=")[0].lower() for group in groups for each in group})
    locked = dict(
        line.partition(" ;")[0].strip().split("==")
        for line in CONSTRAINTS.read_text(encoding="utf-8").splitlines()
        if "==" in line.partition("#")[0]
    )
    command = ["cyclonedx_py", "requirements", "--output-reproducible", "--pyproject", str(pyproject)]
    subprocess.run(
        [sys.executable, "-m", *command, "--output-file", str(target), "-"],
        input="".join(f"{name}=={locked[name]}\n" for name in names),
        text=True,
        check=True,
        capture_output=True,
    )


def build_all(target: Path, python: str = sys.executable) -> list[Path]:
    """Build all packages into *target*, which must be empty or missing; *python* has ``build``."""
    target.mkdir(parents=True, exist_ok=True)
    build_distributions(target, ROOT, python)
    for what, name in ZIPAPPS.items():
        zipapp = [sys.executable, str(ROOT / "tools" / "build_zipapp.py"), what, str(target / name)]
        subprocess.run(zipapp, check=True, capture_output=True)
    build_shim_wheels.build_all(target)
    list_parts(target / PARTS)
    built = sorted(target.iterdir())
    sums = [f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in built]
    (target / "SHA256SUMS").write_text("".join(sums), encoding="ascii")
    return built


def build_distributions(target: Path, source: Path, python: str, *kinds: str) -> None:
    """Build the wheel and the source distribution of *source*, with the pinned back end, where pip can get it."""
    words = [python, "-m", "build", *kinds, "--outdir", str(target), str(source)]
    environment = os.environ | {"PIP_CONSTRAINT": str(CONSTRAINTS), "PIP_BUILD_CONSTRAINT": str(CONSTRAINTS)}
    # Without it, the back end's own fixed date: the same bytes for those who have the files and no history.
    environment.pop("SOURCE_DATE_EPOCH", None)
    done = subprocess.run(words, capture_output=True, text=True, check=False, env=environment)
    if done.returncode != 0:
        sys.exit(f"build_packages.py: build fails: {done.stdout}{done.stderr}")


def parse() -> Path:
    """Return the folder that is given."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path, metavar="FOLDER", help="where to")
    folder: Path = parser.parse_args().folder
    return folder


def main() -> None:
    """Build into the folder that is given."""
    for path in build_all(parse()):
        print(f"{path.name}: {path.stat().st_size / 1024:.0f} KiB")


if __name__ == "__main__":
    main()
