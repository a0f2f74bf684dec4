"""The order of the tests."""

from __future__ import annotations

import pytest

#: Files that take long go first, so that no worker is left with one of them while the others are done. Neighbours are
#: about different models, so that two workers do not compile the same at the same time.
LONGEST = (
    "test_relational_exactness.py",
    "test_pyclone_exactness.py",
    "test_joint.py",
    "test_relational_columns.py",
    "test_column_block.py",
    "test_checking.py",
    "test_row_samplers.py",
    "test_sampling.py",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    place = {name: i for i, name in enumerate(LONGEST)}
    items.sort(key=lambda item: place.get(item.path.name, len(LONGEST)))
