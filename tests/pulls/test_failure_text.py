"""Texts of kubelets, runtimes and registries about failed pulls, and the kind that each is recognised as."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keyferry._core.secrets import MASK, redact
from keyferry.pulls.failure_text import FailureKind, HostRole, PullFailure, recognise, says_why

HOST = "registry.example:5000"
IMAGE = f"{HOST}/team/app:v1"
FAILED = f'Failed to pull image "{IMAGE}": '
UNPACK = f'failed to pull and unpack image "{IMAGE}": '
RESOLVE = f'{UNPACK}failed to resolve reference "{IMAGE}": '
HEAD = f'failed to do request: Head "https://{HOST}/v2/team/app/manifests/v1": '
TOKEN_URL = "https://auth.example/token?scope=repository%3Ateam%2Fapp%3Apull&service=registry.example"
BLOB_URL = f"https://{HOST}/v2/team/app/manifests/sha256:bb01ad25e9fc"
STORE_URL = "https://cdn.example/registry/sha256/04/0465"
FETCH = f"{UNPACK}failed to copy: httpReadSeeker: failed open: "
READING = f"initializing source docker://{IMAGE}: reading manifest v1 in {HOST}/team/app: "
Kind = FailureKind

# What a real containerd 1.6 said, most of it through a kubelet: the text, and kind, status, host and detail.
SEEN = {
    "401": (
        f"{FAILED}{RESOLVE}pulling from host {HOST} failed with status code [manifests v1]: 401 Unauthorized",
        (Kind.REFUSED, 401, HOST, "401 Unauthorized"),
    ),
    "no such tag": (
        f"{FAILED}rpc error: code = NotFound desc = {RESOLVE}{IMAGE}: not found",
        (Kind.NOT_FOUND, 0, "", "not found"),
    ),
    "nobody listens": (
        f"{FAILED}{RESOLVE}{HEAD}dial tcp 127.0.0.1:1: connect: connection refused",
        (Kind.UNREACHABLE, 0, HOST, "connection refused"),
    ),
    "unknown CA": (
        f"{FAILED}{RESOLVE}{HEAD}x509: certificate signed by unknown authority",
        (Kind.AUTHORITY, 0, HOST, "certificate signed by unknown authority"),
    ),
    "no such host": (
        f"{FAILED}{RESOLVE}{HEAD}dial tcp: lookup registry.example on 10.255.255.53:53: no such host",
        (Kind.DNS, 0, "registry.example", "no such host"),
    ),
    "other name in the certificate": (
        f'{FAILED}{RESOLVE}failed to do request: Head "https://127.0.0.1:5000/v2/team/app/manifests/v1": '
        "x509: cannot validate certificate for 127.0.0.1 because it doesn't contain any IP SANs",
        (
            Kind.CERTIFICATE,
            0,
            "127.0.0.1:5000",
            "cannot validate certificate for 127.0.0.1 because it doesn't contain any IP SANs",
        ),
    ),
    "no client certificate": (
        f"{FAILED}{RESOLVE}{HEAD}remote error: tls: certificate required",
        (Kind.CLIENT_CERTIFICATE, 0, HOST, "certificate required"),
    ),
    "HTTP for HTTPS": (
        f"{FAILED}{RESOLVE}{HEAD}http: server gave HTTP response to HTTPS client",
        (Kind.PROTOCOL, 0, HOST, "server gave HTTP response to HTTPS client"),
    ),
    "no HTTP": (
        f"{FAILED}{RESOLVE}{HEAD}net/http: HTTP/1.x transport connection broken: "
        'malformed HTTP response "SSH-2.0-server"',
        (Kind.PROTOCOL, 0, HOST, "malformed HTTP response"),
    ),
    "no TLS": (
        f"{FAILED}{RESOLVE}{HEAD}tls: first record does not look like a TLS handshake",
        (Kind.PROTOCOL, 0, HOST, "first record does not look like a TLS handshake"),
    ),
    "hangs up": (f"{FAILED}{RESOLVE}{HEAD}EOF", (Kind.UNREACHABLE, 0, HOST, "EOF")),
    "reset": (
        f"{FAILED}{RESOLVE}{HEAD}read tcp 127.0.0.1:56576->127.0.0.1:5000: read: connection reset by peer",
        (Kind.UNREACHABLE, 0, HOST, "connection reset by peer"),
    ),
    "403": (
        f"{FAILED}{RESOLVE}pulling from host {HOST} failed with status code [manifests v1]: 403 Forbidden",
        (Kind.REFUSED, 403, HOST, "403 Forbidden"),
    ),
    "429": (
        f"{FAILED}{RESOLVE}pulling from host {HOST} failed with status code [manifests v1]: 429 Too Many Requests",
        (Kind.RATE_LIMIT, 429, HOST, "429 Too Many Requests"),
    ),
    "503": (
        f"{FAILED}{RESOLVE}pulling from host {HOST} failed with status code [manifests v1]: 503 Service Unavailable",
        (Kind.SERVER, 503, HOST, "503 Service Unavailable"),
    ),
    "other platform": (
        f"{FAILED}rpc error: code = NotFound desc = {UNPACK}no match for platform in manifest: not found",
        (Kind.PLATFORM, 0, "", "no match for platform"),
    ),
    "capital letter": (
        'Failed to pull image "127.0.0.1:1/Team/app:v1": failed to parse image reference "127.0.0.1:1/Team/app:v1": '
        "invalid reference format: repository name must be lowercase",
        (Kind.NAME, 0, "", "invalid reference format"),
    ),
    "back-off": (
        f'Back-off pulling image "{IMAGE}": ErrImagePull: {RESOLVE}pulling from host {HOST} failed with status code '
        "[manifests v1]: 401 Unauthorized",
        (Kind.REFUSED, 401, HOST, "401 Unauthorized"),
    ),
    "token server": (
        f"{FAILED}{RESOLVE}failed to authorize: failed to fetch anonymous token: unexpected status: 401 Unauthorized",
        (Kind.REFUSED, 401, "", "401 Unauthorized"),
    ),
    "insufficient scope": (
        f"{FAILED}{RESOLVE}pull access denied, repository does not exist or may require authorization: "
        "server message: insufficient_scope: authorization failed",
        (Kind.HIDDEN, 0, "", "insufficient_scope"),
    ),
    "QPS": (f"{FAILED}pull QPS exceeded", (Kind.QPS, 0, "", "pull QPS exceeded")),
    "never": (
        f'Container image "{IMAGE}" is not present with pull policy of Never',
        (Kind.NEVER, 0, "", "is not present with pull policy of Never"),
    ),
    "never, its second event": ("Error: ErrImageNeverPull", (Kind.NEVER, 0, "", "")),
    "secret, base64": (
        "Error: illegal base64 data at input byte 0",
        (Kind.SECRET, 0, "", "illegal base64 data at input byte 0"),
    ),
    "secret, JSON": (
        "Error: invalid character ']' after object key:value pair",
        (Kind.SECRET, 0, "", "invalid character ']' after object key:value pair"),
    ),
    "secret, a wrong type": (
        "Error: json: cannot unmarshal string into Go struct field DockerConfigJSON.auths of type X",
        (
            Kind.SECRET,
            0,
            "",
            "json: cannot unmarshal string into Go struct field DockerConfigJSON.auths of type X",
        ),
    ),
}
# What others showed, in their issues and sources: the reason, and kind, status and host.
READ = {
    "containerd 1.7, HEAD": (
        f"{RESOLVE}unexpected status from HEAD request to https://{HOST}/v2/team/app/manifests/v1: 403 Forbidden",
        (Kind.REFUSED, 403, HOST),
    ),
    "containerd 1.7, anonymous token": (
        f"{RESOLVE}failed to authorize: failed to fetch anonymous token: unexpected status from GET request to "
        f"{TOKEN_URL}: 401 Unauthorized",
        (Kind.REFUSED, 401, "auth.example"),
    ),
    "containerd 1.7, ghcr's token": (
        f"{RESOLVE}failed to authorize: failed to fetch oauth token: unexpected status from GET request to "
        f"{TOKEN_URL}: 403 Forbidden",
        (Kind.REFUSED, 403, "auth.example"),
    ),
    "containerd 2, 403 with the registry's words": (
        f"{RESOLVE}unexpected status from HEAD request to {BLOB_URL}: 403 Forbidden\ndenied: access forbidden",
        (Kind.REFUSED, 403, HOST),
    ),
    "containerd 2.1, image": (
        f"failed to resolve image: unexpected status from HEAD request to {BLOB_URL}: 403 Forbidden",
        (Kind.REFUSED, 403, HOST),
    ),
    "token server does not answer": (
        f'{RESOLVE}failed to authorize: failed to fetch anonymous token: Get "{TOKEN_URL}": '
        "dial tcp 199.59.148.222:443: i/o timeout",
        (Kind.TIMEOUT, 0, "auth.example"),
    ),
    "token server's certificate": (
        f'{RESOLVE}failed to authorize: failed to fetch oauth token: Post "https://auth.example/jwt": '
        "x509: certificate is not valid for any names, but wanted to match auth.example",
        (Kind.CERTIFICATE, 0, "auth.example"),
    ),
    "ECR without credentials": (
        f"{RESOLVE}pull access denied, repository does not exist or may require authorization: authorization failed: "
        "no basic auth credentials",
        (Kind.REFUSED, 0, ""),
    ),
    "ECR, expired": (
        "Error response from daemon: pull access denied for public.ecr.aws/team/app, repository does not exist or may "
        "require 'docker login': denied: Your authorization token has expired. Reauthenticate and try again.",
        (Kind.EXPIRED, 0, ""),
    ),
    "ECR, no permission": (
        f"{READING}denied: User: arn:aws:sts::1:assumed-role/node/i-0 is not authorized to perform: ecr:BatchGetImage "
        "on resource: arn:aws:ecr:us-east-1:1:repository/app",
        (Kind.REFUSED, 0, ""),
    ),
    "Artifact Registry, hidden": (
        'Error response from daemon: Head "https://eu.pkg.dev/v2/p/app/manifests/1": denied: Permission '
        '"artifactregistry.repositories.downloadArtifacts" denied on resource "projects/p" (or it may not exist)',
        (Kind.HIDDEN, 0, "eu.pkg.dev"),
    ),
    "Artifact Registry, refused": (
        "Error response from daemon: Get https://us.pkg.dev/v2/p/app/manifests/1: denied: Permission "
        '"artifactregistry.repositories.downloadArtifacts" denied on resource "projects/p"',
        (Kind.REFUSED, 0, "us.pkg.dev"),
    ),
    "Artifact Registry, anonymous": (
        f'{READING}Unauthenticated requests do not have permission "artifactregistry.repositories.downloadArtifacts"',
        (Kind.REFUSED, 0, ""),
    ),
    "ACR": (
        f'Error response from daemon: Head "https://{HOST}/v2/app/manifests/v2": unauthorized: authentication '
        "required, visit https://aka.ms/acr/authorization for more information.",
        (Kind.REFUSED, 0, HOST),
    ),
    "Harbor": (
        f"{READING}unauthorized: unauthorized to access repository: team/app, action: pull: unauthorized to access "
        "repository: team/app, action: pull",
        (Kind.REFUSED, 0, ""),
    ),
    "Quay": (
        f"{READING}unauthorized: access to the requested resource is not authorized",
        (Kind.REFUSED, 0, ""),
    ),
    "Artifactory": (
        f"{READING}denied: The client does not have permission for manifest",
        (Kind.REFUSED, 0, ""),
    ),
    "ghcr": (
        'Error response from daemon: Head "https://ghcr.io/v2/a": denied: denied',
        (Kind.REFUSED, 0, "ghcr.io"),
    ),
    "CRI-O, token": (
        f"initializing source docker://{IMAGE}: Requesting bearer token: invalid status code from registry 403 "
        "(Forbidden)",
        (Kind.REFUSED, 403, ""),
    ),
    "CRI-O, password": (
        f"initializing source docker://{IMAGE}: unable to retrieve auth token: invalid username/password: "
        "unauthorized: Invalid Username or Password",
        (Kind.REFUSED, 0, ""),
    ),
    "CRI-O, Docker Hub": (f"{READING}requested access to the resource is denied", (Kind.HIDDEN, 0, "")),
    "CRI-O, Docker Hub, long": (
        "rpc error: code = Unknown desc = Error reading manifest latest in docker.io/crio/busybox: errors:\n"
        "denied: requested access to the resource is denied\nunauthorized: authentication required",
        (Kind.HIDDEN, 0, ""),
    ),
    "CRI-O, no such tag": (f"{READING}manifest unknown: manifest unknown", (Kind.NOT_FOUND, 0, "")),
    "Docker, no such tag": (
        "rpc error: code = Unknown desc = Error response from daemon: manifest for r.example/a:latest not found: "
        "manifest unknown: manifest unknown",
        (Kind.NOT_FOUND, 0, ""),
    ),
    "containerd, no such layer": (
        f"rpc error: code = NotFound desc = {UNPACK}failed to copy: httpReadSeeker: failed open: could not fetch "
        "content descriptor sha256:732c (application/vnd.docker.image.rootfs.diff.tar.gzip) from remote: not found",
        (Kind.LAYER, 0, ""),
    ),
    "404": (
        f"{RESOLVE}unexpected status from HEAD request to {BLOB_URL}: 404 Not Found",
        (Kind.NOT_FOUND, 404, HOST),
    ),
    "CRI-O, ping": (
        f'RegistryUnavailable: pinging container registry {HOST}: Get "http://{HOST}/v2/": dial tcp [::1]:5000: '
        "connect: connection refused",
        (Kind.UNREACHABLE, 0, HOST),
    ),
    "old kubelet, registry unavailable": (
        f"image pull failed for {IMAGE} because the registry is unavailable.",
        (Kind.UNREACHABLE, 0, ""),
    ),
    "no route": (
        f"{RESOLVE}{HEAD}dial tcp 10.0.0.1:5000: connect: no route to host",
        (Kind.UNREACHABLE, 0, HOST),
    ),
    "reset": (
        f"{UNPACK}read tcp 10.0.0.1:1->10.0.0.2:2: read: connection reset by peer",
        (Kind.UNREACHABLE, 0, ""),
    ),
    "proxy does not listen": (
        f"{RESOLVE}{HEAD}proxyconnect tcp: dial tcp 10.0.0.9:3128: connect: connection refused",
        (Kind.UNREACHABLE, 0, "10.0.0.9:3128"),
    ),
    "proxy does not resolve": (
        f'pinging docker registry {HOST}: Get "https://{HOST}/v2/": proxyconnect tcp: dial tcp: lookup proxy: '
        "Temporary failure in name resolution",
        (Kind.DNS, 0, "proxy"),
    ),
    "proxy refuses": (f"{RESOLVE}{HEAD}Forbidden", (Kind.UNREACHABLE, 0, HOST)),
    "DNS server does not answer": (
        f"{RESOLVE}{HEAD}dial tcp: lookup registry.example on 10.0.0.10:53: read udp 10.1.1.1:4->10.0.0.10:53: "
        "i/o timeout",
        (Kind.DNS, 0, "registry.example"),
    ),
    "DNS server fails": (
        f"{RESOLVE}{HEAD}dial tcp: lookup registry.example on 10.0.0.10:53: server misbehaving",
        (Kind.DNS, 0, "registry.example"),
    ),
    "TLS handshake timeout": (f"{RESOLVE}{HEAD}net/http: TLS handshake timeout", (Kind.TIMEOUT, 0, HOST)),
    "awaiting headers": (
        f"Error response from daemon: Get https://{HOST}/v2/: net/http: request canceled while waiting for connection "
        "(Client.Timeout exceeded while awaiting headers)",
        (Kind.TIMEOUT, 0, HOST),
    ),
    "progress timeout": (
        f"rpc error: code = Canceled desc = {UNPACK}context canceled",
        (Kind.CANCELED, 0, ""),
    ),
    "newer Go, unknown CA": (
        f"{RESOLVE}{HEAD}tls: failed to verify certificate: x509: certificate signed by unknown authority",
        (Kind.AUTHORITY, 0, HOST),
    ),
    "wrong name": (
        f"{RESOLVE}{HEAD}tls: failed to verify certificate: x509: certificate is valid for *.traefik.default, not "
        "registry.example",
        (Kind.CERTIFICATE, 0, HOST),
    ),
    "expired": (
        f"{RESOLVE}{HEAD}x509: certificate has expired or is not yet valid: current time 2026-01-01T00:00:00Z is after "
        "2025-01-01T00:00:00Z",
        (Kind.CERTIFICATE, 0, HOST),
    ),
    "handshake": (f"{RESOLVE}{HEAD}remote error: tls: handshake failure", (Kind.PROTOCOL, 0, HOST)),
    "containerd 1.6, rate limit": (
        f"{UNPACK}failed to copy: httpReadSeeker: failed open: unexpected status code {BLOB_URL}: 429 Too Many "
        "Requests - Server message: toomanyrequests: You have reached your pull rate limit. https://www.docker.com",
        (Kind.RATE_LIMIT, 429, HOST),
    ),
    "containerd 2, rate limit": (
        f"{UNPACK}failed to copy: httpReadSeeker: failed open: unexpected status from GET request to {BLOB_URL}: "
        "429 Too Many Requests\ntoomanyrequests: You have reached your unauthenticated pull rate limit.",
        (Kind.RATE_LIMIT, 429, HOST),
    ),
    "CRI-O, rate limit": (
        f"{READING}toomanyrequests: You have reached your pull rate limit.",
        (Kind.RATE_LIMIT, 0, ""),
    ),
    "server": (
        f"{RESOLVE}unexpected status from HEAD request to {BLOB_URL}: 503 Service Unavailable",
        (Kind.SERVER, 503, HOST),
    ),
    "Docker, server": (
        f"Error response from daemon: Get https://{HOST}/v2/: received unexpected HTTP status: 500 Internal "
        "Server Error",
        (Kind.SERVER, 500, HOST),
    ),
    "CRI-O, platform": (
        'choosing image instance: no image found in image index for architecture "amd64", variant "", OS "linux"',
        (Kind.PLATFORM, 0, ""),
    ),
    "disk": (
        f"{UNPACK}failed to extract layer sha256:0465: write /var/lib/x/fs/a: no space left on device: unknown",
        (Kind.DISK, 0, ""),
    ),
    "CRI-O, signature": (
        "SignatureValidationFailed: copying system image from manifest list: Source image rejected: A signature was "
        "required, but no signature exists",
        (Kind.POLICY, 0, ""),
    ),
    "CRI-O, blocked": (
        f"initializing source docker://{IMAGE}: registry docker.io is blocked in /etc/containers/registries.conf or "
        "/etc/containers/registries.conf.d",
        (Kind.POLICY, 0, ""),
    ),
    "CRI-O, short name": (
        'rpc error: code = Unknown desc = short-name "team/app:1.0" did not resolve to an alias and no '
        'unqualified-search registries are defined in "/etc/containers/registries.conf"',
        (Kind.NAME, 0, ""),
    ),
    "CRI-O, invalid policy": (
        'rpc error: code = Unknown desc = invalid policy in "/etc/containers/policy.json": Unknown key "keyPaths"',
        (Kind.POLICY, 0, ""),
    ),
    "containerd, no host may resolve": (f"{RESOLVE}no resolve hosts: not found", (Kind.POLICY, 0, "")),
    "Docker, platform": (
        "Error response from daemon: no matching manifest for linux/amd64 in the manifest list entries",
        (Kind.PLATFORM, 0, ""),
    ),
    "HTTP to a port of TLS": (
        f"{RESOLVE}unexpected status from HEAD request to http://{HOST}/v2/a: 400 Bad Request\n"
        "Client sent an HTTP request to an HTTPS server.",
        (Kind.PROTOCOL, 400, HOST),
    ),
    "no answer": (
        f"{RESOLVE}{HEAD}dial tcp 10.0.0.1:5000: connect: connection timed out",
        (Kind.TIMEOUT, 0, HOST),
    ),
    "proxy wants a password": (
        f"{RESOLVE}unexpected status from HEAD request to http://{HOST}/v2/a: 407 Proxy Authentication Required",
        (Kind.UNREACHABLE, 407, HOST),
    ),
    "Docker Hub, password": (
        "Error response from daemon: Get https://registry-1.docker.io/v2/library/nginx/manifests/latest: unauthorized: "
        "incorrect username or password",
        (Kind.REFUSED, 0, "registry-1.docker.io"),
    ),
    "containerd, a token that has expired": (
        f"{UNPACK}failed to copy: httpReadSeeker: failed open: server message: invalid_token: authorization failed",
        (Kind.REFUSED, 0, ""),
    ),
    "hidden, no more words": (
        f"{RESOLVE}pull access denied, repository does not exist or may require authorization: authorization failed",
        (Kind.HIDDEN, 0, ""),
    ),
    "no such repository": (f"{READING}repository name not known to registry", (Kind.NOT_FOUND, 0, "")),
    "containerd, no such content": (
        f"{UNPACK}failed to copy: httpReadSeeker: failed open: content at {BLOB_URL} not found: not found",
        (Kind.LAYER, 0, HOST),
    ),
    "CRI-O, no such layer": (
        "reading blob sha256:732c: fetching blob: blob unknown to registry",
        (Kind.LAYER, 0, ""),
    ),
    "no such layer, 404": (
        f"{FETCH}unexpected status from GET request to {STORE_URL}: 404 Not Found",
        (Kind.LAYER, 404, "cdn.example"),
    ),
    "Docker, no such tag, short": (
        "Error response from daemon: manifest for r.example/a:latest not found",
        (Kind.NOT_FOUND, 0, ""),
    ),
    "store of layers refuses": (
        f"{FETCH}unexpected status code {STORE_URL}: 403 Forbidden",
        (Kind.STORE, 403, "cdn.example"),
    ),
    "the registry refuses a layer": (
        f"{FETCH}unexpected status code https://{HOST}/v2/team/app/blobs/sha256:0465: 403 Forbidden",
        (Kind.REFUSED, 403, HOST),
    ),
    "the runtime's deadline": (f"{RESOLVE}{HEAD}context deadline exceeded", (Kind.TIMEOUT, 0, HOST)),
    "the runtime does not run": (
        'rpc error: code = Unavailable desc = connection error: desc = "transport: Error while dialing: dial unix '
        '/run/containerd/containerd.sock: connect: no such file or directory"',
        (Kind.RUNTIME, 0, ""),
    ),
    "containerd, unpack": (
        f"{UNPACK}failed to extract layer sha256:0465: wrong diff id calculated on extraction: unknown",
        (Kind.RUNTIME, 0, ""),
    ),
    "CRI-O, unpack": (
        'writing blob: adding layer with blob "sha256:0465": processing tar file(unexpected EOF): exit status 1',
        (Kind.RUNTIME, 0, ""),
    ),
    "CRI-O, ambiguous short name": (
        "rpc error: code = Unknown desc = short name mode is enforcing, but image name app:v1 returns ambiguous list",
        (Kind.NAME, 0, ""),
    ),
    "cut secret": ("unexpected end of JSON input", (Kind.SECRET, 0, "")),
    "CRI-O, name": ("invalid reference format: repository name must be lowercase", (Kind.NAME, 0, "")),
    "name": (
        'Failed to apply default image tag "Team/App": couldn\'t parse image name "Team/App": invalid reference '
        "format: repository name (library/Team/App) must be lowercase",
        (Kind.NAME, 0, ""),
    ),
}
# Names that look like another reason.
TRAPS = {
    "host": (
        'Failed to pull image "unauthorized:5000/a:v1": failed to do request: Head "https://unauthorized:5000/v2/a": '
        "dial tcp: lookup unauthorized: no such host",
        Kind.DNS,
    ),
    "host without a port": (
        "pulling from host unauthorized failed with status code [manifests v1]: 500 Internal Server Error",
        Kind.SERVER,
    ),
    "registry": ("pinging container registry denied: invalid status code from registry 500 (x)", Kind.SERVER),
    "path": (f"{HOST}/not-found/401/unauthorized:denied: 503 Service Unavailable", Kind.SERVER),
    "path in a URL": (
        f"unexpected status from HEAD request to https://{HOST}/v2/429/toomanyrequests/manifests/404: 403 Forbidden",
        Kind.REFUSED,
    ),
    "tag": (
        f"pulling from host {HOST} failed with status code [manifests 401]: 404 Not Found",
        Kind.NOT_FOUND,
    ),
    "tag of words": (f"reading manifest unauthorized in {HOST}/app: manifest unknown", Kind.NOT_FOUND),
    "quoted": (f'{FAILED}something new about "unauthorized:": "x509:" and "429"', Kind.UNKNOWN),
    "short name": (
        'Failed to pull image "denied": Error response from daemon: manifest for denied: 500 Internal Server Error',
        Kind.SERVER,
    ),
    "a number": (f"{FAILED}wrote 401 bytes of 403: size is 500", Kind.UNKNOWN),
    "the runtime's socket": (
        'rpc error: code = Unavailable desc = connection error: desc = "transport: Error while dialing: dial unix '
        '/run/containerd/containerd.sock: connect: connection refused"',
        Kind.RUNTIME,
    ),
    "the runtime ends": ("rpc error: code = Unavailable desc = error reading from server: EOF", Kind.RUNTIME),
    "the runtime's storage": (
        f'{UNPACK}failed to prepare extraction snapshot "x": parent snapshot sha256:1 does not exist: not found',
        Kind.RUNTIME,
    ),
    "a body that is no JSON": (
        "error parsing HTTP 403 response body: invalid character '<' looking for beginning of value",
        Kind.REFUSED,
    ),
}


def fields(failure: PullFailure) -> tuple[FailureKind, int, str, str]:
    return failure.kind, failure.status, failure.host, failure.detail


@pytest.mark.parametrize(("text", "expected"), SEEN.values(), ids=SEEN)
def test_what_kubelets_showed_is_recognised(text: str, expected: tuple[FailureKind, int, str, str]) -> None:
    assert fields(recognise(text)) == expected


@pytest.mark.parametrize(("text", "expected"), READ.values(), ids=READ)
@pytest.mark.parametrize("wrapper", [FAILED, "", f'Back-off pulling image "{IMAGE}": ErrImagePull: '])
def test_what_others_showed_is_recognised(
    text: str, expected: tuple[FailureKind, int, str], wrapper: str
) -> None:
    """The status of a container has the text without the event's first words."""
    assert fields(recognise(wrapper + text))[:3] == expected


