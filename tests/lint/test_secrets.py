"""The lines of a file as they may be shown, and that no output of the command has a secret."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from keyferry.lint.secrets import marked_length, visible_lines, visible_source
from keyferry.lint.source import SourceFile
from support.commands import run_in_process
from support.lint import GOOD, KUBECONFIG, SECRET, write

MASK = "********"


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        pytest.param("  - reg.example/*", None, id="pattern"),
        pytest.param(f"  - u:{SECRET}@reg.example", f"  - {MASK}", id="user info"),
        pytest.param(f"  - https://u:{SECRET}@reg.example", f"  - {MASK}", id="URL"),
        pytest.param("  # a comment", None, id="comment"),
        pytest.param(f"  # u:{SECRET}@reg.example", f"  # {MASK}@reg.example", id="user info in a comment"),
        pytest.param(f"  # password: {SECRET}", f"  # password: {MASK}", id="secret in a comment"),
    ],
)
def test_a_pattern_is_shown_without_a_password(line: str, shown: str | None) -> None:
    text = f"kind: CredentialProviderConfig\nproviders:\n- name: p\n  matchImages:\n{line}\n  - b.example\n"
    assert visible_lines(text.encode())[4] == (line if shown is None else shown)


@pytest.mark.parametrize(
    "written",
    [
        f"token: {SECRET}",
        f"token: '{SECRET}'",
        f'token: "{SECRET[:-1]}\\x32"',
        f"token: |\n  {SECRET}\n  {SECRET}",
        f"token: >-\n  {SECRET}",
        f"token: {SECRET[:7]}\n  {SECRET[7:]}",
        f"{{token: {SECRET}, b: 1}}",
        f"env: [{{name: A, value: {SECRET}}}, {{name: B, value: {SECRET}}}]",
        f"args: [--token, {SECRET}, -t, {SECRET}]",
        f"args:\n- --token={SECRET}\n- {SECRET}",
        f"anything: {SECRET}",
        f"user: {SECRET}",
        f"users: [{SECRET}]",
        f"proxy-url: http://u:{SECRET}/@p",
        f"server: u:{SECRET}/x@p",
        f"matchImages: ['u:{SECRET}/@p']",
        f"proxy-url: http://u:{SECRET}/@p\nb: [",
        f"users: [{SECRET}",
        f"? token\n: {SECRET}",
        f"a: &x {SECRET}\nb: *x",
        f"value: {SECRET}\nname: A",
        json.dumps({"token": SECRET, "list": [{"value": SECRET}]}),
        json.dumps({"token": SECRET}, indent=1),
        json.dumps({"token": SECRET, "list": [{"value": f"${{A}}{SECRET}"}]}),
        f"token: ${{A}}/{SECRET}",
        f"token: {SECRET}}} # {SECRET}",
        f"token: 'a' # {SECRET}",
        f"token: a\n  {SECRET}",
        f"token: 'a\n  {SECRET}'",
        f"token: |-\n  # {SECRET}",
        f"token: |-\n  |-\n  {SECRET}",
        f"token: !!str {SECRET}",
        f"token: &x '{SECRET}'\nb: *x",
        f"? {SECRET}\n: {SECRET}",
        f"token: a\n---\ntoken: {SECRET}",
        f"{{token: ${{{SECRET}}}x}}",
        # Not valid YAML or JSON.
        f"token: {SECRET}\nb: [",
        f"- {SECRET}\nb: [",
        f"args: [*{SECRET}]",
        f"{{name: A, value: {SECRET}",
        f"  {SECRET}\na: {{",
        f'{{"token": "{SECRET}",}}',
    ],
)
def test_what_may_be_a_secret_is_never_shown(written: str) -> None:
    text = f"{written}\nlast: line\n" if "{" not in written[:1] else written
    shown = "\n".join(visible_lines(text.encode()))
    assert SECRET not in shown
    assert SECRET[:7] not in shown
    assert len(shown.split("\n")) == len(text.split("\n"))


def test_a_broken_document_shows_fields_that_have_no_secrets() -> None:
    lines = visible_lines(b"apiVersion: v1\nkind: Config\n- x: [\n")
    assert lines[:2] == ["apiVersion: v1", "kind: Config"]


@pytest.mark.parametrize(
    ("line", "column", "length"),
    [
        ("  - reg.io:5000/a # x", 5, 13),
        ('  - "a b" # x', 5, 5),
        ("name: x", 1, 7),
        ("{name: x}", 2, 7),
        ('{"name": "a b", "c": 1}', 2, 13),
        ("{a: b c, d: e}", 2, 6),
        ("hint: run this # x", 1, 14),
        ("hint:", 1, 4),
        ("list: [a]", 1, 4),
        ("[a, b]", 2, 1),
        ("", 1, 1),
    ],
)
def test_the_mark_is_as_long_as_the_value_and_its_key(line: str, column: int, length: int) -> None:
    assert marked_length(line, column, with_value=True) == length


def test_settings_and_rules_of_an_agent_are_shown() -> None:
    text = "kind: AgentConfig\nsocketMode: '0666'\naccess:\n- uids: [1000, 1001]\n  gids: [27]\n"
    assert visible_lines(text.encode()) == text.split("\n")


def test_names_in_a_context_are_shown() -> None:
    lines = ["contexts:", "- name: c", "  context:", "    user: admin@prod", "    cluster: prod", ""]
    assert visible_lines("\n".join(lines).encode()) == lines


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("- {name: A, value: '${HOME}'}", None),
        ("- {name: A, value: $(A)$(B)}", None),
        ("- {name: A, value: '${HOME}/.aws'}", f"- {{name: A, value: ${{HOME}}/{MASK}}}"),
        ("- {name: A, value: '${HOME}x'}", f"- {{name: A, value: {MASK}}}"),
        ("- {name: A, value: $HOME}", f"- {{name: A, value: {MASK}}}"),
        ("- {value: 'a b', name: A}", f"- {{value: {MASK}, name: A}}"),
        ('- {"value":"a","name":"A"}', f'- {{"value": {MASK},"name":"A"}}'),
    ],
)
def test_references_to_variables_and_brackets_are_shown(line: str, shown: str | None) -> None:
    text = f"env:\n{line}\n# a comment\nversion: v1alpha1\n"
    lines = visible_lines(text.encode())
    assert lines[1:4] == [line if shown is None else shown, "# a comment", "version: v1alpha1"]


def test_lines_of_brackets_between_values_are_shown() -> None:
    text = json.dumps([{"value": "a b"}, {"value": "c"}], indent=1)
    assert visible_lines(text.encode()) == [
        *("[", " {", f'  "value": {MASK}', " },"),
        *(" {", f'  "value": {MASK}', " }", "]"),
    ]


def test_a_column_moves_with_what_is_masked_before_it() -> None:
    text = "env: [{name: A, value: abc}, {name: BB, value: a-long-value-of-a-variable, name2: $(X)}]"
    (line,) = visible_source(SourceFile.parse("x", text.encode()))
    for word in ("name: A", "value", "name: BB", "name2", "$(X)"):
        assert line.text.startswith(word, line.column(text.index(word) + 1) - 1)
    # What is masked itself is marked where the mask begins.
    assert line.text[line.column(text.index("long") + 1) - 1 :].startswith(f" {MASK}, name2")


def test_a_column_after_a_masked_shape_is_that_of_the_line() -> None:
    (line,) = visible_source(SourceFile.parse("x", b"  name: a # u:p-word@reg.example x"))
    assert line.column(34) == 3


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(f"env: [{{name: PASSWORD, value: {SECRET}}}]\n", id="no kind"),
        pytest.param(GOOD + f"  env: [{{name: PASSWORD, value: {SECRET}}}]\n", id="variable"),
        pytest.param(GOOD + f"  args: [--password={SECRET}]\n", id="argument"),
        pytest.param(GOOD + f"  args: [!!int {SECRET}]\n", id="tag"),
        pytest.param(GOOD + f"  ~: {SECRET}\n", id="null key"),
        pytest.param(GOOD + f"  args: [*{SECRET}]\n", id="alias"),
        pytest.param(GOOD.replace("reg.example", f"u:{SECRET}@reg.example"), id="user info"),
        pytest.param(GOOD.replace("reg.example", f"u:{SECRET}@reg[.example"), id="user info, refused"),
        pytest.param(GOOD.replace("reg.example", f"'u:\"{SECRET}@reg.example'"), id="user info with a quote"),
        pytest.param(GOOD.replace("reg.example", f"https://u:{SECRET}@reg.example"), id="whole URL"),
        pytest.param(GOOD.replace("reg.example", f'"oci://u:{SECRET}@reg\\t"'), id="whole URL, refused"),
        pytest.param(f"users: [{{name: u, user: {{token: {SECRET}}}}}]\n", id="kube: token"),
        pytest.param(f"users: [{{name: u, user: {{token: [{SECRET}]}}}}]\n", id="kube: wrong type"),
        pytest.param(f"users: [{{name: u, user: {{token: {SECRET}, password: {SECRET}}}}}]\n", id="kube: both"),
        pytest.param(f"users: [{{name: u, user: {{client-key-data: {SECRET}}}}}]\n", id="kube: no base64"),
        pytest.param(f"users: [{{name: u, user: {SECRET}}}]\n", id="kube: no mapping"),
        pytest.param(f"users:\n- {SECRET}\n", id="kube: no entry"),
        pytest.param(f"users: [{{name: u, user: {{token: {SECRET}", id="kube: cut short"),
        pytest.param(f"kind: Config\nusers:\n\t- {SECRET}\n", id="kube: tab"),
        pytest.param(f"kind: Config\nusers: [{{name: u, user: {{token: '{SECRET}}}}}]\n", id="kube: quote"),
        pytest.param(f"apiVersion: v1/\nkind: Config\ntoken: {SECRET}\n", id="kube: whole file"),
        pytest.param(f"users: [{{name: u}}, {{name: u, user: {{token: {SECRET}}}}}]\n", id="kube: twice"),
        pytest.param(KUBECONFIG.replace("server:", f"proxy-url: http://u:{SECRET}@p\n    server:"), id="kube: proxy"),
        pytest.param(KUBECONFIG.replace("server:", f"proxy-url: u:{SECRET}@p\n    server:"), id="kube: bad proxy"),
        pytest.param(KUBECONFIG.replace("server:", f"proxy-url: http://u:{SECRET}/@p\n    server:"), id="kube: slash"),
        pytest.param(KUBECONFIG.replace("https://k", f"https://u:{SECRET}@k"), id="kube: server"),
        pytest.param(KUBECONFIG.replace("https://k", f"u:{SECRET}@k"), id="kube: server without scheme"),
        pytest.param(KUBECONFIG.replace("Never", f"Never\n      args: [--token, {SECRET}]"), id="kube: argument"),
        pytest.param(KUBECONFIG.replace("Never", f"Never\n      env: [{{name: T, value: {SECRET}}}]"), id="kube: env"),
        pytest.param(
            KUBECONFIG.replace("Never", f"Never\n      env: [{{name: API_TOKEN, value: {SECRET}}}]"), id="env secret"
        ),
        pytest.param(f"kind: Config\nusers: [{{name: u, user: {{token: *{SECRET}}}}}]\n", id="kube: alias"),
        pytest.param(f"kind: Config\nusers: [{{name: u, user: {{token: !{SECRET} x}}}}]\n", id="kube: tag"),
        pytest.param(f"kind: Config\nusers: [{{name: u, user: {{token: !!{SECRET} x}}}}]\n", id="kube: tag of YAML"),
        pytest.param(f"kind: Config\nusers: [{{name: u, user: {{token: !{SECRET}!x y}}}}]\n", id="kube: handle"),
        pytest.param(f"kind: Config\nusers: [{{name: u, user: {{token: %{SECRET}}}}}]\n", id="kube: directive"),
        pytest.param(f"kind: Config\nusers: [{{name: u, user: {{token: @{SECRET}}}}}]\n", id="kube: reserved"),
        pytest.param(f"kind: Config\nusers: [{{name: u, user: {{token: !!int {SECRET}}}}}]\n", id="kube: no number"),
        pytest.param(f"kind: Config\nusers: [{{name: u, user: {{~: {SECRET}}}}}]\n", id="kube: null key"),
        pytest.param(f"kind: Config\n~: [{{name: u, user: {{token: {SECRET}}}}}]\n", id="kube: null key above"),
        pytest.param(f"kind: Config\nusers: [{{name: u, user: {{token: !!binary {SECRET}}}}}]\n", id="kube: no binary"),
    ],
)  # fmt: skip
def test_no_secret_is_ever_printed(tmp_path: Path, text: str) -> None:
    path = write(tmp_path, text, "config", 0o600)
    for output in ("text", "table", "json", "sarif", "junit", "github", "diff"):
        done = run_in_process("lint", path, "-o", output)
        # A variable with a name that says nothing is no finding.
        assert done.returncode == int("{name: T, " not in text)
        assert SECRET not in done.stdout + done.stderr, output


@pytest.mark.parametrize(
    "text", ["correct horse battery staple\n", "'correct horse'\n", "correct\n  horse\n", "4711\n"]
)
def test_a_file_that_is_one_plain_value_is_not_shown(tmp_path: Path, text: str) -> None:
    """It may be a password."""
    (tmp_path / "password").write_text(text)
    for output in ("text", "table", "json", "github", "diff"):
        done = run_in_process("lint", "password", "-o", output, cwd=tmp_path)
        assert done.returncode == 1
        assert not re.search("correct|horse|battery|4711", done.stdout + done.stderr)
