"""The ops of exec_credential that take a whole session: expiry, 401, and what goes before the plugin."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import httpx

from keyferry.api.kubeconfig.v1 import ExecConfig
from keyferry.api.meta import format_instant
from keyferry.clusters.auth.authenticator import Authenticator
from keyferry.clusters.auth.credential import ClusterCredential
from keyferry.clusters.auth.pem import parse_key_pair
from keyferry.clusters.auth.runner import ExecRunner
from keyferry.clusters.kubeconfig.resolve import ClientConfig
from keyferry.clusters.session import ClusterSession
from keyferry.errors import ClusterAuthError, KeyferryError

Json = dict[str, object]
_START_NS = int(datetime(2026, 1, 1, tzinfo=UTC).timestamp()) * 1_000_000_000


class _Stage:
    """A folder with a plugin that does what the step at hand says, and a clock that is stepped."""

    def __init__(self, folder: str, given: Json) -> None:
        self.folder = Path(folder)
        self.now_ns = _START_NS
        plugin = self.folder / "plugin"
        plugin.write_text(
            f'#!/bin/sh\necho x >>{folder}/ran\ncat {folder}/stdout\nexit "$(cat {folder}/exit)"\n'
        )
        plugin.chmod(0o755)
        settings = given["exec"]
        assert isinstance(settings, dict)
        config = ExecConfig(command=str(plugin), api_version=settings["apiVersion"], interactive_mode="Never")
        runner = ExecRunner(config)
        self.authenticator = Authenticator(runner.credential, clock=lambda: self.now_ns)
        client = ClientConfig(server="https://k", exec=config)
        self.session = ClusterSession(client, self.authenticator, retries=False)

    def set(self, step: Json) -> None:
        self.now_ns += int(step.get("advance_ns", 0))  # type: ignore[call-overload] # a number
        (self.folder / "stdout").write_text(str(step.get("stdout", "")))
        (self.folder / "exit").write_text(str(step.get("exit", 0)))
        (self.folder / "ran").write_text("")

    def runs(self) -> int:
        return (self.folder / "ran").read_text().count("x")

    def localised(self, text: str) -> str:
        return text.replace(str(self.folder), "$DIR")


def expiry(given: Json) -> Json:
    """Ask for a credential again and again while the clock goes on."""
    with tempfile.TemporaryDirectory() as folder:
        stage = _Stage(folder, given)
        return {"steps": [_ask(stage, step) for step in given["steps"]]}  # type: ignore[attr-defined] # a list


def _ask(stage: _Stage, step: Json) -> Json:
    stage.set(step)
    shown: Json = {"now": format_instant(stage.now_ns)}
    try:
        credential = stage.authenticator.credential()
    except ClusterAuthError as error:
        text = error.kubernetes_text.removeprefix("getting credentials: ")
        return shown | {"error": stage.localised(text), "executed": stage.runs() > 0}
    expires = stage.authenticator.expires_ns
    return shown | {
        "error": None,
        "executed": stage.runs() > 0,
        "token": credential.token,
        "cert": _certificate(credential),
        "expiration": None if expires is None else format_instant(expires),
    }


def _certificate(credential: ClusterCredential) -> Json | None:
    if not credential.certificate_pem:
        return None
    pair = parse_key_pair(credential.certificate_pem, credential.key_pem)
    return {
        "chain": pair.chain_length,
        "subject": pair.subject,
        "notAfter": format_instant(pair.not_after_ns),
    }


@dataclass
class _Server:
    """Answers each request as the step says, and notes what it was sent."""

    step: Json
    authorization: list[str] = field(default_factory=list)

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.authorization.append(request.headers.get("Authorization", ""))
        if "transportError" in self.step:
            raise OSError(self.step["transportError"])
        return httpx.Response(int(self.step["status"]))  # type: ignore[call-overload] # a number


def roundtrip(given: Json) -> Json:
    """Send requests through a session, as a program does that uses httpx."""
    with tempfile.TemporaryDirectory() as folder:
        stage = _Stage(folder, given)
        return {"steps": [_send(stage, step) for step in given["steps"]]}  # type: ignore[attr-defined] # a list


def _send(stage: _Stage, step: Json) -> Json:
    stage.set(step)
    server, before = _Server(step), stage.session.certificates
    answer: Json = {"error": None}
    # Go takes an empty header for none.
    own = {"Authorization": str(step["authorization"])} if step.get("authorization") else {}
    try:
        with httpx.Client(auth=stage.session.httpx_auth(), transport=httpx.MockTransport(server)) as client:
            answer["status"] = client.get(stage.session.server, headers=own).status_code
    except (KeyferryError, OSError) as error:
        text = error.kubernetes_text if isinstance(error, KeyferryError) else str(error)
        answer["error"] = stage.localised(text)
    return answer | {
        "authorization_sent": server.authorization or None,
        "requests_sent": len(server.authorization),
        "executions": stage.runs(),
        "open_connections_closed": stage.session.certificates != before,
    }


def update_transport(given: Json) -> Json:
    """Tell whether the plugin is used beside another credential."""
    transport = given["transport"]
    assert isinstance(transport, dict)
    config = ClientConfig(
        server="https://k",
        bearer_token=transport.get("bearerToken", ""),
        token_file=transport.get("bearerTokenFile", ""),
        username=transport.get("username", ""),
        password=transport.get("password", ""),
        client_certificate_data=(transport.get("certData") or transport.get("certFile") or "").encode(),
        exec=ExecConfig(
            command="plugin", api_version="client.authentication.k8s.io/v1", interactive_mode="Never"
        ),
    )
    return {"error": None, "plugin_used": config.uses_plugin}
