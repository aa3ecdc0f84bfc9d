"""The pods of a large cluster, as its API server lists them: each page is made when it is asked for.

A pod has some 6 KB, most of them in its managedFields. There are thirty in each namespace; all pods of every fiftieth
namespace wait for their images, for one of a dozen reasons.
"""

from __future__ import annotations

import json
import re
from urllib.parse import parse_qs, urlsplit

_PODS_OF_A_NAMESPACE, _WAITING = 30, 50
_PODS = re.compile(r"/clusters/(\d+)(/api.*)")
_HOST = "registry.example"
_IMAGE = f"{_HOST}/team/app:v1"
_URL = f"https://{_HOST}/v2/team/app/manifests/v1"
_REASONS = (
    f"pulling from host {_HOST} failed with status code [manifests v1]: 401 Unauthorized",
    f"{_IMAGE}: not found",
    f'failed to do request: Head "{_URL}": dial tcp 127.0.0.1:1: connect: connection refused',
    f'failed to do request: Head "{_URL}": x509: certificate signed by unknown authority',
    f'failed to do request: Head "{_URL}": dial tcp: lookup {_HOST} on 10.0.0.10:53: no such host',
    f'failed to do request: Head "{_URL}": dial tcp 127.0.0.1:1: i/o timeout',
    f"unexpected status from HEAD request to {_URL}: 403 Forbidden",
    f"unexpected status from HEAD request to {_URL}: 429 Too Many Requests",
    f"unexpected status from HEAD request to {_URL}: 503 Service Unavailable",
    "denied: Your authorization token has expired. Reauthenticate and try again.",
    "no match for platform in manifest: not found",
    "write /var/lib/containerd/x: no space left on device",
)
_DISCOVERY = {
    "/api": {"kind": "APIVersions", "versions": ["v1"]},
    "/apis": {"kind": "APIGroupList", "apiVersion": "v1", "groups": []},
    "/api/v1": {
        "kind": "APIResourceList",
        "groupVersion": "v1",
        "resources": [
            {
                "name": "pods",
                "singularName": "pod",
                "namespaced": True,
                "kind": "Pod",
                "verbs": ["get", "list"],
                "shortNames": ["po"],
            }
        ],
    },
}


def answer(path: str) -> tuple[int, bytes] | None:
    """Return the response of the cluster that a path names by its number of pods; None for any other path."""
    parts = urlsplit(path)
    found = _PODS.fullmatch(parts.path)
    if found is None:
        return None
    count, place = int(found[1]), found[2]
    if place == "/api/v1/pods":
        query = {name: values[0] for name, values in parse_qs(parts.query).items()}
        first = int(query.get("continue", "0"))
        return 200, _page(first, min(first + int(query.get("limit", count)), count), count)
    if place in _DISCOVERY:
        return 200, json.dumps(_DISCOVERY[place]).encode()
    if place.endswith("/events"):
        return 200, b'{"kind":"EventList","apiVersion":"v1","metadata":{},"items":[]}'
    if "/serviceaccounts/" in place:
        return 200, b'{"kind":"ServiceAccount","apiVersion":"v1","metadata":{"name":"default"}}'
    return 404, b'{"kind":"Status","apiVersion":"v1","message":"not found","reason":"NotFound","code":404}'


def _page(first: int, end: int, count: int) -> bytes:
    rest = {"continue": str(end), "remainingItemCount": count - end} if end < count else {}
    metadata = json.dumps({"resourceVersion": "1", **rest}).encode()
    pods = b",".join(map(_pod, range(first, end)))
    return b'{"kind":"PodList","apiVersion":"v1","metadata":%b,"items":[%b]}' % (metadata, pods)


def _pod(at: int) -> bytes:
    namespace = at // _PODS_OF_A_NAMESPACE
    turn, is_running = divmod(namespace, _WAITING)
    template = _RUNNING if is_running else _TEMPLATES[turn % len(_REASONS)]
    return template.replace(b"@NS@", b"%06d" % namespace).replace(b"@POD@", b"%06d" % at)


def _template(state: dict[str, object]) -> bytes:
    ready = "running" in state
    owner = {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "name": "web-7d9f8c6b5",
        "uid": "7f3c9a52-4a0e-4be4-8c40-2f9d4d2b9f10",
        "controller": True,
        "blockOwnerDeletion": True,
    }
    own: dict[str, object] = {f"f:field-{number:02d}": {".": {}, "f:name": {}} for number in range(44)}
    managed = [
        {
            "manager": manager,
            "operation": "Update",
            "apiVersion": "v1",
            "time": "2026-11-18T10:00:00Z",
            "fieldsType": "FieldsV1",
            "fieldsV1": {"f:metadata": own},
        }
        for manager in ("kube-controller-manager", "kubelet")
    ]
    environment = [{"name": f"SETTING_{number:02d}", "value": "x" * 20} for number in range(16)]
    container = {
        "name": "app",
        "image": _IMAGE,
        "imagePullPolicy": "IfNotPresent",
        "env": environment,
        "resources": {"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "1", "memory": "1Gi"}},
        "volumeMounts": [{"name": "token", "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount"}],
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File",
    }
    conditions = [
        {
            "type": each,
            "status": "True" if ready else "False",
            "lastProbeTime": None,
            "lastTransitionTime": "2026-11-18T10:00:00Z",
        }
        for each in ("Initialized", "Ready", "ContainersReady", "PodScheduled")
    ]
    pod = {
        "metadata": {
            "name": "web-7d9f8c6b5-@POD@",
            "namespace": "team-@NS@",
            "uid": "00000000-0000-4000-8000-000000@POD@",
            "resourceVersion": "1",
            "creationTimestamp": "2026-11-18T10:00:00Z",
            "labels": {"app": "web", "pod-template-hash": "7d9f8c6b5"},
            "annotations": {"example.com/settings": '{"replicas": 3, "mode": "rolling", "paused": false}'},
            "ownerReferences": [owner],
            "managedFields": managed,
        },
        "spec": {
            "volumes": [{"name": "token", "projected": {"sources": [], "defaultMode": 420}}],
            "containers": [container],
            "restartPolicy": "Always",
            "serviceAccountName": "default",
            "nodeName": "node-1",
            "imagePullSecrets": [{"name": "regcred"}],
            "schedulerName": "default-scheduler",
        },
        "status": {
            "phase": "Running" if ready else "Pending",
            "conditions": conditions,
            "hostIP": "10.0.0.1",
            "podIP": "10.1.0.1",
            "startTime": "2026-11-18T10:00:00Z",
            "containerStatuses": [
                {
                    "name": "app",
                    "image": _IMAGE,
                    "imageID": "",
                    "ready": ready,
                    "restartCount": 0,
                    "state": state,
                    "lastState": {},
                }
            ],
        },
    }
    return json.dumps(pod, separators=(",", ":")).encode()


def _waiting(reason: str) -> dict[str, object]:
    why = f'failed to pull and unpack image "{_IMAGE}": failed to resolve reference "{_IMAGE}": {reason}'
    message = f'Back-off pulling image "{_IMAGE}": ErrImagePull: {why}'
    return {"waiting": {"reason": "ImagePullBackOff", "message": message}}


_RUNNING = _template({"running": {"startedAt": "2026-11-18T10:00:00Z"}})
_TEMPLATES = [_template(_waiting(each)) for each in _REASONS]
