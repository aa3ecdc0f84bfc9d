"""Keep a build of the agent, its shims and its clients in the tree, to test that today's work with it.

It writes to ``tests/data/kept``: the sources as a zip from which Python can import, the static shim for x86-64, and a
note with the commit, the compiler and the checksums. The same commit and compiler give the same bytes.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import json
import subprocess
import tarfile
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
KEPT = ROOT / "tests" / "data" / "kept"
# What neither the agent nor its clients import.
LEFT_OUT = (
    *("doctor", "kit", "page", "pulls", "workloads"),
    *(f"cli/{name}" for name in ("completion", "demo", "image", "kube", "lint", "plugin", "records")),
)
COMPILE = ("musl-gcc", "-O2", "-static", "-s")


def main() -> None:
    """Build what is kept of the commit in the first argument."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("commit", metavar="COMMIT", help="the commit to build")
    commit: str = parser.parse_args().commit
    whole = _git("rev-parse", "--verify", f"{commit}^{{commit}}").decode().strip()
    KEPT.mkdir(parents=True, exist_ok=True)
    files = _files_of(whole)
    sources = KEPT / "keyferry.zip"
    sources.write_bytes(_zip(files))
    shim = KEPT / "shim-x86_64"
    shim.write_bytes(build_shim(files["native/shim.c"]))
    note = {
        "commit": whole,
        "date": _git("show", "-s", "--format=%cs", whole).decode().strip(),
        "compiler": compiler(),
        "sha256": {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in (sources, shim)},
        "writtenBy": "tools/keep_release.py",
    }
    (KEPT / "kept.json").write_text(json.dumps(note, indent=2) + "\n", encoding="utf-8")
    print(*(f"{path.name}: {path.stat().st_size:,} bytes" for path in (sources, shim)), sep="\n")


def build_shim(source: bytes) -> bytes:
    """Return the static shim for this machine."""
    with tempfile.TemporaryDirectory() as folder:
        # The name of the source is in no symbol, since there are none.
        (Path(folder) / "shim.c").write_bytes(source)
        subprocess.run([*COMPILE, "-o", "shim", "shim.c"], cwd=folder, check=True)
        return (Path(folder) / "shim").read_bytes()


def compiler() -> str:
    """Return the compiler's own description of its version."""
    done = subprocess.run([COMPILE[0], "--version"], capture_output=True, text=True, check=True)
    return done.stdout.partition("\n")[0]


def _git(*words: str) -> bytes:
    return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, check=True).stdout  # noqa: S607 - from PATH


def _files_of(commit: str) -> dict[str, bytes]:
    """Return the sources of a commit by their names in the zip."""
    found: dict[str, bytes] = {}
    with tarfile.open(fileobj=io.BytesIO(_git("archive", commit, "src/keyferry", "native"))) as archive:
        for member in archive:
            name = member.name.removeprefix("src/")
            stream = archive.extractfile(member)
            if stream is not None and not name.startswith(tuple(f"keyferry/{room}/" for room in LEFT_OUT)):
                found[name] = stream.read()
    return found


def _zip(files: dict[str, bytes]) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name in sorted(files):
            # A fixed date, so that the same files give the same bytes.
            archive.writestr(zipfile.ZipInfo(name), files[name], zipfile.ZIP_DEFLATED, 9)
    return made.getvalue()


if __name__ == "__main__":
    main()
