"""A kubeconfig is refused where client-go refuses it, and every worry has its code and its place."""

from __future__ import annotations

import base64
import json
import os
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID

from keyferry.lint.catalogue import CODES
from keyferry.lint.kinds.kubeconfig import lint_kubeconfig
from keyferry.lint.report import LintReport
from keyferry.lint.source import SourceFile
from support.certificates import key_pem, make_certificate, make_key
from support.parts import root
from support.plugins import write_executable

V1 = "client.authentication.k8s.io/v1"
SECRET = "hunter2-hunter2"
Json = dict[str, Any]


@pytest.fixture
def plugin(tmp_path: Path) -> str:
    """A program of our own, by its path."""
    tmp_path.chmod(0o755)
    return str(write_executable(tmp_path / "plugin", "#!/bin/sh\n"))


def config(
    user: Json | None = None, cluster: Json | None = None, context: Json | None = None, **more: Any
) -> Json:
    whole: Json = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "c",
        "clusters": [{"name": "k", "cluster": {"server": "https://k:6443"} | (cluster or {})}],
        "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"} | (context or {})}],
        "users": [{"name": "u", "user": {} if user is None else user}],
    }
    return whole | more


def lint(folder: Path, document: Json | str, mode: int = 0o600) -> LintReport:
    path = folder / "config"
    text = document if isinstance(document, str) else json.dumps(document, indent=1)
    path.write_text(text)
    path.chmod(mode)
    return lint_kubeconfig(SourceFile.parse(str(path), text.encode()))


def found(folder: Path, document: Json | str, mode: int = 0o600) -> list[tuple[str, str]]:
    return [(finding.code, finding.path) for finding in lint(folder, document, mode).findings]


def exec_user(command: str, **fields: object) -> Json:
    return {"exec": {"command": command, "apiVersion": V1, "interactiveMode": "Never"} | fields}


def test_a_good_kubeconfig_has_no_findings(tmp_path: Path, plugin: str) -> None:
    report = lint(tmp_path, config(exec_user(plugin)))
    assert (report.findings, report.accepted, report.kubernetes_text, report.kind) == (
        (),
        True,
        "",
        "kubeconfig",
    )


# What client-go refuses

