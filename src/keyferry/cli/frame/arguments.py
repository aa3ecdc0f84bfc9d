"""Arguments that several commands share, and the function that parses them and runs a command."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import ModuleType

from keyferry.cli.frame.commands import WrongUsage, leave_for_usage
from keyferry.cli.frame.talk import add_talk_arguments, apply_talk
from keyferry.cli.frame.usual import Declarations, read_usual
from keyferry.errors import KeyferryError

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse


def run_command(
    prog: str,
    module: ModuleType,
    words: Sequence[str],
    failed: Callable[[KeyferryError, argparse.Namespace], int],
) -> int:
    """Run a command and return its exit code; raise SystemExit with code 2 for wrong usage.

    If the command runs a plugin, the words after ``--`` are the plugin's. *failed* reports an error of the command
    and returns the exit code.
    """
    at = len(words)
    if "--" in words and getattr(module, "TAKES_REST", False):
        at = words.index("--")
    args = _parse(prog, module, words[:at])
    args.rest = words[at + 1 :]
    apply_talk(args)
    try:
        return int(module.run(args))
    except WrongUsage as problem:
        leave_for_usage(prog, str(problem))
    except KeyferryError as error:
        return failed(error, args)


def _parse(prog: str, module: ModuleType, words: Sequence[str]) -> argparse.Namespace:
    declared = Declarations()
    module.add_arguments(declared)
    add_talk_arguments(declared, module)
    args = read_usual(declared, words)
    if args is not None:
        return args  # type: ignore[return-value] # names and their values, as a Namespace
    # Only here, because importing argparse takes several milliseconds.
    from keyferry.cli.frame.parser import make_parser

    parser = make_parser(prog, module)
    # Otherwise argparse takes no second argument after an option.
    is_mixed = getattr(module, "TAKES_OPTIONS_BETWEEN", False)
    return parser.parse_intermixed_args(words) if is_mixed else parser.parse_args(words)


def add_config_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options that locate the provider config and the plugins."""
    from keyferry.images.node.settings import Node

    parser.set_defaults(node=Node())
    group = parser.add_argument_group("location of the config")
    group.add_argument(
        "--config",
        "--image-credential-provider-config",
        metavar="PATH",
        help="provider config, a file or a directory (default: KEYFERRY_CONFIG, else the node's own)",
    )
    group.add_argument(
        "--bin-dir",
        "--image-credential-provider-bin-dir",
        metavar="DIR",
        help="directory of the plugins (default: KEYFERRY_BIN_DIR, else the node's own)",
    )


def add_output_argument(parser: argparse.ArgumentParser, formats: tuple[str, ...]) -> None:
    """Declare the output format; the first of *formats* is the default."""
    parser.add_argument(
        "-o",
        "--output",
        choices=formats,
        default=formats[0],
        metavar="FORMAT",
        help=f"one of {', '.join(formats)} (default: {formats[0]})",
    )


def add_run_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options for running plugins."""
    group = parser.add_argument_group("running plugins")
    group.add_argument(
        "--timeout",
        type=parse_seconds,
        default=60.0,
        metavar="SECONDS",
        help="time limit of one plugin run (default: 60, as in the kubelet)",
    )
    group.add_argument(
        "--withhold-env",
        action="append",
        default=[],
        metavar="NAME",
        help="environment variable that is not passed to plugins; may be repeated",
    )
    group.add_argument(
        "--env-from",
        choices=("kubelet", "self"),
        metavar="WHOM",
        help="environment of the plugins: kubelet, or self for that of this process "
        "(default: kubelet if one is running, unless --config and --bin-dir are both given)",
    )


def add_agent_argument(parser: argparse.ArgumentParser) -> None:
    """Declare the node agent that is asked before a plugin is run."""
    group = parser.add_argument_group("node agent")
    group.add_argument(
        "--agent",
        type=parse_agent,
        metavar="WHICH",
        help="ask this agent before a plugin is run: auto, off, or its socket; what it has for another config is not "
        "used (default: KEYFERRY_AGENT, else auto)",
    )


def parse_agent(text: str) -> str:
    """Return *text* if it is ``auto``, ``off`` or the path of a socket; raise ArgumentTypeError if not."""
    from keyferry.images.provider.agent import check_agent

    try:
        return check_agent(text)
    except ValueError:
        pass
    from argparse import ArgumentTypeError

    raise ArgumentTypeError(f"{text!r} is neither auto nor off nor the absolute path of a socket")


def parse_seconds(text: str) -> float:
    """Return the number of seconds in *text*; raise ArgumentTypeError if it is not between 0 and a day."""
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < 86_400:  # a day
        from argparse import ArgumentTypeError

        raise ArgumentTypeError(f"{text!r} is not a number of seconds between 0 and 86400")
    return seconds
