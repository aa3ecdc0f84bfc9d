"""A kubeconfig is refused where client-go refuses it, and every worry has its code and its place."""

from __future__ import annotations

import base64
import json
import os
import sys
import threading
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from support.certificates import AFTER, key_pem, make_certificate, make_key
from support.lint import SECRET, Report, lint_target, only, places, write
from support.parts import root
from support.plugins import write_executable

V1 = "client.authentication.k8s.io/v1"
Json = dict[str, Any]


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


def exec_user(command: str = "/bin/sh", **fields: object) -> Json:
    return {"exec": {"command": command, "apiVersion": V1, "interactiveMode": "Never"} | fields}


def lint(folder: Path, document: Json | str, mode: int = 0o600) -> Report:
    text = document if isinstance(document, str) else json.dumps(document, indent=1)
    return lint_target(write(folder, text, "config", mode))


def found(folder: Path, document: Json | str) -> list[tuple[str, str]]:
    return [(code, path) for code, path, _ in places(lint(folder, document))]


def worries(folder: Path, document: Json | str, mode: int = 0o600) -> dict[str, str]:
    """Code and message of each finding, none of which is an error."""
    report = lint(folder, document, mode)
    assert report.accepted, report.findings
    return {each.code: each.message for each in report.findings}


CERTIFICATE = base64.b64encode(b"x").decode()
AUTHORITY = base64.b64encode(make_certificate(make_key()).encode()).decode()
USER, CLUSTER, CONTEXT, EXEC = (
    "users[0].user",
    "clusters[0].cluster",
    "contexts[0].context",
    "users[0].user.exec",
)
REFUSED: dict[str, tuple[Json | str, list[tuple[str, str]]]] = {
    "not YAML": ("kind: Config\na: [", [("KF201", "")]),
    "wrong version": (config(apiVersion="v2"), [("KF202", "apiVersion")]),
    "two slashes": (config(apiVersion="a/b/c"), [("KF202", "apiVersion")]),
    "a number": (config({"token": 5}), [("KF203", f"{USER}.token")]),
    "YAML 1.1": ("users: [{name: u, user: {token: yes}}]", [("KF203", f"{USER}.token")]),
    # What follows from an entry that was not read is not said: no command is missing, and no context dangles.
    "a command that is none": (config(exec_user(5)), [("KF203", f"{EXEC}.command")]),  # type: ignore[arg-type] # the point
    "a name that is none": (config(users=[{"name": 5, "user": {}}]), [("KF203", "users[0].name")]),
    "no base64": (
        config(cluster={"certificate-authority-data": "?"}), [("KF204", f"{CLUSTER}.certificate-authority-data")],
    ),
    "twice": (config(users=[{"name": "u"}, {"name": "u"}]), [("KF205", "users[1].name")]),
    "nothing": ("kind: Config", [("KF210", "")]),
    "current": (config() | {"current-context": "x"}, [("KF211", "current-context")]),
    "nameless": (
        config(contexts=[{"name": "", "context": {"cluster": "k", "user": "u"}}]) | {"current-context": ""},
        [("KF212", CONTEXT), ("KF253", "")],
    ),
    "no user": (config(context={"user": ""}), [("KF213", CONTEXT), ("KF255", "users[0]")]),
    "unknown user": (config(context={"user": "x"}), [("KF214", f"{CONTEXT}.user"), ("KF255", "users[0]")]),
    "unknown cluster": (
        config(context={"cluster": "x"}), [("KF214", f"{CONTEXT}.cluster"), ("KF255", "clusters[0]")],
    ),
    "namespace": (config(context={"namespace": "A_B"}), [("KF215", f"{CONTEXT}.namespace")]),
    "no server": (config(cluster={"server": ""}), [("KF216", CLUSTER)]),
    "proxy": (config(cluster={"proxy-url": "ftp://p"}), [("KF217", f"{CLUSTER}.proxy-url")]),
    "both authorities": (
        config(cluster={"certificate-authority": "/", "certificate-authority-data": AUTHORITY}),
        [("KF218", f"{CLUSTER}.certificate-authority")],
    ),
    "no authority": (
        config(cluster={"certificate-authority": "nope"}), [("KF219", f"{CLUSTER}.certificate-authority")],
    ),
    "a folder for a certificate": (
        config({"client-certificate": "/", "client-key": "/"}),
        [("KF219", f"{USER}.client-certificate"), ("KF219", f"{USER}.client-key")],
    ),
    "no token file": (config({"tokenFile": "nope"}), [("KF219", f"{USER}.tokenFile")]),
    "no key": (config({"client-certificate-data": CERTIFICATE}), [("KF220", USER)]),
    "auth-provider beside exec": (
        config(exec_user() | {"auth-provider": {"name": "x"}}), [("KF221", f"{USER}.auth-provider")],
    ),
    "no command": (config(exec_user("")), [("KF222", EXEC)]),
    "no version": (config(exec_user(apiVersion="")), [("KF223", EXEC)]),
    "nameless variable": (config(exec_user(env=[{"value": "x"}])), [("KF224", f"{EXEC}.env[0]")]),
    "no mode": (config(exec_user(interactiveMode=None)), [("KF225", EXEC)]),
    "unknown mode": (config(exec_user(interactiveMode="never")), [("KF225", f"{EXEC}.interactiveMode")]),
    "token and password": (
        config({"token": "t", "password": "p"}),
        [("KF226", f"{USER}.token"), ("KF270", f"{USER}.password"), ("KF270", f"{USER}.token")],
    ),
    "as-uid": (config({"as-uid": "1"}), [("KF227", USER)]),
    "v1alpha1": (
        config(exec_user(apiVersion="client.authentication.k8s.io/v1alpha1")), [("KF228", f"{EXEC}.apiVersion")],
    ),
    "auth-provider": (config({"auth-provider": {"name": "gcp"}}), [("KF229", f"{USER}.auth-provider")]),
    # client-go stops at the first stage that fails; here the entries that could be read are looked at too.
    "several stages": (
        config(exec_user("", apiVersion=""), {"certificate-authority-data": "?"}),
        [("KF204", f"{CLUSTER}.certificate-authority-data"), ("KF222", EXEC), ("KF223", EXEC)],
    ),
    "a removed version beside other errors": (
        config(exec_user(apiVersion="client.authentication.k8s.io/v1alpha1", interactiveMode="Maybe"), {"server": ""}),
        [("KF216", CLUSTER), ("KF225", f"{EXEC}.interactiveMode"), ("KF228", f"{EXEC}.apiVersion")],
    ),
    "another user than the current one": (
        config(
            users=[{"name": "u", "user": {}}, {"name": "v", "user": {"tokenFile": "nope"}}],
            contexts=[{"name": name, "context": {"cluster": "k", "user": name}} for name in "uv"],
        ) | {"current-context": "u"},
        [("KF219", "users[1].user.tokenFile")],
    ),
    "a user without a context": (
        config(users=[{"name": "u", "user": {}}, {"name": "v", "user": exec_user(apiVersion="v9")}]),
        [("KF228", "users[1].user.exec.apiVersion"), ("KF255", "users[1]")],
    ),
}  # fmt: skip


