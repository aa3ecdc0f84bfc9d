"""Google's endpoints on loopback: the metadata server, and the APIs behind a proxy that knows their names."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric import rsa

from keyferry_plugins.signing.jose import encode_segment, verify_jwt
from support.certificates import key_pem, make_key
from support.fake_cloud import Authority, ConnectProxy, FakeServer, Received, Reply, serving
from support.reference import Answer as PluginAnswer
from support.reference import ask_cluster

OAUTH, STS, IAM = "oauth2.googleapis.com", "sts.googleapis.com", "iamcredentials.googleapis.com"
CONFIG_HOST = "config.example.com"
NAMES = (OAUTH, STS, IAM, CONFIG_HOST)
ACCOUNT = "/computeMetadata/v1/instance/service-accounts/default"
ATTRIBUTES = "/computeMetadata/v1/instance/attributes"
CLOUD_PLATFORM = "https://www.googleapis.com/auth/cloud-platform"
EMAIL_SCOPE = "https://www.googleapis.com/auth/userinfo.email"
# Each looks like the real thing, and is searched for in all that is printed.
NODE_TOKEN = "ya29.c.node-token-4f1d"
FEDERATED_TOKEN = "ya29.d.federated-token-91ab"
ACCESS_TOKEN = "ya29.a0-access-token-77c2"
IMPERSONATED_TOKEN = "ya29.c.impersonated-token-e3f0"
POD_TOKEN = "pod-token-with-mark-5be1"

Answer = Reply | Callable[[Received], Reply]


@dataclass
class World:
    """The servers, the responses of their paths, and the environment that refers to them."""

    folder: Path
    bundle: Path
    answers: dict[str, list[Answer]] = field(default_factory=dict)
    metadata: FakeServer = field(init=False)
    api: FakeServer = field(init=False)
    proxy: ConnectProxy = field(init=False)

    def on(self, place: str, *answers: Answer) -> None:
        """Answer requests for *place*, as ``METHOD path`` or ``METHOD host/path``, in turn; the last is repeated."""
        self.answers[place] = list(answers)

    def serve_metadata(self, received: Received) -> Reply:
        """Answer for the metadata server, which refuses a request without its header."""
        if received.headers.get("metadata-flavor") != "Google":
            return Reply(403, body=b"Missing Metadata-Flavor:Google header.")
        return self._next(f"{received.method} {received.path}", received)

    def serve_api(self, received: Received) -> Reply:
        """Answer for all of Google's API hosts."""
        return self._next(f"{received.method} {received.headers['host']}{received.path}", received)

    def _next(self, place: str, received: Received) -> Reply:
        queue = self.answers.get(place)
        assert queue, f"nothing is expected at {place}"
        answer = queue.pop(0) if len(queue) > 1 else queue[0]
        return answer if isinstance(answer, Reply) else answer(received)

    def asked(self, server: FakeServer) -> list[str]:
        """Return the requests to a server, as ``METHOD path``."""
        return [f"{each.method} {each.path}" for each in server.received]

    def env(self, **more: str) -> dict[str, str]:
        """Return an environment outside Google's machines, with a proxy to the API hosts."""
        return {
            "HOME": str(self.folder),
            "NO_GCE_CHECK": "true",
            "HTTPS_PROXY": self.proxy.url,
            "SSL_CERT_FILE": str(self.bundle),
            **more,
        }

    def node_env(self, **more: str) -> dict[str, str]:
        """Return an environment on one of Google's machines."""
        return self.env(GCE_METADATA_HOST=f"127.0.0.1:{self.metadata.port}", **more)

    def ask_gke(self, document: object = None, *args: str, **more: str) -> PluginAnswer:
        """Run keyferry-gke for application default credentials; *document* is the file that the environment names."""
        named = (
            {} if document is None else {"GOOGLE_APPLICATION_CREDENTIALS": self.write("key.json", document)}
        )
        flag = "--use_application_default_credentials"
        return ask_cluster("gke", args=(flag, *args), env=self.env(**named, **more))

    def write(self, name: str, document: object) -> str:
        """Write a JSON document into a file; return its path."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(document))
        return str(path)


@contextmanager
def google_world(folder: Path) -> Iterator[World]:
    """Yield the servers for the length of a test; an unexpected request fails it at the end."""
    authority = Authority(folder)
    world = World(folder, authority.bundle)
    with (
        serving(world.serve_metadata) as metadata,
        serving(world.serve_api, authority.context(*NAMES)) as api,
    ):
        ways = {f"{name}:443": api.port for name in NAMES}
        ways |= {"metadata.google.internal.": metadata.port}
        with ConnectProxy(ways) as proxy:
            world.metadata, world.api, world.proxy = metadata, api, proxy
            yield world


def token_reply(token: str = NODE_TOKEN, expires_in: object = 3599) -> Reply:
    """Return a token in the format of OAuth endpoints and the metadata server."""
    return Reply(document={"access_token": token, "expires_in": expires_in, "token_type": "Bearer"})


def impersonated_reply(token: str = IMPERSONATED_TOKEN, expires: object = "2035-01-02T03:04:05Z") -> Reply:
    """Return a token in the format of the IAM credentials API."""
    return Reply(document={"accessToken": token, "expireTime": expires})


def error_reply(status: int, code: str, description: str) -> Reply:
    """Return an OAuth error."""
    return Reply(status, {"error": code, "error_description": description})


def api_error_reply(status: int, name: str, message: str) -> Reply:
    """Return an error of one of Google's APIs."""
    return Reply(status, {"error": {"code": status, "status": name, "message": message}})


@cache
def rsa_key() -> rsa.RSAPrivateKey:
    """Return a key for service accounts, created once because that is slow."""
    key = make_key("rsa")
    assert isinstance(key, rsa.RSAPrivateKey)
    return key


def service_account(**more: object) -> dict[str, object]:
    """Return the credential file of a service account with that key."""
    return {
        "type": "service_account",
        "client_email": "puller@demo.iam.gserviceaccount.com",
        "private_key_id": "key-1",
        "private_key": key_pem(rsa_key()),
    } | more


def verified_claims(assertion: str) -> dict[str, object]:
    """Return the claims of an assertion, if the key of the service account signed it."""
    numbers = rsa_key().public_key().public_numbers()
    public = {name: encode_segment(value.to_bytes(256, "big")) for name, value in (("n", numbers.n),)}
    exponent = encode_segment(numbers.e.to_bytes(3, "big"))
    return verify_jwt(assertion, [{"kty": "RSA", "kid": "key-1", "e": exponent, **public}], ["RS256"])


def user(**more: object) -> dict[str, object]:
    """Return the credential file of a person's login."""
    return {
        "type": "authorized_user",
        "client_id": "client-1.apps.googleusercontent.com",
        "client_secret": "GOCSPX-client-secret-mark",
        "refresh_token": "1//refresh-token-mark",
    } | more


def external_account(source: Mapping[str, object], **more: object) -> dict[str, object]:
    """Return the credential file of an external account whose subject token comes from *source*."""
    return {
        "type": "external_account",
        "audience": "//iam.googleapis.com/projects/1/locations/global/workloadIdentityPools/p/providers/x",
        "subject_token_type": "urn:ietf:params:oauth:token-type:jwt",
        "credential_source": dict(source),
    } | more
