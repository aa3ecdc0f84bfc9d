"""The cached answers of the page: filtered, in order, grouped."""

from __future__ import annotations

import pytest

from keyferry._core.values import replace
from keyferry.page.views import LifeGroup, ListPage, list_answers
from support.page_models import crowded_model, usual_model

MODEL = usual_model()


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
    model = crowded_model()
    first = list_answers(model, {})["listing"]
    assert isinstance(first, ListPage)
    assert (first.total, first.pages) == (10_000, 200)
    seen = []
    for page in range(1, 6):
        groups = list_answers(model, {"page": str(page)})["groups"]
        assert isinstance(groups, tuple)
        assert all(isinstance(each, LifeGroup) and each.total >= 100 for each in groups)
        seen += [row.life.identifier for group in groups for row in group.rows]
    assert len(seen) == len(set(seen)) == 250
