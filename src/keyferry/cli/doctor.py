"""The node at a glance: kubelet, provider config, plugins, container runtime, mirrors, records and proxies."""

from __future__ import annotations

import argparse
import os
from argparse import ArgumentTypeError

from keyferry._core.host_root import host_root_notes
from keyferry._net.agent import AUTO, OFF
from keyferry.cli.exits import Exit, WrongUsage
from keyferry.cli.image_arguments import (
    add_authority_argument,
    add_mirror_arguments,
    add_node_arguments,
    node_access,
    parse_node_name,
)
from keyferry.cli.options import (
    add_config_arguments,
    add_context_arguments,
    add_host_root_argument,
    add_output_argument,
    cluster_options,
    parse_seconds,
)
from keyferry.clusters.options import ClusterOptions
from keyferry.doctor.examine import examine
from keyferry.doctor.gather import DoctorOptions, gather_facts
from keyferry.doctor.health import Hints, NodeHealth, health_document, render_health
from keyferry.images.node.discover import usual_root
from keyferry.images.node.kubelet import KUBELET_ROOT
from keyferry.lint.versions import LATEST, rules_for
from keyferry.show.documents import render_document
from keyferry.show.writer import report
from keyferry.workloads.request import NodeAccess, Request

DESCRIPTION = """\
Check this machine as a node, for people who do not yet know what to ask.

The command checks the running kubelet with its flags and files, and whether these changed after it started; the
provider config and its lint result; each plugin and its owner, and the plugin behind a shim of the node agent;
each provider's patterns; the node agent's socket; the container runtime and the mirrors in its files; the policy
and the folder of pull records; the proxies of the kubelet and of the runtime; the disk. Each line is ok, a
warning, a problem, or unknown, and many name the next command to type.

It runs no plugin or other program and opens no socket: it contacts no registry, no container runtime and no
node agent. With --online, each registry that a pattern names without a wildcard gets a request without a
credential, through the proxy that the container runtime uses, else the kubelet, else keyferry itself; the
response also shows whether the clock is right. The container runtime is asked for its version, and the node
agent for its version, its config and what is not well with it, in the words of 'keyferry agent status'.

With --node NAME, a node of a cluster is checked from afar, by the same command in a pod there: its node agent's,
else, or with --agent off, a debug pod. It is shown as that node's answer, without the commands that it proposes:
what another machine says is not for pasting here.

Exit code 0 means that all is well, 1 that there is a problem or a warning, 6 that this machine does not
look like a node. With --node, 0 means that what the pod there sees is well, which of the node agent's pod is the
provider config and the plugins alone; 3 that the node cannot be asked, 5 that the API server refuses it."""

EXAMPLES = """\
examples:
  sudo keyferry doctor                                root sees the kubelet's environment and records
  sudo keyferry doctor --online                       also asks the registries
  sudo keyferry doctor --online --problems            no more than what is not well
  keyferry doctor --node node-1 --context prod        a node of a cluster, through its node agent's pod
  keyferry doctor --host-root /host                   in a debug container that has its host there
  keyferry doctor --config ./config.yaml --bin-dir ./bin
  keyferry doctor -o json | jq '.sections[].lines[] | select(.level == "problem")'"""

