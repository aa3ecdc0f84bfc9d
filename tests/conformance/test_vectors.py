"""Every recorded answer of Kubernetes, as one test per file; and the runner itself."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from conformance.compare import CONTRACT, OWN, Rules, classify, differences, optional_members
from conformance.run import load_file, main, run_case

HERE = Path(__file__).resolve().parent
VECTORS = sorted((HERE / "vectors").glob("*.json"))
DERIVED = sorted((HERE / "derived").glob("*.json"))


@pytest.mark.parametrize("path", [*VECTORS, *DERIVED], ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_keyferry_answers_as_kubernetes_does(path: Path) -> None:
    """To the byte but for the kinds of detail that ``compare.OWN`` names."""
    file = load_file(path)
    failed = {str(case["name"]): found for case in file.cases if (found := run_case(file, case, OWN))}
    assert file.cases
    assert not failed


def test_all_topics_are_there() -> None:
    assert {path.stem for path in VECTORS} >= {
        "durations",
        "exec_credential",
        "image_reference",
        "keyring",
        "kubeconfig",
        "match",
        "provide",
        "provider_config",
        "pull_decisions",
        "pull_records",
        "request_encoding",
        "response_decoding",
    }


def test_the_runner_fails_on_a_wrong_answer(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A vector whose recorded answer is wrong is reported, and the exit status says so."""
    wrong = tmp_path / "match.json"
    wrong.write_text(
        '{"about": "", "cases": [{"name": "w", "input": {"glob": "a.io", "target": "a.io"},'
        ' "want": {"matched": false, "error": null}}]}'
    )
    assert main([str(wrong)]) == 1
    assert "match.json: w: matched: want False, got True" in capsys.readouterr().out


def _match_file(folder: Path, about: object = "", **want: object) -> Path:
    case = {"name": "w", "input": {"glob": "a.io", "target": "a.io"}, "want": want}
    path = folder / "match.json"
    path.write_text(json.dumps({"about": about, "cases": [case]}))
    return path


