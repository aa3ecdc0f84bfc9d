"""The format of record files: their names, their content, and how new credentials are merged into it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from hashlib import sha256
from operator import attrgetter

from keyferry._core.documents import Document, DocumentFormat, read_document
from keyferry._core.gotext import quote
from keyferry._core.json import decode_utf8, loads_with_duplicates
from keyferry._core.paths import Path
from keyferry._core.positions import DuplicateKey
from keyferry._core.type_forms import Generic, T
from keyferry._core.values import Value, replace
from keyferry.api.codec import WrongTypeError, interpret, kubernetes_failure, shown_api_version
from keyferry.api.kubeletconfig.kinds import known_fields
from keyferry.api.kubeletconfig.records import (
    API_VERSION,
    API_VERSIONS,
    INTENT,
    RECORD,
    ImagePullCredentials,
    ImagePulledRecord,
    ImagePullIntent,
    ImagePullSecret,
    ImagePullServiceAccount,
)
from keyferry.api.kubeletconfig.v1 import GROUP
from keyferry.api.wire import Reader, anything
from keyferry.errors import DocumentError, Kind, Problem, RecordError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TypeVar

    _Named = TypeVar("_Named", ImagePullSecret, ImagePullServiceAccount)

PREFIX = "sha256-"
_SHOWN_CHARACTERS = 8
_SHORT_REFERENCE = len("sha256:") + 12
_STAGE = "couldn't get version/kind; json parse error: "


def file_name(key: str) -> str:
    """Return the name of the file for an image, or for a runtime's reference."""
    return PREFIX + sha256(key.encode("utf-8", "surrogateescape")).hexdigest()


def shorten(credential_hash: str) -> str:
    """Return the beginning of a hash: enough to distinguish two, too little to guess the password from."""
    if len(credential_hash) <= _SHOWN_CHARACTERS:
        return credential_hash and "..."
    return credential_hash[:_SHOWN_CHARACTERS] + "..."


def short_reference(image_ref: str) -> str:
    """Return a digest in the short form that tools usually show; any other reference unchanged."""
    return image_ref[:_SHORT_REFERENCE] if image_ref.startswith("sha256:") else image_ref


class Decoded(Generic[T]):
    """The value of a file; *is_current* is True if its API version is the one that is written now."""

    __slots__ = ("is_current", "value")

    def __init__(self, value: T, *, is_current: bool) -> None:
        self.value = value
        self.is_current = is_current


class _Loaded(Value):
    """A document, the paths of its duplicate keys, and Kubernetes' text about those of a YAML document."""

    value: object
    duplicates: tuple[Path, ...] = ()
    is_yaml: bool = False
    yaml_text: str = ""

    def reader(self) -> Reader:
        return Reader(sort_keys=True) if self.is_yaml else Reader(self.duplicates)


def decode_intent(data: bytes, path: str = "") -> Decoded[ImagePullIntent]:
    """Decode the content of an intent's file; raise RecordError if it is invalid."""
    return _decode(data, path, INTENT, ImagePullIntent.from_document)


def decode_record(data: bytes, path: str = "") -> Decoded[ImagePulledRecord]:
    """Decode the content of a record's file; raise RecordError, which quotes no hash, if it is invalid."""
    return _decode(data, path, RECORD, ImagePulledRecord.from_document)


def _decode(data: bytes, path: str, kind: str, read: Callable[[object, Reader], T]) -> Decoded[T]:
    failure: RecordError
    try:
        loaded = _load(data)
        api_version, found = interpret(loaded.value)
    except DocumentError as error:
        stage = _STAGE if error.kind is Kind.JSON_SYNTAX else ""
        failure = RecordError(path, str(error), stage + error.kubernetes_text, Kind.SYNTAX, error.kind)
    except WrongTypeError as error:
        field = f"{error.field}: " if error.field else ""
        failure = RecordError(path, field + error.message, error.kubernetes_text, Kind.TYPE, Kind.WRONG_TYPE)
    else:
        _check_type(path, kind, (api_version, found), loaded, data)
        reader = loaded.reader()
        value = read(loaded.value, reader)
        problem = kubernetes_failure(reader.problems, loaded.yaml_text)
        if problem is None:
            return Decoded(value, is_current=api_version == API_VERSION)
        failure = _content_error(path, reader, problem)
    # Raised outside the except block, because the decoder's exception could hold the document.
    raise failure


def _load(data: bytes) -> _Loaded:
    """Load a document as Kubernetes does: JSON if it begins with a brace, else YAML."""
    if data[:1] == b"{":
        value, duplicates = loads_with_duplicates(data, quoting=True)
        return _Loaded(value=value, duplicates=duplicates)
    document = read_document(data, quoting=True)
    if document.format is DocumentFormat.JSON:
        return _Loaded(value=document.value, duplicates=tuple(each.path for each in document.duplicates))
    return _Loaded(value=document.value, duplicates=(), is_yaml=True, yaml_text=_yaml_text(document))


def _yaml_text(document: Document) -> str:
    if not document.duplicates:
        return ""
    return "yaml: unmarshal errors:\n" + "\n".join(map(_yaml_line, document.duplicates))


