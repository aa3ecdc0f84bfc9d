"""Hostile YAML in provider configs: no objects, no blow-up, no value quietly other than it looks."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from keyferry._core.documents import read_document, read_yaml
from keyferry.clusters.auth.credential import read_credential
from keyferry.errors import DocumentError, PluginProtocolError, Problem
from keyferry.images.config.read import ConfigFile, decode_file, read_config
from support.scripted import CONFIG_V1, V1, write_script

SECRET = "s3cr3t-hunter2"
HEAD = f"apiVersion: {CONFIG_V1}\nkind: CredentialProviderConfig\n"
PROVIDER = f"""\
providers:
- name: plugin
  matchImages: [reg.io]
  defaultCacheDuration: 1m
  apiVersion: {V1}
"""


def decoded(text: str) -> ConfigFile:
    return decode_file("config.yaml", text.encode())


def problems(text: str) -> dict[str, Problem]:
    return {problem.path: problem for problem in decoded(text).problems}


def laughs(levels: int) -> str:
    lines = ['a0: &a0 ["lol", "lol", "lol", "lol", "lol", "lol", "lol", "lol", "lol", "lol"]']
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, levels)]
    return "\n".join(lines)


def quadratic() -> str:
    return "a: &a [" + "x, " * 20_000 + "x]\nb: [" + "*a, " * 20_000 + "*a]"


def merged(levels: int) -> str:
    lines = ["a0: &a0 {" + ", ".join(f"k{n}: v" for n in range(50)) + "}"]
    lines += [f"a{n}: &a{n} {{<<: [{', '.join([f'*a{n - 1}'] * 10)}]}}" for n in range(1, levels)]
    return "\n".join(lines)


@pytest.mark.parametrize(
    "text", [laughs(9), laughs(40), quadratic(), merged(30)], ids=["nine", "forty", "flat", "merges"]
)
def test_a_billion_laughs_are_refused_at_once(text: str) -> None:
    """Aliases that expand to too many nodes end the reading before memory or time is spent."""
    started = time.thread_time()
    with pytest.raises(DocumentError, match="aliases expand to too many nodes"):
        read_yaml(text.encode())
    assert time.thread_time() - started < 5


@pytest.mark.parametrize("body", ["[" + "1, " * 330_000 + "1]", "x" * (1 << 20)], ids=["a list", "a text"])
def test_a_megabyte_of_yaml_is_no_answer_of_a_plugin(tmp_path: Path, body: str) -> None:
    """A cluster's plugin may answer in YAML, and cannot make us spend seconds and gigabytes on reading it."""
    from keyferry.api.clientauthentication.v1 import API_VERSION
    from keyferry.api.kubeconfig.v1 import ExecConfig
    from keyferry.clusters.auth.runner import ExecRunner

    head = f"apiVersion: {API_VERSION}\nkind: ExecCredential\nstatus: {{token: {SECRET}}}\n"
    (tmp_path / "answer").write_text(f"{head}more: {body}\n")
    script = write_script(tmp_path, "plugin", f"cat {tmp_path}/answer")
    config = ExecConfig(command=str(script), api_version=API_VERSION, interactive_mode="Never")
    with pytest.raises(
        PluginProtocolError, match=r"found [0-9]+ bytes of YAML, expected at most 262144"
    ) as caught:
        ExecRunner(config).credential()
    assert SECRET not in f"{caught.value!r} {caught.value.kubernetes_text}"


def test_an_anchor_that_holds_itself_is_refused() -> None:
    """A value that contains itself is an error, not an endless loop."""
    with pytest.raises(DocumentError, match="contains itself"):
        read_yaml(b"a: &a [*a]")


def test_honest_aliases_work() -> None:
    """An alias gives the anchored value again, as in Kubernetes."""
    text = HEAD + PROVIDER + "- name: two\n  matchImages: &m [a.io]\n  defaultCacheDuration: 0s\n"
    text += f"  apiVersion: {V1}\n- name: three\n  matchImages: *m\n  defaultCacheDuration: 0s\n"
    text += f"  apiVersion: {V1}\n"
    file = decoded(text)
    assert file.problems == ()
    assert file.config.providers[2].match_images == ("a.io",)


