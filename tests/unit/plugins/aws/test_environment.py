"""What variables and the two AWS files say: region, profile, attempts and timeouts."""

from __future__ import annotations

from pathlib import Path

import pytest

from keyferry.sdk import Deadline, ProvideError
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
