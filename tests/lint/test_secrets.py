"""The lines of a file as they may be shown."""

from __future__ import annotations

import json

import pytest

from keyferry.lint.secrets import marked_length, visible_lines, visible_source
from keyferry.lint.source import SourceFile
from support.lint import SECRET

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
