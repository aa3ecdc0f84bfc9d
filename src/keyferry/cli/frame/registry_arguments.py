"""How a registry is asked: options that several commands share, and the check itself."""

import os

from keyferry.cli.frame.arguments import parse_seconds
from keyferry.cli.frame.commands import Exit, exit_code
from keyferry.errors import Kind
from keyferry.explain.registry import PullVerdict, RegistryCheck
from keyferry.images.answer import Answer
from keyferry.images.node.discover import ROOT_VARIABLE
from keyferry.images.reference import registry_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse

    from keyferry.pulls.registry.route import RegistryRoute


def add_registry_arguments(parser: "argparse.ArgumentParser", switch: str = "") -> None:
    """How to get to the registry; *switch* is the option that has it asked at all."""
    group = parser.add_argument_group("how the registry is asked")
    if switch:
        group.add_argument(switch, action="store_true", help="ask the registry too, with each credential")
    group.add_argument(
        "--ca-file", metavar="FILE", default="", help="certificates, in PEM, to trust beside the system's"
    )
    group.add_argument(
        "--insecure",
        action="store_true",
        help="take any certificate, and plain HTTP where there is no HTTPS (this machine may always)",
    )
    group.add_argument(
        "--registry-timeout",
        type=parse_seconds,
        default=60.0,
        metavar="SECONDS",
        help="how long the registry may take (default: 60)",
    )
    group.add_argument(
        "--hosts-dir",
        metavar="DIR",
        default="",
        help="containerd's folder of registry hosts, where mirrors stand (default: what this node's has)",
    )


def route_for(args: "argparse.Namespace") -> "RegistryRoute":
    """How to get to the registry, as the options say."""
    from keyferry.pulls.registry.route import RegistryRoute

    return RegistryRoute(ca_file=args.ca_file, is_insecure=args.insecure)


def check_answer(args: "argparse.Namespace", answer: Answer) -> RegistryCheck:
    """Ask the registry with everything that was found, or anonymously, as a kubelet would."""
    from keyferry.pulls.registry.check import check_registry
    from keyferry.pulls.registry.mirrors import find_mirrors

    attempts = check_registry(
        args.image, answer.credentials, route=route_for(args), timeout_seconds=args.registry_timeout
    )
    root = os.environ.get(ROOT_VARIABLE) or "/"
    mirrors = find_mirrors(registry_of(answer.name), hosts_dir=args.hosts_dir, root=root)
    return RegistryCheck(answer.image, attempts, answer.missing, mirrors)


def code_for_check(answer: Answer, check: RegistryCheck) -> Exit:
    """0 if any attempt worked; else the code of a plugin that failed and left us without; else the registry's.

    6 where the registry's word does not decide it.
    """
    if check.error is None:
        return Exit.OK
    if answer.kubelet_failures and not answer.credentials:
        return exit_code(answer.kubelet_failures[0].error)
    if check.verdict is PullVerdict.UNKNOWN:
        return Exit.TIMEOUT if check.kind is Kind.TIMEOUT else Exit.UNKNOWN
    return exit_code(check.error)
