"""RBAC objects that permit the requests for a service account's tokens: those of a user, and those of kubelets.

'kubectl apply' replaces the rules of an object that has the same name. So every permission has objects of its own,
whose name has a digest of what they permit: applying them takes nothing away from other audiences, accounts or users.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

__all__ = ["AUDIENCE_VERB", "NODE_GROUP", "node_manifests", "user_manifests"]

Json = dict[str, object]

# The NodeRestriction admission plugin authorizes this verb on a resource that is named after the audience.
AUDIENCE_VERB = "request-serviceaccounts-token-audience"
NODE_GROUP = "system:nodes"
_GROUP = "rbac.authorization.k8s.io"
_USER_ROLE = "keyferry-plugin-try"
_NODE_ROLE = "kubelet-credential-provider-audience"


def user_manifests(namespace: str, account: str, user: str) -> tuple[Json, ...]:
    """Return the Role and RoleBinding that let *user* read an account and request its tokens."""
    rules = [
        _rule("serviceaccounts", "get", [account]),
        _rule("serviceaccounts/token", "create", [account]),
    ]
    metadata = {"name": _name(_USER_ROLE, account, user), "namespace": namespace}
    subject = {"apiGroup": _GROUP, "kind": "User", "name": user}
    return _role("", metadata, rules), _binding("", metadata, subject)


def node_manifests(audiences: Sequence[str], account: str = "") -> tuple[Json, ...]:
    """Return a ClusterRole and a ClusterRoleBinding for each of *audiences*, which let kubelets request such tokens.

    With *account*, only for service accounts of that name.
    """
    subject = {"apiGroup": _GROUP, "kind": "Group", "name": NODE_GROUP}
    manifests: list[Json] = []
    for audience in audiences:
        metadata = {"name": _name(_NODE_ROLE, audience, account)}
        rules = [_rule(audience, AUDIENCE_VERB, [account] if account else [])]
        manifests += _role("Cluster", metadata, rules), _binding("Cluster", metadata, subject)
    return tuple(manifests)


def _name(prefix: str, *permitted: str) -> str:
    digest = hashlib.sha256("\0".join(permitted).encode("utf-8", "surrogatepass")).hexdigest()
    return f"{prefix}-{digest[:12]}"


def _rule(resource: str, verb: str, names: list[str]) -> Json:
    named = {"resourceNames": names} if names else {}
    return {"apiGroups": [""], "resources": [resource], **named, "verbs": [verb]}


def _role(scope: str, metadata: dict[str, str], rules: list[Json]) -> Json:
    return {"apiVersion": f"{_GROUP}/v1", "kind": f"{scope}Role", "metadata": dict(metadata), "rules": rules}


def _binding(scope: str, metadata: dict[str, str], subject: dict[str, str]) -> Json:
    role = {"apiGroup": _GROUP, "kind": f"{scope}Role", "name": metadata["name"]}
    return {
        "apiVersion": f"{_GROUP}/v1",
        "kind": f"{scope}RoleBinding",
        "metadata": dict(metadata),
        "roleRef": role,
        "subjects": [subject],
    }
