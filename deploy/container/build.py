"""Build the image of the node agent from Debian packages and keyferry's wheel, without an engine and a base image.

The same sources and packages give the same bytes. ``--application`` makes only the application's part of the tree,
which the Containerfile puts onto a base image.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import application
import debian
from layers import make_layer, write_archive
from sbom import Part, debian_part, render

HERE = Path(__file__).resolve().parent
PROJECT = HERE.parents[1]
SETTINGS: dict[str, Any] = json.loads((HERE / "image.json").read_text(encoding="utf-8"))
ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
RELEASE = "debian-12"
NAME = "keyferry"
SECOND = 1_000_000_000


def main() -> int:
    """Build, and print the image's size and digest."""
    args = _arguments()
    machine = platform.machine()
    if machine not in ARCHITECTURES:
        raise debian.BuildError(
            f"no image is built for {machine}; expected one of {', '.join(ARCHITECTURES)}"
        )
    wheel = args.wheel or _only_wheel()
    args.cache.mkdir(parents=True, exist_ok=True)
    # In the cache's own file system, so that finished parts can be renamed into it.
    with tempfile.TemporaryDirectory(dir=args.cache, prefix="build-") as name:
        if args.application:
            _make_application(args, Path(name), wheel, machine)
        else:
            _make_image(args, Path(name), wheel, machine)
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    cache = PROJECT / ".cache" / "image"
    parser.add_argument(
        "--cache", type=Path, default=cache, help="where downloads and finished parts are kept"
    )
    parser.add_argument("--out", type=Path, default=cache / "keyferry.oci.tar", help="the archive to write")
    parser.add_argument("--wheel", type=Path, help="keyferry's wheel (default: the one in dist/)")
    parser.add_argument("--zig", default="", help="a Python that has ziglang (default: that of 'make parts')")
    parser.add_argument("--fresh", action="store_true", help="use kept downloads, but no finished part")
    parser.add_argument(
        "--application", type=Path, metavar="DIR", help="write only the application's part, here"
    )
    return parser.parse_args()


def _only_wheel() -> Path:
    found = sorted((PROJECT / "dist").glob("keyferry-*.whl"))
    if len(found) != 1:
        raise debian.BuildError("no wheel in dist/; 'make wheel' builds it")
    return found[0]


def _make_image(args: argparse.Namespace, folder: Path, wheel: Path, machine: str) -> None:
    base, base_parts = _find_base(args.cache, folder, is_fresh=args.fresh)
    top = folder / "top"
    parts = [*base_parts, *_fill_application(args, top, wheel, machine, base)]
    version = _version_of(parts)
    created = _created()
    document = render(parts, _subject(version), created)
    _write_sbom(top, document)
    socket_folder = top / SETTINGS["socketFolder"].lstrip("/")
    socket_folder.mkdir(parents=True)
    owners = {SETTINGS["socketFolder"]: (SETTINGS["user"], SETTINGS["group"])}
    layers = [make_layer(base, {}), make_layer(top, owners)]
    labels = _labels(version, created)
    config = _config(machine, created, labels)
    reference = {"org.opencontainers.image.ref.name": f"localhost/{NAME}:{version}"}
    digest = write_archive(args.out, layers, config, labels | reference)
    args.out.with_name("sbom.cdx.json").write_bytes(document)
    size, unpacked = args.out.stat().st_size, sum(map(len, layers))
    print(f"{args.out}: {size / 1e6:.1f} MB, unpacked {unpacked / 1e6:.1f} MB")
    print(digest)


def _find_base(cache: Path, folder: Path, *, is_fresh: bool) -> tuple[Path, list[Part]]:
    """Return the tree of the base layer, kept from before if its packages and its recipe are the same."""
    lines = (HERE / "debian-packages.txt").read_text(encoding="utf-8").splitlines()
    names = [line for line in lines if line and not line.startswith("#")]
    fetched = debian.fetch_packages(names, cache / "packages")
    recipe = (HERE / "debian.py").read_bytes() + json.dumps(SETTINGS).encode()
    key = hashlib.sha256(recipe + repr([package for package, _ in fetched]).encode()).hexdigest()[:16]
    kept, made = cache / f"base-{key}", folder / "base"
    if is_fresh or not kept.exists():
        made.mkdir()
        debian.make_root(made, [file for _, file in fetched], NAME, SETTINGS["user"], SETTINGS["group"])
        if not kept.exists():
            for old in cache.glob("base-*"):
                shutil.rmtree(old)
            made = made.rename(kept)
    base = kept if not made.exists() else made
    parts = [debian_part(debian.read_control(file), package.sha256, RELEASE) for package, file in fetched]
    return base, parts


