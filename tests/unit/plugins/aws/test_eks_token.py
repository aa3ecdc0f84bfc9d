"""The token for a cluster of EKS, and the hosts of STS that it may lead to."""

from __future__ import annotations

import base64

import pytest

from keyferry.sdk import ProvideError
from keyferry_plugins.aws.credentials import Credentials
from keyferry_plugins.aws.eks_token import PREFIX, check_token, make_token, region_of_sts_host

NOW = 1_704_164_645.0
KEYS = Credentials("AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY")
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
    with pytest.raises(ProvideError, match="is not an STS host"):
        region_of_sts_host(host)
