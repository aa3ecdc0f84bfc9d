"""Tokens of service accounts as the kubelet gets them: whether the node may request them, and the requests."""

from __future__ import annotations

from enum import StrEnum

from keyferry._core.values import Value
from keyferry.clusters.access import ClusterAccess
from keyferry.clusters.api_calls import (
    ApiAction,
    ApiProblem,
    BoundPod,
    may_user,
    request_token,
    server_version,
)
from keyferry.errors import NodeAudienceError
from keyferry.images.answer import LookupInput, MissingInput
from keyferry.images.keyring import ServiceAccountRef
from keyferry.images.provider.accounts import NotGivenError, ServiceAccount, TokenRequest
from keyferry.workloads.objects import ObjectKind
from keyferry.workloads.rbac import AUDIENCE_VERB, NODE_GROUP, node_manifests
from keyferry.workloads.reader import ClusterReader

__all__ = [
    "ClusterAccounts",
    "NodePermission",
    "NodeTokens",
    "PermissionReason",
    "RequestedTokens",
    "review_node",
]

# The first version whose NodeRestriction admission plugin restricts the audiences of kubelets by default.
_RESTRICTED_SINCE = (1, 33)


class NodeTokens(Value):
    """The node of a pod, empty if it is not known, and the audiences of the tokens in the pod's volumes."""

    name: str = ""
    volume_audiences: tuple[str, ...] = ()


class PermissionReason(StrEnum):
    """Why a node may request tokens for an audience, or may not."""

    VOLUME = "volume"
    VERSION = "version"
    RBAC = "rbac"
    REFUSED = "refused"
    UNKNOWN = "unknown"


class NodePermission(Value):
    """Whether a node may request tokens for an audience.

    *version* is that of a server that does not restrict audiences, and *problem* the reason for an unknown answer.
    """

    reason: PermissionReason
    version: str = ""
    problem: ApiProblem | None = None


def review_node(
    session: ClusterAccess,
    node: NodeTokens,
    account: ServiceAccountRef,
    audience: str,
    *,
    timeout_seconds: float = 60.0,
) -> NodePermission:
    """Ask the API server whether the kubelet of *node* may request tokens of *account* for *audience*.

    An audience of a volume of the pod is always permitted, and older servers permit all.
    Raise ClusterAuthError if the server cannot be reached or the credential cannot be obtained.
    """
    if audience in node.volume_audiences:
        return NodePermission(reason=PermissionReason.VOLUME)
    version = server_version(session, timeout_seconds=timeout_seconds)
    if not isinstance(version, ApiProblem) and version < _RESTRICTED_SINCE:
        return NodePermission(reason=PermissionReason.VERSION, version=f"{version[0]}.{version[1]}")
    action = ApiAction(verb=AUDIENCE_VERB, resource=audience, namespace=account.namespace, name=account.name)
    user, groups = f"system:node:{node.name or 'any'}", (NODE_GROUP, "system:authenticated")
    allowed = may_user(session, user, groups, action, timeout_seconds=timeout_seconds)
    if isinstance(allowed, ApiProblem):
        return NodePermission(reason=PermissionReason.UNKNOWN, problem=allowed)
    return NodePermission(reason=PermissionReason.RBAC if allowed else PermissionReason.REFUSED)


class RequestedTokens(Value):
    """One account, whose tokens are requested for the audience of each provider, bound to the pod if there is one.

    Unless *is_requested*, it is only asked whether the node may request them.
    """

    session: ClusterAccess
    account: ServiceAccount
    node: NodeTokens = NodeTokens()
    timeout_seconds: float = 60.0
    is_requested: bool = True

    def get(self, namespace: str, name: str) -> ServiceAccount:  # noqa: ARG002 - there is only one
        """Return the account for any name."""
        return self.account

    def token(self, request: TokenRequest) -> str:
        """Return a token that the kubelet of the node gets as well.

        Raise NodeAudienceError if the node may not request it, and NotGivenError if that is not known or this user
        does not get it, since a kubelet may get it.
        """
        self._check_node(request)
        if not self.is_requested:
            raise _not_given(request)
        pod = BoundPod(name=request.pod.name, uid=request.pod.uid) if request.pod.name else None
        answer = request_token(
            self.session,
            request.account.namespace,
            request.account.name,
            audience=request.audience,
            pod=pod,
            account_uid=request.account.uid,
            timeout_seconds=self.timeout_seconds,
        )
        if isinstance(answer, ApiProblem):
            raise _not_given(request, str(answer))
        return answer.token

    def _check_node(self, request: TokenRequest) -> None:
        account, audience = request.account, request.audience
        found = review_node(self.session, self.node, account, audience, timeout_seconds=self.timeout_seconds)
        if found.reason is PermissionReason.REFUSED:
            manifests = node_manifests((audience,), account.name)
            raise NodeAudienceError(
                self.node.name, audience, f"{account.namespace}/{account.name}", manifests
            )
        if found.reason is PermissionReason.UNKNOWN:
            who = f"node {self.node.name!r}" if self.node.name else "the kubelet"
            why = f"whether {who} may request tokens for audience {audience!r} is unknown: {found.problem}"
            raise _not_given(request, why)


class ClusterAccounts(Value):
    """All accounts of a cluster, read when they are needed; their tokens are requested as in RequestedTokens."""

    session: ClusterAccess
    reader: ClusterReader
    node: NodeTokens = NodeTokens()
    timeout_seconds: float = 60.0
    is_requested: bool = True

    def get(self, namespace: str, name: str) -> ServiceAccount:
        """Return an account; its annotations are not known if it cannot be read."""
        found = self.reader.get(ObjectKind.SERVICE_ACCOUNT, namespace, name)
        if isinstance(found, ApiProblem):
            return ServiceAccount(uid="", annotations=None)
        return ServiceAccount(uid=found.uid, annotations=found.annotations)

    def token(self, request: TokenRequest) -> str:
        """Return a token, or raise, as RequestedTokens does."""
        requested = RequestedTokens(
            session=self.session,
            account=self.get(request.account.namespace, request.account.name),
            node=self.node,
            timeout_seconds=self.timeout_seconds,
            is_requested=self.is_requested,
        )
        return requested.token(request)


def _not_given(request: TokenRequest, instead: str = "") -> NotGivenError:
    account = f"{request.account.namespace}/{request.account.name}"
    return NotGivenError(
        (MissingInput(input=LookupInput.SERVICE_ACCOUNT_TOKEN, name=account, instead=instead),)
    )
