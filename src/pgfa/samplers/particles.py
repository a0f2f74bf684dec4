"""The frame that both particle samplers share: test path, pilot run, conditional run, new row."""

from __future__ import annotations

from typing import Any

from pgfa._compile import compiled
from pgfa.rows import follow
from pgfa.samplers.test_paths import fill_test_path, has_pilot


def run_filter(
    kernel: Any,
    rows: Any,
    n: int,
    z: Any,
    log_odds: Any,
    columns: Any,
    num_columns: int,
    power: float,
    conditional: bool,
    rng: Any,
) -> None:
    """Pass over the columns once and write the drawn bits to ``kernel.path``.

    On entry z holds the test path and ``kernel.present`` the present values of the columns; with `conditional` the
    particle that follows those values survives every resampling.
    """
    raise NotImplementedError


def update_row_by_particles(kernel, rows, n, z, log_odds, columns, num_columns, power, rng):  # type: ignore[no-untyped-def]
    """Body of `update_row` for kernels with the fields present, test_path, test_path_code and path."""
    for t in range(num_columns):
        kernel.present[t] = z[columns[t]]
    fill_test_path(kernel.test_path_code, kernel.present, num_columns, rng, kernel.test_path)
    follow(rows, n, columns, num_columns)
    for pilot in range(1 if has_pilot(kernel.test_path_code) else 0, -1, -1):
        for t in range(num_columns):
            z[columns[t]] = kernel.test_path[t]
        run_filter(kernel, rows, n, z, log_odds, columns, num_columns, power, pilot == 0, rng)
        if pilot == 1:
            for t in range(num_columns):
                kernel.test_path[t] = kernel.path[t]
    for t in range(num_columns):
        z[columns[t]] = kernel.path[t]


@compiled(allocates=False, inline=True)
def annealed(share, annealing_power):  # type: ignore[no-untyped-def]
    """The power of the likelihood when this share of the columns is decided; general powers take longer to compute."""
    return share if annealing_power == 1.0 else share**annealing_power


@compiled(allocates=False)
def trace_path(history, num_columns, particle, path):  # type: ignore[no-untyped-def]
    """Follow a particle back to the root; an entry of the history is twice its parent plus its bit."""
    for t in range(num_columns - 1, -1, -1):
        path[t] = history[t, particle] & 1
        particle = history[t, particle] >> 1
