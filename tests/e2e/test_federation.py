"""A pull with what keyferry-federate obtains, from a real registry that trusts the exchange server's key."""

from __future__ import annotations

import json
import os
import re
import ssl
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import HTTPSHandler, ProxyHandler, Request, build_opener

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.x509 import load_pem_x509_certificates

import keyferry
from support.fake_cloud import Authority, ConnectProxy, Received, Reply, serving
from support.federation import (
    AUDIENCE,
    CLIENT_SECRET,
    EXAMPLES,
    GITHUB,
    GITHUB_HOST,
    HOUR,
    ISSUER,
    account_claims,
    account_token,
    basic_of,
    check_subject,
    github_token,
    issued,
    rule_of,
    server_key,
    sign,
)
from support.federation import write_config as write_federation
from support.oidc_server import OidcServer
from support.parts import need
from support.plugins import provider_entry, write_config
from support.reference import ask_cluster, write_launcher
from support.registry import Image, Registry, TokenAuth, basic, make_image, pull, pulled_digest, running
from support.token_server import ISSUER as TOKEN_ISSUER
from support.token_server import SERVICE, TokenServer

REPOSITORY = "docker/app"
POD = keyferry.Pod(namespace="default", name="e1", uid="098bd8ad", service_account_name="puller")
HUB_SERVER = "registry-1.docker.io"  # of docker.io
GITHUB_JOB = {
    "ACTIONS_ID_TOKEN_REQUEST_URL": f"https://{GITHUB_HOST}/token?api-version=2.0",
    "ACTIONS_ID_TOKEN_REQUEST_TOKEN": "github-request-token",
}
# Presets whose answers are signed by the exchange server.
SIGNED = ("rfc8693", "jfrog", "quay", "cloudsmith", "gcp", "acr", "ibm")


@dataclass
class Site:
    """A registry under its own name, an image in it, and the exchange server whose logins it takes.

    The plugin and skopeo each have a proxy of their own, as the registry's name leads the plugin to the exchange.
    """

    host: str
    registry: Registry
    image: Image
    authority: Authority
    plugin_proxy: ConnectProxy
    pull_proxy: ConnectProxy

    def rule(self, preset: str, **changes: object) -> dict[str, object]:
        """The rule for this registry."""
        return rule_of(preset, registries=[self.host], **changes)

    def look_up(
        self,
        folder: Path,
        rule: Mapping[str, object],
        token: str,
        *,
        cache_type: str = "ServiceAccount",
        env: Mapping[str, str] | None = None,
    ) -> keyferry.Answer:
        """The logins for the image through a provider config with tokenAttributes, as a kubelet's."""
        bin_dir = folder / "bin"
        bin_dir.mkdir(parents=True, exist_ok=True)
        name = write_launcher(bin_dir, "federate").name
        told = {
            "SSL_CERT_FILE": str(self.authority.bundle),
            "CLIENT_SECRET": CLIENT_SECRET,
            "HTTPS_PROXY": self.plugin_proxy.url,
            **(env or {}),
        }
        entry = provider_entry(
            name,
            matchImages=[self.host],
            args=[f"--config={write_federation(folder / 'federation.json', rule)}"],
            env=[{"name": key, "value": value} for key, value in told.items()],
            tokenAttributes={
                "serviceAccountTokenAudience": AUDIENCE,
                "cacheType": cache_type,
                "requireServiceAccount": True,
            },
        )
        config = write_config(folder / "config.json", [entry])
        providers = keyferry.load_providers(
            config,
            bin_dir,
            withhold_env=[key for key in os.environ if key != "PATH"],
            service_accounts=keyferry.StaticAccount(
                account=keyferry.ServiceAccount(uid="936a1b3e"), token_text=token
            ),
        )
        return providers.lookup(f"{self.host}/{REPOSITORY}:latest", pod=POD)

    def pull(self, folder: Path, answer: keyferry.Answer) -> str:
        """Pull with the one login that was found; gives the image's digest, or what was said."""
        assert answer.failures == (), answer.failures
        (login,) = answer.credentials
        env = {"SSL_CERT_FILE": str(self.authority.bundle), "HTTPS_PROXY": self.pull_proxy.url}
        logins = {self.host: (login.username, login.password)}
        done = pull(f"{self.host}/{REPOSITORY}:latest", folder, logins, env)
        return pulled_digest(folder) if done.returncode == 0 else done.stderr


