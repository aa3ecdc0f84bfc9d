"""Print a link to the agent's page."""

from __future__ import annotations

import webbrowser

from keyferry.agent.management import ask_for_page_link
from keyferry.cli.agent.arguments import add_socket_argument, socket_path
from keyferry.cli.exits import Exit
from keyferry.show.writer import report

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse

DESCRIPTION = """\
Print a link to the agent's page: whether all is well, each provider, what is cached and until when, the last
requests and their reasons, reloads, who asked; and an explanation of any image from what is cached. The page
shows no secret, and looking at it runs no plugin.

The agent serves the page only if it was started with --page 127.0.0.1:PORT, and to browsers on its own machine.
Users who may manage the agent get a link. It works once, within a minute; the browser that opens it may see the
page for 12 hours, until the agent restarts or the user's right ends. From another machine, forward the port
under the same number (ssh -L 7475:127.0.0.1:7475 NODE), get the link on the node, and open it where you are.

With --open, the link is handed to a browser here, if the agent's socket is one of root or of this user. Other
users of this machine may see it among the running programs for a moment; it works once, and the link of a user
other than root is for this user alone."""

EXAMPLES = """\
examples:
  sudo keyferry agent page
  keyferry agent page --open
  sudo keyferry agent run --page 127.0.0.1:7475

exit codes: 0 the link is printed; 3 there is no agent or no page, or it refuses this user"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of ``keyferry agent page``."""
    add_socket_argument(parser)
    parser.add_argument("--open", action="store_true", help="open the link in a browser, as well")


def run(args: argparse.Namespace) -> int:
    """Print a link, and open it on request."""
    url, until = ask_for_page_link(socket_path(args), is_opened=args.open)
    print(url)
    report(f"the link works once, until {until}")
    if args.open:
        _open(url)
    return Exit.OK


def _open(url: str) -> None:
    if not webbrowser.open(url):
        report("no browser was found; open the link by hand")
