"""Why a pull failed, by kind, from the text that a kubelet shows in a container's status or in an event.

The texts belong to kubelets, container runtimes and registries, and change with their versions. All that is known about
them is in ``RULES``; a text that no rule recognises is kept whole.
"""

from __future__ import annotations

import re
from enum import StrEnum

from keyferry._core.values import Value, replace
from keyferry.errors import KubeletReason

__all__ = ["RULES", "FailureKind", "PullFailure", "Rule", "recognise", "says_why"]


class FailureKind(StrEnum):
    """What stopped a pull, as the runtime or the kubelet tells it."""

    REFUSED = "refused"  # the registry does not accept the credential, or wants one
    HIDDEN = "hidden"  # the image does not exist, or the credential does not allow it: the registry does not say which
    NOT_FOUND = "not-found"
    DNS = "dns"
    UNREACHABLE = "unreachable"
    TIMEOUT = (
        "timeout"  # no answer in time: often a firewall, where UNREACHABLE has an answer such as "refused"
    )
    AUTHORITY = "authority"  # the certificate is signed by an authority that the runtime does not know
    CERTIFICATE = "certificate"  # another fault of it: it has expired, or is for another name
    CLIENT_CERTIFICATE = "client-certificate"  # the registry does not accept the runtime's, or wants one
    PROTOCOL = "protocol"
    RATE_LIMIT = "rate-limit"
    SERVER = "server"
    PLATFORM = "platform"
    DISK = "disk"
    POLICY = "policy"  # the runtime's own config forbids the image
    QPS = "pull-qps"  # the kubelet's own limit; the next attempt decides
    NEVER = "never"
    SECRET = "secret"  # noqa: S105 - a pull secret that cannot be read; nothing is pulled
    NAME = "name"
    UNKNOWN = "unknown"


class PullFailure(Value):
    """A failed pull.

    ``text`` is the reason without the parts that repeat the image, never cut; for ``UNKNOWN`` it is the whole text.
    With several credentials it has the reasons of all attempts, and the other fields are about the one that decides.
    ``status`` is the HTTP status, or 0. ``host`` is the host that the text names, with its port if it has one, and
    ``is_plain`` tells that it was asked without TLS.
    ``detail`` is the few words of the text that a headline can quote. All three texts are foreign, and not masked.
    """

    kind: FailureKind
    text: str
    status: int = 0
    host: str = ""
    detail: str = ""
    is_plain: bool = False


class Rule(Value):
    """A text and its kind. ``seen`` tells whether a run of ours showed it; the others are from sources and reports."""

    kind: FailureKind
    # It is searched, without regard to case, in a text whose names of images, hosts and URLs are underscores. What its
    # group "detail" matches, or else all of it, is the detail of the failure.
    pattern: str
    source: str
    seen: bool = False


_KUBELET, _CONTAINERD, _CRIO, _DOCKER = "kubelet", "containerd", "CRI-O", "Docker"
_GO, _REGISTRY = "Go's network library", "registries, passed on by runtimes"


def _status(codes: str) -> str:
    """Return a pattern for an HTTP status: ``401 Unauthorized``, ``status code 401``, ``registry 403 (Forbidden)``."""
    phrase = r"(?-i: \(?[A-Z][A-Za-z-]*(?: [A-Z][A-Za-z-]*)*\)?)"
    before = r"\bstatus(?: ?code)?(?: from registry)?:? |\bHTTP "
    return rf"(?:(?:^|: )(?=\d{{3}}{phrase})|{before})(?P<detail>(?P<status>{codes})\b{phrase}?)"


