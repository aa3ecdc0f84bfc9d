"""Pods, and the data of their service accounts that providers receive."""

from __future__ import annotations

import time
from collections.abc import Mapping

from keyferry._core.jwt_claims import JwtError, read_claims
from keyferry._core.type_forms import Protocol
from keyferry._core.values import Value, field
from keyferry.api.kubeletconfig.v1 import ServiceAccountTokenAttributes
from keyferry.errors import NodeAudienceError, ServiceAccountError
from keyferry.images.answer import LookupInput, MissingInput
from keyferry.images.keyring import ServiceAccountRef


class Pod(Value):
    """The pod an image is pulled for."""

    namespace: str = ""
    name: str = ""
    uid: str = ""
    service_account_name: str = ""


class Relayed(Pod):
    """A service account token that a caller passes on, in place of a pod, and the key of its answers in caches.

    Nobody has verified the token, so *key* depends on all of it and not on its claims. Its answers are dropped at
    *until_ns*, on the clock of the providers; they are not cached if that is None.
    """

    token: str = field(default="", repr=False)
    annotations: Mapping[str, str] = field(default_factory=dict)
    key: bytes = field(default=b"", repr=False)
    until_ns: int | None = None
    ref: ServiceAccountRef | None = None


class ServiceAccount(Value):
    """A service account from the API server; *annotations* is None if they are not known."""

    uid: str
    annotations: Mapping[str, str] | None = field(default_factory=dict)


class TokenRequest(Value):
    """A request to the API server for a token for one audience, bound to the pod."""

    account: ServiceAccountRef
    audience: str
    pod: Pod

    def to_document(self) -> dict[str, object]:
        """Return a TokenRequest of ``authentication.k8s.io/v1``; the server chooses the expiry."""
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
    """A source of service accounts and their tokens; both methods may raise ServiceAccountError."""

    def get(self, namespace: str, name: str) -> ServiceAccount:
        """Return the account of that name."""

    def token(self, request: TokenRequest) -> str:
        """Return a token as requested."""


class StaticAccount(Value):
    """One account with one token, as given on a command line; *token_text* is None if no token was given."""

    account: ServiceAccount
    token_text: str | None = field(repr=False)

    def get(self, namespace: str, name: str) -> ServiceAccount:  # noqa: ARG002 - there is only one
        """Return the account for any name."""
        return self.account

    def token(self, request: TokenRequest) -> str:
        """Return the token; raise NotGivenError if there is none or an API server would not issue it for *request*."""
        instead = "" if self.token_text is None else _why_unfit(self.token_text, request)
        if self.token_text is None or instead:
            raise NotGivenError((_missing(LookupInput.SERVICE_ACCOUNT_TOKEN, request.account, instead),))
        return self.token_text


class Identity(Value):
    """The data of a pod's service account that a provider receives; empty for a provider or pod without one.

    *missing* are the inputs that a kubelet would also pass to the provider and that were not given.
    *key* and *until_ns* are those of a relayed token.
    """

    ref: ServiceAccountRef | None = None
    token: str = field(default="", repr=False)
    annotations: Mapping[str, str] | None = None
    missing: tuple[MissingInput, ...] = ()
    key: bytes = field(default=b"", repr=False)
    until_ns: int | None = None


NOBODY = Identity()
_NO_POD = (MissingInput(input=LookupInput.POD),)


def pick_annotations(
    attributes: ServiceAccountTokenAttributes, annotations: Mapping[str, str]
) -> tuple[dict[str, str], str]:
    """Return the annotations that a provider is configured for, and the first required key that is missing, if any."""
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
    """Return the audiences of a JSON web token, unverified, or None for a token of another form."""
    claims = _claims(token)
    if claims is None:
        return None
    named = claims.get("aud")
    return tuple(each for each in (named if isinstance(named, list) else [named]) if isinstance(each, str))


def _claims(token: str) -> dict[str, object] | None:
    """Return the claims of a JSON web token, unverified, or None for a token of another form."""
    try:
        return read_claims(token, is_strict=False)
    except JwtError:
        return None


class NotApplicable(Exception):
    """The provider does not apply to this pod, which is not a failure; *lacking* is an annotation that it requires."""

    def __init__(self, message: str, lacking: str = "") -> None:
        super().__init__(message)
        self.lacking = lacking


class NotGivenError(ServiceAccountError):
    """The provider's answer for this pod depends on inputs that were not given."""

    def __init__(self, missing: tuple[MissingInput, ...]) -> None:
        message = "; ".join(map(str, missing))
        super().__init__(message, f"failed to get service account: {message}")
        self.args = (missing,)
        self.missing = missing


