"""The reference of the library, the SDK and the wire types: one entry with its own anchor for each public name."""

from __future__ import annotations

import ast
import pkgutil
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from importlib import import_module
from types import FunctionType, ModuleType

import keyferry
from keyferry import api, errors, sdk
from reference.classes import attributes_of, base_names, is_promised, named_types, own_lineage
from reference.source import (
    class_of,
    comment_on,
    decorators_of,
    docstring_of,
    function_of,
    home_of,
    literal_text,
    signature_text,
    tree_of,
    type_text,
)

__all__ = ["api_page", "sdk_modules", "sdk_page", "slug", "wire_modules", "wire_page"]

# The parts of the page of `keyferry`, and the rooms whose names they have.
ROOMS = {
    "Credentials for images": ("images", "_core"),
    "Explanations": ("explain", "workloads"),
    "Clusters": ("clusters", "invoke"),
    "Pulls and records": ("pulls",),
    "Metrics": ("metrics",),
}
ADAPTERS = ("httpx", "requests", "aiohttp", "kubernetes")
# Modules of the SDK for keyferry's own plugins.
_NOT_PROMISED = {"federation", "stdio"}
_ABOUT_ERRORS = """\
All of these names are also in `keyferry`. Every error has a `kind`, one of the closed set `Kind`, and the command \
line has an exit code for each kind. Programs decide by the type and the kind of an error; its text is for people. \
`kubernetes_text` is what Kubernetes would have logged; it may quote a plugin's standard error, so do not log it."""

_ABOUT_ATTRIBUTE_TYPES = """\
Values of attributes, properties and methods of the classes above. These classes are not in `keyferry`, and a program \
does not make them itself. Their attributes and properties are promised; their modules, constructors and methods are \
not."""


@dataclass(frozen=True)
class Section:
    """Names of one module under one heading; *prefix* makes the anchors of a page differ."""

    title: str
    module: ModuleType
    names: Sequence[str]
    about: str = ""
    prefix: str = ""
    has_methods: bool = True

    @property
    def anchors(self) -> dict[str, str]:
        """The anchor of each name."""
        return {name: slug(self.prefix + name) for name in self.names}


def slug(heading: str) -> str:
    """Return the anchor of a heading."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def api_page() -> str:
    """Return the page of ``keyferry``, ``keyferry.errors`` and the adapters."""
    homes = {name: home.partition(".")[0] for name, home in vars(keyferry)["_HOMES"].items()}
    sections = [
        Section(title, keyferry, [name for name in keyferry.__all__ if homes[name] in rooms])
        for title, rooms in ROOMS.items()
    ]
    sections.append(Section("`keyferry.errors`", errors, errors.__all__, _ABOUT_ERRORS))
    missing = set(keyferry.__all__).difference(*(section.names for section in sections))
    if missing:
        raise LookupError(f"in no part of the page: {sorted(missing)}")
    sections += [_module_section(f"keyferry.clusters.adapters.{name}", f"{name}.") for name in ADAPTERS]
    about = (
        "Every public name, with its signature. [The library](library.md) is the guide to them;"
        " [the SDK](api-sdk.md) and [the wire types](api-wire.md) have pages of their own."
        " What is on none of these pages may change in any release."
    )
    return _page("The names of `keyferry`", about, [*sections, _attribute_types(sections)])


def sdk_page() -> str:
    """Return the page of ``keyferry.sdk`` and its modules."""
    sections = [Section("`keyferry.sdk`", sdk, sdk.__all__)]
    sections += [_module_section(f"keyferry.sdk.{name}", f"{name}.") for name in sdk_modules()]
    about = "Every public name for authors of plugins. [Write a plugin](sdk.md) is the guide to them."
    return _page("The names of `keyferry.sdk`", about, sections)


def sdk_modules() -> list[str]:
    """Return the modules of the SDK that are public beside the door."""
    behind_the_door = {home.removeprefix("sdk.") for home in vars(sdk)["_HOMES"].values()}
    found = [each.name for each in pkgutil.iter_modules(sdk.__path__)]
    return [name for name in found if name not in behind_the_door and name not in _NOT_PROMISED]


def wire_page() -> str:
    """Return the page of ``keyferry.api``."""
    names = ("keyferry.api.meta", "keyferry.api.wire", *wire_modules())
    sections = [_module_section(name, f"{name.removeprefix('keyferry.api.')}.") for name in names]
    about = (
        "The wire types, by group and version: data, without files and processes. v1 has the types; older versions"
        " are read into them, and refuse the fields that they never had. Each type is read with `from_document` and"
        " written with `to_document`, see [WireValue](#wirewirevalue). [The library](library.md) uses them."
    )
    return _page("The names of `keyferry.api`", about, sections)


def wire_modules() -> list[str]:
    """Return the modules of wire types, by group; the newest version, which has the types, first."""
    found = [
        each.name
        for each in pkgutil.walk_packages(api.__path__, "keyferry.api.")
        if re.search(r"\.v\d+((alpha|beta)\d+)?$", each.name)
    ]
    return sorted(found, key=lambda name: (name.rpartition(".")[0], "alpha" in name, "beta" in name))


def _module_section(name: str, prefix: str) -> Section:
    module = import_module(name)
    return Section(f"`{name}`", module, module.__all__, docstring_of(tree_of(module)), prefix)


def _page(title: str, about: str, sections: list[Section]) -> str:
    """Return a page: an index, then every name."""
    index = "".join(f"- [{each.title}](#{slug(each.title)}): {_index(each)}\n" for each in sections)
    parts = [f"# {title}\n", f"{about}\n", index]
    known = {name: anchor for each in reversed(sections) for name, anchor in each.anchors.items()}
    shown: dict[int, str] = {}
    for section in sections:
        parts.append(f"## {section.title}\n")
        if section.about:
            parts.append(f"{_markdown(section.about, known)}\n")
        for name in section.names:
            parts.append(f"### `{section.prefix}{name}`\n")
            parts += _entry(section, name, known | section.anchors, shown)
    return "\n".join(parts)


def _attribute_types(sections: list[Section]) -> Section:
    """Return the classes that have no entry on any page, and that parts of the classes in *sections* have as values."""
    known = {name for each in sections for name in each.names}
    values = [getattr(each.module, name) for each in sections for name in each.names]
    waiting = [each for each in values if isinstance(each, type)]
    found = ModuleType("attributes")
    names: set[str] = set()
    while waiting:
        for value in named_types(waiting.pop(), known | names):
            if not value.__module__.startswith(f"{api.__name__}."):  # the wire types have a page
                setattr(found, value.__name__, value)
                names.add(value.__name__)
                waiting.append(value)
    return Section("Types of attributes", found, sorted(names), _ABOUT_ATTRIBUTE_TYPES, has_methods=False)


def _index(section: Section) -> str:
    return ", ".join(f"[`{name}`](#{anchor})" for name, anchor in section.anchors.items())


def _entry(section: Section, name: str, known: dict[str, str], shown: dict[int, str]) -> Iterator[str]:
    """Yield the parts of one name's entry; an object that the page has already is referred to."""
    value = getattr(section.module, name)
    if not callable(value):
        yield from _constant(section.module, name, value)
    elif id(value) in shown:
        yield f"The same as [`{shown[id(value)]}`](#{slug(shown[id(value)])}).\n"
    else:
        shown[id(value)] = section.prefix + name
        others = {each: anchor for each, anchor in known.items() if each != name}
        if isinstance(value, type):
            yield from _class(value, section.prefix + name, others, has_methods=section.has_methods)
        else:
            node = function_of(value)
            yield _code(signature_text(node, name, import_module(value.__module__)))
            yield f"{_markdown(docstring_of(node), others)}\n"


