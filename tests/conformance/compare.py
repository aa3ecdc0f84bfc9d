"""Compare an answer with a recorded one: every member, every text and every class.

Texts that hold a detail of Go's own decoders are compared up to that detail; all others must be equal. A member
that the answer has and the recording has not is a difference if it says something: null says nothing, and neither
does the class of an error beside its text. A file may call further members optional.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from typing import NamedTuple

Json = dict[str, object]

# What any vector file may ask of an implementation: the text before the first of these, and the class.
CONTRACT = re.compile(
    r"(?=json: |invalid character |invalid escape sequence |unexpected end of JSON input|yaml: |asn1: |x509: "
    r"|tls: failed to parse|illegal base64|failed to convert object to|<dump>)"
)
# What is left uncompared of the project's own files, and why. Everything else in them is compared to the byte.
OWN = re.compile(
    # Names of Go's types and of the struct that a field is in; keyferry names the field's path.
    r"json: cannot unmarshal [a-z]+ into Go struct field "
    # Which part of a key's encoding does not parse: OpenSSL's reader stops elsewhere than Go's.
    r"|tls: failed to parse private key"
    # The character at fault of what a plugin printed: Go quotes it, keyferry quotes nothing of it.
    r"|(?:error reading GVK from response|decoding stdout): .*invalid (?:character|escape sequence) "
)
# A detail that Kubernetes hides on purpose. It is recorded by asking Kubernetes' decoder apart from the flow, also
# where the flow ends before it decodes; keyferry does not decode there, so the class is compared where the flow does.
_HIDDEN, _HIDDEN_CLASS = "decode_error_not_surfaced", "decode_error_not_surfaced_class"
_DECODING = "error decoding credential provider plugin response from stdout"
# Compared where it is recorded: a status in what a client sends, which clients do not send.
_NOT_IN_EVERY_FILE = frozenset({"status_token"})
# In this order; a class is a coarse view of the text, so a file's name that ends in "yaml" counts as well.
_CLASSES = (
    ("strict decoding error", "strict"),
    ("cannot unmarshal", "wrong-type"),
    ("json parse error", "json-syntax"),
    ("yaml: ", "yaml-syntax"),
    ("unexpected GroupVersion string", "group-version"),
    ("Object 'Kind' is missing", "missing-kind"),
    ("Object 'apiVersion' is missing", "missing-apiversion"),
    ("is registered for version", "unknown-type"),
    ("parsing time ", "time"),
    ("time: ", "duration"),
    ('parse "', "url"),
    ("syntax error in pattern", "bad-pattern"),
)


class Rules(NamedTuple):
    """Where a text is cut, and which members a recording may leave out."""

    details: re.Pattern[str] = CONTRACT
    optional: Collection[str] = ()


_ANY_FILE = Rules()


def differences(want: Json, got: Json, rules: Rules = _ANY_FILE, where: str = "") -> list[str]:
    """What differs, as lines of text."""
    found: list[str] = []
    for key in [*want, *(key for key in got if key not in want)]:
        name = f"{where}{key}"
        if key == _HIDDEN:
            continue
        if key not in want:
            if _says_something(key, got[key], rules):
                found.append(f"{name}: want no such member, got {got[key]!r}")
        elif key.endswith("_class"):
            found += _class_difference(name, key, want, got)
        elif key not in got:
            found.append(f"{name}: want {want[key]!r}, got no such member")
        else:
            found += _difference(name, want[key], got[key], rules, is_error="error" in key)
    return found


def _says_something(key: str, value: object, rules: Rules) -> bool:
    """Whether a member that is not recorded is an answer of its own."""
    if value is None or key.endswith("_class"):
        return False
    return key not in rules.optional and key not in _NOT_IN_EVERY_FILE


def _difference(name: str, want: object, got: object, rules: Rules, *, is_error: bool) -> Iterator[str]:
    if isinstance(want, dict) and isinstance(got, dict):
        yield from differences(want, got, rules, f"{name}.")
    elif isinstance(want, list) and isinstance(got, list) and len(want) == len(got):
        for index, (left, right) in enumerate(zip(want, got, strict=True)):
            yield from _difference(f"{name}[{index}]", left, right, rules, is_error=is_error)
    elif is_error and isinstance(want, str) and isinstance(got, str):
        if cut(want, rules.details) != cut(got, rules.details):
            yield f"{name}: want {want!r}, got {got!r}"
    elif want != got or type(want) is not type(got):
        yield f"{name}: want {want!r}, got {got!r}"


def cut(text: str, details: re.Pattern[str]) -> str:
    """A text up to its first detail."""
    match = details.search(text)
    return text if match is None else text[: match.end()]


def _class_difference(name: str, key: str, want: Json, got: Json) -> list[str]:
    """Compare a recorded class with that of our text, and with the one that our error has, if it has one."""
    wanted = want.get(key)
    if key == _HIDDEN_CLASS:
        found = [got[key]] if key in got else []
        if not found and want.get("error") == _DECODING:
            found = [None]
    else:
        text = got.get(key.removesuffix("_class"))
        found = [classify(text) if isinstance(text, str) else None, *([got[key]] if key in got else [])]
    return [f"{name}: want {wanted!r}, got {each!r}" for each in found if each != wanted]


def classify(text: str) -> str:
    """The coarse category of an error's text."""
    return next((name for mark, name in _CLASSES if mark in text), "other")


def optional_members(about: object) -> frozenset[str]:
    """The members that a file's ``about`` calls optional: all words of a sentence that has that word."""
    sentences = re.split(r"(?<=[.;])\s", str(about))
    spoken = (sentence for sentence in sentences if re.search(r"\boptional\b", sentence))
    return frozenset(word for sentence in spoken for word in re.findall(r"\w+", sentence))