CERTIFICATE = base64.b64encode(b"x").decode()
AUTHORITY = base64.b64encode(make_certificate(make_key()).encode()).decode()
USER, CLUSTER = "users[0].user", "clusters[0].cluster"
REFUSED: dict[str, tuple[Json | str, list[tuple[str, str]]]] = {
    "not YAML": ("kind: Config\na: [", [("KF201", "")]),
    "wrong version": (config(apiVersion="v2"), [("KF202", "apiVersion")]),
    "wrong kind": (config(kind="Pod"), [("KF202", "kind")]),
    "two slashes": (config(apiVersion="a/b/c"), [("KF202", "apiVersion")]),
    "a number": (config({"token": 5}), [("KF203", f"{USER}.token")]),
    "kind is a list": (config(kind=[1]), [("KF203", "kind")]),
    "YAML 1.1": ("users: [{name: u, user: {token: yes}}]", [("KF203", f"{USER}.token")]),
    "no base64": (
        config(cluster={"certificate-authority-data": "?"}),
        [("KF204", f"{CLUSTER}.certificate-authority-data")],
    ),
    "twice": (config(users=[{"name": "u"}, {"name": "u"}]), [("KF205", "users[1].name")]),
    "nothing": ("kind: Config", [("KF210", "")]),
    "current": (config() | {"current-context": "x"}, [("KF211", "current-context")]),
    "nameless": (
        config(contexts=[{"name": "", "context": {"cluster": "k", "user": "u"}}]) | {"current-context": ""},
        [("KF212", "contexts[0].context"), ("KF253", "")],
    ),
    "no user": (config(context={"user": ""}), [("KF213", "contexts[0].context"), ("KF255", "users[0]")]),
    "unknown user": (config(context={"user": "x"}), [("KF214", "contexts[0].context.user"), ("KF255", "users[0]")]),
    "unknown cluster": (
        config(context={"cluster": "x"}),
        [("KF214", "contexts[0].context.cluster"), ("KF255", "clusters[0]")],
    ),
    "namespace": (config(context={"namespace": "A_B"}), [("KF215", "contexts[0].context.namespace")]),
    "no server": (config(cluster={"server": ""}), [("KF216", CLUSTER)]),
    "proxy": (config(cluster={"proxy-url": "ftp://p"}), [("KF217", f"{CLUSTER}.proxy-url")]),
    "both authorities": (
        config(cluster={"certificate-authority": "/", "certificate-authority-data": AUTHORITY}),
        [("KF218", f"{CLUSTER}.certificate-authority")],
    ),
    "no authority": (
        config(cluster={"certificate-authority": "nope"}),
        [("KF219", f"{CLUSTER}.certificate-authority")],
    ),
    "a folder for a certificate": (
        config({"client-certificate": "/", "client-key": "/"}),
        [("KF219", f"{USER}.client-certificate"), ("KF219", f"{USER}.client-key")],
    ),
    "no token file": (config({"tokenFile": "nope"}), [("KF219", f"{USER}.tokenFile")]),
    "no key": (config({"client-certificate-data": CERTIFICATE}), [("KF220", USER)]),
    "auth-provider beside exec": (
        config(exec_user("/bin/sh") | {"auth-provider": {"name": "x"}}),
        [("KF221", f"{USER}.auth-provider")],
    ),
    "no command": (config(exec_user("")), [("KF222", f"{USER}.exec")]),
    "no version": (config(exec_user("/bin/sh", apiVersion="")), [("KF223", f"{USER}.exec")]),
    "nameless variable": (
        config(exec_user("/bin/sh", env=[{"value": "x"}])),
        [("KF224", f"{USER}.exec.env[0]")],
    ),
    "no mode": (config(exec_user("/bin/sh", interactiveMode=None)), [("KF225", f"{USER}.exec")]),
    "unknown mode": (
        config(exec_user("/bin/sh", interactiveMode="never")),
        [("KF225", f"{USER}.exec.interactiveMode")],
    ),
    "token and password": (
        config({"token": "t", "password": "p"}),
        [("KF226", f"{USER}.token"), ("KF270", f"{USER}.token"), ("KF270", f"{USER}.password")],
    ),
    "as-uid": (config({"as-uid": "1"}), [("KF227", USER)]),
    "v1alpha1": (
        config(exec_user("/bin/sh", apiVersion="client.authentication.k8s.io/v1alpha1")),
        [("KF228", f"{USER}.exec.apiVersion")],
    ),
    "auth-provider": (config({"auth-provider": {"name": "gcp"}}), [("KF229", f"{USER}.auth-provider")]),
}  # fmt: skip


@pytest.mark.parametrize(("document", "findings"), REFUSED.values(), ids=REFUSED)
def test_what_client_go_refuses_is_an_error_at_its_place(
    tmp_path: Path, document: Json | str, findings: list[tuple[str, str]]
) -> None:
    report = lint(tmp_path, document)
    assert sorted((each.code, each.path) for each in report.findings) == sorted(findings)
    assert not report.accepted
    assert report.kubernetes_text
    for finding in report.findings:
        assert finding.file == str(tmp_path / "config")
        assert finding.message
        assert finding.severity == CODES[finding.code].severity
        assert bool(finding.kubernetes_text) == (finding.severity == "error")


def test_all_refusals_are_found_at_once(tmp_path: Path) -> None:
    """client-go stops at the first stage that fails; here the entries that could be read are looked at too."""
    document = config(exec_user("", apiVersion=""), {"certificate-authority-data": "?"})
    codes = {code for code, _ in found(tmp_path, document)}
    assert {"KF204", "KF222", "KF223"} <= codes


def test_what_follows_from_an_entry_that_was_not_read_is_not_said(tmp_path: Path) -> None:
    """A command that is no string is not missing, and a name that is none leads to no dangling context."""
    assert found(tmp_path, config(exec_user(5))) == [("KF203", f"{USER}.exec.command")]  # type: ignore[arg-type] # that is it
    codes = [code for code, _ in found(tmp_path, config(users=[{"name": 5, "user": {}}]))]
    assert codes == ["KF203"]


def test_a_context_by_plain_http_is_not_refused_for_what_it_ignores(tmp_path: Path) -> None:
    """As in client-go: there the plugin's version is never looked at."""
    document = config(exec_user("/bin/sh", apiVersion="v9"), {"server": "http://k"})
    assert [code for code, _ in found(tmp_path, document)] == ["KF260"]


