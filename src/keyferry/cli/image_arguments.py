"""Code that the commands about images share: their options, the request that the options make, and exit codes."""

from __future__ import annotations

import os
import sys
from argparse import ArgumentTypeError
from collections.abc import Iterable

from keyferry._core.values import replace
from keyferry._net.agent import AUTO, OFF
from keyferry.cli.exits import Exit, WrongUsage, exit_code
from keyferry.cli.options import (
    add_agent_argument,
    add_config_arguments,
    add_context_arguments,
    add_host_root_argument,
    add_run_arguments,
    cluster_options,
    parse_seconds,
    parse_text,
)
from keyferry.errors import EnvironmentProblem
from keyferry.images.provider.agent import check_variable
from keyferry.workloads.request import (
    NodeAccess,
    RecordOptions,
    RegistryOptions,
    Request,
    Wait,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse

    from keyferry.images.answer import Answer
    from keyferry.workloads.inputs import Inputs


# The pod, the node and the plugins.


def add_lookup_arguments(parser: argparse.ArgumentParser, namespace_of: str = "") -> None:
    """Declare the options for sources of credentials and for running plugins.

    *namespace_of* says what has the namespace of ``-n`` beside objects in files.
    """
    add_config_arguments(parser)
    help_text = f"the namespace of {namespace_of}objects in files that have none (default: default)"
    parser.add_argument("-n", "--namespace", metavar="NAME", help=help_text)
    _add_source_arguments(parser)
    add_run_arguments(parser)
    add_agent_argument(parser)


def _add_source_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options for the sources other than providers."""
    group = parser.add_argument_group("sources of credentials other than the providers")
    group.add_argument(
        "-f",
        "--filename",
        metavar="FILE",
        help="the pod, or a workload with its pod template, as printed by 'kubectl get -o yaml'; Secrets and the "
        "ServiceAccount may follow in the file; '-' reads standard input",
    )
    group.add_argument(
        "--secret",
        metavar="FILE",
        action="append",
        default=[],
        help="an image pull secret, as printed by 'kubectl get secret -o yaml'; may be repeated, in trial order",
    )
    group.add_argument(
        "--docker-config",
        metavar="FILE",
        help="the node's docker config.json; 'auto' searches the locations of the running kubelet",
    )
    group.add_argument(
        "--service-account",
        metavar="NS/NAME",
        help="the pod's service account, for providers that require its tokens",
    )
    group.add_argument(
        "--service-account-token",
        metavar="FILE",
        help="file with a token of that account, as printed by 'kubectl create token'",
    )


def add_question_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of commands that ask about a node, which need not be this machine, and about a cluster."""
    add_host_root_argument(parser)
    parser.add_argument(
        "--here",
        action="store_true",
        default=False,
        help="this machine is the pod's node: use its config, docker config, records and mirrors (default: only if "
        "the kubelet that runs here has the name of that node); for many pods with --node NAME",
    )
    group, _ = add_context_arguments(parser)
    group.add_argument(
        "--request-token",
        action="store_true",
        default=False,
        help="request the service account's token from the API server (TokenRequest), as the kubelet does, if "
        "the server says that the pod's node may request it (SubjectAccessReview)",
    )


def add_node_arguments(parser: argparse.ArgumentParser) -> argparse._ArgumentGroup:
    """Declare how a node is asked from afar, but for whether it is."""
    group = parser.add_argument_group("the node's own answer, from afar")
    group.add_argument(
        "--agent-namespace",
        type=parse_text,
        metavar="NAME",
        help="the namespace of the node agents' pods (default: any, for which their labels are looked for in all)",
    )
    group.add_argument(
        "--debug-image",
        type=_parse_debug_image,
        metavar="IMAGE",
        help="without a node agent on the node, or with --agent off, ask it in a short-lived pod of this image, which "
        "has keyferry; the pod is named before it is made, and deleted",
    )
    group.add_argument(
        "--debug-namespace",
        type=parse_text,
        metavar="NAME",
        help="the namespace of that pod (default: the context's)",
    )
    group.add_argument(
        "--privileged",
        action="store_true",
        help="let that pod be privileged, as in kubectl's profile sysadmin: it then sees the kubelet's environment, "
        "and all files on a node with SELinux",
    )
    group.add_argument(
        "--dry-run",
        action="store_true",
        help="print that pod if it would be made, and neither make it nor ask the node",
    )
    return group


def add_on_node_argument(parser: argparse.ArgumentParser) -> None:
    """Declare that the pod's node is asked, and how."""
    group = add_node_arguments(parser)
    group.add_argument(
        "--on-node",
        dest="asks_node",
        action="store_true",
        help="ask the pod's node for its provider config and its plugins' answers: through its node agent's pod, else "
        "in a debug pod if --debug-image is given",
    )


_NODE_OPTIONS = {
    "--agent-namespace": "agent_namespace",
    "--debug-image": "debug_image",
    "--debug-namespace": "debug_namespace",
    "--privileged": "privileged",
    "--dry-run": "dry_run",
}


def _parse_debug_image(text: str) -> str:
    """Return the name of an image; raise ArgumentTypeError if it is none, or the one of the hints, unchanged."""
    from keyferry.errors import ImageNameError
    from keyferry.images.reference import parse_image

    if text.startswith("REGISTRY/"):
        raise ArgumentTypeError(f"{text!r}: replace REGISTRY by the registry that has your image of keyferry")
    try:
        return parse_image(text).text
    except ImageNameError as error:
        problem = str(error)
    raise ArgumentTypeError(problem)


def parse_node_name(text: str) -> str:
    """Return the name of a node; raise ArgumentTypeError if no node can have it."""
    from keyferry.workloads.names import is_object_name

    if not is_object_name(text):
        raise ArgumentTypeError(f"expected the name of a node, found {text!r}")
    return text


def node_access(args: argparse.Namespace, *, is_asked: bool) -> NodeAccess:
    """Return the options of ``add_node_arguments``; raise WrongUsage for those that have no effect."""
    given = [option for option, dest in _NODE_OPTIONS.items() if vars(args)[dest]]
    if given and not is_asked:
        raise WrongUsage(
            f"{', '.join(given)}: only for a node that is asked from afar; add --on-node, or --node to doctor"
        )
    if (args.privileged or args.debug_namespace) and not args.debug_image:
        raise WrongUsage("--privileged and --debug-namespace are for the debug pod: add --debug-image IMAGE")
    if args.dry_run and not args.debug_image:
        raise WrongUsage("--dry-run prints the debug pod: add --debug-image IMAGE")
    if is_asked and args.agent not in (None, AUTO, OFF):
        raise WrongUsage(
            "--agent SOCKET is a node agent of this machine: of another node's, it is auto or off"
        )
    if is_asked and args.agent == OFF and not args.debug_image:
        raise WrongUsage("--agent off leaves nobody to ask on the node: add --debug-image IMAGE")
    return NodeAccess(
        is_asked=is_asked,
        agent_namespace=args.agent_namespace or "",
        debug_image=args.debug_image or "",
        debug_namespace=args.debug_namespace or "",
        is_privileged=args.privileged,
        is_dry_run=args.dry_run,
    )


def lookup_request(args: argparse.Namespace, **fields: object) -> Request:
    """Return the request of the options of ``add_lookup_arguments``, with *fields* beside them; raise WrongUsage."""
    request = Request(
        namespace=args.namespace or "",
        filename=args.filename or "",
        secrets=tuple(args.secret),
        service_account=args.service_account or "",
        service_account_token=args.service_account_token,
        docker_config=args.docker_config,
        config=args.config,
        bin_dir=args.bin_dir,
        timeout_seconds=args.timeout,
        withhold_env=tuple(args.withhold_env),
        env_from=args.env_from or "",
        agent=args.agent,
    )
    request = replace(request, **fields)
    if args.agent in (None, AUTO):
        try:
            check_variable(os.environ)
        except EnvironmentProblem as problem:
            raise WrongUsage(str(problem)) from None
    if request.contradiction:
        raise WrongUsage(request.contradiction)
    return request


def add_selection_arguments(parser: argparse.ArgumentParser) -> argparse._ArgumentGroup:
    """Declare which pods of a cluster are meant, with kubectl's option names beside ``-n``; return their group."""
    group = parser.add_argument_group("many pods of a cluster")
    group.add_argument("-A", "--all-namespaces", action="store_true", help="the pods of all namespaces")
    group.add_argument(
        "-l",
        "--selector",
        type=parse_text,
        metavar="LABELS",
        help="only pods with these labels, such as app=web or 'tier in (web,api)'",
    )
    group.add_argument(
        "--field-selector",
        type=parse_text,
        metavar="FIELDS",
        help="only pods with these fields, such as status.phase=Pending",
    )
    group.add_argument(
        "--node",
        dest="on_node",
        type=parse_node_name,
        metavar="NAME",
        help="only pods on the node of this name; with --on-node, the node to ask",
    )
    return group


def selection_fields(args: argparse.Namespace) -> dict[str, object]:
    """Return the fields of a request for the options of ``add_selection_arguments``."""
    return {
        "all_namespaces": args.all_namespaces,
        "label_selector": args.selector or "",
        "field_selector": args.field_selector or "",
        "on_node": args.on_node or "",
    }


def question_request(args: argparse.Namespace, **fields: object) -> Request:
    """Return the request of the options of ``add_question_arguments``, too; raise WrongUsage.

    A kubeconfig that another user could have written is not used.
    """
    # The namespace is that of the request, which also has it for objects in files.
    cluster = replace(cluster_options(args), namespace="")
    return lookup_request(args, here=args.here, request_token=args.request_token, cluster=cluster, **fields)


def name_target(word: str | None) -> dict[str, object]:
    """Return the fields of a request for a word that is an image, or an object of a cluster such as ``pod/web``."""
    _, _, name = (word or "").partition("/")
    if name and not any(each in name for each in "/:@"):
        from keyferry.workloads.objects import parse_target

        if parse_target(word or "") is not None:
            return {"target": word}
    return {"image": word or ""}


def choose_wait() -> Wait | None:
    """Return what shows on a terminal what is waited for."""
    if not sys.stderr.isatty():
        return None
    from keyferry.cli.waiting import Waiting

    return Waiting


# The registry and the records.


def add_registry_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options for requests to the registry."""
    group = parser.add_argument_group("advanced: requests to the registry")
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


def registry_options(args: argparse.Namespace) -> RegistryOptions:
    """Return the options of ``add_registry_arguments``."""
    return RegistryOptions(
        ca_file=args.ca_file,
        insecure=args.insecure,
        timeout_seconds=args.registry_timeout,
        hosts_dir=args.hosts_dir,
        registries_conf=args.registries_conf,
    )


def add_root_arguments(parser: argparse.ArgumentParser, what: str, root: str) -> argparse._ArgumentGroup:
    """Declare the records and the kubelet's policy for them."""
    from keyferry.pulls.records.policy import DEFAULT, POLICIES

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


def record_options(args: argparse.Namespace, image_id: str = "") -> RecordOptions:
    """Return the options of ``add_root_arguments``, and the container runtime."""
    return RecordOptions(
        root=args.root, policy=args.policy, allow=tuple(args.allow), cri=args.cri, image_id=image_id
    )


# The answer.


def failed_plugin_lines(answer: Answer, inputs: Inputs) -> list[str]:
    """Return a line with the command to try for each provider that failed, if there is one."""
    if not answer.kubelet_failures:
        return []
    from keyferry.explain.cures import plugin_command

    found = inputs.found
    commands: Iterable[str] = (
        plugin_command(failure.error, failure.provider, answer.name, found.config, found.bin_dir)
        for failure in answer.kubelet_failures
    )
    return [f"try: {command}" for command in dict.fromkeys(commands) if command]


def code_for(answer: Answer) -> Exit:
    """Return 0 with credentials, else a failure's code, else 6 if an input is missing and 1 if none is."""
    if answer.credentials:
        return Exit.OK
    if answer.kubelet_failures:
        return exit_code(answer.kubelet_failures[0].error)
    return Exit.UNKNOWN if answer.missing else Exit.NO
