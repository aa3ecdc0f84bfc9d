"""The answer to the whole question: what the look-up comes to, and why."""

from functools import cached_property

from keyferry.images.result import Failure, LookupOutcome, LookupResult

TYPE_CHECKING = False
if TYPE_CHECKING:
    from keyferry._core.reasons import Reason

__all__ = ["Answer", "Failure", "LookupOutcome"]


class Answer(LookupResult):
    """Credentials for an image, in the order the kubelet would try them, how they came about, and why."""

    @cached_property
    def reasons(self) -> "tuple[Reason, ...]":
        """Why: for each provider and each credential, what decided; this is what ``explain`` prints."""
        from keyferry.images.why.reasons import reasons_for
        from keyferry.images.why.traps import traps_for

        return (*reasons_for(self), *traps_for(self))

    def repeated_at(self, answered_ns: int) -> "Answer":
        """The same answer, given at another instant."""
        # By hand: most warm lookups are this, and ``replace`` would take ten times as long.
        again = object.__new__(Answer)
        fields = self.__dict__.copy()
        fields["answered_ns"] = answered_ns
        fields.pop("reasons", None)
        object.__setattr__(again, "__dict__", fields)
        return again

    def raise_for_failures(self) -> None:
        """Raise the first failure, if any; without this call failures are only listed."""
        for provision in self.provisions:
            if provision.error is not None:
                raise provision.error
