"""What a cluster's plugin is told is written byte for byte, and what it answers is read leniently."""

from __future__ import annotations

import pytest

from keyferry.api.clientauthentication import v1
from keyferry.api.clientauthentication.v1 import (
    ClusterInfo,
    ExecCredential,
    ExecCredentialSpec,
    ExecCredentialStatus,
)
from keyferry.api.wire import Reader
from keyferry.errors import DocumentError

V1BETA1 = f"{v1.GROUP}/v1beta1"
FULL = ClusterInfo(
    server="https://x?a&b",
    tls_server_name="sni",
    insecure_skip_tls_verify=True,
    certificate_authority_data=b"\x00\xff",
    proxy_url="http://p",
    disable_compression=True,
    config='{ "b" : 1.50,\n "a": "<x y>" }',
)


def test_everything_is_written_in_client_gos_order() -> None:
    """Optional fields follow the server, the config comes last, HTML is escaped, a newline ends it."""
    assert v1.encode_exec_info(v1.API_VERSION, FULL, interactive=True) == (
        '{"kind":"ExecCredential","apiVersion":"client.authentication.k8s.io/v1","spec":{"cluster":{'
        '"server":"https://x?a\\u0026b","tls-server-name":"sni","insecure-skip-tls-verify":true,'
        '"certificate-authority-data":"AP8=","proxy-url":"http://p","disable-compression":true,'
        '"config":{"b":1.50,"a":"\\u003cx y\\u003e"}},"interactive":true}}\n'
    )


def test_what_is_not_set_is_left_out_but_server_and_config() -> None:
    """An empty cluster still has a server and a config, and none at all is left out."""
    assert '"spec":{"cluster":{"server":"","config":null},"interactive":false}' in v1.encode_exec_info(
        V1BETA1, ClusterInfo(), interactive=False
    )
    assert v1.encode_exec_info(V1BETA1, None, interactive=False).endswith('"spec":{"interactive":false}}\n')


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
        ("[1 2]", "invalid character '2' after array element"),
    ],
)
def test_a_config_that_is_not_json_is_refused(config: str, reason: str) -> None:
    with pytest.raises(DocumentError, match="is not JSON") as caught:
        v1.encode_exec_info(v1.API_VERSION, ClusterInfo(config=config), interactive=False)
    prefix = "encode ExecCredentials: json: error calling MarshalJSON for type *runtime.RawExtension: "
    assert caught.value.kubernetes_text == prefix + reason


@pytest.mark.parametrize("config", [None, "null", '{"a":[1,2],"b":"\\u2028"}', '"s"', "12345678901234567890"])
def test_what_is_written_is_read_back(config: str | None) -> None:
    """Plugins that use the same types see the same cluster."""
    from json import loads

    cluster = ClusterInfo(server="https://x", certificate_authority_data=b"ca", config=config)
    text = v1.encode_exec_info(v1.API_VERSION, cluster, interactive=True)
    reader = Reader(lenient=True, text=text)
    read = ExecCredential.from_document(loads(text), reader)
    expected = ClusterInfo(
        server="https://x", certificate_authority_data=b"ca", config=None if config == "null" else config
    )
    assert read == ExecCredential(spec=ExecCredentialSpec(cluster=expected, interactive=True))
    assert reader.problems == []


def test_of_repeated_members_the_last_ones_text_is_the_config() -> None:
    """Spaces and order stay as they were written."""
    text = '{ "spec" : {"cluster":{"config":1,"x":[{}],"config":{"b": 2,"a":"}"} } } }'
    from json import loads

    cluster = ExecCredential.from_document(loads(text), Reader(lenient=True, text=text)).spec.cluster
    assert cluster is not None
    assert cluster.config == '{"b": 2,"a":"}"}'


def test_a_config_from_yaml_is_json_with_sorted_keys() -> None:
    document = {"spec": {"cluster": {"config": {"b": [{"d": 1, "c": "<"}], "a": None}}}}
    cluster = ExecCredential.from_document(document, Reader(lenient=True)).spec.cluster
    assert cluster is not None
    assert cluster.config == '{"a":null,"b":[{"c":"\\u003c","d":1}]}'


def test_a_status_is_read() -> None:
    status = {
        "token": "t",
        "clientCertificateData": "c",
        "clientKeyData": "k",
        "expirationTimestamp": "1970-01-01T00:00:01.5Z",
        "more": 1,
    }
    reader = Reader(lenient=True)
    read = ExecCredential.from_document({"status": status, "Status": 5}, reader)
    assert read.status == ExecCredentialStatus(
        token="t", client_certificate_data="c", client_key_data="k", expiration_ns=1_500_000_000
    )
    assert reader.problems == []


@pytest.mark.parametrize("time", [None, "0001-01-01T00:00:00Z", "0001-01-01T01:00:00+01:00"])
def test_null_and_the_year_one_are_no_expiry(time: str | None) -> None:
    read = ExecCredential.from_document({"status": {"expirationTimestamp": time}}, Reader(lenient=True))
    assert read.status == ExecCredentialStatus()


@pytest.mark.parametrize(
    ("document", "path", "error_class"),
    [
        ({"status": []}, "status", "wrong-type"),
        ({"status": {"token": 5}}, "status.token", "wrong-type"),
        ({"status": {"expirationTimestamp": 5}}, "status.expirationTimestamp", "wrong-type"),
        ({"status": {"expirationTimestamp": "xyz"}}, "status.expirationTimestamp", "time"),
        ({"spec": []}, "spec", "wrong-type"),
        ({"spec": {"interactive": "x"}}, "spec.interactive", "wrong-type"),
        ({"spec": {"cluster": 1}}, "spec.cluster", "wrong-type"),
        ({"spec": {"cluster": {"server": 1}}}, "spec.cluster.server", "wrong-type"),
        (
            {"spec": {"cluster": {"certificate-authority-data": "!"}}},
            "spec.cluster.certificate-authority-data",
            "base64",
        ),
    ],
)
def test_values_that_do_not_fit_are_noted(document: object, path: str, error_class: str) -> None:
    """By path and class, and without the value in our words."""
    reader = Reader(lenient=True)
    ExecCredential.from_document(document, reader)
    ((_, problem),) = reader.problems
    assert (problem.path, problem.kind) == (path, error_class)
    assert "xyz" not in problem.message


def test_secrets_are_not_shown() -> None:
    status = ExecCredentialStatus(
        token="hidden-token", client_certificate_data="cert", client_key_data="hidden-key"
    )
    cluster = ClusterInfo(proxy_url="http://u:hidden@p", config='"hidden"')
    shown = repr(status) + str(ExecCredential(spec=ExecCredentialSpec(cluster=cluster), status=status))
    assert "hidden" not in shown