def _make_application(args: argparse.Namespace, folder: Path, wheel: Path, machine: str) -> None:
    top = folder / "top"
    parts = _fill_application(args, top, wheel, machine, None)
    _write_sbom(top, render(parts, _subject(_version_of(parts)), _created()))
    shutil.copytree(top, args.application, symlinks=True, dirs_exist_ok=True)


def _fill_application(
    args: argparse.Namespace, top: Path, wheel: Path, machine: str, base: Path | None
) -> list[Part]:
    version = SETTINGS["python"]
    zig = args.zig or str(PROJECT / ".cache" / "parts" / "zig" / "bin" / "python")
    shims = application.build_shims(args.cache / "shims", machine, [zig, "-m", "ziglang", "cc"])
    wheels = [wheel, *application.fetch_wheels(args.cache / "wheels", machine, version)]
    prefix = application.Prefix(top, SETTINGS["prefix"], version)
    parts = application.make_prefix(prefix, wheels, shims, f"/usr/bin/python{version}")
    _compile(top, base)
    return parts + application.shim_parts(shims, _version_of(parts))


def _compile(top: Path, base: Path | None) -> None:
    if base is not None:
        debian.compile_modules(base, top)
        return
    if platform.python_version_tuple()[:2] != tuple(SETTINGS["python"].split(".")):
        raise debian.BuildError(
            f"the application's part is made by Python {SETTINGS['python']}, which runs it"
        )
    debian.compile_with([sys.executable], top)


def _version_of(parts: list[Part]) -> str:
    return next(part.version for part in parts if part.name == NAME)


def _subject(version: str) -> Part:
    # Without a hash: the list is itself in the image.
    return Part("container", NAME, version, "", "", ("Apache-2.0",))


def _write_sbom(top: Path, document: bytes) -> None:
    place = top / SETTINGS["sbom"].lstrip("/")
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_bytes(document)


def _created() -> str:
    """Return the time that the image states: SOURCE_DATE_EPOCH, else that of the last commit."""
    seconds = os.environ.get("SOURCE_DATE_EPOCH") or _git("log", "-1", "--format=%ct") or "0"
    return f"{datetime.fromtimestamp(int(seconds), UTC):%Y-%m-%dT%H:%M:%SZ}"


def _git(*words: str) -> str:
    try:
        done = subprocess.run(["git", "-C", PROJECT, *words], capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def _labels(version: str, created: str) -> dict[str, str]:
    start = "org.opencontainers.image"
    labels: dict[str, str] = SETTINGS["labels"] | {f"{start}.version": version, f"{start}.created": created}
    revision = os.environ.get("SOURCE_REVISION") or _git("rev-parse", "HEAD")
    return labels | ({f"{start}.revision": revision} if revision else {})


def _config(machine: str, created: str, labels: dict[str, str]) -> dict[str, object]:
    seconds = SETTINGS["healthcheckSeconds"]
    return {
        "architecture": ARCHITECTURES[machine],
        "os": "linux",
        "created": created,
        "config": {
            "User": f"{SETTINGS['user']}:{SETTINGS['group']}",
            "Entrypoint": SETTINGS["entrypoint"],
            "Cmd": SETTINGS["command"],
            "WorkingDir": SETTINGS["workingDirectory"],
            "Env": [f"{name}={value}" for name, value in SETTINGS["environment"].items()],
            "Labels": labels,
            # Not in OCI's format, whose readers ignore it; docker's have it here.
            "Healthcheck": {
                "Test": ["CMD", *SETTINGS["healthcheck"]],
                "Interval": seconds["interval"] * SECOND,
                "Timeout": seconds["timeout"] * SECOND,
                "StartPeriod": seconds["start"] * SECOND,
            },
        },
    }


if __name__ == "__main__":
    try:
        sys.exit(main())
    except debian.BuildError as error:
        sys.exit(f"build.py: {error}")
