"""Kubeconfigs are read, merged, resolved and checked as kubectl does it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from keyferry._core.values import replace
from keyferry.api.kubeconfig.v1 import AuthInfo, Cluster, Context, ExecConfig, ExecEnvVar, Kubeconfig
from keyferry.clusters.kubeconfig.files import LoadedKubeconfig, load_kubeconfig, read_kubeconfigs
from keyferry.clusters.kubeconfig.resolve import ClientConfig, check_transport, clean_install_hint, resolve
from keyferry.clusters.kubeconfig.validate import confirm_usable, kubernetes_validation_text, validate
from keyferry.clusters.options import Overrides
from keyferry.errors import ConfigError

SECRET = "s3cr3t-marker"


def write(path: Path, *lines: str) -> str:
    """A file with its folders."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return str(path)


def load(*paths: str, cwd: str | None = None) -> LoadedKubeconfig:
    """What a KUBECONFIG of several paths comes to."""
    return load_kubeconfig(environ={"KUBECONFIG": os.pathsep.join(paths)}, cwd=cwd)


def refusal(*paths: str) -> ConfigError:
    """What is raised for the files at *paths*."""
    with pytest.raises(ConfigError) as raised:
        load(*paths)
    return raised.value


def test_an_explicit_file_goes_before_everything(tmp_path: Path) -> None:
    listed = write(tmp_path / "listed", "current-context: listed")
    explicit = write(tmp_path / "explicit", "current-context: explicit")
    loaded = load_kubeconfig(explicit, environ={"KUBECONFIG": listed})
    assert loaded.config.current_context == "explicit"
    assert loaded.paths == (explicit,)


def test_without_any_list_the_file_in_the_home_folder_is_read(tmp_path: Path) -> None:
    path = write(tmp_path / ".kube/config", "current-context: home")
    assert load_kubeconfig(environ={"HOME": str(tmp_path)}).paths == (path,)
    assert load_kubeconfig(environ={}, home=str(tmp_path)).config.current_context == "home"
    assert load_kubeconfig(environ={}, cwd=str(tmp_path)).paths == (".kube/config",)


def test_a_missing_explicit_file_is_an_error(tmp_path: Path) -> None:
    path = str(tmp_path / "nope")
    with pytest.raises(ConfigError) as raised:
        load_kubeconfig(path, environ={})
    assert raised.value.kubernetes_text == f"stat {path}: no such file or directory"
    assert str(raised.value) == f"{path}: there is no such file"


def test_missing_files_are_passed_over_with_a_warning_when_none_is_left(tmp_path: Path) -> None:
    there = write(tmp_path / "there", "current-context: c")
    assert load("/nope", there, "", there).warnings == ()
    assert load("/nope", there).missing == ("/nope",)
    assert load("/nope", "/nada", "/nope").warnings == ("Config not found: /nope, /nada",)
    assert load(":", "").warnings == ()
    assert load_kubeconfig(environ={}, home=str(tmp_path)).warnings == ()


def test_the_warning_stands_beside_errors(tmp_path: Path) -> None:
    bad = write(tmp_path / "bad", "kind: Pod")
    loaded = read_kubeconfigs(environ={"KUBECONFIG": f"/nope:{bad}"})
    assert loaded.warnings == ("Config not found: /nope",)
    assert loaded.problems


def test_the_first_file_wins_an_entry_as_a_whole(tmp_path: Path) -> None:
    first = write(tmp_path / "a", "users: [{name: u, user: {username: me}}]", "current-context: ''")
    second = write(
        tmp_path / "b", "users: [{name: u, user: {token: t}}, {name: v}]", "current-context: second"
    )
    third = write(tmp_path / "c", "current-context: third", "preferences: {colors: true}")
    loaded = load(first, second, third)
    assert {name: user.origin for name, user in loaded.config.users.items()} == {"u": first, "v": second}
    assert loaded.config.users["u"].token == ""
    assert loaded.config.current_context == "second"
    assert loaded.config.preferences.colors


