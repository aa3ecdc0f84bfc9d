"""``make mutants``: change the sources in small ways, one at a time, and see whether their tests notice.

The mutants are computed from the sources: in each module every place where an operator applies is one, and a digest of
its text chooses among them, checks and refusals first. A mutant runs in a copy of the sources against the tests that
import its module, or against those that are named. Outcomes are kept in ``.cache/mutants``, so that a run goes on where
the last one ended. Those that no test noticed are printed in the end; some of them behave like the original.
"""

from __future__ import annotations

import argparse
import ast
import compileall
import dataclasses
import hashlib
import importlib
import json
import os
import re
import shutil
import signal
import sys
import time
import traceback
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src"
TESTS = ROOT / "tests"
CACHE = ROOT / ".cache" / "mutants"
# The folders of tests that are quick enough to be run for every mutant.
QUICK = ("unit", "property", "attacks")
PER_MODULE = 12
# Imported before the forks: no module of ours, and nothing that starts threads.
COMMON = ("pytest", "_pytest.python", "hypothesis", "yaml", "asyncio", "http.client", "ssl", "subprocess")

COMPARISONS: dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
}


@dataclasses.dataclass(frozen=True, order=True)
class Mutant:
    """One change: what stands at a place of a module, and what takes its place."""

    module: str
    function: str
    line: int
    column: int
    end_line: int
    end_column: int
    old: str
    new: str
    is_guard: bool

    @property
    def change(self) -> str:
        """The change in one line."""
        return " ".join(f"{self.old} → {self.new}".split())

    @property
    def name(self) -> str:
        """What stays the same while other parts of the module are edited."""
        return f"{self.module}:{self.function}: {self.change}"

    @property
    def rank(self) -> tuple[bool, str]:
        """Guards first; among them, an order that has nothing to do with their place."""
        return not self.is_guard, hashlib.sha256(self.name.encode()).hexdigest()

    def applied(self, source: str) -> str:
        """Return the source with this change. Columns count bytes, as those of a syntax tree do."""
        lines = [line.encode() for line in source.splitlines(keepends=True)]
        begin = sum(map(len, lines[: self.line - 1])) + self.column
        end = sum(map(len, lines[: self.end_line - 1])) + self.end_column
        data = source.encode()
        return (data[:begin] + self.new.encode() + data[end:]).decode()


