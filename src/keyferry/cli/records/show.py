"""Show all records of one image."""

from __future__ import annotations

from collections.abc import Iterator

from keyferry._core.secrets import printable
from keyferry.api.kubeletconfig.records import ImagePulledRecord
from keyferry.cli.exits import Exit
from keyferry.cli.records.arguments import (
    add_record_arguments,
    open_to_read,
)
from keyferry.cli.records.output import entry_lines, record_document, time_text
from keyferry.pulls.records.access import find_access
from keyferry.pulls.records.records import Records
from keyferry.show.documents import make_document, render_document
from keyferry.show.writer import Lines, report, style

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse


DESCRIPTION = """\
Show all records of one image: the file, all names that the image was pulled under, and the credentials that
it was pulled with. Credential hashes are shortened.

Exit code 1 means that there is no record."""

EXAMPLES = """\
examples:
  sudo keyferry records show registry.example/team/app:v1
  sudo keyferry records show sha256:0b4bd1c5a...        # by the runtime's id
  sudo keyferry records show busybox -o yaml"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of ``keyferry records show``."""
    parser.add_argument("image", metavar="IMAGE", help="the image, as a pod names it, or the runtime's id")
    add_record_arguments(parser, reveal=True)


def run(args: argparse.Namespace) -> int:
    """Print the records of the image."""
    records = open_to_read(args)
    listing = records.list()
    accesses = find_access(listing.believed, args.image)
    found = list({access.record.image_ref: access.record for access in accesses}.values())
    report(*listing.problems, *listing.strays)
    if not found:
        report(f"found no record of {args.image!r}")
    if args.output == "table":
        for record in found:
            print(Lines("\n".join(_lines(records, record, reveal=args.reveal))))
    else:
        document = make_document(
            "PullRecordList",
            root=args.root,
            records=[record_document(record, reveal=args.reveal) for record in found],
        )
        print(render_document(document, args.output))
    return Exit.OK if found else Exit.NO


def _lines(records: Records, record: ImagePulledRecord, *, reveal: bool) -> Iterator[str]:
    yield style(printable(record.image_ref), "bold")
    yield f"  file     {printable(records.files.record_path(record.image_ref))}"
    yield f"  updated  {time_text(record) or 'never'}"
    for name, entry in sorted(record.credential_mapping.items()):
        yield f"  pulled as {printable(name)}, for"
        yield from (f"    {printable(line)}" for line in entry_lines(entry, reveal=reveal))
    if not record.credential_mapping:
        yield "  pulled by a process that died: it names no credentials, so every access is verified"
