"""The node at a glance: kubelet, provider config, plugins, container runtime, mirrors, records and proxies."""

from __future__ import annotations

import argparse
import os
from argparse import ArgumentTypeError

from keyferry.cli.exits import Exit
from keyferry.cli.image_arguments import add_authority_argument, add_mirror_arguments
from keyferry.cli.options import add_config_arguments, add_output_argument, parse_seconds
from keyferry.doctor.examine import examine
from keyferry.doctor.gather import DoctorOptions, gather_facts
from keyferry.doctor.health import Hints, health_document, render_health
from keyferry.images.node.discover import ROOT_VARIABLE
from keyferry.images.node.kubelet import KUBELET_ROOT
from keyferry.lint.versions import LATEST, rules_for
from keyferry.show.documents import render_document

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
agent for its version, its config and the last failures of its providers.

Exit code 0 means that all is well, 1 that there is a problem or a warning, 6 that this machine does not
look like a node."""

EXAMPLES = """\
examples:
  sudo keyferry doctor                                root sees the kubelet's environment and records
  sudo keyferry doctor --online                       also asks the registries
  keyferry doctor --config ./config.yaml --bin-dir ./bin
  keyferry doctor -o json | jq '.sections[].lines[] | select(.level == "problem")'"""

FORMATS = ("table", "json", "yaml")
# The options that are repeated in the commands that lines propose: those that explain and can-pull have, and the rest.
_SHARED = ("config", "bin_dir", "hosts_dir", "registries_conf", "ca_file")
_OTHERS = ("root", "kubernetes")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of ``keyferry doctor``."""
    add_output_argument(parser, FORMATS)
    add_config_arguments(parser)
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
    facts = gather_facts(args.node, _options(args))
    health = examine(facts, Hints(shared=_given(args, _SHARED), others=_given(args, _OTHERS)))
    if args.output == "table":
        print(render_health(health))
    else:
        document = health_document(health)
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
        host_root=os.environ.get(ROOT_VARIABLE) or "/",
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
