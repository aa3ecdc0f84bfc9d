"""The parts of keyferry-eks: token, options, versions."""

import base64
from pathlib import Path

import pytest

from keyferry.sdk import ProvideError
from keyferry.sdk.flags import parse_flags
from keyferry_plugins.aws.credentials import Credentials
from keyferry_plugins.aws.eks_options import AUTHENTICATOR, CLI, FLAGS, Options, read_options
from keyferry_plugins.aws.eks_output import choose_version
from keyferry_plugins.aws.eks_token import PREFIX, check_token, make_token, region_of_sts_host
from keyferry_plugins.eks import region_of_server

NOW = 1_704_164_645.0
KEYS = Credentials("AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY")
SIGNATURE = "96ddda09e9523f6363892f52e5828dd6265b22ec87d8c91e28200a0ba6b77a30"
GROUP = "client.authentication.k8s.io"


def token_of(url: str) -> str:
    """A token that says what *url* says."""
    return PREFIX + base64.urlsafe_b64encode(url.encode()).decode().rstrip("=")


def test_a_token_is_the_presigned_url() -> None:
    """Prefix, URL-safe base64 without padding, and the known signature inside."""
    token = make_token(KEYS, "my-cluster", host="sts.us-west-2.amazonaws.com", region="us-west-2", now=NOW)
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
        (GOOD.replace("sts.us-west-2", "ecr.us-west-2"), "only hosts of STS"),
        (GOOD.replace("amazonaws.com", "amazonaws.com.evil.test"), "only hosts of STS"),
        (GOOD.replace("amazonaws.com", "amazonaws.com.cn"), "only hosts of STS"),
        (GOOD + "&x=y", "does not take"),
        (GOOD + "&action=GetCallerIdentity", "twice"),
        (GOOD.replace("GetCallerIdentity", "AssumeRole"), "lacks"),
        (GOOD.replace("Expires=60", "Expires=901"), "lacks"),
        (GOOD.replace("Expires=60", "Expires=x"), "lacks"),
        (GOOD.replace("%3Bx-k8s-aws-id", ""), "lacks"),
        (GOOD.replace("X-Amz-Date=20240102T030405Z&", ""), "lacks"),
        (GOOD + "&X-Amz-Security-Token=" + "A" * 4000, "EKS takes 4096"),
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
    ("host", "region"),
    [
        ("sts.amazonaws.com", "global"),
        ("sts.us-west-2.amazonaws.com", "us-west-2"),
        ("sts-fips.us-west-2.amazonaws.com", "us-west-2"),
        ("sts.us-west-2.api.aws", "us-west-2"),
        ("sts.cn-north-1.amazonaws.com.cn", "cn-north-1"),
    ],
)
def test_an_sts_host_names_its_region(host: str, region: str) -> None:
    """The host without a region is the global one."""
    assert region_of_sts_host(host) == region


@pytest.mark.parametrize(
    "host", ["sts", "sts.wrongformat", "", "sts.us-west-2.amazonaws.com.cn", "ecr.us-west-2.amazonaws.com"]
)
def test_other_hosts_are_errors(host: str) -> None:
    """What is no endpoint of STS has no region."""
    with pytest.raises(ProvideError, match="is not a host of STS"):
        region_of_sts_host(host)


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


def options(*argv: str, **variables: str) -> Options:
    """What keyferry-eks makes of its words and variables."""
    return read_options(parse_flags(FLAGS, argv), variables)


def test_the_entry_that_the_cli_writes_is_understood() -> None:
    """The arguments of ``aws eks update-kubeconfig``, in their order."""
    argv = [
        "--region",
        "eu-west-1",
        "eks",
        "get-token",
        "--cluster-name",
        "c",
        "--output",
        "json",
        "--role",
        "arn:x",
    ]
    assert options(*argv) == Options("c", CLI, "arn:x", region="eu-west-1")


def test_the_words_of_the_authenticator_are_understood() -> None:
    """Short flags, and everything that its token command takes."""
    argv = [
        "token",
        "-i",
        "c",
        "-r",
        "arn:x",
        "-e",
        "ext",
        "-s",
        "me",
        "--cache",
        "--token-only",
        "-v",
        "4",
        "-l",
        "json",
    ]
    expected = Options(
        "c", AUTHENTICATOR, "arn:x", "ext", "me", is_token_only=True, is_cached=True
    )  # fmt: skip
    assert options(*argv) == expected


def test_variables_of_the_authenticator_are_read_by_it_alone() -> None:
    """DEFAULT_ROLE does not change what the command line's words do."""
    variables = {"KUBERNETES_AWS_AUTHENTICATOR_CLUSTER_ID": "c", "DEFAULT_ROLE": "arn:x"}
    assert options("token", **variables) == Options("c", role_arn="arn:x")
    assert options("get-token", "--cluster-name", "d", **variables) == Options("d", CLI)
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
    assert options("-c", str(path)) == Options("c", role_arn="arn:x", is_token_only=True)
    assert options("-c", str(path), "--role", "arn:y", "--token-only=false") == Options("c", role_arn="arn:y")


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
        (["token"], "no cluster is named"),
        (["--cluster-name", "a", "--cluster-id", "b"], "both given"),
        (["-i", "a", "-s", "b", "--forward-session-name"], "both given"),
        (["-i", "a b"], "characters that no header can carry"),
        (["-i", "a\nx: y"], "characters that no header can carry"),
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
    assert choose_version(exec_info, CLI)[0] == f"{GROUP}/{cli}"
    assert choose_version(exec_info, AUTHENTICATOR) == (authenticator, "")
    is_silent = not exec_info or exec_info.endswith(('/v1"}', '/v1beta1"}'))
    assert bool(choose_version(exec_info, CLI)[1]) is not is_silent
