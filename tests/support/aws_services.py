"""Fakes of AWS' services that check their requests: ECR, STS, SSO, and the metadata of containers and instances."""

from __future__ import annotations

import base64
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

from support.aws_signatures import check_signature
from support.fake_cloud import Received, Reply

ACCOUNT = "123456789012"
REGION = "us-west-2"
HOST = f"{ACCOUNT}.dkr.ecr.{REGION}.amazonaws.com"
IMAGE = f"{HOST}/team/app"
PASSWORD = "registry-password-0123456789"
ROLE = f"arn:aws:iam::{ACCOUNT}:role/pull"
KEY, SECRET = "AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI-marked-secret-EXAMPLEKEY"
SESSION_TOKEN = "marked-session-token-AQoDYXdzEJr"
KEYS = {"AWS_ACCESS_KEY_ID": KEY, "AWS_SECRET_ACCESS_KEY": SECRET}
IDENTITY = "eyJhbGciOiJSUzI1NiJ9.marked-identity.token"
ANNOTATION = "eks.amazonaws.com/ecr-role-arn"
_ECR = "AmazonEC2ContainerRegistry_V20150921.GetAuthorizationToken"
_ECR_PUBLIC = "SpencerFrontendService.GetAuthorizationToken"
_NAMESPACE = "https://sts.amazonaws.com/doc/2011-06-15/"


