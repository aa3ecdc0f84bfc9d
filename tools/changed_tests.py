"""Print the tests of what differs from a commit, for ``make check``; uncommitted and new files count.

Tests that take long are left out, and named on standard error beside the files for which no test was found.
"""

from __future__ import annotations

import argparse
import functools
import re
import subprocess
import sys
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).resolve().parent.parent
ALWAYS = ("tests/test_architecture.py", "tests/test_exports.py", "tests/test_skips.py")
# Real programs, provoked failures and whole runs of the benchmarks.
A_GROUP = "tests/bench/test_run.py::test_a_real_group_fits_on_a_screen"
LONG = ("tests/e2e", "tests/faults", "tests/bench/test_soak.py", A_GROUP)
DOCS = ("tests/pages", "tests/test_docs.py", "tests/test_front_door.py")
# Packages whose tests stand in another folder than their own, or in more; below "tests".
FOLDERS = {
    "__init__.py": ("test_library.py", "test_exports.py"),
    "__main__.py": ("cli",),
    "_core": ("core",),
    "_net": ("net",),
    "api": ("api", "conformance"),
    "errors.py": ("core", "test_secrets.py", "attacks/test_leaks.py"),
    "images": ("images", "conformance"),
    "clusters": ("clusters", "conformance"),
    "pulls": ("pulls", "conformance"),
}
# Commands whose tests stand with those of what they ask.
COMMANDS = {
    "agent.py": "agent",
    "bridge.py": "bridge",
    "bridge_kubelet.py": "bridge",
    "can_pull.py": "pulls",
    "can_pull_many.py": "pulls",
    "doctor.py": "doctor",
    "explain.py": "explain",
    "explain_many.py": "explain",
    "kube.py": "clusters",
    "lint.py": "lint",
    "plugin": "kit",
}
# Attacks on a package that go through commands or plugins; those that import the package are found by that.
ATTACKS = {
    "_core": ("files_of_others", "host_root", "process", "terminal"),
    "_net": ("registry_client",),
    "agent": ("agent_clients",),
    "cli": ("completion", "terminal"),
    "clusters": ("cluster_profile", "far_node", "hostile_clusters"),
    "explain": ("cluster_pulls", "far_node"),
    "images": ("host_root", "no_shell"),
    "invoke": ("no_shell",),
    "keyferry_plugins": ("cloud_names", "federation"),
    "page": ("page",),
    "pulls": ("host_root", "runtime_files"),
    "sdk": ("sdk_stderr",),
    "show": ("terminal",),
    "workloads": ("cluster_pulls", "far_node", "host_root", "hostile_clusters"),
}
# What is tested elsewhere than in a folder of its own name.
ELSEWHERE = {
    ".pre-commit-hooks.yaml": ("tests/lint/test_selection.py", "tests/pages/test_documents.py"),
    "docs": DOCS,
    "hatch_build.py": ("tests/project",),
    "Makefile": ("tests/project", "tests/pages/test_commands.py"),
    "mkdocs.yml": ("tests/test_docs.py", "tests/test_front_door.py"),
    "native": ("tests/bridge/test_shims.py", "tests/property/test_shim_reader.py", "tests/project"),
    "pyproject.toml": ("tests/project", "tests/test_docs.py", "tests/test_programs.py"),
    "tools": ("tests/project", *DOCS),
}


def changed_files(since: str | None) -> list[str]:
    """Return the files that differ from the commit where this branch left *since* (or main), and the new ones."""
    # Where main is not checked out, what was fetched of it.
    main = _git("for-each-ref", "--format=%(refname)", "refs/heads/main", "refs/remotes/origin/main")
    base = _git("merge-base", "HEAD", since or (main or ["main"])[0])[0]
    return sorted({*_git("diff", "--name-only", base), *_git("ls-files", "--others", "--exclude-standard")})


def tests_of(changed: str) -> list[str]:
    """Return the files and folders of the tests of one file, those that take long included."""
    match PurePosixPath(changed).parts:
        case ("src", "keyferry_plugins", *_):
            found = {"tests/plugins"} | _attacks_on("keyferry_plugins")
        case ("src", "keyferry", "cli", command, *_) if command in COMMANDS:
            found = {"tests/cli", f"tests/{COMMANDS[command]}"} | _attacks_on("cli")
        case ("src", "keyferry", package, *_):
            found = {f"tests/{each}" for each in FOLDERS.get(package, (package,))} | _attacks_on(package)
        case ("tests", "support", name, *_):
            found = set(_users_of(PurePosixPath(name).stem))
        case ("tests", *_, name) if re.fullmatch(r"test_.*\.py", name):
            found = {changed}
        case ("tests", *folders, "conftest.py") if folders:
            found = {"/".join(("tests", *folders))}
        case ("tests", folder, _, *_):
            found = {f"tests/{folder}"}
        case (first, *_):
            found = {*ELSEWHERE.get(first, (f"tests/{first}",)), *(DOCS if changed.endswith(".md") else ())}
    return sorted(each for each in found if (ROOT / each).exists())


@functools.cache
def _attacks_on(package: str) -> frozenset[str]:
    """Return the attacks and the properties that import a package, or go through it by the table."""
    name = re.escape(package if package == "keyferry_plugins" else f"keyferry.{package}")
    found = _naming(rf"\b{name}\b", "tests/attacks/", "tests/property/", "tests/test_secrets.py")
    return frozenset(found) | {f"tests/attacks/test_{each}.py" for each in ATTACKS.get(package, ())}


@functools.cache
def _users_of(support: str) -> frozenset[str]:
    """Return the tests that import a module of tests/support, or another one there that does."""
    users = _naming(rf"(?m)^ *from (?:support)?(?:\.| import .*\b){re.escape(support)}\b")
    return frozenset(test for user in users for test in tests_of(user))


def _naming(pattern: str, *places: str) -> list[str]:
    """Return the Python files of the tests, or of some places among them, in which a pattern is found."""
    found = (path for path in _texts() if path.startswith(places or "tests/"))
    return [path for path in found if re.search(pattern, _texts()[path])]


@functools.cache
def _texts() -> dict[str, str]:
    return {path.relative_to(ROOT).as_posix(): path.read_text("utf-8") for path in ROOT.glob("tests/**/*.py")}


def _git(*words: str) -> list[str]:
    done = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=False)  # noqa: S607 - git is on PATH
    if done.returncode:
        sys.exit(f"git {' '.join(words)}: {done.stderr.strip()}")
    return done.stdout.splitlines()


def main() -> None:
    """Print the tests, one line each, and what pytest leaves out of them."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("since", nargs="?", help="a commit or branch; main otherwise")
    tests = {changed: tests_of(changed) for changed in changed_files(parser.parse_args().since)}
    untested = [changed for changed, found in tests.items() if not found and (ROOT / changed).exists()]
    if untested:
        print("no test was found for:", *untested, file=sys.stderr)
    if tests:
        print(f"left out: {', '.join(LONG)}; make test runs them", file=sys.stderr)
        found = {each for some in tests.values() for each in some if not each.startswith(LONG)}
        print(*sorted(found | set(ALWAYS)), *(f"--deselect={each}" for each in LONG), sep="\n")


if __name__ == "__main__":
    main()
