"""keyferry-eks: both tools' words, tokens checked as a server checks them, and the credentials that it keeps."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from keyferry.sdk import ProvideError
from keyferry_plugins.aws.eks_token import check_token
from support.aws_machine import BOTOCORE, GO, AwsMachine, assert_failed, url_of
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
from support.reference import launcher

GROUP = "client.authentication.k8s.io"
CLI = ("--region", REGION, "eks", *BOTOCORE, "--output", "json")
AUTHENTICATOR = GO


@pytest.fixture
def desk(machine: AwsMachine) -> AwsMachine:
    """Somebody's machine, with keys and a region."""
    machine.env |= {"AWS_REGION": REGION, **KEYS}
    return machine


def granting(aws: FakeAws, seconds: float) -> Reply:
    """An answer of STS with credentials of the role for so many seconds."""
    return Reply(body=f"<R>{aws.grant(ROLE, seconds)}</R>".encode())


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
    assert "=" not in answer.login_status["token"]
    assert answer.login_status["expirationTimestamp"].endswith("Z")
    token = desk.token(*args)
    assert token.query["Action"] == "GetCallerIdentity"
    assert token.query["X-Amz-Expires"] == "60"
    assert token.query["X-Amz-SignedHeaders"] == "host;x-k8s-aws-id"
    assert token.url.startswith(f"https://sts.{REGION}.amazonaws.com/?")
    assert 700 < token.expires_in <= 840
    assert aws.calls == []


@pytest.mark.parametrize("version", ["v1", "v1beta1"])
def test_the_version_asked_for_is_answered(desk: AwsMachine, version: str) -> None:
    """KUBERNETES_EXEC_INFO says which; without it v1beta1 is meant."""
    assert desk.ask_eks(*CLI, exec_info=version).document["apiVersion"] == f"{GROUP}/{version}"
    assert desk.ask_eks(*CLI, exec_info=None).document["apiVersion"] == f"{GROUP}/v1beta1"


@pytest.mark.parametrize("exec_info", ["{marked-info", f'{{"apiVersion":"{GROUP}/v9"}}'])
def test_what_cannot_be_answered_is_an_error(desk: AwsMachine, exec_info: str) -> None:
    assert_failed(desk.ask_eks(*CLI, exec_info=exec_info))


@pytest.mark.parametrize(
    ("exec_info", "cli", "authenticator", "warns"),
    [
        ("", f"{GROUP}/v1beta1", f"{GROUP}/v1beta1", False),
        ("{not json", f"{GROUP}/v1beta1", f"{GROUP}/v1beta1", True),
        (f'{{"apiVersion":"{GROUP}/v1"}}', f"{GROUP}/v1", f"{GROUP}/v1", False),
        (f'{{"apiVersion":"{GROUP}/v1beta1"}}', f"{GROUP}/v1beta1", f"{GROUP}/v1beta1", False),
        (f'{{"apiVersion":"{GROUP}/v1alpha1"}}', f"{GROUP}/v1alpha1", f"{GROUP}/v1alpha1", True),
        (f'{{"apiVersion":"{GROUP}/v9"}}', f"{GROUP}/v1beta1", f"{GROUP}/v9", True),
        ("{}", f"{GROUP}/v1beta1", "", True),
    ],
)
def test_compat_answers_in_the_version_that_the_tool_would_choose(
    desk: AwsMachine, exec_info: str, cli: str, authenticator: str, *, warns: bool
) -> None:
    """Which the client may not take; the CLI warns."""
    by_cli = desk.ask_eks(*CLI, "--compat", exec_info=exec_info)
    assert (by_cli.document["apiVersion"], by_cli.document["spec"]) == (cli, {})
    assert bool(by_cli.stderr) is warns
    by_authenticator = desk.ask_eks(*AUTHENTICATOR, "--compat", exec_info=exec_info)
    assert (by_authenticator.document["apiVersion"], by_authenticator.stderr) == (authenticator, "")


