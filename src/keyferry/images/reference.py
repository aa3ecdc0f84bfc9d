"""Parsing of image names as in the kubelet, which normalises them."""

from __future__ import annotations

import re

from keyferry._core.docker_hub import HUB, LOGIN_HOST
from keyferry._core.gotext import quote
from keyferry._core.user_info import hide_user_info
from keyferry._core.values import Value, replace
from keyferry.errors import ImageNameError

_OFFICIAL = "library/"
_DEFAULT_TAG = "latest"
_MAX_PATH = 255
_MAX_QUOTED_CHARACTERS = 255
_HEX_LENGTHS = {"sha256": 64, "sha384": 96, "sha512": 128}

# Each piece can match a text in only one way, so that a match that fails takes
# time in proportion to the length of the text.
_LABEL = "[a-zA-Z0-9]++(?:-++[a-zA-Z0-9]++)*"
_HOST = rf"(?:{_LABEL}(?:\.{_LABEL})*|\[[a-fA-F0-9:]++\])(?::[0-9]++)?"
_COMPONENT = r"[a-z0-9]++(?:(?:\.|__?|-++)[a-z0-9]++)*"
_TAG = "[a-zA-Z0-9_][a-zA-Z0-9_.-]{0,127}"
_DIGEST = "[A-Za-z][A-Za-z0-9]*+(?:[-_+.][A-Za-z][A-Za-z0-9]*+)*:[0-9a-fA-F]{32,}"
# Groups: name, its path alone, tag, digest.
_REFERENCE = f"((?:{_HOST}/)?({_COMPONENT}(?:/{_COMPONENT})*))(?::({_TAG}))?(?:@({_DIGEST}))?"

_DIGEST_ADVICE = (
    "the digest must be 'sha256:' and 64 lower-case hexadecimal digits (or sha384 and 96, sha512 and 128)"
)
_EXAMPLE = "expected a name such as 'registry.example:5000/team/app:v1'"


class _Flaw(Value):
    """Why an image name is invalid: Kubernetes' text, and *advice* for keyferry's message.

    Without *advice*, the message is chosen by the content of the name; *rule* is used if no other message applies.
    """

    kubernetes_text: str
    advice: str = ""
    rule: str = "it does not have the form registry/path:tag@digest"


_INVALID = _Flaw(kubernetes_text="invalid reference format")
_EMPTY = _Flaw(kubernetes_text="repository name must have at least one component", advice="it is empty")
_UPPER_CASE = _Flaw(kubernetes_text="repository name must be lowercase", rule="repository must be lower case")
_TOO_LONG = _Flaw(
    kubernetes_text=f"repository name must not be more than {_MAX_PATH} characters",
    advice=f"repository is longer than {_MAX_PATH} characters",
)
_DIGEST_INVALID = _Flaw(kubernetes_text="invalid checksum digest format", advice=_DIGEST_ADVICE)
_DIGEST_LENGTH = _Flaw(kubernetes_text="invalid checksum digest length", advice=_DIGEST_ADVICE)
_DIGEST_UNSUPPORTED = _Flaw(kubernetes_text="unsupported digest algorithm", advice=_DIGEST_ADVICE)


class ImageName(Value):
    """An image name with all defaults filled in; ``text`` is the name as written.

    ``repository`` is the normalised name, which patterns and keys are compared with.
    """

    text: str
    repository: str
    tag: str
    digest: str

    @property
    def registry(self) -> str:
        """The registry, with its port."""
        return registry_of(self.repository)

    @property
    def path(self) -> str:
        """The repository without its registry."""
        return self.repository.partition("/")[2]

    @property
    def reference(self) -> str:
        """The reference to request from the registry: the digest if there is one, else the tag."""
        return self.digest or self.tag

    def with_default_tag(self) -> ImageName:
        """Return the name with ":latest" appended to its text if that has neither tag nor digest."""
        # A port is never at the end of the text, because a path follows it; so this can only be the tag.
        has_either = self.digest or self.text.endswith(f":{self.tag}")
        return self if has_either else replace(self, text=f"{self.text}:{self.tag}")

    def in_full(self) -> ImageName:
        """Return the name with its text in full: the repository, and the tag and digest if there are any."""
        tag = f":{self.tag}" if self.tag else ""
        digest = f"@{self.digest}" if self.digest else ""
        return replace(self, text=f"{self.repository}{tag}{digest}")


def parse_image(image: str | ImageName) -> ImageName:
    """Parse *image* as the kubelet does, or raise ImageNameError; return an ImageName unchanged.

    The default registry is Docker Hub. Without tag and digest the tag is "latest"; with
    a digest alone it is empty.
    """
    if isinstance(image, ImageName):
        return image
    repository, tag, digest = _parse(image)
    if tag is None and digest is None:
        tag = _DEFAULT_TAG
    return ImageName(text=image, repository=repository, tag=tag or "", digest=digest or "")


def is_image_name(image: str) -> bool:
    """Return whether *image* can be parsed."""
    try:
        parse_image(image)
    except ImageNameError:
        return False
    return True


def normalise(image: str) -> str:
    """Return the full repository of *image*, by which credentials are looked up."""
    return _parse(image)[0]


