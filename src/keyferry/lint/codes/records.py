"""What can be wrong with a kubelet's pull records: title, why it matters, what to do; unreadable ones first."""

_AGAIN = "the kubelet verifies the image again, whatever the policy"
_REMOVE = "remove the file; the image is then recorded anew with its next pull"

REFUSED_RECORDS: dict[str, tuple[str, str, str]] = {
    "KF401": ("a record is not valid JSON or YAML", f"it was cut short or damaged; {_AGAIN}", _REMOVE),
    "KF402": (
        "a record of an unknown kind or version",
        f"only ImagePullIntent and ImagePulledRecord of v1beta1 and v1alpha1 are read; {_AGAIN}",
        f"{_REMOVE}; or run the kubelet that wrote it",
    ),
    "KF403": (
        "a field of a record is unknown, given twice, or of the wrong type",
        f"records are decoded strictly; {_AGAIN}",
        _REMOVE,
    ),
    "KF404": ("a record or its folder cannot be read", _AGAIN, "see to its permissions, or to the disk"),
}

SUSPECT_RECORDS: dict[str, tuple[str, str, str]] = {
    "KF410": (
        "a file whose name is not the hash of what it is about",
        "nobody looks for it there, except a kubelet that starts, which believes it; keyferry does not",
        "remove it; somebody may have put it there to gain access",
    ),
    "KF411": (
        "a record or its folder is a symbolic link",
        "kubelets make files and folders, never links; keyferry does not follow it",
        _REMOVE,
    ),
    "KF412": (
        "a record has several names (hard links)",
        "somebody may still be able to change it through the other name; keyferry does not believe it",
        _REMOVE,
    ),
    "KF413": (
        "a record is not a regular file",
        "kubelets write regular files; keyferry does not open it",
        _REMOVE,
    ),
    "KF414": (
        "others can write a record or its folder",
        "whoever writes it decides who may use the images of this node; keyferry does not believe it",
        "chmod 600 the file, chmod 700 the folder, and find out who wrote it",
    ),
    "KF415": (
        "others can read a record or its folder",
        "records hold unsalted hashes of credentials, from which a weak password can be guessed",
        "chmod 600 the file, chmod 700 the folder",
    ),
    "KF416": (
        "a record or its folder belongs to somebody else",
        "its owner decides who may use the images of this node; keyferry does not believe it",
        "remove it, or chown it to root if you know where it comes from",
    ),
    "KF417": ("a record is far too large", "no kubelet writes so much; keyferry does not read it", _REMOVE),
    "KF420": (
        "a temporary file that was left behind",
        "a process ended while it wrote a record; the file is passed over",
        "remove it",
    ),
    "KF421": (
        "a file or folder that does not belong here",
        "only files whose names begin with 'sha256-' are read",
        "remove it",
    ),
    "KF422": (
        "a record in an old version",
        "the kubelet reads it, and rewrites it when it starts",
        "nothing, if the kubelet is 1.35 or later",
    ),
    "KF423": (
        "a record without a time, or from the future",
        "records are removed by their time: without one at the next clean-up, from the future not for long",
        "see to the clock of the node; or remove the file",
    ),
    "KF424": (
        "a name that no image of a pod can have",
        "names are compared without tag and digest, and as written; this one is never found",
        _REMOVE,
    ),
    "KF425": (
        "a record that names nobody",
        "the pull was cut short by a crash, so every use is verified; with imagePullPolicy Never that fails",
        "nothing; the next pull that works records who may use the image",
    ),
    "KF426": (
        "a secret without a hash, or with something else in its place",
        "it is recognised by namespace, name and uid alone",
        "nothing; it is mended when the secret is used next",
    ),
    "KF427": (
        "a hundred or more secrets for one name",
        "no more are added while a kubelet decides, and a secret that was changed is no longer trusted",
        "use fewer secrets for one image, or one that is shared",
    ),
    "KF428": (
        "secrets or accounts beside 'every pod'",
        "nodePodsAccessible lets every pod of the node use the image; the rest is not looked at",
        "remove the record if the image is not meant for everybody",
    ),
    "KF429": (
        "a pull that was begun long ago and not finished",
        "a kubelet that starts makes a record of it if the image is there; until then its image is verified",
        "nothing, if the node still pulls; else remove the file",
    ),
}
