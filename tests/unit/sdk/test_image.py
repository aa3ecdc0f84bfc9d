"""What an image plugin's function is given, and what its answers become."""

from __future__ import annotations

import pytest

from keyferry.errors import ProvideError
from keyferry.sdk import GLOBAL, IMAGE, REGISTRY, AuthConfig, Request, Response
from keyferry.sdk.image import respond
from support.sdk_plugins import IMAGE_GROUP, request_bytes


@pytest.mark.parametrize(
    ("image", "registry"),
    [("r.example/a/b", "r.example"), ("r.example:5000/a", "r.example:5000"), ("r.example", "r.example")],
)
def test_the_registry_is_what_stands_before_the_first_slash(image: str, registry: str) -> None:
    """With its port."""
    assert Request(image=image).registry == registry


def test_a_login_for_a_registry_and_one_for_an_image() -> None:
    """The key and the scope go together."""
    request = Request(image="r.example:5000/team/app")
    assert Response.for_registry(request, "u", "p", cache_seconds=1) == Response(
        auth={"r.example:5000": AuthConfig(username="u", password="p")},
        cache_key_type=REGISTRY,
        cache_seconds=1,
    )
    assert Response.for_image(request, "u", "p") == Response(
        auth={"r.example:5000/team/app": AuthConfig(username="u", password="p")},
        cache_key_type=IMAGE,
        cache_seconds=None,
    )


def test_the_function_gets_all_that_the_kubelet_sends() -> None:
    """Typed, and in the version it came in."""
    seen: list[Request] = []

    def provide(request: Request) -> Response:
        seen.append(request)
        return Response(auth={}, cache_key_type=GLOBAL)

    respond(provide, request_bytes("r/a", serviceAccountToken="t", serviceAccountAnnotations={"a": "b"}))
    respond(
        provide, request_bytes("r/a", "v1beta1", serviceAccountToken=None, serviceAccountAnnotations=None)
    )
    assert seen == [
        Request(
            image="r/a",
            service_account_token="t",
            service_account_annotations={"a": "b"},
            api_version=f"{IMAGE_GROUP}/v1",
        ),
        Request(
            image="r/a",
            service_account_token="",
            service_account_annotations={},
            api_version=f"{IMAGE_GROUP}/v1beta1",
        ),
    ]


DURATIONS = [(None, ""), (0, "0s"), (0.5, "500ms"), (90, "1m30s"), (2.3, "2.3s"), (43200, "12h0m0s")]


@pytest.mark.parametrize(("seconds", "text"), DURATIONS)
def test_a_cache_time_is_written_as_go_writes_it(seconds: float | None, text: str) -> None:
    """And left out where the config is to decide."""
    answer = respond(lambda _: Response(cache_seconds=seconds), request_bytes())
    assert (f'"cacheDuration":"{text}"'.encode() in answer) is bool(text)
    assert (b"cacheDuration" in answer) is bool(text)


def test_a_lenient_reading_takes_any_kind_but_not_just_anything() -> None:
    """It is to be an object with an image."""
    assert respond(lambda _: Response(), b'{"image":"a"}', is_lenient=True).startswith(b"{")
    for data in (b"[]", b'{"image":5}', b"{}", b"x"):
        with pytest.raises(ProvideError):
            respond(lambda _: Response(), data, is_lenient=True)
