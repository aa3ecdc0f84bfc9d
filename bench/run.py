"""Benchmarks: ratios to a floor or a peer measured in the same run. They are never tests.

python bench/run.py                        every group, and docs/speed.md gets its tables
python bench/run.py [--json] GROUP ...     some groups; nothing is written
python bench/run.py --quick [GROUP ...]    few rounds; nothing is written
"""

from __future__ import annotations

import argparse
import compileall
import json
import os
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from importlib import import_module
from typing import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from bench.measure import Row
    from bench.report import Report

_ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_PAGE = os.path.join(_ROOT, "docs", "speed.md")
_QUICK_ROUNDS = "3"


class Group(NamedTuple):
    """Rows that are measured together: the function that returns them, and their heading."""

    module: str
    function: str
    title: str


GROUPS = {
    "floors": Group("floors", "run", "Floors"),
    "match": Group("matching", "run", "Finding the patterns that cover an image"),
    "warm": Group("lookups", "run_warm", "Warm lookups"),
    "tables": Group("warm", "run", "Lookups and caches at their bounds"),
    "cold": Group("lookups", "run_cold", "Cold lookups"),
    "concurrent": Group("lookups", "run_concurrent", "Many lookups at once"),
    "startup": Group("startup", "run", "Starts"),
    "shims": Group("shims", "run", "The shims that a kubelet executes"),
    "agent": Group("agents", "run", "The node agent"),
    "memory": Group("memory", "run", "Memory"),
    "clusters": Group("clusters", "run", "Clusters"),
    "pulls": Group("pulls", "run", "Pulls into an OCI layout"),
    "records": Group("records", "run", "Pull records"),
    "plugins-aws": Group("aws_plugins", "run", "The AWS plugins"),
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run the requested groups, or all, and print the table; return 1 if a group failed."""
    args = _parse(argv)
    # The sources beside this file are measured, whatever else is installed.
    sys.path[:1] = [os.path.join(_ROOT, "src"), _ROOT]
    # As pip does when it installs: nobody starts keyferry from sources that are compiled each time.
    compileall.compile_dir(os.path.join(_ROOT, "src"), quiet=2)
    from bench.measure import ROUNDS_VARIABLE
    from bench.peers import describe_peers

    if args.quick:
        os.environ.setdefault(ROUNDS_VARIABLE, _QUICK_ROUNDS)
    failed: list[str] = []
    report = _run([name for name in GROUPS if not args.groups or name in args.groups], failed)
    if not (args.groups or args.quick):
        report = replace(report, peers=describe_peers())
        _write_page(report)
    print(json.dumps(report.to_document(), indent=2, ensure_ascii=False) if args.json else report.to_text())
    return 1 if failed else 0


def _parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--json", action="store_true", help="print JSON in place of the table")
    parser.add_argument("--quick", action="store_true", help=f"at most {_QUICK_ROUNDS} rounds of everything")
    parser.add_argument("groups", nargs="*", metavar="GROUP", help=f"of {', '.join(GROUPS)} (default: all)")
    args = parser.parse_args(argv)
    unknown = set(args.groups) - set(GROUPS)
    if unknown:
        parser.error(f"no group is called {', '.join(sorted(unknown))}; there are {', '.join(GROUPS)}")
    return args


def _run(names: Sequence[str], failed: list[str]) -> Report:
    from bench.measure import progress
    from bench.report import Report, describe_machine, load

    machine = describe_machine()
    results: dict[str, Sequence[Row]] = {}
    with tempfile.TemporaryDirectory(prefix="keyferry-bench-") as folder:
        for at, name in enumerate(names, 1):
            progress(f"{name} ({at} of {len(names)})")
            results[name] = _rows_of(name, folder, failed)
    titles = {name: group.title for name, group in GROUPS.items()}
    return Report(replace(machine, load_after=load()), {}, titles, results)


def _rows_of(name: str, folder: str, failed: list[str]) -> list[Row]:
    """Return the rows of a group; a group that fails is reported, and the others are still measured."""
    from bench.measure import skipped

    group = GROUPS[name]
    try:
        run: Callable[[str], list[Row]] = getattr(import_module(f"bench.{group.module}"), group.function)
        return run(folder)
    except Exception as error:  # noqa: BLE001 - whatever it is, the other groups have their figures
        failed.append(name)
        return [skipped(f"the group {name}", f"failed: {type(error).__name__}: {error}")]


def _write_page(report: Report) -> None:
    from bench.measure import progress
    from bench.report import replace_generated

    with open(_PAGE, encoding="utf-8") as stream:
        page = stream.read()
    with open(_PAGE, "w", encoding="utf-8") as stream:
        stream.write(replace_generated(page, report.to_markdown()))
    progress(f"wrote the tables of {_PAGE}")


if __name__ == "__main__":
    sys.exit(main())
