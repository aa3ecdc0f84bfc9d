"""A whole answer of the agent counts only if nothing is missing in it."""

from __future__ import annotations

import pytest

from keyferry.images.agent_answer import read_lookup
from keyferry.images.reference import parse_image

IMAGE = parse_image("registry.example/app:v1")
CREDENTIAL: dict[str, object] = {
    "username": "user",
    "password": "hidden",
    "key": "registry.example",
    "source": {"kind": "provider", "name": "plugin"},
}
WHOLE: dict[str, object] = {
    "credentials": [CREDENTIAL],
    "failures": [],
    "missing": [],
    "sources": {"plugin": "cache", "other": "run"},
}


def test_a_whole_answer_has_the_credentials_and_where_they_are_from() -> None:
    answer = read_lookup(WHOLE, IMAGE)
    assert answer is not None
    assert [(each.username, str(each.source)) for each in answer.credentials] == [("user", "provider plugin")]
    assert [(each.provider, str(each.outcome)) for each in answer.provisions] == [
        ("plugin", "cached"),
        ("other", "ran"),
    ]
    assert all(each.is_from_agent for each in answer.provisions)
    assert (answer.image, answer.name) == ("registry.example/app:v1", "registry.example/app")
    assert "hidden" not in repr(answer)


@pytest.mark.parametrize(
    "change",
    [
        {"credentials": []},
        {"credentials": None},
        {"credentials": ["user"]},
        {"credentials": [{**CREDENTIAL, "password": 1}]},
        {"credentials": [{**CREDENTIAL, "source": "plugin"}]},
        {"credentials": [{**CREDENTIAL, "source": {"kind": "provider", "name": "p", "serviceAccount": {}}}]},
        {"credentials": [{**CREDENTIAL, "source": {"kind": "pull secret", "name": "s"}}]},
        {"missing": [{"input": "pod"}]},
        {"missing": None},
        {"sources": []},
        {"sources": {"plugin": "somehow"}},
        {"sources": {"plugin": ["cache"]}},
    ],
    ids=str,
)
def test_anything_less_is_left_to_the_providers(change: dict[str, object]) -> None:
    assert read_lookup({**WHOLE, **change}, IMAGE) is None
