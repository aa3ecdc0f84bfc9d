"""Every word of the pages is in a dictionary of English, or in tools/words.txt."""

import gc
import re
import warnings
from functools import cache

import pytest
from spylls.hunspell import Dictionary  # type: ignore[import-untyped]  # it has no types

from support.pages import ROOT, page_names, prose

WORDS = (ROOT / "tools" / "words.txt").read_text(encoding="utf-8").split()
# A word of prose, without the possessive; names of files, options and addresses are none, nor are abbreviations.
WORD = re.compile(r"(?<![\w/.@-])[A-Za-z][a-z]+(?![\w/@]|\.\w)")
NO_PROSE = re.compile(r"\]\([^)]*\)|<[^>]*>|https?://\S+")


@cache
def dictionary() -> Dictionary:
    """The dictionary of American English that comes with the package; British forms are in the list."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)  # the package leaves its files open
        found = Dictionary.from_files("en_US")
        gc.collect()
    return found


@cache
def is_spelled_right(word: str) -> bool:
    return bool({word, word.lower()}.intersection(WORDS)) or bool(dictionary().lookup(word))


def misspelt(text: str) -> set[str]:
    return {word for word in WORD.findall(NO_PROSE.sub(" ", text)) if not is_spelled_right(word)}


@pytest.mark.parametrize("page", [*page_names(), "CHANGELOG.md"])
def test_every_word_is_spelled_right(page: str) -> None:
    """A word that is right and missing belongs in tools/words.txt."""
    assert misspelt(prose(page)) == set()


def test_a_misspelt_word_is_found() -> None:
    text = "The kubelett's unautorised (credntials) are Expierd; see [speling](a/b.md), not x.pyy and /etc/acmee."
    assert misspelt(text) == {"kubelett", "unautorised", "credntials", "Expierd", "speling"}


def test_the_list_is_sorted_and_has_no_word_of_the_dictionary() -> None:
    assert sorted(set(WORDS)) == WORDS
    assert [word for word in WORDS if dictionary().lookup(word)] == []
