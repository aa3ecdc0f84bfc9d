"""What commands with subcommands share: ``keyferry kube``, ``keyferry plugin``, ``keyferry records``."""

import argparse
from collections.abc import Mapping
from importlib import import_module
from types import ModuleType

from keyferry.cli.frame.arguments import Parser, make_parser
from keyferry.cli.frame.commands import Command

__all__ = ["add_subcommand", "load_subcommand"]


def add_subcommand(parser: argparse.ArgumentParser, subcommands: Mapping[str, Command]) -> None:
    """The subcommand; what follows is for its own parser."""
    parser.add_argument(
        "subcommand", choices=subcommands, metavar="SUBCOMMAND", help=f"one of {', '.join(subcommands)}"
    )
    words = parser.add_argument(
        "words", nargs=argparse.REMAINDER, metavar="...", help="its arguments and options"
    )
    words.required = False


def load_subcommand(noun: str, name: str, subcommands: Mapping[str, Command]) -> tuple[ModuleType, Parser]:
    """The module of a subcommand, imported only now, and the parser for its words."""
    module = import_module(subcommands[name].module)
    parser = make_parser(f"keyferry {noun} {name}", module)
    module.add_arguments(parser)
    return module, parser
