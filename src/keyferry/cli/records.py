"""Show and maintain the kubelet's records of who may use the node's images: ``keyferry records``."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator, Sequence

from keyferry._core.clock import time_ns
from keyferry._core.gotext import go_strerror
from keyferry._core.secrets import printable
from keyferry.api.kubeletconfig.records import ImagePullCredentials, ImagePulledRecord, ImagePullIntent
from keyferry.api.meta import NO_TIME_NS, format_instant, parse_time
from keyferry.cli.exits import Exit, WrongUsage
from keyferry.cli.hints import absent_files_hint
from keyferry.cli.node_options import add_no_kubelet_argument, node_policy, node_root, node_runtime
from keyferry.cli.options import add_host_root_argument, add_output_argument
from keyferry.cli.run import Command, Entry, add_subcommand, run_subcommand
from keyferry.errors import EnvironmentProblem, RecordError, TimeError
from keyferry.explain.document import decision_document
from keyferry.images.node.kubelet import KUBELET_ROOT
from keyferry.images.node.settings import Node
from keyferry.pulls.records.access import (
    Access,
    AccessMatch,
    NodeImage,
    entry_document,
    find_access,
    parse_crictl_images,
)
from keyferry.pulls.records.decide import Decision, describe_entry
from keyferry.pulls.records.format import short_reference, shorten
from keyferry.pulls.records.policy import DEFAULT, POLICIES
from keyferry.pulls.records.records import (
    PresentImage,
    Pruning,
    Records,
    Recovery,
    inspect_records,
    match_intents,
)
from keyferry.pulls.records.store import Listing
from keyferry.show.documents import make_document, render_document
from keyferry.show.text import fitting_table, fold
from keyferry.show.writer import Lines, report, style
from keyferry.workloads.objects import read_file_or_input

DESCRIPTION = """\
Show and maintain the records of who may use the images of this node. Since Kubernetes 1.35, a kubelet records
in <root>/image_manager which credentials each image was pulled with. An image that is already present is then
used only by pods with the same credentials; for other pods the kubelet pulls it again to verify their access.

  list     list the recorded images, who may use them, and unfinished pulls
  show     show all records of one image
  who      show who may use an image on this node, and why
  plan     show what another verification policy would change, for given pods
  prune    remove the records of images that are no longer present; without --yes, only list them
  recover  complete the records of pulls whose process died; without --yes, only list them

Only 'prune --yes' and 'recover --yes' write. A file that another user could have written is never used; it
is reported on standard error. 'keyferry lint <root>/image_manager' lists every problem with a code."""

EXAMPLES = """\
examples:
  sudo keyferry records list
  sudo keyferry records who registry.example/team/app:v1
  sudo keyferry records plan --policy AlwaysVerify -f pod.yaml
  crictl images -o json > images.json; sudo keyferry records prune --images images.json"""

Json = dict[str, object]
_LIST_HEADER = ("IMAGE", "WHO", "UPDATED", "REFERENCE")
_SECOND_NS = 1_000_000_000
_PRUNE_HEADER = ("REFERENCE", "UPDATED", "NAMES")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the subcommand; the words after it go to its own parser."""
    add_subcommand(parser, SUBCOMMANDS)


def run(args: argparse.Namespace) -> int:
    """Run one subcommand."""
    return run_subcommand(args, SUBCOMMANDS, lambda _, given: absent_files_hint(given))


def add_record_arguments(
    parser: argparse.ArgumentParser, *, reveal: bool = False, writes: bool = False
) -> None:
    """Declare the records, and how they are shown; a command that *writes* does so only where its own files are."""
    add_output_argument(parser, ("table", "json", "yaml"))
    parser.set_defaults(node=Node(), no_kubelet=False)
    parser.add_argument(
        "--root",
        metavar="DIR",
        help=f"the kubelet's root (default: that of the running kubelet, else {KUBELET_ROOT})",
    )
    if not writes:
        add_host_root_argument(parser)
    if reveal:
        parser.add_argument(
            "--reveal",
            action="store_true",
            help="show full credential hashes; they have no salt, so weak passwords can be guessed from them",
        )


