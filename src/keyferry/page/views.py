"""Which view an address names, and what it shows of the model: its live parts and what their templates need."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import groupby
from typing import TypeVar

from keyferry._core.values import Value
from keyferry.images.provider.state import ProviderState
from keyferry.page.charts import SPANS, Axis, Bar, Column, draw_density, draw_life, make_axis
from keyferry.page.model import (
    CallerRow,
    DecisionRow,
    ExplainedPull,
    Life,
    PageModel,
    ProviderCard,
)
from keyferry.page.runs import draw_latency, draw_strip

Query = Mapping[str, str]
Context = dict[str, object]
Row = TypeVar("Row")

_PROVIDERS_A_PAGE, _DENSE_A_PAGE, _ANSWERS_A_PAGE, _DECISIONS_A_PAGE, _CALLERS_A_PAGE, _PATTERNS_A_PAGE = (
    24,
    100,
    50,
    50,
    100,
    500,
)
_OVERVIEW_CARDS, _OVERVIEW_LIVES, _OVERVIEW_DECISIONS, _OVERVIEW_RELOADS, _OVERVIEW_CALLERS = (
    8,
    8,
    12,
    3,
    5,
)
# With more providers than these, those that need no attention are one line each, and not a card.
_MAX_CARDS = 12
_MAX_CHOICES = 1000
_SUGGESTED_IMAGES, _SUGGESTED_ACCOUNTS = 50, 1000
# What is not well comes first.
_URGENCY = (
    *(
        ProviderState.FAILING,
        ProviderState.RENEWAL_FAILS,
        ProviderState.UNSTABLE,
        ProviderState.NO_CREDENTIAL,
    ),
    *(ProviderState.WELL, ProviderState.UNUSED),
)
_HEALTHY = (ProviderState.WELL, ProviderState.UNUSED)
# The choice of all states but the healthy ones.
_NOT_WELL = "not-well"


class ListPage(Value):
    """One page of a list: the rows from *start* to *last*, of how many, and which of how many pages it is."""

    total: int
    page: int
    pages: int
    start: int
    last: int


class LifeRow(Value):
    """An answer and its bar."""

    life: Life
    bar: Bar


class LifeGroup(Value):
    """The answers of one provider on a page, how many it has on all pages, and when those are renewed or end."""

    provider: str
    total: int
    density: tuple[Column, ...]
    rows: tuple[LifeRow, ...]


class View(Value):
    """A view: its title, its template, the templates of its live parts by element id, and their values."""

    title: str
    template: str
    parts: tuple[str, ...]
    context: Context
    is_found: bool = True


def find_view(model: PageModel, path: str, query: Query, explained: ExplainedPull | None) -> View | None:
    """Return the view that *path*, without escapes, names, or None. An entry that is gone has a view, which says so."""
    place, _, rest = path.strip("/").partition("/")
    if place == "explain" and not rest:
        return _explain(model, query, explained)
    make = _ENTRIES.get(place) if rest else None
    if make is not None:
        return make(model, rest)
    make_list = _LISTS.get(place)
    return None if make_list is None or rest else make_list(model, query)


def _overview(model: PageModel, _: Query) -> View:
    upcoming = sorted(
        model.lives, key=lambda each: each.expires if each.refresh_at is None else each.refresh_at
    )[:_OVERVIEW_LIVES]
    axis = make_axis(upcoming, model.now)
    return View(
        title="Overview",
        template="overview.html",
        parts=("figures", "cards", "upcoming", "recent", "last_reloads", "last_callers"),
        context={
            **_overview_providers(model),
            "axis": axis,
            "density": draw_density(model.lives, axis),
            "rows": _life_rows(upcoming, axis),
            "next_refresh": min(
                (each.refresh_at for each in model.lives if each.refresh_at is not None), default=None
            ),
            "recent": model.decisions[:_OVERVIEW_DECISIONS],
            "reloads": model.reloads[:_OVERVIEW_RELOADS],
            "callers": _callers(model)[:_OVERVIEW_CALLERS],
            **_suggestions(model),
        },
    )


def _by_urgency(model: PageModel) -> list[ProviderCard]:
    return sorted(model.providers, key=lambda each: _URGENCY.index(each.state))


def _overview_providers(model: PageModel) -> Context:
    """Return the cards; of many providers those that need attention, and a line for each of the others."""
    found = _by_urgency(model)
    if len(found) <= _MAX_CARDS:
        return {"cards": _cards(found), "unseen": 0, "lines": (), "healthy": 0}
    troubled, healthy = _parted(found)
    return {
        "cards": _cards(troubled[:_OVERVIEW_CARDS]),
        "unseen": len(troubled[_OVERVIEW_CARDS:]),
        "lines": healthy[:_DENSE_A_PAGE],
        "healthy": len(healthy),
    }


def _parted(providers: Iterable[ProviderCard]) -> tuple[list[ProviderCard], list[ProviderCard]]:
    """Return those that need attention, and the others."""
    troubled: list[ProviderCard] = []
    healthy: list[ProviderCard] = []
    for each in providers:
        (healthy if each.state in _HEALTHY else troubled).append(each)
    return troubled, healthy


def _cards(providers: Iterable[ProviderCard]) -> list[Context]:
    return [
        {"provider": each, "strip": draw_strip(each.recent), "latency": draw_latency(each.latency)}
        for each in providers
    ]


def _suggestions(model: PageModel) -> Context:
    """Return what may be typed into the box: images that were asked for, accounts that were seen."""
    images = dict.fromkeys(each.image for each in model.decisions if each.image)
    return {"images": list(images)[:_SUGGESTED_IMAGES], "accounts": model.accounts[:_SUGGESTED_ACCOUNTS]}


def _providers(model: PageModel, query: Query) -> View:
    text, state = query.get("q", ""), query.get("state", "")
    found = searched(_by_urgency(model), text, lambda each: (each.name, each.plugin.path, *each.patterns))
    kept = [each for each in found if state in ("", each.state) or _is_not_well(each, state)]
    has_lines = len(model.providers) > _MAX_CARDS
    size = _DENSE_A_PAGE if has_lines else _PROVIDERS_A_PAGE
    listing = find_page(len(kept), query.get("page", ""), size)
    shown = kept[listing.start : listing.last]
    troubled, healthy = _parted(shown) if has_lines else (shown, [])
    return View(
        title="Providers",
        template="providers.html",
        parts=("cards",),
        context={
            "q": text,
            "state": state,
            "states": _URGENCY,
            "listing": listing,
            "cards": _cards(troubled),
            "unseen": 0,
            "lines": healthy,
            "healthy": len(healthy),
        },
    )


def _is_not_well(provider: ProviderCard, state: str) -> bool:
    return state == _NOT_WELL and provider.state not in _HEALTHY


def _provider(model: PageModel, name: str) -> View:
    provider = next((each for each in model.providers if each.name == name), None)
    if provider is None:
        return _gone("provider", f"There is no provider {name!r} in the config.")
    lives = [each for each in model.lives if each.provider == provider.name]
    soonest = sorted(lives, key=lambda each: each.expires)[:_OVERVIEW_LIVES]
    axis = make_axis(soonest, model.now)
    return View(
        title=provider.name,
        template="provider.html",
        parts=("provider",),
        context={
            "provider": provider,
            "patterns": provider.patterns[:_PATTERNS_A_PAGE],
            "strip": draw_strip(provider.recent),
            "latency": draw_latency(provider.latency),
            "axis": axis,
            "rows": _life_rows(soonest, axis),
            "decisions": [each for each in model.decisions if provider.name in each.providers][
                :_OVERVIEW_DECISIONS
            ],
        },
    )


def _answers(model: PageModel, query: Query) -> View:
    return View(
        title="Answers", template="answers.html", parts=("answers",), context=list_answers(model, query)
    )


def list_answers(model: PageModel, query: Query) -> Context:
    """Return what the list of answers needs: those that *query* asks for, one page of them, by provider."""
    kept = _in_order(model, _chosen(model, query))
    span = query.get("span", "")
    listing = find_page(len(kept), query.get("page", ""), _ANSWERS_A_PAGE)
    axis = make_axis(kept[listing.start : listing.last], model.now, span)
    return {
        "provider": query.get("provider", ""),
        "account": query.get("account", ""),
        "q": query.get("q", ""),
        "span": span if span in SPANS else "",
        "spans": tuple(SPANS),
        "providers": sorted({each.provider for each in model.lives})[:_MAX_CHOICES],
        "accounts": sorted({each.account for each in model.lives if each.account})[:_MAX_CHOICES],
        "axis": axis,
        "listing": listing,
        "groups": _groups(kept, listing, axis),
    }


def _chosen(model: PageModel, query: Query) -> list[Life]:
    provider, account = query.get("provider", ""), query.get("account", "")
    fitting = (
        each for each in model.lives if provider in ("", each.provider) and account in ("", each.account)
    )
    return searched(fitting, query.get("q", ""), lambda each: (each.provider, each.scope, each.account))


def _in_order(model: PageModel, lives: list[Life]) -> list[Life]:
    """Return *lives* by provider, in the order of the config, those that end first at the top."""
    places = {each.name: at for at, each in enumerate(model.providers)}
    unknown = len(places)
    return sorted(lives, key=lambda each: (places.get(each.provider, unknown), each.provider, each.expires))


def _groups(lives: Sequence[Life], page: ListPage, axis: Axis) -> tuple[LifeGroup, ...]:
    """Return the groups that have a row on *page*."""
    found, at = [], 0
    for provider, members in groupby(lives, key=lambda each: each.provider):
        group = list(members)
        shown = group[max(0, page.start - at) : max(0, page.last - at)]
        if shown:
            found.append(
                LifeGroup(
                    provider=provider,
                    total=len(group),
                    density=draw_density(group, axis),
                    rows=_life_rows(shown, axis),
                )
            )
        at += len(group)
    return tuple(found)


def _life_rows(lives: Iterable[Life], axis: Axis) -> tuple[LifeRow, ...]:
    """Return the *lives* with their bars."""
    return tuple(LifeRow(life=each, bar=draw_life(each, axis)) for each in lives)


def _answer(model: PageModel, identifier: str) -> View:
    life = next((each for each in model.lives if str(each.identifier) == identifier), None)
    if life is None:
        text = "This answer is no longer cached: it was renewed, it ended, or it was dropped."
        return _gone("answer", text)
    axis = make_axis((life,), model.now, is_whole=True)
    return View(
        title=f"Answer {life.identifier}",
        template="answer.html",
        parts=("answer",),
        context={"life": life, "axis": axis, "bar": draw_life(life, axis)},
    )


def _decisions(model: PageModel, query: Query) -> View:
    text, outcome = query.get("q", ""), query.get("outcome", "")
    found = searched(model.decisions, text, _decision_text)
    kept = [each for each in found if outcome in ("", each.outcome)]
    listing = find_page(len(kept), query.get("page", ""), _DECISIONS_A_PAGE)
    context = {
        "q": text,
        "outcome": outcome,
        "outcomes": sorted({each.outcome for each in model.decisions}),
        "listing": listing,
        "rows": kept[listing.start : listing.last],
    }
    return View(title="Decisions", template="decisions.html", parts=("decisions",), context=context)


def _decision_text(row: DecisionRow) -> tuple[str, ...]:
    words = (row.image, row.account, *row.providers, row.program, row.outcome, row.source, row.reason)
    return (*words, f"uid={row.uid}")


def _decision(model: PageModel, identifier: str) -> View:
    row = next((each for each in model.decisions if str(each.identifier) == identifier), None)
    if row is None:
        return _gone("decision", "This decision is older than those that the agent keeps.")
    return View(
        title=f"Decision {row.identifier}",
        template="decision.html",
        parts=("decision",),
        context={"row": row},
    )


def _explain(model: PageModel, query: Query, explained: ExplainedPull | None) -> View:
    image, account = query.get("image", "").strip(), query.get("account", "").strip()
    title = f"Explain {image}" if image else "Explain"
    context = {"explained": explained, "image": image, "account": account, **_suggestions(model)}
    return View(title=title, template="explain.html", parts=("explained",), context=context)


def _reloads(model: PageModel, _: Query) -> View:
    return View(
        title="Reloads", template="reloads.html", parts=("reloads",), context={"reloads": model.reloads}
    )


def _callers(model: PageModel) -> list[CallerRow]:
    return sorted(model.callers, key=lambda each: -each.last_at)


def _callers_view(model: PageModel, query: Query) -> View:
    listing = find_page(len(model.callers), query.get("page", ""), _CALLERS_A_PAGE)
    shown = _callers(model)[listing.start : listing.last]
    return View(
        title="Callers",
        template="callers.html",
        parts=("callers",),
        context={"listing": listing, "callers": shown},
    )


def _settings(model: PageModel, _: Query) -> View:
    return View(
        title="Settings",
        template="settings.html",
        parts=("settings", "access"),
        context={"settings": model.settings, "access": model.access},
    )


def find_page(total: int, page: str, size: int) -> ListPage:
    """Return the page with the number *page*, which comes from an address: the nearest one if it is none."""
    pages = max(1, -(-total // size))
    # A long number takes long to read, and int() refuses it with an error.
    wanted = int(page) if page.isascii() and page.isdigit() and len(page) < 8 else 1
    number = min(max(1, wanted), pages)
    start = (number - 1) * size
    return ListPage(total=total, page=number, pages=pages, start=start, last=min(start + size, total))


def searched(rows: Iterable[Row], text: str, fields: Callable[[Row], Iterable[str]]) -> list[Row]:
    """Return the rows whose *fields* have every word of *text*, in any case."""
    words = text.casefold().split()
    if not words:
        return list(rows)
    return [row for row in rows if _has(" ".join(fields(row)).casefold(), words)]


def _has(text: str, words: list[str]) -> bool:
    return all(word in text for word in words)


def _gone(part: str, text: str) -> View:
    """Return a view in place of *part*, so that a page that shows it changes as well when it goes."""
    return View(
        title=part.capitalize(),
        template="gone.html",
        parts=(part,),
        context={"text": text, "part": part},
        is_found=False,
    )


_LISTS: dict[str, Callable[[PageModel, Query], View]] = {
    "": _overview,
    "providers": _providers,
    "answers": _answers,
    "decisions": _decisions,
    "reloads": _reloads,
    "callers": _callers_view,
    "settings": _settings,
}
_ENTRIES: dict[str, Callable[[PageModel, str], View]] = {
    "providers": _provider,
    "answers": _answer,
    "decisions": _decision,
}
