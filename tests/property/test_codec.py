"""What is written is read again as it was, and no document at all breaks the reader."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from keyferry._core.documents import read_document
from keyferry.api.codec import interpret, kubernetes_failure
from keyferry.api.credentialprovider import v1
from keyferry.api.credentialprovider.v1 import AuthConfig, CredentialProviderRequest
from keyferry.api.kubeletconfig.v1 import CredentialProviderConfig
from keyferry.api.meta import format_duration, parse_duration
from keyferry.api.wire import Reader
from keyferry.errors import DocumentError
from keyferry.images.config.read import decode_file

TEXT = st.text(st.characters(exclude_categories=["Cs"]))
NAMES = st.sampled_from(
    [
        "kind", "apiVersion", "providers", "auth", "cacheKeyType", "cacheDuration", "env", "name", "value",
        "KIND", "x",
    ]
)  # fmt: skip
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(NAMES | TEXT, inner, max_size=5),
    max_leaves=25,
)


@given(TEXT, TEXT, st.dictionaries(TEXT, TEXT, max_size=4))
def test_a_request_can_be_read_again(image: str, token: str, annotations: dict[str, str]) -> None:
    """Any text goes through the plugin's standard input unharmed, on one line."""
    encoded = v1.encode_request(
        CredentialProviderRequest(
            image=image, service_account_token=token, service_account_annotations=annotations
        )
    )
    assert encoded.count(b"\n") == 1
    document = json.loads(encoded)
    assert document["image"] == image
    assert document.get("serviceAccountToken", "") == token
    assert document.get("serviceAccountAnnotations", {}) == annotations


@given(TEXT, st.integers(-(2**63), 2**63 - 1), st.dictionaries(TEXT, st.tuples(TEXT, TEXT), max_size=4))
def test_a_response_can_be_read_again(kind: str, duration: int, auth: dict[str, tuple[str, str]]) -> None:
    """Type, duration and every credential arrive as they were given."""
    document = {
        "cacheKeyType": kind,
        "cacheDuration": format_duration(duration),
        "auth": {key: {"username": name, "password": password} for key, (name, password) in auth.items()},
    }
    reader = Reader()
    response = v1.CredentialProviderResponse.from_document(json.loads(json.dumps(document)), reader)
    assert reader.problems == []
    assert (response.cache_key_type, response.cache_duration_ns) == (kind, duration)
    assert response.auth == {
        key: AuthConfig(username=pair[0], password=pair[1]) for key, pair in auth.items()
    }


@given(VALUES)
def test_no_document_breaks_the_reader(document: object) -> None:
    """Every value is read or noted; whatever is noted has a failure in Kubernetes' words."""
    for kind in (v1.CredentialProviderResponse, CredentialProviderConfig):
        reader = Reader()
        kind.from_document(document, reader)
        assert bool(reader.problems) is (kubernetes_failure(reader.problems) is not None)
    if isinstance(document, dict) and not any(name.lower() in ("kind", "apiversion") for name in document):
        assert interpret(document) == ("", "")


@given(VALUES)
def test_every_document_is_a_config_or_has_a_problem(document: object) -> None:
    """A file gives a config without problems only if Kubernetes would take it."""
    file = decode_file("config.json", json.dumps(document).encode())
    assert bool(file.problems) is bool(file.kubernetes_text)
    assert file.problems or isinstance(document, dict)


@given(st.binary(max_size=60) | st.text("-:{}[]&*!|>'\"%@ \nab<", max_size=60).map(str.encode))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    """No text makes the reader fail in any other way than its own."""
    try:
        document = read_document(data)
    except DocumentError as error:
        assert error.__context__ is None
    else:
        assert document.position(()).line >= 1


@given(st.integers(-(2**63), 2**63 - 1))
def test_a_duration_survives_being_written(nanoseconds: int) -> None:
    """Every duration Go can hold is written and read as itself."""
    assert parse_duration(format_duration(nanoseconds)) == nanoseconds
