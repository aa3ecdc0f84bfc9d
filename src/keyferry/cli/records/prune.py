"""Remove the records of images that are no longer present."""

from __future__ import annotations

import os

from keyferry._core.clock import time_ns
from keyferry._core.gotext import go_strerror
from keyferry.api.meta import parse_time
from keyferry.cli.exits import Exit, WrongUsage
from keyferry.cli.frame.node_settings import add_no_kubelet_argument
from keyferry.cli.records.arguments import (
    add_image_arguments,
    add_record_arguments,
    open_to_write,
    present_images,
)
from keyferry.cli.records.output import record_document, short_reference, time_text
from keyferry.errors import EnvironmentProblem, TimeError
from keyferry.pulls.records.maintenance import Pruning
from keyferry.show.documents import make_document, render_document
from keyferry.show.text import fitting_table
from keyferry.show.writer import report

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse


DESCRIPTION = """\
Remove the records of images that the node no longer has, as a kubelet does after image garbage collection.
The command requires the list of present images (--cri, --images, --image-id). It removes only records whose
last change is older than that list: a later change belongs to a later pull.

Without --yes, the records are only listed. Files that cannot be read are never removed. While a kubelet uses
the root, --yes is refused: the kubelet keeps its records in memory and prunes them itself.

Exit code 0 means that nothing is left to remove; 1 that --yes would remove records."""

EXAMPLES = """\
examples:
  crictl images -o json > images.json
  sudo keyferry records prune --images images.json
  sudo keyferry records prune --images images.json --yes
  sudo keyferry records prune --cri auto"""

_SECOND_NS = 1_000_000_000
_HEADER = ("REFERENCE", "UPDATED", "NAMES")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of ``keyferry records prune``."""
    add_image_arguments(parser)
    parser.add_argument(
        "--until",
        metavar="TIME",
        help="time of the list, such as 2026-01-02T03:04:05Z (default: the file's last change, else now)",
    )
    parser.add_argument("--yes", action="store_true", help="remove the records")
    add_record_arguments(parser)
    add_no_kubelet_argument(parser)


def run(args: argparse.Namespace) -> int:
    """Remove the records, or list those that ``--yes`` would remove."""
    until_ns = _until(args)  # before the list is read, because it lacks the images that are pulled meanwhile
    images = present_images(args)
    if images is None:
        raise WrongUsage("the present images are unknown; give --cri, --images or --image-id")
    if not images:
        raise EnvironmentProblem(f"{args.images or args.cri}: the list has no images, expected at least one")
    records = open_to_write(args)
    pruning = records.prune([image.id for image in images], until_ns, dry_run=not args.yes)
    report(*pruning.problems)
    if args.output == "table":
        _print_table(pruning)
    else:
        print(render_document(_document(args, pruning), args.output))
    number = len(pruning.removed)
    done = "removed" if args.yes else "would be removed" + "; remove them with --yes" * bool(number)
    report(f"{number} of {number + len(pruning.kept)} records {done}")
    return Exit.NO if number and not args.yes else Exit.OK


def _until(args: argparse.Namespace) -> int:
    """Return the time of the image list in whole seconds, as in records; only older records may be removed."""
    if args.until is not None:
        try:
            return parse_time(args.until)
        except TimeError as error:
            raise WrongUsage(f"--until: {error.message}") from None
    if args.images not in (None, "-"):
        return _changed_ns(args.images) // _SECOND_NS * _SECOND_NS
    return time_ns() // _SECOND_NS * _SECOND_NS


def _changed_ns(path: str) -> int:
    try:
        return os.stat(path).st_mtime_ns
    except OSError as error:
        raise EnvironmentProblem(f"{path}: cannot be read: {go_strerror(error)}") from None


def _document(args: argparse.Namespace, pruning: Pruning) -> dict[str, object]:
    return make_document(
        "PullRecordPruning",
        root=args.root,
        done=bool(args.yes),
        removed=[record_document(record) for record in pruning.removed],
        kept=len(pruning.kept),
        unbelieved=len(pruning.problems),
    )


def _print_table(pruning: Pruning) -> None:
    rows = [
        (short_reference(each.image_ref), time_text(each), ", ".join(sorted(each.credential_mapping)))
        for each in pruning.removed
    ]
    if rows:
        print(fitting_table(_HEADER, rows))
