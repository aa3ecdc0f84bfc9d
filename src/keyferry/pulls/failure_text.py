"""Why a pull failed, by kind, from the text that a kubelet shows in a container's status or in an event.

The texts belong to kubelets, container runtimes and registries, and change with their versions. All that is known about
them is in ``RULES``; a text that no rule recognises is kept whole.
"""

from __future__ import annotations

import re
from enum import StrEnum

from keyferry._core.values import Value, replace
from keyferry.errors import KubeletReason


class FailureKind(StrEnum):
    """What stopped a pull, as the runtime or the kubelet tells it; of several attempts, the earliest kind decides.

    Each credential gets one attempt, at the same registry, so the attempt that came furthest shows what is left to
    cure: if one credential is refused and another one is told "not found", then the second got past authentication,
    and a better password does not bring the image. A refusal decides against failures of the network and the server,
    as those may pass and it does not.
    """

    DISK = "disk"
    RUNTIME = "runtime"  # the runtime does not run, or cannot store or read the image
    PLATFORM = "platform"
    POLICY = "policy"  # the runtime's own config forbids the image
    LAYER = "layer"  # the registry has the image, and lacks a part of it
    STORE = "store"  # where the registry keeps its layers refuses them; the registry itself let the node read the image
    NOT_FOUND = "not-found"
    RATE_LIMIT = "rate-limit"
    HIDDEN = "hidden"  # the image does not exist, or the credential does not allow it: the registry does not say which
    REFUSED = "refused"  # the registry does not accept the credential, or wants one
    EXPIRED = "expired"  # the registry does not accept the credential any more
    SERVER = "server"
    AUTHORITY = "authority"  # the certificate is signed by an authority that the runtime does not know
    CERTIFICATE = "certificate"  # another fault of it: it has expired, or is for another name
    CLIENT_CERTIFICATE = "client-certificate"  # the registry does not accept the runtime's, or wants one
    PROTOCOL = "protocol"
    UNREACHABLE = "unreachable"
    # no answer in time: often a firewall, where UNREACHABLE has an answer such as "refused"
    TIMEOUT = "timeout"
    DNS = "dns"
    CANCELED = "canceled"  # the runtime or the kubelet gave up, or was stopped
    NAME = "name"
    SECRET = "secret"  # noqa: S105 - a pull secret that cannot be read; nothing is pulled
    NEVER = "never"
    QPS = "pull-qps"  # the kubelet's own limit; the next attempt decides
    UNKNOWN = "unknown"


# The runtime had no answer of the registry.
UNREACHED_KINDS = frozenset(
    {
        FailureKind.AUTHORITY,
        FailureKind.CERTIFICATE,
        FailureKind.CLIENT_CERTIFICATE,
        FailureKind.PROTOCOL,
        FailureKind.UNREACHABLE,
        FailureKind.TIMEOUT,
        FailureKind.DNS,
    }
)


class HostRole(StrEnum):
    """What a host that a runtime asked is to the image."""

    REGISTRY = "registry"  # the registry of the image, or a mirror of it
    PROXY = "proxy"
    TOKEN_SERVER = "token-server"  # noqa: S105 - where the registry sends its clients for a token
    STORE = "store"  # where the registry sends its clients for layers
    UNKNOWN = "unknown"


