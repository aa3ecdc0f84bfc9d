"""What is explained, as a document."""

from __future__ import annotations

from keyferry.explain.causes import explain
from keyferry.explain.document import explanation_document
from keyferry.explain.explanation import Facts
from support.function_plugins import answering, provider, providers

LOGIN = ("user", "hidden-password")


def test_the_verdict_the_cause_and_the_cure_are_fields_and_no_password_is() -> None:
    node = providers(provider("p", ["reg.io"], answering({"reg.io": LOGIN})))
    document = explanation_document(explain(Facts(answer=node.lookup("reg.io/a"))))
    assert document["kind"] == "ImageExplanation"
    assert document["verdict"] == {
        "about": "credential",
        "outcome": "yes",
        "case": "found",
        "text": "a credential is found: user 'user' of provider p",
    }
    assert (document["cause"], document["cure"]) == ("", [])
    assert "hidden-password" not in str(document)
    document = explanation_document(explain(Facts(answer=node.lookup("reg.io:5000/a"))))
    assert str(document["cause"]).startswith("pattern 'reg.io' of provider 'p' nearly matches: ")
    assert document["cure"] == [
        {
            "text": "add this to matchImages of provider 'p', then restart the kubelet",
            "lines": ['- "reg.io:5000"'],
        }
    ]
