"""Where AWS credentials come from: every source, in both orders, against endpoints that check what they are sent."""

from __future__ import annotations

import json
import stat
import sys
from pathlib import Path

import pytest

from keyferry.sdk import Deadline, ProvideError
from keyferry_plugins.aws.chain import BOTOCORE, GO, find_credentials
from keyferry_plugins.aws.environment import Environment
from keyferry_plugins.aws.machine import instance_region
from keyferry_plugins.signing.sigv4 import Credentials
from support.aws_machine import AwsMachine
from support.aws_services import (
    IDENTITY,
    KEY,
    KEYS,
    REGION,
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


def static(name: str, key: str = KEY, secret: str = SECRET) -> str:
    """A section with keys."""
    return f"[{name}]\naws_access_key_id = {key}\naws_secret_access_key = {secret}\n"


def test_keys_in_variables_go_first(machine: AwsMachine, aws: FakeAws) -> None:
    """Both spellings, with a session token, before every other source."""
    machine.write(static("default", "AKIAPROFILE"))
    found = machine.find(**KEYS, AWS_SESSION_TOKEN="t", AWS_WEB_IDENTITY_TOKEN_FILE="/nowhere")
    assert found == Credentials(
        access_key_id=KEY, secret_access_key=SECRET, session_token="t", source="environment variables"
    )
    assert machine.find(AWS_ACCESS_KEY="A", AWS_SECRET_KEY="b").access_key_id == "A"
    assert aws.calls == []


def test_a_profile_that_a_flag_names_wins_over_variables(machine: AwsMachine) -> None:
    """AWS_PROFILE does not, in either order."""
    machine.write(static("default", "AKIADEFAULT") + static("profile x", "AKIAPROFILE"))
    for order in (GO, BOTOCORE):
        assert machine.find(order, profile="x", **KEYS).access_key_id == "AKIAPROFILE"
        assert machine.find(order, AWS_PROFILE="x", **KEYS).access_key_id == KEY


def test_half_a_pair_of_keys_is_passed_over_or_refused(machine: AwsMachine) -> None:
    """Go's SDK goes on, botocore stops."""
    machine.write(static("default", "AKIAPROFILE"))
    assert machine.find(AWS_ACCESS_KEY_ID=KEY).access_key_id == "AKIAPROFILE"
    with pytest.raises(ProvideError, match="AWS_SECRET_ACCESS_KEY is not; set both"):
        machine.find(BOTOCORE, AWS_ACCESS_KEY_ID=KEY)


def test_a_key_with_a_line_break_is_refused(machine: AwsMachine) -> None:
    """What would break out of a header is found before it is sent, and not quoted."""
    with pytest.raises(ProvideError, match="not valid in a header") as caught:
        machine.find(AWS_ACCESS_KEY_ID=KEY, AWS_SECRET_ACCESS_KEY=SECRET, AWS_SESSION_TOKEN="a\r\nEvil: b")
    assert "Evil" not in str(caught.value)


def test_a_token_file_stands_for_its_role(machine: AwsMachine, aws: FakeAws) -> None:
    """IAM roles for service accounts: the token goes to STS unsigned, with the session name given."""
    path = machine.home / "token"
    path.write_text(f"{IDENTITY}\n")
    told = {"AWS_WEB_IDENTITY_TOKEN_FILE": str(path), "AWS_ROLE_ARN": ROLE}
    found = machine.find(**told, AWS_ROLE_SESSION_NAME="me")
    assert found.secret_access_key == aws.secrets[found.access_key_id]
    assert found.expires_at is not None
    assert aws.forms[-1] == {"RoleArn": ROLE, "RoleSessionName": "me"}
    machine.find(**told)
    assert aws.forms[-1]["RoleSessionName"].isdigit()


def test_a_token_file_needs_a_role_and_a_token(machine: AwsMachine) -> None:
    """What is missing is named; what is in the file is not quoted."""
    path = machine.home / "token"
    path.write_text("two words")
    with pytest.raises(ProvideError, match="AWS_ROLE_ARN is not"):
        machine.find(AWS_WEB_IDENTITY_TOKEN_FILE=str(path))
    for content in ("two words", "", "\x00"):
        path.write_text(content)
        with pytest.raises(ProvideError, match="does not hold a token") as caught:
            machine.find(AWS_WEB_IDENTITY_TOKEN_FILE=str(path), AWS_ROLE_ARN=ROLE)
        assert "two" not in str(caught.value)


def test_an_identity_that_sts_does_not_know_yet_is_tried_again(machine: AwsMachine, aws: FakeAws) -> None:
    """InvalidIdentityToken may pass; a denial does not."""
    path = machine.home / "token"
    path.write_text(IDENTITY)
    told = {"AWS_WEB_IDENTITY_TOKEN_FILE": str(path), "AWS_ROLE_ARN": ROLE}
    aws.script["AssumeRoleWithWebIdentity"] = [sts_error("InvalidIdentityToken")]
    assert machine.find(**told).access_key_id.startswith("ASIA")
    assert len(aws.calls) == 2
    aws.script["AssumeRoleWithWebIdentity"] = [sts_error("AccessDenied", f"not for {IDENTITY}")]
    with pytest.raises(ProvideError, match="grant sts:AssumeRoleWithWebIdentity on arn") as caught:
        machine.find(**told)
    assert len(aws.calls) == 3
    assert "marked-identity" not in str(caught.value)


def test_a_profile_assumes_its_role_with_the_keys_of_another(machine: AwsMachine, aws: FakeAws) -> None:
    """Roles in a row: each is assumed with the credentials of the one before."""
    machine.write(
        f"[profile a]\nrole_arn = {OTHER_ROLE}\nsource_profile = b\nexternal_id = ext\nduration_seconds = 900\n"
        f"role_session_name = me\n[profile b]\nrole_arn = {ROLE}\nsource_profile = c\n",
        static("c"),
    )
    for order in (GO, BOTOCORE):
        aws.calls.clear()
        found = machine.find(order, AWS_PROFILE="a")
        assert [action for action, _ in aws.calls] == ["AssumeRole", "AssumeRole"]
        assert aws.calls[0][1] == KEY
        assert aws.calls[1][1].startswith("ASIAROLE")
        assert found.source == f"the role {OTHER_ROLE}"
        assert aws.forms[-1] == {
            "RoleArn": OTHER_ROLE, "RoleSessionName": "me", "ExternalId": "ext", "DurationSeconds": "900",
        }  # fmt: skip
        assert aws.forms[-2]["RoleSessionName"].startswith("keyferry-")


def test_a_profile_may_lean_on_its_own_keys(machine: AwsMachine, aws: FakeAws) -> None:
    """A profile that names itself is no circle, if it has keys."""
    machine.write(static("profile a") + f"role_arn = {ROLE}\nsource_profile = a\n")
    assert machine.find(AWS_PROFILE="a").source == f"the role {ROLE}"
    assert aws.calls == [("AssumeRole", KEY)]


@pytest.mark.parametrize("order", [GO, BOTOCORE])
def test_a_circle_of_profiles_is_found(machine: AwsMachine, aws: FakeAws, order: str) -> None:
    """No recursion without end, and no call."""
    machine.write(
        f"[profile a]\nrole_arn = {ROLE}\nsource_profile = b\n[profile b]\nrole_arn = {ROLE}\nsource_profile = a\n"
    )
    with pytest.raises(ProvideError, match="the source profiles a -> b -> a form a cycle"):
        machine.find(order, AWS_PROFILE="a")
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
        (
            f"role_arn = {ROLE}\nsource_profile = c\nmfa_serial = arn:mfa\n",
            "code of the MFA device 'arn:mfa'",
        ),
        ("", "AWS_EC2_METADATA_DISABLED disables"),
    ],
)
def test_a_profile_that_leads_nowhere_says_why(
    machine: AwsMachine, aws: FakeAws, section: str, words: str
) -> None:
    """Every dead end has its own words, and is no reason to go on with somebody else's credentials."""
    machine.write(f"[profile a]\n{section}[profile b]\nregion = x\n", static("c"))
    with pytest.raises(ProvideError, match=words):
        machine.find(AWS_PROFILE="a")
    assert aws.calls == []