def test_a_user_without_a_context_is_judged_as_if_it_had_one(tmp_path: Path) -> None:
    users = [{"name": "u", "user": {}}, {"name": "v", "user": exec_user("/bin/sh", apiVersion="v9")}]
    assert set(found(tmp_path, config(users=users))) == {
        ("KF228", "users[1].user.exec.apiVersion"),
        ("KF255", "users[1]"),
    }


def test_every_context_is_tried_not_only_the_current_one(tmp_path: Path) -> None:
    users = [{"name": "u", "user": {}}, {"name": "v", "user": {"tokenFile": "nope"}}]
    contexts = [{"name": name, "context": {"cluster": "k", "user": name}} for name in "uv"]
    document = config(users=users, contexts=contexts) | {"current-context": "u"}
    assert found(tmp_path, document) == [("KF219", "users[1].user.tokenFile")]


def test_positions_are_those_of_the_file(tmp_path: Path) -> None:
    text = "users:\n- name: u\n  user:\n    exec:\n      apiVersion: x\n      Command: y\n"
    report = lint(tmp_path, text)
    places = {(each.code, each.line, each.column) for each in report.findings}
    assert {("KF222", 4, 5), ("KF250", 6, 7)} <= places


# What is legal and hardly meant


def worries(folder: Path, document: Json | str, mode: int = 0o600) -> dict[str, str]:
    """Code and message of each finding that is no error."""
    report = lint(folder, document, mode)
    assert report.accepted, report.findings
    return {each.code: each.message for each in report.findings}


@pytest.mark.parametrize(
    ("document", "meant"),
    [
        (config({"tokenfile": "x"}), "did you mean 'tokenFile'?"),
        (config({"client_certificate_data": "x"}), "did you mean 'client-certificate-data'?"),
        (config(cluster={"insecureSkipTlsVerify": True}), "did you mean 'insecure-skip-tls-verify'?"),
        (config(exec_user("/bin/sh", Command="y")), "did you mean 'command'?"),
        (config(exec_user("/bin/sh", stdinUnavailable=True)), "expected one of command, args"),
        (config(context={"Namespace": "x"}), "did you mean 'namespace'?"),
        (config(currentContext="x"), "did you mean 'current-context'?"),
        (config(exec_user("/bin/sh", env=[{"name": "A", "valeu": SECRET}])), "did you mean 'value'?"),
    ],
)
def test_fields_that_are_ignored_without_a_word_are_named(tmp_path: Path, document: Json, meant: str) -> None:
    said = worries(tmp_path, document)
    assert list(said) == ["KF250"]
    assert "client-go silently ignores it" in said["KF250"]
    assert meant in said["KF250"]


def test_free_keys_are_no_unknown_fields(tmp_path: Path) -> None:
    extension = {"name": "client.authentication.k8s.io/exec", "extension": {"Any": {"Thing": 1}}}
    user = {"as": "jane", "as-user-extra": {"Anything": ["x"]}}
    assert worries(tmp_path, config(user, {"extensions": [extension]}, preferences={"colors": True})) == {}


def test_repeated_keys_and_later_documents_are_named(tmp_path: Path) -> None:
    text = json.dumps(config()).replace('"kind"', '"kind": "Pod", "kind"')
    report = lint(tmp_path, f"{text}\n---\nkind: Config\n")
    assert [(each.code, each.line) for each in report.findings] == [("KF251", 1), ("KF252", 2)]


def test_what_is_not_used_or_not_set_is_named(tmp_path: Path) -> None:
    document = config(
        clusters=[
            {"name": "k", "cluster": {"server": "https://k"}},
            {"name": "x", "cluster": {"server": "https://x"}},
        ]
    )
    del document["current-context"]
    assert set(found(tmp_path, document)) == {("KF253", ""), ("KF255", "clusters[1]")}
    assert list(worries(tmp_path, {"users": document["users"]})) == ["KF254"]


SERVERS = [
    ("http://k:80", "KF260"),
    ("HTTP://k", "KF260"),
    ("k:6443", "KF261"),
    ("k", "KF261"),
    ("10.0.0.1:6443", "KF261"),
    ("//k", "KF261"),
    ("https:/k", "KF261"),
    ("ftp://k", "KF261"),
    ("https://k:port", "KF261"),
]


@pytest.mark.parametrize(("server", "code"), SERVERS)
def test_a_server_that_gets_no_credentials_is_named(tmp_path: Path, server: str, code: str) -> None:
    assert list(worries(tmp_path, config(cluster={"server": server}))) == [code]


