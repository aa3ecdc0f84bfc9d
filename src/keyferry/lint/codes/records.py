"""Problems of a kubelet's pull records: title, reason, correction; unreadable records first."""

from __future__ import annotations

_AGAIN = "the kubelet verifies access to the image again, under every policy"
_REMOVE = "remove the file; the next pull of the image writes a new record"

REFUSED_RECORDS: dict[str, tuple[str, str, str]] = {
    "KF401": ("a record is not valid JSON or YAML", f"it is truncated or damaged; {_AGAIN}", _REMOVE),
    "KF402": (
        "a record has an unknown kind or version",
        f"only ImagePullIntent and ImagePulledRecord of v1beta1 and v1alpha1 are read; {_AGAIN}",
        f"{_REMOVE}; or use the version of the kubelet that wrote it",
    ),
    "KF403": (
        "a field of a record is unknown, given twice, or of the wrong type",
        f"records are decoded strictly; {_AGAIN}",
        _REMOVE,
    ),
    "KF404": ("a record or its folder cannot be read", _AGAIN, "check its permissions and the disk"),
}

SUSPECT_RECORDS: dict[str, tuple[str, str, str]] = {
    "KF410": (
        "the name of a file is not the hash of its image",
        "only a kubelet that starts reads and trusts it; keyferry does not trust it",
        "remove it; an attacker may have written it to gain access",
    ),
    "KF411": (
        "a record or its folder is a symbolic link",
        "kubelets create files and folders, never links; keyferry does not follow it",
        _REMOVE,
    ),
    "KF412": (
        "a record has several names (hard links)",
        "another user may be able to change it through the other name; keyferry does not trust it",
        _REMOVE,
    ),
    "KF413": (
        "a record is not a regular file",
        "kubelets write regular files; keyferry does not open it",
        _REMOVE,
    ),
    "KF414": (
        "other users can write a record or its folder",
        "a user who can write it decides who may use the images of this node; keyferry does not trust it",
        "run chmod 600 on the file and chmod 700 on the folder, and find out who wrote the file",
    ),
    "KF415": (
        "other users can read a record or its folder",
        "records contain unsalted hashes of credentials, from which a weak password can be guessed",
        "run chmod 600 on the file and chmod 700 on the folder",
    ),
    "KF416": (
        "a record or its folder belongs to another user",
        "its owner decides who may use the images of this node; keyferry does not trust it",
        "remove it, or run chown root on it if you know where it comes from",
    ),
    "KF417": (
        "a record is too large",
        "no kubelet writes such a large record; keyferry does not read it",
        _REMOVE,
    ),
    "KF420": (
        "a temporary file was left behind",
        "a process ended while it wrote a record; the file is ignored",
        "remove it",
    ),
    "KF421": (
        "a file or folder does not belong here",
        "only files whose names begin with 'sha256-' are read",
        "remove it",
    ),
    "KF422": (
        "a record has an old version",
        "the kubelet reads it, and rewrites it when it starts",
        "nothing, if the kubelet is 1.35 or later",
    ),
    "KF423": (
        "a record has no time, or a time in the future",
        "records are removed by their time: without a time at the next garbage collection, with a future time too late",
        "check the clock of the node, or remove the file",
    ),
    "KF424": (
        "a record has a name that no image of a pod can have",
        "names are compared as strings, without tag and digest; this one is never found",
        _REMOVE,
    ),
    "KF425": (
        "a record names no credentials",
        "a crash interrupted the pull, so every access is verified; with imagePullPolicy Never that fails",
        "nothing; the next successful pull records who may use the image",
    ),
    "KF426": (
        "a secret has no valid hash",
        "it is recognised only by namespace, name and uid",
        "nothing; the next use of the secret corrects the record",
    ),
    "KF427": (
        "one name has a hundred or more secrets",
        "a kubelet adds no more secrets when it verifies access, and no longer trusts a secret that was changed",
        "use fewer secrets for one image, or a shared one",
    ),
    "KF428": (
        "a record has nodePodsAccessible and secrets or accounts",
        "nodePodsAccessible lets every pod of the node use the image; the secrets and accounts are ignored",
        "remove the record if not every pod may use the image",
    ),
    "KF429": (
        "a pull began long ago and did not finish",
        "a kubelet that starts writes a record for it if the image is present; until then access is verified",
        "nothing, if the pull is still running; else remove the file",
    ),
}
