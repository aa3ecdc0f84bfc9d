"""Can this image be pulled with what a kubelet would have? Yes or no."""

from keyferry._core.secrets import printable
from keyferry.cli.frame.image_lookup import (
    add_image_and_output_arguments,
    add_lookup_arguments,
    look_up_image,
)
from keyferry.cli.frame.registry_arguments import add_registry_arguments, check_answer, code_for_check
from keyferry.explain.document import failures_document
from keyferry.explain.registry import PullVerdict, RegistryCheck, check_document, describe_attempt, verdict
from keyferry.images.answer import Answer
from keyferry.images.missing import missing_documents
from keyferry.show.documents import make_document, render_document
from keyferry.show.report import report
from keyferry.show.tables import table
from keyferry.show.writer import Lines, style

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse

    from keyferry.pulls.trial import Attempt

DESCRIPTION = """\
Can this image be pulled? Finds the credentials a kubelet would try and asks the registry, with each
of them, for the head of the image's manifest. Nothing is downloaded.

Exit code 0 means yes, 1 no (there is no such image), 5 that the registry refused every credential,
4 that a plugin failed and left the kubelet without a credential, 124 that something took too long. 6 means
that nobody can tell: the registry cannot be reached or gave no answer to go by, something was not given
that may hold another credential, such as the pod, or containerd has a mirror, which is not asked."""

EXAMPLES = """\
examples:
  keyferry can-pull 123456789012.dkr.ecr.eu-west-1.amazonaws.com/team/app:v1
  keyferry can-pull registry.example/app:v1 --pod pod.yaml --secret secret.yaml
  keyferry can-pull registry.example/app:v1 --ca-file /etc/ssl/private-ca.pem -o json
  keyferry can-pull localhost:5000/app && echo yes"""

FORMATS = ("table", "json", "yaml")
_NOBODY = "(anonymous)"
_COLOURS = {PullVerdict.YES: "green", PullVerdict.NO: "red", PullVerdict.UNKNOWN: "yellow"}


def add_arguments(parser: "argparse.ArgumentParser") -> None:
    """The options of ``keyferry can-pull``."""
    add_image_and_output_arguments(parser, FORMATS)
    add_registry_arguments(parser)
    add_lookup_arguments(parser)


def run(args: "argparse.Namespace") -> int:
    """Print the answer and what the registry said to each credential."""
    lookup = look_up_image(args)
    lookup.report()
    answer = lookup.answer
    check = check_answer(args, answer)
    if check.mirrors is not None:
        report(str(check.mirrors))
    if args.output == "table":
        print(_table(check))
    else:
        document = _document(answer, check)
        print(render_document(document, args.output))
    return code_for_check(answer, check)


def _table(check: RegistryCheck) -> Lines:
    rows = table(("USERNAME", "KEY", "SOURCE", "THE REGISTRY SAYS"), map(_row, check.attempts))
    return Lines(f"{style(printable(verdict(check)), 'bold', _COLOURS[check.verdict])}\n\n{rows}")


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