def trim(image: str) -> str:
    """Return *image* without tag and digest, otherwise as written, or raise ImageNameError."""
    match = re.fullmatch(_REFERENCE, image)
    flaw = _reference_flaw(image, match)
    if flaw is not None:
        raise ImageNameError(_message(image, flaw), flaw.kubernetes_text)
    assert match is not None  # noqa: S101 - what does not match has a flaw
    name: str = match[1]
    return name


def registry_of(image: str) -> str:
    """Return the registry of a normalised name, with its port."""
    return image.partition("/")[0]


def shorten_name(name: str) -> str:
    """Return *name* as messages and logs quote it: the start of one that is long."""
    return name if len(name) <= _MAX_QUOTED_CHARACTERS else f"{name[: _MAX_QUOTED_CHARACTERS - 3]}..."


def _parse(image: str) -> tuple[str, str | None, str | None]:
    """Return repository, tag and digest, or raise ImageNameError."""
    match = re.fullmatch(_REFERENCE, _qualify(image))
    if match is not None:
        name, path, tag, digest = match.groups()
        is_valid = len(path) <= _MAX_PATH and not _is_image_id(image)
        if is_valid and (digest is None or _digest_flaw(digest) is None):
            return name, tag, digest
    flaw = _flaw(image)
    text = f"couldn't parse image name {quote(image)}: {flaw.kubernetes_text}"
    raise ImageNameError(_message(image, flaw), text)


def _qualify(image: str) -> str:
    """Return *image* with the default registry, and with the "library/" of Docker's official images."""
    first, slash, rest = image.partition("/")
    if not slash:
        return f"{HUB}/{_OFFICIAL}{image}"
    if first in (HUB, LOGIN_HOST):
        return f"{HUB}/{rest}" if "/" in rest else f"{HUB}/{_OFFICIAL}{rest}"
    return image if _is_registry(first) else f"{HUB}/{image}"


def _is_registry(first: str) -> bool:
    """Return whether the first part of a name, before a slash, is a registry and no part of the path."""
    return "." in first or ":" in first or first == "localhost" or _lower(first) != first


def _is_image_id(image: str) -> bool:
    return len(image) == _HEX_LENGTHS["sha256"] and not image.strip("0123456789abcdef")


def _flaw(image: str) -> _Flaw:
    """Return the reason why *image* is invalid."""
    if _is_image_id(image):
        text = f"invalid repository name ({image}), cannot specify 64-byte hexadecimal strings"
        return _Flaw(kubernetes_text=text)
    qualified = _qualify(image)
    # As in Kubernetes, cut at the first colon even if it is that of a digest, as in "app@SHA256:...".
    remote = qualified.partition("/")[2].partition(":")[0]
    if _lower(remote) != remote:
        text = f"{_INVALID.kubernetes_text}: repository name ({remote}) must be lowercase"
        return replace(_UPPER_CASE, kubernetes_text=text)
    return _reference_flaw(qualified, re.fullmatch(_REFERENCE, qualified)) or _INVALID


def _reference_flaw(text: str, match: re.Match[str] | None) -> _Flaw | None:
    """Return why *text*, with its *match*, is not a valid reference, or None."""
    if not text:
        return _EMPTY
    if match is None:
        return _UPPER_CASE if re.fullmatch(_REFERENCE, _lower(text)) else _INVALID
    if len(match[2]) > _MAX_PATH:
        return _TOO_LONG
    return _digest_flaw(match[4]) if match[4] else None


def _digest_flaw(digest: str) -> _Flaw | None:
    algorithm, _, encoded = digest.partition(":")
    length = _HEX_LENGTHS.get(algorithm)
    if length is None:
        return _DIGEST_UNSUPPORTED if algorithm == algorithm.lower() else _DIGEST_INVALID
    if len(encoded) != length:
        return _DIGEST_LENGTH
    return None if encoded == encoded.lower() else _DIGEST_INVALID


def _lower(text: str) -> str:
    """Return *text* in lower case, rune by rune as in Go; bytes that are not UTF-8 become U+FFFD."""
    if text.isascii():
        return text.lower()
    # U+0130 is the only rune whose lower case is longer in Python; Go maps it to a plain "i".
    return "".join("\ufffd" if "\ud800" <= char <= "\udfff" else char.lower()[0] for char in text)


def _message(image: str, flaw: _Flaw) -> str:
    shown = shorten_name(hide_user_info(image))
    return f"{shown!r} is not an image name: {flaw.advice or _advise(image, flaw)}; {_EXAMPLE}"


def _advise(image: str, flaw: _Flaw) -> str:
    """Return the most specific description of what is wrong with *image*."""
    if "://" in image:
        return "it must not begin with a scheme"
    stranger = re.search(r"[^][a-zA-Z0-9._:/@+-]", image)
    if stranger:
        return f"it contains {stranger[0]!r}"
    name, at, _ = image.partition("@")
    if at and re.fullmatch(_REFERENCE, name):
        return _DIGEST_ADVICE
    if _is_image_id(image):
        return "64 hexadecimal digits are an image ID"
    return flaw.rule if image else _EMPTY.advice
