"""Benchmarks: figures beside a floor or a peer that is measured in the same run. They are never tests.

python bench/run.py                        every group, and docs/figures.md gets its table
python bench/run.py [--json] GROUP ...     some groups; nothing is written
python bench/run.py --quick [GROUP ...]    few rounds; nothing is written
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from importlib import import_module

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from bench.measure import ROOT, ROUNDS_VARIABLE, SOURCES, Row, progress
from bench.programs import describe_programs
from bench.report import Report, describe_machine, load
from bench.sections import with_section

_PAGE = os.path.join(ROOT, "docs", "figures.md")
_QUICK_ROUNDS = "3"
# Modules with a function ``run``, which gets a folder and returns rows.
GROUPS = ("lookups", "clusters", "pods", "aws", "agents", "pulls")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the requested groups, or all, and print the table; return 1 if a group failed."""
    args = _parse(argv)
    # The sources beside this file are measured, whatever else is installed.
    sys.path.insert(0, SOURCES)
    if args.quick:
        os.environ.setdefault(ROUNDS_VARIABLE, _QUICK_ROUNDS)
    failed: list[str] = []
    machine = describe_machine()
    results = _run([name for name in GROUPS if not args.groups or name in args.groups], failed)
    is_whole = not (args.groups or args.quick)
    report = Report(replace(machine, load_after=load()), describe_programs() if is_whole else {}, results)
    if is_whole:
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


def _run(names: Sequence[str], failed: list[str]) -> dict[str, list[Row]]:
    """Return the rows of each group; a group that fails is reported, and the others are still measured."""
    results: dict[str, list[Row]] = {}
    for at, name in enumerate(names, 1):
        progress(f"{name} ({at} of {len(names)})")
        with tempfile.TemporaryDirectory(prefix="keyferry-bench-") as folder:
            try:
                run: Callable[[str], list[Row]] = import_module(f"bench.{name}").run
                results[name] = run(folder)
            except Exception as error:  # noqa: BLE001 - whatever it is, the other groups have their figures
                failed.append(name)
                results[name] = [Row(what=f"the group {name}", why=f"{type(error).__name__}: {error}")]
    return results


def _write_page(report: Report) -> None:
    with open(_PAGE, encoding="utf-8") as stream:
        page = stream.read()
    with open(_PAGE, "w", encoding="utf-8") as stream:
        stream.write(with_section(page, "bench", report.to_markdown()))
    progress("wrote the table of docs/figures.md")


if __name__ == "__main__":
    sys.exit(main())