def test_a_profile_may_take_the_environments_keys(machine: AwsMachine, aws: FakeAws) -> None:
    """credential_source Environment, in any letter case, where a flag names the profile."""
    machine.write(f"[profile a]\nrole_arn = {ROLE}\ncredential_source = environment\n")
    for order in (GO, BOTOCORE):
        assert machine.find(order, profile="a", **KEYS).source == f"the role {ROLE}"
    assert aws.calls == [("AssumeRole", KEY)] * 2


def test_a_profile_may_have_a_token_file(machine: AwsMachine, aws: FakeAws) -> None:
    """Its role is assumed once, by the token."""
    path = machine.home / "token"
    path.write_text(IDENTITY)
    machine.write(
        f"[profile a]\nrole_arn = {ROLE}\nweb_identity_token_file = {path}\nrole_session_name = me\n"
    )
    for order in (GO, BOTOCORE):
        assert machine.find(order, AWS_PROFILE="a").source == f"the role {ROLE}"
    assert [action for action, _ in aws.calls] == ["AssumeRoleWithWebIdentity"] * 2
    assert aws.forms[-1]["RoleSessionName"] == "me"


def test_the_two_orders_differ_where_they_do(machine: AwsMachine, aws: FakeAws) -> None:
    """With a token file in variables and a role in the profile Go takes the first, botocore the second."""
    path = machine.home / "token"
    path.write_text(IDENTITY)
    machine.write(f"[profile a]\nrole_arn = {OTHER_ROLE}\nsource_profile = c\n", static("c"))
    told = {"AWS_PROFILE": "a", "AWS_WEB_IDENTITY_TOKEN_FILE": str(path), "AWS_ROLE_ARN": ROLE}
    assert machine.find(GO, **told).source == f"the role {ROLE}"
    assert machine.find(BOTOCORE, **told).source == f"the role {OTHER_ROLE}"
    machine.write(static("profile a"))
    assert machine.find(BOTOCORE, **told).source == f"the role {ROLE}"
    assert [action for action, _ in aws.calls] == [
        "AssumeRoleWithWebIdentity", "AssumeRole", "AssumeRoleWithWebIdentity",
    ]  # fmt: skip


