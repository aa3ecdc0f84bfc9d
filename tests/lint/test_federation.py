"""Advice about federation: claims, providers and doubts."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest
import yaml

from keyferry.errors import ProvideError
from keyferry_plugins.federation.config import read_federation
from support.federation import AUDIENCE, EXAMPLES, ISSUER, rule_of, write_config
from support.lint import Report, codes, config, lint_target, places, write

HEAD = "apiVersion: keyferry.dev/v1alpha1\nkind: FederationConfig\n"
SUBJECT = "  subject: {audience: registry.example.com, issuer: https://kubernetes.example.com}\n"
RULE = "rules:\n- registries: [registry.example.com]\n" + SUBJECT
PASSING = HEAD + RULE + "  preset: passthrough\n"


def lint(folder: Path, text: str, mode: int = 0o644) -> Report:
    return lint_target(write(folder, text, "federation.yaml", mode))


def test_a_good_config_has_no_findings(tmp_path: Path) -> None:
    report = lint(tmp_path, PASSING)
    assert (report.findings, report.accepted, report.kind) == ((), True, "federation config")


ANNOTATED = """\
  params: {who: {annotation: x/y, pattern: '[a-z]+'}}
  calls:
  - url: https://sts.example.com/token
    bearer: ${subject}
    fields: {requested_scopes: '${who}', project_id: '${who}'}
    out: {token: /t}
  credentials: {username: u, password: '${token}'}
  fromAnnotations: [requested_scopes]
