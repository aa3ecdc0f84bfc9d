"""Secrets are masked by what they are and by what they look like; plain words stay."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import keyferry_plugins
from keyferry._core.secrets import (
    MASK,
    escape_controls,
    in_one_line,
    printable,
    redact,
    secret_values,
    stderr_tail,
)
from keyferry._core.user_info import hide_in_text, hide_in_url, hide_user_info
from keyferry.api.federation import presets
from keyferry.errors import ClusterAuthError

TABLES = Path(__file__).parent / "masking"


MIN_LINES = 200


MASKED = {
    "jwt": ("got eyJhbGciOiJ9.eyJzdWIiOiJ4.c2ln", f"got {MASK}"),
    "jwt-payload": ("eyJhbGciOiJ9", MASK),
    "bearer": ("authorization bearer abcd1234", f"authorization bearer {MASK}"),
    "basic": ("Basic dXNlcjpwdw==", f"Basic {MASK}"),
    "url": ("https://user:pw@reg.io/v2", f"https://{MASK}@reg.io/v2"),
    "url-token": ("https://ghp_x@reg.io/v2", f"https://{MASK}@reg.io/v2"),
    "assignment": ("PASSWORD=hunter2 next", f"PASSWORD={MASK} next"),
    "prefixed-name": ("MY_API_KEY_V2=hunter2", f"MY_API_KEY_V2={MASK}"),
    "name-of-three": ("app_secret_id=hunter2", f"app_secret_id={MASK}"),
    "end-of-line": ("the token: hunter2:", f"the token: {MASK}"),
    "json": ('{"client_secret": "hunter2 x", "a": 1}', f'{{"client_secret": {MASK}, "a": 1}}'),
    "escaped-json": (
        '{\\"password\\": \\"hunter2\\", \\"a\\": 1}',
        f'{{\\"password\\": {MASK}, \\"a\\": 1}}',
    ),
    "unclosed": ('password="hunter2', f"password={MASK}"),
    "single-quotes": ("{'token': 'hunter2'}", f"{{'token': {MASK}}}"),
    "query": ("?token=hunter2&scope=x", f"?token={MASK}&scope=x"),
    "flag": ("login --password hunter2 reg.io", f"login --password {MASK} reg.io"),
    "short-flag": ("curl -u me:hunter2 https://reg.io", f"curl -u {MASK} https://reg.io"),
    "access-key": ("key AKIAIOSFODNN7EXAMPLE here", f"key {MASK} here"),
    "google-token": ("got ya29.a0AfH6SMB_x-y.z0123 twice", f"got {MASK} twice"),
    "google-refresh": ("with 1//0gAbCdEfGh-ij ok", f"with {MASK} ok"),
    "google-client": ("GOCSPX-AbCdEf-12345 no", f"{MASK} no"),
    "google-key": ("AIzaSyA0123456789abcdefgh no", f"{MASK} no"),
    "long": (f"blob {'Ab1+' * 10} end", f"blob {MASK} end"),
}


PLAIN = [
    "exec: aws: not found",
    "_=hunter2hunter2",
    "the token: header was not sent",
    "no such host reg.io",
    "tokens are fine, passwords too",
    "usage: login --password --registry reg.io",
    "https://reg.io/v2/team/app/manifests/latest",
]


@pytest.mark.parametrize(("text", "masked"), MASKED.values(), ids=MASKED)
def test_what_looks_like_a_secret_is_masked(text: str, masked: str) -> None:
    """The shape is enough, and what stands around it stays."""
    assert redact(text) == masked


@pytest.mark.parametrize("text", PLAIN)
def test_plain_words_stay(text: str) -> None:
    """A message that helps is not masked away."""
    assert redact(text) == text


def read_table(name: str) -> list[str]:
    """The lines of a table, in which a broken bar is nothing and a return sign is a line break.

    The bars keep scanners of repositories from taking a sample for the real thing.
    """
    lines = (TABLES / name).read_text(encoding="utf-8").splitlines()
    assert len(set(lines)) == len(lines) >= MIN_LINES
    return [line.replace("\u00a6", "").replace("\u23ce", "\n") for line in lines]


def pieces(secret: str) -> list[str]:
    """The secret in halves, or whole if it is short: less than all of it must not be shown either."""
    half = max(5, len(secret) // 2)
    return [
        piece for at in range(0, len(secret), half) if len(piece := secret[at : at + half]) >= min(4, half)
    ]


@pytest.mark.parametrize("line", read_table("kept.txt"))
def test_what_programs_say_of_a_failure_stays_whole(line: str) -> None:
    """Errors of clouds, issuers, registries, helpers, Go, Python and curl are the diagnosis; no word of one is lost."""
    assert redact(line) == line


def texts_of(path: Path) -> Iterator[str]:
    """Yield the texts of a module that have a blank, with a letter for each value in them.

    Docstrings are left out, and the help for flags, which is never an error.
    """
    tree = ast.parse(path.read_bytes())
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    flags = [each for each in calls if isinstance(each.func, ast.Name) and each.func.id == "Flag"]
    said = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    said |= {id(node) for flag in flags for node in ast.walk(flag)}
    for node in ast.walk(tree):
        parts = node.values if isinstance(node, ast.JoinedStr) else [node]
        texts = [str(part.value) if isinstance(part, ast.Constant) else "N" for part in parts]
        if isinstance(node, ast.JoinedStr | ast.Constant) and id(node) not in said and " " in "".join(texts):
            yield "".join(texts)


OWN_TEXTS = [*Path(keyferry_plugins.__file__).parent.rglob("*.py"), Path(presets.__file__)]


def test_what_keyferrys_own_plugins_say_stays_whole() -> None:
    """Messages, cures and descriptions: they come back as a plugin's standard error, and are masked like any other."""
    texts = [text for path in OWN_TEXTS for text in texts_of(path)]
    assert len(texts) >= MIN_LINES
    assert [text for text in texts if redact(text) != text] == []


