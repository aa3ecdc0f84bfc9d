"""Arguments that several commands share, and how a command is run with the words it was given."""

from keyferry.cli.frame.commands import WrongUsage, leave_for_usage
from keyferry.cli.frame.usual import Declarations, read_usual

TYPE_CHECKING = False  # spelled out: a start must not pay for typing
if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence
    from types import ModuleType


def run_command(prog: str, module: "ModuleType", words: "Sequence[str]") -> int:
    """Run a command; leaves with exit code 2 after wrong usage.

    What follows ``--`` is for a plugin where the command has one to run.
    """
    at = len(words)
    if "--" in words and getattr(module, "TAKES_REST", False):
        at = words.index("--")
    args = _parse(prog, module, words[:at])
    args.rest = words[at + 1 :]
    try:
        return int(module.run(args))
    except WrongUsage as problem:
        leave_for_usage(prog, str(problem))


def _parse(prog: str, module: "ModuleType", words: "Sequence[str]") -> "argparse.Namespace":
    declared = Declarations()
    module.add_arguments(declared)
    args = read_usual(declared, words)
    if args is not None:
        return args  # type: ignore[return-value] # names and their values, as a Namespace
    # The exception: argparse costs a start several milliseconds.
    from keyferry.cli.frame.parser import make_parser

    return make_parser(prog, module).parse_args(words)


def add_config_arguments(parser: "argparse.ArgumentParser") -> None:
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


def add_output_argument(parser: "argparse.ArgumentParser", formats: tuple[str, ...]) -> None:
    """How the result is written; the first format is the default."""
    parser.add_argument(
        "-o",
        "--output",
        choices=formats,
        default=formats[0],
        metavar="FORMAT",
        help=f"one of {', '.join(formats)} (default: {formats[0]})",
    )


def add_run_arguments(parser: "argparse.ArgumentParser") -> None:
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
        from argparse import ArgumentTypeError

        raise ArgumentTypeError(f"{text!r} is not a number of seconds between 0 and 86400")
    return seconds
