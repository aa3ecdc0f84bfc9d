"""A context comes to one client config, as in client-go."""

from __future__ import annotations

from pathlib import Path

import pytest

from keyferry._core.values import replace
from keyferry.api.kubeconfig.v1 import AuthInfo, Cluster, Context, ExecConfig, Kubeconfig
from keyferry.clusters.kubeconfig.choose import Overrides
from keyferry.clusters.kubeconfig.files import LoadedKubeconfig, load_kubeconfig, read_kubeconfigs
from keyferry.clusters.kubeconfig.resolve import ClientConfig, check_transport, clean_install_hint, resolve
from keyferry.errors import ConfigError

SECRET = "s3cr3t-marker"
PLUGIN = ExecConfig(command="p", api_version="client.authentication.k8s.io/v1", interactive_mode="Never")
CLUSTER = Cluster(server="https://k:6443")


def loaded(user: AuthInfo | None = None, cluster: Cluster = CLUSTER) -> LoadedKubeconfig:
    """A config of two contexts, the second of which names what is not there."""
    contexts = {
        "c": Context(cluster="k", user="u", namespace="ns"),
        "d": Context(cluster="k", user="nobody"),
        "e": Context(cluster="gone", user="u"),
    }
    clusters = {"k": replace(cluster, origin="/f"), "k2": Cluster(server="https://two")}
    users = {"u": user or AuthInfo(exec=PLUGIN), "v": AuthInfo(token="v")}
    return LoadedKubeconfig(
        config=Kubeconfig(clusters=clusters, users=users, contexts=contexts, current_context="c")
    )


def refusal(config: LoadedKubeconfig, overrides: Overrides) -> str:
    """client-go's words for why there is no client config."""
    with pytest.raises(ConfigError) as raised:
        resolve(config, overrides)
    return raised.value.kubernetes_text


def transport_refusal(config: ClientConfig) -> ConfigError:
    with pytest.raises(ConfigError) as raised:
        check_transport(config)
    return raised.value


def test_the_current_context_is_used() -> None:
    config = resolve(loaded())
    assert (config.context, config.cluster_name, config.user_name) == ("c", "k", "u")
    assert (config.server, config.namespace, config.namespace_overridden) == ("https://k:6443", "ns", False)
    assert config.exec == PLUGIN
    assert config.cluster_origin == "/f"
    check_transport(config)


def test_a_context_may_name_a_user_that_is_not_there() -> None:
    config = resolve(loaded(), Overrides(context="d"))
    assert (config.user_name, config.exec, config.namespace) == ("nobody", None, "default")


@pytest.mark.parametrize(
    ("overrides", "text"),
    [
        (Overrides(context="x"), 'context "x" does not exist'),
        (Overrides(cluster="x"), 'cluster "x" does not exist'),
        (Overrides(user="x", context="x", cluster="x"), 'auth info "x" does not exist'),
        (Overrides(context="x", cluster="x"), 'context "x" does not exist'),
        (
            Overrides(context="e"),
            (
                "invalid configuration: no configuration has been provided, "
                "try setting KUBERNETES_MASTER environment variable"
            ),
        ),
        (
            Overrides(context="e", tls_server_name="x"),
            'invalid configuration: no server found for cluster "gone"',
        ),
        (
            Overrides(token="t", username="n"),
            (
                "invalid configuration: more than one authentication method found for u; "
                "found [token basicAuth], only one is allowed"
            ),
        ),
        (
            Overrides(certificate_authority="/nope"),
            (
                "invalid configuration: unable to read certificate-authority /nope for k "
                "due to open /nope: no such file or directory"
            ),
        ),
    ],
)
def test_what_leads_nowhere_is_refused(overrides: Overrides, text: str) -> None:
    assert refusal(loaded(), overrides) == text


def test_files_that_were_refused_stay_refused(tmp_path: Path) -> None:
    path = tmp_path / "c"
    path.write_text("kind: Pod")
    assert "no kind" in refusal(read_kubeconfigs(str(path)), Overrides())


