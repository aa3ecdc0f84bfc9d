"""Which pull secrets the kubelet uses for a pod, and why it does not use the others."""

from __future__ import annotations

import pytest

from keyferry.images.dockerconfig import PullSecret
from keyferry.workloads.secrets import UnusedReason, choose_secrets

TYPE = "kubernetes.io/dockerconfigjson"
CONTENT = b'{"auths":{"reg.io":{"username":"u","password":"p"}}}'


def secret(
    name: str = "mine", namespace: str = "shop", kind: str = TYPE, content: bytes = CONTENT
) -> PullSecret:
    return PullSecret(namespace=namespace, name=name, type=kind, data={".dockerconfigjson": content})


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        (secret("other"), UnusedReason.NOT_LISTED),
        (secret(namespace="team"), UnusedReason.OTHER_NAMESPACE),
        (secret(kind="Opaque"), UnusedReason.WRONG_TYPE),
        (secret(content=b""), UnusedReason.NO_DATA),
        (secret(content=b'{"auths":{}}'), UnusedReason.NO_ENTRIES),
    ],
    ids=lambda value: value if isinstance(value, UnusedReason) else "",
)
def test_a_secret_that_is_not_used_has_a_reason(given: PullSecret, reason: UnusedReason) -> None:
    (unused,) = choose_secrets([given], ("mine",), "shop").unused
    assert (unused.reason, unused.name, unused.namespace) == (reason, given.name, given.namespace)
    assert repr(given.name) in str(unused)


def test_a_secret_that_does_not_exist_is_absent_unless_a_file_has_it() -> None:
    """An empty reason stands for a secret that does not exist; any other refusal leaves it unknown."""
    chosen = choose_secrets([], ("mine", "hidden"), "shop", {"mine": "", "hidden": "no permission"})
    assert [(each.reason, each.name) for each in chosen.unused] == [(UnusedReason.ABSENT, "mine")]
    assert [each.name for each in chosen.missing] == ["hidden"]
    chosen = choose_secrets([secret()], ("mine",), "shop", {"mine": ""})
    assert (chosen.unused, chosen.missing) == ((), ())


def test_a_secret_that_cannot_be_read_is_named_by_its_error() -> None:
    (unused,) = choose_secrets([secret(content=b"{")], ("mine",), "shop").unused
    assert unused.reason is UnusedReason.UNREADABLE
    assert unused.error is not None
    assert unused.error.secret == "shop/mine"
    assert str(unused) == unused.error.message
