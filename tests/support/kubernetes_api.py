"""An API server for tests that has objects and enforces RBAC, with the responses of Kubernetes word for word.

A test adds objects and users, and permits each user single actions; everything else is forbidden. TokenRequests
are checked as the real server checks them, and so is all that is written.
"""

from __future__ import annotations

import base64
import contextlib
import json
import re
import socket
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import count
from urllib.parse import parse_qs, unquote, urlsplit

from .api_server import REVIEWS, ApiServer, Seen
from .certificates import Authority
from .kubernetes_exec import ExecPoint, ExecRefused
from .kubernetes_lists import ListRefused, Lists, value_at
from .kubernetes_writes import CLUSTER_SCOPED, RBAC, VERBS, Store, Write, WriteRefused, discover

Json = dict[str, object]
Reply = tuple[int, Json]

ACCESS_REVIEWS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
ISSUER = "https://kubernetes.default.svc.cluster.local"
CORE, APPS, BATCH = "", "apps", "batch"
# The group and resource of each kind.
KINDS = {
    "Pod": (CORE, "pods"),
    "Secret": (CORE, "secrets"),
    "ServiceAccount": (CORE, "serviceaccounts"),
    "Event": (CORE, "events"),
    "Node": (CORE, "nodes"),
    "Namespace": (CORE, "namespaces"),
    "Deployment": (APPS, "deployments"),
    "ReplicaSet": (APPS, "replicasets"),
    "ReplicationController": ("", "replicationcontrollers"),
    "StatefulSet": (APPS, "statefulsets"),
    "DaemonSet": (APPS, "daemonsets"),
    "Job": (BATCH, "jobs"),
    "CronJob": (BATCH, "cronjobs"),
    "Role": (RBAC, "roles"),
    "RoleBinding": (RBAC, "rolebindings"),
    "ClusterRole": (RBAC, "clusterroles"),
    "ClusterRoleBinding": (RBAC, "clusterrolebindings"),
}
RESOURCES = {place: kind for kind, place in KINDS.items()}
_REASONS = {
    400: "BadRequest",
    401: "Unauthorized",
    403: "Forbidden",
    404: "NotFound",
    409: "Conflict",
    410: "Expired",
    422: "Invalid",
}
_LOG = re.compile("/api/v1/namespaces/([^/]+)/pods/([^/]+)/log")
_METRICS = re.compile("/api/v1/nodes/([^/]+)/proxy/metrics")
_MIN_SECONDS, _MAX_SECONDS, _USUAL_SECONDS = 600, 1 << 32, 3600


class Refused(Exception):
    """The response to a request that is refused."""

    def __init__(self, code: int, message: str, target: Target | None = None) -> None:
        super().__init__(code, message)
        self.reply = _failure(code, message, target)


@dataclass(frozen=True, slots=True)
class Target:
    """What a request is about, as the authorizer sees it."""

    verb: str
    group: str
    resource: str
    namespace: str
    name: str = ""
    subresource: str = ""

    @property
    def full_resource(self) -> str:
        """The resource with its subresource."""
        return f"{self.resource}/{self.subresource}" if self.subresource else self.resource

    @property
    def qualified(self) -> str:
        """The resource with its group, as in messages."""
        return f"{self.resource}.{self.group}" if self.group else self.resource


@dataclass(slots=True)
class KubernetesUser:
    """A user, and the actions that are permitted: verb, resource with subresource, namespace (``*`` for each)."""

    name: str
    permitted: set[tuple[str, str, str]] = field(default_factory=set)

    def may(self, target: Target) -> bool:
        """Return whether a rule permits the action."""
        return any(
            verb in ("*", target.verb)
            and resource in ("*", target.full_resource)
            and namespace in ("*", target.namespace)
            for verb, resource, namespace in self.permitted
        )