def rfc3339(seconds_from_now: float) -> str:
    """Return a time in AWS' format."""
    return datetime.fromtimestamp(int(time.time() + seconds_from_now), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def login(expires_in: float | None = 43_200, token: str = f"AWS:{PASSWORD}") -> dict[str, object]:
    """Return one entry of authorizationData."""
    entry: dict[str, object] = {"authorizationToken": base64.b64encode(token.encode()).decode()}
    if expires_in is not None:
        entry["expiresAt"] = time.time() + expires_in
    return entry


def sts_error(code: str, message: str = "not today", status: int = 400) -> Reply:
    """Return an error in STS' format."""
    error = f"<Error><Type>Sender</Type><Code>{code}</Code><Message>{message}</Message></Error>"
    body = f'<ErrorResponse xmlns="{_NAMESPACE}">{error}<RequestId>1</RequestId></ErrorResponse>'
    return Reply(status, body=body.encode())


def json_error(code: str, message: str = "not today", status: int = 400) -> Reply:
    """Return an error in the format of the JSON services."""
    return Reply(status, {"__type": f"com.amazonaws#{code}", "message": message})


@dataclass
class FakeAws:
    """ECR and STS behind one endpoint; each call must be signed with a known key, unless it presents an identity token.

    *script* has responses by action, which are sent in order before the correct ones. *roles* are the keys
    of assumed roles, by session name; every call is recorded in *calls* as action and access key.
    """

    region: str = REGION
    public_region: str = "us-east-1"
    secrets: dict[str, str] = field(default_factory=lambda: {KEY: SECRET})
    tokens: dict[str, str] = field(default_factory=dict)
    script: dict[str, list[Reply]] = field(default_factory=dict)
    calls: list[tuple[str, str]] = field(default_factory=list)
    forms: list[dict[str, str]] = field(default_factory=list)
    identity_token: str = IDENTITY
    login: Mapping[str, object] = field(default_factory=login)
    user_id: str = "AROAEXAMPLE:jane"

    def __call__(self, received: Received) -> Reply:
        """Answer a request."""
        assert received.method == "POST"
        if "x-amz-target" in received.headers:
            return self._ecr(received)
        return self._sts(received)

    def _ecr(self, received: Received) -> Reply:
        target = received.headers["x-amz-target"]
        assert received.headers["content-type"] == "application/x-amz-json-1.1"
        assert received.body == b"{}"
        assert target in {_ECR, _ECR_PUBLIC}
        is_public = target == _ECR_PUBLIC
        service, region = ("ecr-public", self.public_region) if is_public else ("ecr", self.region)
        self._note(service, self._check(received, service, region))
        found = dict(self.login)
        return self._scripted(service) or Reply(
            document={"authorizationData": found if is_public else [found]}
        )

    def _sts(self, received: Received) -> Reply:
        assert received.path == "/"
        assert received.headers["content-type"] == "application/x-www-form-urlencoded"
        form = received.form
        assert form.pop("Version") == "2011-06-15"
        action = form.pop("Action")
        self.forms.append(form)
        key = ""
        if action == "AssumeRoleWithWebIdentity":
            assert "authorization" not in received.headers
            assert form.pop("WebIdentityToken") == self.identity_token
        else:
            key = self._check(received, "sts", self.region)
        self._note(action, key)
        return self._scripted(action) or self._granted(action, form)

    def _granted(self, action: str, form: dict[str, str]) -> Reply:
        if action == "GetCallerIdentity":
            inner = f"<Arn>arn:aws:sts::{ACCOUNT}:x</Arn><UserId>{self.user_id}</UserId><Account>{ACCOUNT}</Account>"
        else:
            assert action in {"AssumeRole", "AssumeRoleWithWebIdentity"}
            assert form["RoleArn"].startswith("arn:")
            inner = self.grant(form["RoleArn"])
        body = f'<{action}Response xmlns="{_NAMESPACE}"><{action}Result>{inner}</{action}Result></{action}Response>'
        return Reply(body=body.encode())

    def grant(self, role: str, expires_in: float = 3600) -> str:
        """Return new credentials of a role, as XML, which the services here then accept."""
        number = len(self.secrets)
        key = f"ASIAROLE{number:08d}{role.rpartition('/')[2].upper()[:4]}"
        self.secrets[key] = f"marked-role-secret/{number}+="
        self.tokens[key] = f"marked-role-token/{number}+/=="
        return (
            f"<Credentials><AccessKeyId>{key}</AccessKeyId><SecretAccessKey>{self.secrets[key]}</SecretAccessKey>"
            f"<SessionToken>{self.tokens[key]}</SessionToken><Expiration>{rfc3339(expires_in)}</Expiration></Credentials>"
        )

    def _check(self, received: Received, service: str, region: str) -> str:
        key = check_signature(received, self.secrets, service, region)
        assert received.headers.get("x-amz-security-token", "") == self.tokens.get(key, "")
        return key

    def _note(self, action: str, key: str) -> None:
        self.calls.append((action, key))

    def _scripted(self, action: str) -> Reply | None:
        answers = self.script.get(action)
        return answers.pop(0) if answers else None


@dataclass
class FakeInstance:
    """The metadata service of an instance; version 2 is enforced unless *token_status* disables it."""

    key: str = KEY
    secret: str = SECRET
    token: str = SESSION_TOKEN
    role: str = "node-role"
    region: str = REGION
    token_status: int = 200
    token_delay: float = 0.0
    is_v1_allowed: bool = False
    stale_tokens: int = 0
    code: str = "Success"
    issued: list[str] = field(default_factory=list)

    def __call__(self, received: Received) -> Reply:
        """Answer a request."""
        assert not any(name.startswith("proxy") or name == "authorization" for name in received.headers)
        if received.path == "/latest/api/token":
            return self._issue(received)
        assert received.method == "GET"
        given = received.headers.get("x-aws-ec2-metadata-token")
        if given is None and not self.is_v1_allowed:
            return Reply(401)
        if given is not None and (given not in self.issued or self.issued.index(given) < self.stale_tokens):
            return Reply(401)
        return self._data(received.path)

    def _issue(self, received: Received) -> Reply:
        assert received.method == "PUT"
        assert received.body == b""
        assert 1 <= int(received.headers["x-aws-ec2-metadata-token-ttl-seconds"]) <= 21600
        if self.token_status != 200:
            return Reply(self.token_status, after=self.token_delay)
        self.issued.append(f"marked-metadata-token-{len(self.issued)}==")
        return Reply(body=self.issued[-1].encode(), after=self.token_delay)

    def _data(self, path: str) -> Reply:
        roles = "/latest/meta-data/iam/security-credentials/"
        if path == "/latest/dynamic/instance-identity/document":
            return Reply(document={"region": self.region})
        if path == roles:
            return Reply(body=f"{self.role}\nother-role".encode()) if self.role else Reply(404)
        assert path == roles + self.role
        document = {
            "Code": self.code,
            "Type": "AWS-HMAC",
            "AccessKeyId": self.key,
            "SecretAccessKey": self.secret,
            "Token": self.token,
            "Expiration": rfc3339(3600),
        }
        return Reply(document=document)


def container(token: str, *, key: str = KEY, secret: str = SECRET) -> Callable[[Received], Reply]:
    """Return the credentials endpoint of a container, which requires *token* as authorization."""

    def answer(received: Received) -> Reply:
        assert received.method == "GET"
        assert received.path == "/v1/credentials"
        if received.headers.get("authorization", "") != token:
            return Reply(403, {"code": "AccessDenied", "message": "bad authorization"})
        document = {
            "AccessKeyId": key,
            "SecretAccessKey": secret,
            "Token": SESSION_TOKEN,
            "Expiration": rfc3339(3600),
        }
        return Reply(document=document)

    return answer
