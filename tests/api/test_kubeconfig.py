"""Kubeconfigs are read field by field: names leniently, types strictly."""

from __future__ import annotations

import pytest

from keyferry.api.kubeconfig.v1 import (
    AuthInfo,
    ExecConfig,
    Kubeconfig,
    read_kubeconfig,
)
from keyferry.api.wire import Reader


def read(document: object) -> tuple[Kubeconfig, list[tuple[str, str]]]:
    """What a document holds, and the path and class of every problem."""
    reader = Reader(sort_keys=True, lenient=True)
    config = read_kubeconfig(document, reader)
    return config, [(problem.path, problem.kind) for _, problem in reader.problems]


def read_user(user: object) -> AuthInfo:
    """A user that has nothing wrong with it."""
    config, problems = read({"users": [{"name": "u", "user": user}]})
    assert problems == []
    return config.users["u"]


@pytest.mark.parametrize(
    ("section", "content"),
    [
        pytest.param({"exec": None, "auth-provider": None, "token": None}, AuthInfo(), id="null is absence"),
        pytest.param({"Token": "t", "EXEC": {}, "tokenfile": "f"}, AuthInfo(), id="case counts"),
        pytest.param({"stdinUnavailable": 5, "new": []}, AuthInfo(), id="unknown fields are passed over"),
        pytest.param({"exec": {}}, AuthInfo(exec=ExecConfig()), id="an empty exec section is one"),
        pytest.param({"auth-provider": {}}, AuthInfo(auth_provider=""), id="and so is an auth provider"),
    ],
)
def test_what_is_not_said_is_empty(section: object, content: AuthInfo) -> None:
    assert read_user(section) == content


@pytest.mark.parametrize(
    ("document", "problems"),
    [
        pytest.param(
            {"users": [{"name": 1}], "contexts": [{"context": {"user": True}}]},
            [("contexts[0].context.user", "wrong-type"), ("users[0].name", "wrong-type")],
            id="in the order of sorted keys",
        ),
        pytest.param(
            {
                "users": [
                    {"user": {"exec": {"args": [1], "env": [{"value": 5}], "provideClusterInfo": "yes"}}}
                ]
            },
            [
                ("users[0].user.exec.args[0]", "wrong-type"),
                ("users[0].user.exec.env[0].value", "wrong-type"),
                ("users[0].user.exec.provideClusterInfo", "wrong-type"),
            ],
            id="in an exec section",
        ),
        pytest.param(
            {"preferences": {"colors": 1}}, [("preferences.colors", "wrong-type")], id="preferences"
        ),
        pytest.param(
            {"users": [{"user": {"client-key-data": "Zm9"}}]},
            [("users[0].user.client-key-data", "base64")],
            id="base64 without padding",
        ),
        pytest.param(
            {"clusters": [{"cluster": {"certificate-authority-data": "Zm9v===="}}]},
            [("clusters[0].cluster.certificate-authority-data", "base64")],
            id="base64 with too much of it",
        ),
    ],
)
def test_types_are_strict(document: object, problems: list[tuple[str, str]]) -> None:
    assert read(document)[1] == problems


def test_a_name_is_given_once_in_each_list_and_clashes_come_in_the_order_of_conversion() -> None:
    extensions = [{"name": "e", "extension": 1}, {"name": "e", "extension": 2}]
    twice = [{"name": "a"}, {"name": "a"}]
    document = {
        "extensions": extensions,
        "contexts": twice,
        "users": [{}, {"name": ""}],
        "clusters": [{"name": "a"}, {"name": "a", "cluster": {"extensions": extensions}}],
        "preferences": {"extensions": extensions},
    }
    assert read(document)[1] == [
        ("preferences.extensions[1].name", "other"),
        ("clusters[1].cluster.extensions[1].name", "other"),
        ("clusters[1].name", "other"),
        ("users[1].name", "other"),
        ("contexts[1].name", "other"),
        ("extensions[1].name", "other"),
    ]


def test_a_null_extension_leaves_its_name_free() -> None:
    document = {
        "extensions": [{"name": "e"}, {"name": "e", "extension": None}, {"name": "e", "extension": 0}]
    }
    assert read(document)[1] == []
    document["extensions"].append({"name": "e"})
    assert read(document)[1] == [("extensions[3].name", "other")]


@pytest.mark.parametrize(
    ("document", "is_empty"),
    [
        (None, True),
        ({"preferences": {"colors": False}}, True),
        ({"preferences": {"colors": True}}, False),
        ({"extensions": [{"name": "x"}]}, False),
        ({"current-context": "x"}, False),
    ],
)
def test_preferences_and_extensions_keep_a_config_from_being_empty(
    document: object, *, is_empty: bool
) -> None:
    assert read(document)[0].is_empty is is_empty


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "null"),
        ({"b": [1, {"d": 1, "c": 2}], "a": True}, '{"a":true,"b":[1,{"c":2,"d":1}]}'),
        ("a\u2028<&>é", '"a\\u2028\\u003c\\u0026\\u003eé"'),
        ("1e-05 \\", '"1e-05 \\\\"'),
        ([1.5, 0.00001, 1.5e-7, 1e-10, 1e21], "[1.5,0.00001,1.5e-7,1e-10,1e+21]"),
    ],
)
def test_extensions_are_spelt_as_go_does(value: object, text: str) -> None:
    extensions = [{"name": "x", "extension": value}]
    config, problems = read({"clusters": [{"name": "k", "cluster": {"extensions": extensions}}]})
    assert (config.clusters["k"].extensions, problems) == ({"x": text}, [])
