"""What can be wrong with a kuberc: title, why it matters, what to do; refusals first."""

REFUSED_KUBERC: dict[str, tuple[str, str, str]] = {
    "KF301": (
        "the kuberc is not valid YAML or JSON",
        "kubectl warns and goes on without a policy, or stops if the file was named; keyferry stops",
        "mend the syntax at the place named",
    ),
    "KF302": (
        "the kuberc holds no Preference",
        "only Preference of kubectl.config.k8s.io v1beta1 or v1alpha1 is read",
        "correct apiVersion and kind",
    ),
    "KF303": (
        "a value has the wrong type",
        "the whole document is passed over for it, and its policy too",
        "give the type that is expected",
    ),
    "KF304": (
        "command and name differ",
        "they are two words for one field",
        "keep command",
    ),
    "KF310": (
        "an unknown policy",
        "a policy nobody knows lets nothing run",
        "write AllowAll, DenyAll or Allowlist",
    ),
    "KF311": (
        "an allowlist without its policy",
        "a list counts only with 'credentialPluginPolicy: Allowlist', and is refused without",
        "set the policy, or remove the list",
    ),
    "KF312": (
        "the policy Allowlist without a list",
        "a misspelt or empty list must not open the door; to run nothing there is DenyAll",
        "list at least one program in credentialPluginAllowlist",
    ),
    "KF313": (
        "an entry of the allowlist that is empty or not in its shortest form",
        "entries are compared as text, so a path must be written without './', '//' and '..'",
        "write the path as the message says",
    ),
    "KF314": (
        "sha256 is not a digest",
        "a digest is 64 hexadecimal digits, without a prefix",
        "write what sha256sum prints",
    ),
}

SUSPECT_KUBERC: dict[str, tuple[str, str, str]] = {
    "KF350": (
        "unknown field",
        "kubectl warns of it and passes over it; a misspelt policy is none",
        "correct the spelling or remove the field",
    ),
    "KF351": ("a key is given more than once", "the last one counts", "keep one of them"),
    "KF352": (
        "a document that is passed over",
        "of a file with several documents the first Preference that can be read counts",
        "keep that one alone",
    ),
    "KF353": (
        "others can write the kuberc",
        "who writes it decides which programs may run",
        "chmod go-w",
    ),
    "KF360": (
        "an allowlist entry without a path",
        "a bare name allows whatever program of that name PATH leads to",
        "write the whole path",
    ),
    "KF361": (
        "an allowlist entry with a relative path",
        "it is compared as text with whole paths, so it never fits",
        "write the whole path",
    ),
    "KF362": (
        "an allowlist entry that is not on this machine",
        "it allows nothing here, until somebody puts a program there",
        "correct or remove it",
    ),
    "KF363": (
        "a digest that only keyferry looks at",
        "kubectl warns of sha256 and runs the program whatever it is",
        "nothing, if that is known",
    ),
    "KF364": (
        "a program whose digest is not the one listed",
        "keyferry will not run it; it was updated, or somebody changed it",
        "find out which, then write the new digest",
    ),
    "KF365": (
        "an old name of a field",
        "Kubernetes 1.35 said name where it is command now",
        "write command",
    ),
}
