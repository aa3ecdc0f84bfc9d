"""Errors of arguments, of this machine, and of pull records."""

from __future__ import annotations

from keyferry.errors.kinds import KeyferryError, Kind, TextError

__all__ = [
    "EnvironmentProblem",
    "ImageNameError",
    "MatchError",
    "NodeAudienceError",
    "PolicyError",
    "PullSecretError",
    "RecordError",
    "ServiceAccountError",
]


class EnvironmentProblem(TextError):
    """A config, a file or a permission is missing on this machine."""

    kind = Kind.ENVIRONMENT


class ImageNameError(TextError):
    """An image name that cannot be parsed."""

    kind = Kind.NAME


class MatchError(TextError):
    """A pattern or image that does not parse as a registry URL, or a malformed glob."""

    kind = Kind.PATTERN


class PullSecretError(TextError):
    """An image pull secret or docker config whose content cannot be read.

    ``secret`` is the namespace and name of the pull secret, as ``namespace/name``, or empty for a file.
    """

    kind = Kind.PULL_SECRET

    def __init__(self, message: str, kubernetes_text: str = "", secret: str = "") -> None:
        super().__init__(message, kubernetes_text)
        self.args = (message, kubernetes_text, secret)
        self.secret = secret


class ServiceAccountError(TextError):
    """A service account or its token could not be obtained."""

    kind = Kind.SERVICE_ACCOUNT


class NodeAudienceError(ServiceAccountError):
    """The API server does not let the kubelet of ``node`` request tokens for ``audience``.

    ``node`` is empty if the pod is on no node. ``account`` is the service account, as ``namespace/name``. ``manifests``
    are the RBAC objects that permit it, and take nothing away.
    """

    kind = Kind.REFUSED

    def __init__(
        self, node: str, audience: str, account: str = "", manifests: tuple[dict[str, object], ...] = ()
    ) -> None:
        who = f"node {node!r}" if node else "the kubelets of this cluster"
        name, user = account.rpartition("/")[2], f"system:node:{node or 'NODE'}"
        super().__init__(
            f"{who} may not request tokens for audience {audience!r}",
            f'failed to get service account token: failed to fetch token: serviceaccounts "{name}" is forbidden: '
            f'{user} is not authorized to request tokens for audience "{audience}"',
        )
        self.args = (node, audience, account, manifests)
        self.node = node
        self.audience = audience
        self.account = account
        self.manifests = manifests


class PolicyError(TextError):
    """A program that the policy does not permit, or an invalid policy.

    ``field`` is the invalid field of an allowlist entry, or empty if the problem is not in a single field.
    """

    kind = Kind.POLICY

    def __init__(self, message: str, kubernetes_text: str = "", field: str = "") -> None:
        super().__init__(message, kubernetes_text)
        self.args = (message, kubernetes_text, field)
        self.field = field


class RecordError(KeyferryError):
    """A pull record or intent that cannot be read, cannot be trusted, or could not be written.

    ``kind`` is ``SYNTAX``, ``TYPE``, ``CONTENT``, ``TRUST``, ``FOREIGN``, ``MISPLACED``, ``LOCKED`` or ``SYSTEM``.
    ``document_kind`` is the kind of Kubernetes' error for a document that Kubernetes refuses.
    """

    def __init__(
        self,
        path: str,
        message: str,
        kubernetes_text: str = "",
        kind: Kind = Kind.SYSTEM,
        document_kind: Kind = Kind.OTHER,
    ) -> None:
        super().__init__(path, message, kubernetes_text, kind, document_kind)
        self.path = path
        self.message = message
        self.kubernetes_text = kubernetes_text or message
        self.kind = kind
        self.document_kind = document_kind

    def __str__(self) -> str:
        return f"{self.path}: {self.message}" if self.path else self.message
