"""Checks of a cluster plugin: whether client-go accepts its response, and problems that appear only later."""

from __future__ import annotations

from collections.abc import Iterator

from keyferry._core.json import loads
from keyferry._core.severity import Severity
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
from keyferry.kit.checks.check import Code, check
from keyferry.kit.checks.process import answers_like_the_first
from keyferry.kit.checks.requests import (
    answers_required_versions,
    answers_versions,
    answers_versions_or_refuses,
    handles_input,
)
from keyferry.kit.checks.responses import exits_with_0, is_reached, prints_no_flood, surplus
from keyferry.kit.lab.evidence import NO_RESPONSE, Evidence, Unchecked, Violation
from keyferry.kit.lab.experiments import NORMAL, Family
from keyferry.kit.lab.secrets import expiry_of

_SECOND = 1_000_000_000
_NO_TIMESTAMP = "the response has no expirationTimestamp"
_NO_OWN_END = "no expiry can be read from the token or certificate"
# Problems of a document's kind and version.
_TYPELESS = (Kind.UNKNOWN_TYPE, Kind.MISSING_API_VERSION, Kind.MISSING_KIND)

KP201 = Code(
    code="KP201",
    severity=Severity.ERROR,
    title="answers client-go's request with exit status 0",
    why="client-go treats any other status as a failure, and sends no request to the cluster",
    fix="find the reason of the failure in standard error, and exit with 0 after a response",
)

check(KP201, needs=NORMAL)(exits_with_0)

KP202 = Code(
    code="KP202",
    severity=Severity.ERROR,
    title="prints one ExecCredential on standard output, and nothing else",
    why="client-go decodes all of standard output and rejects it if it is empty, or also has a log line or a banner",
    fix="write the response to standard output, and everything else to standard error",
)


@check(KP202, needs=NORMAL)
def prints_one_credential(evidence: Evidence) -> Iterator[Violation]:
    """Yield a violation if the output is not one ExecCredential."""
    expected = "one ExecCredential, with nothing before or after it"
    return _rejection(evidence, KP202, expected, surplus(evidence["good"].outcome.stdout))


KP203 = Code(
    code="KP203",
    severity=Severity.ERROR,
    title="answers in the apiVersion of the request",
    why="client-go compares apiVersion with the one in the kubeconfig and rejects any other",
    fix="copy apiVersion from KUBERNETES_EXEC_INFO into the response",
)


@check(KP203, needs=NORMAL)
def has_the_version_of_the_request(evidence: Evidence) -> Iterator[Violation]:
    """Yield a violation if the response is in another version."""
    return _rejection(evidence, KP203, "the apiVersion of KUBERNETES_EXEC_INFO")


KP204 = Code(
    code="KP204",
    severity=Severity.ERROR,
    title="sets the kind of its response to ExecCredential",
    why="client-go decodes by kind and rejects every other kind",
    fix="set kind to 'ExecCredential'",
)


@check(KP204, needs=NORMAL)
def has_its_kind(evidence: Evidence) -> Iterator[Violation]:
    """Yield a violation if the response is of another kind."""
    return _rejection(evidence, KP204, "'ExecCredential'")


KP205 = Code(
    code="KP205",
    severity=Severity.ERROR,
    title="has a status in its response",
    why="client-go reads the credential from status only",
    fix="put token, clientCertificateData and clientKeyData into status",
)


@check(KP205, needs=NORMAL)
def has_a_status(evidence: Evidence) -> Iterator[Violation]:
    """Yield a violation if the response has no status."""
    return _rejection(evidence, KP205, "a status")


KP206 = Code(
    code="KP206",
    severity=Severity.ERROR,
    title="returns a token, or a certificate with its key",
    why="client-go rejects a response that has neither",
    fix="set status.token, or status.clientCertificateData and status.clientKeyData",
)


@check(KP206, needs=NORMAL)
def has_a_credential(evidence: Evidence) -> Iterator[Violation]:
    """Yield a violation if the status has no credential."""
    return _rejection(evidence, KP206, "status.token, or a certificate and key")


