"""External accounts on AWS: a signed request, whose signature is computed here once more, by the specification."""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Iterator
from urllib.parse import unquote

import pytest

from keyferry.sdk import Deadline, ProvideError
from keyferry.sdk.http import ONCE
from keyferry_plugins.google.calls import Calls
from keyferry_plugins.google.credential_file import CredentialFile
from keyferry_plugins.google.subject_tokens import subject_token
from support.fake_cloud import FakeServer, Received, Reply, serving
from support.google_world import external_account

NOW = 1_704_164_645.0  # 2024-01-02T03:04:05Z
SECRET = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"
KEYS = {"AWS_ACCESS_KEY_ID": "AKIDEXAMPLE", "AWS_SECRET_ACCESS_KEY": SECRET}
AUDIENCE = external_account({})["audience"]
DOCUMENT = {"AccessKeyId": "AKIDEXAMPLE", "SecretAccessKey": SECRET, "Token": "session-token-mark"}


class Instance:
    """The metadata server of an EC2 instance, which wants a session."""

    def __init__(self) -> None:
        self.credentials = Reply(document=DOCUMENT)
        self.zone = Reply(body=b"eu-west-2b")
        self.server: FakeServer

    def serve(self, received: Received) -> Reply:
        """Answer, after checking the session."""
        if received.path == "/session":
            assert received.method == "PUT"
            assert received.headers["x-aws-ec2-metadata-token-ttl-seconds"] == "300"
            return Reply(body=b"imds-session")
        assert received.headers["x-aws-ec2-metadata-token"] == "imds-session"
        answers = {
            "/roles": Reply(body=b"my-role"),
            "/roles/my-role": self.credentials,
            "/zone": self.zone,
        }
        return answers[received.path]


@pytest.fixture
def instance() -> Iterator[Instance]:
    """An EC2 instance."""
    instance = Instance()
    with serving(instance.serve) as instance.server:
        yield instance


def ask(source: dict[str, object], **environ: str) -> dict[str, object]:
    """The signed request, taken apart."""
    document = external_account({"environment_id": "aws1"} | source)
    token = subject_token(
        CredentialFile(where="the file", members=document),
        Calls(deadline=Deadline(30), environ=environ, now=lambda: NOW, retry=ONCE),
    )
    assert "{" not in token
    request = json.loads(unquote(token))
    assert isinstance(request, dict)
    return request


def source_of(instance: Instance) -> dict[str, object]:
    """What the file says about an instance."""
    url = instance.server.url
    return {"url": f"{url}/roles", "region_url": f"{url}/zone", "imdsv2_session_token_url": f"{url}/session"}


def headers_of(request: dict[str, object]) -> dict[str, str]:
    """The request's headers, in lower case."""
    pairs = request["headers"]
    assert isinstance(pairs, list)
    assert pairs == sorted(pairs, key=lambda pair: pair["key"])
    return {pair["key"].lower(): pair["value"] for pair in pairs}


def signature(headers: dict[str, str], region: str) -> str:
    """Signature Version 4 of the request, step by step."""
    signed = {name: value for name, value in headers.items() if name != "authorization"}
    lines = "".join(f"{name}:{signed[name]}\n" for name in sorted(signed))
    empty = hashlib.sha256(b"").hexdigest()
    query = "Action=GetCallerIdentity&Version=2011-06-15"
    canonical = f"POST\n/\n{query}\n{lines}\n{';'.join(sorted(signed))}\n{empty}"
    scope = f"20240102/{region}/sts/aws4_request"
    digest = hashlib.sha256(canonical.encode()).hexdigest()
    key = f"AWS4{SECRET}".encode()
    for part in scope.split("/"):
        key = hmac.digest(key, part.encode(), "sha256")
    text = f"AWS4-HMAC-SHA256\n20240102T030405Z\n{scope}\n{digest}"
    return hmac.digest(key, text.encode(), "sha256").hex()


def test_keys_of_the_environment_sign_without_any_server() -> None:
    """The pool is part of what is signed."""
    request = ask({}, **KEYS, AWS_REGION="us-east-2")
    assert request["url"] == "https://sts.us-east-2.amazonaws.com?Action=GetCallerIdentity&Version=2011-06-15"
    assert request["method"] == "POST"
    headers = headers_of(request)
    assert headers["x-goog-cloud-target-resource"] == AUDIENCE
    assert headers["host"] == "sts.us-east-2.amazonaws.com"
    assert headers["x-amz-date"] == "20240102T030405Z"
    assert "x-amz-security-token" not in headers
    assert headers["authorization"] == (
        "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20240102/us-east-2/sts/aws4_request,"
        " SignedHeaders=host;x-amz-date;x-goog-cloud-target-resource,"
        f" Signature={signature(headers, 'us-east-2')}"
    )


def test_an_instance_signs_with_the_keys_of_its_role(instance: Instance) -> None:
    """Session, role, credentials and zone are asked of its metadata server; the letter of the zone is dropped."""
    headers = headers_of(ask(source_of(instance)))
    assert headers["host"] == "sts.eu-west-2.amazonaws.com"
    assert headers["x-amz-security-token"] == "session-token-mark"
    assert headers["authorization"].endswith(f"Signature={signature(headers, 'eu-west-2')}")
    assert [each.path for each in instance.server.received] == [
        "/session",
        "/roles",
        "/roles/my-role",
        "/zone",
    ]


def test_the_older_variable_for_the_region_counts_less() -> None:
    """AWS_REGION first."""
    assert (
        headers_of(ask({}, **KEYS, AWS_DEFAULT_REGION="eu-west-1"))["host"] == "sts.eu-west-1.amazonaws.com"
    )
    both = {"AWS_REGION": "eu-west-3", "AWS_DEFAULT_REGION": "eu-west-1"}
    assert headers_of(ask({}, **KEYS, **both))["host"] == "sts.eu-west-3.amazonaws.com"


@pytest.mark.parametrize(
    "credentials",
    [
        Reply(500),
        Reply(body=b"{"),
        Reply(document={}),
        Reply(document=DOCUMENT | {"SecretAccessKey": 5}),
        Reply(document=DOCUMENT | {"AccessKeyId": ""}),
    ],
)
def test_an_instance_without_credentials_is_an_error_without_secrets(
    instance: Instance, credentials: Reply
) -> None:
    """Whatever it answers."""
    instance.credentials = credentials
    with pytest.raises(ProvideError) as caught:
        ask(source_of(instance))
    assert SECRET not in str(caught.value)
    assert "mark" not in str(caught.value)


@pytest.mark.parametrize(
    "zone", [Reply(404), Reply(body=b""), Reply(body=b"evil.example.com/a"), Reply(body=b"a b")]
)
def test_a_region_that_is_none_is_refused(instance: Instance, zone: Reply) -> None:
    """It would become a part of a host's name."""
    instance.zone = zone
    with pytest.raises(ProvideError):
        ask(source_of(instance))


@pytest.mark.parametrize(
    ("source", "environ", "words"),
    [
        ({"environment_id": "aws2"}, KEYS, "environment_id is not aws1"),
        ({}, {}, "url is missing"),
        ({}, KEYS, "region_url is missing"),
        ({}, KEYS | {"AWS_REGION": "x.example.com/"}, "is not a region name"),
    ],
)
def test_what_is_missing_is_named(source: dict[str, object], environ: dict[str, str], words: str) -> None:
    """Member or variable."""
    with pytest.raises(ProvideError, match=words):
        ask(source, **environ)
