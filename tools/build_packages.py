"""Build all packages into a folder: wheel, source distribution, zipapp and the shim's wheels, with the parts of each.

Beside every package is the list of its parts (SBOM, CycloneDX), and SHA256SUMS has the hashes of all files. The same
commit gives the same bytes, by the tools of ``tools/lock.txt``.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import subprocess
import sys
import tomllib
import zipfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import build_shim_wheels

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "deploy" / "container"))

from sbom import Part, render  # noqa: E402 - after the path is set

ZIPAPP = "keyferry-plugins.pyz"
CONSTRAINTS = ROOT / "tools" / "lock.txt"
OWN_LICENSE = "Apache-2.0"
# What keyferry's wheel requires, and under which licence it is; none of it is in a package.
LICENSES = {
    "aiohttp": "Apache-2.0 AND MIT",
    "cryptography": "Apache-2.0 OR BSD-3-Clause",
    "grpcio": "Apache-2.0",
    "httptools": "MIT",
    "httpx": "BSD-3-Clause",
    "jinja2": "BSD-3-Clause",
    "kubernetes": "Apache-2.0",
    "prometheus-client": "Apache-2.0 AND BSD-2-Clause",
    "protobuf": "BSD-3-Clause",
    "pyjwt": "MIT",
    "pyyaml": "MIT",
    "requests": "Apache-2.0",
}


def project() -> dict[str, Any]:
    """Return the table ``project`` of pyproject.toml."""
    found: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return found


def required() -> list[Part]:
    """Return what keyferry's wheel requires, by extra; extras that require the same are one part."""
    table = project()
    groups = {"": table["dependencies"], **table["optional-dependencies"]}
    found: dict[str, list[str]] = {}
    for extra, requirements in groups.items():
        for each in requirements:
            name, _, version = each.partition(">=")
            text = f">={version}" + (f" for [{extra}]" if extra else "")
            found.setdefault(name.lower(), []).append(text)
    return [_requirement(name, texts) for name, texts in found.items()]


def _requirement(name: str, texts: list[str]) -> Part:
    scope = "optional" if all("[" in text for text in texts) else "required"
    return Part("library", name, "", f"pkg:pypi/{name}", "", (LICENSES[name],), scope, ", ".join(texts))


def list_parts(package: Path, created: str) -> bytes:
    """Return the list of the parts of a package."""
    version = str(project()["version"])
    digest = sha256(package.read_bytes())
    if package.name == ZIPAPP:
        purl = f"pkg:generic/keyferry-plugins@{version}"
        subject = Part("application", ZIPAPP, version, purl, digest, (OWN_LICENSE,))
        return render(packed_files(package), subject, created)
    if package.name.startswith("keyferry_shim"):
        purl = f"pkg:pypi/keyferry-shim@{version}?file_name={package.name}"
        subject = Part("application", "keyferry-shim", version, purl, digest, ("Apache-2.0 AND MIT",))
        return render([*packed_files(package), musl()], subject, created)
    purl = f"pkg:pypi/keyferry@{version}?file_name={package.name}"
    subject = Part("application", "keyferry", version, purl, digest, (OWN_LICENSE,))
    files = packed_files(package) if package.suffix == ".whl" else []
    return render([*files, *required()], subject, created)


def packed_files(package: Path) -> list[Part]:
    """Return the files of a wheel or zipapp as parts."""
    with zipfile.ZipFile(package) as archive:
        return [Part("file", name, "", "", sha256(archive.read(name))) for name in archive.namelist()]


def musl() -> Part:
    """Return the C library that the static shims contain parts of, in the version that the compiler brings."""
    found = build_shim_wheels.musl_folder() / "src" / "internal" / "version.h"
    version = found.read_text(encoding="ascii").split('"')[1]
    return Part("library", "musl", version, f"pkg:generic/musl@{version}", "", ("MIT",))


def time_of_sources() -> str:
    """Return SOURCE_DATE_EPOCH, else the time of the last commit."""
    command = ["git", "-C", str(ROOT), "log", "-1", "--format=%ct"]
    seconds = os.environ.get("SOURCE_DATE_EPOCH", "")
    if not seconds and (ROOT / ".git").exists():
        seconds = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    return f"{datetime.fromtimestamp(int(seconds or 0), UTC):%Y-%m-%dT%H:%M:%SZ}"


def build_all(target: Path, python: str = sys.executable) -> list[Path]:
    """Build all packages into *target*, which must be empty or missing; *python* has ``build``."""
    target.mkdir(parents=True, exist_ok=True)
    build_distributions(target, ROOT, python)
    zipapp = [sys.executable, str(ROOT / "tools" / "build_zipapp.py"), str(target / ZIPAPP)]
    subprocess.run(zipapp, check=True, capture_output=True)
    build_shim_wheels.build_all(target)
    packages = sorted(target.iterdir())
    created = time_of_sources()
    for package in packages:
        package.with_name(f"{package.name}.cdx.json").write_bytes(list_parts(package, created))
    sums = [f"{sha256(path.read_bytes())}  {path.name}\n" for path in sorted(target.iterdir())]
    (target / "SHA256SUMS").write_text("".join(sums), encoding="ascii")
    return packages


def build_distributions(target: Path, source: Path, python: str, *kinds: str) -> None:
    """Build the wheel and the source distribution of *source*, with the pinned back end, where pip can get it."""
    words = [python, "-m", "build", *kinds, "--outdir", str(target), str(source)]
    environment = os.environ | {"PIP_CONSTRAINT": str(CONSTRAINTS), "PIP_BUILD_CONSTRAINT": str(CONSTRAINTS)}
    # Without it, the back end's own fixed date: the same bytes for those who have the files and no history.
    environment.pop("SOURCE_DATE_EPOCH", None)
    done = subprocess.run(words, capture_output=True, text=True, check=False, env=environment)
    if done.returncode != 0:
        sys.exit(f"build_packages.py: build fails: {done.stdout}{done.stderr}")


def sha256(content: bytes) -> str:
    """Return the hash that SHA256SUMS and the lists of parts have."""
    return hashlib.sha256(content).hexdigest()


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