@pytest.mark.parametrize(("document", "findings"), REFUSED.values(), ids=REFUSED)
def test_what_client_go_refuses_is_an_error_at_its_place(
    tmp_path: Path, document: Json | str, findings: list[tuple[str, str]]
) -> None:
    report = lint(tmp_path, document)
    assert sorted((each.code, each.path) for each in report.findings) == findings
    assert not report.accepted
    assert report.kubernetes_text
    for finding in report.findings:
        assert finding.file == str(tmp_path / "config")
        assert finding.message
        assert bool(finding.kubernetes_text) == (finding.severity == "error")


def test_positions_are_those_of_the_file(tmp_path: Path) -> None:
    report = lint(tmp_path, "users:\n- name: u\n  user:\n    exec:\n      apiVersion: x\n      Command: y\n")
    assert {("KF222", 4, 5), ("KF250", 6, 7)} <= {
        (each.code, each.line, each.column) for each in report.findings
    }
    text = json.dumps(config()).replace('"kind"', '"kind": "Pod", "kind"')
    report = lint(tmp_path, f"{text}\n---\nkind: Config\n")
    assert [(each.code, each.line) for each in report.findings] == [("KF251", 1), ("KF252", 2)]


def server(url: str) -> Json:
    return config(cluster={"server": url})


