"""What a cluster's plugin is told; the recordings of Kubernetes have every byte of it."""

from __future__ import annotations

import pytest

from keyferry import DocumentError
from keyferry.api.clientauthentication.v1 import API_VERSION, ClusterInfo, encode_exec_info

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