@pytest.mark.parametrize(
    "server", ["https://k", "HTTPS://k:6443/path", "https://[::1]:6443", "https://10.0.0.1"]
)
def test_a_server_by_https_is_fine(tmp_path: Path, server: str) -> None:
    assert worries(tmp_path, config(cluster={"server": server})) == {}


def test_unchecked_servers_and_contradictions_are_named(tmp_path: Path) -> None:
    document = config(cluster={"insecure-skip-tls-verify": True})
    assert list(worries(tmp_path, document)) == ["KF262"]
    both = {"insecure-skip-tls-verify": True, "certificate-authority-data": CERTIFICATE}
    said = worries(tmp_path, config(cluster=both))
    assert sorted(said) == ["KF262", "KF263"]
    assert "root certificates file with the insecure flag is not allowed" in said["KF263"]
    assert "KF263" not in worries(tmp_path, config(cluster=both | {"server": "http://k"}))


@pytest.mark.parametrize(
    ("authority", "reason"),
    [
        pytest.param("x", "unable to parse bytes as PEM block", id="junk"),
        pytest.param(
            "-----BEGIN X-----\neA==\n-----END X-----\n",
            "no valid certificate authority data seen",
            id="other",
        ),
        pytest.param(
            "-----BEGIN CERTIFICATE-----\neA==\n-----END CERTIFICATE-----\n", "failed to parse", id="damaged"
        ),
    ],
)
def test_an_authority_that_is_not_pem_is_named(tmp_path: Path, authority: str, reason: str) -> None:
    """In the kubeconfig or in a file; over http it does not matter."""
    data = {"certificate-authority-data": base64.b64encode(authority.encode()).decode()}
    (tmp_path / "ca.crt").write_text(authority)
    for fields in (data, {"certificate-authority": "ca.crt"}):
        said = worries(tmp_path, config(cluster=fields))
        assert list(said) == ["KF289"]
        assert f"unable to load root certificates: {reason}" in said["KF289"]
        assert list(worries(tmp_path, config(cluster=fields | {"server": "http://k"}))) == ["KF260"]


def test_an_authority_in_pem_is_fine(tmp_path: Path) -> None:
    encoded = base64.b64encode(make_certificate(make_key()).encode()).decode()
    assert worries(tmp_path, config(cluster={"certificate-authority-data": encoded})) == {}


def test_a_server_without_a_host_says_what_is_missing(tmp_path: Path) -> None:
    said = worries(tmp_path, config(cluster={"server": "https://"}))
    assert said == {
        "KF261": "'https://' has no host after 'https://'; write for example 'https://cluster.example:6443'"
    }


def test_the_auth_provider_that_kubectl_still_has_is_a_warning(tmp_path: Path) -> None:
    said = worries(tmp_path, config({"auth-provider": {"name": "oidc"}}))
    assert list(said) == ["KF285"]
    assert said["KF285"].startswith("only kubectl still has this auth provider")


def test_a_variable_that_is_not_expanded_is_named(tmp_path: Path, plugin: str) -> None:
    env = [
        {"name": "A", "value": "${HOME}/x"},
        {"name": "API_TOKEN", "value": "$(TOKEN)"},
        {"name": "B", "value": "a$b"},
    ]
    assert found(tmp_path, config(exec_user(plugin, env=env))) == [
        ("KF284", f"{USER}.exec.env[0].value"),
        ("KF284", f"{USER}.exec.env[1].value"),
    ]


def test_a_removed_version_is_named_beside_other_errors(tmp_path: Path, plugin: str) -> None:
    user = exec_user(plugin, apiVersion="client.authentication.k8s.io/v1alpha1", interactiveMode="Maybe")
    codes = [code for code, _ in found(tmp_path, config(user, {"server": ""}))]
    assert sorted(codes) == ["KF216", "KF225", "KF228"]


def test_a_token_inside_an_argument_is_named(tmp_path: Path, plugin: str) -> None:
    answer = '{"apiVersion":"client.authentication.k8s.io/v1","status":{"token":"%s"}}'
    assert found(tmp_path, config(exec_user(plugin, args=[answer % SECRET]))) == [
        ("KF271", f"{USER}.exec.args[0]")
    ]
    assert found(tmp_path, config(exec_user(plugin, args=[answer % "<token>"]))) == []


