"""Read texts from STS' small XML responses without a parser, which costs start-up time and expands entities."""

from __future__ import annotations

from keyferry.sdk import ProvideError

__all__ = ["element", "text_in"]

_ENTITIES = {"lt": "<", "gt": ">", "amp": "&", "quot": '"', "apos": "'"}
_LAST_CHARACTER = 0x10FFFF
_SURROGATES = range(0xD800, 0xE000)


def element(document: bytes, name: str, where: str) -> str:
    """Return the content of the first element *name*, or an empty string.

    Raise ProvideError if the document has declarations, CDATA sections or comments, which AWS never sends.
    """
    text = document.decode("utf-8", "replace")
    if "<!" in text:
        raise ProvideError(f"{where} answered with XML that contains a declaration, which is not accepted")
    return _inside(text, name)


def text_in(inside: str, name: str) -> str:
    """Return the text of the first element *name* in the result of ``element``, or an empty string."""
    found = _inside(inside, name)
    return "" if "<" in found else _unescape(found).strip()


def _inside(text: str, name: str) -> str:
    at, start, end = text.find(f"<{name}"), -1, -1
    while at >= 0:
        after = text[at + len(name) + 1 : at + len(name) + 2]
        # Looked for again only behind their last place: otherwise many beginnings without an end take long.
        start = text.find(">", at) if start < at else start
        end = text.find(f"</{name}>", at) if end < at else end
        if start < 0 or end < 0:
            return ""
        # "<ErrorResponse" also begins with "<Error".
        if after in {">", " ", "\t", "\r", "\n"} and start < end:
            return text[start + 1 : end]
        at = text.find(f"<{name}", at + 1)
    return ""


def _unescape(text: str) -> str:
    first, *rest = text.split("&")
    pieces = [first]
    for part in rest:
        entity, semicolon, after = part.partition(";")
        character = _character(entity) if semicolon else ""
        pieces.append(character + after if character else f"&{part}")
    return "".join(pieces)


def _character(entity: str) -> str:
    if not entity.startswith("#"):
        return _ENTITIES.get(entity, "")
    digits, radix = (entity[2:], 16) if entity[1:2] in {"x", "X"} else (entity[1:], 10)
    try:
        code = int(digits, radix)
    except ValueError:
        return ""
    return chr(code) if 0 < code <= _LAST_CHARACTER and code not in _SURROGATES else ""
