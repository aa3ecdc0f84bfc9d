"""Signature Version 4 against answers that are known."""

from __future__ import annotations

import pytest

from keyferry_plugins.aws.eks_token import CLUSTER_HEADER
from keyferry_plugins.signing.sigv4 import Credentials, presign_url, sign_headers

KEY, SECRET = "AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"
SESSION_TOKEN = "IQoJb3JpZ2luX2VjEXAMPLETOKEN//////////wEaCXVzLWVhc3QtMSJ+=="
NOW = 1_704_164_645.0  # 2024-01-02T03:04:05Z
PLAIN = Credentials(access_key_id=KEY, secret_access_key=SECRET)
SESSION = Credentials(access_key_id=KEY, secret_access_key=SECRET, session_token=SESSION_TOKEN)
ECR_TARGET = "AmazonEC2ContainerRegistry_V20150921.GetAuthorizationToken"
PUBLIC_TARGET = "SpencerFrontendService.GetAuthorizationToken"


@pytest.mark.parametrize(
    ("service", "region", "target", "credentials", "names", "signature"),
    [
        pytest.param(
            "ecr", "us-west-2", ECR_TARGET, PLAIN, "content-type;host;x-amz-date;x-amz-target",
            "b25bfdfb6d2ebf03e86d3c3e85c5304fb49107603ee87ddd08e21230f538a79b", id="ecr",
        ),
        pytest.param(
            "ecr", "us-west-2", ECR_TARGET, SESSION,
            "content-type;host;x-amz-date;x-amz-security-token;x-amz-target",
            "5260683646b9abbc86ab4cbc68eca33edb626cf4ad148779df6e5cf528d1528f", id="ecr with a session token",
        ),
        pytest.param(
            "ecr-public", "us-east-1", PUBLIC_TARGET, PLAIN, "content-type;host;x-amz-date;x-amz-target",
            "ba8a0327d60f8b79587a551cd95e5eb53013bda3e0fa2c7c5571237053c25ed4", id="ecr-public",
        ),
    ],
)  # fmt: skip
def test_headers_are_signed(
    service: str, region: str, target: str, credentials: Credentials, names: str, signature: str
) -> None:
    """A signed POST has the known signature over the known headers."""
    headers = sign_headers(
        credentials,
        method="POST",
        host=f"api.{service}.{region}.amazonaws.com",
        headers={"Content-Type": "application/x-amz-json-1.1", "X-Amz-Target": target},
        body=b"{}",
        region=region,
        service=service,
        now=NOW,
    )
    assert headers["Authorization"] == (
        f"AWS4-HMAC-SHA256 Credential={KEY}/20240102/{region}/{service}/aws4_request,"
        f" SignedHeaders={names}, Signature={signature}"
    )
    assert headers["X-Amz-Date"] == "20240102T030405Z"
    assert headers.get("X-Amz-Security-Token", "") == credentials.session_token


@pytest.mark.parametrize(
    ("credentials", "signature"),
    [
        (PLAIN, "96ddda09e9523f6363892f52e5828dd6265b22ec87d8c91e28200a0ba6b77a30"),
        (SESSION, "1d299505584fafd1a865a91d037616bcedc38f53654830eb987c8f5bf889b908"),
    ],
    ids=["keys", "session token"],
)
def test_a_url_is_presigned(credentials: Credentials, signature: str) -> None:
    """A presigned GetCallerIdentity has the known signature, its parameters in the usual order."""
    url = presign_url(
        credentials,
        host="sts.us-west-2.amazonaws.com",
        query={"Action": "GetCallerIdentity", "Version": "2011-06-15"},
        headers={CLUSTER_HEADER: "my-cluster"},
        region="us-west-2",
        service="sts",
        expires_seconds=60,
        now=NOW,
    )
    names = [part.partition("=")[0] for part in url.partition("?")[2].split("&")]
    tail = ["X-Amz-Security-Token"] if credentials.session_token else []
    assert names == [
        "Action", "Version", "X-Amz-Algorithm", "X-Amz-Credential", "X-Amz-Date", "X-Amz-Expires",
        "X-Amz-SignedHeaders", *tail, "X-Amz-Signature",
    ]  # fmt: skip
    assert url.endswith(f"&X-Amz-Signature={signature}")
    assert "X-Amz-SignedHeaders=host%3Bx-k8s-aws-id&" in url
