"""Texts out of the XML that AWS answers with."""

from __future__ import annotations

import pytest

from keyferry.sdk import ProvideError
from keyferry_plugins.aws.xml import element, text_in


def test_texts_are_taken_out_of_xml() -> None:
    """An element is found by its whole name, its text is unescaped."""
    body = b'<ErrorResponse xmlns="x"><Error><Code>A</Code><Message>a &lt;b&gt; &amp;amp; &#x41;&#66; &no;</Message>'
    inside = element(body + b"</Error></ErrorResponse>", "Error", "there")
    assert text_in(inside, "Code") == "A"
    assert text_in(inside, "Message") == "a <b> &amp; AB &no;"
    assert not text_in(inside, "Mess")
    assert not element(b"<Errors>x</Errors>", "Error", "there")
    assert not text_in("<A><B>x</B></A>", "A")
    assert text_in("<A</A><A <A>x</A>", "A") == "x"
    assert not text_in("<A <A <A </A", "A")
    assert text_in("<A>&#xD800;&#0;&#x110000;&#zz;</A>", "A") == "&#xD800;&#0;&#x110000;&#zz;"


@pytest.mark.parametrize(
    "body",
    [
        b'<!DOCTYPE a [<!ENTITY b "c">]><Error><Code>&b;</Code></Error>',
        b"<Error><Code><![CDATA[x]]></Code></Error>",
        b"<!-- x --><Error/>",
    ],
)
def test_xml_with_declarations_is_refused(body: bytes) -> None:
    """Entities are never declared in an answer of AWS."""
    with pytest.raises(ProvideError, match="declaration"):
        element(body, "Error", "there")
