"""Benchmarks: one table of ratios against a floor or a peer measured in the same run. Never a test.

python bench/run.py [--json] [match|warm|tables|cold|concurrent|startup|memory|clusters|pulls|records|plugins-aws ...]
"""

import argparse
import compileall
import json
import os
import platform
import sys
import tempfile
from collections.abc import Callable, Sequence

TYPE_CHECKING = False
if TYPE_CHECKING:
    from bench.measure import Row

_GROUPS = (
    "match",
    "warm",
    "tables",
    "cold",
    "concurrent",
    "startup",
    "memory",
    "clusters",
    "pulls",
    "records",
    "plugins-aws",
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the groups asked for, or all, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--json", action="store_true", help="print JSON in place of the table")
    parser.add_argument("groups", nargs="*", metavar="NAME", help=f"of {', '.join(_GROUPS)} (default: all)")
    args = parser.parse_args(argv)
    unknown = set(args.groups) - set(_GROUPS)
    if unknown:
        parser.error(f"no group is called {', '.join(sorted(unknown))}; there are {', '.join(_GROUPS)}")
    root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    # The sources beside this file are measured, whatever else is installed.
    sys.path[:1] = [os.path.join(root, "src"), root]
    # As pip does when it installs: nobody starts keyferry from sources that are compiled each time.
    compileall.compile_dir(os.path.join(root, "src"), quiet=2)
    results = _run([name for name in _GROUPS if not args.groups or name in args.groups])
    print(_as_json(results) if args.json else _as_table(results))
    return 0


def _run(names: Sequence[str]) -> "list[tuple[str, Row]]":
    from bench.measure import progress

    results: list[tuple[str, Row]] = []
    with tempfile.TemporaryDirectory(prefix="keyferry-bench-") as folder:
        for number, name in enumerate(names, 1):
            progress(f"{name} ({number} of {len(names)})")
            results += [(name, row) for row in _group(name)(folder)]
    return results


def _group(name: str) -> "Callable[[str], list[Row]]":
    from bench import aws_plugins, clusters, lookups, matching, memory, pulls, records, startup, warm

    return {
        "match": matching.run,
        "warm": lookups.run_warm,
        "tables": warm.run,
        "cold": lookups.run_cold,
        "concurrent": lookups.run_concurrent,
        "startup": startup.run,
        "memory": memory.run,
        "clusters": clusters.run,
        "pulls": pulls.run,
        "records": records.run,
        "plugins-aws": aws_plugins.run,
    }[name]


def _machine() -> dict[str, str]:
    return {
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "cores": str(os.cpu_count()),
        "load": f"{os.getloadavg()[0]:.1f}",
    }


def _as_json(results: "list[tuple[str, Row]]") -> str:
    rows = [row.to_document(name) for name, row in results]
    return json.dumps({"machine": _machine(), "rows": rows}, indent=2, ensure_ascii=False)


def _as_table(results: "list[tuple[str, Row]]") -> str:
    from bench.measure import table

    head = "Python {python}, {system}, {cores} cores, load {load}".format(**_machine())
    return f"{head}\n\n{table([row for _, row in results])}"


if __name__ == "__main__":
    sys.exit(main())
