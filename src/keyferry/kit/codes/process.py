"""What the kit checks of every plugin: secrets and process behaviour, by code."""

from keyferry.kit.codes.image import Entry

PROCESS_CODES: dict[str, Entry] = {
    "KP301": (
        "error",
        "prints no secret on standard error",
        "the kubelet copies standard error into its log when a plugin fails, and client-go shows it on the terminal",
        "print what went wrong, never a password, a token, a header or the request",
    ),
    "KP302": (
        "error",
        "puts no secret on a command line",
        "everyone on the machine can read the arguments of every process",
        "hand secrets to other programs on standard input or in a file that only you can read",
    ),
    "KP303": (
        "error",
        "writes no secret where others can read it",
        "a file that group or others can read gives the credential to every user and many pods of the node",
        "create files with mode 0600, or do not write them",
    ),
    "KP304": (
        "warning",
        "leaves no secret among the temporary files",
        "what is left there outlives the run, the credential's end and often the machine's next start",
        "keep it in memory, or remove the file however the run ends",
    ),
    "KP305": (
        "info",
        "keeps no secret in its home",
        "a cache is a place to steal from, and the kubelet has a cache of its own",
        "make sure that it is meant, and that what has ended is removed",
    ),
    "KP306": (
        "warning",
        "leaves no temporary files behind",
        "on a node it runs for years, and the files add up",
        "remove them however the run ends",
    ),
    "KP310": (
        "error",
        "says on standard error why it fails",
        "the exit status alone tells whoever reads the kubelet's log or runs kubectl nothing",
        "print one line with what was wrong and where before you exit with a status other than 0",
    ),
    "KP311": (
        "warning",
        "prints nothing on standard output when it fails",
        "it is thrown away, and may be half a credential",
        "print the answer only once it is complete",
    ),
    "KP312": (
        "warning",
        "reports bad input in a sentence, without a crash report",
        "a stack trace fills the log with what only the plugin's author can read, and quotes what it should not",
        "catch the error and print one line",
    ),
    "KP313": (
        "error",
        "writes a bounded amount to standard error",
        "the kubelet keeps all of standard error in memory, without a limit",
        "print less, and nothing in a loop without end",
    ),
    "KP320": (
        "error",
        "answers within the time limit",
        "the kubelet kills a plugin after 60 s, and client-go waits for ever with every request of the client",
        "give each network call a deadline that leaves time to report the failure",
    ),
    "KP321": (
        "warning",
        "answers within 10 s",
        "a pod waits that long before its image is even asked for",
        "look for retries, slow look-ups of metadata and tools that start other tools",
    ),
    "KP322": (
        "warning",
        "needs less than 512 MB of memory",
        "it runs beside the pods of a node, several at a time, within the kubelet's own limits",
        "read less into memory, and bound what you read",
    ),
    "KP323": (
        "error",
        "ends by itself, with a status of its own",
        "a plugin that hangs is killed at a deadline, and a signal or a status from 126 to 251 means a crash, "
        "a missing program or a wrong format to whoever reads it",
        "exit with 1 for what you know to be wrong, and put a deadline on whatever you wait for",
    ),
    "KP324": (
        "error",
        "leaves no process behind",
        "whatever stays adds up with every pull, holding memory and perhaps a secret",
        "wait for everything you start before you exit",
    ),
    "KP325": (
        "error",
        "lets go of its output when it exits",
        "the kubelet waits until everyone has closed standard output and error: a background child that holds them is "
        "taken for a plugin that hangs",
        "redirect the child's output, or wait for it",
    ),
    "KP326": (
        "error",
        "answers as well when it runs eight times at once",
        "pods that start together ask for their images together",
        "share no file without a lock, and no fixed name in a temporary folder",
    ),
    "KP327": (
        "error",
        "answers in every locale",
        "the kubelet runs without a locale or in C, where text outside ASCII breaks careless programs",
        "read and write UTF-8 whatever the locale says",
    ),
    "KP328": (
        "error",
        "answers in any working directory",
        "the kubelet runs in '/', and kubectl wherever the user happens to be",
        "use absolute paths, or paths relative to the program itself",
    ),
    "KP329": (
        "warning",
        "answers without a home",
        "a kubelet under systemd has no HOME, and many a service user has one that does not exist",
        "take paths from arguments or from variables of the config, and do without a cache",
    ),
    "KP330": (
        "warning",
        "answers with nothing but PATH and its configured variables",
        "it gets the environment of the kubelet or of kubectl, which is not that of your shell",
        "name the variables it needs in the env of its config, and give them here with --env",
    ),
    "KP331": (
        "error",
        "ends when nobody reads its answer",
        "a kubelet that was restarted leaves its plugins without a reader",
        "do not retry or ignore a failed write",
    ),
    "KP332": (
        "error",
        "ends in time, with an answer or a message, when there is no network",
        "a registry or a metadata service that is away must not keep pods from starting from other registries",
        "give each network call a deadline, and all of them together less than 60 s",
    ),
}
