"""Validation finds everything at once, each with its code, its place and Kubernetes' words."""

from __future__ import annotations

from pathlib import Path

import pytest

from keyferry.errors import Problem
from keyferry.images.config.read import ReadConfig, read_config
from keyferry.images.config.validate import kubernetes_validation_text, qualified_name_problems, validate
from support.scripted import config_text

TOKENS = {"serviceAccountTokenAudience": "a", "cacheType": "Token", "requireServiceAccount": True}
REQUIRED, OPTIONAL = "requiredServiceAccountAnnotationKeys", "optionalServiceAccountAnnotationKeys"


def read(folder: Path, *providers: dict[str, object]) -> ReadConfig:
    path = folder / "config.json"
    path.write_text(config_text(*providers))
    config = read_config(str(path))
    assert config.problems == ()
    return config


def found(folder: Path, provider: dict[str, object], *, gate: bool = True) -> list[tuple[str, str]]:
    problems = validate(read(folder, provider), service_account_tokens=gate)
    return [(problem.code, problem.path.removeprefix("providers[0].")) for problem in problems]


def test_a_good_config_passes(tmp_path: Path) -> None:
    """Also with what Kubernetes lets pass: empty names, tabs, empty patterns, a duration of 0."""
    assert found(tmp_path, {}) == []
    assert found(tmp_path, {"name": ""}) == []
    assert found(tmp_path, {"name": "a\tb", "matchImages": [""], "env": [{"name": "", "value": ""}]}) == []
    assert found(tmp_path, {"tokenAttributes": TOKENS | {REQUIRED: ["a/b"], OPTIONAL: ["C.d"]}}) == []


@pytest.mark.parametrize(
    ("provider", "expected"),
    [
        ({"name": "a/b"}, [("KF121", "name")]),
        ({"name": "a b/c"}, [("KF121", "name")] * 2),
        ({"name": "."}, [("KF121", "name")]),
        ({"name": ".."}, [("KF121", "name")]),
        ({"apiVersion": ""}, [("KF122", "apiVersion")]),
        ({"apiVersion": "v1"}, [("KF122", "apiVersion")]),
        ({"matchImages": []}, [("KF123", "matchImages")]),
        (
            {"matchImages": ["ok", "bad host", "reg.io:x"]},
            [("KF124", "matchImages[1]"), ("KF124", "matchImages[2]")],
        ),
        ({"defaultCacheDuration": None}, [("KF125", "defaultCacheDuration")]),
        ({"defaultCacheDuration": "-1s"}, [("KF126", "defaultCacheDuration")]),
        ({"defaultCacheDuration": "-1ns"}, [("KF126", "defaultCacheDuration")]),
        ({"defaultCacheDuration": "0s"}, []),
    ],
)
def test_each_rule_has_its_code(
    tmp_path: Path, provider: dict[str, object], expected: list[tuple[str, str]]
) -> None:
    """The problem stands at the field, or at the item of a list."""
    assert found(tmp_path, provider) == expected


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"serviceAccountTokenAudience": ""}, [("KF131", "serviceAccountTokenAudience")]),
        ({"requireServiceAccount": None}, [("KF132", "requireServiceAccount")]),
        ({"requireServiceAccount": False, REQUIRED: ["a"]}, [("KF134", REQUIRED)]),
        ({"requireServiceAccount": False, OPTIONAL: ["a"]}, []),
        ({REQUIRED: ["a", "b", "a"]}, [("KF135", f"{REQUIRED}[2]")]),
        ({OPTIONAL: ["a", "-"]}, [("KF135", f"{OPTIONAL}[1]")]),
        ({REQUIRED: ["a"], OPTIONAL: ["a"]}, [("KF136", "")]),
        ({"cacheType": ""}, [("KF137", "cacheType")]),
        ({"cacheType": "token"}, [("KF137", "cacheType")]),
    ],
)
def test_token_attributes_have_rules_of_their_own(
    tmp_path: Path, changes: dict[str, object], expected: list[tuple[str, str]]
) -> None:
    """Audience, flag, annotations and cache type are each checked."""
    result = found(tmp_path, {"tokenAttributes": TOKENS | changes})
    prefix = "tokenAttributes"
    assert result == [(code, f"{prefix}.{path}" if path else prefix) for code, path in expected]


