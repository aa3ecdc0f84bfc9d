"""Documents for programs: the fields that every one of them starts with, and their output as JSON and YAML.

``schemas/`` has a JSON schema for each kind. A kind may gain fields and loses none.
"""

from __future__ import annotations

import json
import sys

from keyferry._core.reasons import Reason
from keyferry._core.secrets import escape_controls, printable
from keyferry.show.writer import Lines

API_VERSION = "keyferry.dev/v1alpha1"


def make_document(kind: str, /, **fields: object) -> dict[str, object]:
    """Return a document of *kind*, which is one of keyferry's own."""
    return {"apiVersion": API_VERSION, "kind": kind, **fields}


def reason_document(reason: Reason) -> dict[str, object]:
    """Return a reason with the field names that it has in every document."""
    return {
        "stage": str(reason.stage),
        "subject": reason.subject,
        "outcome": str(reason.outcome),
        "text": reason.text,
        "facts": reason.facts,
    }


def render_document(document: object, output: str) -> Lines:
    """Return a document in *output*, a format that programs read: json or yaml."""
    return as_json(document) if output == "json" else as_yaml(document)


def as_json(document: object) -> Lines:
    """Return a document as JSON; characters that could harm a terminal are escaped, so it stays valid JSON."""
    is_plain = (sys.stdout.encoding or "").lower() not in ("utf-8", "utf8")
    return Lines(escape_controls(json.dumps(document, indent=2, ensure_ascii=is_plain)))


def as_yaml(document: object) -> Lines:
    """Return a document as YAML, with the same escapes."""
    import yaml

    class Dumper(yaml.SafeDumper):
        """Writes members of a StrEnum as their text, and what stands in two places twice, as JSON does."""

        def ignore_aliases(self, data: object) -> bool:  # noqa: ARG002 - the Dumper's own signature
            return True

    Dumper.add_multi_representer(str, lambda dumper, text: dumper.represent_str(str(text)))

    def dump(*, allow_unicode: bool) -> str:
        return yaml.dump(document, Dumper=Dumper, sort_keys=False, allow_unicode=allow_unicode, width=110)

    text = dump(allow_unicode=True)
    if printable(text, "\n") != text:
        text = dump(allow_unicode=False)
    return Lines(text.rstrip("\n"))
