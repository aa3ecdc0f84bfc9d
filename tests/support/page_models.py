"""Models of the agent's page: a usual node, one that has just started, and a crowded one; the same at every call."""

from random import Random

from keyferry._core.values import replace
from keyferry.page.model import (
    CallerRow,
    DecisionRow,
    ExplainedPull,
    ExplainedStep,
    Health,
    HealthProblem,
    LatencyBucket,
    Life,
    PageModel,
    ProviderCard,
    ProviderState,
    ReloadRow,
    StepState,
)

__all__ = ["NOW", "crowded_model", "empty_model", "explanation", "long_names", "usual_model"]

NOW = 1_790_000_000.0
_HOUR = 3600
_LIMITS = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, None)
ECR = "123456789012.dkr.ecr.eu-west-1.amazonaws.com"


def latency(*runs: int) -> tuple[LatencyBucket, ...]:
    return tuple(LatencyBucket(limit, number) for limit, number in zip(_LIMITS, runs, strict=True))


def life(identifier: int, provider: str, scope: str, age: float, length: float, account: str = "") -> Life:
    """An answer that was got *age* hours ago and lives for *length* hours, renewed ahead unless it has an account."""
    got = NOW - age * _HOUR
    start, end = got + 0.5 * length * _HOUR, got + 0.9 * length * _HOUR
    planned = (
        None
        if account
        else max(NOW + 60 + 37 * (identifier % 29), got + (0.55 + identifier % 7 * 0.05) * length * _HOUR)
    )
    is_renewed = planned is not None
    return Life(
        identifier,
        provider,
        scope,
        account,
        got,
        got + length * _HOUR,
        start if is_renewed else None,
        end if is_renewed else None,
        planned,
        0,
        1 + identifier % 2,
    )


def usual_model() -> PageModel:
    """A node with four providers, one of which cannot renew what it has."""
    return PageModel(
        version="0.1.0",
        node="ip-10-0-3-17.eu-west-1.compute.internal",
        now=NOW,
        started=NOW - 31 * _HOUR,
        socket="/run/keyferry/agent.sock",
        health=Health(
            is_well=False,
            headline="1 thing is not well: acr-credential-provider cannot renew its answers",
            since=NOW - 540,
            problems=(
                HealthProblem(
                    "acr-credential-provider: the renewal for team.azurecr.io fails since 9 min; "
                    "the answer is valid for 51 min more",
                    "check that the node can reach login.microsoftonline.com: keyferry doctor --online",
                    "/providers/acr-credential-provider",
                ),
            ),
        ),
        providers=_usual_providers(),
        lives=_usual_lives(),
        lives_total=11,
        decisions=_usual_decisions(),
        decisions_total=48_213,
        reloads=_usual_reloads(),
        callers=(
            CallerRow(0, "root", "/usr/bin/kubelet", 41_872, 0, NOW - 4, f"{ECR}/shop/checkout:2026.11.2"),
            CallerRow(1000, "ci", "/usr/bin/skopeo", 6_201, 0, NOW - 95, "team.azurecr.io/build/base:12"),
            CallerRow(
                998,
                "buildkit",
                "/usr/bin/docker-credential-keyferry",
                127,
                0,
                NOW - 3_900,
                "ghcr.io/acme/tools:v3",
            ),
            CallerRow(65534, "", "", 13, 13, NOW - 7_260, ""),
        ),
        accounts=("payments/settlement", "payments/ledger", "shop/checkout", "shop/search"),
        settings=(
            ("socket", "/run/keyferry/agent.sock", "default"),
            ("providerConfig", "/etc/kubernetes/credential-providers.yaml", "the node's kubelet"),
            ("binDir", "/opt/kubelet/plugins", "the node's kubelet"),
            ("refreshAhead", "true", "default"),
            ("page", "127.0.0.1:9180", "--page"),
        ),
    )


