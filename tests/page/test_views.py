"""Which view an address names, what is in it, and how it is drawn and worded."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest

from keyferry._core.values import replace
from keyferry.page.charts import SPANS, draw_density, draw_life, make_axis
from keyferry.page.model import LatencyBucket, Life, PageModel, RunMark
from keyferry.page.runs import draw_latency, draw_strip
from keyferry.page.views import LifeGroup, ListPage, View, find_page, find_view, list_answers, searched
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
from support.page_models import crowded_model, empty_model, explanation, usual_model

MODEL = usual_model()


def view(path: str, **query: str) -> View:
    found = find_view(MODEL, path, query, None)
    assert found is not None
    return found


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
    cards = view("/providers").context["cards"]
    assert isinstance(cards, list)
    assert next(each["provider"].name for each in cards) == "acr-credential-provider"


def numbers_of(model: PageModel, path: str, **query: str) -> tuple[int, int, int]:
    """How many providers a view shows as cards and as lines, and how many cards it has no room for."""
    found = find_view(model, path, query, None)
    assert found is not None
    cards, lines, unseen = (found.context[name] for name in ("cards", "lines", "unseen"))
    assert isinstance(cards, list)
    assert isinstance(lines, list | tuple)
    assert isinstance(unseen, int)
    return len(cards), len(lines), unseen


def test_many_providers_are_cards_only_if_they_need_attention() -> None:
    """Up to twelve, each is a card."""
    few, many = crowded_model(12, 1000), crowded_model(40, 1000)
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
    cards = view("/providers", **query).context["cards"]
    assert isinstance(cards, list)
    assert len(cards) == number


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
    rows = view("/decisions", **query).context["rows"]
    assert isinstance(rows, list)
    assert len(rows) == number


def test_the_box_suggests_images_and_accounts_that_were_seen() -> None:
    context = view("/explain", image=" a ").context
    assert context["image"] == "a"
    assert context["accounts"] == MODEL.accounts
    images = context["images"]
    assert isinstance(images, list)
    assert images.count("team.azurecr.io/build/base:12") == 1


def test_an_explanation_is_handed_on() -> None:
    found = find_view(MODEL, "/explain", {"image": "a"}, explanation())
    assert found is not None
    assert found.context["explained"] == explanation()


def test_a_new_and_a_crowded_node_have_an_overview() -> None:
    for model, number in ((empty_model(), 0), (crowded_model(40, 1000), 8)):
        found = find_view(model, "/", {}, None)
        assert found is not None
        cards, rows = found.context["cards"], found.context["rows"]
        assert isinstance(cards, list)
        assert isinstance(rows, tuple)
        assert (len(cards), len(rows)) == (number, number)


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


@pytest.mark.parametrize(
    ("seconds", "text", "iso"),
    [
        (0.0, "1970-01-01 00:00:00 UTC", "1970-01-01T00:00:00Z"),
        (1_790_000_000.9, "2026-09-21 14:13:20 UTC", "2026-09-21T14:13:20Z"),
        (1e15, "no end", ""),
        (math.inf, "no end", ""),
        (-1.0, "no end", ""),
    ],
)
def test_an_instant_is_written_in_utc(seconds: float, text: str, iso: str) -> None:
    assert instant_text(seconds) == text
    assert instant_iso(seconds) == iso


def test_an_axis_has_times_and_days() -> None:
    assert clock_text(1_790_000_000) == "14:13"
    assert clock_text(1_790_000_000, is_day=True) == "Sep 21"
    assert not clock_text(math.inf)


@pytest.mark.parametrize(
    ("number", "text"), [(0, "0 answers"), (1, "1 answer"), (2, "2 answers"), (10_000, "10,000 answers")]
)
def test_a_number_has_its_noun(number: int, text: str) -> None:
    assert counted(number, "answer") == text


def test_a_plural_can_be_given() -> None:
    assert counted(2, "entry", "entries") == "2 entries"


def test_an_address_is_quoted_and_has_no_empty_parameter() -> None:
    assert link_to("providers", "a/b?c#d%é") == "/providers/a%2Fb%3Fc%23d%25%C3%A9"
    assert link_to("answers", q="a&b=c", provider="") == "/answers?q=a%26b%3Dc"
    assert link_to("decisions") == "/decisions"
    assert link_to("decisions", q="\udcff") == "/decisions?q=%3F"


@pytest.mark.parametrize(
    "link", ["javascript:alert(1)", "//evil.example", "/\\evil.example", "https://evil.example", "", "/a\nb"]
)
def test_a_link_that_leaves_the_page_leads_to_the_overview(link: str) -> None:
    assert local_path(link) == "/"


def test_a_link_inside_the_page_stays() -> None:
    assert local_path("/providers/ecr?q=1") == "/providers/ecr?q=1"


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


def test_a_program_is_told_by_its_last_part() -> None:
    assert base_name("/usr/bin/kubelet") == "kubelet"
    assert (base_name("kubelet"), base_name("/"), base_name("")) == ("kubelet", "/", "")


def test_a_time_of_another_day_has_its_day() -> None:
    assert time_of_day(NOW, NOW) == "14:13:20"
    assert time_of_day(NOW - 24 * HOUR, NOW) == "Sep 20 14:13:20"
    assert time_of_day(math.inf, NOW) == "no end"


def test_only_all_of_it_is_a_hundred_per_cent() -> None:
    found = [percent_text(part, 10_000) for part in (0, 9_430, 9_999, 10_000)]
    assert found == ["0 %", "94.3 %", "99.9 %", "100 %"]


def test_one_limit_is_named_once() -> None:
    picture = draw_latency((LatencyBucket(up_to_seconds=0.1, runs=1),))
    assert picture is not None
    assert picture.summary == "95 % within 100 ms"


@pytest.mark.parametrize(
    ("runs", "summary"),
    [((9, 1), "half within 100 ms, the slowest over 100 ms"), ((1, 9), "most runs took over 100 ms")],
)
def test_runs_beyond_the_last_limit_are_not_said_to_stay_within_one(
    runs: tuple[int, int], summary: str
) -> None:
    picture = draw_latency(
        (LatencyBucket(up_to_seconds=0.1, runs=runs[0]), LatencyBucket(up_to_seconds=None, runs=runs[1]))
    )
    assert picture is not None
    assert picture.summary == summary


def shown(**query: str) -> list[int]:
    groups = list_answers(MODEL, query)["groups"]
    assert isinstance(groups, tuple)
    return [row.life.identifier for group in groups for row in group.rows]


def test_answers_are_grouped_by_provider_and_those_that_end_first_come_first() -> None:
    groups = list_answers(MODEL, {})["groups"]
    assert isinstance(groups, tuple)
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
    assert shown(**query) == found


def test_an_answer_of_a_provider_that_is_gone_comes_last() -> None:
    orphan = replace(MODEL.lives[0], provider="a-former-one", identifier=999)
    groups = list_answers(replace(MODEL, lives=(orphan, *MODEL.lives)), {})["groups"]
    assert isinstance(groups, tuple)
    assert groups[-1].provider == "a-former-one"


def test_many_answers_are_paged_and_each_is_on_one_page() -> None:
    model = crowded_model(40, 1000)
    first = list_answers(model, {})["listing"]
    assert isinstance(first, ListPage)
    assert (first.total, first.pages) == (1008, 21)
    seen = []
    for page in range(1, 6):
        groups = list_answers(model, {"page": str(page)})["groups"]
        assert isinstance(groups, tuple)
        assert all(isinstance(each, LifeGroup) and each.total >= 50 for each in groups)
        seen += [row.life.identifier for group in groups for row in group.rows]
    assert len(seen) == len(set(seen)) == 250


NOW = 1_790_000_000.0  # 14:13:20 UTC
HOUR = 3600
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
