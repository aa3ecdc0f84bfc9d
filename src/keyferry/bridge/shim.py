"""The shim that a kubelet executes as a plugin: it asks the node agent, or becomes the plugin behind it.

``native/shim.c`` is the same program in C, for nodes without Python; one test suite covers both. ``docs/bridges.md``
describes the files beside it. It never forks.
"""

from __future__ import annotations

import os
import re
import signal
import sys
from collections.abc import Mapping

from keyferry._net.agent import AGENT_VARIABLE, API_VERSION, AUTO, ROOT, Fallback, ask_agent, find_socket
from keyferry.invoke.shim import BEHIND, IN_FRONT, LINK, read_shim_mark

_MAX_INPUT_BYTES = 1 << 20
_CHUNK = 65536
_MEMORY_FILE = "keyferry-shim-"
# The command that pip installs: its file has no mark of a shim, and is never a plugin's.
_OWN_NAME = "keyferry-shim"
_MAX_ROUNDS = 3
_MAX_DEPTH = 64
_FAILED = 1
_KIND = b'"CredentialProviderRequest"'
_PROTOCOL = f'"{API_VERSION}"'.encode()
_PASSED_ON = (b"image", b"serviceAccountToken", b"serviceAccountAnnotations")
_ANSWER_FIELDS = (b"apiVersion", b"outcome", b"response", b"exitCode", b"stderr", b"message")
_ESCAPES = {b"n": b"\n", b"t": b"\t", b"r": b"\r", b"b": b"\b", b"f": b"\f"}
# Escapes by number are undone together, since two may be the halves of one character.
_ESCAPED = re.compile(rb"(?:\\u[0-9a-fA-F]{4})+|\\(.)", re.DOTALL)
# The parts of a JSON object; what stands between the brackets of a value is its reader's business.
_BLANKS = rb"[ \t\r\n]*"
_STRING = rb'"[^"\\\x00-\x1f]*(?:\\.[^"\\\x00-\x1f]*)*"'
_BEGIN = re.compile(rb'%s{%s(?=["}])' % (_BLANKS, _BLANKS))
_MEMBER = re.compile(
    rb"(%s)%s:%s(%s|[-+.0-9A-Za-z]+|(?=[{[]))" % (_STRING, _BLANKS, _BLANKS, _STRING), re.DOTALL
)
_NEXT = re.compile(rb'%s(?:,%s(?=")|(?=}))' % (_BLANKS, _BLANKS))
_END = re.compile(rb"}%s\Z" % _BLANKS)
_MARK = re.compile(rb'%s|[][{}"]' % _STRING, re.DOTALL)
_CLOSING = {b"{": b"}", b"[": b"]"}


def main() -> None:
    """Answer the kubelet's request, or become the plugin behind this shim."""
    sys.exit(_run(sys.argv[0]))


def _run(path: str) -> int:
    if os.isatty(0):
        return _fall_back(path, None)
    data = _read_input(_MAX_INPUT_BYTES + 1)
    is_whole = len(data) <= _MAX_INPUT_BYTES
    request = read_members(data, b"apiVersion", b"kind", *_PASSED_ON) if is_whole else None
    answer = None if request is None else _ask(path, request)
    if request is None or answer is None:
        return _fall_back(path, data)
    if answer[b"outcome"] == b'"answered"':
        return _print(answer[b"response"] + b"\n")
    if answer[b"outcome"] == b'"failed"':
        return _print_failure(answer)
    # The agent has no match; in front of a plugin, its config may be older than the kubelet's.
    if os.path.lexists(path + IN_FRONT):
        return _fall_back(path, data)
    return _print(
        b'{"kind":"CredentialProviderResponse","apiVersion":%s,"cacheKeyType":"Image","cacheDuration":"0s","auth":{}}\n'
        % request[b"apiVersion"]
    )


def _read_input(max_bytes: int) -> bytes:
    """Return the next bytes of standard input; none at its end, and if it is closed or cannot be read."""
    try:
        return b"" if sys.stdin is None else sys.stdin.buffer.read(max_bytes) or b""
    except OSError:
        return b""


def _ask(path: str, request: Mapping[bytes, bytes]) -> dict[bytes, bytes] | None:
    """Return the members of the agent's answer; None if there is none that can be used."""
    name = os.path.basename(path)
    if (
        request.get(b"kind") != _KIND
        or not all(request.get(field, b"").startswith(b'"') for field in (b"apiVersion", b"image"))
        or not all(" " <= char <= "~" and char not in '"\\' for char in name)
    ):
        return None
    # The kubelet's own text is passed on as it is.
    start = f'{{"apiVersion":"{API_VERSION}","kind":"LookupRequest","provider":"{name}"'.encode()
    passed_on = (b',"%s":%s' % (field, request[field]) for field in _PASSED_ON if field in request)
    place, owner = _find_socket(path)
    reply = ask_agent(place, "/v1/lookup", b"".join((start, *passed_on, b"}")), owner=owner)
    if isinstance(reply, Fallback):
        return None
    return read_answer(reply.status, reply.body, request[b"apiVersion"])


def _find_socket(path: str) -> tuple[str, int]:
    """Return the agent's socket, and whom the installer trusts with it besides root: the owner of the link."""
    # What the environment says goes before the link.
    if os.environ.get(AGENT_VARIABLE, "") in ("", AUTO):
        try:
            linked, owner = os.readlink(path + LINK), os.lstat(path + LINK).st_uid
        except OSError:
            pass
        else:
            return find_socket({**os.environ, AGENT_VARIABLE: linked}), owner
    return find_socket(os.environ), ROOT


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


