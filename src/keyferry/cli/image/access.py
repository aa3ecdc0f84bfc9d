"""Whether a pod may use an image that is already on the node; ``explain`` answers it from the records."""

from __future__ import annotations

from keyferry._core.log import log_debug
from keyferry.cli.frame.node_settings import (
    node_policy,
    node_root,
    node_runtime,
    policy_of,
    runtime_socket,
    settings_of_root,
)
from keyferry.cli.image.pull_arguments import add_root_arguments
from keyferry.errors import KeyferryError
from keyferry.images.answer import Answer
from keyferry.images.node.kubelet import KUBELET_ROOT
from keyferry.images.reference import parse_image
from keyferry.show.writer import report

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse

    from keyferry.pulls.records.decide import Decision
    from keyferry.pulls.records.records import Records


# The time limit of a question that nobody asked for.
_RUNTIME_SECONDS = 5.0


def add_access_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the records, the policy and the image that is on the node."""
    group = add_root_arguments(
        parser,
        "whether this pod may use the image that is on the node",
        "the kubelet's root, which has its pull records (default: the running kubelet's, else "
        f"{KUBELET_ROOT}, if any option of this group is given)",
    )
    there = group.add_mutually_exclusive_group()
    there.add_argument(
        "--cri",
        metavar="SOCKET",
        default="",
        help="look up the image in this container runtime; 'auto' finds this node's runtime",
    )
    there.add_argument("--image-id", metavar="ID", default="", help="the image's id in the container runtime")


def decide_access(args: argparse.Namespace, answer: Answer, *, is_pod: bool) -> Decision | None:
    """Return the kubelet's decision without writing records; None if the image on the node is not known.

    Without an option, the runtime and the records of the running kubelet are asked for a pod on this node (*is_pod*).
    """
    if not any((args.root, args.policy, args.allow, args.cri, args.image_id)):
        return _decide_here(args, answer) if is_pod and not args.node.elsewhere else None
    if args.node.elsewhere and not args.root:
        report(
            f"{args.node.elsewhere}: the records of the node are given with --root, those of this machine with --here"
        )
        return None
    from keyferry.pulls.records.records import inspect_records

    root = node_root(args.root, args.node)
    policy = node_policy(args.policy, args.allow, root, args.node)
    records = inspect_records(root, policy=policy)
    reference = _find_reference(args, records)
    if reference is None:
        message = f"no record names {args.image!r}; look it up with --cri SOCKET or give --image-id ID"
        report(message)
        return None
    if not args.policy and settings_of_root(root, args.node) is None:
        message = f"the node's policy is unknown, so the kubelet's default {policy.name} is used"
        report(f"{message}; set it with --policy")
    return records.decide(args.image, reference, answer.credentials)


def _decide_here(args: argparse.Namespace, answer: Answer) -> Decision | None:
    """Return the decision of the running kubelet; None if its runtime or its records cannot be asked."""
    settings = args.node.settings
    socket = None if settings is None else runtime_socket(settings)
    if socket is None:
        return None
    from keyferry.pulls.cri import connect_runtime
    from keyferry.pulls.records.records import observe_records

    root = settings.kubelet.inside(settings.root_dir.value)
    try:
        with connect_runtime(socket, timeout_seconds=_RUNTIME_SECONDS) as runtime:
            found = runtime.find_image(parse_image(args.image).with_default_tag().text)
        records = observe_records(root, policy_of(settings)[0])
        return records.decide(args.image, "" if found is None else found.id, answer.credentials)
    except KeyferryError as error:
        log_debug("explain", "the image on the node is not known: %s", error)
        return None


def _find_reference(args: argparse.Namespace, records: Records) -> str | None:
    """Return the runtime's id of the image; empty if the runtime does not have it, None if it is not known."""
    if args.image_id:
        return str(args.image_id)
    if args.cri:
        from keyferry.pulls.cri import connect_runtime

        with connect_runtime(node_runtime(args.cri, args.node)) as runtime:
            found = runtime.find_image(parse_image(args.image).with_default_tag().text)
        return "" if found is None else found.id
    from keyferry.pulls.records.access import NodeImages

    listing = records.list()
    report(*listing.problems)
    return NodeImages(listing.believed).find(args.image) or None