def test_overrides_go_before_the_kubeconfig() -> None:
    cluster = replace(CLUSTER, tls_server_name="sni", certificate_authority_data=b"ca")
    overrides = Overrides(
        namespace="other", insecure=True, token="t", impersonate="bob", impersonate_groups=("g",)
    )
    config = resolve(loaded(cluster=cluster), overrides)
    assert (config.namespace, config.namespace_overridden) == ("other", True)
    assert (config.insecure, config.ca_data, config.tls_server_name) == (True, b"", "sni")
    assert (config.bearer_token, config.impersonate, config.impersonate_groups) == ("t", "bob", ("g",))
    config = resolve(loaded(cluster=cluster), Overrides(user="v", cluster="k2"))
    assert (config.server, config.bearer_token, config.exec) == ("https://two", "v", None)


def test_a_server_given_by_hand_takes_the_tls_name_away() -> None:
    config = loaded(cluster=replace(CLUSTER, tls_server_name="sni"))
    assert resolve(config, Overrides(server="https://y")).tls_server_name == ""
    assert resolve(config, Overrides(server="https://y", tls_server_name="x")).tls_server_name == "x"


def test_files_given_by_hand_stand_against_data(tmp_path: Path) -> None:
    (tmp_path / "c").write_text("cert")
    (tmp_path / "k").write_text("key")
    user = AuthInfo(client_certificate_data=b"old", client_key_data=b"old")
    overrides = Overrides(client_certificate=f"{tmp_path}/c", client_key=f"{tmp_path}/k")
    config = resolve(loaded(user), overrides)
    assert (config.client_certificate_data, config.client_key_data) == (b"cert", b"key")
    assert resolve(loaded(user)).client_key_data == b"old"


@pytest.mark.parametrize("server", ["http://k", "k:6443", "k", "https://", "https:k", "https://k:bad", "://"])
def test_without_https_there_are_no_credentials(server: str) -> None:
    user = AuthInfo(token="t", token_file="/nope", exec=PLUGIN, impersonate="bob")
    cluster = Cluster(
        server=server,
        tls_server_name="sni",
        insecure_skip_tls_verify=True,
        certificate_authority_data=b"ca",
        disable_compression=True,
    )
    config = resolve(loaded(user, cluster))
    assert (config.server, config.impersonate, config.disable_compression) == (server, "bob", True)
    assert (config.bearer_token, config.exec, config.exec_cluster, config.ca_data) == ("", None, None, b"")
    assert (config.insecure, config.tls_server_name) == (False, "")


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
    assert resolve(loaded(cluster=Cluster(server=server))).server == canonical


def test_the_plugin_is_told_of_the_cluster(tmp_path: Path) -> None:
    (tmp_path / "ca").write_text("CA")
    cluster = Cluster(
        server="https://k",
        tls_server_name="sni",
        insecure_skip_tls_verify=True,
        certificate_authority=f"{tmp_path}/ca",
        proxy_url="HTTP://P:1",
        disable_compression=True,
        extensions={"client.authentication.k8s.io/exec": '{"a":1}', "other": "2"},
    )
    config = resolve(loaded(cluster=cluster))
    told = config.exec_cluster
    assert told is not None
    assert (told.server, told.tls_server_name, told.insecure_skip_tls_verify) == ("https://k", "sni", True)
    assert (told.certificate_authority_data, config.ca_data) == (b"CA", b"CA")
    assert (told.proxy_url, config.proxy_url) == ("http://P:1", "http://P:1")
    assert (told.disable_compression, told.config) == (True, '{"a":1}')
    nothing = resolve(
        loaded(cluster=replace(cluster, extensions={"client.authentication.k8s.io/exec": "null"}))
    )
    assert nothing.exec_cluster is not None
    assert nothing.exec_cluster.config is None


