"""Where AWS credentials come from: every source, in both orders, against endpoints that check what they are sent.

Each is found by keyferry-eks, whose token is signed with it.
"""

from __future__ import annotations

import json
import stat
import sys
from pathlib import Path

import pytest

from support.aws_machine import BOTOCORE, GO, AwsMachine
from support.aws_services import (
    IDENTITY,
    KEY,
    KEYS,
    ROLE,
    SECRET,
    SESSION_TOKEN,
    FakeAws,
    FakeInstance,
    container,
    sts_error,
)
from support.fake_cloud import Authority, FakeServer, Received, Reply, serving

OTHER_ROLE = "arn:aws:iam::123456789012:role/other"
ASSUMES = f"[profile a]\nrole_arn = {ROLE}\n"
BOTH_ORDERS = pytest.mark.parametrize("order", [GO, BOTOCORE], ids=["go", "botocore"])


def static(name: str, key: str = KEY) -> str:
    """A section with keys."""
    return f"[{name}]\naws_access_key_id = {key}\naws_secret_access_key = {SECRET}\n"


@pytest.fixture
def identity(machine: AwsMachine) -> dict[str, str]:
    """The variables of a service account with a token and a role."""
    path = machine.home / "token"
    path.write_text(f"{IDENTITY}\n")
    return {"AWS_WEB_IDENTITY_TOKEN_FILE": str(path), "AWS_ROLE_ARN": ROLE}


def test_keys_in_variables_go_first(machine: AwsMachine, aws: FakeAws) -> None:
    """Both spellings, with a session token, before every other source."""
    machine.write(static("default", "AKIAPROFILE"))
    found = machine.find(**KEYS, AWS_SESSION_TOKEN="t", AWS_WEB_IDENTITY_TOKEN_FILE="/nowhere")
    assert (found.key, found.session_token) == (KEY, "t")
    assert machine.find(AWS_ACCESS_KEY="A", AWS_SECRET_KEY=SECRET).key == "A"
    assert aws.calls == []


@BOTH_ORDERS
def test_a_profile_that_a_flag_names_wins_over_variables(machine: AwsMachine, order: tuple[str, ...]) -> None:
    """AWS_PROFILE does not, in either order."""
    machine.write(static("default", "AKIADEFAULT") + static("profile x", "AKIAPROFILE"))
    assert machine.find(order, "--profile", "x", **KEYS).key == "AKIAPROFILE"
    assert machine.find(order, AWS_PROFILE="x", **KEYS).key == KEY


def test_half_a_pair_of_keys_is_passed_over_or_refused(machine: AwsMachine) -> None:
    """Go's SDK goes on, botocore stops."""
    machine.write(static("default", "AKIAPROFILE"))
    assert machine.find(AWS_ACCESS_KEY_ID=KEY).key == "AKIAPROFILE"
    said = machine.fail_to_find(BOTOCORE, AWS_ACCESS_KEY_ID=KEY)
    assert "AWS_SECRET_ACCESS_KEY is not" in said


def test_a_key_with_a_line_break_is_refused(machine: AwsMachine) -> None:
    """What would break out of a header is found before it is sent, and not quoted."""
    said = machine.fail_to_find(**KEYS, AWS_SESSION_TOKEN="a\r\nEvil: b")
    assert "not valid in a header" in said
    assert "Evil" not in said


def test_a_token_file_stands_for_its_role(
    machine: AwsMachine, aws: FakeAws, identity: dict[str, str]
) -> None:
    """IAM roles for service accounts: the token goes to STS unsigned, with the session name given."""
    assert machine.find(**identity, AWS_ROLE_SESSION_NAME="me").key.startswith("ASIAROLE")
    assert aws.forms[-1] == {"RoleArn": ROLE, "RoleSessionName": "me"}
    machine.find(**identity)
    assert aws.forms[-1]["RoleSessionName"].isdigit()