@pytest.mark.parametrize(
    "tagged",
    [
        "!!python/object/apply:os.system ['touch {marker}']",
        "!!python/object/new:subprocess.Popen [['touch', '{marker}']]",
        "!!python/name:os.system ''",
        "!!python/module:os ''",
        "!<tag:yaml.org,2002:python/object/apply:os.system> ['touch {marker}']",
        "!ruby/object:Gem::Installer {{i: x}}",
        "!!map/evil {{a: b}}",
        "!local text",
    ],
)
def test_no_tag_makes_an_object(tagged: str, tmp_path: Path) -> None:
    """Tags leave plain values: nothing is imported, called or created."""
    marker = tmp_path / "marker"
    value = read_yaml(f"a: {tagged.format(marker=marker)}".encode()).value
    assert isinstance(value, dict)
    assert type(value["a"]) in (str, list, dict)
    assert not marker.exists()


@pytest.mark.parametrize(
    "word", ["no", "NO", "off", "y", "n", "Yes", "true", "010", "0x1F", "1_000", "1e3", ".5", "1.10"]
)
def test_a_word_that_yaml_takes_for_something_else_is_no_string(word: str) -> None:
    """Norway and octal numbers in string fields are errors, not text that looks right."""
    found = problems(HEAD + PROVIDER + f"  env: [{{name: A, value: {word}}}]\n  args: [{word}]\n")
    assert {path: problem.kind for path, problem in found.items()} == {
        "providers[0].args[0]": "wrong-type",
        "providers[0].env[0].value": "wrong-type",
    }
    assert all("expected a string" in problem.message for problem in found.values())


@pytest.mark.parametrize("word", ["~", "null", ""])
def test_null_is_the_empty_string(word: str) -> None:
    """A null in a string field is the empty one, as in Go."""
    file = decoded(HEAD + PROVIDER + f"  env: [{{name: A, value: {word}}}]\n")
    assert file.problems == ()
    assert file.config.providers[0].env is not None
    assert file.config.providers[0].env[0].value == ""


@pytest.mark.parametrize("word", ["2020-01-01", "12:30:45", "1.2.3", "0o8", "yEs"])
def test_what_yaml_1_1_libraries_convert_and_go_does_not_stays_text(word: str) -> None:
    """Dates and base 60 numbers stay the text they are."""
    file = decoded(HEAD + PROVIDER + f"  args: [{word}]\n")
    assert file.config.providers[0].args == (word,)


def test_duplicate_keys_are_refused_at_every_level() -> None:
    """A key given twice is an error where it stands, however deep, whichever value is the good one."""
    text = (
        HEAD
        + PROVIDER
        + "  name: other\n  env: [{name: A, value: x, value: y}]\nkind: CredentialProviderConfig\n"
    )
    found = decoded(text).problems
    assert [problem.path for problem in found if problem.code == "KF108"] == [
        "providers[0].name",
        "providers[0].env[0].value",
        "kind",
    ]
    assert all(problem.line for problem in found)


def test_a_merge_that_is_overridden_is_a_duplicate() -> None:
    """A merge key works, but overriding what it merged is refused, as in Kubernetes."""
    base = HEAD + PROVIDER.replace("- name: plugin", "- &p\n  name: plugin")
    assert problems(base + "- <<: *p\n").keys() == set()
    assert "providers[1].name" in problems(base + "- <<: *p\n  name: two\n")


def test_a_merge_of_text_is_refused() -> None:
    """A merge key takes mappings alone."""
    assert decoded(HEAD + PROVIDER + "  <<: text\n").problems[0].code == "KF103"


def test_later_documents_are_ignored() -> None:
    """Only the first document of a stream counts: what follows can neither add nor replace providers."""
    evil = HEAD + PROVIDER.replace("plugin", "evil")
    file = decoded(HEAD + PROVIDER + "---\n" + evil + "---\n: : [broken")
    assert file.problems == ()
    assert [each.name for each in file.config.providers] == ["plugin"]


def test_an_empty_first_document_is_no_config() -> None:
    """A stream that begins with an empty document has no kind, whatever comes after."""
    file = decoded("---\n---\n" + HEAD + PROVIDER)
    assert file.kind == "missing-kind"
    assert file.config.providers == ()


