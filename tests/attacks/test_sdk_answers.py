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
    "auth-list": (Response([("r", 1)]), "auth is list"),  # type: ignore[arg-type] # the point
    "auth-none": (Response(None), "auth is NoneType"),  # type: ignore[arg-type] # the point
    "entry-tuple": (Response({"r": ("user", SECRET)}), "under 'r' is tuple"),  # type: ignore[dict-item] # the point
    "entry-none": (Response({"r": None}), "under 'r' is NoneType"),  # type: ignore[dict-item] # the point
    "key-number": (Response({5: AuthConfig("u", SECRET)}), "auth key 5"),  # type: ignore[dict-item] # the point
    "key-empty": (Response({"": AuthConfig("u", SECRET)}), "auth key ''"),
    "key-blank": (Response({"r .io": AuthConfig("u", SECRET)}), "auth key 'r .io'"),
    "key-line-break": (Response({"r\n": AuthConfig("u", SECRET)}), "auth key"),
    "key-surrogate": (Response({"r\udcff": AuthConfig("u", SECRET)}), "auth key"),
    "user-colon": (Response({"r": AuthConfig("u:v", SECRET)}), "username under 'r' has a colon"),
    "user-line-break": (Response({"r": AuthConfig("u\r\nX: y", SECRET)}), "username under 'r'"),
    "user-none": (Response({"r": AuthConfig(None, SECRET)}), "username under 'r' is NoneType"),  # type: ignore[arg-type] # the point
    "password-line-break": (Response({"r": AuthConfig("u", SECRET + "\n")}), "password under 'r'"),
    "password-nul": (Response({"r": AuthConfig("u", SECRET + "\0")}), "password under 'r'"),
    "password-delete": (Response({"r": AuthConfig("u", SECRET + "\x7f")}), "password under 'r'"),
    "password-bytes": (Response({"r": AuthConfig("u", SECRET.encode())}), "password under 'r' is bytes"),  # type: ignore[arg-type] # the point
    "password-number": (Response({"r": AuthConfig("u", 5)}), "password under 'r' is int"),  # type: ignore[arg-type] # the point
    "password-surrogate": (Response({"r": AuthConfig("u", SECRET + "\udc80")}), "password under 'r'"),
    "no-response": (None, "returned NoneType, not a Response"),
    "a-dictionary": ({"auth": {}}, "returned dict, not a Response"),
    "of-the-other-kind": (ExecResponse("token"), "returned ExecResponse, not a Response"),
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
    "global": Response({"*.example": AuthConfig("u", "p")}, "Global", 60),
    "unicode": Response({"r": AuthConfig("j\u00f6rg", "p\u00e4\u00df\u20ac\U0001f511")}),
    "markup": Response({"r/<a>&b": AuthConfig("<u>", "\"'\\&\u2028")}),
    "blanks-in-a-password": Response({"r": AuthConfig("", " p w ")}),
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
        ExecResponse("t", client_key_data=PAIR[1]),
        "without a key, or a key without a certificate",
    ),
    "no-pem": (ExecResponse(client_certificate_data="x", client_key_data=PAIR[1]), "no certificate in PEM"),
    "swapped": (ExecResponse("t", None, PAIR[1], PAIR[0]), "no certificate in PEM"),
    "no-key": (ExecResponse("t", None, PAIR[0], PAIR[0]), "no private key in PEM"),
    "token-bytes": (ExecResponse(SECRET.encode()), "token is bytes"),  # type: ignore[arg-type] # the point
    "token-none": (ExecResponse(None), "token is NoneType"),  # type: ignore[arg-type] # the point
    "key-bytes": (ExecResponse("t", None, PAIR[0], PAIR[1].encode()), "client_key_data is bytes"),  # type: ignore[arg-type] # the point
    "token-line-break": (ExecResponse(SECRET + "\r\nX: y"), "not allowed in an HTTP header"),
    "token-blank": (ExecResponse(f"{SECRET} "), "not allowed in an HTTP header"),
    "token-unicode": (ExecResponse(f"{SECRET}é"), "not allowed in an HTTP header"),
    "expiry-nan": (ExecResponse("t", NAN), "expires_at"),
    "expiry-endless": (ExecResponse("t", float("inf")), "expires_at"),
    "expiry-negative": (ExecResponse("t", -1), "expires_at"),
    "expiry-year-10000": (ExecResponse("t", 253_402_300_800), "expires_at"),
    "expiry-absurd": (ExecResponse("t", 10**5000), "expires_at"),
    "expiry-text": (ExecResponse("t", "2030-01-01T00:00:00Z"), "expires_at is str"),  # type: ignore[arg-type] # the point
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