class PullFailure(Value):
    """A failed pull.

    ``text`` is the reason without the parts that repeat the image, never cut; for ``UNKNOWN`` it is the whole text.
    With several credentials it has the reasons of all attempts, and the other fields are about the one that decides.
    ``is_mixed`` tells that these are of several kinds.
    ``status`` is the HTTP status, or 0. ``host`` is the host that the text names, with its port if it has one,
    ``role`` tells what it is, also where it is not named, and ``is_plain`` that it was asked without TLS.
    ``detail`` is the few words of the text that a headline can quote. All three texts are foreign, and not masked.
    """

    kind: FailureKind
    text: str
    status: int = 0
    host: str = ""
    detail: str = ""
    is_plain: bool = False
    role: HostRole = HostRole.UNKNOWN
    is_mixed: bool = False


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
    Rule(
        kind=FailureKind.SECRET,
        pattern=r"\Aillegal base64 data at input byte \d+",
        source=_KUBELET,
        seen=True,
    ),
    Rule(
        kind=FailureKind.SECRET,
        pattern=r"\Ainvalid character .{1,8} (?:after|looking for|in) [^\n]*",
        source=_KUBELET,
        seen=True,
    ),
    Rule(kind=FailureKind.SECRET, pattern=r"\Ajson: cannot unmarshal [^\n]*", source=_KUBELET, seen=True),
    Rule(kind=FailureKind.SECRET, pattern=r"\Aunexpected end of JSON input", source=_KUBELET),
    Rule(kind=FailureKind.QPS, pattern=r"\Apull QPS exceeded", source=_KUBELET, seen=True),
    Rule(
        kind=FailureKind.NEVER,
        pattern=r"\bis not present with pull policy of Never",
        source=_KUBELET,
        seen=True,
    ),
    Rule(kind=FailureKind.NAME, pattern=r"\bcouldn't parse image (?:name|reference)", source=_KUBELET),
    Rule(
        kind=FailureKind.NAME,
        pattern=r"\binvalid reference format",
        source="all runtimes and the kubelet",
        seen=True,
    ),
    Rule(
        kind=FailureKind.NAME, pattern=r"\bshort-name [^\n]{1,300}? did not resolve to an alias", source=_CRIO
    ),
    Rule(kind=FailureKind.NAME, pattern=r"\bshort name mode is enforcing\b", source=_CRIO),
    # Faults of the node that look like a registry's.
    Rule(
        kind=FailureKind.DISK,
        pattern=r"\b(?:no space left on device|disk quota exceeded)",
        source="all runtimes",
    ),
    Rule(
        kind=FailureKind.RUNTIME,
        pattern=r"\b(?:dial|read|write) unix ",
        source="kubelet, about a runtime that does not run",
    ),
    Rule(
        kind=FailureKind.RUNTIME,
        pattern=r"\berror reading from server: ",
        source="kubelet, about a runtime that ends",
    ),
    Rule(
        kind=FailureKind.RUNTIME,
        pattern=r"\b(?:extraction snapshot|content digest) ",
        source="containerd, about its own storage",
    ),
    Rule(
        kind=FailureKind.RUNTIME, pattern=r"\bfailed to (?:extract layer|unpack image)\b", source=_CONTAINERD
    ),
    Rule(
        kind=FailureKind.RUNTIME,
        pattern=r"\b(?:adding layer with blob|committing the finished image)\b",
        source=_CRIO,
    ),
    Rule(kind=FailureKind.POLICY, pattern=r"\bSource image rejected: (?P<detail>[^:\n]+)", source=_CRIO),
    Rule(kind=FailureKind.POLICY, pattern=r"\bregistry _+ (?P<detail>is blocked) in _", source=_CRIO),
    Rule(kind=FailureKind.POLICY, pattern=r"\binvalid policy in ", source=_CRIO),
    Rule(kind=FailureKind.POLICY, pattern=r"\bno resolve hosts", source=_CONTAINERD),
    # The image was found.
    Rule(
        kind=FailureKind.PLATFORM,
        pattern=r"\bno match for (?:current )?platform\b",
        source=_CONTAINERD,
        seen=True,
    ),
    Rule(
        kind=FailureKind.PLATFORM,
        pattern=r"\bno image found in (?:image index|manifest list) for architecture\b",
        source=_CRIO,
    ),
    Rule(kind=FailureKind.PLATFORM, pattern=r"\bno matching manifest for _+", source=_DOCKER),
    # No answer of the registry. Before refusals, since "failed to authorize" also precedes these texts.
    Rule(
        kind=FailureKind.AUTHORITY,
        pattern=r"\bx509: (?P<detail>certificate signed by unknown authority)",
        source=_GO,
        seen=True,
    ),
    Rule(kind=FailureKind.CERTIFICATE, pattern=r"\bx509: (?P<detail>[^:(\n]+)", source=_GO, seen=True),
    Rule(
        kind=FailureKind.CLIENT_CERTIFICATE,
        pattern=r"\bremote error: tls: (?P<detail>(?:certificate required|bad certificate))",
        source=_GO,
        seen=True,
    ),
    Rule(
        kind=FailureKind.PROTOCOL,
        pattern=r"\bserver gave HTTP response to HTTPS client",
        source=_GO,
        seen=True,
    ),
    Rule(kind=FailureKind.PROTOCOL, pattern=r"\bClient sent an HTTP request to an HTTPS server", source=_GO),
    Rule(
        kind=FailureKind.PROTOCOL, pattern=r"\bmalformed HTTP (?:response|status code)", source=_GO, seen=True
    ),
    Rule(kind=FailureKind.PROTOCOL, pattern=r"\btls: (?P<detail>[^:\n]+)", source=_GO, seen=True),
    Rule(kind=FailureKind.DNS, pattern=r"\bno such host\b", source=_GO, seen=True),
    Rule(kind=FailureKind.DNS, pattern=r"\btemporary failure in name resolution", source=_GO),
    Rule(
        kind=FailureKind.DNS,
        pattern=r"\blookup _+(?: on _+)?: (?:\w+ udp _+: )?(?P<detail>[^:\n]+)",
        source=_GO,
    ),
    Rule(kind=FailureKind.UNREACHABLE, pattern=r"\bconnection refused\b", source=_GO, seen=True),
    Rule(
        kind=FailureKind.UNREACHABLE,
        pattern=r"\b(?:no route to host|network is unreachable|host is down)\b",
        source=_GO,
    ),
    Rule(
        kind=FailureKind.UNREACHABLE,
        pattern=r"\b(?:connection reset by peer|broken pipe)\b",
        source=_GO,
        seen=True,
    ),
    Rule(kind=FailureKind.TIMEOUT, pattern=r"\b(?:i/o|TLS handshake) timeout\b", source=_GO),
    Rule(kind=FailureKind.TIMEOUT, pattern=r"\bconnection timed out\b", source=_GO),
    Rule(kind=FailureKind.TIMEOUT, pattern=r"\bexceeded while awaiting headers\b", source=_GO),
    Rule(kind=FailureKind.TIMEOUT, pattern=r"\bcontext deadline exceeded", source="containerd and CRI-O"),
    Rule(kind=FailureKind.CANCELED, pattern=r"\bcontext canceled", source="containerd and CRI-O"),
    Rule(kind=FailureKind.UNREACHABLE, pattern=r": (?P<detail>(?:unexpected )?EOF)\b", source=_GO, seen=True),
    # Go gives only the phrase of the status with which a proxy answers CONNECT.
    Rule(
        kind=FailureKind.UNREACHABLE,
        pattern=r'\b(?:Head|Get) (?:"_*"|_+): (?P<detail>(?-i:Proxy Authentication Required|Forbidden|Bad Gateway|'
        r"Service Unavailable|Gateway Timeout))$",
        source="a proxy, passed on by Go",
    ),
    Rule(kind=FailureKind.UNREACHABLE, pattern=_status("407"), source="a proxy"),
    # The registry's answer.
    Rule(kind=FailureKind.RATE_LIMIT, pattern=_status("429"), source=_CONTAINERD, seen=True),
    Rule(
        kind=FailureKind.RATE_LIMIT,
        pattern=r"\b(?:toomanyrequests|too many requests to registry)\b",
        source="CRI-O and Docker",
    ),
    Rule(
        kind=FailureKind.REFUSED,
        pattern=r"\bno basic auth credentials\b",
        source="containerd, most often from ECR",
    ),
    Rule(kind=FailureKind.EXPIRED, pattern=r"\bauthorization token has expired\b", source="ECR"),
    Rule(kind=FailureKind.REFUSED, pattern=r"\bnot authorized to perform: ecr:\w+", source="ECR"),
    Rule(kind=FailureKind.REFUSED, pattern=r"\bunable to retrieve auth token: invalid _+", source=_CRIO),
    Rule(kind=FailureKind.REFUSED, pattern=r"\bincorrect username or password\b", source="Docker Hub"),
    Rule(kind=FailureKind.REFUSED, pattern=r"\binvalid_token\b", source=_CONTAINERD),
    Rule(kind=FailureKind.HIDDEN, pattern=r"\binsufficient_scope\b", source=_CONTAINERD, seen=True),
    Rule(
        kind=FailureKind.HIDDEN,
        pattern=r"\brepository does not exist or may require\b",
        source="containerd and Docker",
    ),
    Rule(
        kind=FailureKind.HIDDEN,
        pattern=r"\brequested access to the resource is denied\b",
        source="Docker Hub and GitLab",
    ),
    Rule(kind=FailureKind.HIDDEN, pattern=r"\bor it may not exist\b", source="Artifact Registry"),
    Rule(kind=FailureKind.LAYER, pattern=r"\bblob unknown\b", source=_REGISTRY),
    Rule(kind=FailureKind.LAYER, pattern=r"\bcontent at _+ (?P<detail>not found)\b", source=_CONTAINERD),
    Rule(
        kind=FailureKind.NOT_FOUND, pattern=r"(?:^|: )(?P<detail>not found)$", source=_CONTAINERD, seen=True
    ),
    Rule(kind=FailureKind.NOT_FOUND, pattern=r"\b(?:manifest|name) unknown\b", source=_REGISTRY),
    Rule(kind=FailureKind.NOT_FOUND, pattern=r"\brepository name not known to registry\b", source=_REGISTRY),
    Rule(kind=FailureKind.NOT_FOUND, pattern=r"\bmanifest for _+ (?P<detail>not found)\b", source=_DOCKER),
    Rule(kind=FailureKind.NOT_FOUND, pattern=r"(?:^|: )(?P<detail>not found)\b", source=_CONTAINERD),
    Rule(
        kind=FailureKind.REFUSED,
        pattern=_status("401"),
        source="containerd, from the registry or its token server",
        seen=True,
    ),
    Rule(
        kind=FailureKind.REFUSED,
        pattern=_status("403"),
        source="containerd and CRI-O, from the registry or its token server",
        seen=True,
    ),
    Rule(kind=FailureKind.NOT_FOUND, pattern=_status("404"), source=_REGISTRY),
    Rule(kind=FailureKind.SERVER, pattern=_status(r"5\d\d"), source=_REGISTRY, seen=True),
    Rule(
        kind=FailureKind.UNREACHABLE,
        pattern=r"\bbecause the (?P<detail>registry is unavailable)",
        source=_KUBELET,
    ),
    Rule(
        kind=FailureKind.REFUSED,
        pattern=r"\bauthentication required\b",
        source="CRI-O and Docker; ACR adds a link",
    ),
    Rule(kind=FailureKind.REFUSED, pattern=r"\bunauthorized to access repository\b", source="Harbor"),
    Rule(
        kind=FailureKind.REFUSED,
        pattern=r"\baccess to the requested resource is not authorized\b",
        source="Quay",
    ),
    Rule(kind=FailureKind.REFUSED, pattern=r"\bthe client does not have permission\b", source="Artifactory"),
    Rule(kind=FailureKind.REFUSED, pattern=r"\bUnauthenticated request", source="Artifact Registry"),
    Rule(kind=FailureKind.REFUSED, pattern=r'\bPermission "_*" denied\b', source="Artifact Registry"),
    Rule(
        kind=FailureKind.REFUSED, pattern=r"(?:^|: )(?P<detail>unauthorized|denied)(?=:|$)", source=_REGISTRY
    ),
)
# What the kubelet's reason alone says, if it says more than that a pull failed.
_REASONS: dict[str, FailureKind] = {
    KubeletReason.ERR_IMAGE_NEVER_PULL: FailureKind.NEVER,
    KubeletReason.INVALID_IMAGE_NAME: FailureKind.NAME,
    KubeletReason.SIGNATURE_VALIDATION_FAILED: FailureKind.POLICY,
}
# The same where the text beside it says nothing that is known.
_REASONS_ALONE: dict[str, FailureKind] = {
    KubeletReason.REGISTRY_UNAVAILABLE: FailureKind.UNREACHABLE,
    KubeletReason.IMAGE_INSPECT_ERROR: FailureKind.RUNTIME,
}
# What stands before a reason, and says no more than which image it is about.
_WRAPPER = (
    r"\s*(?:Error: "
    rf"|(?P<word>{'|'.join(KubeletReason)}): "
    r"|rpc error: code = \w+ desc = "
    r"|(?:Failed to pull image|(?P<inspects>Failed to inspect image)|Back-off pulling image"
    r"|failed to pull and unpack image|failed to pull image|failed to resolve reference|failed to resolve image)"
    r'(?: "[^"]*")?: '
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
_ASKED_URL = (
    r'\b(?:Head|Get|Post|request to|status code|content at) "?https?://([^/\s"?#]+)(?P<path>[^\s"?#]*)'
)
_ASKED_REGISTRIES = (r"\bfrom host (\S+) failed\b", r"\b(?:container|docker) registry (\S+):\s")
_HOSTS = (
    r"\bproxyconnect tcp: dial tcp (\S+):\s",
    r"\blookup ([^\s:]+)",
    _ASKED_URL,
    *_ASKED_REGISTRIES,
    r"\bdial tcp (\S+):\s",
    r"\b(?:wanted to match|certificate for) (\S+)",
)
# After which words a text is about another host than the registry. A request to any of these may go through a proxy.
_ROLE_PATTERNS = (
    (HostRole.PROXY, r"\bproxyconnect tcp\b"),
    (
        HostRole.TOKEN_SERVER,
        r"\bfailed to (?:authorize|fetch (?:oauth|anonymous) token)\b|\brequesting bear(?:er)? token\b"
        r'|\bunable to retrieve auth token\b|\bGet "?https?://[^\s"?]{1,300}/token\?',
    ),
)
# A part of the image is read by its digest, so its name and tag were found.
_READS_PART = r"\bhttpReadSeeker: |\b(?:fetching|reading|writing) (?:config )?blob\b"
_REGISTRY_PATH = r"/v2/|.*/(?:blobs|manifests)/sha256:"


def recognise(message: str, reason: str = "") -> PullFailure:
    """Return why a pull failed: the *message* of a waiting container or of an event, and its *reason*."""
    # For a pull secret that cannot be read, the kubelet gives the error as the reason of the status.
    texts = [text for text in (message, reason) if text.strip()]
    failures = [_recognise(text, reason) for text in texts]
    known = [failure for failure in failures if failure.kind is not FailureKind.UNKNOWN]
    return (known or failures or [PullFailure(kind=FailureKind.UNKNOWN, text=message)])[0]


def _recognise(whole: str, reason: str) -> PullFailure:
    failures, word = _read(whole)
    found = min(failures, key=lambda failure: list(FailureKind).index(failure.kind))
    kind = _REASONS.get(word or reason, found.kind)
    if found.kind is FailureKind.UNKNOWN:
        return PullFailure(kind=_REASONS_ALONE.get(word or reason, kind), text=whole)
    if kind is not found.kind:
        return PullFailure(kind=kind, text=found.text, host=found.host, role=found.role)
    if len(failures) > 1:
        texts = ", ".join(failure.text for failure in failures)
        return replace(found, text=f"[{texts}]", is_mixed=len({failure.kind for failure in failures}) > 1)
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
        word = found["word"] or (KubeletReason.IMAGE_INSPECT_ERROR if found["inspects"] else word)
    return text[at:].strip(), word


def _classify(text: str, images: set[str]) -> PullFailure:
    plain = _without_names(text, images)
    host, role = _host_and_role(text)
    for rule in RULES:
        found = re.search(rule.pattern, plain, re.IGNORECASE | re.MULTILINE)
        if found is not None:
            break
    if found is None:
        return PullFailure(kind=FailureKind.UNKNOWN, text=text, host=host, role=role)
    status = re.search(_status(r"[1-5]\d\d"), plain, re.IGNORECASE | re.MULTILINE)
    begin, end = found.span("detail" if "detail" in found.re.groupindex else 0)
    kind = rule.kind
    if role is HostRole.STORE and kind in (FailureKind.REFUSED, FailureKind.HIDDEN):
        kind = FailureKind.STORE
    elif (
        kind is FailureKind.NOT_FOUND and role is not HostRole.TOKEN_SERVER and re.search(_READS_PART, plain)
    ):
        kind = FailureKind.LAYER
    return PullFailure(
        kind=kind,
        text=text,
        status=int(status["status"]) if status else 0,
        host=host,
        # Names are replaced by as many characters, so the place is the same.
        detail=text[begin:end].strip(),
        is_plain=bool(host) and f"http://{host}/" in text,
        role=role,
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


def _host_and_role(text: str) -> tuple[str, HostRole]:
    """Return the host that *text* is about, empty if it is not named, and what it is to the image."""
    for role, pattern in _ROLE_PATTERNS:
        found = re.search(pattern, text, re.IGNORECASE)
        if found is not None:
            return _host(text[found.start() :]), role
    url, host = re.search(_ASKED_URL, text), _host(text)
    if url is not None and re.search(_READS_PART, text) and re.match(_REGISTRY_PATH, url["path"]) is None:
        return host, HostRole.STORE
    is_registry = url is not None or any(re.search(pattern, text) for pattern in _ASKED_REGISTRIES)
    return host, HostRole.REGISTRY if is_registry else HostRole.UNKNOWN


def _host(text: str) -> str:
    for pattern in _HOSTS:
        found = re.search(pattern, text)
        if found is not None:
            return found[1].rpartition("@")[2]
    return ""
