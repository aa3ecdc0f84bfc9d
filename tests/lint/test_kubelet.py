"""Advice about files of a node: kubelet configs, agent configs and pull records."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from keyferry.api.agentconfig.v1alpha1 import AccessRule, ManageRule
from keyferry.api.kubeletconfig.records import (
    ImagePullCredentials,
    ImagePulledRecord,
    ImagePullIntent,
    encode_intent,
    encode_record,
)
from keyferry.images.node.settings import RECORDS_GATE
from keyferry.lint.kinds.agent_config import check_agent_config
from keyferry.lint.kinds.records import lint_records
from keyferry.lint.report import FileKind
from keyferry.lint.run import lint_any
from keyferry.pulls.records.format import file_name
from support.lint import codes, lint_target
from support.parts import root as as_root
from support.records import (
    EVERYBODY,
    HASH,
    IMAGE,
    NAME,
    REF,
    WHEN,
    account,
    finish,
    folder_of,
    plant,
    record,
    run_python,
    secret,
    with_secrets,
)

HEAD = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"


def found(folder: Path, text: str) -> list[tuple[str, str, int | None, str]]:
    """The code, severity, line and path of each finding."""
    path = folder / "kubelet.yaml"
    path.write_text(text)
    report = lint_target(str(path))
    assert report.kind == "kubelet config"
    return [(each.code, each.severity, each.line, each.path) for each in report.findings]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (HEAD + "maxPods: 7\n", []),
        (
            HEAD + "imageCredentialProviderConfigFile: /p.yaml\nimageCredentialProviderBinDir: /bin\n",
            [
                ("KF750", "warning", 3, "imageCredentialProviderConfigFile"),
                ("KF750", "warning", 4, "imageCredentialProviderBinDir"),
            ],
        ),
        (HEAD + "maxPods: [\n", [("KF701", "error", 4, "")]),
        (HEAD.replace("v1beta1", "v1"), [("KF702", "error", 1, "")]),
    ],
    ids=["plain", "unknown-fields", "syntax", "version"],
)
def test_what_is_found(tmp_path: Path, text: str, expected: list[tuple[str, str, int | None, str]]) -> None:
    """Only what matters for pulls; the kubelet itself knows the other fields."""
    assert found(tmp_path, text) == expected


PULLS = HEAD + "maxParallelImagePulls: 32\n"
GATES = "featureGates:\n  KubeletEnsureSecretPulledImages: "


@pytest.mark.parametrize(
    ("text", "versions", "gates", "found"),
    [
        (PULLS, ("1.36",), {}, True),
        (PULLS.replace("32", "31"), ("1.36",), {}, False),
        (PULLS, ("1.37",), {}, False),
        (PULLS, ("1.34",), {}, False),
        (PULLS + GATES + "true\n", ("1.34",), {}, True),
        (PULLS + GATES + "false\n", ("1.36",), {}, False),
        (PULLS + GATES + "false\n", ("1.36",), {RECORDS_GATE: True}, True),
        (PULLS, ("1.37", "1.36"), {}, True),
    ],
)
def test_more_parallel_pulls_than_a_kubelet_has_locks(
    tmp_path: Path, text: str, versions: tuple[str, ...], gates: dict[str, bool], found: bool
) -> None:
    """An error in the versions that panic, if they keep records; with several versions, those are named."""
    path = tmp_path / "kubelet.yaml"
    path.write_text(text)
    findings = lint_target(str(path), versions=versions, gates=gates).findings
    shown = [(each.code, each.severity, each.line, each.versions) for each in findings]
    named = ("1.36",) if len(versions) > 1 else ()
    assert shown == ([("KF710", "error", 3, named)] if found else [])


def test_the_flag_is_named_that_is_meant(tmp_path: Path) -> None:
    path = tmp_path / "kubelet.yaml"
    path.write_text(HEAD + "imageCredentialProviderBinDir: /bin\n")
    (finding,) = lint_target(str(path)).findings
    assert "--image-credential-provider-bin-dir" in finding.message


AGENT = "apiVersion: keyferry.dev/v1alpha1\nkind: AgentConfig\n"


def agent_problems(text: str, head: str = AGENT) -> list[tuple[str, int | None, str]]:
    """The code, line and path of each problem."""
    checked = check_agent_config("agent.yaml", (head + text).encode())
    return [(each.code, each.line, each.path) for each in checked.findings]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        ("socket: /run/a.sock\nrefreshAhead: false\ncacheEntries: 5\npluginTimeout: 5s\n", []),
        ("sockt: /run/a.sock\n", [("KF504", 3, "sockt")]),
        ("socket: /a\nsocket: /b\n", [("KF505", 4, "socket")]),
        ("cacheEntries: many\n", [("KF503", 3, "cacheEntries")]),
        ("cacheEntries: -1\n", [("KF503", 3, "cacheEntries")]),
        ("cacheEntries: 0\n", [("KF510", 3, "cacheEntries")]),
        ("refreshAhead: 1\n", [("KF503", 3, "refreshAhead")]),
        ("pluginTimeout: 5\n", [("KF503", 3, "pluginTimeout")]),
        ("pluginTimeout: 5h\n", [("KF510", 3, "pluginTimeout")]),
        ("pluginTimeout: soon\n", [("KF503", 3, "pluginTimeout")]),
        ("socket: run/a.sock\n", [("KF510", 3, "socket")]),
        ("socketMode: '660'\n", [("KF510", 3, "socketMode")]),
        ("metrics: 127.0.0.1:9750\n", []),
        ("metrics: '[::]:9750'\n", []),
        ("metrics: localhost:9750\n", [("KF510", 3, "metrics")]),
        ("metrics: ':9750'\n", [("KF510", 3, "metrics")]),
        ("metrics: 9750\n", [("KF503", 3, "metrics")]),
        ("logLevel: loud\n", [("KF510", 3, "logLevel")]),
        ("page: 127.0.0.1:7475\n", []),
        ("page: '[::1]:0'\n", []),
        ("page: 'off'\n", []),
        *(
            (f"page: '{address}'\n", [("KF510", 3, "page")])
            for address in (
                *("0.0.0.0:7475", ":7475", "10.0.0.1:7475", "[::]:7475", "localhost:7475"),
                *("127.0.0.1", "127.0.0.1:", "127.0.0.1:65536", "127.0.0.1:-1", "127.1:80", "::1:80"),
                *("127.0.0.1.evil.example:80", "127.0.0.1:7475/", "on"),
            )
        ),
        ("access:\n- uids: [1000]\n  registries: [registry.example]\n", []),
        ("access:\n- uids: [1000]\n", [("KF511", 4, "access[0]")]),
        ("access:\n- registries: [a.example]\n", [("KF511", 4, "access[0]")]),
        (
            "access:\n- uids: [0]\n  registries: [a.example]\n  everyRegistry: true\n",
            [("KF512", 4, "access[0]")],
        ),
        ("access:\n- uids: [1]\n  registries: ['a b']\n", [("KF513", 5, "access[0].registries[0]")]),
        ("access:\n- gids: [27]\n  everyRegistry: true\n", [("KF552", 4, "access[0]")]),
        ("access:\n- uids: [0]\n  everyRegistry: true\n", []),
        ("access:\n- uids: [65534]\n  registries: [a.example]\n", [("KF551", 4, "access[0]")]),
        ("manage:\n- {}\n", [("KF511", 4, "manage[0]")]),
        ("manage:\n- gids: [65534]\n", [("KF551", 4, "manage[0]")]),
    ],
)
def test_every_problem_has_a_code_and_a_position(text: str, expected: list[tuple[str, int, str]]) -> None:
    assert agent_problems(text) == expected


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("a: [", "KF501"),
        ("apiVersion: v1\nkind: AgentConfig\n", "KF502"),
        ("apiVersion: keyferry.dev/v9\nkind: AgentConfig\n", "KF502"),
        ("- a\n", "KF503"),
    ],
)
def test_what_is_no_agent_config_is_refused(text: str, code: str) -> None:
    assert [each[0] for each in agent_problems(text, head="")] == [code]


def test_the_values_are_read() -> None:
    """Durations in nanoseconds; a rule has tuples."""
    text = "stopTimeout: 1m\naccess:\n- gids: [3]\n  registries: [r.example]\nmanage:\n- uids: [7]\n"
    config = check_agent_config("x", (AGENT + text).encode()).config
    assert config.settings == {"stopTimeout": 60_000_000_000}
    assert config.access == (AccessRule(uids=(), gids=(3,), registries=("r.example",)),)
    assert config.manage == (ManageRule(uids=(7,)),)


def test_lint_recognises_the_file_and_its_writers(tmp_path: Path) -> None:
    """The command lints it by its kind; a file that others can write is reported."""
    path = tmp_path / "agent.yaml"
    path.write_text(AGENT)
    path.chmod(0o666)
    report = lint_any(str(path))
    assert report.kind is FileKind.AGENT_CONFIG
    assert [each.code for each in report.findings] == ["KF550"]
    assert report.accepted
    broken = tmp_path / "broken.yaml"
    broken.write_text("kind: AgentConfig\n  x: [")
    broken.chmod(0o600)
    assert [each.code for each in lint_any(str(broken)).findings] == ["KF501"]
    path.chmod(0o600)
    assert lint_any(str(path)).findings == ()


GOOD = encode_record(record(entry=with_secrets(secret())))
ALPHA = "kubelet.config.k8s.io/v1alpha1"
MANY = with_secrets(*(secret(f"s{at}") for at in range(100)))
BOTH = ImagePullCredentials(
    kubernetes_secrets=(secret(),), kubernetes_service_accounts=(account(),), node_pods_accessible=True
)


def record_codes(root: Path) -> list[str]:
    return codes(lint_records(str(root / "image_manager"), clock=lambda: WHEN + 1))


def test_a_good_folder_has_no_findings(tmp_path: Path) -> None:
    """What a kubelet writes is fine."""
    plant(tmp_path, GOOD)
    intent = folder_of(tmp_path, "pulling") / file_name(IMAGE)
    intent.write_bytes(encode_intent(ImagePullIntent(image=IMAGE)))
    intent.chmod(0o600)
    assert record_codes(tmp_path) == []


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
                    image_ref=REF, last_updated_ns=WHEN + 10**16, credential_mapping={NAME: EVERYBODY}
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
    report = lint_records(str(tmp_path / "image_manager"), clock=lambda: WHEN + 1)
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
    assert sorted(record_codes(tmp_path)) == expected


NOBODY = 65534


def findings(root: Path) -> dict[str, list[str]]:
    """What is said of each file, by its name."""
    report = lint_records(str(root / "image_manager"), clock=lambda: WHEN + 1)
    said: dict[str, list[str]] = {}
    for each in report.findings:
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
def test_what_belongs_to_root_or_to_oneself_is_fine(tmp_path: Path) -> None:
    """Whoever looks: a user at his own records, and at root's."""
    own = plant(tmp_path, GOOD)
    other = plant(tmp_path, encode_record(record("other", entry=with_secrets(secret()))), ref="other")
    for path in (own, own.parent, own.parent.parent):
        os.chown(path, NOBODY, NOBODY)
    tmp_path.chmod(0o711)
    assert sorted(findings(tmp_path)) == sorted([own.name, own.parent.name, own.parent.parent.name]), (
        "to root, what the user owns is not root's"
    )
    child = os.fork()
    if not child:
        status = 1
        try:
            os.chdir(tmp_path)
            os.setgid(NOBODY)
            os.setuid(NOBODY)
            report = lint_records("image_manager", clock=lambda: WHEN + 1)
            # Root's file, which the user cannot open, is not somebody else's; nor is his own.
            status = (
                0
                if {(Path(each.file).name, each.code) for each in report.findings} == {(other.name, "KF404")}
                else 2
            )
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


