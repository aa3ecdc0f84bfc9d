"""``make pythons``: run the quick tests with every Python that is named and found, and write the table of the docs.

The Pythons are those of the classifiers in pyproject.toml, and the next one. Each runs ``make unit PYTHON=...``, in an
environment of its own. A Python that is not found is not run, and keeps its line; one that never was run has a line
that says so.
"""

from __future__ import annotations

import argparse
import datetime as dt
import re
import shutil
import subprocess
import sys
from pathlib import Path

from release.installs import find_python
from release.subject import ROOT, Release

PAGE = ROOT / "docs" / "reliability.md"
BEGIN, END = (
    "<!-- written by `make pythons`; do not edit -->\n",
    "<!-- end of what `make pythons` writes -->\n",
)
HEAD = "| Python | date | build | passed | skipped | failed |\n|---|---|---|---|---|---|"
NOT_RUN = "not run | | | | "
_OUTCOMES = ("passed", "skipped", "failed")


def versions() -> list[str]:
    """Return the versions of Python that the classifiers name, and the next one."""
    found = re.findall(r"Python :: (3\.\d+)", "\n".join(Release().project["classifiers"]))
    return [*found, f"3.{max(int(each[2:]) for each in found) + 1}"]


def run_unit(version: str, python: str) -> str:
    """Run the quick tests; return the cells of the line."""
    print(f"{version}: make unit PYTHON={python}", flush=True)
    words = [shutil.which("make") or "make", "unit", f"PYTHON={python}"]
    done = subprocess.run(words, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=False)
    print(done.stdout[-2000:], flush=True)
    # An environment that is there is used again, whichever build of this version it was made with.
    ran = ROOT / ".cache" / f"venv-{version}" / "bin" / "python"
    build = subprocess.run([str(ran), "-V"], capture_output=True, text=True, check=True).stdout.split()[1]
    return cells_of(done.stdout, build, dt.datetime.now(dt.UTC).date().isoformat())


def cells_of(output: str, build: str, date: str) -> str:
    """Return the cells of a line from what pytest prints at its end; errors count as failed."""
    ends = re.findall(r"^(?:=+ )?(\d+ \w+(?:, \d+ \w+)*) in [\d.]+s", output, re.MULTILINE)
    if not ends:
        return f"{date} | {build} | the tests did not run | | "
    told = {word.rstrip("s"): int(number) for number, word in re.findall(r"(\d+) (\w+)", ends[-1])}
    numbers = {each: told.get(each, 0) for each in _OUTCOMES}
    numbers["failed"] += told.get("error", 0)
    return " | ".join((date, build, *(str(numbers[each]) for each in _OUTCOMES)))


def with_lines(page: str, made: dict[str, str], named: list[str]) -> str:
    """Return the page with new lines for some versions; the others keep theirs."""
    before, _, rest = page.partition(BEGIN)
    table, _, after = rest.partition(END)
    lines = dict(re.findall(r"^\| (3\.\d+) \| (.*) \|$", table, re.MULTILINE)) | made
    text = "\n".join((HEAD, *(f"| {each} | {lines.get(each, NOT_RUN)} |" for each in named)))
    return f"{before}{BEGIN}\n{text}\n\n{END}{after}"


def main(argv: list[str]) -> int:
    """Run the quick tests; return 1 if a test fails."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("versions", nargs="*", metavar="VERSION", help="such as 3.11 3.13 (default: all)")
    args = parser.parse_args(argv)
    named, made = versions(), {}
    for version in args.versions or named:
        python = find_python(version)
        if not python or not Path(python).exists():
            print(f"{version}: not found, not run", flush=True)
            continue
        made[version] = run_unit(version, python)
        PAGE.write_text(with_lines(PAGE.read_text("utf-8"), made, named), "utf-8")
    return 0 if made and all(cells.endswith("| 0") for cells in made.values()) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
