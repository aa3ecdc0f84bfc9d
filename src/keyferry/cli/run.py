"""The table of commands, and how one is run: parse its words, call it, report its errors."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from types import ModuleType

from keyferry._core.host_root import use_host_root
from keyferry._core.values import Value, field, replace
from keyferry.cli.exits import WrongUsage, leave_for_usage, report_failure
from keyferry.cli.parser import make_parser
from keyferry.errors import KeyferryError
from keyferry.show.writer import ColorChoice, choose_color, report


class Entry(Value):
    """A line of a table of commands: a summary, and the module, which is imported only when the command runs."""

    module: str
    summary: str


class Command(Value):
    """A command: the texts of its help, how it declares its arguments, and how it runs.

    A module that is one command has them as ``DESCRIPTION``, ``EXAMPLES``, ``add_arguments`` and ``run``, and a group
    has ``SUBCOMMANDS``. With *takes_rest*, the words after ``--`` are those of a plugin, in ``args.rest``. A command
    with *has_verbose* declares ``-v`` itself. With *takes_options_between*, options may stand between its arguments.
    """

    summary: str
    description: str
    examples: str
    add_arguments: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.Namespace], int]
    subcommands: Mapping[str, Entry | Command] = field(default_factory=dict)
    takes_rest: bool = False
    has_verbose: bool = False
    takes_options_between: bool = False


# How the command line is called as kubectl's plugin.
KUBECTL = "kubectl keyferry"
COMMANDS = {
    "get": Entry(
        module="keyferry.cli.get",
        summary="print the credentials for an image, in the order the kubelet tries them",
    ),
    "explain": Entry(
        module="keyferry.cli.explain",
        summary="explain why the kubelet has, or does not have, credentials for an image",
    ),
    "can-pull": Entry(
        module="keyferry.cli.can_pull", summary="check with the registry whether an image can be pulled"
    ),
    "pull": Entry(
        module="keyferry.cli.pull",
        summary="pull images as the kubelet does, and write its pull records",
    ),
    "doctor": Entry(
        module="keyferry.cli.doctor",
        summary="check this machine as a node, and name the next command to type",
    ),
    "lint": Entry(
        module="keyferry.cli.lint",
        summary="list every problem of a config file, with line and column",
    ),
    "diff": Entry(
        module="keyferry.cli.diff",
        summary="show what changes between two provider configs, and for which images",
    ),
    "records": Entry(
        module="keyferry.cli.records",
        summary="show and maintain the records of who may use the images of this node",
    ),
    "kube": Entry(
        module="keyferry.cli.kube",
        summary="authenticate to any cluster that kubectl can reach, and explain failures",
    ),
    "plugin": Entry(
        module="keyferry.cli.plugin.group", summary="create, test, trace and install credential plugins"
    ),
    "agent": Entry(
        module="keyferry.cli.agent",
        summary="run the node agent: one shared cache for everybody on this node",
    ),
    "bridge": Entry(
        module="keyferry.cli.bridge",
        summary="connect the kubelet and docker's tools to the node agent, reversibly",
    ),
    "demo": Entry(
        module="keyferry.cli.demo",
        summary="show six common problems and the commands that explain them, on this machine",
    ),
    "completion": Entry(
        module="keyferry.cli.completion", summary="print the completion script for bash, zsh or fish"
    ),
}


def spell_as_called(prog: str, text: str) -> str:
    """Return the help *text* with the commands spelled as the user called this one: as *prog* begins.

    Those with sudo stay, since they are for nodes. Commands to paste, in results and hints, are not changed: they begin
    with ``keyferry``, which is installed beside kubectl's plugin, so that they work everywhere.
    """
    if not prog.startswith(KUBECTL):
        return text
    names = "|".join((*COMMANDS, "COMMAND"))
    return re.sub(rf"(?<!sudo )(?<![\w./-])keyferry (?=(?:{names})\b)", f"{KUBECTL} ", text)


def load_command(*words: str) -> Command:
    """Import and return a command by its name, or a subcommand by its group and name."""
    name, *below = words
    command = _load(COMMANDS[name])
    return _load(command.subcommands[below[0]]) if below else command


def _load(entry: Entry | Command) -> Command:
    if isinstance(entry, Command):
        return entry
    module = _import(entry.module)
    return Command(
        summary=entry.summary,
        description=module.DESCRIPTION,
        examples=module.EXAMPLES,
        add_arguments=module.add_arguments,
        run=module.run,
        subcommands=getattr(module, "SUBCOMMANDS", {}),
        takes_rest=getattr(module, "TAKES_REST", False),
        has_verbose=getattr(module, "HAS_VERBOSE", False),
        takes_options_between=getattr(module, "TAKES_OPTIONS_BETWEEN", False),
    )


def _import(name: str) -> ModuleType:
    """Import and return the module *name*, without importlib, which would import warnings."""
    __import__(name)
    return sys.modules[name]


def run_command(
    prog: str,
    command: Command,
    words: Sequence[str],
    failed: Callable[[KeyferryError, argparse.Namespace], int],
) -> int:
    """Run a command and return its exit code; raise SystemExit with code 2 for wrong usage.

    *failed* reports an error of the command and returns the exit code.
    """
    rest: Sequence[str] = ()
    if command.takes_rest and "--" in words:
        at = words.index("--")
        words, rest = words[:at], words[at + 1 :]
    args = _parse(prog, command, words, argparse.Namespace(rest=rest, prog=prog))
    if args.color is not None:
        choose_color(ColorChoice(args.color))
    if args.verbose:
        _show_debug_logs()
    try:
        with use_host_root(vars(args).get("host_root") or ""):
            return int(command.run(args))
    except WrongUsage as problem:
        leave_for_usage(prog, str(problem))
    except KeyferryError as error:
        return failed(error, args)


def _parse(
    prog: str, command: Command, words: Sequence[str], given: argparse.Namespace
) -> argparse.Namespace:
    if words and words[0] in command.subcommands:
        # The parser of the subcommand reads the other words; that of its group has nothing to read.
        return argparse.Namespace(subcommand=words[0], words=words[1:], prog=prog, color=None, verbose=False)
    parser = make_parser(
        prog,
        replace(
            command,
            description=spell_as_called(prog, command.description),
            examples=spell_as_called(prog, command.examples),
        ),
    )
    # Otherwise argparse takes no second argument after an option.
    parse = parser.parse_intermixed_args if command.takes_options_between else parser.parse_args
    return parse(words, given)


def add_subcommand(parser: argparse.ArgumentParser, subcommands: Mapping[str, Entry | Command]) -> None:
    """Declare the subcommand of a group; the words after it go to its own parser."""
    parser.add_argument(
        "subcommand", choices=subcommands, metavar="SUBCOMMAND", help=f"one of {', '.join(subcommands)}"
    )
    words = parser.add_argument(
        "words", nargs="...", metavar="...", help="the subcommand's arguments and options"
    )
    words.required = False


def run_subcommand(
    args: argparse.Namespace,
    subcommands: Mapping[str, Entry | Command],
    find_hint: Callable[[KeyferryError, argparse.Namespace], str] = lambda _error, _args: "",
    edit: Callable[[str], str] = str,
) -> int:
    """Import and run a subcommand; report its errors, changed by *edit*, with the hint that *find_hint* returns."""

    def failed(error: KeyferryError, given: argparse.Namespace) -> int:
        return report_failure(error, edit, find_hint(error, given))

    command = _load(subcommands[args.subcommand])
    return run_command(f"{args.prog} {args.subcommand}", command, args.words, failed)


def _show_debug_logs() -> None:
    """Write the library's debug logs to standard error, with the milliseconds since now and the stage of each."""
    import logging
    from time import monotonic

    begun = monotonic()

    class Reporter(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            stage = record.name.removeprefix("keyferry.")
            report(f"{(monotonic() - begun) * 1000:.1f} ms: {stage}: {record.getMessage()}")

    logger = logging.getLogger("keyferry")
    logger.handlers = [Reporter()]
    logger.setLevel(logging.DEBUG)
    logger.propagate = False
