"""What variables and the two AWS files say, the endpoints that follow from it, and what AWS refuses with."""

from __future__ import annotations

from pathlib import Path

import pytest

from keyferry.sdk import Deadline, ProvideError
from keyferry.sdk.http import Reply
from keyferry_plugins.aws.calls import Refusal, is_transient, read_refusal, xml_element, xml_text
from keyferry_plugins.aws.endpoints import ECR, ECR_PUBLIC, STS, find_endpoint, partition_of, standard_host
from keyferry_plugins.aws.environment import Environment, load_shared_config, parse_sections


def environment(**variables: str) -> Environment:
    """Settings from *variables* alone."""
    return Environment({"HOME": "/nowhere", **variables}, Deadline(5))


def test_the_region_is_found_in_order(tmp_path: Path) -> None:
    """Flag, AWS_REGION, AWS_DEFAULT_REGION, profile."""
    config = tmp_path / "config"
    config.write_text("[default]\nregion = filed-1\n")
    told = {"AWS_CONFIG_FILE": str(config), "AWS_DEFAULT_REGION": "default-1", "AWS_REGION": "first-1"}
    assert Environment(told, Deadline(5), region="flag-1").find_region() == "flag-1"
    assert environment(**told).find_region() == "first-1"
    assert environment(**told).find_region(reads_aws_region=False) == "default-1"
    assert environment(AWS_CONFIG_FILE=str(config)).find_region() == "filed-1"
    assert not environment().find_region()


def test_a_profile_that_is_asked_for_must_exist(tmp_path: Path) -> None:
    """AWS_PROFILE with a name that is nowhere is an error, the default profile may be missing."""
    environment = Environment({"HOME": str(tmp_path), "AWS_PROFILE": "gone"}, Deadline(5))
    with pytest.raises(ProvideError, match=r"the AWS profile 'gone' is in neither .*; check AWS_PROFILE"):
        environment.profile_text("region")
    assert not Environment({"HOME": str(tmp_path)}, Deadline(5)).profile_text("region")


def test_the_profile_in_use_is_found_in_order() -> None:
    """Flag, AWS_PROFILE, AWS_DEFAULT_PROFILE, default."""
    told = {"AWS_PROFILE": "first", "AWS_DEFAULT_PROFILE": "second"}
    assert Environment(told, Deadline(5), profile="flag").profile_name == "flag"
    assert Environment(told, Deadline(5)).profile_name == "first"
    assert Environment({"AWS_DEFAULT_PROFILE": "second"}, Deadline(5)).profile_name == "second"
    assert Environment({}, Deadline(5)).profile_name == "default"


def test_attempts_are_a_number() -> None:
    """AWS_MAX_ATTEMPTS is taken, bounded, and refused if it is no number."""
    assert Environment({"HOME": "/nowhere"}, Deadline(5)).attempts() == 3
    assert Environment({"HOME": "/nowhere", "AWS_MAX_ATTEMPTS": "7"}, Deadline(5)).attempts() == 7
    assert Environment({"HOME": "/nowhere", "AWS_MAX_ATTEMPTS": "0"}, Deadline(5)).attempts() == 1000
    with pytest.raises(ProvideError, match="found 'many', expected a number"):
        Environment({"HOME": "/nowhere", "AWS_MAX_ATTEMPTS": "many"}, Deadline(5)).attempts()


CONFIG = """\
\ufeff# a comment
[default]
Region = us-west-2   ; the usual one
output=json

[profile dev]  # trailing
role_arn = arn:aws:iam::123456789012:role/dev
source_profile = default
credential_process = /bin/get creds#not-a-comment
s3 =
  max_concurrent_requests = 20
  addressing_style = path
\tuse_accelerate_endpoint = true

[profile "quoted"]
region = eu-west-1
[sso-session corp]
sso_region = us-east-1
sso_start_url = https://corp.awsapps.test/start
[services local]
ecr =
    endpoint_url = http://127.0.0.1:5000
sts =
    endpoint_url = http://127.0.0.1:5001
[unfinished
region = nowhere-1
no equals sign
"""


def test_sections_keys_and_nested_keys_are_read() -> None:
    """Keys are lower case, comments go, indented keys belong to the one above."""
    sections = parse_sections(CONFIG)
    assert sections["default"] == {"region": "us-west-2", "output": "json"}
    assert sections["profile dev"]["credential_process"] == "/bin/get creds#not-a-comment"
    assert sections["profile dev"]["s3"] == {
        "max_concurrent_requests": "20",
        "addressing_style": "path",
        "use_accelerate_endpoint": "true",
    }
    assert sections["services local"]["sts"] == {"endpoint_url": "http://127.0.0.1:5001"}
    assert "unfinished" not in sections


