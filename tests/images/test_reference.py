"""Image names: what is said of bad ones, and what Kubernetes' recorded answers (tests/conformance) leave out."""

from __future__ import annotations

from time import process_time

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from keyferry import parse_image
from keyferry.errors import ImageNameError
from keyferry.images.reference import normalise, trim

SHA256 = "sha256:" + "a" * 64
IMAGE_ID = "a" * 64

INVALID = "invalid reference format"
UPPER_ALGORITHM = f"reg.io/app@{SHA256.replace('sha', 'SHA')}"
FORM = "it does not have the form registry/path:tag@digest"
DIGEST = "the digest must be 'sha256:' and 64 lower-case hexadecimal digits"
MESSAGES = [
    ("", "it is empty"),
    ("a//b", FORM),
    ("a:b:c", FORM),
    ("app:" + "t" * 129, FORM),
    ("busybox\n", r"it contains '\n'"),
    ("a/é", "it contains 'é'"),
    ("a/\udc80", r"it contains '\udc80'"),
    ("\u212a.io/app", "it contains '\u212a'"),
    ("https://reg.io/app", "it must not begin with a scheme"),
    ("a@sha256:abc", DIGEST),
    (f"a@{SHA256}a", DIGEST),
    (f"a@{SHA256[:-1]}F", DIGEST),
    ("a@md5:" + "a" * 32, DIGEST),
    (UPPER_ALGORITHM, DIGEST),
    ("Foo", "repository must be lower case"),
    ("Foo/Bar:1", "repository must be lower case"),
    ("a" * 256, "repository is longer than 255 characters"),
    (IMAGE_ID, "64 hexadecimal digits are an image ID"),
]

# What Kubernetes' recorded answers leave out: the image, what the normalising parse says of it, and what trimming says.
RARE = [
    ("", INVALID, "repository name must have at least one component"),
    ("a/\udc80", f"{INVALID}: repository name (a/\udc80) must be lowercase", INVALID),
    (f"a:1@{SHA256.upper()}", "invalid checksum digest format", "invalid checksum digest format"),
    (
        UPPER_ALGORITHM,
        f"{INVALID}: repository name (app@SHA256) must be lowercase",
        "invalid checksum digest format",
    ),
]

HOSTILE = [
    "a" * 100_000,
    "a." * 50_000,
    "a-" * 50_000 + "!",
    "a/" * 50_000,
    "a__" * 30_000 + "!",
    "A" * 100_000,
    "É" * 100_000,
    "[" + ":" * 100_000,
    "a:" + "1" * 100_000 + "/",
    "a@" + "a+" * 50_000,
    "a@b:" + "0" * 100_000 + "g",
    "a" * 50_000 + "/" + "b" * 50_000 + "!",
    "u:p@" * 25_000 + "r" * 300,
    "é" * 100_000,
]

LIKE_NAMES = st.text("aB0._-:/@[]é\udc80", max_size=30) | st.from_regex(
    r"(docker\.io/|localhost/|[aB]{1,2}/|reg_x\.io/|\[a\]/)?[a0](/a|[._-]b){0,3}(:[v1]{1,2})?", fullmatch=True
)


def refusal_of(parse: object, image: str) -> ImageNameError:
    assert callable(parse)
    with pytest.raises(ImageNameError) as caught:
        parse(image)
    return caught.value


@pytest.mark.parametrize(("image", "message"), MESSAGES)
def test_a_bad_name_is_refused_with_what_is_wrong_and_an_example(image: str, message: str) -> None:
    refusal = refusal_of(parse_image, image)
    shown = image if len(image) <= 255 else f"{image[:252]}..."
    assert str(refusal).startswith(f"{shown!r} is not an image name: {message}")
    assert str(refusal).endswith("; expected a name such as 'registry.example:5000/team/app:v1'")


@pytest.mark.parametrize(("image", "parsing", "trimming"), RARE)
def test_a_bad_name_is_refused_in_kubernetes_words(image: str, parsing: str, trimming: str) -> None:
    assert refusal_of(parse_image, image).kubernetes_text.endswith(f'": {parsing}')
    assert refusal_of(trim, image).kubernetes_text == trimming


def test_the_name_is_quoted_as_go_quotes_it() -> None:
    expected = r"""couldn't parse image name "a:\n\"é\x80": invalid reference format"""
    assert refusal_of(parse_image, 'a:\n"é\udc80').kubernetes_text == expected


@pytest.mark.parametrize("image", ["reg.io/" + "a" * 255, "a" * 247])
def test_a_repository_may_have_255_characters_library_included(image: str) -> None:
    assert parse_image(image).repository.endswith(image)
    with pytest.raises(ImageNameError):
        parse_image(image + "a")


@pytest.mark.parametrize(
    ("image", "full", "registry", "path", "reference"),
    [
        ("busybox", "docker.io/library/busybox:latest", "docker.io", "library/busybox", "latest"),
        ("reg.io:5000/team/app:v1", "reg.io:5000/team/app:v1", "reg.io:5000", "team/app", "v1"),
        (f"reg.io/app@{SHA256}", f"reg.io/app@{SHA256}", "reg.io", "app", SHA256),
        (f"team/app:v1@{SHA256}", f"docker.io/team/app:v1@{SHA256}", "docker.io", "team/app", SHA256),
    ],
)
def test_a_name_in_full_and_what_its_registry_is_asked_for(
    image: str, full: str, registry: str, path: str, reference: str
) -> None:
    parsed = parse_image(image)
    assert parsed.in_full() == parse_image(full)
    assert parsed.in_full().text == full
    assert (parsed.registry, parsed.path, parsed.reference) == (registry, path, reference)


def test_a_name_that_is_a_known_host_is_still_an_image_of_docker_hub() -> None:
    """A host counts as one only before a path, however often it was seen there; Docker Hub's names are completed."""
    for invalid in ("index.docker.io@/x", "team@/x", "docker.io@/x"):
        with pytest.raises(ImageNameError):
            parse_image(invalid)
    for _ in range(2):
        assert parse_image("team/app").repository == "docker.io/team/app"
        assert parse_image("known.example/app").repository == "known.example/app"
        assert parse_image("known.example").repository == "docker.io/library/known.example"
        assert parse_image("docker.io/app").repository == "docker.io/library/app"
        assert parse_image("index.docker.io/team/app").repository == "docker.io/team/app"


@given(st.text() | LIKE_NAMES)
@example("\ud800/\udc80")
def test_any_text_is_a_name_or_an_image_name_error(image: str) -> None:
    try:
        parsed = parse_image(image)
    except ImageNameError:
        return
    assert normalise(image) == parsed.repository == normalise(parsed.repository)
    assert image.startswith(trim(image))
    assert parse_image(parsed.with_default_tag().text) == parsed.with_default_tag()


@pytest.mark.parametrize("image", HOSTILE, ids=lambda image: image[:4])
def test_hostile_names_are_refused_in_time_proportional_to_their_length(image: str) -> None:
    """With Kubernetes' answer, and quoted in part."""
    begun = process_time()
    refusal = refusal_of(parse_image, image)
    assert refusal.kubernetes_text.startswith("couldn't parse image name \"")
    assert len(str(refusal)) < 500
    assert "..." in str(refusal)
    refusal_of(trim, image)
    # A quadratic match of a hundred thousand characters takes minutes.
    assert process_time() - begun < 2
