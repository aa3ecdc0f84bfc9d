"""Options for requests to a registry, and the check of an image with these options."""

from __future__ import annotations

import os
from collections.abc import Sequence

from keyferry._core.values import replace
from keyferry.cli.exits import Exit, exit_code
from keyferry.cli.frame.waiting import Waiting
from keyferry.cli.options import parse_seconds
from keyferry.errors import EnvironmentProblem, Kind
from keyferry.explain.registry import PullVerdict, RegistryCheck
from keyferry.images.answer import Answer
from keyferry.images.node.discover import ROOT_VARIABLE
from keyferry.images.reference import registry_of
from keyferry.pulls.mirrors.endpoints import Mirrors
from keyferry.pulls.mirrors.places import MirrorPlaces, running_places

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse

    from keyferry.images.keyring import Credential
    from keyferry.images.node.discover import Discovery
    from keyferry.pulls.registry.route import RegistryRoute
    from keyferry.pulls.trial import Attempt


def add_registry_arguments(parser: argparse.ArgumentParser, switch: str = "") -> None:
    """Declare the options for requests to the registry; *switch* is the option that enables them."""
    group = parser.add_argument_group("requests to the registry")
    if switch:
        group.add_argument(
            switch,
            action="store_true",
            help="also check each credential with the registry, where and how the node's container runtime asks",
        )
    add_authority_argument(group)
    group.add_argument(
        "--insecure",
        action="store_true",
        help="accept any certificate, and plain HTTP if there is no HTTPS (localhost may always use HTTP), from every "
        "host; the files of the container runtime say it for single hosts",
    )
    group.add_argument(
        "--registry-timeout",
        type=parse_seconds,
        default=60.0,
        metavar="SECONDS",
        help="time limit of the registry check (default: 60)",
    )
    add_mirror_arguments(group)


def add_authority_argument(group: argparse._ArgumentGroup) -> None:
    """Declare the authorities to trust in requests to registries."""
    group.add_argument(
        "--ca-file",
        metavar="FILE",
        default="",
        help="PEM file of certificates to trust in addition to the system's",
    )


def add_mirror_arguments(group: argparse._ArgumentGroup) -> None:
    """Declare the files of the container runtime that list mirrors."""
    group.add_argument(
        "--hosts-dir",
        metavar="DIR",
        default="",
        help="containerd's folder of registry hosts, which lists mirrors, and the certificates and headers for them "
        "(default: the one of this node's containerd)",
    )
    group.add_argument(
        "--registries-conf",
        metavar="FILE",
        default="",
        help="CRI-O's registries.conf, which lists mirrors; FILE.d has its drop-in files, and certs.d beside it the "
        "certificates (default: this node's)",
    )


def route_for(args: argparse.Namespace) -> RegistryRoute:
    """Return the route to the registry that the options set."""
    from keyferry.pulls.registry.route import RegistryRoute

    return RegistryRoute(ca_file=args.ca_file, is_insecure=args.insecure)


def check_answer(args: argparse.Namespace, answer: Answer, mirrors: Mirrors | None = None) -> RegistryCheck:
    """Check the image with the registry, with every credential in order or, without any, anonymously."""
    return replace(check_credentials(args, answer.name, answer.credentials, mirrors), missing=answer.missing)


def check_credentials(
    args: argparse.Namespace,
    name: str,
    credentials: Sequence[Credential],
    mirrors: Mirrors | None = None,
) -> RegistryCheck:
    """Check the image, whose repository is *name*, with each credential in order or, without any, anonymously."""
    from keyferry.pulls.registry.endpoints import check_endpoints

    if args.ca_file and not os.path.isfile(args.ca_file):
        raise EnvironmentProblem(f"CA file {args.ca_file!r}: does not exist")

    def ask(mirrors: Mirrors | None) -> tuple[Attempt, ...]:
        seconds = args.registry_timeout
        return check_endpoints(
            args.image, credentials, mirrors, route=route_for(args), timeout_seconds=seconds
        )

    with Waiting(f"asking {registry_of(name)}", args.registry_timeout):
        attempts = ask(mirrors)
        is_doubted = mirrors is not None and bool(mirrors.doubt)
        without_file = ask(None) if is_doubted else ()
    return RegistryCheck(image=args.image, attempts=attempts, mirrors=mirrors, without_file=without_file)


def image_mirrors(args: argparse.Namespace, found: Discovery, *, is_here: bool = False) -> Mirrors | None:
    """Return where the node's container runtime goes for the image, and how; None if no file says anything about it.

    Files of this machine count if *is_here*, or if its kubelet was found, unless the pod's node is elsewhere; else
    only those that options name.
    """
    if args.hosts_dir and not os.path.isdir(args.hosts_dir):
        raise EnvironmentProblem(f"--hosts-dir {args.hosts_dir!r}: is not a folder")
    is_named = args.hosts_dir or args.registries_conf
    is_this_node = (is_here or found.kubelet is not None) and not args.node.elsewhere
    if not (is_named or is_this_node):
        return None
    from keyferry.pulls.mirrors.find import find_endpoints

    return find_endpoints(args.image, _mirror_places(args, found))


def _mirror_places(args: argparse.Namespace, found: Discovery) -> MirrorPlaces:
    root = os.environ.get(ROOT_VARIABLE) or "/"
    if args.hosts_dir or args.registries_conf:
        return MirrorPlaces(root=root, hosts_dir=args.hosts_dir, registries_conf=args.registries_conf)
    if found.kubelet is None:
        return MirrorPlaces(root=root)
    endpoint = args.node.settings_of(found.kubelet).endpoint
    return running_places(args.node.kubelets.runtimes, "" if endpoint is None else endpoint.value, root=root)


def code_for_check(answer: Answer, check: RegistryCheck) -> Exit:
    """Return 1 if the runtime blocks the image, else 0 if it can be pulled.

    Else return the code of the plugin failure that left no credential. Else return 6, or 124 after a timeout, if the
    registry's response does not decide the matter, and the registry error's code if it does.
    """
    if check.is_blocked:
        return Exit.NO
    if check.verdict is PullVerdict.YES:
        return Exit.OK
    if check.error is not None and answer.kubelet_failures and not answer.credentials:
        return exit_code(answer.kubelet_failures[0].error)
    if check.verdict is PullVerdict.UNKNOWN or check.error is None:
        return Exit.TIMEOUT if check.kind is Kind.TIMEOUT else Exit.UNKNOWN
    return exit_code(check.error)
