"""The place of an error is in our own code, without a value of it."""

import json

from keyferry.agent.log import place_of
from keyferry.agent.lookups import read_question
from keyferry.images.reference import parse_image


def test_the_place_of_an_error_is_the_last_one_in_our_own_code() -> None:
    """Whoever was called from there, and whoever called."""
    try:
        parse_image(5)  # type: ignore[arg-type] # what is to fail
    except Exception as error:  # noqa: BLE001 - any
        name, _, line = place_of(error).partition(":")
        assert name.startswith("images/")
        assert line.isdigit()
    else:
        raise AssertionError


def test_an_error_of_other_code_has_its_file_alone() -> None:
    try:
        json.loads("secret")
    except ValueError as error:
        assert place_of(error).partition(":")[0] == "decoder.py"
    assert place_of(ValueError("never raised")) == ""
    assert read_question(b'{"image": "r.example/app"}').provider == ""
