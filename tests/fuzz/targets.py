"""Everything that reads what others wrote, as functions of bytes, and what may come of it.

A target reads any bytes. It returns a value or raises one of its refusals; anything else is a find. Where there is an
encoder, what it writes is read as the same value again. Where a document holds nothing that a person should see, a
refusal does not quote the marked secret, wherever in the document it is.
"""

from __future__ import annotations

import asyncio
import atexit
import re
import shutil
import socket
import tempfile
from collections.abc import Callable, Iterator
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from keyferry._core.json import loads
from keyferry._core.jwt_claims import JwtError, read_claims, read_header
from keyferry._core.values import replace
from keyferry._net.address import UrlSyntaxError
from keyferry._net.agent import SocketReply
from keyferry._net.challenge import ChallengeError, read_challenges
from keyferry._net.errors import ClosedEarlyError, MalformedAnswerError
from keyferry._net.messages import Head, Incoming
from keyferry._net.url import read_url
from keyferry.agent.connection import AgentConnection, ConnectionTable
from keyferry.agent.lookups import BadQuestionError, read_question
from keyferry.agent.message import AgentReply, AgentRequest, reply_document, reply_status
from keyferry.api.clientauthentication.v1 import (
    ExecCredentialStatus,
    encode_exec_credential,
    encode_exec_info,
)
from keyferry.api.credentialprovider.v1 import (
    CredentialProviderRequest,
    CredentialProviderResponse,
    encode_request,
    encode_response,
)
from keyferry.api.kubeletconfig.records import encode_intent, encode_record
from keyferry.api.link_line import LinkLine, decode_link, encode_link
from keyferry.api.meta import format_duration, format_instant, parse_duration, parse_time
from keyferry.bridge.docker_login import parse_server
from keyferry.bridge.shim import read_members, unquote
from keyferry.clusters.auth.credential import read_credential, read_status
from keyferry.clusters.exec_info import ExecInfo, read_exec_info
from keyferry.clusters.kubeconfig.files import decode_file as decode_kubeconfig
from keyferry.errors import HttpError, KeyferryError
from keyferry.images.config.read import read_config
from keyferry.images.config.validate import validate
from keyferry.images.dockerconfig import parse_docker_config_json, parse_dockercfg
from keyferry.images.match import explain_match
from keyferry.images.provider.agent import read_answer as read_provider_answer
from keyferry.images.provider.plugin import decode_response
from keyferry.images.reference import ImageName, parse_image, trim
from keyferry.invoke.kuberc import read_kuberc
from keyferry.lint.kinds.agent_config import check_agent_config
from keyferry.lint.kinds.federation import decode_federation
from keyferry.pulls.layout import IndexEntry, add_entry, read_index
from keyferry.pulls.manifest import ContentError, Platform, read_config_platform, read_manifest
from keyferry.pulls.mirrors.endpoints import MirrorPlaces
from keyferry.pulls.mirrors.find import configured_registries, find_mirrors
from keyferry.pulls.records.access import NodeImages, parse_crictl_images
from keyferry.pulls.records.format import decode_intent, decode_record
from keyferry.pulls.registry.tokens import choose_challenge, parse_challenges
from keyferry.sdk import Deadline
from keyferry.sdk.flags import parse_flags
from keyferry.sdk.image import Request, Response, respond
from keyferry.workloads.objects import read_objects
from keyferry_plugins.aws.credentials import read_credentials
from keyferry_plugins.aws.eks_options import Options as EksOptions
from keyferry_plugins.aws.environment import Environment, load_shared_config
from keyferry_plugins.aws.sso import SsoLogin
from keyferry_plugins.aws.sso import read_token as read_sso_token
from keyferry_plugins.aws.sts import read_sts_credentials
from keyferry_plugins.azure.config import parse_config as parse_azure_config
from keyferry_plugins.azure.convert import FLAGS as CONVERT_FLAGS
from keyferry_plugins.azure.convert import convert_document
from keyferry_plugins.azure.login import read_program_token
from keyferry_plugins.docker.config import parse_config, parse_old_config
from keyferry_plugins.docker.helper import _read_answer as read_helper_answer
from keyferry_plugins.eks import CredentialCache
from keyferry_plugins.federation.config import read_federation
from keyferry_plugins.google.adc import token_from_file
from keyferry_plugins.google.cache import CacheKey, read_cache
from keyferry_plugins.google.calls import Calls
from keyferry_plugins.google.metadata import read_dockercfg
from keyferry_plugins.google.subject_tokens import read_program_output
from keyferry_plugins.oauth.store import load_token as load_kept_tokens

