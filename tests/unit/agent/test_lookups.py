"""Questions are read strictly."""

from __future__ import annotations

import json

import pytest

from keyferry.agent.lookups import BadQuestionError, read_eviction, read_question
from keyferry.images.keyring import ServiceAccountRef


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
    assert (question.annotations, question.account) == (
        {"a": "b"},
        ServiceAccountRef(namespace="n", name="s", uid="u"),
    )
    assert "'t'" not in repr(question)
    del body["serviceAccount"]
    assert read_question(json.dumps(body).encode()).account is None


def test_a_service_account_that_is_no_object_is_refused() -> None:
    with pytest.raises(BadQuestionError, match=r"^serviceAccount: expected an object of strings$"):
        read_question(json.dumps({"image": "r.example/app", "serviceAccount": "n/s"}).encode())


@pytest.mark.parametrize(
    "body",
    [b"", b"[]", b"{", b"\xff", b'{"image": null}', b'{"image": "a b"}', b"[" * 100_000, b'{"image":1e999}'],
)
def test_what_is_no_question_is_refused_without_a_quote(body: bytes) -> None:
    with pytest.raises(BadQuestionError) as caught:
        read_question(body)
    assert "a b" not in str(caught.value)


def test_a_name_that_is_longer_than_any_is_refused_before_it_is_parsed() -> None:
    """Though it could be one."""
    host = "a." * 505 + "example"
    assert len(f"{host}/team/a") == 1024
    assert read_question(json.dumps({"image": f"{host}/team/a"}).encode()).image.registry == host
    registry = "a" * 1016 + ".example"
    assert read_question(json.dumps({"registry": registry}).encode()).registry == registry
    login = {"username": "u", "password": "p"}
    for read, field, name in (
        (read_question, "image", f"{host}/team/ab"),
        (read_question, "registry", f"a{registry}"),
        (read_eviction, "image", f"{host}/team/ab"),
    ):
        with pytest.raises(BadQuestionError, match=f"^{field}: expected at most 1024 characters$"):
            read(json.dumps({field: name, **login}).encode())


@pytest.mark.parametrize("version", ["agent.keyferry.dev/v2", "", None, 1])
def test_a_question_of_another_version_is_refused(version: object) -> None:
    """Its client does the work itself; a question without a version is one of this."""
    with pytest.raises(BadQuestionError, match=r"^apiVersion: expected 'agent\.keyferry\.dev/v1'$"):
        read_question(json.dumps({"apiVersion": version, "image": "r.example/app"}).encode())
    with pytest.raises(BadQuestionError):
        read_question(json.dumps({"apiVersion": version, "registry": "r.example"}).encode())


@pytest.mark.parametrize("version", ["agent.keyferry.dev/v9", "", None, 1])
def test_an_eviction_of_another_version_is_refused(version: object) -> None:
    """As every question is: what it means is not known here."""
    refused = {"image": "r.example/app", "username": "u", "password": "p"}
    image, *login = read_eviction(json.dumps(refused).encode())
    assert (image.repository, login) == ("r.example/app", ["u", "p"])
    with pytest.raises(BadQuestionError, match=r"^apiVersion: expected"):
        read_eviction(json.dumps(refused | {"apiVersion": version}).encode())


@pytest.mark.parametrize("name", ["image", "username", "password"])
@pytest.mark.parametrize("value", [None, 1, ["a"]])
def test_an_eviction_names_an_image_and_a_whole_login(name: str, value: object) -> None:
    refused: dict[str, object] = {"image": "r.example/app", "username": "u", "password": "p", name: value}
    for document in (refused, {each: refused[each] for each in refused if each != name}):
        with pytest.raises(BadQuestionError, match=r"^image, username and password: expected strings$"):
            read_eviction(json.dumps(document).encode())