def identify(
    attributes: ServiceAccountTokenAttributes | None, accounts: ServiceAccounts | None, pod: Pod | None
) -> Identity:
    """Return the identity that a provider is run with.

    Raise NotApplicable if the provider does not apply to the pod, ServiceAccountError if *accounts* fails, and
    NotGivenError, which is one, if inputs were not given.
    """
    if attributes is None or not attributes.service_account_token_audience:
        return NOBODY
    if pod is None:
        if attributes.require_service_account:
            raise NotGivenError(_NO_POD)
        return Identity(missing=_NO_POD)
    if isinstance(pod, Relayed):
        return _relay(attributes, pod)
    if not pod.service_account_name:
        if attributes.require_service_account:
            raise NotApplicable("the provider requires a service account, and the pod has none")
        return NOBODY
    return _fetch(attributes, _UNKNOWN_ACCOUNT if accounts is None else accounts, pod)


def _relay(attributes: ServiceAccountTokenAttributes, relayed: Relayed) -> Identity:
    annotations, lacking = pick_annotations(attributes, relayed.annotations)
    if lacking:
        raise _lacks(lacking)
    _check_audience(relayed.token, attributes.service_account_token_audience)
    return Identity(
        ref=relayed.ref,
        token=relayed.token,
        annotations=annotations,
        key=relayed.key,
        until_ns=relayed.until_ns,
    )


def _lacks(annotation: str) -> NotApplicable:
    return NotApplicable(
        f"the service account lacks the annotation {annotation!r}, which the provider requires", annotation
    )


_UNKNOWN_ACCOUNT = StaticAccount(account=ServiceAccount(uid="", annotations=None), token_text=None)


def _fetch(attributes: ServiceAccountTokenAttributes, accounts: ServiceAccounts, pod: Pod) -> Identity:
    try:
        account = accounts.get(pod.namespace, pod.service_account_name)
    except ServiceAccountError as error:
        raise _reworded("failed to get service account", error) from None
    ref = ServiceAccountRef(namespace=pod.namespace, name=pod.service_account_name, uid=account.uid)
    missing = _missing_annotations(attributes, account, ref)
    annotations, lacking = pick_annotations(attributes, account.annotations or {})
    if lacking and not missing:
        raise _lacks(lacking)
    try:
        token = accounts.token(
            TokenRequest(account=ref, audience=attributes.service_account_token_audience, pod=pod)
        )
    except NotGivenError as not_given:
        raise NotGivenError((*missing, *not_given.missing)) from None
    except NodeAudienceError:
        raise
    except ServiceAccountError as error:
        raise _reworded("failed to get service account token", error) from None
    _check_audience(token, attributes.service_account_token_audience)
    if lacking:
        raise NotGivenError(missing)
    return Identity(ref=ref, token=token, annotations=annotations, missing=missing)


def _missing_annotations(
    attributes: ServiceAccountTokenAttributes, account: ServiceAccount, ref: ServiceAccountRef
) -> tuple[MissingInput, ...]:
    """Return the account as a missing input if the provider receives annotations and they are not known."""
    asked = (
        attributes.required_service_account_annotation_keys
        or attributes.optional_service_account_annotation_keys
    )
    return (_missing(LookupInput.SERVICE_ACCOUNT, ref),) if asked and account.annotations is None else ()


def _missing(what: LookupInput, ref: ServiceAccountRef, instead: str = "") -> MissingInput:
    return MissingInput(input=what, name=f"{ref.namespace}/{ref.name}", instead=instead)


def _check_audience(token: str, wanted: str) -> None:
    """Raise ServiceAccountError for a token of another audience, which an API server would not issue."""
    wrong = _wrong_audience(token, wanted)
    if wrong:
        message = f"the service account token {wrong}; it is not passed to the plugin"
        raise ServiceAccountError(message, message)


def _wrong_audience(token: str, wanted: str) -> str:
    audiences = token_audiences(token)
    if audiences is None or wanted in audiences:
        return ""
    found = ", ".join(map(repr, audiences)) or "no audience"
    return f"is for {found}, expected the audience {wanted!r}"


_SUBJECT = "system:serviceaccount:"


def _why_unfit(token: str, request: TokenRequest) -> str:
    """Return why the kubelet would not get this token, and a command that creates one; empty if it would."""
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
        f"the given token {wrong}; run 'kubectl create token {ref.name} --namespace {ref.namespace} "
        f"--audience {request.audience}' to create one"
    )


def _reworded(what: str, error: ServiceAccountError) -> ServiceAccountError:
    return ServiceAccountError(f"{what}: {error.message}", f"{what}: {error.kubernetes_text}")
