"""Run Azure's cluster plugin as kubectl would."""

from __future__ import annotations

import json

from support import azure_cloud as cloud
from support.azure_cloud import CLIENT, SERVER_ID, TENANT, Azure
from support.fake_cloud import Handler, Received, Reply
from support.reference import CLUSTER_GROUP, Answer, ask_cluster

NAMED = ("--server-id", SERVER_ID, "--client-id", CLIENT, "--tenant-id", TENANT)
SCOPE = f"{SERVER_ID}/.default"
USER_SCOPE = f"{SCOPE} openid offline_access profile"
TOKEN_PATH = f"/{TENANT}/oauth2/v2.0/token"
INTERACTIVE = json.dumps(
    {"kind": "ExecCredential", "apiVersion": f"{CLUSTER_GROUP}/v1", "spec": {"interactive": True}}
)


def ask(
    azure: Azure, *args: str, env: dict[str, str] | None = None, exec_info: str | None = "v1", stdin: str = ""
) -> Answer:
    """Run the plugin once; check that a failure shows no secret."""
    told = azure.environ | (env or {})
    answer = ask_cluster("aks", args=args, env=told, exec_info=exec_info, stdin=stdin)
    if answer.status:
        assert answer.stdout == ""
        assert "keyferry-aks: " in answer.stderr
    cloud.never_shown(answer.stderr)
    return answer


def form_answers(expected: dict[str, str], reply: Reply | None = None, target: str = TOKEN_PATH) -> Handler:
    """Return a fake Entra that gives a token only for the expected form."""

    def answer(received: Received) -> Reply:
        assert (received.method, received.target) == ("POST", target)
        assert received.headers["content-type"] == "application/x-www-form-urlencoded"
        assert received.form == expected
        return reply or cloud.token_reply()

    return answer
