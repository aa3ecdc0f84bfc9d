"""What the running kubelet is set to, where the command line does not say: root, policy, runtime, environment."""

import os
from collections.abc import Mapping, Sequence

from keyferry._core.reasons import Reason
from keyferry.cli.frame.commands import WrongUsage
from keyferry.errors import EnvironmentProblem, PolicyError
from keyferry.images.node.discover import Discovery
from keyferry.images.node.kubelet import KUBELET_ROOT
from keyferry.images.node.node import Node
from keyferry.show.report import report

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse

    from keyferry.images.node.settings import KubeletSettings
    from keyferry.pulls.records.policy import VerificationPolicy

__all__ = [
    "add_no_kubelet_argument",
    "environment_notes",
    "environment_text",
    "environment_traps",
    "node_policy",
    "node_root",
    "node_runtime",
    "parse_policy",
    "plugin_environment",
    "settings_of_root",
]

SELF, KUBELET = "self", "kubelet"


def add_no_kubelet_argument(parser: "argparse.ArgumentParser | argparse._ArgumentGroup") -> None:
    """For where processes cannot be seen."""
    parser.add_argument(
        "--no-kubelet",
        action="store_true",
        help="there is no kubelet here; for where its process could not be seen, such as in a container",
    )


def node_root(root: str | None, node: Node) -> str:
    """The root that was given, else that of the running kubelet, else the usual one."""
    if root is not None:
        return os.path.abspath(root)
    settings = node.settings
    if settings is None:
        return KUBELET_ROOT
    path = settings.kubelet.inside(settings.root_dir.value)
    if path != KUBELET_ROOT:
        report(f"root {settings.root_dir}")
    return path


def node_policy(name: str | None, allow: Sequence[str], root: str, node: Node) -> "VerificationPolicy":
    """The policy that was given, else that of the kubelet whose root it is, else the default; raises WrongUsage.

    *root* is empty where there are no records.
    """
    from keyferry.pulls.records.policy import DEFAULT

    found = _kubelet_policy(root, node) if root and not name else None
    if found is not None and not allow:
        return found
    return parse_policy(name or (DEFAULT if found is None else found.name), allow)


def parse_policy(name: str, allow: Sequence[str]) -> "VerificationPolicy":
    """The policy that options name; raises WrongUsage."""
    from keyferry.pulls.records.policy import make_policy

    try:
        return make_policy(name, allow)
    except PolicyError as error:
        problem = str(error)
    raise WrongUsage(problem)


def settings_of_root(root: str, node: Node) -> "KubeletSettings | None":
    """What the running kubelet is set to, if *root* is its root."""
    settings = node.settings
    if settings is None:
        return None
    used = settings.kubelet.inside(settings.root_dir.value)
    return settings if os.path.realpath(used) == os.path.realpath(root) else None


def _kubelet_policy(root: str, node: Node) -> "VerificationPolicy | None":
    from keyferry.images.node.settings import RECORDS_GATE
    from keyferry.pulls.records.policy import NEVER, make_policy

    settings = settings_of_root(root, node)
    if settings is None:
        return None
    report(*settings.notes)
    if settings.gates.get(RECORDS_GATE) is False:
        report(
            f"policy {NEVER}: the gate {RECORDS_GATE} of {settings.kubelet} is off, and it verifies nothing"
        )
        return make_policy(NEVER)
    if settings.policy is None:
        return None
    try:
        policy = make_policy(settings.policy.value, settings.allowlist)
    except PolicyError as error:
        report(f"policy {settings.policy}: {error}; it is left out")
        return None
    report(f"policy {settings.policy}")
    return policy


def node_runtime(address: str, node: Node) -> str:
    """The socket that was given, else that of the running kubelet; empty, to be looked for, if there is none."""
    if address not in ("", "auto"):
        return address
    settings = node.settings
    endpoint = None if settings is None else settings.image_endpoint or settings.endpoint
    if settings is None or endpoint is None:
        return ""
    path = settings.kubelet.inside(endpoint.value.removeprefix("unix://"))
    if "://" in path or not os.path.exists(path):
        return ""
    report(f"container runtime {endpoint}")
    return path


def plugin_environment(args: "argparse.Namespace", found: Discovery) -> Mapping[str, str] | None:
    """The environment that plugins get; None for that of this process.

    A kubelet's is taken where discovery has found one, or if it is asked for; then it raises EnvironmentProblem.
    """
    if args.env_from == SELF:
        return None
    if args.env_from != KUBELET:
        return None if found.kubelet is None else found.kubelet.read_environment()
    node: Node = args.node
    kubelet = found.kubelet or node.kubelet
    if kubelet is None:
        raise EnvironmentProblem("--env-from kubelet: no running kubelet is found")
    environment = kubelet.read_environment()
    if environment is None:
        raise EnvironmentProblem(
            f"--env-from kubelet: the environment of {kubelet} may not be read; try with sudo"
        )
    return environment


def environment_text(args: "argparse.Namespace", found: Discovery) -> str:
    """Whose environment plugins get."""
    if plugin_environment(args, found) is None:
        return "this process"
    node: Node = args.node
    return str(found.kubelet or node.kubelet)


def environment_notes(args: "argparse.Namespace", found: Discovery) -> list[str]:
    """The same for those who print no traps; who said which environment it is knows it."""
    return [] if args.env_from == SELF else [reason.text for reason in environment_traps(args, found)]


def environment_traps(args: "argparse.Namespace", found: Discovery) -> tuple[Reason, ...]:
    """Beware: plugins get another environment than the kubelet gives them."""
    if found.kubelet is None or plugin_environment(args, found) is not None:
        return ()
    why = "as --env-from says" if args.env_from == SELF else "since its own may not be read; try with sudo"
    text = (
        f"plugins get the environment of this process and not that of {found.kubelet}, {why}: "
        "proxies, regions and credentials may differ, and with them the answer"
    )
    return (Reason("trap", "environment", "environment", text),)
