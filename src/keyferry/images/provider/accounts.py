"""Pods and their service accounts, as far as providers are told of them."""

import binascii
import time
from collections.abc import Mapping

from keyferry._core.json import loads
from keyferry._core.values import Value, field
from keyferry.api.kubeletconfig.v1 import ServiceAccountTokenAttributes
from keyferry.errors import DocumentError, ServiceAccountError
from keyferry.images.keyring import ServiceAccountRef
from keyferry.images.missing import LookupInput, MissingInput

TYPE_CHECKING = False  # spelled out: a start must not pay for typing
if TYPE_CHECKING:
    from typing import Protocol
else:
    Protocol = object


class Pod(Value):
    """The pod an image is pulled for."""

    namespace: str = ""
    name: str = ""
    uid: str = ""
    service_account_name: str = ""


class ServiceAccount(Value):
    """A service account as the API server has it; *annotations* is None where they are not known."""

    uid: str
    annotations: Mapping[str, str] | None = field(default_factory=dict)


class TokenRequest(Value):
    """What the kubelet asks the API server for: a token for one audience, bound to the pod."""

    account: ServiceAccountRef
    audience: str
    pod: Pod

    def to_document(self) -> dict[str, object]:
        """As a TokenRequest of ``authentication.k8s.io/v1``; the expiry is left to the server."""
        bound = {"apiVersion": "v1", "kind": "Pod", "name": self.pod.name, "uid": self.pod.uid}
        return {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "metadata": {
                "name": self.account.name,
                "namespace": self.account.namespace,
                "uid": self.account.uid,
            },
            "spec": {"audiences": [self.audience], "expirationSeconds": None, "boundObjectRef": bound},
        }


class ServiceAccounts(Protocol):
    """A source of service accounts and their tokens; both raise ServiceAccountError."""

    def get(self, namespace: str, name: str) -> ServiceAccount:
        """The account of that name."""

    def token(self, request: TokenRequest) -> str:
        """A token as requested."""


class StaticAccount(Value):
    """One account with one token, as given on a command line; the token is None if it was not given."""

    account: ServiceAccount
    token_text: str | None = field(repr=False)

    def get(self, namespace: str, name: str) -> ServiceAccount:  # noqa: ARG002 - there is only one
        """The account, whatever it is called."""
        return self.account

    def token(self, request: TokenRequest) -> str:
        """The token; one that an API server would not give for *request* counts as none."""
        instead = "" if self.token_text is None else _why_unfit(self.token_text, request)
        if self.token_text is None or instead:
            raise NotGivenError((_missing(LookupInput.SERVICE_ACCOUNT_TOKEN, request.account, instead),))
        return self.token_text


class Identity(Value):
    """What a provider is told of a pod's account: nothing, for a provider or pod without one.

    *missing* is what the kubelet would tell the provider beside it, and we do not know.
    """

    ref: ServiceAccountRef | None = None
    token: str = field(default="", repr=False)
    annotations: Mapping[str, str] | None = None
    missing: tuple[MissingInput, ...] = ()


NOBODY = Identity()
_NO_POD = (MissingInput(LookupInput.POD),)


def pick_annotations(
    attributes: ServiceAccountTokenAttributes, annotations: Mapping[str, str]
) -> tuple[dict[str, str], str]:
    """The annotations a provider asked for, and the first required one that is missing, if any."""
    picked: dict[str, str] = {}
    for key in attributes.required_service_account_annotation_keys or ():
        if key not in annotations:
            return {}, key
        picked[key] = annotations[key]
    for key in attributes.optional_service_account_annotation_keys or ():
        if key in annotations:
            picked[key] = annotations[key]
    return picked, ""


def token_audiences(token: str) -> tuple[str, ...] | None:
    """The audiences that a JSON web token names, unverified; None for a token of another form."""
    claims = _claims(token)
    if claims is None:
        return None
    named = claims.get("aud")
    return tuple(each for each in (named if isinstance(named, list) else [named]) if isinstance(each, str))


def _claims(token: str) -> dict[str, object] | None:
    """What a JSON web token says, unverified; None for a token of another form."""
    parts = token.split(".")
    if len(parts) != 3:  # header, claims, signature
        return None
    try:
        claims = loads(_decode_part(parts[1]))
    except (binascii.Error, DocumentError, ValueError):
        claims = None
    return claims if isinstance(claims, dict) else None


def _decode_part(part: str) -> bytes:
    standard = part.encode("ascii").translate(bytes.maketrans(b"-_", b"+/"))
    return binascii.a2b_base64(standard + b"=" * (-len(standard) % 4))


class NotApplicable(Exception):
    """The provider is not for this pod; not a failure."""


