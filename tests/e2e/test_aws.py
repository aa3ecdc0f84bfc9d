"""The AWS plugins beside the real thing: moto, botocore, the AWS CLI and Debian's ECR helper."""

from __future__ import annotations

import base64
import json
import ssl
import subprocess
import urllib.request
from calendar import timegm
from datetime import datetime
from pathlib import Path
from time import strptime

import pytest

from keyferry.sdk import ProvideError
from keyferry_plugins.aws.eks_token import make_token
from keyferry_plugins.aws.endpoints import ECR, ECR_PUBLIC, STS, standard_host
from keyferry_plugins.signing.sigv4 import Credentials, presign_url, sign_headers
from support.aws_moto import Moto, run_part, run_python
from support.parts import need
from support.reference import Answer, ask_cluster, ask_image

ACCOUNT = "123456789012"
HOST = f"{ACCOUNT}.dkr.ecr.us-east-1.amazonaws.com"
ROLE = f"arn:aws:iam::{ACCOUNT}:role/pull"
KEY, SECRET = "AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"
SESSION_TOKEN = "IQoJb3JpZ2luX2VjEXAMPLETOKEN//////////wEaCXVzLWVhc3QtMSJ+=="
KEYS = {"AWS_ACCESS_KEY_ID": KEY, "AWS_SECRET_ACCESS_KEY": SECRET}
LOGIN = ("AWS", f"{ACCOUNT}-auth-token")


def by_server(moto: Moto, home: Path, **more: str) -> dict[str, str]:
    """The environment that leads to moto's server."""
    return {"HOME": str(home), "AWS_ENDPOINT_URL": moto.server, "AWS_EC2_METADATA_DISABLED": "true", **more}


def by_proxy(moto: Moto, home: Path, **more: str) -> dict[str, str]:
    """The environment that leads AWS' real names to moto."""
    return {"HOME": str(home), "HTTPS_PROXY": moto.proxy, "AWS_CA_BUNDLE": moto.authority, **KEYS, **more}


def test_ecr_gives_motos_login(moto: Moto, tmp_path: Path) -> None:
    """Through the endpoint variable; moto's tokens are always expired, so they are not cached."""
    answer = ask_image("ecr", f"{HOST}/app", env=by_server(moto, tmp_path, **KEYS))
    assert answer.auth == {HOST: LOGIN}
    assert answer.document["cacheDuration"] == "0s"
    assert answer.stderr == ""


def test_ecr_gives_the_same_login_as_debians_helper(moto: Moto, tmp_path: Path) -> None:
    """Both ask AWS by its real name over TLS, through the same proxy."""
    helper = need("docker-credential-ecr-login")
    env = by_proxy(moto, tmp_path, AWS_ECR_DISABLE_CACHE="1")
    done = subprocess.run([helper, "get"], input=HOST, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    theirs = json.loads(done.stdout)
    ours = ask_image("ecr", f"{HOST}/app", env=env)
    assert ours.auth == {HOST: (theirs["Username"], theirs["Secret"])}


def test_ecr_assumes_a_service_accounts_role(moto: Moto, tmp_path: Path) -> None:
    """By moto's AssumeRoleWithWebIdentity, over TLS at sts.us-east-1.amazonaws.com."""
    claims = {"sub": "system:serviceaccount:a:b", "aud": "sts.amazonaws.com"}
    token = f"{segment({'alg': 'none'})}.{segment(claims)}.x"
    env = {name: value for name, value in by_proxy(moto, tmp_path).items() if name not in KEYS}
    annotations = {"eks.amazonaws.com/ecr-role-arn": ROLE}
    answer = ask_image("ecr", f"{HOST}/app", env=env, token=token, annotations=annotations)
    assert answer.auth == {HOST: LOGIN}


def segment(document: dict[str, str]) -> str:
    """A part of a JSON web token."""
    return base64.urlsafe_b64encode(json.dumps(document).encode()).decode().rstrip("=")


def test_ecr_assumes_the_role_of_a_profile(moto: Moto, tmp_path: Path) -> None:
    """By moto's AssumeRole, with the keys of another profile."""
    (tmp_path / ".aws").mkdir()
    keys = f"[base]\naws_access_key_id = {KEY}\naws_secret_access_key = {SECRET}\n"
    (tmp_path / ".aws" / "credentials").write_text(keys)
    (tmp_path / ".aws" / "config").write_text(f"[profile pull]\nrole_arn = {ROLE}\nsource_profile = base\n")
    answer = ask_image("ecr", f"{HOST}/app", env=by_server(moto, tmp_path, AWS_PROFILE="pull"))
    assert answer.auth == {HOST: LOGIN}


def test_what_moto_does_not_know_is_an_error(moto: Moto, tmp_path: Path) -> None:
    """Public ECR is not in moto: its refusal ends in a message, after retries that end."""
    answer = ask_image("ecr", "public.ecr.aws/x", env=by_server(moto, tmp_path, **KEYS, AWS_MAX_ATTEMPTS="1"))
    assert answer.status == 1
    assert "ecr-public GetAuthorizationToken" in answer.stderr
    assert SECRET not in answer.stderr


def url_of(answer: Answer) -> str:
    """The URL inside a token."""
    body = answer.login_status["token"].removeprefix("k8s-aws-v1.")
    return base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)).decode()


