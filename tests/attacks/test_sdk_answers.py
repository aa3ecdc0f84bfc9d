"""Answers of careless plugins on the SDK: what would do harm never leaves them, what is let through is right."""

from __future__ import annotations

from typing import cast

import pytest

from keyferry.errors import ProvideError
from keyferry.images.provider.plugin import decode_response
from keyferry.sdk import AuthConfig, ExecResponse, Response
from keyferry.sdk.cluster import respond_cluster
from keyferry.sdk.image import respond
from support.certificates import key_pem, make_certificate, make_key
from support.sdk_plugins import IMAGE_GROUP, SECRET, exec_info, request_bytes

NAN = float("nan")
BAD_RESPONSES: dict[str, tuple[object, str]] = {
    "negative-time": (Response(cache_seconds=-1), "cache_seconds"),
    "nan-time": (Response(cache_seconds=NAN), "cache_seconds"),
    "endless-time": (Response(cache_seconds=float("inf")), "cache_seconds"),
    "huge-time": (Response(cache_seconds=9_223_372_037), "cache_seconds"),
    "absurd-time": (Response(cache_seconds=10**5000), "cache_seconds"),
    "time-as-text": (Response(cache_seconds="10m"), "cache_seconds is str"),  # type: ignore[arg-type] # the point
    "time-as-bool": (Response(cache_seconds=True), "cache_seconds is bool"),
    "key-type": (Response(cache_key_type="registry"), "cache_key_type is 'registry'"),
    "key-type-none": (Response(cache_key_type=None), "cache_key_type is None"),  # type: ignore[arg-type] # the point
    "auth-list": (Response(auth=[("r", 1)]), "auth is list"),  # type: ignore[arg-type] # the point
    "auth-none": (Response(auth=None), "auth is NoneType"),  # type: ignore[arg-type] # the point
    "entry-tuple": (Response(auth={"r": ("user", SECRET)}), "under 'r' is tuple"),  # type: ignore[dict-item] # the point
    "entry-none": (Response(auth={"r": None}), "under 'r' is NoneType"),  # type: ignore[dict-item] # the point
    "key-number": (Response(auth={5: AuthConfig(username="u", password=SECRET)}), "auth key 5"),  # type: ignore[dict-item] # the point
    "key-empty": (Response(auth={"": AuthConfig(username="u", password=SECRET)}), "auth key ''"),
    "key-blank": (Response(auth={"r .io": AuthConfig(username="u", password=SECRET)}), "auth key 'r .io'"),
    "key-line-break": (Response(auth={"r\n": AuthConfig(username="u", password=SECRET)}), "auth key"),
    "key-surrogate": (Response(auth={"r\udcff": AuthConfig(username="u", password=SECRET)}), "auth key"),
    "user-colon": (
        Response(auth={"r": AuthConfig(username="u:v", password=SECRET)}),
        "username under 'r' has a colon",
    ),
    "user-line-break": (
        Response(auth={"r": AuthConfig(username="u\r\nX: y", password=SECRET)}),
        "username under 'r'",
    ),
    "user-none": (
        Response(auth={"r": AuthConfig(username=None, password=SECRET)}),  # type: ignore[arg-type] # the point
        "username under 'r' is NoneType",
    ),
    "password-line-break": (
        Response(auth={"r": AuthConfig(username="u", password=SECRET + "\n")}),
        "password under 'r'",
    ),
    "password-nul": (
        Response(auth={"r": AuthConfig(username="u", password=SECRET + "\0")}),
        "password under 'r'",
    ),
    "password-delete": (
        Response(auth={"r": AuthConfig(username="u", password=SECRET + "\x7f")}),
        "password under 'r'",
    ),
    "password-bytes": (
        Response(auth={"r": AuthConfig(username="u", password=SECRET.encode())}),  # type: ignore[arg-type] # the point
        "password under 'r' is bytes",
    ),
    "password-number": (
        Response(auth={"r": AuthConfig(username="u", password=5)}),  # type: ignore[arg-type] # the point
        "password under 'r' is int",
    ),
    "password-surrogate": (
        Response(auth={"r": AuthConfig(username="u", password=SECRET + "\udc80")}),
        "password under 'r'",
    ),
    "no-response": (None, "returned NoneType, not a Response"),
    "a-dictionary": ({"auth": {}}, "returned dict, not a Response"),
    "of-the-other-kind": (ExecResponse(token="token"), "returned ExecResponse, not a Response"),
}


@pytest.mark.parametrize("case", BAD_RESPONSES.values(), ids=BAD_RESPONSES)
def test_a_response_that_would_do_harm_is_an_error_of_the_plugin(case: tuple[object, str]) -> None:
    """What the kubelet would refuse, or take and fail with, never leaves the plugin; nor does its secret."""
    response, words = cast("tuple[Response, str]", case)
    with pytest.raises(ProvideError) as caught:
        respond(lambda _: response, request_bytes())
    assert words in str(caught.value)
    assert SECRET not in str(caught.value)


