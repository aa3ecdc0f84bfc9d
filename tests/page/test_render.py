"""The page as HTML: whole documents, live parts, text that stays text."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

import pytest

from keyferry._core.values import Value, fields, replace
from keyferry.images.provider.state import ProviderState
from keyferry.page import model as models
from keyferry.page.model import ExplainedPull, LastError, PageModel
from keyferry.page.render import RenderedView, render_notice, render_view, static_file
from support.page_models import ECR, NOW, crowded_model, empty_model, explanation, troubled_model, usual_model

ROOT = Path(__file__).resolve().parents[2]
PATHS = (
    "/",
    "/providers",
    "/providers/ecr-credential-provider",
    "/providers/acr-credential-provider",
    "/providers/keyferry-federate",
    "/answers",
    "/answers/105",
    "/decisions",
    "/decisions/48213",
    "/decisions/48202",
    "/explain?image=a",
    "/reloads",
    "/callers",
    "/settings",
)
VOID = {"meta", "link", "img", "input", "br", "wbr"}
# Text that would be code if it were not escaped, with characters that hide or reorder text.
HOSTILE = "\"'><script>alert(1)</script><img src=x onerror=alert(1)>{{ 7 * 7 }}&amp;\u202e\x1b[31m\x00\udc80"
SHOWN = (
    "\"'><script>alert(1)</script><img src=x onerror=alert(1)>{{ 7 * 7 }}&amp;\ufffd\ufffd[31m\ufffd\ufffd"
)


class Document(HTMLParser):
    """The elements, attributes and text of a document; unbalanced elements are an error."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str, str]] = []
        self.ids: list[str] = []
        self.text = ""
        self.open: list[str] = []
        self.feed(html)
        self.close()
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note an element that begins."""
        self.tags.append(tag)
        self.attributes += [(tag, name, value or "") for name, value in attrs]
        self.ids += [value or "" for name, value in attrs if name == "id"]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note an element that ends at once."""
        self.handle_starttag(tag, attrs)
        self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        """Check that the innermost element ends."""
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        """Add text."""
        self.text += data


def view(model: PageModel, target: str, explained: ExplainedPull | None = None) -> RenderedView | None:
    address = urlsplit(target)
    query = dict(parse_qsl(address.query))
    is_asked = address.path == "/explain" and "image" in query
    return render_view(
        model, unquote(address.path), query, explained=(explained or explanation()) if is_asked else None
    )


def document(model: PageModel, target: str, explained: ExplainedPull | None = None) -> Document:
    found = view(model, target, explained)
    assert found is not None
    return Document(found.html)


def check_harmless(page: Document) -> None:
    """Fail on an inline script, style or handler, on an address elsewhere, and on elements that no template has."""
    assert page.tags.count("script") == 1
    assert page.tags.count("img") == 1
    assert not {"style", "iframe", "object", "embed", "base"} & set(page.tags)
    for tag, name, value in page.attributes:
        assert not name.startswith("on"), (tag, name)
        assert name != "style", tag
        if name in ("href", "src", "action"):
            assert value.startswith(("/", "#")), (tag, value)
            assert not value.startswith("//"), (tag, value)


@pytest.mark.parametrize(
    "make", [usual_model, empty_model, partial(crowded_model, 40, 1000)], ids=["usual", "empty", "crowded"]
)
def test_every_view_is_a_well_formed_document_with_its_live_parts(make: Any) -> None:
    """Without inline code; each live part is there under its id."""
    model = make()
    for path in PATHS:
        found = view(model, path)
        assert found is not None
        page = Document(found.html)
        check_harmless(page)
        assert len(page.ids) == len(set(page.ids)), path
        assert (page.tags.count("h1"), page.tags.count("main")) == (1, 1), path
        assert "health" in found.sections
        assert len(found.sections) > 1
        for name, html in found.sections.items():
            assert html in found.html
            assert Document(html).ids[0] == name


def test_every_link_of_every_view_leads_to_a_view() -> None:
    model, seen, waiting = usual_model(), set(), ["/"]
    while waiting:
        target = waiting.pop()
        seen.add(target)
        found = view(model, target)
        assert found is not None, target
        assert found.is_found, target
        links = [
            value for tag, name, value in Document(found.html).attributes if (tag, name) == ("a", "href")
        ]
        waiting += {each for each in links if each.startswith("/")} - seen - set(waiting)
    assert len(seen) > len(model.lives)


def texts(cls: type[Value]) -> Iterator[str]:
    """The fields of a class that hold text: one, or a tuple of them."""
    for name, hint in cls.__annotations__.items():
        if hint in ("str", "tuple[str, ...]", "tuple[tuple[str, str, str], ...]"):
            yield name


