"""The shim that a kubelet executes as a plugin: it asks the node agent, or becomes the plugin behind it.

``native/shim.c`` is the same program in C; one test suite covers both. ``docs/bridges.md`` describes the files beside
it. It is started for every pull, so it imports little, and it never forks.
"""

from __future__ import annotations

import posix  # not os, whose import takes a tenth of a shim's time
import sys

from keyferry._net.agent import (
    API_VERSION,
    AUTO,
    RUNTIME_VARIABLE,
    VARIABLE,
    Fallback,
    ask_agent,
    find_socket,
)
from keyferry.bridge.json_spans import read_members
from keyferry.invoke.shim import BEHIND, IN_FRONT, LINK, MARK, MOST_SHIM_BYTES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["main"]

_MOST_INPUT = 1 << 20
_CHUNK = 65536
_MEMORY_FILE = "keyferry-shim-"
# The command that pip installs: its file has no mark of a shim, and is never a plugin's.
_OWN_NAME = "keyferry-shim"
_MOST_ROUNDS = 3
_FAILED = 1
_ROOT = 0
_LAST_STATUS = 255
_KIND = b'"CredentialProviderRequest"'
_PROTOCOL = f'"{API_VERSION}"'.encode()
_REQUEST_FIELDS = (b"apiVersion", b"kind", b"image", b"serviceAccountToken", b"serviceAccountAnnotations")
_PASSED_ON = _REQUEST_FIELDS[2:]
_ANSWER_FIELDS = (b"apiVersion", b"outcome", b"response", b"exitCode", b"stderr", b"message")


def main() -> None:
    """Answer the kubelet's request, or become the plugin behind this shim."""
    # Nothing is buffered, and tidying up takes longer than asking the agent.
    posix._exit(_run(sys.argv[0]))  # noqa: SLF001 - a public function of os


def _run(path: str) -> int:
    if posix.isatty(0):
        return _fall_back(path, None, is_whole=True)
    data, is_whole = _read_input()
    request = read_members(data, *_REQUEST_FIELDS) if is_whole else None
    answer = None if request is None else _ask(path, request)
    return _act(path, data, request or {}, answer, is_whole=is_whole)


def _act(
    path: str, data: bytes, request: dict[bytes, bytes], answer: dict[bytes, bytes] | None, *, is_whole: bool
) -> int:
    outcome = None if answer is None else answer.get(b"outcome")
    if answer is not None and outcome == b'"answered"':
        return _print(answer[b"response"] + b"\n")
    if answer is not None and outcome == b'"failed"':
        return _print_failure(answer)
    if outcome == b'"noMatch"' and not _exists(path + IN_FRONT):
        return _print(
            b'{"kind":"CredentialProviderResponse","apiVersion":%s,"cacheKeyType":"Image","cacheDuration":"0s","auth":{}}\n'
            % request[b"apiVersion"]
        )
    return _fall_back(path, data, is_whole=is_whole)


def _read_input() -> tuple[bytes, bool]:
    """Return the beginning of standard input, and whether that is all of it."""
    chunks: list[bytes] = []
    size = 0
    while size < _MOST_INPUT:
        try:
            chunk = posix.read(0, min(_CHUNK, _MOST_INPUT - size))
        except OSError:
            chunk = b""
        if not chunk:
            return b"".join(chunks), True
        chunks.append(chunk)
        size += len(chunk)
    return b"".join(chunks), False


def _ask(path: str, request: dict[bytes, bytes]) -> dict[bytes, bytes] | None:
    """Return the members of the agent's answer; None if there is none that can be used."""
    name = path.rpartition("/")[2]
    if (
        request.get(b"kind") != _KIND
        or not all(request.get(field, b"").startswith(b'"') for field in (b"apiVersion", b"image"))
        or not all(" " <= char <= "~" and char not in '"\\' for char in name)
    ):
        return None
    passed_on = b"".join(b',"%s":%s' % (field, request[field]) for field in _PASSED_ON if field in request)
    start = f'{{"apiVersion":"{API_VERSION}","kind":"LookupRequest","provider":"{name}"'
    place, owner = _socket_of(path)
    reply = ask_agent(place, "/v1/lookup", start.encode() + passed_on + b"}", owner=owner)
    if isinstance(reply, Fallback):
        return None
    return read_answer(reply.status, reply.body, request[b"apiVersion"])


