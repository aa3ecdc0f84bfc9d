"""Which view an address names."""

from __future__ import annotations

import pytest

from keyferry.page.views import View, find_view
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
        ({"outcome": "no-match"}, 2),
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
    for model, number in ((empty_model(), 0), (crowded_model(), 8)):
        found = find_view(model, "/", {}, None)
        assert found is not None
        cards, rows = found.context["cards"], found.context["rows"]
        assert isinstance(cards, list)
        assert isinstance(rows, tuple)
        assert (len(cards), len(rows)) == (number, number)