def test_a_token_file_needs_a_role_and_a_token(machine: AwsMachine, identity: dict[str, str]) -> None:
    """What is missing is named; what is in the file is not quoted."""
    assert "AWS_ROLE_ARN is not" in machine.fail_to_find(**{**identity, "AWS_ROLE_ARN": ""})
    for content in ("marked-two words", "", "\x00"):
        (machine.home / "token").write_text(content)
        assert "does not hold a token" in machine.fail_to_find(**identity)


def test_an_identity_that_sts_does_not_know_yet_is_tried_again(
    machine: AwsMachine, aws: FakeAws, identity: dict[str, str]
) -> None:
    """InvalidIdentityToken may pass, and throttling; a denial does not."""
    unknown, throttled = sts_error("InvalidIdentityToken"), sts_error("Throttling")
    aws.script["AssumeRoleWithWebIdentity"] = [unknown, throttled]
    assert machine.find(**identity).key.startswith("ASIAROLE")
    assert len(aws.calls) == 3
    aws.script["AssumeRoleWithWebIdentity"] = [unknown]
    assert "identity provider in IAM" in machine.fail_to_find(**identity, AWS_MAX_ATTEMPTS="1")
    aws.calls.clear()
    aws.script["AssumeRoleWithWebIdentity"] = [sts_error("AccessDenied", f"not for {IDENTITY}")]
    assert f"grant sts:AssumeRoleWithWebIdentity on {ROLE}" in machine.fail_to_find(**identity)
    assert len(aws.calls) == 1


@BOTH_ORDERS
def test_a_profile_assumes_its_role_with_the_keys_of_another(
    machine: AwsMachine, aws: FakeAws, order: tuple[str, ...]
) -> None:
    """Roles in a row: each is assumed with the credentials of the one before."""
    machine.write(
        f"[profile a]\nrole_arn = {OTHER_ROLE}\nsource_profile = b\nexternal_id = ext\nduration_seconds = 900\n"
        f"role_session_name = me\n[profile b]\nrole_arn = {ROLE}\nsource_profile = c\n",
        static("c"),
    )
    found = machine.find(order, AWS_PROFILE="a")
    (first, key), (second, role_key) = aws.calls
    assert (first, key, second) == ("AssumeRole", KEY, "AssumeRole")
    assert role_key.startswith("ASIAROLE")
    assert found.key not in {KEY, role_key}
    before, last = aws.forms
    assert before["RoleArn"] == ROLE
    assert before["RoleSessionName"].startswith("keyferry-")
    assert last == {
        "RoleArn": OTHER_ROLE, "RoleSessionName": "me", "ExternalId": "ext", "DurationSeconds": "900",
    }  # fmt: skip


def test_a_profile_may_lean_on_its_own_keys(machine: AwsMachine, aws: FakeAws) -> None:
    """A profile that names itself is no circle, if it has keys."""
    machine.write(static("profile a") + f"role_arn = {ROLE}\nsource_profile = a\n")
    assert machine.find(AWS_PROFILE="a").key.startswith("ASIAROLE")
    assert aws.calls == [("AssumeRole", KEY)]


@BOTH_ORDERS
def test_a_circle_of_profiles_is_found(machine: AwsMachine, aws: FakeAws, order: tuple[str, ...]) -> None:
    """No recursion without end, and no call."""
    machine.write(f"{ASSUMES}source_profile = b\n[profile b]\nrole_arn = {ROLE}\nsource_profile = a\n")
    said = machine.fail_to_find(order, AWS_PROFILE="a")
    assert "the source profiles a -> b -> a form a cycle" in said
    assert aws.calls == []


