"""How far a pull has come, by the bytes of each blob."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from keyferry.pulls.layout import Layout, draft_name
from keyferry.pulls.layout_target import Meter
from keyferry.pulls.manifest import ImageManifest, read_manifest
from keyferry.pulls.request import Progress
from support.images import build, noise

IMAGE = build(noise(3000), noise(5000))
SIZES = {name: len(blob) for name, blob in IMAGE.blobs.items()}
TOTAL = sum(SIZES.values())


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    found = Layout(str(tmp_path))
    found.prepare()
    return found


def manifest() -> ImageManifest:
    found = read_manifest(IMAGE.manifest, IMAGE.media_type, IMAGE.digest)
    assert isinstance(found, ImageManifest)
    return found


def test_an_empty_folder_begins_at_nothing(layout: Layout) -> None:
    told: list[Progress] = []
    meter = Meter(manifest(), layout, told.append)
    assert told == [Progress(done=0, total=TOTAL, layers_done=0, layers=2, found=0)]
    config, first, second = manifest().blobs
    meter.set(config, config.size)
    meter.set(first, first.size - 1)
    assert told[-1] == Progress(
        done=config.size + first.size - 1, total=TOTAL, layers_done=0, layers=2, found=0
    )
    meter.set(first, first.size)
    meter.set(first, first.size)
    meter.set(second, second.size)
    assert told[-1] == Progress(done=TOTAL, total=TOTAL, layers_done=2, layers=2, found=0)
    assert len(told) == 5  # nothing is told twice


def test_whole_layers_and_parts_that_are_there_count_from_the_start(layout: Layout) -> None:
    _, first, second = manifest().blobs
    layout.put(IMAGE.blobs[first.digest], first.digest)
    draft = Path(layout.folder, ".keyferry", draft_name(second.digest))
    draft.write_bytes(IMAGE.blobs[second.digest][:1000])
    told: list[Progress] = []
    meter = Meter(manifest(), layout, told.append)
    assert told == [
        Progress(done=first.size + 1000, total=TOTAL, layers_done=1, layers=2, found=first.size + 1000)
    ]
    meter.set(first, first.size)
    assert len(told) == 1
    # The layer was damaged, and is fetched again.
    meter.set(first, 0)
    assert told[-1] == Progress(done=1000, total=TOTAL, layers_done=0, layers=2, found=first.size + 1000)


def test_a_part_that_is_too_long_is_worth_nothing(layout: Layout) -> None:
    _, first, _ = manifest().blobs
    Path(layout.folder, ".keyferry", draft_name(first.digest)).write_bytes(bytes(first.size + 1))
    assert layout.bytes_of(first) == 0


def test_nobody_has_to_listen(layout: Layout) -> None:
    Meter(manifest(), layout, None).set(manifest().config, 5)
    assert json.loads(IMAGE.manifest)