def add_image_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the images of the node."""
    group = parser.add_argument_group("images of the node")
    group.add_argument(
        "--images", metavar="FILE", help="the output of 'crictl images -o json'; '-' reads standard input"
    )
    group.add_argument(
        "--cri",
        metavar="SOCKET",
        default="",
        help="list the images of this container runtime, such as unix:///run/containerd/containerd.sock; 'auto' "
        "finds this node's",
    )
    group.add_argument(
        "--image-id",
        metavar="ID",
        action="append",
        default=[],
        help="the id of one image in the container runtime; may be repeated",
    )


def present_images(args: argparse.Namespace) -> tuple[PresentImage, ...] | None:
    """Return the images that the options name; None without such an option."""
    if args.images is None and not args.image_id and not args.cri:
        return None
    listed: tuple[PresentImage, ...] = ()
    if args.cri:
        from keyferry.pulls.cri import connect_runtime

        with connect_runtime(node_runtime(args.cri, args.node)) as runtime:
            listed = runtime.list_images()
    if args.images is not None:
        data = read_file_or_input(args.images)
        named = parse_crictl_images(data, "standard input" if args.images == "-" else args.images)
        listed = (*listed, *named)
    return (*listed, *(NodeImage(id=each) for each in args.image_id))


def _open_to_write(args: argparse.Namespace) -> Records:
    """Return the records of the root; ``--yes`` permits writing, which is refused if a kubelet uses the root."""
    return inspect_records(
        node_root(args.root, args.node),
        read_only=not args.yes,
        no_kubelet=args.no_kubelet,
        find_node=lambda: args.node,
    )


def _record_document(record: ImagePulledRecord, *, reveal: bool = False) -> Json:
    """Return a record as a document with stable fields."""
    return {
        "imageRef": record.image_ref,
        "lastUpdatedTime": _time_text(record) or None,
        "names": [
            {"name": name, **entry_document(entry, reveal=reveal)}
            for name, entry in sorted(record.credential_mapping.items())
        ],
    }


def _entry_lines(entry: ImagePullCredentials, *, reveal: bool = False) -> list[str]:
    """Return who may use an image under one name, one line for each."""
    if entry.node_pods_accessible:
        return ["every pod of the node: the image was pulled anonymously or with credentials of the node"]
    lines = [
        f"secret {secret.namespace}/{secret.name} (uid {secret.uid or 'none'}, credential "
        f"{(secret.credential_hash if reveal else shorten(secret.credential_hash)) or 'unknown'})"
        for secret in entry.kubernetes_secrets
    ]
    lines += [
        f"service account {account.namespace}/{account.name} (uid {account.uid or 'none'})"
        for account in entry.kubernetes_service_accounts
    ]
    return lines or ["nobody: every use is verified"]


def _time_text(record: ImagePulledRecord) -> str:
    """Return the time of a record's last change; empty if it has none."""
    return "" if record.last_updated_ns == NO_TIME_NS else format_instant(record.last_updated_ns)


def _add_list_arguments(parser: argparse.ArgumentParser) -> None:
    add_record_arguments(parser, reveal=True)


def _run_list(args: argparse.Namespace) -> int:
    """Print the records and the unfinished pulls."""
    records = inspect_records(node_root(args.root, args.node))
    found, intents = records.list(), records.list_intents()
    problems = (*found.problems, *found.strays, *intents.problems)
    if args.output == "table":
        _print_records(found, intents)
    else:
        document = make_document(
            "PullRecordList",
            root=records.files.root,
            records=[_record_document(record, reveal=args.reveal) for record in found.believed],
            underWay=[intent.image for intent in intents.values],
            problems=[
                {"file": each.path, "cause": str(each.kind), "message": each.message} for each in problems
            ],
        )
        print(render_document(document, args.output))
    report(*problems)
    return Exit.NO if problems else Exit.OK


def _print_records(found: Listing[ImagePulledRecord], intents: Listing[ImagePullIntent]) -> None:
    rows = [row for record in found.believed for row in _record_rows(record)]
    rows += [[intent.image, "unfinished pull", "", ""] for intent in intents.values]
    if rows:
        print(fitting_table(_LIST_HEADER, sorted(rows)))


def _record_rows(record: ImagePulledRecord) -> list[list[str]]:
    place = [_time_text(record), short_reference(record.image_ref)]
    if not record.credential_mapping:
        return [["(no name)", "nobody", *place]]
    return [[name, describe_entry(entry), *place] for name, entry in record.credential_mapping.items()]


def _add_show_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("image", metavar="IMAGE", help="the image, as a pod names it, or the runtime's id")
    add_record_arguments(parser, reveal=True)


def _run_show(args: argparse.Namespace) -> int:
    """Print the records of the image."""
    records = inspect_records(node_root(args.root, args.node))
    listing = records.list()
    accesses = find_access(listing.believed, args.image)
    found = list({access.record.image_ref: access.record for access in accesses}.values())
    report(*listing.problems, *listing.strays)
    if not found:
        report(f"found no record of {args.image!r}")
    if args.output == "table":
        for record in found:
            print(Lines("\n".join(_show_lines(records, record, reveal=args.reveal))))
    else:
        document = make_document(
            "PullRecordList",
            root=records.files.root,
            records=[_record_document(record, reveal=args.reveal) for record in found],
        )
        print(render_document(document, args.output))
    return Exit.OK if found else Exit.NO