@pytest.mark.parametrize(
    ("command", "resolved"),
    [
        ("plugin", "plugin"),
        ("..", ".."),
        ("./plugin", "{base}/plugin"),
        ("../a//b/../c", "{parent}/a/c"),
        ("/x/../y", "/x/../y"),
        ("~/p", "{base}/~/p"),
    ],
)
@pytest.mark.parametrize("named", ["absolute", "relative"])
def test_paths_count_from_the_folder_of_their_file(
    tmp_path: Path, command: str, resolved: str, named: str
) -> None:
    path = write(
        tmp_path / "sub/config",
        f"users: [{{name: u, user: {{tokenFile: tok, client-key: /k, exec: {{command: '{command}'}}}}}}]",
        "clusters: [{name: k, cluster: {certificate-authority: ca.crt}}]",
    )
    loaded = load(path if named == "absolute" else "sub/config", cwd=str(tmp_path))
    user = loaded.config.users["u"]
    base = f"{tmp_path}/sub"
    assert user.exec is not None
    assert user.exec.command == resolved.format(base=base, parent=tmp_path)
    assert (user.token_file, user.client_key, user.client_certificate) == (f"{base}/tok", "/k", "")
    assert loaded.config.clusters["k"].certificate_authority == f"{base}/ca.crt"


@pytest.mark.parametrize(
    "text", ["", "# nothing", "---", "null", "kind: Config", "apiVersion: v1", "apiVersion: /v1"]
)
def test_what_is_left_out_is_taken_for_a_v1_config(tmp_path: Path, text: str) -> None:
    assert load(write(tmp_path / "c", text)).config.is_empty


@pytest.mark.parametrize(
    ("text", "kubernetes_text", "where", "error_class"),
    [
        (
            "kind: Pod",
            'no kind "Pod" is registered for version "v1" in scheme "<scheme>"',
            "1:1: kind: ",
            "unknown-type",
        ),
        (
            "x: 1\napiVersion: a/v1",
            'no kind "Config" is registered for version "a/v1" in scheme "<scheme>"',
            "2:1: apiVersion: ",
            "unknown-type",
        ),
        ("apiVersion: a/b/c", "unexpected GroupVersion string: a/b/c", "1:1: apiVersion: ", "group-version"),
        (
            "apiVersion: a/",
            "Object 'apiVersion' is missing in 'apiVersion: a/\n'",
            "1:1: apiVersion: ",
            "missing-apiversion",
        ),
        ("- a", "couldn't get version/kind; json parse error: json: ", "1:1: found an array", "wrong-type"),
        ("kind: 1", "couldn't get version/kind; json parse error: json: ", "1:1: kind: found", "wrong-type"),
        ("{bad", "yaml: ", "2:1: not valid YAML", "yaml-syntax"),
        (
            "users:\n- name: u\n  user: {token: 5}",
            "json: cannot unmarshal number",
            "3:10: users[0].user.token: found a number, expected a string",
            "wrong-type",
        ),
        (
            "users:\n- name: u\n  user: {client-key-data: x}",
            "illegal base64 data at input byte 0",
            "3:10: users[0].user.client-key-data: the value is not base64",
            "base64",
        ),
        (
            "users:\n- name: u\n- name: u",
            'error converting *[]NamedAuthInfo into *map[string]*api.AuthInfo: duplicate name "u" in list: ',
            "3:3: users[1].name: the name 'u' is given twice",
            "other",
        ),
    ],
    ids=lambda value: value.partition("\n")[0][:30],
)
def test_what_is_wrong_is_said_in_two_tongues_and_with_its_place(
    tmp_path: Path, text: str, kubernetes_text: str, where: str, error_class: str
) -> None:
    path = write(tmp_path / "c", text)
    error = refusal(path)
    assert error.kubernetes_text.startswith(f'error loading config file "{path}": {kubernetes_text}')
    assert str(error).startswith(f"{path}:{where}")
    assert read_kubeconfigs(path).files[0].kind == error_class