def _constant(module: ModuleType, name: str, value: object) -> Iterator[str]:
    is_short = isinstance(value, str | int)
    yield _code(f"{name} = {literal_text(value)}" if is_short else f"{name}: {type(value).__name__}")
    about = comment_on(home_of(module, name), name)
    if about:
        yield f"{_markdown(about, {})}\n"


def _class(value: type, name: str, known: dict[str, str], *, has_methods: bool) -> Iterator[str]:
    """Yield a class: its attributes, what it is, its properties and methods, with those of bases without an entry."""
    bases = base_names(value, known)
    head = f"class {value.__name__}" + (f"({', '.join(bases)})" if bases else "")
    lines = attributes_of(value, known, has_constructor=has_methods)
    yield _code(f"{head}:" + ("".join(f"\n    {line}".rstrip(" ") for line in lines) or " ..."))
    yield f"{_markdown(docstring_of(class_of(value)), known)}\n"
    public = [f"[`{each}`](#{known[each]})" for each in bases if each in known]
    if public:
        yield f"It also has what {' and '.join(public)} has.\n"
    if not issubclass(value, StrEnum):
        yield from _members(value, name, known, has_methods=has_methods)


def _members(value: type, name: str, known: dict[str, str], *, has_methods: bool) -> Iterator[str]:
    """Yield properties as a list, then each method with a heading of its own unless the page leaves them out."""
    methods: dict[str, list[str]] = {}
    properties: dict[str, str] = {}
    for each in reversed(own_lineage(value, known)):
        module, node = import_module(each.__module__), class_of(each)
        for function in node.body:
            if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef) or function.name[0] == "_":
                continue
            if not is_promised(value, function.name):
                continue
            about = _markdown(docstring_of(function), known)
            if isinstance(vars(each)[function.name], FunctionType | classmethod | staticmethod):
                marks = sorted(decorators_of(function) & {"classmethod", "staticmethod"})
                code = "".join(f"@{mark}\n" for mark in marks) + signature_text(
                    function, function.name, module
                )
                methods[function.name] = [f"#### `{name}.{function.name}`\n", _code(code), f"{about}\n"]
            else:
                returned = type_text(function.returns, module)
                properties[function.name] = f"- `{function.name}: {returned}`: {about}"
    if properties:
        yield "\n".join([*properties.values(), ""])
    for parts in methods.values() if has_methods else ():
        yield from parts


def _code(text: str) -> str:
    return f"```python\n{text}\n```\n"


def _markdown(text: str, known: dict[str, str]) -> str:
    """Return a docstring in Markdown; names of the page lead to their entries."""
    plain = re.sub(r":class:`([^`]+)`", r"\1", text).replace("``", "`")
    return "".join(_linked(piece, known) for piece in re.split(r"(`[^`]*`)", plain))


def _linked(piece: str, known: dict[str, str]) -> str:
    if piece.startswith("`"):
        name = piece.strip("`")
        return f"[{piece}](#{known[name]})" if name in known else piece

    def link(found: re.Match[str]) -> str:
        # Words with one capital, such as "Source", are mostly meant as words.
        is_name = re.search(r"[a-z][A-Z]", found[0]) and found[0] in known
        return f"[{found[0]}](#{known[found[0]]})" if is_name else found[0]

    return re.sub(r"(?<![\w.*])[A-Z]\w*[a-z]\w*", link, piece.replace("<", "&lt;"))
