"""Settings of providers that are hardly meant are named, and no secret is quoted."""

from __future__ import annotations

from pathlib import Path

import pytest

from keyferry.lint.kinds.providers import lint
from support.lint import SECRET, config, lint_provider, only, write

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
    finding = only(lint(write(tmp_path, both)))
    assert (finding.code, finding.path) == ("KF171", "providers[0].name")
    assert lint(write(tmp_path, both.replace('"ecr"', '"b.exe"'))).findings == ()


@pytest.mark.parametrize("version", ["v1beta1", "v1alpha1"])
def test_an_old_protocol_is_information(tmp_path: Path, version: str) -> None:
    fields = {"apiVersion": f"credentialprovider.kubelet.k8s.io/{version}"}
    assert only(lint_provider(tmp_path, **fields)).severity == "info"
