"""Read a ``WWW-Authenticate`` header: authentication schemes and their parameters."""

from __future__ import annotations

from collections.abc import Iterator

_TOKEN = frozenset("!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
_TOKEN68 = _TOKEN | frozenset("/=")
_BLANK = " \t"


class ChallengeError(Exception):
    """The reason why a header is not a usable challenge."""


def read_challenges(header: str, *, is_strict: bool = False) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield the scheme and the parameters of each challenge, with names in lower case; a syntax error ends them.

    A header may hold several challenges. A comma separates both challenges and parameters: the name after it is that
    of a parameter if a ``=`` follows, and otherwise the next scheme. Of a repeated parameter the first value counts,
    and a value without a closing quote is empty; if *is_strict*, both raise ChallengeError.
    """
    return _Reader(header, is_strict=is_strict).read()


class _Reader:
    """A parser of one header."""

    def __init__(self, text: str, *, is_strict: bool) -> None:
        self._text = text
        self._is_strict = is_strict
        self._at = 0

    def read(self) -> Iterator[tuple[str, dict[str, str]]]:
        scheme = self._name()
        while scheme:
            self._skip_token68()
            parameters: dict[str, str] = {}
            while (name := self._name()) and (value := self._parameter()) is not None:
                self._add(parameters, name.lower(), value)
            yield scheme.lower(), parameters
            scheme = name

    def _add(self, parameters: dict[str, str], name: str, value: str) -> None:
        if self._is_strict and name in parameters:
            raise ChallengeError(f"it gives {name[:40]!r} twice")
        # The first value counts, so that a repeated realm cannot change the token server.
        parameters.setdefault(name, value)

    def _name(self) -> str:
        self._skip(_BLANK + ",")
        return self._take(_TOKEN)

    def _parameter(self) -> str | None:
        """Return the value after a name, or None if no ``=`` follows, so that the name is not that of a parameter."""
        begin = self._at
        self._skip(_BLANK)
        if self._peek() != "=":
            self._at = begin
            return None
        self._at += 1
        self._skip(_BLANK)
        # By the grammar an unquoted value is a token, but some registries send URLs without quotes.
        if self._peek() != '"':
            return self._take_until(_BLANK + (',"' if self._is_strict else ","))
        return self._quoted()

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
        if self._is_strict:
            raise ChallengeError("a quote in it is not closed")
        return ""  # the value may be incomplete

    def _skip_token68(self) -> None:
        """Skip a scheme's single value, as in ``Negotiate YII=``, but not its parameters."""
        begin = self._at
        self._skip(_BLANK)
        self._take(_TOKEN68)
        self._skip(_BLANK)
        if self._peek() not in ("", ","):
            self._at = begin
        elif "=" in self._text[begin : self._at].rstrip(_BLANK + "="):
            self._at = begin  # a parameter, name=value

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