class KubernetesApi(ApiServer):
    """A server with objects: ``add`` objects, ``add_user`` and ``permit``; ``issued`` are the tokens it issued.

    It has a version, and reviews which audiences kubelets may request.
    """

    def __init__(self, authority: Authority) -> None:
        super().__init__(authority)
        self.objects: dict[tuple[str, str, str, str], Json] = {}
        self.store = Store(self.objects)
        self.lists = Lists(self.objects)
        self.exec = ExecPoint()
        # What starts a pod that is made, and what the containers of pods have written, by pod and container.
        self.on_pod: Callable[[Json], None] = lambda _: None
        self.logs: dict[tuple[str, str], bytes] = {}
        # The enforced level of pod security that forbids pods to see their node; empty where none does.
        self.pod_security = ""
        # Whether the connection of a request is cut: "before" it is answered, or "after" it was done.
        self.cut: Callable[[Seen], str] = lambda _: ""
        self.users: dict[str, KubernetesUser] = {}
        self.issued: list[str] = []
        # Audiences that the node authorizer does not let kubelets request.
        self.forbidden_audiences: set[str] = set()
        self.minor = "36"
        # The audiences that RBAC permits kubelets; None forbids reviews.
        self.node_audiences: set[str] | None = None
        self.reviewed: list[Json] = []
        self.kubelet_metrics: dict[str, str] = {}
        self._numbers = count(1)

    def add_user(self, token: str, name: str = "bob") -> KubernetesUser:
        """Add a user who is known by a bearer token and may do nothing."""
        self.users[token] = KubernetesUser(name)
        return self.users[token]

    def permit(self, token: str, verbs: str, resources: str, namespace: str = "*") -> None:
        """Permit a user every one of the *verbs* on every one of the *resources*, separated by spaces."""
        rules = ((verb, resource, namespace) for verb in verbs.split() for resource in resources.split())
        self.users[token].permitted.update(rules)

    def add(self, *documents: Json) -> None:
        """Add objects; those without a UID get one, and those without a namespace are in ``default``."""
        for document in documents:
            group, resource = KINDS[str(document["kind"])]
            metadata = document.setdefault("metadata", {})
            assert isinstance(metadata, dict)
            metadata.setdefault("namespace", "" if resource == "namespaces" else "default")
            metadata.setdefault("uid", f"00000000-0000-4000-8000-{next(self._numbers):012d}")
            self.objects[group, resource, metadata["namespace"], metadata["name"]] = document

    def decide(self, seen: Seen) -> int:
        """Return the scripted status if there is one, else that of the own response."""
        with self.lock:
            if self.script:
                return self.script.popleft()
        return 200

    def respond(self, seen: Seen) -> tuple[int, bytes]:
        """Authenticate, authorize and answer a request, or cut its connection."""
        cut = self.cut(seen)
        if cut == "before":
            raise ConnectionAbortedError
        reply = self._respond(seen)
        if cut == "after":
            raise ConnectionAbortedError
        return reply

    def _respond(self, seen: Seen) -> tuple[int, bytes]:
        if urlsplit(seen.path).path == "/openapi/v2":
            return 200, b""  # without any schema, so that kubectl uses its own
        if seen.path == "/version":
            return 200, json.dumps({"major": "1", "minor": self.minor}).encode()
        if seen.path == ACCESS_REVIEWS:
            return self._review_access(seen)
        try:
            if self.exec.place(seen.path) is not None:
                self._check_exec(seen)
                return 101, b""
            text = self._text(seen)
            if text is not None:
                return 200, text
            status, document = self._answer(seen)
        except Refused as refused:
            status, document = refused.reply
        return status, json.dumps(document).encode()

    def _text(self, seen: Seen) -> bytes | None:
        """Return what is no document: the metrics of a kubelet, or a log."""
        metrics, log = _METRICS.fullmatch(seen.path), _LOG.fullmatch(urlsplit(seen.path).path)
        if log is not None:
            return self._log_of(log[1], log[2], seen)
        return None if metrics is None else self._metrics_of(metrics[1], seen).encode()

    def switch(self, seen: Seen, connection: socket.socket) -> None:
        """Run a command in a container."""
        self.exec.switch(seen, connection)

    def _check_exec(self, seen: Seen) -> None:
        """Refuse an exec that the user may not do, or that is not possible."""
        user = self.users.get(seen.token)
        if user is None:
            raise Refused(401, "Unauthorized")
        namespace, name = self.exec.place(seen.path) or ("", "")
        # Since 1.35 create is asked for as well.
        for verb in ("get", "create"):
            target = Target(verb, CORE, "pods", namespace, name, "exec")
            if not user.may(target):
                raise _forbidden(user, target)
        containers = value_at(self._find(replace(target, subresource="")), "spec.containers")
        assert isinstance(containers, list)
        try:
            self.exec.check(seen, [each["name"] for each in containers])
        except ExecRefused as refused:
            raise Refused(refused.code, refused.message) from None

    def _log_of(self, namespace: str, name: str, seen: Seen) -> bytes:
        """Return the log of a container, at most as much as is asked for."""
        user, target = self.users.get(seen.token), Target("get", CORE, "pods", namespace, name, "log")
        if user is None:
            raise Refused(401, "Unauthorized")
        if not user.may(target):
            raise _forbidden(user, target)
        self._find(replace(target, subresource=""))
        query = {key: found[0] for key, found in parse_qs(urlsplit(seen.path).query).items()}
        return self.logs[name, query["container"]][: int(query["limitBytes"])]

    def _metrics_of(self, node: str, seen: Seen) -> str:
        """Return the metrics of a node's kubelet, which the server fetches for those who may."""
        target = Target("get", CORE, "nodes", "", node, "proxy")
        user = self.users.get(seen.token)
        if user is None or not user.may(target):
            raise Refused(403, "nodes is forbidden", target)
        return self.kubelet_metrics[node]

    def _review_access(self, seen: Seen) -> tuple[int, bytes]:
        if self.node_audiences is None:
            what = 'User "bob" cannot create resource "subjectaccessreviews"'
            message = f"subjectaccessreviews.authorization.k8s.io is forbidden: {what}"
            return 403, json.dumps({"kind": "Status", "message": message, "code": 403}).encode()
        spec = json.loads(seen.body)["spec"]
        self.reviewed.append(spec)
        allowed = spec["resourceAttributes"]["resource"] in self.node_audiences
        return 201, json.dumps({"kind": "SubjectAccessReview", "status": {"allowed": allowed}}).encode()

    def _answer(self, seen: Seen) -> Reply:
        user = self.users.get(seen.token)
        if self.always:
            raise Refused(self.always, "scripted")
        if user is None:
            raise Refused(401, "Unauthorized")
        if urlsplit(seen.path).path == REVIEWS:
            return 201, _review(user)
        described = discover(urlsplit(seen.path).path, KINDS)
        if described is not None:
            return 200, described
        target = _target(seen)
        if not user.may(target):
            raise _forbidden(user, target)
        if seen.method in VERBS and not target.subresource:
            return self._write(seen, target)
        if target.subresource:
            return self._issue(seen, target, user)
        return (200, self._find(target)) if target.name else self._list(seen, target)

    def _write(self, seen: Seen, target: Target) -> Reply:
        write = Write(
            seen.method,
            (target.group, target.resource, target.namespace, target.name),
            RESOURCES[target.group, target.resource],
            f"{target.group}/v1" if target.group else "v1",
            seen.body,
            ";".join(seen.all("Content-Type")).partition(";")[0],
            "dryRun=All" in urlsplit(seen.path).query,
        )
        with self.lock:
            try:
                self._admit(write, target)
                reply = self.store.write(write)
            except WriteRefused as refused:
                code, document = _failure(refused.code, refused.message, target)
                return code, {**document, "reason": refused.reason}
            if (target.resource, target.verb) == ("pods", "create"):
                self.on_pod(reply[1])
            return reply

    def _admit(self, write: Write, target: Target) -> None:
        """Refuse a pod that pod security forbids."""
        if not self.pod_security or (target.verb, target.resource) != ("create", "pods"):
            return
        spec = json.loads(write.body)["spec"]
        if spec.get("hostPID") or any("hostPath" in each for each in spec.get("volumes", ())):
            name = json.loads(write.body)["metadata"]["name"]
            why = 'host namespaces (hostNetwork=true, hostPID=true), hostPath volumes (volume "host")'
            message = f'pods "{name}" is forbidden: violates PodSecurity "{self.pod_security}:latest": {why}'
            raise WriteRefused(403, "Forbidden", message)

    def _find(self, target: Target) -> Json:
        found = self.objects.get((target.group, target.resource, target.namespace, target.name))
        if found is None:
            raise Refused(404, f"{target.qualified} {_quote(target.name)} not found", target)
        return found

    def _list(self, seen: Seen, target: Target) -> Reply:
        """Return a list, or the page of it that is asked for."""
        query = {name: found[0] for name, found in parse_qs(urlsplit(seen.path).query).items()}
        try:
            found = self.lists.page(target.group, target.resource, target.namespace, query)
        except ListRefused as refused:
            code, document = _failure(refused.code, refused.message)
            rest = {"metadata": {"continue": refused.rest}} if refused.rest else {}
            return code, {**document, **rest}
        kind = RESOURCES[target.group, target.resource]
        version = f"{target.group}/v1" if target.group else "v1"
        return 200, {"kind": f"{kind}List", "apiVersion": version, **found}

    def _issue(self, seen: Seen, target: Target, user: KubernetesUser) -> Reply:
        request = _token_request(seen.body)
        _check_metadata(request, target)
        own_uid = value_at(self._find(replace(target, subresource="")), "metadata.uid")
        asked_uid, seconds = value_at(request, "metadata.uid"), value_at(request, "spec.expirationSeconds")
        if asked_uid and asked_uid != own_uid:
            where = f"TokenRequest.authentication.k8s.io {_quote(target.name)}"
            why = f"the UID in the token request ({asked_uid}) does not match the UID of the service account"
            raise Refused(409, f"Operation cannot be fulfilled on {where}: {why} ({own_uid})")
        _check_expiration(seconds)
        bound = self._bound(request, target)
        audiences = value_at(request, "spec.audiences") or [ISSUER]
        assert isinstance(audiences, list)
        for audience in audiences:
            if user.name.startswith("system:node:") and audience in self.forbidden_audiences:
                why = f"{user.name} is not authorized to request tokens for audience {_quote(audience)}"
                raise Refused(403, f"{target.resource} {_quote(target.name)} is forbidden: {why}", target)
        return self._issued(request, target, own_uid, audiences, int(str(seconds or _USUAL_SECONDS)), bound)

    def _bound(self, request: Json, target: Target) -> Json:
        """Return the claims about the bound object."""
        ref = value_at(request, "spec.boundObjectRef")
        if ref is None:
            return {}
        assert isinstance(ref, dict)
        kind, name = str(ref.get("kind", "")), str(ref.get("name", ""))
        group, _, version = str(ref.get("apiVersion", "")).rpartition("/")
        if group or kind not in ("Pod", "Secret", "Node"):
            raise Refused(400, f"cannot bind token to object of type {group}/{version}, Kind={kind}")
        place = "default" if kind == "Node" else target.namespace
        found = self._find(Target("get", CORE, KINDS[kind][1], place, name))
        if kind == "Pod" and value_at(found, "spec.serviceAccountName") != target.name:
            what = f"cannot bind token for serviceaccount {_quote(target.name)}"
            raise Refused(400, f"{what} to pod running with different serviceaccount name.")
        uid = value_at(found, "metadata.uid")
        if ref.get("uid") and ref["uid"] != uid:
            what = f"Operation cannot be fulfilled on {kind} {_quote(name)}"
            why = f"the UID in the bound object reference ({ref['uid']}) does not match the UID in record"
            raise Refused(409, f"{what}: {why}. The object might have been deleted and then recreated")
        claims: Json = {kind.lower(): {"name": name, "uid": uid}}
        node = value_at(found, "spec.nodeName")
        return {**claims, "node": {"name": node}} if kind == "Pod" and node else claims

    def _issued(
        self, request: Json, target: Target, uid: object, audiences: list[object], seconds: int, bound: Json
    ) -> Reply:
        now = int(time.time())
        claims = {
            "aud": audiences,
            "exp": now + seconds,
            "iat": now,
            "iss": ISSUER,
            "jti": f"{next(self._numbers):08d}-ee48-4664-a90f-0a6362ac244f",
            "kubernetes.io": {
                "namespace": target.namespace,
                **bound,
                "serviceaccount": {"name": target.name, "uid": uid},
            },
            "nbf": now,
            "sub": f"system:serviceaccount:{target.namespace}:{target.name}",
        }
        token = ".".join(map(_segment, ({"alg": "RS256", "kid": "test"}, claims, "not a signature")))
        self.issued.append(token)
        metadata = {"name": target.name, "namespace": target.namespace, "uid": uid}
        end = datetime.fromtimestamp(now + seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        spec = {
            "audiences": audiences,
            "expirationSeconds": seconds,
            "boundObjectRef": value_at(request, "spec.boundObjectRef"),
        }
        status = {"token": token, "expirationTimestamp": end}
        head = {"kind": "TokenRequest", "apiVersion": "authentication.k8s.io/v1"}
        return 201, {**head, "metadata": metadata, "spec": spec, "status": status}


def _target(seen: Seen) -> Target:
    """Return what a path is about."""
    parts = [unquote(part) for part in urlsplit(seen.path).path.strip("/").split("/")]
    group = CORE
    if parts[:1] == ["apis"]:
        group, parts = parts[1], parts[1:]
    if parts[2:] == ["namespaces"] or (parts[2:3] and parts[2] in CLUSTER_SCOPED):
        parts = [*parts[:2], "namespaces", "", *parts[2:]]
    elif parts[2:] == [parts[-1]] and (group, parts[-1]) in RESOURCES and seen.method == "GET":
        # Without a namespace, a list of the objects of all.
        return Target("list", group, parts[-1], "")
    _, version, plural, namespace, resource, name, subresource, *_ = (*parts, "", "", "", "", "", "", "")
    is_token = (resource, subresource) == ("serviceaccounts", "token")
    is_write = seen.method in VERBS and not is_token
    if (
        (version, plural) != ("v1", "namespaces")
        or (group, resource) not in RESOURCES
        or (is_token and seen.method != "POST")
        or (is_write and (seen.method == "POST") is bool(name))
    ):
        raise Refused(404, "the server could not find the requested resource")
    verb = VERBS[seen.method] if is_token or is_write else "get" if name else "list"
    return Target(verb, group, resource, namespace, name, subresource)


def _token_request(body: bytes) -> Json:
    """Decode a request."""
    try:
        document = json.loads(body)
    except ValueError as error:
        raise Refused(400, f"couldn't get version/kind; json parse error: {error}") from None
    kind, version = document.get("kind"), document.get("apiVersion")
    if not kind:
        raise Refused(400, f"Object 'Kind' is missing in {_quote(body.decode())}")
    if (version, kind) != ("authentication.k8s.io/v1", "TokenRequest"):
        short = str(version).rpartition("/")[2]
        raise Refused(
            400,
            f'{kind} in version "{short}" cannot be handled as a TokenRequest: '
            f'no kind "{kind}" is registered for version "{version}" in scheme "pkg/api/legacyscheme/scheme.go:30"',
        )
    return dict(document)


def _check_metadata(request: Json, target: Target) -> None:
    for name, wanted in (("name", target.name), ("namespace", target.namespace)):
        given = value_at(request, f"metadata.{name}")
        if given and given != wanted:
            why = f"must match the service account {name} if specified"
            raise _invalid(target.name, f"metadata.{name}: Invalid value: {_quote(given)}: {why}")


def _check_expiration(seconds: object) -> None:
    if seconds is None:
        return
    assert isinstance(seconds, int)
    where = f"spec.expirationSeconds: Invalid value: {seconds}"
    if seconds < _MIN_SECONDS:
        raise _invalid("", f"{where}: may not specify a duration less than 10 minutes")
    if seconds > _MAX_SECONDS:
        raise _invalid("", f"{where}: may not specify a duration larger than 2^32 seconds")


def _failure(code: int, message: str, target: Target | None = None) -> Reply:
    """Return a Status as Kubernetes writes it."""
    details: Json = {}
    if target is not None:
        details = {"name": target.name, "group": target.group, "kind": target.resource}
        details = {"details": {name: value for name, value in details.items() if value}}
    head: Json = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure"}
    reason = {"reason": _REASONS[code]} if code in _REASONS else {}
    return code, {**head, "message": message, **reason, **details, "code": code}


def _forbidden(user: KubernetesUser, target: Target) -> Refused:
    which = f"{target.qualified} {_quote(target.name)}" if target.name else target.qualified
    what = f"User {_quote(user.name)} cannot {target.verb} resource {_quote(target.full_resource)}"
    place = f"in the namespace {_quote(target.namespace)}" if target.namespace else "at the cluster scope"
    return Refused(403, f"{which} is forbidden: {what} in API group {_quote(target.group)} {place}", target)


def _invalid(name: str, why: str) -> Refused:
    return Refused(422, f"TokenRequest.authentication.k8s.io {_quote(name)} is invalid: {why}")


def _review(user: KubernetesUser) -> Json:
    head: Json = {"kind": "SelfSubjectReview", "apiVersion": "authentication.k8s.io/v1", "metadata": {}}
    return {**head, "status": {"userInfo": {"username": user.name, "groups": ["system:authenticated"]}}}


def _quote(text: object) -> str:
    return json.dumps(str(text))


def _segment(value: object) -> str:
    data = value.encode() if isinstance(value, str) else json.dumps(value).encode()
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def pod(
    name: str = "web",
    namespace: str = "shop",
    images: Iterable[str] = ("registry.example/team/app:v1",),
    **spec: object,
) -> Json:
    """Return a pod with a container for each image, as the server has it after admission."""
    containers = [{"name": f"c{at}" if at else "app", "image": image} for at, image in enumerate(images)]
    metadata: Json = {"name": name, "namespace": namespace}
    whole = {"serviceAccountName": "default", "nodeName": "node1", "containers": containers, **spec}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": whole}


@contextlib.contextmanager
def pod_for_exec(authority: Authority, token: str) -> Iterator[KubernetesApi]:
    """Run a server with the pod web in shop, into which bob may exec, who has *token*."""
    with KubernetesApi(authority) as running:
        running.add_user(token, "bob")
        running.permit(token, "get create", "pods/exec", "shop")
        running.add(pod())
        yield running


def account(
    name: str = "default", namespace: str = "shop", secrets: Iterable[str] = (), **annotations: str
) -> Json:
    """Return a service account that lists pull secrets."""
    metadata: Json = {"name": name, "namespace": namespace, "annotations": annotations}
    listed = [{"name": secret} for secret in secrets]
    made: Json = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata}
    return {**made, "imagePullSecrets": listed} if listed else made


def pull_secret(
    name: str = "regcred",
    namespace: str = "shop",
    host: str = "registry.example",
    login: str = "user:pass-word",
    **more: object,
) -> Json:
    """Return an image pull secret with one login; *more* replaces fields."""
    auth = base64.b64encode(login.encode()).decode()
    content = json.dumps({"auths": {host: {"auth": auth}}}).encode()
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": name, "namespace": namespace},
        "type": "kubernetes.io/dockerconfigjson",
        "data": {".dockerconfigjson": base64.b64encode(content).decode()},
        **more,
    }
