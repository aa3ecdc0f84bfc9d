"""Code that the subcommands of ``records`` share: arguments that select records and images."""

from __future__ import annotations

from keyferry.cli.frame.node_settings import node_root, node_runtime
from keyferry.cli.options import add_output_argument
from keyferry.images.node.settings import Node
from keyferry.pulls.cri.client import connect_runtime
from keyferry.pulls.records.load import KUBELET_ROOT, inspect_records
from keyferry.pulls.records.maintenance import PresentImage
from keyferry.pulls.records.node_images import NodeImage, parse_crictl_images
from keyferry.pulls.records.policy import VerificationPolicy
from keyferry.pulls.records.records import Records
from keyferry.workloads.objects import read_file_or_input

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse

FORMATS = ("table", "json", "yaml")


def add_record_arguments(parser: argparse.ArgumentParser, *, reveal: bool = False) -> None:
    """Declare the records, and how they are shown."""
    add_output_argument(parser, FORMATS)
    parser.set_defaults(node=Node(), no_kubelet=False)
    parser.add_argument(
        "--root",
        metavar="DIR",
        help=f"the kubelet's root (default: that of the running kubelet, else {KUBELET_ROOT})",
    )
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
    listed: tuple[PresentImage, ...] = _runtime_images(args) if args.cri else ()
    if args.images is not None:
        data = read_file_or_input(args.images)
        named = parse_crictl_images(data, "standard input" if args.images == "-" else args.images)
        listed = (*listed, *named)
    return (*listed, *(NodeImage(id=each) for each in args.image_id))


def _runtime_images(args: argparse.Namespace) -> tuple[PresentImage, ...]:
    """Return the images of a container runtime; "auto" stands for this node's."""
    with connect_runtime(node_runtime(args.cri, args.node)) as runtime:
        return runtime.list_images()


def open_to_read(args: argparse.Namespace, policy: VerificationPolicy | None = None) -> Records:
    """Return the records of the root for reading only."""
    return inspect_records(resolve_root(args), policy=policy)


def open_to_write(args: argparse.Namespace) -> Records:
    """Return the records of the root; ``--yes`` permits writing, which is refused if a kubelet uses the root."""
    return inspect_records(
        resolve_root(args), read_only=not args.yes, no_kubelet=args.no_kubelet, find_node=lambda: args.node
    )


def resolve_root(args: argparse.Namespace) -> str:
    """Return the root, and set it as the option's value."""
    args.root = node_root(args.root, args.node)
    return str(args.root)
