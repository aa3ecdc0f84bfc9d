"""Lookups by the socket's clients: the question in a request, and the answers as documents."""

from __future__ import annotations

import hmac
import json
import os
import time
from collections.abc import Callable, Mapping

from keyferry._core.clock import monotonic_ns
from keyferry._core.jwt_claims import JwtError, read_claims
from keyferry._core.values import Value, field, replace
from keyferry._net.agent import API_VERSION, MAX_NAME_CHARACTERS
from keyferry.agent.journal import (
    NO_PROVIDER,
    SOURCES,
    DecisionOutcome,
    DecisionResult,
    RequestDecision,
    result_of_answer,
    result_of_provision,
)
from keyferry.agent.message import AgentReply, encode_document
from keyferry.api.meta import format_duration, format_time
from keyferry.errors import (
    ImageNameError,
    KeyferryError,
    PluginExitError,
    PluginNotFoundError,
    PluginStartError,
    PluginTimeoutError,
    ServiceAccountError,
)
from keyferry.explain.document import failures_document, source_document
from keyferry.images.answer import Answer, Auth, Provision, ProvisionOutcome, missing_documents
from keyferry.images.keyring import Credential, ServiceAccountRef
from keyferry.images.provider.accounts import Relayed
from keyferry.images.reference import ImageName, parse_image, shorten_name
from keyferry.images.registries import ANY_REPOSITORY, RegistryAnswer, RegistryOutcome

_SECOND = 1_000_000_000
_LAST_SECOND = 1 << 40
# Exit statuses of loaders, env and shells if a program or a library is not there or cannot be used.
_NOTHING_THERE = (126, 127)
# What glibc's loader, whose status is 1 then, says of a library that is too old for the program.
_TOO_OLD = "' not found (required by "


class BadQuestionError(Exception):
    """A request body that is not what it should be; the message quotes nothing of it."""


class AgentQuestion(Value):
    """A lookup: of an image, by one provider or by all, with a service account token if one was passed on.

    Of a question for a whole *registry*, the image is one that stands for all of them. *config_hash* and *bin_dir*
    name the config that the answer has to stand for; they are empty if the caller leaves that to the agent.
    """

    image: ImageName
    provider: str = ""
    token: str = field(default="", repr=False)
    annotations: Mapping[str, str] = field(default_factory=dict)
    account: ServiceAccountRef | None = None
    registry: str = ""
    config_hash: str = ""
    bin_dir: str = ""

    def decided(self, result: DecisionResult) -> RequestDecision:
        """Return what the journal says of this question; the token is no part of it."""
        account = self.account
        named = "" if account is None else f"{account.namespace}/{account.name}"
        image = self.registry or self.image.text
        return RequestDecision(
            image=shorten_name(image),
            account=shorten_name(named),
            provider=shorten_name(self.provider),
            result=result,
        )


def read_question(body: bytes) -> AgentQuestion:
    """Return the question in a request body; unknown fields are ignored. Raise BadQuestionError."""
    document = read_object(body)
    text = document.get("image")
    if text is None and "registry" in document:
        return _read_registry(document)
    if not isinstance(text, str):
        raise BadQuestionError("image: expected a string")
    image = _image(text)
    return AgentQuestion(
        image=image,
        provider=_text(document, "provider"),
        token=_text(document, "serviceAccountToken"),
        annotations=_texts(document, "serviceAccountAnnotations"),
        account=_account(document),
        config_hash=_text(document, "configHash"),
        bin_dir=_text(document, "binDir"),
    )


def _read_registry(document: Mapping[str, object]) -> AgentQuestion:
    """Return the question of a tool that names no image."""
    host = _text(document, "registry")
    _check_length("registry", host)
    try:
        image = parse_image(f"{host}/{ANY_REPOSITORY}")
    except ImageNameError:
        image = None
    if image is None or image.registry != host:
        raise BadQuestionError("registry: expected a host, with its port, such as 'registry.example:5000'")
    config_hash, bin_dir = _text(document, "configHash"), _text(document, "binDir")
    return AgentQuestion(image=image, registry=host, config_hash=config_hash, bin_dir=bin_dir)


def read_object(body: bytes) -> dict[str, object]:
    """Return the JSON object in a request body; raise BadQuestionError if it is none, or one of another version."""
    document: object = None
    try:
        # Decoded here: json would first guess the encoding.
        document = json.loads(body.decode())
    except (ValueError, RecursionError):
        pass
    if not isinstance(document, dict):
        raise BadQuestionError("the body is not a JSON object")
    if document.get("apiVersion", API_VERSION) != API_VERSION:
        raise BadQuestionError(f"apiVersion: expected {API_VERSION!r}")
    return document


def read_eviction(body: bytes) -> tuple[ImageName, str, str]:
    """Return the image, the user name and the password in a request body; raise BadQuestionError."""
    document = read_object(body)
    texts = [document.get(name) for name in ("image", "username", "password")]
    image, username, password = (text if isinstance(text, str) else None for text in texts)
    if image is None or username is None or password is None:
        raise BadQuestionError("image, username and password: expected strings")
    return _image(image), username, password