def _show_lines(records: Records, record: ImagePulledRecord, *, reveal: bool) -> Iterator[str]:
    yield style(printable(record.image_ref), "bold")
    yield f"  file     {printable(records.files.record_path(record.image_ref))}"
    yield f"  updated  {_time_text(record) or 'never'}"
    for name, entry in sorted(record.credential_mapping.items()):
        yield f"  pulled as {printable(name)}, for"
        yield from (f"    {printable(line)}" for line in _entry_lines(entry, reveal=reveal))
    if not record.credential_mapping:
        yield "  pulled by a process that died: it names no credentials, so every access is verified"


def _add_who_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("image", metavar="IMAGE", help="the image, as a pod names it, or the runtime's id")
    add_record_arguments(parser, reveal=True)
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


def _run_who(args: argparse.Namespace) -> int:
    """Print who may use the image, and why."""
    root = node_root(args.root, args.node)
    policy = node_policy(args.policy, args.allow, root, args.node)
    records = inspect_records(root, policy=policy)
    listing = records.list()
    found = find_access(listing.believed, args.image)
    report(*listing.problems, *listing.strays)
    stranger = _stranger(records, found, args.image)
    if args.output == "table":
        print(Lines("\n".join(_access_lines(args.image, found, stranger, reveal=args.reveal))))
    else:
        print(render_document(_access_document(args, found, stranger, listing.problems), args.output))
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


def _access_document(
    args: argparse.Namespace,
    found: tuple[Access, ...],
    stranger: Decision,
    problems: tuple[RecordError, ...],
) -> Json:
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


def _access_lines(
    image: str, found: tuple[Access, ...], stranger: Decision, *, reveal: bool
) -> Iterator[str]:
    yield style(printable(image), "bold")
    for access in found:
        note = ""
        if access.match is AccessMatch.ANOTHER_SPELLING:
            note = ": another spelling, which applies only to pods that use it"
        name = access.name or "no name"
        text = f"as {printable(name)} ({short_reference(printable(access.record.image_ref))}){note}"
        yield from fold(text, "  ", "    ")
        for line in _entry_lines(access.entry, reveal=reveal):
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


def _add_prune_arguments(parser: argparse.ArgumentParser) -> None:
    add_image_arguments(parser)
    parser.add_argument(
        "--until",
        metavar="TIME",
        help="time of the list, such as 2026-01-02T03:04:05Z (default: the file's last change, else now)",
    )
    parser.add_argument("--yes", action="store_true", help="remove the records")
    add_record_arguments(parser, writes=True)
    add_no_kubelet_argument(parser)


def _run_prune(args: argparse.Namespace) -> int:
    """Remove the records, or list those that ``--yes`` would remove."""
    # Before the list is read, because it lacks the images that are pulled meanwhile.
    until_ns = _until_ns(args)
    images = present_images(args)
    if images is None:
        raise WrongUsage("the present images are unknown; give --cri, --images or --image-id")
    if not images:
        raise EnvironmentProblem(f"{args.images or args.cri}: the list has no images, expected at least one")
    records = _open_to_write(args)
    pruning = records.prune([image.id for image in images], until_ns, dry_run=not args.yes)
    report(*pruning.problems)
    if args.output == "table":
        _print_pruning(pruning)
    else:
        print(render_document(_pruning_document(args, records, pruning), args.output))
    number = len(pruning.removed)
    done = "removed" if args.yes else "would be removed" + "; remove them with --yes" * bool(number)
    report(f"{number} of {number + len(pruning.kept)} records {done}")
    return Exit.NO if number and not args.yes else Exit.OK


def _until_ns(args: argparse.Namespace) -> int:
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


def _pruning_document(args: argparse.Namespace, records: Records, pruning: Pruning) -> Json:
    return make_document(
        "PullRecordPruning",
        root=records.files.root,
        done=bool(args.yes),
        removed=[_record_document(record) for record in pruning.removed],
        kept=len(pruning.kept),
        unbelieved=len(pruning.problems),
    )


def _print_pruning(pruning: Pruning) -> None:
    rows = [
        (short_reference(each.image_ref), _time_text(each), ", ".join(sorted(each.credential_mapping)))
        for each in pruning.removed
    ]
    if rows:
        print(fitting_table(_PRUNE_HEADER, rows))


def _add_recover_arguments(parser: argparse.ArgumentParser) -> None:
    add_image_arguments(parser)
    parser.add_argument("--yes", action="store_true", help="complete the records")
    add_record_arguments(parser, writes=True)
    add_no_kubelet_argument(parser)


