"""List the recorded images, who may use them, and unfinished pulls."""

from __future__ import annotations

from keyferry.api.kubeletconfig.records import ImagePulledRecord, ImagePullIntent
from keyferry.cli.exits import Exit
from keyferry.cli.records.arguments import (
    add_record_arguments,
    open_to_read,
)
from keyferry.cli.records.output import (
    problem_document,
    record_document,
    short_reference,
    time_text,
)
from keyferry.pulls.records.decision import describe_entry
from keyferry.pulls.records.lookups import Listing
from keyferry.show.documents import make_document, render_document
from keyferry.show.text import fitting_table
from keyferry.show.writer import report

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse


DESCRIPTION = """\
List the recorded images by the names that they were pulled under, and who may use them; then the unfinished
pulls. Credential hashes are shortened. Nothing is written or locked.

Exit code 1 means that a file is not trusted or not valid; the kubelet verifies access to its images again."""

EXAMPLES = """\
examples:
  sudo keyferry records list
  keyferry records list --root ./copy-of-kubelet-root -o json | jq '.records[].names[].name'"""

_HEADER = ("IMAGE", "WHO", "UPDATED", "REFERENCE")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of ``keyferry records list``."""
    add_record_arguments(parser, reveal=True)


def run(args: argparse.Namespace) -> int:
    """Print the records and the unfinished pulls."""
    records = open_to_read(args)
    found, intents = records.list(), records.list_intents()
    problems = (*found.problems, *found.strays, *intents.problems)
    if args.output == "table":
        _print_table(found, intents)
    else:
        document = make_document(
            "PullRecordList",
            root=args.root,
            records=[record_document(record, reveal=args.reveal) for record in found.believed],
            underWay=[intent.image for intent in intents.values],
            problems=[problem_document(problem) for problem in problems],
        )
        print(render_document(document, args.output))
    report(*problems)
    return Exit.NO if problems else Exit.OK


def _print_table(found: Listing[ImagePulledRecord], intents: Listing[ImagePullIntent]) -> None:
    rows = [row for record in found.believed for row in _rows(record)]
    rows += [[intent.image, "unfinished pull", "", ""] for intent in intents.values]
    if rows:
        print(fitting_table(_HEADER, sorted(rows)))


def _rows(record: ImagePulledRecord) -> list[list[str]]:
    place = [time_text(record), short_reference(record.image_ref)]
    if not record.credential_mapping:
        return [["(no name)", "nobody", *place]]
    return [[name, describe_entry(entry), *place] for name, entry in record.credential_mapping.items()]