@pytest.mark.parametrize("line", read_table("masked.txt"))
def test_a_secret_in_a_line_is_masked(line: str) -> None:
    """In JSON, headers, traces of a shell, URLs, PEM, YAML, environments: what stands in brackets is gone."""
    secrets = re.findall(r"\u27e6([^\u27e7]*)\u27e7", line)
    around = re.sub(r"\u27e6[^\u27e7]*\u27e7", "", line)
    shown = redact(re.sub(r"[\u27e6\u27e7]", "", line))
    assert MASK in shown
    assert secrets
    assert [
        piece for secret in secrets for piece in pieces(secret) if piece in shown and piece not in around
    ] == []
    # The mask takes the value and leaves what it is the value of; a user's name may go with the password.
    before = line.partition("\u27e6")[0].partition("-----BEGIN")[0]
    words = re.split(r"[ \n\"'\\]+", before)[:-1]
    assert [word for word in words if word not in shown] == []


SETTINGS = {
    "region": ("AWS_REGION", "eu-west-1"),
    "profile": ("AWS_PROFILE", "production-readonly"),
    "level": ("LOG_LEVEL", "debug"),
    "path": ("CONFIG", "/etc/kubernetes/azure.json"),
    "url": ("ISSUER", "https://login.example.com/realms/platform"),
    "role": ("AWS_ROLE_ARN", "arn:aws:iam::123456789012:role/pull"),
    "tenant": ("AZURE_TENANT_ID", "11111111-2222-3333-4444-555555555555"),
    "number": ("RETRIES", "5"),
}


SECRET_SETTINGS = {
    "named": ("REGISTRY_PASSWORD", "swordfish"),
    "named-path": ("API_TOKEN", "/not/a/path"),
    "odd": ("A", "hunter2"),
    "random": ("SETTING", "Zq7marked-S3cret9vX"),
    "url": ("UPSTREAM", "https://jo:sesame@reg.example.com"),
}


@pytest.mark.parametrize("setting", SETTINGS.values(), ids=SETTINGS)
def test_an_ordinary_setting_is_no_secret(setting: tuple[str, str]) -> None:
    """Messages are about regions, profiles and paths."""
    assert secret_values([setting]) == ()