def test_a_member_that_the_recording_has_not_is_a_failure(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """If it says something; and the other way round, also one that is null."""
    assert main([str(_match_file(tmp_path, error=None))]) == 1
    assert "matched: want no such member, got True" in capsys.readouterr().out
    assert main([str(_match_file(tmp_path, matched=True, error=None, more=None))]) == 1
    assert "more: want None, got no such member" in capsys.readouterr().out


@pytest.mark.parametrize("want", [{"a": 1}, {"a": 1, "error": "x"}, {"a": 1, "error": "x", "b": [{"c": 2}]}])
def test_null_and_the_class_of_an_error_need_not_be_recorded(want: dict[str, object]) -> None:
    """At any depth. What an error says must be recorded, and so must everything else."""
    inner: dict[str, object] = {"c": 2, "cert": None, "error": None}
    got = want | {"none": None, "error_class": "other"} | ({"b": [inner]} if "b" in want else {})
    assert differences(want, got) == []
    assert differences(want, got | {"more": ""}) == ["more: want no such member, got ''"]
    assert differences({"a": 1}, {"a": 1, "error": "y"}) == ["error: want no such member, got 'y'"]


@pytest.mark.parametrize(
    ("about", "status"),
    [("matched is optional", 0), ("x is optional. matched is not", 1), ({"matched": "optional"}, 0)],
)
def test_a_file_may_say_which_members_are_optional(tmp_path: Path, about: object, status: int) -> None:
    assert main([str(_match_file(tmp_path, about, error=None))]) == status


def _exec_info_with_token(folder: Path, **want: object) -> Path:
    version = "client.authentication.k8s.io/v1"
    data: dict[str, object] = {"kind": "ExecCredential", "apiVersion": version}
    data |= {"spec": {"cluster": {"server": "a"}}, "status": {"token": "t"}}
    config: dict[str, object] = {"caData_base64": "", "disableCompression": False, "host": "a"}
    config |= {"insecure": False, "proxy": None, "serverName": ""}
    want |= {"apiVersion": version, "error": None, "interactive": False, "rest_config": config}
    case = {"name": "w", "input": {"op": "load_exec_credential", "data": json.dumps(data)}, "want": want}
    path = folder / "exec_credential.json"
    path.write_text(json.dumps({"about": "", "cases": [case]}))
    return path


@pytest.mark.parametrize(
    ("want", "status"), [({"status_token": "t"}, 0), ({"status_token": "u"}, 1), ({}, 0)]
)
def test_the_token_of_a_status_is_compared_where_it_is_recorded(
    tmp_path: Path, want: dict[str, object], status: int
) -> None:
    assert main([str(_exec_info_with_token(tmp_path, **want))]) == status


@pytest.mark.parametrize(("key", "status"), [("", 0), (None, 1), ("AAA=", 1)])
def test_beside_an_error_a_key_is_empty(tmp_path: Path, key: str | None, status: int) -> None:
    text = "cryptobyte: pending child length 65536 exceeds 2-byte length prefix"
    case = {
        "name": "w",
        "input": {"op": "cache_key", "baseKey": "a" * 65536, "saKey": ""},
        "want": {"error": text, "key_base64": key},
    }
    path = tmp_path / "provide.json"
    path.write_text(json.dumps({"about": "", "cases": [case]}))
    assert main([str(path)]) == status


def test_no_recorded_file_has_optional_members() -> None:
    """Words such as "optionally" in what a file says of itself excuse nothing."""
    assert not any(load_file(path).optional for path in VECTORS)
    assert optional_members("each step optionally advances the clock") == frozenset()


def test_every_recorded_class_is_that_of_its_text() -> None:
    """So a class can be compared for every text, whatever keyferry calls its own error."""
    seen = 0
    for path in VECTORS:
        for case in load_file(path).cases:
            want = case["want"]
            assert isinstance(want, dict)
            for key, value in want.items():
                if key.endswith("_class"):
                    assert classify(want[key.removesuffix("_class")]) == value, case["name"]
                    seen += 1
    assert seen == 1056


GVK = "error reading GVK from response: couldn't get version/kind; json parse error: "
ALIKE = {
    "go's types": (
        "json: cannot unmarshal number into Go struct field A.b of type string",
        "json: x",
        CONTRACT,
    ),
    "a character": ("x: invalid character 'a' after object key", "x: invalid character 'b'", CONTRACT),
    "a plugin's character": (GVK + "invalid character 'x' after a", GVK + "invalid character after a", OWN),
}
UNLIKE = {
    "before the detail": ("a: json: x", "b: json: x", CONTRACT),
    "no detail": ("a: x", "a: y", CONTRACT),
    "a detail for none": ("a: json: x", "a: x", CONTRACT),
    "a time": ('parsing time "x" as "y"', 'parsing time "x"', CONTRACT),
    "a character of a file": ("x: invalid character 'a' after y", "x: invalid character 'b' after y", OWN),
    "the JSON type": (
        "json: cannot unmarshal bool into Go x",
        "json: cannot unmarshal number into Go x",
        OWN,
    ),
    "a Go value": (
        "json: cannot unmarshal bool into Go value a",
        "json: cannot unmarshal bool into Go value b",
        OWN,
    ),
    "a YAML detail": ("yaml: line 2: x", "yaml: line 3: x", OWN),
}


@pytest.mark.parametrize(("want", "got", "details"), ALIKE.values(), ids=ALIKE)
def test_texts_may_differ_in_a_detail_of_go(want: str, got: str, details: re.Pattern[str]) -> None:
    assert differences({"error": want}, {"error": got}, Rules(details)) == []
    assert differences({"errors": [want]}, {"errors": [got]}, Rules(details)) == []


@pytest.mark.parametrize(("want", "got", "details"), UNLIKE.values(), ids=UNLIKE)
def test_texts_that_differ_otherwise_are_reported(want: str, got: str, details: re.Pattern[str]) -> None:
    assert differences({"error": want}, {"error": got}, Rules(details)) == [
        f"error: want {want!r}, got {got!r}"
    ]
    assert differences({"nested": [{"errors": [want]}]}, {"nested": [{"errors": [got]}]}, Rules(details))


def test_a_class_is_compared_with_that_of_our_text_and_of_our_error() -> None:
    want: dict[str, object] = {"error": "json: cannot unmarshal x", "error_class": "wrong-type"}
    assert differences(want, {"error": "json: other"}) == ["error_class: want 'wrong-type', got 'other'"]
    assert differences(want, {"error": "json: cannot unmarshal y", "error_class": "strict"}) == [
        "error_class: want 'wrong-type', got 'strict'"
    ]


def test_a_hidden_class_is_compared_where_kubernetes_decodes() -> None:
    want: dict[str, object] = {
        "error": "error decoding credential provider plugin response from stdout",
        "decode_error_not_surfaced": "x",
        "decode_error_not_surfaced_class": "strict",
    }
    name = "decode_error_not_surfaced_class"
    assert differences(want, {"error": want["error"]}) == [f"{name}: want 'strict', got None"]
    assert differences(want, {"error": want["error"], name: "other"}) == [
        f"{name}: want 'strict', got 'other'"
    ]
    assert differences(want, {"error": want["error"], name: "strict"}) == []


def test_the_runner_fails_when_no_case_ran(tmp_path: Path) -> None:
    empty = tmp_path / "match.json"
    empty.write_text('{"about": "", "cases": []}')
    assert main([str(empty)]) == 1


def test_the_runner_shows_fractions_of_a_second(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Go keeps them when it reads a time."""
    time, version = "2026-01-01T00:00:00.5Z", "client.authentication.k8s.io/v1"
    answer: dict[str, object] = {"apiVersion": version, "kind": "ExecCredential"}
    answer |= {"status": {"token": "t", "expirationTimestamp": time}}
    step: dict[str, object] = {"now": "2026-01-01T00:00:00.25Z", "error": None, "executed": True}
    step |= {"token": "t", "cert": None, "expiration": time}
    expiry = {
        "name": "expiry",
        "input": {
            "op": "expiry",
            "exec": {"apiVersion": version},
            "steps": [{"advance_ns": 250_000_000, "stdout": json.dumps(answer)}],
        },
        "want": {"steps": [step]},
    }
    record = {"kind": "ImagePulledRecord", "apiVersion": "kubelet.config.k8s.io/v1beta1"}
    record |= {"imageRef": "r", "lastUpdatedTime": time}
    decoded = {"imageRef": "r", "lastUpdatedTime": time, "credentialMapping": {}}
    decode = {
        "name": "decode",
        "input": {"op": "decode_record", "data": json.dumps(record)},
        "want": {"error": None, "current_version": True, "record": decoded},
    }
    for topic, case in {"exec_credential": expiry, "pull_records": decode}.items():
        path = tmp_path / f"{topic}.json"
        path.write_text(json.dumps({"about": "", "cases": [case]}))
        assert main([str(path)]) == 0, capsys.readouterr().out
