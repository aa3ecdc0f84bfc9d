"""Strict decoding notes everything that is wrong, with its path; what is written is read again as it was."""

from __future__ import annotations

from typing import Any

import pytest

from keyferry.api.agentconfig.v1alpha1 import AgentConfig
from keyferry.api.clientauthentication.v1 import ExecCredential
from keyferry.api.codec import WrongTypeError, interpret, kubernetes_failure
from keyferry.api.federation.presets import PRESETS
from keyferry.api.federation.v1alpha1 import FederationConfig, FederationPreset
from keyferry.api.kubeconfig.v1 import Kubeconfig
from keyferry.api.kubeletconfig.v1 import OLD_VERSIONS, CredentialProvider, CredentialProviderConfig
from keyferry.api.kuberc.v1beta1 import Preference
from keyferry.api.wire import Reader, Shape, WireValue, anything, boolean, duration, list_of, map_of, text


def noted(reader: Reader) -> list[tuple[str, str, str]]:
    return [(problem.path, problem.message, problem.kind) for _, problem in reader.problems]


def test_a_struct_takes_known_fields_and_notes_the_rest() -> None:
    """Unknown fields are noted with their path, and known ones are read all the same."""
    reader = Reader()
    fields: dict[str, Shape[Any]] = {"a": text, "b": boolean}
    assert reader.struct({"a": "x", "B": True, "b": False}, ("top",), fields) == {"a": "x", "b": False}
    assert noted(reader) == [("top.B", "unknown field", "strict")]
    assert reader.problems[0][1].kubernetes_text == 'unknown field "top.B"'


@pytest.mark.parametrize(
    ("value", "found"),
    [(1, "a number"), (1.5, "a number"), (True, "a bool"), ([], "an array"), ({}, "an object")],
)
def test_a_wrong_type_is_noted_and_read_as_empty(value: object, found: str) -> None:
    """A value of another type than a string is a problem and counts as the empty string."""
    reader = Reader()
    assert text.read_item(reader, value, ("a", 0, "b")) == ""
    assert noted(reader) == [("a[0].b", f"found {found}, expected a string", "wrong-type")]


def test_null_is_the_empty_value_of_every_type() -> None:
    """Null gives no fields, no map, no list, no text, no boolean and no duration, without a problem."""
    reader = Reader()
    assert reader.struct(None, (), {}) == {}
    for shape, zero in ((map_of(text), {}), (list_of(text), ()), (text, ""), (boolean, False), (duration, 0)):
        assert shape.read(reader, None, ()) is None
        assert shape.read_item(reader, None, ()) == zero
    assert anything.read(reader, [1], ()) == [1]
    assert reader.problems == []


def test_containers_of_the_wrong_type_are_noted() -> None:
    """A list where a map belongs, and the other way round, are problems; what is inside is not looked at."""
    reader = Reader()
    assert map_of(text).read(reader, ["x"], ("m",)) == {}
    assert list_of(text).read(reader, {"x": 1}, ("l",)) is None
    assert reader.struct("x", ("s",), {}) == {}
    assert boolean.read(reader, "yes", ("b",)) is None
    assert [path for path, _, _ in noted(reader)] == ["m", "l", "s", "b"]


def test_items_are_read_with_their_place() -> None:
    """Problems inside lists and maps name the index and the key."""
    reader = Reader()
    assert list_of(text).read(reader, ["a", 1], ("l",)) == ("a", "")
    assert map_of(text).read(reader, {"k": 2}, ("m",)) == {"k": ""}
    assert [path for path, _, _ in noted(reader)] == ["l[1]", "m.k"]


def test_durations_are_strings() -> None:
    """A duration that is a number is a wrong type; one that does not parse has Go's own error."""
    reader = Reader()
    assert duration.read(reader, "1m", ("d",)) == 60_000_000_000
    assert duration.read(reader, 60, ("d",)) is None
    assert duration.read(reader, "1x", ("d",)) is None
    (_, _, first), (_, _, second) = noted(reader)
    assert (first, second) == ("wrong-type", "duration")
    assert reader.problems[1][1].kubernetes_text == 'time: unknown unit "x" in duration "1x"'


def test_repeated_keys_are_noted_where_they_are_read() -> None:
    """A duplicate of the document becomes a problem of the object it stands in."""
    reader = Reader((("a",), ("elsewhere",)))
    reader.struct({"a": "x"}, (), {"a": text})
    assert noted(reader) == [("a", "the key is given more than once", "strict")]


def test_yaml_is_read_in_the_order_of_its_keys() -> None:
    """Kubernetes sorts the keys of YAML before it decodes them, and so do the problems come."""
    for sort_keys, order in ((True, ["a", "b"]), (False, ["b", "a"])):
        reader = Reader(sort_keys=sort_keys)
        reader.struct({"b": 1, "a": 1}, (), {})
        assert [path for path, _, _ in noted(reader)] == order


def test_a_value_that_does_not_fit_comes_before_strict_errors() -> None:
    """Kubernetes stops at the first wrong type and lists unknown fields only if there is none."""
    reader = Reader()
    reader.struct({"x": 1, "y": 2, "a": 3}, (), {"a": text})
    failure = kubernetes_failure(reader.problems)
    assert failure is not None
    assert failure.kind == "wrong-type"
    strict = kubernetes_failure([each for each in reader.problems if each[1].kind == "strict"])
    assert strict is not None
    assert strict.kubernetes_text == 'strict decoding error: unknown field "x", unknown field "y"'