def variables(*env: Json) -> Json:
    return config(exec_user(env=list(env)))


def proxy(url: str) -> Json:
    return config(cluster={"proxy-url": url})


UNCHECKED = {"insecure-skip-tls-verify": True, "certificate-authority-data": CERTIFICATE}
EXTENSION = {"name": "client.authentication.k8s.io/exec", "extension": {"Any": {"Thing": 1}}}
FINE = {
    "plugin": config(exec_user()),
    "https": server("https://k"),
    "path": server("HTTPS://k:6443/path"),
    "IPv6": server("https://[::1]:6443"),
    "address": server("https://10.0.0.1"),
    "authority": config(cluster={"certificate-authority-data": AUTHORITY}),
    "proxy with TLS": proxy("https://proxy:3128"),
    "SOCKS": proxy("socks5://proxy"),
    "free keys": config(
        {"as": "jane", "as-user-extra": {"Anything": ["x"]}},
        {"extensions": [EXTENSION]},
        preferences={"colors": True},
    ),
    "impersonation": config(exec_user() | {"as": "jane"}),
    "lines in a hint": config(exec_user(installHint="brew install x\n\tthen y")),
    "letters in a hint": config(exec_user(installHint="ünï ☃")),
    "placeholder inside an argument": config(exec_user(args=['{"status":{"token":"<token>"}}'])),
}


@pytest.mark.parametrize("document", FINE.values(), ids=FINE)
def test_what_is_fine_has_no_findings(tmp_path: Path, document: Json) -> None:
    report = lint(tmp_path, document)
    assert (report.findings, report.accepted, report.kubernetes_text) == ((), True, "")
    assert report.kind == "kubeconfig"


WORRIES = {
    "no current context": ({"users": [{"name": "u", "user": {}}]}, ["KF254"]),
    "http": (server("http://k:80"), ["KF260"]),
    "HTTP": (server("HTTP://k"), ["KF260"]),
    # As in client-go: without TLS nobody looks at the plugin's version.
    "http with a wrong plugin": (config(exec_user(apiVersion="v9"), {"server": "http://k"}), ["KF260"]),
    **{url: (server(url), ["KF261"]) for url in ("k:6443", "k", "10.0.0.1:6443", "//k", "https:/k", "ftp://k")},
    "word for a port": (server("https://k:port"), ["KF261"]),
    "unchecked": (config(cluster={"insecure-skip-tls-verify": True}), ["KF262"]),
    "unchecked with an authority": (config(cluster=UNCHECKED), ["KF262", "KF263"]),
    "unchecked, without TLS": (config(cluster=UNCHECKED | {"server": "http://k"}), ["KF260", "KF262"]),
    "proxy": (proxy("http://proxy:3128"), ["KF265"]),
    "login of a proxy": (proxy(f"https://user:{SECRET}@proxy"), ["KF264"]),
    "login of a proxy without TLS": (proxy(f"http://user:{SECRET}@proxy"), ["KF264", "KF265"]),
    "login in the server": (server(f"https://u:{SECRET}@k"), ["KF270"]),
    "old protocol": (config(exec_user(apiVersion=f"{V1}beta1")), ["KF273"]),
    "path": (variables({"name": "PATH", "value": "/x"}), ["KF277"]),
    "preload": (variables({"name": "LD_PRELOAD", "value": "/x.so"}), ["KF277"]),
    "libraries": (variables({"name": "LD_LIBRARY_PATH", "value": "/x"}), ["KF277"]),
    "audit": (variables({"name": "LD_AUDIT", "value": "/x"}), ["KF277"]),
    "modules": (variables({"name": "PYTHONPATH", "value": "/x"}), ["KF277"]),
    "exec info": (variables({"name": "KUBERNETES_EXEC_INFO", "value": "{}"}), ["KF278"]),
    "variable twice": (variables({"name": "A", "value": "1"}, {"name": "A", "value": "2"}), ["KF279"]),
    "equals sign": (variables({"name": "A=B", "value": "1"}), ["KF280"]),
    "NUL": (variables({"name": "A", "value": "1\0"}), ["KF280"]),
}  # fmt: skip