CLASSES = [each for each in vars(models).values() if getattr(each, "__module__", "") == models.__name__]
FIELDS = [(cls.__name__, name) for cls in CLASSES if issubclass(cls, Value) for name in texts(cls)]
# A link, and the name of a step, which are not shown.
NOT_SHOWN = {("HealthProblem", "link"), ("ExplainedStep", "name")}


def spoilt(value: Any, cls: str, field: str) -> Any:
    """The same value with hostile text in one field of one class, wherever it occurs."""
    if isinstance(value, tuple):
        return tuple(spoilt(each, cls, field) for each in value)
    if not isinstance(value, Value):
        return value
    own = {name: spoilt(getattr(value, name), cls, field) for name in fields(value)}
    if type(value).__name__ == cls:
        own[field] = hostile(own[field])
    return replace(value, **own)


def hostile(value: object) -> object:
    if isinstance(value, str):
        return HOSTILE
    assert isinstance(value, tuple)
    return tuple(map(hostile, value)) or (HOSTILE,)


@pytest.mark.parametrize(("cls", "field"), FIELDS)
def test_text_of_others_stays_text_in_every_view(cls: str, field: str) -> None:
    model, explained = spoilt(usual_model(), cls, field), spoilt(explanation(), cls, field)
    is_shown = False
    for path in PATHS:
        found = view(model, path, explained)
        assert found is not None
        page = Document(found.html)
        check_harmless(page)
        assert "\u202e" not in found.html
        assert "\x1b" not in found.html
        assert found.html.encode()
        is_shown |= SHOWN in page.text or ("option", "value", SHOWN) in page.attributes
        is_shown |= ("bdi", "title", SHOWN) in page.attributes  # of a path, whose last part is in the text
    if field == "place_options":  # of a node without providers
        empty = view(replace(model, providers=()), "/", explained)
        assert empty is not None
        is_shown = SHOWN in Document(empty.html).text
    if field == "socket_options":  # before the first reload
        empty = view(replace(model, reloads=()), "/reloads", explained)
        assert empty is not None
        is_shown = SHOWN in Document(empty.html).text
    assert is_shown is ((cls, field) not in NOT_SHOWN)


def test_what_an_address_says_stays_text() -> None:
    for path in ("/providers", "/answers", "/decisions", "/explain", "/callers"):
        query = dict.fromkeys(
            ("q", "provider", "account", "span", "state", "outcome", "page", "image"), HOSTILE
        )
        found = render_view(usual_model(), path, query)
        assert found is not None
        check_harmless(Document(found.html))
    for path in (f"/providers/{HOSTILE}", f"/answers/{HOSTILE}"):
        found = render_view(usual_model(), path, {})
        assert found is not None
        check_harmless(Document(found.html))


def test_a_name_of_a_provider_leads_to_its_view_whatever_it_has() -> None:
    model = usual_model()
    for name in ("a/b", "100%", "ä ö", "?x=1#y", "%41"):
        odd = replace(model, providers=(replace(model.providers[0], name=name),))
        links = [value for _, key, value in document(odd, "/").attributes if key == "href"]
        (link,) = {each for each in links if each.startswith("/providers/") and "acr-" not in each}
        found = view(odd, link)
        assert found is not None
        assert found.title == name


@pytest.mark.parametrize("path", PATHS)
def test_nothing_changes_with_the_time_alone(path: str) -> None:
    """What is relative to now is the script's business, so that an unchanged page is not sent each second."""
    model = usual_model()
    now, later = view(model, path), view(replace(model, now=NOW + 1), path)
    assert now is not None
    assert later is not None
    assert now.sections == later.sections


def test_a_fresh_node_is_told_the_next_command() -> None:
    page = document(empty_model(), "/")
    assert "No provider is configured" in page.text
    assert "All is well" not in page.text
    assert ("section", "class", "health is-none") in page.attributes
    assert "keyferry doctor" in page.text
    assert "keyferry get IMAGE" in page.text
    page = document(replace(empty_model(), place_options=" --config /my.yaml"), "/")
    assert "keyferry doctor --config /my.yaml" in page.text
    assert "keyferry get IMAGE --config /my.yaml" in page.text
    model = replace(empty_model(), place_options=" --config /my.yaml")
    found = render_view(model, "/explain", {"image": "x"}, explained=None)
    assert found is not None
    assert "keyferry explain IMAGE --config /my.yaml" in Document(found.html).text


