"""Compare two commits: run their benchmarks alternately and print the rows of both side by side.

python bench/compare.py [--rounds N] BEFORE AFTER [GROUP ...]

Both are measured with the benchmarks of AFTER, so that the rows mean the same. A group that does not run with the
sources of BEFORE is measured there with BEFORE's own benchmarks. Nothing is installed: each commit
is extracted into a temporary folder, and its own sources are used.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from typing import NamedTuple

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_DEFAULT_ROUNDS = 9
# Many short runs in turns, not a few long ones: a slow spell of the machine is to hit both.
_ROUNDS_OF_A_RUN = "3"
_HEADER = ("what", "before", "spread", "after", "spread", "after / before", "spread")

Figures = dict[str, list[float]]


class Comparison(NamedTuple):
    """A row of both commits, with the figures of each run in the order of the runs."""

    what: str
    unit: str
    before: Sequence[float]
    after: Sequence[float]

    @property
    def ratio(self) -> float:
        """The best run after divided by the best run before, because noise only adds time."""
        return min(self.after) / min(self.before)

    @property
    def ratios(self) -> list[float]:
        """The figures after divided by those before, for consecutive runs."""
        return [after / before for before, after in zip(self.before, self.after, strict=False)]


class Side(NamedTuple):
    """A commit, and the trees it can be measured in; the first tree that runs a group is used."""

    name: str
    trees: tuple[str, ...]


def main(argv: Sequence[str] | None = None) -> int:
    """Compare the commits and print the result; return 1 if there is nothing to compare."""
    args = _parse(argv)
    with tempfile.TemporaryDirectory(prefix="keyferry-compare-") as folder:
        sides = _check_out(folder, args)
        groups = args.groups or _groups_of(sides[1].trees[0])
        rows: list[dict[str, object]] = []
        notes: list[str] = []
        for group in groups:
            rows += _measure(group, sides, args.rounds, notes)
    compared, alone = compare(rows)
    print(_table(compared))
    for line in (*alone, *notes):
        print(line)
    return 0 if compared else 1


def compare(rows: Sequence[Mapping[str, object]]) -> tuple[list[Comparison], list[str]]:
    """Return rows by name with the figures of both sides, and a line for each row that only one side has.

    A row is a row of ``bench/run.py --json`` with its ``side``: "before" or "after".
    """
    figures: dict[str, Figures] = {}
    units: dict[str, str] = {}
    for row in rows:
        name = f"{row['group']}: {str(row['what']).strip()}"
        sides = figures.setdefault(name, {"before": [], "after": []})
        units[name] = str(row["unit"])
        if isinstance(row["measured"], (int, float)):
            sides[str(row["side"])].append(float(row["measured"]))
    compared = [
        Comparison(name, units[name], sides["before"], sides["after"])
        for name, sides in figures.items()
        if sides["after"] and sides["before"] and min(sides["before"]) > 0
    ]
    known = {each.what for each in compared}
    return compared, [_alone(name, sides) for name, sides in figures.items() if name not in known]


def _alone(name: str, sides: Figures) -> str:
    if sides["before"] and sides["after"]:
        return f"no ratio, since before is not above zero: {name}"
    found = [side for side in sides if sides[side]]
    return f"only {found[0]}: {name}" if found else f"on neither side: {name}"


def _parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("before", help="a commit, as git knows it")
    parser.add_argument("after", help="another")
    parser.add_argument("groups", nargs="*", metavar="GROUP", help="groups of bench/run.py (default: all)")
    parser.add_argument(
        "--rounds", type=int, default=_DEFAULT_ROUNDS, help="runs of each (default: %(default)s)"
    )
    parser.add_argument("--repository", default=ROOT, help=argparse.SUPPRESS)
    return parser.parse_args(argv)


def _check_out(folder: str, args: argparse.Namespace) -> tuple[Side, Side]:
    """Extract both commits into *folder*, and the sources of the first with the benchmarks of the second."""
    before, mixed, after = (
        os.path.join(folder, name) for name in ("before", "before-with-new-bench", "after")
    )
    for path, commit in ((before, args.before), (mixed, args.before), (after, args.after)):
        _extract(args.repository, commit, path)
    shutil.rmtree(os.path.join(mixed, "bench"), ignore_errors=True)
    shutil.copytree(os.path.join(after, "bench"), os.path.join(mixed, "bench"))
    return Side("before", (mixed, before)), Side("after", (after,))


def _extract(repository: str, commit: str, path: str) -> None:
    """Extract the tree of a commit from an archive; a worktree would stay registered with git if this were killed."""
    os.mkdir(path)
    archive = f"{path}.tar"
    subprocess.run([_program("git"), "-C", repository, "archive", "-o", archive, commit], check=True)
    subprocess.run([_program("tar"), "-xf", archive, "-C", path], check=True)
    os.unlink(archive)
    # The peers that the set-up of the benchmarks has brought.
    if os.path.isdir(os.path.join(repository, ".cache")):
        os.symlink(os.path.join(repository, ".cache"), os.path.join(path, ".cache"))


def _program(name: str) -> str:
    return shutil.which(name) or name


def _groups_of(tree: str) -> list[str]:
    code = "import sys; sys.path.insert(0, '.'); from bench.run import GROUPS; print(*GROUPS)"
    command = [sys.executable, "-c", code]
    return subprocess.run(command, cwd=tree, capture_output=True, text=True, check=True).stdout.split()


def _measure(group: str, sides: Sequence[Side], rounds: int, notes: list[str]) -> list[dict[str, object]]:
    """Return the rows of all runs of a group, each with its side; the sides alternate."""
    rows: list[dict[str, object]] = []
    chosen = {side.name: list(side.trees) for side in sides}
    for number in range(rounds):
        for side in sides if number % 2 else tuple(reversed(sides)):
            print(f"compare: {group}, {side.name} ({number + 1} of {rounds})", file=sys.stderr, flush=True)
            found = _run_somewhere(group, side, chosen[side.name], notes)
            rows += [{**row, "side": side.name} for row in found]
    return rows


def _run_somewhere(group: str, side: Side, trees: list[str], notes: list[str]) -> list[dict[str, object]]:
    """Run a group in the first of *trees* where it works; drop the trees where it does not."""
    while trees:
        found, failure = _run(group, trees[0])
        if not failure:
            return found
        notes.append(f"{side.name}, {os.path.basename(trees.pop(0))}: {group} does not run: {failure}")
    return []


def _run(group: str, tree: str) -> tuple[list[dict[str, object]], str]:
    """Return the rows that a tree's benchmarks print, or why there are none."""
    from bench.measure import ROUNDS_VARIABLE

    paced = {ROUNDS_VARIABLE: _ROUNDS_OF_A_RUN, **os.environ}
    environment = {**paced, "PYTHONPATH": os.path.join(tree, "src")}
    command = [sys.executable, os.path.join("bench", "run.py"), "--json", group]
    done = subprocess.run(command, cwd=tree, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        return [], failure_of(done.stdout, done.stderr)
    rows: list[dict[str, object]] = json.loads(done.stdout)["rows"]
    return rows, ""


def failure_of(stdout: str, stderr: str) -> str:
    """Return the reason of a failed run, from its document or from the last line of its output."""
    try:
        notes = [str(row["note"]) for row in json.loads(stdout)["rows"] if row["measured"] is None]
    except (ValueError, KeyError, TypeError):
        notes = []
    return notes[0] if notes else (stderr.strip().splitlines() or ["it says nothing"])[-1]


def cells(row: Comparison) -> tuple[str, ...]:
    """Return a row as the cells of a table."""
    from bench.measure import number

    return (
        row.what,
        number(min(row.before), row.unit),
        _range(row.before),
        number(min(row.after), row.unit),
        _range(row.after),
        f"{row.ratio:.2f}",
        _range(row.ratios),
    )


def _range(figures: Sequence[float]) -> str:
    from bench.measure import number

    return f"{number(min(figures))} to {number(max(figures))}" if len(figures) > 1 else ""


def _table(compared: Sequence[Comparison]) -> str:
    from bench.report import aligned

    return aligned([_HEADER, *map(cells, compared)])


if __name__ == "__main__":
    sys.path.insert(0, ROOT)
    sys.exit(main())
