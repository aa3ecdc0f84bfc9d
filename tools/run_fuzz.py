"""``make fuzz``: look for bytes that make a reader do anything but read or refuse them.

Each target of ``tests/fuzz/targets.py`` gets its share of the time, under libFuzzer by way of atheris, which knows
what code an input reaches. In the first third of the time, the files that the corpus began with are made large in
several ways: an input that takes more than two seconds of processor time for each mebibyte, and far more than four
times as long as a quarter of it, is a find too. Targets and large inputs are taken in a random order, for a run that
has no time for all of them.

What a run finds is kept in ``.cache/fuzz-work``, from which the next one starts. With ``--keep``, inputs that reach
more than the corpus does are added to it, the smallest first, up to a bound, and the line of each target that got a
minute or more is written to ``docs/figures.md``.
"""

from __future__ import annotations

import argparse
import datetime as dt
import os
import random
import re
import shutil
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import NoReturn

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from bench.sections import section, table, with_section  # noqa: E402 - found in the folder above

WORK = ROOT / ".cache" / "fuzz-work"
PAGE = ROOT / "docs" / "figures.md"
# A shorter run says too little to be written down.
MIN_SECONDS = 60
# What the corpus of a reader may grow to.
MAX_FILES = 16
MAX_KIB = 32
# The names of files that were added: the beginning of a digest.
GROWN = re.compile("[0-9a-f]{12}")
MAX_BYTES = 2048
# The part of the time in which large inputs are read.
LARGE_SHARE = 1 / 3
LARGE = 1 << 18
MAX_CPU_SECONDS = 0.5
# How much longer four times as much may take; in proportion it is 4, and 16 in the square.
MAX_GROWTH = 8
# What is repeated to make an input large, besides its own parts.
REPEATED = (
    b"[",
    b"{",
    b'{"a":',
    b"\\",
    b'"',
    b" ",
    b"\n",
    b"a",
    b"0",
    b",",
    b"---\n",
    b"- ",
    b"*",
    b"a,",
    b"a=b,",
    b"/",
)


def targets(wanted: str = "") -> list[str]:
    """Return the names of the targets, or those that are wanted, with blanks between them."""
    names = [path.name for path in sorted((ROOT / "tests" / "fuzz" / "corpus").iterdir())]
    for each in wanted.split():
        if each not in names:
            sys.exit(f"there is no target {each!r}; there are: {', '.join(names)}")
    return wanted.split() or names


def instrument() -> None:
    """Import the targets so that libFuzzer knows what code an input reaches; that takes long, and is done once."""
    import atheris  # type: ignore[import-untyped] # in the environment of `make fuzz` alone, and without types

    with atheris.instrument_imports(include=["keyferry", "keyferry_plugins"]):
        import fuzz.targets  # noqa: F401 - for the processes to come


def apart(work: Callable[[], bool]) -> bool:
    """Do some work in a process of its own, which has everything of this one in memory; True if it succeeds.

    The process ends at once, so what the targets have written goes with a folder of this one.
    """
    with tempfile.TemporaryDirectory() as folder:
        child = os.fork()
        if not child:
            _work_in(folder, work)
        return not os.waitpid(child, 0)[1]


def _work_in(folder: str, work: Callable[[], bool]) -> NoReturn:
    tempfile.tempdir = folder
    status = 1
    try:
        status = 0 if work() else 1
    except BaseException:  # noqa: BLE001 - nothing of this process may go on as the parent would
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        os._exit(status)


