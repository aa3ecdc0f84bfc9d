"""Compare two commits: python bench/compare.py [--rounds N] BEFORE AFTER [GROUP ...].

Both are measured in turns with the benchmarks of AFTER, so that the rows mean the same. Each commit is extracted into a
temporary folder, and its own sources are used.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from bench.measure import ROOT, ROUNDS_VARIABLE, number
from bench.report import aligned

_DEFAULT_ROUNDS = 9
# Many short runs in turns, not a few long ones: a slow spell of the machine is to hit both.
_ROUNDS_OF_A_RUN = "3"
_HEADER = ("what", "before", "after", "after / before")
_SIDES = ("before", "after")
# The figures of each side, by the name of a row and its unit.
Figures = dict[tuple[str, str], dict[str, list[float]]]


def main(argv: Sequence[str] | None = None) -> int:
    """Compare the commits and print the result; return 1 if there is nothing to compare."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("before", help="a commit, as git knows it")
    parser.add_argument("after", help="another")
    parser.add_argument("groups", nargs="*", metavar="GROUP", help="groups of bench/run.py (default: all)")
    parser.add_argument(
        "--rounds", type=int, default=_DEFAULT_ROUNDS, help="runs of each (default: %(default)s)"
    )
    parser.add_argument("--repository", default=ROOT, help=argparse.SUPPRESS)
    args = parser.parse_args(argv)
    figures: Figures = {}
    with tempfile.TemporaryDirectory(prefix="keyferry-compare-") as folder:
        trees = {side: os.path.join(folder, side) for side in _SIDES}
        for side, tree in trees.items():
            _extract(args.repository, getattr(args, side), tree)
        shutil.rmtree(os.path.join(trees["before"], "bench"), ignore_errors=True)
        shutil.copytree(os.path.join(trees["after"], "bench"), os.path.join(trees["before"], "bench"))
        for at in range(args.rounds):
            for side in _SIDES if at % 2 else reversed(_SIDES):
                print(f"compare: {side} ({at + 1} of {args.rounds})", file=sys.stderr, flush=True)
                _add(figures, side, _run(trees[side], args.groups))
    lines = [_HEADER, *_lines(figures)]
    print(aligned(lines))
    return 0 if len(lines) > 1 else 1


def _extract(repository: str, commit: str, path: str) -> None:
    """Extract the tree of a commit from an archive; a worktree would stay registered with git if this were killed."""
    os.mkdir(path)
    archive = f"{path}.tar"
    subprocess.run(
        [shutil.which("git") or "git", "-C", repository, "archive", "-o", archive, commit], check=True
    )
    subprocess.run([shutil.which("tar") or "tar", "-xf", archive, "-C", path], check=True)
    os.unlink(archive)
    # The peers that the set-up of the benchmarks has brought.
    if os.path.isdir(os.path.join(repository, ".cache")):
        os.symlink(os.path.join(repository, ".cache"), os.path.join(path, ".cache"))


def _run(tree: str, groups: Sequence[str]) -> list[dict[str, object]]:
    """Return the rows that a tree's benchmarks print; rows that cannot be measured have no figure."""
    command = [sys.executable, os.path.join(tree, "bench", "run.py"), "--quick", "--json", *groups]
    environment = {ROUNDS_VARIABLE: _ROUNDS_OF_A_RUN, **os.environ, "PYTHONPATH": os.path.join(tree, "src")}
    done = subprocess.run(command, cwd=tree, env=environment, stdout=subprocess.PIPE, check=False)
    rows: list[dict[str, object]] = json.loads(done.stdout)["rows"] if done.stdout else []
    return rows


def _add(figures: Figures, side: str, rows: Iterable[Mapping[str, object]]) -> None:
    for row in rows:
        sides = figures.setdefault((str(row["what"]), str(row["unit"])), {name: [] for name in _SIDES})
        if isinstance(row["measured"], (int, float)):
            sides[side].append(float(row["measured"]))


def _lines(figures: Figures) -> list[tuple[str, ...]]:
    """Return a line for each row that a side has, with the best run of each, because noise only adds time."""
    lines = []
    for (what, unit), sides in figures.items():
        best = [min(sides[side], default=None) for side in _SIDES]
        if best != [None, None]:
            before, after = best
            ratio = f"{after / before:.2f}" if before and after is not None else ""
            shown = ("-" if each is None else number(each, unit) for each in best)
            lines.append((what, *shown, ratio))
    return lines


if __name__ == "__main__":
    sys.exit(main())
