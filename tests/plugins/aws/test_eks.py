"""keyferry-eks: both tools' words, tokens checked as a server checks them, and the credentials that it keeps."""

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

from keyferry._core.values import replace
from keyferry.sdk import Deadline, ProvideError
from keyferry.sdk.flags import parse_flags
from keyferry_plugins.aws import eks_options
from keyferry_plugins.aws.eks_options import FLAGS, Options, read_options
from keyferry_plugins.aws.eks_token import PREFIX, check_token, make_token
from keyferry_plugins.aws.environment import Environment
from keyferry_plugins.eks import CredentialCache, choose_version, region_of_server
from keyferry_plugins.signing.sigv4 import Credentials
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
from support.reference import Answer, launcher

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
    "args",
    [
        CLI,
        AUTHENTICATOR,
        AUTHENTICATOR[1:],
        (*AUTHENTICATOR, "-v", "4", "-l", "json"),
        ("get-token", "--cluster-id", "my-cluster"),
    ],
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


NOW = 1_704_164_645.0
KNOWN_KEYS = Credentials(
    access_key_id="AKIDEXAMPLE", secret_access_key="wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"
)


def options(*argv: str, **variables: str) -> Options:
    """What keyferry-eks makes of its words and variables."""
    return read_options(parse_flags(FLAGS, argv), variables)


def test_variables_of_the_authenticator_are_read_by_it_alone() -> None:
    """DEFAULT_ROLE does not change what the command line's words do."""
    variables = {"KUBERNETES_AWS_AUTHENTICATOR_CLUSTER_ID": "c", "DEFAULT_ROLE": "arn:x"}
    assert options("token", **variables) == Options(cluster="c", role_arn="arn:x")
    assert options("get-token", "--cluster-name", "d", **variables) == Options(
        cluster="d", tool=eks_options.CLI
    )
    assert options("token", "-i", "flag", **variables).cluster == "flag"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        (
            "c.yaml",
            "clusterID: 'c'  # mine\nrole: arn:x\nserver:\n  clusterID: other\ntokenOnly: true\nregion: &a b\n",
        ),
        ("c.json", '{"clusterID": "c", "role": "arn:x", "tokenOnly": true, "server": {"region": "z"}}'),
    ],
)
def test_a_config_file_gives_the_same_settings(tmp_path: Path, name: str, text: str) -> None:
    """YAML or JSON at the top level; flags win."""
    path = tmp_path / name
    path.write_text(text)
    assert options("-c", str(path)) == Options(cluster="c", role_arn="arn:x", is_token_only=True)
    assert options("-c", str(path), "--role", "arn:y", "--token-only=false") == Options(
        cluster="c", role_arn="arn:y"
    )


def test_a_config_file_that_is_none_is_refused(tmp_path: Path) -> None:
    """What begins as JSON has to be JSON."""
    path = tmp_path / "c.json"
    path.write_text("{marked-broken")
    with pytest.raises(ProvideError, match="is not a JSON object") as caught:
        options("-c", str(path))
    assert "marked-broken" not in str(caught.value)


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["token"], "no cluster is given"),
        (["--cluster-name", "a", "--cluster-id", "b"], "both given"),
        (["-i", "a", "-s", "b", "--forward-session-name"], "both given"),
        (["-i", "a b"], "characters that are not valid in a header"),
        (["-i", "a\nx: y"], "characters that are not valid in a header"),
        (["s3", "ls"], "found the words 's3 ls'"),
        (["-i", "a", "--config", "/nowhere/x"], "cannot be read"),
        (["-i", "a", "--output", "text"], "expected one of json"),
    ],
)
def test_wrong_options_are_refused(argv: list[str], words: str) -> None:
    """What cannot be meant is said."""
    with pytest.raises(ProvideError, match=words):
        options(*argv)


@pytest.mark.parametrize(
    ("server", "region"),
    [
        ("https://0123456789ABCDEF.gr7.us-west-2.eks.amazonaws.com", "us-west-2"),
        ("https://0123456789ABCDEF.yl4.cn-north-1.eks.amazonaws.com.cn:443/x", "cn-north-1"),
        ("https://api.example.test", ""),
        ("", ""),
    ],
)
def test_the_api_server_names_its_region(server: str, region: str) -> None:
    """The URL of a cluster of EKS has the region in it."""
    assert region_of_server(server) == region