def test_mfa_codes_are_asked_for(machine: AwsMachine, aws: FakeAws) -> None:
    """A role that wants a code gets what the user types."""
    machine.write(f"[profile a]\nrole_arn = {ROLE}\nsource_profile = c\nmfa_serial = arn:mfa\n", static("c"))
    environment = Environment({**machine.env, "AWS_PROFILE": "a"}, Deadline(20), ask_code=lambda _: "123456")
    find_credentials(environment, region=REGION)
    assert aws.forms[-1]["SerialNumber"] == "arn:mfa"
    assert aws.forms[-1]["TokenCode"] == "123456"


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
    document = {"Version": 1, "AccessKeyId": "AKIAPROCESS", "SecretAccessKey": "s", "SessionToken": "t"}
    return f"print({json.dumps(document | ({'Expiration': expiration} if expiration else {}))!r})"


def test_a_program_gives_credentials_without_a_shell(machine: AwsMachine) -> None:
    """Words are split as a shell splits them, and nothing in them is run or expanded."""
    witness = machine.home / "witness"
    program = write_program(
        machine.home,
        f"assert sys.argv[1:] == ['a b', '$HOME;touch', '{witness}', '|', 'x']; {giving()}",
    )
    machine.write(f"[profile a]\ncredential_process = \"{program}\" 'a b' $HOME;touch {witness} | x\n")
    for order in (GO, BOTOCORE):
        found = machine.find(order, AWS_PROFILE="a")
        assert (found.access_key_id, found.session_token) == ("AKIAPROCESS", "t")
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
    with pytest.raises(ProvideError, match=words) as caught:
        machine.find(AWS_PROFILE="a", seconds="1" if "sleep" in body else "20")
    assert "marked-secret-value" not in str(caught.value)


def test_keys_beside_a_program_follow_each_order(machine: AwsMachine) -> None:
    """Go takes keys first; botocore takes those of the config file last."""
    program = write_program(machine.home, giving())
    machine.write(static("profile a") + f'credential_process = "{program}"\n')
    assert machine.find(GO, AWS_PROFILE="a").access_key_id == KEY
    assert machine.find(BOTOCORE, AWS_PROFILE="a").access_key_id == "AKIAPROCESS"
    machine.write(f'[profile a]\ncredential_process = "{program}"\n', static("a"))
    assert machine.find(BOTOCORE, AWS_PROFILE="a").access_key_id == KEY


