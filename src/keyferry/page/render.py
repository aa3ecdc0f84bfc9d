"""The views of the page as HTML."""

from html import escape

from keyferry._core.values import Value
from keyferry.page.model import ExplainedPull, PageModel

__all__ = ["RenderedView", "render_notice", "render_view", "static_file"]

_FILES = {
    "page.css": (b"body { font-family: system-ui }\n", "text/css; charset=utf-8"),
    "page.js": (b'"use strict";\n', "text/javascript; charset=utf-8"),
}
_NAMES = ("providers", "answers", "decisions", "explain", "reloads", "callers", "settings")


class RenderedView(Value):
    """A view: its title, the whole document, and its live parts by their element ids.

    *is_found* is false if the address names an entry that is gone.
    """

    title: str
    html: str
    sections: dict[str, str]
    is_found: bool = True


def render_view(
    model: PageModel, path: str, query: dict[str, str], explained: ExplainedPull | None = None
) -> RenderedView | None:
    """Return the view at *path*, or None if there is none."""
    first = path.strip("/").partition("/")[0]
    if first and first not in _NAMES:
        return None
    sections = {
        "health": _part(model.health.headline, *model.health.problems),
        "providers": _part("providers", *model.providers),
        "answers": _part("answers", *model.lives),
        "decisions": _part("decisions", *model.decisions),
        "reloads": _part("reloads", *model.reloads),
        "callers": _part("callers", *model.callers),
        "settings": _part("settings", *model.settings),
        "explain": _part("explain", query.get("image", ""), explained),
    }
    kept = {name: html for name, html in sections.items() if not first or name in (first, "health")}
    body = "".join(f'<section id="{name}">{html}</section>' for name, html in kept.items())
    return RenderedView(model.node, _document(model.node, body), kept)


def static_file(name: str) -> tuple[bytes, str] | None:
    """Return a file of the page and its type, or None if there is none of this name."""
    return _FILES.get(name)


def render_notice(title: str, text: str, command: str) -> str:
    """Return a page that says why there is no other, and which command helps."""
    return _document(title, f"<h1>{escape(title)}</h1><p>{escape(text)}</p><pre>{escape(command)}</pre>")


def _part(title: str, *values: object) -> str:
    items = "".join(f"<li>{escape(str(value))}</li>" for value in values)
    return f"<h2>{escape(title)}</h2><ul>{items}</ul>"


def _document(title: str, body: str) -> str:
    head = (
        f'<meta charset="utf-8"><title>{escape(title)}</title><link rel="stylesheet" href="/static/page.css">'
    )
    return f'<!doctype html><html lang="en"><head>{head}</head><body>{body}</body></html>'
