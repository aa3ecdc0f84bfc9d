"""Registries that trust an OpenID Connect issuer: keys made on the spot, and endpoints that check every request."""

from __future__ import annotations

import base64
import json
import re
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from urllib.parse import unquote_plus

import jwt
from cryptography.hazmat.primitives.asymmetric import rsa

from support.fake_cloud import Authority, ConnectProxy, FakeServer, Received, Reply, serving
from support.reference import Answer, ask_image

ISSUER = "https://kubernetes.example.com"
GITHUB = "https://token.actions.githubusercontent.com"
GITHUB_HOST = "pipelines.actions.githubusercontent.com"
AUDIENCE = "registry.example.com"
SERVICE_ACCOUNT = "system:serviceaccount:default:puller"
FORM, JSON = "application/x-www-form-urlencoded", "application/json"
EXCHANGE = "urn:ietf:params:oauth:grant-type:token-exchange"
TYPE = "urn:ietf:params:oauth:token-type"
HOUR = 3600
CONNECTION = "00000000-0000-4000-8000-00000000000a"
# With characters that mean something else in a form, or in Basic authentication.
CLIENT_ID, CLIENT_SECRET = "team:federate", "4711+ab%2Fc/d=e f:g"


@cache
def issuer_key() -> rsa.RSAPrivateKey:
    """The key of the cluster, made on the spot."""
    return rsa.generate_private_key(65537, 2048)


@cache
def server_key() -> rsa.RSAPrivateKey:
    """The key of the exchange server."""
    return rsa.generate_private_key(65537, 2048)


def sign(claims: Mapping[str, object], key: rsa.RSAPrivateKey | None = None) -> str:
    """Sign claims as an API server does, without ``typ``."""
    return jwt.encode(dict(claims), key or issuer_key(), "RS256", {"kid": "key-1", "typ": None})


def account_claims(**changes: object) -> dict[str, object]:
    """The claims that an API server writes for the kubelet, with *changes*; None removes one."""
    now = int(time.time())
    claims: dict[str, object] = {
        "aud": [AUDIENCE],
        "exp": now + HOUR,
        "iat": now,
        "iss": ISSUER,
        "jti": str(uuid.uuid4()),
        "kubernetes.io": {
            "namespace": "default",
            "node": {"name": "node1", "uid": "6f399479-0000-4000-8000-000000000000"},
            "pod": {"name": "e1", "uid": "098bd8ad-0000-4000-8000-000000000000"},
            "serviceaccount": {"name": "puller", "uid": "936a1b3e-0000-4000-8000-000000000000"},
        },
        "nbf": now,
        "sub": SERVICE_ACCOUNT,
    }
    return {name: value for name, value in {**claims, **changes}.items() if value is not None}


def account_token(**changes: object) -> str:
    """A service account token as a real API server writes it."""
    return sign(account_claims(**changes))


def github_token(**changes: object) -> str:
    """The token of a job of GitHub Actions."""
    now = int(time.time())
    claims = {
        "aud": "https://identity.docker.com", "exp": now + 300, "iat": now, "nbf": now, "iss": GITHUB,
        "sub": "repo:org/app:ref:refs/heads/main", "repository": "org/app",
    }  # fmt: skip
    return sign({**claims, **changes})


def issued(seconds: int = HOUR, **more: object) -> str:
    """A token that an exchange server issues."""
    now = int(time.time())
    return sign({"iss": "exchange", "sub": "pull", "iat": now, "exp": now + seconds, **more}, server_key())


def check_subject(token: object, *, issuer: str = ISSUER, audience: str = AUDIENCE) -> None:
    """Verify the signature and the claims of the token that a server received."""
    assert isinstance(token, str)
    found = jwt.decode(token, issuer_key().public_key(), ["RS256"], audience=audience, issuer=issuer)
    assert found["sub"] in (SERVICE_ACCOUNT, "repo:org/app:ref:refs/heads/main")


