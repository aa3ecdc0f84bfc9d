"""``keyferry can-pull`` of many pods: print what can be pulled again and what cannot, by reason."""

from __future__ import annotations

import sys

from keyferry.cli.can_pull import code_for_check
from keyferry.cli.exits import Exit, WrongUsage, most_severe
from keyferry.explain.cluster.prepare import many_contradiction
from keyferry.explain.cluster.pull_answers import ClusterPulls, PullGroup
from keyferry.explain.cluster.pull_document import pulls_document
from keyferry.explain.cluster.pull_text import junit_text, pulls_text
from keyferry.explain.cluster.pulls import Tell, check_cluster
from keyferry.explain.explanation import PullVerdict
from keyferry.show.documents import render_document
from keyferry.show.writer import Lines, LiveLines
from keyferry.workloads.request import Request

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse


def print_pulls(args: argparse.Namespace, request: Request) -> int:
    """Print whether the images of the selected pods can be pulled, and return the exit code."""
    if request.filename or request.service_account or request.service_account_token is not None:
        raise WrongUsage(
            "-f, --service-account and --service-account-token are for one image: expected an image, or a pod such as "
            "pod/web"
        )
    if why_not := many_contradiction(request):
        raise WrongUsage(why_not)
    with _Progress() as tell:
        found = check_cluster(request, max_requests=args.max_requests, tell=tell)
    if args.output == "junit":
        print(Lines(junit_text(found)), end="")
    elif args.output in ("json", "yaml"):
        print(render_document(pulls_document(found), args.output))
    else:
        print(pulls_text(found, is_wide=args.output == "wide"))
    return _code(found)


def _code(found: ClusterPulls) -> Exit:
    if found.verdict is PullVerdict.YES:
        return Exit.OK
    return most_severe([*map(_code_for, found.groups), *([] if found.is_complete else [Exit.UNKNOWN])])


def _code_for(group: PullGroup) -> Exit:
    if group.answer is not None and group.check is not None:
        return code_for_check(group.answer, group.check)
    return Exit.NO if group.verdict is PullVerdict.NO else Exit.UNKNOWN


class _Progress:
    """A line on a terminal that tells what is done, in place of the one before; it is gone at the end."""

    def __init__(self) -> None:
        self._lines = LiveLines() if sys.stderr.isatty() else None

    def __enter__(self) -> Tell:
        return self._draw

    def __exit__(self, *_: object) -> None:
        if self._lines is not None:
            self._lines.clear()

    def _draw(self, text: str) -> None:
        if self._lines is not None:
            self._lines.draw([text])
