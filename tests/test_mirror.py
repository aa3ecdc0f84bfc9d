"""Unit tests mirror the source: whoever looks for the tests of a module knows their path, and the other way round.

Run as a program, it tells which modules have no unit test of their own; those are tested by others, as a whole.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import keyferry
import keyferry_plugins

UNIT = Path(__file__).resolve().parent / "unit"
# The folder of unit tests that belongs to each package; "" for the tests of the rooms themselves.
PACKAGES = {
    "": Path(keyferry.__file__).parent,
    "plugins": Path(keyferry_plugins.__file__).parent,
    "bench": Path(__file__).resolve().parents[1] / "bench",
}
# Tests of a whole folder, and why its modules are tested together.
WHOLE_FOLDERS = {
    "errors": "each case holds for every error",
    "api/clientauthentication": "each case holds for every version of the group",
    "api/credentialprovider": "each case holds for every version of the group",
    "api/kubeconfig": "one version, read and written by several modules as one document",
    "api/kubeletconfig": "each case holds for every version of the group",
}
# Tests that do not name their module, and what they reach it through.
THROUGH = {
    "core/program/portable": "runs of programs, which choose it where the system has nothing better",
    "errors/kinds": "the package, where the names of all its modules are",
    "images/why/reasons": "answers, which carry the reasons",
    "lint/files": "a lint of providers, which looks at the files",
    "lint/providers/patterns": "a lint of providers, which has one rule after the other",
    "lint/providers/rules": "a lint of providers, which has one rule after the other",
    "metrics/clusters": "the public function that makes a collector",
    "metrics/images": "the public function that makes a collector",
    "plugins/google/aws_source": "the one function that chooses among sources",
    "plugins/google/executable": "the one function that chooses among sources",
    "plugins/openid/options": "options for tests, which are made of flags in one place",
}


def place_of(path: Path, folder: str, package: Path) -> str:
    """Where the tests of a module are expected, below the unit tests; a room that is private has a plain name."""
    parts = (folder, *path.relative_to(package).with_suffix("").parts)
    return "/".join(part.lstrip("_") for part in parts if part)


MODULES = {
    place_of(path, folder, package): ".".join(path.relative_to(package.parent).with_suffix("").parts)
    for folder, package in PACKAGES.items()
    for path in sorted(package.rglob("*.py"))
    if not path.stem.startswith("__")
}
TESTS = {
    str(path.relative_to(UNIT).with_name(path.stem.removeprefix("test_"))): path
    for path in sorted(UNIT.rglob("test_*.py"))
}


def imported(path: Path) -> Iterator[str]:
    """What a file imports: modules, and names in them, which may be modules too."""
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or ""
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def untested() -> list[str]:
    """Every module that has no unit test of its own."""
    folders = tuple(f"{place}/" for place in WHOLE_FOLDERS)
    return [
        module for place, module in MODULES.items() if place not in TESTS and not place.startswith(folders)
    ]


@pytest.mark.parametrize("place", TESTS)
def test_a_unit_test_stands_where_its_module_does(place: str) -> None:
    """A file of tests has a module of its name at the same place, or is explained."""
    assert place in MODULES or place in WHOLE_FOLDERS


@pytest.mark.parametrize("place", TESTS)
def test_a_unit_test_is_about_its_module(place: str) -> None:
    """It imports the module, or one of the folder; or it is explained what it asks instead."""
    name = MODULES.get(place) or f"keyferry.{place.replace('/', '.')}"
    is_named = any(f"{each}.".startswith(f"{name}.") for each in imported(TESTS[place]))
    assert is_named is (place not in THROUGH)


@pytest.mark.parametrize("place", [*WHOLE_FOLDERS, *THROUGH])
def test_what_is_explained_is_there(place: str) -> None:
    """An exception ends with its file; a whole folder is one that is there."""
    assert place in TESTS
    assert place not in WHOLE_FOLDERS or any(each.startswith(f"{place}/") for each in MODULES)


def test_every_file_of_unit_tests_is_found() -> None:
    """Whatever else lies there is what tests share."""
    others = {path.name for path in UNIT.rglob("*.py")} - {path.name for path in TESTS.values()}
    assert others == {"conftest.py"}


if __name__ == "__main__":
    print(*untested(), sep="\n")  # noqa: T201 - a program's answer