SIGNATURE = "96ddda09e9523f6363892f52e5828dd6265b22ec87d8c91e28200a0ba6b77a30"


def token_of(url: str) -> str:
    """A token that says what *url* says."""
    return PREFIX + base64.urlsafe_b64encode(url.encode()).decode().rstrip("=")


def test_a_token_is_the_presigned_url() -> None:
    """Prefix, URL-safe base64 without padding, and the known signature inside."""
    token = make_token(
        KNOWN_KEYS, "my-cluster", host="sts.us-west-2.amazonaws.com", region="us-west-2", now=NOW
    )
    body = token.removeprefix("k8s-aws-v1.")
    url = base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)).decode()
    assert url.startswith("https://sts.us-west-2.amazonaws.com/?Action=GetCallerIdentity&Version=2011-06-15&")
    assert url.endswith(SIGNATURE)
    assert "=" not in token
    check_token(token)


GOOD = (
    "https://sts.us-west-2.amazonaws.com/?Action=GetCallerIdentity&Version=2011-06-15&X-Amz-Algorithm=A&X-Amz-Credential=B"
    "&X-Amz-Date=20240102T030405Z&X-Amz-Expires=60&X-Amz-SignedHeaders=host%3Bx-k8s-aws-id&X-Amz-Signature=C"
)


@pytest.mark.parametrize(
    ("url", "words"),
    [
        (GOOD.replace("https", "http"), "not https"),
        (GOOD.replace("/?", "/x?"), "not https"),
        (GOOD.replace("sts.us-west-2", "ecr.us-west-2"), "accepts only STS hosts"),
        (GOOD.replace("amazonaws.com", "amazonaws.com.evil.test"), "accepts only STS hosts"),
        (GOOD.replace("amazonaws.com", "amazonaws.com.cn"), "accepts only STS hosts"),
        (GOOD.replace("sts.us-west-2.amazonaws.com", "sts"), "accepts only STS hosts"),
        (GOOD.replace("sts.us-west-2.amazonaws.com", "sts.wrongformat"), "accepts only STS hosts"),
        (GOOD + "&x=y", "EKS does not accept it"),
        (GOOD + "&action=GetCallerIdentity", "twice"),
        (GOOD.replace("GetCallerIdentity", "AssumeRole"), "lacks"),
        (GOOD.replace("Expires=60", "Expires=901"), "lacks"),
        (GOOD.replace("Expires=60", "Expires=x"), "lacks"),
        (GOOD.replace("Expires=60", "Expires=%C2%B2"), "lacks"),
        (GOOD.replace("%3Bx-k8s-aws-id", ""), "lacks"),
        (GOOD.replace("X-Amz-Date=20240102T030405Z&", ""), "lacks"),
        (GOOD + "&X-Amz-Security-Token=" + "A" * 4000, "EKS accepts at most 4096"),
    ],
)
def test_a_token_that_eks_would_refuse_is_refused_here(url: str, words: str) -> None:
    """Each demand of the server is checked, and said."""
    check_token(token_of(GOOD))
    with pytest.raises(ProvideError, match=words):
        check_token(token_of(url))


@pytest.mark.parametrize("token", ["", "k8s-aws-v2.xx", f"{PREFIX}%%"])
def test_what_is_no_token_is_refused(token: str) -> None:
    """Prefix and encoding are checked first."""
    with pytest.raises(ProvideError, match="the token"):
        check_token(token)


@pytest.mark.parametrize(
    "host",
    [
        "sts.amazonaws.com",
        "sts-fips.us-west-2.amazonaws.com",
        "sts.us-west-2.api.aws",
        "sts.cn-north-1.amazonaws.com.cn",
    ],
)
def test_a_token_is_for_any_host_of_sts(host: str) -> None:
    """Every form of them; the table of what is refused has others."""
    check_token(token_of(GOOD.replace("sts.us-west-2.amazonaws.com", host)))


