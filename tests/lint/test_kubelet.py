"""Advice about files of a node: kubelet configs, agent configs and pull records."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from keyferry.api.kubeletconfig.records import ImagePullCredentials, ImagePulledRecord, encode_record
from support.lint import Report, codes, lint_target, only, places, write
from support.parts import root as as_root
from support.records import (
    EVERYBODY,
    HASH,
    IMAGE,
    NAME,
    REF,
    WHEN,
    account,
    folder_of,
    plant,
    plant_intent,
    record,
    secret,
    with_secrets,
)

HEAD = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"


def lint(folder: Path, text: str, **options: Any) -> Report:
    return lint_target(write(folder, text), **options)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (HEAD + "maxPods: 7\n", []),
        (
            HEAD + "imageCredentialProviderConfigFile: /p.yaml\nimageCredentialProviderBinDir: /bin\n",
            [
                ("KF750", "imageCredentialProviderConfigFile", 3),
                ("KF750", "imageCredentialProviderBinDir", 4),
            ],
        ),
        (HEAD + "maxPods: [\n", [("KF701", "", 4)]),
        (HEAD.replace("v1beta1", "v1"), [("KF702", "", 1)]),
    ],
    ids=["plain", "unknown-fields", "syntax", "version"],
)
def test_what_is_found(tmp_path: Path, text: str, expected: list[tuple[str, str, int | None]]) -> None:
    """Only what matters for pulls; the kubelet itself knows the other fields."""
    report = lint(tmp_path, text)
    assert (places(report), report.kind) == (expected, "kubelet config")


PULLS = HEAD + "maxParallelImagePulls: 32\n"
GATE = "KubeletEnsureSecretPulledImages"
GATES = f"featureGates:\n  {GATE}: "


@pytest.mark.parametrize(
    ("text", "versions", "gates", "found"),
    [
        (PULLS, ("1.36",), {}, True),
        (PULLS.replace("32", "31"), ("1.36",), {}, False),
        (PULLS, ("1.37",), {}, False),
        (PULLS, ("1.34",), {}, False),
        (PULLS + GATES + "true\n", ("1.34",), {}, True),
        (PULLS + GATES + "false\n", ("1.36",), {}, False),
        (PULLS + GATES + "false\n", ("1.36",), {GATE: True}, True),
        (PULLS, ("1.37", "1.36"), {}, True),
    ],
)
def test_more_parallel_pulls_than_a_kubelet_has_locks(
    tmp_path: Path, text: str, versions: tuple[str, ...], gates: dict[str, bool], found: bool
) -> None:
    """An error in the versions that panic, if they keep records; with several versions, those are named."""
    findings = lint(tmp_path, text, versions=versions, gates=gates).findings
    shown = [(each.code, each.severity, each.line, each.versions) for each in findings]
    named = ("1.36",) if len(versions) > 1 else ()
    assert shown == ([("KF710", "error", 3, named)] if found else [])


def test_the_flag_is_named_that_is_meant(tmp_path: Path) -> None:
    finding = only(lint(tmp_path, HEAD + "imageCredentialProviderBinDir: /bin\n"))
    assert "--image-credential-provider-bin-dir" in finding.message


AGENT = "apiVersion: keyferry.dev/v1alpha1\nkind: AgentConfig\n"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        ("socket: /run/a.sock\nrefreshAhead: false\ncacheEntries: 5\npluginTimeout: 5s\n", []),
        ("sockt: /run/a.sock\n", [("KF504", "sockt", 3)]),
        ("socket: /a\nsocket: /b\n", [("KF505", "socket", 4)]),
        ("cacheEntries: many\n", [("KF503", "cacheEntries", 3)]),
        ("cacheEntries: -1\n", [("KF503", "cacheEntries", 3)]),
        ("cacheEntries: 0\n", [("KF510", "cacheEntries", 3)]),
        ("refreshAhead: 1\n", [("KF503", "refreshAhead", 3)]),
        ("pluginTimeout: 5\n", [("KF503", "pluginTimeout", 3)]),
        ("pluginTimeout: 5h\n", [("KF510", "pluginTimeout", 3)]),
        ("pluginTimeout: soon\n", [("KF503", "pluginTimeout", 3)]),
        ("socket: run/a.sock\n", [("KF510", "socket", 3)]),
        ("socketMode: '660'\n", [("KF510", "socketMode", 3)]),
        ("metrics: 127.0.0.1:9750\n", []),
        ("metrics: '[::]:9750'\n", []),
        ("metrics: localhost:9750\n", [("KF510", "metrics", 3)]),
        ("metrics: ':9750'\n", [("KF510", "metrics", 3)]),
        ("metrics: 9750\n", [("KF503", "metrics", 3)]),
        ("logLevel: loud\n", [("KF510", "logLevel", 3)]),
        ("page: 127.0.0.1:7475\n", []),
        ("page: '[::1]:0'\n", []),
        ("page: 'off'\n", []),
        *(
            (f"page: '{address}'\n", [("KF510", "page", 3)])
            for address in (
                *("0.0.0.0:7475", ":7475", "10.0.0.1:7475", "[::]:7475", "localhost:7475"),
                *("127.0.0.1", "127.0.0.1:", "127.0.0.1:65536", "127.0.0.1:-1", "127.1:80", "::1:80"),
                *("127.0.0.1.evil.example:80", "127.0.0.1:7475/", "on"),
            )
        ),
        ("access:\n- uids: [1000]\n  registries: [registry.example]\n", []),
        ("access:\n- uids: [1000]\n", [("KF511", "access[0]", 4)]),
        ("access:\n- registries: [a.example]\n", [("KF511", "access[0]", 4)]),
        (
            "access:\n- uids: [0]\n  registries: [a.example]\n  everyRegistry: true\n",
            [("KF512", "access[0]", 4)],
        ),
        ("access:\n- uids: [1]\n  registries: ['a b']\n", [("KF513", "access[0].registries[0]", 5)]),
        ("access:\n- gids: [27]\n  everyRegistry: true\n", [("KF552", "access[0]", 4)]),
        ("access:\n- uids: [0]\n  everyRegistry: true\n", []),
        ("access:\n- uids: [65534]\n  registries: [a.example]\n", [("KF551", "access[0]", 4)]),
        ("manage:\n- {}\n", [("KF511", "manage[0]", 4)]),
        ("manage:\n- gids: [65534]\n", [("KF551", "manage[0]", 4)]),
    ],
)
def test_every_problem_of_an_agents_config_has_a_code_and_a_position(
    tmp_path: Path, text: str, expected: list[tuple[str, str, int | None]]
) -> None:
    report = lint(tmp_path, AGENT + text)
    assert (places(report), report.kind) == (expected, "agent config")


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("kind: AgentConfig\n  x: [", "KF501"),
        ("apiVersion: v1\nkind: AgentConfig\n", "KF502"),
        ("apiVersion: keyferry.dev/v9\nkind: AgentConfig\n", "KF502"),
    ],
)
def test_what_is_no_agent_config_is_refused(tmp_path: Path, text: str, code: str) -> None:
    report = lint(tmp_path, text)
    assert (codes(report), report.kind, report.accepted) == ([code], "agent config", False)


def test_an_agents_config_that_others_can_write_is_named(tmp_path: Path) -> None:
    report = lint_target(write(tmp_path, AGENT, mode=0o666))
    assert (codes(report), report.accepted) == (["KF550"], True)


GOOD = encode_record(record(entry=with_secrets(secret())))
ALPHA = "kubelet.config.k8s.io/v1alpha1"
MANY = with_secrets(*(secret(f"s{at}") for at in range(100)))
BOTH = ImagePullCredentials(
    kubernetes_secrets=(secret(),), kubernetes_service_accounts=(account(),), node_pods_accessible=True
)


def lint_records(root: Path) -> Report:
    return lint_target(str(root / "image_manager"))


def test_a_good_folder_has_no_findings(tmp_path: Path) -> None:
    """What a kubelet writes is fine."""
    plant(tmp_path, GOOD)
    plant_intent(tmp_path)
    assert codes(lint_records(tmp_path)) == []


@pytest.mark.parametrize(
    ("content", "code"),
    [
        (GOOD[:-5], "KF401"),
        (b"", "KF402"),
        (GOOD.replace(b"v1beta1", b"v7"), "KF402"),
        (GOOD.replace(b'"uid"', b'"uidd"'), "KF403"),
        (GOOD.replace(b'"kind"', b'"imageRef":"","kind"'), "KF403"),
        (encode_record(record("other")), "KF410"),
        (encode_record(record(), ALPHA), "KF422"),
        (encode_record(ImagePulledRecord(image_ref=REF, credential_mapping={NAME: EVERYBODY})), "KF423"),
        (
            encode_record(
                ImagePulledRecord(
                    image_ref=REF,
                    last_updated_ns=time.time_ns() + 10**16,
                    credential_mapping={NAME: EVERYBODY},
                )
            ),
            "KF423",
        ),
        (encode_record(record(name=IMAGE)), "KF424"),
        (encode_record(record(name="Not A Name")), "KF424"),
        (encode_record(ImagePulledRecord(image_ref=REF, last_updated_ns=WHEN)), "KF425"),
        (encode_record(record(entry=ImagePullCredentials())), "KF425"),
        (encode_record(record(entry=with_secrets(secret("s", "")))), "KF426"),
        (encode_record(record(entry=MANY)), "KF427"),
        (encode_record(record(entry=BOTH)), "KF428"),
    ],
)
def test_content_has_its_code(tmp_path: Path, content: bytes, code: str) -> None:
    """One fault, one finding, and never a hash in it."""
    plant(tmp_path, content)
    report = lint_records(tmp_path)
    assert codes(report) == [code]
    assert HASH not in repr(report) + "".join(each.kubernetes_text for each in report.findings)


def test_files_have_their_codes(tmp_path: Path) -> None:
    """Links, modes, strangers' names and leftovers are told apart."""
    folder = folder_of(tmp_path)
    plant(tmp_path, GOOD, mode=0o640)
    plant(tmp_path, encode_record(record("w")), ref="w", mode=0o620)
    (folder / "sha256-link").symlink_to("/etc/passwd")
    os.link(plant(tmp_path, encode_record(record("h")), ref="h"), tmp_path / "second-name")
    os.mkfifo(folder / "sha256-pipe")
    with plant(tmp_path, encode_record(record("big")), ref="big").open("ab") as stream:
        stream.truncate(1 << 30)
    (folder / "sha256-x.tmp").write_text("")
    (folder / "folder").mkdir()
    folder.chmod(0o755)
    expected = ["KF411", "KF412", "KF413", "KF414", "KF415", "KF415", "KF417", "KF420", "KF421"]
    assert sorted(codes(lint_records(tmp_path))) == expected


