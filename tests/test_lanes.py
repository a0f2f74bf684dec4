"""Eight numbers at a time: every operation does what NumPy does with eight numbers."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pgfa import lanes
from pgfa._compile import compiled
from pgfa.vector_math import exp, log

eight = st.lists(st.floats(-1e6, 1e6), min_size=8, max_size=8).map(np.array)
everyday = settings(max_examples=100, deadline=None)


@compiled
def _calculate(a, b, number, floats, marks, wholes):  # type: ignore[no-untyped-def]
    x, y = lanes.load(a, 0), lanes.load(b, 0)
    lanes.store(floats[0], 0, x + y)
    lanes.store(floats[1], 0, number - x)
    lanes.store(floats[2], 0, x * y)
    lanes.store(floats[3], 0, x / 4.0)
    lanes.store(floats[4], 0, lanes.larger(x, y))
    lanes.store(floats[5], 0, lanes.smaller(x, number))
    lanes.store(floats[6], 0, lanes.choose((x < y) | (x == number), x, 0.0))
    lanes.store(floats[7], 0, lanes.shifted(x, number))
    lanes.store(floats[8], 0, lanes.ceil(x))
    for i in range(5):
        marked = (x < y, x <= y, x > number, x >= number, (x < y) & (x > number))[i]
        lanes.store(marks[i], 0, lanes.choose(marked, lanes.spread(1), lanes.spread(0)))
        lanes.store_marked(floats[9 + i], 0, marked, y)
        wholes[i] = lanes.count(marked)
    return lanes.highest(x), lanes.lowest(x), lanes.last(x)


@everyday
@given(eight, eight, st.floats(-1e6, 1e6))
def test_operations_are_those_of_numpy(a, b, number):
    floats, marks, wholes = np.empty((14, 8)), np.empty((5, 8), dtype=np.int64), np.empty(5, dtype=np.int64)
    highest, lowest, last = _calculate(a, b, number, floats, marks, wholes)
    expected = [
        a + b,
        number - a,
        a * b,
        a / 4.0,
        np.maximum(a, b),
        np.minimum(a, number),
        np.where((a < b) | (a == number), a, 0.0),
        np.concatenate([[number], a[:7]]),
        np.ceil(a),
    ]
    np.testing.assert_array_equal(floats[:9], expected)
    assert (highest, lowest, last) == (a.max(), a.min(), a[7])
    for i, marked in enumerate([a < b, a <= b, a > number, a >= number, (a < b) & (a > number)]):
        np.testing.assert_array_equal(marks[i], marked)
        assert wholes[i] == marked.sum()
        np.testing.assert_array_equal(floats[9 + i, : wholes[i]], b[marked])


@compiled
def _add_up(a, running):  # type: ignore[no-untyped-def]
    x = lanes.load(a, 0)
    lanes.store(running, 0, lanes.running_total(x))
    return lanes.total(x)


@everyday
@given(st.lists(st.integers(-(2**40), 2**40), min_size=8, max_size=8))
def test_sums_are_of_all_and_of_the_first_ones(values):
    """Of whole numbers, which do not round."""
    a, running = np.array(values, dtype=float), np.empty(8)
    assert _add_up(a, running) == a.sum()
    np.testing.assert_array_equal(running, np.cumsum(a))


@compiled
def _handle_wholes(a, first, floats, out):  # type: ignore[no-untyped-def]
    places = lanes.places(first)
    lanes.store(out[0], 0, places + lanes.load(a, 0))
    lanes.store(out[1], 0, places - 3)
    lanes.store(out[2], 0, lanes.load(a, 0) ^ 1)
    lanes.store(out[3], 0, (lanes.load(a, 0) << 4) >> 2)
    lanes.store(out[4], 0, lanes.load(a, 0) & 6)
    lanes.store(out[5], 0, lanes.choose(places < 12, places, 0))
    lanes.store(floats, 0, lanes.gather(floats, lanes.load(a, 0)))


@everyday
@given(st.lists(st.integers(0, 19), min_size=8, max_size=8), st.integers(-5, 20))
def test_whole_numbers(values, first):
    a, floats, out = np.array(values), np.arange(20) + 0.5, np.empty((6, 8), dtype=np.int64)
    _handle_wholes(a, first, floats, out)
    places = first + np.arange(8)
    np.testing.assert_array_equal(out, [places + a, places - 3, a ^ 1, a << 2, a & 6, np.where(places < 12, places, 0)])
    np.testing.assert_array_equal(floats[:8], a + 0.5)


@compiled
def _exponentials(a, out, one_by_one):  # type: ignore[no-untyped-def]
    for i in range(0, a.size, 8):
        lanes.store(out[0], i, exp(lanes.load(a, i)))
        lanes.store(out[1], i, log(1.0 + lanes.load(out[0], i)))
    for i in range(a.size):
        one_by_one[0, i] = exp(a[i])
        one_by_one[1, i] = log(1.0 + one_by_one[0, i])


def test_exponentials_and_logarithms_are_those_of_single_numbers():
    a = np.concatenate([np.linspace(-720.0, 700.0, 2041), [-np.inf, 0.0, -708.0, -708.1, 1e-300, -1e-300, -1e300]])
    out, one_by_one = np.empty((2, a.size)), np.empty((2, a.size))
    _exponentials(a, out, one_by_one)
    np.testing.assert_array_equal(out, one_by_one)
    np.testing.assert_allclose(out[0][a > -708.0], np.exp(a[a > -708.0]), rtol=3e-16)
    np.testing.assert_allclose(out[1], np.log1p(np.exp(np.maximum(a, -800.0))), rtol=4e-16, atol=3e-16)
    assert np.all(out[0][a < -708.0] == 0.0)


def test_arrays_that_are_not_contiguous_are_refused():
    @compiled
    def read(a):  # type: ignore[no-untyped-def]
        return lanes.total(lanes.load(a, 0))

    with pytest.raises(Exception, match="contiguous"):
        read(np.zeros((20, 20))[:, 0])


def test_bounds_are_checked_where_numba_is_told_to(tmp_path):
    """Without this `make test-all` would not see vectors that reach beyond an array."""
    program = (
        "import numpy as np\nfrom pgfa import lanes\nfrom pgfa._compile import compiled\n"
        "@compiled\ndef write(a, first):\n    lanes.store(a, first, lanes.spread(1.0))\n"
        "write(np.zeros(24), 16)\ntry:\n    write(np.zeros(24), 17)\nexcept IndexError as error:\n    print(error)\n"
    )
    (tmp_path / "program.py").write_text(program)
    environment = os.environ | {"NUMBA_BOUNDSCHECK": "1", "NUMBA_CACHE_DIR": str(tmp_path)}
    command = [sys.executable, str(tmp_path / "program.py")]
    run = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert "beyond the end" in run.stdout


@pytest.mark.parametrize("size", [1, 7, 8, 9, 20, 40])
def test_padded_arrays_hold_whole_vectors_from_any_place(size):
    assert lanes.padded(size) % lanes.LANES == 0
    assert lanes.padded(size) >= size + lanes.LANES
