"""People at the cluster plugin of Azure: device code, password, and what is kept of a login."""

from __future__ import annotations

import json
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from support import azure_cloud as cloud
from support.azure_aks import INTERACTIVE, NAMED, SCOPE, TOKEN_PATH, USER_SCOPE, ask, form_answers
from support.azure_cloud import CLIENT, ENTRA, SERVER_ID, TENANT, Azure
from support.fake_cloud import Reply

DEVICE_PATH = f"/{TENANT}/oauth2/v2.0/devicecode"
CODE = {
    "device_code": "devicemark",
    "user_code": "ABC-123",
    "verification_uri": "https://microsoft.com/devicelogin",
    "expires_in": 900,
    "interval": 1,
    "message": "open https://microsoft.com/devicelogin and enter ABC-123",
}
PENDING = Reply(400, {"error": "authorization_pending", "error_description": "AADSTS70016: pending"})
KEPT = cloud.token_reply(refresh_token=cloud.REFRESH_TOKEN)
ROPC = (*NAMED, "--login", "ropc", "--username", "me@x.test")
PASSWORD = {"AZURE_PASSWORD": cloud.USER_PASSWORD}
PASSWORD_FORM = {
    "grant_type": "password",
    "client_id": CLIENT,
    "username": "me@x.test",
    "password": cloud.USER_PASSWORD,
    "scope": USER_SCOPE,
}


def device(*replies: Reply, code: dict[str, object] | None = None) -> list[Reply]:
    """The answers of a device login: the code first."""
    return [Reply(200, CODE | (code or {})), *replies]


def test_a_device_login_shows_the_message_and_waits(azure: Azure) -> None:
    """It polls until the user is done, and the code of the device is never shown."""
    azure.on(ENTRA, *device(PENDING, PENDING, cloud.token_reply()))
    answer = ask(azure, *NAMED, exec_info=INTERACTIVE)
    assert answer.login_status["token"] == cloud.ENTRA_TOKEN
    assert "open https://microsoft.com/devicelogin and enter ABC-123" in answer.stderr
    assert "devicemark" not in answer.stderr
    first, *polls = azure.sent(ENTRA)
    assert (first.method, first.target) == ("POST", DEVICE_PATH)
    assert first.form == {"client_id": CLIENT, "scope": USER_SCOPE}
    assert [poll.target for poll in polls] == [TOKEN_PATH] * 3
    expected = {"grant_type": "device_code", "client_id": CLIENT, "device_code": "devicemark"}
    assert [poll.form for poll in polls] == [expected] * 3


def test_a_legacy_device_login_has_its_own_words(azure: Azure) -> None:
    """Other endpoints, a resource for a scope, a code for a device code, and numbers as text."""
    code: dict[str, object] = {"expires_in": "900", "interval": "1", "verification_url": "https://x.test"}
    azure.on(ENTRA, *device(PENDING, cloud.token_reply(), code=code))
    assert ask(azure, *NAMED, "--legacy", exec_info=INTERACTIVE).status == 0
    first, *polls = azure.sent(ENTRA)
    assert first.target == f"/{TENANT}/oauth2/devicecode?api-version=1.0"
    assert first.form == {"client_id": CLIENT, "resource": SERVER_ID}
    assert polls[-1].target == f"/{TENANT}/oauth2/token?api-version=1.0"
    assert polls[-1].form == {
        "grant_type": "device_code",
        "client_id": CLIENT,
        "code": "devicemark",
        "resource": SERVER_ID,
    }


def test_a_persons_time_is_not_the_programs(azure: Azure) -> None:
    """The timeout does not cover the login; with compat, or with nobody there, it does."""
    azure.on(ENTRA, *device(PENDING, PENDING, cloud.token_reply(), code={"interval": 20}))
    assert ask(azure, *NAMED, "--timeout", "30s", exec_info=INTERACTIVE).status == 0
    for more, info in ((("--compat",), INTERACTIVE), (("--wait-for-login",), "v1")):
        azure.on(ENTRA, *device(cloud.token_reply(), code={"interval": 30}))
        answer = ask(azure, *NAMED, "--timeout", "20s", *more, exec_info=info)
        assert answer.status == 1
        assert "nobody logged in before the time limit" in answer.stderr