def _yaml_line(duplicate: DuplicateKey) -> str:
    return f"  line {duplicate.kubernetes_line}: key {quote(str(duplicate.path[-1]))} already set in map"


def _check_type(path: str, kind: str, found: tuple[str, str], loaded: _Loaded, data: bytes) -> None:
    """Raise RecordError if a document is not of the expected kind, or its version is unknown."""
    api_version, found_kind = found
    if api_version.count("/") > 1:
        text = f"unexpected GroupVersion string: {api_version}"
        raise RecordError(path, "apiVersion has more than one '/'", text, Kind.TYPE, Kind.GROUP_VERSION)
    for value, field, lack in (
        (found_kind, "kind", Kind.MISSING_KIND),
        (api_version.rpartition("/")[2], "apiVersion", Kind.MISSING_API_VERSION),
    ):
        if not value:
            go_name = "Kind" if field == "kind" else field
            text = f"Object '{go_name}' is missing in '{decode_utf8(data)}'"
            expected = kind if field == "kind" else API_VERSION
            message = (
                f"{field} is missing, expected {expected!r}" if data else f"it is empty, expected {kind}"
            )
            raise RecordError(path, message, text, Kind.TYPE, lack)
    if found_kind != kind or api_version not in API_VERSIONS:
        raise _foreign(path, kind, found, loaded)


def _foreign(path: str, kind: str, found: tuple[str, str], loaded: _Loaded) -> RecordError:
    api_version, found_kind = found
    message = (
        f"it is not an {kind} of a known version: found apiVersion {shown_api_version(api_version)}, "
        f"expected {' or '.join(map(repr, API_VERSIONS))}"
    )
    fields = known_fields(api_version, found_kind) if api_version.startswith(f"{GROUP}/") else None
    if fields is None:
        version = api_version.removeprefix("/")
        text = f'no kind "{found_kind}" is registered for version "{version}" in scheme "<scheme>"'
        return RecordError(path, message, text, Kind.TYPE, Kind.UNKNOWN_TYPE)
    # Kubernetes decodes a kind that it knows strictly before it compares it with the expected one.
    reader = loaded.reader()
    reader.struct(loaded.value, (), dict.fromkeys(fields, anything))
    failure = kubernetes_failure(reader.problems, loaded.yaml_text)
    message = f"it is a {found_kind}, expected an {kind}"
    if failure is not None:
        return RecordError(path, message, failure.kubernetes_text, Kind.TYPE, failure.kind)
    return RecordError(path, message, f"failed to convert object to *{kind}: *config.{found_kind}", Kind.TYPE)


def _content_error(path: str, reader: Reader, problem: Problem) -> RecordError:
    if not reader.problems:
        message = "a key is given more than once"
    else:
        shown = [f"{each.path}: {each.message}".removeprefix(": ") for _, each in reader.problems[:3]]
        more = len(reader.problems) - len(shown)
        message = "; ".join(shown) + (f"; and {more} more" if more else "")
    return RecordError(path, message, problem.kubernetes_text, Kind.CONTENT, problem.kind)


def merge_named(recorded: Iterable[_Named], new: Iterable[_Named]) -> tuple[tuple[_Named, ...], bool]:
    """Return two lists of secrets, or of service accounts, merged by their coordinates, and whether that is a change.

    The new hash of a secret replaces the recorded one.
    """
    recorded = tuple(recorded)
    known = {each.coordinates: each for each in recorded}
    changed = False
    for each in new:
        changed = changed or known.get(each.coordinates) != each
        known[each.coordinates] = each
    if not changed:
        return recorded, False
    return tuple(sorted(known.values(), key=attrgetter("coordinates"))), True


def merge_credentials(
    record: ImagePulledRecord,
    name: str,
    credentials: ImagePullCredentials | None,
    clock: Callable[[], int],
) -> tuple[ImagePulledRecord, bool]:
    """Return *record* with credentials added for an image's name, and whether that changed it.

    Access for every pod replaces all other credentials. The time of the record is updated only if it changed.
    """
    if credentials is None or credentials.is_empty:
        return record, False
    entry = record.credential_mapping.get(name)
    merged = credentials if entry is None else _merge_entry(entry, credentials)
    if merged == entry:
        return record, False
    mapping = {**record.credential_mapping, name: merged}
    return replace(record, last_updated_ns=clock(), credential_mapping=mapping), True


def _merge_entry(entry: ImagePullCredentials, new: ImagePullCredentials) -> ImagePullCredentials:
    if entry.node_pods_accessible:
        return entry
    if new.node_pods_accessible:
        return ImagePullCredentials(node_pods_accessible=True)
    # As in the kubelet, new accounts are ignored if there are new secrets; the kubelet never has both at once.
    if new.kubernetes_secrets:
        secrets, _ = merge_named(entry.kubernetes_secrets, new.kubernetes_secrets)
        return replace(entry, kubernetes_secrets=secrets)
    accounts, _ = merge_named(entry.kubernetes_service_accounts, new.kubernetes_service_accounts)
    return replace(entry, kubernetes_service_accounts=accounts)
