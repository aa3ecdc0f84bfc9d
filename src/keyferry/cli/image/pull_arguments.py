"""The arguments of ``pull``, and those about records that ``explain`` shares with it."""

from __future__ import annotations

from keyferry.cli.frame.node_settings import add_no_kubelet_argument
from keyferry.cli.options import parse_seconds
from keyferry.errors import EnvironmentProblem
from keyferry.pulls.platform import parse_platform
from keyferry.pulls.puller.pull_policy import PULL_POLICIES
from keyferry.pulls.records.policy import DEFAULT, POLICIES

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse

_MOST_PARALLEL = 64
_PULL_SECONDS = 900.0


def add_target_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the target of the images and the options for writing to it."""
    group = parser.add_argument_group("target")
    where = group.add_mutually_exclusive_group()
    where.add_argument(
        "--cri",
        metavar="SOCKET",
        default="",
        help="a container runtime, such as unix:///run/containerd/containerd.sock "
        "(default: the running kubelet's, else the one found on this node)",
    )
    where.add_argument(
        "--to", metavar="DIR", help="a folder in the OCI image layout; created if it does not exist"
    )
    group.add_argument(
        "--platform",
        type=_parse_platform,
        metavar="OS/ARCH",
        default="",
        help="with --to: the platform to pull for, such as linux/arm64 (default: this machine's)",
    )
    group.add_argument(
        "--ca-file",
        metavar="FILE",
        default="",
        help="with --to: PEM file of certificates to trust in addition to the system's",
    )
    group.add_argument(
        "--insecure",
        action="store_true",
        help="with --to: accept any certificate, and plain HTTP from any host",
    )


def add_pull_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare when and how images are pulled."""
    group = parser.add_argument_group("pulling images")
    group.add_argument(
        "--pull-policy",
        choices=PULL_POLICIES,
        default="",
        metavar="POLICY",
        help=f"one of {', '.join(PULL_POLICIES)} (default: Always for the tag 'latest', else IfNotPresent)",
    )
    group.add_argument(
        "--parallel",
        type=_parse_number,
        default=1,
        metavar="N",
        help="number of pulls that run at once (default: 1, as in the kubelet)",
    )
    group.add_argument(
        "--pull-timeout",
        type=parse_seconds,
        default=_PULL_SECONDS,
        metavar="SECONDS",
        help=f"time limit of one attempt (default: {_PULL_SECONDS:.0f})",
    )
    group.add_argument(
        "--no-evict",
        action="store_true",
        help="do not run a plugin again when its credential is refused; Kubernetes does not either",
    )
    group.add_argument(
        "--preload",
        action="store_true",
        help="let every pod of this node use the images: pull with a credential although a kubelet uses the runtime",
    )
    add_no_kubelet_argument(group)
    group.add_argument("-q", "--quiet", action="store_true", help="show no progress, only results and errors")


def add_root_arguments(parser: argparse.ArgumentParser, what: str, root: str) -> argparse._ArgumentGroup:
    """Declare the records and the kubelet's policy for them."""
    group = parser.add_argument_group(what)
    group.add_argument("--root", metavar="DIR", help=root)
    group.add_argument(
        "--policy",
        choices=POLICIES,
        metavar="POLICY",
        help=f"the node's policy, one of {', '.join(POLICIES)} (default: that of the running kubelet with this "
        f"root, else {DEFAULT})",
    )
    group.add_argument(
        "--allow",
        action="append",
        default=[],
        metavar="PATTERN",
        help="a pattern of that policy's allowlist; may be repeated",
    )
    return group


def _parse_platform(text: str) -> str:
    try:
        if text:
            parse_platform(text)
    except EnvironmentProblem as error:
        from argparse import ArgumentTypeError

        raise ArgumentTypeError(str(error)) from None
    return text


def _parse_number(text: str) -> int:
    number = int(text) if text.isascii() and text.isdigit() else 0
    if not 0 < number <= _MOST_PARALLEL:
        from argparse import ArgumentTypeError

        raise ArgumentTypeError(f"{text!r} is not a number from 1 to {_MOST_PARALLEL}")
    return number