# The most specific first: the first rule that matches decides.
RULES = (
    # The kubelet itself: nothing was asked of a runtime.
    Rule(FailureKind.SECRET, r"\Aillegal base64 data at input byte \d+", _KUBELET, seen=True),
    Rule(
        FailureKind.SECRET, r"\Ainvalid character .{1,8} (?:after|looking for|in) [^\n]*", _KUBELET, seen=True
    ),
    Rule(FailureKind.SECRET, r"\Ajson: cannot unmarshal [^\n]*", _KUBELET, seen=True),
    Rule(FailureKind.SECRET, r"\Aunexpected end of JSON input", _KUBELET),
    Rule(FailureKind.QPS, r"\Apull QPS exceeded", _KUBELET, seen=True),
    Rule(FailureKind.NEVER, r"\bis not present with pull policy of Never", _KUBELET, seen=True),
    Rule(FailureKind.NAME, r"\bcouldn't parse image (?:name|reference)", _KUBELET),
    Rule(FailureKind.NAME, r"\binvalid reference format", "all runtimes and the kubelet", seen=True),
    Rule(FailureKind.NAME, r"\bshort-name [^\n]{1,300}? did not resolve to an alias", _CRIO),
    # Faults of the node that look like a registry's.
    Rule(FailureKind.UNKNOWN, r"\b(?:dial|read|write) unix ", "kubelet, about a runtime that does not run"),
    Rule(FailureKind.UNKNOWN, r"\berror reading from server: ", "kubelet, about a runtime that ends"),
    Rule(
        FailureKind.UNKNOWN, r"\b(?:extraction snapshot|content digest) ", "containerd, about its own storage"
    ),
    Rule(FailureKind.DISK, r"\b(?:no space left on device|disk quota exceeded)", "all runtimes"),
    Rule(FailureKind.POLICY, r"\bSource image rejected: (?P<detail>[^:\n]+)", _CRIO),
    Rule(FailureKind.POLICY, r"\bregistry _+ (?P<detail>is blocked) in _", _CRIO),
    Rule(FailureKind.POLICY, r"\binvalid policy in ", _CRIO),
    Rule(FailureKind.POLICY, r"\bno resolve hosts", _CONTAINERD),
    # The image was found.
    Rule(FailureKind.PLATFORM, r"\bno match for (?:current )?platform\b", _CONTAINERD, seen=True),
    Rule(
        FailureKind.PLATFORM, r"\bno image found in (?:image index|manifest list) for architecture\b", _CRIO
    ),
    Rule(FailureKind.PLATFORM, r"\bno matching manifest for _+", _DOCKER),
    # No answer of the registry. Before refusals, since "failed to authorize" also precedes these texts.
    Rule(
        FailureKind.AUTHORITY,
        r"\bx509: (?P<detail>certificate signed by unknown authority)",
        _GO,
        seen=True,
    ),
    Rule(FailureKind.CERTIFICATE, r"\bx509: (?P<detail>[^:(\n]+)", _GO, seen=True),
    Rule(
        FailureKind.CLIENT_CERTIFICATE,
        r"\bremote error: tls: (?P<detail>(?:certificate required|bad certificate))",
        _GO,
        seen=True,
    ),
    Rule(FailureKind.PROTOCOL, r"\bserver gave HTTP response to HTTPS client", _GO, seen=True),
    Rule(FailureKind.PROTOCOL, r"\bClient sent an HTTP request to an HTTPS server", _GO),
    Rule(FailureKind.PROTOCOL, r"\bmalformed HTTP (?:response|status code)", _GO, seen=True),
    Rule(FailureKind.PROTOCOL, r"\btls: (?P<detail>[^:\n]+)", _GO, seen=True),
    Rule(FailureKind.DNS, r"\bno such host\b", _GO, seen=True),
    Rule(FailureKind.DNS, r"\btemporary failure in name resolution", _GO),
    Rule(FailureKind.DNS, r"\blookup _+(?: on _+)?: (?:\w+ udp _+: )?(?P<detail>[^:\n]+)", _GO),
    Rule(FailureKind.UNREACHABLE, r"\bconnection refused\b", _GO, seen=True),
    Rule(FailureKind.UNREACHABLE, r"\b(?:no route to host|network is unreachable|host is down)\b", _GO),
    Rule(FailureKind.UNREACHABLE, r"\b(?:connection reset by peer|broken pipe)\b", _GO, seen=True),
    Rule(FailureKind.TIMEOUT, r"\b(?:i/o|TLS handshake) timeout\b", _GO),
    Rule(FailureKind.TIMEOUT, r"\bconnection timed out\b", _GO),
    Rule(FailureKind.TIMEOUT, r"\bexceeded while awaiting headers\b", _GO),
    Rule(FailureKind.TIMEOUT, r"\bcontext (?:deadline exceeded|canceled)", "containerd and CRI-O"),
    Rule(FailureKind.UNREACHABLE, r": (?P<detail>(?:unexpected )?EOF)\b", _GO, seen=True),
    # Go gives only the phrase of the status with which a proxy answers CONNECT.
    Rule(
        FailureKind.UNREACHABLE,
        r'\b(?:Head|Get) (?:"_*"|_+): (?P<detail>(?-i:Proxy Authentication Required|Forbidden|Bad Gateway|'
        r"Service Unavailable|Gateway Timeout))$",
        "a proxy, passed on by Go",
    ),
    Rule(FailureKind.UNREACHABLE, _status("407"), "a proxy"),
    # The registry's answer.
    Rule(FailureKind.RATE_LIMIT, _status("429"), _CONTAINERD, seen=True),
    Rule(
        FailureKind.RATE_LIMIT, r"\b(?:toomanyrequests|too many requests to registry)\b", "CRI-O and Docker"
    ),
    Rule(FailureKind.REFUSED, r"\bno basic auth credentials\b", "containerd, most often from ECR"),
    Rule(FailureKind.REFUSED, r"\bauthorization token has expired\b", "ECR"),
    Rule(FailureKind.REFUSED, r"\bnot authorized to perform: ecr:\w+", "ECR"),
    Rule(FailureKind.REFUSED, r"\bunable to retrieve auth token: invalid _+", _CRIO),
    Rule(FailureKind.REFUSED, r"\bincorrect username or password\b", "Docker Hub"),
    Rule(FailureKind.REFUSED, r"\binvalid_token\b", _CONTAINERD),
    Rule(FailureKind.HIDDEN, r"\binsufficient_scope\b", _CONTAINERD, seen=True),
    Rule(FailureKind.HIDDEN, r"\brepository does not exist or may require\b", "containerd and Docker"),
    Rule(FailureKind.HIDDEN, r"\brequested access to the resource is denied\b", "Docker Hub and GitLab"),
    Rule(FailureKind.HIDDEN, r"\bor it may not exist\b", "Artifact Registry"),
    Rule(FailureKind.NOT_FOUND, r"(?:^|: )(?P<detail>not found)$", _CONTAINERD, seen=True),
    Rule(FailureKind.NOT_FOUND, r"\b(?:manifest|name|blob) unknown\b", _REGISTRY),
    Rule(FailureKind.NOT_FOUND, r"\brepository name not known to registry\b", _REGISTRY),
    Rule(
        FailureKind.NOT_FOUND,
        r"\b(?:manifest for|content at) _+ (?P<detail>not found)\b",
        "containerd and Docker",
    ),
    Rule(FailureKind.NOT_FOUND, r"(?:^|: )(?P<detail>not found)\b", _CONTAINERD),
    Rule(FailureKind.REFUSED, _status("401"), "containerd, from the registry or its token server", seen=True),
    Rule(
        FailureKind.REFUSED,
        _status("403"),
        "containerd and CRI-O, from the registry or its token server",
        seen=True,
    ),
    Rule(FailureKind.NOT_FOUND, _status("404"), _REGISTRY),
    Rule(FailureKind.SERVER, _status(r"5\d\d"), _REGISTRY, seen=True),
    Rule(FailureKind.UNREACHABLE, r"\bbecause the (?P<detail>registry is unavailable)", _KUBELET),
    Rule(FailureKind.REFUSED, r"\bauthentication required\b", "CRI-O and Docker; ACR adds a link"),
    Rule(FailureKind.REFUSED, r"\bunauthorized to access repository\b", "Harbor"),
    Rule(FailureKind.REFUSED, r"\baccess to the requested resource is not authorized\b", "Quay"),
    Rule(FailureKind.REFUSED, r"\bthe client does not have permission\b", "Artifactory"),
    Rule(FailureKind.REFUSED, r"\bUnauthenticated request", "Artifact Registry"),
    Rule(FailureKind.REFUSED, r'\bPermission "_*" denied\b', "Artifact Registry"),
    Rule(FailureKind.REFUSED, r"(?:^|: )(?P<detail>unauthorized|denied)(?=:|$)", _REGISTRY),
)
# What the kubelet's reason alone says, if it says more than that a pull failed.
_REASONS: dict[str, FailureKind] = {
    KubeletReason.ERR_IMAGE_NEVER_PULL: FailureKind.NEVER,
    KubeletReason.INVALID_IMAGE_NAME: FailureKind.NAME,
    KubeletReason.SIGNATURE_VALIDATION_FAILED: FailureKind.POLICY,
}
# Which of several attempts decides. Each credential gets one, at the same registry, so the attempt that came furthest
# shows what is left to cure: if one credential is refused and another one is told "not found", then the second got past
# authentication, and a better password does not bring the image. A refusal decides against failures of the network and
# the server, as those may pass and it does not.
_MOST_TELLING = (
    FailureKind.DISK,
    FailureKind.PLATFORM,
    FailureKind.POLICY,
    FailureKind.NOT_FOUND,
    FailureKind.RATE_LIMIT,
    FailureKind.HIDDEN,
    FailureKind.REFUSED,
    FailureKind.SERVER,
    FailureKind.AUTHORITY,
    FailureKind.CERTIFICATE,
    FailureKind.CLIENT_CERTIFICATE,
    FailureKind.PROTOCOL,
    FailureKind.UNREACHABLE,
    FailureKind.TIMEOUT,
    FailureKind.DNS,
    FailureKind.NAME,
    FailureKind.SECRET,
    FailureKind.NEVER,
    FailureKind.QPS,
    FailureKind.UNKNOWN,
)

