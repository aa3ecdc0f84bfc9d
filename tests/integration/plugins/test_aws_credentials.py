"""Where AWS credentials come from: every source, in both orders, against endpoints that check what they are sent."""

import json
import stat
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from keyferry.sdk import Deadline, ProvideError
from keyferry_plugins.aws.chain import BOTOCORE, GO, find_credentials
from keyferry_plugins.aws.credentials import Credentials
from keyferry_plugins.aws.environment import Environment
from keyferry_plugins.aws.instance import instance_region
from support.aws_services import (
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
IDENTITY = "eyJhbGciOiJSUzI1NiJ9.marked-identity.token"


@pytest.fixture
def aws() -> FakeAws:
    """STS."""
    return FakeAws(identity_token=IDENTITY)


@pytest.fixture
def server(aws: FakeAws) -> Iterator[FakeServer]:
    """STS, on loopback."""
    with serving(aws) as running:
        yield running


class World:
    """A home, and what is found from it."""

    def __init__(self, home: Path, sts: str) -> None:
        self.home = home
        self.variables = {"HOME": str(home), "AWS_ENDPOINT_URL_STS": sts, "AWS_EC2_METADATA_DISABLED": "true"}

    def write(self, config: str = "", credentials: str = "") -> None:
        """Write the files of AWS."""
        folder = self.home / ".aws"
        folder.mkdir(exist_ok=True)
        (folder / "config").write_text(config)
        (folder / "credentials").write_text(credentials)

    def find(
        self, order: str = GO, *, profile: str = "", seconds: str = "20", **variables: str
    ) -> Credentials:
        """The credentials of a run with these *variables* on top."""
        told = {**self.variables, **variables}
        environment = Environment(told, Deadline(float(seconds)), profile=profile)
        return find_credentials(environment, region=REGION, order=order)


@pytest.fixture
def world(tmp_path: Path, server: FakeServer) -> World:
    """A home of its own."""
    return World(tmp_path, server.url)


def static(name: str, key: str = KEY, secret: str = SECRET) -> str:
    """A section with keys."""
    return f"[{name}]\naws_access_key_id = {key}\naws_secret_access_key = {secret}\n"


def test_keys_in_variables_go_first(world: World, aws: FakeAws) -> None:
    """Both spellings, with a session token, before every other source."""
    world.write(static("default", "AKIAPROFILE"))
    found = world.find(**KEYS, AWS_SESSION_TOKEN="t", AWS_WEB_IDENTITY_TOKEN_FILE="/nowhere")
    assert found == Credentials(KEY, SECRET, "t", source="environment variables")
    assert world.find(AWS_ACCESS_KEY="A", AWS_SECRET_KEY="b").access_key_id == "A"
    assert aws.calls == []


def test_a_profile_that_a_flag_names_wins_over_variables(world: World) -> None:
    """AWS_PROFILE does not, in either order."""
    world.write(static("default", "AKIADEFAULT") + static("profile x", "AKIAPROFILE"))
    for order in (GO, BOTOCORE):
        assert world.find(order, profile="x", **KEYS).access_key_id == "AKIAPROFILE"
        assert world.find(order, AWS_PROFILE="x", **KEYS).access_key_id == KEY


def test_half_a_pair_of_keys_is_passed_over_or_refused(world: World) -> None:
    """Go's SDK goes on, botocore stops."""
    world.write(static("default", "AKIAPROFILE"))
    assert world.find(AWS_ACCESS_KEY_ID=KEY).access_key_id == "AKIAPROFILE"
    with pytest.raises(ProvideError, match="AWS_SECRET_ACCESS_KEY is not; set both"):
        world.find(BOTOCORE, AWS_ACCESS_KEY_ID=KEY)


def test_a_key_with_a_line_break_is_refused(world: World) -> None:
    """What would break out of a header is found before it is sent, and not quoted."""
    with pytest.raises(ProvideError, match="no header can carry") as caught:
        world.find(AWS_ACCESS_KEY_ID=KEY, AWS_SECRET_ACCESS_KEY=SECRET, AWS_SESSION_TOKEN="a\r\nEvil: b")
    assert "Evil" not in str(caught.value)


def test_a_token_file_stands_for_its_role(world: World, aws: FakeAws) -> None:
    """IAM roles for service accounts: the token goes to STS unsigned, with the session name given."""
    path = world.home / "token"
    path.write_text(f"{IDENTITY}\n")
    told = {"AWS_WEB_IDENTITY_TOKEN_FILE": str(path), "AWS_ROLE_ARN": ROLE}
    found = world.find(**told, AWS_ROLE_SESSION_NAME="me")
    assert found.secret_access_key == aws.secrets[found.access_key_id]
    assert found.expires_at is not None
    assert aws.forms[-1] == {"RoleArn": ROLE, "RoleSessionName": "me"}
    world.find(**told)
    assert aws.forms[-1]["RoleSessionName"].isdigit()


def test_a_token_file_needs_a_role_and_a_token(world: World) -> None:
    """What is missing is named; what is in the file is not quoted."""
    path = world.home / "token"
    path.write_text("two words")
    with pytest.raises(ProvideError, match="AWS_ROLE_ARN is not"):
        world.find(AWS_WEB_IDENTITY_TOKEN_FILE=str(path))
    for content in ("two words", "", "\x00"):
        path.write_text(content)
        with pytest.raises(ProvideError, match="does not hold a token") as caught:
            world.find(AWS_WEB_IDENTITY_TOKEN_FILE=str(path), AWS_ROLE_ARN=ROLE)
        assert "two" not in str(caught.value)


def test_an_identity_that_sts_does_not_know_yet_is_tried_again(world: World, aws: FakeAws) -> None:
    """InvalidIdentityToken may pass; a denial does not."""
    path = world.home / "token"
    path.write_text(IDENTITY)
    told = {"AWS_WEB_IDENTITY_TOKEN_FILE": str(path), "AWS_ROLE_ARN": ROLE}
    aws.script["AssumeRoleWithWebIdentity"] = [sts_error("InvalidIdentityToken")]
    assert world.find(**told).access_key_id.startswith("ASIA")
    assert len(aws.calls) == 2
    aws.script["AssumeRoleWithWebIdentity"] = [sts_error("AccessDenied", f"not for {IDENTITY}")]
    with pytest.raises(ProvideError, match="grant sts:AssumeRoleWithWebIdentity on arn") as caught:
        world.find(**told)
    assert len(aws.calls) == 3
    assert "marked-identity" not in str(caught.value)


def test_a_profile_assumes_its_role_with_the_keys_of_another(world: World, aws: FakeAws) -> None:
    """Roles in a row: each is assumed with the credentials of the one before."""
    world.write(
        f"[profile a]\nrole_arn = {OTHER_ROLE}\nsource_profile = b\nexternal_id = ext\nduration_seconds = 900\n"
        f"role_session_name = me\n[profile b]\nrole_arn = {ROLE}\nsource_profile = c\n",
        static("c"),
    )
    for order in (GO, BOTOCORE):
        aws.calls.clear()
        found = world.find(order, AWS_PROFILE="a")
        assert [action for action, _ in aws.calls] == ["AssumeRole", "AssumeRole"]
        assert aws.calls[0][1] == KEY
        assert aws.calls[1][1].startswith("ASIAROLE")
        assert found.source == f"the role {OTHER_ROLE}"
        assert aws.forms[-1] == {
            "RoleArn": OTHER_ROLE, "RoleSessionName": "me", "ExternalId": "ext", "DurationSeconds": "900",
        }  # fmt: skip
        assert aws.forms[-2]["RoleSessionName"].startswith("keyferry-")


def test_a_profile_may_lean_on_its_own_keys(world: World, aws: FakeAws) -> None:
    """A profile that names itself is no circle, if it has keys."""
    world.write(static("profile a") + f"role_arn = {ROLE}\nsource_profile = a\n")
    assert world.find(AWS_PROFILE="a").source == f"the role {ROLE}"
    assert aws.calls == [("AssumeRole", KEY)]


@pytest.mark.parametrize("order", [GO, BOTOCORE])
def test_a_circle_of_profiles_is_found(world: World, aws: FakeAws, order: str) -> None:
    """No recursion without end, and no call."""
    world.write(
        f"[profile a]\nrole_arn = {ROLE}\nsource_profile = b\n[profile b]\nrole_arn = {ROLE}\nsource_profile = a\n"
    )
    with pytest.raises(ProvideError, match="the source profiles a -> b -> a go round in a circle"):
        world.find(order, AWS_PROFILE="a")
    assert aws.calls == []


@pytest.mark.parametrize(
    ("section", "words"),
    [
        ("source_profile = b\n", "has source_profile, and no role_arn"),
        (
            f"role_arn = {ROLE}\nsource_profile = gone\n",
            "names the source_profile 'gone', which does not exist",
        ),
        (f"role_arn = {ROLE}\nsource_profile = b\n", "'b', source_profile of 'a', has no credentials"),
        (f"role_arn = {ROLE}\ncredential_source = Cloud\n", "credential_source is 'Cloud', expected one of"),
        ("credential_source = Environment\n", "has credential_source, and no role_arn"),
        (f"role_arn = {ROLE}\ncredential_source = Environment\n", "no keys in variables"),
        (f"role_arn = {ROLE}\ncredential_source = EcsContainer\n", "the profile wants container credentials"),
        ("web_identity_token_file = /x\n", "has web_identity_token_file, and no role_arn"),
        ("aws_access_key_id = A\n", "aws_secret_access_key is missing"),
        ("login_session = arn:x\n", "aws configure export-credentials --profile a"),
        ("sso_session = gone\n", "names the sso-session 'gone', which is nowhere"),
        ("sso_start_url = https://x.test\n", "has no sso_region"),
        ("credential_process = 'unbalanced\n", "check its quotes"),
        (
            f"role_arn = {ROLE}\nsource_profile = c\nmfa_serial = arn:mfa\n",
            "code of the MFA device 'arn:mfa'",
        ),
        ("", "AWS_EC2_METADATA_DISABLED keeps"),
    ],
)
def test_a_profile_that_leads_nowhere_says_why(world: World, aws: FakeAws, section: str, words: str) -> None:
    """Every dead end has its own words, and is no reason to go on with somebody else's credentials."""
    world.write(f"[profile a]\n{section}[profile b]\nregion = x\n", static("c"))
    with pytest.raises(ProvideError, match=words):
        world.find(AWS_PROFILE="a")
    assert aws.calls == []


def test_a_profile_may_take_the_environments_keys(world: World, aws: FakeAws) -> None:
    """credential_source Environment, in any letter case, where a flag names the profile."""
    world.write(f"[profile a]\nrole_arn = {ROLE}\ncredential_source = environment\n")
    for order in (GO, BOTOCORE):
        assert world.find(order, profile="a", **KEYS).source == f"the role {ROLE}"
    assert aws.calls == [("AssumeRole", KEY)] * 2


def test_a_profile_may_have_a_token_file(world: World, aws: FakeAws) -> None:
    """Its role is assumed once, by the token."""
    path = world.home / "token"
    path.write_text(IDENTITY)
    world.write(f"[profile a]\nrole_arn = {ROLE}\nweb_identity_token_file = {path}\nrole_session_name = me\n")
    for order in (GO, BOTOCORE):
        assert world.find(order, AWS_PROFILE="a").source == f"the role {ROLE}"
    assert [action for action, _ in aws.calls] == ["AssumeRoleWithWebIdentity"] * 2
    assert aws.forms[-1]["RoleSessionName"] == "me"


def test_the_two_orders_differ_where_they_do(world: World, aws: FakeAws) -> None:
    """With a token file in variables and a role in the profile Go takes the first, botocore the second."""
    path = world.home / "token"
    path.write_text(IDENTITY)
    world.write(f"[profile a]\nrole_arn = {OTHER_ROLE}\nsource_profile = c\n", static("c"))
    told = {"AWS_PROFILE": "a", "AWS_WEB_IDENTITY_TOKEN_FILE": str(path), "AWS_ROLE_ARN": ROLE}
    assert world.find(GO, **told).source == f"the role {ROLE}"
    assert world.find(BOTOCORE, **told).source == f"the role {OTHER_ROLE}"
    world.write(static("profile a"))
    assert world.find(BOTOCORE, **told).source == f"the role {ROLE}"
    assert [action for action, _ in aws.calls] == [
        "AssumeRoleWithWebIdentity", "AssumeRole", "AssumeRoleWithWebIdentity",
    ]  # fmt: skip


def test_mfa_codes_are_asked_for(world: World, aws: FakeAws) -> None:
    """A role that wants a code gets what the user types."""
    world.write(f"[profile a]\nrole_arn = {ROLE}\nsource_profile = c\nmfa_serial = arn:mfa\n", static("c"))
    environment = Environment(
        {**world.variables, "AWS_PROFILE": "a"}, Deadline(20), ask_code=lambda _: "123456"
    )
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


def test_a_program_gives_credentials_without_a_shell(world: World) -> None:
    """Words are split as a shell splits them, and nothing in them is run or expanded."""
    witness = world.home / "witness"
    program = write_program(
        world.home,
        f"assert sys.argv[1:] == ['a b', '$HOME;touch', '{witness}', '|', 'x']; {giving()}",
    )
    world.write(f"[profile a]\ncredential_process = \"{program}\" 'a b' $HOME;touch {witness} | x\n")
    for order in (GO, BOTOCORE):
        found = world.find(order, AWS_PROFILE="a")
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
        (giving("marked-secret-value"), "no RFC 3339 time"),
        ("import time; time.sleep(60)", "did not end in time"),
        ("print('x' * (1 << 21))", "wrote more than"),
    ],
)  # fmt: skip
def test_a_program_that_fails_is_named_and_not_quoted(world: World, body: str, words: str) -> None:
    """Its output is in no message, and its time is bounded."""
    program = write_program(world.home, body)
    world.write(f'[profile a]\ncredential_process = "{program}"\n')
    with pytest.raises(ProvideError, match=words) as caught:
        world.find(AWS_PROFILE="a", seconds="2" if "sleep" in body else "20")
    assert "marked-secret-value" not in str(caught.value)


