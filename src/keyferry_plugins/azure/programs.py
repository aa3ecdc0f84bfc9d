"""Log in as the user of az or azd, by requesting a token from these programs."""

from __future__ import annotations

from keyferry.sdk import ProvideError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from keyferry.sdk import Deadline
    from keyferry_plugins.azure.options import Options
    from keyferry_plugins.azure.tokens import Token

__all__ = ["ask_az", "ask_azd"]

_PLAIN = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_:/")
_NAME = _PLAIN | frozenset(" ()'&,+@")


def ask_az(options: Options, deadline: Deadline) -> Token:
    """Return a token from the Azure CLI."""
    argv = ["az", "account", "get-access-token", "-o", "json"]
    argv += ["--resource", _checked(options.resource, "--server-id", _PLAIN)]
    if options.tenant_id:
        argv += ["--tenant", _checked(options.tenant_id, "--tenant-id", _PLAIN)]
    if options.subscription:
        argv += ["--subscription", _checked(options.subscription, "--subscription", _NAME)]
    return _run(argv, "accessToken", deadline, "log in first: az login")


def ask_azd(options: Options, deadline: Deadline) -> Token:
    """Return a token from the Azure Developer CLI."""
    argv = ["azd", "auth", "token", "-o", "json", "--no-prompt"]
    argv += ["--scope", _checked(options.scope, "--server-id", _PLAIN)]
    if options.tenant_id:
        argv += ["--tenant-id", _checked(options.tenant_id, "--tenant-id", _PLAIN)]
    return _run(argv, "token", deadline, "log in first: azd auth login")


def _checked(value: str, flag: str, allowed: frozenset[str]) -> str:
    """Return *value* if it is safe as a program's argument; on Windows az is a batch file."""
    if value.startswith("-") or not allowed.issuperset(value):
        raise ProvideError(
            f"flag {flag}: {value[:80]!r} has characters that are not allowed in a program's arguments"
        )
    return value


def _run(argv: list[str], name: str, deadline: Deadline, hint: str) -> Token:
    from keyferry.sdk.process import run_program

    done = run_program(argv, deadline=deadline)
    if done.status:
        complaint = done.complaint
        raise ProvideError(
            f"{argv[0]} ended with status {done.status}" + (f": {complaint}" if complaint else ""), hint
        )
    return _read(done.stdout, name, argv[0])


def _read(stdout: bytes, name: str, program: str) -> Token:
    from keyferry._core.json import loads
    from keyferry.errors import DocumentError
    from keyferry_plugins.azure.tokens import Token, read_instant, text_of

    document: object = None
    try:
        document = loads(stdout)
    except DocumentError:
        pass
    token = text_of(document, name) if isinstance(document, dict) else ""
    if not isinstance(document, dict) or not token:
        raise ProvideError(f"{program} wrote no JSON object with {name!r}")
    expires_at = read_instant(document.get("expires_on"))
    if expires_at is None:
        expires_at = read_instant(document.get("expiresOn")) or _local(text_of(document, "expiresOn"))
    return Token(token, expires_at)


def _local(text: str) -> float | None:
    """Return a local time such as ``2026-01-31 14:05:09.123456`` in Unix seconds."""
    from time import mktime

    date, _, clock = text.partition(" ")
    parts = [*date.split("-"), *clock.partition(".")[0].split(":")]
    if len(parts) != 6 or not all(part.isascii() and part.isdigit() for part in parts):  # to the second
        return None
    try:
        year, month, day, hour, minute, second = map(int, parts)
        return mktime((year, month, day, hour, minute, second, 0, 0, -1))
    except (OverflowError, ValueError):
        return None
