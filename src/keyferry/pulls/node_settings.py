"""Settings of the running kubelet that pulls and records depend on: its root, its policy, its container runtime."""

from __future__ import annotations

import os
from collections.abc import Sequence

from keyferry._core.host_root import is_on_host, on_host
from keyferry._core.values import Value
from keyferry.errors import PolicyError
from keyferry.images.node.kubelet import KUBELET_ROOT
from keyferry.images.node.settings import RECORDS_GATE, KubeletSettings, Node
from keyferry.pulls.records.policy import DEFAULT, NEVER, VerificationPolicy, make_policy

__all__ = [
    "NodePath",
    "NodePolicy",
    "find_policy",
    "find_root",
    "find_runtime",
    "policy_of",
    "runtime_socket",
    "settings_of_root",
]


class NodePath(Value):
    """A path, empty if it is not known, and notes on where it is set."""

    path: str
    notes: tuple[str, ...] = ()


class NodePolicy(Value):
    """A verification policy, and notes on where it is set."""

    policy: VerificationPolicy
    notes: tuple[str, ...] = ()


def find_root(root: str | None, node: Node) -> NodePath:
    """Return *root* if it is given, else the running kubelet's root, else the default root."""
    if root is not None:
        return NodePath(path=os.path.abspath(root))
    settings = node.settings
    if settings is None:
        return NodePath(path=KUBELET_ROOT)
    path = settings.kubelet.inside(settings.root_dir.value)
    return NodePath(path=path, notes=() if path == KUBELET_ROOT else (f"root {settings.root_dir}",))


def find_policy(name: str | None, allow: Sequence[str], root: str, node: Node) -> NodePolicy:
    """Return the given policy, else that of the kubelet that uses *root*, else the default; raise PolicyError.

    *root* is empty if there are no records.
    """
    settings = settings_of_root(root, node) if root and not name else None
    found, notes = (None, ()) if settings is None else policy_of(settings)
    if settings is not None:
        notes = (*settings.notes, *notes)
    if found is None or allow:
        found = make_policy(name or (DEFAULT if found is None else found.name), allow)
    return NodePolicy(policy=found, notes=notes)


def settings_of_root(root: str, node: Node) -> KubeletSettings | None:
    """Return the settings of the running kubelet if it uses *root*, else None."""
    settings = node.settings
    if settings is None:
        return None
    used = settings.kubelet.inside(settings.root_dir.value)
    return settings if _real(used) == _real(root) else None


def _real(path: str) -> str:
    try:
        return os.path.realpath(on_host(path))
    except OSError:
        return path


def policy_of(settings: KubeletSettings) -> tuple[VerificationPolicy | None, tuple[str, ...]]:
    """Return the policy of a kubelet, None if it sets none or an invalid one, and notes about it."""
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


def find_runtime(address: str, node: Node) -> NodePath:
    """Return *address* if it is given, else the running kubelet's socket; the path is empty if neither is known."""
    if address not in ("", "auto"):
        return NodePath(path=address)
    settings = node.settings
    path = None if settings is None else runtime_socket(settings)
    if settings is None or path is None:
        return NodePath(path="")
    note = f"container runtime {settings.image_endpoint or settings.endpoint}"
    return NodePath(path=path, notes=(note,))


def runtime_socket(settings: KubeletSettings) -> str | None:
    """Return the path of the socket that a kubelet asks for images; None if it is not known, or does not exist."""
    endpoint = settings.image_endpoint or settings.endpoint
    if endpoint is None:
        return None
    path = settings.kubelet.inside(endpoint.value.removeprefix("unix://"))
    return None if "://" in path or not is_on_host(path) else path
