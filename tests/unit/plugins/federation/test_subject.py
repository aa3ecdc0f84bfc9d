"""When a subject token holds: clocks may differ by a minute, and an expiry may not."""

from __future__ import annotations

import pytest

from keyferry.api.federation.v1alpha1 import SubjectSettings
from keyferry.sdk import ProvideError
from keyferry_plugins.federation.subject import check_subject
from support.jose_tokens import forge

NOW = 1_000_000
LEEWAY = 60
SETTINGS = SubjectSettings(audience="registry", issuer="https://issuer")
CLAIMS: dict[str, object] = {"iss": "https://issuer", "sub": "s", "aud": "registry", "exp": NOW + 600}


def token(**changes: object) -> str:
    """A token with changed claims."""
    return forge({"alg": "none"}, claims={**CLAIMS, **changes})


@pytest.mark.parametrize("start", [NOW - 1000, NOW, NOW + LEEWAY])
def test_clocks_may_differ_a_little(start: int) -> None:
    found = check_subject(token(nbf=start), SETTINGS, NOW)
    assert (found.issuer, found.audience, found.expires_at) == ("https://issuer", "registry", NOW + 600)


@pytest.mark.parametrize("start", [NOW + LEEWAY + 1, NOW + 3600])
def test_a_token_of_later_is_not_valid_yet(start: int) -> None:
    with pytest.raises(ProvideError, match="the subject token is not valid yet"):
        check_subject(token(nbf=start), SETTINGS, NOW)


@pytest.mark.parametrize("end", [NOW, NOW - 1, None, "soon"])
def test_a_token_has_an_end_that_is_to_come(end: object) -> None:
    """Without a leeway: a token that the receiver may refuse is not worth sending."""
    with pytest.raises(ProvideError, match="has expired or has no expiry"):
        check_subject(token(exp=end), SETTINGS, NOW)
    assert check_subject(token(exp=NOW + 1), SETTINGS, NOW).expires_at == NOW + 1
