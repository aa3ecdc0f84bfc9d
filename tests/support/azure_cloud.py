"""Fakes of Entra, a registry and Azure's metadata service, on loopback under their real names; they check requests."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from support.fake_cloud import Authority, ConnectProxy, Handler, Received, Reply, segment, serving

ENTRA = "login.microsoftonline.com"
REGISTRY = "myreg.azurecr.io"
OTHERS = (
    "my-reg.azurecr.io",
    "myreg.eastus.geo.azurecr.io",
    "elsewhere.azurecr.io",
    "evil.example",
    "login.microsoftonline.us",
    "login.chinacloudapi.cn",
    "login.stack.example",
    "management.stack.example",
    "myreg.azurecr.stack.example",
    "adfs.stack.example",
    "myreg.azurecr.us",
    "myreg.azurecr.cn",
    "token.actions.test",
    "pipelines.test",
)
TENANT = "11111111-2222-3333-4444-555555555555"
CLIENT = "99999999-8888-7777-6666-000000000000"
AUDIENCE = "https://containerregistry.azure.net"
ZERO_USER = "00000000-0000-0000-0000-000000000000"
SERVER_ID = "6dae42f8-4368-4678-94ff-3960e28e3630"

# Secrets that no error may show; each is spelled so that no pattern would mask it by chance.
POD_TOKEN_MARK = "podmark"
ENTRA_TOKEN = "entramarktoken"
CLIENT_SECRET = "clientmarksecret"
USER_PASSWORD = "usermarkpassword"
REFRESH_TOKEN = "refreshmarktoken"


def make_jwt(**claims: object) -> str:
    """Return a token with readable claims; its signature is not checked here."""
    parts = [{"alg": "RS256", "typ": "JWT"}, claims]
    return ".".join([*(segment(json.dumps(part).encode()) for part in parts), "c2lnbmVk"])


def registry_token(seconds: float = 3 * 3600) -> str:
    """Return a registry's refresh token that expires in *seconds*."""
    return make_jwt(exp=int(time.time() + seconds), mark="registrymark")


def pod_token() -> str:
    """Return a service account's token for Entra."""
    return make_jwt(
        iss="https://oidc.test/",
        sub="system:serviceaccount:team:puller",
        aud=["api://AzureADTokenExchange"],
        mark=POD_TOKEN_MARK,
    )


def challenge(host: str = REGISTRY, *, realm: str = "", service: str = "") -> Reply:
    """Return a registry's response to an unauthenticated request."""
    value = f'Bearer realm="{realm or f"https://{host}/oauth2/token"}",service="{service or host}"'
    return Reply(401, headers={"WWW-Authenticate": value})


def refused(
    number: int, error: str = "invalid_client", text: str = "it is refused", status: int = 401
) -> Reply:
    """Return an error of Entra."""
    said = f"AADSTS{number}: {text}. Trace ID: 0000 Correlation ID: 0000 Timestamp: 2026-01-01 00:00:00Z"
    return Reply(status, {"error": error, "error_description": said, "error_codes": [number]})


def token_reply(token: str = ENTRA_TOKEN, **more: object) -> Reply:
    """Return an access token in Entra's format."""
    return Reply(200, {"token_type": "Bearer", "expires_in": 3599, "access_token": token, **more})


@dataclass
class Azure:
    """The responses by host; a test replaces those that it needs to change."""

    folder: Path
    answers: dict[str, Handler] = field(default_factory=dict)
    received: dict[str, list[Received]] = field(default_factory=dict)
    environ: dict[str, str] = field(default_factory=dict)
    proxy: ConnectProxy | None = None
    imds_answer: Handler | None = None
    imds_received: list[Received] = field(default_factory=list)

    def on(self, host: str, *answers: Reply | Handler) -> None:
        """Answer on *host* with one reply after the other; the last one is repeated."""
        self.answers[host] = in_turn(*answers)

    def on_imds(self, *answers: Reply | Handler) -> None:
        """Answer at the metadata service with one reply after the other; the last one is repeated."""
        self.imds_answer = in_turn(*answers)

    def sent(self, host: str) -> list[Received]:
        """Return the requests to *host*."""
        return self.received.get(host, [])

    def config(self, **fields: object) -> str:
        """Write a cloud config; return its path."""
        path = self.folder / "azure.json"
        path.write_text(json.dumps(fields))
        return str(path)

    @property
    def asked(self) -> list[str]:
        """The requests to the proxy."""
        assert self.proxy is not None
        return self.proxy.asked

    def _dispatch(self, received: Received) -> Reply:
        host = received.headers["host"]
        self.received.setdefault(host, []).append(received)
        handler = self.answers.get(host)
        assert handler is not None, f"nobody was to ask {host}"
        return handler(received)

    def _imds(self, received: Received) -> Reply:
        self.imds_received.append(received)
        assert self.imds_answer is not None, "nobody was to ask the metadata service"
        return self.imds_answer(received)


