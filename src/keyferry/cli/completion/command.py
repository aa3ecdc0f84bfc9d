"""The completion script for bash, zsh or fish."""

from __future__ import annotations

import argparse

from keyferry.cli.completion.bash import bash
from keyferry.cli.completion.fish import fish
from keyferry.cli.completion.zsh import zsh
from keyferry.cli.exits import Exit
from keyferry.show.writer import Lines

DESCRIPTION = """\
Print a completion script, generated from the commands and options of this version. It completes commands,
subcommands, options, their values, plugins, codes and contexts; zsh and fish also show a description of each."""

EXAMPLES = """\
examples:
  source <(keyferry completion bash)                                      # this shell; or ~/.bashrc
  keyferry completion zsh > "${fpath[1]}/_keyferry"                       # then start a new zsh
  keyferry completion fish > ~/.config/fish/completions/keyferry.fish"""

_SCRIPTS = {"bash": bash, "zsh": zsh, "fish": fish}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of ``keyferry completion``."""
    parser.add_argument("shell", choices=tuple(_SCRIPTS), help="the shell that reads the script")


def run(args: argparse.Namespace) -> int:
    """Print the completion script for the chosen shell."""
    print(Lines(_SCRIPTS[args.shell]()), end="")
    return Exit.OK