def test_a_token_of_eks_is_taken_by_sts(moto: Moto, tmp_path: Path) -> None:
    """The token's URL is asked as a cluster asks it, with the header that names the cluster."""
    answer = ask_cluster("eks", args=["--region", "us-east-1", "get-token", "--cluster-name", "c", "--role-arn", ROLE],
                         env=by_proxy(moto, tmp_path))  # fmt: skip
    assert answer.stderr == ""
    asked = urllib.request.Request(url_of(answer), headers={"x-k8s-aws-id": "c"})
    context = ssl.create_default_context(cafile=moto.authority)
    # The authority that moto brings has no key identifier.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    opener = urllib.request.build_opener(
        urllib.request.ProxyHandler({"https": moto.proxy}), urllib.request.HTTPSHandler(context=context)
    )
    with opener.open(asked, timeout=30) as reply:
        assert f"<Account>{ACCOUNT}</Account>".encode() in reply.read()


GET_TOKEN = ("--region", "us-west-2", "eks", "get-token", "--cluster-name", "my-cluster", "--output", "json")


@pytest.mark.parametrize("more", [{}, {"AWS_SESSION_TOKEN": SESSION_TOKEN}], ids=["keys", "session token"])
def test_a_token_of_eks_is_byte_for_byte_the_clis(tmp_path: Path, more: dict[str, str]) -> None:
    """The same words and keys at the same second give the same token, and the same document around it."""
    theirs = json.loads(run_part("aws", *GET_TOKEN, env={**KEYS, **more}))
    url = url_of(Answer(0, json.dumps(theirs), ""))
    signed = timegm(strptime(url.partition("X-Amz-Date=")[2][:16], "%Y%m%dT%H%M%SZ"))
    keys = Credentials(
        access_key_id=KEY, secret_access_key=SECRET, session_token=more.get("AWS_SESSION_TOKEN", "")
    )
    token = make_token(keys, "my-cluster", host="sts.us-west-2.amazonaws.com", region="us-west-2", now=signed)
    assert token == theirs["status"]["token"]
    expiry = datetime.fromisoformat(theirs["status"]["expirationTimestamp"]).timestamp()
    assert abs(expiry - signed - 840) <= 2
    ours = ask_cluster(
        "eks", args=[*GET_TOKEN, "--compat"], env={"HOME": str(tmp_path), **KEYS, **more}, exec_info=None
    )
    assert {**ours.document, "status": 0} == {**theirs, "status": 0}
    assert set(ours.login_status) == set(theirs["status"])


SIGN = """
import json, sys
from botocore.auth import SigV4Auth, SigV4QueryAuth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
key, secret, token = sys.argv[1:4]
credentials = Credentials(key, secret, token or None)
out = {}
for service, region, url, headers, body in json.loads(sys.argv[4]):
    request = AWSRequest("POST", url, headers=headers, data=body)
    SigV4Auth(credentials, service, region).add_auth(request)
    out[url] = dict(request.headers.items())
request = AWSRequest("GET", "https://sts.eu-west-1.amazonaws.com/?Action=GetCallerIdentity&Version=2011-06-15",
                     headers={"x-k8s-aws-id": "a b  c"})
SigV4QueryAuth(credentials, "sts", "eu-west-1", expires=60).add_auth(request)
out["presigned"] = request.url
print(json.dumps(out))
"""
JSON_HEADERS = {"Content-Type": "application/x-amz-json-1.1", "X-Amz-Target": "A.B"}
FORM_HEADERS = {"Content-Type": "application/x-www-form-urlencoded"}
REQUESTS = [
    ("ecr", "us-west-2", "https://api.ecr.us-west-2.amazonaws.com/", JSON_HEADERS, "{}"),
    ("ecr", "cn-north-1", "https://api.ecr.cn-north-1.amazonaws.com.cn/", JSON_HEADERS, "{}"),
    ("ecr", "us-west-2", "http://127.0.0.1:5000/", JSON_HEADERS, "{}"),
    (
        "sts",
        "us-gov-west-1",
        "https://sts.us-gov-west-1.amazonaws.com/",
        FORM_HEADERS,
        "Action=AssumeRole&x=a+b%2F",
    ),
    ("sts", "us-west-2", "https://vpce.test:8443/a%20path/b", FORM_HEADERS, "Action=GetCallerIdentity"),
]


