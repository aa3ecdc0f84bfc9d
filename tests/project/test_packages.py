"""The packages and what is said about them: ``make release-check`` has the long checks, these are the quick ones."""

from __future__ import annotations

import base64
import hashlib
import io
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from collections.abc import Callable
from importlib import import_module
from importlib.metadata import metadata
from pathlib import Path
from types import ModuleType

import pytest

import keyferry
from support.commands import all_commands
from support.parts import need
from support.shims import build

ROOT = Path(__file__).resolve().parents[2]
SETTINGS = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
COMPLETIONS = (
    "bash-completion/completions/keyferry",
    "fish/vendor_completions.d/keyferry.fish",
    "zsh/site-functions/_keyferry",
)
BROKEN_ON_AN_INDEX = re.compile(
    r'\]\((?!https://|#)[^)]*\)|(?:src|href)="(?!https://|#)[^"]*"|^```mermaid', re.MULTILINE
)


def tool(name: str, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Return one of the programs that build packages, as a module."""
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    return import_module(name)


def as_on_an_index(text: str) -> str:
    """Return what the build makes of the README."""
    for each in SETTINGS["tool"]["hatch"]["metadata"]["hooks"]["fancy-pypi-readme"]["substitutions"]:
        text = re.sub(each["pattern"], each["replacement"], text)
    return text


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ("see [a page](docs/a.md#x), and\n[two\nwords](docs/b.md)", "see a page, and\ntwo\nwords"),
        ("[`code[0]`](docs/a.md)", "`code[0]`"),
        ("[elsewhere](https://example.org/x) [here](#install)", "[elsewhere](https://example.org/x) [here](#install)"),
        ("a\n\n![picture](docs/a.svg)\n\nb", "a\n\nb"),
        ("[![picture](docs/a.svg)](docs/a.md)", ""),
        ('a\n<picture>\n<source srcset="a.svg">\n<img src="b.svg">\n</picture>\nb', "a\nb"),
        ('<img width="3" src="docs/a.svg" alt="x">b', "b"),
        ('<a href="docs/a.md">a <b>c</b></a>', "a <b>c</b>"),
        ("a\n```mermaid\nflowchart LR\n```\n```sh\nb\n```", "a\n```sh\nb\n```"),
        ("a.<!-- repository --> See [b](docs/b.md).<!-- /repository -->\n", "a.\n"),
    ],
)  # fmt: skip
def test_the_text_for_an_index_links_only_to_what_is_there(written: str, shown: str) -> None:
    assert as_on_an_index(written) == shown


def test_the_readme_has_no_link_that_breaks_on_an_index() -> None:
    text = as_on_an_index((ROOT / "README.md").read_text("utf-8"))
    assert BROKEN_ON_AN_INDEX.findall(text) == []
    assert text.startswith("# keyferry\n")
    assert "repository -->" not in text  # each part for the repository ends


def test_the_installed_description_has_no_link_that_breaks() -> None:
    installed = metadata("keyferry")
    text = installed.get_payload() or installed["Description"]  # type: ignore[attr-defined]  # it is a message
    assert installed["Description-Content-Type"] == "text/markdown"
    assert "# keyferry" in text
    assert BROKEN_ON_AN_INDEX.findall(text) == []


def test_the_classifiers_are_the_versions_that_may_be_used() -> None:
    start = "Programming Language :: Python :: 3."
    minors = [
        int(each.removeprefix(start)) for each in SETTINGS["project"]["classifiers"] if each.startswith(start)
    ]
    assert f">=3.{minors[0]}" == SETTINGS["project"]["requires-python"]
    assert minors == list(range(minors[0], minors[-1] + 1))


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository with what a package is built from; other tests write into the tree of this one while they run."""
    path = tmp_path_factory.mktemp("repository")
    made = shutil.ignore_patterns(".*", "__pycache__", "dist", "build", "tests", "docs")
    shutil.copytree(ROOT, path, ignore=made, dirs_exist_ok=True)
    shutil.copy(ROOT / ".gitignore", path)
    git("init", "--quiet", str(path))
    git("-C", str(path), "add", ".")
    identity = ("-c", "user.name=a", "-c", "user.email=a@example.com")
    git("-C", str(path), *identity, "commit", "--quiet", "--message", "all")
    return path


def git(*words: str) -> None:
    subprocess.run([need("git"), *words], check=True)


def clone(repository: Path, target: Path) -> Path:
    git("clone", "--quiet", str(repository), str(target))
    return target


def build_sdist(repository: Path, target: Path) -> Path:
    words = ["build", "--no-isolation", "--sdist", "--outdir", str(target), str(repository)]
    done = subprocess.run([sys.executable, "-m", *words], check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    (package,) = target.iterdir()
    return package


@pytest.mark.parametrize("make", [clone, build_sdist], ids=["a clone", "an sdist"])
def test_every_way_to_install_brings_programs_man_pages_and_completions(
    make: Callable[[Path, Path], Path], repository: Path, tmp_path: Path
) -> None:
    source = make(repository, tmp_path / "source")
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]
    install += ["--no-build-isolation", "--no-index", "--ignore-installed", "--no-warn-script-location"]
    done = subprocess.run(
        [*install, "--prefix", str(tmp_path / "prefix"), str(source)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    # kubectl finds its plugin and the program that completes it by their names.
    programs = {path.name for path in (tmp_path / "prefix" / "bin").iterdir()}
    assert (
        programs == set(SETTINGS["project"]["scripts"]) >= {"kubectl-keyferry", "kubectl_complete-keyferry"}
    )
    share = tmp_path / "prefix" / "share"
    pages = {"keyferry.1", *(f"keyferry-{'-'.join(words)}.1" for words in all_commands())}
    assert {page.name for page in (share / "man" / "man1").iterdir()} == pages
    assert ".SH NAME\nkeyferry-explain \\- explain why" in (share / "man/man1/keyferry-explain.1").read_text(
        "utf-8"
    )
    for place in COMPLETIONS:
        assert "completion of keyferry for" in (share / place).read_text("utf-8")


BARE = """
import sys
from pathlib import Path

class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] not in known:
            raise ModuleNotFoundError(f"a build has no {name}")

root = Path(sys.argv[1])
known = {*sys.stdlib_module_names, *sys.argv[2:], "hatch_build", "keyferry"}
sys.meta_path.insert(0, Refuse())
sys.path.insert(0, str(root))
import hatch_build
with hatch_build.importing_from(root / "src"):
    print(*(name for name, _ in hatch_build.make_files()), sep="\\n")
"""


def test_man_pages_and_completions_need_nothing_but_what_a_build_has() -> None:
    """What an environment of its own has for a build: hatchling, and what that requires; no PyYAML."""
    needed = ("hatchling", "packaging", "pathspec", "pluggy", "trove_classifiers")
    done = subprocess.run(
        [sys.executable, "-I", "-c", BARE, str(ROOT), *needed], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert {f"share/{place}" for place in COMPLETIONS} <= set(done.stdout.splitlines())


def test_all_of_the_repository_is_in_the_source_distribution() -> None:
    included = SETTINGS["tool"]["hatch"]["build"]["targets"]["sdist"]["include"]
    # pyproject.toml and .gitignore are always there.
    left_out = {"dist", "build", "pyproject.toml"}
    here = {path.name for path in ROOT.iterdir() if not path.name.startswith((".", "_"))} - left_out
    assert {f"/{name}" for name in here} == set(included)


def test_a_wheel_of_the_shim_has_the_program_and_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    wheels = tool("build_shim_wheels", monkeypatch)
    name, content = wheels.build_wheel("aarch64", b"a program", b"a licence")
    assert wheels.build_wheel("aarch64", b"a program", b"a licence") == (name, content)
    start = f"keyferry_shim-{keyferry.__version__}"
    platforms = "manylinux_2_17_aarch64.manylinux2014_aarch64.musllinux_1_1_aarch64"
    assert name == f"{start}-py3-none-{platforms}.whl"
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        files = {each.filename: archive.read(each) for each in archive.infolist()}
        modes = {each.filename: each.external_attr >> 16 for each in archive.infolist()}
    program = f"{start}.data/data/lib/keyferry/keyferry-shim-aarch64"
    assert [each for each in files if ".dist-info/" not in each] == [program]
    assert [each for each, mode in modes.items() if mode != 0o100644] == [program]
    assert f"{start}.dist-info/licenses/LICENSE.musl" in files
    record = dict(line.split(",", 1) for line in files.pop(f"{start}.dist-info/RECORD").decode().splitlines())
    assert {each: record[each] for each in files} == {each: entry(data) for each, data in files.items()}
    tags = re.findall(r"^Tag: py3-none-(.*)", files[f"{start}.dist-info/WHEEL"].decode(), re.MULTILINE)
    assert tags == platforms.split(".")


def entry(data: bytes) -> str:
    """What RECORD has for a file."""
    digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).decode().rstrip("=")
    return f"sha256={digest},{len(data)}"


def test_the_compiler_of_the_shims_is_pinned() -> None:
    assert re.search(r"^ziglang==[\d.]+$", (ROOT / "native" / "compiler.txt").read_text(), re.MULTILINE)


def test_every_dependency_in_the_image_is_pinned_by_its_hashes() -> None:
    """So pip refuses other bytes, for all in a file where one has a hash."""
    folder = ROOT / "deploy" / "container"
    pinned = re.findall(
        r"^([\w-]+)==\S+ \\\n +--hash=sha256:", (folder / "requirements.txt").read_text(), re.MULTILINE
    )
    project = SETTINGS["project"]
    needed = [*project["dependencies"], *project["optional-dependencies"]["agent"]]
    assert {re.split(r"[<>=\[ ]", each)[0].lower() for each in needed} <= set(pinned)


def test_a_shim_in_a_users_own_place_is_found(tmp_path: Path) -> None:
    """By the interpreter itself, since an environment has no place of a user."""
    place = tmp_path / "lib" / "keyferry" / f"keyferry-shim-{os.uname().machine}"
    place.parent.mkdir(parents=True)
    place.write_bytes(b"")
    code = "from keyferry.bridge.kubelet_install import find_native_shim; print(find_native_shim())"
    for user, expected in ((str(tmp_path), str(place)), (str(tmp_path / "nobody"), "")):
        done = subprocess.run(
            [sys._base_executable, "-c", code],  # type: ignore[attr-defined]  # what venv uses
            env={"PYTHONUSERBASE": user, "PYTHONPATH": str(Path(keyferry.__file__).parents[1])},
            capture_output=True,
            text=True,
            check=False,
        )
        assert (done.stdout.strip(), done.stderr) == (expected, "")


def test_a_program_that_needs_a_loader_is_no_static_shim(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    checks = tool("release.packages", monkeypatch)
    machine = os.uname().machine
    with pytest.raises(checks.Problem, match="is not static"):
        checks.check_elf(Path(need("sh")).read_bytes(), machine)
    with pytest.raises(checks.Problem, match="not a program for"):
        checks.check_elf(b"#!/bin/sh\n", machine)
    checks.check_elf(build("native", tmp_path).program, machine)


def test_the_release_check_says_what_holds_and_what_to_do() -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / "tools" / "release_check.py"), "version", "address", "licences"],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"PYTHONIOENCODING": "utf-8"},
        encoding="utf-8",
    )
    rows = [line for line in done.stdout.splitlines() if line.startswith(("✓", "✗"))]
    assert [row.split()[1] for row in rows] == ["version", "address", "licences"]
    assert rows[2].startswith("✓")
    failed = [row for row in rows if row.startswith("✗")]
    assert (done.returncode, done.stdout.count("  → ")) == (int(bool(failed)), len(failed))
    assert done.stdout.splitlines()[-1].startswith(f"{3 - len(failed)} of 3 hold")


