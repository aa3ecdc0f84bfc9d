"""Run the recorded answers of Kubernetes through keyferry; one line for each case that differs.

The topic is the file's name.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from conformance.compare import CONTRACT, Rules, differences, optional_members
from conformance.topics import TOPICS

Json = dict[str, object]


class VectorFile(NamedTuple):
    """A vector file: its topic, its cases, and the members that a recorded answer may leave out."""

    topic: str
    cases: list[Json]
    optional: frozenset[str]


def load_file(path: Path) -> VectorFile:
    """Read a vector file."""
    document = json.loads(path.read_text(encoding="utf-8"))
    return VectorFile(path.stem, document["cases"], optional_members(document.get("about")))


def run_case(file: VectorFile, case: Json, details: re.Pattern[str] = CONTRACT) -> list[str]:
    """What differs between the recorded answer and ours; empty if nothing does."""
    run: Callable[[Json], Json] | None = TOPICS.get(file.topic)
    if run is None:
        return [f"no runner for the topic {file.topic!r}"]
    given, want = case["input"], case["want"]
    assert isinstance(given, dict)
    assert isinstance(want, dict)
    return differences(want, run(given), Rules(details, file.optional))


def run_file(path: Path) -> tuple[int, int]:
    """Run a file's cases; print those that fail; return how many passed and failed."""
    file = load_file(path)
    failed = 0
    for case in file.cases:
        try:
            found = run_case(file, case)
        except Exception as error:  # noqa: BLE001 - a crash is a failed case, and the others still run
            found = [f"raised {type(error).__name__}: {error}"]
        if found:
            failed += 1
            print(f"{path.name}: {case['name']}: " + "; ".join(found))
    return len(file.cases) - failed, failed


def main(argv: list[str]) -> int:
    """Run the files named, or all; exit 1 if a case failed or none ran."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("files", type=Path, nargs="*", metavar="FILE", help="(default: all recorded answers)")
    paths = parser.parse_args(argv).files or sorted((HERE / "vectors").glob("*.json"))
    counts = [run_file(path) for path in paths]
    passed, failed = sum(p for p, _ in counts), sum(f for _, f in counts)
    print(f"{passed} passed, {failed} failed")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