@pytest.mark.parametrize(("document", "codes"), WORRIES.values(), ids=WORRIES)
def test_what_is_legal_and_hardly_meant_is_named(tmp_path: Path, document: Json, codes: list[str]) -> None:
    said = worries(tmp_path, document)
    assert sorted(said) == codes
    assert SECRET not in str(said)


PLACES = {
    "not used, not set": (
        {
            **{name: value for name, value in config().items() if name != "current-context"},
            "clusters": [{"name": name, "cluster": {"server": f"https://{name}"}} for name in "kx"],
        },
        [("KF253", ""), ("KF255", "clusters[1]")],
    ),
    "token": (config({"token": SECRET}), [("KF270", f"{USER}.token")]),
    "password": (config({"username": "u", "password": SECRET}), [("KF270", f"{USER}.password")]),
    "key": (
        config({"client-key-data": base64.b64encode(SECRET.encode()).decode()}),
        [("KF270", f"{USER}.client-key-data")],
    ),
    # An option and its value are one secret, also if the value looks like one by itself.
    "option and value": (
        config(exec_user(args=["--token", *["eyJhbGciOiJub25lIn0.eyJzdWIiOiJ4In0.c2ln"] * 2])),
        [("KF271", f"{EXEC}.args[0]"), ("KF271", f"{EXEC}.args[2]")],
    ),
    "secrets told to a plugin": (
        config(exec_user(
            env=[{"name": "CLIENT_SECRET", "value": SECRET}, {"name": "SECRET_FILE", "value": "/x"}],
            args=["--password", SECRET, "get", f"--token={SECRET}", "--user=u"],
        )),
        [("KF271", f"{EXEC}.args[0]"), ("KF271", f"{EXEC}.args[3]"), ("KF271", f"{EXEC}.env[0].value")],
    ),
    "inside an argument": (
        config(exec_user(args=['{"apiVersion":"%s","status":{"token":"%s"}}' % (V1, SECRET)])),  # noqa: UP031 - braces
        [("KF271", f"{EXEC}.args[0]")],
    ),
    "not expanded": (
        variables(
            {"name": "A", "value": "${HOME}/x"}, {"name": "API_TOKEN", "value": "$(TOKEN)"},
            {"name": "B", "value": "a$b"},
        ),
        [("KF284", f"{EXEC}.env[0].value"), ("KF284", f"{EXEC}.env[1].value")],
    ),
}  # fmt: skip


@pytest.mark.parametrize(("document", "findings"), PLACES.values(), ids=PLACES)
def test_a_worry_has_its_place(tmp_path: Path, document: Json, findings: list[tuple[str, str]]) -> None:
    report = lint(tmp_path, document)
    assert sorted((each.code, each.path) for each in report.findings) == findings
    assert report.accepted
    assert SECRET not in str([each.message for each in report.findings])


