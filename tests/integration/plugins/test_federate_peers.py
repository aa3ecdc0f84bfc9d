"""Where a preset of keyferry-federate does the job of another plugin, one server sees the same requests from both."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import jwt

from support import azure_cloud, google_world
from support.azure_acr import ANNOTATIONS
from support.fake_cloud import Received, Reply
from support.federation import account_token, issuer_key, write_config
from support.reference import Answer, ask_image

AUDIENCE, ISSUER = "api://AzureADTokenExchange", "https://kubernetes.example.com"
AGENT = "user-agent"


def federate(folder: Path, image: str, rule: dict[str, object], env: dict[str, str], token: str) -> Answer:
    """Run keyferry-federate with one rule."""
    config = write_config(folder / "federation.json", rule)
    return ask_image("federate", image, args=[f"--config={config}"], env=env, token=token)


def essence(received: Received) -> tuple[str, str, str, object]:
    """Return what a server decides by: method, target, encoding and fields."""
    kind = received.headers["content-type"]
    fields = received.form if kind.startswith("application/x-www-form") else received.json
    return received.method, received.target, kind, fields


def response_of(answer: Answer, host: str) -> tuple[object, ...]:
    """Return the login of a registry, and for what and how long the kubelet keeps it."""
    assert answer.status == 0, answer.stderr
    document = answer.document
    return answer.auth[host], document["cacheKeyType"], document["cacheDuration"]


def test_acr_and_the_preset_acr(tmp_path: Path) -> None:
    """Entra and the registry get the same two exchanges, and the kubelet the same login for the same time."""
    token = account_token(aud=[AUDIENCE])
    registry_token = azure_cloud.registry_token()
    host = azure_cloud.REGISTRY
    image = f"{host}/team/app"

    def registry(received: Received) -> Reply:
        # The plugin for Azure asks for a challenge first, as the cloud's own does.
        if received.method == "GET":
            return azure_cloud.challenge()
        agent = {AGENT: "kubernetes-credentialprovider-acr"}
        seen = replace(received, headers={**received.headers, **agent})
        return azure_cloud.registry_answers(registry_token)(seen)

    with azure_cloud.serving_azure(tmp_path) as azure:
        azure.on(azure_cloud.ENTRA, azure_cloud.federated_answers(token))
        azure.on(host, registry)
        args = [azure.config(tenantId=azure_cloud.TENANT)]
        own = ask_image("acr", image, args=args, env=azure.environ, token=token, annotations=ANNOTATIONS)
        rule: dict[str, object] = {
            "registries": [host],
            "subject": {"audience": AUDIENCE, "issuer": ISSUER},
            "preset": "acr",
            "params": {"tenant": azure_cloud.TENANT, "client_id": azure_cloud.CLIENT},
        }
        preset = federate(tmp_path, image, rule, azure.environ, token)
        assert response_of(own, host) == response_of(preset, host)
        for name in (azure_cloud.ENTRA, host):
            first, second = [essence(each) for each in azure.sent(name) if each.method == "POST"]
            assert first == second


def test_gcr_and_the_preset_gcp(tmp_path: Path) -> None:
    """Google's token service gets the same exchange."""
    token = account_token(aud=["demo.svc.id.goog"])
    image = "us-docker.pkg.dev/demo/repo/app"

    def exchange(received: Received) -> Reply:
        subject = str(received.json["subject_token"])
        jwt.decode(subject, issuer_key().public_key(), ["RS256"], audience="demo.svc.id.goog", issuer=ISSUER)
        return google_world.token_reply(google_world.FEDERATED_TOKEN)

    with google_world.google_world(tmp_path) as google:
        google.on(f"POST {google_world.STS}/v1/token", exchange)
        own = ask_image(
            "gcr", image, args=["--identity-provider=https://idp.example.com/demo", "--project-id=demo"],
            env=google.node_env(), token=token, annotations={"iam.gke.io/enable-wi-image-pull": "true"},
        )  # fmt: skip
        rule: dict[str, object] = {
            "registries": ["us-docker.pkg.dev"],
            "subject": {"audience": "demo.svc.id.goog", "issuer": ISSUER},
            "preset": "gcp",
            "params": {"pool": "identitynamespace:demo.svc.id.goog:https://idp.example.com/demo"},
        }
        preset = federate(tmp_path, image, rule, google.env(), token)
        first, second = [essence(each) for each in google.api.received]
    assert first == second
    login = ("_token", google_world.FEDERATED_TOKEN)
    assert own.auth["us-docker.pkg.dev"] == preset.auth["us-docker.pkg.dev"] == login
