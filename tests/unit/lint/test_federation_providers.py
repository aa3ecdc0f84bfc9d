"""A FederationConfig and the provider config are compared with each other."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from keyferry.lint.kinds.federation_providers import check_federations
from keyferry.lint.report import LintReport
from keyferry.lint.run import lint_any
from support.federation import AUDIENCE, ISSUER, rule_of, write_config
from support.lint import codes, config, federations, write

ATTRIBUTES = {
    "serviceAccountTokenAudience": AUDIENCE,
    "cacheType": "ServiceAccount",
    "requireServiceAccount": True,
}
ROBOT = {"robot": {"annotation": "quay.io/robot", "pattern": "org\\+[a-z]+"}}


def lint(
    folder: Path, rules: list[Mapping[str, object]], *, is_given: bool = True, **fields: object
) -> LintReport:
    """Lint a provider with the federation config that its arguments name."""
    path = write_config(folder / "federation.json", *rules)
    provider = {
        "name": "keyferry-federate",
        "matchImages": ["quay.example.com"],
        "defaultCacheDuration": "0s",
        "args": [f"--config={path}"],
        "tokenAttributes": ATTRIBUTES,
        **fields,
    }
    text = config({name: value for name, value in provider.items() if value is not None})
    beside = federations(str(path)) if is_given else ()
    return lint_any(write(folder, text, "providers.json"), beside=beside)


@pytest.mark.parametrize("is_given", [True, False])
def test_two_files_that_fit_have_no_findings(tmp_path: Path, is_given: bool) -> None:
    """Whether the file is given too, or found where the arguments say; and '0s' is right for this plugin."""
    assert codes(lint(tmp_path, [rule_of("quay")], is_given=is_given)) == []


TOGETHER = {
    "cacheType": (
        [rule_of("passthrough")], {"matchImages": ["zot.example.com:5000"]}, "KF670", "tokenAttributes.cacheType",
    ),
    "audience": (
        [rule_of("quay", subject={"audience": "other", "issuer": ISSUER})], {},
        "KF671", "tokenAttributes.serviceAccountTokenAudience",
    ),
    "no token": ([rule_of("quay")], {"tokenAttributes": None}, "KF672", ""),
    "wider": ([rule_of("quay")], {"matchImages": ["*.example.com"]}, "KF673", "matchImages[0]"),
    "another registry": (
        [rule_of("quay")], {"matchImages": ["quay.example.com", "zot.example.com"]}, "KF673", "matchImages[1]",
    ),
    "a wildcard in the path": (
        [rule_of("quay")], {"matchImages": ["quay.example.com/*"]}, "KF151", "matchImages[0]",
    ),
    "not covered": ([rule_of("quay"), rule_of("jfrog")], {}, "KF674", "matchImages"),
    "another port": (
        [rule_of("quay", registries=["quay.example.com", "quay.example.com:8443"])], {}, "KF674", "matchImages",
    ),
    "annotation": (
        [rule_of("quay", params=ROBOT)], {}, "KF675", "tokenAttributes.requiredServiceAccountAnnotationKeys",
    ),
    "duration": ([rule_of("quay")], {"defaultCacheDuration": "10m"}, "KF676", "defaultCacheDuration"),
    "no account": (
        [rule_of("quay")], {"tokenAttributes": {**ATTRIBUTES, "requireServiceAccount": False}},
        "KF677", "tokenAttributes.requireServiceAccount",
    ),
    "absent": ([rule_of("quay")], {"args": ["--config", "/nope/other.json"]}, "KF678", "args[0]"),
    "refused": ([rule_of("quay", preset="nope")], {}, "KF679", "args[0]"),
    "both": ([rule_of("quay")], {"args": ["--config=/x.json", "--preset=quay"]}, "KF680", "args"),
    "arguments": ([rule_of("quay")], {"args": ["--preset=quay", "--registry=quay.example.com"]}, "KF680", "args"),
    "nothing": ([rule_of("quay")], {"args": ["--verbose"]}, "KF680", "args"),
}  # fmt: skip


@pytest.mark.parametrize(("rules", "fields", "code", "path"), TOGETHER.values(), ids=TOGETHER)
def test_what_only_both_show(
    tmp_path: Path, rules: list[Mapping[str, object]], fields: dict[str, object], code: str, path: str
) -> None:
    report = lint(tmp_path, rules, is_given=code != "KF678", **fields)
    expected = f"providers[0].{path}".rstrip(".")
    assert [(each.code, each.path) for each in report.findings] == [(code, expected)]
    assert report.accepted


def test_arguments_alone_are_a_config(tmp_path: Path) -> None:
    """They are compared in the same way."""
    args = [
        "--registry=quay.example.com", "--preset", "quay", "--param=robot=org+robot", f"--audience={AUDIENCE}x",
        f"--issuer={ISSUER}",
    ]  # fmt: skip
    assert codes(lint(tmp_path, [rule_of("quay")], args=args)) == ["KF671"]


def test_a_yaml_file_where_the_plugin_reads_json(tmp_path: Path) -> None:
    """Given to lint it is the source of the JSON; found where the plugin looks, it is refused."""
    path = tmp_path / "federation.yaml"
    path.write_text("apiVersion: keyferry.dev/v1alpha1\nkind: FederationConfig\nrules: []\n")
    yaml = json.dumps(rule_of("quay"))
    path.write_text(f"apiVersion: keyferry.dev/v1alpha1\nkind: FederationConfig\nrules:\n- {yaml}\n")
    path.chmod(0o644)
    report = lint(tmp_path, [rule_of("quay")], is_given=False, args=[f"--config={path}"])
    assert codes(report) == ["KF679"]
    given = federations(str(path))
    text = config(
        {
            "name": "keyferry-federate",
            "matchImages": ["quay.example.com"],
            "defaultCacheDuration": "0s",
            "args": ["--config=/etc/keyferry/federation.json"],
            "tokenAttributes": ATTRIBUTES,
        }
    )
    assert codes(lint_any(write(tmp_path, text), beside=given)) == []


def test_a_file_that_is_no_config_is_not_quoted(tmp_path: Path) -> None:
    """The arguments of a config that somebody else wrote may name any file of this machine."""
    path = tmp_path / "shadow"
    path.write_text("root:marked-hash:\n- *marked-alias\n")
    report = lint(tmp_path, [rule_of("quay")], is_given=False, args=[f"--config={path}"])
    assert codes(report) == ["KF679"]
    assert "marked" not in report.findings[0].message


def test_two_providers_share_a_file(tmp_path: Path) -> None:
    """Each is compared with the rules of its own registries."""
    rules = [rule_of("quay"), rule_of("jfrog", subject={"audience": "other", "issuer": ISSUER})]
    path = write_config(tmp_path / "federation.json", *rules)
    first: dict[str, object] = {
        "name": "keyferry-federate",
        "apiVersion": "credentialprovider.kubelet.k8s.io/v1",
        "matchImages": ["quay.example.com"],
        "defaultCacheDuration": "0s",
        "args": [f"--config={path}"],
        "tokenAttributes": ATTRIBUTES,
    }
    second = {
        **first,
        "name": "keyferry-federate-other",
        "matchImages": ["team.jfrog.io"],
        "tokenAttributes": {**ATTRIBUTES, "serviceAccountTokenAudience": "other"},
    }
    report = lint_any(write(tmp_path, config(providers=[first, second])))
    assert codes(report) == []


def test_other_plugins_are_left_alone(tmp_path: Path) -> None:
    """A plugin with a --config of its own is not this one."""
    assert list(check_federations((), ())) == []
    report = lint(tmp_path, [rule_of("quay")], is_given=False, name="acr", args=["--config=/nope"])
    assert codes(report) == ["KF176"]
