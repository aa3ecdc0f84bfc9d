"""Advice about provider configs and their patterns."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from support.commands import run_in_process
from support.lint import SECRET, codes, config, lint_provider, lint_target, only, write
from support.parts import root


def test_a_good_config_is_clean(tmp_path: Path) -> None:
    report = lint_target(write(tmp_path, config()))
    assert (report.findings, report.accepted, report.kubernetes_text) == ((), True, "")


def test_all_problems_come_at_once_in_the_order_of_the_file(tmp_path: Path) -> None:
    text = (
        "apiVersion: kubelet.config.k8s.io/v1\n"
        "kind: CredentialProviderConfig\n"
        "providers:\n"
        "- name: a/b\n"
        "  apiVersion: v1\n"
        "  matchImages:\n"
        "  - reg.io/*\n"
        "  - reg[0-9].io\n"
        "  defaultCacheDuration: -5s\n"
        "  extra: 1\n"
    )
    report = lint_target(write(tmp_path, text))
    places = [(finding.code, finding.line, finding.column) for finding in report.findings]
    assert places == [
        ("KF121", 4, 3),
        ("KF122", 5, 3),
        ("KF151", 7, 5),
        ("KF124", 8, 5),
        ("KF126", 9, 3),
        ("KF107", 10, 3),
    ]
    assert report.kubernetes_text.endswith('strict decoding error: unknown field "providers[0].extra"')


def test_what_only_follows_from_another_problem_is_not_said(tmp_path: Path) -> None:
    """A misspelt field is not missing too, and a value of the wrong type is not empty too."""
    text = config({"defaultCacheDuration": 5, "env": [{"name": "A", "value": True}], "name": 1})
    report = lint_target(
        write(
            tmp_path,
            text.replace("matchImages", "matchimages").replace('"apiVersion": "cred', '"api_version": "cred'),
        )
    )
    assert sorted(codes(report)) == ["KF107", "KF107", "KF109", "KF109", "KF109"]
    messages = " ".join(finding.message for finding in report.findings)
    assert "did you mean 'matchImages'?" in messages
    assert "did you mean 'apiVersion'?" in messages
    assert "put it in quotes" in messages


def test_an_unknown_field_is_answered_with_the_known_ones(tmp_path: Path) -> None:
    finding = only(lint_provider(tmp_path, env=[{"name": "A", "value": "b", "xyz": 1}]))
    assert finding.message == "unknown field, expected one of name, value"


def test_a_broken_file_does_not_hide_the_problems_of_another(tmp_path: Path) -> None:
    write(tmp_path, "a: [", "1.yaml")
    write(tmp_path, config({"matchImages": []}), "2.json")
    report = lint_target(str(tmp_path))
    assert codes(report) == ["KF103", "KF123"]
    assert "1.yaml" in report.kubernetes_text


TOKENS = {"serviceAccountTokenAudience": "a", "requireServiceAccount": True}
GATE = "KubeletServiceAccountTokenForCredentialProviders"
ON, OFF = {GATE: True}, {GATE: False}
VERSIONS = [
    pytest.param("1.32", {}, {}, ["KF138"], id="not there yet"),
    pytest.param("1.33", {}, {}, ["KF130"], id="off by default"),
    pytest.param("1.33", ON, {}, [], id="on, and cacheType is not needed"),
    pytest.param("1.33", ON, {"cacheType": "Token"}, ["KF138"], id="cacheType is unknown"),
    pytest.param("1.34", {}, {"cacheType": "Token"}, [], id="on by default"),
    pytest.param("v1.34.2", {}, {}, ["KF137"], id="cacheType is required"),
    pytest.param("1.36", OFF, {"cacheType": "Token"}, ["KF130"], id="turned off"),
    pytest.param("1.37", {}, {"cacheType": "Token"}, [], id="the newest"),
    pytest.param("1.37", {}, {}, ["KF137"], id="the newest checks as well"),
]


@pytest.mark.parametrize(("version", "gates", "fields", "expected"), VERSIONS)
def test_service_account_tokens_follow_the_version_and_the_gate(
    tmp_path: Path, version: str, gates: dict[str, bool], fields: dict[str, str], expected: list[str]
) -> None:
    path = write(tmp_path, config({"tokenAttributes": TOKENS | fields}))
    report = lint_target(path, versions=(version,), gates=gates)
    assert codes(report) == expected
    assert bool(report.kubernetes_text) == bool(expected)


def test_a_directory_is_refused_before_1_34(tmp_path: Path) -> None:
    write(tmp_path, config())
    assert lint_target(str(tmp_path), versions=("1.34",)).findings == ()
    report = lint_target(str(tmp_path), versions=("1.33",))
    assert (only(report).code, only(report).kubernetes) == ("KF112", "before 1.34")
    assert report.kubernetes_text.endswith(f"read {tmp_path}: is a directory")


PROVIDERS = [
    pytest.param({"name": ""}, "KF170", id="no name"),
    pytest.param({"name": "a\tb"}, "KF171", id="tab"),
    pytest.param({"name": "a\n"}, "KF171", id="line break"),
    pytest.param({"name": "-a"}, "KF171", id="dash"),
    pytest.param({"name": "a\\b"}, "KF171", id="backslash"),
    pytest.param({"name": "\u0435cr"}, "KF171", id="confusable"),
    pytest.param({"env": [{"name": "", "value": "x"}]}, "KF172", id="variable without a name"),
    pytest.param({"env": [{"name": "A=B", "value": "x"}]}, "KF172", id="equals sign"),
    pytest.param({"env": [{"name": "A", "value": "x\0"}]}, "KF172", id="NUL"),
    pytest.param({"env": [{"name": "LD_PRELOAD", "value": "/x.so"}]}, "KF173", id="preload"),
    pytest.param({"env": [{"name": "PATH", "value": "/x"}]}, "KF173", id="path"),
    pytest.param({"env": [{"name": "A", "value": "1"}, {"name": "A", "value": "2"}]}, "KF174", id="twice"),
    pytest.param({"env": [{"name": "DB_PASSWORD", "value": SECRET}]}, "KF175", id="password"),
    pytest.param(
        {"env": [{"name": "X", "value": f"https://u:{SECRET}@h/"}]}, "KF175", id="password in a URL"
    ),
    pytest.param({"args": [f"--api-key={SECRET}"]}, "KF175", id="option"),
    pytest.param({"args": ["--token", SECRET]}, "KF175", id="option and argument"),
    pytest.param({"args": [f'{{"token": "{SECRET}"}}']}, "KF175", id="inside an argument"),
    pytest.param({"env": [{"name": "A", "value": "${HOME}/x"}]}, "KF183", id="variable in a value"),
    pytest.param(
        {"env": [{"name": "CLIENT_SECRET", "value": "${SECRET}"}]}, "KF183", id="variable for a secret"
    ),
    pytest.param({"matchImages": ["*.dkr.ecr.*.amazonaws.cn"]}, "KF169", id="ECR in China"),
    pytest.param({"args": ["AKIA" + "ABCDEFGH" * 2]}, "KF175", id="access key"),
    pytest.param({"defaultCacheDuration": "0s"}, "KF176", id="no cache"),
    pytest.param({"defaultCacheDuration": "12h0m1s"}, "KF177", id="long cache"),
    pytest.param({"apiVersion": "credentialprovider.kubelet.k8s.io/v1beta1"}, "KF178", id="old protocol"),
    pytest.param({"apiVersion": "credentialprovider.kubelet.k8s.io/v1alpha1"}, "KF178", id="older protocol"),
]


@pytest.mark.parametrize(("fields", "code"), PROVIDERS)
def test_a_provider_that_is_hardly_meant_is_named(
    tmp_path: Path, fields: dict[str, object], code: str
) -> None:
    report = lint_provider(tmp_path, **fields)
    finding = only(report)
    assert finding.code == code
    assert SECRET not in repr(report)
    assert report.accepted


@pytest.mark.parametrize(
    "fields",
    [
        {"env": [{"name": "AWS_WEB_IDENTITY_TOKEN_FILE", "value": "/var/run/token"}]},
        {
            "env": [
                {"name": "secret_name", "value": "my-secret"},
                {"name": "SECRET_TTL_SECONDS", "value": "18000"},
            ]
        },
        {"env": [{"name": "TOKEN_ENDPOINT", "value": "https://login.example"}]},
        {"env": [{"name": "PASSWORD", "value": ""}, {"name": "USE_TOKEN", "value": "true"}]},
        {"args": ["get-credentials", "--v=3", "--token-file", "/x", "--use-token", "--json"]},
        {"defaultCacheDuration": "12h"},
        {"defaultCacheDuration": "1ns"},
        {"name": "acr-credential-provider.exe", "args": ["c:\\k\\azure.json"]},
        {"matchImages": ["*.dkr.ecr.*.amazonaws.com.cn"]},
        *(
            {"env": [{"name": "CLIENT_SECRET", "value": value}]}
            for value in ("<client_secret>", "YOUR_SECRET", "HIDDEN", "xxxxxx", "***", "REDACTED", "CHANGEME")
        ),
        {"args": ["--client-secret", "<client_secret>", "--token=YOUR_TOKEN"]},
    ],
)
def test_ordinary_settings_are_clean(tmp_path: Path, fields: dict[str, object]) -> None:
    assert lint_provider(tmp_path, **fields).findings == ()


def test_exe_is_named_only_beside_other_names(tmp_path: Path) -> None:
    """In a config for Windows every plugin has the ending."""
    other = {
        "name": "ecr",
        "apiVersion": "credentialprovider.kubelet.k8s.io/v1",
        "defaultCacheDuration": "10m",
        "matchImages": ["other.example"],
    }
    both = config(providers=[other | {"name": "a.exe", "matchImages": ["a.example"]}, other])
    finding = only(lint_target(write(tmp_path, both)))
    assert (finding.code, finding.path) == ("KF171", "providers[0].name")
    assert lint_target(write(tmp_path, both.replace('"ecr"', '"b.exe"'))).findings == ()


def test_old_config_versions_and_later_documents_are_named(tmp_path: Path) -> None:
    text = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: CredentialProviderConfig\nproviders:\n"
    provider = json.dumps(json.loads(config())["providers"][0])
    report = lint_target(write(tmp_path, f"{text}- {provider}\n---\n# nothing\n---\nproviders: []\n"))
    assert [(finding.code, finding.line) for finding in report.findings] == [("KF179", 1), ("KF180", 7)]
    assert (
        lint_target(write(tmp_path, f"---\n{text.replace('beta1', '')}- {provider}\n---\n# end\n")).findings
        == ()
    )


def test_entries_of_a_directory_that_are_ignored_are_named(tmp_path: Path) -> None:
    for name in ("a.yaml", "b.YAML", "c.yaml.bak", "d.yaml~", "e", "..data"):
        write(tmp_path, config(), name)
    (tmp_path / "sub").mkdir()
    report = lint_target(str(tmp_path))
    assert set(codes(report)) == {"KF181"}
    assert [os.path.basename(finding.file) for finding in report.findings] == [
        "b.YAML",
        "c.yaml.bak",
        "d.yaml~",
        "e",
        "sub",
    ]
    assert "rename it to 'b.yaml'" in report.findings[0].message


def put_shim(config: str, home: Path) -> None:
    """Put a shim in front of the plugin."""
    words = ("--config", config, "--bin-dir", str(home), "--shim", "python")
    done = run_in_process("bridge", "kubelet", "install", "--in-front-of", "plugin", *words)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("has_shim", [False, True])
def test_plugins_beside_their_config_are_no_ignored_files(tmp_path: Path, *, has_shim: bool) -> None:
    """Nor are the files of a shim."""
    path, home = write(tmp_path, config()), _bin_dir(tmp_path)
    (home / "config.yaml").symlink_to(path)
    if has_shim:
        put_shim(path, home)
    assert lint_target(str(home), bin_dir=str(home)).findings == ()


def test_the_plugin_behind_a_shim_is_looked_at(tmp_path: Path) -> None:
    path, home = write(tmp_path, config()), _bin_dir(tmp_path)
    put_shim(path, home)
    assert lint_target(path, bin_dir=str(home)).findings == ()
    (home / "plugin.real").chmod(0o775)
    finding = only(lint_target(path, bin_dir=str(home)))
    assert finding.code == "KF191"
    assert "plugin.real" in finding.message


@pytest.mark.parametrize(("mode", "who"), [(0o664, "its group"), (0o646, "everybody")])
def test_a_config_that_others_can_write_is_named(tmp_path: Path, mode: int, who: str) -> None:
    path = write(tmp_path, config())
    os.chmod(path, mode)
    finding = only(lint_target(path))
    assert finding.code == "KF182"
    assert finding.message.startswith(who)


def _bin_dir(folder: Path) -> Path:
    home = folder / "bin"
    home.mkdir(mode=0o755)
    (home / "plugin").write_text("#!/bin/sh\n")
    (home / "plugin").chmod(0o755)
    return home


def test_plugins_and_their_folder_are_looked_at(tmp_path: Path) -> None:
    path, home = write(tmp_path, config()), _bin_dir(tmp_path)
    assert lint_target(path, bin_dir=str(home)).findings == ()
    home.chmod(0o777)
    (home / "plugin").chmod(0o775)
    assert codes(lint_target(path, bin_dir=str(home))) == ["KF190", "KF191"]
    (home / "plugin").chmod(0o644)
    home.chmod(0o755)
    assert codes(lint_target(path, bin_dir=str(home))) == ["KF142"]
    (home / "plugin").unlink()
    assert codes(lint_target(path, bin_dir=str(home))) == ["KF141"]
    missing = lint_target(path, bin_dir=str(tmp_path / "none"))
    assert codes(missing) == ["KF140"]
    assert missing.kubernetes_text.endswith("did not exist")


def test_links_are_followed(tmp_path: Path) -> None:
    path, home = write(tmp_path, config()), _bin_dir(tmp_path)
    (home / "plugin").rename(home / "real")
    (home / "plugin").symlink_to("real")
    assert lint_target(path, bin_dir=str(home)).findings == ()
    out = tmp_path / "out"
    out.mkdir()
    (home / "real").rename(out / "real")
    (home / "plugin").unlink()
    (home / "plugin").symlink_to(out / "real")
    out.chmod(0o755)
    assert codes(lint_target(path, bin_dir=str(home))) == ["KF193"]
    out.chmod(0o777)
    (out / "real").chmod(0o777)
    assert codes(lint_target(path, bin_dir=str(home))) == ["KF191", "KF191", "KF193"]


@root
def test_plugins_of_other_users_are_named(tmp_path: Path) -> None:
    path, home = write(tmp_path, config()), _bin_dir(tmp_path)
    os.chown(home, 4242, -1)
    os.chown(home / "plugin", 4242, -1)
    assert codes(lint_target(path, bin_dir=str(home))) == ["KF192", "KF192"]


def test_a_refused_name_is_not_looked_for(tmp_path: Path) -> None:
    """A name that leads out of the bin dir is refused, and nothing outside is touched."""
    path, home = write(tmp_path, config({"name": "../plugin"})), _bin_dir(tmp_path)
    assert codes(lint_target(path, bin_dir=str(home))) == ["KF121"]
    assert codes(lint_target(write(tmp_path, config({"name": ""})), bin_dir=str(home))) == ["KF142"]


PATTERNS = [
    pytest.param("https://reg.io/team", "KF150", "use 'reg.io/team'", id="scheme"),
    pytest.param("oci://u:p@reg.io", "KF150", "use 'reg.io'", id="scheme and user info"),
    pytest.param("reg.io/*", "KF151", "use 'reg.io'", id="everything of a host"),
    pytest.param(
        "reg.io/team/*", "KF151", "begin with the characters '/team/*'", id="everything of a folder"
    ),
    pytest.param("reg.io/team*", "KF151", "use 'reg.io/team'", id="a wildcard at the end"),
    pytest.param("reg.io/Team", "KF152", "use 'reg.io/team'", id="upper case"),
    pytest.param("reg.io/app:v1", "KF153", "use 'reg.io/app'", id="tag"),
    pytest.param("reg.io/app@sha256:00", "KF153", "without their digest", id="digest"),
    pytest.param("", "KF154", "the pattern is empty", id="empty"),
    pytest.param("/team", "KF154", "no host", id="path alone"),
    pytest.param("reg?.io", "KF155", "means 'reg'", id="query"),
    pytest.param("reg.io#x", "KF155", "means 'reg.io'", id="fragment"),
    pytest.param(f"user:{SECRET}@reg.io", "KF156", "use 'reg.io'", id="user info"),
    pytest.param("[2001:db8::1]", "KF157", "'[2001:db8::1]:5000'", id="IPv6 without port"),
    pytest.param("reg.io.", "KF158", "use 'reg.io'", id="trailing dot"),
    pytest.param("reg..io", "KF158", "has an empty label", id="empty label"),
    pytest.param("reg-.io", "KF158", "the host 'reg-.io'", id="dash at the end"),
    pytest.param("reg!.io", "KF158", "'!'", id="strange character"),
    pytest.param("registry", "KF159", "means 'docker.io/registry/app'", id="host without a dot"),
    pytest.param("index.docker.io", "KF160", "use 'docker.io'", id="old name of the hub"),
    pytest.param("registry-1.docker.io/x/", "KF160", "use 'docker.io/x/'", id="the hub's server"),
    pytest.param("docker.io/nginx", "KF161", "'docker.io/library/nginx'", id="official image"),
    pytest.param("reg.io/team", "KF162", "also matches 'reg.io/team-other/app'", id="boundary"),
    pytest.param("*.amazonaws.com", "KF163", "use '*.dkr.ecr.*.amazonaws.com'", id="ECR"),
    pytest.param("*.dkr.ecr.amazonaws.com.cn", "KF163", "have 7", id="ECR in China"),
    pytest.param("*gcr.io", "KF163", "use '*.gcr.io'", id="a star glued to the domain"),
    pytest.param("*.io", "KF163", "not 'registry.quay.io'", id="whole top level"),
    pytest.param("reg.io:443", "KF164", "use 'reg.io'", id="default port"),
    pytest.param("*.*.*", "KF165", "3 labels", id="everything"),
    pytest.param("*:5000", "KF165", "1 label on port 5000", id="everything on a port"),
    pytest.param("reg.io//x", "KF168", "no repository begins with '/x'", id="impossible path"),
]


@pytest.mark.parametrize(("pattern", "code", "part"), PATTERNS)
def test_a_pattern_that_is_hardly_meant_is_named_with_what_to_write(
    tmp_path: Path, pattern: str, code: str, part: str
) -> None:
    report = lint_provider(tmp_path, matchImages=[pattern])
    finding = only(report)
    assert (finding.code, finding.path) == (code, "providers[0].matchImages[0]")
    assert part in finding.message
    assert SECRET not in finding.message
    assert report.accepted


@pytest.mark.parametrize(
    "pattern",
    [
        "reg.io",
        "*.dkr.ecr.*.amazonaws.com",
        "*.gcr.io",
        "gcr.io",
        "*.azurecr.io",
        "*-docker.pkg.dev",
        "*.pkg.dev",
        "public.ecr.aws",
        "docker.io",
        "docker.io/library/",
        "docker.io/team/",
        "localhost",
        "localhost:5000",
        "registry:5000",
        "10.0.0.1:5000/team/",
        "reg.io/team_a/b-c.d/",
        "[2001:db8::1]:5000",
        "registry.local",
        "*.registry.local",
    ],
)
def test_usual_patterns_are_clean(tmp_path: Path, pattern: str) -> None:
    assert lint_provider(tmp_path, matchImages=[pattern]).findings == ()


@pytest.mark.parametrize(
    ("patterns", "index"),
    [
        pytest.param(["reg.io", "reg.io"], 1, id="repeated"),
        pytest.param(["*.reg.io", "a.reg.io"], 1, id="covered by an earlier one"),
        pytest.param(["a.reg.io", "*.reg.io"], 0, id="covered by a later one"),
        pytest.param(["reg.io", "reg.io/team/"], 1, id="a folder of it"),
    ],
)
def test_a_pattern_that_adds_nothing_is_named_once(tmp_path: Path, patterns: list[str], index: int) -> None:
    finding = only(lint_provider(tmp_path, matchImages=patterns))
    assert (finding.code, finding.path) == ("KF166", f"providers[0].matchImages[{index}]")


def test_a_pattern_of_two_providers_is_named_at_the_second(tmp_path: Path) -> None:
    first = json.loads(config())["providers"][0]
    report = lint_target(write(tmp_path, config(providers=[first, first | {"name": "other"}])))
    finding = only(report)
    assert (finding.code, finding.severity) == ("KF167", "info")
    assert finding.path == "providers[1].matchImages[0]"