def _usual_providers() -> tuple[ProviderCard, ...]:
    return (
        ProviderCard(
            "ecr-credential-provider",
            ProviderState.WELL,
            (
                "*.dkr.ecr.*.amazonaws.com",
                "*.dkr.ecr.*.amazonaws.com.cn",
                "public.ecr.aws",
                "*.dkr-ecr.*.on.aws",
            ),
            "/opt/kubelet/plugins/ecr-credential-provider",
            is_for_accounts=False,
            cached=4,
            hits=39_104,
            runs=71,
            failures=0,
            latency=latency(0, 2, 18, 34, 12, 4, 1, 0, 0),
            last_run=NOW - 2_040,
            next_refresh=NOW + 190,
        ),
        ProviderCard(
            "acr-credential-provider",
            ProviderState.RENEWAL_FAILS,
            ("*.azurecr.io",),
            "/opt/kubelet/plugins/acr-credential-provider",
            is_for_accounts=False,
            cached=2,
            hits=6_418,
            runs=34,
            failures=5,
            latency=latency(0, 0, 1, 6, 14, 5, 2, 1, 5),
            last_run=NOW - 62,
            next_refresh=NOW + 118,
            last_error="the plugin did not finish within 1 min and was ended",
            last_error_at=NOW - 62,
            last_error_image="team.azurecr.io/build/base:12",
            cure="check that the node can reach login.microsoftonline.com: keyferry doctor --online",
        ),
        ProviderCard(
            "keyferry-federate",
            ProviderState.WELL,
            ("registry.payments.example", "registry.shop.example"),
            "/opt/kubelet/plugins/keyferry-federate",
            is_for_accounts=True,
            cached=5,
            hits=2_691,
            runs=212,
            failures=1,
            latency=latency(12, 88, 79, 21, 9, 2, 1, 0, 0),
            last_run=NOW - 340,
            next_refresh=None,
        ),
        ProviderCard(
            "gcr-credential-provider",
            ProviderState.UNUSED,
            ("gcr.io", "*.gcr.io", "*.pkg.dev"),
            "/opt/kubelet/plugins/gcr-credential-provider",
            is_for_accounts=False,
            cached=0,
            hits=0,
            runs=0,
            failures=0,
            latency=latency(*[0] * 9),
            last_run=None,
            next_refresh=None,
        ),
    )


def _usual_lives() -> tuple[Life, ...]:
    ecr, acr, own = "ecr-credential-provider", "acr-credential-provider", "keyferry-federate"
    return (
        life(101, ecr, ECR, 8.2, 12),
        life(102, ecr, "123456789012.dkr.ecr.us-east-1.amazonaws.com", 6.0, 12),
        life(103, ecr, "210987654321.dkr.ecr.eu-west-1.amazonaws.com", 1.1, 12),
        life(104, ecr, "public.ecr.aws", 3.4, 12),
        replace(life(105, acr, "team.azurecr.io", 2.15, 3), failures=5, refresh_at=NOW + 118),
        life(106, acr, "shared.azurecr.io", 0.4, 3),
        life(107, own, "registry.payments.example/settlement", 0.3, 1, "payments/settlement"),
        life(108, own, "registry.payments.example/ledger", 0.6, 1, "payments/ledger"),
        life(109, own, "registry.shop.example/checkout", 0.1, 1, "shop/checkout"),
        life(110, own, "registry.shop.example/search", 0.8, 1, "shop/search"),
        life(111, own, "registry.shop.example/assets", 0.05, 0.5, "shop/checkout"),
    )