def _check_length(field_name: str, text: str) -> None:
    if len(text) > MAX_NAME_CHARACTERS:
        raise BadQuestionError(f"{field_name}: expected at most {MAX_NAME_CHARACTERS} characters")


def _image(text: str) -> ImageName:
    _check_length("image", text)
    try:
        image = parse_image(text)
    except ImageNameError:
        image = None
    if image is None:
        raise BadQuestionError("image: expected a name such as 'registry.example:5000/team/app:v1'")
    return image


def _text(document: Mapping[str, object], name: str) -> str:
    value = document.get(name, "")
    if value == "":
        return ""
    if not isinstance(value, str) or not _is_unicode(value):
        raise BadQuestionError(f"{name}: expected a string")
    return value


def _is_unicode(text: str) -> bool:
    """Return whether a text can be written; JSON can also describe halves of characters."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _texts(document: Mapping[str, object], name: str) -> dict[str, str]:
    value = document.get(name)
    if not value:
        return {}
    if not isinstance(value, dict) or not all(
        isinstance(each, str) and _is_unicode(each) for pair in value.items() for each in pair
    ):
        raise BadQuestionError(f"{name}: expected an object of strings")
    return value


def _account(document: Mapping[str, object]) -> ServiceAccountRef | None:
    """Return the account that a caller names; it is shown in the answer's source, and decides nothing."""
    found = _texts(document, "serviceAccount")
    if not found:
        return None
    return ServiceAccountRef(**{name: found.get(name, "") for name in ("namespace", "name", "uid")})