@contextmanager
def site(
    folder: Path, preset: str, exchange: Callable[[Received], Reply], accepts: Callable[[str], object]
) -> Iterator[Site]:
    """Yield a registry that trusts the exchange server's key alone: with it the exchange signs the registry's tokens.

    It gives them for logins whose password *accepts* does not refuse.
    """
    tokens = TokenServer(folder, server_key())

    def handle(received: Received) -> Reply:
        if received.path != "/registry-token":
            return exchange(received)
        user, password = basic_of(received)
        try:
            accepts(password)
        except jwt.InvalidTokenError:
            return Reply(401)
        tokens.users[user] = password
        return tokens.answer(received)

    with ExitStack() as stack:
        authority, port, proxy = _serve_exchange(folder, preset, handle, stack)
        realm = f"https://127.0.0.1:{port}/registry-token"
        trust = TokenAuth(realm, SERVICE, TOKEN_ISSUER, tokens.certificate)
        allowed = tokens.token("pusher", (f"repository:{REPOSITORY}:pull,push",))
        registry = _start_registry(folder, preset, authority, stack, trust)
        yield _fill(registry, preset, authority, proxy, f"Bearer {allowed}", stack)


@contextmanager
def user_site(
    folder: Path, preset: str, exchange: Callable[[Received], Reply], users: Mapping[str, str]
) -> Iterator[Site]:
    """Yield a registry with users and passwords of its own."""
    with ExitStack() as stack:
        authority, _, proxy = _serve_exchange(folder, preset, exchange, stack)
        registry = _start_registry(folder, preset, authority, stack)
        registry.set_users({**users, "pusher": "made-up"})
        yield _fill(registry, preset, authority, proxy, basic("pusher", "made-up"), stack)


def _names(preset: str) -> Sequence[str]:
    """The hosts of a preset's example; the servers' certificates are for all of them."""
    example = EXAMPLES[preset]
    return ("127.0.0.1", example.registry.partition(":")[0], HUB_SERVER, GITHUB_HOST, *example.hosts)


def _serve_exchange(
    folder: Path, preset: str, handle: Callable[[Received], Reply], stack: ExitStack
) -> tuple[Authority, int, ConnectProxy]:
    """Start the exchange server; gives its authority, its port, and the proxy that leads the plugin to it."""
    authority = Authority(folder)
    server = stack.enter_context(serving(handle, authority.context(*_names(preset))))
    proxy = stack.enter_context(ConnectProxy(dict.fromkeys(_names(preset), server.port)))
    return authority, server.port, proxy


def _start_registry(
    folder: Path, preset: str, authority: Authority, stack: ExitStack, tokens: TokenAuth | None = None
) -> Registry:
    pem = authority.certificate(*_names(preset))
    return stack.enter_context(running(folder / "registry", pem=pem, bundle=authority.bundle, tokens=tokens))


def _fill(
    registry: Registry, preset: str, authority: Authority, proxy: ConnectProxy, pusher: str, stack: ExitStack
) -> Site:
    """Push the image; gives the site, and the proxy that leads skopeo to the registry."""
    image = make_image("federated")
    registry.push(REPOSITORY, "latest", image, pusher)
    ways = ConnectProxy(dict.fromkeys(_names(preset), registry.port))
    return Site(EXAMPLES[preset].registry, registry, image, authority, proxy, stack.enter_context(ways))


def accept_issued(password: str) -> None:
    """Take a login that the exchange server signed, and no other."""
    jwt.decode(password, server_key().public_key(), ["RS256"], issuer="exchange")


def assert_refused(found: Site, folder: Path) -> None:
    """The subject itself is no login there, so it is the exchange that counts."""
    rule = found.rule("passthrough")
    through = found.look_up(folder / "through", rule, account_token(), cache_type="Token")
    said = found.pull(folder / "refused", through)
    assert "unauthorized" in said or "authentication required" in said, said


@pytest.mark.parametrize("preset", SIGNED)
def test_an_image_is_pulled_with_the_exchanged_login(preset: str, tmp_path: Path) -> None:
    """From the service account's token by the preset's calls to a login that the registry takes."""
    with site(tmp_path, preset, EXAMPLES[preset].handler, accept_issued) as found:
        answer = found.look_up(tmp_path / "good", found.rule(preset), account_token())
        assert found.pull(tmp_path / "pulled", answer) == found.image.digest
        assert_refused(found, tmp_path)


def test_the_registry_trusts_the_exchange_servers_key(tmp_path: Path) -> None:
    """The key that signed the login is the key of the certificate that the registry has, and the only one there."""
    with site(tmp_path, "jfrog", EXAMPLES["jfrog"].handler, accept_issued) as found:
        (login,) = found.look_up(tmp_path / "good", found.rule("jfrog"), account_token()).credentials
        (trusted,) = load_pem_x509_certificates((tmp_path / "tokens.pem").read_bytes())
        key = trusted.public_key()
        assert isinstance(key, rsa.RSAPublicKey)
        assert jwt.decode(login.password, key, ["RS256"], issuer="exchange")["sub"] == "pull"


