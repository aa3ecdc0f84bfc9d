"""No output of a plugin, however hostile, gives anything but an answer or one kind of error."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from keyferry._core.secrets import redact, stderr_tail
from keyferry.api.credentialprovider.v1 import CredentialProviderResponse
from keyferry.errors import PluginProtocolError, PullSecretError
from keyferry.images.dockerconfig import (
    PullSecret,
    parse_docker_config_json,
    parse_dockercfg,
    read_pull_secret,
)
from keyferry.images.provider.plugin import decode_response
from support.scripted import V1, document

SECRET = "Zq7marked"
GOOD = document({"reg.io": {"username": "user", "password": SECRET}})
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.just(SECRET) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.just(SECRET) | st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=10,
)
FIELDS = st.sampled_from(["kind", "apiVersion", "cacheKeyType", "cacheDuration", "auth", "x", SECRET])


def outcome(stdout: bytes) -> CredentialProviderResponse | None:
    """The answer, or None for one that was refused without a trace of it."""
    try:
        return decode_response("plugin", V1, stdout)
    except PluginProtocolError as error:
        assert SECRET not in str(error) + repr(error)
        assert error.__context__ is None
        return None


@given(st.binary(max_size=200))
def test_any_bytes_are_refused(stdout: bytes) -> None:
    """Random bytes are never an answer."""
    assert outcome(stdout) is None


@given(st.dictionaries(FIELDS, VALUES, max_size=3))
def test_a_good_answer_with_any_fields_changed_is_read_or_refused(changes: dict[str, object]) -> None:
    """Wrong types, unknown names and odd values anywhere give an answer or a clean error."""
    answer = outcome(json.dumps(json.loads(GOOD) | changes).encode())
    if answer is not None:
        assert isinstance(answer.cache_key_type, str)
        assert all(isinstance(entry.password, str) for entry in (answer.auth or {}).values())


@given(st.integers(0, len(GOOD)), st.binary(min_size=1, max_size=4), st.sampled_from([0, 1]))
def test_a_good_answer_with_a_few_bytes_changed_is_read_or_refused(at: int, junk: bytes, over: int) -> None:
    """Bytes put in or overwritten at any place do no more than that."""
    raw = GOOD.encode()
    outcome(raw[:at] + junk + raw[at + len(junk) * over :])


@given(st.data())
def test_an_answer_in_any_order_is_read_unless_a_member_is_repeated(data: st.DataObject) -> None:
    """Blanks after it make no difference."""
    repeated: list[str] = []

    def members(pairs: list[str]) -> str:
        twice = data.draw(st.lists(st.sampled_from(pairs), max_size=1))
        repeated.extend(twice)
        drawn = data.draw(st.permutations(pairs)) + twice
        return "{" + ",".join(drawn) + "}"

    keys = data.draw(st.lists(st.sampled_from(["reg.io", "reg.io/a", "*.io"]), unique=True, max_size=3))
    logins = [f'"{key}":' + members(['"username":"u"', '"password":"p"']) for key in keys]
    fields = [f'"{name}":{json.dumps(value)}' for name, value in json.loads(GOOD).items() if name != "auth"]
    auth = members(logins) if logins else "{}"
    text = members([*fields, f'"auth":{auth}'])
    answer, other = outcome(text.encode()), outcome(text.encode() + b" " * 20_000)
    assert answer == other
    assert (answer is None) is bool(repeated)


@given(st.integers(0, len(GOOD) - 1))
def test_no_part_of_a_good_answer_is_an_answer(end: int) -> None:
    """An answer that was cut short is refused wherever the cut is."""
    assert outcome(GOOD.encode()[:end]) is None


@given(VALUES | st.dictionaries(st.just("auths"), VALUES, min_size=1))
def test_any_docker_config_is_read_or_refused(value: object) -> None:
    """All three readers give entries of text, or their own error without a trace of the content."""
    content = json.dumps(value).encode()
    secret = PullSecret(
        namespace="ns", name="n", type="kubernetes.io/dockercfg", data={".dockercfg": content}
    )
    for read in (parse_docker_config_json, parse_dockercfg, lambda _: read_pull_secret(secret)):
        try:
            entries = read(content)
        except PullSecretError as error:
            assert error.__context__ is None
        else:
            assert all(isinstance(entry.password, str) for entry in (entries or {}).values())


@given(st.binary(max_size=300), st.binary(max_size=50), st.binary(max_size=50))
def test_a_known_secret_never_survives_in_the_tail(words: bytes, before: bytes, after: bytes) -> None:
    """Whatever stands around it, and whatever else is said, a known secret is gone; the rest is bounded."""
    tail = stderr_tail(before + SECRET.encode() + after + b"\n" + words, (SECRET,))
    assert SECRET not in tail
    assert len(tail) < 2_100
    assert "\x1b" not in tail


@given(st.text(max_size=200))
def test_redacting_twice_changes_no_more(text: str) -> None:
    """What is masked is masked; the mask itself is no secret."""
    once = redact(text)
    assert redact(once) == once