def test_an_indented_line_goes_on_with_a_value() -> None:
    """What follows a value, indented, is more of it."""
    assert parse_sections("[default]\nkey = one\n  two\n")["default"]["key"] == "one\ntwo"


def test_a_line_outside_of_any_section_is_passed_over() -> None:
    """As in AWS' SDKs what cannot be placed is no error."""
    assert parse_sections("key = value\n  more\n= empty\n[x]\n= y\nz") == {"x": {}}


def test_both_files_make_profiles(tmp_path: Path) -> None:
    """Names lose their kind, the credentials file wins, and a session token stays with its key."""
    config, credentials = tmp_path / "config", tmp_path / "credentials"
    config.write_text(
        "[default]\nregion = a-b-1\n[profile default]\nregion = c-d-1\n[profile x]\nregion = e-f-1\n"
        "aws_access_key_id = OLD\naws_secret_access_key = old\naws_session_token = old-token\n"
        "[ignored]\nregion = g-h-1\n"
    )
    credentials.write_text("[x]\naws_access_key_id = NEW\naws_secret_access_key = new\n[y]\nregion = z\n")
    found = load_shared_config(str(config), str(credentials))
    assert found.profiles["default"] == {"region": "c-d-1"}
    assert found.profiles["x"] == {
        "region": "e-f-1", "aws_access_key_id": "NEW", "aws_secret_access_key": "new",
    }  # fmt: skip
    assert set(found.profiles) == {"default", "x", "y"}
    assert found.keyed == {"x"}


def test_a_file_that_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    """A folder in place of the file is said; a missing file is not."""
    with pytest.raises(ProvideError, match=r"the AWS config file .* cannot be read"):
        load_shared_config(str(tmp_path), str(tmp_path / "none"))
    assert load_shared_config(str(tmp_path / "none"), str(tmp_path / "none")).profiles == {"default": {}}


HOSTS = [
    (ECR, "us-west-2", False, False, "api.ecr.us-west-2.amazonaws.com"),
    (ECR, "us-west-2", False, True, "ecr.us-west-2.api.aws"),
    (ECR, "us-west-2", True, False, "api.ecr-fips.us-west-2.amazonaws.com"),
    (ECR, "us-west-2", True, True, "ecr-fips.us-west-2.api.aws"),
    (ECR, "cn-north-1", False, False, "api.ecr.cn-north-1.amazonaws.com.cn"),
    (ECR, "cn-north-1", False, True, "ecr.cn-north-1.api.amazonwebservices.com.cn"),
    (ECR, "us-gov-west-1", True, False, "api.ecr-fips.us-gov-west-1.amazonaws.com"),
    (ECR, "eusc-de-east-1", False, False, "api.ecr.eusc-de-east-1.amazonaws.eu"),
    (ECR, "us-iso-east-1", False, False, "api.ecr.us-iso-east-1.c2s.ic.gov"),
    (ECR, "us-isob-east-1", False, False, "api.ecr.us-isob-east-1.sc2s.sgov.gov"),
    (ECR, "eu-isoe-west-1", False, False, "api.ecr.eu-isoe-west-1.cloud.adc-e.uk"),
    (ECR, "us-isof-east-1", False, False, "api.ecr.us-isof-east-1.csp.hci.ic.gov"),
    (ECR_PUBLIC, "us-east-1", False, False, "api.ecr-public.us-east-1.amazonaws.com"),
    (ECR_PUBLIC, "us-east-1", False, True, "ecr-public.us-east-1.api.aws"),
    (ECR_PUBLIC, "us-east-1", True, False, "api.ecr-public-fips.us-east-1.amazonaws.com"),
    (ECR_PUBLIC, "us-east-1", True, True, "api.ecr-public-fips.us-east-1.api.aws"),
    (STS, "us-west-2", False, False, "sts.us-west-2.amazonaws.com"),
    (STS, "us-west-2", False, True, "sts.us-west-2.api.aws"),
    (STS, "us-west-2", True, False, "sts-fips.us-west-2.amazonaws.com"),
    (STS, "us-west-2", True, True, "sts-fips.us-west-2.api.aws"),
    (STS, "us-gov-west-1", True, False, "sts.us-gov-west-1.amazonaws.com"),
    (STS, "us-gov-west-1", True, True, "sts-fips.us-gov-west-1.api.aws"),
    (STS, "cn-northwest-1", False, False, "sts.cn-northwest-1.amazonaws.com.cn"),
    (STS, "aws-global", False, False, "sts.amazonaws.com"),
]


