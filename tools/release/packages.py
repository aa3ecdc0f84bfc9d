"""The steps that look at the packages: how they are built, and what is in them."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tarfile
import tempfile
import zipfile
from pathlib import Path, PurePosixPath

from release.subject import ROOT, RUNNERS, Problem, Release, content, only, run

# pyroma's two complaints about a project without a public address; the step 'address' is about that.
NO_ADDRESS = ("author-email data", "'url' field")
EMPTY_LIBRARY = "W007"
ELF_MACHINES = {"x86_64": b"\x3e\x00", "aarch64": b"\xb7\x00"}
PROGRAM_INTERPRETER = 3
VALIDATE = """
import sys
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
for path in sys.argv[1:]:
    problem = JsonStrictValidator(SchemaVersion.V1_6).validate_str(open(path, encoding="utf-8").read())
    if problem is not None:
        sys.exit(f"{path}: {problem}")
"""
# As the index renders a description; a relative link would lead to a page of the index.
RENDER = """
import re, sys
from importlib.metadata import PathDistribution
from zipfile import Path
from readme_renderer.markdown import render
for wheel in sys.argv[1:]:
    found = next(each for each in Path(wheel).iterdir() if each.name.endswith(".dist-info"))
    html = render(PathDistribution(found).metadata.get_payload())
    if not html:
        sys.exit(f"{wheel}: the description is not rendered")
    links = re.findall(r'(?:href|src)="(?!https://|mailto:|#)([^"]*)"', html)
    if links:
        sys.exit(f"{wheel}: links of the description lead nowhere: {', '.join(links)}")
"""


def check_same_bytes(release: Release) -> str:
    """A second build, of a copy in another folder and with another umask, gives the same bytes."""
    names = run("git", "-C", str(ROOT), "ls-files", "-z").split("\0")
    stamp = run("git", "-C", str(ROOT), "log", "-1", "--format=%ct").strip()
    with tempfile.TemporaryDirectory() as name:
        copy, target = Path(name) / "elsewhere", Path(name) / "packages"
        for each in filter(None, names):
            place = copy / each
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / each, place)
            place.chmod(0o700 if os.access(ROOT / each, os.X_OK) else 0o600)
        (copy / ".cache" / "parts").mkdir(parents=True)
        (copy / ".cache" / "parts" / "zig").symlink_to(ROOT / ".cache" / "parts" / "zig")
        shutil.copyfile(ROOT / ".gitignore", copy / ".gitignore")
        release.build(copy, target, umask=0o077, env=os.environ | {"SOURCE_DATE_EPOCH": stamp})
        return compare(release.packages, target)


def compare(first: Path, second: Path) -> str:
    """Return how many files two folders have in common; raise Problem if one differs."""
    names = {path.name for path in (*first.iterdir(), *second.iterdir())}
    different = [name for name in sorted(names) if content(first / name) != content(second / name)]
    if different:
        raise Problem(f"not the same in the second build: {', '.join(different)}")
    return f"{len(names)} files"


def check_sdist(release: Release) -> str:
    """The wheel that is built from the source distribution is the wheel."""
    from build_packages import build_distributions

    with tempfile.TemporaryDirectory() as name:
        unpack(release.sdist, Path(name))
        source = only(Path(name).iterdir())
        build_distributions(Path(name) / "dist", source, str(release.tools / "python"), "--wheel")
        if content(Path(name) / "dist" / release.wheel.name) != content(release.wheel):
            raise Problem("the wheel of the source distribution is another one")
        missing = [
            each for each in ("Makefile", "tests", "tools", "bench", "native") if not (source / each).exists()
        ]
        if missing:
            raise Problem(f"the source distribution lacks {', '.join(missing)}")
    return "the same wheel"


def check_metadata(release: Release) -> str:
    """twine, check-wheel-contents and pyroma find nothing, and the descriptions are rendered."""
    wheels = [release.wheel, *release.shims.values()]
    run(str(release.tools / "python"), "-I", "-c", RENDER, *map(str, wheels))
    run(str(release.tools / "twine"), "check", "--strict", *map(str, [*wheels, release.sdist]))
    check = str(release.tools / "check-wheel-contents")
    run(check, str(release.wheel), cwd=ROOT)
    # The shim's wheel has one program and no module, as it should be.
    run(check, "--no-config", "--ignore", EMPTY_LIBRARY, *map(str, release.shims.values()))
    done = subprocess.run(
        [str(release.tools / "pyroma"), "--min", "1", str(release.sdist)],
        capture_output=True,
        text=True,
        check=False,
    )
    rating = re.search(r"Final rating: (\d+)/10", done.stdout)
    body = done.stdout.partition("Found keyferry")[2].partition("Final rating")[0]
    complaints = [line for line in body.splitlines() if line.strip("- ")]
    others = [line for line in complaints if not any(known in line for known in NO_ADDRESS)]
    if rating is None or others:
        raise Problem(f"pyroma: {' '.join(others) or done.stdout[-300:] + done.stderr[-300:]}")
    no_address = " (no public address)" if complaints else ""
    return (
        f"pyroma {rating[1]}/10{no_address}; {EMPTY_LIBRARY} is not asked of the shims, which have no modules"
    )


def check_parts(release: Release) -> str:
    """CycloneDX's schema takes the list of parts, and the hashes are those of the files."""
    run(str(release.tools / "python"), "-I", "-c", VALIDATE, str(release.packages / "keyferry.cdx.json"))
    run("sha256sum", "--check", "--strict", "--quiet", "SHA256SUMS", cwd=release.packages)
    return "CycloneDX, SHA256SUMS"