class NotGivenError(ServiceAccountError):
    """Whether the provider is for this pod, or what it would answer, depends on what was not given."""

    def __init__(self, missing: tuple[MissingInput, ...]) -> None:
        message = "; ".join(map(str, missing))
        super().__init__(message, f"failed to get service account: {message}")
        self.args = (missing,)
        self.missing = missing


def identify(
    attributes: ServiceAccountTokenAttributes | None, accounts: ServiceAccounts | None, pod: Pod | None
) -> Identity:
    """Whom a provider is asked on behalf of.

    Raises NotApplicable for a pod the provider is not for, ServiceAccountError if the API server does not help,
    and of these NotGivenError if there is nobody to ask.
    """
    if attributes is None or not attributes.service_account_token_audience:
        return NOBODY
    if pod is None:
        if attributes.require_service_account:
            raise NotGivenError(_NO_POD)
        return Identity(missing=_NO_POD)
    if not pod.service_account_name:
        if attributes.require_service_account:
            raise NotApplicable("it requires a service account, and the pod has none")
        return NOBODY
    return _fetch(attributes, _UNKNOWN_ACCOUNT if accounts is None else accounts, pod)


_UNKNOWN_ACCOUNT = StaticAccount(ServiceAccount("", None), None)


def _fetch(attributes: ServiceAccountTokenAttributes, accounts: ServiceAccounts, pod: Pod) -> Identity:
    try:
        account = accounts.get(pod.namespace, pod.service_account_name)
    except ServiceAccountError as error:
        raise _reworded("failed to get service account", error) from None
    ref = ServiceAccountRef(pod.namespace, pod.service_account_name, account.uid)
    missing = _missing_annotations(attributes, account, ref)
    annotations, lacking = pick_annotations(attributes, account.annotations or {})
    if lacking and not missing:
        raise NotApplicable(f"the service account lacks the annotation {lacking!r}, which it requires")
    try:
        token = accounts.token(TokenRequest(ref, attributes.service_account_token_audience, pod))
    except NotGivenError as untold:
        raise NotGivenError((*missing, *untold.missing)) from None
    except ServiceAccountError as error:
        raise _reworded("failed to get service account token", error) from None
    _check_audience(token, attributes.service_account_token_audience)
    if lacking:
        raise NotGivenError(missing)
    return Identity(ref, token, annotations, missing)


def _missing_annotations(
    attributes: ServiceAccountTokenAttributes, account: ServiceAccount, ref: ServiceAccountRef
) -> tuple[MissingInput, ...]:
    """The account itself, where the provider is told its annotations and they are not known."""
    asked = (
        attributes.required_service_account_annotation_keys
        or attributes.optional_service_account_annotation_keys
    )
    return (_missing(LookupInput.SERVICE_ACCOUNT, ref),) if asked and account.annotations is None else ()


def _missing(what: LookupInput, ref: ServiceAccountRef, instead: str = "") -> MissingInput:
    return MissingInput(what, f"{ref.namespace}/{ref.name}", instead)


def _check_audience(token: str, wanted: str) -> None:
    """Keep a token that is meant for somebody else from a plugin; an API server never gives one."""
    wrong = _wrong_audience(token, wanted)
    if wrong:
        message = f"the service account token {wrong}; the plugin does not get it"
        raise ServiceAccountError(message, message)


def _wrong_audience(token: str, wanted: str) -> str:
    audiences = token_audiences(token)
    if audiences is None or wanted in audiences:
        return ""
    found = ", ".join(map(repr, audiences)) or "nobody in particular"
    return f"is for {found}, expected the audience {wanted!r}"


_SUBJECT = "system:serviceaccount:"


def _why_unfit(token: str, request: TokenRequest) -> str:
    """What shows that a token is not the one that the kubelet would get, and how to get that; empty if nothing."""
    ref, claims = request.account, _claims(token) or {}
    subject, end = claims.get("sub"), claims.get("exp")
    wrong = _wrong_audience(token, request.audience)
    if not token:
        wrong = "is empty"
    elif isinstance(subject, str) and subject.startswith(_SUBJECT):
        owner = f"{_SUBJECT}{ref.namespace}:{ref.name}"
        wrong = wrong or (f"is of {subject!r}, expected {owner!r}" if subject != owner else "")
    if not wrong and isinstance(end, int) and end <= time.time():
        wrong = "has expired"
    if not wrong:
        return ""
    return (
        f"the one that was {wrong}; 'kubectl create token {ref.name} --namespace {ref.namespace} "
        f"--audience {request.audience}' makes the right one"
    )


def _reworded(what: str, error: ServiceAccountError) -> ServiceAccountError:
    return ServiceAccountError(f"{what}: {error.message}", f"{what}: {error.kubernetes_text}")