def test_keys_beside_a_program_follow_each_order(world: World) -> None:
    """Go takes keys first; botocore takes those of the config file last."""
    program = write_program(world.home, giving())
    world.write(static("profile a") + f'credential_process = "{program}"\n')
    assert world.find(GO, AWS_PROFILE="a").access_key_id == KEY
    assert world.find(BOTOCORE, AWS_PROFILE="a").access_key_id == "AKIAPROCESS"
    world.write(f'[profile a]\ncredential_process = "{program}"\n', static("a"))
    assert world.find(BOTOCORE, AWS_PROFILE="a").access_key_id == KEY


def test_a_containers_endpoint_is_asked(world: World) -> None:
    """The token of the file wins over that of the variable."""
    path = world.home / "token"
    path.write_text("from-the-file")
    with serving(container("from-the-file")) as endpoint:
        told = {"AWS_CONTAINER_CREDENTIALS_FULL_URI": f"{endpoint.url}/v1/credentials"}
        found = world.find(
            **told, AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE=str(path), AWS_CONTAINER_AUTHORIZATION_TOKEN="x"
        )
        assert found.access_key_id == KEY
        assert found.session_token == SESSION_TOKEN
        assert world.find(**told, AWS_CONTAINER_AUTHORIZATION_TOKEN="from-the-file").access_key_id == KEY
        with pytest.raises(ProvideError, match="status 403, AccessDenied: bad authorization") as caught:
            world.find(**told, AWS_CONTAINER_AUTHORIZATION_TOKEN="marked-wrong")
        assert "marked-wrong" not in str(caught.value)


