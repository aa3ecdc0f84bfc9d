"""A pull with what keyferry-federate obtains: a real registry, whose token server has the exchange server's key."""

import os
import ssl
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import rsa

import keyferry
from keyferry.images.provider.accounts import Pod, ServiceAccount, StaticAccount
from support.fake_cloud import Authority, Received, Reply, serving
from support.federation import (
    AUDIENCE,
    EXAMPLES,
    HOUR,
    ISSUER,
    account_claims,
    account_token,
    basic_of,
    check_subject,
    issued,
    rule_of,
    server_key,
    sign,
)
from support.federation import write_config as write_federation
from support.oidc_server import running as running_oidc
from support.plugins import provider_entry, write_config
from support.reference import ask_cluster, write_launcher
from support.registry import Image, Registry, TokenAuth, make_image, pull, pulled_digest, running
from support.token_server import ISSUER as TOKEN_ISSUER
from support.token_server import SERVICE, TokenServer

REPOSITORY = "demo/team/app"
POD = Pod("default", "e1", "098bd8ad", "puller")
# Presets whose answers are signed by the exchange server, and whose host can be any.
PRESETS = ("rfc8693", "jfrog", "quay", "cloudsmith", "gcp", "ibm")


@dataclass
class Site:
    """A registry, an image in it, and the exchange server whose logins it takes."""

    registry: Registry
    image: Image
    exchange: str
    authority: Authority

    def rule(self, preset: str, **changes: object) -> dict[str, object]:
        """The rule for this registry; the exchange is this site's."""
        params = EXAMPLES[preset].params
        if EXAMPLES[preset].calls:
            params = {**params, "host": self.exchange}
        return rule_of(preset, registries=[self.registry.host], params=params, **changes)

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
            "CLIENT_SECRET": "client-secret-4711",
            **(env or {}),
        }
        entry = provider_entry(
            name,
            matchImages=[self.registry.host],
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
            service_accounts=StaticAccount(ServiceAccount("936a1b3e"), token),
        )
        return providers.lookup(f"{self.registry.host}/{REPOSITORY}:v1", pod=POD)

    def pull(self, folder: Path, answer: keyferry.Answer) -> str:
        """Pull with the one login that was found; gives the image's digest, or what was said."""
        assert answer.failures == (), answer.failures
        (login,) = answer.credentials
        host = self.registry.host
        env = {"SSL_CERT_FILE": str(self.authority.bundle)}
        done = pull(f"{host}/{REPOSITORY}:v1", folder, {host: (login.username, login.password)}, env)
        return pulled_digest(folder) if done.returncode == 0 else done.stderr


@contextmanager
def site(
    folder: Path, exchange: Callable[[Received], Reply], accepts: Callable[[str], object]
) -> Iterator[Site]:
    """Yield a registry; its token server gives tokens for logins whose password *accepts* does not refuse."""
    authority = Authority(folder)
    tokens = TokenServer(folder)

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

    with serving(handle, authority.context("127.0.0.1")) as server:
        trust = TokenAuth(f"{server.url}/registry-token", SERVICE, TOKEN_ISSUER, tokens.certificate)
        pem = authority.certificate("127.0.0.1")
        with running(folder / "registry", pem=pem, bundle=authority.bundle, tokens=trust) as registry:
            image = make_image("federated")
            allowed = tokens.token("pusher", (f"repository:{REPOSITORY}:pull,push",))
            registry.push(REPOSITORY, "v1", image, f"Bearer {allowed}")
            yield Site(registry, image, f"127.0.0.1:{server.port}", authority)


def accept_issued(password: str) -> None:
    """Take a login that the exchange server signed, and no other."""
    jwt.decode(password, server_key().public_key(), ["RS256"], issuer="exchange")


@pytest.mark.parametrize("preset", PRESETS)
def test_an_image_is_pulled_with_the_exchanged_login(preset: str, tmp_path: Path) -> None:
    """From the service account's token by the preset's call to a login that the registry takes."""
    with site(tmp_path, EXAMPLES[preset].handler, accept_issued) as found:
        answer = found.look_up(tmp_path / "good", found.rule(preset), account_token())
        assert found.pull(tmp_path / "pulled", answer) == found.image.digest
        # The subject itself is no login there, so it is the exchange that counts.
        through = found.look_up(
            tmp_path / "through", found.rule("passthrough"), account_token(), cache_type="Token"
        )
        assert "unauthorized" in found.pull(tmp_path / "refused", through)


def test_an_image_is_pulled_with_the_token_itself(tmp_path: Path) -> None:
    """As zot does it: the token server verifies the cluster's signature."""
    with site(tmp_path, lambda _: Reply(599), check_subject) as found:
        token = account_token()
        answer = found.look_up(tmp_path / "good", found.rule("passthrough"), token, cache_type="Token")
        assert [login.password for login in answer.credentials] == [token]
        assert found.pull(tmp_path / "pulled", answer) == found.image.digest


def test_the_kubelet_does_not_take_the_token_for_a_whole_account(tmp_path: Path) -> None:
    """With another cacheType than Token it refuses a password that is the token."""
    with site(tmp_path, lambda _: Reply(599), check_subject) as found:
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
    with site(tmp_path, handle, accept_issued) as found:
        answer = found.look_up(tmp_path / "forged", found.rule("jfrog"), forged)
        assert not answer.credentials
        (failure,) = answer.failures
        assert "'invalid_grant'" in str(failure)
        assert forged not in str(failure)


def test_a_real_issuers_token_is_a_subject(tmp_path: Path) -> None:
    """It is signed by npm's oidc-provider, and the exchange server verifies it with the published keys."""
    (tmp_path / "issuer").mkdir()
    with running_oidc(Authority(tmp_path / "issuer")) as issuer:
        trust = ssl.create_default_context(cafile=str(issuer.authority.bundle))
        keys = jwt.PyJWKClient(f"{issuer.issuer}/jwks", ssl_context=trust)

        def handle(received: Received) -> Reply:
            token = str(received.json["subject_token"])
            key = keys.get_signing_key_from_jwt(token)
            claims = jwt.decode(token, key.key, ["RS256"], audience="kubernetes", issuer=issuer.issuer)
            assert claims["client_id"] == "svc"
            return Reply(document={"access_token": issued(), "expires_in": HOUR, "username": "svc"})

        args = [
            "get-token", f"--oidc-issuer-url={issuer.issuer}", "--oidc-client-id=svc",
            "--oidc-client-secret=svc-secret", "--grant-type=client-credentials",
            "--oidc-use-access-token", "--oidc-extra-scope=api", f"--certificate-authority={issuer.authority.bundle}",
        ]  # fmt: skip
        token = ask_cluster("oidc", args=args).login_status["token"]
        subject = {"from": "env", "variable": "ID_TOKEN", "audience": "kubernetes", "issuer": issuer.issuer}
        with site(tmp_path, handle, accept_issued) as found:
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