@pytest.mark.parametrize(
    ("document", "meant"),
    [
        (config({"tokenfile": "x"}), "did you mean 'tokenFile'?"),
        (config({"client_certificate_data": "x"}), "did you mean 'client-certificate-data'?"),
        (config(cluster={"insecureSkipTlsVerify": True}), "did you mean 'insecure-skip-tls-verify'?"),
        (config(exec_user(Command="y")), "did you mean 'command'?"),
        (config(exec_user(stdinUnavailable=True)), "expected one of command, args"),
        (config(context={"Namespace": "x"}), "did you mean 'namespace'?"),
        (config(currentContext="x"), "did you mean 'current-context'?"),
        (variables({"name": "A", "valeu": SECRET}), "did you mean 'value'?"),
    ],
)
def test_fields_that_are_ignored_without_a_word_are_named(tmp_path: Path, document: Json, meant: str) -> None:
    said = worries(tmp_path, document)
    assert list(said) == ["KF250"]
    assert "client-go silently ignores it" in said["KF250"]
    assert meant in said["KF250"]


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


@pytest.mark.parametrize(
    ("document", "code", "words"),
    [
        pytest.param(
            server("https://"), "KF261", "'https://' has no host after 'https://'; write", id="no host"
        ),
        pytest.param(
            config(cluster=UNCHECKED), "KF263", "with the insecure flag is not allowed", id="authority"
        ),
        pytest.param(
            config({"auth-provider": {"name": "oidc"}}), "KF285", "only kubectl still has", id="oidc"
        ),
    ],
)
def test_a_worry_says_why(tmp_path: Path, document: Json, code: str, words: str) -> None:
    assert words in worries(tmp_path, document)[code]


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


@pytest.mark.parametrize(
    "url",
    [
        f"ftp://u:{SECRET}@p",
        f"http://u:{SECRET}/x@p",
        f"u:{SECRET}@p:80",
        f"http://u:{SECRET}@p p",
        f'http://u:"{SECRET}@p',
    ],
)
def test_a_proxys_password_is_in_no_word_of_ours_or_of_kubernetes(tmp_path: Path, url: str) -> None:
    report = lint(tmp_path, proxy(url))
    assert "KF217" in [each.code for each in report.findings]
    texts = [each.message + each.kubernetes_text for each in report.findings]
    assert SECRET not in "".join(texts) + report.kubernetes_text


@pytest.mark.parametrize(("mode", "who"), [(0o640, "its group"), (0o644, "everybody")])
def test_who_can_read_a_secret_is_named(tmp_path: Path, mode: int, who: str) -> None:
    said = worries(tmp_path, config({"token": SECRET}), mode)
    assert sorted(said) == ["KF270", "KF290"]
    assert said["KF290"].startswith(f"{who} can read")
    assert worries(tmp_path, config(), mode) == {}


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
def test_a_plugin_that_is_never_run_is_named(tmp_path: Path, beside: Json) -> None:
    (tmp_path / "token").write_text("t")
    assert "KF272" in worries(tmp_path, config(exec_user() | beside))
    # A password without a user name is no basic auth to client-go.
    assert "KF272" not in worries(tmp_path, config(exec_user() | {"password": "p"}))


def test_a_relative_command_counts_from_the_folder_of_the_file(tmp_path: Path) -> None:
    plugin = write_executable(tmp_path / "plugin", "#!/bin/sh\n")
    said = worries(tmp_path, config(exec_user("./plugin")))
    assert list(said) == ["KF274"]
    assert repr(str(plugin)) in said["KF274"]
    said = worries(tmp_path, config(exec_user("bin/plugin")))
    assert sorted(said) == ["KF274", "KF276"]
    assert "no such file or directory" in said["KF276"]


def test_a_bare_command_is_looked_for_in_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_executable(tmp_path / "plugin", "#!/bin/sh\n")
    for path, codes in (("/nonexistent", ["KF275"]), (str(tmp_path), [])):
        monkeypatch.setenv("PATH", path)
        assert list(worries(tmp_path, config(exec_user("plugin")))) == codes
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