FORMATS = ("table", "json", "yaml")
# The options that are repeated in the commands that lines propose: those that explain and can-pull have, and the rest.
_SHARED = ("host_root", "config", "bin_dir", "hosts_dir", "registries_conf", "ca_file")
_OTHERS = ("root", "kubernetes")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of ``keyferry doctor``."""
    add_output_argument(parser, FORMATS)
    parser.add_argument(
        "--problems",
        action="store_true",
        help="show problems, warnings and what could not be checked, and no more",
    )
    add_config_arguments(parser)
    add_host_root_argument(parser)
    group = parser.add_argument_group("location of other files")
    group.add_argument(
        "--root",
        metavar="DIR",
        help=f"the kubelet's root, which has its pull records (default: the running kubelet's, else {KUBELET_ROOT})",
    )
    add_mirror_arguments(group)
    parser.add_argument(
        "--kubernetes",
        type=_version,
        metavar="VERSION",
        help=f"the kubelet's version, such as 1.34 (default: not known; configs are checked by the rules of {LATEST})",
    )
    group = add_node_arguments(parser)
    group.add_argument(
        "--node",
        dest="on_node",
        type=parse_node_name,
        metavar="NAME",
        help="check this node of a cluster in place of this machine: through its node agent's pod, which sees the "
        "provider config and the plugins alone, else in a debug pod if --debug-image is given",
    )
    group.add_argument(
        "--agent",
        choices=(AUTO, OFF),
        metavar="WHICH",
        help="off does not ask the node agent's pod, so that the debug pod is asked (default: auto)",
    )
    cluster, _ = add_context_arguments(parser)
    cluster.add_argument(
        "--timeout",
        type=parse_seconds,
        metavar="SECONDS",
        help="time limit of each response of the API server, and of the node's (default: 60)",
    )
    online = parser.add_argument_group("requests to registries")
    online.add_argument(
        "--online",
        action="store_true",
        help="contact each registry, the container runtime and the node agent",
    )
    add_authority_argument(online)
    online.add_argument(
        "--registry-timeout",
        type=parse_seconds,
        default=10.0,
        metavar="SECONDS",
        help="time limit of all requests together (default: 10)",
    )


def _version(text: str) -> str:
    try:
        return rules_for(text, {}).version
    except ValueError as error:
        raise ArgumentTypeError(str(error)) from None


def run(args: argparse.Namespace) -> int:
    """Print the verdict and all lines, and return the exit code."""
    access = node_access(args, is_asked=bool(args.on_node))
    if access.is_asked:
        return _run_far(args, access)
    if cluster_options(args) != ClusterOptions() or args.timeout or args.agent:
        raise WrongUsage("the options for a cluster, --timeout and --agent are for --node NAME: add it")
    report(*host_root_notes())
    facts = gather_facts(args.node, _options(args))
    health = examine(facts, Hints(shared=_given(args, _SHARED), others=_given(args, _OTHERS)))
    return _show(args, health)


def _run_far(args: argparse.Namespace, access: NodeAccess) -> int:
    if _given(args, (*_SHARED, *_OTHERS)) or args.online:
        raise WrongUsage("--node asks a node for its own files: leave out the options for files and --online")
    request = Request(
        on_node=args.on_node,
        node_access=access,
        agent=args.agent,
        timeout_seconds=args.timeout or Request().timeout_seconds,
        cluster=cluster_options(args),
    )
    from keyferry.doctor.far_node import examine_node, health_debug_pod

    if access.is_dry_run:
        print(render_document(health_debug_pod(request), "yaml"))
        return Exit.OK
    return _show(args, examine_node(request, report))


def _show(args: argparse.Namespace, health: NodeHealth) -> int:
    shown = health.without_what_is_well() if args.problems else health
    if args.output == "table":
        print(render_health(shown))
    else:
        document = health_document(shown)
        print(render_document(document, args.output))
    if not health.is_node:
        return Exit.UNKNOWN
    return Exit.NO if health.has_findings else Exit.OK


def _options(args: argparse.Namespace) -> DoctorOptions:
    return DoctorOptions(
        config=args.config,
        bin_dir=args.bin_dir,
        root=args.root,
        hosts_dir=args.hosts_dir,
        registries_conf=args.registries_conf,
        host_root=usual_root(os.environ),
        is_online=args.online,
        ca_file=args.ca_file,
        timeout_seconds=args.registry_timeout,
        kubernetes=args.kubernetes or "",
    )


def _given(args: argparse.Namespace, names: tuple[str, ...]) -> tuple[str, ...]:
    """Return the options that were given, as words."""
    values = vars(args)
    pairs = ((f"--{name.replace('_', '-')}", values[name]) for name in names if values[name])
    return tuple(word for pair in pairs for word in pair)