@pytest.mark.parametrize(
    "user",
    [
        {"token": "REDACTED"},
        {"token": "<token>"},
        {"token": "${TOKEN}"},
        {"username": "u", "password": "YOUR_PASSWORD"},
        {"client-certificate-data": "DATA+OMITTED", "client-key-data": "DATA+OMITTED"},
    ],
)
def test_a_placeholder_is_not_a_secret(tmp_path: Path, user: Json) -> None:
    assert "KF270" not in worries(tmp_path, config(user))


def test_a_file_that_is_absent_says_where(tmp_path: Path) -> None:
    (finding,) = lint(tmp_path, config({"tokenFile": "nope"})).findings
    assert finding.message.endswith("no such file or directory (on this machine)")


@pytest.mark.parametrize(
    ("proxy", "codes"),
    [
        ("https://proxy:3128", []),
        ("socks5://proxy", []),
        ("http://proxy:3128", ["KF265"]),
        (f"https://user:{SECRET}@proxy", ["KF264"]),
        (f"http://user:{SECRET}@proxy", ["KF264", "KF265"]),
    ],
)
def test_proxies_that_give_something_away_are_named(tmp_path: Path, proxy: str, codes: list[str]) -> None:
    said = worries(tmp_path, config(cluster={"proxy-url": proxy}))
    assert list(said) == codes
    assert SECRET not in str(said)


@pytest.mark.parametrize(
    "proxy",
    [
        f"ftp://u:{SECRET}@p",
        f"http://u:{SECRET}/x@p",
        f"u:{SECRET}@p:80",
        f"http://u:{SECRET}@p p",
        f'http://u:"{SECRET}@p',
    ],
)
def test_a_proxys_password_is_in_no_word_of_ours_or_of_kubernetes(tmp_path: Path, proxy: str) -> None:
    report = lint(tmp_path, config(cluster={"proxy-url": proxy}))
    assert "KF217" in [each.code for each in report.findings]
    texts = [each.message + each.kubernetes_text for each in report.findings]
    assert SECRET not in "".join(texts) + report.kubernetes_text


@pytest.mark.parametrize(
    ("user", "path"),
    [
        ({"token": SECRET}, f"{USER}.token"),
        ({"username": "u", "password": SECRET}, f"{USER}.password"),
        ({"client-key-data": base64.b64encode(SECRET.encode()).decode()}, f"{USER}.client-key-data"),
    ],
)
def test_secrets_in_the_file_are_named_and_who_can_read_them(tmp_path: Path, user: Json, path: str) -> None:
    assert found(tmp_path, config(user)) == [("KF270", path)]
    for mode, who in ((0o640, "its group"), (0o644, "everybody")):
        said = worries(tmp_path, config(user), mode)
        assert sorted(said) == ["KF270", "KF290"]
        assert said["KF290"].startswith(f"{who} can read")
        assert SECRET not in str(said)
    assert worries(tmp_path, config(), 0o644) == {}


def test_a_password_in_the_server_is_named(tmp_path: Path) -> None:
    said = worries(tmp_path, config(cluster={"server": f"https://u:{SECRET}@k"}))
    assert list(said) == ["KF270"]
    assert SECRET not in str(said)


def test_an_option_and_its_value_are_one_secret(tmp_path: Path, plugin: str) -> None:
    """Also if the value looks like a secret by itself."""
    token = "eyJhbGciOiJub25lIn0.eyJzdWIiOiJ4In0.c2ln"
    assert found(tmp_path, config(exec_user(plugin, args=["--token", token, token]))) == [
        ("KF271", f"{USER}.exec.args[0]"),
        ("KF271", f"{USER}.exec.args[2]"),
    ]


def test_secrets_told_to_a_plugin_are_named(tmp_path: Path, plugin: str) -> None:
    env = [{"name": "CLIENT_SECRET", "value": SECRET}, {"name": "SECRET_FILE", "value": "/x"}]
    user = exec_user(plugin, env=env, args=["--password", SECRET, "get", f"--token={SECRET}", "--user=u"])
    report = lint(tmp_path, config(user))
    assert {(each.code, each.path) for each in report.findings} == {
        ("KF271", f"{USER}.exec.env[0].value"),
        ("KF271", f"{USER}.exec.args[0]"),
        ("KF271", f"{USER}.exec.args[3]"),
    }
    assert SECRET not in str([each.message for each in report.findings])


