"""May a pod use an image that is on the node already? What ``explain`` asks the records for that."""

from keyferry.cli.frame.node_settings import node_policy, node_root, node_runtime, settings_of_root
from keyferry.cli.image.pull_arguments import add_root_arguments
from keyferry.images.answer import Answer
from keyferry.images.node.kubelet import KUBELET_ROOT
from keyferry.images.reference import parse_image
from keyferry.show.report import report

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse

    from keyferry.pulls.records.decision import Decision
    from keyferry.pulls.records.records import Records


def add_access_arguments(parser: "argparse.ArgumentParser") -> None:
    """Which records, which policy, and which image is there."""
    group = add_root_arguments(
        parser,
        "may this pod use the image that is there",
        "the kubelet's root, to read its pull records (default: the running kubelet's, else "
        f"{KUBELET_ROOT}, if any of these is given)",
    )
    there = group.add_mutually_exclusive_group()
    there.add_argument(
        "--cri",
        metavar="SOCKET",
        default="",
        help="ask this container runtime whether the image is there; 'auto' finds this node's",
    )
    there.add_argument("--image-id", metavar="ID", default="", help="the image's id, as the runtime has it")


def decide_access(args: "argparse.Namespace", answer: Answer) -> "Decision | None":
    """The kubelet's decision; None if nobody asked, or nobody knows the image. Nothing is written."""
    if not any((args.root, args.policy, args.allow, args.cri, args.image_id)):
        return None
    # Not for those who do not ask: records bring a good deal along.
    from keyferry.pulls.records.load import inspect_records

    root = node_root(args.root, args.node)
    policy = node_policy(args.policy, args.allow, root, args.node)
    records = inspect_records(root, policy=policy)
    reference = _find_reference(args, records)
    if reference is None:
        message = f"no record names {args.image!r}; say whether it is there: --cri SOCKET or --image-id ID"
        report(message)
        return None
    if not args.policy and settings_of_root(root, args.node) is None:
        message = f"the node's policy was not given, so the kubelet's default {policy.name} is taken"
        report(f"{message}; --policy tells")
    return records.decide(args.image, reference, answer.credentials)


def _find_reference(args: "argparse.Namespace", records: "Records") -> str | None:
    """What the runtime calls the image; empty if it says that it has none, None if nobody was asked who knows."""
    if args.image_id:
        return str(args.image_id)
    if args.cri:
        from keyferry.pulls.cri.client import connect_runtime

        with connect_runtime(node_runtime(args.cri, args.node)) as runtime:
            found = runtime.find_image(parse_image(args.image).with_default_tag().text)
        return "" if found is None else found.id
    from keyferry.pulls.records.node_images import NodeImages

    listing = records.list()
    report(*listing.problems)
    return NodeImages(listing.believed).find(args.image) or None