@pytest.mark.parametrize(
    "data",
    [
        b"a: \xff",
        b"a: \x00",
        b"a:\n\t- b",
        b"a: 'x",
        b"%YAML 1.2\n---\na: b",
        b"? [a, b]\n: c",
        b"? {a: b}\n: c",
        b"~: a",
        b"a: .nan",
        b"a: -.inf",
        b"a: !!int x",
        b"a: !!binary ***",
        b"a: @x",
        b"{a: b}",
        b'{"a": "b",}',
        b'{"a": "b"} # c',
    ],
)
def test_broken_yaml_is_a_document_error_with_a_place(data: bytes) -> None:
    """Every way to be broken gives one kind of error, without the parser's own exception behind it."""
    with pytest.raises(DocumentError) as caught:
        read_document(data)
    assert caught.value.__context__ is None
    assert caught.value.__cause__ is None


@pytest.mark.parametrize("opening", ["[", "{a: ", "- "])
@pytest.mark.parametrize("depth", [2_000, 20_000])
def test_deep_yaml_is_refused_at_once(opening: str, depth: int) -> None:
    """Nesting beyond every real file ends the reading, however it is written."""
    started = time.thread_time()
    with pytest.raises(DocumentError):
        read_yaml((opening * depth).encode())
    assert time.thread_time() - started < 5


@pytest.mark.parametrize(
    "broken",
    [
        f"value: *{SECRET}",
        f"value: {SECRET}: x",
        f"value: '{SECRET}",
        f'value: "{SECRET}\\q"',
        f"value: [{SECRET}",
        f"value: !!int {SECRET}",
        f"value: !!binary {SECRET}!",
        f"value: {{{SECRET}: ~, ~: {SECRET}}}",
        f"value: @{SECRET}",
        f"value: %{SECRET}",
        f"value: x\n    {SECRET}",
        f"value: {{<<: {SECRET}}}",
    ],
)
def test_a_broken_value_is_not_quoted(broken: str, tmp_path: Path) -> None:
    """However the value of a variable breaks the file, no error says what it was."""
    path = tmp_path / "config.yaml"
    path.write_text(HEAD + PROVIDER + f"  env:\n  - name: TOKEN\n    {broken}\n")
    read = read_config(str(path))
    assert read.problems
    assert SECRET not in "".join(map(str, read.problems)) + repr(read)


def test_utf16_and_a_byte_order_mark_are_read() -> None:
    """As in go-yaml, UTF-16 and a mark are understood, so nothing hides behind them."""
    for encoding in ("utf-16", "utf-8-sig"):
        assert decode_file("c.yaml", (HEAD + PROVIDER).encode(encoding)).config.providers[0].name == "plugin"


PRINTED = {
    "a null key": f"~: {SECRET}\n",
    "a null key above": f"~: [{{a: {SECRET}}}]\n",
    "an alias": f"a: *{SECRET}\n",
    "an anchor in itself": f"a: &{SECRET} [*{SECRET}]\n",
    "a tag": f"a: !!int {SECRET}\n",
    "a bare word in JSON": f'{{"a": {SECRET}}}',
    "an escape in JSON": f'{{"a": "\\{SECRET}"}}',
    "text after JSON": f"{{}}{SECRET}",
}


@pytest.mark.parametrize("stdout", PRINTED.values(), ids=PRINTED)
def test_of_what_a_plugin_printed_not_even_kubernetes_text_quotes_a_part(stdout: str) -> None:
    """Kubernetes quotes what it cannot read; of an answer, which holds credentials, keyferry does not."""
    with pytest.raises(PluginProtocolError) as caught:
        read_credential("client.authentication.k8s.io/v1", stdout.encode())
    text = caught.value.kubernetes_text
    assert text.startswith("decoding stdout: ")
    assert SECRET not in text
    assert f"'{SECRET[0]}'" not in text
    assert "`" not in text


def test_what_stands_under_a_null_key_does_not_swell_the_error() -> None:
    """A few honest aliases expand to thousands of nodes, and Kubernetes prints the value."""
    many = "a: &a [" + "x, " * 90 + "x]\nb: &b [" + "*a, " * 90 + "*a]\n"
    file = decoded(f"{many}~: *b\n")
    assert "unsupported map key" in file.kubernetes_text
    assert len(file.kubernetes_text) < 200
