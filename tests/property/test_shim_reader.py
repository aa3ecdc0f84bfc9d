"""What the shims make of any answer: the C one reads no byte beyond its end, and both agree."""

from __future__ import annotations

import json
import random
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from keyferry._net.agent import Fallback, SocketReply, ask_agent, encode_question
from keyferry.bridge.shim import read_answer, unquote
from support.agent_server import answered, http, serving
from support.plugins import API_VERSION
from support.shims import build_reader

SEEDS = [
    http(answered()),
    http({"outcome": "noMatch", "more": [1, {"a": '\\"'}]}),
    http({"outcome": "failed", "exitCode": 3, "stderr": '\u00e9\ud83d\ude00 \\ud800 " \n', "message": "m"}),
    http({"kind": "Status", "reason": "Forbidden"}, 403),
]
PIECES = [
    *(
        b"\r\n", b"\r\n\r\n", b'"', b"\\", b"\\u", b"\\ud83d\\ude00", b"\\udc00", b"{", b"}", b"[", b"]", b",",
        b":",
    ),
    *(
        b"content-length: 5\r\n", b"Content-Length:", b"transfer-encoding: x\r\n", b"HTTP/1.1 200", b"0",
        b"99999999",
    ),
    *(b"\x00", b"\x1f", b"\xff", b"  ", b'"outcome":"failed",', b'"stderr":"x",', b"null"),
]  # fmt: skip
COUNT = 4000
QUESTION = encode_question("LookupRequest", {"image": "registry.example/app"})


def mangle(source: random.Random) -> bytes:
    """Return an answer with a few changes; often with a size that is right again."""
    data = bytearray(source.choice(SEEDS))
    for _ in range(source.randrange(5)):
        at = source.randrange(len(data) + 1)
        data[at : at + source.choice((0, 0, 1, 3, 40))] = source.choice(PIECES)
    made = bytes(data)
    _, end, body = made.partition(b"\r\n\r\n")
    if end and source.random() < 0.7:
        made = b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%s" % (len(body), body)
    return made


def judge(reply: SocketReply | Fallback) -> bytes:
    """Return what the Python shim makes of an answer, in the words of the C one."""
    if isinstance(reply, Fallback):
        return b"unusable"
    answer = read_answer(reply.status, reply.body, json.dumps(API_VERSION).encode())
    if answer is None:
        return b"unusable"
    outcome = answer[b"outcome"].strip(b'"')
    if outcome == b"answered":
        return b"answered " + answer[b"response"]
    said = answer.get(b"stderr", b"")
    return (
        b"failed " + (unquote(said) if said.startswith(b'"') else said) if outcome == b"failed" else outcome
    )


@pytest.mark.skipif(sys.platform != "linux", reason="a kubelet's shim is for Linux")
def test_both_shims_read_any_answer_alike(tmp_path: Path) -> None:
    source = random.Random(13)  # noqa: S311 - the same examples each time
    examples = [*SEEDS, *(mangle(source) for _ in range(COUNT))]
    # A zero byte ends each verdict, so none may be in an example.
    examples = [each.replace(b"\x00", b"\x01") for each in examples]
    data = b"".join(struct.pack("<I", len(each)) + each for each in examples)
    done = subprocess.run([build_reader(tmp_path)], input=data, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()
    verdicts = done.stdout.split(b"\0")[:-1]
    place, left = tmp_path / "agent" / "agent.sock", iter(examples)
    with serving(place, lambda _: next(left)):
        replies = [ask_agent(str(place), "/v1/lookup", QUESTION) for _ in examples]
    expected = [judge(each) for each in replies]
    assert [(e, v, w) for e, v, w in zip(examples, verdicts, expected, strict=True) if v != w][:3] == []
    assert {word.partition(b" ")[0] for word in expected} == {b"unusable", b"answered", b"noMatch", b"failed"}
