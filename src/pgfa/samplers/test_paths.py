"""Test paths: what a particle assumes of the features that it has not decided yet."""

from __future__ import annotations

from pgfa import checks
from pgfa._compile import compiled

ZEROS, ONES, RANDOM, UNCONDITIONAL, CONDITIONAL, TWO_STAGE = range(6)

#: The names users give, in the order of the codes above.
NAMES = ("zeros", "ones", "random", "unconditional", "conditional", "two-stage")

#: These look at the present row, which spoils the invariance of the update: for warm-up only.
WARMUP_ONLY = ("conditional", "two-stage")


def check_test_path(test_path: str) -> str:
    """One of the six names."""
    return checks.one_of("test_path", test_path, NAMES)


def code_of(test_path: str, *, warmup: bool) -> int:
    """The code of a test path; outside warm-up zeros stand in for those that are not valid there."""
    return ZEROS if test_path in WARMUP_ONLY and not warmup else NAMES.index(test_path)


@compiled(allocates=False)
def has_pilot(code):  # type: ignore[no-untyped-def]
    """Whether a pilot run without the present row draws the test path."""
    return code == UNCONDITIONAL or code == TWO_STAGE


@compiled(allocates=False)
def fill_test_path(code, present, num_columns, rng, test_path):  # type: ignore[no-untyped-def]
    """Write the test path of each column in turn; where a pilot run will draw it, the one the pilot starts from."""
    for t in range(num_columns):
        if code == ONES:
            test_path[t] = 1
        elif code == RANDOM:
            test_path[t] = 1 if rng.random() < 0.5 else 0
        elif code == CONDITIONAL or code == TWO_STAGE:
            test_path[t] = present[t]
        else:
            test_path[t] = 0