def test_a_code_that_nobody_could_read_is_not_waited_for(azure: Azure) -> None:
    """Without a terminal it fails at once and says what to do; no code is asked for."""
    azure.on(ENTRA, *device(PENDING))
    answer = ask(azure, *NAMED)
    assert (answer.status, answer.stdout) == (1, "")
    assert "nobody can read it" in answer.stderr
    assert "--wait-for-login" in answer.stderr
    assert azure.sent(ENTRA) == []


def test_a_code_that_expires_ends_the_wait(azure: Azure) -> None:
    """By the code's own lifetime, even if the server would let it go on."""
    azure.on(ENTRA, *device(PENDING, code={"expires_in": 2, "interval": 1}))
    answer = ask(azure, *NAMED, exec_info=INTERACTIVE)
    assert "nobody logged in before the time limit" in answer.stderr


@pytest.mark.parametrize(
    ("reply", "said"),
    [
        (cloud.refused(70018, "authorization_declined", "no devicemark", 400), "was declined"),
        (cloud.refused(70019, "expired_token", "late", 400), "has expired"),
        (cloud.refused(7000218, "invalid_client", "secret wanted"), "allow public client flows"),
        (Reply(200, body=b"entramarktoken"), "not a JSON object"),
    ],
    ids=["declined", "expired", "no public client", "garbage"],
)
def test_a_device_login_that_fails_is_explained(azure: Azure, reply: Reply, said: str) -> None:
    """With what to do next."""
    azure.on(ENTRA, *device(PENDING, reply))
    shown = ask(azure, *NAMED, exec_info=INTERACTIVE).failure
    assert said in shown
    assert "devicemark" not in shown


@pytest.mark.parametrize("missing", ["device_code", "user_code", "verification_uri"])
def test_a_device_login_needs_something_to_show(azure: Azure, missing: str) -> None:
    """Without a code or a page nobody can log in."""
    azure.on(ENTRA, Reply(200, {name: value for name, value in CODE.items() if name != missing}))
    assert "without a user code" in ask(azure, *NAMED, exec_info=INTERACTIVE).failure


def test_a_password_logs_in(azure: Azure) -> None:
    """From the variables, as the flags would."""
    azure.on(ENTRA, form_answers(PASSWORD_FORM))
    env = {"AZURE_USERNAME": "me@x.test", "AAD_LOGIN_METHOD": "ropc", **PASSWORD}
    assert ask(azure, *NAMED, env=env).login_status["token"] == cloud.ENTRA_TOKEN


def test_a_missing_password_is_asked_for(azure: Azure) -> None:
    """Where the user can be asked; otherwise the error says so."""
    azure.on(ENTRA, form_answers(PASSWORD_FORM))
    answer = ask(azure, *ROPC, exec_info=INTERACTIVE, stdin=f"{cloud.USER_PASSWORD}\n")
    assert answer.status == 0
    assert "Password of me@x.test: " in answer.stderr
    assert "cannot be asked" in ask(azure, *ROPC).failure


def test_a_bound_token_for_a_user_is_not_kept(azure: Azure, tmp_path: Path) -> None:
    """The key ends with the run, so the token would be of no use."""
    azure.on(ENTRA, KEPT)
    folder = tmp_path / "kept"
    args = ("--pop-enabled", "--pop-claims", "u=x", "--cache-dir", str(folder))
    assert ask(azure, *ROPC, *args, env=PASSWORD).login_status["token"].count(".") == 2
    assert azure.sent(ENTRA)[0].form["token_type"] == "pop"
    assert not folder.exists()


@pytest.mark.parametrize(
    ("reply", "said"),
    [
        (
            cloud.refused(50126, "invalid_grant", "bad usermarkpassword", 400),
            "check the user name and the password",
        ),
        (cloud.refused(50076, "invalid_grant", "mfa", 400), "multi-factor"),
        (cloud.refused(65001, "invalid_grant", "consent", 400), "consent"),
    ],
    ids=["password", "second factor", "consent"],
)
def test_a_password_that_is_refused_is_explained(azure: Azure, reply: Reply, said: str) -> None:
    """And not shown, even if the server quotes it."""
    azure.on(ENTRA, reply)
    assert said in ask(azure, *ROPC, env=PASSWORD).failure


