"""A closed set of words that behaves as ``enum.StrEnum`` does."""

from __future__ import annotations

import copy
import enum
import json
import pickle
from enum import IntEnum, StrEnum

import pytest

from keyferry.errors import Kind, KubeletReason


class Model(enum.StrEnum):
    """What Kind is to a type checker."""

    REFUSED = "refused"
    NOT_FOUND = "not-found"


def test_a_member_behaves_as_one_of_the_standard_library() -> None:
    for ours, theirs in ((Kind.REFUSED, Model.REFUSED), (Kind.NOT_FOUND, Model.NOT_FOUND)):
        assert (ours.name, ours.value) == (theirs.name, theirs.value)
        assert (str(ours), f"{ours}", f"{ours:>12}") == (str(theirs), f"{theirs}", f"{theirs:>12}")
        assert repr(ours) == repr(theirs).replace("Model", "Kind")
        assert type(str(ours)) is str
        assert ours == theirs.value
        assert hash(ours) == hash(theirs.value)
        assert json.dumps({"kind": ours}) == json.dumps({"kind": theirs})


def test_a_kind_is_found_by_its_word_and_there_is_one_of_each() -> None:
    assert Kind("refused") is Kind.REFUSED
    assert all(Kind(each) is each for each in Kind)
    assert len({str(each) for each in Kind}) == len(Kind) == len(list(Kind))


def test_a_word_that_is_none_is_a_value_error() -> None:
    with pytest.raises(ValueError, match="'nonsense' is not a valid Kind"):
        Kind("nonsense")


@pytest.mark.parametrize("kind", [Kind.REFUSED, KubeletReason.ERR_IMAGE_PULL])
def test_copies_are_the_same_member(kind: Kind | KubeletReason) -> None:
    assert pickle.loads(pickle.dumps(kind)) is kind  # our own bytes
    assert copy.copy(kind) is kind
    assert copy.deepcopy(kind) is kind


def test_the_set_is_closed() -> None:
    with pytest.raises(AttributeError):
        setattr(Kind, "REFUSED", "x")  # noqa: B010 - a type checker refuses the plain way
    with pytest.raises(AttributeError):
        delattr(Kind, "REFUSED")
    with pytest.raises(AttributeError):
        setattr(Kind.REFUSED, "value", "x")  # noqa: B010 - as above


def test_a_program_sees_a_set_of_words_by_this_class() -> None:
    assert issubclass(Kind, StrEnum)
    assert isinstance(Kind.REFUSED, StrEnum)


class Code(IntEnum):
    """What an exit code is."""

    OK = 0
    NO = 1


class ModelCode(enum.IntEnum):
    """The same by the standard library."""

    OK = 0
    NO = 1


@pytest.mark.parametrize(("ours", "theirs"), [*zip(Code, ModelCode, strict=True)])
def test_a_number_behaves_as_one_of_the_standard_library(ours: Code, theirs: ModelCode) -> None:
    assert (ours.name, ours.value) == (theirs.name, theirs.value)
    assert (str(ours), f"{ours}", f"{ours:>3}", ours + 1) == (
        str(theirs),
        f"{theirs}",
        f"{theirs:>3}",
        theirs + 1,
    )
    assert repr(ours) == repr(theirs).replace("ModelCode", "Code")
    assert ours == theirs.value
    assert bool(ours) is bool(theirs)
    assert json.dumps(ours) == json.dumps(theirs)
    assert Code(theirs.value) is ours
    assert pickle.loads(pickle.dumps(ours)) is ours  # our own bytes
