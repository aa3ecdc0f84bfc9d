"""Settings of the running kubelet, the defaults of options; each is reported where it is used."""

from __future__ import annotations

from collections.abc import Sequence

from keyferry._core.host_root import host_root_notes
from keyferry.cli.exits import WrongUsage
from keyferry.errors import PolicyError
from keyferry.images.node.settings import Node
from keyferry.pulls.node_settings import find_policy, find_root, find_runtime
from keyferry.pulls.records.policy import VerificationPolicy, make_policy
from keyferry.show.writer import report

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse


def add_no_kubelet_argument(parser: argparse.ArgumentParser | argparse._ArgumentGroup) -> None:
    """Declare ``--no-kubelet``, for machines whose processes cannot be listed."""
    parser.add_argument(
        "--no-kubelet",
        action="store_true",
        help="assume that no kubelet runs here; for containers, where its process would not be visible",
    )


def node_root(root: str | None, node: Node) -> str:
    """Return *root* if it is given, else the running kubelet's root, else the default root."""
    found = find_root(root, node)
    report(*host_root_notes(), *found.notes)
    return found.path


def node_policy(name: str | None, allow: Sequence[str], root: str, node: Node) -> VerificationPolicy:
    """Return the given policy, else that of the kubelet that uses *root*, else the default; raise WrongUsage.

    *root* is empty if there are no records.
    """
    try:
        found = find_policy(name, allow, root, node)
    except PolicyError as error:
        raise WrongUsage(str(error)) from None
    report(*found.notes)
    return found.policy


def parse_policy(name: str, allow: Sequence[str]) -> VerificationPolicy:
    """Return the policy that the options name; raise WrongUsage."""
    try:
        return make_policy(name, allow)
    except PolicyError as error:
        raise WrongUsage(str(error)) from None


def node_runtime(address: str, node: Node) -> str:
    """Return *address* if it is given, else the running kubelet's socket, else an empty string."""
    found = find_runtime(address, node)
    report(*found.notes)
    return found.path