@pytest.mark.parametrize(("text", "kind"), TRAPS.values(), ids=TRAPS)
def test_the_name_of_an_image_or_a_host_is_no_reason(text: str, kind: FailureKind) -> None:
    assert recognise(text).kind == kind


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (f"{FAILED}{RESOLVE}{HEAD}EOF", f"{HEAD}EOF"),
        (f"{FAILED}rpc error: code = NotFound desc = {RESOLVE}{IMAGE}: not found", f"{IMAGE}: not found"),
        (f'Back-off pulling image "{IMAGE}": ErrImagePull: {RESOLVE}{HEAD}EOF', f"{HEAD}EOF"),
        (f"{FAILED}{READING}manifest unknown", f"reading manifest v1 in {HOST}/team/app: manifest unknown"),
    ],
)
def test_the_reason_is_shown_without_what_repeats_the_image(text: str, reason: str) -> None:
    assert recognise(text).text == reason


def test_the_few_words_for_a_headline() -> None:
    wrong_name = "x509: certificate is valid for *.traefik.default, not registry.example"
    assert recognise(HEAD + wrong_name).detail == wrong_name.removeprefix("x509: ")
    expired = "x509: certificate has expired or is not yet valid: current time is after 2025"
    assert recognise(HEAD + expired).detail == "certificate has expired or is not yet valid"
    slow = "dial tcp: lookup a.example on 10.0.0.10:53: read udp 10.1.1.1:4->10.0.0.10:53: i/o timeout"
    assert recognise(HEAD + slow).detail == "i/o timeout"