@pytest.mark.parametrize("hint", ["\x1b[2J", "a\x07", "\u202eabc", "\x9b1m"])
def test_hints_that_could_upset_a_terminal_are_named(tmp_path: Path, hint: str) -> None:
    said = worries(tmp_path, config(exec_user(installHint=hint)))
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
    absent = only(lint(tmp_path, config({"tokenFile": "nope"})))
    assert (absent.code, absent.path) == ("KF219", f"{USER}.tokenFile")
    assert absent.message.endswith("no such file or directory (on this machine)")


def test_a_linter_does_not_wait_for_a_pipe(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    pipe = str(tmp_path / "pipe")
    user = {"tokenFile": pipe, "client-certificate": pipe, "client-key": pipe}
    assert worries(tmp_path, config(user, {"certificate-authority": pipe})) == {}


def test_a_cluster_that_no_variable_can_hold_is_named(tmp_path: Path) -> None:
    authority = make_certificate(make_key())
    large = base64.b64encode(authority.encode() * (120_000 // len(authority) + 1)).decode()
    user = exec_user(provideClusterInfo=True)
    said = worries(tmp_path, config(user, {"certificate-authority-data": large}))
    if sys.platform == "linux":
        assert list(said) == ["KF286"]
        assert "provideClusterInfo" in said["KF286"]
    assert worries(tmp_path, config(exec_user(), {"certificate-authority-data": large})) == {}


def pair(until: datetime = AFTER) -> Json:
    key = make_key()
    encoded = {"client-certificate-data": make_certificate(key, until=until), "client-key-data": key_pem(key)}
    return {name: base64.b64encode(text.encode()).decode() for name, text in encoded.items()}


def test_client_certificates_that_are_of_no_use_are_named(tmp_path: Path) -> None:
    assert list(worries(tmp_path, config(pair()))) == ["KF270"]
    mixed = pair() | {"client-key-data": pair()["client-key-data"]}
    assert sorted(worries(tmp_path, config(mixed))) == ["KF270", "KF287"]
    said = worries(tmp_path, config(pair(datetime(2025, 6, 1, tzinfo=UTC))))
    assert sorted(said) == ["KF270", "KF288"]
    assert "2025-06-01T00:00:00Z" in said["KF288"]


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
    finding = only(lint_target(str(link)))
    assert (finding.code, finding.message.split(":")[0]) == ("KF291", said["KF291"].split(":")[0])


@pytest.mark.parametrize(
    ("is_gone", "words"), [(False, "it is a named pipe"), (True, "its owner and mode were not checked")]
)
def test_a_named_pipe_and_what_is_gone_are_named(tmp_path: Path, *, is_gone: bool, words: str) -> None:
    """Whoever loads the file does not follow them either."""
    path = tmp_path / "config"
    os.mkfifo(path, 0o600)

    def feed() -> None:
        with path.open("w") as stream:
            if is_gone:
                path.unlink()
            stream.write(json.dumps(config()))

    writer = threading.Thread(target=feed)
    writer.start()
    finding = only(lint_target(str(path)))
    writer.join()
    assert (finding.code, words in finding.message) == ("KF291", True)


@root
def test_a_file_of_somebody_else_is_named(tmp_path: Path) -> None:
    path = write(tmp_path, json.dumps(config()), "config", 0o600)
    os.chown(path, 65534, -1)
    finding = only(lint_target(path))
    assert (finding.code, "belongs to user 65534" in finding.message) == ("KF291", True)


def test_a_client_certificate_in_a_file_is_named_too(tmp_path: Path) -> None:
    """As with data in the kubeconfig: junk is never a certificate."""
    (tmp_path / "user.crt").write_text("junk")
    (tmp_path / "user.key").write_text("junk")
    files = {"client-certificate": "user.crt", "client-key": "user.key"}
    said = worries(tmp_path, config(files))
    assert said == {"KF287": "client-go cannot connect with it: the certificate contains no PEM data"}
