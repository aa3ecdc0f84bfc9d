"""Credentials reach the registries they are for, as the kubelet has it, and no other."""

from __future__ import annotations

import pytest

from keyferry.errors import ImageNameError
from keyferry.images.dockerconfig import PullSecret
from keyferry.images.keyring import Keyring, Source, SourceKind
from keyferry.images.lookup import Providers
from support.scripted import Clock, Scripted, configured, provider, response

SOURCE = Source(kind=SourceKind.PROVIDER, name="plugin")


def offered(key: str, image: str) -> bool:
    """Tell whether a credential under *key* is offered to *image* by a keyring of its own."""
    keyring = Keyring()
    keyring.add(SOURCE, [(key, "user", "password", "")])
    return bool(keyring.lookup(image))


def asked(pattern: str, image: str) -> bool:
    """Tell whether a provider configured for *pattern* is asked for *image*."""
    plugin = Scripted(response(keys=("*",)))
    Providers([provider(plugin, Clock(), configured(match_images=(pattern,)))]).lookup(image)
    return bool(plugin.runs)


PREFIXES = [
    ("reg.io/team", "reg.io/team/app", True),
    # The kubelet's prefix knows no boundary: withholding it here would be a different answer.
    ("reg.io/team", "reg.io/team-evil/app", True),
    ("reg.io/team/", "reg.io/team-evil/app", False),
    ("reg.io/team/", "reg.io/team/app", True),
    ("reg.io/team", "reg.io/tea/m", False),
    ("reg.io/team", "reg.io/x/team", False),
    ("reg.io/t%65am", "reg.io/team/app", True),
    ("reg.io/*", "reg.io/team/app", False),
]


@pytest.mark.parametrize(("pattern", "image", "covered"), PREFIXES)
def test_a_path_is_a_prefix_of_text(pattern: str, image: str, covered: bool) -> None:
    """A path covers what begins with it, as in the kubelet; a slash at its end makes it a folder."""
    assert offered(pattern, image) is covered
    assert asked(pattern, image) is covered


HOSTS = [
    ("*.io", "reg.io/app", True),
    ("*.io", "a.reg.io/app", False),
    ("*.reg.io", "a.reg.io/app", True),
    ("*.reg.io", "reg.io/app", False),
    ("*.reg.io", "a.b.reg.io/app", False),
    ("*.reg.io", "a.evil-reg.io/app", False),
    ("reg.*", "reg.evil/app", True),
    ("reg.*", "reg.io.evil/app", False),
    ("*reg.io", "evilreg.io/app", True),
    ("reg.io", "reg.io.evil.example/app", False),
    ("reg.io", "evil-reg.io/app", False),
    ("reg.io", "evil.example/reg.io", False),
]


@pytest.mark.parametrize(("pattern", "image", "covered"), HOSTS)
def test_a_star_stays_inside_its_label(pattern: str, image: str, covered: bool) -> None:
    """Hosts are compared label by label, so no wildcard reaches across a dot."""
    assert offered(pattern, image) is covered
    assert asked(pattern, image) is covered


PORTS = [
    ("reg.io", "reg.io:5000/app"),
    ("reg.io", "reg.io:443/app"),
    ("reg.io:443", "reg.io/app"),
    ("reg.io:5000", "reg.io:50001/app"),
    ("reg.io:5000", "reg.io:05000/app"),
    ("reg.io:*", "reg.io:5000/app"),
    ("reg.io:5000:5000", "reg.io:5000/app"),
    ("reg.io:65536", "reg.io:0/app"),
    ("*", "reg.io:5000/app"),
    ("*.*", "reg.io:5000/app"),
    ("[::1]", "reg.io/app"),
]


@pytest.mark.parametrize(("pattern", "image"), PORTS)
def test_a_port_is_text_and_never_assumed(pattern: str, image: str) -> None:
    """No port, another port and the same port otherwise spelled all keep the credential back."""
    assert not offered(pattern, image)
    assert not asked(pattern, image)


@pytest.mark.parametrize(
    "key",
    [
        "other.io",
        "reg.io@other.io",
        "reg.io:x@other.io",
        "other.io#reg.io",
        "other.io?reg.io",
        "other.io/reg.io",
        "other.io\\reg.io",
        "other.io\\@reg.io\\",
        "http://other.io/https://reg.io",
        "HTTPS://reg.io",
        "ftp://reg.io",
        "//reg.io",
        "/reg.io",
        " reg.io",
        "reg.io ",
        "reg.io\n",
        "reg.io\0",
        "reg.io.",
        ".reg.io",
        "reg..io",
        "REG.IO",
        "Reg.io",
        "r\u0435g.io",
        "reg.\u0456o",
        "xn--rg-nja.io",
        "reg\uff0eio",
        "reg%2eio",
        "%72eg.io",
        "r[e]g.io",
        "r?g.io",
        "",
    ],
)
def test_a_key_that_only_resembles_the_host_is_not_offered(key: str) -> None:
    """Other hosts, look-alikes, other cases and escapes never match, however they are dressed up."""
    assert not offered(key, "reg.io/team/app")
    assert not asked(key, "reg.io/team/app")


@pytest.mark.parametrize("image", ["REG.IO/app", "Reg.io/app", "reg.io.evil.example/app", "xn--reg-io/app"])
def test_an_image_that_only_resembles_the_host_gets_nothing(image: str) -> None:
    """The image's host is compared as it is written."""
    assert not offered("reg.io", image)
    assert not asked("reg.io", image)


