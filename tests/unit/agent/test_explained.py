"""Whoever may not ask for every registry learns of no other: neither patterns nor keys."""

from __future__ import annotations

import json

from keyferry.agent.explained import withhold
from keyferry.explain.causes import explain
from keyferry.explain.document import explanation_document
from keyferry.explain.explanation import Facts
from keyferry.images.answer import Answer
from keyferry.images.lookup import Providers
from support.function_plugins import answering, provider, providers

OWN, OTHER = "own.example", "other.example"
IMAGE = f"{OWN}/app"


def explained(answer: Answer) -> str:
    return json.dumps(explanation_document(explain(Facts(answer=answer))))


def world(auth: dict[str, tuple[str, str]]) -> Providers:
    return providers(
        provider("mine", [OWN, f"deep.{OTHER}"], answering(auth)),
        provider("theirs", [f"*.{OTHER}", f"{OTHER}:5000"], answering({OTHER: ("them", "b")})),
    )


def test_patterns_and_keys_of_other_registries_are_withheld() -> None:
    """And that there are some is said."""
    answer = world({OWN: ("me", "a"), OTHER: ("them", "b")}).lookup(IMAGE)
    assert OTHER in explained(answer)
    shown = withhold(answer)
    assert OTHER not in explained(shown)
    assert [each.username for each in shown.credentials] == ["me"]
    assert shown.outcome == answer.outcome
    said = {(str(each.stage), each.subject): str(each.outcome) for each in shown.reasons}
    assert said["key", "withheld"] == said["match", "theirs"] == "no-match"
    assert said["key", OWN] == "covers"
    [theirs] = [each for each in shown.reasons if each.subject == "theirs"]
    assert '"withheld"' in json.dumps(theirs.facts)


def test_an_answer_with_other_keys_alone_is_not_called_empty() -> None:
    shown = withhold(world({OTHER: ("them", "b")}).lookup(IMAGE))
    assert OTHER not in explained(shown)
    [trap] = [each for each in shown.reasons if str(each.stage) == "trap"]
    assert (str(trap.outcome), "'withheld' only" in trap.text) == ("stray-auth-keys", True)


def test_an_answer_without_other_keys_stays_as_it_is() -> None:
    asked = providers(provider("mine", [OWN], answering({OWN: ("me", "a")})))
    answer = asked.lookup(IMAGE)
    shown = withhold(answer)
    assert explained(shown) == explained(answer)
    assert shown.provisions == answer.provisions


def test_a_lookup_that_failed_or_found_nothing_can_be_shown() -> None:
    assert OTHER not in explained(withhold(world({}).lookup(IMAGE)))
    assert OTHER not in explained(withhold(world({}).lookup("elsewhere.invalid/app")))