def test_the_release_check_knows_its_steps(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as left:
        tool("release_check", monkeypatch).main(["nothing"])
    assert left.value.code == 2
    assert "there are tree, version, address, generated, licences, bytes, sdist," in capsys.readouterr().err


def make_archive(path: Path, *members: tarfile.TarInfo) -> Path:
    with tarfile.open(path, "w:gz") as archive:
        for member in members:
            member.size = 4 if member.isfile() else 0
            archive.addfile(member, io.BytesIO(b"text"))
    return path


def member_of(name: str, mode: int = 0o644, kind: bytes = tarfile.REGTYPE) -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.mode, member.type, member.linkname = mode, kind, "/etc/passwd"
    return member


UNPACK = """
import sys; sys.path.insert(0, sys.argv[1])
from pathlib import Path
from release.packages import unpack
unpack(Path(sys.argv[2]), Path(sys.argv[3]))
"""


def test_a_source_distribution_is_unpacked_by_any_python_that_is_supported(tmp_path: Path) -> None:
    """The first releases of Python 3.11 unpack without the filters of later ones."""
    package = make_archive(tmp_path / "a.tar.gz", member_of("a/run", 0o755), member_of("a/b/text", 0o666))
    pythons = {sys.executable} | {
        path for path in ("/usr/bin/python3.11", "/usr/bin/python3") if Path(path).exists()
    }
    for number, python in enumerate(sorted(pythons)):
        folder = tmp_path / str(number)
        done = subprocess.run(
            [python, "-c", UNPACK, str(ROOT / "tools"), str(package), str(folder)],
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        assert (folder / "a" / "b" / "text").read_bytes() == b"text"
        assert (folder / "a" / "run").stat().st_mode & 0o777 == 0o755
        assert (folder / "a" / "b" / "text").stat().st_mode & 0o777 == 0o644


@pytest.mark.parametrize(
    "member",
    [
        member_of("../outside"),
        member_of("/outside"),
        member_of("a/link", kind=tarfile.SYMTYPE),
        member_of("a/link", kind=tarfile.LNKTYPE),
        member_of("a/pipe", kind=tarfile.FIFOTYPE),
    ],
    ids=lambda member: f"{member.name} {member.type!r}",
)
def test_a_source_distribution_with_anything_but_its_files_is_refused(
    member: tarfile.TarInfo, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    package = make_archive(tmp_path / "a.tar.gz", member)
    packages = tool("release.packages", monkeypatch)
    with pytest.raises(packages.Problem, match="is no file of the source distribution"):
        packages.unpack(package, tmp_path / "in")
    assert [path.name for path in tmp_path.iterdir()] == ["a.tar.gz"]
