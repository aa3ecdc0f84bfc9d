"""Whether an image can be pulled with the credentials that a kubelet finds."""

from keyferry._core.secrets import printable
from keyferry.cli.frame.image_lookup import (
    add_image_and_output_arguments,
    add_lookup_arguments,
    add_question_arguments,
    look_up_image,
    report_failed_plugins,
)
from keyferry.cli.frame.registry_arguments import (
    add_registry_arguments,
    check_answer,
    code_for_check,
    image_mirrors,
)
from keyferry.explain.document import failures_document
from keyferry.explain.registry import PullVerdict, RegistryCheck, check_document, describe_attempt, verdict
from keyferry.images.answer import Answer
from keyferry.images.missing import missing_documents
from keyferry.show.documents import make_document, render_document
from keyferry.show.report import report
from keyferry.show.tables import fitting_table
from keyferry.show.text import fold
from keyferry.show.writer import Lines, style

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse

    from keyferry.pulls.trial import Attempt

DESCRIPTION = """\
Check whether an image can be pulled. The command finds the credentials that a kubelet would try and sends
the registry a HEAD request for the image's manifest with each of them. Nothing is downloaded.

Exit code 0 means yes, 1 no (there is no such image, or CRI-O blocks it), 5 that the registry refused every
credential, 4 that a plugin failed and there is no other credential, 124 a timeout. 6 means that the result is
unknown: the registry is unreachable, its response says nothing about the image, an input that may have another
credential is missing, such as the pod, or the container runtime has a mirror, which this command does not
contact. It is also unknown if the image can be pulled anonymously and such an input is missing: a kubelet that
has a credential makes no anonymous attempt."""

EXAMPLES = """\
examples:
  keyferry can-pull 123456789012.dkr.ecr.eu-west-1.amazonaws.com/team/app:v1
  keyferry can-pull registry.example/app:v1 -f pod.yaml --secret secret.yaml
  keyferry can-pull registry.example/app:v1 --ca-file /etc/ssl/private-ca.pem -o json
  keyferry can-pull localhost:5000/app && echo yes"""

FORMATS = ("table", "json", "yaml")
_NOBODY = "(anonymous)"
_COLOURS = {PullVerdict.YES: "green", PullVerdict.NO: "red", PullVerdict.UNKNOWN: "yellow"}


def add_arguments(parser: "argparse.ArgumentParser") -> None:
    """Declare the arguments of ``keyferry can-pull``."""
    add_image_and_output_arguments(parser, FORMATS)
    add_registry_arguments(parser)
    add_lookup_arguments(parser)
    add_question_arguments(parser)


def run(args: "argparse.Namespace") -> int:
    """Print the result, and the registry's response to each credential."""
    lookup = look_up_image(args)
    lookup.report(args)
    answer = lookup.answer
    mirrors = image_mirrors(args, lookup.inputs.found, is_here=True)
    check = check_answer(args, answer, mirrors)
    if check.other_way:
        report(check.other_way)
    if args.output == "table":
        print(_table(check))
    else:
        document = _document(answer, check)
        print(render_document(document, args.output))
    report_failed_plugins(lookup)
    return code_for_check(answer, check)


def _table(check: RegistryCheck) -> Lines:
    rows = fitting_table(("USERNAME", "KEY", "SOURCE", "REGISTRY RESPONSE"), list(map(_row, check.attempts)))
    head = (
        style(line, "bold", _COLOURS[check.verdict]) for line in fold(printable(verdict(check)), rest="  ")
    )
    return Lines("\n".join((*head, "", rows)))


def _row(attempt: "Attempt") -> tuple[str, ...]:
    credential = attempt.credential
    if credential is None:
        return _NOBODY, "-", "-", describe_attempt(attempt)
    return credential.username, credential.key, str(credential.source), describe_attempt(attempt)


def _document(answer: Answer, check: RegistryCheck) -> dict[str, object]:
    return make_document(
        "ImagePullCheck",
        image=answer.image,
        name=answer.name,
        **check_document(check),
        failures=failures_document(answer.kubelet_failures),
        missing=missing_documents(answer.missing),
    )