# What stands before a reason, and says no more than which image it is about.
_WRAPPER = (
    r"\s*(?:Error: "
    rf"|(?P<word>{'|'.join(KubeletReason)}): "
    r"|rpc error: code = \w+ desc = "
    r"|(?:Failed to pull image|Failed to inspect image|Back-off pulling image|failed to pull and unpack image"
    r'|failed to pull image|failed to resolve reference|failed to resolve image)(?: "[^"]*")?: '
    r"|(?:Error )?initializing source docker://\S+: )"
)
_SAYS_NOTHING = r'(?:(?:Error: )?(?:ErrImagePull|ImagePullBackOff)|(?:Back-off p|P)ulling image "[^"]*")?'
# Where the next attempt of ``[first, second]`` begins: a comma alone is part of many texts.
_NEXT_ATTEMPT = (
    r", (?=rpc error: code = |failed to pull and unpack image |failed to pull image |unable to pull image "
    r"|(?:Error )?(?:initializing source|reading manifest|pinging \w+ registry) |copying system image "
    r"|Source image rejected: |Error response from daemon: |RegistryUnavailable: |SignatureValidationFailed: )"
)
# Names of images, tags and hosts: words between quotes, words after one that announces a name, and words of their form.
_QUOTED = r'"[^"\s]*"?'
_ANNOUNCED = (
    r"\b(from host|lookup|dial tcp|container registry|docker registry|reading manifest|manifests|blobs) "
    r"([^\s\]]*[^\s\]:])"
)
_AROUND_A_WORD = "()[]{}<>,;:.!?'"
_HOST_AND_PORT = r"[\w-]+:\d+"
# Where a text names a host, the most specific first.
_HOSTS = (
    r"\bproxyconnect tcp: dial tcp (\S+):\s",
    r"\blookup ([^\s:]+)",
    r'\b(?:Head|Get|Post|request to|status code|content at) "?https?://([^/\s"?#]+)',
    r"\bfrom host (\S+) failed\b",
    r"\b(?:container|docker) registry (\S+):\s",
    r"\bdial tcp (\S+):\s",
    r"\b(?:wanted to match|certificate for) (\S+)",
)


