"""A GET on any path of a cluster's server, as the context's user."""

from keyferry.cli.frame.commands import Exit
from keyferry.cli.kube.arguments import add_session_arguments, open_session
from keyferry.show.report import report

TYPE_CHECKING = False  # spelled out: a start must not pay for typing, nor for argparse
if TYPE_CHECKING:
    import argparse

DESCRIPTION = """\
A GET on any path of a cluster's server, as the context's user. The body goes to standard output as it
arrives, whatever its status is; with a status other than 2xx the exit code is 5.

PATH counts from the server's URL and begins with a slash. --timeout is how long the server may take to
answer, and how long it may then be silent; with watch=true or follow=true it may be silent for good.
Redirects to another server are not followed, so the credential stays where it belongs."""

EXAMPLES = """\
examples:
  keyferry kube raw /version
  keyferry kube raw /api/v1/namespaces --context prod | jq '.items[].metadata.name'
  keyferry kube raw '/api/v1/pods?watch=true'"""


def add_arguments(parser: "argparse.ArgumentParser") -> None:
    """The options of ``keyferry kube raw``."""
    parser.add_argument("path", type=_path, metavar="PATH", help="such as /version or /api/v1/nodes")
    add_session_arguments(parser)


def run(args: "argparse.Namespace") -> int:
    """Ask, and pass on what comes."""
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
    report(f"the server said {reply.status} {reply.reason}{_advice(reply.status)}")
    return Exit.REFUSED


def _advice(status: int) -> str:
    if status == 401:
        return " (who are you?); 'keyferry kube explain' shows what it was given"
    if status == 403:
        return " (not for you); 'keyferry kube whoami' shows who you are"
    return "; a redirect to another server is not followed" if 300 <= status < 400 else ""


def _is_endless(path: str) -> bool:
    query = path.partition("?")[2].split("&")
    return any(f"{name}={value}" in query for name in ("watch", "follow") for value in ("true", "1"))


def _path(text: str) -> str:
    if not text.startswith("/"):
        from argparse import ArgumentTypeError

        raise ArgumentTypeError(f"{text!r} does not begin with '/'")
    return text
