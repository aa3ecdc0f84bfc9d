"""Subject tokens of Google's workload identity federation: from AWS, and from a program.

keyferry-gke exchanges them, so they are seen at Google's token service.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote

import pytest

from support.fake_cloud import FakeServer, Received, Reply, serving
from support.google_world import STS, World, external_account, impersonated_reply, token_reply
from support.scripted import write_python

SECRET = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"
KEYS = {"AWS_ACCESS_KEY_ID": "AKIDEXAMPLE", "AWS_SECRET_ACCESS_KEY": SECRET}
AUDIENCE = external_account({})["audience"]
DOCUMENT = {"AccessKeyId": "AKIDEXAMPLE", "SecretAccessKey": SECRET, "Token": "session-token-mark"}


def subject_of(world: World, document: dict[str, object], **env: str) -> str:
    """The subject token that is exchanged for a credential file."""
    world.on(f"POST {STS}/v1/token", token_reply())
    answer = world.ask_gke(document, **env)
    assert answer.status == 0, answer.stderr
    return world.api.received[-1].form["subject_token"]


def failure(world: World, document: dict[str, object], **env: str) -> str:
    """The error of a run that exchanges nothing; no secret is in it."""
    said = world.ask_gke(document, **env).failure
    assert SECRET not in said
    assert "-mark" not in said
    assert world.api.received == []
    return said


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


def aws(source: dict[str, object]) -> dict[str, object]:
    """A credential file of an AWS workload."""
    return external_account({"environment_id": "aws1"} | source)


def ask(world: World, source: dict[str, object], **env: str) -> dict[str, object]:
    """The signed request, taken apart."""
    token = subject_of(world, aws(source), **env)
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
    stamp = headers["x-amz-date"]
    scope = f"{stamp[:8]}/{region}/sts/aws4_request"
    digest = hashlib.sha256(canonical.encode()).hexdigest()
    key = f"AWS4{SECRET}".encode()
    for part in scope.split("/"):
        key = hmac.digest(key, part.encode(), "sha256")
    return hmac.digest(key, f"AWS4-HMAC-SHA256\n{stamp}\n{scope}\n{digest}".encode(), "sha256").hex()


def test_keys_of_the_environment_sign_without_any_server(world: World) -> None:
    """The pool is part of what is signed."""
    request = ask(world, {}, **KEYS, AWS_REGION="us-east-2")
    assert request["url"] == "https://sts.us-east-2.amazonaws.com?Action=GetCallerIdentity&Version=2011-06-15"
    assert request["method"] == "POST"
    headers = headers_of(request)
    assert headers["x-goog-cloud-target-resource"] == AUDIENCE
    assert headers["host"] == "sts.us-east-2.amazonaws.com"
    now = time.gmtime(time.time() - 100), time.gmtime()
    earliest, latest = (time.strftime("%Y%m%dT%H%M%SZ", each) for each in now)
    assert earliest <= headers["x-amz-date"] <= latest
    assert "x-amz-security-token" not in headers
    assert headers["authorization"] == (
        f"AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/{headers['x-amz-date'][:8]}/us-east-2/sts/aws4_request,"
        " SignedHeaders=host;x-amz-date;x-goog-cloud-target-resource,"
        f" Signature={signature(headers, 'us-east-2')}"
    )


def test_an_instance_signs_with_the_keys_of_its_role(world: World, instance: Instance) -> None:
    """Session, role, credentials and zone are asked of its metadata server; the letter of the zone is dropped."""
    headers = headers_of(ask(world, source_of(instance)))
    assert headers["host"] == "sts.eu-west-2.amazonaws.com"
    assert headers["x-amz-security-token"] == "session-token-mark"
    assert headers["authorization"].endswith(f"Signature={signature(headers, 'eu-west-2')}")
    assert [each.path for each in instance.server.received] == [
        "/session",
        "/roles",
        "/roles/my-role",
        "/zone",
    ]


def test_the_older_variable_for_the_region_counts_less(world: World) -> None:
    """AWS_REGION first."""
    older = {**KEYS, "AWS_DEFAULT_REGION": "eu-west-1"}
    assert headers_of(ask(world, {}, **older))["host"] == "sts.eu-west-1.amazonaws.com"
    assert (
        headers_of(ask(world, {}, **older, AWS_REGION="eu-west-3"))["host"] == "sts.eu-west-3.amazonaws.com"
    )


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
    world: World, instance: Instance, credentials: Reply
) -> None:
    """Whatever it answers."""
    instance.credentials = credentials
    failure(world, aws(source_of(instance)))


@pytest.mark.parametrize(
    "zone", [Reply(404), Reply(body=b""), Reply(body=b"evil.example.com/a"), Reply(body=b"a b")]
)
def test_a_region_that_is_none_is_refused(world: World, instance: Instance, zone: Reply) -> None:
    """It would become a part of a host's name."""
    instance.zone = zone
    failure(world, aws(source_of(instance)))


@pytest.mark.parametrize(
    ("source", "environ", "words"),
    [
        ({"environment_id": "aws2"}, KEYS, "environment_id is not aws1"),
        ({}, {}, "url is missing"),
        ({}, KEYS, "region_url is missing"),
        ({}, KEYS | {"AWS_REGION": "x.example.com/"}, "is not a region name"),
    ],
)
def test_what_is_missing_is_named(
    world: World, source: dict[str, object], environ: dict[str, str], words: str
) -> None:
    """Member or variable."""
    assert words in failure(world, aws(source), **environ)


PERMIT = "GOOGLE_EXTERNAL_ACCOUNT_ALLOW_EXECUTABLES"
ROBOT_URL = (
    "https://iamcredentials.googleapis.com/v1/projects/-/serviceAccounts/r@x.example.com:generateAccessToken"
)
GOOD: dict[str, object] = {
    "version": 1,
    "success": True,
    "token_type": "urn:ietf:params:oauth:token-type:id_token",
    "id_token": "subject-token-mark",
}


