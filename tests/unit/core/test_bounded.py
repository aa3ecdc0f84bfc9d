"""Files are read whole, up to a limit."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from keyferry._core.bounded import TooLargeError, read_path, read_stream

MIB = 1 << 20


def test_a_file_of_the_largest_size_is_read(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"x" * MIB)
    assert len(read_path(path, MIB)) == MIB


def test_one_byte_more_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"x" * (MIB + 1))
    with pytest.raises(TooLargeError, match="it has more than 1 MiB, the most that is read"):
        read_path(path, MIB)


def test_a_stream_is_read_no_further_than_one_byte_past_the_limit() -> None:
    stream = io.BytesIO(b"x" * (3 * MIB))
    with pytest.raises(TooLargeError):
        read_stream(stream, MIB)
    assert stream.tell() == MIB + 1
