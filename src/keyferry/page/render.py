"""The page as HTML: views of a model, notices, and the files that every view uses.

Everything in a model is text from elsewhere. It is escaped by the templates, and characters that could reorder or hide
text are replaced, wherever a template writes a value. No template has an inline style, an inline script or a handler.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from functools import cache

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from keyferry._core.secrets import printable
from keyferry._core.values import Value
from keyferry.images.provider.state import ProviderState
from keyferry.page import wording
from keyferry.page.model import ExplainedPull, Health, PageModel, ProblemLevel, StepState
from keyferry.page.views import find_view
from keyferry.show.text import duration_text

_SVG = "image/svg+xml"
_STATIC = {
    "page.css": "text/css; charset=utf-8",
    "page.js": "text/javascript; charset=utf-8",
    "icon.svg": _SVG,
}
# The mark of keyferry with the state in its corner, for the tab: a dot for one that is not well, a ring for unknown.
_STATE_ICONS = {
    "icon-warning.svg": '<circle cx="18" cy="18" r="6" fill="#e09b1a" stroke="#fff" stroke-width="2"/>',
    "icon-bad.svg": '<circle cx="18" cy="18" r="6" fill="#d92d20" stroke="#fff" stroke-width="2"/>',
    "icon-unknown.svg": '<circle cx="18" cy="18" r="5" fill="#fff" stroke="#566173" stroke-width="3"/>',
}
_MENU = (
    ("", "Overview"),
    ("providers", "Providers"),
    ("answers", "Answers"),
    ("decisions", "Decisions"),
    ("explain", "Explain"),
    ("reloads", "Reloads"),
    ("callers", "Callers"),
    ("settings", "Settings"),
)
# A mark and words for each state: never a colour alone.
_STATES = {
    ProviderState.UNUSED: ("none", "not used yet"),
    ProviderState.WELL: ("well", "well"),
    ProviderState.UNSTABLE: ("warning", "unstable"),
    ProviderState.NO_CREDENTIAL: ("warning", "no credential in its last answer"),
    ProviderState.RENEWAL_FAILS: ("warning", "renewal fails, still served"),
    ProviderState.FAILING: ("bad", "failing"),
}
_TITLE_MARKS = {str(ProblemLevel.BAD): "\N{BALLOT X}", str(ProblemLevel.WARNING): "!"}
_STEPS = {
    StepState.USED: ("well", "used"),
    StepState.PASSED: ("none", "no effect"),
    StepState.BROKEN: ("bad", "broken"),
    StepState.UNKNOWN: ("unknown", "not known here"),
}
_SOURCES = {"cache": "from the cache", "run": "the plugin was run", "shared": "another lookup's run"}
_OUTCOMES = {
    "answered": "well",
    "no-credential": "warning",
    "no-match": "none",
    "failed": "bad",
    "refused": "warning",
    "evicted": "warning",
}


class RenderedView(Value):
    """A view as HTML: the whole document, and each live part of it by its element id.

    *is_found* is false if the address names an entry that is gone; the view then says so.
    """

    title: str
    html: str
    sections: dict[str, str]
    is_found: bool = True


def render_view(
    model: PageModel, path: str, query: Mapping[str, str], explained: ExplainedPull | None = None
) -> RenderedView | None:
    """Return the view of *model* that *path* and *query*, both decoded, name, or None for an unknown path."""
    view = find_view(model, path, query, explained)
    if view is None:
        return None
    place = path.strip("/").partition("/")[0]
    values = {"model": model, "place": place, "title": view.title, **view.context}
    sections = {"health": _render("parts/health.html", values)}
    for part in view.parts:
        sections[part] = _render(f"parts/{part if view.is_found else 'gone'}.html", values)
    parts = {name: Markup(html) for name, html in sections.items()}  # noqa: S704 - rendered by the templates above
    return RenderedView(
        title=view.title,
        html=_render(view.template, values | {"parts": parts}),
        sections=sections,
        is_found=view.is_found,
    )


def render_notice(title: str, text: str, command: str) -> str:
    """Return a document that says why there is no view, and the command to type next; it may be empty."""
    return _render("notice.html", {"title": title, "text": text, "command": command})


def static_file(name: str) -> tuple[bytes, str] | None:
    """Return the content and the type of a file that views refer to as ``/static/NAME``, or None."""
    if name in _STATE_ICONS:
        plain = _read_static("icon.svg")
        return plain.replace(b"</svg>", f"{_STATE_ICONS[name]}</svg>".encode()), _SVG
    return (_read_static(name), _STATIC[name]) if name in _STATIC else None


@cache
def _read_static(name: str) -> bytes:
    with open(os.path.join(os.path.dirname(__file__), "static", name), "rb") as file:
        return file.read()


def _render(template: str, values: Mapping[str, object]) -> str:
    return _environment().get_template(template).render(values)


@cache
def _environment() -> Environment:
    found = Environment(
        loader=PackageLoader("keyferry.page"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_harmless,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    found.filters |= {
        "base_name": wording.base_name,
        "breakable": _breakable,
        "count": wording.count_text,
        "instant": wording.instant_text,
        "iso": wording.instant_iso,
        "local": wording.local_path,
        "parted": wording.split_name,
        "spelt": wording.spell_word,
    }
    found.globals |= {
        "counted": wording.counted,
        "duration": duration_text,
        "link_to": wording.link_to,
        "outcome_marks": _OUTCOMES,
        "menu": _MENU,
        "source_words": _SOURCES,
        "percent": wording.percent_text,
        "time_of_day": wording.time_of_day,
        "title_mark": _title_mark,
        "state_words": _STATES,
        "step_words": _STEPS,
    }
    return found


def _title_mark(health: Health) -> str:
    """Return what the title of a tab begins with, so that one in the background tells as well how the agent does.

    It counts the problems of the level that the mark tells.
    """
    mark = _TITLE_MARKS.get(health.level)
    number = sum(each.level == health.level for each in health.problems)
    return f"{mark} {wording.count_text(number)} · " if mark else ""


def _breakable(text: str) -> Markup:
    """Return a text whose long names may be broken after their dots and slashes, too, on a narrow screen."""
    pieces = re.split(r"(?<=[./])(?=\w)", printable(text))
    return Markup("<wbr>").join(pieces)  # it escapes each piece


def _harmless(value: object) -> object:
    """Return text from elsewhere without characters that hide or reorder text; other values as they are."""
    if isinstance(value, Markup):
        return value
    return printable(str(value)) if isinstance(value, str) else value
