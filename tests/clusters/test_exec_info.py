"""A plugin written in Python reads what it was told; Kubernetes' recordings have the texts of what is wrong."""

from __future__ import annotations

import pytest

from keyferry import EnvironmentProblem, load_exec_info
from keyferry.api.clientauthentication.v1 import API_VERSION, ClusterInfo

HEAD = f'"kind":"ExecCredential","apiVersion":"{API_VERSION}"'


def told(spec: str, more: str = "") -> dict[str, str]:
    """The environment of a plugin with this spec as JSON text."""
    return {"KUBERNETES_EXEC_INFO": f'{{{HEAD},"spec":{{{spec}}}{more}}}'}


def refusal(environ: dict[str, str]) -> EnvironmentProblem:
    with pytest.raises(EnvironmentProblem) as caught:
        load_exec_info(environ)
    assert caught.value.__context__ is None
    return caught.value


def test_what_is_told_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = '"server":"https://x","proxy-url":"HTTP://p/a b","config":{"a":1}'
    environ = told(f'"cluster":{{{cluster}}},"interactive":true')
    info = load_exec_info(environ)
    assert (info.api_version, info.interactive, info.config, info.status) == (
        API_VERSION,
        True,
        '{"a":1}',
        None,
    )
    assert info.cluster == ClusterInfo(server="https://x", proxy_url="http://p/a%20b", config='{"a":1}')
    monkeypatch.setenv("KUBERNETES_EXEC_INFO", environ["KUBERNETES_EXEC_INFO"])
    assert load_exec_info() == info


def test_a_status_is_kept_and_not_shown() -> None:
    """As client-go's own helper keeps it; its token is as secret as any."""
    status = '"token":"s3cret","clientKeyData":"k3y","expirationTimestamp":"2026-01-01T00:00:00.5Z"'
    info = load_exec_info(told('"cluster":{"server":"https://x"}', f',"status":{{{status}}}'))
    assert info.status is not None
    assert (info.status.token, info.status.client_key_data) == ("s3cret", "k3y")
    assert info.status.expiration_ns == 1_767_225_600_500_000_000
    assert "s3cret" not in repr(info)
    assert "k3y" not in repr(info)


@pytest.mark.parametrize(
    ("environ", "words"),
    [
        ({}, "expected a Kubernetes client to run this plugin and set it"),
        (told('"interactive":false'), "provideClusterInfo: true"),
        (told('"cluster":1'), "spec.cluster: "),
        (told('"cluster":{"server":1}'), "spec.cluster.server: "),
        (
            told('"cluster":{"certificate-authority-data":"hidden!"}'),
            "spec.cluster.certificate-authority-data: ",
        ),
        (told('"cluster":{"proxy-url":"http://user:hidden@h:p"}'), "is not a URL"),
    ],
    ids=["no variable", "no cluster", "a number", "a number inside", "no base64", "a proxy that is none"],
)
def test_what_is_wrong_is_said_without_quoting_a_secret(environ: dict[str, str], words: str) -> None:
    found = str(refusal(environ))
    assert words in found
    assert "hidden" not in found


def test_another_kind_is_named() -> None:
    expected = "invalid group/kind: wanted ExecCredential.client.authentication.k8s.io, got Status"
    found = refusal({"KUBERNETES_EXEC_INFO": '{"kind":"Status","apiVersion":"v1"}'})
    assert found.kubernetes_text == expected


def test_of_repeated_members_the_last_ones_text_is_the_config() -> None:
    """Spaces and order stay as they were written."""
    environ = told('"cluster":{"config":1,"x":[{}],"config":{"b": 2,"a":"}"} }')
    assert load_exec_info(environ).config == '{"b": 2,"a":"}"}'


def test_a_config_from_yaml_is_json_with_sorted_keys() -> None:
    environ = told('"cluster":{"config":{"b":[{"d":1,"c":"<"}],"a":null}}')
    as_yaml = {name: f"# YAML\n{text}" for name, text in environ.items()}
    assert load_exec_info(as_yaml).config == '{"a":null,"b":[{"c":"\\u003c","d":1}]}'


def test_a_plugin_gets_a_session_for_the_cluster_it_was_run_for() -> None:
    """The session knows the server and how to trust it, and carries no credential."""
    cluster = '"server":"https://k:6443","tls-server-name":"sni","certificate-authority-data":"Q0E="'
    session = load_exec_info(told(f'"cluster":{{{cluster}}}')).session()
    assert (session.server, session.config.tls_server_name) == ("https://k:6443", "sni")
    assert session.config.ca_data == b"CA"
    assert session.grant().headers == ()
