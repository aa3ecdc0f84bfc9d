"""The differences between two provider configs: providers, patterns, and the images that get other credentials.

Everything is decided by the patterns alone, as the kubelet decides which plugins to run; no plugin is run.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from enum import StrEnum

from keyferry._core.secrets import MASK
from keyferry._core.values import Value
from keyferry.api.kubeletconfig.v1 import CredentialProvider, ServiceAccountTokenAttributes
from keyferry.api.meta import format_duration
from keyferry.images.config.read import ReadConfig
from keyferry.images.match import PatternIndex
from keyferry.images.reference import normalise

# The settings of a provider besides its name and patterns, by their names in a config.
_SETTINGS = {
    "apiVersion": "api_version",
    "args": "args",
    "defaultCacheDuration": "default_cache_duration_ns",
    "env": "env",
    "tokenAttributes": "token_attributes",
}
_ATTRIBUTES = {
    "serviceAccountTokenAudience": "service_account_token_audience",
    "cacheType": "cache_type",
    "requireServiceAccount": "require_service_account",
    "requiredServiceAccountAnnotationKeys": "required_service_account_annotation_keys",
    "optionalServiceAccountAnnotationKeys": "optional_service_account_annotation_keys",
}


class EntryChange(StrEnum):
    """What happened to a provider or a pattern."""

    NEW = "new"
    GONE = "gone"
    CHANGED = "changed"  # a provider with other settings
    MOVED = "moved"  # a provider that is tried earlier or later than others
    SHADOWED = "shadowed"  # a pattern whose images an earlier provider now serves first


class ImageDifference(StrEnum):
    """How the credentials of an image differ."""

    PROVIDER = "provider"  # another set of providers
    KEY = "key"  # another pattern of the same provider
    ORDER = "order"  # the same providers in another order
    SETTINGS = "settings"  # the same providers, with other arguments, variables or the like


class SettingChange(Value):
    """A setting that differs, before and after as text, empty for none; what may be a secret is masked in it."""

    name: str
    old: str
    new: str


class ProviderChange(Value):
    """A provider that differs; ``settings`` are those that changed."""

    name: str
    change: EntryChange
    settings: tuple[SettingChange, ...] = ()


class Served(Value):
    """A provider that is asked for an image, and its first pattern that matches the image."""

    provider: str
    pattern: str


class PatternChange(Value):
    """A pattern that differs; ``by`` is the earlier provider that matches all that a shadowed one matches."""

    pattern: str
    provider: str
    change: EntryChange
    by: Served | None = None


class ImageChange(Value):
    """An image with other credentials: the providers that are asked, in order, before and after."""

    image: str
    old: tuple[Served, ...]
    new: tuple[Served, ...]
    differences: tuple[ImageDifference, ...]


class ConfigChanges(Value):
    """All differences; ``images`` is the number of images that were compared."""

    providers: tuple[ProviderChange, ...] = ()
    patterns: tuple[PatternChange, ...] = ()
    changed_images: tuple[ImageChange, ...] = ()
    images: int = 0

    @property
    def has_changes(self) -> bool:
        """Whether anything differs."""
        return bool(self.providers or self.patterns or self.changed_images)


def compare_configs(old: ReadConfig, new: ReadConfig, images: Sequence[str] = ()) -> ConfigChanges:
    """Return the differences between two valid configs, also for each of *images*. Raises ImageNameError."""
    providers = tuple(_compare_providers(old.providers, new.providers))
    before, after = _Side(old.providers), _Side(new.providers)
    changed = {each.name for each in providers if each.change is EntryChange.CHANGED}
    compared = dict.fromkeys(images)
    found = tuple(_compare_images(before, after, compared, changed))
    return ConfigChanges(
        providers=providers,
        patterns=tuple(_compare_patterns(before, after)),
        changed_images=found,
        images=len(compared),
    )


class _Side:
    """One of the two configs, with an index of its patterns."""

    def __init__(self, providers: Sequence[CredentialProvider]) -> None:
        self.names = [provider.name for provider in providers]
        self.patterns = [
            (number, text)
            for number, provider in enumerate(providers)
            for text in dict.fromkeys(provider.match_images or ())
        ]
        self._index = PatternIndex(self.patterns)

    def served(self, image: str) -> tuple[Served, ...]:
        """Return the providers that are asked for a normalised image, in order."""
        return tuple(
            Served(provider=self.names[number], pattern=text) for number, text in self._index.match(image)
        )

    def owned(self) -> dict[tuple[str, str], int]:
        """Return the numbers of the providers by pattern and name."""
        return {(text, self.names[number]): number for number, text in self.patterns}

    def shadow_of(self, pattern: str, provider: str) -> Served | None:
        """Return the first earlier provider with a pattern that matches everything that *pattern* matches."""
        # Every star of the pattern is an ordinary character here, which only an equal or wider pattern matches.
        first = next(iter(self.served(pattern)), None)
        return None if first is None or first.provider == provider else first


def _compare_providers(
    old: Sequence[CredentialProvider], new: Sequence[CredentialProvider]
) -> Iterator[ProviderChange]:
    before, after = ({provider.name: provider for provider in side} for side in (old, new))
    yield from (ProviderChange(name=name, change=EntryChange.GONE) for name in before if name not in after)
    kept = [name for name in before if name in after]
    order = [name for name in after if name in before]
    for name, provider in after.items():
        if name not in before:
            yield ProviderChange(name=name, change=EntryChange.NEW)
            continue
        settings = tuple(_changed_settings(before[name], provider))
        if settings:
            yield ProviderChange(name=name, change=EntryChange.CHANGED, settings=settings)
        if kept.index(name) != order.index(name):
            yield ProviderChange(name=name, change=EntryChange.MOVED)


def _changed_settings(old: CredentialProvider, new: CredentialProvider) -> Iterator[SettingChange]:
    for field, name in _SETTINGS.items():
        # A list that is missing is an empty one.
        if (getattr(old, name) or None) != (getattr(new, name) or None):
            yield SettingChange(name=field, old=_setting(old, field), new=_setting(new, field))


def _setting(provider: CredentialProvider, field: str) -> str:
    """Return a setting as text; arguments and the values of variables may be secrets."""
    value = getattr(provider, _SETTINGS[field])
    if not value:
        return ""
    if field == "args":
        return ", ".join([MASK] * len(value))
    if field == "env":
        return ", ".join(f"{each.name}={MASK}" for each in value)
    if field == "tokenAttributes":
        return ", ".join(f"{name}: {text}" for name, text in _attributes(value))
    return format_duration(value) if field == "defaultCacheDuration" else str(value)


def _attributes(value: ServiceAccountTokenAttributes) -> Iterator[tuple[str, str]]:
    for field, name in _ATTRIBUTES.items():
        found = getattr(value, name)
        if found is not None:
            yield field, " ".join(found) if isinstance(found, tuple) else str(found)


def _compare_patterns(old: _Side, new: _Side) -> Iterator[PatternChange]:
    before, after = old.owned(), new.owned()
    for text, name in before:
        if (text, name) not in after:
            yield PatternChange(pattern=text, provider=name, change=EntryChange.GONE)
    for text, name in after:
        if (text, name) not in before:
            yield PatternChange(pattern=text, provider=name, change=EntryChange.NEW)
        shadow = new.shadow_of(text, name)
        was = old.shadow_of(text, name) if (text, name) in before else None
        if shadow is not None and (was is None or was.provider != shadow.provider):
            yield PatternChange(pattern=text, provider=name, change=EntryChange.SHADOWED, by=shadow)


def _compare_images(
    old: _Side, new: _Side, images: Iterable[str], changed: set[str]
) -> Iterator[ImageChange]:
    for image in images:
        name = normalise(image)
        before, after = old.served(name), new.served(name)
        differences = tuple(_differences(before, after, changed))
        if differences:
            yield ImageChange(image=image, old=before, new=after, differences=differences)


def _differences(
    old: tuple[Served, ...], new: tuple[Served, ...], changed: set[str]
) -> Iterator[ImageDifference]:
    before, after = ({each.provider: each.pattern for each in side} for side in (old, new))
    if before.keys() != after.keys():
        yield ImageDifference.PROVIDER
    elif list(before) != list(after):
        yield ImageDifference.ORDER
    if any(after.get(name, pattern) != pattern for name, pattern in before.items()):
        yield ImageDifference.KEY
    if any(name in changed for name in after):
        yield ImageDifference.SETTINGS