def test_a_role_may_be_assumed_with_a_containers_credentials(world: World, aws: FakeAws) -> None:
    """credential_source EcsContainer."""
    aws.tokens[KEY] = SESSION_TOKEN
    world.write(f"[profile a]\nrole_arn = {ROLE}\ncredential_source = EcsContainer\n")
    with serving(container("")) as endpoint:
        uri = f"{endpoint.url}/v1/credentials"
        assert (
            world.find(AWS_PROFILE="a", AWS_CONTAINER_CREDENTIALS_FULL_URI=uri).source == f"the role {ROLE}"
        )
    assert aws.calls == [("AssumeRole", KEY)]


def test_a_role_without_a_source_follows_each_order(world: World, aws: FakeAws) -> None:
    """Go's SDK takes what the machine has, botocore wants to be told."""
    aws.tokens[KEY] = SESSION_TOKEN
    world.write(f"[profile a]\nrole_arn = {ROLE}\n")
    with serving(container("")) as endpoint:
        told = {"AWS_PROFILE": "a", "AWS_CONTAINER_CREDENTIALS_FULL_URI": f"{endpoint.url}/v1/credentials"}
        assert world.find(GO, **told).source == f"the role {ROLE}"
        with pytest.raises(ProvideError, match="neither source_profile nor credential_source"):
            world.find(BOTOCORE, **told)


