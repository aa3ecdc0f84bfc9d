"""Parse ``WWW-Authenticate`` headers: the authentication schemes and their parameters. Pure functions."""

from collections.abc import Iterable, Mapping

from keyferry._core.values import Value, field

__all__ = ["Challenge", "choose_challenge", "parse_challenges"]

_TOKEN = frozenset("!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
_TOKEN68 = _TOKEN | frozenset("/=")
_BLANK = " \t"
_MOST_CHALLENGES = 16
_MOST_CHARACTERS = 1 << 14
# Bearer first: with a token, the password is sent to the token server only.
_PREFERENCE = ("bearer", "basic")


class Challenge(Value):
    """An authentication scheme with its parameters; the scheme and the parameters' names are in lower case."""

    scheme: str
    parameters: Mapping[str, str] = field(default_factory=dict)

    def parameter(self, name: str) -> str:
        """Return the value of a parameter, or an empty string."""
        return self.parameters.get(name, "")


def parse_challenges(values: Iterable[str]) -> tuple[Challenge, ...]:
    """Return all challenges of one or more headers, in order; the rest of a header after a syntax error is ignored.

    A header may hold several challenges. A comma separates both challenges and parameters: the name after it is that
    of a parameter if a ``=`` follows, and otherwise the next scheme.
    """
    found: list[Challenge] = []
    for value in values:
        found += _Reader(value[:_MOST_CHARACTERS]).read()
    return tuple(found[:_MOST_CHALLENGES])


def choose_challenge(challenges: Iterable[Challenge]) -> Challenge | None:
    """Return the first Bearer challenge with a realm, else the first Basic challenge, else None."""
    usable = [one for one in challenges if one.scheme != "bearer" or one.parameter("realm")]
    for scheme in _PREFERENCE:
        for challenge in usable:
            if challenge.scheme == scheme:
                return challenge
    return None


class _Reader:
    """A parser of one header."""

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
                # The first value counts, so that a repeated realm cannot change the token server.
                found[-1][1].setdefault(name.lower(), value)

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
        return ""  # no closing quote: the value may be incomplete

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
