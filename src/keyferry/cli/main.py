"""The ``keyferry`` command: import the subcommand's module, run it, and turn errors into exit codes."""

from __future__ import annotations

import gc
import os
import sys

from keyferry import __version__
from keyferry.cli.frame.commands import COMMANDS, EXIT_CODES, Exit, load_module, report_failure
from keyferry.errors import EnvironmentProblem
from keyferry.show.writer import Guard, Lines, hold_descriptors, report

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from keyferry.errors import ConfigError, KeyferryError

_SUMMARY = """\
keyferry {version}: run, explain and test Kubernetes credential plugins.

usage: keyferry COMMAND [OPTIONS]

{commands}

{exits}

Try:
  keyferry demo                            show the main commands on this machine
  keyferry explain pod/web -n shop         explain why a pod cannot pull its image
  keyferry explain registry.example/app    explain which credentials the kubelet has for an image
  keyferry doctor                          check this node
  keyferry COMMAND --help                  show the help of a command, with examples
"""


# The columns that the help is written for.
_HELP_WIDTH = 120
# New objects between two garbage collections: more than a start creates, and those all stay in use.
_PATIENT_GC = 100_000


def run() -> None:
    """Run the console script."""
    gc.set_threshold(_PATIENT_GC)
    hold_descriptors()
    code = main()
    # Without this, the interpreter searches all remaining objects for garbage, twice, before it exits.
    gc.freeze()
    sys.exit(code)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code; every KeyferryError becomes one message here."""
    words = list(sys.argv[1:] if argv is None else argv)
    with Guard():
        try:
            code = _dispatch(words)
            sys.stdout.flush()
        except BrokenPipeError:  # the reader of the output has closed the pipe
            return Exit.PIPE
        except EnvironmentProblem as error:  # the output cannot be written
            return report_failure(error)
        return code


def _dispatch(words: list[str]) -> int:
    name = words[0] if words else ""
    if name in ("", "-h", "--help", "help"):
        return _help(words[1:])
    if name in ("-V", "--version", "version"):
        print(f"keyferry {__version__}")
        return Exit.OK
    if name not in COMMANDS:
        return _unknown(name)
    return _run(name, words[1:])


def _help(words: list[str]) -> int:
    if words and words[0] in COMMANDS:
        return _run(words[0], ["--help"])
    width = max(map(len, COMMANDS))
    commands = "\n".join(f"  {name:<{width}}  {entry.summary}" for name, entry in COMMANDS.items())
    text = _SUMMARY.format(version=__version__, commands=commands, exits=EXIT_CODES)
    print(Lines(_fitting(text)), end="")
    return Exit.OK


def _fitting(text: str) -> str:
    """Return the help, folded on a terminal that is too narrow for it."""
    from keyferry.show.text import fold_help, terminal_width

    is_narrow = sys.stdout.isatty() and terminal_width() < _HELP_WIDTH
    return fold_help(text, terminal_width()) if is_narrow else text


def _unknown(name: str) -> int:
    from keyferry.cli.frame.near_misses import did_you_mean

    report(f"unknown command {name!r}{did_you_mean(name, COMMANDS)}; 'keyferry --help' lists all")
    return Exit.USAGE


def _run(name: str, words: list[str]) -> int:
    from keyferry.cli.frame.arguments import run_command

    module = load_module(COMMANDS[name].module)
    if not words and hasattr(module, "SUBCOMMANDS"):
        words = ["--help"]  # as for keyferry alone
    try:
        return run_command(f"keyferry {name}", module, words, _report)
    except KeyboardInterrupt:
        report("interrupted")
        return Exit.INTERRUPTED
    except SystemExit as leave:  # argparse: help, or a usage error it has reported
        return leave.code if isinstance(leave.code, int) else Exit.USAGE


def _report(error: KeyferryError, args: argparse.Namespace) -> int:
    from keyferry.cli.frame.absent import absent_files_hint
    from keyferry.errors import ConfigError

    if isinstance(error, ConfigError):
        return report_failure(error, hint=_next_step(error, args))
    return report_failure(error, hint=absent_files_hint(args))


def _next_step(error: ConfigError, args: argparse.Namespace) -> str:
    from copy import copy

    from keyferry.cli.frame.paste import command_line
    from keyferry.errors import KubeconfigError

    if isinstance(error, KubeconfigError):
        from keyferry.cli.frame.cluster_arguments import kubeconfig_hint

        return kubeconfig_hint(error, args)
    if error.bin_dir:
        args = copy(args)
        args.bin_dir = error.bin_dir
    files = sorted({problem.file for problem in error.problems if problem.line is not None})
    if not files:
        places = ", ".join(sorted({os.path.abspath(problem.file) for problem in error.problems}))
        return f"looked for {places}; to see what the kubelet of this machine uses, try: keyferry doctor"
    return f"a kubelet does not start with this config; try: {command_line(args, 'lint', *files)}"