def _usual_decisions() -> tuple[DecisionRow, ...]:
    ecr, acr, own = "ecr-credential-provider", "acr-credential-provider", "keyferry-federate"
    base = DecisionRow(
        48_213,
        NOW - 4,
        0,
        "/usr/bin/kubelet",
        f"{ECR}/shop/checkout:2026.11.2",
        "",
        ecr,
        "answered",
        "cache",
        f"{ecr} matches by *.dkr.ecr.*.amazonaws.com; cached for 3 h 48 min more",
        0.1,
    )
    by_acr = replace(base, provider=acr, image="team.azurecr.io/build/base:12")
    anonymous = replace(base, provider="", outcome="no-match", source="")
    rows = (
        base,
        replace(by_acr, at=NOW - 62, reason="the renewal failed; the cached answer is valid for 51 min more"),
        replace(
            by_acr, at=NOW - 95, uid=1000, program="/usr/bin/skopeo", reason=f"{acr} matches by *.azurecr.io"
        ),
        replace(
            base,
            at=NOW - 340,
            image="registry.shop.example/assets:9",
            account="shop/checkout",
            provider=own,
            source="run",
            reason="the plugin was run with the token of shop/checkout",
            milliseconds=118.4,
        ),
        replace(
            anonymous,
            at=NOW - 902,
            image="docker.io/library/nginx:1.27",
            reason="no provider matches docker.io: the pull is anonymous",
        ),
        replace(
            anonymous,
            at=NOW - 1210,
            uid=998,
            program="/usr/bin/docker-credential-keyferry",
            image="ghcr.io/acme/tools:v3",
            reason="no provider matches ghcr.io: the pull is anonymous",
        ),
        replace(
            base,
            at=NOW - 2040,
            image="210987654321.dkr.ecr.eu-west-1.amazonaws.com/etl:4",
            source="run",
            reason="nothing was cached; the plugin was run",
            milliseconds=412.0,
        ),
        replace(
            anonymous,
            at=NOW - 7260,
            uid=65534,
            program="",
            image="registry.payments.example/ledger:7",
            outcome="refused",
            reason="user 65534 has no rule in the agent's config",
        ),
        replace(
            by_acr,
            at=NOW - 7300,
            uid=1000,
            program="/usr/bin/skopeo",
            image="team.azurecr.io/build/base:11",
            outcome="failed",
            source="run",
            reason="the plugin did not finish within 1 min and was ended",
            milliseconds=60_000.0,
        ),
    )
    return tuple(replace(row, identifier=48_213 - at) for at, row in enumerate(rows))


def _usual_reloads() -> tuple[ReloadRow, ...]:
    return (
        ReloadRow(NOW - 5_400, is_applied=True, problems=(), notes=("2 providers kept their cache",)),
        ReloadRow(
            NOW - 5_520,
            is_applied=False,
            problems=(
                "/etc/kubernetes/credential-providers.yaml:31:5: providers[3].matchImages[0]: "
                "port '99999' is not in 1-65535",
            ),
            notes=(),
        ),
        ReloadRow(NOW - 31 * _HOUR, is_applied=True, problems=(), notes=()),
    )


def empty_model() -> PageModel:
    """An agent that has just started, without providers."""
    return replace(
        usual_model(),
        started=NOW - 3,
        health=Health(is_well=True, headline="All is well", since=NOW - 3),
        providers=(),
        lives=(),
        lives_total=0,
        decisions=(),
        decisions_total=0,
        reloads=(),
        callers=(),
        accounts=(),
    )


def long_names() -> tuple[str, ...]:
    """Names of 250 characters: without a break, from right to left, of emoji, and of words."""
    return (
        "x" * 250,
        ("مزود-الاعتماد" * 20)[:250],
        "\N{ROCKET}\N{PACKAGE}" * 125,
        ("very-long-but-ordinary-provider-name-" * 7)[:250],
    )


