"""Print the tests of what differs from a commit, for ``make check``; uncommitted and new files count."""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).resolve().parent.parent
ALWAYS = ("tests/test_architecture.py", "tests/test_exports.py", "tests/test_skips.py")
# Packages whose tests have another name, or stand in more than one folder.
FOLDERS = {
    "_core": ("tests/core", "tests/property"),
    "_net": ("tests/net",),
    "api": ("tests/api", "tests/conformance"),
    "errors.py": ("tests/core", "tests/test_secrets.py"),
    "images": ("tests/images", "tests/conformance"),
    "clusters": ("tests/clusters", "tests/conformance"),
    "pulls": ("tests/pulls", "tests/conformance"),
}
DOCS = ("tests/pages", "tests/test_docs.py")


def changed_files(since: str | None) -> list[str]:
    """Return the files that differ from the commit where this branch left *since* (or main), and the new ones."""
    base = _git("merge-base", "HEAD", since or _main())[0]
    return sorted({*_git("diff", "--name-only", base), *_git("ls-files", "--others", "--exclude-standard")})


def _main() -> str:
    """Return the main branch, or what was fetched of it where it is not checked out."""
    return (_git("for-each-ref", "--format=%(refname)", "refs/heads/main") or ["origin/main"])[0]


def tests_of(changed: str) -> tuple[str, ...]:
    """Return the files and folders of the tests of one file."""
    match PurePosixPath(changed).parts:
        case ("src", "keyferry_plugins", *_):
            found: tuple[str, ...] = ("tests/plugins",)
        case ("src", "keyferry", package, *_):
            found = FOLDERS.get(package, (f"tests/{package}",))
        case ("tests", "support", name, *_):
            found = _users_of(PurePosixPath(name).stem)
        case ("tests", *_):
            found = (changed,) if changed.endswith(".py") and "/test_" in changed else ()
        case (folder, *_):
            found = DOCS if changed.endswith(".md") else (f"tests/{folder}",)
    return found


def _users_of(support: str) -> tuple[str, ...]:
    """The tests that import a module of tests/support."""
    found = _git(
        "grep", "--name-only", "--extended-regexp", rf"support\.{support}\b", "--", "tests/**/test_*.py"
    )
    return tuple(found)


def _git(*words: str) -> list[str]:
    done = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=False)  # noqa: S607 - git is on PATH
    if done.returncode > 1 or (done.returncode and words[0] != "grep"):
        sys.exit(f"git {' '.join(words)}: {done.stderr.strip()}")
    return done.stdout.splitlines()


def main() -> None:
    """Print the tests, one line each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("since", nargs="?", help="a commit or branch; main otherwise")
    files = changed_files(parser.parse_args().since)
    found = {each for changed in files for each in tests_of(changed)} | set(ALWAYS if files else ())
    print(*sorted(each for each in found if (ROOT / each).exists()), sep="\n")


if __name__ == "__main__":
    main()
