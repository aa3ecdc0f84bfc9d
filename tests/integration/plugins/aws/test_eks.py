"""keyferry-eks run as kubectl runs it: both tools' words, tokens checked as a server checks them."""

from __future__ import annotations

import base64
import json
import os
import pty
import subprocess
import time
from datetime import datetime
from pathlib import Path

import pytest

from keyferry.kit.conformance import examine
from keyferry.kit.plugin import PluginKind, PluginUnderTest
from support.aws_machine import AwsMachine
from support.aws_services import (
    KEY,
    KEYS,
    REGION,
    ROLE,
    SECRET,
    SESSION_TOKEN,
    FakeAws,
    FakeInstance,
    sts_error,
)
from support.aws_signatures import check_presigned
from support.fake_cloud import Reply, serving
from support.reference import Answer, launcher, write_launcher

GROUP = "client.authentication.k8s.io"
CLI = ("--region", REGION, "eks", "get-token", "--cluster-name", "my-cluster", "--output", "json")
AUTHENTICATOR = ("token", "-i", "my-cluster")
ALL_SECRETS = (SECRET, SESSION_TOKEN, "marked-")


@pytest.fixture
def desk(machine: AwsMachine) -> AwsMachine:
    """Somebody's machine, with keys and a region."""
    machine.env |= {"AWS_REGION": REGION, **KEYS}
    return machine


def url_of(token: str) -> str:
    """What is inside a token."""
    body = token.removeprefix("k8s-aws-v1.")
    assert body != token
    return base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)).decode()


def checked(answer: Answer, secrets: dict[str, str], cluster: str = "my-cluster") -> dict[str, str]:
    """The query of an answer's token, its signature checked as STS checks it."""
    return check_presigned(url_of(answer.login_status["token"]), {"x-k8s-aws-id": cluster}, secrets)


def expires_in(answer: Answer) -> float:
    """Seconds until the answer's end."""
    return datetime.fromisoformat(answer.login_status["expirationTimestamp"]).timestamp() - time.time()


@pytest.mark.parametrize(
    "args", [CLI, AUTHENTICATOR, AUTHENTICATOR[1:], ("get-token", "--cluster-id", "my-cluster")]
)
def test_a_token_is_made_without_any_call(desk: AwsMachine, aws: FakeAws, args: tuple[str, ...]) -> None:
    """With keys and a region at hand both tools' words give the same token, for a little less than 15 minutes."""
    answer = desk.ask_eks(*args)
    assert answer.stderr == ""
    query = checked(answer, {KEY: SECRET})
    assert query["Action"] == "GetCallerIdentity"
    assert query["X-Amz-Expires"] == "60"
    assert query["X-Amz-SignedHeaders"] == "host;x-k8s-aws-id"
    assert url_of(answer.login_status["token"]).startswith(f"https://sts.{REGION}.amazonaws.com/?")
    assert answer.login_status["expirationTimestamp"].endswith("Z")
    assert 800 < expires_in(answer) <= 840
    assert aws.calls == []


@pytest.mark.parametrize("version", ["v1", "v1beta1"])
def test_the_version_asked_for_is_answered(desk: AwsMachine, version: str) -> None:
    """KUBERNETES_EXEC_INFO says which; without it v1beta1 is meant."""
    assert desk.ask_eks(*CLI, exec_info=version).document["apiVersion"] == f"{GROUP}/{version}"
    assert desk.ask_eks(*CLI, exec_info=None).document["apiVersion"] == f"{GROUP}/v1beta1"


@pytest.mark.parametrize("exec_info", ["{marked-info", '{"apiVersion":"client.authentication.k8s.io/v9"}'])
def test_what_cannot_be_answered_is_an_error_unless_compat(desk: AwsMachine, exec_info: str) -> None:
    """The tools answer in a version that the client may not take."""
    answer = desk.ask_eks(*CLI, exec_info=exec_info)
    assert answer.status == 1
    assert "marked-info" not in answer.stderr
    compat = desk.ask_eks(*CLI, "--compat", exec_info=exec_info)
    assert compat.document["apiVersion"] == f"{GROUP}/v1beta1"
    assert "answering in" in compat.stderr
    assert compat.document["spec"] == {}


def test_compat_has_the_authenticators_ways(desk: AwsMachine) -> None:
    """An exec info without a version gives an empty one."""
    assert desk.ask_eks(*AUTHENTICATOR, "--compat", exec_info="{}").document["apiVersion"] == ""
    assert desk.ask_eks(*AUTHENTICATOR, exec_info="{}").document["apiVersion"] == f"{GROUP}/v1beta1"