@pytest.mark.parametrize("setting", SECRET_SETTINGS.values(), ids=SECRET_SETTINGS)
def test_any_other_setting_may_be_one(setting: tuple[str, str]) -> None:
    """By its name, or because it is no word."""
    assert secret_values([setting]) == (setting[1],)


def test_a_known_secret_is_masked_wherever_it_stands() -> None:
    """What is known to be secret needs no shape; the longer of two goes first."""
    assert redact("xhunter2y hunter2more", ("hunter2", "hunter2more")) == f"x{MASK}y {MASK}"


def test_what_is_too_short_to_be_a_secret_is_not_searched_for() -> None:
    """An empty token, or a variable set to "1", does not mask half the text."""
    assert redact("exit status 1 yes", ("", "1", "yes")) == "exit status 1 yes"


def test_control_characters_and_line_breaks_are_replaced() -> None:
    """What moves a cursor, breaks a line or turns text around is made visible."""
    assert printable("a\x1b[0m\u202eb\tc\nd\u2028e") == "a\ufffd[0m\ufffdb\ufffdc\ufffdd\ufffde"
    for char in "\x00\r\x0b\x7f\x85\x9b\u061c\u200e\u200f\u2029\u202a\u2066\u2069\ud800\udcff":
        assert printable(f"<{char}>") == "<\ufffd>"
    assert printable("ä € 字 \U0001f600 a\xa0b\u200d") == "ä € 字 \U0001f600 a\xa0b\u200d"


def test_line_breaks_of_our_own_are_kept_where_they_are_named() -> None:
    assert printable("a\tb\nc\rd", keep="\t\n") == "a\tb\nc\ufffdd"


def test_json_stays_json_and_shows_nothing_raw() -> None:
    """The characters are escaped in place; what was decoded is the same."""
    value = {"a\x9b": "\x1b\u202e\u2028\x7f\n\u200f", "b": ["ä", "\udcff"]}
    text = escape_controls(json.dumps(value, ensure_ascii=False, indent=1))
    assert json.loads(text) == value
    assert "ä" in text
    assert printable(text, keep="\n") == text


def test_the_tail_is_the_last_lines_that_say_something() -> None:
    """Blank lines go, the last five stay, long ones are cut, odd bytes are replaced."""
    text = b"\n".join([b"one", b"two", b"", b"three ", b"four", b"five", b"\xffsix", b"", b"s" + b" s" * 300])
    tail = stderr_tail(text).split("\n")
    assert tail[:4] == ["three", "four", "five", "\ufffdsix"]
    assert len(tail[4]) == 403
    assert tail[4].endswith("...")
    assert stderr_tail(b" \n\n") == ""
    assert in_one_line(stderr_tail(b"one\ntwo\n")) == "one | two"


def test_a_secret_across_lines_is_masked_as_a_whole() -> None:
    """The text is redacted before it is cut into lines."""
    assert stderr_tail(b"key: MULTI\nLINE end", ("MULTI\nLINE",)) == f"key: {MASK} end"


URLS = [
    pytest.param("", "", id="empty"),
    pytest.param("@", "***@", id="nothing around the sign"),
    pytest.param("http://h", "http://h", id="no user info"),
    pytest.param("http://u:p@h:1", "http://***@h:1", id="user and password"),
    pytest.param("https://token@h/x", "https://***@h/x", id="a user alone may be a token"),
    pytest.param("http://:p@h", "http://***@h", id="a password alone"),
    pytest.param("http://@h", "http://***@h", id="empty user info"),
    pytest.param("http://u:p@w@h", "http://***@h", id="a password with a sign"),
    pytest.param("http://u:p/w@h", "http://***@h", id="a password with a slash"),
    pytest.param("http://u:p?w#x@h/y", "http://***@h/y", id="a password with the start of a query"),
    pytest.param("http://u:p://w@h", "http://***@h", id="a password like a URL"),
    pytest.param("http://u:p\nw@h", "http://***@h", id="a password with a line break"),
    pytest.param("http://u:p@h/x?a=b#c", "http://***@h/x?a=b#c", id="path, query and fragment stay"),
    pytest.param("http://h/?to=a@b", "http://***@b", id="a query that could be a password"),
    pytest.param("http://u:p@[::1]:8080/x", "http://***@[::1]:8080/x", id="IPv6"),
    pytest.param("http://u:p@[fe80::1%25eth0]", "http://***@[fe80::1%25eth0]", id="IPv6 with a zone"),
    pytest.param("u:p@h", "***@h", id="no scheme"),
    pytest.param("u:p/w@h:1", "***@h:1", id="no scheme, a password with a slash"),
    pytest.param("pass word://x@h", "***@h", id="what is no scheme may be a password"),
    pytest.param("git+ssh://u@h", "git+ssh://***@h", id="a scheme with a sign"),
    pytest.param("reg.io:5000/img@sha256:abc", "reg.io:5000/img@sha256:abc", id="a digest"),
    pytest.param("u:p@reg.io/img@sha256:abc", "***@reg.io/img@sha256:abc", id="a digest and a password"),
    pytest.param("reg.io/img@sha512:abc", "reg.io/img@sha512:abc", id="another digest"),
]


