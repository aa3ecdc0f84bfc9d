"""keyferry-eks: what it is told by, its tokens, the version that it answers with, and the credentials that it keeps."""

from __future__ import annotations

import base64
import os
from pathlib import Path

import pytest

from keyferry._core.values import replace
from keyferry.sdk import Deadline, ProvideError
from keyferry.sdk.flags import parse_flags
from keyferry_plugins.aws.eks_options import AUTHENTICATOR, CLI, FLAGS, Options, read_options
from keyferry_plugins.aws.eks_token import PREFIX, check_token, is_sts_host, make_token
from keyferry_plugins.aws.environment import Environment
from keyferry_plugins.eks import CredentialCache, choose_version, region_of_server
from keyferry_plugins.signing.sigv4 import Credentials

NOW = 1_704_164_645.0
KEYS = Credentials(access_key_id="AKIDEXAMPLE", secret_access_key="wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY")


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
    assert options(*argv) == Options(cluster="c", tool=CLI, role_arn="arn:x", region="eu-west-1")


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
        cluster="c",
        tool=AUTHENTICATOR,
        role_arn="arn:x",
        external_id="ext",
        session_name="me",
        is_token_only=True,
        is_cached=True,
    )
    assert options(*argv) == expected


def test_variables_of_the_authenticator_are_read_by_it_alone() -> None:
    """DEFAULT_ROLE does not change what the command line's words do."""
    variables = {"KUBERNETES_AWS_AUTHENTICATOR_CLUSTER_ID": "c", "DEFAULT_ROLE": "arn:x"}
    assert options("token", **variables) == Options(cluster="c", role_arn="arn:x")
    assert options("get-token", "--cluster-name", "d", **variables) == Options(cluster="d", tool=CLI)
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
        (GOOD.replace("sts.us-west-2", "ecr.us-west-2"), "accepts only STS hosts"),
        (GOOD.replace("amazonaws.com", "amazonaws.com.evil.test"), "accepts only STS hosts"),
        (GOOD.replace("amazonaws.com", "amazonaws.com.cn"), "accepts only STS hosts"),
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
    ("host", "is_accepted"),
    [
        ("sts.amazonaws.com", True),
        ("sts.us-west-2.amazonaws.com", True),
        ("sts-fips.us-west-2.amazonaws.com", True),
        ("sts.us-west-2.api.aws", True),
        ("sts.cn-north-1.amazonaws.com.cn", True),
        ("sts", False),
        ("sts.wrongformat", False),
        ("", False),
        ("sts.us-west-2.amazonaws.com.cn", False),
        ("ecr.us-west-2.amazonaws.com", False),
    ],
)
def test_a_token_is_for_a_host_of_sts(host: str, is_accepted: bool) -> None:
    """Every form of them, and no other host."""
    assert is_sts_host(host) is is_accepted


GROUP = "client.authentication.k8s.io"


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
    cache_in(tmp_path).write(KEYS)
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
