"""What is wrong with an answer as a whole."""

from __future__ import annotations

import pytest

from keyferry.errors import PluginProtocolError
from keyferry.images.provider.plugin import decode_response
from keyferry.kit.rules.answer import classify
from support.kit_plugins import GOOD, V1


@pytest.mark.parametrize(
    ("stdout", "code"),
    [
        (b"", "KP102"),
        (b"[]", "KP102"),
        (b"\xef\xbb\xbf" + GOOD, "KP102"),
        (GOOD + GOOD, "KP102"),
        (b"null", "KP103"),
        (GOOD.replace(b"/v1", b"/v1beta1"), "KP103"),
        (GOOD.replace(b"/v1", b"/a/v1"), "KP103"),
        (GOOD.replace(b"Response", b"Request"), "KP104"),
        (GOOD.replace(b"CredentialProviderResponse", b""), "KP104"),
        (GOOD.replace(b"cacheDuration", b"cacheduration"), "KP105"),
        (GOOD.replace(b'"username":"u"', b'"username":1'), "KP105"),
        (GOOD.replace(b'"username":"u"', b'"username":"u","username":"v"'), "KP105"),
        (GOOD.replace(b'"1m"', b'"1 minute"'), "KP107"),
        (GOOD.replace(b'"1m"', b"60"), "KP107"),
    ],
)
def test_what_the_kubelet_refuses_has_one_code(stdout: bytes, code: str) -> None:
    """Each way to spoil an answer belongs to one check."""
    with pytest.raises(PluginProtocolError) as caught:
        decode_response("plugin", V1, stdout)
    assert classify(caught.value) == code
