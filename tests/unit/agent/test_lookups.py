"""Questions are read strictly, and replies that are kept are those that would be written."""

import json

import pytest

from keyferry.agent.lookups import AgentQuestion, BadQuestionError, ReplyMemo, lookup_reply, read_question
from keyferry.images.credential import ServiceAccountRef
from keyferry.images.reference import parse_image
from support.function_plugins import answering, provider, providers

SECOND = 1_000_000_000


def test_a_question_has_what_the_protocol_names_and_ignores_the_rest() -> None:
    body = {
        "image": "r.example/app:v1",
        "provider": "p",
        "serviceAccountToken": "t",
        "serviceAccountAnnotations": {"a": "b"},
        "serviceAccount": {"namespace": "n", "name": "s", "uid": "u"},
        "later": [1],
    }
    question = read_question(json.dumps(body).encode())
    assert (question.image.repository, question.provider, question.token) == ("r.example/app", "p", "t")
    assert (question.annotations, question.account) == ({"a": "b"}, ServiceAccountRef("n", "s", "u"))
    assert "'t'" not in repr(question)
    del body["serviceAccount"]
    assert read_question(json.dumps(body).encode()).account is None


def test_the_service_account_also_has_its_first_name() -> None:
    """The present name is the stronger one."""
    named = {"image": "r.example/app", "service_account": {"namespace": "n", "name": "old"}}
    assert read_question(json.dumps(named).encode()).account == ServiceAccountRef("n", "old", "")
    named["serviceAccount"] = {"namespace": "n", "name": "new"}
    assert read_question(json.dumps(named).encode()).account == ServiceAccountRef("n", "new", "")
    for name in ("serviceAccount", "service_account"):
        with pytest.raises(BadQuestionError, match=f"^{name}: expected an object of strings$"):
            read_question(json.dumps({"image": "r.example/app", name: "n/s"}).encode())


@pytest.mark.parametrize(
    "body",
    [b"", b"[]", b"{", b"\xff", b'{"image": null}', b'{"image": "a b"}', b"[" * 100_000, b'{"image":1e999}'],
)
def test_what_is_no_question_is_refused_without_a_quote(body: bytes) -> None:
    with pytest.raises(BadQuestionError) as caught:
        read_question(body)
    assert "a b" not in str(caught.value)


@pytest.mark.parametrize("version", ["agent.keyferry.dev/v2", "", None, 1])
def test_a_question_of_another_version_is_refused(version: object) -> None:
    """Its client does the work itself; a question without a version is one of this."""
    with pytest.raises(BadQuestionError, match=r"^apiVersion: expected 'agent\.keyferry\.dev/v1'$"):
        read_question(json.dumps({"apiVersion": version, "image": "r.example/app"}).encode())
    with pytest.raises(BadQuestionError):
        read_question(json.dumps({"apiVersion": version, "registry": "r.example"}).encode())


def test_a_kept_reply_is_the_one_that_would_be_written() -> None:
    """For each image its own, also where the answers of two registries differ in nothing but the key."""
    auth = {"one.example": ("u", "p1"), "two.example": ("u", "p2"), "two.example/deep": ("u", "p3")}
    asked = providers(provider("p", ["one.example", "two.example"], answering(auth, "Global")))
    memo = ReplyMemo()
    images = ("one.example/a", "one.example/b", "two.example/a", "two.example/deep/a", "else.example/a")
    for image in images:
        asked.lookup(image)
    for image in images * 3:
        answer = asked.recall(image)
        assert answer is not None
        question = AgentQuestion(parse_image(image))
        assert memo.find(question, answer, SECOND) == lookup_reply(question, answer, SECOND)
        assert json.loads(memo.find(question, answer, SECOND).body)["image"] == image
    assert len(memo._kept) == 4


def test_kept_replies_are_bounded_and_written_again() -> None:
    asked = providers(provider("p", ["one.example"], answering({"one.example": ("u", "p")}, "Image")))
    memo = ReplyMemo(most=3)
    for number in range(10):
        asked.lookup(f"one.example/{number}")
        answer = asked.recall(f"one.example/{number}")
        assert answer is not None
        question = AgentQuestion(parse_image(answer.image))
        memo.find(question, answer, SECOND)
    assert len(memo._kept) <= 3
    assert answer is not None
    first, later = memo.find(question, answer, SECOND), memo.find(question, answer, 100 * SECOND)
    assert first.body != later.body  # the same instant of one clock is another one of the other