@pytest.mark.parametrize(
    ("section", "words"),
    [
        ("source_profile = b\n", "has source_profile, but no role_arn"),
        (
            f"role_arn = {ROLE}\nsource_profile = gone\n",
            "names the source_profile 'gone', which does not exist",
        ),
        (f"role_arn = {ROLE}\nsource_profile = b\n", "'b', source_profile of 'a', has no credentials"),
        (f"role_arn = {ROLE}\ncredential_source = Cloud\n", "credential_source is 'Cloud', expected one of"),
        ("credential_source = Environment\n", "has credential_source, but no role_arn"),
        (f"role_arn = {ROLE}\ncredential_source = Environment\n", "no keys are set in environment variables"),
        (
            f"role_arn = {ROLE}\ncredential_source = EcsContainer\n",
            "the profile requires container credentials",
        ),
        ("web_identity_token_file = /x\n", "has web_identity_token_file, but no role_arn"),
        ("aws_access_key_id = A\n", "aws_secret_access_key is missing"),
        ("login_session = arn:x\n", "aws configure export-credentials --profile a"),
        ("sso_session = gone\n", "names the sso-session 'gone', which does not exist"),
        ("sso_start_url = https://x.test\n", "has no sso_region"),
        ("credential_process = 'unbalanced\n", "check its quotes"),
        ("", "AWS_EC2_METADATA_DISABLED disables"),
    ],
)
def test_a_profile_that_leads_nowhere_says_why(
    machine: AwsMachine, aws: FakeAws, section: str, words: str
) -> None:
    """Every dead end has its own words, and is no reason to go on with somebody else's credentials."""
    machine.write(f"[profile a]\n{section}[profile b]\nregion = x\n", static("c"))
    assert words in machine.fail_to_find(AWS_PROFILE="a")
    assert aws.calls == []


@BOTH_ORDERS
def test_a_profile_may_take_the_environments_keys(
    machine: AwsMachine, aws: FakeAws, order: tuple[str, ...]
) -> None:
    """credential_source Environment, in any letter case, where a flag names the profile."""
    machine.write(f"{ASSUMES}credential_source = environment\n")
    assert machine.find(order, "--profile", "a", **KEYS).key.startswith("ASIAROLE")
    assert aws.calls == [("AssumeRole", KEY)]


@BOTH_ORDERS
def test_a_profile_may_have_a_token_file(
    machine: AwsMachine, aws: FakeAws, identity: dict[str, str], order: tuple[str, ...]
) -> None:
    """Its role is assumed once, by the token."""
    path = identity["AWS_WEB_IDENTITY_TOKEN_FILE"]
    machine.write(f"{ASSUMES}web_identity_token_file = {path}\nrole_session_name = me\n")
    assert machine.find(order, AWS_PROFILE="a").key.startswith("ASIAROLE")
    assert aws.calls == [("AssumeRoleWithWebIdentity", "")]
    assert aws.forms == [{"RoleArn": ROLE, "RoleSessionName": "me"}]


def test_the_two_orders_differ_where_they_do(
    machine: AwsMachine, aws: FakeAws, identity: dict[str, str]
) -> None:
    """With a token file in variables and a role in the profile Go takes the first, botocore the second."""
    machine.write(f"[profile a]\nrole_arn = {OTHER_ROLE}\nsource_profile = c\n", static("c"))
    machine.find(GO, AWS_PROFILE="a", **identity)
    machine.find(BOTOCORE, AWS_PROFILE="a", **identity)
    machine.write(static("profile a"))
    machine.find(BOTOCORE, AWS_PROFILE="a", **identity)
    by_token = ("AssumeRoleWithWebIdentity", "")
    assert aws.calls == [by_token, ("AssumeRole", KEY), by_token]


