"""What authors test their plugins with tells right answers from wrong ones."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import pytest

from keyferry.api.clientauthentication.v1 import ClusterInfo
from keyferry.sdk import AuthConfig, ExecRequest, ExecResponse, ProvideError, Request, Response
from keyferry.sdk.testing import Outcome, ask, ask_cluster, run, run_cluster
from support.plugins import write_executable
from support.sdk_plugins import CLUSTER_GROUP, IMAGE_GROUP, cluster_plugin, image_plugin, write_plugin

V1 = f"{IMAGE_GROUP}/v1"


def test_a_function_is_asked_as_the_kubelet_asks() -> None:
    """With a service account, in any version."""

    def provide(request: Request) -> Response:
        account = f"{request.service_account_token}-{request.service_account_annotations.get('a')}"
        return Response.for_image(request, account, request.api_version, cache_seconds=1.5)

    outcome = ask(provide, "r/a", service_account_token="t", service_account_annotations={"a": "b"})
    assert (outcome.status, outcome.stderr, outcome.cache_seconds) == (0, "", 1.5)
    assert outcome.auth == {"r/a": AuthConfig(username="t-b", password=V1)}
    older = ask(provide, "r/a", service_account_token="t", api_version="v1beta1")
    assert older.auth == {"r/a": AuthConfig(username="-None", password=f"{IMAGE_GROUP}/v1beta1")}
    assert ask(lambda _: Response(), "r/a").cache_seconds is None


def test_a_function_is_asked_as_a_client_asks() -> None:
    """For a cluster, with or without a person."""

    def provide(request: ExecRequest) -> ExecResponse:
        server = "" if request.cluster is None else request.cluster.server
        return ExecResponse(token=f"{server}-{request.interactive}", expires_at=time.time() + 100)

    outcome = ask_cluster(provide, interactive=True, cluster=ClusterInfo(server="https://c"))
    assert outcome.credential.token == "https://c-True"
    assert 0 < (outcome.lifetime_seconds or 0) <= 100
    older = ask_cluster(provide, api_version="v1beta1")
    assert older.document("ExecCredential")["apiVersion"] == f"{CLUSTER_GROUP}/v1beta1"
    assert older.credential.token == "-False"
    assert ask_cluster(lambda _: ExecResponse(token="t")).lifetime_seconds is None


def test_a_provide_error_is_an_outcome_and_a_bug_is_a_bug() -> None:
    """A test sees the first as a status and a message, and fails by the second."""

    def refuse(_: object) -> Response:
        raise ProvideError("no", "yes")

    def refuse_cluster(_: object) -> ExecResponse:
        raise ProvideError("no", "yes")

    def fail(_: object) -> Response:
        raise KeyError("x")

    for outcome in (ask(refuse, "r/a"), ask_cluster(refuse_cluster)):
        assert (outcome.status, outcome.stdout, outcome.stderr) == (1, b"", "no; yes\n")
    with pytest.raises(AssertionError, match="exited with status 1: no; yes"):
        _ = ask(refuse, "r/a").auth
    with pytest.raises(KeyError):
        ask(fail, "r/a")


HEAD = f'{{"kind":"CredentialProviderResponse","apiVersion":"{V1}"'
REFUSED = {
    "no-json": ("hello", "not exactly one JSON object"),
    "list": ("[]", "not exactly one JSON object"),
    "two": (HEAD + ',"cacheKeyType":"Image"}{}', "not exactly one JSON object"),
    "kind": ('{"kind":"ExecCredential"}', "of kind 'ExecCredential', expected 'CredentialProviderResponse'"),
    "unknown-field": (HEAD + ',"cacheKeyType":"Image","x":1}', "the kubelet would reject the response"),
    "repeated-field": (
        HEAD + ',"cacheKeyType":"Image","cacheKeyType":"Image"}',
        "kubelet would reject the response",
    ),
    "wrong-type": (HEAD + ',"cacheKeyType":"Image","auth":[]}', "the kubelet would reject the response"),
    "duration": (
        HEAD + ',"cacheKeyType":"Image","cacheDuration":5}',
        "the kubelet would reject the response",
    ),
    "key-type": (HEAD + ',"cacheKeyType":"image"}', "cacheKeyType is not Image, Registry or Global"),
    "no-key-type": (HEAD + "}", "cacheKeyType is not Image"),
}


@pytest.mark.parametrize("case", REFUSED.values(), ids=REFUSED)
def test_an_answer_that_the_kubelet_would_refuse_fails_a_test(case: tuple[str, str]) -> None:
    """Of a plugin in any language."""
    stdout, words = case
    with pytest.raises(AssertionError, match=words):
        _ = Outcome(status=0, stdout=stdout.encode()).response


REFUSED_CREDENTIALS = {
    "no-status": ("{}", "has no status"),
    "null-status": ('{"status":null}', "has no status"),
    "token-number": ('{"status":{"token":5}}', "a client would reject the response"),
    "time": ('{"status":{"token":"t","expirationTimestamp":"soon"}}', "a client would reject the response"),
}


@pytest.mark.parametrize("case", REFUSED_CREDENTIALS.values(), ids=REFUSED_CREDENTIALS)
def test_a_credential_that_a_client_would_refuse_fails_a_test(case: tuple[str, str]) -> None:
    """And one with fields of tomorrow does not."""
    text, words = case
    whole = text.replace("{", '{"kind":"ExecCredential","new":1' + ("," if text != "{}" else ""), 1)
    with pytest.raises(AssertionError, match=words):
        _ = Outcome(status=0, stdout=whole.encode()).credential
    fine = '{"kind":"ExecCredential","new":1,"status":{"token":"t"}}'
    assert Outcome(status=0, stdout=fine.encode()).credential.token == "t"


def test_programs_are_run_as_the_kubelet_and_a_client_run_them(tmp_path: Path) -> None:
    """With variables on top of our own."""
    image = write_plugin(
        tmp_path / "image", image_plugin("return Response.for_registry(request, 'u', os.environ['P'])")
    )
    cluster = write_plugin(
        tmp_path / "cluster",
        cluster_plugin("return ExecResponse(token=os.environ['P'] + request.cluster.server)"),
    )
    assert run([str(image)], "r/a", env={"P": "pw"}).auth == {"r": AuthConfig(username="u", password="pw")}
    outcome = run_cluster(
        [str(cluster)], env={"P": "pw"}, cluster=ClusterInfo(server="-c"), api_version="v1beta1"
    )
    assert outcome.credential.token == "pw-c"


def test_a_program_that_fails_is_an_outcome(tmp_path: Path) -> None:
    """Whatever it is written in."""
    path = write_executable(tmp_path / "plugin", "#!/bin/sh\necho no >&2; exit 3\n")
    outcome = run([str(path)], "r/a")
    assert (outcome.status, outcome.stderr) == (3, "no\n")
    assert run_cluster([sys.executable, "-c", "import sys; sys.exit('x')"]).status == 1