def test_a_containers_endpoint_is_asked(machine: AwsMachine) -> None:
    """The token of the file wins over that of the variable."""
    path = machine.home / "token"
    path.write_text("from-the-file")
    with serving(container("from-the-file")) as endpoint:
        told = {"AWS_CONTAINER_CREDENTIALS_FULL_URI": f"{endpoint.url}/v1/credentials"}
        found = machine.find(
            **told, AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE=str(path), AWS_CONTAINER_AUTHORIZATION_TOKEN="x"
        )
        assert found.access_key_id == KEY
        assert found.session_token == SESSION_TOKEN
        assert machine.find(**told, AWS_CONTAINER_AUTHORIZATION_TOKEN="from-the-file").access_key_id == KEY
        with pytest.raises(ProvideError, match="status 403, AccessDenied: bad authorization") as caught:
            machine.find(**told, AWS_CONTAINER_AUTHORIZATION_TOKEN="marked-wrong")
        assert "marked-wrong" not in str(caught.value)


def test_a_role_may_be_assumed_with_a_containers_credentials(machine: AwsMachine, aws: FakeAws) -> None:
    """credential_source EcsContainer."""
    aws.tokens[KEY] = SESSION_TOKEN
    machine.write(f"[profile a]\nrole_arn = {ROLE}\ncredential_source = EcsContainer\n")
    with serving(container("")) as endpoint:
        uri = f"{endpoint.url}/v1/credentials"
        assert (
            machine.find(AWS_PROFILE="a", AWS_CONTAINER_CREDENTIALS_FULL_URI=uri).source == f"the role {ROLE}"
        )
    assert aws.calls == [("AssumeRole", KEY)]


def test_a_role_without_a_source_follows_each_order(machine: AwsMachine, aws: FakeAws) -> None:
    """Go's SDK takes what the machine has, botocore wants to be told."""
    aws.tokens[KEY] = SESSION_TOKEN
    machine.write(f"[profile a]\nrole_arn = {ROLE}\n")
    with serving(container("")) as endpoint:
        told = {"AWS_PROFILE": "a", "AWS_CONTAINER_CREDENTIALS_FULL_URI": f"{endpoint.url}/v1/credentials"}
        assert machine.find(GO, **told).source == f"the role {ROLE}"
        with pytest.raises(ProvideError, match="neither source_profile nor credential_source"):
            machine.find(BOTOCORE, **told)


def test_https_leads_a_container_anywhere(machine: AwsMachine, tmp_path: Path) -> None:
    """With TLS the endpoint may be any host, if its certificate is trusted."""
    authority = Authority(tmp_path)
    with serving(container("t"), authority.context("127.0.0.1")) as endpoint:
        told = {
            "AWS_CONTAINER_CREDENTIALS_FULL_URI": f"{endpoint.url}/v1/credentials",
            "AWS_CONTAINER_AUTHORIZATION_TOKEN": "t",
        }
        assert machine.find(**told, AWS_CA_BUNDLE=str(authority.bundle)).access_key_id == KEY
        with pytest.raises(ProvideError, match="certificate is not trusted"):
            machine.find(**told)
        with pytest.raises(ProvideError, match=r"the CA bundle .* does not exist"):
            machine.find(**told, AWS_CA_BUNDLE="/nowhere/bundle.pem")


@pytest.mark.parametrize(
    "url",
    ["http://198.51.100.1/v1", "http://169.254.169.254/v1", "http://evil.test/v1", "http://127.0.0.1.evil.test/v1",
     "http://127.0.0.1@198.51.100.1/v1", "http://2130706433/v1", "http://[::ffff:198.51.100.1]/v1", "http://0.0.0.0/v1",
     "http://[::ffff:127.0.0.1]/v1", "http://127..1/v1"],
)  # fmt: skip
def test_plain_http_goes_nowhere_else(machine: AwsMachine, url: str) -> None:
    """A URL that would send the token across a network is refused before anything is sent."""
    with pytest.raises(ProvideError, match="plain http is allowed only to these") as caught:
        machine.find(AWS_CONTAINER_CREDENTIALS_FULL_URI=url, AWS_CONTAINER_AUTHORIZATION_TOKEN="marked")
    assert "marked" not in str(caught.value)


def test_a_container_token_with_a_line_break_is_refused(machine: AwsMachine) -> None:
    """No header is smuggled into the request."""
    told = {
        "AWS_CONTAINER_CREDENTIALS_FULL_URI": "http://127.0.0.1:1/",
        "AWS_CONTAINER_AUTHORIZATION_TOKEN": "a\r\nb: c",
    }
    with pytest.raises(ProvideError, match="line break"):
        machine.find(**told)
    path = machine.home / "token"
    path.write_text("a\nb")
    told["AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"] = str(path)
    with pytest.raises(ProvideError, match="line break"):
        machine.find(**told)


