"""The files of a layout: whole or not there, whoever dies or reads."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from keyferry.errors import EnvironmentProblem
from keyferry.pulls.layout import IndexEntry, Layout
from keyferry.pulls.manifest import Descriptor, Platform
from support.images import digest_of
from support.locks import replaced_while_waited_for

BLOB = b"the content of a blob"


def make(folder: Path) -> Layout:
    layout = Layout(str(folder))
    layout.prepare()
    return layout


def entry(image: str = "reg.io/app:v1", tag: str = "v1", digest: str = digest_of(b"m")) -> IndexEntry:
    return IndexEntry(
        media_type="application/vnd.oci.image.manifest.v1+json",
        digest=digest,
        size=1,
        platform=Platform(os="linux", architecture="amd64"),
        image=image,
        tag=tag,
    )


def names(folder: Path) -> list[str]:
    index = json.loads((folder / "index.json").read_text())
    return [each["annotations"]["org.opencontainers.image.ref.name"] for each in index["manifests"]]


def blob(data: bytes = BLOB) -> Descriptor:
    return Descriptor(
        media_type="application/vnd.oci.image.layer.v1.tar", digest=digest_of(data), size=len(data)
    )


def test_a_new_folder_becomes_an_empty_layout(tmp_path: Path) -> None:
    make(tmp_path / "deep" / "new")
    assert json.loads((tmp_path / "deep/new/oci-layout").read_text()) == {"imageLayoutVersion": "1.0.0"}
    assert json.loads((tmp_path / "deep/new/index.json").read_text())["manifests"] == []


def test_a_folder_with_something_else_in_it_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("mine")
    with pytest.raises(EnvironmentProblem, match="not empty"):
        make(tmp_path)
    assert os.listdir(tmp_path) == ["thesis.txt"]


@pytest.mark.parametrize("content", ['{"imageLayoutVersion":"2.0.0"}', "{", "[]", ""])
def test_a_layout_of_another_version_is_left_alone(tmp_path: Path, content: str) -> None:
    (tmp_path / "oci-layout").write_text(content)
    with pytest.raises(EnvironmentProblem, match=r"version 1\.0\.0"):
        make(tmp_path)


def test_a_file_in_place_of_the_folder_is_an_error_that_names_it(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(EnvironmentProblem, match="file: "):
        make(tmp_path / "file")


def test_a_blob_counts_only_if_size_and_digest_are_right(tmp_path: Path) -> None:
    """A look changes nothing: what is not right is removed by whoever has it locked, to fetch it again."""
    layout = make(tmp_path)
    assert not layout.has(blob())
    layout.put(BLOB, digest_of(BLOB))
    assert layout.has(blob())
    path = Path(layout.path_of(digest_of(BLOB)))
    for wrong in (BLOB[::-1], BLOB[:5]):
        path.write_bytes(wrong)
        assert not layout.has(blob())
        assert path.read_bytes() == wrong
    layout.remove(digest_of(BLOB))
    assert not path.exists()
    layout.remove(digest_of(BLOB))


def test_sizes_and_contents_can_be_asked_for_without_a_look_inside(tmp_path: Path) -> None:
    """What is not there, or is no file, has neither."""
    layout = make(tmp_path)
    layout.put(BLOB, digest_of(BLOB))
    assert layout.size_of(digest_of(BLOB)) == len(BLOB)
    assert layout.read(digest_of(BLOB)) == BLOB
    assert (layout.size_of(digest_of(b"x")), layout.read(digest_of(b"x"))) == (None, None)
    Path(layout.path_of(digest_of(b"x"))).mkdir()
    assert (layout.size_of(digest_of(b"x")), layout.read(digest_of(b"x"))) == (None, None)
    assert Layout(str(tmp_path / "none")).read_index() is None


def test_a_link_in_place_of_a_blob_is_not_followed(tmp_path: Path) -> None:
    layout = make(tmp_path / "layout")
    layout.put(b"other", digest_of(b"other"))
    (tmp_path / "outside").write_bytes(BLOB)
    Path(layout.path_of(digest_of(BLOB))).symlink_to(tmp_path / "outside")
    with pytest.raises(EnvironmentProblem):
        layout.has(blob())
    assert (tmp_path / "outside").read_bytes() == BLOB


def test_an_image_has_its_tag_as_name_and_its_full_name_beside_it(tmp_path: Path) -> None:
    layout = make(tmp_path)
    layout.put(b"m", digest_of(b"m"))
    assert layout.add(entry()) == "v1"
    (found,) = json.loads((tmp_path / "index.json").read_text())["manifests"]
    assert found["digest"] == digest_of(b"m")
    assert found["platform"] == {"os": "linux", "architecture": "amd64"}
    assert found["annotations"]["io.containerd.image.name"] == "reg.io/app:v1"


def test_the_same_image_again_takes_the_place_of_the_old_one(tmp_path: Path) -> None:
    layout = make(tmp_path)
    layout.put(b"m", digest_of(b"m"))
    layout.add(entry())
    layout.add(entry(digest=digest_of(b"newer")))
    assert names(tmp_path) == ["v1"]


def test_another_image_of_the_same_tag_is_called_by_its_full_name(tmp_path: Path) -> None:
    layout = make(tmp_path)
    layout.put(b"m", digest_of(b"m"))
    layout.add(entry())
    assert layout.add(entry("reg.io/other:v1")) == "reg.io/other:v1"
    assert layout.add(entry("reg.io/app@sha256:1", "")) == "reg.io/app@sha256:1"
    assert names(tmp_path) == ["v1", "reg.io/other:v1", "reg.io/app@sha256:1"]


def test_what_others_wrote_into_the_index_stays(tmp_path: Path) -> None:
    layout = make(tmp_path)
    layout.put(b"m", digest_of(b"m"))
    theirs = {
        "schemaVersion": 2,
        "x": 1,
        "manifests": [{"digest": "sha256:1", "annotations": {"a": "b"}}, {}],
    }
    (tmp_path / "index.json").write_text(json.dumps(theirs))
    layout.add(entry())
    index = json.loads((tmp_path / "index.json").read_text())
    assert index["x"] == 1
    assert index["manifests"][:2] == theirs["manifests"]


@pytest.mark.parametrize("content", ["", "[]", '{"manifests":{}}', '{"manifests":[1]}'])
def test_a_broken_index_is_not_written_over(tmp_path: Path, content: str) -> None:
    layout = make(tmp_path)
    layout.put(b"m", digest_of(b"m"))
    (tmp_path / "index.json").write_text(content)
    with pytest.raises(EnvironmentProblem, match="nothing was changed"):
        layout.add(entry())
    assert (tmp_path / "index.json").read_text() == content


def test_a_layouts_lock_that_is_replaced_under_a_waiter_is_waited_for_again(tmp_path: Path) -> None:
    """The file that has the name now is the lock."""
    layout = Layout(str(tmp_path))
    layout.prepare()
    replaced_while_waited_for(tmp_path / ".keyferry" / "lock", layout.prepare)


def test_a_layouts_lock_that_is_a_link_is_an_error(tmp_path: Path) -> None:
    """With the place in it."""
    (tmp_path / ".keyferry").mkdir()
    (tmp_path / ".keyferry" / "lock").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(EnvironmentProblem, match=r"\.keyferry/lock: "):
        Layout(str(tmp_path)).prepare()
    assert not (tmp_path / "elsewhere").exists()
