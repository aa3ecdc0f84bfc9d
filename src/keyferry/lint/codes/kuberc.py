"""Problems of kuberc files: title, reason, correction; refusals first."""

from __future__ import annotations

REFUSED_KUBERC: dict[str, tuple[str, str, str]] = {
    "KF301": (
        "the kuberc is not valid YAML or JSON",
        "kubectl warns and continues without a policy, or fails if the file was given by name; keyferry fails",
        "correct the syntax at the given position",
    ),
    "KF302": (
        "the kuberc contains no Preference",
        "only a Preference of kubectl.config.k8s.io v1beta1 or v1alpha1 is read",
        "correct apiVersion and kind",
    ),
    "KF303": (
        "a value has the wrong type",
        "the whole document is ignored, including its policy",
        "use the expected type",
    ),
    "KF304": (
        "command and name differ",
        "they are two names of one field",
        "keep command",
    ),
    "KF310": (
        "the policy is unknown",
        "an unknown policy allows no plugin",
        "set AllowAll, DenyAll or Allowlist",
    ),
    "KF311": (
        "an allowlist is set without its policy",
        "a list requires 'credentialPluginPolicy: Allowlist' and is refused without it",
        "set the policy, or remove the list",
    ),
    "KF312": (
        "the policy Allowlist has no list",
        "a misspelled or empty list must not allow every plugin; to run no plugin, use DenyAll",
        "list at least one program in credentialPluginAllowlist",
    ),
    "KF313": (
        "an entry of the allowlist is empty or not in its shortest form",
        "entries are compared as strings, so a path must not contain './', '//' or '..'",
        "use the path in the message",
    ),
    "KF314": (
        "sha256 is not a digest",
        "a digest is 64 hexadecimal digits, without a prefix",
        "use the output of sha256sum",
    ),
}

SUSPECT_KUBERC: dict[str, tuple[str, str, str]] = {
    "KF350": (
        "unknown field",
        "kubectl warns about the field and ignores it; a misspelled policy has no effect",
        "correct the spelling or remove the field",
    ),
    "KF351": ("a key is given more than once", "the last one is used", "keep one of them"),
    "KF352": (
        "a document is ignored",
        "if a file has several documents, the first Preference that can be read is used",
        "keep only that document",
    ),
    "KF353": (
        "other users can write the kuberc",
        "a user who can write it decides which programs may run",
        "run chmod go-w on the file",
    ),
    "KF360": (
        "an allowlist entry has no path",
        "a name without a path allows any program of that name in PATH",
        "use an absolute path",
    ),
    "KF361": (
        "an allowlist entry has a relative path",
        "it is compared as a string with absolute paths, so it never matches",
        "use an absolute path",
    ),
    "KF362": (
        "the program of an allowlist entry does not exist on this machine",
        "the entry allows no program until one is installed at this path",
        "correct or remove it",
    ),
    "KF363": (
        "only keyferry checks the digest",
        "kubectl warns about sha256 and runs the program with any digest",
        "nothing, if this is intended",
    ),
    "KF364": (
        "the digest of a program is not the listed one",
        "keyferry does not run it; the program was updated or tampered with",
        "find the reason, then set the new digest",
    ),
    "KF365": (
        "a field has its old name",
        "the field is name in Kubernetes 1.35, and command since 1.36",
        "use command",
    ),
}
