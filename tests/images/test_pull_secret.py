"""A pull secret of what a program has in its hands: a document of the API, or an object of the official client."""

from __future__ import annotations

import base64
import json
from types import SimpleNamespace
from typing import Any

import pytest
from kubernetes.client import ApiClient, V1ObjectMeta, V1Secret

import keyferry

PASSWORD = "kf-marked-word"
CONTENT = json.dumps({"auths": {"reg.io": {"username": "jane", "password": PASSWORD}}})
ENCODED = base64.b64encode(CONTENT.encode()).decode()
TYPE = "kubernetes.io/dockerconfigjson"
API: Any = ApiClient()
DOCUMENT: dict[str, object] = {
    "apiVersion": "v1",
    "kind": "Secret",
    "metadata": {"name": "regcred", "namespace": "shop", "uid": "u-1"},
    "type": TYPE,
    "data": {".dockerconfigjson": ENCODED},
    "immutable": True,
}
OBJECT = V1Secret(
    metadata=V1ObjectMeta(name="regcred", namespace="shop", uid="u-1"),
    type=TYPE,
    data={".dockerconfigjson": ENCODED},
    immutable=True,
)


@pytest.mark.parametrize(
    "secret",
    [DOCUMENT, OBJECT, OBJECT.to_dict(), API.sanitize_for_serialization(OBJECT)],
    ids=["document", "V1Secret", "to_dict", "sanitize_for_serialization"],
)
def test_the_same_secret_in_every_form_is_the_same_pull_secret(secret: object) -> None:
    found = keyferry.PullSecret.from_object(secret)
    assert found == keyferry.PullSecret(
        namespace="shop",
        name="regcred",
        type=TYPE,
        data={".dockerconfigjson": CONTENT.encode()},
        uid="u-1",
        is_immutable=True,
    )
    (credential,) = keyferry.Providers(()).lookup("reg.io/app", pull_secrets=[found]).credentials
    assert (credential.username, credential.password) == ("jane", PASSWORD)
    assert PASSWORD not in repr(found)


def test_a_manifest_may_have_plain_texts_and_no_namespace() -> None:
    manifest = {"metadata": {"name": "regcred"}, "type": TYPE, "stringData": {".dockerconfigjson": CONTENT}}
    found = keyferry.PullSecret.from_object(manifest, namespace="team")
    assert (found.namespace, found.data) == ("team", {".dockerconfigjson": CONTENT.encode()})


@pytest.mark.parametrize(
    ("secret", "problem"),
    [
        ({**DOCUMENT, "kind": "ConfigMap"}, "found kind 'ConfigMap', expected 'Secret'"),
        ({**DOCUMENT, "data": {"a": "*"}}, "data['a'] of secret 'regcred' is not base64"),
        ({**DOCUMENT, "data": ["a"]}, "data of secret 'regcred' is no map"),
        ({**DOCUMENT, "type": 7}, "found a number in 'type' of a Secret, expected a string"),
        ({"metadata": {}}, "metadata.name is missing or empty, expected the name of the Secret"),
        ({"kind": "Secret"}, "found neither metadata nor data, expected a Secret"),
        (SimpleNamespace(), "found neither metadata nor data, expected a Secret"),
        (PASSWORD, "found neither metadata nor data, expected a Secret"),
    ],
    ids=["another kind", "no base64", "a list", "a number", "no name", "empty", "another object", "a text"],
)
def test_anything_else_is_refused_without_its_content(secret: object, problem: str) -> None:
    with pytest.raises(keyferry.PullSecretError) as caught:
        keyferry.PullSecret.from_object(secret)
    assert str(caught.value) == problem
    assert caught.value.__context__ is None
