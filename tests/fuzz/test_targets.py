"""No bytes make a reader do anything but read or refuse them; ``make fuzz`` looks for such bytes for longer."""

from __future__ import annotations

import contextlib
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fuzz.targets import CORPUS, SECRET, TARGETS, check, corpus

# What decides how something is read, in one format or another.
WORDS = [
    *(b'"', b"\\", b"{", b"}", b"[", b"]", b":", b",", b"\n", b"\r\n", b"\t", b" ", b"-", b"'", b"#", b"&a ", b"*a"),
    *(b"/", b"@", b"%", b"%25", b"..", b"=", b"|", b"<", b"0", b"-1", b"1e999", b"99999999999999999999", b"null"),
    *(b"true", b"\x00", b"\xff", b"\xc2\x85", b"\xed\xa0\x80", b"\xf0\x9f\x98\x80", b"\\u0000", b"\\ud800", b"---\n"),
    SECRET.encode(),
]  # fmt: skip
PIECES = st.sampled_from(WORDS) | st.binary(max_size=4)


@st.composite
def variations(draw: st.DrawFn, name: str) -> bytes:
    """A file of the corpus with pieces put in, left out, overwritten and repeated."""
    data = draw(st.sampled_from(corpus(name))).read_bytes()
    for _ in range(draw(st.integers(1, 4))):
        begin = draw(st.integers(0, len(data)))
        end = min(begin + draw(st.integers(0, 12)), len(data))
        piece = draw(PIECES | st.just(data[begin:end] * 2))
        data = data[:begin] + piece + data[end:]
    return data


@pytest.mark.parametrize("name", TARGETS)
def test_every_file_of_the_corpus_is_read_or_refused(name: str) -> None:
    """And one is read: variations of what is refused at once would reach nothing."""
    is_read = False
    for path in corpus(name):
        check(name, path.read_bytes())
        with contextlib.suppress(*TARGETS[name].refusals):
            TARGETS[name].read(path.read_bytes())
            is_read = True
    assert is_read


@pytest.mark.parametrize("name", TARGETS)
def test_every_variation_is_read_or_refused(name: str) -> None:
    @settings(max_examples=50, derandomize=True, database=None, deadline=None)
    @given(variations(name))
    def run(data: bytes) -> None:
        check(name, data)

    run()


def test_every_corpus_belongs_to_a_target() -> None:
    assert {path.name for path in CORPUS.iterdir()} == set(TARGETS)


def test_the_page_has_a_line_for_each_target() -> None:
    """And none for a target that is no more."""
    page = (CORPUS.parents[2] / "docs" / "figures.md").read_text("utf-8")
    table = page.partition("written by `make fuzz`")[2].partition("end of what `make fuzz`")[0]
    assert re.findall(r"^\| `(\w+)`", table, re.MULTILINE) == sorted(TARGETS)
