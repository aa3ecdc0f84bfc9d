"""The answer of a lookup: its result, and the reasons for it."""

from __future__ import annotations

from functools import cached_property

from keyferry.images.result import Failure, LookupOutcome, LookupResult

TYPE_CHECKING = False
if TYPE_CHECKING:
    from keyferry._core.reasons import Reason

__all__ = ["Answer", "Failure", "LookupOutcome"]


class Answer(LookupResult):
    """The result of a lookup: credentials in the order the kubelet would try them, and the reasons.

    *image* is the image as it was given, *name* as it is looked up.
    """

    @cached_property
    def reasons(self) -> tuple[Reason, ...]:
        """The reasons for the answer, for each provider and each credential, as ``explain`` prints them."""
        from keyferry.images.why.reasons import reasons_for
        from keyferry.images.why.traps import traps_for

        return (*reasons_for(self), *traps_for(self))

    def __repr__(self) -> str:
        tried = (f"{credential.username!r} of {credential.source}" for credential in self.credentials)
        parts = (
            ", ".join(tried) or str(self.outcome),
            *(f"{failure.provider} failed" for failure in self.kubelet_failures),
            *(str(each) for each in self.missing),
        )
        return f"<Answer for {self.image!r}: {'; '.join(parts)}>"

    def repeated_at(self, answered_ns: int) -> Answer:
        """Return a copy of this answer, given at another instant."""
        # Not ``replace``, which takes ten times as long: most warm lookups call this method.
        again = object.__new__(Answer)
        fields = self.__dict__.copy()
        fields["answered_ns"] = answered_ns
        fields.pop("reasons", None)
        object.__setattr__(again, "__dict__", fields)
        return again

    def raise_for_failures(self) -> None:
        """Raise the error of the first provider that failed, if any."""
        for provision in self.provisions:
            if provision.error is not None:
                raise provision.error