def basic_of(received: Received) -> tuple[str, str]:
    """The user name and password of Basic authentication."""
    kind, _, pair = received.headers["authorization"].partition(" ")
    assert kind == "Basic"
    user, _, password = base64.b64decode(pair, validate=True).decode().partition(":")
    return user, password


def client_of(received: Received) -> tuple[str, str]:
    """The ID and secret of an OAuth client, decoded as Dex decodes them: each by itself, as in a form."""
    assert not any(re.search("%(?![0-9A-Fa-f]{2})", part) for part in basic_of(received))
    user, password = (unquote_plus(part, errors="strict") for part in basic_of(received))
    return user, password


def expect(
    received: Received,
    method: str,
    target: str,
    kind: str | None,
    *,
    headers: Mapping[str, str] | None = None,
) -> None:
    """Check method, path, encoding and headers; a header that is not expected is one too many."""
    assert (received.method, received.target) == (method, target)
    wanted = {"accept": "application/json", **({"content-type": kind} if kind else {}), **(headers or {})}
    usual = {"host", "user-agent", "connection", "content-length", "accept-encoding"}
    found = {name: value for name, value in received.headers.items() if name not in usual}
    assert found == wanted
    assert received.body if kind else not received.body


@dataclass(frozen=True)
class Example:
    """A preset with parameters, what its servers expect and answer, and the login that comes of it."""

    registry: str
    params: Mapping[str, object]
    handler: Callable[[Received], Reply]
    username: str
    calls: int = 1
    hosts: Sequence[str] = ()
    lifetime: float = 0.9 * HOUR
    subject: Mapping[str, object] = field(default_factory=lambda: {"audience": AUDIENCE, "issuer": ISSUER})


def _no_call(received: Received) -> Reply:
    raise AssertionError(f"nothing is asked, and yet {received.method} {received.path} was")


def _rfc8693(received: Received) -> Reply:
    assert client_of(received) == (CLIENT_ID, CLIENT_SECRET)
    authorization = {"authorization": received.headers["authorization"]}
    expect(received, "POST", "/dex/token", FORM, headers=authorization)
    form = received.form
    check_subject(form.pop("subject_token"))
    assert form == {
        "grant_type": EXCHANGE, "subject_token_type": f"{TYPE}:id_token", "connector_id": "cluster",
        "scope": "openid groups",
    }  # fmt: skip
    return Reply(document={"access_token": issued(), "expires_in": HOUR, "token_type": "bearer"})


def _jfrog(received: Received) -> Reply:
    expect(received, "POST", "/access/api/v1/oidc/token", JSON)
    fields = received.json
    check_subject(fields.pop("subject_token"))
    assert fields == {
        "grant_type": EXCHANGE, "subject_token_type": f"{TYPE}:id_token", "provider_name": "k8s",
    }  # fmt: skip
    return Reply(document={"access_token": issued(5 * HOUR), "expires_in": HOUR, "username": "k8s-puller"})


def _quay(received: Received) -> Reply:
    user, password = basic_of(received)
    assert user == "org+robot"
    check_subject(password)
    authorization = {"authorization": received.headers["authorization"]}
    expect(received, "GET", "/oauth2/federation/robot/token", None, headers=authorization)
    return Reply(document={"token": issued()})


def _cloudsmith(received: Received) -> Reply:
    expect(received, "POST", "/openid/my%20org/", JSON)
    fields = received.json
    check_subject(fields.pop("oidc_token"))
    assert fields == {"service_slug": "puller"}
    return Reply(201, document={"token": issued()})


POOL = "//iam.googleapis.com/projects/1/locations/global/workloadIdentityPools/p/providers/q"


def _gcp(received: Received) -> Reply:
    expect(received, "POST", "/v1/token", JSON)
    fields = received.json
    check_subject(fields.pop("subject_token"))
    assert fields == {
        "audience": POOL, "grant_type": EXCHANGE, "requested_token_type": f"{TYPE}:access_token",
        "scope": "https://www.googleapis.com/auth/cloud-platform", "subject_token_type": f"{TYPE}:jwt",
    }  # fmt: skip
    return Reply(document={"access_token": issued(), "expires_in": HOUR, "token_type": "Bearer"})