@pytest.mark.parametrize("more", [(), ("--compat",)])
def test_the_bare_token_can_be_printed(desk: AwsMachine, more: tuple[str, ...]) -> None:
    """--token-only prints it, and nothing else."""
    answer = desk.ask_eks(*AUTHENTICATOR, "--token-only", *more)
    assert answer.status == 0
    check_presigned(url_of(answer.stdout.removesuffix("\n")), {"x-k8s-aws-id": "my-cluster"}, {KEY: SECRET})


def test_a_session_token_is_in_the_url(desk: AwsMachine) -> None:
    """Temporary keys sign with their token in the query."""
    assert desk.token(*CLI, AWS_SESSION_TOKEN=SESSION_TOKEN).session_token == SESSION_TOKEN


def test_the_cli_assumes_a_role_by_its_session_name(desk: AwsMachine, aws: FakeAws) -> None:
    """The token is signed with the role's keys, and ends no later than they do."""
    assert desk.token(*CLI, "--role-arn", ROLE).key.startswith("ASIAROLE")
    assert aws.forms == [{"RoleArn": ROLE, "RoleSessionName": "EKSGetTokenAuth"}]
    aws.script["AssumeRole"] = [granting(aws, 300)]
    assert 200 < desk.token(*CLI, "--role", ROLE).expires_in <= 300
    aws.script["AssumeRole"] = [granting(aws, 300)]
    assert 700 < desk.token(*CLI, "--role", ROLE, "--compat").expires_in <= 840


def test_the_authenticator_assumes_a_role_as_told(desk: AwsMachine, aws: FakeAws) -> None:
    """External id and session name, from flags; the role also from DEFAULT_ROLE."""
    desk.ask_eks(*AUTHENTICATOR, "-r", ROLE, "-e", "ext", "-s", "me")
    assert aws.forms[-1] == {"RoleArn": ROLE, "RoleSessionName": "me", "ExternalId": "ext"}
    desk.ask_eks(*AUTHENTICATOR, DEFAULT_ROLE=ROLE)
    assert aws.forms[-1]["RoleSessionName"].startswith("keyferry-eks-")
    desk.ask_eks(*AUTHENTICATOR, "--compat", DEFAULT_ROLE=ROLE)
    assert aws.forms[-1]["RoleSessionName"].startswith("aws-go-sdk-")


def test_variables_of_the_authenticator_are_read_by_it_alone(desk: AwsMachine) -> None:
    """DEFAULT_ROLE does not change what the command line's words do."""
    variables = {"KUBERNETES_AWS_AUTHENTICATOR_CLUSTER_ID": "c", "DEFAULT_ROLE": ROLE}
    assert desk.token("token", cluster="c", **variables).key.startswith("ASIAROLE")
    assert desk.token("token", "-i", "flag", cluster="flag", **variables).key.startswith("ASIAROLE")
    assert desk.token("get-token", "--cluster-name", "d", cluster="d", **variables).key == KEY


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
        ({"AWS_USE_FIPS_ENDPOINT": "True"}, f"sts-fips.{REGION}.amazonaws.com"),
        ({"AWS_USE_DUALSTACK_ENDPOINT": "true"}, f"sts.{REGION}.api.aws"),
        ({"AWS_USE_FIPS_ENDPOINT": "false", "AWS_USE_DUALSTACK_ENDPOINT": "1"}, f"sts.{REGION}.amazonaws.com"),
        ({"AWS_ENDPOINT_URL_STS": "https://sts.eu-west-1.amazonaws.com"}, "sts.eu-west-1.amazonaws.com"),
        ({"AWS_STS_REGIONAL_ENDPOINTS": "legacy"}, "sts.amazonaws.com"),
        (
            {"AWS_STS_REGIONAL_ENDPOINTS": "legacy", "AWS_REGION": "eu-south-1"},
            "sts.eu-south-1.amazonaws.com",
        ),
    ],
)  # fmt: skip
def test_the_token_is_for_the_right_host(desk: AwsMachine, told: dict[str, str], host: str) -> None:
    """An endpoint of STS, whatever is configured for calls."""
    token = desk.token(*BOTOCORE, **told)
    assert token.host == host
    if host == "sts.amazonaws.com":
        assert token.region == "us-east-1"


def test_compat_puts_a_configured_endpoint_into_the_token(desk: AwsMachine) -> None:
    """As the tools do, though EKS refuses it."""
    token = desk.token(*AUTHENTICATOR, "--compat")
    assert token.url.startswith(desk.env["AWS_ENDPOINT_URL_STS"])


