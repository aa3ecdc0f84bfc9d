"""The ``keyferry`` command: import the subcommand's module, run it, and turn errors into exit codes."""

from __future__ import annotations

import argparse
import gc
import sys
from collections.abc import Sequence

from keyferry import __version__
from keyferry.cli.completion import COMPLETE, print_candidates
from keyferry.cli.exits import EXIT_CODES, Exit, report_failure
from keyferry.cli.flags import is_flag, split_command
from keyferry.cli.parser import did_you_mean
from keyferry.cli.run import COMMANDS, KUBECTL, load_command, run_command, spell_as_called
from keyferry.errors import EnvironmentProblem, KeyferryError
from keyferry.show.text import fold_help, terminal_width
from keyferry.show.writer import Guard, Lines, hold_descriptors, report

_SUMMARY = """\
keyferry {version}: run, explain and test Kubernetes credential plugins.

usage: keyferry COMMAND [OPTIONS]

Try:
  keyferry demo                            show the main commands on this machine
  keyferry explain pod/web -n shop         explain why a pod cannot pull its image
  keyferry explain registry.example/app    explain which credentials the kubelet has for an image
  keyferry doctor                          check this node
  keyferry COMMAND --help                  show the help of a command, with examples

{commands}

{exits}
"""
# The columns that the help is written for.
_HELP_WIDTH = 120
# New objects between two garbage collections: more than a start creates, and those all stay in use.
_PATIENT_GC = 100_000


def run(prog: str = "keyferry") -> None:
    """Run the console script, which its user calls *prog*."""
    gc.set_threshold(_PATIENT_GC)
    hold_descriptors()
    code = main(prog=prog)
    # Without this, the interpreter searches all remaining objects for garbage, twice, before it exits.
    gc.freeze()
    sys.exit(code)


def run_as_kubectl_plugin() -> None:
    """Run the console script ``kubectl-keyferry``, which is ``kubectl keyferry`` for its user."""
    run(KUBECTL)


def main(argv: Sequence[str] | None = None, *, prog: str = "keyferry") -> int:
    """Run one command and return its exit code; every KeyferryError becomes one message here.

    Usage and help call the program *prog*.
    """
    words = list(sys.argv[1:] if argv is None else argv)
    with Guard():
        try:
            code = _dispatch(prog, words)
            sys.stdout.flush()
        except BrokenPipeError:  # the reader of the output has closed the pipe
            return Exit.PIPE
        except EnvironmentProblem as error:  # the output cannot be written
            return report_failure(error)
        return code


def _dispatch(prog: str, words: list[str]) -> int:
    if words[:1] == [COMPLETE]:
        return print_candidates(words[1:])
    command, rest = split_command(words)
    words = [*command, *rest]
    name = words[0] if words else ""
    if name == "help" and words[1:] and words[1] in COMMANDS:
        return _run(prog, words[1], ["--help"])
    if name in ("", "-h", "--help", "help"):
        return _help(prog)
    if name in ("-V", "--version", "version"):
        print(f"keyferry {__version__}")
        return Exit.OK
    if name not in COMMANDS:
        wrong = f"no command after {name!r}" if is_flag(name) else f"unknown command {name!r}"
        report(f"{wrong}{did_you_mean(name, COMMANDS)}; '{prog} --help' lists all")
        return Exit.USAGE
    return _run(prog, name, words[1:])


def _help(prog: str) -> int:
    width = max(map(len, COMMANDS))
    commands = "\n".join(f"  {name:<{width}}  {entry.summary}" for name, entry in COMMANDS.items())
    text = spell_as_called(prog, _SUMMARY.format(version=__version__, commands=commands, exits=EXIT_CODES))
    if sys.stdout.isatty() and terminal_width() < _HELP_WIDTH:
        text = fold_help(text, terminal_width())
    print(Lines(text), end="")
    return Exit.OK


def _run(prog: str, name: str, words: list[str]) -> int:
    command = load_command(name)
    if not words and command.subcommands:
        words = ["--help"]  # as for keyferry alone
    try:
        return run_command(f"{prog} {name}", command, words, _report)
    except KeyboardInterrupt:
        report("interrupted")
        return Exit.INTERRUPTED
    except SystemExit as leave:  # argparse: help, or a usage error it has reported
        return leave.code if isinstance(leave.code, int) else Exit.USAGE


def _report(error: KeyferryError, args: argparse.Namespace) -> int:
    from keyferry.cli.hints import find_hint

    return report_failure(error, hint=find_hint(error, args))
