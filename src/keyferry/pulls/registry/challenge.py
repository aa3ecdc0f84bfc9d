"""Read ``WWW-Authenticate``: which proof a registry asks for, and where tokens are to be had. Pure functions."""

from collections.abc import Iterable, Mapping

from keyferry._core.values import Value, field

__all__ = ["Challenge", "choose_challenge", "parse_challenges"]

_TOKEN = frozenset("!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
_TOKEN68 = _TOKEN | frozenset("/=")
_BLANK = " \t"
_MOST_CHALLENGES = 16
_MOST_CHARACTERS = 1 << 14
# The better proof first: with a token the password goes to one place only.
_PREFERENCE = ("bearer", "basic")


class Challenge(Value):
    """One scheme, in lower case, with its parameters, whose names are in lower case."""

    scheme: str
    parameters: Mapping[str, str] = field(default_factory=dict)

    def parameter(self, name: str) -> str:
        """A parameter's value, or nothing."""
        return self.parameters.get(name, "")


def parse_challenges(values: Iterable[str]) -> tuple[Challenge, ...]:
    """All challenges of one or more headers, in order; what cannot be read ends its header.

    A header may hold several, and a comma separates both challenges and parameters: what follows one is a
    parameter if a ``=`` comes after the name, and else the next scheme.
    """
    found: list[Challenge] = []
    for value in values:
        found += _Reader(value[:_MOST_CHARACTERS]).read()
    return tuple(found[:_MOST_CHALLENGES])


def choose_challenge(challenges: Iterable[Challenge]) -> Challenge | None:
    """The first Bearer challenge that names a realm, or else the first Basic one."""
    usable = [one for one in challenges if one.scheme != "bearer" or one.parameter("realm")]
    for scheme in _PREFERENCE:
        for challenge in usable:
            if challenge.scheme == scheme:
                return challenge
    return None


class _Reader:
    """One header, from left to right."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0

    def read(self) -> list[Challenge]:
        found: list[tuple[str, dict[str, str]]] = []
        while True:
            self._skip(_BLANK + ",")
            name = self._take(_TOKEN)
            if not name:
                return [Challenge(scheme.lower(), parameters) for scheme, parameters in found]
            value = self._parameter() if found else None
            if value is None:
                found.append((name, {}))
                self._skip_token68()
            else:
                # The first one counts: a second realm is none that anybody should go to.
                found[-1][1].setdefault(name.lower(), value)

    def _parameter(self) -> str | None:
        """The value after a name, or None if what was read is no parameter's name."""
        begin = self._at
        self._skip(_BLANK)
        if self._peek() != "=":
            self._at = begin
            return None
        self._at += 1
        self._skip(_BLANK)
        # Without quotes a value is a token; URLs are seen there too, and are taken as they are meant.
        return self._quoted() if self._peek() == '"' else self._take_until(_BLANK + ",")

    def _quoted(self) -> str:
        self._at += 1
        value: list[str] = []
        while self._at < len(self._text):
            char = self._text[self._at]
            self._at += 1
            if char == '"':
                return "".join(value)
            if char == "\\" and self._at < len(self._text):
                char = self._text[self._at]
                self._at += 1
            value.append(char)
        return ""  # no end: not a value that anybody should act on

    def _skip_token68(self) -> None:
        """Pass over a scheme's single value, as in ``Negotiate YII=``; parameters are left alone."""
        begin = self._at
        self._skip(_BLANK)
        self._take(_TOKEN68)
        self._skip(_BLANK)
        if self._peek() not in ("", ","):
            self._at = begin
        elif "=" in self._text[begin : self._at].rstrip(_BLANK + "="):
            self._at = begin  # name=value, all of it of token characters

    def _skip(self, characters: str) -> None:
        while self._peek() and self._peek() in characters:
            self._at += 1

    def _take(self, characters: frozenset[str]) -> str:
        begin = self._at
        while self._peek() in characters:
            self._at += 1
        return self._text[begin : self._at]

    def _take_until(self, characters: str) -> str:
        begin = self._at
        while self._peek() and self._peek() not in characters:
            self._at += 1
        return self._text[begin : self._at]

    def _peek(self) -> str:
        return self._text[self._at : self._at + 1]