KP207 = Code(
    code="KP207",
    severity=Severity.ERROR,
    title="returns certificate and key together",
    why="client-go rejects one without the other, even if there is a token",
    fix="return both clientCertificateData and clientKeyData, or neither",
)


@check(KP207, needs=NORMAL)
def has_both_or_neither(evidence: Evidence) -> Iterator[Violation]:
    """Yield a violation if a certificate has no key, or a key no certificate."""
    return _rejection(evidence, KP207, "both clientCertificateData and clientKeyData, or neither")


KP208 = Code(
    code="KP208",
    severity=Severity.ERROR,
    title="returns a certificate and the key that belongs to it",
    why="client-go parses the pair before it uses it and rejects a pair that TLS cannot use",
    fix="return PEM, with the client's certificate first and the key that it was issued for",
)


@check(KP208, needs=NORMAL)
def has_a_pair_that_matches(evidence: Evidence) -> Iterator[Violation]:
    """Yield a violation if certificate and key cannot be used together."""
    if evidence["good"].is_good:
        credential = evidence["good"].credential
        if not credential.certificate_pem:
            raise Unchecked("the plugin returns no certificate")
        try:
            parse_key_pair(credential.certificate_pem, credential.key_pem)
        except EnvironmentProblem as error:
            raise Unchecked(error.message) from None
    return _rejection(evidence, KP208, "PEM of a certificate and of its key")


KP209 = Code(
    code="KP209",
    severity=Severity.ERROR,
    title="returns fields of the right type, and times in RFC 3339",
    why="client-go rejects the whole response for a number in a string field or a time such as '2026-01-01 12:00'",
    fix="print times like '2006-01-02T15:04:05Z'",
)


@check(KP209, needs=NORMAL)
def has_valid_fields(evidence: Evidence) -> Iterator[Violation]:
    """Yield a violation if a field has the wrong type, or a time another form."""
    return _rejection(evidence, KP209, "strings in all fields, and a time such as '2006-01-02T15:04:05Z'")


# The codes of client-go's objections, and the order of its checks: the first problem hides those after it.
_CODES = {
    Fault.VERSION: KP203,
    Fault.GROUP_VERSION: KP203,
    Fault.KIND: KP204,
    Fault.NO_STATUS: KP205,
    Fault.NO_CREDENTIAL: KP206,
    Fault.HALF_PAIR: KP207,
    Fault.KEY_PAIR: KP208,
    Fault.FIELD: KP209,
}
_ORDER = ((KP202,), (KP204,), (KP203, KP209), (KP205,), (KP206,), (KP207,), (KP208,))


def _rejection(evidence: Evidence, code: Code, expected: str, more: str = "") -> Iterator[Violation]:
    """Yield client-go's objection to the response if it is that of *code*; *more* is the end of the sentence.

    Raise Unchecked if another problem hides this part of the response.
    """
    good = evidence["good"]
    if not good.has_succeeded:
        raise Unchecked(NO_RESPONSE)
    problem = good.problem
    found = None if problem is None else _classify(problem, good.outcome.stdout)
    if not is_reached(code, found, _ORDER):
        raise Unchecked("an earlier problem hides this part of the response")
    if problem is not None and found == code:
        yield good.violation(problem.problem + more, expected)


def _classify(error: PluginProtocolError, stdout: bytes) -> Code:
    """Return the code of client-go's objection to a response."""
    if not stdout.strip():
        return KP202
    if error.document_kind in _TYPELESS:
        return KP203 if _kind(stdout) in ("", "ExecCredential") else KP204
    return _CODES.get(error.fault, KP202)


def _kind(stdout: bytes) -> object:
    try:
        document = loads(stdout)
    except DocumentError:
        return ""
    return document.get("kind", "") if isinstance(document, dict) else ""


