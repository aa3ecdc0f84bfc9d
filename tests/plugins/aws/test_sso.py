"""Credentials of IAM Identity Center, against a portal that checks what it is sent."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from support.aws_machine import GO, AwsMachine, EksToken
from support.aws_services import KEY, SECRET, SESSION_TOKEN, rfc3339
from support.fake_cloud import Received, Reply, serving

START = "https://corp.awsapps.test/start"
OLD, NEW = "marked-old-access", "marked-new-access"
LIFETIME = 600  # less than that of a token
CLIENT = {"clientId": "the-client", "clientSecret": "marked-client-secret", "refreshToken": "marked-refresh"}
CONFIG = f"""\
[profile dev]
sso_session = corp
sso_account_id = 123456789012
sso_role_name = Dev Ops
[sso-session corp]
sso_region = eu-west-1
sso_start_url = {START}
[profile legacy]
sso_start_url = {START}
sso_region = eu-west-1
sso_account_id = 123456789012
sso_role_name = Dev Ops
"""


@dataclass
class Portal:
    """The portal and the token service; *valid* is the access token it takes."""

    valid: str = OLD
    renewals: int = 0
    refusal: Reply | None = None
    renewal: Reply | None = None
    delay: float = 0.0
    asked: list[str] = field(default_factory=list)

    def __call__(self, received: Received) -> Reply:
        """Answer a request."""
        self.asked.append(received.path)
        assert "authorization" not in received.headers
        if received.path == "/token":
            return self._renew(received)
        assert (received.method, received.path) == ("GET", "/federation/credentials")
        assert received.query == {"role_name": "Dev Ops", "account_id": "123456789012"}
        if self.refusal is not None:
            return self.refusal
        if received.headers["x-amz-sso_bearer_token"] != self.valid:
            return Reply(
                401,
                {"message": "Session token not found or invalid"},
                headers={"x-amzn-errortype": "UnauthorizedException"},
            )
        expiration = int((time.time() + LIFETIME) * 1000)
        keys = {"accessKeyId": KEY, "secretAccessKey": SECRET, "sessionToken": SESSION_TOKEN}
        return Reply(document={"roleCredentials": {**keys, "expiration": expiration}})

    def _renew(self, received: Received) -> Reply:
        assert received.method == "POST"
        assert received.headers["content-type"] == "application/json"
        assert received.json == {**CLIENT, "grantType": "refresh_token"}
        self.renewals += 1
        if self.renewal is not None:
            return self.renewal
        self.valid = NEW
        answer = {"accessToken": NEW, "expiresIn": 28800, "refreshToken": "marked-next-refresh"}
        return Reply(document=answer, after=self.delay)


@pytest.fixture
def portal() -> Portal:
    """The portal."""
    return Portal()


class Desk(AwsMachine):
    """A home with a profile and, maybe, a login."""

    def __init__(self, home: Path, url: str) -> None:
        super().__init__(home, AWS_ENDPOINT_URL_SSO=url, AWS_ENDPOINT_URL_SSO_OIDC=url)
        self.write(CONFIG)

    def token_file(self, name: str = "corp") -> Path:
        """Where a login is kept."""
        digest = hashlib.sha1(name.encode(), usedforsecurity=False).hexdigest()
        return self.home / ".aws" / "sso" / "cache" / f"{digest}.json"

    def log_in(self, name: str = "corp", *, seconds: float = 3600, **more: str) -> None:
        """Leave what ``aws sso login`` leaves."""
        path = self.token_file(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        document = {
            "startUrl": START,
            "region": "eu-west-1",
            "accessToken": OLD,
            "expiresAt": rfc3339(seconds),
        }
        path.write_text(json.dumps({**document, **more}))

    def find_for(self, profile: str = "dev") -> EksToken:
        """A token, signed with the credentials of a profile."""
        return self.find(AWS_PROFILE=profile)

    def fail(self) -> str:
        """The error of a run."""
        return self.fail_to_find(GO, AWS_PROFILE="dev")


@pytest.fixture
def desk(tmp_path: Path, portal: Portal) -> Iterator[Desk]:
    """A home of its own."""
    with serving(portal) as server:
        yield Desk(tmp_path, server.url)


def test_a_login_gives_the_credentials_of_the_role(desk: Desk, portal: Portal) -> None:
    """The session's token file is named after the session, the old form's after the start URL."""
    desk.log_in()
    desk.log_in(START)
    for profile in ("dev", "legacy"):
        found = desk.find_for(profile)
        assert (found.key, found.session_token) == (KEY, SESSION_TOKEN)
        assert LIFETIME - 100 < found.expires_in <= LIFETIME
    assert portal.renewals == 0


def test_a_login_that_ends_is_renewed_and_kept(desk: Desk, portal: Portal) -> None:
    """The new token is written back for the user alone, the next run needs no renewal."""
    desk.log_in(seconds=-10, **CLIENT, registrationExpiresAt=rfc3339(9999))
    assert desk.find_for().key == KEY
    assert desk.find_for().key == KEY
    assert portal.renewals == 1
    kept = json.loads(desk.token_file().read_text())
    assert kept["accessToken"] == NEW
    assert kept["refreshToken"] == "marked-next-refresh"
    assert kept["clientId"] == "the-client"
    assert kept["startUrl"] == START
    assert desk.token_file().stat().st_mode & 0o777 == 0o600


def test_a_login_is_renewed_by_one_of_many(desk: Desk, portal: Portal) -> None:
    """A renewal token is good for one renewal: who comes second uses what the first one got."""
    desk.log_in(seconds=-10, **CLIENT)
    portal.delay = 0.5
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: desk.find_for().key, range(4)))
    assert found == [KEY] * 4
    assert portal.renewals == 1


def test_a_login_that_ends_soon_is_used_if_it_cannot_be_renewed(desk: Desk, portal: Portal) -> None:
    """It is good for a while yet."""
    portal.renewal = Reply(400, {"error": "invalid_grant", "message": "no"})
    desk.log_in(seconds=100, **CLIENT)
    assert desk.find_for().key == KEY
    assert portal.renewals == 1


@pytest.mark.parametrize(
    "more",
    [
        {},
        {**CLIENT, "refreshToken": ""},
        {**CLIENT, "registrationExpiresAt": "2001-01-01T00:00:00Z"},
        {**CLIENT, "expiresAt": "2001-01-01T00:00:00UTC", "registrationExpiresAt": "2001-01-01T00:00:00Z"},
    ],
)
def test_a_login_that_has_ended_says_how_to_log_in(desk: Desk, portal: Portal, more: dict[str, str]) -> None:
    """Without what a renewal needs, a person has to log in."""
    desk.log_in(seconds=-10, **more)
    said = desk.fail()
    assert "has expired" in said
    assert "run 'aws sso login --profile dev'" in said
    assert portal.asked == []


def test_nobody_has_logged_in(desk: Desk) -> None:
    """A missing file says so."""
    said = desk.fail()
    assert "nobody has logged in" in said
    assert "run 'aws sso login --profile dev'" in said


@pytest.mark.parametrize(
    "content",
    ["", "marked-garbage", "[]", '{"accessToken": "marked-a"}', '{"accessToken":"marked-a","expiresAt":5}'],
)
def test_a_damaged_token_file_is_not_quoted(desk: Desk, content: str) -> None:
    """What is in it stays there."""
    desk.log_in()
    desk.token_file().write_text(content)
    assert "the SSO token file" in desk.fail()


@pytest.mark.parametrize(
    ("refusal", "words"),
    [
        (
            Reply(401, {"message": f"bad {OLD}"}, headers={"x-amzn-errortype": "UnauthorizedException"}),
            "aws sso login",
        ),
        (
            Reply(403, {"message": "no"}, headers={"x-amzn-errortype": "ForbiddenException:"}),
            "assign the role 'Dev Ops'",
        ),
        (Reply(200, {"roleCredentials": {}}), "has no accessKeyId"),
        (Reply(200, body=b"<html>"), "not a JSON object"),
    ],
)
def test_a_refusal_of_the_portal_says_what_to_do(
    desk: Desk, portal: Portal, refusal: Reply, words: str
) -> None:
    """No token is in any message."""
    portal.refusal = refusal
    desk.log_in()
    assert words in desk.fail()


@pytest.mark.parametrize("expiration", [10**400, -1, "soon", True, None])
def test_an_expiry_that_is_no_time_is_none(desk: Desk, portal: Portal, expiration: object) -> None:
    keys = {"accessKeyId": KEY, "secretAccessKey": SECRET, "sessionToken": SESSION_TOKEN}
    portal.refusal = Reply(document={"roleCredentials": {**keys, "expiration": expiration}})
    desk.log_in()
    found = desk.find_for()
    assert found.key == KEY
    assert found.expires_in > LIFETIME


@pytest.mark.parametrize(
    "renewal",
    [
        Reply(400, {"error": "invalid_grant", "message": "marked-refresh is no good"}),
        Reply(200, {"accessToken": "marked-a"}),
        Reply(200, {"accessToken": "marked-a", "expiresIn": -5}),
        Reply(200, {"accessToken": "marked-a", "expiresIn": 10**30}),
        Reply(200, {"accessToken": "marked a", "expiresIn": 5}),
    ],
)
def test_a_renewal_that_fails_leaves_the_file_alone(desk: Desk, portal: Portal, renewal: Reply) -> None:
    """What is kept is what was there."""
    portal.renewal = renewal
    desk.log_in(seconds=-10, **CLIENT)
    before = desk.token_file().read_text()
    assert "aws sso login" in desk.fail()
    assert desk.token_file().read_text() == before
