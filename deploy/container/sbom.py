"""The list of the parts of an image or a package (SBOM), in CycloneDX's format."""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from urllib.parse import quote

SPACE = uuid.UUID("0f1c7a2e-1b7e-5a55-9f0a-3d1f5c0f6b1d")


@dataclass(frozen=True)
class Part:
    """One thing: what it is, where it comes from, and the hash of what was taken from there.

    What is needed and not contained has no version and no hash: it has a *scope*, ``required`` or ``optional``, and the
    *requirement* that it has to meet.
    """

    kind: str
    name: str
    version: str
    purl: str
    sha256: str
    licenses: tuple[str, ...] = field(default=())
    scope: str = ""
    requirement: str = ""


def debian_part(control: Mapping[str, str], sha256: str, release: str) -> Part:
    """Return a Debian package as a part."""
    name, version, architecture = (control[each] for each in ("Package", "Version", "Architecture"))
    purl = f"pkg:deb/debian/{name}@{quote(version, safe='.-_~')}?arch={architecture}&distro={release}"
    return Part("library", name, version, purl, sha256)


def python_part(metadata: Mapping[str, str], sha256: str) -> Part:
    """Return a Python distribution as a part."""
    name, version = metadata["Name"], metadata["Version"]
    license_text = metadata.get("License-Expression", "")
    purl = f"pkg:pypi/{name.lower().replace('_', '-')}@{version}"
    return Part("library", name, version, purl, sha256, (license_text,) if license_text else ())


def render(parts: Iterable[Part], subject: Part, created: str) -> bytes:
    """Return the document about *subject*; the same parts give the same bytes."""
    components = [_component(part) for part in sorted(parts, key=_reference)]
    described = _component(subject)
    identity = hashlib.sha256(json.dumps([described, components]).encode()).hexdigest()
    document = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "serialNumber": f"urn:uuid:{uuid.uuid5(SPACE, identity)}",
        "version": 1,
        "metadata": {"timestamp": created, "component": described},
        "components": components,
        "dependencies": [{"ref": _reference(subject), "dependsOn": [each["bom-ref"] for each in components]}],
    }
    return json.dumps(document, indent=1).encode() + b"\n"


def _reference(part: Part) -> str:
    return part.purl or part.name


def _component(part: Part) -> dict[str, object]:
    found: dict[str, object] = {"type": part.kind, "bom-ref": _reference(part), "name": part.name}
    if part.version:
        found["version"] = part.version
    if part.scope:
        found["scope"] = part.scope
    if part.sha256:
        found["hashes"] = [{"alg": "SHA-256", "content": part.sha256}]
    if part.licenses:
        found["licenses"] = [{"expression": text} for text in part.licenses]
    if part.purl:
        found["purl"] = part.purl
    if part.requirement:
        found["properties"] = [{"name": "keyferry:requirement", "value": part.requirement}]
    return found