REFUSED = f"{RESOLVE}pulling from host {HOST} failed with status code [manifests v1]: 401 Unauthorized"
ABSENT = f"rpc error: code = NotFound desc = {RESOLVE}{IMAGE}: not found"
SERVER = f"{RESOLVE}unexpected status from HEAD request to {BLOB_URL}: 500 Internal Server Error"
LIMITED = f"{RESOLVE}unexpected status from HEAD request to {BLOB_URL}: 429 Too Many Requests"
OUT_OF_REACH = f"{RESOLVE}{HEAD}dial tcp 10.0.0.1:5000: connect: connection refused"
HIDDEN = f"{RESOLVE}pull access denied, repository does not exist or may require authorization"


@pytest.mark.parametrize(
    ("attempts", "kind"),
    [
        ((REFUSED, ABSENT), Kind.NOT_FOUND),
        ((ABSENT, REFUSED), Kind.NOT_FOUND),
        ((REFUSED, LIMITED), Kind.RATE_LIMIT),
        ((REFUSED, HIDDEN), Kind.HIDDEN),
        ((SERVER, REFUSED), Kind.REFUSED),
        ((OUT_OF_REACH, REFUSED), Kind.REFUSED),
        ((OUT_OF_REACH, SERVER), Kind.SERVER),
        (("failed to pull and unpack image in a new way", OUT_OF_REACH), Kind.UNREACHABLE),
        (
            (f"{READING}unauthorized: authentication required, visit us", f"{READING}manifest unknown"),
            Kind.NOT_FOUND,
        ),
    ],
)
def test_of_several_credentials_the_attempt_that_came_furthest_decides(
    attempts: tuple[str, ...], kind: FailureKind
) -> None:
    failure = recognise(f"{FAILED}[{', '.join(attempts)}]")
    assert failure.kind == kind
    assert failure.text == f"[{', '.join(recognise(each).text for each in attempts)}]"