SECRET = "Zq7marked"
CORPUS = Path(__file__).parent / "corpus"
V1_IMAGES = "credentialprovider.kubelet.k8s.io/v1"
V1_CLUSTERS = "client.authentication.k8s.io/v1"
DIGEST = "sha256:" + 64 * "0"
IMAGE = "registry.example/team/app:v1"


class Target(NamedTuple):
    """A reader, what it may raise, and what writes its values.

    What is written and read again is the same in all that *content* returns.
    """

    read: Callable[[bytes], Any]
    refusals: tuple[type[Exception], ...] = (KeyferryError,)
    write: Callable[[Any], bytes] | None = None
    content: Callable[[Any], object] = lambda value: value
    hides: bool = False


def check(name: str, data: bytes) -> None:
    """Read *data*; fail for whatever a reader must not do."""
    target = TARGETS[name]
    try:
        value = target.read(data)
    except target.refusals as refusal:
        said = f"{refusal} {refusal!r}"
        assert not target.hides or SECRET not in said, said
        return
    if target.write is not None:
        written = target.write(value)
        assert target.content(target.read(written)) == target.content(value), (value, written)


def corpus(name: str) -> list[Path]:
    """Return the files that a target begins with."""
    return sorted((CORPUS / name).iterdir())


def text_of(data: bytes) -> str:
    """Return the text that a program is given as an argument or in a variable."""
    return data.decode("utf-8", "surrogateescape")


def header_of(data: bytes) -> str:
    """Return the text that is the value of a header."""
    return data.decode("latin-1")


# Images


def read_provider_config(data: bytes) -> object:
    """Decode and validate a provider config."""
    config = read_config("config.yaml", data)
    return list(map(str, (*config.problems, *validate(config))))


def read_request(data: bytes) -> Request:
    """Return the request as a plugin gets it."""
    seen: list[Request] = []

    def provide(request: Request) -> Response:
        seen.append(request)
        return Response()

    respond(provide, data)
    return seen[0]


def write_request(request: Request) -> bytes:
    """Return the request as the kubelet writes it; only the newest version has a service account."""
    return encode_request(
        CredentialProviderRequest(
            image=request.image,
            service_account_token=request.service_account_token,
            service_account_annotations=request.service_account_annotations,
        ),
        request.api_version,
    )


def read_response(data: bytes) -> CredentialProviderResponse:
    """Return a plugin's response, without entries that make no difference."""
    return decode_response("plugin", V1_IMAGES, data)


def write_response(response: CredentialProviderResponse) -> bytes:
    """Return the response as a plugin writes it."""
    return encode_response(response)


def read_docker_configs(data: bytes) -> object:
    """Read a docker config in both formats, by both readers."""
    return each_of(
        data,
        parse_docker_config_json,
        parse_dockercfg,
        lambda content: parse_config(content, "config.json"),
        lambda content: parse_old_config(content, ".dockercfg"),
    )


def write_image(image: ImageName) -> bytes:
    """Return the image's name with everything it has."""
    tag = f":{image.tag}" if image.tag else ""
    digest = f"@{image.digest}" if image.digest else ""
    return f"{image.repository}{tag}{digest}".encode()


def read_image(data: bytes) -> ImageName:
    """Parse an image name, and leave out its tag."""
    text = text_of(data)
    trim(text)
    return parse_image(text)


def read_pattern(data: bytes) -> object:
    """Match an image with a pattern; the first line is the pattern."""
    pattern, _, image = text_of(data).partition("\n")
    return str(explain_match(pattern, image))


# Clusters


def read_exec_credential(data: bytes) -> ExecCredentialStatus:
    """Read a plugin's answer; its key pair, if it has one, may be unusable."""
    status = read_status(V1_CLUSTERS, data)
    read_credential(V1_CLUSTERS, data)
    return status


def write_exec_info(info: ExecInfo) -> bytes:
    """Return what client-go passes to a plugin."""
    return encode_exec_info(info.api_version, info.cluster, interactive=info.interactive).encode(
        "utf-8", "surrogateescape"
    )


def exec_info_content(info: ExecInfo) -> object:
    """Return all that is written: not a status, and not the blanks in a plugin's configuration."""
    config = info.cluster.config
    cluster = replace(info.cluster, config=None)
    return info.api_version, info.interactive, cluster, None if config is None else loads(config)


