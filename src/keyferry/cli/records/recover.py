"""Complete the records of pulls whose process died."""

from __future__ import annotations

from collections.abc import Sequence

from keyferry.cli.exits import Exit, WrongUsage
from keyferry.cli.frame.node_settings import add_no_kubelet_argument
from keyferry.cli.records.arguments import (
    add_image_arguments,
    add_record_arguments,
    open_to_write,
    present_images,
)
from keyferry.cli.records.output import short_reference
from keyferry.pulls.records.maintenance import PresentImage, Recovery, match_intents
from keyferry.pulls.records.records import Records
from keyferry.show.documents import make_document, render_document
from keyferry.show.text import fitting_table
from keyferry.show.writer import report

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse


DESCRIPTION = """\
Complete the records of pulls whose process died, as a kubelet does when it starts. An image that is present
gets a record without credentials, so that each pod's access is verified, and the intent of its pull is removed.
The intent stays if the image is not present or if the process of the pull is still running.

The command requires the list of present images (--cri, --images). Names must be equal in every character.
Without --yes, the pulls are only listed. While a kubelet uses the root, --yes is refused.

Exit code 0 means that nothing is left to complete; 1 that --yes would complete records."""

EXAMPLES = """\
examples:
  sudo keyferry records recover --cri auto
  sudo keyferry records recover --cri unix:///run/containerd/containerd.sock --yes"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of ``keyferry records recover``."""
    add_image_arguments(parser)
    parser.add_argument("--yes", action="store_true", help="complete the records")
    add_record_arguments(parser)
    add_no_kubelet_argument(parser)


def run(args: argparse.Namespace) -> int:
    """Complete the records, or list those that ``--yes`` would complete."""
    images = present_images(args)
    if images is None:
        raise WrongUsage("the present images are unknown; give --cri or --images")
    records = open_to_write(args)
    recovery = records.recover(lambda: images) if args.yes else _foresee(records, images)
    report(*recovery.problems)
    if args.output == "table":
        _print_table(recovery)
    else:
        print(render_document(_document(args, recovery), args.output))
    number = len(recovery.recovered)
    done = "completed" if args.yes else "would be completed" + "; complete them with --yes" * bool(number)
    report(f"{number} of {number + len(recovery.left)} pulls {done}")
    return Exit.NO if number and not args.yes else Exit.OK


def _foresee(records: Records, images: Sequence[PresentImage]) -> Recovery:
    listing = records.list_intents()
    waiting = {intent.image for intent in listing.values}
    recovered = tuple(match_intents(waiting, images))
    left = waiting - {image for image, _ in recovered}
    return Recovery(recovered=recovered, left=tuple(sorted(left)), problems=listing.problems)


def _document(args: argparse.Namespace, recovery: Recovery) -> dict[str, object]:
    return make_document(
        "PullRecovery",
        root=args.root,
        done=bool(args.yes),
        recovered=[{"image": image, "imageRef": ref} for image, ref in recovery.recovered],
        left=list(recovery.left),
        problems=[str(problem) for problem in recovery.problems],
    )


def _print_table(recovery: Recovery) -> None:
    rows = [(image, short_reference(ref), "nobody: access is verified") for image, ref in recovery.recovered]
    rows += [(image, "-", "not present: the intent stays") for image in recovery.left]
    if rows:
        print(fitting_table(("IMAGE", "REFERENCE", "MAY USE IT"), rows))
