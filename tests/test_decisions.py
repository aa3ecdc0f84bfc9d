"""Code decides by types, kinds and fields: never by what a sentence says, nor by whether something has an attribute."""

import ast
from collections.abc import Collection, Iterator
from functools import cache
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parent.parent / "src"
# Attributes that hold sentences, and what a caught error is called.
SENTENCES = ("kubernetes_text", "message", "problem", "stderr_tail")
ERRORS = ("caught", "error", "exc", "failure", "problem", "refusal", "refused")
CUTS = (
    "count", "endswith", "find", "index", "partition", "removeprefix", "removesuffix", "replace", "rpartition",
    "rsplit", "split", "startswith",
)  # fmt: skip
SEARCHES = ("findall", "finditer", "fullmatch", "match", "search", "split", "sub")

# Probes that nothing typed can take the place of, each with its reason.
PROBES = {
    "os": "flags that a platform has or has not",
    "select": "as above",
    "fcntl": "as above",
    "_signal": "as above",
    "sockets": "as above",
    "yaml": "the parser in C, where PyYAML was built with it",
    "os.environ": "the bytes behind it, which are CPython's own",
    "module": "what a command's module may leave out: its text, its examples, its subcommands",
    "aiohttp": "middlewares, which its older versions lack",
    "fields": "a mapping, told from pairs without loading what has its type",
    "response.auth": "a mapping, in what an author's function gave",
    "request": "what requests keeps to itself of a body that was sent once",
    "self.transport": "httpx's pool, which is private",
    "getattr(self.transport, '_pool', None)": "as above",
}
# Sentences that are cut on purpose, by file and what is cut, each with its reason.
CUT: dict[tuple[str, str], str] = {}


def probes(tree: ast.Module) -> Iterator[ast.Call]:
    """Every ``getattr`` with a literal name and a default, and every ``hasattr``."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and len(node.args) > 1:
            is_probe = node.func.id == "getattr" and len(node.args) == 3
            is_literal = isinstance(node.args[1], ast.Constant)
            if is_literal and (is_probe or node.func.id == "hasattr"):
                yield node


def is_sentence(node: ast.expr) -> bool:
    """Tell whether an expression is an error's text: ``error.message``, ``str(error)``."""
    if isinstance(node, ast.Attribute):
        return node.attr in SENTENCES
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("str", "repr"):
        return bool(node.args) and isinstance(node.args[0], ast.Name) and node.args[0].id in ERRORS
    return False


def names_of_sentences(scope: ast.AST) -> set[str]:
    """The variables of a function that hold an error's text."""
    found = set()
    for node in ast.walk(scope):
        if isinstance(node, ast.Assign) and len(node.targets) == 1:
            target, value = node.targets[0], node.value
            pairs = [(target, value)]
            if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
                pairs = list(zip(target.elts, value.elts, strict=True))
            found |= {left.id for left, right in pairs if isinstance(left, ast.Name) and is_sentence(right)}
    return found


def cuts(tree: ast.Module) -> Iterator[ast.expr]:
    """Every sentence that is looked into: by a method, by ``in``, by comparing it with a text, or by a pattern."""
    yield from cuts_in(tree, set())
    for scope in ast.walk(tree):
        if isinstance(scope, ast.FunctionDef | ast.AsyncFunctionDef):
            names = names_of_sentences(scope)
            found = cuts_in(scope, names) if names else ()
            yield from (each for each in found if isinstance(each, ast.Name))


def cuts_in(scope: ast.AST, names: Collection[str]) -> Iterator[ast.expr]:
    """The same in one part of a module, in which *names* are sentences, too."""

    def is_text(node: ast.expr) -> bool:
        return is_sentence(node) or (isinstance(node, ast.Name) and node.id in names)

    for node in ast.walk(scope):
        if isinstance(node, ast.Compare):
            is_found = any(isinstance(how, ast.In | ast.NotIn) for how in node.ops)
            yield from (each for each in node.comparators if is_found and is_text(each))
            is_literal = any(isinstance(each, ast.Constant) and each.value for each in node.comparators)
            if is_literal and is_text(node.left):
                yield node.left
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            inner = node.func.value
            # error.message.lower().startswith(...) looks into the message too.
            while isinstance(inner, ast.Call) and isinstance(inner.func, ast.Attribute):
                inner = inner.func.value
            if node.func.attr in CUTS and is_text(inner):
                yield inner
            if node.func.attr in SEARCHES:
                yield from (each for each in node.args if is_text(each))


@cache
def trees() -> tuple[tuple[str, ast.Module], ...]:
    """Every module of the source by its path."""
    paths = sorted(SOURCE.rglob("*.py"))
    return tuple((path.relative_to(SOURCE).as_posix(), ast.parse(path.read_bytes())) for path in paths)


def test_nothing_is_probed_for_an_attribute() -> None:
    """What may lack an attribute gets a type that says so; PROBES has the rest."""
    found = {
        (name, probe.lineno, ast.unparse(probe.args[0])) for name, tree in trees() for probe in probes(tree)
    }
    assert [each for each in sorted(found) if each[2] not in PROBES] == []
    assert {each[2] for each in found} == set(PROBES)


def test_no_sentence_decides() -> None:
    """What a sentence says is known to whoever wrote it, and stands beside it in a field; CUT has the rest."""
    found = {(name, cut.lineno, ast.unparse(cut)) for name, tree in trees() for cut in cuts(tree)}
    assert [each for each in sorted(found) if (each[0], each[2]) not in CUT] == []
    assert {(each[0], each[2]) for each in found} == set(CUT)


@pytest.mark.parametrize(
    "text",
    [
        "error.message.startswith('x')",
        "'x' in error.message",
        "'x' not in str(error)",
        "refusal.kubernetes_text.lower().endswith('x')",
        "finding.problem.rpartition(': ')[2]",
        "error.message == 'x'",
        "re.match('x', str(failure))",
        "_PATTERN.search(error.kubernetes_text)",
        "def f(error):\n    text = error.message\n    return text.startswith('x')",
    ],
)
def test_a_sentence_that_decides_is_found(text: str) -> None:
    assert len(list(cuts(ast.parse(text)))) == 1


@pytest.mark.parametrize("text", ["getattr(error, 'cause', None)", "hasattr(error, 'status')"])
def test_a_probe_is_found(text: str) -> None:
    assert len(list(probes(ast.parse(text)))) == 1


@pytest.mark.parametrize(
    "text", ["error.message == ''", "f'{error.message}'", "getattr(entry, name)", "name.startswith('x')"]
)
def test_what_decides_nothing_is_passed_over(text: str) -> None:
    tree = ast.parse(text)
    assert [*cuts(tree), *probes(tree)] == []