@pytest.mark.parametrize(
    ("url", "region"),
    [
        ("https://0123456789ABCDEF.gr7.eu-west-3.eks.amazonaws.com", "eu-west-3"),
        ("https://0123456789ABCDEF.yl4.cn-north-1.eks.amazonaws.com.cn:443/x", "cn-north-1"),
        ("https://api.example.test", "us-east-1"),
        ("", "us-east-1"),
    ],
)
def test_the_region_is_that_of_the_clusters_url(desk: AwsMachine, url: str, region: str) -> None:
    """Where nothing else says which; and us-east-1 for clusters that are none of EKS."""
    spec = {"cluster": {"server": url, "config": None}, "interactive": False}
    info = json.dumps({"apiVersion": f"{GROUP}/v1", "kind": "ExecCredential", "spec": spec})
    status = desk.ask_eks(*AUTHENTICATOR, exec_info=info, drop="AWS_REGION").login_status
    assert f"//sts.{region}." in url_of(status["token"])


def test_the_region_is_that_of_the_instance(desk: AwsMachine, aws: FakeAws) -> None:
    """If there is one, and the words are the authenticator's; the CLI's words fail without a region."""
    gone = "AWS_REGION"
    assert "no region is set" in assert_failed(desk.ask_eks(*BOTOCORE, drop=gone))
    endpoint = "AWS_EC2_METADATA_SERVICE_ENDPOINT"
    with serving(FakeInstance(region="ap-south-1")) as metadata:
        disabled = {endpoint: metadata.url}
        assert desk.token(*AUTHENTICATOR, drop=gone, **disabled).region == "us-east-1"
        told = {**disabled, "AWS_EC2_METADATA_DISABLED": ""}
        assert desk.token(*AUTHENTICATOR, drop=gone, **told).region == "ap-south-1"
    nowhere = {"AWS_EC2_METADATA_DISABLED": "", endpoint: "http://127.0.0.1:1"}
    assert desk.token(*AUTHENTICATOR, drop=gone, **nowhere).region == "us-east-1"
    assert aws.calls == []


def test_compat_reads_the_regions_variable_of_botocore_alone(desk: AwsMachine) -> None:
    """AWS_REGION means nothing to it."""
    args = (*BOTOCORE, "--compat")
    assert desk.ask_eks(*args).status == 1
    assert desk.token(*args, AWS_DEFAULT_REGION="eu-west-1").region == "eu-west-1"


@pytest.mark.parametrize(
    ("reply", "words"),
    [
        (
            sts_error("AccessDenied", f"User is not authorized {SECRET}", 403),
            f"grant sts:AssumeRole on {ROLE}",
        ),
        (sts_error("ExpiredToken", f"it was {SECRET}"), "have expired"),
    ],
)
def test_a_role_that_cannot_be_had_says_why(desk: AwsMachine, aws: FakeAws, reply: Reply, words: str) -> None:
    """Nothing on standard output, no secret on standard error."""
    aws.script["AssumeRole"] = [reply]
    assert words in assert_failed(desk.ask_eks(*CLI, "--role", ROLE))


def test_a_token_that_is_too_long_is_refused(desk: AwsMachine) -> None:
    """EKS takes 4096 bytes, and would not say why it refuses more."""
    said = assert_failed(desk.ask_eks(*CLI, AWS_SESSION_TOKEN="x" * 4000))
    assert "EKS accepts at most 4096" in said
    assert "x" * 100 not in said


@pytest.fixture
def mfa_desk(desk: AwsMachine) -> AwsMachine:
    """A machine with a profile whose role wants a code."""
    desk.write(f"[profile a]\nrole_arn = {ROLE}\nsource_profile = b\nmfa_serial = arn:mfa\n[profile b]\n"
               f"aws_access_key_id = {KEY}\naws_secret_access_key = {SECRET}\n")  # fmt: skip
    return desk


def test_mfa_without_anybody_to_ask_is_an_error(mfa_desk: AwsMachine, aws: FakeAws) -> None:
    """Nobody waits for a code that cannot be typed."""
    assert "the user cannot be asked" in assert_failed(mfa_desk.ask_eks(*CLI, "--profile", "a"))
    assert aws.calls == []