@pytest.mark.parametrize("more", [(), ("--compat",)])
def test_the_bare_token_can_be_printed(desk: AwsMachine, more: tuple[str, ...]) -> None:
    """--token-only prints it, and nothing else."""
    answer = desk.ask_eks(*AUTHENTICATOR, "--token-only", *more)
    assert answer.status == 0
    check_presigned(url_of(answer.stdout.removesuffix("\n")), {"x-k8s-aws-id": "my-cluster"}, {KEY: SECRET})


def test_a_session_token_is_in_the_url(desk: AwsMachine) -> None:
    """Temporary keys sign with their token in the query."""
    query = checked(desk.ask_eks(*CLI, AWS_SESSION_TOKEN=SESSION_TOKEN), {KEY: SECRET})
    assert query["X-Amz-Security-Token"] == SESSION_TOKEN


def test_the_cli_assumes_a_role_by_its_session_name(desk: AwsMachine, aws: FakeAws) -> None:
    """The token is signed with the role's keys, and ends no later than they do."""
    answer = desk.ask_eks(*CLI, "--role-arn", ROLE)
    assert aws.forms == [{"RoleArn": ROLE, "RoleSessionName": "EKSGetTokenAuth"}]
    assert checked(answer, aws.secrets)["X-Amz-Credential"].startswith("ASIAROLE")
    aws.script["AssumeRole"] = [Reply(body=f"<R>{aws.grant(ROLE, 300)}</R>".encode())]
    assert 200 < expires_in(desk.ask_eks(*CLI, "--role", ROLE)) <= 300
    aws.script["AssumeRole"] = [Reply(body=f"<R>{aws.grant(ROLE, 300)}</R>".encode())]
    assert 800 < expires_in(desk.ask_eks(*CLI, "--role", ROLE, "--compat")) <= 840


def test_the_authenticator_assumes_a_role_as_told(desk: AwsMachine, aws: FakeAws) -> None:
    """External id and session name, from flags; the role also from DEFAULT_ROLE."""
    desk.ask_eks(*AUTHENTICATOR, "-r", ROLE, "-e", "ext", "-s", "me")
    assert aws.forms[-1] == {"RoleArn": ROLE, "RoleSessionName": "me", "ExternalId": "ext"}
    desk.ask_eks(*AUTHENTICATOR, DEFAULT_ROLE=ROLE)
    assert aws.forms[-1]["RoleSessionName"].startswith("keyferry-eks-")
    desk.ask_eks(*AUTHENTICATOR, "--compat", DEFAULT_ROLE=ROLE)
    assert aws.forms[-1]["RoleSessionName"].startswith("aws-go-sdk-")


def test_a_session_name_is_forwarded(desk: AwsMachine, aws: FakeAws) -> None:
    """The name of the present role's session becomes that of the next; a user has none to forward."""
    desk.ask_eks(*AUTHENTICATOR, "-r", ROLE, "--forward-session-name")
    assert [action for action, _ in aws.calls] == ["GetCallerIdentity", "AssumeRole"]
    assert aws.forms[-1]["RoleSessionName"] == "jane"
    aws.user_id = "AIDAEXAMPLE"
    desk.ask_eks(*AUTHENTICATOR, "-r", ROLE, "--forward-session-name")
    assert aws.forms[-1]["RoleSessionName"].startswith("keyferry-eks-")


@pytest.mark.parametrize(
    ("told", "host"),
    [
        ({"AWS_REGION": "cn-north-1"}, "sts.cn-north-1.amazonaws.com.cn"),
        ({"AWS_USE_FIPS_ENDPOINT": "true"}, f"sts-fips.{REGION}.amazonaws.com"),
        ({"AWS_USE_DUALSTACK_ENDPOINT": "true"}, f"sts.{REGION}.api.aws"),
        ({"AWS_ENDPOINT_URL_STS": "https://sts.eu-west-1.amazonaws.com"}, "sts.eu-west-1.amazonaws.com"),
        ({"AWS_STS_REGIONAL_ENDPOINTS": "legacy"}, "sts.amazonaws.com"),
        (
            {"AWS_STS_REGIONAL_ENDPOINTS": "legacy", "AWS_REGION": "eu-south-1"},
            "sts.eu-south-1.amazonaws.com",
        ),
    ],
)
def test_the_token_is_for_the_right_host(desk: AwsMachine, told: dict[str, str], host: str) -> None:
    """An endpoint of STS, whatever is configured for calls."""
    answer = desk.ask_eks("get-token", "--cluster-name", "my-cluster", **told)
    query = checked(answer, {KEY: SECRET})
    assert url_of(answer.login_status["token"]).startswith(f"https://{host}/?")
    if host == "sts.amazonaws.com":
        assert "/us-east-1/sts/" in query["X-Amz-Credential"]