def read_kubeconfig(data: bytes) -> object:
    """Decode a kubeconfig."""
    return list(map(str, decode_kubeconfig("config", data).problems))


# Registries and runtimes


def read_www_authenticate(data: bytes) -> object:
    """Read a challenge as the registry client does, and as strictly as a plugin does."""
    header = header_of(data)
    chosen = choose_challenge(parse_challenges(header.splitlines()))
    return chosen, list(read_challenges(header, is_strict=True))


def read_answer(data: bytes) -> tuple[Head, bytes]:
    """Read an HTTP answer at once and in small pieces, a short one byte by byte, which gives the same."""
    step = 1 + len(data) // 4096
    whole = _read_http(iter((data,)))
    pieces = _read_http(data[at : at + step] for at in range(0, len(data), step))
    assert type(whole) is type(pieces), (whole, pieces)
    if isinstance(whole, Exception):
        raise whole
    assert whole == pieces
    return whole


def _read_http(pieces: Iterator[bytes]) -> tuple[Head, bytes] | Exception:
    incoming = Incoming(lambda: next(pieces, b""))
    try:
        head = incoming.read_head()
        return head, b"".join(incoming.read_body(head))
    except (ClosedEarlyError, MalformedAnswerError) as refusal:
        return refusal


def read_manifests(data: bytes) -> object:
    """Read a manifest or index; if it is none, the config of an image."""
    try:
        return read_manifest(data, "", DIGEST)
    except ContentError:
        return read_config_platform(data)


class Files:
    """A node's files, one of which is what is read."""

    def __init__(self, path: str) -> None:
        self._path = path

    @cached_property
    def root(self) -> Path:
        """The folder, which is made when it is needed and goes with the process."""
        root = Path(tempfile.mkdtemp(prefix="keyferry-fuzz-"))
        atexit.register(shutil.rmtree, root, ignore_errors=True)
        (root / self._path).parent.mkdir(parents=True, exist_ok=True)
        return root

    def write(self, data: bytes) -> str:
        """Write the file, for its owner alone, and return its path."""
        path = self.root / self._path
        path.write_bytes(data)
        path.chmod(0o600)
        return str(path)

    def find_mirrors(self, data: bytes) -> object:
        """Return what a runtime makes of the file."""
        self.write(data)
        places = MirrorPlaces(root=str(self.root))
        return configured_registries(places), find_mirrors(IMAGE, places)


def read_workloads(data: bytes) -> object:
    """Read the objects of a file, and what pods name."""
    return [(each.kind, each.annotations) for each in read_objects(OBJECTS.write(data))]


# The agent


class Wire(asyncio.Transport):
    """The other end of an agent's connection: it knows its peer, and keeps what is written."""

    def __init__(self, peer: socket.socket) -> None:
        super().__init__({"socket": peer})
        self.written: list[bytes] = []
        self.is_closed = False
        self._is_read = asyncio.Event()
        self._is_read.set()

    def is_closing(self) -> bool:
        """Return whether it has ended."""
        return self.is_closed

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Take everything at once."""

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Keep what is sent."""
        self.written.append(bytes(data))

    def close(self) -> None:
        """End."""
        self.is_closed = True
        self._is_read.set()

    def abort(self) -> None:
        """End at once."""
        self.close()

    def pause_reading(self) -> None:
        """Let the next bytes wait."""
        if not self.is_closed:
            self._is_read.clear()

    def resume_reading(self) -> None:
        """Go on."""
        self._is_read.set()

    async def send(self, connection: AgentConnection, data: bytes) -> None:
        """Send bytes when they are read, until the connection is closed."""
        while data and not self.is_closed:
            buffer = connection.get_buffer(-1)
            read = data[: len(buffer)]
            buffer[: len(read)] = read
            connection.buffer_updated(len(read))
            data = data[len(read) :]
            await self._is_read.wait()


def answer_question(request: AgentRequest) -> AgentReply:
    """Answer whether the request is a question."""
    try:
        return reply_document("Answer", image=str(read_question(request.body).image))
    except BadQuestionError as refusal:
        assert SECRET not in str(refusal)
        return reply_status(400, "BadRequest", str(refusal))