CHURN = """
from support.records import *
print("ready", flush=True)
while True:
    paths = [plant(Path(sys.argv[1]), ref=f"ref{at}") for at in range(200)]
    for path in paths:
        path.unlink()
"""


def test_files_that_go_away_while_one_looks_are_no_problem(tmp_path: Path) -> None:
    """A kubelet beside us writes temporary files, renames them and removes records."""
    folder_of(tmp_path)
    child = run_python(CHURN, str(tmp_path))
    try:
        assert child.stdout is not None
        assert child.stdout.readline() == b"ready\n"
        for _ in range(40):
            assert "KF404" not in record_codes(tmp_path)
        assert child.poll() is None
    finally:
        child.kill()
        finish([child])


def test_an_old_intent_is_worth_knowing(tmp_path: Path) -> None:
    """A pull that was begun days ago will hardly be finished."""
    path = folder_of(tmp_path, "pulling") / file_name(IMAGE)
    path.write_bytes(encode_intent(ImagePullIntent(image=IMAGE)))
    path.chmod(0o600)
    begun = WHEN // 10**9 - 3 * 86_400
    os.utime(path, (begun, begun))
    assert record_codes(tmp_path) == ["KF429"]


def test_positions_are_those_of_the_file(tmp_path: Path) -> None:
    """A field that is not known has its line and column."""
    plant(tmp_path, b'{\n "x": 1,\n' + GOOD[1:])
    (finding,) = lint_records(str(tmp_path / "image_manager")).findings
    assert (finding.code, finding.path, finding.line, finding.column) == ("KF403", "x", 2, 2)
