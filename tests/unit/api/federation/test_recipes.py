"""What a recipe may do: each field that says what a token is for, and each header that is not a recipe's to set."""

from __future__ import annotations

import pytest

from keyferry.api.federation.recipes import Provenance, find_problems
from keyferry.api.federation.v1alpha1 import CredentialTemplates, ExchangeCall, Recipe

# Written out: a name that is removed from the source's own table must be missed here.
PURPOSES = (
    "aud", "audience", "client_assertion_type", "grant_type", "iss", "issuer", "requested_token_type", "resource",
    "scope", "subject_issuer", "subject_token_type",
)  # fmt: skip
OWN_HEADERS = (
    "accept", "authorization", "connection", "content-length", "content-type", "cookie", "expect", "host",
    "keep-alive", "proxy-authorization", "te", "trailer", "transfer-encoding", "upgrade", "user-agent",
)  # fmt: skip


def problems(
    call: ExchangeCall, who: Provenance = Provenance.ANNOTATION, listed: tuple[str, ...] = ()
) -> list[str]:
    """The problems of a recipe with one call, which may use the value ``who``."""
    recipe = Recipe(
        calls=(call,),
        credentials=CredentialTemplates(username="u", password="${token}"),
        from_annotations=listed,
    )
    return [
        f"{'.'.join(map(str, each.path))}: {each.message}" for each in find_problems(recipe, {"who": who})
    ]


def call_with(*, fields: dict[str, str] | None = None, headers: dict[str, str] | None = None) -> ExchangeCall:
    """A good call with fields and headers."""
    return ExchangeCall(
        url="https://sts.io/x", fields=fields or {}, headers=headers or {}, out={"token": ("/t",)}
    )


@pytest.mark.parametrize("name", PURPOSES)
@pytest.mark.parametrize(
    "write", [str, str.upper, str.title, lambda name: f"{name} ", lambda name: f"\t{name}"]
)
def test_no_annotation_says_what_a_token_is_for(name: str, write: type[str]) -> None:
    """However the field's name is written: a server may be lenient with case and blanks."""
    field = write(name)
    (found,) = problems(call_with(fields={field: "x-${who}"}))
    assert found.endswith("is an annotation, which cannot be used in a field that says what a token is for")
    assert problems(call_with(fields={field: "x-${who}"}), Provenance.FILE) == []


def test_an_annotation_may_say_who_asks() -> None:
    assert problems(call_with(fields={"role": "${who}"}), listed=("role",)) == []
    (found,) = problems(call_with(fields={"role": "${who}", "team": "${who}"}), listed=("role",))
    assert found.startswith("calls.0.fields.team: the value 'who' is an annotation, and fromAnnotations")


@pytest.mark.parametrize("name", OWN_HEADERS)
@pytest.mark.parametrize("write", [str, str.upper, str.title])
def test_no_recipe_sets_a_header_of_the_client(name: str, write: type[str]) -> None:
    (found,) = problems(call_with(headers={write(name): "x"}))
    assert found == f"calls.0.headers.{write(name)}: this header cannot be set"


@pytest.mark.parametrize("name", ["", "X Y", "X:", "X\n", "Ä", " Host"])
def test_a_headers_name_has_letters_digits_and_dashes(name: str) -> None:
    (found,) = problems(call_with(headers={name: "x"}))
    assert found.endswith("this header cannot be set")


def test_other_headers_are_the_recipes() -> None:
    assert problems(call_with(headers={"X-Vault-Namespace": "x", "X_Y": "${registry}"})) == []