NOBODY = 65534


def findings(root: Path) -> dict[str, list[str]]:
    """What is said of each file, by its name."""
    said: dict[str, list[str]] = {}
    for each in lint_records(root).findings:
        said.setdefault(Path(each.file).name, []).append(f"{each.code} {each.message}")
    return said


def test_a_link_is_told_with_what_it_leads_to(tmp_path: Path) -> None:
    """Whoever made it may have wanted just that file; a folder that is a link is told too."""
    folder = folder_of(tmp_path, "pulling")
    folder.rmdir()
    folder.symlink_to(tmp_path)
    tmp_path.chmod(0o700)
    (folder_of(tmp_path) / "sha256-link").symlink_to("../../some/where else")
    said = findings(tmp_path)
    message = "KF411 it is a symbolic link to '../../some/where else', expected a file; remove it"
    assert said["sha256-link"] == [message]
    assert said["pulling"] == [
        f"KF411 it is a symbolic link to {str(tmp_path)!r}, expected a folder; remove it"
    ]


@as_root
@pytest.mark.parametrize("which", ["record", "folder", "folder above"])
def test_what_belongs_to_somebody_else_is_told(tmp_path: Path, which: str) -> None:
    """Its owner decides who may use the images."""
    path = plant(tmp_path, GOOD)
    place = {"record": path, "folder": path.parent, "folder above": path.parent.parent}[which]
    os.chown(place, NOBODY, NOBODY)
    what = which.removesuffix(" above")
    said = f"KF416 the {what} belongs to user 65534, expected root or user 0"
    assert findings(tmp_path) == {place.name: [said]}