def check_shims(release: Release) -> str:
    """The shims are static programs for their machines, and run."""
    for machine, wheel in release.shims.items():
        with tempfile.TemporaryDirectory() as name, zipfile.ZipFile(wheel) as archive:
            entry = only(Path(each) for each in archive.namelist() if "/lib/keyferry/" in each)
            program = Path(archive.extract(str(entry), name))
            check_elf(program.read_bytes(), machine)
            program.chmod(0o755)
            run_shim(program, "" if machine == os.uname().machine else RUNNERS[machine])
    return ", ".join(release.shims)


def check_elf(program: bytes, machine: str) -> None:
    """Raise Problem unless the program is for *machine* and needs no other file to be loaded."""
    if program[:4] != b"\x7fELF" or program[18:20] != ELF_MACHINES[machine]:
        raise Problem(f"not a program for {machine}")
    start, size, count = (int.from_bytes(program[a:b], "little") for a, b in ((32, 40), (54, 56), (56, 58)))
    kinds = [
        int.from_bytes(program[at : at + 4], "little") for at in range(start, start + size * count, size)
    ]
    if PROGRAM_INTERPRETER in kinds:
        raise Problem(f"the shim for {machine} is not static")


def run_shim(program: Path, runner: str) -> None:
    """Raise Problem unless the shim, without an agent, becomes the plugin behind it."""
    if runner and shutil.which(runner) is None:
        raise Problem(f"{runner} is not installed; 'make parts' installs it")
    behind = program.with_name(f"{program.name}.real")
    behind.write_text("#!/bin/sh\necho the plugin answers\n")
    behind.chmod(0o755)
    out = run(*filter(None, [runner, str(program)]), env={"KEYFERRY_AGENT": "off"})
    if out != "the plugin answers\n":
        raise Problem(f"{program.name} prints {out[:200]!r}")


def check_no_paths(release: Release) -> str:
    """No package names a folder of this machine."""
    home = Path.home()
    private = [
        ROOT,
        Path(tempfile.gettempdir()) / "build-env-",
        home / ".cache",
        home / ".local",
        home / ".pyenv",
    ]
    # Root's home is no secret, and occurs as data.
    private += [home] if home != Path("/root") else []
    marks = [str(path).encode() for path in private]
    count = 0
    with tempfile.TemporaryDirectory() as name:
        for package in (release.wheel, release.sdist, release.zipapp, *release.shims.values()):
            folder = Path(name) / package.name
            unpack(package, folder)
            for path in filter(Path.is_file, folder.rglob("*")):
                count += 1
                if any(mark in path.read_bytes() for mark in marks):
                    raise Problem(
                        f"{package.name}: {path.relative_to(folder)} names a folder of this machine"
                    )
    return f"{count} files"


def unpack(package: Path, folder: Path) -> None:
    """Unpack a wheel, a zipapp or a source distribution."""
    if package.suffix == ".gz":
        unpack_sources(package, folder)
    else:
        shutil.unpack_archive(package, folder, "zip")


def unpack_sources(package: Path, folder: Path) -> None:
    """Unpack a source distribution, which has plain files alone; the first releases of Python 3.11 have no filters."""
    with tarfile.open(package) as archive:
        for member in archive:
            name, data = PurePosixPath(member.name), archive.extractfile(member) if member.isfile() else None
            if data is None or name.is_absolute() or ".." in name.parts:
                raise Problem(f"{package.name}: {member.name!r} is no file of the source distribution")
            place = folder / name
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(data.read())
            place.chmod(0o755 if member.mode & 0o100 else 0o644)
