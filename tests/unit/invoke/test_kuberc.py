"""The policy in a kuberc, and what is wrong with one."""

from __future__ import annotations

from pathlib import Path

import pytest

from keyferry.errors import ConfigError, PolicyError
from keyferry.invoke.kuberc import load_kuberc
from support.kubercs import KUBERC, kuberc


@pytest.mark.parametrize("policy", ["", "credentialPluginPolicy: AllowAll\n"], ids=["none", "AllowAll"])
def test_an_empty_list_of_kuberc_beside_another_policy_is_an_error(tmp_path: Path, policy: str) -> None:
    kuberc = tmp_path / "kuberc"
    kuberc.write_text(
        f"apiVersion: kubectl.config.k8s.io/v1beta1\nkind: Preference\n{policy}credentialPluginAllowlist: []\n"
    )
    with pytest.raises(PolicyError, match="an allowlist requires the policy 'Allowlist'"):
        load_kuberc(str(kuberc))


def test_unknown_fields_are_warnings(tmp_path: Path) -> None:
    """As in kubectl; a misspelt allowlist is then missing, and the policy is refused."""
    assert load_kuberc(kuberc(tmp_path, KUBERC + "extra: 1\n"), {}).warnings == ("extra: unknown field",)
    text = KUBERC + "credentialPluginPolicy: Allowlist\ncredentialPluginAllowList: [{command: a}]\n"
    with pytest.raises(PolicyError) as caught:
        load_kuberc(kuberc(tmp_path, text), {})
    assert caught.value.kubernetes_text == (
        'credential plugin policy set to "Allowlist", but allowlist is unspecified'
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: [", "not valid YAML"),
        ("[]", "found an array"),
        (KUBERC.replace("v1beta1", "v9"), "kubectl.config.k8s.io/v9"),
        (KUBERC + "credentialPluginPolicy: 5", "credentialPluginPolicy: found a number"),
        (KUBERC + "credentialPluginAllowlist: [{command: a, name: b}]", "differ"),
    ],
)
def test_a_kuberc_that_cannot_be_used_is_an_error(tmp_path: Path, text: str, message: str) -> None:
    """The default file too: one that may hold a policy is not passed over."""
    home = tmp_path / ".kube"
    home.mkdir()
    kuberc(home, text)
    for path in ("", str(home / "kuberc")):
        with pytest.raises(ConfigError, match=message):
            load_kuberc(path, {"HOME": str(tmp_path)})