KP210 = Code(
    code="KP210",
    severity=Severity.ERROR,
    title="returns a credential that has not expired",
    why="client-go runs the plugin again for every request while expirationTimestamp is in the past",
    fix="renew the credential before responding; check the clock and the time zone",
)


@check(KP210, needs=NORMAL)
def has_not_expired(evidence: Evidence) -> Iterator[Violation]:
    """Yield a violation if the credential has expired."""
    end = evidence["good"].credential.expires_ns
    if end is None:
        raise Unchecked(_NO_TIMESTAMP)
    if end <= evidence.now_ns:
        found = f"it expired {(evidence.now_ns - end) // _SECOND} s ago"
        yield evidence["good"].violation(found, "a time in the future")


KP211 = Code(
    code="KP211",
    severity=Severity.ERROR,
    title="returns no expirationTimestamp after the credential's own expiry",
    why="client-go keeps using an expired token or certificate until the server responds with 401",
    fix="take expirationTimestamp from the token's 'exp' or the certificate's expiry, minus a minute",
)


@check(KP211, needs=NORMAL)
def has_no_late_expiry(evidence: Evidence) -> Iterator[Violation]:
    """Yield a violation if the credential expires before its expirationTimestamp."""
    end, own = evidence["good"].credential.expires_ns, _own_end(evidence)
    if end is None or own is None:
        raise Unchecked(_NO_TIMESTAMP if end is None else _NO_OWN_END)
    if end > own:
        found = f"an expirationTimestamp {(end - own) // _SECOND} s after the credential's own expiry"
        yield evidence["good"].violation(found, "no later time")


KP212 = Code(
    code="KP212",
    severity=Severity.WARNING,
    title="returns the expiry of its credential",
    why="without expirationTimestamp client-go keeps a token until a request fails with 401",
    fix="set status.expirationTimestamp from the token's 'exp' or the certificate's expiry",
)


@check(KP212, needs=NORMAL)
def has_an_expiry(evidence: Evidence) -> Iterator[Violation]:
    """Yield a violation if the credential expires and has no expirationTimestamp."""
    if evidence["good"].credential.expires_ns is not None:
        return
    if _own_end(evidence) is None:
        raise Unchecked(_NO_OWN_END)
    found = "no expirationTimestamp for a credential with an expiry"
    yield evidence["good"].violation(found, "the time of the expiry")


def _own_end(evidence: Evidence) -> int | None:
    """Return the expiry inside the token or the certificate, the earlier of the two; None without any."""
    credential = evidence["good"].credential
    ends = [expiry_of(credential.token)]
    if credential.certificate_pem:
        try:
            ends.append(parse_key_pair(credential.certificate_pem, credential.key_pem).not_after_ns)
        except KeyferryError:
            pass  # KP208 reports it
    return min((end for end in ends if end is not None), default=None)


KP213 = Code(
    code="KP213",
    severity=Severity.ERROR,
    title="returns a token that can be sent in a header",
    why="a line end or control character in a token, often from reading a file, makes every request fail",
    fix="strip white space from tokens that are read from a file or a program",
)


@check(KP213, needs=NORMAL)
def has_a_token_that_can_be_sent(evidence: Evidence) -> Iterator[Violation]:
    """Yield a violation if no header can have the token."""
    token = evidence["good"].credential.token
    if not token:
        raise Unchecked("the plugin returns no token")
    if FORBIDDEN.search(token):
        found = "a line end or control character in the token"
        yield evidence["good"].violation(found, "text on one line")


KP214 = Code(
    code="KP214",
    severity=Severity.WARNING,
    title="answers another version in that version, or refuses it",
    why="client-go rejects a response whose version is not the one in the kubeconfig, as this plugin returns",
    fix="copy apiVersion from KUBERNETES_EXEC_INFO, or refuse the versions that you do not support",
)

check(KP214, needs=(Family.VERSION,))(answers_versions_or_refuses)

KP215 = Code(
    code="KP215",
    severity=Severity.INFO,
    title="supports both versions of the protocol",
    why="kubeconfigs from before Kubernetes 1.22 contain v1beta1",
    fix="nothing, unless such kubeconfigs use your plugin",
)