def test_https_leads_a_container_anywhere(world: World, tmp_path: Path) -> None:
    """With TLS the endpoint may be any host, if its certificate is trusted."""
    authority = Authority(tmp_path)
    with serving(container("t"), authority.context("127.0.0.1")) as endpoint:
        told = {
            "AWS_CONTAINER_CREDENTIALS_FULL_URI": f"{endpoint.url}/v1/credentials",
            "AWS_CONTAINER_AUTHORIZATION_TOKEN": "t",
        }
        assert world.find(**told, AWS_CA_BUNDLE=str(authority.bundle)).access_key_id == KEY
        with pytest.raises(ProvideError, match="certificate is not trusted"):
            world.find(**told)
        with pytest.raises(ProvideError, match=r"the CA bundle .* does not exist"):
            world.find(**told, AWS_CA_BUNDLE="/nowhere/bundle.pem")


@pytest.mark.parametrize(
    "url",
    ["http://198.51.100.1/v1", "http://169.254.169.254/v1", "http://evil.test/v1", "http://127.0.0.1.evil.test/v1",
     "http://127.0.0.1@198.51.100.1/v1", "http://2130706433/v1", "http://[::ffff:198.51.100.1]/v1", "http://0.0.0.0/v1"],
)  # fmt: skip
def test_plain_http_goes_nowhere_else(world: World, url: str) -> None:
    """A URL that would send the token across a network is refused before anything is sent."""
    with pytest.raises(ProvideError, match="reached over plain http") as caught:
        world.find(AWS_CONTAINER_CREDENTIALS_FULL_URI=url, AWS_CONTAINER_AUTHORIZATION_TOKEN="marked")
    assert "marked" not in str(caught.value)


