"""Keep secrets out of what people read.

Regular expressions are loaded when there is something to hide: a plugin that does its job never needs them.
"""

MASK = "********"

# What a plugin may print when it fails: a JSON web token, the rest of an
# Authorization header, user info in a URL, "password=..." and its relatives
# (quoted, as in JSON and in JSON inside a log line, or not), flags such as
# "--password ..." as "set -x" shows them, access key ids of AWS, tokens and keys of Google, long runs of base64.
# A plugin chooses the text, so every repetition that can start at any place is bounded.
# Compiled by re when first used, which most runs of most commands never do.
_SHAPES = (
    (r"\beyJ[\w-]{4,}(?:\.[\w-]*){0,2}", MASK),
    (r"(?i)\b(basic|bearer|negotiate)\s+[\w.~+/=-]{4,}", rf"\1 {MASK}"),
    (r"(://)[^/\s@]+@", rf"\1{MASK}@"),
    (
        r"(?i)((?:passw(?:or)?d|secret|token|tok|credential|api[_-]?key|private[_-]?key|auth)"
        r"[\w-]{0,40}+\\{0,4}[\"']?\s{0,8}+[:=]\s{0,8}+)"
        r"(?:\\{0,4}\"[^\"]*\"?|'[^']*'?|[^\s,;&}]+)",
        rf"\1{MASK}",
    ),
    (
        r"(?i)((?<!\S)--?(?:u|user|p|[\w-]{0,40}(?:passw(?:or)?d|secret|token|key))[ \t]{1,8}+)[^\s-]\S*",
        rf"\1{MASK}",
    ),
    (r"\b(?:AKIA|ASIA|AGPA|AIDA|AROA)[A-Z0-9]{12,}\b", MASK),
    (r"\bya29\.[\w.-]{8,}", MASK),
    (r"\b(?:1//[\w-]{8,}|GOCSPX-[\w-]{8,}|AIza[\w-]{20,})", MASK),
    (r"(?<![\w/.:-])[A-Za-z0-9+/_=-]{40,}", MASK),
)
_SHORTEST_KNOWN = 4
# What moves a cursor, breaks a line, turns text around, or is half a character.
_CONTROL = r"[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"


def redact(text: str, known: tuple[str, ...] = ()) -> str:
    """Mask what is *known* to be secret, and whatever looks like a secret."""
    import re

    for secret in sorted(known, key=len, reverse=True):
        if len(secret) >= _SHORTEST_KNOWN:
            text = text.replace(secret, MASK)
    for shape, replacement in _SHAPES:
        text = re.sub(shape, replacement, text)
    return text


def printable(text: str, keep: str = "") -> str:
    """*text* on one line, without characters that would move a cursor or reorder text on a terminal.

    Each is replaced by a mark, but for those to *keep*, such as line breaks that are our own.
    """
    if text.isprintable():
        return text
    import re

    return re.sub(_CONTROL, lambda found: found[0] if found[0] in keep else "\ufffd", text)


def escape_controls(text: str) -> str:
    """JSON with the same characters escaped, line breaks between its parts left as they are."""
    if printable(text, "\n") == text:
        return text
    import re

    return re.sub(_CONTROL, lambda found: found[0] if found[0] == "\n" else f"\\u{ord(found[0]):04x}", text)


def stderr_tail(stderr: bytes, known: tuple[str, ...] = (), *, lines: int = 5, width: int = 400) -> str:
    """The last lines of a plugin's standard error, redacted, bounded and safe to print."""
    # Redacted as a whole first: a cut through a secret would leave a piece that looks like none.
    text = redact(stderr.decode("utf-8", "replace"), known)
    kept = [printable(line.strip()) for line in text.splitlines() if line.strip()][-lines:]
    return " | ".join(line if len(line) <= width else line[:width] + "..." for line in kept)
