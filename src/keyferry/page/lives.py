"""The cached answers as the page shows them: filtered, grouped by provider, each with its bar."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby

from keyferry._core.values import Value
from keyferry.page.listing import ListPage, find_page, searched
from keyferry.page.model import Life, PageModel
from keyferry.page.timeline import SPANS, Axis, Bar, Column, draw_density, draw_life, make_axis

__all__ = ["OVERVIEW_LIVES", "LifeGroup", "LifeRow", "life_rows", "list_answers", "shown_life"]

OVERVIEW_LIVES = 8
_ANSWERS_A_PAGE = 50
_MOST_CHOICES = 1000


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


def life_rows(lives: Iterable[Life], axis: Axis) -> tuple[LifeRow, ...]:
    """Return the *lives* with their bars."""
    return tuple(LifeRow(life=each, bar=draw_life(each, axis)) for each in lives)


def shown_life(life: Life, now: float) -> dict[str, object]:
    """Return what the view of one answer needs."""
    axis = make_axis((life,), now, is_whole=True)
    return {"life": life, "axis": axis, "bar": draw_life(life, axis)}


def list_answers(model: PageModel, query: Mapping[str, str]) -> dict[str, object]:
    """Return what the list of answers needs: those that *query* asks for, one page of them, by provider."""
    kept = _in_order(model, _chosen(model, query))
    span = query.get("span", "")
    axis = make_axis(kept, model.now, span)
    listing = find_page(len(kept), query.get("page", ""), _ANSWERS_A_PAGE)
    return {
        "provider": query.get("provider", ""),
        "account": query.get("account", ""),
        "q": query.get("q", ""),
        "span": span if span in SPANS else "",
        "spans": tuple(SPANS),
        "providers": sorted({each.provider for each in model.lives})[:_MOST_CHOICES],
        "accounts": sorted({each.account for each in model.lives if each.account})[:_MOST_CHOICES],
        "axis": axis,
        "listing": listing,
        "groups": _groups(kept, listing, axis),
    }


def _chosen(model: PageModel, query: Mapping[str, str]) -> list[Life]:
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
                    rows=life_rows(shown, axis),
                )
            )
        at += len(group)
    return tuple(found)
