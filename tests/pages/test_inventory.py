"""Every block of every page is accounted for: a test runs it, a reader takes it, or it says here why not.

Generated pages come from the program itself. YAML, JSON and TOML are read in ``test_documents.py``, whatever the page;
every command is parsed in ``test_commands.py``, those of the exceptions too.
"""

from collections import Counter
from pathlib import Path

import pytest

from support.pages import Block, all_blocks, page_names, written_text

TESTS = Path(__file__).resolve().parents[1]
# Languages of which every block is read.
READ = ("json", "toml", "yaml")
# The tests that run the blocks of a page in a language, and how many these are: a new block needs a test of its own.
ACCOUNTS = {
    ("README.md", "python"): (1, "test_front_door.py"),
    ("README.md", "sh"): (4, "test_front_door.py"),
    ("docs/agent.md", "sh"): (3, "integration/agent/test_page.py"),
    ("docs/agent-protocol.md", "console"): (15, "integration/agent/test_page_protocol.py"),
    ("docs/architecture.md", "text"): (2, "test_layers.py"),
    ("docs/bridges.md", "sh"): (4, "integration/agent/test_page.py"),
    ("docs/cannot-pull.md", "console"): (22, "integration/workloads/test_page_cannot_pull.py"),
    ("docs/cannot-pull.md", "sh"): (1, "integration/workloads/test_page_cannot_pull.py"),
    ("docs/cannot-pull.md", "text"): (19, "integration/workloads/test_page_cannot_pull.py"),
    ("docs/clusters.md", "console"): (2, "pages/test_clusters.py"),
    ("docs/clusters.md", "python"): (1, "pages/test_clusters.py"),
    ("docs/container.md", "sh"): (2, "e2e/test_image.py"),
    ("docs/doctor.md", "console"): (2, "integration/doctor/test_page.py"),
    ("docs/how-the-kubelet-decides.md", "sh"): (24, "integration/test_explanations.py"),
    ("docs/how-the-kubelet-decides.md", "text"): (22, "integration/test_explanations.py"),
    ("docs/kit.md", "console"): (5, "pages/test_kit.py"),
    ("docs/kit.md", "python"): (1, "pages/test_kit.py"),
    ("docs/kit.md", "sh"): (1, "pages/test_kit.py"),
    ("docs/kit.md", "text"): (1, "pages/test_kit.py"),
    ("docs/kubernetes.md", "sh"): (4, "integration/deploy/test_page_kubernetes.py"),
    ("docs/library.md", "pycon"): (1, "integration/test_library.py"),
    ("docs/library.md", "python"): (4, "integration/test_library.py"),
    ("docs/lint.md", "diff"): (1, "integration/test_cli_lint.py"),
    ("docs/lint.md", "sh"): (1, "pages/test_plugins.py"),
    ("docs/lint.md", "text"): (1, "integration/test_cli_lint.py"),
    ("docs/metrics.md", "python"): (3, "pages/test_pulls.py"),
    ("docs/metrics.md", "sh"): (1, "integration/agent/test_metrics.py"),
    ("docs/plugins/README.md", "sh"): (2, "pages/test_plugins.py"),
    ("docs/plugins/federation.md", "console"): (1, "integration/test_cli_lint_federation.py"),
    # It says itself which blocks others run.
    ("docs/plugins/federation.md", "sh"): (15, "integration/plugins/test_federation_page.py"),
    ("docs/pulls.md", "python"): (2, "pages/test_pulls.py"),
    ("docs/pulls.md", "sh"): (2, "pages/test_pulls.py"),
    ("docs/records.md", "python"): (1, "pages/test_pulls.py"),
    ("docs/records.md", "sh"): (1, "pages/test_pulls.py"),
    ("docs/records.md", "text"): (1, "pages/test_pulls.py"),
    ("docs/sdk.md", "python"): (5, "test_docs.py"),
    ("docs/sdk.md", "text"): (1, "test_docs.py"),
    ("docs/tutorial.md", "sh"): (12, "integration/test_tutorial.py"),
    ("docs/tutorial.md", "text"): (9, "integration/test_tutorial.py"),
}
INSTALLS = "installs keyferry from an index of packages; the step 'pages' of make release-check runs it"
ON_A_CLUSTER = (
    "needs a cluster with nodes; what is applied is rendered and compared in test_page_kubernetes.py"
)
IN_PODMAN = (
    "needs an engine that may start containers; tests/e2e/test_image.py starts the image in containerd"
)
# Blocks that no test runs, by page and the words that they begin with, and why not.
EXCEPTIONS = {
    ("README.md", "make demo  "): INSTALLS,
    ("README.md", "python3 -m venv"): INSTALLS,
    ("docs/architecture.md", "images     config →"): "a picture of words",
    ("docs/container.md", "sudo install -d -o 65532"): IN_PODMAN,
    ("docs/container.md", "sudo podman run --rm"): IN_PODMAN,
    ("docs/index.md", "python3 -m venv"): INSTALLS,
    ("docs/kubernetes.md", "kubectl diff -k"): ON_A_CLUSTER,
    ("docs/kubernetes.md", "kubectl apply -k"): ON_A_CLUSTER,
    ("docs/plugins/README.md", "keyferry plugin test /usr"): "needs an account of AWS, a node and a cluster",
    ("docs/tutorial.md", "python3 -m venv"): INSTALLS,
}


def exceptions_for(block: Block) -> list[tuple[str, str]]:
    return [each for each in EXCEPTIONS if each[0] == block.page and block.text.startswith(each[1])]


def run_blocks() -> Counter[tuple[str, str]]:
    """How many blocks of a page in a language have to be run."""
    return Counter(
        (block.page, block.language)
        for block in all_blocks()
        if block.language not in READ and not exceptions_for(block)
    )


def test_every_block_is_accounted_for() -> None:
    """A page and language that is missing, or has another number of blocks than its tests run, is told by name."""
    assert run_blocks() == {key: count for key, (count, _) in ACCOUNTS.items()}


@pytest.mark.parametrize(("page", "start"), EXCEPTIONS)
def test_an_exception_is_for_one_block(page: str, start: str) -> None:
    """It ends with its block."""
    found = [block for block in all_blocks() if (page, start) in exceptions_for(block)]
    assert len(found) == 1
    assert found[0].language not in READ


@pytest.mark.parametrize(
    ("page", "test"), sorted({(page, test) for (page, _), (_, test) in ACCOUNTS.items()})
)
def test_the_tests_of_a_page_read_it(page: str, test: str) -> None:
    """They name it."""
    text = (TESTS / test).read_text(encoding="utf-8")
    assert any(name in text for name in (page, Path(page).name, f'"{Path(page).stem}"'))


def test_every_fence_is_a_block_with_a_language() -> None:
    """So that none is overlooked."""
    fences = {
        page: sum(line.strip().startswith("```") for line in written_text(page).splitlines())
        for page in page_names()
    }
    found = Counter(block.page for block in all_blocks())
    assert {page: count for page, count in fences.items() if count} == {
        page: 2 * count for page, count in found.items()
    }
    assert [block.place for block in all_blocks() if not block.language] == []