def in_turn(*answers: Reply | Handler) -> Handler:
    """Answer with one reply after the other; the last one is repeated."""
    left = list(answers)

    def answer(received: Received) -> Reply:
        chosen = left.pop(0) if len(left) > 1 else left[0]
        return chosen if isinstance(chosen, Reply) else chosen(received)

    return answer


@contextmanager
def serving_azure(folder: Path) -> Iterator[Azure]:
    """Yield all servers for the length of a block; an unexpected request fails the test at its end."""
    authority = Authority(folder)
    azure = Azure(folder)
    names = (ENTRA, REGISTRY, *OTHERS)
    context = authority.context(*names, "bindings.test")
    with (
        serving(azure._dispatch, context) as server,
        serving(azure._imds) as imds,
        ConnectProxy(dict.fromkeys(names, server.port)) as proxy,
    ):
        azure.proxy = proxy
        azure.environ = {
            "HTTPS_PROXY": proxy.url,
            "HTTP_PROXY": proxy.url,
            "SSL_CERT_FILE": str(authority.bundle),
            # Not loopback to the proxy's rules, and yet here: a request that goes through the proxy shows.
            "AZURE_POD_IDENTITY_AUTHORITY_HOST": f"http://0.0.0.0:{imds.port}",
            "KEYFERRY_TEST_TLS_PORT": str(server.port),
            "HOME": str(folder),
        }
        yield azure


def registry_answers(token: str | None = None, *, tenant: str = TENANT, host: str = REGISTRY) -> Handler:
    """Return a registry that sends a challenge, and then its token for the expected Entra token."""
    given = token or registry_token()

    def answer(received: Received) -> Reply:
        assert received.headers["user-agent"] == "kubernetes-credentialprovider-acr"
        if received.method == "GET":
            assert received.target == "/v2/"
            assert "authorization" not in received.headers
            return challenge(host)
        assert (received.method, received.target) == ("POST", "/oauth2/exchange")
        assert received.headers["content-type"] == "application/x-www-form-urlencoded"
        assert received.form == {
            "grant_type": "access_token_refresh_token",
            "service": host,
            "access_token": ENTRA_TOKEN,
            "refresh_token": ENTRA_TOKEN,
            "tenant": tenant,
        }
        return Reply(200, {"refresh_token": given})

    return answer


def federated_answers(
    assertion: str, *, client: str = CLIENT, tenant: str = TENANT, scope: str = ""
) -> Handler:
    """Return a fake Entra that gives a token for the expected assertion."""

    def answer(received: Received) -> Reply:
        assert (received.method, received.target) == ("POST", f"/{tenant}/oauth2/v2.0/token")
        assert received.headers["content-type"] == "application/x-www-form-urlencoded"
        assert received.form == {
            "grant_type": "client_credentials",
            "client_id": client,
            "client_assertion_type": "urn:ietf:params:oauth:client-assertion-type:jwt-bearer",
            "client_assertion": assertion,
            "scope": scope or f"{AUDIENCE}/.default",
        }
        return token_reply()

    return answer


def imds_answers(resource: str = AUDIENCE, **identity: str) -> Handler:
    """Return a metadata service that gives a token for the expected identity."""

    def answer(received: Received) -> Reply:
        assert (received.method, received.path) == ("GET", "/metadata/identity/oauth2/token")
        assert received.headers["metadata"] == "true"
        assert received.query == {"api-version": "2018-02-01", "resource": resource, **identity}
        expires_on = str(int(time.time()) + 86000)
        return Reply(200, {"access_token": ENTRA_TOKEN, "expires_on": expires_on, "expires_in": "5"})

    return answer


def never_shown(text: str, *more: str) -> None:
    """Fail if any of the marked secrets, or one of *more*, is in the output."""
    for secret in (
        POD_TOKEN_MARK,
        ENTRA_TOKEN,
        CLIENT_SECRET,
        USER_PASSWORD,
        REFRESH_TOKEN,
        "registrymark",
        *more,
    ):
        assert secret not in text
        assert segment(secret.encode())[:-2] not in text