def test_duplicates_of_yaml_lead_the_strict_errors() -> None:
    """The YAML parser's complaint comes first, also when it is the only one."""
    assert kubernetes_failure([]) is None
    alone = kubernetes_failure([], "yaml: twice")
    assert alone is not None
    assert alone.kubernetes_text == "strict decoding error: yaml: twice"


def test_strict_errors_are_listed_once_and_at_most_a_hundred_times() -> None:
    """As in Kubernetes, repeated texts count once and the list ends at a hundred."""
    reader = Reader()
    for _ in range(2):
        reader.struct({f"field{number}": 0 for number in range(150)}, (), {})
    failure = kubernetes_failure(reader.problems)
    assert failure is not None
    assert failure.kubernetes_text.count("unknown field") == 100


@pytest.mark.parametrize(
    ("document", "found"),
    [
        (None, ("", "")),
        ({}, ("", "")),
        ({"kind": "K", "apiVersion": "v"}, ("v", "K")),
        ({"KIND": "K", "apiversion": "v"}, ("v", "K")),
        ({"kind": "K", "Kind": "L"}, ("", "L")),
        ({"kind": None, "apiVersion": "v"}, ("v", "")),
    ],
)
def test_version_and_kind_are_read_in_any_case(document: object, found: tuple[str, str]) -> None:
    """Go's decoder forgives the case of names, and of two spellings the last counts."""
    assert interpret(document) == found


@pytest.mark.parametrize("document", [[], "text", 1, {"kind": 1}, {"apiVersion": {}}])
def test_version_and_kind_of_another_type_are_an_error(document: object) -> None:
    """What is no object, or has no text for a kind, has no kind at all."""
    with pytest.raises(WrongTypeError) as caught:
        interpret(document)
    assert caught.value.kubernetes_text.startswith("couldn't get version/kind; json parse error: ")


CALL = {
    "method": "PUT",
    "url": "https://${registry}",
    "encode": "json",
    "basic": {"username": "u", "password": "${subject}", "encode": "form"},
    "out": {"a": ["/a"], "b": ["/b", "/c"]},
}


RULE = {
    "registries": ["r.example"],
    "subject": {"from": "file", "file": "/t"},
    "params": {"host": "h", "secret": {"file": "/f"}, "team": {"annotation": "a", "pattern": ".*"}},
    "calls": [CALL],
    "lifetime": {"from": ["ttl"], "margin": "5m0s", "max": "1h0m0s"},
}


USER = {
    "client-key-data": "AP8=",
    "as-user-extra": {"k": ["v"]},
    "auth-provider": {"name": "gcp"},
    "exec": {"command": "c", "args": [""], "apiVersion": "client.authentication.k8s.io/v1"},
}


PROVIDER = {
    "name": "p",
    "matchImages": ["r.io"],
    "defaultCacheDuration": "0s",
    "env": [{"name": "A", "value": "b"}],
    "tokenAttributes": {"requireServiceAccount": False},
}


@pytest.mark.parametrize(
    ("kind", "document"),
    [
        (CredentialProviderConfig, {"providers": [PROVIDER]}),
        (ExecCredential, {"spec": {"cluster": {"server": "s", "config": {"a": [1]}}, "interactive": True}}),
        (ExecCredential, {"spec": {"interactive": False}, "status": {}}),
        (Preference, {"aliases": [{"name": "x"}], "credentialPluginAllowlist": [{"command": "c"}]}),
        (AgentConfig, {"cacheEntries": 0, "watch": False, "access": [{"uids": [1], "everyRegistry": True}]}),
        (FederationConfig, {"rules": [RULE]}),
        (Kubeconfig, {"users": [{"name": "u", "user": USER}], "preferences": {"colors": True}}),
        (
            Kubeconfig,
            {"clusters": [{"name": "k", "cluster": {"extensions": [{"name": "e", "extension": [1.5]}]}}]},
        ),
    ],
)
def test_a_document_is_written_as_it_was_read(kind: type[WireValue], document: dict[str, object]) -> None:
    reader = Reader()
    value = kind.from_document(document, reader)
    assert reader.problems == []
    assert value.to_document() == document


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_that_is_written_is_the_same(name: str) -> None:
    """What has its default need not be written."""
    preset = FederationPreset.from_document(PRESETS[name], Reader())
    assert FederationPreset.from_document(preset.to_document(), Reader()) == preset


def test_a_value_without_content_is_an_empty_document() -> None:
    """Absent lists and empty ones alike; only what Kubernetes always writes is there."""
    assert CredentialProvider(args=(), env=()).to_document() == {}
    assert ExecCredential().to_document() == {"spec": {"interactive": False}}


def test_an_old_version_has_no_newer_fields() -> None:
    config = CredentialProviderConfig.from_document({"providers": [PROVIDER]}, Reader())
    assert "tokenAttributes" in str(config.to_document())
    assert "tokenAttributes" not in str(config.to_document(OLD_VERSIONS[0]))