@pytest.mark.parametrize(
    "image",
    [
        "reg.io./app",
        "reg.io/../app",
        "reg.io//app",
        "reg.io/team/%2e%2e/app",
        "user:pw@reg.io/app",
        "https://reg.io/app",
        "r\u0435g.io/app",
        "reg.io/app\n",
        "reg.io/app@sha256:00",
        "reg.io\\evil/app",
        "reg.io#x/app",
        "reg.io?x/app",
        "reg.io/App",
        "-reg.io/app",
        "",
        "/reg.io/app",
    ],
)
def test_an_image_name_with_tricks_is_refused(image: str) -> None:
    """What is no image name is an error before any plugin is run."""
    plugin = Scripted(response(keys=("*.*", "*", "*.*.*")))
    providers = Providers([provider(plugin, Clock(), configured(match_images=("*.*", "*", "*.*.*")))])
    with pytest.raises(ImageNameError):
        providers.lookup(image)
    assert not plugin.runs


def narrow(*keys: str) -> tuple[Providers, Scripted]:
    """A provider for reg.io/team alone, whose plugin answers with far wider keys."""
    plugin = Scripted(response(cache_key_type="Global", keys=keys))
    return Providers([provider(plugin, Clock(), configured(match_images=("reg.io/team",)))]), plugin


def test_a_wide_key_of_a_narrow_plugin_stays_narrow() -> None:
    """A plugin that answers ``*.*``, globally cached, still serves only the images it is configured for."""
    providers, plugin = narrow("*", "*.*", "*.*.*", "other.io", "index.docker.io")
    assert [credential.key for credential in providers.lookup("reg.io/team/app").credentials] == ["*.*"]
    for image in (
        "reg.io/other",
        "other.io/team",
        "a.reg.io/team",
        "busybox",
        "localhost/team",
        "reg.io:5000/team",
    ):
        assert providers.lookup(image).credentials == (), image
    assert plugin.runs == 1


def test_a_credential_for_another_host_is_never_offered() -> None:
    """Auth entries that do not cover the image are left out, whatever else the answer holds."""
    providers, _ = narrow("other.io", "reg.io", "evil.example/reg.io/team", "reg.io/team/x")
    assert [credential.key for credential in providers.lookup("reg.io/team/app").credentials] == ["reg.io"]


def test_a_global_answer_of_one_provider_is_not_anothers() -> None:
    """Caches are per provider: a wide answer of one is not consulted for the other's images."""
    clock = Clock()
    wide = Scripted(response("wide", cache_key_type="Global", keys=("*.*",)))
    other = Scripted(response("other", cache_key_type="Global", keys=("*.*",)))
    providers = Providers(
        [
            provider(wide, clock, configured("wide", match_images=("reg.io",))),
            provider(other, clock, configured("other", match_images=("other.io",))),
        ]
    )
    assert [c.password for c in providers.lookup("reg.io/app").credentials] == ["wide"]
    assert [c.password for c in providers.lookup("other.io/app").credentials] == ["other"]


HUB = [
    ("https://index.docker.io/v1/", "busybox", True),
    ("index.docker.io", "docker.io/library/busybox", True),
    ("docker.io", "busybox", True),
    ("docker.io", "index.docker.io/team/app", True),
    ("docker.io/library", "busybox", True),
    ("docker.io/team", "busybox", False),
    # As in the kubelet: the fallback takes a first component without a dot for a name on Docker Hub.
    ("index.docker.io", "localhost/app", True),
    ("index.docker.io", "localhost:5000/app", False),
    ("index.docker.io", "reg.io/app", False),
    ("index.docker.io", "docker.io.evil.example/app", False),
    ("index.docker.io", "evil.example/docker.io/app", False),
    ("index.docker.io/team", "team/app", False),
    ("registry-1.docker.io", "busybox", False),
    ("registry.hub.docker.com", "busybox", False),
    ("Docker.io", "busybox", False),
    ("docker.io:443", "busybox", False),
]


@pytest.mark.parametrize(("key", "image", "covered"), HUB)
def test_docker_hub_has_the_aliases_of_the_kubelet_and_no_others(
    key: str,
    image: str,
    covered: bool,
) -> None:
    """Keys for Docker Hub serve its images by the kubelet's rules, and no other registry's."""
    content = f'{{"auths":{{"{key}":{{"username":"u","password":"p"}}}}}}'.encode()
    secret = PullSecret(
        namespace="ns", name="hub", type="kubernetes.io/dockerconfigjson", data={".dockerconfigjson": content}
    )
    assert bool(Providers([]).lookup(image, pull_secrets=[secret]).credentials) is covered


def test_user_info_in_a_key_is_neither_used_nor_shown() -> None:
    """A password in the key itself is dropped on the way and absent from what is shown."""
    keyring = Keyring()
    entries = [
        (f"{scheme}u:hunter2@reg.io{path}", "user", "x", "")
        for scheme in ("", "https://")
        for path in ("", ":x")
    ]
    keyring.add(SOURCE, entries)
    found = keyring.lookup("reg.io/app")
    assert [(credential.username, credential.key) for credential in found] == [("user", "reg.io")] * 2
    assert len(keyring.dropped) == 2
    shown = repr(found) + repr(keyring.dropped)
    assert "hunter2" not in shown + "".join(key.key + key.why for key in keyring.dropped)