def test_nothing_is_kept_unless_a_folder_is_given(azure: Azure, tmp_path: Path) -> None:
    """No secret lands on a disk that nobody asked for; compat has upstream's folder."""
    azure.on(ENTRA, KEPT)
    before = sorted(tmp_path.rglob("*"))
    assert ask(azure, *ROPC, env=PASSWORD).status == 0
    assert sorted(tmp_path.rglob("*")) == before
    assert ask(azure, *ROPC, "--compat", env=PASSWORD).status == 0
    assert len(list((tmp_path / ".kube/cache/kubelogin").glob("*.json"))) == 1
    other = tmp_path / "other"
    assert ask(azure, *ROPC, "--compat", env={**PASSWORD, "KUBECACHEDIR": str(other)}).status == 0
    assert len(list(other.rglob("*.json"))) == 1


def test_a_kept_token_is_used_again_and_is_private(azure: Azure, tmp_path: Path) -> None:
    """The second run asks nobody; the file is the user's alone."""
    azure.on(ENTRA, form_answers(PASSWORD_FORM, KEPT))
    folder = tmp_path / "deep" / "kept"
    args = (*ROPC, "--cache-dir", str(folder))
    for _ in range(2):
        assert ask(azure, *args, env=PASSWORD).login_status["token"] == cloud.ENTRA_TOKEN
    assert len(azure.sent(ENTRA)) == 1
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    for path in folder.iterdir():
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    azure.on(ENTRA, cloud.refused(90002))
    assert ask(azure, *args, "--tenant-id", "other.test", env=PASSWORD).status == 1
    assert len(azure.sent(ENTRA)) == 2


@pytest.mark.parametrize("damage", ["open to others", "cut", "a link"])
def test_a_kept_token_that_cannot_be_trusted_is_not_used(azure: Azure, tmp_path: Path, damage: str) -> None:
    """A new login takes its place."""
    azure.on(ENTRA, KEPT)
    args = (*ROPC, "--cache-dir", str(tmp_path / "kept"))
    assert ask(azure, *args, env=PASSWORD).status == 0
    (path,) = (tmp_path / "kept").glob("*.json")
    if damage == "open to others":
        path.chmod(0o644)
    elif damage == "cut":
        path.write_bytes(path.read_bytes()[:20])
    else:
        path.rename(tmp_path / "elsewhere")
        path.symlink_to(tmp_path / "elsewhere")
    assert ask(azure, *args, env=PASSWORD).status == 0
    assert len(azure.sent(ENTRA)) == 2


def age(folder: Path) -> None:
    """Make the kept token one that has expired."""
    (path,) = folder.glob("*.json")
    document = json.loads(path.read_bytes())
    path.write_text(json.dumps(document | {"expires_at": 1}))


def test_an_expired_token_is_refreshed(azure: Azure, tmp_path: Path) -> None:
    """By its refresh token, which stays if no new one comes; a refused one leads to a new login."""
    folder = tmp_path / "kept"
    args = (*NAMED, "--cache-dir", str(folder))
    azure.on(ENTRA, *device(KEPT))
    assert ask(azure, *args, exec_info=INTERACTIVE).status == 0
    age(folder)
    form = {
        "grant_type": "refresh_token",
        "client_id": CLIENT,
        "refresh_token": cloud.REFRESH_TOKEN,
        "scope": USER_SCOPE,
    }
    azure.on(ENTRA, form_answers(form, cloud.token_reply("newer", expires_in=1)))
    assert ask(azure, *args).login_status["token"] == "newer"
    assert ask(azure, *args).login_status["token"] == "newer"
    azure.on(ENTRA, cloud.refused(700082, "invalid_grant", "refreshmarktoken is old", 400), *device(KEPT))
    assert ask(azure, *args, exec_info=INTERACTIVE).login_status["token"] == cloud.ENTRA_TOKEN