def test_attempts_that_differ_are_told_from_equal_ones() -> None:
    assert recognise(f"[{REFUSED}, {ABSENT}]").is_mixed
    assert not recognise(f"[{ABSENT}, {ABSENT.replace('v1', 'v2')}]").is_mixed
    assert not recognise(ABSENT).is_mixed


def test_equal_reasons_of_several_credentials_are_one() -> None:
    once = recognise(FAILED + REFUSED)
    assert recognise(f"{FAILED}[{REFUSED}, rpc error: code = Unknown desc = {REFUSED}]") == once


def test_the_other_fields_are_those_of_the_attempt_that_decides() -> None:
    failure = recognise(f"[{OUT_OF_REACH}, {REFUSED}]")
    assert fields(failure) == (Kind.REFUSED, 401, HOST, "401 Unauthorized")


@pytest.mark.parametrize(
    ("message", "reason", "kind"),
    [
        ("", "ErrImageNeverPull", Kind.NEVER),
        ("words of a new kubelet", "ErrImageNeverPull", Kind.NEVER),
        ("words of a new kubelet", "InvalidImageName", Kind.NAME),
        ("x509: no such key", "SignatureValidationFailed", Kind.POLICY),
        (
            f'Back-off pulling image "{IMAGE}": SignatureValidationFailed: new',
            "ImagePullBackOff",
            Kind.POLICY,
        ),
        ("words of a new runtime", "RegistryUnavailable", Kind.UNREACHABLE),
        ("503 Service Unavailable", "RegistryUnavailable", Kind.SERVER),
        (f"{HEAD}no such host", "RegistryUnavailable", Kind.DNS),
        ("words of a new runtime", "ErrImagePull", Kind.UNKNOWN),
        ("words of a new runtime", "ImageInspectError", Kind.RUNTIME),
        (f'Failed to inspect image "{IMAGE}": words of a new runtime', "InspectFailed", Kind.RUNTIME),
        (f'Failed to inspect image "{IMAGE}": invalid reference format', "ImageInspectError", Kind.NAME),
        # The kubelet's status for a pull secret that cannot be read.
        ("", "illegal base64 data at input byte 3", Kind.SECRET),
        ("no words", "illegal base64 data at input byte 3", Kind.SECRET),
    ],
)
def test_the_reason_counts_where_it_says_more(message: str, reason: str, kind: FailureKind) -> None:
    failure = recognise(message, reason)
    assert failure.kind == kind
    assert failure.text


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("Error: ErrImagePull", False),
        ("Error: ImagePullBackOff", False),
        (f'Back-off pulling image "{IMAGE}"', False),
        (f'Pulling image "{IMAGE}"', False),
        ("", False),
        (f'Back-off pulling image "{IMAGE}": ErrImagePull: words', True),
        (f"{FAILED}words of a new runtime", True),
        ("Error: ErrImageNeverPull", True),
    ],
)
def test_some_messages_do_not_say_why(message: str, expected: bool) -> None:
    assert says_why(message) is expected
    assert expected or recognise(message) == PullFailure(kind=Kind.UNKNOWN, text=message)