check(KP215, needs=(Family.VERSION,))(answers_versions)

KP216 = Code(
    code="KP216",
    severity=Severity.WARNING,
    title="does not read standard input if it is not interactive",
    why="spec.interactive is false: the data on standard input is for the program that runs the plugin",
    fix="read standard input only if spec.interactive is true",
)


@check(KP216, needs=("input",))
def reads_no_input(evidence: Evidence) -> Iterator[Violation]:
    """Yield a violation if standard input was read."""
    if evidence["input"].run.was_input_read:
        yield evidence["input"].violation("it reads standard input", "no read")
    else:
        evidence.require_good()


KP217 = Code(
    code="KP217",
    severity=Severity.ERROR,
    title="answers a request that has the cluster's data",
    why="with provideClusterInfo client-go adds spec.cluster to KUBERNETES_EXEC_INFO",
    fix="accept spec.cluster, with or without a config",
)

check(KP217, needs=("with cluster",))(answers_like_the_first)

KP218 = Code(
    code="KP218",
    severity=Severity.ERROR,
    title="handles a missing KUBERNETES_EXEC_INFO",
    why="older clients do not set it, and neither do people who run the plugin by hand",
    fix="answer in a version that you document, or exit with 1 and a message",
)

check(KP218, needs=("no exec info",))(handles_input)

KP219 = Code(
    code="KP219",
    severity=Severity.ERROR,
    title="handles a KUBERNETES_EXEC_INFO that is malformed or unknown",
    why="a crash or a malformed response does not tell the user what is wrong",
    fix="exit with 1 and a message for input that cannot be parsed and for versions that you do not support",
)

check(
    KP219,
    needs=(
        "empty exec info",
        "text for exec info",
        "truncated exec info",
        "array for exec info",
        "null for exec info",
        "wrong types in exec info",
        "exec info of another kind",
        "unknown version",
        "unknown field in exec info",
    ),
)(handles_input)

KP220 = Code(
    code="KP220",
    severity=Severity.ERROR,
    title="handles a KUBERNETES_EXEC_INFO of 100 kB",
    why="a cluster's certificate authority and the plugin's own config may be long",
    fix="do not limit the length",
)

check(KP220, needs=("huge exec info",))(handles_input)

KP221 = Code(
    code="KP221",
    severity=Severity.ERROR,
    title="answers a repeated request as well as the first",
    why="client-go runs the plugin again whenever the credential has expired, and several programs run it at once",
    fix="keep no state that makes a second run fail",
)

check(KP221, needs=("again",))(answers_like_the_first)

KP222 = Code(
    code="KP222",
    severity=Severity.WARNING,
    title="answers in JSON, with a kind",
    why="client-go also accepts YAML and a missing kind, but clients in other languages do not",
    fix="print JSON with kind and apiVersion",
)


@check(KP222, needs=NORMAL)
def is_json_with_a_kind(evidence: Evidence) -> Iterator[Violation]:
    """Yield a violation if the response is YAML, or has no kind."""
    evidence.require_good()
    good = evidence["good"]
    try:
        document = loads(good.outcome.stdout)
    except DocumentError:
        document = None
    if not isinstance(document, dict):
        yield good.violation("YAML", "JSON")
    elif not document.get("kind"):
        yield good.violation("no kind", "'ExecCredential'")


KP223 = Code(
    code="KP223",
    severity=Severity.ERROR,
    title="answers in every version that is given on the command line",
    why="a kubeconfig with that version gets no credential",
    fix="answer in the version of KUBERNETES_EXEC_INFO",
)

check(KP223, needs=(Family.VERSION,))(answers_required_versions)

KP251 = Code(
    code="KP251",
    severity=Severity.ERROR,
    title="prints a response of at most 4 MiB",
    why="client-go keeps all of standard output in memory, without a limit",
    fix="print the ExecCredential only",
)

check(KP251, needs=NORMAL)(prints_no_flood)