def _run_recover(args: argparse.Namespace) -> int:
    """Complete the records, or list those that ``--yes`` would complete."""
    images = present_images(args)
    if images is None:
        raise WrongUsage("the present images are unknown; give --cri or --images")
    records = _open_to_write(args)
    recovery = records.recover(lambda: images) if args.yes else _foresee(records, images)
    report(*recovery.problems)
    if args.output == "table":
        _print_recovery(recovery)
    else:
        print(render_document(_recovery_document(args, records, recovery), args.output))
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


def _recovery_document(args: argparse.Namespace, records: Records, recovery: Recovery) -> Json:
    return make_document(
        "PullRecovery",
        root=records.files.root,
        done=bool(args.yes),
        recovered=[{"image": image, "imageRef": ref} for image, ref in recovery.recovered],
        left=list(recovery.left),
        problems=[str(problem) for problem in recovery.problems],
    )


def _print_recovery(recovery: Recovery) -> None:
    rows = [(image, short_reference(ref), "nobody: access is verified") for image, ref in recovery.recovered]
    rows += [(image, "-", "not present: the intent stays") for image in recovery.left]
    if rows:
        print(fitting_table(("IMAGE", "REFERENCE", "MAY USE IT"), rows))


SUBCOMMANDS: dict[str, Entry | Command] = {
    "list": Command(
        summary="list the recorded images and unfinished pulls",
        description="""\
List the recorded images by the names that they were pulled under, and who may use them; then the unfinished
pulls. Credential hashes are shortened. Nothing is written or locked.

Exit code 1 means that a file is not trusted or not valid; the kubelet verifies access to its images again.""",
        examples="""\
examples:
  sudo keyferry records list
  keyferry records list --root ./copy-of-kubelet-root -o json | jq '.records[].names[].name'""",
        add_arguments=_add_list_arguments,
        run=_run_list,
    ),
    "show": Command(
        summary="show all records of one image",
        description="""\
Show all records of one image: the file, all names that the image was pulled under, and the credentials that
it was pulled with. Credential hashes are shortened.

Exit code 1 means that there is no record.""",
        examples="""\
examples:
  sudo keyferry records show registry.example/team/app:v1
  sudo keyferry records show sha256:0b4bd1c5a...        # by the runtime's id
  sudo keyferry records show busybox -o yaml""",
        add_arguments=_add_show_arguments,
        run=_run_show,
    ),
    "who": Command(
        summary="show who may use an image on this node, and why",
        description="""\
Show who may use an image on this node without pulling it again: secrets (namespace, name, uid), service
accounts, or every pod; and the decision for a pod without credentials under the node's policy.

A record applies to one spelling of a name: a pull of 'busybox' is not recorded for
'docker.io/library/busybox'. Exit code 1 means that no record lets anybody use the image.""",
        examples="""\
examples:
  sudo keyferry records who registry.example/team/app:v1
  sudo keyferry records who busybox --policy AlwaysVerify -o json""",
        add_arguments=_add_who_arguments,
        run=_run_who,
    ),
    "plan": Entry(
        module="keyferry.cli.records_plan", summary="show what another verification policy would change"
    ),
    "prune": Command(
        summary="remove the records of images that are no longer present",
        description="""\
Remove the records of images that the node no longer has, as a kubelet does after image garbage collection.
The command requires the list of present images (--cri, --images, --image-id). It removes only records whose
last change is older than that list: a later change belongs to a later pull.

Without --yes, the records are only listed. Files that cannot be read are never removed. While a kubelet uses
the root, --yes is refused: the kubelet keeps its records in memory and prunes them itself.

Exit code 0 means that nothing is left to remove; 1 that --yes would remove records.""",
        examples="""\
examples:
  crictl images -o json > images.json
  sudo keyferry records prune --images images.json
  sudo keyferry records prune --images images.json --yes
  sudo keyferry records prune --cri auto""",
        add_arguments=_add_prune_arguments,
        run=_run_prune,
    ),
    "recover": Command(
        summary="complete the records of pulls whose process died",
        description="""\
Complete the records of pulls whose process died, as a kubelet does when it starts. An image that is present
gets a record without credentials, so that each pod's access is verified, and the intent of its pull is removed.
The intent stays if the image is not present or if the process of the pull is still running.

The command requires the list of present images (--cri, --images). Names must be equal in every character.
Without --yes, the pulls are only listed. While a kubelet uses the root, --yes is refused.

Exit code 0 means that nothing is left to complete; 1 that --yes would complete records.""",
        examples="""\
examples:
  sudo keyferry records recover --cri auto
  sudo keyferry records recover --cri unix:///run/containerd/containerd.sock --yes""",
        add_arguments=_add_recover_arguments,
        run=_run_recover,
    ),
}