def instance_variables(server: FakeServer, **more: str) -> dict[str, str]:
    """What leads to a fake metadata service."""
    return {"AWS_EC2_METADATA_DISABLED": "", "AWS_EC2_METADATA_SERVICE_ENDPOINT": f"{server.url}/", **more}


def test_an_instances_role_is_found_by_version_2(machine: AwsMachine) -> None:
    """The service here refuses every request without its token."""
    instance = FakeInstance()
    with serving(instance) as endpoint:
        found = machine.find(**instance_variables(endpoint))
        assert found.source == "the instance metadata service (role node-role)"
        assert found.session_token == SESSION_TOKEN
        assert len(instance.issued) == 1
        environment = Environment({**machine.env, **instance_variables(endpoint)}, Deadline(20))
        assert instance_region(environment) == REGION


def test_a_role_may_be_assumed_with_an_instances_credentials(machine: AwsMachine, aws: FakeAws) -> None:
    """credential_source Ec2InstanceMetadata."""
    aws.tokens[KEY] = SESSION_TOKEN
    machine.write(f"[profile a]\nrole_arn = {ROLE}\ncredential_source = Ec2InstanceMetadata\n")
    with serving(FakeInstance()) as endpoint:
        assert machine.find(AWS_PROFILE="a", **instance_variables(endpoint)).source == f"the role {ROLE}"
    assert aws.calls == [("AssumeRole", KEY)]


def test_where_there_is_no_instance_there_is_no_region(machine: AwsMachine) -> None:
    """That it cannot be asked is no error: another default follows."""
    told = {
        "AWS_EC2_METADATA_SERVICE_ENDPOINT": "http://127.0.0.1:1",
        "AWS_METADATA_SERVICE_NUM_ATTEMPTS": "1",
    }
    for disabled in ("true", ""):
        variables = {**machine.env, **told, "AWS_EC2_METADATA_DISABLED": disabled}
        assert instance_region(Environment(variables, Deadline(20))) == ""


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
    throttled = serving(lambda _: Reply(429, headers={"Retry-After": "600"}))
    with throttled as endpoint, pytest.raises(ProvideError, match="status 429") as caught:
        machine.find(**{variable: f"{endpoint.url}/v1"}, **more)
    assert caught.value.retry_after_seconds == 600


@pytest.mark.parametrize("body", [b"", b"a token\r\nEvil: x", b"\xff"])
def test_a_metadata_token_that_is_none_is_refused(machine: AwsMachine, body: bytes) -> None:
    """What cannot be a header's value is not sent as one."""
    with serving(lambda _: Reply(body=body)) as endpoint, pytest.raises(ProvideError, match="is not a token"):
        machine.find(**instance_variables(endpoint))


@pytest.mark.parametrize("status", [403, 404, 405])
def test_version_1_is_used_where_there_is_no_other(machine: AwsMachine, status: int) -> None:
    """Unless that is forbidden."""
    with serving(FakeInstance(token_status=status, is_v1_allowed=True)) as endpoint:
        assert machine.find(**instance_variables(endpoint)).access_key_id == KEY
        with pytest.raises(ProvideError, match="version 1 is disabled"):
            machine.find(**instance_variables(endpoint, AWS_EC2_METADATA_V1_DISABLED="true"))


def test_a_token_that_never_comes_leads_to_version_1(machine: AwsMachine) -> None:
    """A hop limit swallows the token's answer, not the others."""
    told = {"AWS_METADATA_SERVICE_TIMEOUT": "0.4", "AWS_METADATA_SERVICE_NUM_ATTEMPTS": "1"}
    with serving(FakeInstance(token_delay=1.5, is_v1_allowed=True)) as endpoint:
        assert machine.find(**instance_variables(endpoint, **told)).access_key_id == KEY


def test_a_bad_token_request_is_final(machine: AwsMachine) -> None:
    """400 is not an old service, it is a wrong request."""
    instance = FakeInstance(token_status=400, is_v1_allowed=True)
    with serving(instance) as endpoint, pytest.raises(ProvideError, match="status 400"):
        machine.find(**instance_variables(endpoint))