def test_compat_puts_a_configured_endpoint_into_the_token(desk: AwsMachine) -> None:
    """As the tools do, though EKS refuses it."""
    token = desk.ask_eks(*AUTHENTICATOR, "--compat").login_status["token"]
    assert url_of(token).startswith(desk.env["AWS_ENDPOINT_URL_STS"])


def test_the_region_is_found(desk: AwsMachine, aws: FakeAws) -> None:
    """From the cluster's own URL, else from the instance, else us-east-1; the CLI's words fail without."""
    cluster = {"server": "https://ABC.gr7.eu-west-3.eks.amazonaws.com", "config": None}
    spec = {"cluster": cluster, "interactive": False}
    info = {"apiVersion": f"{GROUP}/v1", "kind": "ExecCredential", "spec": spec}
    gone = "AWS_REGION"
    token = desk.ask_eks(
        "get-token", "--cluster-name", "c", exec_info=json.dumps(info), drop=gone
    ).login_status["token"]
    assert "//sts.eu-west-3." in url_of(token)
    answer = desk.ask_eks("get-token", "--cluster-name", "c", drop=gone)
    assert answer.status == 1
    assert "no region is set" in answer.stderr
    assert "//sts.us-east-1." in url_of(desk.ask_eks("token", "-i", "c", drop=gone).login_status["token"])
    with serving(FakeInstance(region="ap-south-1")) as metadata:
        told = {"AWS_EC2_METADATA_DISABLED": "", "AWS_EC2_METADATA_SERVICE_ENDPOINT": metadata.url}
        assert "//sts.ap-south-1." in url_of(
            desk.ask_eks("token", "-i", "c", drop=gone, **told).login_status["token"]
        )
    assert aws.calls == []


def test_compat_reads_the_regions_variable_of_botocore_alone(desk: AwsMachine) -> None:
    """AWS_REGION means nothing to it."""
    args = ("get-token", "--cluster-name", "c", "--compat")
    assert desk.ask_eks(*args).status == 1
    url = url_of(
        desk.ask_eks(*args, drop="AWS_ENDPOINT_URL_STS", AWS_DEFAULT_REGION="eu-west-1").login_status["token"]
    )
    assert url.startswith("https://sts.eu-west-1.")


def test_a_profile_of_a_flag_wins_over_keys(desk: AwsMachine) -> None:
    """As with the AWS CLI."""
    desk.write("[profile x]\naws_access_key_id = AKIAPROFILE\naws_secret_access_key = s\n")
    query = checked(desk.ask_eks(*CLI, "--profile", "x"), {"AKIAPROFILE": "s"})
    assert query["X-Amz-Credential"].startswith("AKIAPROFILE/")


def test_credentials_are_cached_if_asked(desk: AwsMachine, aws: FakeAws) -> None:
    """One assumption serves many tokens; another role, or other keys, are another entry."""
    for _ in range(3):
        checked(desk.ask_eks(*AUTHENTICATOR, "-r", ROLE, "--cache"), aws.secrets)
    assert len(aws.calls) == 1
    desk.ask_eks(*AUTHENTICATOR, "-r", ROLE, "-s", "other", "--cache")
    desk.ask_eks(*AUTHENTICATOR, "-r", ROLE, "--cache", AWS_PROFILE="default")
    assert len(aws.calls) == 3
    desk.ask_eks(*AUTHENTICATOR, "-r", ROLE)
    assert len(aws.calls) == 4
    path = desk.home / ".kube" / "cache" / "keyferry-eks" / "credentials.json"
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_cache_that_cannot_be_used_only_costs_time(desk: AwsMachine, aws: FakeAws) -> None:
    """A path that cannot be written is no error."""
    for _ in range(2):
        assert (
            desk.ask_eks(
                *AUTHENTICATOR, "-r", ROLE, "--cache", AWS_IAM_AUTHENTICATOR_CACHE_FILE="/proc/x/y"
            ).status
            == 0
        )
    assert len(aws.calls) == 2


