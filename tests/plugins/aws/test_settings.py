"""What variables and the two AWS files say, and the endpoints that follow from it."""

from __future__ import annotations

from pathlib import Path

import pytest

from keyferry.sdk import ProvideError
from keyferry_plugins.aws.endpoints import ECR, ECR_PUBLIC, STS, standard_host
from support.aws_machine import GO, AwsMachine, assert_failed
from support.aws_services import KEY, KEYS, SECRET


@pytest.fixture
def desk(tmp_path: Path) -> AwsMachine:
    """Somebody's machine, with keys and a region, and no endpoint but AWS' own."""
    return AwsMachine(tmp_path, **KEYS, AWS_REGION="us-west-2")


def test_the_region_is_found_in_order(desk: AwsMachine) -> None:
    """Flag, AWS_REGION, AWS_DEFAULT_REGION, profile."""
    desk.write("[default]\nregion = filed-1\n")
    desk.env |= {"AWS_REGION": "first-1", "AWS_DEFAULT_REGION": "default-1"}
    assert desk.token(*GO, "--region", "flag-1").region == "flag-1"
    assert desk.token(*GO).region == "first-1"
    assert desk.token(*GO, drop="AWS_REGION").region == "default-1"
    assert desk.token(*GO, drop="AWS_REGION AWS_DEFAULT_REGION").region == "filed-1"


def test_the_profile_in_use_is_found_in_order(desk: AwsMachine) -> None:
    """Flag, AWS_PROFILE, AWS_DEFAULT_PROFILE, default; one that is asked for must exist."""
    names = ("default", "profile flag", "profile first", "profile second")
    both = {"AWS_PROFILE": "first", "AWS_DEFAULT_PROFILE": "second"}

    def region(*args: str, **env: str) -> str:
        return desk.token(*GO, *args, drop="AWS_REGION", **env).region

    desk.write("".join(
        f"[{name}]\nregion = {name.split()[-1]}-1\naws_access_key_id = A\naws_secret_access_key = {SECRET}\n"
        for name in names
    ))  # fmt: skip
    assert region("--profile", "flag", **both) == "flag-1"
    assert region(**both) == "first-1"
    assert region(AWS_DEFAULT_PROFILE="second") == "second-1"
    assert region() == "default-1"
    said = assert_failed(desk.ask_eks(*GO, "--profile", "gone"))
    assert "the AWS profile 'gone' is in neither" in said
    assert "check AWS_PROFILE" in said


CONFIG = f"""\
# a comment
key = outside of any section
  more
[default]
Region = us-west-1   ; the usual one
output=json

[profile dev]  # trailing
services = local
region = eu-north-1
credential_process = /bin/echo '{{"Version":1,"AccessKeyId":"AKIA#not-a-comment","SecretAccessKey":"{SECRET}"}}'
s3 =
  max_concurrent_requests = 20
  region = nested-1
\tuse_accelerate_endpoint = true

[profile "quoted"]
region = eu-west-1
= empty
no equals sign
[services local]
ecr =
    endpoint_url = http://127.0.0.1:5000
sts =
    endpoint_url = http://127.0.0.1:5001
[unfinished
region = nowhere-1
"""


def test_sections_keys_and_nested_keys_are_read(desk: AwsMachine) -> None:
    """Keys are lower case, comments go, indented keys belong to the one above; what cannot be placed is no error."""
    desk.write(CONFIG)
    gone = "AWS_REGION"
    assert desk.token(*GO, drop=gone).region == "us-west-1"
    assert desk.token(*GO, drop=gone, AWS_PROFILE="quoted").region == "eu-west-1"
    dev = desk.token(*GO, "--profile", "dev", "--compat", drop=gone)
    assert (dev.key, dev.region) == ("AKIA#not-a-comment", "eu-north-1")
    assert dev.url.startswith("http://127.0.0.1:5001/?")
    assert "'unfinished' is in neither" in assert_failed(desk.ask_eks(*GO, "--profile", "unfinished"))


def test_an_indented_line_goes_on_with_a_value(desk: AwsMachine) -> None:
    """What follows a value, indented, is more of it; a byte order mark is nothing."""
    desk.write("\ufeff[default]\nsso_session = one\n  two\n")
    said = assert_failed(desk.ask_eks(*GO, "--profile", "default"))
    assert "the sso-session 'one\\ntwo'" in said