@pytest.mark.parametrize(
    "beside",
    [
        {"token": "t"},
        {"tokenFile": "token"},
        {"username": "u"},
        {"client-certificate-data": CERTIFICATE, "client-key-data": CERTIFICATE},
    ],
    ids=lambda beside: next(iter(beside)),
)
def test_a_plugin_that_is_never_run_is_named(tmp_path: Path, plugin: str, beside: Json) -> None:
    (tmp_path / "token").write_text("t")
    assert "KF272" in worries(tmp_path, config(exec_user(plugin) | beside))
    assert "KF272" not in worries(tmp_path, config(exec_user(plugin) | {"as": "jane"}))
    # A password without a user name is no basic auth to client-go.
    assert "KF272" not in worries(tmp_path, config(exec_user(plugin) | {"password": "p"}))


def test_the_old_protocol_is_named(tmp_path: Path, plugin: str) -> None:
    said = worries(tmp_path, config(exec_user(plugin, apiVersion=f"{V1}beta1")))
    assert list(said) == ["KF273"]


def test_a_relative_command_counts_from_the_folder_of_the_file(tmp_path: Path, plugin: str) -> None:
    said = worries(tmp_path, config(exec_user("./plugin")))
    assert list(said) == ["KF274"]
    assert repr(plugin) in said["KF274"]
    said = worries(tmp_path, config(exec_user("bin/plugin")))
    assert sorted(said) == ["KF274", "KF276"]
    assert "no such file or directory" in said["KF276"]


def test_a_bare_command_is_looked_for_in_path(
    tmp_path: Path, plugin: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert plugin.endswith("/plugin")
    monkeypatch.setenv("PATH", "/nonexistent")
    assert list(worries(tmp_path, config(exec_user("plugin")))) == ["KF275"]
    monkeypatch.setenv("PATH", str(tmp_path))
    assert worries(tmp_path, config(exec_user("plugin"))) == {}
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", ".")
    assert list(worries(tmp_path, config(exec_user("plugin")))) == ["KF275"]


@pytest.mark.parametrize(("mode", "reason"), [(0o644, "permission denied"), (None, "is a directory")])
def test_a_command_that_is_no_program_is_named(tmp_path: Path, mode: int | None, reason: str) -> None:
    path = tmp_path / "program"
    if mode is None:
        path.mkdir()
    else:
        write_executable(path, "", mode)
    said = worries(tmp_path, config(exec_user(str(path))))
    assert list(said) == ["KF276"]
    assert reason in said["KF276"]


def test_a_program_that_others_can_change_is_named(tmp_path: Path) -> None:
    folder = tmp_path / "bin"
    folder.mkdir()
    path = write_executable(folder / "program", "", 0o775)
    assert list(worries(tmp_path, config(exec_user(str(path))))) == ["KF283"]
    path.chmod(0o755)
    folder.chmod(0o777)
    assert list(worries(tmp_path, config(exec_user(str(path))))) == ["KF283"]
    folder.chmod(0o1777)
    assert worries(tmp_path, config(exec_user(str(path)))) == {}


@root
def test_a_program_of_somebody_else_is_named(tmp_path: Path) -> None:
    path = write_executable(tmp_path / "program", "")
    os.chown(path, 65534, -1)
    said = worries(tmp_path, config(exec_user(str(path))))
    assert said == {"KF283": f"{path} belongs to user 65534, who can change it"}


def make_target_writable(target: Path) -> str:
    target.chmod(0o777)
    return f"everybody can write {target}"


def make_target_foreign(target: Path) -> str:
    os.chown(target, 65534, -1)
    return f"{target} belongs to user 65534"


def make_target_replaceable(target: Path) -> str:
    target.parent.chmod(0o777)
    return f"everybody can write to {target.parent} and replace {target.name}"


@pytest.mark.parametrize(
    "spoil", [make_target_writable, pytest.param(make_target_foreign, marks=root), make_target_replaceable]
)
def test_of_a_link_the_program_it_leads_to_counts(tmp_path: Path, spoil: Callable[[Path], str]) -> None:
    folders = tmp_path / "bin", tmp_path / "real"
    for folder in folders:
        folder.mkdir(mode=0o755)
    target = write_executable(folders[1] / "program-1.2", "")
    link = folders[0] / "program"
    link.symlink_to(target)
    assert worries(tmp_path, config(exec_user(str(link)))) == {}
    message = spoil(target)
    said = worries(tmp_path, config(exec_user(str(link))))
    assert list(said) == ["KF283"]
    assert said["KF283"].startswith(message)


def test_of_a_link_its_own_folder_counts_too(tmp_path: Path) -> None:
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "program").symlink_to(write_executable(tmp_path / "program", ""))
    folder.chmod(0o777)
    said = worries(tmp_path, config(exec_user(str(folder / "program"))))
    assert list(said) == ["KF283"]
    assert said["KF283"].startswith(f"everybody can write to {folder} and replace program")