SENTENCES = [
    pytest.param("no URL: me@example.org", "no URL: me@example.org", id="an address is none"),
    pytest.param("https://u:p@h: refused", "https://***@h: refused", id="one"),
    pytest.param("'http://u:p@h' and 'http://v:q@i'", "'http://***@h' and 'http://***@i'", id="two"),
    pytest.param("http://u:p@w@h", "http://***@h", id="a password with a sign"),
    pytest.param("http://h/x of me@example.org", "http://h/x of me@example.org", id="after the path"),
    pytest.param(r'"http://u:p\"w@h"', '"http://***@h"', id="a quoted quotation mark"),
    pytest.param("https://h/?a=b: refused", "https://h/?a=***: refused", id="a query"),
    pytest.param("'https://h?a=b&c=d', no", "'https://h?a=***&c=***', no", id="a quoted query"),
    pytest.param(r'"https://h/?a=b\"c" no', '"https://h/?a=***" no', id="a quotation mark in a query"),
    pytest.param("https://u:p@h/?a=b.", "https://***@h/?a=***.", id="user info and a query"),
    pytest.param("is it https://h/x?", "is it https://h/x?", id="a question"),
    pytest.param("see https://h/x#part: no", "see https://h/x#part: no", id="a fragment is a place"),
]


QUERIES = [
    pytest.param("https://h/x", "https://h/x", id="no query"),
    pytest.param("https://h/?access_token=s3", "https://h/?access_token=***", id="a token"),
    pytest.param(
        "https://h?a=1&b=&c&d=2", "https://h?a=***&***&***&d=***", id="what has no value may be the secret"
    ),
    pytest.param("https://h/?dG9rZW4==", "https://h/?***", id="padding is no value"),
    pytest.param("https://h/?", "https://h/?", id="empty"),
    pytest.param("https://h/?a=b#c", "https://h/?a=***", id="a fragment after a query"),
    pytest.param("https://h/#access_token=s3", "https://h/#***", id="a fragment with a value"),
    pytest.param("https://h/#part", "https://h/#part", id="a fragment"),
    pytest.param("https://u:p@h/?a=b", "https://***@h/?a=***", id="user info, too"),
    pytest.param("u:p@h?a=b", "***@h?a=***", id="no scheme"),
]


@pytest.mark.parametrize(("url", "shown"), URLS)
def test_user_info_is_hidden(url: str, shown: str) -> None:
    assert hide_user_info(url) == shown
    error = ClusterAuthError(url, "no")
    assert error.server == error.args[0] == hide_in_url(shown)


@pytest.mark.parametrize(("text", "shown"), SENTENCES)
def test_user_info_is_hidden_in_a_sentence(text: str, shown: str) -> None:
    assert hide_in_text(text) == shown


@pytest.mark.parametrize(("url", "shown"), QUERIES)
def test_values_of_a_query_are_hidden(url: str, shown: str) -> None:
    """The error hides them by itself, so that nobody who raises one can forget to."""
    assert hide_in_url(url) == shown
    assert ClusterAuthError(url, "no").server == shown