def test_an_mfa_code_is_typed_at_the_terminal(mfa_desk: AwsMachine, aws: FakeAws) -> None:
    """The question goes to the terminal, the code to STS, the answer to standard output alone."""
    info = {"apiVersion": f"{GROUP}/v1", "kind": "ExecCredential", "spec": {"interactive": True}}
    env = {**mfa_desk.env, "PATH": os.environ["PATH"], "KUBERNETES_EXEC_INFO": json.dumps(info)}
    near, far = pty.openpty()
    argv = [*launcher("eks"), *CLI, "--profile", "a"]
    with subprocess.Popen(argv, stdin=far, stdout=subprocess.PIPE, stderr=far, env=env) as process:
        os.close(far)
        shown = b""
        while b"arn:mfa: " not in shown:
            shown += os.read(near, 4096)
        os.write(near, b"123456\n")
        assert process.stdout is not None
        document = json.load(process.stdout)
    os.close(near)
    assert process.returncode == 0
    assert aws.forms[-1]["TokenCode"] == "123456"
    assert aws.forms[-1]["SerialNumber"] == "arn:mfa"
    check_presigned(url_of(document["status"]["token"]), {"x-k8s-aws-id": "my-cluster"}, aws.secrets)


@pytest.mark.parametrize(
    "text",
    [
        f"clusterID: 'c'  # mine\nrole: {ROLE}\nserver:\n  clusterID: other\ntokenOnly: true\nregion: &a b\n",
        f'{{"clusterID": "c", "role": "{ROLE}", "tokenOnly": true, "server": {{"region": "z"}}}}',
    ],
    ids=["YAML", "JSON"],
)
def test_a_config_file_gives_the_same_settings(desk: AwsMachine, aws: FakeAws, text: str) -> None:
    """YAML or JSON at the top level; flags win."""
    path = desk.home / "config"
    path.write_text(text)
    bare = desk.ask_eks("-c", str(path)).stdout.rstrip()
    url = url_of(bare)
    check_presigned(url, {"x-k8s-aws-id": "c"}, aws.secrets)
    assert f"//sts.{REGION}." in url
    assert aws.forms[-1]["RoleArn"] == ROLE
    desk.token("-c", str(path), "--role", f"{ROLE}-2", "--token-only=false", cluster="c")
    assert aws.forms[-1]["RoleArn"] == f"{ROLE}-2"


def test_a_config_file_that_is_none_is_refused(desk: AwsMachine) -> None:
    """What begins as JSON has to be JSON."""
    path = desk.home / "c.json"
    path.write_text("{marked-broken")
    assert "is not a JSON object" in assert_failed(desk.ask_eks("-c", str(path)))


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
def test_wrong_options_are_refused(desk: AwsMachine, argv: list[str], words: str) -> None:
    """What cannot be meant is said."""
    answer = desk.ask_eks(*argv)
    assert answer.status != 0
    assert answer.stdout == ""
    assert words in answer.stderr


GOOD = (
    "https://sts.us-west-2.amazonaws.com/?Action=GetCallerIdentity&Version=2011-06-15&X-Amz-Algorithm=A&X-Amz-Credential=B"
    "&X-Amz-Date=20240102T030405Z&X-Amz-Expires=60&X-Amz-SignedHeaders=host%3Bx-k8s-aws-id&X-Amz-Signature=C"
)
HOST = "sts.us-west-2.amazonaws.com"


def token_of(url: str) -> str:
    """A token that says what *url* says."""
    import base64

    return "k8s-aws-v1." + base64.urlsafe_b64encode(url.encode()).decode().rstrip("=")


