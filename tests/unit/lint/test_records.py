"""Every problem of pull records has its code."""

import os
from pathlib import Path

import pytest

from keyferry.api.kubeletconfig.records import (
    ImagePullCredentials,
    ImagePulledRecord,
    ImagePullIntent,
    encode_intent,
    encode_record,
)
from keyferry.lint.dispatch import lint_any
from keyferry.lint.records import lint_records
from keyferry.pulls.hashes import file_name
from support.lint import codes
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
    record,
    secret,
    with_secrets,
)

GOOD = encode_record(record(entry=with_secrets(secret())))
ALPHA = "kubelet.config.k8s.io/v1alpha1"
MANY = with_secrets(*(secret(f"s{at}") for at in range(100)))
BOTH = ImagePullCredentials((secret(),), (account(),), node_pods_accessible=True)


def found(root: Path) -> list[str]:
    return codes(lint_records(str(root / "image_manager"), clock=lambda: WHEN + 1))


def test_a_good_folder_has_no_findings(tmp_path: Path) -> None:
    """What a kubelet writes is fine."""
    plant(tmp_path, GOOD)
    intent = folder_of(tmp_path, "pulling") / file_name(IMAGE)
    intent.write_bytes(encode_intent(ImagePullIntent(IMAGE)))
    intent.chmod(0o600)
    assert found(tmp_path) == []


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
        (encode_record(ImagePulledRecord(REF, credential_mapping={NAME: EVERYBODY})), "KF423"),
        (encode_record(ImagePulledRecord(REF, WHEN + 10**16, {NAME: EVERYBODY})), "KF423"),
        (encode_record(record(name=IMAGE)), "KF424"),
        (encode_record(record(name="Not A Name")), "KF424"),
        (encode_record(ImagePulledRecord(REF, WHEN)), "KF425"),
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
    assert sorted(found(tmp_path)) == expected


def test_an_old_intent_is_worth_knowing(tmp_path: Path) -> None:
    """A pull that was begun days ago will hardly be finished."""
    path = folder_of(tmp_path, "pulling") / file_name(IMAGE)
    path.write_bytes(encode_intent(ImagePullIntent(IMAGE)))
    path.chmod(0o600)
    begun = WHEN // 10**9 - 3 * 86_400
    os.utime(path, (begun, begun))
    assert found(tmp_path) == ["KF429"]


def test_positions_are_those_of_the_file(tmp_path: Path) -> None:
    """A field that is not known has its line and column."""
    plant(tmp_path, b'{\n "x": 1,\n' + GOOD[1:])
    (finding,) = lint_records(str(tmp_path / "image_manager")).findings
    assert (finding.code, finding.path, finding.line, finding.column) == ("KF403", "x", 2, 2)


def test_a_single_record_is_recognised(tmp_path: Path) -> None:
    """A record somewhere else is linted by its content alone."""
    path = tmp_path / "sha256-copy"
    path.write_bytes(encode_record(record(), ALPHA))
    assert codes(lint_any(str(path))) == ["KF422"]
    path.write_bytes(encode_intent(ImagePullIntent(IMAGE))[:-4])
    assert codes(lint_any(str(path))) == ["KF401"]


def test_one_of_the_two_folders_will_do(tmp_path: Path) -> None:
    """Pointing at the inner folder is fine too."""
    plant(tmp_path, b"x")
    assert codes(lint_any(str(folder_of(tmp_path)))) == ["KF402"]