@pytest.mark.parametrize("token", ["", SESSION_TOKEN], ids=["keys", "session token"])
def test_signatures_are_botocores(token: str) -> None:
    """Every header of a signed request, and a presigned URL, as botocore makes them at the same second."""
    theirs = json.loads(run_python(SIGN, KEY, SECRET, token, json.dumps(REQUESTS)))
    credentials = Credentials(access_key_id=KEY, secret_access_key=SECRET, session_token=token)
    for service, region, url, headers, body in REQUESTS:
        expected = theirs[url]
        now = timegm(strptime(expected["X-Amz-Date"], "%Y%m%dT%H%M%SZ"))
        host, _, path = url.partition("://")[2].partition("/")
        ours = sign_headers(
            credentials, method="POST", host=host, path=f"/{path}", headers=headers, body=body.encode(),
            region=region, service=service, now=now,
        )  # fmt: skip
        assert ours == expected
    presigned = theirs["presigned"]
    now = timegm(strptime(presigned.partition("X-Amz-Date=")[2][:16], "%Y%m%dT%H%M%SZ"))
    assert presigned == presign_url(
        credentials, host="sts.eu-west-1.amazonaws.com", query={"Action": "GetCallerIdentity", "Version": "2011-06-15"},
        headers={"x-k8s-aws-id": "a b  c"}, region="eu-west-1", service="sts", expires_seconds=60, now=now,
    )  # fmt: skip


# The request is stopped before it is sent: what a client says of its endpoint is not what it then calls.
ENDPOINTS = """
import json, sys
import botocore.session
from botocore.config import Config

class Sent(Exception):
    pass

def stop(request, **_):
    raise Sent(request.url)

session = botocore.session.Session()
session.set_credentials("a", "b")
out = []
for service, region, fips, dual in json.loads(sys.argv[1]):
    config = Config(use_fips_endpoint=fips, use_dualstack_endpoint=dual, retries={"total_max_attempts": 1})
    try:
        client = session.create_client(service, region_name=region, config=config)
        client.meta.events.register("before-send", stop)
        client.get_caller_identity() if service == "sts" else client.get_authorization_token()
    except Sent as sent:
        out.append(str(sent).rstrip("/"))
    except Exception:
        out.append("")
print(json.dumps(out))
"""
REGIONS = (
    "us-east-1", "us-west-2", "eu-central-1", "il-central-1", "mx-central-1", "cn-north-1", "us-gov-west-1",
    "eusc-de-east-1", "us-iso-east-1", "us-isob-east-1", "eu-isoe-west-1", "us-isof-south-1", "lala-land-1",
)  # fmt: skip
KINDS = ((False, False), (True, False), (False, True), (True, True))


def test_endpoints_are_botocores() -> None:
    """In every partition, FIPS and dual-stack or not, we call what botocore calls."""
    cases = [(service, region, *kind) for service in (ECR, STS) for region in REGIONS for kind in KINDS]
    cases += [(ECR_PUBLIC, "us-east-1", *kind) for kind in KINDS]
    theirs = json.loads(run_python(ENDPOINTS, json.dumps(cases)))
    ours = [host_of(*case) for case in cases]
    assert dict(zip(cases, ours, strict=True)) == dict(zip(cases, theirs, strict=True))


def host_of(service: str, region: str, is_fips: bool, is_dual_stack: bool) -> str:
    """Our endpoint, or nothing."""
    try:
        return f"https://{standard_host(service, region, is_fips=is_fips, is_dual_stack=is_dual_stack)}"
    except ProvideError:
        return ""
