"""What was given, or what this machine has, is not usable; and pull records."""

from keyferry.errors.kinds import KeyferryError, Kind, TextError

__all__ = [
    "EnvironmentProblem",
    "ImageNameError",
    "MatchError",
    "PolicyError",
    "PullSecretError",
    "RecordError",
    "ServiceAccountError",
]


class EnvironmentProblem(TextError):
    """Something on this machine is missing or not permitted: a config, a file, a right."""

    kind = Kind.ENVIRONMENT


class ImageNameError(TextError):
    """An image name that cannot be parsed."""

    kind = Kind.NAME


class MatchError(TextError):
    """A pattern or image that does not parse as a registry URL, or a malformed glob."""

    kind = Kind.PATTERN


class PullSecretError(TextError):
    """An image pull secret or docker config whose content cannot be read."""

    kind = Kind.PULL_SECRET


class ServiceAccountError(TextError):
    """A service account or its token could not be had."""

    kind = Kind.SERVICE_ACCOUNT


class PolicyError(TextError):
    """A program that the policy does not let us run, or a policy that makes no sense.

    ``field`` is the one at fault in an entry of the policy's allowlist, empty where it is not one field.
    """

    kind = Kind.POLICY

    def __init__(self, message: str, kubernetes_text: str = "", field: str = "") -> None:
        super().__init__(message, kubernetes_text)
        self.args = (message, kubernetes_text, field)
        self.field = field


class RecordError(KeyferryError):
    """A pull record or intent that cannot be read, must not be believed, or could not be written.

    ``kind`` is ``SYNTAX``, ``TYPE``, ``CONTENT``, ``TRUST``, ``FOREIGN``, ``MISPLACED``, ``LOCKED`` or ``SYSTEM``;
    ``document_kind`` what Kubernetes has against the document, where that is what is wrong.
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
