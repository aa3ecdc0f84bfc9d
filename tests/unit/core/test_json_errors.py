"""Where Python's decoder stops, told by what the one of this version says."""

from __future__ import annotations

import json
import sys

import pytest

from keyferry._core.json_errors import Stop, go_syntax_text, stop_of

HAS_COMMA_ERRORS = sys.version_info >= (3, 13)
TEXTS = {
    '"x': Stop.UNTERMINATED,
    '"\\x"': Stop.ESCAPE,
    '"\\u12"': Stop.ESCAPE,
    '"\n"': Stop.CONTROL,
    "[x]": Stop.VALUE,
    "{}x": Stop.AFTER_VALUE,
    '{"a" 1}': Stop.COLON,
    "{x}": Stop.KEY,
    "[1 2]": Stop.BETWEEN,
    '{"a": 1 "b"}': Stop.BETWEEN,
    "[1,]": Stop.ELEMENT_COMMA if HAS_COMMA_ERRORS else Stop.VALUE,
    '{"a": 1,}': Stop.MEMBER_COMMA if HAS_COMMA_ERRORS else Stop.KEY,
}


@pytest.mark.parametrize(("text", "stop"), TEXTS.items())
def test_the_words_of_this_version_are_known(text: str, stop: Stop) -> None:
    with pytest.raises(json.JSONDecodeError) as caught:
        json.loads(text)
    assert stop_of(caught.value.msg) is stop


@pytest.mark.parametrize("text", ["tokens", "folly", "nothing"])
def test_a_literal_is_named_only_if_the_text_may_be_quoted(text: str) -> None:
    """Its name would reveal the first character."""
    with pytest.raises(json.JSONDecodeError) as caught:
        json.loads(text)
    words = go_syntax_text(caught.value.msg, text, caught.value.pos, None)
    assert words == "invalid character looking for beginning of value"
    assert "in literal" in go_syntax_text(caught.value.msg, text, caught.value.pos, text)