def test_a_legacy_token_is_refreshed_at_its_own_endpoint(azure: Azure, tmp_path: Path) -> None:
    """With a resource in place of a scope."""
    folder = tmp_path / "kept"
    args = (*NAMED, "--legacy", "--cache-dir", str(folder))
    azure.on(ENTRA, *device(KEPT))
    assert ask(azure, *args, exec_info=INTERACTIVE).status == 0
    age(folder)
    form = {
        "grant_type": "refresh_token",
        "client_id": CLIENT,
        "refresh_token": cloud.REFRESH_TOKEN,
        "resource": SERVER_ID,
    }
    path = f"/{TENANT}/oauth2/token?api-version=1.0"
    azure.on(ENTRA, form_answers(form, cloud.token_reply("newer"), path))
    assert ask(azure, *args).login_status["token"] == "newer"


def test_a_server_in_trouble_does_not_cost_the_login(azure: Azure, tmp_path: Path) -> None:
    """The refresh token stays, and the user is not asked to log in again."""
    folder = tmp_path / "kept"
    args = (*ROPC, "--cache-dir", str(folder))
    azure.on(ENTRA, KEPT)
    assert ask(azure, *args, env=PASSWORD).status == 0
    age(folder)
    azure.on(ENTRA, Reply(400, {"error": "temporarily_unavailable"}))
    assert ask(azure, *args, env=PASSWORD).status == 1
    assert {sent.form["grant_type"] for sent in azure.sent(ENTRA)[1:]} == {"refresh_token"}
    (path,) = folder.glob("*.json")
    assert cloud.REFRESH_TOKEN in path.read_text()


def test_many_at_once_log_in_once(azure: Azure, tmp_path: Path) -> None:
    """The others wait for the first, and use what it kept."""
    azure.on(ENTRA, form_answers(PASSWORD_FORM, Reply(200, KEPT.document, after=1.0)))
    args = (*ROPC, "--cache-dir", str(tmp_path / "kept"))
    with ThreadPoolExecutor(3) as pool:
        answers = [*pool.map(lambda _: ask(azure, *args, env=PASSWORD), range(3))]
    assert [answer.login_status["token"] for answer in answers] == [cloud.ENTRA_TOKEN] * 3
    assert len(azure.sent(ENTRA)) == 1


@pytest.mark.parametrize("command", ["remove-cache-dir", "remove-tokens"])
def test_what_is_kept_can_be_removed(azure: Azure, tmp_path: Path, command: str) -> None:
    """And nothing else: other files in the folder stay, with the folder."""
    folder = tmp_path / "kept"
    azure.on(ENTRA, KEPT)
    assert ask(azure, *ROPC, "--cache-dir", str(folder), env=PASSWORD).status == 0
    (folder / "auth.json").write_text("{}")
    (folder / "mine.txt").write_text("keep")
    first = ask(azure, command, "--cache-dir", str(folder))
    assert first.status == 0
    assert "other files left: 1" in first.stdout
    assert [path.name for path in folder.iterdir()] == ["mine.txt"]
    (folder / "mine.txt").unlink()
    assert ask(azure, command, "--token-cache-dir", str(folder)).status == 0
    assert not folder.exists()
    assert ask(azure, command, "--cache-dir", str(folder)).status == 0


def test_without_a_folder_there_is_nothing_to_remove(azure: Azure) -> None:
    """The error says why."""
    assert "without --cache-dir no tokens are cached" in ask(azure, "remove-cache-dir").failure


def test_a_scope_is_not_doubled(azure: Azure) -> None:
    """A server ID that already is a scope, or ends in a slash, means the same."""
    azure.on(ENTRA, form_answers(PASSWORD_FORM))
    for text in (SCOPE, f"{SERVER_ID}//"):
        assert ask(azure, *ROPC, "--server-id", text, env=PASSWORD).status == 0


def test_a_flood_of_slow_down_is_obeyed(azure: Azure) -> None:
    """A server that is asked too often is asked less often."""
    slower = Reply(400, {"error": "slow_down"})
    azure.on(ENTRA, *device(slower, cloud.token_reply(), code={"expires_in": 25, "interval": 10}))
    assert "nobody logged in before the time limit" in ask(azure, *NAMED, exec_info=INTERACTIVE).failure
    assert len(azure.sent(ENTRA)) == 2