def write_program(folder: Path, body: str) -> Path:
    """An executable in a folder whose name has a blank."""
    folder = folder / "a folder"
    folder.mkdir(exist_ok=True)
    path = folder / "give"
    path.write_text(f"#!{sys.executable} -IS\nimport sys\n{body}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def giving(expiration: str = "") -> str:
    """The body of a program that prints credentials."""
    document = {
        "Version": 1, "AccessKeyId": "AKIAPROCESS", "SecretAccessKey": SECRET, "SessionToken": "t",
    }  # fmt: skip
    return f"print({json.dumps(document | ({'Expiration': expiration} if expiration else {}))!r})"


@BOTH_ORDERS
def test_a_program_gives_credentials_without_a_shell(machine: AwsMachine, order: tuple[str, ...]) -> None:
    """Words are split as a shell splits them, and nothing in them is run or expanded."""
    witness = machine.home / "witness"
    program = write_program(
        machine.home,
        f"assert sys.argv[1:] == ['a b', '$HOME;touch', '{witness}', '|', 'x']; {giving()}",
    )
    machine.write(f"[profile a]\ncredential_process = \"{program}\" 'a b' $HOME;touch {witness} | x\n")
    found = machine.find(order, AWS_PROFILE="a")
    assert (found.key, found.session_token) == ("AKIAPROCESS", "t")
    assert not witness.exists()


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("sys.exit('token=marked-secret-value')", "ended with status 1"),
        ("print('marked-secret-value')", "not a JSON object"),
        ("print('[\"marked-secret-value\"]')", "not a JSON object"),
        ('print(\'{"AccessKeyId": "marked-secret-value"}\')', "printed no Version"),
        ('print(\'{"Version": 1, "AccessKeyId": "A", "Password": "marked-secret-value"}\')', "no SecretAccessKey"),
        (giving("2001-01-01T00:00:00Z"), "have expired"),
        (giving("marked-secret-value"), "not an RFC 3339 time"),
        ("import time; time.sleep(60)", "did not end in time"),
        ("print('x' * (1 << 21))", "wrote more than"),
    ],
)  # fmt: skip
def test_a_program_that_fails_is_named_and_not_quoted(machine: AwsMachine, body: str, words: str) -> None:
    """Its output is in no message, and its time is bounded."""
    program = write_program(machine.home, body)
    machine.write(f'[profile a]\ncredential_process = "{program}"\n')
    limit = "1s" if "sleep" in body else "50s"
    assert words in machine.fail_to_find(GO, "--timeout", limit, AWS_PROFILE="a")


def test_keys_beside_a_program_follow_each_order(machine: AwsMachine) -> None:
    """Go takes keys first; botocore takes those of the config file last."""
    program = write_program(machine.home, giving())
    machine.write(static("profile a") + f'credential_process = "{program}"\n')
    assert machine.find(GO, AWS_PROFILE="a").key == KEY
    assert machine.find(BOTOCORE, AWS_PROFILE="a").key == "AKIAPROCESS"
    machine.write(f'[profile a]\ncredential_process = "{program}"\n', static("a"))
    assert machine.find(BOTOCORE, AWS_PROFILE="a").key == KEY


def test_a_containers_endpoint_is_asked(machine: AwsMachine) -> None:
    """The token of the file wins over that of the variable."""
    path = machine.home / "token"
    path.write_text("from-the-file")
    token, token_file = "AWS_CONTAINER_AUTHORIZATION_TOKEN", "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"
    with serving(container("from-the-file")) as endpoint:
        told = {"AWS_CONTAINER_CREDENTIALS_FULL_URI": f"{endpoint.url}/v1/credentials"}
        found = machine.find(**told, **{token_file: str(path), token: "x"})
        assert (found.key, found.session_token) == (KEY, SESSION_TOKEN)
        assert machine.find(**told, **{token: "from-the-file"}).key == KEY
        said = machine.fail_to_find(**told, **{token: "marked-wrong"})
        assert "status 403, AccessDenied: bad authorization" in said


@pytest.mark.parametrize("source", ["credential_source = EcsContainer\n", ""], ids=["named", "unnamed"])
def test_a_role_may_be_assumed_with_a_containers_credentials(
    machine: AwsMachine, aws: FakeAws, source: str
) -> None:
    """Without a source Go's SDK takes what the machine has, botocore wants to be told."""
    aws.tokens[KEY] = SESSION_TOKEN
    machine.write(f"{ASSUMES}{source}")
    with serving(container("")) as endpoint:
        told = {"AWS_PROFILE": "a", "AWS_CONTAINER_CREDENTIALS_FULL_URI": f"{endpoint.url}/v1/credentials"}
        assert machine.find(GO, **told).key.startswith("ASIAROLE")
        if source:
            assert machine.find(BOTOCORE, **told).key.startswith("ASIAROLE")
        else:
            said = machine.fail_to_find(BOTOCORE, **told)
            assert "neither source_profile nor credential_source" in said
    assert set(aws.calls) == {("AssumeRole", KEY)}