def test_the_row_of_a_failed_decision_says_why() -> None:
    """The plugin once, and how it failed; the whole sentence is on the view of the decision."""
    [row] = [each for each in usual_model().decisions if each.outcome == "failed"]
    assert (
        "acr-credential-provider · did not finish within 60 s" in document(usual_model(), "/decisions").text
    )
    assert row.reason in document(usual_model(), f"/decisions/{row.identifier}").text


def test_the_title_counts_what_its_mark_stands_for() -> None:
    """Of one problem and two warnings, it tells the problem; without problems, the warnings."""
    health = troubled_model().health
    bad, *warnings = health.problems
    assert document(troubled_model(), "/").text.strip().startswith("\N{BALLOT X} 1 · ")
    milder = replace(troubled_model(), health=replace(health, problems=tuple(warnings)))
    assert document(milder, "/").text.strip().startswith("! 2 · ")
    assert [each.level for each in (bad, *warnings)] == ["bad", "warning", "warning"]


def test_every_state_and_outcome_is_a_word_and_not_a_colour_alone() -> None:
    text = document(usual_model(), "/").text
    for word in ("well", "renewal fails, still served", "not used yet", "answered", "no match"):
        assert word in text


LONG_AGO = LastError(text="long ago", said="", hidden="", at=NOW, image="")


def test_an_answer_without_a_credential_has_a_mark_of_its_own() -> None:
    """Of the decision and of the provider, and in the filters of both."""
    usual = usual_model()
    decision = replace(usual.decisions[0], outcome="no-credential")
    card = replace(usual.providers[0], state=ProviderState.NO_CREDENTIAL, last_error=LONG_AGO)
    model = replace(usual, providers=(card,), decisions=(decision,))
    for path, words in (("/decisions", "no credential"), ("/providers", "no credential in its last answer")):
        found = view(model, path)
        assert found is not None
        html = found.html
        assert f'<option value="no-credential">{words}</option>' in html
        assert re.search(rf'<span class="badge is-warning"><svg [^>]*>.*?</svg>{words}</span>', html)
        assert "long ago" not in html


def test_an_unknown_outcome_is_shown_as_it_is() -> None:
    model = usual_model()
    odd = replace(model, decisions=(replace(model.decisions[0], outcome="of-a-later-version"),))
    assert "of a later version" in document(odd, "/decisions").text


def test_instants_that_are_no_date_are_shown() -> None:
    model = usual_model()
    endless = replace(model, lives=(replace(model.lives[0], expires=float("inf")),))
    for path in ("/", "/answers", "/answers/101"):
        assert "no end" in document(endless, path).text


@pytest.mark.parametrize(
    ("number", "text"), [(0.12, "0.1 ms"), (412.4, "412 ms"), (1040.0, "1.0 s"), (60_020.0, "60.0 s")]
)
def test_a_duration_is_in_a_unit_that_people_can_read(number: float, text: str) -> None:
    model = usual_model()
    row = replace(model.decisions[0], milliseconds=number)
    assert text in document(replace(model, decisions=(row,)), "/decisions").text


def commands(html: str) -> list[str]:
    """What the copy buttons of a view copy."""
    found = re.findall(r'<code class="copied">(.*?)</code>', html)
    return [Document(each).text for each in found]


def test_every_command_of_a_cure_and_of_an_explanation_can_be_copied() -> None:
    """And no option is broken after its hyphens."""
    model = usual_model()
    cure = model.providers[1].cure
    for path in ("/", f"/providers/{model.providers[1].name}"):
        found = view(model, path)
        assert found is not None
        assert cure in commands(found.html)
        assert '<span class="word">--config</span> /etc/' in found.html
    explained = explanation("new.azurecr.io/app:2", "shop/checkout")
    found = view(model, "/explain?image=a", explained)
    assert found is not None
    told = [*explained.cures, *explained.in_full]
    assert len(told) >= 4
    assert commands(found.html) == [line for each in told for line in each.lines]
    assert "keyferry" not in "".join(line for step in explained.steps for line in step.lines)


def test_there_is_nothing_to_do_about_a_good_verdict() -> None:
    model = usual_model()
    for image, is_told in ((f"{ECR}/a", False), ("new.azurecr.io/app", True)):
        found = view(model, "/explain?image=a", explanation(image, ""))
        assert found is not None
        assert ("What to do" in found.html) is is_told


def test_long_names_of_callers_are_cut_and_can_be_read_in_full() -> None:
    name = "n" * 250
    model = usual_model()
    caller = replace(model.callers[0], name=name, program=name)
    found = view(replace(model, callers=(caller,)), "/callers")
    assert found is not None
    assert f'<bdi class="two" title="{name}">{name}</bdi>' in found.html
    assert f'<bdi title="{name}">{name}</bdi>' in found.html