def _acr(received: Received) -> Reply:
    form = received.form
    if received.headers["host"] == "login.microsoftonline.com":
        expect(received, "POST", "/tenant-1/oauth2/v2.0/token", FORM)
        check_subject(form.pop("client_assertion"))
        assert form == {
            "grant_type": "client_credentials", "client_id": "client-1",
            "client_assertion_type": "urn:ietf:params:oauth:client-assertion-type:jwt-bearer",
            "scope": "https://containerregistry.azure.net/.default",
        }  # fmt: skip
        return Reply(document={"access_token": "entra-token-1", "expires_in": HOUR})
    expect(received, "POST", "/oauth2/exchange", FORM)
    assert received.headers["host"] == "team.azurecr.io"
    assert form == {
        "grant_type": "access_token_refresh_token", "service": "team.azurecr.io",
        "access_token": "entra-token-1", "refresh_token": "entra-token-1", "tenant": "tenant-1",
    }  # fmt: skip
    return Reply(document={"refresh_token": issued(3 * HOUR)})


def _ibm(received: Received) -> Reply:
    expect(received, "POST", "/identity/token", FORM)
    form = received.form
    check_subject(form.pop("cr_token"))
    assert form == {"grant_type": "urn:ibm:params:oauth:grant-type:cr-token", "profile_name": "puller"}
    return Reply(document={"access_token": issued(), "expires_in": HOUR})


def _vault(received: Received) -> Reply:
    namespace = {"x-vault-namespace": "team/a"}
    if received.method == "POST":
        expect(received, "POST", "/v1/auth/jwt/prod/login", JSON, headers=namespace)
        fields = received.json
        check_subject(fields.pop("jwt"))
        assert fields == {"role": "puller"}
        return Reply(document={"auth": {"client_token": "hvs.vault-token", "lease_duration": 60}})
    expect(
        received,
        "GET",
        "/v1/secret/data/registry",
        None,
        headers={**namespace, "x-vault-token": "hvs.vault-token"},
    )
    data = {"username": "robot", "password": "from-vault-4711"}
    return Reply(document={"lease_duration": 0, "data": {"data": data, "metadata": {"version": 1}}})


def _dockerhub(received: Received) -> Reply:
    if received.headers["host"] == GITHUB_HOST:
        headers = {
            "authorization": "bearer github-request-token",
            "accept": "application/json; api-version=2.0",
        }
        target = "/token?api-version=2.0&audience=https%3A%2F%2Fidentity.docker.com"
        expect(received, "GET", target, None, headers=headers)
        return Reply(document={"value": github_token()})
    expect(received, "POST", "/oauth/token", FORM)
    form = received.form
    check_subject(form.pop("subject_token"), issuer=GITHUB, audience="https://identity.docker.com")
    assert form == {
        "grant_type": EXCHANGE, "subject_token_type": f"{TYPE}:id_token", "connection_id": CONNECTION,
        "expires_in": "300",
    }  # fmt: skip
    return Reply(document={"access_token": "dckr_oat_1"})