def read_members(text: bytes, *names: bytes) -> dict[bytes, bytes] | None:
    """Return the values of the members *names* of the one object in *text*, each as it is written.

    Return None if *text* is not one object, or has one of them twice.
    """
    found: dict[bytes, bytes] = {}
    before = _BEGIN.match(text)
    while before is not None and (member := _MEMBER.match(text, before.end())) is not None:
        end = member.end() if member[2] else _find_end(text, member.end())
        name = member[1][1:-1]
        if name in found:
            return None
        if name in names:
            found[name] = text[member.start(2) : end]
        before = _NEXT.match(text, end)
    return found if before is not None and _END.match(text, before.end()) else None


def _find_end(text: bytes, at: int) -> int:
    """Return the end of the object or array at *at*; that of the text if its brackets or strings are wrong."""
    closing: list[bytes] = []
    for mark in _MARK.finditer(text, at):
        if mark[0] in _CLOSING and len(closing) < _MAX_DEPTH:
            closing.append(_CLOSING[mark[0]])
        elif closing and mark[0] == closing[-1]:
            closing.pop()
            if not closing:
                return mark.end()
        elif len(mark[0]) == 1:
            break
    return len(text)


def _print(text: bytes, fd: int = 1) -> int:
    try:
        with open(fd, "wb", closefd=False) as stream:
            stream.write(text)
    except OSError:
        return _FAILED
    return 0


def _print_failure(answer: Mapping[bytes, bytes]) -> int:
    said = unquote(answer.get(b"stderr", b""))
    if not said and answer.get(b"message", b"").startswith(b'"'):
        said = unquote(answer[b"message"]) + b"\n"
    _print(said, 2)
    code = answer.get(b"exitCode", b"")
    status = int(code) if code.isdigit() and len(code) <= 3 else _FAILED
    return status if 1 <= status <= 255 else _FAILED


def unquote(string: bytes) -> bytes:
    """Return the text of a JSON string in UTF-8; nothing for any other value."""
    return _ESCAPED.sub(_undo_escape, string[1:-1]) if string.startswith(b'"') else b""


def _undo_escape(found: re.Match[bytes]) -> bytes:
    if found[1] is not None:
        return _ESCAPES.get(found[1], found[1])
    units = bytes.fromhex(found[0].decode().replace("\\u", ""))
    # Half a character is replaced.
    return units.decode("utf-16-be", "replace").encode()


def _fall_back(path: str, data: bytes | None) -> int:
    """Become the plugin behind this shim; return the exit status if that is impossible.

    *data* is what was read of standard input. If the shim has been uninstalled since it was started, the plugin has its
    place again.
    """
    number = _count_rounds() + 1
    if number > _MAX_ROUNDS:
        return _complain(path, "shims execute one another; the plugin behind a shim must not run it again")
    try:
        if data is not None:
            _restore_input(data, number)
    except OSError:
        return _complain(path, "the request cannot be passed to the plugin behind this shim")
    # The interpreter ignores these, and a program that is executed would inherit that.
    for each in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(each, signal.SIG_DFL)
    # Once more, since an installation may go on meanwhile.
    places = BEHIND if os.path.basename(path) == _OWN_NAME else (*BEHIND, "")
    for suffix in (*places, *places):
        if not _is_plugin(path + suffix):
            continue
        try:
            os.execve(path + suffix, sys.argv, _environment())  # noqa: S606 - no shell is wanted
        except FileNotFoundError:
            continue
        except OSError:
            return _complain(path, "the plugin behind this shim cannot be executed")
    return _complain(path, "the agent has no answer, and there is no plugin behind this shim")


def _complain(path: str, reason: str) -> int:
    _print(os.fsencode(f"keyferry-shim: {os.path.basename(path)}: {reason}\n"), 2)
    return _FAILED


def _count_rounds() -> int:
    """Return how many shims in a row executed one another up to this one, by the name of the input's memory file."""
    try:
        target = os.readlink("/proc/self/fd/0")
    except OSError:
        return 0
    _, start, rest = target.partition(f"/memfd:{_MEMORY_FILE}")
    return int(rest[0]) if start and rest[:1].isdigit() else 0


def _is_plugin(path: str) -> bool:
    """Return whether a program is there that is not a shim: not this file under any name, nor a copy of one."""
    if not os.path.isfile(path):
        return False
    try:
        return not read_shim_mark(path)
    except OSError:
        return True  # may be executable without being readable


def _restore_input(data: bytes, number: int) -> None:
    """Put the input that was read, and what is left of it, into a memory file that becomes standard input."""
    fd = os.memfd_create(f"{_MEMORY_FILE}{number}")
    with open(fd, "wb", closefd=False) as file:
        file.write(data)
        while chunk := _read_input(_CHUNK):
            file.write(chunk)
    os.lseek(fd, 0, os.SEEK_SET)
    os.dup2(fd, 0)
    # Where standard input was closed, the file may have its place already.
    os.set_inheritable(0, True)


def _environment() -> Mapping[bytes, bytes]:
    """Return the environment that this program was started with; the interpreter may have added LC_CTYPE."""
    try:
        with open("/proc/self/environ", "rb") as stream:
            entries = stream.read().split(b"\0")
    except OSError:
        return os.environb
    pairs = (entry.partition(b"=") for entry in entries)
    return {name: value for name, equals, value in pairs if equals and name}
