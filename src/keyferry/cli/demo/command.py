"""Show problems that people have, and the commands that explain them, on files and a registry of this machine."""

from __future__ import annotations

import os
import shlex
import sys
import tempfile
from collections.abc import Iterator
from shutil import which

from keyferry.cli.demo.files import write_files
from keyferry.cli.demo.page import show_page
from keyferry.cli.demo.registry import DemoRegistry
from keyferry.cli.demo.steps import REST, STEPS, DemoStep
from keyferry.cli.exits import Exit
from keyferry.cli.main import main
from keyferry.errors import EnvironmentProblem
from keyferry.show.text import fold, text_width
from keyferry.show.writer import Lines, report, style

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse

DESCRIPTION = """\
Show six problems that people have with credentials, and the command that explains each, on this machine and
without installing anything else. The demo writes a provider config, small plugins, pods and a kubeconfig into
a folder of its own and starts a registry that requires a login. Each step prints the commands that it runs.

On a terminal, it waits after each step: Enter goes on, q ends it. With --all it also shows the other main
commands. With --page it first runs the node agent on these files and prints a link to the agent's page; n goes
on with the problems. This needs the extra 'agent', and Linux."""

EXAMPLES = """\
examples:
  keyferry demo
  keyferry demo --all
  keyferry demo --page
  keyferry demo --keep ./demo     # keep the files, to try other commands on them"""

_END = "q"
_GLUE = "\0"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of ``keyferry demo``."""
    parser.add_argument("--all", action="store_true", help="show the other main commands as well")
    parser.add_argument("--page", action="store_true", help="first run the node agent, and show its page")
    parser.add_argument("--keep", metavar="DIR", help="write the files to this folder and keep them")


def run(args: argparse.Namespace) -> int:
    """Write the files, then run the commands on them."""
    steps = (*STEPS, *REST) if args.all else STEPS
    if args.keep:
        folder = os.path.abspath(args.keep)
        try:
            os.makedirs(folder, exist_ok=True)
        except OSError as error:
            raise EnvironmentProblem(f"{args.keep!r} cannot be created: {error.strerror}") from None
        code = _tell(steps, folder, with_page=args.page)
        print(Lines(f"\nThe files are in {folder}."))
    else:
        with tempfile.TemporaryDirectory(prefix="keyferry-demo-") as folder:
            code = _tell(steps, folder, with_page=args.page)
    if not args.all:
        more = f"'{_program()} demo --all' shows the other main commands as well."
        print(Lines("\n" + "\n".join(fold(more))))
    return code


def _program() -> str:
    """Return what starts keyferry in this shell: its name, or the path of this program if it is not on the PATH."""
    if which("keyferry"):
        return "keyferry"
    is_module = os.path.basename(sys.argv[0]) == "__main__.py"
    return f"{shlex.quote(sys.executable)} -m keyferry" if is_module else shlex.quote(sys.argv[0])


def _tell(steps: tuple[DemoStep, ...], folder: str, *, with_page: bool) -> Exit:
    here = os.getcwd()
    with DemoRegistry() as registry:
        write_files(folder, registry.host)
        os.chdir(folder)
        try:
            is_page_good, goes_on = _show_page() if with_page else (True, True)
            shown = _pausing(steps if goes_on else ())
            results = [_show(step, f"{number}/{len(steps)}", registry.host) for number, step in shown]
        finally:
            os.chdir(here)
    return Exit.OK if is_page_good and all(results) else Exit.NO


def _show_page() -> tuple[bool, bool]:
    return show_page(_run)


def _pausing(steps: tuple[DemoStep, ...]) -> Iterator[tuple[int, DemoStep]]:
    """Yield the steps with their numbers; on a terminal, wait for Enter in between."""
    has_terminal = sys.stdin is not None and sys.stdin.isatty() and sys.stdout.isatty()
    for number, step in enumerate(steps, 1):
        if has_terminal and number > 1 and not _goes_on():
            return
        yield number, step


def _goes_on() -> bool:
    print(Lines("\n" + style(f"Enter: next, {_END}: end ", "dim")), end="", flush=True)
    line = sys.stdin.readline()
    return bool(line) and not line.strip().lower().startswith(_END)


def _show(step: DemoStep, place: str, host: str) -> bool:
    """Run the commands of one step, and return whether they ended with the expected exit codes."""
    head = [style(line, "cyan") for line in fold(step.problem, f"# {place} ", "# ")]
    print(Lines("\n" + "\n".join(head)))
    results = [_run(typed.format(host=host), codes) for typed, codes in step.commands]
    print(Lines("\n" + "\n".join(style(line, "cyan") for line in fold(step.moral, "=> ", "   "))))
    sys.stdout.flush()
    return all(results)


def _run(typed: str, expected: tuple[Exit, ...]) -> bool:
    print(Lines("\n".join(style(line, "bold") for line in _prompt(typed))), flush=True)
    code = main(shlex.split(typed))
    sys.stdout.flush()
    if code not in expected:
        wanted = " or ".join(str(int(each)) for each in expected)
        report(f"this step of the demo expected exit code {wanted}, found {code}")
    return code in expected


def _prompt(typed: str) -> Iterator[str]:
    """Yield the command as it is typed; one that is too long continues on lines that can be pasted as well."""
    # An option and its value stay on one line.
    words = typed.replace(" -", "\n-").replace(" ", _GLUE).replace("\n", " ").replace(_GLUE, " ", 1)
    lines = list(fold(words, "$ keyferry ", "    ", width=text_width() - len(" \\")))
    for number, line in enumerate(lines, 1):
        yield line.replace(_GLUE, " ") + (" \\" if number < len(lines) else "")