def test_https_leads_a_container_anywhere(machine: AwsMachine, tmp_path: Path) -> None:
    """With TLS the endpoint may be any host, if its certificate is trusted."""
    authority = Authority(tmp_path)
    with serving(container("t"), authority.context("127.0.0.1")) as endpoint:
        told = {
            "AWS_CONTAINER_CREDENTIALS_FULL_URI": f"{endpoint.url}/v1/credentials",
            "AWS_CONTAINER_AUTHORIZATION_TOKEN": "t",
        }
        assert machine.find(**told, AWS_CA_BUNDLE=str(authority.bundle)).key == KEY
        assert "certificate is not trusted" in machine.fail_to_find(**told)
        said = machine.fail_to_find(**told, AWS_CA_BUNDLE="/nowhere/bundle.pem")
        assert "the CA bundle '/nowhere/bundle.pem': does not exist" in said


@pytest.mark.parametrize(
    "url",
    ["http://198.51.100.1/v1", "http://169.254.169.254/v1", "http://evil.test/v1", "http://127.0.0.1.evil.test/v1",
     "http://127.0.0.1@198.51.100.1/v1", "http://2130706433/v1", "http://[::ffff:198.51.100.1]/v1", "http://0.0.0.0/v1",
     "http://[::ffff:127.0.0.1]/v1", "http://127..1/v1"],
)  # fmt: skip
def test_plain_http_goes_nowhere_else(machine: AwsMachine, url: str) -> None:
    """A URL that would send the token across a network is refused before anything is sent."""
    told = {"AWS_CONTAINER_CREDENTIALS_FULL_URI": url, "AWS_CONTAINER_AUTHORIZATION_TOKEN": "marked-token"}
    assert "plain http is allowed only to these" in machine.fail_to_find(**told)


def test_a_container_token_with_a_line_break_is_refused(machine: AwsMachine) -> None:
    """No header is smuggled into the request."""
    told = {
        "AWS_CONTAINER_CREDENTIALS_FULL_URI": "http://127.0.0.1:1/",
        "AWS_CONTAINER_AUTHORIZATION_TOKEN": "a\r\nb: c",
    }
    assert "line break" in machine.fail_to_find(**told)
    path = machine.home / "token"
    path.write_text("a\nb")
    told["AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"] = str(path)
    assert "line break" in machine.fail_to_find(**told)


def instance_variables(server: FakeServer, **more: str) -> dict[str, str]:
    """What leads to a fake metadata service."""
    return {"AWS_EC2_METADATA_DISABLED": "", "AWS_EC2_METADATA_SERVICE_ENDPOINT": f"{server.url}/", **more}


def test_an_instances_role_is_found_by_version_2(machine: AwsMachine) -> None:
    """The service here refuses every request without its token."""
    instance = FakeInstance()
    with serving(instance) as endpoint:
        found = machine.find(**instance_variables(endpoint))
    assert (found.key, found.session_token) == (KEY, SESSION_TOKEN)
    assert len(instance.issued) == 1


def test_a_role_may_be_assumed_with_an_instances_credentials(machine: AwsMachine, aws: FakeAws) -> None:
    """credential_source Ec2InstanceMetadata."""
    aws.tokens[KEY] = SESSION_TOKEN
    machine.write(f"{ASSUMES}credential_source = Ec2InstanceMetadata\n")
    with serving(FakeInstance()) as endpoint:
        assert machine.find(AWS_PROFILE="a", **instance_variables(endpoint)).key.startswith("ASIAROLE")
    assert aws.calls == [("AssumeRole", KEY)]


