"""Keep secrets and control characters out of text that people read."""

from __future__ import annotations

import re
from collections.abc import Iterable

MASK = "********"
_EMPTY = "(empty)"

# A flag or a field whose name ends in one of these has a secret as its value.
MASKED_NAMES = r"(?:pass|passwd|password|passphrase|pwd|auth|secret|token|key|credentials?)"
_FLAG = rf"(?i)--?(?:u|user|p|[\w-]*{MASKED_NAMES})"
_MIN_KNOWN = 4
_TAIL_LINES, _TAIL_WIDTH = 5, 400
# Characters that move the cursor, break a line, change the direction of text, or are half of a pair.
_CONTROL = r"[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"


def redact(text: str, known: tuple[str, ...] = ()) -> str:
    """Mask the *known* secrets, and everything else that looks like a secret."""
    from keyferry._core.masking import mask_shapes

    for secret in sorted(known, key=len, reverse=True):
        if len(secret) >= _MIN_KNOWN:
            text = text.replace(secret, MASK)
    return mask_shapes(text, MASK)


def masked(secret: str) -> str:
    """Return a mask for people in place of a secret, or that there is nothing under it."""
    return MASK if secret else _EMPTY


def secret_values(settings: Iterable[tuple[str, str]]) -> tuple[str, ...]:
    """Return the values of *settings* that may be secrets: all but words, numbers, paths and the like.

    If a region or a log level were masked wherever it occurs, messages would lose their diagnosis.
    """
    from keyferry._core.masking import is_ordinary_setting

    return tuple(value for name, value in settings if not is_ordinary_setting(name, value))


def mask_arguments(arguments: Iterable[str]) -> tuple[str, ...]:
    """Return the arguments of a program with secrets masked, such as the value of ``--token``."""
    shown: list[str] = []
    is_value = False
    for argument in arguments:
        flag, equals, _ = argument.partition("=")
        is_flag = re.fullmatch(_FLAG, flag) is not None
        if is_value and not argument.startswith("--"):
            shown.append(MASK)
        else:
            shown.append(f"{flag}={MASK}" if is_flag and equals else redact(argument))
        is_value = is_flag and not equals
    return tuple(shown)


def secret_arguments(arguments: Iterable[str]) -> tuple[str, ...]:
    """Return the secrets that ``mask_arguments`` masks as the value of a flag."""
    words = tuple(arguments)
    pairs = zip(words, mask_arguments(words), strict=True)
    return tuple(
        word.partition("=")[2] if shown.endswith(f"={MASK}") else word
        for word, shown in pairs
        if shown.endswith(MASK) and word != shown
    )


def printable(text: str, keep: str = "") -> str:
    """Return *text* with U+FFFD in place of characters that move the cursor or reorder text on a terminal.

    Line breaks are such characters as well. Those in *keep* are not replaced.
    """
    return re.sub(_CONTROL, lambda found: found[0] if found[0] in keep else "\ufffd", text)


def escape_controls(text: str) -> str:
    """Return JSON *text* with the same characters escaped; line breaks between its parts stay."""
    return re.sub(_CONTROL, lambda found: found[0] if found[0] == "\n" else f"\\u{ord(found[0]):04x}", text)


def in_one_line(tail: str) -> str:
    """Return the lines of a `stderr_tail` as part of a sentence."""
    return tail.replace("\n", " | ")


def stderr_tail(stderr: bytes, known: tuple[str, ...] = ()) -> str:
    """Return the last lines of a plugin's standard error, redacted, bounded and safe to print.

    There is a line break between two lines, and none after the last.
    """
    # The whole text is redacted first: part of a secret may not be recognised as one.
    text = redact(stderr.decode("utf-8", "replace"), known)
    kept = [printable(line.strip()) for line in text.splitlines() if line.strip()][-_TAIL_LINES:]
    return "\n".join(line if len(line) <= _TAIL_WIDTH else line[:_TAIL_WIDTH] + "..." for line in kept)