def test_a_container_token_with_a_line_break_is_refused(world: World) -> None:
    """No header is smuggled into the request."""
    told = {
        "AWS_CONTAINER_CREDENTIALS_FULL_URI": "http://127.0.0.1:1/",
        "AWS_CONTAINER_AUTHORIZATION_TOKEN": "a\r\nb: c",
    }
    with pytest.raises(ProvideError, match="line break"):
        world.find(**told)
    path = world.home / "token"
    path.write_text("a\nb")
    told["AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"] = str(path)
    with pytest.raises(ProvideError, match="line break"):
        world.find(**told)


def instance_variables(server: FakeServer, **more: str) -> dict[str, str]:
    """What leads to a fake metadata service."""
    return {"AWS_EC2_METADATA_DISABLED": "", "AWS_EC2_METADATA_SERVICE_ENDPOINT": f"{server.url}/", **more}


def test_an_instances_role_is_found_by_version_2(world: World) -> None:
    """The service here refuses every request without its token."""
    instance = FakeInstance()
    with serving(instance) as endpoint:
        found = world.find(**instance_variables(endpoint))
        assert found.source == "the instance metadata service (role node-role)"
        assert found.session_token == SESSION_TOKEN
        assert len(instance.issued) == 1
        environment = Environment({**world.variables, **instance_variables(endpoint)}, Deadline(20))
        assert instance_region(environment) == REGION


def test_a_role_may_be_assumed_with_an_instances_credentials(world: World, aws: FakeAws) -> None:
    """credential_source Ec2InstanceMetadata."""
    aws.tokens[KEY] = SESSION_TOKEN
    world.write(f"[profile a]\nrole_arn = {ROLE}\ncredential_source = Ec2InstanceMetadata\n")
    with serving(FakeInstance()) as endpoint:
        assert world.find(AWS_PROFILE="a", **instance_variables(endpoint)).source == f"the role {ROLE}"
    assert aws.calls == [("AssumeRole", KEY)]


def test_where_there_is_no_instance_there_is_no_region(world: World) -> None:
    """That it cannot be asked is no error: another default follows."""
    told = {
        "AWS_EC2_METADATA_SERVICE_ENDPOINT": "http://127.0.0.1:1",
        "AWS_METADATA_SERVICE_NUM_ATTEMPTS": "1",
    }
    for disabled in ("true", ""):
        variables = {**world.variables, **told, "AWS_EC2_METADATA_DISABLED": disabled}
        assert instance_region(Environment(variables, Deadline(20))) == ""


@pytest.mark.parametrize("body", [b"", b"a token\r\nEvil: x", b"\xff"])
def test_a_metadata_token_that_is_none_is_refused(world: World, body: bytes) -> None:
    """What cannot be a header's value is not sent as one."""
    with serving(lambda _: Reply(body=body)) as endpoint, pytest.raises(ProvideError, match="is not a token"):
        world.find(**instance_variables(endpoint))


@pytest.mark.parametrize("status", [403, 404, 405])
def test_version_1_is_used_where_there_is_no_other(world: World, status: int) -> None:
    """Unless that is forbidden."""
    with serving(FakeInstance(token_status=status, is_v1_allowed=True)) as endpoint:
        assert world.find(**instance_variables(endpoint)).access_key_id == KEY
        with pytest.raises(ProvideError, match="version 1 is not tried"):
            world.find(**instance_variables(endpoint, AWS_EC2_METADATA_V1_DISABLED="true"))


