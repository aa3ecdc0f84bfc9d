"""Send a GET request for any path of a cluster's server, as the context's user."""

from __future__ import annotations

from keyferry._core.user_info import hide_in_text
from keyferry.cli.exits import Exit
from keyferry.cli.frame.paste import command_line
from keyferry.cli.options import add_session_arguments, open_session
from keyferry.show.writer import report

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse

DESCRIPTION = """\
Send a GET request for any path of a cluster's server, as the context's user. The response's body is written
to standard output as it arrives, for every status; if the status is not 2xx, the exit code is 5.

PATH is relative to the server's URL and begins with a slash. --timeout limits the time until the response
begins and each pause in its body; with watch=true or follow=true, pauses are not limited. Redirects to
another server are not followed, so that no other server gets the credential."""

EXAMPLES = """\
examples:
  keyferry kube raw /version
  keyferry kube raw /api/v1/namespaces --context prod | jq '.items[].metadata.name'
  keyferry kube raw '/api/v1/pods?watch=true'"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of ``keyferry kube raw``."""
    parser.add_argument(
        "path", type=_path, metavar="PATH", help="the path, such as /version or /api/v1/nodes"
    )
    add_session_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Send the request, and write the response to standard output."""
    from keyferry.clusters.request import request
    from keyferry.show.writer import write_exact

    session = open_session(args)
    with request(
        session, args.path, timeout_seconds=args.timeout, is_endless=_is_endless(args.path)
    ) as reply:
        for chunk in reply.chunks():
            write_exact(chunk)
    if reply.is_success:
        return Exit.OK
    # The command in the advice repeats the URL of the proxy.
    report(hide_in_text(f"the server responded {reply.status} {reply.reason}{_advice(args, reply.status)}"))
    return Exit.REFUSED


def _advice(args: argparse.Namespace, status: int) -> str:
    if status == 401:
        hint = f"to see what to do, try: {command_line(args, 'kube explain')}"
        return f": it did not accept the credential; {hint}"
    if status == 403:
        hint = f"to see the user, try: {command_line(args, 'kube whoami')}"
        return f": this user may not read the path; {hint}"
    return "; a redirect to another server is not followed" if 300 <= status < 400 else ""


def _is_endless(path: str) -> bool:
    query = path.partition("?")[2].split("&")
    return any(f"{name}={value}" in query for name in ("watch", "follow") for value in ("true", "1"))


def _path(text: str) -> str:
    if not text.startswith("/"):
        from argparse import ArgumentTypeError

        raise ArgumentTypeError(f"{text!r} does not begin with '/'")
    return text
