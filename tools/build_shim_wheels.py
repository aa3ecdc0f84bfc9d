"""Build the distribution ``keyferry-shim``: one wheel for each processor, with the static shim and nothing else.

The shim is put where ``keyferry bridge kubelet install`` looks for it: ``lib/keyferry`` of the environment. The same
sources and the same compiler (``native/compiler.txt``) give the same bytes. There is no source distribution: the source
is in keyferry's.
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import io
import resource
import subprocess
import sys
import tempfile
import tomllib
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MACHINES = ("x86_64", "aarch64")
# Without links: the compiler keeps what it made of the C library under its own path.
ZIG = (ROOT / ".cache" / "parts" / "zig").resolve() / "bin" / "python"
# A static program needs no C library: one wheel is for systems with glibc and for those with musl.
PLATFORMS = ("manylinux_2_17_{}", "manylinux2014_{}", "musllinux_1_1_{}")
FLAGS = ("-O2", "-static", "-s", "-Wall", "-Wextra", "-Werror")
DATE = (1980, 1, 1, 0, 0, 0)
METADATA = """\
Metadata-Version: 2.4
Name: keyferry-shim
Version: {version}
Summary: The static shim of keyferry: lets the kubelet ask keyferry's node agent, on nodes without Python too
Author: {author}
License-Expression: Apache-2.0 AND MIT
License-File: LICENSE
License-File: LICENSE.musl
Keywords: {keywords}
Classifier: Development Status :: 4 - Beta
Classifier: Intended Audience :: System Administrators
Classifier: Operating System :: POSIX :: Linux
Classifier: Programming Language :: C
Requires-Python: {python}
Description-Content-Type: text/markdown

# keyferry-shim

A static program of 25 KB without dependencies. The kubelet executes it in place of a credential provider plugin. It
asks keyferry's node agent on the node and prints its answer; without an answer, it becomes the plugin behind it.

Install this package beside `keyferry`, and `keyferry bridge kubelet install` puts the static shim into the kubelet's
folder of plugins, in place of the shim in Python. The program is `lib/keyferry/keyferry-shim-{machine}` in the
environment. To copy it to a node without Python, unpack the wheel, which is a zip file.

The program contains parts of musl, whose licence is included.
"""
WHEEL = """\
Wheel-Version: 1.0
Generator: keyferry build_shim_wheels
Root-Is-Purelib: false
"""


def project() -> dict[str, str]:
    """Return what the metadata has in common with keyferry's."""
    found = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return {
        "version": found["version"],
        "author": found["authors"][0]["name"],
        "keywords": ",".join(found["keywords"]),
        "python": found["requires-python"],
    }


def build_wheel(machine: str, shim: bytes, musl_license: bytes) -> tuple[str, bytes]:
    """Return the name and the content of the wheel for a machine."""
    values = project()
    start = f"keyferry_shim-{values['version']}"
    tags = [each.format(machine) for each in PLATFORMS]
    info = f"{start}.dist-info"
    files = {
        f"{start}.data/data/lib/keyferry/keyferry-shim-{machine}": shim,
        f"{info}/METADATA": METADATA.format(machine=machine, **values).encode(),
        f"{info}/WHEEL": (WHEEL + "".join(f"Tag: py3-none-{tag}\n" for tag in tags)).encode(),
        f"{info}/licenses/LICENSE": (ROOT / "LICENSE").read_bytes(),
        f"{info}/licenses/LICENSE.musl": musl_license,
    }
    record = f"{info}/RECORD"
    files[record] = (
        "".join(f"{_record_line(*each)}\n" for each in files.items()).encode() + f"{record},,\n".encode()
    )
    return f"{start}-py3-none-{'.'.join(tags)}.whl", _pack(files)


def _record_line(name: str, content: bytes) -> str:
    digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).decode().rstrip("=")
    return f"{name},sha256={digest},{len(content)}"


def _pack(files: dict[str, bytes]) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for name, content in files.items():
            entry = zipfile.ZipInfo(name, DATE)
            entry.external_attr = (0o100755 if "/lib/" in name else 0o100644) << 16
            # Stored: what a version of zlib makes of it would be part of the bytes.
            archive.writestr(entry, content)
    return packed.getvalue()


def musl_folder() -> Path:
    """Return the sources of the C library that the compiler brings."""
    return next(ZIG.parents[1].glob("lib/*/site-packages/ziglang/lib/libc/musl"))


def compile_shim(machine: str) -> bytes:
    """Return the static shim for a machine, by the pinned compiler."""
    with tempfile.TemporaryDirectory() as folder:
        shim = Path(folder) / "shim"
        command = [str(ZIG), "-m", "ziglang", "cc", "-target", f"{machine}-linux-musl", *FLAGS]
        subprocess.run([*command, "-o", str(shim), str(ROOT / "native" / "shim.c")], check=True)
        return shim.read_bytes()


def build_all(target: Path) -> list[Path]:
    """Build the wheels into *target*."""
    musl_license = (musl_folder() / "COPYRIGHT").read_bytes()
    target.mkdir(parents=True, exist_ok=True)
    # The first time, zig compiles all of musl at once, with more files open than the usual limit lets it.
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
    written = []
    for machine in MACHINES:
        name, content = build_wheel(machine, compile_shim(machine), musl_license)
        written.append(target / name)
        written[-1].write_bytes(content)
    return written


def parse() -> Path:
    """Return the folder that is given."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path, metavar="FOLDER", help="where to")
    folder: Path = parser.parse_args().folder
    return folder


def main() -> None:
    """Build the wheels into the folder that is given."""
    folder = parse()
    if not ZIG.exists():
        sys.exit("build_shim_wheels.py: no compiler; 'sh tools/parts.sh zig' installs it")
    for path in build_all(folder):
        print(f"{path}: {path.stat().st_size / 1024:.0f} KiB")


if __name__ == "__main__":
    main()
