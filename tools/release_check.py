"""Walk through all that must hold before a release, and print a table of it.

Without arguments, every step is run. The tools that it needs are installed into .cache/release, and what is built is
left in .cache/release/packages.
"""

from __future__ import annotations

import argparse
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass

from release import installs, packages, sources
from release.subject import Problem, Release


@dataclass(frozen=True)
class Step:
    """One row of the table: its name, what must hold, and what to do if it does not."""

    name: str
    what: str
    cure: str
    check: Callable[[Release], str]

    @property
    def is_quick(self) -> bool:
        """Whether it builds and installs nothing."""
        return self.check.__module__ == sources.__name__


STEPS = (
    Step("tree", "everything is committed", "commit or remove what 'git status' shows", sources.check_tree),
    Step(
        "version",
        "one version, in CHANGELOG too",
        "set it in pyproject.toml and keyferry/__init__.py, and rename 'Unreleased' to 'VERSION - DATE'",
        sources.check_version,
    ),
    Step(
        "address",
        "a public address",
        "add [project.urls] and a place for reports in SECURITY.md, let pyproject.toml turn the README's links to "
        "pages into absolute ones, set DOCS_ADDRESS in keyferry/show/reports.py to where docs/ is served, and make "
        "each runbook in deploy/prometheus a runbook_url of that address",
        sources.check_address,
    ),
    Step("generated", "generated pages are current", "make generated", sources.check_generated),
    Step("licences", "licences are named", "see the message", sources.check_licenses),
    Step(
        "bytes", "two builds are the same", "find what depends on folder or umask", packages.check_same_bytes
    ),
    Step("sdist", "sdist gives the same wheel", "see tool.hatch.build.targets.sdist", packages.check_sdist),
    Step("metadata", "twine, check-wheel-contents, pyroma", "see the message", packages.check_metadata),
    Step("parts", "the list of parts (SBOM) is valid", "see tools/build_packages.py", packages.check_parts),
    Step("shims", "shims are static and run", "see tools/build_shim_wheels.py", packages.check_shims),
    Step("paths", "no folder of this machine", "see which tool writes it", packages.check_no_paths),
    Step("install", "works in an empty environment", "see the message", installs.check_install),
    Step("pages", "the pages' commands install it", "see the message", installs.check_pages),
    Step("extras", "every extra works alone", "correct optional-dependencies", installs.check_extras),
    Step("installers", "pipx and uv install it", "see the message", installs.check_installers),
    Step("binary", "the executable needs nothing", "see tools/binary", installs.check_binary),
    Step(
        "pythons",
        "runs with every Python named",
        "install it, or remove its classifier",
        installs.check_pythons,
    ),
)


def take(step: Step, release: Release) -> tuple[bool, str]:
    """Return whether a step holds, and a word about it."""
    try:
        return True, step.check(release)
    except Problem as problem:
        return False, str(problem)
    except Exception as error:  # noqa: BLE001 - a step that breaks does not hold, and the others are taken
        place = traceback.extract_tb(error.__traceback__)[-1]
        return False, f"{type(error).__name__}: {error} ({place.filename}:{place.lineno})"


def choose(argv: list[str]) -> list[Step]:
    """Return the steps that the arguments ask for."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="only the steps that build and install nothing")
    parser.add_argument(
        "steps", nargs="*", metavar="STEP", help=f"of {', '.join(step.name for step in STEPS)} (default: all)"
    )
    args = parser.parse_args(argv)
    known = [step.name for step in STEPS]
    if not set(args.steps).issubset(known):
        parser.error(f"no such step among {', '.join(args.steps)}; there are {', '.join(known)}")
    if args.steps:
        return [step for step in STEPS if step.name in args.steps]
    return [step for step in STEPS if step.is_quick or not args.quick]


def main(argv: list[str]) -> int:
    """Run steps; return 1 if one does not hold."""
    chosen, failed = choose(argv), []
    release = Release()
    for step in chosen:
        start = time.monotonic()
        holds, word = take(step, release)
        seconds = time.monotonic() - start
        print(f"{'✓' if holds else '✗'} {step.name:11}{step.what:37}{seconds:4.0f} s  {word}", flush=True)
        if not holds:
            print(f"  → {step.cure}", flush=True)
            failed.append(step.name)
    print(f"{len(chosen) - len(failed)} of {len(chosen)} hold; not yet: {', '.join(failed) or 'none'}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