GOOD_RESPONSES = {
    "nothing": Response(),
    "never-cached": Response(cache_seconds=0),
    "a-nanosecond": Response(cache_seconds=1e-9),
    "fractions": Response(cache_seconds=4.1),
    "longest": Response(cache_seconds=9_223_372_036),
    "global": Response(
        auth={"*.example": AuthConfig(username="u", password="p")}, cache_key_type="Global", cache_seconds=60
    ),
    "unicode": Response(
        auth={"r": AuthConfig(username="j\u00f6rg", password="p\u00e4\u00df\u20ac\U0001f511")}
    ),
    "markup": Response(auth={"r/<a>&b": AuthConfig(username="<u>", password="\"'\\&\u2028")}),
    "blanks-in-a-password": Response(auth={"r": AuthConfig(username="", password=" p w ")}),
}


@pytest.mark.parametrize("version", ["v1", "v1beta1", "v1alpha1"])
@pytest.mark.parametrize("response", GOOD_RESPONSES.values(), ids=GOOD_RESPONSES)
def test_every_answer_passes_the_kubelets_strict_decoding(response: Response, version: str) -> None:
    """What is let through arrives unchanged."""
    answer = respond(lambda _: response, request_bytes(version=version))
    decoded = decode_response("plugin", f"{IMAGE_GROUP}/{version}", answer)
    assert decoded.cache_key_type == response.cache_key_type
    assert dict(decoded.auth or {}) == dict(response.auth)
    expected = None if response.cache_seconds is None else round(response.cache_seconds * 1e9)
    assert decoded.cache_duration_ns == expected


KEY = make_key()
PAIR = (make_certificate(KEY), key_pem(KEY))
BAD_EXEC_RESPONSES: dict[str, tuple[object, str]] = {
    "nothing": (ExecResponse(), "neither a token nor a client certificate"),
    "certificate-alone": (
        ExecResponse(client_certificate_data=PAIR[0]),
        "certificate without a key, or a key",
    ),
    "key-alone": (
        ExecResponse(token="t", client_key_data=PAIR[1]),
        "without a key, or a key without a certificate",
    ),
    "no-pem": (ExecResponse(client_certificate_data="x", client_key_data=PAIR[1]), "no certificate in PEM"),
    "swapped": (
        ExecResponse(token="t", expires_at=None, client_certificate_data=PAIR[1], client_key_data=PAIR[0]),
        "no certificate in PEM",
    ),
    "no-key": (
        ExecResponse(token="t", expires_at=None, client_certificate_data=PAIR[0], client_key_data=PAIR[0]),
        "no private key in PEM",
    ),
    "token-bytes": (ExecResponse(token=SECRET.encode()), "token is bytes"),  # type: ignore[arg-type] # the point
    "token-none": (ExecResponse(token=None), "token is NoneType"),  # type: ignore[arg-type] # the point
    "key-bytes": (
        ExecResponse(
            token="t",
            client_certificate_data=PAIR[0],
            client_key_data=PAIR[1].encode(),  # type: ignore[arg-type] # the point
        ),
        "client_key_data is bytes",
    ),
    "token-line-break": (ExecResponse(token=SECRET + "\r\nX: y"), "not allowed in an HTTP header"),
    "token-blank": (ExecResponse(token=f"{SECRET} "), "not allowed in an HTTP header"),
    "token-unicode": (ExecResponse(token=f"{SECRET}é"), "not allowed in an HTTP header"),
    "expiry-nan": (ExecResponse(token="t", expires_at=NAN), "expires_at"),
    "expiry-endless": (ExecResponse(token="t", expires_at=float("inf")), "expires_at"),
    "expiry-negative": (ExecResponse(token="t", expires_at=-1), "expires_at"),
    "expiry-year-10000": (ExecResponse(token="t", expires_at=253_402_300_800), "expires_at"),
    "expiry-absurd": (ExecResponse(token="t", expires_at=10**5000), "expires_at"),
    "expiry-text": (ExecResponse(token="t", expires_at="2030-01-01T00:00:00Z"), "expires_at is str"),  # type: ignore[arg-type] # the point
    "no-response": (None, "returned NoneType"),
    "of-the-other-kind": (Response(), "returned Response, not an ExecResponse"),
}


@pytest.mark.parametrize("case", BAD_EXEC_RESPONSES.values(), ids=BAD_EXEC_RESPONSES)
def test_a_credential_that_would_do_harm_is_an_error_of_the_plugin(case: tuple[object, str]) -> None:
    """What a client would refuse, or put into a header, never leaves the plugin; nor does its secret."""
    response, words = cast("tuple[ExecResponse, str]", case)
    with pytest.raises(ProvideError) as caught:
        respond_cluster(lambda _: response, exec_info()["KUBERNETES_EXEC_INFO"])
    assert words in str(caught.value)
    assert SECRET not in str(caught.value)