@pytest.mark.parametrize(("service", "region", "is_fips", "is_dual_stack", "host"), HOSTS)
def test_a_host_follows_from_service_region_and_kind(
    service: str,
    region: str,
    is_fips: bool,
    is_dual_stack: bool,
    host: str,
) -> None:
    """The standard endpoints are those of AWS' own data."""
    assert standard_host(service, region, is_fips=is_fips, is_dual_stack=is_dual_stack) == host


@pytest.mark.parametrize("region", ["eu-isoe-west-1", "us-isof-east-1"])
def test_there_is_no_dual_stack_everywhere(region: str) -> None:
    """A partition without dual-stack endpoints is said, not guessed at."""
    with pytest.raises(ProvideError, match="no dual-stack endpoint in the partition aws-iso-"):
        standard_host(ECR, region, is_dual_stack=True)


def test_variables_choose_the_kind() -> None:
    """FIPS and dual-stack are switched by variables, in any letter case."""
    wishes = environment(AWS_USE_FIPS_ENDPOINT="True", AWS_USE_DUALSTACK_ENDPOINT="true")
    assert find_endpoint(wishes, ECR, "us-east-2").url == "https://ecr-fips.us-east-2.api.aws/"
    off = environment(AWS_USE_FIPS_ENDPOINT="false", AWS_USE_DUALSTACK_ENDPOINT="1")
    assert find_endpoint(off, ECR, "us-east-2").url == "https://api.ecr.us-east-2.amazonaws.com/"


def test_a_configured_endpoint_wins_in_order(tmp_path: Path) -> None:
    """The service's own variable goes first, then the general one, then the profile's two."""
    config = tmp_path / "config"
    config.write_text(
        "[default]\nservices = mine\nendpoint_url = https://general.test\n"
        "[services mine]\necr_public =\n  endpoint_url = https://section.test\n"
    )
    told = {"AWS_CONFIG_FILE": str(config)}
    public = {
        **told,
        "AWS_ENDPOINT_URL_ECR_PUBLIC": "https://own.test",
        "AWS_ENDPOINT_URL": "https://all.test",
    }
    assert find_endpoint(environment(**public), ECR_PUBLIC, "us-east-1").url == "https://own.test"
    assert find_endpoint(environment(**public), STS, "us-east-1").url == "https://all.test"
    assert find_endpoint(environment(**told), ECR_PUBLIC, "us-east-1").url == "https://section.test"
    assert find_endpoint(environment(**told), ECR, "us-east-1").url == "https://general.test"
    ignored = environment(**public, AWS_IGNORE_CONFIGURED_ENDPOINT_URLS="true")
    assert find_endpoint(ignored, STS, "us-east-1").url == "https://sts.us-east-1.amazonaws.com/"


def test_no_region_is_an_error_that_says_what_to_set() -> None:
    """Without a region there is no endpoint, and no signature."""
    with pytest.raises(ProvideError, match="set AWS_REGION"):
        find_endpoint(environment(AWS_ENDPOINT_URL="https://all.test"), STS, "")


@pytest.mark.parametrize(
    ("region", "partition"),
    [
        ("us-west-2", "aws"), ("eu-central-1", "aws"), ("ap-southeast-7", "aws"), ("sa-east-1", "aws"),
        ("ca-west-1", "aws"), ("me-central-1", "aws"), ("af-south-1", "aws"), ("il-central-1", "aws"),
        ("mx-central-1", "aws"), ("cn-north-1", "aws-cn"), ("us-gov-east-1", "aws-us-gov"),
        ("eusc-de-east-1", "aws-eusc"), ("us-iso-east-1", "aws-iso"), ("us-isob-east-1", "aws-iso-b"),
        ("eu-isoe-west-1", "aws-iso-e"), ("us-isof-south-1", "aws-iso-f"), ("lala-land-1", "aws"), ("", "aws"),
    ],
)  # fmt: skip
def test_a_partition_follows_from_the_region(region: str, partition: str) -> None:
    """Every region belongs to one partition, an unknown one to the first."""
    assert partition_of(region).name == partition


def reply(status: int, body: bytes, **headers: str) -> Reply:
    """An answer of a server."""
    fields = tuple((name.replace("_", "-"), value) for name, value in headers.items())
    return Reply(url="https://x.test/", status=status, headers=fields, body=body)