def test_a_token_that_never_comes_leads_to_version_1(world: World) -> None:
    """A hop limit swallows the token's answer, not the others."""
    told = {"AWS_METADATA_SERVICE_TIMEOUT": "0.4", "AWS_METADATA_SERVICE_NUM_ATTEMPTS": "1"}
    with serving(FakeInstance(token_delay=1.5, is_v1_allowed=True)) as endpoint:
        assert world.find(**instance_variables(endpoint, **told)).access_key_id == KEY


def test_a_bad_token_request_is_final(world: World) -> None:
    """400 is not an old service, it is a wrong request."""
    instance = FakeInstance(token_status=400, is_v1_allowed=True)
    with serving(instance) as endpoint, pytest.raises(ProvideError, match="status 400"):
        world.find(**instance_variables(endpoint))


def test_a_stale_metadata_token_is_replaced_once(world: World) -> None:
    """A 401 on data drops the token; a second one is final."""
    with serving(FakeInstance(stale_tokens=1)) as endpoint:
        assert world.find(**instance_variables(endpoint)).access_key_id == KEY
    with serving(FakeInstance(stale_tokens=99)) as endpoint:
        with pytest.raises(ProvideError, match="status 401") as caught:
            world.find(**instance_variables(endpoint))
        assert "marked-metadata-token" not in str(caught.value)


@pytest.mark.parametrize(
    ("instance", "words"),
    [
        (FakeInstance(role=""), "attach an IAM role"),
        (FakeInstance(code="Failed"), "Code is 'Failed', expected 'Success'"),
        (FakeInstance(secret=""), "has no SecretAccessKey"),
    ],
)
def test_an_instance_without_credentials_says_so(world: World, instance: FakeInstance, words: str) -> None:
    """No role, no success, no key."""
    with serving(instance) as endpoint, pytest.raises(ProvideError, match=words):
        world.find(**instance_variables(endpoint))


def test_without_any_source_the_advice_names_them(world: World) -> None:
    """Nothing configured, and no instance: what could be set is said."""
    told = {"AWS_EC2_METADATA_DISABLED": "", "AWS_EC2_METADATA_SERVICE_ENDPOINT": "http://127.0.0.1:1"}
    with pytest.raises(ProvideError, match=r"no AWS credentials were found.*set AWS_ACCESS_KEY_ID"):
        world.find(**told, AWS_METADATA_SERVICE_NUM_ATTEMPTS="1")


@pytest.mark.parametrize("value", ["nan", "inf", "-1", "0", "x", "1e9", "601"])
def test_odd_limits_are_refused(world: World, value: str) -> None:
    """A timeout is a number of seconds."""
    with pytest.raises(ProvideError, match="AWS_METADATA_SERVICE_TIMEOUT"):
        world.find(AWS_EC2_METADATA_DISABLED="", AWS_METADATA_SERVICE_TIMEOUT=value)


def test_an_odd_mode_is_refused(world: World) -> None:
    """IPv4 or IPv6."""
    with pytest.raises(ProvideError, match="found 'IPv5', expected IPv4 or IPv6"):
        world.find(AWS_EC2_METADATA_DISABLED="", AWS_EC2_METADATA_SERVICE_ENDPOINT_MODE="IPv5")


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
def test_an_answer_of_sts_that_is_none_is_refused(world: World, aws: FakeAws, body: bytes) -> None:
    """Entities, missing members, line breaks and garbage: an error that quotes none of it."""
    world.write(f"[profile a]\nrole_arn = {ROLE}\nsource_profile = c\n", static("c"))
    aws.script["AssumeRole"] = [Reply(body=body)]
    with pytest.raises(ProvideError, match="sts AssumeRole") as caught:
        world.find(AWS_PROFILE="a")
    assert "marked-" not in str(caught.value)


def test_a_redirect_is_not_followed(world: World, aws: FakeAws) -> None:
    """An answer that points elsewhere gets neither the request nor its credentials."""
    seen: list[Received] = []

    def elsewhere(received: Received) -> Reply:
        seen.append(received)
        return Reply()

    world.write(f"[profile a]\nrole_arn = {ROLE}\nsource_profile = c\n", static("c"))
    with serving(elsewhere) as other:
        aws.script["AssumeRole"] = [Reply(307, headers={"Location": other.url})]
        with pytest.raises(ProvideError, match="status 307"):
            world.find(AWS_PROFILE="a")
    assert seen == []