def recognise(message: str, reason: str = "") -> PullFailure:
    """Return why a pull failed: the *message* of a waiting container or of an event, and its *reason*."""
    # For a pull secret that cannot be read, the kubelet gives the error as the reason of the status.
    texts = [text for text in (message, reason) if text.strip()]
    failures = [_recognise(text, reason) for text in texts]
    known = [failure for failure in failures if failure.kind is not FailureKind.UNKNOWN]
    return (known or failures or [PullFailure(kind=FailureKind.UNKNOWN, text=message)])[0]


def _recognise(whole: str, reason: str) -> PullFailure:
    failures, word = _read(whole)
    found = min(failures, key=lambda failure: _MOST_TELLING.index(failure.kind))
    kind = _REASONS.get(word or reason, found.kind)
    if found.kind is FailureKind.UNKNOWN:
        if (word or reason) == KubeletReason.REGISTRY_UNAVAILABLE:
            kind = FailureKind.UNREACHABLE
        return PullFailure(kind=kind, text=whole)
    if kind is not found.kind:
        return PullFailure(kind=kind, text=found.text, host=found.host)
    if len(failures) > 1:
        return replace(found, text=f"[{', '.join(failure.text for failure in failures)}]")
    return found


def says_why(message: str) -> bool:
    """Return whether *message* says more than that an image is pulled, was not pulled, or will be tried again."""
    return re.fullmatch(_SAYS_NOTHING, message.strip()) is None