@pytest.mark.parametrize(
    ("answer", "code", "message"),
    [
        (reply(400, b'{"__type":"com.amazon#AccessDeniedException","message":"no"}'), "AccessDeniedException", "no"),
        (reply(400, b'{"__type":"ServerException","Message":"no"}'), "ServerException", "no"),
        (reply(403, b'{"message":"no"}', x_amzn_errortype="ForbiddenException:http://x"), "ForbiddenException", "no"),
        (reply(403, b"<ErrorResponse><Error><Code>A</Code><Message>b</Message></Error></ErrorResponse>"), "A", "b"),
        (reply(400, b'{"code":"X","message":"y"}'), "X", "y"),
        (reply(500, b"garbage"), "", ""),
        (reply(500, b"[1]"), "", ""),
        (reply(400, b'{"__type":"secret with blanks"}'), "", ""),
    ],
)  # fmt: skip
def test_codes_and_messages_are_read(answer: Reply, code: str, message: str) -> None:
    """Both protocols, all spellings; what is no code is not shown as one."""
    assert read_refusal(answer) == Refusal(code=code, message=message)


@pytest.mark.parametrize(
    ("answer", "is_retried"),
    [
        (reply(200, b"{}"), False),
        (reply(500, b""), True),
        (reply(502, b""), True),
        (reply(503, b""), True),
        (reply(504, b""), True),
        (reply(400, b'{"__type":"ThrottlingException"}'), True),
        (reply(400, b'{"__type":"RequestLimitExceeded"}'), True),
        (reply(400, b"<E><Error><Code>Throttling</Code></Error></E>"), True),
        (reply(400, b'{"__type":"AccessDeniedException"}'), False),
        (reply(403, b""), False),
        (reply(400, b"<E><Error><Code>InvalidIdentityToken</Code></Error></E>"), False),
    ],
)
def test_what_may_pass_is_tried_again(answer: Reply, is_retried: bool) -> None:
    """Throttling and faults of the server are transient, refusals are not."""
    assert is_transient(answer) is is_retried


def test_a_call_can_add_codes_to_try_again() -> None:
    """A token that STS does not know yet is tried again where identity tokens are used."""
    answer = reply(400, b"<E><Error><Code>InvalidIdentityToken</Code></Error></E>")
    assert is_transient(answer, frozenset(("InvalidIdentityToken",)))


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("AccessDeniedException", "grant ecr:GetAuthorizationToken to the role or user of the credentials from here"),
        ("ExpiredTokenException", "the credentials from here have expired"),
        ("UnrecognizedClientException", "AWS does not accept the credentials from here"),
        ("InvalidIdentityToken", "identity provider in IAM"),
        ("ThrottlingException", "AWS throttles the requests"),
        ("Strange", ""),
    ],
)  # fmt: skip
def test_a_refusal_says_what_to_do(code: str, words: str) -> None:
    """Every usual code has its advice."""
    assert words in Refusal(code=code).advice("ecr:GetAuthorizationToken", "here")


def test_texts_are_taken_out_of_xml() -> None:
    """An element is found by its whole name, its text is unescaped."""
    body = b'<ErrorResponse xmlns="x"><Error><Code>A</Code><Message>a &lt;b&gt; &amp;amp; &#x41;&#66; &no;</Message>'
    inside = xml_element(body + b"</Error></ErrorResponse>", "Error", "there")
    assert xml_text(inside, "Code") == "A"
    assert xml_text(inside, "Message") == "a <b> &amp; AB &no;"
    assert not xml_text(inside, "Mess")
    assert not xml_element(b"<Errors>x</Errors>", "Error", "there")
    assert not xml_text("<A><B>x</B></A>", "A")
    assert xml_text("<A</A><A <A>x</A>", "A") == "x"
    assert not xml_text("<A <A <A </A", "A")
    assert xml_text("<A>&#xD800;&#0;&#x110000;&#zz;</A>", "A") == "&#xD800;&#0;&#x110000;&#zz;"


@pytest.mark.parametrize(
    "body",
    [
        b'<!DOCTYPE a [<!ENTITY b "c">]><Error><Code>&b;</Code></Error>',
        b"<Error><Code><![CDATA[x]]></Code></Error>",
        b"<!-- x --><Error/>",
    ],
)
def test_xml_with_declarations_is_refused(body: bytes) -> None:
    """Entities are never declared in an answer of AWS."""
    with pytest.raises(ProvideError, match="declaration"):
        xml_element(body, "Error", "there")