@pytest.mark.parametrize(
    ("url", "words"),
    [
        (GOOD.replace("https", "http"), "not https"),
        (GOOD.replace("/?", "/x?"), "not https"),
        (GOOD.replace("sts.us-west-2", "ecr.us-west-2"), "accepts only STS hosts"),
        (GOOD.replace("amazonaws.com", "amazonaws.com.evil.test"), "accepts only STS hosts"),
        (GOOD.replace("amazonaws.com", "amazonaws.com.cn"), "accepts only STS hosts"),
        (GOOD.replace(HOST, "sts"), "accepts only STS hosts"),
        (GOOD.replace(HOST, "sts.wrongformat"), "accepts only STS hosts"),
        (GOOD + "&x=y", "EKS does not accept it"),
        (GOOD + "&action=GetCallerIdentity", "twice"),
        (GOOD.replace("GetCallerIdentity", "AssumeRole"), "lacks"),
        (GOOD.replace("Expires=60", "Expires=901"), "lacks"),
        (GOOD.replace("Expires=60", "Expires=x"), "lacks"),
        (GOOD.replace("Expires=60", "Expires=%C2%B2"), "lacks"),
        (GOOD.replace("%3Bx-k8s-aws-id", ""), "lacks"),
        (GOOD.replace("X-Amz-Date=20240102T030405Z&", ""), "lacks"),
    ],
)
def test_a_token_that_eks_would_refuse_is_refused_here(url: str, words: str) -> None:
    """Each demand of the server is checked, and said; this holds whatever makes the token."""
    check_token(token_of(GOOD))
    with pytest.raises(ProvideError, match=words):
        check_token(token_of(url))


CACHED = (*AUTHENTICATOR, "-r", ROLE, "--cache")


def cache_file(desk: AwsMachine) -> Path:
    """Where credentials are kept by default."""
    return desk.home / ".kube" / "cache" / "keyferry-eks" / "credentials.json"


def test_credentials_are_kept_if_asked(desk: AwsMachine, aws: FakeAws) -> None:
    """One assumption serves many tokens; the file is the user's alone."""
    keys = {desk.token(*CACHED).key for _ in range(3)}
    assert len(keys) == len(aws.calls) == 1
    assert desk.token(*AUTHENTICATOR, "-r", ROLE).key not in keys
    assert cache_file(desk).stat().st_mode & 0o777 == 0o600
    assert cache_file(desk).parent.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize(("seconds", "is_kept"), [(500, True), (299, False)])
def test_kept_credentials_are_not_used_shortly_before_their_end(
    desk: AwsMachine, aws: FakeAws, seconds: int, *, is_kept: bool
) -> None:
    aws.script["AssumeRole"] = [granting(aws, seconds)]
    assert (desk.token(*CACHED).key == desk.token(*CACHED).key) is is_kept


def test_credentials_that_do_not_expire_are_not_kept(desk: AwsMachine) -> None:
    """Long-lived keys stay where they are."""
    desk.token(*AUTHENTICATOR, "--cache")
    assert not cache_file(desk).exists()


@pytest.mark.parametrize(
    ("args", "env"),
    [
        pytest.param(("token", "-i", "other", "-r", ROLE), {}, id="cluster"),
        pytest.param((*BOTOCORE, "-r", ROLE), {}, id="tool"),
        pytest.param((*GO, "-r", f"{ROLE}-other"), {}, id="role"),
        pytest.param(GO, {}, id="no role"),
        pytest.param((*GO, "-r", ROLE, "-e", "y"), {}, id="external ID"),
        pytest.param((*GO, "-r", ROLE, "-s", "t"), {}, id="session name"),
        pytest.param((*GO, "-r", ROLE, "--forward-session-name"), {}, id="forwards"),
        pytest.param((*GO, "-r", ROLE, "--profile", "b"), {}, id="profile"),
        pytest.param((*GO, "-r", ROLE, "--region", "eu-west-1"), {}, id="region"),
        pytest.param((*GO, "-r", ROLE), {"AWS_ACCESS_KEY_ID": "AKIAOTHER"}, id="key"),
        pytest.param((*GO, "-r", ROLE), {"AWS_PROFILE": "b"}, id="profile in a variable"),
        pytest.param((*GO, "-r", ROLE), {"AWS_ROLE_SESSION_NAME": "other"}, id="another variable"),
        pytest.param((*GO, "-r", ROLE), {"HOME": "/nowhere"}, id="home"),
    ],
)
def test_another_identity_never_gets_what_is_kept(
    desk: AwsMachine, aws: FakeAws, tmp_path: Path, args: tuple[str, ...], env: dict[str, str]
) -> None:
    """Every option and variable that decides whose credentials are got, though two users name one file."""
    desk.write(f"[profile b]\naws_access_key_id = {KEY}\naws_secret_access_key = {SECRET}\n")
    aws.secrets["AKIAOTHER"] = SECRET
    folder = desk.home / ".aws"
    desk.env |= {
        "AWS_IAM_AUTHENTICATOR_CACHE_FILE": str(tmp_path / "shared.json"),
        "AWS_CONFIG_FILE": str(folder / "config"),
        "AWS_SHARED_CREDENTIALS_FILE": str(folder / "credentials"),
    }
    first = desk.token(*CACHED).key
    aws.region = "eu-west-1" if "eu-west-1" in args else REGION
    cluster = "other" if "other" in args else "my-cluster"
    assert desk.token(*args, "--cache", cluster=cluster, **env).key != first
    assert desk.token(*CACHED).key == first