def run_fuzzer(name: str, *options: str) -> bool:
    """Run libFuzzer on a target in a process of its own; what it prints is shown if it finds something."""

    def work() -> bool:
        import atheris

        from fuzz.targets import check

        log = os.open(log_of(name), os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(log, 1)
        os.dup2(log, 2)
        atheris.Setup([name, f"-max_len={MAX_BYTES}", *options], lambda data: check(name, data))
        atheris.Fuzz()
        return True

    is_well = apart(work)
    if not is_well:
        print(f"{name}: found something:\n{log_of(name).read_text('utf-8', 'replace')[-4000:]}", flush=True)
    return is_well


def log_of(name: str) -> Path:
    """Return the file with what libFuzzer printed last for a target."""
    return WORK / f"{name}.log"


def executions_of(name: str) -> int:
    """Return how many inputs the last run of libFuzzer has read."""
    return int(re.findall(r"^#(\d+)", log_of(name).read_text("utf-8", "replace"), re.MULTILINE)[-1])


def fuzz(name: str, seconds: int, *, keep: bool) -> bool:
    """Fuzz a target for some time, and add what is new to its corpus if asked to; False if it found a failure."""
    tree = ROOT / "tests" / "fuzz" / "corpus" / name
    grown = WORK / name
    grown.mkdir(parents=True, exist_ok=True)
    finds = WORK / "finds"
    finds.mkdir(exist_ok=True)
    before = len(list(tree.iterdir()))
    is_well = run_fuzzer(
        name, f"-max_total_time={seconds}", f"-artifact_prefix={finds / name}-", str(grown), str(tree)
    )
    executions, inputs = executions_of(name), len(list(grown.iterdir()))
    if is_well and keep:
        # libFuzzer has kept what reaches code that nothing before it reached.
        add_files(grown, tree)
    print(
        f"{name}: {executions} executions, {inputs} inputs, corpus {before} → {len(list(tree.iterdir()))}",
        flush=True,
    )
    if keep and seconds >= MIN_SECONDS:
        today = dt.datetime.now(dt.UTC).date().isoformat()
        write_line(
            name, f"{today} | {seconds} s | {executions} | {inputs} | {'nothing' if is_well else 'a failure'}"
        )
    return is_well


def add_files(grown: Path, tree: Path) -> None:
    """Add files to a corpus, the smallest first, up to the bounds; what it has stays, whatever its size."""
    kept = [each.stat().st_size for each in tree.iterdir()]
    for each in sorted(grown.iterdir(), key=lambda each: (each.stat().st_size, each.name)):
        place, size = tree / each.name[:12], each.stat().st_size
        if len(kept) >= MAX_FILES or sum(kept) + size > MAX_KIB << 10:
            break
        if not place.exists():
            shutil.copy(each, place)
            kept.append(size)


def write_line(name: str, text: str) -> None:
    """Replace the line of a target on the page; those of targets that are no more go."""
    page = PAGE.read_text("utf-8")
    old = re.findall(r"^\| `(\w+)` \| (.*) \|$", section(page, "fuzz"), re.MULTILINE)
    lines = dict(old) | {name: text}
    kept = [(f"`{each}`", lines.get(each, "not yet |  |  |  | ")) for each in targets()]
    head = ("reader", "date", "time", "executions", "inputs that reach new code", "found")
    PAGE.write_text(with_section(page, "fuzz", table([head, *kept])), "utf-8")


def large_inputs(name: str, size: int) -> Iterator[bytes]:
    """Yield inputs of about *size* bytes that are made of the corpus."""
    from fuzz.targets import corpus

    for path in (each for each in corpus(name) if not GROWN.fullmatch(each.name)):
        data = path.read_bytes() or b" "
        yield data * (size // len(data) + 1)
        middle = len(data) // 2
        for piece in (*REPEATED, data[middle : middle + 16], data[:middle]):
            yield data[:middle] + piece * (size // max(len(piece), 1)) + data[middle:]


def cpu_seconds(name: str, data: bytes) -> float:
    """Return the processor time that a target takes."""
    from fuzz.targets import check

    begun = time.process_time()
    check(name, data)
    return time.process_time() - begun


def check_sizes(name: str, seconds: float) -> bool:
    """Read large inputs for some time; False if one fails, or takes too long, and too long for its size."""
    slowest, found, until = 0.0, {}, time.monotonic() + seconds
    pairs = list(zip(large_inputs(name, LARGE), large_inputs(name, LARGE // 4), strict=True))
    random.shuffle(pairs)
    done = 0
    for large, smaller in pairs:
        if time.monotonic() >= until:
            break
        done += 1
        try:
            taken = cpu_seconds(name, large)
            is_slow = taken > MAX_CPU_SECONDS and taken > MAX_GROWTH * cpu_seconds(name, smaller)
        except Exception:  # noqa: BLE001 - whatever a reader must not raise is a find
            traceback.print_exc()
            found["failed"] = large
            continue
        slowest = max(slowest, taken)
        if is_slow:
            found["slow"] = large
    what = f"{done} of {len(pairs)} inputs of {LARGE >> 10} KiB"
    print(f"{name}: {what} take at most {slowest:.2f} s of processor time", flush=True)
    for what, data in found.items():
        kept = WORK / f"{name}.{what}"
        kept.write_bytes(data)
        print(f"{name}: {what}: {kept}", flush=True)
    return not found


def share(names: list[str], until: float, work: Callable[[str, float], bool]) -> list[str]:
    """Do some work for each target in its share of the time; return those that found something.

    Every target has its turn while there is time, whatever the others find.
    """
    found = []
    for number, name in enumerate(names):
        seconds = (until - time.monotonic()) / (len(names) - number)
        if seconds <= 0:
            print(f"no time was left for {', '.join(names[number:])}", flush=True)
            break
        found += [] if work(name, seconds) else [name]
    return found


def main() -> None:
    """Fuzz one target or all."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--target", default="", help="some targets alone, with blanks between them")
    parser.add_argument("--minutes", type=float, default=1.0, help="for the whole run (default: 1)")
    parser.add_argument("--sizes", action="store_true", help="large inputs alone")
    parser.add_argument(
        "--keep", action="store_true", help="let tests/fuzz/corpus grow, and write the lines of the docs"
    )
    options = parser.parse_args()
    begun, total = time.monotonic(), options.minutes * 60
    sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "src")]
    WORK.mkdir(parents=True, exist_ok=True)
    names = targets(options.target)
    random.shuffle(names)
    large = total if options.sizes else total * LARGE_SHARE
    found = share(names, begun + large, lambda name, seconds: apart(partial(check_sizes, name, seconds)))
    if not options.sizes:
        instrument()
        found += share(
            names,
            begun + total,
            # libFuzzer takes whole seconds.
            lambda name, seconds: fuzz(name, max(int(seconds), 1), keep=options.keep),
        )
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
