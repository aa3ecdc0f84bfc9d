"""A config file is decoded strictly, with every problem placed and coded."""

from __future__ import annotations

import json

import pytest

from keyferry.images.config.read import decode_file
from support.scripted import CONFIG_V1, config_text

GOOD = json.loads(config_text({}))


def problems(document: object, suffix: str = "json") -> list[tuple[str, str, str]]:
    text = document if isinstance(document, str) else json.dumps(document)
    file = decode_file(f"config.{suffix}", text.encode())
    return [(problem.code, problem.path, problem.kind) for problem in file.problems]


def test_a_good_file_has_no_problem() -> None:
    """It gives its config and no words of Kubernetes."""
    file = decode_file("config.json", json.dumps(GOOD).encode())
    assert (file.problems, file.kubernetes_text, file.kind) == ((), "", None)
    assert file.config.providers[0].name == "plugin"


@pytest.mark.parametrize("version", ["v1", "v1beta1", "v1alpha1"])
def test_every_version_is_read(version: str) -> None:
    """Three versions of one kind."""
    assert problems(GOOD | {"apiVersion": f"kubelet.config.k8s.io/{version}"}) == []


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        ({}, ("KF104", "", "missing-kind")),
        ({"kind": "CredentialProviderConfig"}, ("KF104", "", "missing-apiversion")),
        ({"apiVersion": "a/b/c", "kind": "x"}, ("KF105", "apiVersion", "group-version")),
        (GOOD | {"apiVersion": "v1"}, ("KF105", "apiVersion", "unknown-type")),
        (GOOD | {"kind": "Pod"}, ("KF105", "kind", "unknown-type")),
        ({"apiVersion": "v1", "kind": "Status"}, ("KF106", "kind", "other")),
        ({"apiVersion": "v1", "kind": "Status", "x": 1}, ("KF106", "kind", "strict")),
        (GOOD | {"kind": 1}, ("KF109", "kind", "wrong-type")),
        ("[1]", ("KF109", "", "wrong-type")),
        (GOOD | {"providers": 1}, ("KF109", "providers", "wrong-type")),
        (GOOD | {"Providers": []}, ("KF107", "Providers", "strict")),
        (json.dumps(GOOD)[:-1], ("KF103", "", "json-syntax")),
        ("a: [", ("KF103", "", "yaml-syntax")),
        ("", ("KF104", "", "missing-kind")),
    ],
)
def test_what_is_wrong_has_a_code_a_path_and_a_class(
    document: object, expected: tuple[str, str, str]
) -> None:
    """One problem each, of the kind that Kubernetes would report."""
    assert problems(document) == [expected]


def test_a_bad_duration_has_its_own_code() -> None:
    """It is no wrong type."""
    broken = json.loads(config_text({"defaultCacheDuration": "1d"}))
    assert problems(broken) == [("KF110", "providers[0].defaultCacheDuration", "duration")]


@pytest.mark.parametrize("suffix", ["json", "yaml"])
def test_a_repeated_key_is_one_problem(suffix: str) -> None:
    """Placed where it is repeated, naming the line of the first."""
    lines = [f'"apiVersion": "{CONFIG_V1}",', '"kind": "CredentialProviderConfig",', '"providers": [],']
    text = "{\n" + "\n".join([*lines, '"providers": []']) + "\n}"
    text = text if suffix == "json" else "\n".join(line.strip(",") for line in text.splitlines()[1:-1])
    file = decode_file(f"config.{suffix}", text.encode())
    (problem,) = file.problems
    assert (problem.code, problem.path) == ("KF108", "providers")
    offset = 1 if suffix == "json" else 0
    assert (problem.line, problem.message[-1]) == (4 + offset, str(3 + offset))
    assert "duplicate field" in file.kubernetes_text or "already set in map" in file.kubernetes_text


def test_problems_are_placed() -> None:
    """File, line and column of the key at fault, or of its nearest ancestor."""
    text = f"apiVersion: {CONFIG_V1}\nkind: CredentialProviderConfig\nproviders:\n- name: 7\n"
    (problem,) = decode_file("c.yaml", text.encode()).problems
    assert (problem.file, problem.line, problem.column) == ("c.yaml", 4, 3)
    assert str(problem) == "c.yaml:4:3: providers[0].name: found a number, expected a string"
