"""``keyferry explain`` of many pods: print those that wait for an image, by cause, once or again and again."""

from __future__ import annotations

import sys
import time

from keyferry._core.values import replace
from keyferry.cli.exits import Exit
from keyferry.cli.image_arguments import choose_wait
from keyferry.errors import ClusterAuthError
from keyferry.explain.cluster.causes import WaitingPods, explain_cluster
from keyferry.explain.cluster.text import change_lines, render_waiting
from keyferry.explain.explanation import PullVerdict
from keyferry.show.writer import Lines, Output, report
from keyferry.workloads.request import Request
from keyferry.workloads.sources import read_secret_files

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from typing import Never

# The pause between two lists, and how many times longer than a list it is at least: a large cluster is not asked often.
_PAUSE_SECONDS, _PAUSES_PER_LIST = 5.0, 4
_EXITS = {PullVerdict.YES: Exit.OK, PullVerdict.NO: Exit.NO, PullVerdict.UNKNOWN: Exit.UNKNOWN}


def print_waiting(args: argparse.Namespace, request: Request) -> int:
    """Print the pods that wait for an image, and return the exit code."""
    found = explain_cluster(request, wait=choose_wait())
    print(_shown(args, found))
    return _EXITS[found.verdict]


def watch_waiting(args: argparse.Namespace, request: Request) -> Never:
    """Print the pods that wait, and then what changes, until interrupted; a server that is away is asked again."""
    is_redrawn = isinstance(sys.stdout, Output) and sys.stdout.isatty()
    # What comes through a pipe is there once.
    request = replace(request, secret_objects=read_secret_files(request))
    before: WaitingPods | None = None
    while True:
        begun = time.monotonic()
        try:
            found = explain_cluster(request, wait=choose_wait() if before is None else None)
        except ClusterAuthError as error:
            if before is None:
                raise
            report(f"{error}; it is asked again")
        else:
            _print_change(args, before, found, is_redrawn=is_redrawn)
            before = found
        pause = max(_PAUSE_SECONDS, _PAUSES_PER_LIST * (time.monotonic() - begun))
        time.sleep(args.interval or pause)


def _print_change(
    args: argparse.Namespace, before: WaitingPods | None, found: WaitingPods, *, is_redrawn: bool
) -> None:
    if is_redrawn and isinstance(sys.stdout, Output):
        sys.stdout.clear_screen()
    if is_redrawn or before is None:
        print(_shown(args, found), flush=True)
        return
    lines = list(change_lines(before, found))
    if lines and args.output in ("json", "yaml"):
        print(_shown(args, found), flush=True)
        return
    clock = time.strftime("%H:%M:%S", time.localtime(found.now))
    for line in lines:
        print(f"{clock} {line}", flush=True)


def _shown(args: argparse.Namespace, found: WaitingPods) -> Lines:
    if args.output in ("json", "yaml"):
        from keyferry.explain.document import waiting_document
        from keyferry.show.documents import render_document

        return render_document(waiting_document(found), args.output)
    return render_waiting(found, is_wide=args.output == "wide")