@pytest.mark.parametrize(
    ("variable", "more"),
    [
        ("AWS_CONTAINER_CREDENTIALS_FULL_URI", {}),
        ("AWS_EC2_METADATA_SERVICE_ENDPOINT", {"AWS_EC2_METADATA_DISABLED": ""}),
    ],
    ids=["container", "instance"],
)
def test_the_pause_that_the_machine_asks_for_is_passed_on(
    machine: AwsMachine, variable: str, more: dict[str, str]
) -> None:
    """The node agent keeps to it."""
    with serving(lambda _: Reply(429, headers={"Retry-After": "600"})) as throttled:
        said = machine.fail_to_find(**{variable: f"{throttled.url}/v1"}, **more)
    assert "status 429" in said
    assert said.endswith("keyferry-eks: retry after 600 s\n")


@pytest.mark.parametrize("body", [b"", b"a token\r\nEvil: x", b"\xff"])
def test_a_metadata_token_that_is_none_is_refused(machine: AwsMachine, body: bytes) -> None:
    """What cannot be a header's value is not sent as one."""
    with serving(lambda _: Reply(body=body)) as endpoint:
        assert "is not a token" in machine.fail_to_find(**instance_variables(endpoint))


@pytest.mark.parametrize("status", [403, 404, 405])
def test_version_1_is_used_where_there_is_no_other(machine: AwsMachine, status: int) -> None:
    """Unless that is forbidden."""
    with serving(FakeInstance(token_status=status, is_v1_allowed=True)) as endpoint:
        assert machine.find(**instance_variables(endpoint)).key == KEY
        forbidden = instance_variables(endpoint, AWS_EC2_METADATA_V1_DISABLED="true")
        assert "version 1 is disabled" in machine.fail_to_find(**forbidden)


def test_a_token_that_never_comes_leads_to_version_1(machine: AwsMachine) -> None:
    """A hop limit swallows the token's answer, not the others."""
    told = {"AWS_METADATA_SERVICE_TIMEOUT": "3", "AWS_METADATA_SERVICE_NUM_ATTEMPTS": "1"}
    with serving(FakeInstance(token_delay=60, is_v1_allowed=True)) as endpoint:
        assert machine.find(**instance_variables(endpoint, **told)).key == KEY


def test_a_bad_token_request_is_final(machine: AwsMachine) -> None:
    """400 is not an old service, it is a wrong request."""
    with serving(FakeInstance(token_status=400, is_v1_allowed=True)) as endpoint:
        assert "status 400" in machine.fail_to_find(**instance_variables(endpoint))


def test_a_stale_metadata_token_is_replaced_once(machine: AwsMachine) -> None:
    """A 401 on data drops the token; a second one is final."""
    with serving(FakeInstance(stale_tokens=1)) as endpoint:
        assert machine.find(**instance_variables(endpoint)).key == KEY
    with serving(FakeInstance(stale_tokens=99)) as endpoint:
        assert "status 401" in machine.fail_to_find(**instance_variables(endpoint))


@pytest.mark.parametrize(
    ("instance", "words"),
    [
        (FakeInstance(role=""), "attach an IAM role"),
        (FakeInstance(code="Failed"), "Code is 'Failed', expected 'Success'"),
        (FakeInstance(secret=""), "has no SecretAccessKey"),
    ],
    ids=["no role", "no success", "no key"],
)
def test_an_instance_without_credentials_says_so(
    machine: AwsMachine, instance: FakeInstance, words: str
) -> None:
    with serving(instance) as endpoint:
        assert words in machine.fail_to_find(**instance_variables(endpoint))


def test_without_any_source_the_advice_names_them(machine: AwsMachine) -> None:
    """Nothing configured, and no instance: what could be set is said."""
    said = machine.fail_to_find(
        AWS_EC2_METADATA_DISABLED="", AWS_EC2_METADATA_SERVICE_ENDPOINT="http://127.0.0.1:1"
    )
    assert "no AWS credentials were found" in said
    assert "set AWS_ACCESS_KEY_ID" in said