@as_root
def test_what_belongs_to_root_or_to_oneself_is_fine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever looks: a user at his own records, and at root's."""
    own = plant(tmp_path, GOOD)
    plant(tmp_path, encode_record(record("other", entry=with_secrets(secret()))), ref="other")
    for path in (own, own.parent, own.parent.parent):
        os.chown(path, NOBODY, NOBODY)
    # To root, what the user owns is not root's.
    assert sorted(findings(tmp_path)) == sorted([own.name, own.parent.name, own.parent.parent.name])
    tmp_path.chmod(0o711)
    monkeypatch.chdir(tmp_path)
    os.seteuid(NOBODY)
    try:
        report = lint_target("image_manager")
    finally:
        os.seteuid(0)
    # Root's file, which the user cannot open, is not somebody else's; nor is his own.
    assert codes(report) == ["KF404"]


def test_files_that_go_away_while_one_looks_are_no_problem(tmp_path: Path) -> None:
    """A kubelet beside us writes temporary files, renames them and removes records."""
    over = threading.Event()

    def churn() -> None:
        while not over.is_set():
            for path in [plant(tmp_path, ref=f"ref{at}") for at in range(20)]:
                path.unlink()

    folder_of(tmp_path)
    kubelet = threading.Thread(target=churn)
    kubelet.start()
    try:
        for _ in range(300):
            assert "KF404" not in codes(lint_records(tmp_path))
    finally:
        over.set()
        kubelet.join()


def test_an_old_intent_is_worth_knowing(tmp_path: Path) -> None:
    """A pull that was begun days ago will hardly be finished."""
    begun = time.time() - 3 * 86_400
    os.utime(plant_intent(tmp_path), (begun, begun))
    assert codes(lint_records(tmp_path)) == ["KF429"]


def test_positions_are_those_of_the_file(tmp_path: Path) -> None:
    """A field that is not known has its line and column."""
    plant(tmp_path, b'{\n "x": 1,\n' + GOOD[1:])
    finding = only(lint_records(tmp_path))
    assert (finding.code, finding.path, finding.line, finding.column) == ("KF403", "x", 2, 2)
