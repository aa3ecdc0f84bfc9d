"""What the running kubelet is set to, where the command line does not say: root, policy, runtime, environment."""

import os
from collections.abc import Mapping, Sequence

from keyferry._core.reasons import Reason, ReasonOutcome, ReasonStage
from keyferry._core.values import Value, field
from keyferry.cli.frame.commands import WrongUsage
from keyferry.errors import EnvironmentProblem, PolicyError
from keyferry.images.node.discover import Discovery
from keyferry.images.node.kubelet import KUBELET_ROOT, Kubelet
from keyferry.images.node.node import Node
from keyferry.show.report import report

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse

    from keyferry.images.node.settings import KubeletSettings
    from keyferry.pulls.records.policy import VerificationPolicy

__all__ = [
    "PluginEnvironment",
    "add_no_kubelet_argument",
    "environment_notes",
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


class PluginEnvironment(Value):
    """The environment that plugins get: *variables*, None for that of this process, and whose it is.

    *traps* beware of one that is not the kubelet's, though the kubelet is known.
    """

    owner: str
    variables: Mapping[str, str] | None = field(default=None, repr=False)
    traps: tuple[Reason, ...] = ()


def plugin_environment(args: "argparse.Namespace", found: Discovery) -> PluginEnvironment:
    """A kubelet's, where discovery has found one, or if it is asked for; then it raises EnvironmentProblem."""
    node: Node = args.node
    kubelet = found.kubelet or (node.kubelet if args.env_from == KUBELET else None)
    variables = None if kubelet is None or args.env_from == SELF else kubelet.read_environment()
    if variables is not None:
        return PluginEnvironment(str(kubelet), variables)
    if args.env_from != KUBELET:
        return PluginEnvironment("this process", traps=() if kubelet is None else (_trap(args, kubelet),))
    if kubelet is None:
        raise EnvironmentProblem("--env-from kubelet: no running kubelet is found")
    raise EnvironmentProblem(
        f"--env-from kubelet: the environment of {kubelet} may not be read; try with sudo"
    )


def environment_notes(args: "argparse.Namespace", environment: PluginEnvironment) -> tuple[str, ...]:
    """The traps for those who print none; who said which environment it is knows it."""
    return () if args.env_from == SELF else tuple(reason.text for reason in environment.traps)


def _trap(args: "argparse.Namespace", kubelet: Kubelet) -> Reason:
    """Beware: plugins get another environment than the kubelet gives them."""
    why = "as --env-from says" if args.env_from == SELF else "since its own may not be read; try with sudo"
    text = (
        f"plugins get the environment of this process and not that of {kubelet}, {why}: "
        "proxies, regions and credentials may differ, and with them the answer"
    )
    return Reason(ReasonStage.TRAP, "environment", ReasonOutcome.ENVIRONMENT, text)