def test_all_problems_of_all_files_are_named(tmp_path: Path) -> None:
    first = write(tmp_path / "a", "kind: Pod")
    second = write(tmp_path / "b", "users: [{name: 1}]", "current-context: 2")
    error = refusal(first, second, first)
    assert [problem.path for problem in error.problems] == ["kind", "users[0].name", "current-context"]
    assert error.kubernetes_text.startswith(f'[error loading config file "{first}": no kind "Pod"')
    assert f', error loading config file "{second}": json: cannot unmarshal' in error.kubernetes_text


def test_what_cannot_be_read_is_an_error_in_gos_words(tmp_path: Path) -> None:
    assert refusal(str(tmp_path)).kubernetes_text == (
        f'error loading config file "{tmp_path}": read {tmp_path}: is a directory'
    )
    path = write(tmp_path / "file") + "/x"
    assert (
        refusal(path).kubernetes_text == f'error loading config file "{path}": open {path}: not a directory'
    )
    with pytest.raises(ConfigError, match="cannot be read: invalid argument"):
        load_kubeconfig("a\0b", environ={})


def test_no_secret_shows(tmp_path: Path) -> None:
    path = write(
        tmp_path / "c",
        f"users: [{{name: u, user: {{token: {SECRET}, client-key-data: '{SECRET}!'}}}}, {{name: u}}]",
    )
    error = refusal(path)
    assert SECRET not in str(error) + repr(error) + repr(error.problems)
    assert SECRET not in repr(read_kubeconfigs(path))
    assert SECRET not in error.kubernetes_text


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


def refusal_of_context(config: LoadedKubeconfig, overrides: Overrides) -> str:
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
    assert refusal_of_context(loaded(), overrides) == text


def test_files_that_were_refused_stay_refused(tmp_path: Path) -> None:
    path = tmp_path / "c"
    path.write_text("kind: Pod")
    assert "no kind" in refusal_of_context(read_kubeconfigs(str(path)), Overrides())


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
        refusal_of_context(loaded(AuthInfo(token_file="/nope")), Overrides())
        == "open /nope: no such file or directory"
    )
    assert refusal_of_context(loaded(AuthInfo(token_file="/")), Overrides()) == "read /: is a directory"


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


def test_no_secret_of_a_resolved_config_shows() -> None:
    user = AuthInfo(token=SECRET, exec=replace(PLUGIN, args=(SECRET,)), client_key_data=SECRET.encode())
    cluster = replace(CLUSTER, proxy_url=f"http://u:{SECRET}@p")
    overrides = Overrides(token=SECRET, proxy_url=f"http://{SECRET}@p")
    config = resolve(loaded(user, cluster), overrides)
    assert config.bearer_token == SECRET
    assert SECRET not in repr(config) + repr(overrides) + repr(config.exec_cluster)


GOOD = ExecConfig(command="p", api_version="client.authentication.k8s.io/v1", interactive_mode="Never")
NO_KEY = "client-key-data or client-key must be specified for u to use the clientCert authentication method."
NO_CA = "unable to read certificate-authority /nope for k due to open /nope: no such file or directory"
EMPTY = "no configuration has been provided, try setting KUBERNETES_MASTER environment variable"


def texts(config: Kubeconfig) -> list[str]:
    """What client-go would say."""
    return [problem.kubernetes_text for problem in validate(config)]


