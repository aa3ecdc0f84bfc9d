"""The topics keyring and provide: order of trial, caches, service accounts."""

from __future__ import annotations

import base64
from collections.abc import Iterable

from conformance.layout import content_of
from keyferry._core.docker_hub import is_default_registry
from keyferry.api.credentialprovider.v1 import (
    AuthConfig,
    CredentialProviderRequest,
    CredentialProviderResponse,
)
from keyferry.api.kubeletconfig.v1 import CredentialProvider, ServiceAccountTokenAttributes
from keyferry.errors import KeyferryError, PluginError, PullSecretError, ServiceAccountError
from keyferry.images.answer import ProvisionOutcome
from keyferry.images.dockerconfig import (
    DockerConfig,
    PullSecret,
    parse_docker_config_json,
    parse_dockercfg,
)
from keyferry.images.keyring import (
    Credential,
    Keyring,
    SecretRef,
    ServiceAccountRef,
    Source,
    SourceKind,
    lookup_all,
)
from keyferry.images.lookup import Providers, pull_secrets_keyring
from keyferry.images.match import matches
from keyferry.images.provider import cache
from keyferry.images.provider.accounts import Pod, ServiceAccount, TokenRequest
from keyferry.images.provider.provider import Provider
from keyferry.images.reference import registry_of

Json = dict[str, object]
_SOURCE = Source(kind=SourceKind.PROVIDER, name="")


def keyring(given: Json) -> Json:
    """Look up, index and parse docker keyrings."""
    op = given["op"]
    if op == "default_registry":
        return {"default": is_default_registry(str(given["image"]))}
    if op == "index":
        return {"index": _keyring(given["providers"]).index()}
    if op in ("docker_config_json", "dockercfg"):
        return _docker_config(str(op), content_of(given["content"]))
    if op == "pod_secrets":
        return _pod_secrets(given)
    groups = [given["providers"]] if op == "lookup" else given["keyrings"]
    found = lookup_all([_keyring(group) for group in groups], str(given["image"]))  # type: ignore[attr-defined]
    return {"found": bool(found), "creds": [_login(credential) for credential in found]}


def _keyring(providers: object) -> Keyring:
    keyring = Keyring()
    for provider in providers or ():  # type: ignore[attr-defined] # a list of auth maps
        keyring.add(_SOURCE, _entries(provider))
    return keyring


def _entries(auth: Json) -> Iterable[tuple[str, str, str, str]]:
    for key, login in auth.items():
        assert isinstance(login, dict)
        yield key, login.get("username", ""), login.get("password", ""), login.get("email", "")


def _login(credential: Credential) -> Json:
    return {"username": credential.username, "password": credential.password}


def _docker_config(op: str, content: bytes) -> Json:
    parse = parse_docker_config_json if op == "docker_config_json" else parse_dockercfg
    try:
        entries: DockerConfig = parse(content)
    except PullSecretError as error:
        return {"entries": None, "error": error.kubernetes_text}
    shown = {
        key: {"username": entry.username, "password": entry.password, "email": entry.email}
        for key, entry in entries.items()
    }
    return {"entries": shown, "error": None}


def _pod_secrets(given: Json) -> Json:
    secrets = [
        PullSecret(
            namespace=s["namespace"],
            name=s["name"],
            type=s["type"],
            data={k: content_of(v) for k, v in s["data"].items()},
            uid=s["uid"],
        )
        for s in given["secrets"]  # type: ignore[attr-defined] # a list of secrets
    ]
    try:
        rings = pull_secrets_keyring(secrets)
    except PullSecretError as error:
        return {"error": error.kubernetes_text}
    found = lookup_all([*rings, _keyring([given["node"]])], str(given["image"]))
    creds = [_tracked(credential, "secret", credential.source.secret) for credential in found]
    assert not any(credential.source.service_account for credential in found)
    return {"error": None, "found": bool(found), "creds": creds}


def _tracked(credential: Credential, member: str, origin: SecretRef | ServiceAccountRef | None) -> Json:
    shown = origin and {"namespace": origin.namespace, "name": origin.name, "uid": origin.uid}
    return _login(credential) | {"hash": credential.hash, member: shown}


class _Clock:
    """A clock that is stepped."""

    def __init__(self) -> None:
        self.now = 1_000_000_000_000_000

    def __call__(self) -> int:
        return self.now


class _Accounts:
    """What the API server would answer in the step at hand."""

    step: Json
    requested: TokenRequest | None = None

    def begin(self, step: Json) -> None:
        self.step, self.requested = step, None

    def get(self, namespace: str, name: str) -> ServiceAccount:
        account = self.step.get("sa") or {}
        assert isinstance(account, dict)
        if account.get("error"):
            raise ServiceAccountError(str(account["error"]))
        return ServiceAccount(uid=account.get("uid", ""), annotations=account.get("annotations") or {})

    def token(self, request: TokenRequest) -> str:
        self.requested = request
        if self.step.get("tokenError"):
            raise ServiceAccountError(str(self.step["tokenError"]))
        return str(self.step.get("token", ""))


class _Script:
    """A plugin that answers what the step says, and notes what it was asked."""

    def __init__(self) -> None:
        self.response: object = None
        self.asked: CredentialProviderRequest | None = None

    def begin(self, step: Json) -> None:
        self.response, self.asked = step.get("response"), None

    def __call__(
        self, request: CredentialProviderRequest, timeout_seconds: float | None = None
    ) -> tuple[CredentialProviderResponse, float]:
        self.asked = request
        response = self.response
        if not isinstance(response, dict):
            raise PluginError("test", "plugin was not expected to run")
        if "error" in response:
            raise PluginError("test", str(response["error"]))
        auth = {
            key: AuthConfig(username=a["username"], password=a["password"])
            for key, a in (response.get("auth") or {}).items()
        }
        duration = response.get("cacheDuration_ns")
        answer = CredentialProviderResponse(
            cache_key_type=response["cacheKeyType"],
            cache_duration_ns=None if duration is None else int(duration),
            auth=auth,
        )
        return answer, 0.0


