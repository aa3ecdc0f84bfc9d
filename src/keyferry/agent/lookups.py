"""Lookups by the socket's clients: the question in a request, and the answers as documents."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from json.encoder import encode_basestring_ascii

from keyferry._core.values import Value, field, replace
from keyferry._net.agent import MAX_NAME_CHARACTERS
from keyferry.agent.decision import (
    NO_PROVIDER,
    SOURCES,
    DecisionOutcome,
    DecisionResult,
    RequestDecision,
    is_start_failure,
    result_of_answer,
    result_of_provision,
)
from keyferry.agent.message import API_VERSION, JSON, AgentReply, reply_document, with_decision
from keyferry.api.meta import format_duration, format_time
from keyferry.errors import ImageNameError, KeyferryError, PluginExitError, PluginTimeoutError
from keyferry.explain.document import failures_document, source_document
from keyferry.images.answer import Answer, Auth, Provision, ProvisionOutcome, missing_documents
from keyferry.images.keyring import Credential, ServiceAccountRef
from keyferry.images.reference import ImageName, parse_image, shorten_name
from keyferry.images.registries import ANY_REPOSITORY, RegistryAnswer, RegistryOutcome

__all__ = [
    "AgentQuestion",
    "BadQuestionError",
    "answer_fields",
    "ask_provider_reply",
    "image_reply",
    "lookup_reply",
    "only_for",
    "read_eviction",
    "read_question",
    "registry_reply",
    "sources_of",
    "tell_config",
]

_SECOND = 1_000_000_000


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
    if len(document) <= 3 and document.keys() <= _PLAIN:  # most questions
        return AgentQuestion(image=image)
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


_PLAIN = {"apiVersion", "kind", "image"}


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
    value = document.get(name) or {}
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


def lookup_reply(question: AgentQuestion, answer: Answer, now_ns: int) -> AgentReply:
    """Return the credentials of all providers, in the order the kubelet would try them."""
    return image_reply(question, answer.image, answer_fields(answer, now_ns), result_of_answer(answer))


def image_reply(question: AgentQuestion, image: str, rest: bytes, result: DecisionResult) -> AgentReply:
    """Return the reply for an image, with the fields after it as ``answer_fields`` gives them."""
    body = b"%b%b,%b" % (_HEAD, encode_basestring_ascii(image).encode(), rest)
    # All fields by position: defaults are filled in slowly.
    return AgentReply(
        status=200,
        body=body,
        content_type=JSON,
        retry_after_seconds=0,
        decision=(question, result),
        headers=b"",
        follow=None,
    )


_HEAD = f'{{"apiVersion":"{API_VERSION}","kind":"LookupResponse","image":'.encode()


def answer_fields(answer: Answer, now_ns: int) -> bytes:
    """Return the fields after the image, which many images have in common, as they are sent."""
    ends = [
        provision.expires_ns
        for provision in answer.provisions
        if provision.expires_ns is not None and provision.auth
    ]
    failures = answer.failures
    fields: dict[str, object] = {
        "credentials": list(map(_credential, answer.credentials)),
        "failures": failures_document(failures) if failures else [],
        "sources": sources_of(answer),
        "missing": missing_documents(answer.missing),
    }
    if ends:
        fields["expiresAt"] = wall_time(min(ends), now_ns)
    return json.dumps(fields, separators=(",", ":")).encode()[1:]


def tell_config(reply: AgentReply, config_hash: str) -> AgentReply:
    """Return a document with the config that it stands for, for callers that asked for one."""
    return replace(reply, body=b'%b,"configHash":"%b"}' % (reply.body[:-1], config_hash.encode()))


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
    reply = reply_document("RegistryResponse", **fields)
    names = (*_names(answer.credential), *(failure.provider for failure in answer.failures))
    result = replace(_REGISTRY_RESULTS[answer.outcome], providers=tuple(dict.fromkeys(names)))
    return with_decision(reply, (question, result))


def _names(credential: Credential | None) -> tuple[str, ...]:
    return () if credential is None else (credential.source.name,)


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


def sources_of(answer: Answer) -> dict[str, str]:
    """Return how the answer of each provider was got."""
    return {
        provision.provider: SOURCES[provision.outcome]
        for provision in answer.provisions
        if provision.outcome in SOURCES
    }


def wall_time(instant_ns: int, now_ns: int) -> str:
    """Return an instant of the monotonic clock, which is *now_ns* at present, in RFC 3339."""
    return format_time(time.time_ns() + instant_ns - now_ns)


def ask_provider_reply(
    question: AgentQuestion, provision: Provision | None, api_version: str, now_ns: int, *, is_limited: bool
) -> AgentReply:
    """Return one provider's response, as the kubelet expects it from a plugin.

    If *is_limited*, the response has only the credentials for the image: the caller may not ask for others.
    """
    reply = _provider_reply(question, provision, api_version, now_ns, is_limited=is_limited)
    return with_decision(reply, (question, result_of_provision(provision, question.image)))


def _provider_reply(
    question: AgentQuestion, provision: Provision | None, api_version: str, now_ns: int, *, is_limited: bool
) -> AgentReply:
    if provision is None or provision.outcome in (ProvisionOutcome.SKIPPED, ProvisionOutcome.UNKNOWN):
        return reply_document("ProviderResponse", outcome="noMatch")
    if provision.error is not None:
        return _failed(provision.error)
    auth = only_for(provision, question.image.repository) if is_limited else provision.auth
    response: dict[str, object] = {
        "kind": "CredentialProviderResponse",
        "apiVersion": api_version,
        "cacheKeyType": provision.cache_key_type,
        "auth": {key: {"username": each.username, "password": each.password} for key, each in auth.items()},
    }
    duration_ns = _duration_ns(provision, now_ns) if question.token else 0
    if duration_ns is not None:
        response["cacheDuration"] = format_duration(duration_ns)
    return reply_document(
        "ProviderResponse", outcome="answered", source=SOURCES[provision.outcome], response=response
    )


def _failed(error: KeyferryError) -> AgentReply:
    if is_start_failure(error):
        # Callers do not know this outcome, or know that it says nothing about the plugin: they run it themselves.
        return reply_document("ProviderResponse", outcome="notStarted", message=str(error))
    status, tail = 1, ""
    if isinstance(error, PluginExitError):
        status = error.status if error.status > 0 else 128 - error.status  # as a shell shows a signal
    if isinstance(error, PluginExitError | PluginTimeoutError):
        tail = error.stderr_tail and f"{error.stderr_tail}\n"
    return reply_document(
        "ProviderResponse", outcome="failed", exitCode=status, stderr=tail, message=str(error)
    )


def only_for(provision: Provision, repository: str) -> Auth:
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
