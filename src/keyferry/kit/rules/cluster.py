"""Rules about a cluster plugin's responses: those of client-go, and problems that appear only later."""

from __future__ import annotations

from collections.abc import Iterator

from keyferry._core.json import loads
from keyferry.clusters.access import FORBIDDEN
from keyferry.clusters.auth.pem import parse_key_pair
from keyferry.errors import (
    DocumentError,
    EnvironmentProblem,
    Fault,
    KeyferryError,
    Kind,
    PluginProtocolError,
)
from keyferry.invoke.run import Ending
from keyferry.kit.lab.evidence import Evidence, Rule, Unchecked, Violation, is_reached, succeeded
from keyferry.kit.lab.experiments import Family
from keyferry.kit.lab.tokens import expiry_of
from keyferry.kit.rules.answer import surplus
from keyferry.kit.rules.input import survives
from keyferry.kit.rules.scope import answered, answered_or_refused

__all__ = ["CLUSTER_RULES", "classify_cluster"]

_SECOND = 1_000_000_000
_NO_TIMESTAMP = "the response has no expirationTimestamp"
_NO_OWN_END = "no expiry can be read from the token or certificate"
_CODES = {
    Fault.VERSION: "KP203",
    Fault.GROUP_VERSION: "KP203",
    Fault.KIND: "KP204",
    Fault.NO_STATUS: "KP205",
    Fault.NO_CREDENTIAL: "KP206",
    Fault.HALF_PAIR: "KP207",
    Fault.KEY_PAIR: "KP208",
    Fault.FIELD: "KP209",
}
# Problems of a document's kind and version.
_TYPELESS = (Kind.UNKNOWN_TYPE, Kind.MISSING_API_VERSION, Kind.MISSING_KIND)
# The order of client-go's checks: the first problem hides those after it.
_ORDER = (("KP202",), ("KP204",), ("KP203", "KP209"), ("KP205",), ("KP206",), ("KP207",), ("KP208",))
_EXPECTED = {
    "KP202": "one ExecCredential, with nothing before or after it",
    "KP203": "the apiVersion of KUBERNETES_EXEC_INFO",
    "KP204": "'ExecCredential'",
    "KP205": "a status",
    "KP206": "status.token, or a certificate and key",
    "KP207": "both clientCertificateData and clientKeyData, or neither",
    "KP208": "PEM of a certificate and of its key",
    "KP209": "strings in all fields, and a time such as '2006-01-02T15:04:05Z'",
}


def classify_cluster(error: PluginProtocolError, stdout: bytes) -> str:
    """Return the code of client-go's objection to a response."""
    if not stdout.strip():
        return "KP202"
    if error.document_kind in _TYPELESS:
        return "KP203" if _kind(stdout) in ("", "ExecCredential") else "KP204"
    return _CODES.get(error.fault, "KP202")


def _kind(stdout: bytes) -> object:
    try:
        document = loads(stdout)
    except DocumentError:
        return ""
    return document.get("kind", "") if isinstance(document, dict) else ""


def _decodes(code: str) -> Rule:
    def judge(evidence: Evidence) -> Iterator[Violation]:
        if not succeeded(evidence.outcome("good")):
            raise Unchecked("there is no valid response to check")
        error = evidence.problem("good")
        found = "" if error is None else classify_cluster(error, evidence.outcome("good").stdout)
        if not is_reached(code, found, _ORDER):
            raise Unchecked("an earlier problem hides this part of the response")
        if error is not None and found == code:
            stdout = evidence.outcome("good").stdout
            yield Violation(
                experiment="good",
                found=error.problem + (surplus(stdout) if code == "KP202" else ""),
                expected=_EXPECTED[code],
            )

    return Rule(needs=("good",), judge=judge)


def _ends_well(evidence: Evidence) -> Iterator[Violation]:
    if not succeeded(evidence.outcome("good")):
        yield Violation(experiment="good", found=evidence.describe("good"), expected=evidence.good_answer())


def _pair(evidence: Evidence) -> Iterator[Violation]:
    credential = evidence.credential("good") if evidence.is_good("good") else None
    if credential is not None:
        if not credential.certificate_pem:
            raise Unchecked("the plugin returns no certificate")
        try:
            parse_key_pair(credential.certificate_pem, credential.key_pem)
        except EnvironmentProblem as error:
            raise Unchecked(error.message) from None
    yield from _decodes("KP208").judge(evidence)


def _ended(evidence: Evidence) -> Iterator[Violation]:
    end = evidence.credential("good").expires_ns
    if end is None:
        raise Unchecked(_NO_TIMESTAMP)
    if end <= evidence.now_ns:
        yield Violation(
            experiment="good",
            found=f"it expired {(evidence.now_ns - end) // _SECOND} s ago",
            expected="a time in the future",
        )