def _config(given: Json) -> CredentialProvider:
    attributes = given.get("tokenAttributes")
    return CredentialProvider(
        name="test",
        match_images=tuple(given["matchImages"]),  # type: ignore[arg-type] # a list of patterns
        default_cache_duration_ns=int(given.get("defaultCacheDuration_ns") or 0),  # type: ignore[call-overload]
        token_attributes=_token_attributes(attributes) if isinstance(attributes, dict) else None,
    )


def _token_attributes(given: Json) -> ServiceAccountTokenAttributes:
    return ServiceAccountTokenAttributes(
        service_account_token_audience=str(given["serviceAccountTokenAudience"]),
        cache_type=str(given["cacheType"]),
        require_service_account=bool(given["requireServiceAccount"]),
        required_service_account_annotation_keys=tuple(given["requiredServiceAccountAnnotationKeys"] or ()),  # type: ignore[arg-type]
        optional_service_account_annotation_keys=tuple(given["optionalServiceAccountAnnotationKeys"] or ()),  # type: ignore[arg-type]
    )


def provide(given: Json) -> Json:
    """Drive a provider through steps, or compute keys."""
    op = given["op"]
    if op == "provide":
        return _steps(given)
    if op == "external_keyring":
        return _external_keyring(given)
    if op == "registry":
        return {"registry": registry_of(str(given["image"]))}
    if op == "token_hash":
        return {"hash": cache.hash_token(str(given["data"]))}
    return _key(given)


def _key(given: Json) -> Json:
    try:
        key = _KEYS[str(given["op"])](given)
    except KeyferryError as error:
        return {"error": error.kubernetes_text, "key_base64": ""}
    return {"error": None, "key_base64": base64.b64encode(key).decode()}


_KEYS = {
    "cache_key": lambda given: cache.cache_key(given["baseKey"], given["saKey"].encode()),
    "sa_cache_key": lambda given: cache.account_cache_key(
        namespace=given["namespace"],
        name=given["name"],
        uid=given["uid"],
        annotations=given["annotations"] or {},
        token_hash=given["tokenHash"],
        cache_type=given["cacheType"],
    ),
    "single_flight_key": lambda given: cache.run_key(
        given["image"], cache.other_inputs(given["tokenHash"], given["annotations"] or {})
    ),
}


def _steps(given: Json) -> Json:
    clock, accounts, script = _Clock(), _Accounts(), _Script()
    config = _config(given["provider"])  # type: ignore[arg-type] # an object
    provider = Provider(config, script, accounts=accounts, clock=clock)
    return {
        "steps": [
            _step(step, provider, clock, accounts, script)
            for step in given["steps"]  # type: ignore[attr-defined] # a list of steps
        ]
    }


def _step(step: Json, provider: Provider, clock: _Clock, accounts: _Accounts, script: _Script) -> Json:
    clock.now += int(step.get("advance_ns", 0))  # type: ignore[call-overload] # a number
    accounts.begin(step)
    script.begin(step)
    image = str(step["image"])
    # The kubelet asks a provider about every image; keyferry's index asks only those that match.
    if not any(matches(pattern, image) for pattern in provider.config.match_images or ()):
        return {
            "cache_entries": provider.cache_uses()[0].entries,
            "creds": {},
            "error": None,
            "executed": False,
        } | {"service_account": None}
    provision = provider.provide(image, _pod(step))
    ref = provision.account if provision.outcome in (ProvisionOutcome.CACHED, ProvisionOutcome.RAN) else None
    shown: Json = {
        "cache_entries": provider.cache_uses()[0].entries,
        "creds": {k: {"username": a.username, "password": a.password} for k, a in provision.auth.items()},
        "error": provision.kubernetes_text or None,
        "executed": script.asked is not None,
        "service_account": ref and {"namespace": ref.namespace, "name": ref.name, "uid": ref.uid},
    }
    if script.asked is not None:
        shown["plugin_call"] = {
            "image": script.asked.image,
            "serviceAccountToken": script.asked.service_account_token,
            "serviceAccountAnnotations": script.asked.service_account_annotations,
        }
    if accounts.requested is not None:
        shown["token_request"] = _token_request(accounts.requested.to_document())
    return shown


def _token_request(document: Json) -> Json:
    metadata, spec = document["metadata"], document["spec"]
    assert isinstance(metadata, dict)
    assert isinstance(spec, dict)
    return metadata | spec


def _pod(step: Json) -> Pod:
    return Pod(
        namespace=str(step.get("podNamespace") or ""),
        name=str(step.get("podName") or ""),
        uid=str(step.get("podUID") or ""),
        service_account_name=str(step.get("serviceAccount") or ""),
    )


def _external_keyring(given: Json) -> Json:
    accounts, scripts, providers = _Accounts(), [], []
    accounts.step = {"sa": {"uid": "sa-uid", "annotations": {}}, "token": "sa-token"}
    for entry in given["providers"]:  # type: ignore[attr-defined] # a list of providers
        script = _Script()
        script.response = entry["response"]
        scripts.append(script)
        providers.append(Provider(_config(entry), script, accounts=accounts))
    pod = _pod(given["pod"])  # type: ignore[arg-type] # an object
    answer = Providers(providers).lookup(str(given["image"]), pod=pod)
    return {
        "found": bool(answer.credentials),
        "executed": [script.asked is not None for script in scripts],
        "creds": [
            _tracked(credential, "service_account", credential.source.service_account)
            for credential in answer.credentials
        ],
    }