TIMEOUT, MODE = "AWS_METADATA_SERVICE_TIMEOUT", "AWS_EC2_METADATA_SERVICE_ENDPOINT_MODE"


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        *((TIMEOUT, value, TIMEOUT) for value in ("nan", "inf", "-1", "0", "x", "1e9", "601")),
        (MODE, "IPv5", "found 'IPv5', expected IPv4 or IPv6"),
    ],
)
def test_odd_settings_of_metadata_are_refused(machine: AwsMachine, name: str, value: str, words: str) -> None:
    """A timeout is a number of seconds, a mode a version of IP."""
    assert words in machine.fail_to_find(AWS_EC2_METADATA_DISABLED="", **{name: value})


@pytest.mark.parametrize(
    "body",
    [
        b'<!DOCTYPE x [<!ENTITY a "b">]><AssumeRoleResult><Credentials>&a;</Credentials></AssumeRoleResult>',
        b"<Credentials><AccessKeyId><![CDATA[A]]></AccessKeyId><SecretAccessKey>marked-s</SecretAccessKey>"
        b"<SessionToken>marked-t</SessionToken></Credentials>",
        b"<!-- x --><Credentials><AccessKeyId>A</AccessKeyId><SecretAccessKey>marked-s</SecretAccessKey>"
        b"<SessionToken>marked-t</SessionToken></Credentials>",
        b"<AssumeRoleResult><Credentials><AccessKeyId>A</AccessKeyId></Credentials></AssumeRoleResult>",
        b"<Credentials><AccessKeyId>A&#10;</AccessKeyId><SecretAccessKey>a&#10;b</SecretAccessKey>"
        b"<SessionToken>marked-t</SessionToken></Credentials>",
        b"<Credentials><AccessKeyId>A</AccessKeyId><SecretAccessKey>marked-s</SecretAccessKey>"
        b"<SessionToken>marked-t</SessionToken><Expiration>marked-e</Expiration></Credentials>",
        b"{}",
        b"\xff\xfe",
        b"",
    ],
    ids=["entity", "CDATA", "comment", "no secret", "line break", "no time", "JSON", "garbage", "empty"],
)
def test_an_answer_of_sts_that_is_none_is_refused(machine: AwsMachine, aws: FakeAws, body: bytes) -> None:
    """Declarations, missing members, line breaks and garbage: an error that quotes none of it."""
    machine.write(f"{ASSUMES}source_profile = c\n", static("c"))
    aws.script["AssumeRole"] = [Reply(body=body)]
    assert "sts AssumeRole" in machine.fail_to_find(AWS_PROFILE="a")


def test_a_reason_of_sts_is_read_out_of_its_xml(machine: AwsMachine, aws: FakeAws) -> None:
    """Its entities are characters again, and what is no entity stays as it is."""
    machine.write(f"{ASSUMES}source_profile = c\n", static("c"))
    aws.script["AssumeRole"] = [sts_error("Odd", "a &lt;b&gt; &amp;amp; &#x41;&#66; &no; &#xD800; &#0;")]
    assert "Odd: a <b> &amp; AB &no; &#xD800; &#0;" in machine.fail_to_find(AWS_PROFILE="a")


def test_an_element_of_sts_is_found_by_its_whole_name(machine: AwsMachine, aws: FakeAws) -> None:
    machine.write(f"{ASSUMES}source_profile = c\n", static("c"))
    odd = aws.grant(ROLE).replace("<AccessKeyId>", "<AccessKeyIdOfOld>A</AccessKeyIdOfOld><AccessKeyId>")
    aws.script["AssumeRole"] = [Reply(body=odd.encode())]
    assert machine.find(AWS_PROFILE="a").key.startswith("ASIAROLE")


def test_a_redirect_is_not_followed(machine: AwsMachine, aws: FakeAws) -> None:
    """An answer that points elsewhere gets neither the request nor its credentials."""
    seen: list[Received] = []

    def elsewhere(received: Received) -> Reply:
        seen.append(received)
        return Reply()

    machine.write(f"{ASSUMES}source_profile = c\n", static("c"))
    with serving(elsewhere) as other:
        aws.script["AssumeRole"] = [Reply(307, headers={"Location": other.url})]
        assert "status 307" in machine.fail_to_find(AWS_PROFILE="a")
    assert seen == []
