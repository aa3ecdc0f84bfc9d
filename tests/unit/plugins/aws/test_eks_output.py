"""The version that keyferry-eks answers with."""

from __future__ import annotations

import pytest

from keyferry_plugins.aws.eks_options import AUTHENTICATOR, CLI
from keyferry_plugins.aws.eks_output import choose_version

GROUP = "client.authentication.k8s.io"


@pytest.mark.parametrize(
    ("exec_info", "cli", "authenticator"),
    [
        ("", "v1beta1", f"{GROUP}/v1beta1"),
        ("{not json", "v1beta1", f"{GROUP}/v1beta1"),
        (f'{{"apiVersion":"{GROUP}/v1"}}', "v1", f"{GROUP}/v1"),
        (f'{{"apiVersion":"{GROUP}/v1beta1"}}', "v1beta1", f"{GROUP}/v1beta1"),
        (f'{{"apiVersion":"{GROUP}/v1alpha1"}}', "v1alpha1", f"{GROUP}/v1alpha1"),
        (f'{{"apiVersion":"{GROUP}/v9"}}', "v1beta1", f"{GROUP}/v9"),
        ("{}", "v1beta1", ""),
    ],
)
def test_the_tools_choose_their_version(exec_info: str, cli: str, authenticator: str) -> None:
    """With --compat each tool's way with KUBERNETES_EXEC_INFO is followed."""
    assert choose_version(exec_info, CLI)[0] == f"{GROUP}/{cli}"
    assert choose_version(exec_info, AUTHENTICATOR) == (authenticator, "")
    is_silent = not exec_info or exec_info.endswith(('/v1"}', '/v1beta1"}'))
    assert bool(choose_version(exec_info, CLI)[1]) is not is_silent
