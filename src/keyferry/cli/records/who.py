"""Show who may use an image on this node, and why."""

from __future__ import annotations

from collections.abc import Iterator

from keyferry._core.secrets import printable
from keyferry.cli.exits import Exit
from keyferry.cli.frame.node_settings import node_policy
from keyferry.cli.records.arguments import (
    add_record_arguments,
    open_to_read,
    resolve_root,
)
from keyferry.cli.records.output import entry_document, entry_lines, short_reference
from keyferry.errors import RecordError
from keyferry.explain.document import decision_document
from keyferry.pulls.records.access import Access, AccessMatch, find_access
from keyferry.pulls.records.decide import Decision
from keyferry.pulls.records.policy import DEFAULT, POLICIES
from keyferry.pulls.records.records import Records
from keyferry.show.documents import make_document, render_document
from keyferry.show.text import fold
from keyferry.show.writer import Lines, report, style

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse


DESCRIPTION = """\
Show who may use an image on this node without pulling it again: secrets (namespace, name, uid), service
accounts, or every pod; and the decision for a pod without credentials under the node's policy.

A record applies to one spelling of a name: a pull of 'busybox' is not recorded for
'docker.io/library/busybox'. Exit code 1 means that no record lets anybody use the image."""

EXAMPLES = """\
examples:
  sudo keyferry records who registry.example/team/app:v1
  sudo keyferry records who busybox --policy AlwaysVerify -o json"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of ``keyferry records who``."""
    parser.add_argument("image", metavar="IMAGE", help="the image, as a pod names it, or the runtime's id")
    add_record_arguments(parser, reveal=True)
    add_policy_arguments(parser)


def add_policy_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the node's policy, with the kubelet's names."""
    group = parser.add_argument_group("the kubelet's imagePullCredentialsVerificationPolicy")
    group.add_argument(
        "--policy",
        choices=POLICIES,
        metavar="POLICY",
        help=f"one of {', '.join(POLICIES)} (default: that of the running kubelet with this root, else {DEFAULT})",
    )
    group.add_argument(
        "--allow",
        action="append",
        default=[],
        metavar="PATTERN",
        help="a pattern of preloadedImagesVerificationAllowlist; may be repeated",
    )


def run(args: argparse.Namespace) -> int:
    """Print who may use the image, and why."""
    policy = node_policy(args.policy, args.allow, resolve_root(args), args.node)
    records = open_to_read(args, policy)
    listing = records.list()
    found = find_access(listing.believed, args.image)
    report(*listing.problems, *listing.strays)
    stranger = _stranger(records, found, args.image)
    if args.output == "table":
        print(Lines("\n".join(_lines(args.image, found, stranger, reveal=args.reveal))))
    else:
        print(render_document(_document(args, found, stranger, listing.problems), args.output))
    is_known = any(
        not access.entry.is_empty for access in found if access.match is not AccessMatch.ANOTHER_SPELLING
    )
    if not is_known:
        report(f"found no record that lets anybody use {args.image!r}")
    return Exit.OK if is_known else Exit.NO


def _stranger(records: Records, found: tuple[Access, ...], image: str) -> Decision:
    """Return the decision for a pod without credentials, if the image is on the node."""
    if not found:
        return records.decide(image, image)
    first = found[0]
    # Another spelling is the same image in the runtime, so the decision reads that image's record.
    return records.decide(
        first.name if first.match is AccessMatch.REFERENCE else image, first.record.image_ref
    )


def _document(
    args: argparse.Namespace,
    found: tuple[Access, ...],
    stranger: Decision,
    problems: tuple[RecordError, ...],
) -> dict[str, object]:
    return make_document(
        "ImageAccess",
        image=args.image,
        access=[
            {
                "imageRef": access.record.image_ref,
                "name": access.name,
                "match": str(access.match),
                **entry_document(access.entry, reveal=args.reveal),
            }
            for access in found
        ],
        podWithoutCredentials=decision_document(stranger),
        unbelieved=len(problems),
    )


def _lines(image: str, found: tuple[Access, ...], stranger: Decision, *, reveal: bool) -> Iterator[str]:
    yield style(printable(image), "bold")
    for access in found:
        note = ""
        if access.match is AccessMatch.ANOTHER_SPELLING:
            note = ": another spelling, which applies only to pods that use it"
        name = access.name or "no name"
        text = f"as {printable(name)} ({short_reference(printable(access.record.image_ref))}){note}"
        yield from fold(text, "  ", "    ")
        for line in entry_lines(access.entry, reveal=reveal):
            yield from fold(printable(line), "    ", "      ")
    whom = f"a pod without credentials, under {stranger.policy.name}"
    if found:
        yield from fold(f"{whom}:", "  ", "    ")
    else:
        yield "  no record"
        unknown = (
            "cannot tell whether the image is on the node; look it up with 'keyferry explain --cri auto'"
        )
        yield from fold(unknown, "  ", "    ")
        yield from fold(f"{whom}, if the image is on the node:", "  ", "    ")
    for reason in stranger.reasons:
        yield from fold(f"{reason.stage}: {printable(reason.text)}", "    ", "      ")