@pytest.mark.parametrize(
    ("user", "said"),
    [
        pytest.param(AuthInfo(), [], id="nobody"),
        pytest.param(AuthInfo(exec=GOOD, token="t"), [], id="a token beside exec"),
        pytest.param(AuthInfo(client_key="/nope"), [], id="a key alone is not looked at"),
        pytest.param(
            AuthInfo(token="t", password="p"),
            ["more than one authentication method found for u; found [token basicAuth], only one is allowed"],
            id="token and password",
        ),
        pytest.param(
            AuthInfo(client_certificate="/nope", client_certificate_data=b"x"),
            [
                "client-cert-data and client-cert are both specified for u. client-cert-data will override.",
                NO_KEY,
                "unable to read client-cert /nope for u due to open /nope: no such file or directory",
            ],
            id="certificate",
        ),
        pytest.param(
            AuthInfo(client_certificate_data=b"x", client_key="/nope", client_key_data=b"x"),
            [
                "client-key-data and client-key are both specified for u; client-key-data will override",
                "unable to read client-key /nope for u due to open /nope: no such file or directory",
            ],
            id="key",
        ),
        pytest.param(
            AuthInfo(client_certificate="/", client_key="/"),
            [],
            id="a directory can be opened, and is not read",
        ),
        pytest.param(
            AuthInfo(exec=ExecConfig(env=(ExecEnvVar(),)), auth_provider=""),
            [
                "authProvider cannot be provided in combination with an exec plugin for u",
                "command must be specified for u to use exec authentication plugin",
                "apiVersion must be specified for u to use exec authentication plugin",
                "env variable name must be specified for u to use exec authentication plugin",
                "interactiveMode must be specified for u to use exec authentication plugin",
            ],
            id="exec",
        ),
        pytest.param(
            AuthInfo(exec=ExecConfig(command="p", api_version="bogus", interactive_mode="nev\ner")),
            ['invalid interactiveMode for u: "nev\\ner"'],
            id="mode; the version is not judged here",
        ),
        pytest.param(AuthInfo(impersonate="x", impersonate_uid="1", impersonate_groups=("g",)), [], id="as"),
        *(
            pytest.param(
                user,
                ["requesting uid, groups or user-extra for u without impersonating a user"],
                id=f"impersonation without a user {number}",
            )
            for number, user in enumerate(
                (
                    AuthInfo(impersonate_uid="1"),
                    AuthInfo(impersonate_groups=("g",)),
                    AuthInfo(impersonate_user_extra={"k": ()}),
                )
            )
        ),
    ],
)
def test_users(user: AuthInfo, said: list[str]) -> None:
    assert texts(Kubeconfig(users={"u": user})) == said


@pytest.mark.parametrize(
    ("name", "cluster", "said"),
    [
        ("k", Cluster(server="k:6443"), []),
        ("k", Cluster(), ['no server found for cluster "k"']),
        ("", Cluster(), ["default cluster has no server defined"]),
        ("k", Cluster(server="s", proxy_url="SOCKS5://p"), []),
        (
            "k",
            Cluster(server="s", proxy_url=":x"),
            ['invalid \'proxy-url\' ":x" for cluster "k": could not parse: :x'],
        ),
        (
            "k",
            Cluster(server="s", proxy_url="ftp://p"),
            [
                (
                    'invalid \'proxy-url\' "ftp://p" for cluster "k": '
                    'unsupported scheme "ftp", must be http, https, or socks5'
                )
            ],
        ),
        (
            "k",
            Cluster(server="s", certificate_authority="/nope", certificate_authority_data=b"x"),
            [
                (
                    "certificate-authority-data and certificate-authority are both specified for k. "
                    "certificate-authority-data will override."
                ),
                NO_CA,
            ],
        ),
    ],
)
def test_clusters(name: str, cluster: Cluster, said: list[str]) -> None:
    assert texts(Kubeconfig(clusters={name: cluster})) == said