TOKEN = "failed to authorize: failed to fetch oauth token: "
ROLES = {
    "registry": (f"{RESOLVE}{HEAD}EOF", HOST, HostRole.REGISTRY),
    "registry, by its words": (REFUSED, HOST, HostRole.REGISTRY),
    "layer of the registry": (
        f'{FETCH}failed to do request: Get "https://{HOST}/v2/team/app/blobs/sha256:0465": EOF',
        HOST,
        HostRole.REGISTRY,
    ),
    "layer of a mirror below a path": (
        f'{FETCH}failed to do request: Get "https://mirror.example/hub/team/app/blobs/sha256:0465": EOF',
        "mirror.example",
        HostRole.REGISTRY,
    ),
    "store": (
        f'{FETCH}failed to do request: Get "{STORE_URL}?sig=********": dial tcp: lookup cdn.example: no such host',
        "cdn.example",
        HostRole.STORE,
    ),
    "CRI-O, store": (
        f'reading blob sha256:0465: Get "{STORE_URL}": dial tcp 10.0.0.7:443: i/o timeout',
        "cdn.example",
        HostRole.STORE,
    ),
    "token server": (
        f'{RESOLVE}{TOKEN}Post "https://auth.example/token": dial tcp: lookup auth.example: no such host',
        "auth.example",
        HostRole.TOKEN_SERVER,
    ),
    "token server, while a layer is read": (
        f'{FETCH}{TOKEN}Post "https://auth.example/token": EOF',
        "auth.example",
        HostRole.TOKEN_SERVER,
    ),
    "token server, not named": (
        f"{RESOLVE}{TOKEN}unexpected status: 401 Unauthorized",
        "",
        HostRole.TOKEN_SERVER,
    ),
    "CRI-O, token server": (
        'Requesting bearer token: Get "https://auth.example/v2/auth": EOF',
        "auth.example",
        HostRole.TOKEN_SERVER,
    ),
    "Docker, token server": (
        f'Head "https://{HOST}/v2/a/manifests/1": Get "{TOKEN_URL}": net/http: TLS handshake timeout',
        "auth.example",
        HostRole.TOKEN_SERVER,
    ),
    "proxy": (
        f"{RESOLVE}{HEAD}proxyconnect tcp: dial tcp 10.0.0.9:3128: connect: connection refused",
        "10.0.0.9:3128",
        HostRole.PROXY,
    ),
    "proxy by name": (
        f"{RESOLVE}{HEAD}proxyconnect tcp: dial tcp: lookup proxy.example on 10.0.0.2:53: no such host",
        "proxy.example",
        HostRole.PROXY,
    ),
    "proxy on the way to a token server": (
        f'{TOKEN}Post "https://auth.example/token": proxyconnect tcp: dial tcp 10.0.0.9:3128: i/o timeout',
        "10.0.0.9:3128",
        HostRole.PROXY,
    ),
    "proxy, not named": (
        f"{RESOLVE}{HEAD}proxyconnect tcp: tls: first record does not look like a TLS handshake",
        "",
        HostRole.PROXY,
    ),
    "an address alone": ("dial tcp 10.0.0.7:443: i/o timeout", "10.0.0.7:443", HostRole.UNKNOWN),
}


