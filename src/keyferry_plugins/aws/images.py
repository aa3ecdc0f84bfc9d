"""The registry of an image: its host as Go parses a URL, and the parts of a private ECR host."""

from __future__ import annotations

from keyferry._core.values import Value
from keyferry._net.url import UrlSyntaxError, read_url, split_host_port
from keyferry.sdk import ProvideError

__all__ = ["PUBLIC_HOSTS", "EcrHost", "ImageHost", "parse_ecr_host", "parse_image"]

PUBLIC_HOSTS = ("public.ecr.aws", "ecr-public.aws.com")
_ACCOUNT_DIGITS = 12
_SERVICES = ("dkr.ecr", "dkr-ecr")
_DUAL_STACK_SUFFIXES = ("on.aws", "on.amazonwebservices.com.cn")
_SUFFIXES = (
    "amazonaws.com",
    "amazonaws.com.cn",
    "amazonaws.eu",
    *_DUAL_STACK_SUFFIXES,
    "c2s.ic.gov",
    "sc2s.sgov.gov",
    "cloud.adc-e.uk",
    "csp.hci.ic.gov",
)
_LETTERS_DIGITS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789")
_REGION = _LETTERS_DIGITS.union("-_")


class ImageHost(Value):
    """The host of an image in its original letter case, and its port, if any."""

    name: str
    port: str = ""

    @property
    def key(self) -> str:
        """The key under which the kubelet matches a credential."""
        return f"{self.name}:{self.port}" if self.port else self.name


class EcrHost(Value):
    """The parts of a private registry's host: account, region and kind of endpoint."""

    account: str
    region: str
    is_fips: bool = False
    is_dual_stack: bool = False


def parse_image(image: str) -> ImageHost:
    """Return the host of *image*, which may be a URL; raise ProvideError if Go's parser would reject it."""
    if any(char <= " " or char == "\x7f" for char in image):
        raise ProvideError(f"image {image[:200]!r}: has a blank or a control character")
    try:
        authority = read_url(image if "://" in image else f"https://{image}").host
    except UrlSyntaxError as error:
        why = error.why
    else:
        name, port = split_host_port(authority)
        if name:
            return ImageHost(name[1:-1] if name.startswith("[") else name, port)
        why = "it has no host"
    # Raised outside the handler and without the image, which may contain a password.
    raise ProvideError(f"image: {why}")


def parse_ecr_host(host: str) -> EcrHost | None:
    """Return the parts of a private ECR host, or None for any other host."""
    account, _, rest = host.partition(".")
    if len(account) != _ACCOUNT_DIGITS or not (account.isascii() and account.isdigit()):
        return None
    service = next((service for service in _SERVICES if rest.startswith(service)), "")
    rest = rest.removeprefix(service)
    is_fips = rest.startswith("-fips.")
    region, _, suffix = rest.removeprefix("-fips").removeprefix(".").partition(".")
    is_apart = rest.startswith((".", "-fips."))
    if not service or not is_apart or suffix not in _SUFFIXES or not _is_region(region):
        return None
    return EcrHost(account, region, is_fips, suffix in _DUAL_STACK_SUFFIXES)


def _is_region(region: str) -> bool:
    return bool(region) and region[0] in _LETTERS_DIGITS and _REGION.issuperset(region)