"""
REFUSED = {
    "not YAML": (HEAD + "rules: [\n", [("KF601", "", 4)]),
    "another version": (PASSING.replace("v1alpha1", "v9"), [("KF602", "apiVersion", 1)]),
    "unknown field": (PASSING + "  host: x\n", [("KF603", "rules[0].host", 7)]),
    "misspelt preset": (HEAD + RULE + "  prest: quay\n", [("KF603", "rules[0].prest", 6)]),
    "twice": (PASSING + "  preset: passthrough\n", [("KF604", "rules[0].preset", 7)]),
    "a number": (PASSING.replace("passthrough", "8693"), [("KF605", "rules[0].preset", 6)]),
    "rules are an object": (HEAD + "rules: {}\n", [("KF605", "rules", 3)]),
    "not a duration": (PASSING + "  lifetime: {max: 1d}\n", [("KF605", "rules[0].lifetime.max", 7)]),
    "no rules": (HEAD + "rules: []\n", [("KF606", "rules", 3)]),
    "no rules at all": (HEAD, [("KF606", "rules", 1)]),
    "a pattern": (
        PASSING.replace("[registry.example.com]", "['*.example.com']"),
        [("KF607", "rules[0].registries[0]", 4)],
    ),
    "no registry": (PASSING.replace("[registry.example.com]", "[]"), [("KF607", "rules[0].registries", 4)]),
    "no preset": (HEAD + RULE, [("KF608", "rules[0]", 4)]),
    "unknown preset": (PASSING.replace("passthrough", "harbor"), [("KF608", "rules[0].preset", 6)]),
    "no issuer": (
        PASSING.replace(", issuer: https://kubernetes.example.com", ""),
        [("KF609", "rules[0].subject.issuer", 5)],
    ),
    "the API server's": (
        PASSING.replace("audience: registry.example.com", "audience: https://kubernetes.default.svc"),
        [("KF610", "rules[0].subject.audience", 5)],
    ),
    "no parameter": (PASSING.replace("passthrough", "quay"), [("KF611", "rules[0].params", 4)]),
    "a secret": (
        HEAD + RULE + "  preset: rfc8693\n  params: {host: dex.example.com, client_secret: hunter2}\n",
        [("KF611", "rules[0].params.client_secret", 7)],
    ),
    "http": (
        HEAD + RULE + "  calls: [{url: 'http://sts.example.com/x', out: {token: /t}}]\n"
        "  credentials: {username: u, password: '${token}'}\n",
        [("KF612", "rules[0].calls[0].url", 6)],
    ),
    "Global": (PASSING + "  cacheKeyType: Global\n", [("KF613", "rules[0].cacheKeyType", 7)]),
    "relative": (
        PASSING + "  caFile: ca.pem\n",
        [("KF613", "rules[0].caFile", 7), ("KF655", "rules[0].caFile", 7)],
    ),
    "an annotation that says what a token is for": (
        HEAD + RULE + ANNOTATED,
        [
            ("KF612", "rules[0].calls[0].fields.project_id", 10),
            ("KF612", "rules[0].fromAnnotations[0]", 13),
        ],
    ),
}


@pytest.mark.parametrize(("text", "findings"), REFUSED.values(), ids=REFUSED)
def test_what_is_refused_is_an_error_at_its_place(
    tmp_path: Path, text: str, findings: list[tuple[str, str, int]]
) -> None:
    report = lint(tmp_path, text)
    assert not report.accepted
    assert places(report) == findings
    said = "".join(each.message + each.kubernetes_text for each in report.findings)
    assert "hunter2" not in said
    assert not any(each.kubernetes_text for each in report.findings)


@pytest.mark.parametrize("name", [name for name in REFUSED if name not in ("not YAML", "twice")])
def test_the_plugin_refuses_the_same(name: str) -> None:
    """As JSON, which is all that the plugin reads; what JSON cannot say is left out."""
    document = json.dumps(yaml.safe_load(REFUSED[name][0]))
    with pytest.raises(ProvideError):
        read_federation(document.encode(), "x")


@pytest.mark.parametrize("preset", EXAMPLES)
def test_every_preset_is_clean(tmp_path: Path, preset: str) -> None:
    document = {"apiVersion": "keyferry.dev/v1alpha1", "kind": "FederationConfig", "rules": [rule_of(preset)]}
    report = lint(tmp_path, json.dumps(document, indent=1))
    assert codes(report) == []


ATTRIBUTES = {
    "serviceAccountTokenAudience": AUDIENCE,
    "cacheType": "ServiceAccount",
    "requireServiceAccount": True,
}
ROBOT = {"robot": {"annotation": "quay.io/robot", "pattern": "org\\+[a-z]+"}}


def lint_both(
    folder: Path, rules: list[Mapping[str, object]], *, is_given: bool = True, **fields: object
) -> Report:
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
    return lint_target(write(folder, text, "providers.json"), *([str(path)] if is_given else []))


@pytest.mark.parametrize("is_given", [True, False])
def test_two_files_that_fit_have_no_findings(tmp_path: Path, is_given: bool) -> None:
    """Whether the file is given too, or found where the arguments say; and '0s' is right for this plugin."""
    assert codes(lint_both(tmp_path, [rule_of("quay")], is_given=is_given)) == []


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
    report = lint_both(tmp_path, rules, is_given=code != "KF678", **fields)
    expected = f"providers[0].{path}".rstrip(".")
    assert [(each.code, each.path) for each in report.findings] == [(code, expected)]
    assert report.accepted


def test_arguments_alone_are_a_config(tmp_path: Path) -> None:
    """They are compared in the same way."""
    args = [
        "--registry=quay.example.com", "--preset", "quay", "--param=robot=org+robot", f"--audience={AUDIENCE}x",
        f"--issuer={ISSUER}",
    ]  # fmt: skip
    assert codes(lint_both(tmp_path, [rule_of("quay")], args=args)) == ["KF671"]


def test_a_yaml_file_where_the_plugin_reads_json(tmp_path: Path) -> None:
    """Given to lint it is the source of the JSON; found where the plugin looks, it is refused."""
    path = write(tmp_path, f"{HEAD}rules:\n- {json.dumps(rule_of('quay'))}\n", "federation.yaml")
    report = lint_both(tmp_path, [rule_of("quay")], is_given=False, args=[f"--config={path}"])
    assert codes(report) == ["KF679"]
    fields = {
        "matchImages": ["quay.example.com"],
        "defaultCacheDuration": "0s",
        "tokenAttributes": ATTRIBUTES,
    }
    args = ["--config=/etc/keyferry/federation.json"]
    text = config({"name": "keyferry-federate", "args": args, **fields})
    assert codes(lint_target(write(tmp_path, text), path)) == []


def test_a_file_that_is_no_config_is_not_quoted(tmp_path: Path) -> None:
    """The arguments of a config that somebody else wrote may name any file of this machine."""
    path = tmp_path / "shadow"
    path.write_text("root:marked-hash:\n- *marked-alias\n")
    report = lint_both(tmp_path, [rule_of("quay")], is_given=False, args=[f"--config={path}"])
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
    report = lint_target(write(tmp_path, config(providers=[first, second])))
    assert codes(report) == []


def test_other_plugins_are_left_alone(tmp_path: Path) -> None:
    """A plugin with a --config of its own is not this one."""
    report = lint_both(tmp_path, [rule_of("quay")], is_given=False, name="acr", args=["--config=/nope"])
    assert codes(report) == ["KF176"]


ONE_RULE = """\
- registries: [{registry}]
  subject: {{audience: {audience}, issuer: '{issuer}'}}
