"""Colours and debug logs are options of every command."""

from __future__ import annotations

import pytest

from keyferry.cli.frame.commands import COMMANDS, load_module
from keyferry.cli.frame.parser import make_parser
from keyferry.cli.frame.talk import add_talk_arguments
from keyferry.cli.frame.usual import Declarations

MODULES = [load_module(command.module) for command in COMMANDS.values()]
MODULES += [
    load_module(below.module) for module in MODULES for below in getattr(module, "SUBCOMMANDS", {}).values()
]


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__)
def test_every_command_has_both(module: object) -> None:
    """By argparse, and by the quick reader of usual command lines."""
    assert {"-v", "--verbose", "--color"} <= make_parser("keyferry", module)._option_string_actions.keys()  # type: ignore[arg-type] # modules
    declared = Declarations()
    module.add_arguments(declared)  # type: ignore[attr-defined] # as above
    add_talk_arguments(declared, module)  # type: ignore[arg-type] # as above
    assert {"-v", "--verbose", "--color"} <= declared.options.keys()
