"""The presets as documents: each reads without a problem, and keeps the rules that hold for everyone's recipes."""

from __future__ import annotations

import pytest

from keyferry.api.federation.presets import PRESETS, load_preset
from keyferry.api.federation.recipes import Provenance, find_problems
from keyferry.api.federation.rules import has_form
from keyferry.api.federation.v1alpha1 import FederationPreset
from keyferry.api.wire import Reader


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_is_a_recipe_like_any_other(name: str) -> None:
    reader = Reader()
    preset = FederationPreset.from_document(PRESETS[name], reader)
    assert reader.problems == []
    classes = dict.fromkeys(preset.parameters, Provenance.FILE)
    assert list(find_problems(preset, classes)) == []
    assert preset.about
    assert all(parameter.about for parameter in preset.parameters.values())


@pytest.mark.parametrize("name", PRESETS)
def test_every_parameter_is_used(name: str) -> None:
    preset = load_preset(name)
    assert preset is not None
    text = str([PRESETS[name]["calls"], PRESETS[name]["credentials"]])
    assert [each for each in preset.parameters if f"{each}}}" not in text] == []


@pytest.mark.parametrize("name", PRESETS)
def test_a_form_is_said_in_words_and_defaults_have_it(name: str) -> None:
    preset = load_preset(name)
    assert preset is not None
    for parameter in preset.parameters.values():
        assert bool(parameter.pattern) == bool(parameter.expected)
        assert not parameter.default or has_form(parameter, parameter.default)


def test_an_unknown_preset_is_none() -> None:
    assert load_preset("nexus") is None