EXAMPLES = {
    "passthrough": Example("zot.example.com:5000", {}, _no_call, "jwt", calls=0),
    "rfc8693": Example(
        "registry.example.com",
        {
            "host": "dex.example.com",
            "path": "dex/token",
            "subject_token_type": f"{TYPE}:id_token",
            "connector_id": "cluster",
            "scope": "openid groups",
            "client_id": CLIENT_ID,
            "client_secret": {"env": "CLIENT_SECRET"},
        },
        _rfc8693,
        "token",
        hosts=["dex.example.com"],
    ),
    "jfrog": Example("team.jfrog.io", {"provider_name": "k8s"}, _jfrog, "k8s-puller"),
    "quay": Example("quay.example.com", {"robot": "org+robot"}, _quay, "org+robot"),
    "cloudsmith": Example(
        "docker.cloudsmith.io", {"org": "my org", "service": "puller"}, _cloudsmith, "token",
        hosts=["api.cloudsmith.io"],
    ),
    "gcp": Example("europe-docker.pkg.dev", {"pool": POOL}, _gcp, "_token", hosts=["sts.googleapis.com"]),
    "acr": Example(
        "team.azurecr.io", {"tenant": "tenant-1", "client_id": "client-1"}, _acr,
        "00000000-0000-0000-0000-000000000000", 2, ["login.microsoftonline.com"], HOUR,
    ),
    "ibm": Example("de.icr.io", {"profile_name": "puller"}, _ibm, "iambearer", hosts=["iam.cloud.ibm.com"]),
    "vault": Example(
        "registry.example.com",
        {
            "host": "vault.example.com", "mount": "jwt/prod", "role": "puller", "secret": "secret/data/registry",
            "namespace": "team/a",
        },
        _vault, "robot", 2, ["vault.example.com"], 300,
    ),
    "dockerhub": Example(
        "docker.io", {"org": "my-org", "connection_id": CONNECTION}, _dockerhub, "my-org", 2,
        ["identity.docker.com", GITHUB_HOST], 270, {},
    ),
}  # fmt: skip


@dataclass
class Federation:
    """Servers under all the names that a config has, and the environment that leads there."""

    folder: Path
    server: FakeServer
    proxy: ConnectProxy
    bundle: Path

    @property
    def env(self) -> dict[str, str]:
        """The plugin's environment, with the settings of GitHub Actions and a client's secret."""
        return {
            "HTTPS_PROXY": self.proxy.url,
            "SSL_CERT_FILE": str(self.bundle),
            "CLIENT_SECRET": CLIENT_SECRET,
            "ACTIONS_ID_TOKEN_REQUEST_URL": f"https://{GITHUB_HOST}/token?api-version=2.0",
            "ACTIONS_ID_TOKEN_REQUEST_TOKEN": "github-request-token",
        }

    def write(self, *rules: Mapping[str, object]) -> Path:
        """Write a config with rules."""
        return write_config(self.folder / "federation.json", *rules)

    def ask(
        self,
        image: str,
        *rules: Mapping[str, object],
        token: str | None = None,
        annotations: Mapping[str, str] | None = None,
        args: Sequence[str] = (),
        env: Mapping[str, str] | None = None,
    ) -> Answer:
        """Run the plugin with a config of *rules*."""
        config = [f"--config={self.write(*rules)}"] if rules else []
        return ask_image(
            "federate",
            image,
            args=[*config, *args],
            env={**self.env, **(env or {})},
            token=account_token() if token is None else token,
            annotations=annotations,
        )


def write_config(path: Path, *rules: Mapping[str, object]) -> Path:
    """Write a config that only its owner can write."""
    document = {"apiVersion": "keyferry.dev/v1alpha1", "kind": "FederationConfig", "rules": rules}
    path.write_text(json.dumps(document, indent=2))
    path.chmod(0o644)
    return path


def rule_of(name: str, **changes: object) -> dict[str, object]:
    """The rule of an example, with *changes*."""
    example = EXAMPLES[name]
    rule: dict[str, object] = {
        "registries": [example.registry],
        "preset": name,
        "params": dict(example.params),
        "subject": dict(example.subject),
    }
    return {**rule, **changes}


@contextmanager
def federation(folder: Path, handler: Callable[[Received], Reply], *hosts: str) -> Iterator[Federation]:
    """Yield servers for the length of a block; a request that *handler* does not expect fails the test at the end."""
    authority = Authority(folder)
    names = {host.partition(":")[0] for host in hosts} or {"unused.example.com"}
    with (
        serving(handler, authority.context(*names)) as server,
        ConnectProxy(dict.fromkeys(names, server.port)) as proxy,
    ):
        yield Federation(folder, server, proxy, authority.bundle)


@contextmanager
def example_federation(folder: Path, name: str) -> Iterator[Federation]:
    """Yield the servers of an example."""
    example = EXAMPLES[name]
    with federation(folder, example.handler, example.registry, *example.hosts) as found:
        yield found
