"""Settle pulls whose process died."""

from keyferry.cli.frame.commands import Exit, WrongUsage
from keyferry.cli.frame.node_settings import add_no_kubelet_argument
from keyferry.cli.records.arguments import (
    add_image_arguments,
    add_record_arguments,
    open_to_write,
    present_images,
)
from keyferry.cli.records.output import short_reference
from keyferry.pulls.records.maintenance import Recovery, match_intents
from keyferry.show.documents import make_document, render_document
from keyferry.show.report import report

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from keyferry.pulls.records.maintenance import PresentImage
    from keyferry.pulls.records.records import Records

DESCRIPTION = """\
Settle pulls that were begun and whose process died, as a kubelet does when it starts. An image that did
arrive gets a record that names nobody, so that its use is verified; the note of the pull goes. A pull
whose image is not there stays noted, and so does one whose process lives.

It needs the list of images that are there (--cri, --images). Names are compared as they are written.
Without --yes nothing is changed, only shown. While a kubelet uses the root, --yes is refused.

Exit code 0 says that nothing is, or was, to be settled or all of it was; 1 that --yes would settle something."""

EXAMPLES = """\
examples:
  sudo keyferry records recover --cri auto
  sudo keyferry records recover --cri unix:///run/containerd/containerd.sock --yes"""


def add_arguments(parser: "argparse.ArgumentParser") -> None:
    """The options of ``keyferry records recover``."""
    add_image_arguments(parser)
    parser.add_argument("--yes", action="store_true", help="settle them")
    add_record_arguments(parser)
    add_no_kubelet_argument(parser)


def run(args: "argparse.Namespace") -> int:
    """Recover, or show what would be."""
    images = present_images(args)
    if images is None:
        raise WrongUsage("which images are there? give --cri or --images")
    records = open_to_write(args)
    recovery = records.recover(lambda: images) if args.yes else _foresee(records, images)
    report(*recovery.problems)
    if args.output == "table":
        _print_table(recovery)
    else:
        print(render_document(_document(args, recovery), args.output))
    done = "settled" if args.yes else "would be settled; --yes does it"
    number = len(recovery.recovered)
    report(f"{number} of {number + len(recovery.left)} pulls {done}")
    return Exit.NO if number and not args.yes else Exit.OK


def _foresee(records: "Records", images: "Sequence[PresentImage]") -> Recovery:
    listing = records.list_intents()
    waiting = {intent.image for intent in listing.values}
    recovered = tuple(match_intents(waiting, images))
    left = waiting - {image for image, _ in recovered}
    return Recovery(recovered, tuple(sorted(left)), listing.problems)


def _document(args: "argparse.Namespace", recovery: Recovery) -> dict[str, object]:
    return make_document(
        "PullRecovery",
        root=args.root,
        done=bool(args.yes),
        recovered=[{"image": image, "imageRef": ref} for image, ref in recovery.recovered],
        left=list(recovery.left),
        problems=[str(problem) for problem in recovery.problems],
    )


def _print_table(recovery: Recovery) -> None:
    from keyferry.show.tables import table

    rows = [(image, short_reference(ref), "nobody: it is verified") for image, ref in recovery.recovered]
    rows += [(image, "-", "not there: it stays noted") for image in recovery.left]
    if rows:
        print(table(("IMAGE", "REFERENCE", "MAY USE IT"), rows))
