"""Every recorded answer of Kubernetes, as one test per file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from conformance.run import load_cases, main, run_case

VECTORS = sorted((Path(__file__).resolve().parent / "vectors").glob("*.json"))


@pytest.mark.parametrize("path", VECTORS, ids=lambda path: path.stem)
def test_keyferry_answers_as_kubernetes_does(path: Path) -> None:
    topic, cases = load_cases(path)
    failed = {str(case["name"]): found for case in cases if (found := run_case(topic, case))}
    assert cases
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
