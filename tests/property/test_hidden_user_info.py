"""User info in a pattern or an image name, which may be a password, is in no form of an explanation."""

from __future__ import annotations

import json
import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keyferry.errors import ImageNameError
from keyferry.explain.causes import explain
from keyferry.explain.document import explanation_document
from keyferry.explain.explanation import Facts
from keyferry.explain.text import render
from keyferry.images.reference import parse_image
from support.function_plugins import answering, provider, providers

# No host, path or word of a text contains it.
MARK = "KFsecretKF"
SIGNS = st.text(string.ascii_letters + string.digits + "-._~!$&()*+,;=:%", max_size=6)
USER_INFO = st.builds("{}:{}{}{}".format, st.sampled_from(["", "bob", "*"]), SIGNS, st.just(MARK), SIGNS)
HOSTS = st.sampled_from(
    ["reg.io", "reg.io:5000", "*.io", "reg.oi", "REG.io", "a.reg.io", "[r]eg.io", "index.docker.io"]
)
PATHS = st.sampled_from(["", "/", "/team", "/team/*", "/te", "/other", "?x", "#x"])
PATTERNS = st.builds("{}{}@{}{}".format, st.sampled_from(["", "https://"]), USER_INFO, HOSTS, PATHS)
IMAGES = st.sampled_from(["reg.io/team/app", "reg.io:5000/team/app:v1", "alpine"])


@given(st.lists(PATTERNS, min_size=1, max_size=3), IMAGES)
def test_no_form_of_an_explanation_has_it(patterns: list[str], image: str) -> None:
    plugin = answering({"reg.io": ("bob", "x")})
    explanation = explain(Facts(answer=providers(provider("p", patterns, plugin)).lookup(image)))
    assert MARK not in str(render(explanation))
    assert MARK not in str(render(explanation, is_wide=True))
    assert MARK not in json.dumps(explanation_document(explanation))


@given(USER_INFO, st.sampled_from(["reg.example/x", "reg.example:5000/x:v1"]))
def test_the_error_of_an_image_name_does_not_have_it(user_info: str, name: str) -> None:
    with pytest.raises(ImageNameError) as caught:
        parse_image(f"{user_info}@{name}")
    assert MARK not in str(caught.value)
    assert name in str(caught.value)
