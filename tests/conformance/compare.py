"""Compare an answer with a recorded one.

Texts that hold details of Go's own decoders are compared up to the first such
detail, with their class; everything else must be equal.
"""

from __future__ import annotations

MARKERS = (
    "json: ",
    "invalid character ",
    "unexpected end of JSON input",
    "yaml: ",
    "asn1: ",
    "x509: ",
    "tls: failed to parse",
    "illegal base64",
    "failed to convert object to",
    "<dump>",
)
DETAIL_CLASSES = ("wrong-type", "json-syntax", "yaml-syntax", "time")
# Details that Kubernetes hides on purpose: only the class need agree.
HIDDEN = ("decode_error_not_surfaced",)

Json = dict[str, object]


def differences(want: Json, got: Json, where: str = "") -> list[str]:
    """What differs, as lines of text."""
    found: list[str] = []
    for key, expected in want.items():
        name = f"{where}{key}"
        if key in HIDDEN or key.endswith("_class"):
            found += _class_difference(name, key, expected, got)
        elif "error" in key and (isinstance(expected, str) or isinstance(got.get(key), str)):
            found += _text_difference(name, expected, got.get(key), want.get(f"{key}_class"))
        elif key == "errors" and isinstance(expected, list):
            found += _texts_difference(name, expected, got.get(key))
        elif isinstance(expected, dict) and isinstance(got.get(key), dict):
            found += differences(expected, got[key], f"{name}.")  # type: ignore[arg-type] # a dict, just checked
        elif isinstance(expected, list) and expected and isinstance(expected[0], dict):
            found += _list_difference(name, expected, got.get(key))
        elif got.get(key) != expected:
            found.append(f"{name}: want {expected!r}, got {got.get(key)!r}")
    return found


def _class_difference(name: str, key: str, expected: object, got: Json) -> list[str]:
    """Classes are compared where the answer knows one; ``other`` says nothing."""
    if key not in got or expected in (None, "other"):
        return []
    if got[key] == expected:
        return []
    return [f"{name}: want {expected!r}, got {got[key]!r}"]


def _text_difference(name: str, expected: object, actual: object, error_class: object) -> list[str]:
    if not isinstance(expected, str) or not isinstance(actual, str):
        return [f"{name}: want {expected!r}, got {actual!r}"]
    if cut(expected, error_class) == cut(actual, error_class)[: len(cut(expected, error_class))]:
        if is_detailed(expected, error_class) or expected == actual:
            return []
    return [f"{name}: want {expected!r}, got {actual!r}"]


def _texts_difference(name: str, expected: list[object], actual: object) -> list[str]:
    if not isinstance(actual, list) or len(actual) != len(expected):
        return [f"{name}: want {expected!r}, got {actual!r}"]
    return [
        line
        for index, (left, right) in enumerate(zip(expected, actual, strict=True))
        for line in _text_difference(f"{name}[{index}]", left, right, None)
    ]


def _list_difference(name: str, expected: list[Json], actual: object) -> list[str]:
    if not isinstance(actual, list) or len(actual) != len(expected):
        return [f"{name}: want {expected!r}, got {actual!r}"]
    return [
        line
        for index, (left, right) in enumerate(zip(expected, actual, strict=True))
        for line in differences(left, right, f"{name}[{index}].")
    ]


def is_detailed(text: str, error_class: object) -> bool:
    """Tell whether a text holds a detail of Go's decoders."""
    return error_class in DETAIL_CLASSES or any(marker in text for marker in MARKERS)


def cut(text: str, error_class: object) -> str:
    """A text up to the first such detail; a class without a marker leaves nothing to compare."""
    places = [text.index(marker) for marker in MARKERS if marker in text]
    if places:
        return text[: min(places)]
    return "" if error_class in DETAIL_CLASSES else text
