"""The application layer: keyferry and its dependencies as an environment of Python, the shims, the probe."""

from __future__ import annotations

import email
import hashlib
import resource
import shutil
import subprocess
import sys
import zipfile
from dataclasses import dataclass
from pathlib import Path

from debian import BuildError
from sbom import Part, python_part

HERE = Path(__file__).resolve().parent
PROJECT = HERE.parents[1]
SHIM_SOURCE = PROJECT / "native" / "shim.c"
REQUIREMENTS = HERE / "requirements.txt"
SHIM_FLAGS = ("-O2", "-static", "-s", "-Wall", "-Wextra", "-Werror")
# By the machine's name as uname says it: pip's platforms, and zig's target.
MACHINES = {
    "x86_64": ("manylinux_2_17_x86_64", "manylinux2014_x86_64", "manylinux_2_28_x86_64"),
    "aarch64": ("manylinux_2_17_aarch64", "manylinux2014_aarch64", "manylinux_2_28_aarch64"),
}
# Started by other programs for every call: without site, which finds what these do not need.
QUICK = ("-IS", "import sys\nsys.path.append({site!r})\n")
LAUNCHER = """\
#!{python} {flags}
{start}from {module} import {function}
{call}
"""


@dataclass(frozen=True)
class Prefix:
    """An environment of Python in an image whose files are below *root*."""

    root: Path
    path: str
    version: str

    @property
    def folder(self) -> Path:
        """Where it is now."""
        return self.root / self.path.lstrip("/")

    @property
    def site(self) -> str:
        """Where its modules will be."""
        return f"{self.path}/lib/python{self.version}/site-packages"


def make_prefix(prefix: Prefix, wheels: list[Path], shims: dict[str, Path], interpreter: str) -> list[Part]:
    """Fill the environment; return what it is made of."""
    for folder in (
        prefix.root / prefix.site.lstrip("/"),
        prefix.folder / "bin",
        prefix.folder / "lib" / "keyferry",
    ):
        folder.mkdir(parents=True)
    home, name = interpreter.rsplit("/", 1)
    (prefix.folder / "pyvenv.cfg").write_text(f"home = {home}\ninclude-system-site-packages = false\n")
    (prefix.folder / "bin" / "python").symlink_to(f"{home}/{name}")
    parts = [_unpack(prefix, wheel) for wheel in wheels]
    for machine, shim in shims.items():
        target = prefix.folder / "lib" / "keyferry" / f"keyferry-shim-{machine}"
        shutil.copyfile(shim, target)
        target.chmod(0o755)
    _write_probe(prefix)
    return parts


def fetch_wheels(folder: Path, machine: str, version: str) -> list[Path]:
    """Return the dependencies as wheels, whose hashes are pinned; what *folder* lacks is fetched by pip."""
    target = folder / f"{machine}-{_sha256(REQUIREMENTS)[:16]}"
    if not target.exists():
        draft = target.with_name(f"{target.name}.draft")
        shutil.rmtree(draft, ignore_errors=True)
        words = [
            sys.executable,
            "-m",
            "pip",
            "download",
            "--quiet",
            "--disable-pip-version-check",
            "--no-deps",
        ]
        words += [
            "--require-hashes",
            "--only-binary=:all:",
            f"--python-version={version}",
            "--implementation=cp",
        ]
        words += [f"--platform={each}" for each in MACHINES[machine]]
        _run([*words, "--dest", str(draft), "--requirement", str(REQUIREMENTS)])
        draft.replace(target)
    return sorted(target.iterdir())


def build_shims(folder: Path, machine: str, zig: list[str]) -> dict[str, Path]:
    """Return the static shim for every machine: this one's by musl-gcc, others' by zig."""
    found = {}
    # The first time, zig compiles all of musl at once, with more files open than the usual limit lets it.
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
    for each in sorted(MACHINES):
        is_own = each == machine and shutil.which("musl-gcc") is not None
        compiler = ["musl-gcc"] if is_own else [*zig, "-target", f"{each}-linux-musl"]
        key = hashlib.sha256(SHIM_SOURCE.read_bytes() + " ".join(compiler).encode()).hexdigest()[:16]
        target = folder / f"{each}-{key}"
        if not target.exists():
            folder.mkdir(parents=True, exist_ok=True)
            draft = target.with_name(f"{target.name}.draft")
            _run([*compiler, *SHIM_FLAGS, "-o", str(draft), str(SHIM_SOURCE)])
            draft.replace(target)
        found[each] = target
    return found


def shim_parts(shims: dict[str, Path], version: str) -> list[Part]:
    """Return the shims as parts."""
    return [
        Part(
            "application",
            f"keyferry-shim-{machine}",
            version,
            f"pkg:generic/keyferry-shim@{version}?arch={machine}",
            _sha256(path),
            ("Apache-2.0",),
        )
        for machine, path in shims.items()
    ]


def _run(words: list[str]) -> None:
    try:
        done = subprocess.run(words, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        raise BuildError(f"{words[0]} is not installed; 'make parts' installs it on Debian") from None
    if done.returncode != 0:
        raise BuildError(f"{words[0]} fails: {done.stderr.strip()}")


def _unpack(prefix: Prefix, wheel: Path) -> Part:
    """Unpack a wheel's modules and metadata, and write its programs; manuals and headers are left out."""
    site = prefix.root / prefix.site.lstrip("/")
    with zipfile.ZipFile(wheel) as archive:
        names = [name for name in archive.namelist() if ".data/" not in name.partition("/")[0] + "/"]
        archive.extractall(site, sorted(names))
        (metadata,) = [name for name in names if name.endswith(".dist-info/METADATA")]
        fields = email.message_from_bytes(archive.read(metadata))
        programs = metadata.replace("METADATA", "entry_points.txt")
        if programs in names:
            _write_programs(prefix, archive.read(programs).decode())
    return python_part({name: str(value) for name, value in fields.items()}, _sha256(wheel))


def _write_programs(prefix: Prefix, text: str) -> None:
    section = text.partition("[console_scripts]")[2].partition("[")[0]
    for line in filter(None, map(str.strip, section.splitlines())):
        name, _, target = line.replace(" ", "").partition("=")
        module, _, function = target.partition(":")
        _write_launcher(prefix, name, module, function, is_quick=name != "keyferry")


def _write_launcher(prefix: Prefix, name: str, module: str, function: str, *, is_quick: bool) -> None:
    flags, start = QUICK if is_quick else ("-I", "")
    call = f"{function}()" if is_quick else f"raise SystemExit({function}())"
    text = LAUNCHER.format(
        python=f"{prefix.path}/bin/python",
        flags=flags,
        start=start.format(site=prefix.site),
        module=module,
        function=function,
        call=call,
    )
    _write_program(prefix.folder / "bin" / name, text)


def _write_probe(prefix: Prefix) -> None:
    text = (HERE / "probe.py").read_text()
    _write_program(prefix.folder / "bin" / "keyferry-probe", f"#!{prefix.path}/bin/python -IS\n{text}")


def _write_program(path: Path, text: str) -> None:
    path.write_text(text)
    path.chmod(0o755)


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