def crowded_model(providers: int = 200, lives: int = 10_000) -> PageModel:
    """A node with so many providers and answers, some with names of 250 characters."""
    random = Random(7)  # noqa: S311 - made-up ages
    odd = dict(enumerate(long_names()))
    names = [odd.get(at, f"provider-{at:03}") for at in range(providers)]
    usual = usual_model()
    states = list(ProviderState)
    cards = tuple(
        replace(
            usual.providers[at % 3],
            name=name,
            state=states[at % 4],
            patterns=tuple(f"{name[:200]}.registry-{each}.example" for each in range(1 + at % 9)),
            cached=lives // providers,
            last_error="the plugin exited with status 1" if at % 4 in (2, 3) else "",
            cure="run the plugin by hand: keyferry plugin test" if at % 4 in (2, 3) else "",
        )
        for at, name in enumerate(names)
    )
    answers = tuple(
        life(
            at + 1,
            names[at % providers],
            f"{'deep/' * 45 if at % 97 == 0 else ''}registry-{at % 9}.example/team-{at % 53}/app-{at}",
            random.uniform(0, 10),
            random.choice((12, 12, 12, 24)),
            f"team-{at % 53}/app" if at % 7 == 0 else "",
        )
        for at in range(lives)
    )
    rows = tuple(
        replace(
            usual.decisions[at % len(usual.decisions)],
            identifier=9_000 - at,
            at=NOW - at * 1.7,
            image=odd.get(at, f"registry-{at % 9}.example/team-{at % 53}/app-{at}:v1"),
            program=odd.get(at - 1, "/usr/bin/kubelet"),
            account=odd.get(at - 2, ""),
        )
        for at in range(500)
    )
    broken = [each for each in cards if each.state in (ProviderState.FAILING, ProviderState.RENEWAL_FAILS)]
    return replace(
        usual,
        node=odd[3],
        health=Health(
            is_well=False,
            headline=f"{len(broken)} things are not well",
            since=NOW - 86_400,
            problems=tuple(
                HealthProblem(f"{each.name}: the plugin exited with status 1", each.cure, "/providers")
                for each in broken
            ),
        ),
        providers=cards,
        lives=answers,
        lives_total=lives,
        decisions=rows,
        decisions_total=1_204_822,
        reloads=tuple(
            ReloadRow(
                NOW - at * 600,
                is_applied=at % 3 > 0,
                problems=(long_names()[at % 4],) if at % 3 == 0 else (),
                notes=(),
            )
            for at in range(50)
        ),
        callers=tuple(
            CallerRow(
                at,
                odd.get(at, f"user{at}"),
                odd.get(at, "/usr/bin/crane"),
                10 * at,
                at % 4,
                NOW - at,
                odd.get(at, "r.example/a"),
            )
            for at in range(300)
        ),
        accounts=tuple(f"team-{at}/app" for at in range(53)),
    )


def explanation(
    image: str = f"{ECR}/shop/checkout:2026.11.2", account: str = "shop/checkout"
) -> ExplainedPull:
    """An explanation in six steps."""
    secrets = (
        "The agent does not know the pull secrets of a pod; the kubelet tries them first",
        "Those of the service account: kubectl get serviceaccount checkout -n shop -o yaml",
    )
    providers = (
        "ecr-credential-provider: matches by '*.dkr.ecr.*.amazonaws.com'",
        "ecr-credential-provider: cached for 3 h 48 min more",
        "3 providers do not match the image",
    )
    unread = "The agent does not read the docker config of the node; the kubelet tries it second"
    verdict = "Would be answered from the cache, with 1 credential, for 3 h 48 min more"
    return ExplainedPull(
        image,
        account,
        verdict,
        (
            ExplainedStep("secrets", "Pull secrets", StepState.UNKNOWN, secrets),
            ExplainedStep("node-config", "Node config", StepState.UNKNOWN, (unread,)),
            ExplainedStep("providers", "Providers", StepState.USED, providers),
            ExplainedStep("keys", "Keys", StepState.USED, (f"'{ECR}' matches the image",)),
            ExplainedStep("order", "Order", StepState.PASSED, ("1 credential: there is nothing to order",)),
            ExplainedStep("verdict", "Verdict", StepState.USED, (verdict,)),
        ),
        (f"keyferry can-pull {image}",),
        f"keyferry explain {image} --service-account {account}",
    )
