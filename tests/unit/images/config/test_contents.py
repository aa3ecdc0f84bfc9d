"""The files of a config and their hash, before anything is decoded."""

from __future__ import annotations

import hashlib
import os
import sys
from pathlib import Path

import pytest

from keyferry.images.config.contents import config_hash, hash_of_files
from keyferry.images.config.read import read_config


def test_the_hash_is_over_lengths_and_contents() -> None:
    """So moving a byte from one file to the next changes it, as does the order."""
    expected = hashlib.sha256(b"\0" * 7 + b"\2ab" + b"\0" * 7 + b"\1c").hexdigest()
    assert config_hash([b"ab", b"c"]) == f"sha256:{expected}"
    assert len({config_hash(files) for files in ([b"ab", b"c"], [b"a", b"bc"], [b"c", b"ab"], [b"abc"])}) == 4


def test_the_hash_of_files_is_that_of_the_config(tmp_path: Path) -> None:
    """Of a file, and of a folder: the same files in the same order; what is no config is left out."""
    for name, text in (("b.yaml", "{}"), ("a.json", "[]"), ("10.yml", "x"), ("notes.txt", "no")):
        (tmp_path / name).write_text(text)
    assert (
        hash_of_files(str(tmp_path)) == config_hash([b"x", b"[]", b"{}"]) == read_config(str(tmp_path)).hash
    )
    assert hash_of_files(str(tmp_path / "a.json")) == config_hash([b"[]"])


@pytest.mark.parametrize("path", ["", "missing", "nul\0byte", "folder"])
def test_what_cannot_be_read_has_no_hash(tmp_path: Path, path: str) -> None:
    (tmp_path / "folder").mkdir()
    assert hash_of_files(f"{tmp_path}/{path}" if path else "") == ""


@pytest.mark.skipif(sys.platform == "win32", reason="needs named pipes")
def test_a_pipe_is_left_to_those_who_need_its_content(tmp_path: Path) -> None:
    """It can be read only once."""
    os.mkfifo(tmp_path / "pipe.json")
    assert hash_of_files(str(tmp_path / "pipe.json")) == ""
