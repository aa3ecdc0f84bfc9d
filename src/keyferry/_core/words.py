"""Distinguish words from random text: parts of a diagnosis from what may be a key."""

from __future__ import annotations

import re

# Words that state a fault or an absence, and that nobody would use as a password.
_DIAGNOSES = """
    absent bad blank cannot closed could couldn't deadline default denied deny did didn't disabled does doesn't empty
    enabled eof error errors exceeded executable expected expire expired expires fail failed failing failure false
    forbidden found hidden ignored illegal inactive inappropriate incorrect interrupted
    invalid is isn't lacks lost malformed masked may mismatch
    missing must needed needs neither never nil no none not nothing null obsolete omitted optional outdated permission
    redacted refused rejected removed required requires revoked rotated should stale syntax throttled timed timeout true
    unable unauthenticated unauthorised unauthorized unavailable undefined unexpected unknown unreachable unrecognised
    unrecognized unset unspecified unsupported untrusted unused was will wrong yes
"""
# Words at the start of such a sentence.
_OPENERS = """
    a access an and any are at call can check config configured connection context decoding due each either env
    environment exchange exec exit fetching field file flag for from get getting given has header helper host http https
    if in input internal it its key length line load lookup make more on only open or parse parsing please plugin post
    profile provided provider put read reading received refresh refreshing region request response retrieve retry return
    returned same see server set signature since size some source status stdin such that the there this to too try type
    until url use used user using value variable verification verify via when which with without you your
"""
# Authentication methods, which follow "auth" and "Bearer" where there is no secret.
_METHODS = """
    auth authenticate authentication authorization challenge challenges credential credentials header login oauth realm
    scheme token tokens
"""
DIAGNOSES, OPENERS, METHODS = (frozenset(words.split()) for words in (_DIAGNOSES, _OPENERS, _METHODS))

DOTS = ".,:;!?()[]`"
_PARTS = r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+"
UUID = r"(?<![0-9A-Fa-f])[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}(?![0-9A-Fa-f])"
# Parts of a path. The issuers of EKS and the store of Nix have such identifiers.
_DIGEST = r"(?:sha(?:1|224|256|384|512)|md5)[/:_-]{1,2}[0-9A-Fa-f]{32,128}|/id/[0-9A-Z]{32}\b|nix/store/[0-9a-z]{32}-"
_MIN_ODD = 20
_LETTERS_A_PART, _SCRAP = 3, 2
_NO_WORD = r"[A-Z]?[b-df-hj-np-tv-xz]{5,}"
_MAX_WORD, _MIN_VOWELS, _MAX_VOWELS = 24, 0.2, 0.6
_MAX_NUMBERED = 18
# For the hash in the name of a pod, or the number of a build.
_MAX_HASH = 10
_SHORT = 4


def split_name(name: str) -> list[str]:
    """Return the words of a name in lower case; those of ``clientSecret`` and ``CLIENT_SECRET`` are equal."""
    return [part.lower() for part in re.findall(_PARTS, name)]


def has_diagnosis(words: list[str]) -> bool:
    """Return whether one of *words* states a fault or an absence."""
    return any(word.strip(DOTS + "\"'\\").lower() in DIAGNOSES for word in words)


def is_path(text: str) -> bool:
    """Return whether *text* is the path of a file, without random parts."""
    bare = text.strip(DOTS.replace(".", "") + "\"'")
    is_rooted = bare.startswith("/") and bare.count("/") > 1
    is_local = bare.startswith(("~/", "./", "../")) or bare[1:3] == ":\\"
    return (is_rooted or is_local) and not is_random(bare)


def is_wordlike(text: str) -> bool:
    """Return whether *text* is a word or a name made of words: ``AccessDenied``, ``sts.eu-west-1.amazonaws.com``."""
    pieces = [piece for piece in re.split(r"[._/:@-]+", text) if piece]
    if not pieces:
        return False
    # A single word with digits at its end may be a password; in a longer name the digits are a number.
    numbered = r"[a-z]*\d{1,3}|" if len(pieces) > 1 else ""
    return all(re.fullmatch(rf"{numbered}[A-Za-z]+", piece) and _is_plain(piece) for piece in pieces)


def is_random(text: str) -> bool:
    """Return whether *text* has so much that is neither a word nor a number that it must be an encoded key."""
    rest = re.sub(UUID, "", re.sub(_DIGEST, "", text))
    if re.search("[a-z]", rest) and re.search("[A-Z]", rest) and re.search("[0-9]", rest):
        letters = sum(map(str.isalnum, rest))
        if letters >= _MIN_ODD and letters < _LETTERS_A_PART * len(re.findall(_PARTS, rest)):
            return True
    return sum(len(piece) for piece in re.split(r"[^A-Za-z0-9+]+", rest) if not _is_plain(piece)) >= _MIN_ODD


def _is_plain(piece: str) -> bool:
    """Return whether letters and digits are a word, a number, or a word with a number."""
    if len(piece) <= _SHORT or piece.isdigit():
        return True
    if re.fullmatch(r"[a-z]+\d{1,4}[a-z]*\d{0,3}|[A-Z]?[a-z]+\d{1,4}", piece):
        return len(piece) <= _MAX_NUMBERED
    if not piece.isalpha() and len(piece) <= _MAX_HASH and (piece.islower() or piece.isupper()):
        return True
    return (piece.isalpha() or not piece.islower()) and _is_camel_case(piece)


def _is_camel_case(piece: str) -> bool:
    """Return whether *piece* consists of words: the parts of random text are short or have no vowels."""
    parts = re.findall(_PARTS, piece)
    is_long = len(piece) > _MAX_WORD
    scraps = sum(len(part) <= _SCRAP for part in parts)
    if len(piece) < (_LETTERS_A_PART + is_long) * len(parts) or 2 * scraps >= len(parts) + (len(parts) == 1):
        return False
    if any(re.fullmatch(_NO_WORD, part) for part in parts):
        return False
    vowels = sum(char in "aeiouyAEIOUY" for char in piece) / len(piece)
    return not is_long or _MIN_VOWELS <= vowels <= _MAX_VOWELS
