"""Texts with values in them."""

from __future__ import annotations

import pytest

from keyferry.api.federation.templates import Piece, TemplateError, is_name, parse_template


def test_a_text_is_split_at_its_values() -> None:
    found = parse_template("https://${host}/v1/${+path}/x")
    assert found.pieces == (
        Piece(text="https://", name="host"),
        Piece(text="/v1/", name="path", is_path=True),
        Piece(text="/x"),
    )
    assert found.names == ("host", "path")
    assert found.literals == "https:///v1//x"


@pytest.mark.parametrize("text", ["", "plain", "$", "$x", "{x}", "a}b"])
def test_everything_else_is_text(text: str) -> None:
    assert parse_template(text).pieces == (Piece(text=text),)


@pytest.mark.parametrize(
    "text", ["${", "${}", "${x", "${X}", "${1}", "${a-b}", "${a b}", "${++a}", "${${a}}", "${+}"]
)
def test_an_unfinished_value_is_an_error(text: str) -> None:
    with pytest.raises(TemplateError):
        parse_template(text)


@pytest.mark.parametrize(
    ("text", "is_good"), [("a", True), ("a_1", True), ("é", False), ("a" * 64, False), ("", False)]
)
def test_names_are_short_and_plain(text: str, is_good: bool) -> None:
    assert is_name(text) is is_good
