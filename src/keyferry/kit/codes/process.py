"""Checks of all plugins by code: secrets and the behaviour of the process."""

from __future__ import annotations

from keyferry.kit.codes.image import Entry

PROCESS_CODES: dict[str, Entry] = {
    "KP301": (
        "error",
        "prints no secret on standard error",
        "the kubelet copies standard error into its log when a plugin fails, and client-go shows it on the terminal",
        "print the reason of the failure, never a password, a token, a header or the request",
    ),
    "KP302": (
        "error",
        "puts no secret on a command line",
        "every user of the machine can read the arguments of every process",
        "pass secrets to other programs on standard input or in a file that only the plugin's user can read",
    ),
    "KP303": (
        "error",
        "writes no secret to a file that others can read",
        "a file that group or others can read gives the credential to every user and many pods of the node",
        "create files with mode 0600, or write no files",
    ),
    "KP304": (
        "warning",
        "leaves no secret in temporary files",
        "a temporary file remains after the run and the credential's expiry, and often after a restart of the machine",
        "keep the secret in memory, or remove the file also when the run fails",
    ),
    "KP305": (
        "info",
        "keeps no secret in its home folder",
        "a cached credential can be stolen, and the kubelet has a cache of its own",
        "make sure that the cache is intended, and that expired credentials are removed",
    ),
    "KP306": (
        "warning",
        "leaves no temporary files behind",
        "on a node the plugin runs for years, and the files fill the disk",
        "remove the files also when the run fails",
    ),
    "KP310": (
        "error",
        "prints the reason of a failure on standard error",
        "the exit status alone does not help readers of the kubelet's log and users of kubectl",
        "print one line with the problem and its place before exiting with a status other than 0",
    ),
    "KP311": (
        "warning",
        "prints nothing on standard output when it fails",
        "the output is ignored, and may contain a part of a credential",
        "print the response only when it is complete",
    ),
    "KP312": (
        "warning",
        "reports invalid input in one sentence, without a stack trace",
        "a stack trace helps only the plugin's author, and may contain secrets",
        "catch the error and print one line",
    ),
    "KP313": (
        "error",
        "writes a bounded amount to standard error",
        "the kubelet keeps all of standard error in memory, without a limit",
        "print less, and nothing in an endless loop",
    ),
    "KP320": (
        "error",
        "answers within the time limit",
        "the kubelet kills a plugin after 60 s, and client-go waits without a limit, with every request of the client",
        "set a timeout for each network request that leaves time to report the failure",
    ),
    "KP321": (
        "warning",
        "answers within 10 s",
        "the pull of a pod's image begins only after the plugin's response",
        "look for retries, slow metadata requests and tools that start other tools",
    ),
    "KP322": (
        "warning",
        "needs less than 512 MB of memory",
        "plugins run on the node beside the pods, several at a time, within the kubelet's own limits",
        "read less into memory, and limit the size of input",
    ),
    "KP323": (
        "error",
        "exits by itself, with an exit status of its own",
        "a plugin that hangs is killed at its time limit, and a signal or a status from 126 to 251 stands for a crash, "
        "a missing program or a wrong executable format",
        "exit with 1 for known problems, and set a timeout for every wait",
    ),
    "KP324": (
        "error",
        "leaves no process behind",
        "every pull leaves another process, which uses memory and may have a secret",
        "wait for all started processes before exiting",
    ),
    "KP325": (
        "error",
        "closes its output when it exits",
        "the kubelet waits until every process has closed standard output and error: with a background child that "
        "keeps them open, the plugin appears to hang",
        "redirect the child's output, or wait for the child",
    ),
    "KP326": (
        "error",
        "answers as well when it runs eight times at once",
        "the images of pods that start together are pulled together",
        "share no file without a lock, and use no fixed name in a temporary folder",
    ),
    "KP327": (
        "error",
        "answers in every locale",
        "the kubelet runs without a locale or in C, where text outside ASCII makes some programs fail",
        "read and write UTF-8 in every locale",
    ),
    "KP328": (
        "error",
        "answers in any working directory",
        "the kubelet runs in '/', and kubectl in the user's current directory",
        "use absolute paths, or paths relative to the program itself",
    ),
    "KP329": (
        "warning",
        "answers without a home folder",
        "a kubelet under systemd has no HOME, and the home folder of many service users does not exist",
        "take paths from arguments or from variables of the config, and do not require a cache",
    ),
    "KP330": (
        "warning",
        "answers with only PATH and its configured variables",
        "the plugin gets the environment of the kubelet or of kubectl, which is not that of your shell",
        "list the required variables in the env of its config, and set them here with --env",
    ),
    "KP331": (
        "error",
        "exits when nobody reads its response",
        "after a restart of the kubelet, nobody reads the output of plugins that are still running",
        "do not retry or ignore a failed write",
    ),
    "KP332": (
        "error",
        "exits in time, with a response or a message, when there is no network",
        "an unreachable registry or metadata service must not delay pods with images from other registries",
        "set a timeout for each network request, and less than 60 s for all of them together",
    ),
}