def talk_to_agent(data: bytes) -> object:
    """Send bytes to the agent, whole and in two pieces; it answers the same, and whatever it answers is HTTP."""
    whole, cut = (asyncio.run(_talk(data[:at], data[at:])) for at in (0, len(data) // 2))
    _read_replies(whole)
    assert cut == whole
    return None


async def _talk(*pieces: bytes) -> bytes:
    here, there = socket.socketpair()
    with here, there:
        wire = Wire(here)
        connection = AgentConnection(ConnectionTable(2, lambda: 0.0), answer_question)
        connection.connection_made(wire)
        for piece in pieces:
            await wire.send(connection, piece)
        connection.connection_lost(None)
    return b"".join(wire.written)


def _read_replies(written: bytes) -> None:
    pieces = iter((written,))
    incoming = Incoming(lambda: next(pieces, b""))
    while True:
        try:
            head = incoming.read_head()
        except ClosedEarlyError:
            return
        for _ in incoming.read_body(head):
            pass


def read_spans(data: bytes) -> object:
    """Find members in JSON as the shim does, and undo the quotes of their values."""
    found = read_members(data, b"image", b"apiVersion", b"response") or {}
    return [unquote(value) for value in found.values() if value[:1] == b'"']


def read_token(data: bytes) -> object:
    """Read a JSON web token without a key."""
    return read_header(text_of(data)), read_claims(text_of(data)), read_claims(text_of(data), is_strict=False)


# The files and answers that plugins take credentials from


def each_of(data: bytes, *readers: Callable[[bytes], object]) -> object:
    """Return what each of some readers makes of the same bytes; no refusal quotes the secret."""
    found: list[object] = []
    for read in readers:
        try:
            found.append(read(data))
        except KeyferryError as refusal:
            assert SECRET not in f"{refusal} {refusal!r}"
    return found


def read_aws_credentials(data: bytes) -> object:
    """Read credentials of AWS in JSON, the token of a login, and what the token service answers."""
    login = SsoLogin(
        profile="default",
        start_url="https://start.example",
        region="eu-west-1",
        account_id="1",
        role_name="role",
        cache_name="name",
        is_renewable=True,
    )

    def read_json(content: bytes) -> object:
        document = loads(content)
        return read_credentials(document, "a program") if isinstance(document, dict) else None

    return each_of(
        data,
        read_json,
        lambda content: read_sso_token(KEPT.write(content), login),
        lambda content: read_sts_credentials(content, "sts.example", "a role"),
    )


def read_google_credentials(data: bytes) -> object:
    """Use a credential file of Google's up to the first request, for which there is no time."""
    try:
        return token_from_file(
            Calls(deadline=Deadline(0), environ={}, now=lambda: 0.0), KEPT.write(data), ("scope",)
        )
    except HttpError as refusal:
        # The name of a server is no secret, whatever it is.
        assert SECRET not in re.sub(r"https?://[\w.:-]+", "", f"{refusal} {refusal!r}")
        return str(refusal)


def read_google_answers(data: bytes) -> object:
    """Read what a program prints for Google's plugin, and the docker config of an instance."""
    calls = Calls(deadline=Deadline(0), environ={}, now=lambda: 0.0)
    return each_of(
        data,
        lambda content: read_program_output(content, calls, needs_expiry=False),
        lambda content: read_dockercfg(content, "an attribute"),
    )


def convert_azure_users(data: bytes) -> object:
    """Rewrite the users of a kubeconfig; what is written is a kubeconfig again."""
    flags = parse_flags(CONVERT_FLAGS, ["--login", "azurecli", "--server-id", "s"])
    written, changed = convert_document(data, "the kubeconfig", flags)
    assert convert_document(written, "what was written", flags)[1] == changed
    return changed


def read_plugin_caches(data: bytes) -> object:
    """Read what plugins keep for their next run; what is damaged counts as nothing, and is no error."""
    path = KEPT.write(data)
    variables = {"AWS_IAM_AUTHENTICATOR_CACHE_FILE": path, "HOME": "/nonexistent"}
    kept = CredentialCache(
        Environment(variables, Deadline(0), now=lambda: 0.0), EksOptions(cluster="cluster")
    )
    kept._key = "key"
    return (
        kept.read(),
        read_cache(path, CacheKey(context="context", extra_args=""), 0.0),
        load_kept_tokens(path),
    )


# What else others write


def read_agent_answer(data: bytes) -> object:
    """Read the agent's answer as a caller does, also one that is a refusal."""
    replies = (SocketReply(status=status, body=data) for status in (200, 404))
    return [read_provider_answer(reply, V1_IMAGES, "hash") for reply in replies]


def read_node_images(data: bytes) -> object:
    """Read the list of a node's images, and look for one."""
    return NodeImages((), parse_crictl_images(data, "crictl")).find(IMAGE)


def read_layout_index(data: bytes) -> object:
    """Read the index of a layout, and add an image to it."""
    index = read_index(data)
    entry = IndexEntry(
        media_type="application/x",
        digest=DIGEST,
        size=1,
        platform=Platform(os="linux", architecture="amd64"),
        image=IMAGE,
        tag="v1",
    )
    return None if index is None else add_entry(index, entry)


def write_link(link: LinkLine | None) -> bytes:
    """Return the line of a plugin's step; what is none stays none."""
    return b"" if link is None else encode_link(link).encode()


def read_federations(data: bytes) -> object:
    """Read a federation config as the linter does, which also takes YAML, and as the plugin does."""
    decode_federation("federation.yaml", data)
    return read_federation(data, "federation.json")


def read_settings(data: bytes) -> object:
    """Read the agent's config."""
    checked = check_agent_config("agent.yaml", data)
    return list(map(str, checked.findings))


OBJECTS = Files("objects.yaml")
KEPT = Files("kept/file")
HOSTS = Files("etc/containerd/certs.d/registry.example/hosts.toml")
CONTAINERD = Files("etc/containerd/config.toml")
REGISTRIES = Files("etc/containers/registries.conf")

TARGETS: dict[str, Target] = {
    "provider_config": Target(read_provider_config),
    "request": Target(read_request, write=write_request),
    "response": Target(read_response, write=write_response, hides=True),
    "docker_config": Target(read_docker_configs, hides=True),
    "helper_answer": Target(
        lambda data: read_helper_answer("docker-credential-x", "registry.example", data), hides=True
    ),
    "helper_server": Target(lambda data: parse_server(text_of(data))),
    "image": Target(
        read_image, write=write_image, content=lambda image: (image.repository, image.tag, image.digest)
    ),
    "pattern": Target(read_pattern),
    "kubeconfig": Target(read_kubeconfig),
    "exec_credential": Target(read_exec_credential, write=encode_exec_credential, hides=True),
    "exec_info": Target(read_exec_info, write=write_exec_info, content=exec_info_content),
    "kuberc": Target(lambda data: read_kuberc("kuberc", data)),
    "pull_record": Target(lambda data: decode_record(data).value, write=encode_record, hides=True),
    "pull_intent": Target(lambda data: decode_intent(data).value, write=encode_intent),
    "www_authenticate": Target(read_www_authenticate, (ChallengeError,)),
    "manifest": Target(read_manifests, (ContentError,)),
    "http_answer": Target(read_answer, (ClosedEarlyError, MalformedAnswerError)),
    "hosts_toml": Target(HOSTS.find_mirrors),
    "containerd_config": Target(CONTAINERD.find_mirrors),
    "registries_conf": Target(REGISTRIES.find_mirrors),
    "workloads": Target(read_workloads),
    "agent_socket": Target(talk_to_agent),
    "agent_question": Target(read_question, (BadQuestionError,), hides=True),
    "agent_config": Target(read_settings),
    "federation_config": Target(read_federations),
    "aws_profiles": Target(lambda data: repr(load_shared_config(*2 * [KEPT.write(data)])), hides=True),
    "aws_credentials": Target(read_aws_credentials, hides=True),
    "google_credentials": Target(read_google_credentials),
    "google_answers": Target(read_google_answers, hides=True),
    "azure_config": Target(lambda data: parse_azure_config(data, "azure.json"), hides=True),
    "azure_kubeconfig": Target(convert_azure_users),
    "azure_output": Target(lambda data: read_program_token(data, "accessToken", "az"), hides=True),
    "plugin_caches": Target(read_plugin_caches, ()),
    "plugin_steps": Target(decode_link, (), write=write_link),
    "agent_answer": Target(read_agent_answer, ()),
    "node_images": Target(read_node_images),
    "layout_index": Target(read_layout_index, ()),
    "json_spans": Target(read_spans),
    "jwt": Target(read_token, (JwtError,), hides=True),
    "url": Target(lambda data: read_url(text_of(data)), (UrlSyntaxError,)),
    "duration": Target(
        lambda data: parse_duration(text_of(data)), write=lambda ns: format_duration(ns).encode()
    ),
    "time": Target(lambda data: parse_time(text_of(data)), write=lambda ns: format_instant(ns).encode()),
}
