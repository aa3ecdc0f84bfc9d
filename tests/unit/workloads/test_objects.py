"""Files with one document or many."""

from __future__ import annotations

from pathlib import Path

import pytest

from keyferry.errors import EnvironmentProblem
from keyferry.workloads.objects import ObjectKind, read_objects


@pytest.mark.parametrize("lines", [0, 1, 40])
def test_an_error_has_its_line_in_the_whole_file(tmp_path: Path, lines: int) -> None:
    file = tmp_path / "objects.yaml"
    file.write_text("kind: Pod\n" + "# a line\n" * lines + "---\nkind: Secret\ndata: [\n")
    with pytest.raises(EnvironmentProblem, match=rf"objects\.yaml: line {lines + 5}\b"):
        list(read_objects(str(file)))


def test_every_document_of_many_is_read(tmp_path: Path) -> None:
    file = tmp_path / "objects.yaml"
    file.write_text("---\n" * 3 + "kind: Pod\n" + "---\nkind: Secret\n" * 500)
    kinds = [each.kind for each in read_objects(str(file))]
    assert kinds == [ObjectKind.POD, *[ObjectKind.SECRET] * 500]
