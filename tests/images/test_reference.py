"""Image names as the kubelet parses them."""

from __future__ import annotations

from time import process_time

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from keyferry._core.values import replace
from keyferry.errors import ImageNameError
from keyferry.images.reference import (
    ImageName,
    normalise,
    parse_image,
    registry_of,
    trim,
)

SHA256 = "sha256:" + "a" * 64
IMAGE_ID = "a" * 64

# The image, its repository in full, tag, digest, and the image trimmed.
NAMES = [
    ("busybox", "docker.io/library/busybox", "latest", "", "busybox"),
    ("busybox:1", "docker.io/library/busybox", "1", "", "busybox"),
    (f"busybox@{SHA256}", "docker.io/library/busybox", "", SHA256, "busybox"),
    (f"gcr.io/p/app:v1@{SHA256}", "gcr.io/p/app", "v1", SHA256, "gcr.io/p/app"),
    ("docker.io/busybox", "docker.io/library/busybox", "latest", "", "docker.io/busybox"),
    ("index.docker.io/team/app", "docker.io/team/app", "latest", "", "index.docker.io/team/app"),
    ("index.docker.io/app:1", "docker.io/library/app", "1", "", "index.docker.io/app"),
    ("team/app", "docker.io/team/app", "latest", "", "team/app"),
    ("localhost/app", "localhost/app", "latest", "", "localhost/app"),
    ("localhost:5000", "docker.io/library/localhost", "5000", "", "localhost"),
    ("reg.io:5000/app:v1", "reg.io:5000/app", "v1", "", "reg.io:5000/app"),
    ("[::1]:5000/app", "[::1]:5000/app", "latest", "", "[::1]:5000/app"),
    ("[ABC]/app", "[ABC]/app", "latest", "", "[ABC]/app"),
    ("UPPER/app", "UPPER/app", "latest", "", "UPPER/app"),
    ("reg_x.io/app", "reg_x.io/app", "latest", "", "reg_x.io/app"),
    ("a---b__c.d", "docker.io/library/a---b__c.d", "latest", "", "a---b__c.d"),
    (f"{IMAGE_ID}:1", f"docker.io/library/{IMAGE_ID}", "1", "", IMAGE_ID),
    ("reg.io/" + "a" * 255, "reg.io/" + "a" * 255, "latest", "", "reg.io/" + "a" * 255),
    ("a@sha384:" + "0" * 96, "docker.io/library/a", "", "sha384:" + "0" * 96, "a"),
    ("a@sha512:" + "0" * 128, "docker.io/library/a", "", "sha512:" + "0" * 128, "a"),
]