def _socket_of(path: str) -> tuple[str, int]:
    """Return the agent's socket, and whom the installer trusts with it besides root: the owner of the link."""
    # What the environment says goes before the link.
    given, linked, owner = _variable(VARIABLE), "", _ROOT
    if given in ("", AUTO):
        try:
            linked, owner = posix.readlink(path + LINK), posix.lstat(path + LINK).st_uid
        except OSError:
            pass
        given = linked
    return find_socket({RUNTIME_VARIABLE: _variable(RUNTIME_VARIABLE)}, given), owner


def _variable(name: str) -> str:
    return posix.environ.get(name.encode(), b"").decode(sys.getfilesystemencoding(), "surrogateescape")


def _exists(path: str) -> bool:
    try:
        posix.lstat(path)
    except OSError:
        return False
    return True


def read_answer(status: int, body: bytes, api_version: bytes) -> dict[bytes, bytes] | None:
    """Return the members of an answer of the agent if a shim can use it."""
    answer = read_members(body, *_ANSWER_FIELDS) if status == 200 else None
    if answer is None or answer.get(b"apiVersion", _PROTOCOL) != _PROTOCOL:
        return None
    if answer.get(b"outcome") in (b'"noMatch"', b'"failed"'):
        return answer
    response = read_members(answer.get(b"response", b""), b"apiVersion", b"kind")
    # A version that the kubelet did not ask for would be refused by it.
    is_right = response == {b"apiVersion": api_version, b"kind": b'"CredentialProviderResponse"'}
    return answer if is_right and answer.get(b"outcome") == b'"answered"' else None


def _print(text: bytes, fd: int = 1) -> int:
    view = memoryview(text)
    try:
        while view:
            view = view[posix.write(fd, view) :]
    except OSError:
        return _FAILED
    return 0


def _print_failure(answer: dict[bytes, bytes]) -> int:
    said = unquote(answer.get(b"stderr", b""))
    if not said and answer.get(b"message", b"").startswith(b'"'):
        said = unquote(answer[b"message"]) + b"\n"
    _print(said, 2)
    code = answer.get(b"exitCode", b"")
    status = int(code) if code.isdigit() and len(code) <= 3 else _FAILED
    return status if 1 <= status <= _LAST_STATUS else _FAILED


_ESCAPES = {0x6E: 10, 0x74: 9, 0x72: 13, 0x62: 8, 0x66: 12}


def unquote(string: bytes) -> bytes:
    """Return the text of a JSON string in UTF-8; nothing for any other value."""
    if not string.startswith(b'"'):
        return b""
    text, at, made = string[1:-1], 0, bytearray()
    while at < len(text):
        if text[at] != 0x5C:
            made.append(text[at])
            at += 1
        elif text[at + 1] == 0x75:
            point, at = _point(text, at + 2)
            made += chr(point).encode()
        else:
            made.append(_ESCAPES.get(text[at + 1], text[at + 1]))
            at += 2
    return bytes(made)


def _point(text: bytes, at: int) -> tuple[int, int]:
    """Return the character of the escape whose digits are at *at*, and the place behind it."""
    unit = _unit(text, at)
    if unit is None:
        return 0x75, at  # no escape: a plain "u"
    if not 0xD800 <= unit <= 0xDFFF:
        return unit, at + 4
    other = _unit(text, at + 6) if text[at + 4 : at + 6] == b"\\u" else None
    if unit > 0xDBFF or other is None or not 0xDC00 <= other <= 0xDFFF:
        return 0xFFFD, at + 4
    return 0x10000 + ((unit - 0xD800) << 10) + (other - 0xDC00), at + 10


