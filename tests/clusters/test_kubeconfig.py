"""Kubeconfigs are read, merged, resolved and checked as kubectl does it; Kubernetes' recordings have most of it."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from pathlib import Path

import pytest

from keyferry import ClusterSession, ConfigError, load_cluster
from keyferry.lint.run import lint_any

SECRET = "s3cr3t-marker"
V1 = "client.authentication.k8s.io/v1"
PLUGIN = {"command": "p", "apiVersion": V1, "interactiveMode": "Never"}


@pytest.fixture(autouse=True)
def _own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A home without anything of kubectl's, which is the working directory."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    for name in ("KUBECONFIG", "KUBERC", "KUBECTL_KUBERC"):
        monkeypatch.delenv(name, raising=False)


def write(
    user: Mapping[str, object] | None = None,
    cluster: Mapping[str, object] | None = None,
    context: Mapping[str, object] | None = None,
) -> None:
    """Write a kubeconfig with one user, cluster and context."""
    document = {
        "current-context": "c",
        "users": [{"name": "u", "user": {} if user is None else user}],
        "clusters": [{"name": "k", "cluster": {"server": "https://k:6443"} if cluster is None else cluster}],
        "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u", **(context or {})}}],
    }
    Path("config").write_text(json.dumps(document), encoding="utf-8")


def load(**options: str) -> ClusterSession:
    return load_cluster(kubeconfig="config", trust=True, **options)  # type: ignore[arg-type] # texts alone


def refusal(**options: str) -> ConfigError:
    """What is raised for the kubeconfig."""
    with pytest.raises(ConfigError) as raised:
        load(**options)
    return raised.value


# Files


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("kind: Pod", "1:1: kind: "),
        ("x: 1\napiVersion: a/v1", "2:1: apiVersion: "),
        ("apiVersion: a/", "1:1: apiVersion: "),
        ("apiVersion: a/b/c", "1:1: apiVersion: "),
        ("- a", "1:1: found an array"),
        ("kind: 1", "1:1: kind: found"),
        ("{bad", "2:1: not valid YAML"),
        (
            "users:\n- name: u\n  user: {token: 5}",
            "3:10: users[0].user.token: found a number, expected a string",
        ),
        (
            "users:\n- name: u\n  user: {client-key-data: x}",
            "3:10: users[0].user.client-key-data: the value is not base64",
        ),
        ("users:\n- name: u\n- name: u", "3:3: users[1].name: the name 'u' is given twice"),
    ],
    ids=lambda value: value.partition("\n")[0][:30],
)
def test_what_is_wrong_is_said_with_its_place(text: str, where: str) -> None:
    Path("config").write_text(text)
    assert str(refusal()).startswith(f"config:{where}")


def test_all_problems_of_all_files_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    Path("a").write_text("kind: Pod")
    Path("b").write_text("users: [{name: 1}]\ncurrent-context: 2")
    monkeypatch.setenv("KUBECONFIG", os.pathsep.join(("a", "/nope", "b", "a")))
    with pytest.raises(ConfigError) as raised:
        load_cluster()
    error = raised.value
    assert [problem.path for problem in error.problems] == ["kind", "users[0].name", "current-context"]
    assert error.kubernetes_text.startswith('[error loading config file "a": no kind "Pod"')
    assert ', error loading config file "b": json: cannot unmarshal' in error.kubernetes_text


@pytest.mark.parametrize(
    ("path", "text"),
    [(".", "read .: is a directory"), ("file/x", "open file/x: not a directory")],
)
def test_what_cannot_be_read_is_an_error_in_gos_words(
    path: str, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("file").touch()
    monkeypatch.setenv("KUBECONFIG", path)
    with pytest.raises(ConfigError) as raised:
        load_cluster()
    assert raised.value.kubernetes_text == f'error loading config file "{path}": {text}'


def test_a_name_that_no_file_can_have_is_an_error() -> None:
    with pytest.raises(ConfigError, match="cannot be read: invalid argument"):
        load_cluster(kubeconfig="a\0b")


def test_no_secret_shows() -> None:
    Path("config").write_text(
        f"users: [{{name: u, user: {{token: {SECRET}, client-key-data: '{SECRET}!'}}}}, {{name: u}}]"
    )
    error = refusal()
    assert SECRET not in f"{error} {error!r} {error.problems} {error.kubernetes_text}"
    plugin = {**PLUGIN, "args": [SECRET], "env": [{"name": "A", "value": SECRET}]}
    write({"token": SECRET, "exec": plugin}, {"server": "https://k", "proxy-url": f"http://u:{SECRET}@p"})
    session = load()
    assert session.config.bearer_token == SECRET
    assert SECRET not in f"{session!r} {session.config!r}"


# What a session is made of


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"user": "x", "context": "x", "cluster": "x"}, 'auth info "x" does not exist'),
        ({"context": "x", "cluster": "x"}, 'context "x" does not exist'),
        (
            {"certificate_authority": "/nope"},
            "invalid configuration: unable to read certificate-authority /nope for k "
            "due to open /nope: no such file or directory",
        ),
    ],
    ids=["the user first", "then the context", "no authority"],
)
def test_what_leads_nowhere_is_refused(options: dict[str, str], text: str) -> None:
    write()
    assert refusal(**options).kubernetes_text == text


@pytest.mark.parametrize(
    ("tls_server_name", "text"),
    [
        (
            "",
            "invalid configuration: no configuration has been provided, "
            "try setting KUBERNETES_MASTER environment variable",
        ),
        ("x", 'invalid configuration: no server found for cluster "gone"'),
    ],
)
def test_a_context_without_a_cluster_is_refused(tls_server_name: str, text: str) -> None:
    write(context={"cluster": "gone"})
    assert refusal(tls_server_name=tls_server_name).kubernetes_text == text


def test_a_current_context_that_is_not_there_is_refused() -> None:
    Path("config").write_text("current-context: gone\nusers: [{name: u, user: {token: t}}]")
    assert refusal().kubernetes_text == (
        "invalid configuration: "
        "[context was not found for specified context: gone, cluster has no server defined]"
    )


@pytest.mark.parametrize(
    ("server", "canonical"),
    [
        ("https://k/?x=1", "https://k/?x=1"),
        ("https://k/base?x=1", "https://k/base"),
        ("https://k/base?", "https://k/base?"),
        ("https://k/a#b", "https://k/a%23b"),
        ("HTTPS://K/a b", "https://K/a%20b"),
        ("https://k/", "https://k/"),
    ],
)
def test_a_server_with_a_path_loses_its_query(server: str, canonical: str) -> None:
    write(cluster={"server": server})
    assert load().server == canonical


@pytest.mark.parametrize(
    ("provides_cluster", "text"),
    [
        (False, "read /: is a directory"),
        (True, "failed to load CA bundle for execProvider: read /: is a directory"),
    ],
)
def test_what_opens_and_cannot_be_read_fails_with_the_connection(provides_cluster: bool, text: str) -> None:
    plugin = {**PLUGIN, "provideClusterInfo": provides_cluster}
    write(
        {"exec": plugin, "client-certificate": "/", "client-key": "/"},
        {"server": "https://k", "certificate-authority": "/"},
    )
    error = refusal()
    assert error.kubernetes_text == text
    assert sorted(problem.path for problem in error.problems) == [
        "clusters[0].cluster.certificate-authority",
        "users[0].user.client-certificate",
        "users[0].user.client-key",
    ]


def test_a_token_file_goes_before_the_token_beside_it() -> None:
    """As in client-go; until there is such a file, the token counts."""
    write({"token": "given", "tokenFile": "file"})
    assert dict(load().grant().headers) == {"Authorization": "Bearer given"}
    Path("file").write_text("read")
    assert dict(load().grant().headers) == {"Authorization": "Bearer read"}


def test_a_proxy_is_spelt_as_go_spells_it() -> None:
    """For the plugin that is told of it, too."""
    write({"exec": PLUGIN}, {"server": "https://k", "proxy-url": "HTTP://p/a b"})
    config = load().config
    assert config.exec_cluster is not None
    assert config.exec_cluster.proxy_url == config.proxy_url == "http://p/a%20b"


@pytest.mark.parametrize(
    ("name", "cure"), [("gcp", "use the exec plugin 'gke-gcloud-auth-plugin'"), ("", "are not supported")]
)
def test_an_auth_provider_is_refused_with_what_came_after_it(name: str, cure: str) -> None:
    """Also one without a name."""
    write({"auth-provider": {"name": name}})
    error = refusal()
    assert error.kubernetes_text == f'no Auth Provider found for name "{name}"'
    assert cure in str(error)


def test_a_removed_version_comes_with_advice() -> None:
    write({"exec": {"command": "p", "apiVersion": "client.authentication.k8s.io/v1alpha1"}})
    error = refusal()
    assert error.kubernetes_text == 'exec plugin: invalid apiVersion "client.authentication.k8s.io/v1alpha1"'
    assert re.match(r"config:1:\d+: ", str(error))
    assert str(error).endswith(
        ": users[0].user.exec.apiVersion: 'client.authentication.k8s.io/v1alpha1' was removed "
        f"from Kubernetes: use '{V1}' if the plugin supports it, and set "
        "interactiveMode to 'Never', 'IfAvailable' or 'Always'"
    )


# What is refused of the user, the cluster and the context that are used


NOPE = "due to open /nope: no such file or directory"


@pytest.mark.parametrize(
    ("user", "said"),
    [
        pytest.param({"client-key": "/nope"}, [], id="a key alone is not looked at"),
        pytest.param(
            {"client-certificate": "/nope", "client-certificate-data": "eA=="},
            [
                "client-cert-data and client-cert are both specified for u. client-cert-data will override.",
                "client-key-data or client-key must be specified for u to use the clientCert authentication method.",
                f"unable to read client-cert /nope for u {NOPE}",
            ],
            id="certificate",
        ),
        pytest.param(
            {"client-certificate-data": "eA==", "client-key": "/nope", "client-key-data": "eA=="},
            [
                "client-key-data and client-key are both specified for u; client-key-data will override",
                f"unable to read client-key /nope for u {NOPE}",
            ],
            id="key",
        ),
        pytest.param(
            {"exec": {"env": [{}, {}]}, "auth-provider": {}},
            [
                "authProvider cannot be provided in combination with an exec plugin for u",
                "command must be specified for u to use exec authentication plugin",
                "apiVersion must be specified for u to use exec authentication plugin",
                "env variable name must be specified for u to use exec authentication plugin",
                "interactiveMode must be specified for u to use exec authentication plugin",
            ],
            id="exec, with equal texts once",
        ),
        pytest.param(
            {"exec": {"command": "p", "apiVersion": "bogus", "interactiveMode": "nev\ner"}},
            ['invalid interactiveMode for u: "nev\\ner"'],
            id="mode; the version is not judged here",
        ),
        pytest.param({"as": "x", "as-uid": "1", "as-groups": ["g"]}, [], id="as"),
        *(
            pytest.param(
                user, ["requesting uid, groups or user-extra for u without impersonating a user"], id=name
            )
            for name, user in {
                "uid": {"as-uid": "1"},
                "groups": {"as-groups": ["g"]},
                "extra": {"as-user-extra": {"k": []}},
            }.items()
        ),
    ],
)
def test_users(user: dict[str, object], said: list[str]) -> None:
    write(user)
    expect(said)


@pytest.mark.parametrize(
    ("cluster", "said"),
    [
        ({"server": "s", "proxy-url": "SOCKS5://p"}, []),
        (
            {"server": "s", "proxy-url": ":x"},
            ['invalid \'proxy-url\' ":x" for cluster "k": could not parse: :x'],
        ),
        (
            {"server": "s", "proxy-url": "ftp://p"},
            [
                'invalid \'proxy-url\' "ftp://p" for cluster "k": '
                'unsupported scheme "ftp", must be http, https, or socks5'
            ],
        ),
        (
            {"server": "s", "certificate-authority": "/nope", "certificate-authority-data": "eA=="},
            [
                "certificate-authority-data and certificate-authority are both specified for k. "
                "certificate-authority-data will override.",
                f"unable to read certificate-authority /nope for k {NOPE}",
            ],
        ),
    ],
)
def test_clusters(cluster: dict[str, object], said: list[str]) -> None:
    write(cluster=cluster)
    expect(said)


@pytest.mark.parametrize(
    ("namespace", "is_good"),
    [
        ("my-ns", True),
        ("a" * 63, True),
        *((name, False) for name in ("My", "a_b", "-a", "a-", "a.b", "a" * 64, "é")),
    ],
)
def test_namespaces(namespace: str, is_good: bool) -> None:
    """Only a look at the whole file judges them, as in kubectl."""
    write(context={"namespace": namespace})
    load()
    found = [each.kubernetes_text for each in lint_any("config").findings]
    bad = f'namespace "{namespace}" for context "c" does not conform to the kubernetes DNS_LABEL rules'
    assert (bad in found) is not is_good


def expect(said: list[str]) -> None:
    """Load the kubeconfig, and be told this by Kubernetes."""
    if not said:
        load()
        return
    text = said[0] if len(said) == 1 else f"[{', '.join(said)}]"
    assert refusal().kubernetes_text == f"invalid configuration: {text}"


def test_problems_of_the_whole_file_have_positions_and_no_passwords() -> None:
    lines = [
        "current-context: gone",
        "users: [{name: u, user: {exec: {command: p, apiVersion: a/v1, interactiveMode: never}}}]",
        "clusters:",
        "- {name: k, cluster: {server: 'https://k', proxy-url: 'ftp://user:s3cr3t@p'}}",
        "- {name: '', cluster: {}}",
        "contexts:",
        "- {name: c, context: {cluster: k, user: nobody}}",
    ]
    Path("config").write_text("\n".join(lines))
    report = lint_any("config")
    found = [f"{each.line}:{each.path}: {each.message}" for each in report.findings]
    for expected in (
        "1:current-context: context 'gone' does not exist (existing: 'c')",
        "2:users[0].user.exec.interactiveMode: found 'never', expected 'Never', 'IfAvailable' or 'Always'",
        "4:clusters[0].cluster.proxy-url: 'ftp://***@p' has the scheme 'ftp', "
        "expected a URL such as 'http://proxy:3128' (or https, socks5)",
        "7:contexts[0].context.user: user 'nobody' does not exist",
    ):
        assert expected in found
    assert "default cluster has no server defined" in [each.kubernetes_text for each in report.findings]