def test_an_image_is_pulled_with_a_secret_of_vault(tmp_path: Path) -> None:
    """The registry has users of its own: one whose password Vault stores, and one that Vault makes with a lease."""
    made = {"username": "v-jwt-puller", "password": "of-an-hour-4711"}

    def exchange(received: Received) -> Reply:
        if received.path != "/v1/registry/creds/puller":
            return EXAMPLES["vault"].handler(received)
        assert received.headers["x-vault-token"] == "hvs.vault-token"
        return Reply(document={"lease_id": "registry/creds/puller/1", "lease_duration": HOUR, "data": made})

    users = {"robot": "from-vault-4711", made["username"]: made["password"]}
    with user_site(tmp_path, "vault", exchange, users) as found:
        answer = found.look_up(tmp_path / "stored", found.rule("vault"), account_token())
        assert found.pull(tmp_path / "pulled", answer) == found.image.digest
        params = {**EXAMPLES["vault"].params, "secret": "registry/creds/puller"}
        dynamic = found.look_up(tmp_path / "made", found.rule("vault", params=params), account_token())
        assert [login.username for login in dynamic.credentials] == [made["username"]]
        assert found.pull(tmp_path / "pulled-too", dynamic) == found.image.digest
        assert_refused(found, tmp_path)


def test_an_image_of_docker_hub_is_pulled_by_a_job_of_github(tmp_path: Path) -> None:
    """The job's token is exchanged at Docker's identity service, and the registry takes the organisation's token."""

    def accept(password: str) -> None:
        if password != "dckr_oat_1":
            raise jwt.InvalidTokenError

    with site(tmp_path, "dockerhub", EXAMPLES["dockerhub"].handler, accept) as found:
        answer = found.look_up(tmp_path / "good", found.rule("dockerhub"), account_token(), env=GITHUB_JOB)
        assert [login.username for login in answer.credentials] == ["my-org"]
        assert found.pull(tmp_path / "pulled", answer) == found.image.digest
        assert f"{HUB_SERVER}:443" in found.pull_proxy.asked
        assert_refused(found, tmp_path)


def test_an_image_is_pulled_with_the_token_itself(tmp_path: Path) -> None:
    """As zot does it: the token server verifies the cluster's signature."""
    with site(tmp_path, "passthrough", lambda _: Reply(599), check_subject) as found:
        token = account_token()
        answer = found.look_up(tmp_path / "good", found.rule("passthrough"), token, cache_type="Token")
        assert [login.password for login in answer.credentials] == [token]
        assert found.pull(tmp_path / "pulled", answer) == found.image.digest


def test_the_kubelet_does_not_take_the_token_for_a_whole_account(tmp_path: Path) -> None:
    """With another cacheType than Token it refuses a password that is the token."""
    with site(tmp_path, "passthrough", lambda _: Reply(599), check_subject) as found:
        answer = found.look_up(tmp_path / "wrong", found.rule("passthrough"), account_token())
        assert not answer.credentials
        assert answer.failures


def test_a_token_of_another_cluster_pulls_nothing(tmp_path: Path) -> None:
    """Its claims are right and its signature is not: the exchange server refuses it, and there is no login."""

    def handle(received: Received) -> Reply:
        try:
            check_subject(received.json["subject_token"])
        except jwt.InvalidSignatureError:
            return Reply(401, {"error": "invalid_grant"})
        return EXAMPLES["jfrog"].handler(received)

    forged = sign(account_claims(), rsa.generate_private_key(65537, 2048))
    with site(tmp_path, "jfrog", handle, accept_issued) as found:
        answer = found.look_up(tmp_path / "forged", found.rule("jfrog"), forged)
        assert not answer.credentials
        (failure,) = answer.failures
        assert "'invalid_grant'" in str(failure)
        assert forged not in str(failure)


def test_a_real_issuers_token_is_a_subject(oidc: OidcServer, tmp_path: Path) -> None:
    """It is signed by npm's oidc-provider, and the exchange server verifies it with the published keys."""
    trust = ssl.create_default_context(cafile=str(oidc.authority.bundle))
    keys = jwt.PyJWKClient(f"{oidc.issuer}/jwks", ssl_context=trust)

    def handle(received: Received) -> Reply:
        token = str(received.json["subject_token"])
        key = keys.get_signing_key_from_jwt(token)
        claims = jwt.decode(token, key.key, ["RS256"], audience="kubernetes", issuer=oidc.issuer)
        assert claims["client_id"] == "svc"
        return Reply(document={"access_token": issued(), "expires_in": HOUR, "username": "svc"})

    args = [
        "get-token", f"--oidc-issuer-url={oidc.issuer}", "--oidc-client-id=svc",
        "--oidc-client-secret=svc-secret", "--grant-type=client-credentials",
        "--oidc-use-access-token", "--oidc-extra-scope=api", f"--certificate-authority={oidc.authority.bundle}",
    ]  # fmt: skip
    token = ask_cluster("oidc", args=args).login_status["token"]
    subject = {"from": "env", "variable": "ID_TOKEN", "audience": "kubernetes", "issuer": oidc.issuer}
    with site(tmp_path, "jfrog", handle, accept_issued) as found:
        rule = found.rule("jfrog", subject=subject)
        answer = found.look_up(tmp_path / "good", rule, account_token(), env={"ID_TOKEN": token})
        assert found.pull(tmp_path / "pulled", answer) == found.image.digest
        other = {**subject, "issuer": ISSUER}
        refused = found.look_up(
            tmp_path / "other",
            found.rule("jfrog", subject=other),
            account_token(),
            env={"ID_TOKEN": token},
        )
        assert "the subject token's iss is" in str(refused.failures[0])