@pytest.mark.parametrize(
    ("exec_info", "cli", "authenticator"),
    [
        ("", "v1beta1", f"{GROUP}/v1beta1"),
        ("{not json", "v1beta1", f"{GROUP}/v1beta1"),
        (f'{{"apiVersion":"{GROUP}/v1"}}', "v1", f"{GROUP}/v1"),
        (f'{{"apiVersion":"{GROUP}/v1beta1"}}', "v1beta1", f"{GROUP}/v1beta1"),
        (f'{{"apiVersion":"{GROUP}/v1alpha1"}}', "v1alpha1", f"{GROUP}/v1alpha1"),
        (f'{{"apiVersion":"{GROUP}/v9"}}', "v1beta1", f"{GROUP}/v9"),
        ("{}", "v1beta1", ""),
    ],
)
def test_the_tools_choose_their_version(exec_info: str, cli: str, authenticator: str) -> None:
    """With --compat each tool's way with KUBERNETES_EXEC_INFO is followed."""
    assert choose_version(exec_info, eks_options.CLI)[0] == f"{GROUP}/{cli}"
    assert choose_version(exec_info, eks_options.AUTHENTICATOR) == (authenticator, "")
    is_silent = not exec_info or exec_info.endswith(('/v1"}', '/v1beta1"}'))
    assert bool(choose_version(exec_info, eks_options.CLI)[1]) is not is_silent


def cache_in(folder: Path, now: float = NOW, cluster: str = "c", **variables: str) -> CredentialCache:
    """A cache in a home of its own."""
    environment = Environment({"HOME": str(folder), **variables}, Deadline(5), now=lambda: now)
    return CredentialCache(environment, Options(cluster=cluster))


def cache_file(folder: Path) -> Path:
    """Where the cache is kept by default."""
    return folder / ".kube" / "cache" / "keyferry-eks" / "credentials.json"


KEPT = Credentials(
    access_key_id="AKIA",
    secret_access_key="secret",
    session_token="token",
    expires_at=NOW + 3600,
    source="a role",
)


def test_credentials_are_kept_until_their_end_is_near(tmp_path: Path) -> None:
    """What expires is kept for the user alone, and not given out shortly before its end."""
    cache_in(tmp_path).write(KEPT)
    assert cache_in(tmp_path).read() == KEPT
    assert cache_in(tmp_path, NOW + 3299).read() == KEPT
    assert cache_in(tmp_path, NOW + 3301).read() is None
    assert cache_file(tmp_path).stat().st_mode & 0o777 == 0o600
    assert cache_file(tmp_path).parent.stat().st_mode & 0o777 == 0o700


def test_credentials_that_do_not_expire_are_not_kept(tmp_path: Path) -> None:
    """Long-lived keys stay where they are."""
    cache_in(tmp_path).write(KNOWN_KEYS)
    assert not cache_file(tmp_path).exists()


def test_another_identity_never_gets_what_is_kept(tmp_path: Path) -> None:
    """Cluster, variables, profile and the files of AWS are all part of the key."""
    cache_in(tmp_path).write(KEPT)
    assert cache_in(tmp_path, cluster="d").read() is None
    assert cache_in(tmp_path, AWS_ACCESS_KEY_ID="AKIAOTHER").read() is None
    assert cache_in(tmp_path, AWS_ROLE_SESSION_NAME="other").read() is None
    (tmp_path / ".aws").mkdir()
    (tmp_path / ".aws" / "config").write_text("[default]\nrole_arn = arn:other\n")
    assert cache_in(tmp_path).read() is None


OPTIONS = Options(
    cluster="c", role_arn="arn:aws:iam::123456789012:role/one", external_id="x", session_name="s"
)
OTHERS = {
    "cluster": replace(OPTIONS, cluster="d"),
    "tool": replace(OPTIONS, tool="other"),
    "role": replace(OPTIONS, role_arn="arn:aws:iam::123456789012:role/two"),
    "no role": replace(OPTIONS, role_arn=""),
    "external id": replace(OPTIONS, external_id="y"),
    "session name": replace(OPTIONS, session_name="t"),
    "forwards": replace(OPTIONS, forwards_session_name=not OPTIONS.forwards_session_name),
}


@pytest.mark.parametrize("other", OTHERS.values(), ids=OTHERS)
def test_another_role_never_gets_what_is_kept(tmp_path: Path, other: Options) -> None:
    """Every option that decides whose credentials are got is part of the key."""
    environment = Environment({"HOME": str(tmp_path)}, Deadline(5), now=lambda: NOW)
    CredentialCache(environment, OPTIONS).write(KEPT)
    assert CredentialCache(environment, OPTIONS).read() == KEPT
    assert CredentialCache(environment, other).read() is None