def _unit(text: bytes, at: int) -> int | None:
    digits = text[at : at + 4]
    is_hex = len(digits) == 4 and not digits.translate(None, b"0123456789abcdefABCDEF")
    return int(digits, 16) if is_hex else None


def _fall_back(path: str, data: bytes | None, *, is_whole: bool) -> int:
    """Become the plugin behind this shim; return the exit status if that is impossible.

    If the shim has been uninstalled since it was started, the plugin has its place again.
    """
    number = _count_rounds() + 1
    if number > _MOST_ROUNDS:
        return _complain(path, "shims execute one another; the plugin behind a shim must not run it again")
    try:
        if data is not None:
            _restore_input(data, number, is_whole=is_whole)
    except OSError:
        return _complain(path, "the request cannot be passed to the plugin behind this shim")
    _restore_signals()
    # Once more, since an installation may go on meanwhile.
    places = BEHIND if path.rpartition("/")[2] == _OWN_NAME else (*BEHIND, "")
    for suffix in (*places, *places):
        if not _is_plugin(path + suffix):
            continue
        try:
            posix.execve(path + suffix, sys.argv, _environment())
        except FileNotFoundError:
            continue
        except OSError:
            return _complain(path, "the plugin behind this shim cannot be executed")
    return _complain(path, "the agent has no answer, and there is no plugin behind this shim")


def _complain(path: str, reason: str) -> int:
    text = f"keyferry-shim: {path.rpartition('/')[2]}: {reason}\n"
    _print(text.encode(sys.getfilesystemencoding(), "surrogateescape"), 2)
    return _FAILED


def _count_rounds() -> int:
    """Return how many shims in a row executed one another up to this one, by the name of the input's memory file."""
    try:
        target = posix.readlink("/proc/self/fd/0")
    except OSError:
        return 0
    _, start, rest = target.partition(f"/memfd:{_MEMORY_FILE}")
    return int(rest[0]) if start and rest[:1].isdigit() else 0


def _is_plugin(path: str) -> bool:
    """Return whether a program is there that is not a shim: not this file under any name, nor a copy of one."""
    try:
        found = posix.stat(path)
    except OSError:
        return False
    if found.st_mode & 0o170000 != 0o100000:
        return False
    if found.st_size > MOST_SHIM_BYTES:
        return True
    try:
        fd = posix.open(path, posix.O_RDONLY | posix.O_CLOEXEC)
    except OSError:
        return True  # may be executable without being readable
    try:
        return MARK not in posix.read(fd, MOST_SHIM_BYTES)
    finally:
        posix.close(fd)


def _restore_input(data: bytes, number: int, *, is_whole: bool) -> None:
    """Put the input that was read, and what is left of it, into a memory file that becomes standard input."""
    fd = posix.memfd_create(f"{_MEMORY_FILE}{number}", posix.MFD_CLOEXEC)
    chunk = data
    while chunk:
        if _print(chunk, fd):
            raise OSError
        chunk = b"" if is_whole else posix.read(0, _CHUNK)
    posix.lseek(fd, 0, 0)
    posix.dup2(fd, 0)
    # Where standard input was closed, the file may have its place already.
    posix.set_inheritable(0, True)


def _restore_signals() -> None:
    """Undo what the interpreter ignores: a program that is executed would inherit it."""
    # Not signal, which imports enum; it has no stub.
    import _signal  # type: ignore[import-not-found]

    for number in (_signal.SIGPIPE, _signal.SIGXFSZ):
        _signal.signal(number, _signal.SIG_DFL)


def _environment() -> Mapping[bytes, bytes]:
    """Return the environment that this program was started with; the interpreter may have added LC_CTYPE."""
    try:
        with open("/proc/self/environ", "rb", buffering=0) as stream:
            entries = stream.read().split(b"\0")
    except OSError:
        return posix.environ
    pairs = (entry.partition(b"=") for entry in entries)
    return {name: value for name, equals, value in pairs if equals and name}