def test_token_attributes_need_the_gate_and_the_version(tmp_path: Path) -> None:
    """The feature gate off, or an older plugin protocol, forbids them."""
    assert found(tmp_path, {"tokenAttributes": TOKENS}, gate=False) == [("KF130", "tokenAttributes")]
    older: dict[str, object] = {
        "tokenAttributes": TOKENS,
        "apiVersion": "credentialprovider.kubelet.k8s.io/v1beta1",
    }
    assert found(tmp_path, older) == [("KF133", "tokenAttributes")]


def test_no_provider_is_a_problem(tmp_path: Path) -> None:
    """Of a config read from a file, and of one made by hand."""
    (problem,) = validate(read(tmp_path))
    assert (problem.code, problem.path) == ("KF120", "providers")
    assert problem.file
    (bare,) = validate(ReadConfig(path=""))
    assert bare.kubernetes_text == "providers: Required value: at least 1 item in plugins is required"


def test_all_problems_of_all_providers_are_found_in_order(tmp_path: Path) -> None:
    """Each with the index and line of its provider."""
    broken: dict[str, object] = {"name": "a/b", "matchImages": []}
    problems = validate(read(tmp_path, {"name": "x/y"}, {"name": "fine"}, broken))
    assert [problem.path for problem in problems] == [
        "providers[0].name",
        "providers[2].name",
        "providers[2].matchImages",
    ]
    assert all(problem.line and problem.file for problem in problems)


def test_kubernetes_joins_its_errors() -> None:
    """One stands alone, several in brackets, equal ones once."""
    one, two = Problem("", "a", kubernetes_text="A"), Problem("", "b", kubernetes_text="B")
    start = "failed to validate credential provider config: "
    assert kubernetes_validation_text((one, one)) == start + "A"
    assert kubernetes_validation_text((one, two)) == start + "[A, B]"


@pytest.mark.parametrize("name", ["a", "a/b", "a.b.c/D_e-f.9", "x" * 63, f"{'a.' * 126}a/b"])
def test_qualified_names_pass(name: str) -> None:
    """A name with an optional domain in front."""
    assert qualified_name_problems(name) == []


@pytest.mark.parametrize(
    ("name", "problems"),
    [
        ("", 2),
        ("/", 3),
        ("/a", 1),
        ("a/", 2),
        ("a/b/c", 1),
        ("-a", 1),
        ("a-", 1),
        ("x" * 64, 1),
        ("A/b", 1),
        ("a..b/c", 1),
    ],
)
def test_what_is_no_qualified_name_has_its_reasons(name: str, problems: int) -> None:
    """Both halves are checked, each for form and length."""
    assert len(qualified_name_problems(name)) == problems


def test_an_endless_domain_is_refused_in_no_time() -> None:
    """The form of a domain is checked in proportion to its length."""
    assert qualified_name_problems("a" * 5_000 + "./b")
    assert qualified_name_problems("a-" * 5_000 + "/b")


def test_a_negative_duration_is_refused_in_kubernetes_words(tmp_path: Path) -> None:
    """The detail does not name the field once more; one nanosecond less than nothing is enough, nothing is not."""
    (problem,) = validate(read(tmp_path, {"defaultCacheDuration": "-1ns"}))
    assert problem.kubernetes_text == (
        'providers.defaultCacheDuration: Invalid value: "-1ns": must be greater than or equal to 0'
    )
    assert problem.message == "found the negative duration '-1ns', expected '0s' or more"
    assert validate(read(tmp_path, {"defaultCacheDuration": "-0s"})) == ()