@pytest.mark.parametrize(("text", "host", "role"), ROLES.values(), ids=ROLES)
def test_the_host_that_fails_need_not_be_the_registry(text: str, host: str, role: HostRole) -> None:
    failure = recognise(text)
    assert (failure.host, failure.role) == (host, role)


@pytest.mark.parametrize(
    "query",
    [
        "sv=2&sig=ab%2Bcd%3D",
        "X-Amz-Expires=3&X-Amz-Signature=abcdef012345678",
        "Signature=ab~cd&Key-Pair-Id=K",
    ],
)
def test_the_status_after_a_signed_url_is_read_with_its_secret_masked(query: str) -> None:
    """Events are masked before they are read."""
    failure = recognise(redact(f"{FETCH}unexpected status code {STORE_URL}?{query}: 403 Forbidden"))
    assert (failure.kind, failure.status, failure.host) == (Kind.STORE, 403, "cdn.example")
    assert MASK in failure.text


def test_a_user_in_a_url_is_not_part_of_the_host() -> None:
    failure = recognise('failed to do request: Head "https://me:word@registry.example/v2/": EOF')
    assert failure.host == "registry.example"


WORDS = st.sampled_from(
    (
        *"[]\"':/,\n@ ",
        "401 Unauthorized",
        "not found",
        "rpc error: code = X desc = ",
        "x509: ",
        ": ",
        ", ",
        FAILED,
        UNPACK,
    )
)


