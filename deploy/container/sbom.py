"""The list of what is in the image, in CycloneDX's format: Debian packages, Python distributions, shims."""

import hashlib
import json
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from urllib.parse import quote

SPACE = uuid.UUID("0f1c7a2e-1b7e-5a55-9f0a-3d1f5c0f6b1d")


@dataclass(frozen=True)
class Part:
    """One thing in the image: what it is, where it comes from, and the hash of what was taken from there."""

    kind: str
    name: str
    version: str
    purl: str
    sha256: str
    licenses: tuple[str, ...] = field(default=())


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


def render(parts: Iterable[Part], name: str, version: str, created: str) -> bytes:
    """Return the document; the same parts give the same bytes."""
    components = [_component(part) for part in sorted(parts, key=lambda part: part.purl)]
    identity = hashlib.sha256(json.dumps(components).encode()).hexdigest()
    document = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "serialNumber": f"urn:uuid:{uuid.uuid5(SPACE, identity)}",
        "version": 1,
        "metadata": {
            "timestamp": created,
            "component": {"type": "container", "bom-ref": name, "name": name, "version": version},
        },
        "components": components,
    }
    return json.dumps(document, indent=1).encode() + b"\n"


def _component(part: Part) -> dict[str, object]:
    found: dict[str, object] = {
        "type": part.kind,
        "bom-ref": part.purl,
        "name": part.name,
        "version": part.version,
        "purl": part.purl,
        "hashes": [{"alg": "SHA-256", "content": part.sha256}],
    }
    if part.licenses:
        found["licenses"] = [{"expression": text} for text in part.licenses]
    return found