@pytest.mark.parametrize(
    ("env", "code"),
    [
        ([{"name": "PATH", "value": "/x"}], "KF277"),
        ([{"name": "LD_PRELOAD", "value": "/x.so"}], "KF277"),
        ([{"name": "LD_LIBRARY_PATH", "value": "/x"}], "KF277"),
        ([{"name": "LD_AUDIT", "value": "/x"}], "KF277"),
        ([{"name": "PYTHONPATH", "value": "/x"}], "KF277"),
        ([{"name": "KUBERNETES_EXEC_INFO", "value": "{}"}], "KF278"),
        ([{"name": "A", "value": "1"}, {"name": "A", "value": "2"}], "KF279"),
        ([{"name": "A=B", "value": "1"}], "KF280"),
        ([{"name": "A", "value": "1\0"}], "KF280"),
    ],
)
def test_variables_that_do_something_else_than_meant_are_named(
    tmp_path: Path, plugin: str, env: list[Json], code: str
) -> None:
    assert list(worries(tmp_path, config(exec_user(plugin, env=env)))) == [code]


@pytest.mark.parametrize("hint", ["brew install x\n\tthen y", "ünï ☃"])
def test_ordinary_hints_are_fine(tmp_path: Path, plugin: str, hint: str) -> None:
    assert worries(tmp_path, config(exec_user(plugin, installHint=hint))) == {}


@pytest.mark.parametrize("hint", ["\x1b[2J", "a\x07", "\u202eabc", "\x9b1m"])
def test_hints_that_could_upset_a_terminal_are_named(tmp_path: Path, plugin: str, hint: str) -> None:
    said = worries(tmp_path, config(exec_user(plugin, installHint=hint)))
    assert list(said) == ["KF281"]
    assert said["KF281"].isprintable()


@pytest.mark.skipif(sys.platform != "linux", reason="files of Linux")
@pytest.mark.parametrize(
    "path", [pytest.param("/etc/shadow", marks=root), "/etc/passwd", "/proc/self/environ", "/dev/zero"]
)
def test_token_files_that_hold_no_token_are_named_and_not_read(tmp_path: Path, path: str) -> None:
    said = worries(tmp_path, config({"tokenFile": path}))
    assert list(said) == ["KF282"]
    assert repr(path) in said["KF282"]


@pytest.mark.parametrize("name", [".ssh/id", "./.ssh/id", "../{here}/.ssh/id"])
def test_a_relative_token_file_counts_from_the_folder_of_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """And not from where the linter runs: what it leads to is what is judged."""
    monkeypatch.chdir("/")
    (tmp_path / ".ssh").mkdir()
    secret = tmp_path / ".ssh" / "id"
    secret.write_text("x")
    said = worries(tmp_path, config({"tokenFile": name.format(here=tmp_path.name)}))
    assert list(said) == ["KF282"]
    assert repr(str(secret)) in said["KF282"]
    secret.rename(tmp_path / "token")
    assert worries(tmp_path, config({"tokenFile": "token"})) == {}
    assert found(tmp_path, config({"tokenFile": "nope"})) == [("KF219", f"{USER}.tokenFile")]


