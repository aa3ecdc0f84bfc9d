"""Run keyferry-oidc as kubectl would."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from support.fake_issuer import CLIENT, SECRET, FakeIssuer
from support.reference import Answer, ask_cluster

INTERACTIVE = json.dumps(
    {
        "kind": "ExecCredential",
        "apiVersion": "client.authentication.k8s.io/v1",
        "spec": {"interactive": True},
    }
)
BY_PASSWORD = ("--grant-type", "password", "--username", "alice", "--password", "pass-word")


@dataclass(frozen=True)
class Ask:
    """Run the plugin for an issuer, at a *home*; the client's secret is in a file, unless *secret* is empty."""

    issuer: FakeIssuer
    home: Path

    def __call__(
        self,
        *args: str,
        secret: str = "",
        exec_info: str = "v1",
        stdin: str = "",
        env: Mapping[str, str] | None = None,
    ) -> Answer:
        """Run it once."""
        words = ["get-token", f"--oidc-issuer-url={self.issuer.url}", f"--oidc-client-id={CLIENT}"]
        words += self.issuer.trust
        if secret:
            path = self.home.with_name("secret")
            path.write_text(secret + "\n")
            words += ["--oidc-client-secret-file", str(path)]
        told = {"HOME": str(self.home), **(env or {})}
        return ask_cluster("oidc", args=[*words, *args], env=told, exec_info=exec_info, stdin=stdin)

    def token(self, *args: str, secret: str = "", env: Mapping[str, str] | None = None) -> str:
        """Run it once; return the token."""
        return self(*args, secret=secret, env=env).login_status["token"]


def failure(answer: Answer) -> str:
    """Return what a run that failed says; a failure has nothing on standard output, and no secret anywhere."""
    said = answer.failure
    for secret in (SECRET, "pass-word", "eyJ"):
        assert secret not in said
    return said