@pytest.mark.parametrize(
    ("name", "context", "said"),
    [
        ("c", Context(cluster="k", user="u", namespace="my-ns"), []),
        (
            "c",
            Context(),
            ['user was not specified for context "c"', 'cluster was not specified for context "c"'],
        ),
        (
            "c",
            Context(cluster="x", user="y"),
            ['user "y" was not found for context "c"', 'cluster "x" was not found for context "c"'],
        ),
        (
            "",
            Context(cluster="k", user="u", origin="/f"),
            [
                (
                    'empty context name for api.Context{LocationOfOrigin:"/f", Cluster:"k", AuthInfo:"u", '
                    'Namespace:"", Extensions:map[string]runtime.Object{}} is not allowed'
                )
            ],
        ),
        *(
            (
                "c",
                Context(cluster="k", user="u", namespace=namespace),
                [
                    (
                        f'namespace "{namespace}" for context "c" '
                        "does not conform to the kubernetes DNS_LABEL rules"
                    )
                ],
            )
            for namespace in ("My", "a_b", "-a", "a-", "a.b", "a" * 64, "é")
        ),
        ("c", Context(cluster="k", user="u", namespace="a" * 63), []),
    ],
)
def test_contexts(name: str, context: Context, said: list[str]) -> None:
    config = Kubeconfig(
        clusters={"k": Cluster(server="s")},
        users={"u": AuthInfo()},
        contexts={name: context},
        current_context=name,
    )
    assert texts(config) == said


def test_an_empty_config_and_a_dangling_context_are_told_apart() -> None:
    assert texts(Kubeconfig()) == [EMPTY]
    assert texts(Kubeconfig(current_context="x")) == ["context was not found for specified context: x"]


def test_a_context_is_confirmed_by_what_it_uses_alone() -> None:
    config = Kubeconfig(
        clusters={"k": Cluster()},
        users={"u": AuthInfo(exec=ExecConfig())},
        contexts={"c": Context()},
        current_context="c",
    )
    fine = ("k", Cluster(server="s"))
    assert confirm_usable(config, "c", ("u", AuthInfo()), fine) == ()
    nothing = confirm_usable(config, "c", ("", AuthInfo()), ("", Cluster()))
    assert kubernetes_validation_text(nothing) == f"invalid configuration: {EMPTY}"
    dangling = confirm_usable(config, "x", ("", AuthInfo()), ("", Cluster()))
    assert kubernetes_validation_text(dangling) == (
        "invalid configuration: "
        "[context was not found for specified context: x, cluster has no server defined]"
    )


def test_equal_texts_are_said_once() -> None:
    user = AuthInfo(
        exec=ExecConfig(
            command="p",
            args=None,
            env=(ExecEnvVar(), ExecEnvVar()),
            api_version="v",
            install_hint="",
            provide_cluster_info=False,
            interactive_mode="Never",
        )
    )
    problems = validate(Kubeconfig(users={"u": user}))
    assert len(problems) == 2
    assert kubernetes_validation_text(problems) == (
        "invalid configuration: env variable name must be specified for u to use exec authentication plugin"
    )


def test_problems_have_positions(tmp_path: Path) -> None:
    path = tmp_path / "config"
    path.write_text(
        "current-context: gone\n"
        "users:\n"
        "- name: u\n"
        "  user:\n"
        "    exec:\n"
        "      command: p\n"
        "      apiVersion: client.authentication.k8s.io/v1\n"
        "      interactiveMode: never\n"
        "clusters:\n"
        "- name: k\n"
        "  cluster:\n"
        "    server: https://k\n"
        "    proxy-url: ftp://user:s3cr3t@p\n"
        "contexts:\n"
        "- name: c\n"
        "  context: {cluster: k, user: nobody}\n"
    )
    loaded = load_kubeconfig(str(path), environ={})
    assert [str(problem) for problem in validate(loaded.config, loaded.files)] == [
        f"{path}:1:1: current-context: context 'gone' does not exist (existing: 'c')",
        f"{path}:16:25: contexts[0].context.user: user 'nobody' does not exist",
        (
            f"{path}:8:7: users[0].user.exec.interactiveMode: "
            "found 'never', expected 'Never', 'IfAvailable' or 'Always'"
        ),
        (
            f"{path}:13:5: clusters[0].cluster.proxy-url: 'ftp://***@p' has the scheme 'ftp', "
            "expected a URL such as 'http://proxy:3128' (or https, socks5)"
        ),
    ]
