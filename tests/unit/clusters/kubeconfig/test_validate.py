"""Validation says what client-go says, and where the trouble stands."""

from __future__ import annotations

from pathlib import Path

import pytest

from keyferry.api.kubeconfig.v1 import AuthInfo, Cluster, Context, ExecConfig, ExecEnvVar, Kubeconfig
from keyferry.clusters.kubeconfig.files import load_kubeconfig
from keyferry.clusters.kubeconfig.validate import confirm_usable, kubernetes_validation_text, validate

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
