"""External accounts whose subject token a program prints."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from keyferry.sdk import Deadline, ProvideError
from keyferry_plugins.google.calls import Calls
from keyferry_plugins.google.credential_file import CredentialFile
from keyferry_plugins.google.subject_tokens import subject_token
from support.google_world import external_account
from support.scripted import write_python

NOW = 1_750_000_000.0
PERMIT = "GOOGLE_EXTERNAL_ACCOUNT_ALLOW_EXECUTABLES"
ROBOT_URL = (
    "https://iamcredentials.googleapis.com/v1/projects/-/serviceAccounts/r@x.example.com:generateAccessToken"
)
GOOD: dict[str, object] = {
    "version": 1,
    "success": True,
    "token_type": "urn:ietf:params:oauth:token-type:id_token",
    "id_token": "subject-token-mark",
    "expiration_time": 1_750_000_060,
}


def ask(program: dict[str, object], environ: dict[str, str] | None = None, **more: object) -> str:
    """The subject token that a program gives."""
    environ = {"PATH": os.environ["PATH"], PERMIT: "1"} if environ is None else environ
    calls = Calls(deadline=Deadline(30), environ=environ, now=lambda: NOW)
    return subject_token(
        CredentialFile(where="the file", members=external_account({"executable": program}, **more)), calls
    )


def printer(folder: Path, answer: object, *, status: int = 0, stderr: str = "") -> dict[str, object]:
    """A program that notes its environment and prints *answer*."""
    text = answer if isinstance(answer, str) else json.dumps(answer)
    body = (
        f"import json, os, sys\njson.dump([sys.argv[1:], dict(os.environ)], open({str(folder / 'seen')!r}, 'w'))\n"
        f"sys.stdout.write({text!r}); sys.stderr.write({stderr!r}); sys.exit({status})"
    )
    return {"command": f"{write_python(folder, 'program', body)} --flag 'two words'"}


def test_a_program_is_run_without_a_shell_and_told_what_for(tmp_path: Path) -> None:
    """Its words are split at blanks alone, as Google's libraries do it."""
    program = printer(tmp_path, GOOD) | {"output_file": str(tmp_path / "output")}
    assert ask(program, service_account_impersonation_url=ROBOT_URL) == "subject-token-mark"
    words, environ = json.loads((tmp_path / "seen").read_text())
    assert words == ["--flag", "'two", "words'"]
    told = {name.removeprefix("GOOGLE_EXTERNAL_ACCOUNT_"): value for name, value in environ.items()}
    assert told["AUDIENCE"].endswith("/providers/x")
    assert told["TOKEN_TYPE"] == "urn:ietf:params:oauth:token-type:jwt"
    assert told["INTERACTIVE"] == "0"
    assert told["IMPERSONATED_EMAIL"] == "r@x.example.com"
    assert told["OUTPUT_FILE"] == str(tmp_path / "output")


@pytest.mark.parametrize("permit", ["", "0", "true", "yes"])
def test_no_program_is_run_unless_the_environment_allows_it(tmp_path: Path, permit: str) -> None:
    """Exactly 1; a credential file alone must not run anything."""
    with pytest.raises(ProvideError, match=f"set {PERMIT}=1"):
        ask(printer(tmp_path, GOOD), {"PATH": os.environ["PATH"], PERMIT: permit})
    assert not (tmp_path / "seen").exists()


def test_saml_answers_have_another_member(tmp_path: Path) -> None:
    """By the type that the program says."""
    answer = GOOD | {"token_type": "urn:ietf:params:oauth:token-type:saml2", "saml_response": "saml-mark"}
    assert ask(printer(tmp_path, answer)) == "saml-mark"


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ("subject-token-mark", "no JSON object"),
        (GOOD | {"version": 2}, "version"),
        (GOOD | {"version": True}, "version"),
        (GOOD | {"success": "yes"}, "reports a failure"),
        ({"version": 1, "success": False, "code": "401", "message": "not you"}, "401: not you"),
        (GOOD | {"expiration_time": 1_749_999_999}, "past its expiration_time"),
        (GOOD | {"expiration_time": "later"}, "not a number"),
        (GOOD | {"token_type": "other"}, "token_type"),
        (GOOD | {"id_token": ""}, "left out id_token"),
    ],
)
def test_an_answer_that_is_none_is_explained(tmp_path: Path, answer: object, words: str) -> None:
    """Without the token in it."""
    with pytest.raises(ProvideError, match=words) as caught:
        ask(printer(tmp_path, answer))
    assert "mark" not in str(caught.value)


def test_a_program_that_fails_is_quoted_with_its_secrets_masked(tmp_path: Path) -> None:
    """The end of its standard error helps."""
    program = printer(tmp_path, GOOD, status=3, stderr="login failed: token=secret-mark\n")
    with pytest.raises(ProvideError, match="status 3: login failed") as caught:
        ask(program)
    assert "mark" not in str(caught.value)


@pytest.mark.parametrize("timeout", [4_999, 120_001, -1])
def test_a_timeout_out_of_range_is_refused(tmp_path: Path, timeout: int) -> None:
    """Five seconds to two minutes, as everywhere."""
    with pytest.raises(ProvideError, match="timeout_millis"):
        ask(printer(tmp_path, GOOD) | {"timeout_millis": timeout})


def test_a_token_that_was_printed_before_is_used_while_it_is_good(tmp_path: Path) -> None:
    """The program is not run; once the token is past its time, it is."""
    output = tmp_path / "output"
    program = printer(tmp_path, GOOD) | {"output_file": str(output)}
    output.write_text(json.dumps(GOOD | {"id_token": "kept"}))
    output.chmod(0o600)
    assert ask(program) == "kept"
    assert not (tmp_path / "seen").exists()
    output.write_text(json.dumps(GOOD | {"id_token": "kept", "expiration_time": 1}))
    assert ask(program) == "subject-token-mark"


def test_a_kept_token_that_others_could_have_written_is_not_believed(tmp_path: Path) -> None:
    """They would choose who we are."""
    output = tmp_path / "output"
    output.write_text(json.dumps(GOOD | {"id_token": "planted"}))
    output.chmod(0o666)
    assert ask(printer(tmp_path, GOOD) | {"output_file": str(output)}) == "subject-token-mark"
