"""A kuberc is refused where its policy is, and what it does not do as meant is named."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest

from support.lint import Report, codes, lint_target, places, write
from support.parts import root
from support.plugins import write_executable

HEAD = "apiVersion: kubectl.config.k8s.io/v1beta1\nkind: Preference\n"
LISTED = HEAD + "credentialPluginPolicy: Allowlist\ncredentialPluginAllowlist:\n"
LIST = "credentialPluginAllowlist"


def lint(folder: Path, text: str, mode: int = 0o600) -> Report:
    return lint_target(write(folder, text, "kuberc", mode))


def entries(*commands: str) -> str:
    return LISTED + "".join(f"- {each}\n" for each in commands)


@pytest.mark.parametrize(
    "text",
    [
        HEAD,
        HEAD.replace("v1beta1", "v1alpha1"),
        HEAD + "credentialPluginPolicy: DenyAll\n",
        HEAD + "aliases: [{name: x, anything: y}]\ndefaults: []\noverrides: []\n",
        entries("command: /bin/sh"),
        "\n---\n" + HEAD,
        "",
    ],
)
def test_a_good_kuberc_has_no_findings(tmp_path: Path, text: str) -> None:
    report = lint(tmp_path, text)
    assert (report.findings, report.accepted, report.kind) == ((), True, "kuberc")


REFUSED = {
    "not YAML": ("kind: Preference\na: [\n", [("KF301", "", 3)]),
    "not YAML, second": ("\n---\nkind: Preference\na: [\n", [("KF301", "", 5)]),
    "another version": (HEAD.replace("v1beta1", "v9"), [("KF302", "", 1)]),
    "another kind": ("kind: Pod\n", [("KF302", "", 1)]),
    "kind is a list": ("kind: [Preference]\n", [("KF303", "kind", 1)]),
    "a number": (HEAD + "credentialPluginPolicy: 5\n", [("KF303", "credentialPluginPolicy", 3)]),
    "two words": (entries("{command: a, name: b}"), [("KF304", f"{LIST}[0]", 5)]),
    "policy": (HEAD + "credentialPluginPolicy: allowAll\n", [("KF310", "credentialPluginPolicy", 3)]),
    "list alone": (HEAD + f"{LIST}: [{{command: /bin/sh}}]\n", [("KF311", LIST, 3)]),
    "list with DenyAll": (HEAD + f"credentialPluginPolicy: DenyAll\n{LIST}: []\n", [("KF311", LIST, 4)]),
    "no list": (HEAD + "credentialPluginPolicy: Allowlist\n", [("KF312", "credentialPluginPolicy", 3)]),
    "empty list": (LISTED[:-1] + " []\n", [("KF312", LIST, 4)]),
    "empty entry": (entries("command: /bin/sh", "{}"), [("KF313", f"{LIST}[1]", 6)]),
    "not cleaned": (
        entries("command: /bin//sh", "command: /bin/sh", "command: ./x"),
        [("KF313", f"{LIST}[0]", 5), ("KF313", f"{LIST}[2]", 7)],
    ),
    "digest": (entries("{command: /bin/sh, sha256: abc}"), [("KF314", f"{LIST}[0].sha256", 5)]),
    "a digest's name in a path": (entries("{command: /opt//sha256/sh}"), [("KF313", f"{LIST}[0]", 5)]),
    "after another": (
        "kind: Pod\n---\n" + HEAD + "credentialPluginPolicy: x\n",
        [("KF302", "", 1), ("KF310", "credentialPluginPolicy", 5)],
    ),
}


@pytest.mark.parametrize(("text", "findings"), REFUSED.values(), ids=REFUSED)
def test_what_is_refused_is_an_error_at_its_place(
    tmp_path: Path, text: str, findings: list[tuple[str, str, int | None]]
) -> None:
    report = lint(tmp_path, text)
    assert not report.accepted
    assert report.kubernetes_text
    assert places(report) == findings


def test_a_misspelt_list_is_named_beside_the_refusal_it_leads_to(tmp_path: Path) -> None:
    text = HEAD + "credentialPluginPolicy: Allowlist\ncredentialPluginAllowList: [{command: a}]\n"
    report = lint(tmp_path, text)
    assert codes(report) == ["KF312", "KF350"]
    assert "did you mean 'credentialPluginAllowlist'?" in report.findings[1].message


def test_repeated_keys_are_named(tmp_path: Path) -> None:
    text = HEAD + "credentialPluginPolicy: DenyAll\ncredentialPluginPolicy: AllowAll\n"
    assert places(lint(tmp_path, text)) == [("KF351", "credentialPluginPolicy", 4)]


def test_documents_that_are_passed_over_are_named(tmp_path: Path) -> None:
    """The first that can be read counts, and one that cannot is no refusal."""
    text = f"a: [\n---\nkind: Pod\n---\n{HEAD}---\n{HEAD}credentialPluginPolicy: DenyAll\n"
    report = lint(tmp_path, text)
    assert report.accepted
    assert [(each.code, each.line) for each in report.findings] == [("KF352", 2), ("KF352", 3), ("KF352", 8)]


@pytest.mark.parametrize("mode", [0o602, pytest.param(0o620, marks=root)])
def test_a_file_that_others_can_write_is_named(tmp_path: Path, mode: int) -> None:
    (tmp_path / "kuberc").touch()
    if not mode & 0o002:
        os.chown(tmp_path / "kuberc", -1, 54_321)
    assert codes(lint(tmp_path, HEAD, mode)) == ["KF353"]


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        ("command: sh", ["KF360"]),
        ("command: no-such-program-anywhere", ["KF360", "KF362"]),
        ("command: bin/sh", ["KF361"]),
        ("command: /nonexistent/sh", ["KF362"]),
        ("command: /etc", ["KF362"]),
        ("name: /bin/sh", ["KF365"]),
    ],
)
def test_entries_that_allow_more_or_less_than_meant_are_named(
    tmp_path: Path, entry: str, expected: list[str]
) -> None:
    report = lint(tmp_path, entries(entry))
    assert codes(report) == expected
    assert report.accepted


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="digests are checked on Linux")
def test_a_digest_is_compared_with_the_program_as_it_is(tmp_path: Path) -> None:
    program = write_executable(tmp_path / "plugin", "#!/bin/sh\n")
    digest = hashlib.sha256(program.read_bytes()).hexdigest()
    for text, expected in ((digest, ["KF363"]), (digest.upper(), ["KF363"]), ("a" * 64, ["KF363", "KF364"])):
        report = lint(tmp_path, entries(f'{{command: {program}, sha256: "{text}"}}'))
        assert codes(report) == expected
    missing = entries(f'{{command: /nonexistent/x, sha256: "{digest}"}}')
    assert codes(lint(tmp_path, missing)) == ["KF362", "KF363"]