def test_a_token_file_is_read_and_kept_unless_there_is_a_token(tmp_path: Path) -> None:
    path = tmp_path / "tok"
    path.write_text("t\n")
    config = resolve(loaded(AuthInfo(token_file=str(path))))
    assert (config.bearer_token, config.token_file) == ("t\n", str(path))
    config = resolve(loaded(AuthInfo(token="x", token_file="/nope")))
    assert (config.bearer_token, config.token_file) == ("x", "/nope")
    assert (
        refusal(loaded(AuthInfo(token_file="/nope")), Overrides()) == "open /nope: no such file or directory"
    )
    assert refusal(loaded(AuthInfo(token_file="/")), Overrides()) == "read /: is a directory"


@pytest.mark.parametrize(
    ("plugin", "text"),
    [
        (PLUGIN, "read /: is a directory"),
        (
            replace(PLUGIN, provide_cluster_info=True),
            "failed to load CA bundle for execProvider: read /: is a directory",
        ),
    ],
)
def test_what_opens_and_cannot_be_read_fails_with_the_connection(plugin: ExecConfig, text: str) -> None:
    user = AuthInfo(exec=plugin, client_certificate="/", client_key="/")
    config = resolve(loaded(user, replace(CLUSTER, certificate_authority="/")))
    error = transport_refusal(config)
    assert error.kubernetes_text == text
    assert [problem.path for problem in error.problems] == [
        "clusters.k.certificate-authority",
        "users.u.client-certificate",
        "users.u.client-key",
    ]


def test_a_removed_version_comes_with_advice(tmp_path: Path) -> None:
    path = tmp_path / "config"
    path.write_text(
        "current-context: c\n"
        "contexts: [{name: c, context: {cluster: k, user: u}}]\n"
        "clusters: [{name: k, cluster: {server: 'https://k'}}]\n"
        "users:\n- name: u\n  user:\n    exec:\n      command: p\n"
        "      apiVersion: client.authentication.k8s.io/v1alpha1\n"
    )
    error = transport_refusal(resolve(load_kubeconfig(str(path), environ={})))
    assert error.kubernetes_text == 'exec plugin: invalid apiVersion "client.authentication.k8s.io/v1alpha1"'
    assert str(error) == (
        f"{path}:9:7: users[0].user.exec.apiVersion: 'client.authentication.k8s.io/v1alpha1' was removed "
        "from Kubernetes: use 'client.authentication.k8s.io/v1' if the plugin supports it, and set "
        "interactiveMode to 'Never', 'IfAvailable' or 'Always'"
    )


def test_unknown_versions_and_auth_providers_are_refused() -> None:
    error = transport_refusal(resolve(loaded(AuthInfo(exec=replace(PLUGIN, api_version="a/b/c")))))
    assert error.kubernetes_text == 'exec plugin: invalid apiVersion "a/b/c"'
    error = transport_refusal(resolve(loaded(AuthInfo(auth_provider="gcp"))))
    assert error.kubernetes_text == 'no Auth Provider found for name "gcp"'
    assert "gke-gcloud-auth-plugin" in str(error)
    assert transport_refusal(resolve(loaded(AuthInfo(auth_provider="")))).kubernetes_text.endswith('""')


@pytest.mark.parametrize(
    ("hint", "clean"),
    [("a\tb\r\n\v\f", "a\tb\r\n\v\f"), ("\x1b[1m", "U+001B[1m"), ("\x85é→\u3000", "U+0085é→\u3000")],
)
def test_install_hints_cannot_upset_a_terminal(hint: str, clean: str) -> None:
    assert clean_install_hint(hint) == clean
    config = resolve(loaded(AuthInfo(exec=replace(PLUGIN, install_hint=hint))))
    assert config.exec is not None
    assert config.exec.install_hint == clean


def test_no_secret_shows() -> None:
    user = AuthInfo(token=SECRET, exec=replace(PLUGIN, args=(SECRET,)), client_key_data=SECRET.encode())
    cluster = replace(CLUSTER, proxy_url=f"http://u:{SECRET}@p")
    overrides = Overrides(token=SECRET, proxy_url=f"http://{SECRET}@p")
    config = resolve(loaded(user, cluster), overrides)
    assert config.bearer_token == SECRET
    assert SECRET not in repr(config) + repr(overrides) + repr(config.exec_cluster)