# The image, what the normalising parse says of it, what trimming says if that differs, and our words.
INVALID = "invalid reference format"
TOO_LONG = "repository name must not be more than 255 characters"
LOWER = "repository must be lower case"
FORM = "it does not have the form registry/path:tag@digest"
DIGEST = "the digest must be 'sha256:' and 64 lower-case hexadecimal digits"
BAD_NAMES = [
    ("", INVALID, "repository name must have at least one component", "it is empty"),
    ("a//b", INVALID, INVALID, FORM),
    ("a:b:c", INVALID, INVALID, FORM),
    ("app:" + "t" * 129, INVALID, INVALID, FORM),
    ("busybox\n", INVALID, INVALID, r"it contains '\n'"),
    ("a/é", INVALID, INVALID, "it contains 'é'"),
    ("https://reg.io/app", INVALID, INVALID, "it must not begin with a scheme"),
    ("a@sha256:abc", INVALID, INVALID, DIGEST),
    (f"a@{SHA256}a", "invalid checksum digest length", "invalid checksum digest length", DIGEST),
    (f"a@{SHA256[:-1]}F", "invalid checksum digest format", "invalid checksum digest format", DIGEST),
    ("a@md5:" + "a" * 32, "unsupported digest algorithm", "unsupported digest algorithm", DIGEST),
    (
        f"a:1@{SHA256.upper()}",
        "invalid checksum digest format",
        "invalid checksum digest format",
        DIGEST,
    ),
    (
        "Foo",
        f"{INVALID}: repository name (library/Foo) must be lowercase",
        "repository name must be lowercase",
        LOWER,
    ),
    (
        "Foo/Bar:1",
        f"{INVALID}: repository name (Bar) must be lowercase",
        "repository name must be lowercase",
        LOWER,
    ),
    (
        "\u212a.io/app",
        "repository name must be lowercase",
        "repository name must be lowercase",
        "it contains '\u212a'",
    ),
    ("a/É", f"{INVALID}: repository name (a/É) must be lowercase", INVALID, "it contains 'É'"),
    (
        "a/\udc80",
        f"{INVALID}: repository name (a/\udc80) must be lowercase",
        INVALID,
        r"it contains '\udc80'",
    ),
    ("a" * 256, TOO_LONG, TOO_LONG, "repository is longer than 255 characters"),
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


@pytest.mark.parametrize(("image", "repository", "tag", "digest", "trimmed"), NAMES)
def test_names_are_completed_as_the_kubelet_does(
    image: str, repository: str, tag: str, digest: str, trimmed: str
) -> None:
    assert parse_image(image) == ImageName(text=image, repository=repository, tag=tag, digest=digest)
    assert normalise(image) == repository
    assert trim(image) == trimmed


@pytest.mark.parametrize(("image", "parsing", "trimming", "message"), BAD_NAMES)
def test_bad_names_are_refused_in_kubernetes_words_and_ours(
    image: str, parsing: str, trimming: str, message: str
) -> None:
    refusal = refusal_of(parse_image, image)
    assert refusal.kubernetes_text.startswith("couldn't parse image name \"")
    assert refusal.kubernetes_text.endswith(f'": {parsing}')
    shown = image if len(image) <= 255 else f"{image[:252]}..."
    assert str(refusal).startswith(f"{shown!r} is not an image name: {message}")
    assert str(refusal).endswith("; expected a name such as 'registry.example:5000/team/app:v1'")
    assert refusal_of(normalise, image).args == refusal.args
    assert refusal_of(trim, image).kubernetes_text == trimming


def test_the_name_is_quoted_as_go_quotes_it() -> None:
    expected = r"""couldn't parse image name "a:\n\"é\x80": invalid reference format"""
    assert refusal_of(parse_image, 'a:\n"é\udc80').kubernetes_text == expected


def test_an_image_id_is_trimmed_but_not_looked_up() -> None:
    assert trim(IMAGE_ID) == IMAGE_ID
    refusal = refusal_of(parse_image, IMAGE_ID)
    assert "64 hexadecimal digits are an image ID" in refusal.message
    assert refusal.kubernetes_text.endswith(
        f"invalid repository name ({IMAGE_ID}), cannot specify 64-byte hexadecimal strings"
    )


def test_brackets_without_a_colon_are_a_registry_for_trimming_only() -> None:
    assert trim("[abc]/app:1") == "[abc]/app"
    assert refusal_of(parse_image, "[abc]/app").kubernetes_text.endswith(INVALID)


def test_library_counts_towards_the_length_of_a_repository() -> None:
    assert normalise("a" * 247) == "docker.io/library/" + "a" * 247
    assert refusal_of(normalise, "a" * 248).kubernetes_text.endswith(TOO_LONG)
    assert trim("a" * 248) == "a" * 248


def test_an_upper_case_algorithm_is_taken_for_an_upper_case_name() -> None:
    refusal = refusal_of(parse_image, f"reg.io/app@{SHA256.replace('sha', 'SHA')}")
    assert DIGEST in refusal.message
    assert refusal.kubernetes_text.endswith("repository name (app@SHA256) must be lowercase")


@pytest.mark.parametrize(
    ("image", "expected"),
    [
        ("busybox", "busybox:latest"),
        ("reg.io:5000/app", "reg.io:5000/app:latest"),
        ("busybox:1", "busybox:1"),
        (f"busybox@{SHA256}", f"busybox@{SHA256}"),
    ],
)
def test_the_default_tag_is_added_where_nothing_is_given(image: str, expected: str) -> None:
    parsed = parse_image(image)
    assert parsed.with_default_tag() == replace(parsed, text=expected)


@pytest.mark.parametrize(
    ("image", "full", "path", "reference"),
    [
        ("busybox", "docker.io/library/busybox:latest", "library/busybox", "latest"),
        ("reg.io:5000/team/app:v1", "reg.io:5000/team/app:v1", "team/app", "v1"),
        (f"reg.io/app@{SHA256}", f"reg.io/app@{SHA256}", "app", SHA256),
        (f"team/app:v1@{SHA256}", f"docker.io/team/app:v1@{SHA256}", "team/app", SHA256),
    ],
)
def test_a_name_in_full_and_what_its_registry_is_asked_for(
    image: str, full: str, path: str, reference: str
) -> None:
    parsed = parse_image(image)
    assert parsed.in_full() == replace(parsed, text=full) == parse_image(full)
    assert (parsed.path, parsed.reference) == (path, reference)


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


def test_the_registry_of_a_normalised_name_keeps_its_port() -> None:
    assert registry_of("reg.io:5000/team/app") == "reg.io:5000"
    assert registry_of(normalise("busybox")) == "docker.io"


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