def test_another_profile_or_region_never_gets_what_is_kept(tmp_path: Path) -> None:
    """As flags name them; variables are part of the key by themselves."""
    for profile, region in (("one", "eu-west-1"), ("two", "eu-west-1"), ("one", "eu-west-2")):
        told = {"HOME": str(tmp_path)}
        environment = Environment(told, Deadline(5), profile=profile, region=region, now=lambda: NOW)
        cache = CredentialCache(environment, OPTIONS)
        assert cache.read() is None
        cache.write(KEPT)
        assert cache.read() == KEPT


def test_another_home_never_gets_what_is_kept_in_a_shared_file(tmp_path: Path) -> None:
    """Two users may name one file; the home, with the files of AWS in it, tells them apart."""
    shared = str(tmp_path / "shared.json")
    # Outside both homes, so that nothing but the home differs.
    told = {
        "AWS_IAM_AUTHENTICATOR_CACHE_FILE": shared,
        "AWS_CONFIG_FILE": str(tmp_path / "config"),
        "AWS_SHARED_CREDENTIALS_FILE": str(tmp_path / "credentials"),
    }
    caches = [cache_in(tmp_path / home, NOW, "c", **told) for home in ("jo", "mo")]
    caches[0].write(KEPT)
    assert caches[0].read() == KEPT
    assert caches[1].read() is None


def test_a_file_that_others_can_read_is_not_believed(tmp_path: Path) -> None:
    """Nor is it written to."""
    cache_in(tmp_path).write(KEPT)
    cache_file(tmp_path).chmod(0o644)
    assert cache_in(tmp_path).read() is None
    before = cache_file(tmp_path).read_bytes()
    cache_in(tmp_path, cluster="d").write(KEPT)
    assert cache_file(tmp_path).read_bytes() == before


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    """A planted link does not lead to another file."""
    cache_in(tmp_path).write(KEPT)
    os.rename(cache_file(tmp_path), tmp_path / "elsewhere")
    cache_file(tmp_path).symlink_to(tmp_path / "elsewhere")
    assert cache_in(tmp_path).read() is None


@pytest.mark.parametrize(
    "content", ["clusters: {}\n", "", "[]", '{"kind":"keyferry-eks credentials","entries":5}']
)
def test_a_file_of_another_tool_is_left_alone(tmp_path: Path, content: str) -> None:
    """The authenticator's own cache is neither read nor overwritten."""
    path = tmp_path / "credentials.yaml"
    path.write_text(content)
    path.chmod(0o600)
    cache = cache_in(tmp_path, AWS_IAM_AUTHENTICATOR_CACHE_FILE=str(path))
    cache.write(KEPT)
    assert cache.read() is None
    assert path.read_text() == content


def test_a_damaged_entry_is_no_credential(tmp_path: Path) -> None:
    """Members that are missing or of another type are not used."""
    cache_in(tmp_path).write(KEPT)
    text = cache_file(tmp_path).read_text()
    for wrong in (
        text.replace('"secret"', "5"),
        text.replace('"source"', '"sauce"'),
        text.replace('"expires_at":', '"expires_at":"x","y":'),
        text.replace('"expires_at":', f'"expires_at":1{400 * "0"},"y":'),
        *(text.replace(str(int(KEPT.expires_at or 0)), f"{sign}1{400 * '0'}") for sign in ("", "-")),
    ):
        assert wrong != text
        cache_file(tmp_path).write_text(wrong)
        assert cache_in(tmp_path).read() is None


def test_what_has_expired_is_dropped(tmp_path: Path) -> None:
    """The file does not grow for ever."""
    cache_in(tmp_path, cluster="old").write(KEPT)
    later = Credentials(
        access_key_id="AKIA2",
        secret_access_key="secret2",
        session_token="token2",
        expires_at=NOW + 9000,
        source="a role",
    )
    cache_in(tmp_path, NOW + 4000).write(later)
    assert "AKIA2" in cache_file(tmp_path).read_text()
    assert '"AKIA"' not in cache_file(tmp_path).read_text()