JFROG = "team.jfrog.io"
GITLAB = "https://gitlab.example.com"
PAGE = Path(__file__).resolve().parents[2] / "docs" / "plugins" / "federation.md"


def forward(received: Received, registry: Registry) -> Reply:
    """Answer as the registry does, which shares its name with the exchange."""
    kept = {"Accept": "application/vnd.oci.image.manifest.v1+json"}
    if "authorization" in received.headers:
        kept["Authorization"] = received.headers["authorization"]
    trust = ssl.create_default_context(cafile=str(registry.bundle))
    opener = build_opener(ProxyHandler({}), HTTPSHandler(context=trust))
    try:
        reply = opener.open(Request(f"{registry.url}{received.target}", headers=kept))
    except HTTPError as error:
        reply = error
    with reply:
        names = (
            "Content-Type",
            "Docker-Content-Digest",
            "Docker-Distribution-Api-Version",
            "Www-Authenticate",
        )
        headers = {name: reply.headers[name] for name in names if name in reply.headers}
        return Reply(reply.status, body=reply.read(), headers=headers)


def page_block(kind: str, word: str) -> str:
    """The block of a language on the plugin's page that has a word."""
    blocks = re.findall(rf"^```{kind}\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    (found,) = [text for text in blocks if word in text]
    return str(found)


def job_config(subject: str) -> str:
    """The provider config on the page, for a job of GitLab or of GitHub."""
    text = page_block("yaml", "--subject-from=env")
    if subject == "gitlab":
        return text
    lines = text.splitlines(keepends=True)
    assert [line.split("=")[0].strip() for line in lines[-3:]] == [
        "- --issuer", "- --subject-from", "- --subject-variable",
    ]  # fmt: skip
    return "".join(lines[:-3]) + page_block("yaml", "--subject-from=github")


@pytest.mark.parametrize("subject", ["gitlab", "github"])
def test_a_job_pulls_as_on_the_page(subject: str, tmp_path: Path) -> None:
    """Its script with real skopeo, which asks docker-credential-keyferry, which runs the plugin."""
    issuer = {"gitlab": GITLAB, "github": GITHUB}[subject]
    registries: list[Registry] = []

    def handle(received: Received) -> Reply:
        if received.path.startswith("/v2/"):
            return forward(received, registries[0])
        if received.headers["host"] == GITHUB_HOST:
            assert received.query["audience"] == JFROG
            return Reply(document={"value": github_token(aud=JFROG)})
        check_subject(received.json["subject_token"], issuer=issuer, audience=JFROG)
        return Reply(document={"access_token": issued(), "expires_in": HOUR, "username": "job"})

    with site(tmp_path, "jfrog", handle, accept_issued) as found:
        registries.append(found.registry)
        (tmp_path / "ci.yaml").write_text(job_config(subject))
        policy = tmp_path / ".config" / "containers" / "policy.json"
        policy.parent.mkdir(parents=True)
        policy.write_text('{"default": [{"type": "insecureAcceptAnything"}]}')
        job = {"gitlab": {"REGISTRY_ID_TOKEN": sign({**account_claims(), "iss": GITLAB, "aud": JFROG})}}
        env = {
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "HOME": str(tmp_path),
            "HTTPS_PROXY": found.plugin_proxy.url,
            "SSL_CERT_FILE": str(found.authority.bundle),
            **job.get(subject, GITHUB_JOB),
        }
        need("skopeo")
        words = ["sh", "-ec", page_block("sh", "skopeo copy")]
        done = subprocess.run(words, cwd=tmp_path, env=env, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        index = json.loads((tmp_path / "app" / "index.json").read_text())
        assert index["manifests"][0]["digest"] == found.image.digest
        assert json.loads((tmp_path / ".docker" / "config.json").read_text()) == {
            "credHelpers": {JFROG: "keyferry"}
        }
