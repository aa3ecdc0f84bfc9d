"""The topics pull_records and pull_decisions: files, merging, and whole lives of a node's records."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from pathlib import Path

from conformance.layout import files_below, lay_out
from keyferry._core.clock import time_ns
from keyferry._core.json import dumps, loads
from keyferry._core.values import Value
from keyferry.api.kubeletconfig import records as api
from keyferry.api.kubeletconfig.v1 import GROUP
from keyferry.api.meta import format_instant, parse_time
from keyferry.api.wire import Reader
from keyferry.errors import EnvironmentProblem, KeyferryError, PolicyError, RecordError
from keyferry.images.keyring import credential_hash, hashed_json
from keyferry.pulls.records.decide import PodCredentials
from keyferry.pulls.records.disk import LOCK_NAME, stripe_count, stripe_of
from keyferry.pulls.records.format import (
    decode_intent,
    decode_record,
    file_name,
    merge_credentials,
    merge_named,
)
from keyferry.pulls.records.policy import VerificationPolicy, parse_pattern
from keyferry.pulls.records.records import Records, open_records
from keyferry.pulls.records.store import CacheSizes, RecordFiles

Json = dict[str, object]
_DEFAULT_TIME = "2026-01-02T03:04:05Z"
_NOW_SINCE = parse_time("2026-03-01T00:00:00Z")


def pull_records(given: Json) -> Json:
    """Encode, decode, merge, list and migrate."""
    return _OPERATIONS[str(given["op"])](given)


def pull_decisions(given: Json) -> Json:
    """Patterns, policies, and scenarios of many steps."""
    return _OPERATIONS[str(given["op"])](given)


def _filename(given: Json) -> Json:
    return {"filename": file_name(str(given["name"]))}


def _stripe(given: Json) -> Json:
    size = given["size"]
    assert isinstance(size, int)
    stripes = stripe_count(size)
    return {"stripe": stripe_of(str(given["key"]), stripes), "stripes": stripes}


def _encode_intent(given: Json) -> Json:
    intent = api.ImagePullIntent(image=str(given["image"]))
    return _encoded(lambda: api.encode_intent(intent, f"{GROUP}/{given['version']}"))


def _encode_record(given: Json) -> Json:
    record = _record(given["record"])
    return _encoded(lambda: api.encode_record(record, f"{GROUP}/{given['version']}"))


def _encoded(encode: Callable[[], bytes]) -> Json:
    try:
        return {"bytes": encode().decode(), "error": None}
    except RecordError as error:
        return _refused(error)


def _refused(error: RecordError) -> Json:
    return {"error": error.kubernetes_text, "error_class": error.document_kind}


def _decode_intent(given: Json) -> Json:
    try:
        decoded = decode_intent(str(given["data"]).encode())
    except RecordError as error:
        return _refused(error)
    return {"current_version": decoded.is_current, "error": None, "image": decoded.value.image}


def _decode_record(given: Json) -> Json:
    try:
        decoded = decode_record(str(given["data"]).encode())
    except RecordError as error:
        return _refused(error)
    return {"current_version": decoded.is_current, "error": None, "record": _shown(decoded.value)}


def _merge_secrets(given: Json) -> Json:
    old, new = (_credentials({"kubernetesSecrets": given[key]}) for key in ("orig", "new"))
    secrets, changed = merge_named(old.kubernetes_secrets, new.kubernetes_secrets)
    return {"changed": changed, "secrets": [_secret(secret) for secret in secrets]}


def _merge_accounts(given: Json) -> Json:
    old, new = (_credentials({"kubernetesServiceAccounts": given[key]}) for key in ("orig", "new"))
    accounts, changed = merge_named(old.kubernetes_service_accounts, new.kubernetes_service_accounts)
    return {"changed": changed, "serviceAccounts": [_account(account) for account in accounts]}


def _merge_record(given: Json) -> Json:
    creds = None if given["creds"] is None else _credentials(given["creds"])
    record, changed = merge_credentials(_record(given["record"]), str(given["image"]), creds, time_ns)
    return {"changed": changed, "record": _shown(record)}


def _hash_auth(given: Json) -> Json:
    fields = given["auth"]
    assert isinstance(fields, dict)
    return {
        "hash": credential_hash(**{"username": "", "password": ""} | fields),
        "hashed_json": hashed_json(fields),
    }


def _directory(given: Json) -> Json:
    with tempfile.TemporaryDirectory() as root:
        _lay_out(Path(root), given["files"])
        files = RecordFiles(root)
        with closing(files):
            files.prepare()
            answer = _looked_at(files, given) | {"files_after_open": _contents(root)}
        localised = loads(dumps(answer).replace(root, "$DIR"))
    assert isinstance(localised, dict)
    return localised


def _looked_at(files: RecordFiles, given: Json) -> Json:
    intents, records = files.list_intents(), files.list_records()
    answer: Json = {
        "intents": [intent.image for intent in intents.values],
        "list_intents_error": intents.kubernetes_text or None,
        "records": [_shown(record) for record in records.values],
        "list_records_error": records.kubernetes_text or None,
        "ondisk_counts": list(files.count()),
    }
    if "imageRef" in given:
        lookup = files.find_record(str(given["imageRef"]))
        answer["get_record"] = {
            "error": lookup.failure.kubernetes_text if lookup.failure else None,
            "exists": lookup.exists,
            "record": _shown(lookup.record) if lookup.record else None,
        }
    if "image" in given:
        answer["intent_exists"] = _intent_exists(files, str(given["image"]))
    return answer


def _intent_exists(files: RecordFiles, image: str) -> Json:
    try:
        return {"error": None, "exists": files.intent_exists(image)}
    except RecordError as error:
        return {"error": error.kubernetes_text, "exists": False}


def _allowlist_pattern(given: Json) -> Json:
    try:
        pattern = parse_pattern(str(given["pattern"]))
    except PolicyError as error:
        return {"error": error.kubernetes_text}
    return {"error": None, "pattern": pattern.text, "wildcard": pattern.is_wildcard}


def _policy(given: Json) -> Json:
    try:
        policy = _policy_of(given)
    except PolicyError as error:
        return {"error": error.kubernetes_text}
    verdict = policy.judge(str(given["image"]), pulled_by_kubelet=bool(given.get("byKubelet")))
    return {"error": None, "requires_verification": verdict.must_verify}


def _policy_of(given: Json) -> VerificationPolicy:
    return VerificationPolicy(str(given["policy"]), given.get("allowlist") or ())  # type: ignore[arg-type] # strings


class _Image(Value):
    id: str
    tags: tuple[str, ...]
    digests: tuple[str, ...]


def _scenario(given: Json) -> Json:
    with tempfile.TemporaryDirectory() as root:
        _lay_out(Path(root), dict(_initial_files(given)))
        records = open_records(
            root,
            policy=_policy_of(given),
            sizes=CacheSizes(intents=50, records=100),
            cached=given.get("cache") != "none",
            images=lambda: _images(given),
        )
        with closing(records):
            after_start = _state(root)
            steps = given["steps"]
            assert isinstance(steps, list)
            return {"after_start": after_start, "steps": [_step(records, Path(root), step) for step in steps]}


def _initial_files(given: Json) -> Iterator[tuple[str, str]]:
    for record in map(_record, given["records"]):  # type: ignore[call-overload] # a list of records
        yield f"pulled/{file_name(record.image_ref)}", api.encode_record(record).decode()
    for image in given["intents"]:  # type: ignore[attr-defined] # a list of images
        yield f"pulling/{file_name(image)}", api.encode_intent(api.ImagePullIntent(image=image)).decode()
    yield from (given.get("rawFiles") or {}).items()  # type: ignore[attr-defined] # name to content


def _images(given: Json) -> Iterable[_Image]:
    if given.get("listImagesError"):
        raise EnvironmentProblem(str(given["listImagesError"]))
    images = given["images"]
    assert isinstance(images, list)
    return [
        _Image(id=each["id"], tags=tuple(each["repoTags"]), digests=tuple(each["repoDigests"]))
        for each in images
    ]


def _step(records: Records, root: Path, step: Json) -> Json:
    answer = _STEPS[str(step["do"])](records, root, step)
    return answer | {"state": _state(str(root))}


def _do_intent(records: Records, _: Path, step: Json) -> Json:
    try:
        records.record_intent(str(step["image"]))
    except KeyferryError as error:
        return {"error": error.kubernetes_text}
    return {"error": None}


def _do_pulled(records: Records, _: Path, step: Json) -> Json:
    try:
        records.record_pulled(str(step["image"]), str(step["imageRef"]), _credentials(step["creds"]))
    except KeyferryError as error:
        # The kubelet logs it and goes on; the state tells what that left behind.
        assert str(error)
    return {}


def _do_failed(records: Records, _: Path, step: Json) -> Json:
    records.record_failed(str(step["image"]))
    return {}


def _do_must_pull(records: Records, _: Path, step: Json) -> Json:
    requested = []

    def get_credentials() -> PodCredentials:
        requested.append(True)
        if step.get("credentialsError"):
            raise EnvironmentProblem(str(step["credentialsError"]))
        secrets = _credentials({"kubernetesSecrets": step["podSecrets"]}).kubernetes_secrets
        account = step.get("podServiceAccount")
        accounts = _credentials({"kubernetesServiceAccounts": [account]}).kubernetes_service_accounts
        return PodCredentials(secrets=secrets, service_account=accounts[0] if account else None)

    decision = records.decide(str(step["image"]), str(step["imageRef"]), get_credentials)
    assert decision.reasons
    return {
        "must_pull": decision.must_pull,
        "error": decision.error.kubernetes_text if decision.error else None,
        "credentials_requested": bool(requested),
    }


def _do_prune(records: Records, _: Path, step: Json) -> Json:
    records.prune(step["imageList"], parse_time(str(step["until"])))  # type: ignore[arg-type] # a list of ids
    return {}


def _do_write_file(_: Records, root: Path, step: Json) -> Json:
    _lay_out(root, {str(step["file"]): step["content"]})
    return {}


def _do_delete_file(_: Records, root: Path, step: Json) -> Json:
    (root / "image_manager" / str(step["file"])).unlink()
    return {}


def _state(root: str) -> Json:
    files = RecordFiles(root)
    return {
        "files": sorted(_contents(root)),
        "intents": sorted(intent.image for intent in files.list_intents().values),
        "records": sorted((_shown(r) for r in files.list_records().values), key=lambda r: str(r["imageRef"])),
    }


def _lay_out(root: Path, files: object) -> None:
    assert isinstance(files, dict)
    lay_out(root, {f"image_manager/{name}": content for name, content in files.items()}, None, (0o700, 0o600))


def _contents(root: str) -> dict[str, str]:
    """All files below the kubelet's folder but keyferry's own lock, which a kubelet has not."""
    found = files_below(Path(root, "image_manager"))
    found.pop(LOCK_NAME, None)
    return found


def _record(fields: object) -> api.ImagePulledRecord:
    assert isinstance(fields, dict)
    return api.ImagePulledRecord.from_document({"lastUpdatedTime": _DEFAULT_TIME} | fields, Reader())


def _credentials(fields: object) -> api.ImagePullCredentials:
    return _record({"credentialMapping": {"x": fields}}).credential_mapping["x"]


def _shown(record: api.ImagePulledRecord) -> Json:
    moment = record.last_updated_ns
    return {
        "imageRef": record.image_ref,
        "lastUpdatedTime": "NOW" if moment >= _NOW_SINCE else format_instant(moment),
        "credentialMapping": {
            name: {
                "kubernetesSecrets": [_secret(secret) for secret in entry.kubernetes_secrets],
                "kubernetesServiceAccounts": [_account(each) for each in entry.kubernetes_service_accounts],
                "nodePodsAccessible": entry.node_pods_accessible,
            }
            for name, entry in record.credential_mapping.items()
        },
    }


def _secret(secret: api.ImagePullSecret) -> Json:
    return _account(secret) | {"credentialHash": secret.credential_hash}


def _account(account: api.ImagePullSecret | api.ImagePullServiceAccount) -> Json:
    return {"uid": account.uid, "namespace": account.namespace, "name": account.name}


_OPERATIONS: dict[str, Callable[[Json], Json]] = {
    "filename": _filename,
    "stripe": _stripe,
    "encode_intent": _encode_intent,
    "encode_record": _encode_record,
    "decode_intent": _decode_intent,
    "decode_record": _decode_record,
    "merge_secrets": _merge_secrets,
    "merge_service_accounts": _merge_accounts,
    "merge_record": _merge_record,
    "directory": _directory,
    "hash_auth": _hash_auth,
    "allowlist_pattern": _allowlist_pattern,
    "policy": _policy,
    "scenario": _scenario,
}
_STEPS: dict[str, Callable[[Records, Path, Json], Json]] = {
    "intent": _do_intent,
    "pulled": _do_pulled,
    "failed": _do_failed,
    "must_pull": _do_must_pull,
    "prune": _do_prune,
    "write_file": _do_write_file,
    "delete_file": _do_delete_file,
}
