"""Credentials as a document."""

from __future__ import annotations

from keyferry.explain.document import credentials_document
from support.function_plugins import answering, provider, providers

LOGIN = ("user", "hidden-password")


def test_documents_mask_passwords_unless_asked() -> None:
    answer = providers(provider("p", ["reg.io"], answering({"reg.io": LOGIN}))).lookup("reg.io/a")
    assert "hidden-password" not in str(credentials_document(answer))
    assert "hidden-password" in str(credentials_document(answer, reveal=True))
