"""Which view an address names, what is in it, and how it is drawn and worded."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pytest

from keyferry._core.values import replace
from keyferry.page.charts import SPANS, draw_density, draw_life, make_axis
from keyferry.page.model import LatencyBucket, Life, PageModel, RunMark
from keyferry.page.runs import draw_latency, draw_strip
from keyferry.page.views import LifeGroup, ListPage, View, find_page, find_view, searched
from keyferry.page.wording import (
    base_name,
    clock_text,
    counted,
    instant_iso,
    instant_text,
    link_to,
    local_path,
    percent_text,
    split_name,
    time_of_day,
)
from support.page_models import crowded_model, empty_model, usual_model

MODEL = usual_model()


def view(path: str, **query: str) -> View:
    found = find_view(MODEL, path, query, None)
    assert found is not None
    return found


def listed(found: View | None, name: str) -> Sequence[Any]:
    """Return the values of a view that have a name."""
    assert found is not None
    values = found.context[name]
    assert isinstance(values, list | tuple)
    return values


@pytest.mark.parametrize(
    ("path", "title"),
    [
        ("/", "Overview"),
        ("/providers", "Providers"),
        ("/providers/", "Providers"),
        ("/providers/ecr-credential-provider", "ecr-credential-provider"),
        ("/answers", "Answers"),
        ("/answers/101", "Answer 101"),
        ("/decisions", "Decisions"),
        ("/decisions/48213", "Decision 48213"),
        ("/explain", "Explain"),
        ("/reloads", "Reloads"),
        ("/callers", "Callers"),
        ("/settings", "Settings"),
    ],
)
def test_a_path_names_a_view(path: str, title: str) -> None:
    assert view(path).title == title
    assert view(path).is_found


@pytest.mark.parametrize(
    "path", ["/unknown", "/explain/x", "/reloads/1", "/settings/x/y", "/static/page.css"]
)
def test_an_unknown_path_has_no_view(path: str) -> None:
    assert find_view(MODEL, path, {}, None) is None


@pytest.mark.parametrize(
    "path", ["/providers/gone", "/answers/99", "/answers/0101", "/decisions/1", "/answers/1/2"]
)
def test_an_entry_that_is_gone_has_a_view_that_says_so(path: str) -> None:
    assert view(path).template == "gone.html"
    assert not view(path).is_found


def test_what_is_not_well_comes_first() -> None:
    assert listed(view("/providers"), "cards")[0]["provider"].name == "acr-credential-provider"


def numbers_of(model: PageModel, path: str, **query: str) -> tuple[int, int, int]:
    """How many providers a view shows as cards and as lines, and how many cards it has no room for."""
    found = find_view(model, path, query, None)
    assert found is not None
    unseen = found.context["unseen"]
    assert isinstance(unseen, int)
    return len(listed(found, "cards")), len(listed(found, "lines")), unseen


def test_many_providers_are_cards_only_if_they_need_attention() -> None:
    """Up to twelve, each is a card."""
    few, many = crowded_model(12, 1000), crowded_model(40, 1000)
    assert numbers_of(empty_model(), "/") == (0, 0, 0)
    assert numbers_of(few, "/") == (12, 0, 0)
    assert numbers_of(many, "/") == (8, 20, 12)
    assert numbers_of(many, "/providers") == (20, 20, 0)
    assert numbers_of(many, "/providers", state="not-well") == (20, 0, 0)


@pytest.mark.parametrize(
    ("query", "number"),
    [
        ({}, 4),
        ({"q": "amazonaws"}, 1),
        ({"state": "well"}, 2),
        ({"state": "odd"}, 0),
        ({"q": "gcr", "state": "unused"}, 1),
    ],
)
def test_providers_are_filtered(query: dict[str, str], number: int) -> None:
    assert len(listed(view("/providers", **query), "cards")) == number


@pytest.mark.parametrize(
    ("query", "number"),
    [
        ({}, 16),
        ({"outcome": "no-match"}, 1),
        ({"q": "uid=10001"}, 4),
        ({"q": "ecr-credential-provider"}, 5),
        ({"q": "skopeo azurecr", "outcome": "failed"}, 1),
        ({"q": "nobody"}, 0),
    ],
)
def test_decisions_are_filtered(query: dict[str, str], number: int) -> None:
    assert len(listed(view("/decisions", **query), "rows")) == number


def test_the_box_suggests_images_and_accounts_that_were_seen() -> None:
    found = view("/explain", image=" a ")
    assert found.context["image"] == "a"
    assert found.context["accounts"] == MODEL.accounts
    assert listed(found, "images").count("team.azurecr.io/build/base:12") == 1


def test_the_overview_shows_the_next_answers() -> None:
    assert len(listed(find_view(crowded_model(40, 1000), "/", {}, None), "rows")) == 8


@pytest.mark.parametrize(
    ("total", "page", "expected"),
    [
        (0, "", ListPage(total=0, page=1, pages=1, start=0, last=0)),
        (7, "", ListPage(total=7, page=1, pages=1, start=0, last=7)),
        (101, "1", ListPage(total=101, page=1, pages=3, start=0, last=50)),
        (101, "3", ListPage(total=101, page=3, pages=3, start=100, last=101)),
        (101, "4", ListPage(total=101, page=3, pages=3, start=100, last=101)),
        (101, "0", ListPage(total=101, page=1, pages=3, start=0, last=50)),
        (101, "-1", ListPage(total=101, page=1, pages=3, start=0, last=50)),
        (101, "two", ListPage(total=101, page=1, pages=3, start=0, last=50)),
        (101, "٣", ListPage(total=101, page=1, pages=3, start=0, last=50)),
        (101, "9" * 5000, ListPage(total=101, page=1, pages=3, start=0, last=50)),
    ],
)
def test_a_page_is_the_nearest_to_the_one_asked_for(total: int, page: str, expected: ListPage) -> None:
    assert find_page(total, page, 50) == expected


@pytest.mark.parametrize(
    ("text", "found"),
    [("", ["ab", "AC", "b"]), ("a", ["ab", "AC"]), ("B a", ["ab"]), ("x", []), ("  c ", ["AC"])],
)
def test_every_word_has_to_be_there_in_any_case(text: str, found: list[str]) -> None:
    assert searched(["ab", "AC", "b"], text, lambda row: (row,)) == found


NOW = 1_790_000_000.0  # 14:13:20 UTC
HOUR = 3600


@pytest.mark.parametrize(
    ("shown", "text"),
    [
        (instant_text(0.0), "1970-01-01 00:00:00 UTC"),
        (instant_text(NOW + 0.9), "2026-09-21 14:13:20 UTC"),
        *((instant_text(seconds), "no end") for seconds in (1e15, math.inf, -1.0)),
        (instant_iso(NOW), "2026-09-21T14:13:20Z"),
        (instant_iso(math.inf), ""),
        (clock_text(NOW), "14:13"),
        (clock_text(NOW, is_day=True), "Sep 21"),
        (clock_text(math.inf), ""),
        (time_of_day(NOW, NOW), "14:13:20"),
        (time_of_day(NOW - 24 * HOUR, NOW), "Sep 20 14:13:20"),
        (time_of_day(math.inf, NOW), "no end"),
        (counted(1, "answer"), "1 answer"),
        (counted(10_000, "answer"), "10,000 answers"),
        (counted(2, "entry", "entries"), "2 entries"),
        # Only all of it is a hundred per cent.
        *((percent_text(part, 10_000), text) for part, text in ((9_430, "94.3 %"), (9_999, "99.9 %"))),
        (percent_text(10_000, 10_000), "100 %"),
        # A program by its last part.
        *((base_name(path), "kubelet") for path in ("/usr/bin/kubelet", "kubelet")),
        *((base_name(path), path) for path in ("/", "")),
    ],
)
def test_instants_numbers_and_programs_are_written_for_people(shown: str, text: str) -> None:
    assert shown == text


def test_an_address_is_quoted_and_has_no_empty_parameter() -> None:
    assert link_to("providers", "a/b?c#d%é") == "/providers/a%2Fb%3Fc%23d%25%C3%A9"
    assert link_to("answers", q="a&b=c", provider="") == "/answers?q=a%26b%3Dc"
    assert link_to("decisions") == "/decisions"
    assert link_to("decisions", q="\udcff") == "/decisions?q=%3F"


@pytest.mark.parametrize(
    ("link", "path"),
    [
        ("/providers/ecr?q=1", "/providers/ecr?q=1"),
        *((link, "/") for link in ("javascript:alert(1)", "//evil.example", "/\\evil.example", "", "/a\nb")),
        ("https://evil.example", "/"),
    ],
)
def test_a_link_that_leaves_the_page_leads_to_the_overview(link: str, path: str) -> None:
    assert local_path(link) == path


BUCKETS = (
    LatencyBucket(up_to_seconds=0.1, runs=0),
    LatencyBucket(up_to_seconds=0.5, runs=30),
    LatencyBucket(up_to_seconds=2.5, runs=9),
    LatencyBucket(up_to_seconds=None, runs=1),
)


def test_without_runs_there_is_no_picture() -> None:
    assert draw_latency(()) is None
    assert draw_latency((LatencyBucket(up_to_seconds=1, runs=0),)) is None


def test_bars_fill_the_width_and_the_highest_fills_the_height() -> None:
    picture = draw_latency(BUCKETS)
    assert picture is not None
    assert [each.height for each in picture.bars] == [0, 100, 30, 4]
    assert [each.left for each in picture.bars] == [1, 26, 51, 76]
    assert {each.width for each in picture.bars} == {23}
    assert picture.bars[0].middle == 12.5


def test_the_picture_is_told_in_words() -> None:
    picture = draw_latency(BUCKETS)
    assert picture is not None
    assert [each.label for each in picture.bars] == [
        "up to 100 ms",
        "up to 500 ms",
        "up to 2.5 s",
        "over 2.5 s",
    ]
    assert [each.short for each in picture.bars] == ["100 ms", "500 ms", "2.5 s", ">2.5 s"]
    assert picture.summary == "half within 500 ms, 95 % within 2.5 s"
    assert picture.description == "Duration of 40 runs: 30 up to 500 ms, 9 up to 2.5 s, 1 over 2.5 s"


def test_the_last_runs_are_a_strip_on_which_failures_are_the_highest() -> None:
    recent = [RunMark(at=NOW + at, seconds=0.3, has_failed=at in (1, 4)) for at in range(25)]
    strip = draw_strip(recent[:5])
    assert strip is not None
    assert [each.height == 100 for each in strip.bars] == [False, True, False, False, True]
    assert round(strip.bars[-1].left + strip.bars[-1].width) == 99  # the newest at the right
    assert strip.summary == "2 of the last 5 runs failed"
    assert strip.bars[1].label == "14:13 UTC: failed after 300 ms"
    whole = draw_strip(recent)
    assert whole is not None
    assert (len(whole.bars), whole.failed, whole.summary) == (20, 0, "the last 20 runs worked")
    assert draw_strip(()) is None


def test_a_longer_run_has_a_higher_bar() -> None:
    runs = [RunMark(at=NOW, seconds=seconds, has_failed=False) for seconds in (0, 0.01, 0.5, 20, 500)]
    strip = draw_strip(runs)
    assert strip is not None
    heights = [each.height for each in strip.bars]
    assert heights == sorted(heights)
    assert heights[-1] < 100


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("", ("", "")),
        ("reg.io", ("", "reg.io")),
        ("reg.io/team/app:v1", ("reg.io/team/", "app:v1")),
        (f"reg.io/{'x' * 60}:v1", (f"reg.io/{'x' * 35}", "x" * 25 + ":v1")),
        ("y" * 40, ("y" * 12, "y" * 28)),
    ],
)
def test_the_end_of_a_name_stays(name: str, parts: tuple[str, str]) -> None:
    assert split_name(name) == parts


@pytest.mark.parametrize(
    ("runs", "summary"),
    [
        ((1, 0), "95 % within 100 ms"),
        ((9, 1), "half within 100 ms, the slowest over 100 ms"),
        ((1, 9), "most runs took over 100 ms"),
    ],
)
def test_runs_beyond_the_last_limit_are_not_said_to_stay_within_one(
    runs: tuple[int, int], summary: str
) -> None:
    """And one limit is named once."""
    picture = draw_latency(
        tuple(
            LatencyBucket(up_to_seconds=limit, runs=number)
            for limit, number in zip((0.1, None), runs, strict=True)
        )
    )
    assert picture is not None
    assert picture.summary == summary


def groups_of(model: PageModel, **query: str) -> Sequence[LifeGroup]:
    return listed(find_view(model, "/answers", query, None), "groups")


def test_answers_are_grouped_by_provider_and_those_that_end_first_come_first() -> None:
    groups = groups_of(MODEL)
    assert [(each.provider, each.total) for each in groups] == [
        ("ecr-credential-provider", 4),
        ("acr-credential-provider", 2),
        ("keyferry-federate", 4),
    ]
    for group in groups:
        ends = [row.life.expires for row in group.rows]
        assert ends == sorted(ends)


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ({"provider": "acr-credential-provider"}, [105, 106]),
        ({"account": "shop/checkout"}, [110]),
        ({"q": "Settlement payments"}, [109]),
        ({"q": "azurecr", "account": "shop/checkout"}, []),
        ({"provider": "unknown"}, []),
    ],
)
def test_answers_are_filtered(query: dict[str, str], found: list[int]) -> None:
    assert [row.life.identifier for group in groups_of(MODEL, **query) for row in group.rows] == found


def test_an_answer_of_a_provider_that_is_gone_comes_last() -> None:
    orphan = replace(MODEL.lives[0], provider="a-former-one", identifier=999)
    assert groups_of(replace(MODEL, lives=(orphan, *MODEL.lives)))[-1].provider == "a-former-one"


def test_many_answers_are_paged_and_each_is_on_one_page() -> None:
    model = crowded_model(40, 1000)
    found = find_view(model, "/answers", {}, None)
    assert found is not None
    listing = found.context["listing"]
    assert isinstance(listing, ListPage)
    assert (listing.total, listing.pages) == (1008, 21)
    groups = [group for page in range(1, 6) for group in groups_of(model, page=str(page))]
    assert all(each.total >= 50 for each in groups)
    seen = [row.life.identifier for group in groups for row in group.rows]
    assert len(seen) == len(set(seen)) == 250


LIFE = Life(
    identifier=7,
    provider="ecr",
    scope="reg.example",
    account="",
    got=NOW - 2 * HOUR,
    expires=NOW + 6 * HOUR,
    refresh_from=NOW + 2 * HOUR,
    refresh_until=NOW + 5 * HOUR,
    refresh_at=NOW + 3 * HOUR,
    failures=0,
    credentials=1,
)


def test_an_axis_that_fits_shows_minutes_and_hours_around_the_present() -> None:
    """The further from now, the closer together, on both sides."""
    axis = make_axis([LIFE], NOW)
    places = {each.label: each.at for each in axis.ticks if each.label}
    assert {"\u22121 h", "now", "1 h", "4 h"} <= set(places)
    assert places["now"] == axis.now_at == 40
    assert places["\u22121 h"] < 40 < places["1 h"] < places["4 h"] < 100
    assert axis.at(NOW + 60) - axis.at(NOW) > axis.at(NOW + HOUR + 60) - axis.at(NOW + HOUR)


@pytest.mark.parametrize("ends", [120, 3 * HOUR, 20 * HOUR, 6 * 24 * HOUR])
@pytest.mark.parametrize("span", SPANS)
def test_labels_of_an_axis_are_far_apart(span: str, ends: int) -> None:
    """Those of a wide screen by a tenth of its width, those of any screen by more."""
    axis = make_axis([replace(LIFE, got=NOW - ends / 3, expires=NOW + ends)], NOW, span)
    labelled = [each for each in axis.ticks if each.label]
    for shown, apart in ((labelled, 9.5), ([each for each in labelled if not each.is_extra], 18)):
        places = sorted(each.at for each in shown)
        assert len(places) >= 2
        assert min(after - before for before, after in pairwise(places)) >= apart


def test_an_axis_is_scaled_to_what_it_shows() -> None:
    long, short = replace(LIFE, expires=NOW + 48 * HOUR), replace(LIFE, got=NOW - 60, expires=NOW + 600)
    assert make_axis([short], NOW).end <= NOW + 600
    assert make_axis([short], NOW).start >= NOW - 60 - 15
    assert make_axis([long], NOW).end >= NOW + 48 * HOUR - 15


def test_the_present_is_where_there_is_room_for_both_sides() -> None:
    """What has just been got and lives for days has little before the present; but never nothing."""
    fresh, old = replace(LIFE, got=NOW), replace(LIFE, got=NOW - 48 * HOUR, expires=NOW + 60)
    assert make_axis([replace(fresh, expires=NOW + 14 * 24 * HOUR)], NOW).now_at == 8
    assert 20 < make_axis([replace(fresh, expires=NOW + 300)], NOW).now_at < 40
    assert make_axis([old], NOW).now_at == 40


def test_a_whole_life_is_on_an_even_axis_from_its_beginning() -> None:
    old = replace(LIFE, got=NOW - 18 * HOUR)
    whole = make_axis([old], NOW, is_whole=True)
    assert not whole.is_log
    assert not draw_life(old, whole).is_cut_left
    assert draw_life(replace(LIFE, got=NOW - 10 * 24 * HOUR), make_axis([old], NOW)).is_cut_left


def test_a_day_has_its_date_on_the_axis() -> None:
    labels = [each for each in make_axis([], NOW, "24h").ticks if each.is_day]
    assert [each.label for each in labels] == ["Sep 22"]


@pytest.mark.parametrize("span", [each for each in SPANS if each])
def test_an_axis_of_a_given_length_has_a_quarter_in_the_past(span: str) -> None:
    axis = make_axis([LIFE], NOW, span)
    assert SPANS[span] <= axis.end - axis.start <= SPANS[span] * 1.1
    assert 24 <= axis.now_at <= 28
    assert 2 <= len(axis.ticks) <= 9


def test_an_unknown_length_fits() -> None:
    assert make_axis([LIFE], NOW, "<b>") == make_axis([LIFE], NOW)


def test_an_axis_without_lives_and_one_with_endless_lives_are_finite() -> None:
    endless = replace(LIFE, got=0.0, expires=math.inf)
    for lives in ([], [endless]):
        axis = make_axis(lives, NOW)
        assert NOW - 8 * 24 * HOUR < axis.start < NOW < axis.end < NOW + 31 * 24 * HOUR


def test_the_picture_is_the_same_a_second_later() -> None:
    """So that a page that is kept up to date is not sent again each second."""
    for span, number in (("", 14), ("6h", 60)):
        axes = [make_axis([LIFE], NOW + second, span) for second in range(60)]
        same = [axis == before for before, axis in pairwise(axes)]
        assert same.count(False) <= 60 / number


def test_a_bar_has_its_life_its_window_and_its_plan() -> None:
    axis = make_axis([LIFE], NOW, is_whole=True)
    bar = draw_life(LIFE, axis)
    assert (bar.left, bar.width) == (axis.at(LIFE.got), 80)
    assert (bar.window_left, bar.window_width) == (axis.at(NOW + 2 * HOUR), 30)
    assert bar.planned == axis.at(NOW + 3 * HOUR)
    assert not bar.is_cut_left
    assert not bar.is_cut_right
    assert bar.description == (
        "Got 2026-09-21 12:13:20 UTC, may be renewed from 2026-09-21 16:13:20 UTC to 2026-09-21 19:13:20 UTC, "
        "renewal planned 2026-09-21 17:13:20 UTC, ends 2026-09-21 20:13:20 UTC"
    )


def test_an_answer_that_is_not_renewed_has_neither_window_nor_plan() -> None:
    plain = replace(LIFE, refresh_from=None, refresh_until=None, refresh_at=None)
    bar = draw_life(plain, make_axis([plain], NOW))
    assert (bar.window_left, bar.window_width, bar.planned) == (None, 0, None)
    assert "no renewal is planned" in bar.description


def test_a_bar_beyond_the_axis_is_cut_and_stays_visible() -> None:
    axis = make_axis([], NOW, "15m")
    bar = draw_life(LIFE, axis)
    assert (bar.left, bar.width, bar.is_cut_left, bar.is_cut_right) == (0, 100, True, True)
    assert bar.planned is None
    gone = replace(LIFE, got=NOW - 9 * HOUR, expires=NOW - 8 * HOUR)
    assert draw_life(gone, axis).width == 0.4


def test_density_counts_renewals_and_ends() -> None:
    unplanned = replace(LIFE, refresh_at=None)
    axis = make_axis([LIFE], NOW)
    columns = draw_density([LIFE, LIFE, unplanned], axis)
    assert [(each.renewed, each.ended) for each in columns] == [(2, 0), (0, 1)]
    assert [(each.renewed_height, each.ended_height) for each in columns] == [(100, 0), (0, 50)]
    assert columns[0].left < columns[1].left


def test_density_of_nothing_is_empty() -> None:
    assert draw_density([], make_axis([], NOW)) == ()
    assert draw_density([replace(LIFE, refresh_at=None, expires=math.inf)], make_axis([], NOW)) == ()