class Operators(ast.NodeVisitor):
    """Collects the mutants of one module."""

    def __init__(self, module: str, source: str) -> None:
        self.module = module
        self._lines = source.encode().splitlines(keepends=True)
        self.found: list[Mutant] = []
        self._function: list[str] = []
        self._is_guard = False

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        """Enter a function, whose annotations and defaults are left alone."""
        self._function.append(node.name)
        for statement in node.body:
            self.visit(statement)
        self._function.pop()

    visit_AsyncFunctionDef = visit_FunctionDef  # noqa: N815 - ast's name

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        """Enter a class, of which the methods alone are looked at."""
        self._function.append(node.name)
        for statement in node.body:
            if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef):
                self.visit(statement)
        self._function.pop()

    def visit_If(self, node: ast.If) -> None:
        """Take a condition as never and as always true; what it guards counts first."""
        last = node.body[-1]
        is_guard = isinstance(last, ast.Raise | ast.Return | ast.Continue)
        if self._function:
            self._add(node.test, "False", is_guard=is_guard)
            self._add(node.test, "True", is_guard=False)
        before, self._is_guard = self._is_guard, is_guard
        self.visit(node.test)
        self._is_guard = before
        for statement in (*node.body, *node.orelse):
            self.visit(statement)

    def visit_Compare(self, node: ast.Compare) -> None:
        """Turn a comparison round, or move its bound by one."""
        if len(node.ops) == 1:
            for other in COMPARISONS[type(node.ops[0])]:
                changed = ast.Compare(node.left, [other()], node.comparators)
                self._add(node, f"({ast.unparse(changed)})")
        self.generic_visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        """Exchange and/or; leave out each operand."""
        other = ast.Or() if isinstance(node.op, ast.And) else ast.And()
        self._add(node, f"({ast.unparse(ast.BoolOp(other, node.values))})")
        for number in range(len(node.values)):
            rest = node.values[:number] + node.values[number + 1 :]
            kept = rest[0] if len(rest) == 1 else ast.BoolOp(node.op, rest)
            self._add(node, f"({ast.unparse(kept)})")
        self.generic_visit(node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> None:
        """Leave out a ``not``."""
        if isinstance(node.op, ast.Not):
            self._add(node, f"({ast.unparse(node.operand)})")
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        """Exchange True and False; add one to a number."""
        if isinstance(node.value, bool):
            self._add(node, str(not node.value))
        elif isinstance(node.value, int):
            self._add(node, str(node.value + 1))

    def visit_Return(self, node: ast.Return) -> None:
        """Return nothing."""
        if node.value is not None and not isinstance(node.value, ast.Constant):
            self._add(node.value, "None")
        self.generic_visit(node)

    def visit_Raise(self, node: ast.Raise) -> None:
        """Leave out an error; its text is not looked into."""
        if self._function:
            self._add(node, "pass", is_guard=True)

    def visit_Expr(self, node: ast.Expr) -> None:
        """Leave out a call whose result is not used."""
        if isinstance(node.value, ast.Call) and self._function:
            self._add(node, "pass", is_guard=True)
        self.generic_visit(node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        """Look at the value alone."""
        if node.value is not None:
            self.visit(node.value)

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        """Leave texts alone."""

    def _text(self, line: int, column: int, end_line: int, end_column: int) -> str:
        """Return what stands at a place; ast's own function for it takes the whole source apart each time."""
        lines = self._lines[line - 1 : end_line]
        lines[-1] = lines[-1][:end_column]
        lines[0] = lines[0][column:]
        return b"".join(lines).decode()

    def _add(self, node: ast.expr | ast.stmt, new: str, *, is_guard: bool | None = None) -> None:
        end_line, end_column = node.end_lineno or node.lineno, node.end_col_offset or node.col_offset
        old = self._text(node.lineno, node.col_offset, end_line, end_column)
        if not self._function or old == new:
            return
        self.found.append(
            Mutant(
                self.module,
                ".".join(self._function),
                node.lineno,
                node.col_offset,
                end_line,
                end_column,
                old,
                new,
                self._is_guard if is_guard is None else is_guard,
            )
        )


def mutants_of(module: str, source: str) -> list[Mutant]:
    """Return every mutant of a module, in the order in which they are chosen; each change of a function once."""
    operators = Operators(module, source)
    operators.visit(ast.parse(source))
    by_name: dict[str, Mutant] = {}
    for mutant in sorted(operators.found):
        by_name.setdefault(mutant.name, mutant)
    return sorted(by_name.values(), key=lambda mutant: mutant.rank)


def all_modules() -> list[str]:
    """Return every module of the sources, by its path without the suffix."""
    return [str(path.relative_to(SOURCE).with_suffix("")) for path in sorted(SOURCE.rglob("*.py"))]


def chosen(module: str) -> list[Mutant]:
    """Return the mutants of a module that are run."""
    return mutants_of(module, source_of(module))[:PER_MODULE]


def source_of(module: str) -> str:
    """Return the text of a module."""
    return (SOURCE / f"{module}.py").read_text("utf-8")


def tests_of(module: str) -> list[str]:
    """Return the quick tests that import a module."""
    name = module.removesuffix("/__init__").replace("/", ".")
    package, _, last = name.rpartition(".")
    pattern = re.compile(rf"\b(from|import) {name}\b|\bfrom {package} import (\([^)]*|.*)\b{last}\b")
    paths = (path for folder in QUICK for path in sorted((TESTS / folder).rglob("test_*.py")))
    return [str(path) for path in paths if pattern.search(path.read_text("utf-8"))]


class Slot:
    """A copy of the sources in which one mutant after the other takes its place."""

    def __init__(self, number: int) -> None:
        self.folder = CACHE / f"slot-{number}"
        shutil.rmtree(self.folder, ignore_errors=True)
        shutil.copytree(SOURCE, self.folder / "src", ignore=shutil.ignore_patterns("__pycache__"))
        compileall.compile_dir(str(self.folder / "src"), quiet=2)

    def write(self, module: str, source: str) -> None:
        """Replace a module; what Python has compiled of it goes, since its date may be the same."""
        path = self.folder / "src" / f"{module}.py"
        for compiled in (path.parent / "__pycache__").glob(f"{path.stem}.*.pyc"):
            compiled.unlink()
        path.write_text(source, "utf-8")

    def start(self, tests: list[str]) -> int:
        """Start tests in a process of their own, which has everything common in memory already."""
        child = os.fork()
        if child:
            return child
        os.setsid()
        log = os.open(self.folder / "log", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(log, 1)
        os.dup2(log, 2)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.environ["PYTHONPATH"] = str(self.folder / "src")
        sys.path.insert(0, str(self.folder / "src"))
        status = 1
        try:
            import pytest

            base = self.folder / "tmp"
            options = ["-x", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", f"--basetemp={base}"]
            options += [
                "-W",
                "ignore::pytest.PytestAssertRewriteWarning",
            ]  # what is in memory before the forks
            status = int(pytest.main([*options, *tests]))
        except BaseException:  # noqa: BLE001 - nothing of this process may go on as the parent would
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            os._exit(status)


@dataclasses.dataclass(frozen=True)
class Run:
    """The tests of a module on their way, with or without a mutant."""

    slot: Slot
    child: int
    begun: float
    mutant: Mutant | None = None

    def finish(self, limit: float) -> int | None:
        """Return the status of tests that have ended, or that took too long; otherwise None."""
        ended, status = os.waitpid(self.child, os.WNOHANG)
        if not ended and time.monotonic() - self.begun < limit:
            return None
        # What the tests have started, if anything of it is left, ends with them.
        try:
            os.killpg(self.child, signal.SIGKILL)
        except ProcessLookupError:
            pass
        if not ended:
            os.waitpid(self.child, 0)
            return -1
        return os.waitstatus_to_exitcode(status)


class Outcomes:
    """What became of each mutant, kept between runs.

    A mutant that was killed stays so while its module is the same; one that survived is tried again when the tests
    have changed.
    """

    def __init__(self, tests: list[str]) -> None:
        self._tests = tests
        self._path = CACHE / "outcomes.json"
        self._kept: dict[str, dict[str, str]] = {}
        if self._path.exists():
            self._kept = json.loads(self._path.read_text("utf-8"))

    def find(self, mutant: Mutant) -> str:
        """Return what is known of a mutant: "killed", "survived" or nothing."""
        kept = self._kept.get(mutant.name, {})
        if kept.get("source") != digest_of(source_of(mutant.module)):
            return ""
        if kept["outcome"] == "survived" and kept["tests"] != self._digest_of_tests(mutant.module):
            return ""
        return kept["outcome"]

    def keep(self, mutant: Mutant, outcome: str) -> None:
        """Note what became of a mutant."""
        source, tests = digest_of(source_of(mutant.module)), self._digest_of_tests(mutant.module)
        self._kept[mutant.name] = {"outcome": outcome, "source": source, "tests": tests}
        self._path.write_text(json.dumps(self._kept, indent=1), "utf-8")

    def tests_of(self, module: str) -> list[str]:
        """Return the tests of a module: those that were named, or those that import it."""
        return self._tests or tests_of(module)

    def _digest_of_tests(self, module: str) -> str:
        return digest_of("".join(Path(each).read_text("utf-8") for each in self.tests_of(module)))


def digest_of(text: str) -> str:
    """Return a short digest."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]


class Campaign:
    """Runs mutants in a number of slots until the time is over."""

    def __init__(self, workers: int, seconds: float, tests: list[str]) -> None:
        CACHE.mkdir(parents=True, exist_ok=True)
        self.outcomes = Outcomes(tests)
        self._until = time.monotonic() + seconds
        self._workers = workers
        self._free: list[Slot] = []

    def run(self, modules: list[str]) -> None:
        """Run every chosen mutant of the modules whose outcome is not known."""
        for module in modules:
            todo = [each for each in chosen(module) if not self.outcomes.find(each)]
            if todo and time.monotonic() < self._until:
                self._run_module(module, todo)

    def _run_module(self, module: str, todo: list[Mutant]) -> None:
        if not self.outcomes.tests_of(module):
            print(f"{module}: no quick test imports it; name tests", flush=True)
            return
        if not self._free:
            self._free = [Slot(number) for number in range(self._workers)]
        taken = self._try_unchanged(module)
        if taken is None:
            print(
                f"{module}: its tests fail without a mutant, see {self._free[0].folder / 'log'}", flush=True
            )
            return
        # A mutant may make a test wait for ever.
        limit = 20 + 5 * taken
        running: list[Run] = []
        while running or (todo and time.monotonic() < self._until):
            while self._free and todo and time.monotonic() < self._until:
                running.append(self._begin(todo.pop(0)))
            time.sleep(0.02)
            for run in list(running):
                status = run.finish(limit)
                if status is not None:
                    running.remove(run)
                    self._end(run, status)

    def _try_unchanged(self, module: str) -> float | None:
        """Return how long the tests take while nothing is changed; None if they fail."""
        slot = self._free[0]
        begun = time.monotonic()
        run = Run(slot, slot.start(self.outcomes.tests_of(module)), begun)
        while (status := run.finish(600)) is None:
            time.sleep(0.02)
        return None if status else time.monotonic() - begun

    def _begin(self, mutant: Mutant) -> Run:
        slot = self._free.pop()
        slot.write(mutant.module, mutant.applied(source_of(mutant.module)))
        return Run(slot, slot.start(self.outcomes.tests_of(mutant.module)), time.monotonic(), mutant)

    def _end(self, run: Run, status: int) -> None:
        assert run.mutant is not None  # noqa: S101 - for the type checker
        run.slot.write(run.mutant.module, source_of(run.mutant.module))
        self._free.append(run.slot)
        outcome = "killed" if status else "survived"
        self.outcomes.keep(run.mutant, outcome)
        print(f"{outcome:8} {time.monotonic() - run.begun:5.1f} s  {run.mutant.name}", flush=True)


def main() -> None:
    """Run the mutants and report those that survive."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("modules", nargs="*", help="part of a module's path; all modules if none is given")
    parser.add_argument("-n", "--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--minutes", type=float, default=120.0, help="start no mutant after this time")
    parser.add_argument(
        "--tests", default="", help="files of tests to run, in place of those that import the module"
    )
    parser.add_argument(
        "--list", action="store_true", help="list the mutants and what is known of them, and run nothing"
    )
    options = parser.parse_args()
    modules = [
        each for each in all_modules() if not options.modules or any(part in each for part in options.modules)
    ]
    for name in COMMON:
        importlib.import_module(name)
    campaign = Campaign(options.workers, options.minutes * 60, options.tests.split())
    if not options.list:
        campaign.run(modules)
    for mutant in (each for module in modules for each in chosen(module)):
        outcome = campaign.outcomes.find(mutant) or "not run"
        if options.list or outcome == "survived":
            print(f"src/{mutant.module}.py:{mutant.line}: {outcome}: {mutant.change}")


if __name__ == "__main__":
    main()