class Tenants:
    """Makes keys of tokens. Only a caller with the same whole token finds an answer, and only in this process.

    Nobody here can verify a token, so its claims are never part of a key: anybody could write them. Its ``exp`` only
    shortens the life of an answer.
    """

    def __init__(
        self,
        secret: bytes | None = None,
        *,
        clock: Callable[[], int] = monotonic_ns,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        self._secret = os.urandom(32) if secret is None else secret
        self._clock = clock
        self._wall_clock = wall_clock

    def relay(
        self, token: str, annotations: Mapping[str, str], account: ServiceAccountRef | None = None
    ) -> Relayed:
        """Return what stands for a pod in a lookup with this token; the token is not empty."""
        return Relayed(
            token=token,
            annotations=annotations,
            key=self._key(token, annotations),
            until_ns=self._until_ns(token),
            ref=account,
        )

    def _key(self, token: str, annotations: Mapping[str, str]) -> bytes:
        # Annotations are a part of the plugin's input, so they are a part of the key.
        texts = [token, *(text for pair in sorted(annotations.items()) for text in pair)]
        parts = [text.encode("utf-8", "surrogatepass") for text in texts]
        message = b"".join(len(part).to_bytes(4, "big") + part for part in parts)
        return hmac.digest(self._secret, message, "sha256")

    def _until_ns(self, token: str) -> int | None:
        """Return the expiry of a token on the monotonic clock; None if it names none, or is no token that does."""
        try:
            end = read_claims(token, is_strict=False).get("exp")
        except JwtError:
            return None
        if not isinstance(end, int | float) or isinstance(end, bool) or not 0 < end < _LAST_SECOND:
            return None
        return self._clock() + int((end - self._wall_clock()) * _SECOND)


def lookup_reply(question: AgentQuestion, answer: Answer, now_ns: int) -> AgentReply:
    """Return the credentials of all providers, in the order the kubelet would try them."""
    ends = [
        provision.expires_ns
        for provision in answer.provisions
        if provision.expires_ns is not None and provision.auth
    ]
    fields: dict[str, object] = {
        "image": answer.image,
        "credentials": [_credential(each) for each in answer.credentials],
        "failures": failures_document(answer.failures),
        "sources": {
            provision.provider: SOURCES[provision.outcome]
            for provision in answer.provisions
            if provision.outcome in SOURCES
        },
        "missing": missing_documents(answer.missing),
    }
    if ends:
        fields["expiresAt"] = wall_time(min(ends), now_ns)
    return _reply("LookupResponse", question, fields, lambda: result_of_answer(answer))


def registry_reply(question: AgentQuestion, answer: RegistryAnswer, now_ns: int) -> AgentReply:
    """Return the login that all images of a registry have in common, or why there is none."""
    fields: dict[str, object] = {
        "outcome": str(answer.outcome),
        "credentials": [] if answer.credential is None else [_credential(answer.credential)],
        "candidates": list(answer.candidates),
        "failures": failures_document(answer.failures),
    }
    if answer.expires_ns is not None:
        fields["expiresAt"] = wall_time(answer.expires_ns, now_ns)
    names = [] if answer.credential is None else [answer.credential.source.name]
    names += [failure.provider for failure in answer.failures]
    result = replace(_REGISTRY_RESULTS[answer.outcome], providers=tuple(dict.fromkeys(names)))
    return _reply("RegistryResponse", question, fields, lambda: result)


def provider_reply(
    question: AgentQuestion, provision: Provision | None, api_version: str, now_ns: int, *, is_limited: bool
) -> AgentReply:
    """Return one provider's response, as the kubelet expects it from a plugin.

    If *is_limited*, the response has only the credentials for the image: the caller may not ask for others.
    """
    if provision is None or provision.outcome in (ProvisionOutcome.SKIPPED, ProvisionOutcome.UNKNOWN):
        fields: dict[str, object] = {"outcome": "noMatch"}
    elif provision.error is not None:
        fields = _failure(provision.error)
    else:
        auth = _only_for(provision, question.image.repository) if is_limited else provision.auth
        response: dict[str, object] = {
            "kind": "CredentialProviderResponse",
            "apiVersion": api_version,
            "cacheKeyType": provision.cache_key_type,
            "auth": {
                key: {"username": each.username, "password": each.password} for key, each in auth.items()
            },
        }
        duration_ns = _duration_ns(provision, now_ns) if question.token else 0
        if duration_ns is not None:
            response["cacheDuration"] = format_duration(duration_ns)
        fields = {"outcome": "answered", "source": SOURCES[provision.outcome], "response": response}
    return _reply(
        "ProviderResponse", question, fields, lambda: result_of_provision(provision, question.image)
    )


def _reply(
    kind: str, question: AgentQuestion, fields: dict[str, object], decide: Callable[[], DecisionResult]
) -> AgentReply:
    """Return a document, with the config that it stands for if the question names one."""
    if question.config_hash:
        fields["configHash"] = question.config_hash
    document = {"apiVersion": API_VERSION, "kind": kind, **fields}
    return AgentReply(status=200, body=encode_document(document), decision=lambda: question.decided(decide()))


def _failure(error: KeyferryError) -> dict[str, object]:
    if _is_start_failure(error):
        # Callers do not know this outcome, or know that it says nothing about the plugin: they run it themselves.
        return {"outcome": "notStarted", "message": str(error)}
    status, tail = 1, ""
    if isinstance(error, PluginExitError):
        status = error.status if error.status > 0 else 128 - error.status  # as a shell shows a signal
    if isinstance(error, PluginExitError | PluginTimeoutError):
        tail = error.stderr_tail and f"{error.stderr_tail}\n"
    return {"outcome": "failed", "exitCode": status, "stderr": tail, "message": str(error)}


def _is_start_failure(error: KeyferryError) -> bool:
    """Return whether a plugin, or what it needs, cannot be started in the agent's place, or not with this token.

    The agent's config may name another audience than the config of the caller, whose own plugin takes the token.
    """
    if isinstance(error, ServiceAccountError):
        return True
    if isinstance(error, PluginNotFoundError | PluginStartError):
        return error.seconds is None  # else it ran, and its end is unknown
    return isinstance(error, PluginExitError) and (
        error.status in _NOTHING_THERE or _is_of_loader(error.stderr_tail)
    )


def _is_of_loader(said: str) -> bool:
    """Return whether the last line of a program's standard error is the loader's word for a library that is too old."""
    return _TOO_OLD in said.rpartition("\n")[2]


def _only_for(provision: Provision, repository: str) -> Auth:
    """Return the credentials of an answer that are for the images of a repository."""
    keys = {credential.key for credential in provision.keyring.lookup(repository)}
    return {key: each for key, each in provision.auth.items() if key in keys}


def _duration_ns(provision: Provision, now_ns: int) -> int | None:
    """Return how long the kubelet may cache a response: as the plugin says, less what has passed here."""
    own_ns = provision.cache_duration_ns
    if provision.outcome is not ProvisionOutcome.CACHED or provision.expires_ns is None:
        return own_ns
    left_ns = max(provision.expires_ns - now_ns, 0) // _SECOND * _SECOND
    return left_ns if own_ns is None else min(own_ns, left_ns)


def wall_time(instant_ns: int, now_ns: int) -> str:
    """Return an instant of the monotonic clock, which is *now_ns* at present, in RFC 3339."""
    return format_time(time.time_ns() + instant_ns - now_ns)


_REGISTRY_RESULTS = {
    RegistryOutcome.FOUND: DecisionResult(
        outcome=DecisionOutcome.ANSWERED,
        source="",
        reason="all images of the registry have this login in common",
    ),
    RegistryOutcome.NONE: NO_PROVIDER,
    RegistryOutcome.AMBIGUOUS: DecisionResult(
        outcome=DecisionOutcome.NO_MATCH,
        source="",
        reason="images of the registry have different logins, and no image was named",
    ),
    RegistryOutcome.FAILED: DecisionResult(
        outcome=DecisionOutcome.FAILED, source="", reason="a provider of the registry failed"
    ),
}


def _credential(credential: Credential) -> dict[str, object]:
    return {
        "username": credential.username,
        "password": credential.password,
        "key": credential.key,
        "source": source_document(credential.source),
    }
