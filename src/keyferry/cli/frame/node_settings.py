"""Settings of the running kubelet, the defaults of options: root, policy, runtime, environment."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from keyferry._core.reasons import Reason, ReasonOutcome, ReasonStage
from keyferry._core.values import Value, field
from keyferry.cli.exits import WrongUsage
from keyferry.errors import EnvironmentProblem, PolicyError
from keyferry.images.node.discover import Discovery
from keyferry.images.node.kubelet import KUBELET_ROOT, Kubelet
from keyferry.images.node.settings import Node
from keyferry.show.writer import report

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
    "policy_of",
    "runtime_socket",
    "settings_of_root",
]

SELF, KUBELET = "self", "kubelet"


def add_no_kubelet_argument(parser: argparse.ArgumentParser | argparse._ArgumentGroup) -> None:
    """Declare ``--no-kubelet``, for machines whose processes cannot be listed."""
    parser.add_argument(
        "--no-kubelet",
        action="store_true",
        help="assume that no kubelet runs here; for containers, where its process would not be visible",
    )


def node_root(root: str | None, node: Node) -> str:
    """Return *root* if it is given, else the running kubelet's root, else the default root."""
    if root is not None:
        return os.path.abspath(root)
    settings = node.settings
    if settings is None:
        return KUBELET_ROOT
    path = settings.kubelet.inside(settings.root_dir.value)
    if path != KUBELET_ROOT:
        report(f"root {settings.root_dir}")
    return path


def node_policy(name: str | None, allow: Sequence[str], root: str, node: Node) -> VerificationPolicy:
    """Return the given policy, else that of the kubelet that uses *root*, else the default; raise WrongUsage.

    *root* is empty if there are no records.
    """
    from keyferry.pulls.records.policy import DEFAULT

    found = _kubelet_policy(root, node) if root and not name else None
    if found is not None and not allow:
        return found
    return parse_policy(name or (DEFAULT if found is None else found.name), allow)


def parse_policy(name: str, allow: Sequence[str]) -> VerificationPolicy:
    """Return the policy that the options name; raise WrongUsage."""
    from keyferry.pulls.records.policy import make_policy

    try:
        return make_policy(name, allow)
    except PolicyError as error:
        problem = str(error)
    raise WrongUsage(problem)


def settings_of_root(root: str, node: Node) -> KubeletSettings | None:
    """Return the settings of the running kubelet if it uses *root*, else None."""
    settings = node.settings
    if settings is None:
        return None
    used = settings.kubelet.inside(settings.root_dir.value)
    return settings if os.path.realpath(used) == os.path.realpath(root) else None


def _kubelet_policy(root: str, node: Node) -> VerificationPolicy | None:
    settings = settings_of_root(root, node)
    if settings is None:
        return None
    policy, notes = policy_of(settings)
    report(*settings.notes, *notes)
    return policy


def policy_of(settings: KubeletSettings) -> tuple[VerificationPolicy | None, tuple[str, ...]]:
    """Return the policy of a kubelet, None if it sets none or an invalid one, and notes about it."""
    from keyferry.images.node.settings import RECORDS_GATE
    from keyferry.pulls.records.policy import NEVER, make_policy

    if settings.gates.get(RECORDS_GATE) is False:
        note = f"policy {NEVER}: the feature gate {RECORDS_GATE} of {settings.kubelet} is off, so it verifies no image"
        return make_policy(NEVER), (note,)
    if settings.policy is None:
        return None, ()
    try:
        policy = make_policy(settings.policy.value, settings.allowlist)
    except PolicyError as error:
        return None, (f"policy {settings.policy}: {error}; it is ignored",)
    return policy, (f"policy {settings.policy}",)


def node_runtime(address: str, node: Node) -> str:
    """Return *address* if it is given, else the running kubelet's socket, else an empty string."""
    if address not in ("", "auto"):
        return address
    settings = node.settings
    path = None if settings is None else runtime_socket(settings)
    if settings is None or path is None:
        return ""
    report(f"container runtime {settings.image_endpoint or settings.endpoint}")
    return path


def runtime_socket(settings: KubeletSettings) -> str | None:
    """Return the path of the socket that a kubelet asks for images; None if it is not known, or does not exist."""
    endpoint = settings.image_endpoint or settings.endpoint
    if endpoint is None:
        return None
    path = settings.kubelet.inside(endpoint.value.removeprefix("unix://"))
    return None if "://" in path or not os.path.exists(path) else path


class PluginEnvironment(Value):
    """The environment of plugins: its owner and its *variables*, None for those of this process.

    *traps* warn about an environment that is not the known kubelet's.
    """

    owner: str
    variables: Mapping[str, str] | None = field(default=None, repr=False)
    traps: tuple[Reason, ...] = ()


def plugin_environment(args: argparse.Namespace, found: Discovery) -> PluginEnvironment:
    """Return the environment of the kubelet that discovery or ``--env-from`` names, else that of this process.

    Raise EnvironmentProblem if ``--env-from kubelet`` is given and the environment cannot be read.
    """
    node: Node = args.node
    kubelet = found.kubelet or (node.kubelet if args.env_from == KUBELET else None)
    variables = None if kubelet is None or args.env_from == SELF else kubelet.read_environment()
    if variables is not None:
        return PluginEnvironment(owner=str(kubelet), variables=variables)
    if args.env_from != KUBELET:
        return PluginEnvironment(
            owner="this process", traps=() if kubelet is None else (_trap(args, kubelet),)
        )
    if kubelet is None:
        raise EnvironmentProblem("--env-from kubelet: found no running kubelet")
    raise EnvironmentProblem(
        f"--env-from kubelet: no permission to read the environment of {kubelet}; try with sudo"
    )


def environment_notes(args: argparse.Namespace, environment: PluginEnvironment) -> tuple[str, ...]:
    """Return the traps as notes; none if ``--env-from self`` is given."""
    return () if args.env_from == SELF else tuple(reason.text for reason in environment.traps)


def _trap(args: argparse.Namespace, kubelet: Kubelet) -> Reason:
    """Return a warning that plugins get another environment than the kubelet's."""
    why = "as --env-from is self" if args.env_from == SELF else "which cannot be read; try with sudo"
    text = (
        f"plugins get the environment of this process, not that of {kubelet}, {why}: "
        "proxies, regions and credentials may differ, and so may the result"
    )
    return Reason(stage=ReasonStage.TRAP, subject="environment", outcome=ReasonOutcome.ENVIRONMENT, text=text)
