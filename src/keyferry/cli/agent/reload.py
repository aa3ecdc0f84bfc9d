"""Make the agent read all configs again."""

from __future__ import annotations

from keyferry.agent.management import ask_for_document
from keyferry.cli.agent.arguments import add_socket_argument, socket_path
from keyferry.cli.exits import Exit
from keyferry.show.writer import report

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse

DESCRIPTION = """\
Make the agent read all configs again, at once. A config with an error is refused, its problems are printed,
and the agent goes on with the old one. Answers of providers that have not changed stay cached."""

EXAMPLES = """\
examples:
  sudo keyferry agent reload

exit codes: 0 the configs are in force; 1 they are refused; 3 there is no agent, or it refuses this user"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of ``keyferry agent reload``."""
    add_socket_argument(parser)


def run(args: argparse.Namespace) -> int:
    """Reload, and print what came of it."""
    answer = ask_for_document(socket_path(args), "POST", "/v1/reload")
    problems, notes = answer.get("problems"), answer.get("notes")
    report(*(notes if isinstance(notes, list) else ()))
    if answer.get("applied") is True:
        report(f"reloaded, config hash {answer.get('hash')}")
        return Exit.OK
    report(*(problems if isinstance(problems, list) else ()), "the agent keeps its old config")
    return Exit.NO