"""
RECIPE = """\
  calls:
  - url: https://sts.example.com/x
    {more}
    out: {{token: /token}}
  credentials: {{username: u, password: '{password}'}}
"""


def rule(
    body: str = "  preset: passthrough\n",
    *,
    registry: str = "registry.example.com",
    audience: str = "registry.example.com",
    issuer: str = "https://kubernetes.example.com",
) -> str:
    return ONE_RULE.format(registry=registry, audience=audience, issuer=issuer) + body


def recipe(more: str, password: str = "${token}") -> str:
    return rule(RECIPE.format(more=more, password=password))


def lint_rules(folder: Path, text: str, mode: int = 0o644) -> Report:
    return lint(folder, f"{HEAD}rules:\n{text}", mode)


QUAY_ROBOT = "  preset: quay\n  params: {robot: {annotation: quay.io/robot, pattern: '%s'}}\n"
DOUBTS = {
    "a token as a parameter": (
        rule("  preset: quay\n  params: {robot: ghp_0123456789abcdefghijABCD}\n"),
        "KF650",
    ),
    "a bearer token": (recipe("bearer: s3cr3t-bearer"), "KF650"),
    "a field": (recipe("fields: {client_secret: hunter2-hunter2, t: '${subject}'}"), "KF650"),
    "a password": (recipe("fields: {t: '${subject}'}", password="hunter2"), "KF650"),
    "an issuer by http": (rule(issuer="http://kubernetes.example.com"), "KF651"),
    "a legacy issuer": (rule(issuer="kubernetes/serviceaccount"), "KF651"),
    "a registry's address": (rule(registry="10.0.0.1:5000"), "KF652"),
    "a host's address": (rule("  preset: quay\n  params: {host: 10.0.0.1, robot: a+b}\n"), "KF652"),
    "a pattern for all": (rule(QUAY_ROBOT % ".+"), "KF653"),
    "another one": (rule(QUAY_ROBOT % "(?s).*"), "KF653"),
    "nearly the issuer": (rule(audience="https://Kubernetes.example.com"), "KF654"),
    "no authority": (rule("  preset: passthrough\n  caFile: /nope/ca.pem\n"), "KF655"),
    "two audiences": (rule() + rule(registry="other.example.com", audience="other"), "KF657"),
    "two documents": (rule() + "---\nkind: Other\n", "KF658"),
}


@pytest.mark.parametrize(("text", "code"), DOUBTS.values(), ids=DOUBTS)
def test_a_doubt_has_one_code(tmp_path: Path, text: str, code: str) -> None:
    report = lint_rules(tmp_path, text)
    assert codes(report) == [code]
    assert report.accepted
    assert report.findings[0].line is not None


@pytest.mark.parametrize("pattern", ["team\\+[a-z]+", "[a-z0-9+]{1,40}", "a|b"])
def test_a_pattern_that_allows_some_is_no_finding(tmp_path: Path, pattern: str) -> None:
    assert codes(lint_rules(tmp_path, rule(QUAY_ROBOT % pattern))) == []


@pytest.mark.parametrize("mode", [0o664, 0o646])
def test_a_file_that_others_can_write(tmp_path: Path, mode: int) -> None:
    """The plugin refuses it, and it is left out for another machine."""
    report = lint_rules(tmp_path, rule(), mode)
    assert codes(report) == ["KF656"]