def _read(whole: str) -> tuple[list[PullFailure], str]:
    """Return the failures of all attempts, equal texts once, and the kubelet's word for them if the text has one."""
    images = set(re.findall(r'\bimage "([^"\s]+)"', whole))
    text, word = _unwrap(whole)
    if text in tuple(KubeletReason):
        return [PullFailure(kind=FailureKind.UNKNOWN, text=text)], text
    attempts = [text]
    if text.startswith("[") and text.endswith("]"):
        parts = [_unwrap(part) for part in re.split(_NEXT_ATTEMPT, text[1:-1])]
        attempts = list(dict.fromkeys(part for part, _ in parts))
        word = word or next((word for _, word in parts if word), "")
    return [_classify(attempt, images) for attempt in attempts], word


def _unwrap(text: str) -> tuple[str, str]:
    """Return *text* without what precedes the reason, and the last of the kubelet's words in that."""
    wrapper, at, word = re.compile(_WRAPPER), 0, ""
    while found := wrapper.match(text, at):
        at = found.end()
        word = found["word"] or word
    return text[at:].strip(), word


def _classify(text: str, images: set[str]) -> PullFailure:
    plain, host = _without_names(text, images), _host(text)
    for rule in RULES:
        found = re.search(rule.pattern, plain, re.IGNORECASE | re.MULTILINE)
        if found is not None:
            break
    if found is None or rule.kind is FailureKind.UNKNOWN:
        return PullFailure(kind=FailureKind.UNKNOWN, text=text, host=host)
    status = re.search(_status(r"[1-5]\d\d"), plain, re.IGNORECASE | re.MULTILINE)
    begin, end = found.span("detail" if "detail" in found.re.groupindex else 0)
    return PullFailure(
        kind=rule.kind,
        text=text,
        status=int(status["status"]) if status else 0,
        host=host,
        # Names are replaced by as many characters, so the place is the same.
        detail=text[begin:end].strip(),
        is_plain=bool(host) and f"http://{host}/" in text,
    )


def _without_names(text: str, images: set[str]) -> str:
    """Return *text* with names replaced by as many underscores, so that no rule matches the name of an image."""

    def hide(word: re.Match[str]) -> str:
        core = word[0].strip(_AROUND_A_WORD)
        return word[0].replace(core, "_" * len(core)) if core and _is_name(core, images) else word[0]

    text = re.sub(_QUOTED, lambda found: re.sub(r'[^"]', "_", found[0]), text)
    text = re.sub(_ANNOUNCED, lambda found: f"{found[1]} {'_' * len(found[2])}", text)
    return re.sub(r"\S+", hide, text)


def _is_name(word: str, images: set[str]) -> bool:
    if word in images or "." in word or "@" in word:
        return True
    return ("/" in word and word != "i/o") or re.fullmatch(_HOST_AND_PORT, word) is not None


def _host(text: str) -> str:
    for pattern in _HOSTS:
        found = re.search(pattern, text)
        if found is not None:
            return found[1].rpartition("@")[2]
    return ""