def good(**changes: object) -> dict[str, object]:
    """What a program prints, for a token that is good for a while yet."""
    return GOOD | {"expiration_time": int(time.time()) + 86_400} | changes


def document_of(program: dict[str, object], **more: object) -> dict[str, object]:
    """A credential file with a program."""
    return external_account({"executable": program}, **more)


def ask_program(world: World, program: dict[str, object]) -> str:
    """The subject token that a program gives."""
    return subject_of(world, document_of(program), **{PERMIT: "1"})


def printer(folder: Path, answer: object, *, status: int = 0, stderr: str = "") -> dict[str, object]:
    """A program that notes its environment and prints *answer*."""
    text = answer if isinstance(answer, str) else json.dumps(answer)
    body = (
        f"import json, os, sys\njson.dump([sys.argv[1:], dict(os.environ)], open({str(folder / 'seen')!r}, 'w'))\n"
        f"sys.stdout.write({text!r}); sys.stderr.write({stderr!r}); sys.exit({status})"
    )
    return {"command": f"{write_python(folder, 'program', body)} --flag 'two words'"}


def test_a_program_is_run_without_a_shell_and_told_what_for(world: World, tmp_path: Path) -> None:
    """Its words are split at blanks alone, as Google's libraries do it."""
    program = printer(tmp_path, good()) | {"output_file": str(tmp_path / "output")}
    world.on(f"POST {ROBOT_URL.removeprefix('https://')}", impersonated_reply())
    world.on(f"POST {STS}/v1/token", token_reply())
    document = document_of(program, service_account_impersonation_url=ROBOT_URL)
    assert world.ask_gke(document, **{PERMIT: "1"}).status == 0
    assert world.api.received[0].form["subject_token"] == "subject-token-mark"
    words, environ = json.loads((tmp_path / "seen").read_text())
    assert words == ["--flag", "'two", "words'"]
    told = {name.removeprefix("GOOGLE_EXTERNAL_ACCOUNT_"): value for name, value in environ.items()}
    assert told["AUDIENCE"].endswith("/providers/x")
    assert told["TOKEN_TYPE"] == "urn:ietf:params:oauth:token-type:jwt"
    assert told["INTERACTIVE"] == "0"
    assert told["IMPERSONATED_EMAIL"] == "r@x.example.com"
    assert told["OUTPUT_FILE"] == str(tmp_path / "output")


@pytest.mark.parametrize("permit", ["", "0", "true", "yes"])
def test_no_program_is_run_unless_the_environment_allows_it(
    world: World, tmp_path: Path, permit: str
) -> None:
    """Exactly 1; a credential file alone must not run anything."""
    said = failure(world, document_of(printer(tmp_path, good())), **{PERMIT: permit})
    assert f"set {PERMIT}=1" in said
    assert not (tmp_path / "seen").exists()


def test_saml_answers_have_another_member(world: World, tmp_path: Path) -> None:
    """By the type that the program says."""
    answer = good(token_type="urn:ietf:params:oauth:token-type:saml2", saml_response="saml-mark")
    assert ask_program(world, printer(tmp_path, answer)) == "saml-mark"


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ("subject-token-mark", "no JSON object"),
        (good(version=2), "version"),
        (good(version=True), "version"),
        (good(success="yes"), "reports a failure"),
        ({"version": 1, "success": False, "code": "401", "message": "not you"}, "401: not you"),
        (good(expiration_time=int(time.time()) - 1), "past its expiration_time"),
        (good(expiration_time="later"), "not a number"),
        (good(token_type="other"), "token_type"),
        (good(id_token=""), "left out id_token"),
    ],
)
def test_an_answer_that_is_none_is_explained(
    world: World, tmp_path: Path, answer: object, words: str
) -> None:
    """Without the token in it."""
    assert words in failure(world, document_of(printer(tmp_path, answer)), **{PERMIT: "1"})


def test_a_program_that_fails_is_quoted_with_its_secrets_masked(world: World, tmp_path: Path) -> None:
    """The end of its standard error helps."""
    program = printer(tmp_path, good(), status=3, stderr="login failed: token=secret-mark\n")
    assert "status 3: login failed" in failure(world, document_of(program), **{PERMIT: "1"})


@pytest.mark.parametrize("timeout", [4_999, 120_001, -1])
def test_a_timeout_out_of_range_is_refused(world: World, tmp_path: Path, timeout: int) -> None:
    """Five seconds to two minutes, as everywhere."""
    program = printer(tmp_path, good()) | {"timeout_millis": timeout}
    assert "timeout_millis" in failure(world, document_of(program), **{PERMIT: "1"})


def test_a_token_that_was_printed_before_is_used_while_it_is_good(world: World, tmp_path: Path) -> None:
    """The program is not run; once the token is past its time, it is."""
    output = tmp_path / "output"
    program = printer(tmp_path, good()) | {"output_file": str(output)}
    output.write_text(json.dumps(good(id_token="kept")))
    output.chmod(0o600)
    assert ask_program(world, program) == "kept"
    assert not (tmp_path / "seen").exists()
    output.write_text(json.dumps(good(id_token="kept", expiration_time=1)))
    assert ask_program(world, program) == "subject-token-mark"


def test_a_kept_token_that_others_could_have_written_is_not_believed(world: World, tmp_path: Path) -> None:
    """They would choose who we are."""
    output = tmp_path / "output"
    output.write_text(json.dumps(good(id_token="planted")))
    output.chmod(0o666)
    program = printer(tmp_path, good()) | {"output_file": str(output)}
    assert ask_program(world, program) == "subject-token-mark"
