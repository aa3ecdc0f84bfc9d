"""What a cluster's plugin is told can be read by it; the recordings of Kubernetes have every byte of it."""

from __future__ import annotations

import pytest

from keyferry import DocumentError, EnvironmentProblem, load_exec_info
from keyferry.api.clientauthentication.v1 import (
    API_VERSION,
    ClusterInfo,
    encode_exec_info,
)


def told(cluster: str) -> dict[str, str]:
    """The environment of a plugin with this cluster as JSON text."""
    head = f'"kind":"ExecCredential","apiVersion":"{API_VERSION}"'
    return {"KUBERNETES_EXEC_INFO": f'{{{head},"spec":{{"cluster":{cluster}}}}}'}


# MarshalJSON of apimachinery's RawExtension guesses from the first byte, and encoding/json reads the rest.
_UNRECOGNIZED = "cannot convert RawExtension with unrecognized content type to unstructured"


@pytest.mark.parametrize(
    ("config", "reason"),
    [
        ("", _UNRECOGNIZED),
        ("yaml: too", _UNRECOGNIZED),
        ("  ", "unexpected end of JSON input"),
        ("not json", "invalid character 'o' in literal null (expecting 'u')"),
        ("{}{}", "invalid character '{' after top-level value"),
        ("[1,]", "invalid character ']' looking for beginning of value"),
    ],
)
def test_a_config_that_is_not_json_is_refused(config: str, reason: str) -> None:
    with pytest.raises(DocumentError, match="is not JSON") as caught:
        encode_exec_info(API_VERSION, ClusterInfo(config=config), interactive=False)
    prefix = "encode ExecCredentials: json: error calling MarshalJSON for type *runtime.RawExtension: "
    assert caught.value.kubernetes_text == prefix + reason


def test_of_repeated_members_the_last_ones_text_is_the_config() -> None:
    """Spaces and order stay as they were written."""
    environ = told('{"config":1,"x":[{}],"config":{"b": 2,"a":"}"} }')
    assert load_exec_info(environ).cluster.config == '{"b": 2,"a":"}"}'


def test_a_config_from_yaml_is_json_with_sorted_keys() -> None:
    cluster = '{"config":{"b":[{"d":1,"c":"<"}],"a":null}}'
    environ = {name: f"# YAML\n{text}" for name, text in told(cluster).items()}
    assert load_exec_info(environ).cluster.config == '{"a":null,"b":[{"c":"\\u003c","d":1}]}'


@pytest.mark.parametrize(
    ("cluster", "path"),
    [
        ("1", "spec.cluster"),
        ('{"server":1}', "spec.cluster.server"),
        ('{"certificate-authority-data":"hidden!"}', "spec.cluster.certificate-authority-data"),
    ],
)
def test_a_value_that_does_not_fit_is_named_by_its_path_and_not_quoted(cluster: str, path: str) -> None:
    with pytest.raises(EnvironmentProblem, match=f"{path}: ") as caught:
        load_exec_info(told(cluster))
    assert "hidden" not in str(caught.value)
