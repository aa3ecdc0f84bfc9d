"""Print your identity as a cluster's server sees it."""

from __future__ import annotations

from keyferry._core.user_info import hide_in_url
from keyferry.cli.exits import Exit
from keyferry.cli.options import add_output_argument, add_session_arguments, open_session
from keyferry.clusters.api_calls import Review, review
from keyferry.clusters.session import ClusterSession
from keyferry.show.documents import make_document, render_document
from keyferry.show.text import fitting_table
from keyferry.show.writer import report

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse


DESCRIPTION = """\
Print your identity as a cluster's server sees it: user name, groups and extra fields, from a
SelfSubjectReview (Kubernetes 1.28 and later; 1.27 with the beta API). Any authenticated user may create one."""

EXAMPLES = """\
examples:
  keyferry kube whoami
  keyferry kube whoami --context prod --user admin
  keyferry kube whoami -o json | jq -r .username"""

FORMATS = ("table", "json", "yaml")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of ``keyferry kube whoami``."""
    add_output_argument(parser, FORMATS)
    add_session_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Send the review to the server, and print its result."""
    session = open_session(args)
    answer = review(session, timeout_seconds=args.timeout)
    if answer.status:
        report(f"the server responded {answer.status} {answer.problem}")
        return Exit.REFUSED
    print(_write(args.output, session, answer))
    return Exit.OK


def _write(output: str, session: ClusterSession, answer: Review) -> str:
    if output == "table":
        return fitting_table(("ATTRIBUTE", "VALUE"), _rows(answer))
    document = _document(session, answer)
    return render_document(document, output)


def _rows(answer: Review) -> list[tuple[str, str]]:
    rows = [("user", answer.username)]
    if answer.uid:
        rows.append(("uid", answer.uid))
    rows += [("group", group) for group in answer.groups]
    rows += [(f"extra {name}", value) for name, values in answer.extra.items() for value in values]
    return rows


def _document(session: ClusterSession, answer: Review) -> dict[str, object]:
    return make_document(
        "ClusterIdentity",
        context=session.config.context,
        server=hide_in_url(session.server),
        username=answer.username,
        uid=answer.uid,
        groups=list(answer.groups),
        extra={name: list(values) for name, values in answer.extra.items()},
    )
