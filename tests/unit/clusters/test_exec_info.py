"""A plugin reads back what it is told, with client-go's errors."""

from __future__ import annotations

import pytest

from keyferry.api.clientauthentication import v1
from keyferry.api.clientauthentication.v1 import ClusterInfo, ExecCredentialStatus, encode_exec_info
from keyferry.clusters.exec_info import load_exec_info, read_exec_info
from keyferry.errors import EnvironmentProblem


def told(**cluster: str) -> dict[str, str]:
    text = encode_exec_info(v1.API_VERSION, ClusterInfo(**cluster), interactive=True)  # type: ignore[arg-type] # text alone
    return {"KUBERNETES_EXEC_INFO": text}


def refusal(environ: dict[str, str]) -> str:
    with pytest.raises(EnvironmentProblem) as caught:
        load_exec_info(environ)
    assert caught.value.__context__ is None
    return caught.value.kubernetes_text


def test_what_is_told_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    environ = told(server="https://x", proxy_url="http://p", config='{"a":1}')
    info = load_exec_info(environ)
    assert (info.api_version, info.interactive, info.config) == (v1.API_VERSION, True, '{"a":1}')
    assert info.cluster == ClusterInfo(server="https://x", proxy_url="http://p", config='{"a":1}')
    monkeypatch.setenv("KUBERNETES_EXEC_INFO", environ["KUBERNETES_EXEC_INFO"])
    assert load_exec_info() == info


def test_a_status_is_kept_and_not_shown() -> None:
    """As client-go's own helper keeps it; its token is as secret as any."""
    status = (
        '"status":{"token":"s3cret","clientKeyData":"k3y","expirationTimestamp":"2026-01-01T00:00:00.5Z"}'
    )
    text = told(server="https://x")["KUBERNETES_EXEC_INFO"].rstrip()[:-1]
    info = read_exec_info(f"{text},{status}}}".encode())
    assert info.status == ExecCredentialStatus(
        token="s3cret",
        client_certificate_data="",
        client_key_data="k3y",
        expiration_ns=1_767_225_600_500_000_000,
    )
    assert "s3cret" not in repr(info)
    assert "k3y" not in repr(info)
    assert load_exec_info(told(server="https://x")).status is None


def test_without_the_variable_it_says_what_it_is_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KUBERNETES_EXEC_INFO", raising=False)
    with pytest.raises(
        EnvironmentProblem, match="expected a Kubernetes client to run this plugin and set it"
    ):
        load_exec_info()


def test_without_a_cluster_it_says_what_to_set() -> None:
    text = encode_exec_info(v1.API_VERSION, None, interactive=False)
    with pytest.raises(EnvironmentProblem, match="provideClusterInfo: true"):
        read_exec_info(text.encode())


def test_another_kind_is_named() -> None:
    text = '{"kind":"Status","apiVersion":"v1"}'
    expected = "invalid group/kind: wanted ExecCredential.client.authentication.k8s.io, got Status"
    assert refusal({"KUBERNETES_EXEC_INFO": text}) == expected


@pytest.mark.parametrize(
    ("proxy", "reason"),
    [
        ("::", "missing protocol scheme"),
        ("a\nb", "net/url: invalid control character in URL"),
        ("1:2", "first path segment in URL cannot contain colon"),
        ("http://[::1", "missing ']' in host"),
        ("http://a[::1]", "invalid IP-literal"),
        ("http://[::1]x", 'invalid port "x" after host'),
        ("http://h:p", 'invalid port ":p" after host'),
        ("http://a b", 'invalid character " " in host name'),
        ("http://a%41", 'invalid URL escape "%41"'),
        ("http://u<@h", "net/url: invalid userinfo"),
        ("http://u%zz@h", 'invalid URL escape "%zz"'),
        ("http://h/%zz", 'invalid URL escape "%zz"'),
        ("http://h#%zz", 'invalid URL escape "%zz"'),
    ],
)
def test_a_proxy_that_is_no_url_is_refused_in_gos_words(proxy: str, reason: str) -> None:
    text = refusal(told(proxy_url=proxy))
    assert text.startswith("cannot create rest.Config: cannot parse proxy URL: parse ")
    assert text.endswith(f": {reason}")


def test_a_proxys_password_is_not_shown() -> None:
    with pytest.raises(EnvironmentProblem) as caught:
        load_exec_info(told(proxy_url="http://user:hidden@h:p"))
    assert "hidden" not in str(caught.value)


def test_a_proxy_is_spelt_as_go_spells_it() -> None:
    assert load_exec_info(told(proxy_url="HTTP://h/a b")).cluster.proxy_url == "http://h/a%20b"


def test_a_plugin_gets_a_session_for_the_cluster_it_was_run_for() -> None:
    """The session knows the server and how to trust it, and carries no credential."""
    cluster = '{"server":"https://k:6443","tls-server-name":"sni","certificate-authority-data":"Q0E=","config":null}'
    kind = '"kind":"ExecCredential","apiVersion":"client.authentication.k8s.io/v1"'
    text = f'{{{kind},"spec":{{"cluster":{cluster},"interactive":false}}}}'
    session = load_exec_info({"KUBERNETES_EXEC_INFO": text}).session()
    assert (session.server, session.config.tls_server_name, session.config.ca_data) == (
        "https://k:6443",
        "sni",
        b"CA",
    )
    assert session.grant().headers == ()