def _own_end(evidence: Evidence) -> int | None:
    """Return the expiry inside the token or the certificate, the earlier of the two; None without any."""
    credential = evidence.credential("good")
    ends = [expiry_of(credential.token)]
    if credential.certificate_pem:
        try:
            ends.append(parse_key_pair(credential.certificate_pem, credential.key_pem).not_after_ns)
        except KeyferryError:
            pass  # KP208 reports it
    return min((end for end in ends if end is not None), default=None)


def _outlives(evidence: Evidence) -> Iterator[Violation]:
    end, own = evidence.credential("good").expires_ns, _own_end(evidence)
    if end is None or own is None:
        raise Unchecked(_NO_TIMESTAMP if end is None else _NO_OWN_END)
    if end > own:
        late = (end - own) // _SECOND
        yield Violation(
            experiment="good",
            found=f"an expirationTimestamp {late} s after the credential's own expiry",
            expected="no later time",
        )


def _no_end(evidence: Evidence) -> Iterator[Violation]:
    if evidence.credential("good").expires_ns is not None:
        return
    if _own_end(evidence) is None:
        raise Unchecked(_NO_OWN_END)
    yield Violation(
        experiment="good",
        found="no expirationTimestamp for a credential with an expiry",
        expected="the time of the expiry",
    )


def _unsendable(evidence: Evidence) -> Iterator[Violation]:
    token = evidence.credential("good").token
    if not token:
        raise Unchecked("the plugin returns no token")
    if FORBIDDEN.search(token):
        yield Violation(
            experiment="good",
            found="a line end or control character in the token",
            expected="text on one line",
        )


def _versions(evidence: Evidence, *, required: bool) -> list[str]:
    names = evidence.names(Family.VERSION)
    return [name for name in names if (evidence.version(name) in evidence.plugin.api_versions) is required]


def _wrong_version(evidence: Evidence) -> Iterator[Violation]:
    yield from answered_or_refused(evidence, _versions(evidence, required=False))


def _other_versions(evidence: Evidence) -> Iterator[Violation]:
    yield from answered(evidence, _versions(evidence, required=False))


def _required_versions(evidence: Evidence) -> Iterator[Violation]:
    names = _versions(evidence, required=True)
    if not names:
        raise Unchecked("no second --api-version is given")
    for name in names:
        if not evidence.is_good(name):
            yield Violation(
                experiment=name,
                found=evidence.describe(name),
                expected=f"a response in {evidence.version(name)}",
            )


def _reads_input(evidence: Evidence) -> Iterator[Violation]:
    if evidence.run("input").was_input_read:
        yield Violation(experiment="input", found="it reads standard input", expected="no read")
    else:
        evidence.require_good()


def _like_first(name: str) -> Rule:
    def judge(evidence: Evidence) -> Iterator[Violation]:
        evidence.require_good()
        if not evidence.is_good(name):
            yield Violation(
                experiment=name, found=evidence.describe(name), expected="a response as valid as the first"
            )

    return Rule(needs=(name,), judge=judge)


def _plain_json(evidence: Evidence) -> Iterator[Violation]:
    evidence.require_good()
    try:
        document = loads(evidence.outcome("good").stdout)
    except DocumentError:
        document = None
    if not isinstance(document, dict):
        yield Violation(experiment="good", found="YAML", expected="JSON")
    elif not document.get("kind"):
        yield Violation(experiment="good", found="no kind", expected="'ExecCredential'")


def _flood(evidence: Evidence) -> Iterator[Violation]:
    if evidence.outcome("good").ending is Ending.STDOUT_LIMIT:
        yield Violation(
            experiment="good", found="more than 16 MB on standard output", expected="a few kilobytes"
        )


_BROKEN = (
    "empty exec info",
    "text for exec info",
    "truncated exec info",
    "array for exec info",
    "null for exec info",
    "wrong types in exec info",
    "exec info of another kind",
    "unknown version",
    "unknown field in exec info",
)

CLUSTER_RULES: dict[str, Rule] = {
    "KP201": Rule(needs=("good",), judge=_ends_well),
    **{code: _decodes(code) for code in _EXPECTED},
    "KP208": Rule(needs=("good",), judge=_pair),
    "KP210": Rule(needs=("good",), judge=_ended),
    "KP211": Rule(needs=("good",), judge=_outlives),
    "KP212": Rule(needs=("good",), judge=_no_end),
    "KP213": Rule(needs=("good",), judge=_unsendable),
    "KP214": Rule(needs=(Family.VERSION,), judge=_wrong_version),
    "KP215": Rule(needs=(Family.VERSION,), judge=_other_versions),
    "KP216": Rule(needs=("input",), judge=_reads_input),
    "KP217": _like_first("with cluster"),
    "KP218": survives("no exec info"),
    "KP219": survives(*_BROKEN),
    "KP220": survives("huge exec info"),
    "KP221": _like_first("again"),
    "KP222": Rule(needs=("good",), judge=_plain_json),
    "KP223": Rule(needs=(Family.VERSION,), judge=_required_versions),
    "KP251": Rule(needs=("good",), judge=_flood),
}