def test_a_stale_metadata_token_is_replaced_once(machine: AwsMachine) -> None:
    """A 401 on data drops the token; a second one is final."""
    with serving(FakeInstance(stale_tokens=1)) as endpoint:
        assert machine.find(**instance_variables(endpoint)).access_key_id == KEY
    with serving(FakeInstance(stale_tokens=99)) as endpoint:
        with pytest.raises(ProvideError, match="status 401") as caught:
            machine.find(**instance_variables(endpoint))
        assert "marked-metadata-token" not in str(caught.value)


@pytest.mark.parametrize(
    ("instance", "words"),
    [
        (FakeInstance(role=""), "attach an IAM role"),
        (FakeInstance(code="Failed"), "Code is 'Failed', expected 'Success'"),
        (FakeInstance(secret=""), "has no SecretAccessKey"),
    ],
)
def test_an_instance_without_credentials_says_so(
    machine: AwsMachine, instance: FakeInstance, words: str
) -> None:
    """No role, no success, no key."""
    with serving(instance) as endpoint, pytest.raises(ProvideError, match=words):
        machine.find(**instance_variables(endpoint))


def test_without_any_source_the_advice_names_them(machine: AwsMachine) -> None:
    """Nothing configured, and no instance: what could be set is said."""
    told = {"AWS_EC2_METADATA_DISABLED": "", "AWS_EC2_METADATA_SERVICE_ENDPOINT": "http://127.0.0.1:1"}
    with pytest.raises(ProvideError, match=r"no AWS credentials were found.*set AWS_ACCESS_KEY_ID"):
        machine.find(**told, AWS_METADATA_SERVICE_NUM_ATTEMPTS="1")


@pytest.mark.parametrize("value", ["nan", "inf", "-1", "0", "x", "1e9", "601"])
def test_odd_limits_are_refused(machine: AwsMachine, value: str) -> None:
    """A timeout is a number of seconds."""
    with pytest.raises(ProvideError, match="AWS_METADATA_SERVICE_TIMEOUT"):
        machine.find(AWS_EC2_METADATA_DISABLED="", AWS_METADATA_SERVICE_TIMEOUT=value)


def test_an_odd_mode_is_refused(machine: AwsMachine) -> None:
    """IPv4 or IPv6."""
    with pytest.raises(ProvideError, match="found 'IPv5', expected IPv4 or IPv6"):
        machine.find(AWS_EC2_METADATA_DISABLED="", AWS_EC2_METADATA_SERVICE_ENDPOINT_MODE="IPv5")


@pytest.mark.parametrize(
    "body",
    [
        b'<!DOCTYPE x [<!ENTITY a "b">]><AssumeRoleResult><Credentials>&a;</Credentials></AssumeRoleResult>',
        b"<AssumeRoleResult><Credentials><AccessKeyId>A</AccessKeyId></Credentials></AssumeRoleResult>",
        b"<Credentials><AccessKeyId>A&#10;</AccessKeyId><SecretAccessKey>a&#10;b</SecretAccessKey>"
        b"<SessionToken>marked-t</SessionToken></Credentials>",
        b"<Credentials><AccessKeyId>A</AccessKeyId><SecretAccessKey>marked-s</SecretAccessKey>"
        b"<SessionToken>marked-t</SessionToken><Expiration>marked-e</Expiration></Credentials>",
        b"{}",
        b"\xff\xfe",
        b"",
    ],
)
def test_an_answer_of_sts_that_is_none_is_refused(machine: AwsMachine, aws: FakeAws, body: bytes) -> None:
    """Entities, missing members, line breaks and garbage: an error that quotes none of it."""
    machine.write(f"[profile a]\nrole_arn = {ROLE}\nsource_profile = c\n", static("c"))
    aws.script["AssumeRole"] = [Reply(body=body)]
    with pytest.raises(ProvideError, match="sts AssumeRole") as caught:
        machine.find(AWS_PROFILE="a")
    assert "marked-" not in str(caught.value)


def test_a_redirect_is_not_followed(machine: AwsMachine, aws: FakeAws) -> None:
    """An answer that points elsewhere gets neither the request nor its credentials."""
    seen: list[Received] = []

    def elsewhere(received: Received) -> Reply:
        seen.append(received)
        return Reply()

    machine.write(f"[profile a]\nrole_arn = {ROLE}\nsource_profile = c\n", static("c"))
    with serving(elsewhere) as other:
        aws.script["AssumeRole"] = [Reply(307, headers={"Location": other.url})]
        with pytest.raises(ProvideError, match="status 307"):
            machine.find(AWS_PROFILE="a")
    assert seen == []
