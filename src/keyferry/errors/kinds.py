"""The kinds of errors, and the base class of all errors, each of which has one kind."""

__all__ = ["KeyferryError", "Kind", "TextError", "WordEnum"]

TYPE_CHECKING = False  # spelled out: a plugin run must not pay for typing
if TYPE_CHECKING:
    from collections.abc import Iterator
    from enum import StrEnum as WordEnum
else:

    class _WordEnumType(type):
        """A metaclass that turns every upper-case name of a class into a member."""

        def __new__(cls, name: str, bases: tuple[type, ...], body: dict[str, object]) -> "_WordEnumType":
            words = {key: value for key, value in body.items() if key.isupper()}
            made = super().__new__(cls, name, bases, {k: v for k, v in body.items() if k not in words})
            members = {}
            for key, value in words.items():
                member = members[value] = str.__new__(made, value)
                member.__dict__.update(name=key, value=value)
                type.__setattr__(made, key, member)
            type.__setattr__(made, "_members", members)
            return made

        def __call__(cls, value: str) -> "WordEnum":
            try:
                return cls._members[value]
            except KeyError:
                raise ValueError(f"{value!r} is not a valid {cls.__name__}") from None

        def __iter__(cls) -> "Iterator[WordEnum]":
            return iter(cls._members.values())

        def __len__(cls) -> int:
            return len(cls._members)

        def __setattr__(cls, name: str, value: object) -> None:
            raise AttributeError(f"{cls.__name__} is closed: cannot set {name!r}")

        def __delattr__(cls, name: str) -> None:
            raise AttributeError(f"{cls.__name__} is closed: cannot delete {name!r}")

    class WordEnum(str, metaclass=_WordEnumType):  # noqa: SLOT000 - a member has a name
        """A substitute for ``enum.StrEnum`` that does not import ``enum``, which would slow down a plugin's start."""

        def __repr__(self) -> str:
            return f"<{type(self).__name__}.{self.name}: {self.value!r}>"

        def __reduce__(self) -> tuple[object, ...]:
            return type(self), (self.value,)

        def __setattr__(self, name: str, value: object) -> None:
            raise AttributeError(f"{type(self).__name__}.{self.name} is frozen: cannot set {name!r}")


class Kind(WordEnum):
    """The kind of an error; documents contain these words, and the command line has an exit code for each.

    ``NOT_FOUND``, ``CONTENT`` and ``ERROR`` apply to several things: a program or an image, a record or the content
    that a registry sent.
    """

    # any subject
    ERROR = "error"
    NOT_FOUND = "not-found"
    TIMEOUT = "timeout"
    CONTENT = "content"
    # a registry, a server, a container runtime
    REFUSED = "refused"
    THROTTLED = "throttled"
    UNREACHABLE = "unreachable"
    UNSAFE = "unsafe"  # it requested an action that is not safe
    ABSENT = "absent"  # an image that is not on the node and must not be pulled
    # a plugin
    START = "start"
    EXIT = "exit"
    OUTPUT = "output"
    PROTOCOL = "protocol"
    # a pull record
    SYNTAX = "syntax"
    TYPE = "type"
    TRUST = "trust"
    FOREIGN = "foreign"
    MISPLACED = "misplaced"
    LOCKED = "locked"
    SYSTEM = "system"
    # a document; these are the words of the recorded answers
    JSON_SYNTAX = "json-syntax"
    YAML_SYNTAX = "yaml-syntax"
    WRONG_TYPE = "wrong-type"
    STRICT = "strict"
    DURATION = "duration"
    BASE64 = "base64"
    URL = "url"
    GROUP_VERSION = "group-version"
    MISSING_KIND = "missing-kind"
    MISSING_API_VERSION = "missing-apiversion"
    UNKNOWN_TYPE = "unknown-type"
    OTHER = "other"
    # an argument, or the state of this machine
    NAME = "name"
    PATTERN = "pattern"
    TIME = "time"
    CONFIG = "config"
    POLICY = "policy"
    ENVIRONMENT = "environment"
    PULL_SECRET = "pull-secret"  # noqa: S105 - a word
    SERVICE_ACCOUNT = "service-account"


class KeyferryError(Exception):
    """The base class of all exceptions that keyferry raises."""

    kind: Kind = Kind.ERROR
    kubernetes_text: str = ""

    def __repr__(self) -> str:
        # Without ``args``, which Python's repr shows: they hold kubernetes_text, which may quote a secret.
        return f"{type(self).__name__}({str(self)!r})"


class TextError(KeyferryError):
    """An error with one message, and Kubernetes' message for it."""

    def __init__(self, message: str, kubernetes_text: str = "") -> None:
        super().__init__(message, kubernetes_text)
        self.message = message
        self.kubernetes_text = kubernetes_text or message

    def __str__(self) -> str:
        return self.message