@pytest.mark.parametrize(
    ("reply", "words"),
    [
        (
            sts_error("AccessDenied", f"User is not authorized {SECRET}", 403),
            f"grant sts:AssumeRole on {ROLE}",
        ),
        (sts_error("ExpiredToken", f"it was {SECRET}"), "have expired"),
        (Reply(200, body=b"marked-garbage"), "the response has no credentials"),
        (Reply(403, body=b'<!DOCTYPE a [<!ENTITY b "marked-c">]><Error>&b;</Error>'), "declaration"),
    ],
)
def test_a_role_that_cannot_be_had_says_why(desk: AwsMachine, aws: FakeAws, reply: Reply, words: str) -> None:
    """Nothing on standard output, no secret on standard error."""
    aws.script["AssumeRole"] = [reply]
    answer = desk.ask_eks(*CLI, "--role", ROLE)
    assert answer.status == 1
    assert answer.stdout == ""
    assert words in answer.stderr
    assert not any(secret in answer.stderr for secret in ALL_SECRETS)


def test_a_token_that_is_too_long_is_refused(desk: AwsMachine) -> None:
    """EKS takes 4096 bytes, and would not say why it refuses more."""
    answer = desk.ask_eks(*CLI, AWS_SESSION_TOKEN="x" * 4000)
    assert answer.status == 1
    assert "EKS accepts at most 4096" in answer.stderr
    assert "x" * 100 not in answer.stderr


def test_mfa_without_anybody_to_ask_is_an_error(desk: AwsMachine, aws: FakeAws) -> None:
    """Nobody waits for a code that cannot be typed."""
    desk.write(f"[profile a]\nrole_arn = {ROLE}\nsource_profile = b\nmfa_serial = arn:mfa\n[profile b]\n"
               f"aws_access_key_id = {KEY}\naws_secret_access_key = {SECRET}\n")  # fmt: skip
    answer = desk.ask_eks(*CLI, "--profile", "a")
    assert answer.status == 1
    assert "the user cannot be asked" in answer.stderr
    assert aws.calls == []


def test_an_mfa_code_is_typed_at_the_terminal(desk: AwsMachine, aws: FakeAws) -> None:
    """The question goes to the terminal, the code to STS, the answer to standard output alone."""
    desk.write(f"[profile a]\nrole_arn = {ROLE}\nsource_profile = b\nmfa_serial = arn:mfa\n[profile b]\n"
               f"aws_access_key_id = {KEY}\naws_secret_access_key = {SECRET}\n")  # fmt: skip
    info = {"apiVersion": f"{GROUP}/v1", "kind": "ExecCredential", "spec": {"interactive": True}}
    env = {**desk.env, "PATH": os.environ["PATH"], "KUBERNETES_EXEC_INFO": json.dumps(info)}
    near, far = pty.openpty()
    argv = [*launcher("eks"), *CLI, "--profile", "a"]
    with subprocess.Popen(argv, stdin=far, stdout=subprocess.PIPE, stderr=far, env=env) as process:
        os.close(far)
        shown = b""
        while b"arn:mfa: " not in shown:
            shown += os.read(near, 4096)
        os.write(near, b"123456\n")
        assert process.stdout is not None
        stdout = process.stdout.read().decode()
    os.close(near)
    assert process.returncode == 0
    assert aws.forms[-1]["TokenCode"] == "123456"
    assert aws.forms[-1]["SerialNumber"] == "arn:mfa"
    checked(Answer(0, stdout, ""), aws.secrets)


def test_wrong_usage_says_what_is_right(desk: AwsMachine) -> None:
    """No cluster, or words of another command."""
    for args, words in ((("token",), "no cluster is given"), (("s3", "ls"), "expected 'eks get-token'")):
        answer = desk.ask_eks(*args)
        assert answer.status == 1
        assert words in answer.stderr


@pytest.mark.parametrize("words", [("get-token", "--cluster-name", "c"), ("token", "-i", "c")])
def test_eks_passes_the_kit(tmp_path: Path, words: tuple[str, ...]) -> None:
    """As the command line, and as the authenticator."""
    env = {"AWS_REGION": REGION, "AWS_EC2_METADATA_DISABLED": "true", **KEYS}
    program = write_launcher(tmp_path, "eks")
    report = examine(
        PluginUnderTest(path=str(program), kind=PluginKind.CLUSTER, args=words, env=tuple(env.items()))
    )
    assert report.failed_codes == ()
