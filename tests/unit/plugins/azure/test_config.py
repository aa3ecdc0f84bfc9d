"""The node's cloud config: JSON, simple YAML, and neither."""

from __future__ import annotations

import pytest

from keyferry.sdk import ProvideError
from keyferry_plugins.azure.config import Config, parse_config


@pytest.mark.parametrize(
    "text",
    [
        '{"tenantId": "t", "useManagedIdentityExtension": true, "userAssignedIdentityID": "007", "other": [1]}',
        '{"TENANTID": "t", "usemanagedidentityextension": true, "UserAssignedIdentityId": "007"}',
        '{"tenantID": "old", "tenantId": "t", "useManagedIdentityExtension": "true", "userAssignedIdentityID": "007"}',
        "tenantId: t\nuseManagedIdentityExtension: yes\nuserAssignedIdentityID: 007\n",
        "---\ntenantId: 't'\nuseManagedIdentityExtension: true\nuserAssignedIdentityID: \"007\"\nother: {a: [b]}\n",
        "{tenantId: t, useManagedIdentityExtension: true, userAssignedIdentityID: 007}",
        "x: &x [1, 2]\ny: [*x, *x]\ntenantId: t\nuseManagedIdentityExtension: on\nuserAssignedIdentityID: 007",
    ],
)
def test_the_same_config_in_many_spellings(text: str) -> None:
    """Keys in any case, the last of two wins, numbers keep their spelling, unknown keys do not matter."""
    expected = Config(tenant_id="t", use_managed_identity=True, user_assigned_identity="007")
    assert parse_config(text.encode(), "here") == expected


@pytest.mark.parametrize("text", ["", " \n", "{}", "# nothing\n", "\ufeff", "null_key: ~"])
def test_an_empty_file_is_an_empty_config(text: str) -> None:
    """As upstream has it."""
    assert parse_config(text.encode(), "here") == Config()


@pytest.mark.parametrize(
    "text", ["just text", "- a\n- b", "[1]", "7", '{"a": ', "a: b: c", "a\n\tb: c", "{" * 20_000]
)
def test_what_is_no_mapping_is_refused(text: str) -> None:
    """With the file's name and none of its content."""
    with pytest.raises(ProvideError, match="the file is neither a JSON object nor a YAML mapping"):
        parse_config(text.encode(), "the file")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"aadClientSecret": ["hidden"]}', "aadClientSecret is an object or a list, expected a text"),
        ('{"aadClientSecret": 5}', "aadClientSecret is a number"),
        ('{"useManagedIdentityExtension": "hidden"}', "useManagedIdentityExtension is a text"),
        ('{"cloudProviderBackoffRetries": "hidden"}', "cloudProviderBackoffRetries is a text"),
        ('{"cloudProviderBackoffRetries": -1}', "expected a number that is not negative"),
        ("aadClientId: {hidden: x}", "aadClientId is an object or a list"),
        ("aadClientId: true", "aadClientId is true or false"),
    ],
)
def test_a_value_of_the_wrong_kind_is_named_and_not_quoted(text: str, said: str) -> None:
    """The key helps, the value may be a secret."""
    with pytest.raises(ProvideError) as caught:
        parse_config(text.encode(), "the file")
    assert said in str(caught.value)
    assert "hidden" not in str(caught.value)


def test_a_bomb_of_aliases_does_not_go_off() -> None:
    """Nothing below the top is built."""
    levels = "".join(f"a{at}: &a{at} [{', '.join([f'*a{at - 1}'] * 9)}]\n" for at in range(1, 30))
    merges = "".join(f"m{at}: &m{at} {{<<: [{', '.join([f'*m{at - 1}'] * 9)}]}}\n" for at in range(1, 30))
    text = f"a0: &a0 [x]\n{levels}m0: &m0 {{x: y}}\n{merges}tenantId: t\n"
    assert parse_config(text.encode(), "here") == Config(tenant_id="t")


def test_numbers_of_backoff_are_read() -> None:
    """From both forms."""
    expected = Config(use_backoff=True, backoff_retries=6, backoff_seconds=0.5)
    text = '{"cloudProviderBackoff": true, "cloudProviderBackoffRetries": 6, "cloudProviderBackoffDuration": 0.5}'
    assert parse_config(text.encode(), "here") == expected
    text = "cloudProviderBackoff: true\ncloudProviderBackoffRetries: 6\ncloudProviderBackoffDuration: 0.5\n"
    assert parse_config(text.encode(), "here") == expected


def test_a_config_does_not_show_its_secrets() -> None:
    """Not in a repr either."""
    config = parse_config(b'{"aadClientSecret": "hidden", "aadClientCertPassword": "hidden"}', "here")
    assert "hidden" not in repr(config)