@given(st.one_of(st.text(), st.lists(WORDS | st.text(max_size=5)).map("".join)), st.text(max_size=20))
def test_any_text_is_a_failure_and_an_unknown_one_is_kept_whole(message: str, reason: str) -> None:
    failure = recognise(message, reason)
    if failure.kind is Kind.UNKNOWN:
        is_about_message = bool(message.strip()) or not reason.strip()
        assert failure == PullFailure(kind=Kind.UNKNOWN, text=message if is_about_message else reason)
    assert any(failure.detail in each and failure.host in each for each in (message, reason))
    assert isinstance(says_why(message), bool)


@pytest.mark.parametrize(
    "piece",
    [
        "[", '"', " ", "\n", ": ", "/", "_", "lookup a", 'Head "_', "registry a", FAILED, "status code ", ": 401 A ",
        "a.", "httpReadSeeker: ", "Get http://a/", "failed to authorize",
        ", rpc error: code = X desc = ", 'image "', "short-name ", "initializing source docker://a", "x509",
        '\\"',
    ],
)  # fmt: skip
def test_a_hostile_text_takes_time_in_proportion_to_its_length(piece: str) -> None:
    """At 30 KB, a rule that took time by the square of the length would need ten seconds or more."""
    text = (piece * 30_000)[:30_000]
    begin = time.process_time()
    for each in (text, f"[{text}]", f"{text}x"):
        recognise(each)
        says_why(each)
    assert time.process_time() - begin < 6