def test_both_files_make_profiles(desk: AwsMachine) -> None:
    """Names lose their kind, the credentials file wins, and a session token stays with its key."""
    desk.write(
        "[default]\nregion = a-b-1\n[profile default]\nregion = c-d-1\n[profile x]\nregion = e-f-1\n"
        "aws_access_key_id = OLD\naws_secret_access_key = old\naws_session_token = old-token\n"
        "[ignored]\nregion = g-h-1\n",
        f"[x]\naws_access_key_id = NEW\naws_secret_access_key = {SECRET}\n[y]\nregion = z\n",
    )
    gone = "AWS_REGION"
    assert desk.token(*GO, drop=gone).region == "c-d-1"
    found = desk.token(*GO, "--profile", "x", drop=gone)
    assert (found.key, found.session_token, found.region) == ("NEW", "", "e-f-1")
    assert desk.token(*GO, drop=gone, AWS_PROFILE="y").region == "z"
    assert "'ignored' is in neither" in assert_failed(desk.ask_eks(*GO, "--profile", "ignored"))


def test_a_file_that_cannot_be_read_is_an_error(desk: AwsMachine) -> None:
    """A folder in place of the file is said; a missing file is not."""
    assert desk.token(*GO, AWS_CONFIG_FILE="/nowhere/config").key == KEY
    said = assert_failed(desk.ask_eks(*GO, drop="AWS_REGION", AWS_CONFIG_FILE=str(desk.home)))
    assert f"the AWS config file '{desk.home}' cannot be read" in said


@pytest.mark.parametrize(
    ("service", "region", "is_fips", "is_dual_stack", "host"),
    [
        (ECR, "us-west-2", False, False, "api.ecr.us-west-2.amazonaws.com"),
        (ECR, "us-west-2", False, True, "ecr.us-west-2.api.aws"),
        (ECR, "us-west-2", True, False, "api.ecr-fips.us-west-2.amazonaws.com"),
        (ECR, "us-west-2", True, True, "ecr-fips.us-west-2.api.aws"),
        (ECR, "il-central-1", False, False, "api.ecr.il-central-1.amazonaws.com"),
        (ECR, "mx-central-1", False, False, "api.ecr.mx-central-1.amazonaws.com"),
        (ECR, "lala-land-1", False, False, "api.ecr.lala-land-1.amazonaws.com"),
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
    ],
)
def test_a_host_follows_from_service_region_and_kind(
    service: str, region: str, is_fips: bool, is_dual_stack: bool, host: str
) -> None:
    """The standard endpoints are those of AWS' own data."""
    assert standard_host(service, region, is_fips=is_fips, is_dual_stack=is_dual_stack) == host


@pytest.mark.parametrize("region", ["eu-isoe-west-1", "us-isof-east-1"])
def test_there_is_no_dual_stack_everywhere(region: str) -> None:
    """A partition without dual-stack endpoints is said, not guessed at."""
    with pytest.raises(ProvideError, match="no dual-stack endpoint in the partition aws-iso-"):
        standard_host(ECR, region, is_dual_stack=True)


def test_a_configured_endpoint_wins_in_order(desk: AwsMachine) -> None:
    """The service's own variable goes first, then the general one, then the profile's two. --compat shows which."""
    general = "[default]\nservices = mine\nendpoint_url = https://general.test\n"
    desk.write(f"{general}[services mine]\nsts =\n  endpoint_url = https://section.test\n")
    everything = {"AWS_ENDPOINT_URL_STS": "https://own.test", "AWS_ENDPOINT_URL": "https://all.test"}

    def host(**env: str) -> str:
        return desk.token(*GO, "--compat", **env).host

    assert host(**everything) == "own.test"
    assert host(AWS_ENDPOINT_URL="https://all.test") == "all.test"
    assert host() == "section.test"
    desk.write(general)
    assert host() == "general.test"
    ignored = host(**everything, AWS_IGNORE_CONFIGURED_ENDPOINT_URLS="true")
    assert ignored == "sts.us-west-2.amazonaws.com"