def test_an_edited_config_of_aws_makes_another_identity(desk: AwsMachine) -> None:
    first = desk.token(*CACHED).key
    desk.write("[default]\nregion = us-west-2\n")
    assert desk.token(*CACHED).key != first


def test_a_cache_that_cannot_be_used_only_costs_time(desk: AwsMachine, aws: FakeAws) -> None:
    """A path that cannot be written is no error."""
    for _ in range(2):
        desk.token(*CACHED, AWS_IAM_AUTHENTICATOR_CACHE_FILE="/proc/x/y")
    assert len(aws.calls) == 2


def test_a_file_that_others_can_read_is_not_believed(desk: AwsMachine) -> None:
    """Nor is it written to."""
    first = desk.token(*CACHED).key
    cache_file(desk).chmod(0o644)
    before = cache_file(desk).read_bytes()
    assert desk.token(*CACHED).key != first
    assert cache_file(desk).read_bytes() == before


def test_a_link_is_not_followed(desk: AwsMachine) -> None:
    """A planted link does not lead to another file."""
    first = desk.token(*CACHED).key
    cache_file(desk).rename(desk.home / "elsewhere")
    cache_file(desk).symlink_to(desk.home / "elsewhere")
    assert desk.token(*CACHED).key != first


@pytest.mark.parametrize(
    "content", ["clusters: {}\n", "", "[]", '{"kind":"keyferry-eks credentials","entries":5}']
)
def test_a_file_of_another_tool_is_left_alone(desk: AwsMachine, content: str) -> None:
    """The authenticator's own cache is neither read nor overwritten."""
    path = desk.home / "credentials.yaml"
    path.write_text(content)
    path.chmod(0o600)
    desk.token(*CACHED, AWS_IAM_AUTHENTICATOR_CACHE_FILE=str(path))
    assert path.read_text() == content


Entry = dict[str, object]
DAMAGES: dict[str, Callable[[Entry], object]] = {
    "a number for a text": lambda entry: entry.update(secret_access_key=5),
    "a member gone": lambda entry: entry.pop("session_token"),
    "no number": lambda entry: entry.update(expires_at="x"),
    "a number without end": lambda entry: entry.update(expires_at=10**400),
    "a number without beginning": lambda entry: entry.update(expires_at=-(10**400)),
    "expired": lambda entry: entry.update(expires_at=time.time() - 1),
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_a_damaged_entry_is_no_credential(desk: AwsMachine, damage: Callable[[Entry], object]) -> None:
    """Members that are missing or of another type are not used."""
    first = desk.token(*CACHED).key
    document = json.loads(cache_file(desk).read_text())
    damage(*document["entries"].values())
    cache_file(desk).write_text(json.dumps(document))
    assert desk.token(*CACHED).key != first


def test_what_has_expired_is_dropped(desk: AwsMachine) -> None:
    """The file does not grow for ever."""
    first = desk.token(*CACHED).key
    text = cache_file(desk).read_text()
    document = json.loads(text)
    DAMAGES["expired"](*document["entries"].values())
    cache_file(desk).write_text(json.dumps(document))
    second = desk.token(*CACHED, "-s", "other").key
    assert first not in cache_file(desk).read_text()
    assert second in cache_file(desk).read_text()
