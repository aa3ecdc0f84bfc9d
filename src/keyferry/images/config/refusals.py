"""All problems of a provider config that stop a kubelet, in its order, without those that follow from others."""

from __future__ import annotations

from enum import StrEnum

from keyferry._core.values import Value, field
from keyferry.errors import Problem
from keyferry.images.config.causes import Causes, explain
from keyferry.images.config.files import ReadConfig
from keyferry.images.config.register import check_bin_dir, check_executables
from keyferry.images.config.validate import kubernetes_validation_text, validate

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


class LoadStage(StrEnum):
    """The stages in which a kubelet loads a config."""

    BIN_DIR = "bin-dir"
    READ = "read"
    VALIDATE = "validate"
    REGISTER = "register"


class Refusals(Value):
    """The problems that stop a kubelet in one of its stages, and its text for them."""

    stage: LoadStage
    problems: tuple[Problem, ...] = ()
    kubernetes_text: str = field(default="", repr=False)  # may quote a whole file


def _is_checked(_: Problem) -> bool:
    return True


def find_refusals(
    config: ReadConfig,
    bin_dir: str | None,
    *,
    service_account_tokens: bool = True,
    is_checked: Callable[[Problem], bool] = _is_checked,
) -> Iterator[Refusals]:
    """Yield the problems of each stage, in the kubelet's order; the kubelet stops at the first stage with problems.

    Without *bin_dir*, plugins are not checked. *is_checked* returns whether the kubelet's version makes the
    check that found a problem.
    """
    missing = check_bin_dir(bin_dir) if bin_dir is not None else None
    yield (
        Refusals(LoadStage.BIN_DIR, (missing,), missing.kubernetes_text)
        if missing
        else Refusals(LoadStage.BIN_DIR)
    )
    read = tuple(explain(problem) for problem in config.problems)
    yield Refusals(LoadStage.READ, read, config.kubernetes_text)
    # A file that cannot be read must not also be reported as a config without providers.
    found = (
        validate(config, service_account_tokens=service_account_tokens)
        if config.providers or not read
        else ()
    )
    invalid = tuple(Causes(read).remove_from(each for each in found if is_checked(each)))
    yield Refusals(LoadStage.VALIDATE, invalid, kubernetes_validation_text(invalid) if invalid else "")
    if bin_dir is not None and missing is None:
        unusable = (problem for problem in check_executables(config, bin_dir) if problem is not None)
        kept = tuple(Causes((*read, *invalid)).remove_from(unusable))
        yield Refusals(LoadStage.REGISTER, kept, kept[0].kubernetes_text if kept else "")