CSS = (static_file("page.css") or (b"", ""))[0].decode()
COLOURS = {
    scheme: dict(re.findall(r"--([\w-]+): (#[0-9a-f]+);", block))
    for scheme, block in zip(("light", "dark"), re.findall(r":root {(.*?)}", CSS, re.DOTALL), strict=True)
}
GROUNDS = ("panel", "ground", "sunk")
STATES = ("well", "warning", "bad")
# What is written, and drawn, on what. A window is told from its ground by its outline, which is tested below.
WRITTEN = [(each, ground) for each in ("text", "soft", "accent", *STATES) for ground in GROUNDS]
WRITTEN += [(each, f"{ground}-ground") for ground in STATES for each in ("text", "soft", ground)]
WRITTEN += [("accent-text", "accent"), ("gone-text", "gone")]
DRAWN = [(each, ground) for each in ("lived", "edge", "now", "accent") for ground in GROUNDS]


def brightness(colour: str) -> float:
    """The relative luminance of a colour, by WCAG 2.2."""
    digits = colour.removeprefix("#")
    full = digits if len(digits) == 6 else "".join(2 * each for each in digits)
    parts = [int(full[at : at + 2], 16) / 255 for at in (0, 2, 4)]
    red, green, blue = (
        each / 12.92 if each <= 0.04045 else ((each + 0.055) / 1.055) ** 2.4 for each in parts
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    dark, bright = sorted(map(brightness, (one, other)))
    return (bright + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("scheme", COLOURS)
def test_colours_have_the_contrast_that_wcag_asks_for(scheme: str) -> None:
    """4.5 for text (1.4.3), 3 for what a picture or a control consists of (1.4.11)."""
    colours = COLOURS[scheme]
    assert contrast("#fff", "#000") == pytest.approx(21)
    for pairs, least in ((WRITTEN, 4.5), (DRAWN, 3.0)):
        found = {pair: contrast(colours[pair[0]], colours[pair[1]]) for pair in pairs}
        assert {pair: round(each, 2) for pair, each in found.items() if each < least} == {}


def test_everything_is_drawn_in_a_colour_with_that_contrast() -> None:
    """But for decoration: the grid, the floor of a picture, and the sign within a mark."""
    tested, faint = {name for name, _ in (*DRAWN, *WRITTEN)}, set()
    for selector, rule in re.findall(r"^([^{}@\n]+) {([^}]*)}", CSS, re.MULTILINE):
        colours = re.findall(r"(?:fill|stroke): var\(--([\w-]+)\)", rule)
        if colours and tested.isdisjoint(colours):
            faint.add(selector)
    assert faint == {".grid", ".latency .floor", "symbol path"}


def test_a_notice_says_what_to_type() -> None:
    page = Document(render_notice("A link is needed", HOSTILE, "keyferry agent page"))
    check_harmless(page)
    assert SHOWN in page.text
    assert "keyferry agent page" in page.text
    assert "Pause" not in page.text
    assert "code" not in Document(render_notice("Gone", "nothing", "")).tags


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("page.css", "text/css; charset=utf-8"),
        ("page.js", "text/javascript; charset=utf-8"),
        ("icon.svg", "image/svg+xml"),
        ("icon-bad.svg", "image/svg+xml"),
        ("icon-warning.svg", "image/svg+xml"),
        ("icon-unknown.svg", "image/svg+xml"),
    ],
)
def test_static_files_have_their_type(name: str, kind: str) -> None:
    found = static_file(name)
    assert found is not None
    assert len(found[0]) > 100
    assert found[1] == kind


def test_the_page_the_site_and_the_readme_look_alike() -> None:
    """One mark, and one colour in light and in dark."""
    mark, _ = static_file("icon.svg") or (b"", "")
    assert (ROOT / "docs" / "site" / "mark.svg").read_bytes() == mark
    assert "docs/site/mark.svg" in (ROOT / "README.md").read_text("utf-8")[:200]
    settings = (ROOT / "mkdocs.yml").read_text("utf-8")
    assert "logo: site/mark.svg" in settings
    assert "favicon: site/mark.svg" in settings
    accents = {colours["accent"] for colours in COLOURS.values()}
    site = (ROOT / "docs" / "site" / "extra.css").read_text("utf-8")
    assert set(re.findall(r"--md-[\w-]*color: (#\w+)", site)) == accents
    assert COLOURS["light"]["accent"].encode() in mark
