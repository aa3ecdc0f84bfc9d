"""Arguments that several commands share, and a parser whose help is written to be read."""

import argparse
import sys
from collections.abc import Sequence
from types import ModuleType
from typing import NoReturn

from keyferry.cli.frame.commands import Exit, WrongUsage
from keyferry.show.report import report
from keyferry.show.writer import Lines

TYPE_CHECKING = False
if TYPE_CHECKING:
    from _typeshed import SupportsWrite


class Parser(argparse.ArgumentParser):
    """A parser that says in one line what is wrong and what to type next."""

    def error(self, message: str) -> NoReturn:
        """Report wrong usage and leave with exit code 2."""
        report(f"{message}; try '{self.prog} --help'")
        raise SystemExit(Exit.USAGE)

    def _print_message(self, message: str, file: "SupportsWrite[str] | None" = None) -> None:
        """Help is ours, line breaks included."""
        if message:
            (file or sys.stdout).write(Lines(message))


def make_parser(prog: str, module: ModuleType) -> Parser:
    """The parser of a command: its docstring is the description, its EXAMPLES the epilogue."""
    parser = Parser(
        prog=prog,
        description=getattr(module, "DESCRIPTION", module.__doc__),
        epilog=getattr(module, "EXAMPLES", None),
        formatter_class=_HelpFormatter,
        allow_abbrev=False,
    )
    module.add_arguments(parser)
    return parser


def run_command(prog: str, module: ModuleType, words: Sequence[str]) -> int:
    """Run a command; leaves with exit code 2 after wrong usage.

    What follows ``--`` is for a plugin where the command has one to run.
    """
    parser = make_parser(prog, module)
    at = len(words)
    if "--" in words and getattr(module, "TAKES_REST", False):
        at = words.index("--")
    parser.set_defaults(rest=words[at + 1 :])
    try:
        return int(module.run(parser.parse_args(words[:at])))
    except WrongUsage as problem:
        parser.error(str(problem))


class _HelpFormatter(argparse.RawDescriptionHelpFormatter):
    """Help of one width and one form under every version of Python: the docs are compared with it."""

    def __init__(self, prog: str, **_: object) -> None:
        super().__init__(prog, max_help_position=34, width=100)

    def _format_action_invocation(self, action: argparse.Action) -> str:
        """``-o, --output FORMAT``, where older Pythons repeat the value's name for each spelling."""
        if not action.option_strings or action.nargs == 0:
            return super()._format_action_invocation(action)
        value = self._format_args(action, self._get_default_metavar_for_optional(action))
        return f"{', '.join(action.option_strings)} {value}"


def add_config_arguments(parser: argparse.ArgumentParser) -> None:
    """Where the provider config and the plugins are."""
    # Here, and not above: commands about clusters have no use for it.
    from keyferry.images.node.node import Node

    parser.set_defaults(node=Node())
    group = parser.add_argument_group("where the config is")
    group.add_argument(
        "--config",
        "--image-credential-provider-config",
        metavar="PATH",
        help="provider config, a file or a directory (default: KEYFERRY_CONFIG, else what this node uses)",
    )
    group.add_argument(
        "--bin-dir",
        "--image-credential-provider-bin-dir",
        metavar="DIR",
        help="directory of the plugins (default: KEYFERRY_BIN_DIR, else what this node uses)",
    )


def add_output_argument(parser: argparse.ArgumentParser, formats: tuple[str, ...]) -> None:
    """How the result is written; the first format is the default."""
    parser.add_argument(
        "-o",
        "--output",
        choices=formats,
        default=formats[0],
        metavar="FORMAT",
        help=f"one of {', '.join(formats)} (default: {formats[0]})",
    )


def add_run_arguments(parser: argparse.ArgumentParser) -> None:
    """How plugins are run."""
    group = parser.add_argument_group("how plugins are run")
    group.add_argument(
        "--timeout",
        type=parse_seconds,
        default=60.0,
        metavar="SECONDS",
        help="how long a plugin may take (default: 60, as the kubelet's)",
    )
    group.add_argument(
        "--withhold-env",
        action="append",
        default=[],
        metavar="NAME",
        help="a variable of their environment that plugins do not get; may be repeated",
    )
    group.add_argument(
        "--env-from",
        choices=("kubelet", "self"),
        metavar="WHOM",
        help="whose environment plugins get: kubelet, or self for this process "
        "(default: the running kubelet's, unless the config and the bin dir are both given)",
    )


def parse_seconds(text: str) -> float:
    """A number of seconds on the command line."""
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < 86_400:  # a day
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds between 0 and 86400")
    return seconds
