"""Two configs are compared by the rules with which the kubelet chooses providers."""

from __future__ import annotations

from pathlib import Path

import pytest

from keyferry.images.config.compare import (
    ConfigChanges,
    EntryChange,
    ImageDifference,
    Served,
    SettingChange,
    compare_configs,
)
from keyferry.images.config.read import ReadConfig, read_config
from support.scripted import config_text

SECRET = "hunter2-hunter2"


def read(folder: Path, providers: dict[str, list[str]], **settings: object) -> ReadConfig:
    entries = [
        {"name": name, "defaultCacheDuration": "10m", "matchImages": patterns} | settings
        for name, patterns in providers.items()
    ]
    path = folder / "config.json"
    path.write_text(config_text(*entries))
    return read_config(str(path))


def compare(
    folder: Path, old: dict[str, list[str]], new: dict[str, list[str]], *images: str
) -> ConfigChanges:
    return compare_configs(read(folder, old), read(folder, new), images)


def patterns(changes: ConfigChanges) -> list[tuple[str, str, str]]:
    return [(each.pattern, each.provider, str(each.change)) for each in changes.patterns]


def test_providers_and_patterns_are_new_or_gone(tmp_path: Path) -> None:
    changes = compare(
        tmp_path, {"a": ["a.io", "b.io"], "c": ["c.io"]}, {"a": ["a.io", "d.io"], "e": ["c.io"]}
    )
    assert [(each.name, str(each.change)) for each in changes.providers] == [("c", "gone"), ("e", "new")]
    assert patterns(changes) == [
        ("b.io", "a", "gone"),
        ("c.io", "c", "gone"),
        ("d.io", "a", "new"),
        ("c.io", "e", "new"),
    ]
    assert changes.has_changes


def test_the_order_of_providers_matters(tmp_path: Path) -> None:
    both = {"a": ["x.io"], "b": ["x.io"]}
    changes = compare(tmp_path, both, dict(reversed(both.items())), "x.io/app")
    assert {each.name: each.change for each in changes.providers} == {
        "a": EntryChange.MOVED,
        "b": EntryChange.MOVED,
    }
    (image,) = changes.changed_images
    assert image.differences == (ImageDifference.ORDER,)
    assert [each.provider for each in image.new] == ["b", "a"]
    assert patterns(changes) == [("x.io", "a", "shadowed")]


def test_a_new_provider_before_others_moves_none_of_them(tmp_path: Path) -> None:
    changes = compare(tmp_path, {"a": ["a.io"], "b": ["b.io"]}, {"n": ["n.io"], "a": ["a.io"], "b": ["b.io"]})
    assert [(each.name, str(each.change)) for each in changes.providers] == [("n", "new")]


@pytest.mark.parametrize(
    ("wide", "narrow", "is_shadowed"),
    [
        ("*.example.io", "reg.example.io", True),
        ("*.example.io", "*.example.io/team", True),
        ("reg.example.io", "*.example.io", False),
        ("example.io/team", "example.io/team/a", True),
        ("example.io/team/a", "example.io/team", False),
        ("example.io", "example.io:5000", False),
    ],
)
def test_a_pattern_is_shadowed_by_an_earlier_one_that_covers_it(
    tmp_path: Path, wide: str, narrow: str, *, is_shadowed: bool
) -> None:
    changes = compare(tmp_path, {"b": [narrow]}, {"a": [wide], "b": [narrow]})
    shadowed = [each for each in changes.patterns if each.change is EntryChange.SHADOWED]
    assert [(each.pattern, each.by) for each in shadowed] == (
        [(narrow, Served(provider="a", pattern=wide))] if is_shadowed else []
    )
    again = compare(tmp_path, {"a": [wide], "b": [narrow]}, {"a": [wide], "b": [narrow]})
    assert not again.has_changes


def test_images_change_provider_or_key(tmp_path: Path) -> None:
    changes = compare(
        tmp_path,
        {"a": ["x.io", "docker.io"], "b": ["y.io"]},
        {"a": ["*.io"], "b": ["y.io", "docker.io/library"]},
        *("x.io/app:v1", "nginx", "y.io/app", "quay.com/app", "x.io/app:v1"),
    )
    found = {
        each.image: [str(difference) for difference in each.differences] for each in changes.changed_images
    }
    assert found == {"x.io/app:v1": ["key"], "nginx": ["provider", "key"], "y.io/app": ["provider"]}
    assert changes.images == 4


def test_other_settings_are_shown_without_what_may_be_secret(tmp_path: Path) -> None:
    old = read(tmp_path, {"a": ["x.io"]}, args=[])
    new = read(tmp_path, {"a": ["x.io"]}, env=[{"name": "A", "value": SECRET}], defaultCacheDuration="1h")
    changes = compare_configs(old, new, ["x.io/app", "y.io/app"])
    (provider,) = changes.providers
    assert provider.settings == (
        SettingChange(name="defaultCacheDuration", old="10m0s", new="1h0m0s"),
        SettingChange(name="env", old="", new="A=********"),
    )
    assert [each.differences for each in changes.changed_images] == [(ImageDifference.SETTINGS,)]
    assert SECRET not in repr(changes)
