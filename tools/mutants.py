"""Change the sources in small ways, one at a time, and see whether the tests notice.

    python tools/mutants.py keyferry/agent/access --tests "tests/attacks/test_agent_clients.py"

A change that no test notices is printed as ``survived``, with the line that was changed; the last line counts.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tools.changed_tests import tests_of  # noqa: E402 - found in the folder above

PYTEST = (sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "-p", "no:xdist")
OPPOSITES: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Eq: ast.NotEq, ast.NotEq: ast.Eq, ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt,
}  # fmt: skip


def changes_of(node: ast.AST) -> Iterator[tuple[str, str, object]]:  # noqa: C901 - one case an operator
    """Yield every change of one node: what it says, the field, and its new value."""
    match node:
        case ast.If() | ast.While() | ast.IfExp():
            yield "the condition is True", "test", ast.Constant(True)
            yield "the condition is False", "test", ast.Constant(False)
        case ast.BoolOp(op=ast.And()):
            yield "'or' for 'and'", "op", ast.Or()
        case ast.BoolOp(op=ast.Or()):
            yield "'and' for 'or'", "op", ast.And()
        case ast.UnaryOp(op=ast.Not()):
            yield "'not' is left out", "operand", ast.UnaryOp(ast.Not(), node.operand)
        case ast.Compare(ops=[operator]) if type(operator) in OPPOSITES:
            yield "another comparison", "ops", [OPPOSITES[type(operator)]()]
        case ast.Constant(value=int() as value):
            yield "another number", "value", not value if isinstance(value, bool) else value + 1
        case ast.Return(value=ast.expr()):
            yield "None is returned", "value", ast.Constant(None)
    for name in ("body", "orelse", "finalbody"):
        found = getattr(node, name, None)
        block = found if isinstance(found, list) else []
        for at, line in enumerate(block):
            if isinstance(line, ast.Raise) or (
                isinstance(line, ast.Expr) and isinstance(line.value, ast.Call)
            ):
                yield f"without '{ast.unparse(line)}'", name, [*block[:at], ast.Pass(), *block[at + 1 :]]


def changes_in(tree: ast.Module) -> list[tuple[ast.AST, str, str, object]]:
    """Return every change of a module, each with its node."""
    return [(node, *change) for node in ast.walk(tree) for change in changes_of(node)]


def mutants_of(source: str) -> Iterator[tuple[int, str, str]]:
    """Yield every mutant of a module: the line, what is changed, and the source with the change."""
    for at in range(len(changes_in(ast.parse(source)))):
        tree = ast.parse(source)  # anew, since a change is made in the tree
        node, what, field, value = changes_in(tree)[at]
        setattr(node, field, value)
        yield getattr(node, "lineno", 1), what, ast.unparse(ast.fix_missing_locations(tree))


def is_noticed(sources: Path, module: str, changed: str, tests: list[str], limit_seconds: float) -> bool:
    """Return whether the tests fail with the changed module; those that take too long have failed."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder, "src")
        shutil.copytree(sources, copy, ignore=shutil.ignore_patterns("__pycache__"))
        (copy / module).write_text(changed, "utf-8")
        running = subprocess.Popen(
            [*PYTEST, f"--basetemp={folder}/files", *tests],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(copy)},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            return running.wait(limit_seconds) != 0
        except subprocess.TimeoutExpired:
            return True
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(running.pid, signal.SIGKILL)  # with whatever its tests have started
            running.wait()


def run(sources: Path, module: str, tests: list[str], until: float) -> Iterator[tuple[int, str, str]]:
    """Yield the line and the change of every mutant, and what became of it."""
    source = (sources / module).read_text("utf-8")
    begun = time.monotonic()
    if is_noticed(sources, module, source, tests, 600):
        sys.exit(f"{module}: its tests fail without a change: {' '.join(tests)}")
    limit_seconds = 20 + 5 * (time.monotonic() - begun)

    def try_one(mutant: tuple[int, str, str]) -> tuple[int, str, str]:
        line, what, changed = mutant
        if time.monotonic() > until:
            return line, what, "not run"
        noticed = is_noticed(sources, module, changed, tests, limit_seconds)
        return line, what, "noticed" if noticed else "survived"

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        yield from pool.map(try_one, mutants_of(source))


def main() -> None:
    """Run the mutants of the modules and print what became of each."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument(
        "modules", nargs="+", help="paths of modules below src, such as keyferry/agent/access"
    )
    parser.add_argument(
        "--tests", default="", help="the tests to run; otherwise those that 'make check' runs for it"
    )
    parser.add_argument("--minutes", type=float, default=120.0, help="begin no mutant after this time")
    options = parser.parse_args()
    modules = [f"{each.removesuffix('.py')}.py" for each in options.modules]
    if unknown := [each for each in modules if not (ROOT / "src" / each).is_file()]:
        parser.error(f"no such module below src: {', '.join(unknown)}")
    until = time.monotonic() + options.minutes * 60
    counts = Counter[str]()
    for module in modules:
        tests = options.tests.split() or tests_of(f"src/{module}")
        for line, what, outcome in run(ROOT / "src", module, tests, until):
            counts[outcome] += 1
            if outcome != "not run":
                print(f"{outcome:8}  src/{module}:{line}: {what}", flush=True)
    print(*(f"{counts[each]} {each}" for each in ("noticed", "survived", "not run")), sep=", ")


if __name__ == "__main__":
    main()