def test_a_linter_does_not_wait_for_a_pipe(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    pipe = str(tmp_path / "pipe")
    user = {"tokenFile": pipe, "client-certificate": pipe, "client-key": pipe}
    assert worries(tmp_path, config(user, {"certificate-authority": pipe})) == {}


def test_a_cluster_that_no_variable_can_hold_is_named(tmp_path: Path, plugin: str) -> None:
    authority = make_certificate(make_key())
    large = base64.b64encode(authority.encode() * (120_000 // len(authority) + 1)).decode()
    user = exec_user(plugin, provideClusterInfo=True)
    said = worries(tmp_path, config(user, {"certificate-authority-data": large}))
    if sys.platform == "linux":
        assert list(said) == ["KF286"]
        assert "provideClusterInfo" in said["KF286"]
    assert worries(tmp_path, config(exec_user(plugin), {"certificate-authority-data": large})) == {}


def pair(end: datetime | None = None) -> Json:
    key = make_key()
    pem = make_certificate(key)
    if end is not None:
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "user")])
        begin = datetime(2019, 1, 1, tzinfo=UTC)
        builder = x509.CertificateBuilder(name, name, key.public_key(), 1, begin, end)
        pem = builder.sign(key, hashes.SHA256()).public_bytes(Encoding.PEM).decode()
    encoded = {"client-certificate-data": pem, "client-key-data": key_pem(key)}
    return {name: base64.b64encode(text.encode()).decode() for name, text in encoded.items()}


def test_client_certificates_that_are_of_no_use_are_named(tmp_path: Path) -> None:
    assert list(worries(tmp_path, config(pair()))) == ["KF270"]
    mixed = pair() | {"client-key-data": pair()["client-key-data"]}
    assert sorted(worries(tmp_path, config(mixed))) == ["KF270", "KF287"]
    said = worries(tmp_path, config(pair(datetime(2020, 1, 1, tzinfo=UTC))))
    assert sorted(said) == ["KF270", "KF288"]
    assert "2020-01-01T00:00:00Z" in said["KF288"]


@pytest.mark.parametrize(
    ("mode", "who"),
    [(0o602, "everybody"), pytest.param(0o620, "group 54321", marks=root), (0o666, "everybody")],
)
def test_a_file_that_others_can_write_is_named(tmp_path: Path, mode: int, who: str) -> None:
    (tmp_path / "config").touch()
    if who != "everybody":
        os.chown(tmp_path / "config", -1, 54_321)
    said = worries(tmp_path, config(), mode)
    assert list(said) == ["KF291"]
    assert said["KF291"].startswith(f"{who} can write it")
    assert str(tmp_path) in said["KF291"]


def test_a_file_that_others_can_replace_is_named(tmp_path: Path) -> None:
    """From any folder above it, and through a link: the verdict is that of whoever loads the file."""
    inner = tmp_path / "a" / "b"
    inner.mkdir(parents=True)
    assert worries(inner, config()) == {}
    (tmp_path / "a").chmod(0o777)
    said = worries(inner, config())
    assert list(said) == ["KF291"]
    assert said["KF291"].startswith(f"everybody can write its folder {tmp_path}/a")
    link = tmp_path / "link"
    link.symlink_to(inner / "config")
    (finding,) = lint_kubeconfig(SourceFile.parse(str(link), link.read_bytes())).findings
    assert (finding.code, finding.message.split(":")[0]) == ("KF291", said["KF291"].split(":")[0])


def test_a_named_pipe_and_what_is_gone_are_named(tmp_path: Path) -> None:
    """Whoever loads the file does not follow them either."""
    path, data = tmp_path / "config", json.dumps(config()).encode()
    os.mkfifo(path, 0o600)
    (finding,) = lint_kubeconfig(SourceFile.parse(str(path), data)).findings
    assert (finding.code, "it is a named pipe" in finding.message) == ("KF291", True)
    path.unlink()
    (finding,) = lint_kubeconfig(SourceFile.parse(str(path), data)).findings
    assert (finding.code, "its owner and mode were not checked" in finding.message) == ("KF291", True)


@root
def test_a_file_of_somebody_else_is_named(tmp_path: Path) -> None:
    path = tmp_path / "config"
    path.write_text(json.dumps(config()))
    path.chmod(0o600)
    os.chown(path, 65534, -1)
    (finding,) = lint_kubeconfig(SourceFile.parse(str(path), path.read_bytes())).findings
    assert (finding.code, "belongs to user 65534" in finding.message) == ("KF291", True)


def test_a_client_certificate_in_a_file_is_named_too(tmp_path: Path) -> None:
    """As with data in the kubeconfig: junk is never a certificate."""
    (tmp_path / "user.crt").write_text("junk")
    (tmp_path / "user.key").write_text("junk")
    files = {"client-certificate": "user.crt", "client-key": "user.key"}
    said = worries(tmp_path, config(files))
    assert said == {"KF287": "client-go cannot connect with it: the certificate contains no PEM data"}
