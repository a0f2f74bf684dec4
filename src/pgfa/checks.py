"""Checks of what users hand in. Every message names the argument and says what was expected."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray


def positive(name: str, value: Any) -> float:
    """A finite number above zero."""
    number = real(name, value)
    if number <= 0.0:
        raise ValueError(f"{name} must be a positive finite number, got {value!r}")
    return number


def real(name: str, value: Any) -> float:
    """A finite number."""
    if isinstance(value, (bool, np.bool_, str, bytes)) or np.ndim(value) != 0:
        raise ValueError(f"{name} must be a finite number, got {value!r}")
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise ValueError(f"{name} must be a finite number, got {value!r}") from None
    if not np.isfinite(number):
        raise ValueError(f"{name} must be a finite number, got {value!r}")
    return number


def non_negative(name: str, value: Any) -> float:
    """A finite number, zero or above."""
    number = real(name, value)
    if number < 0.0:
        raise ValueError(f"{name} must be zero or a positive finite number, got {value!r}")
    return number


def unit_interval(name: str, value: Any) -> float:
    """A number between zero and one, both included."""
    number = real(name, value)
    if not 0.0 <= number <= 1.0:
        raise ValueError(f"{name} must lie between 0 and 1, got {value!r}")
    return number


def whole(name: str, value: Any, at_least: int) -> int:
    """A whole number not below `at_least`."""
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (int, np.integer)) or value < at_least:
        raise ValueError(f"{name} must be a whole number of at least {at_least}, got {value!r}")
    return int(value)


def one_of(name: str, value: Any, choices: tuple[str, ...]) -> str:
    """One of a few words."""
    if not isinstance(value, str) or value not in choices:
        raise ValueError(f"{name} must be one of {', '.join(map(repr, choices))}, got {value!r}")
    return value


def of_kind(name: str, value: Any, kind: type) -> Any:
    """A model, prior or sampler; data in the place of a model are shown by their size."""
    if isinstance(value, kind):
        return value
    advice = ""
    if hasattr(value, "shape"):
        got = f"{type(value).__name__} of shape {value.shape}"
    else:
        got = repr(value) if len(repr(value)) <= 80 else f"{type(value).__name__} {repr(value)[:60]}..."
    if name == "model" and (hasattr(value, "shape") or isinstance(value, (list, tuple))):
        advice = "; did you mean pgfa.LinearGaussian(X)?"
    raise ValueError(f"{name} must be a {kind.__name__}, got {got}{advice}")


def path(name: str, value: Any) -> Path:
    """A path."""
    if not isinstance(value, (str, os.PathLike)):
        raise ValueError(f"{name} must be the path of a folder, got {value!r}")
    return Path(value)


def draws(name: str, value: Any) -> None:
    """What `pgfa.sample` returns."""
    if not {"posterior", "sample_stats"} <= set(getattr(value, "children", ())):
        got = f"a {type(value).__name__}" if hasattr(value, "children") or hasattr(value, "shape") else repr(value)
        raise ValueError(f"{name} must be the draws that pgfa.sample or pgfa.load returns, got {got}")


def numeric_matrix(name: str, value: Any, *, missing: bool) -> NDArray[np.float64]:
    """A private C-ordered float64 copy of a matrix with at least one row and one column; NaN only where allowed."""
    try:
        matrix = np.asarray(value)
    except ValueError:
        raise ValueError(f"{name} must be a matrix of numbers, got rows of unequal length") from None
    if matrix.ndim != 2:
        raise ValueError(f"{name} must be a matrix (two dimensions), got shape {matrix.shape}")
    if matrix.shape[0] == 0 or matrix.shape[1] == 0:
        raise ValueError(f"{name} must have at least one row and one column, got shape {matrix.shape}")
    if matrix.dtype == object:
        matrix = _numbers_from_objects(name, matrix)
    if matrix.dtype.kind not in "fiub":
        raise ValueError(f"{name} must hold numbers, got values of type {matrix.dtype}")
    matrix = np.array(matrix, dtype=np.float64, order="C")
    _refuse(
        name, np.isinf(matrix), matrix, "a finite number or NaN for a missing entry" if missing else "a finite number"
    )
    if not missing:
        _refuse(name, np.isnan(matrix), matrix, "a finite number")
    return matrix


def _numbers_from_objects(name: str, matrix: NDArray[Any]) -> NDArray[np.float64]:
    """Tables with mixed column types arrive as objects: take numbers and missing values, guess nothing."""
    numbers = np.empty(matrix.shape)
    for (n, d), entry in np.ndenumerate(matrix):
        if entry is None or type(entry).__name__ in ("NAType", "NaTType"):
            numbers[n, d] = np.nan
        elif isinstance(entry, (int, float, np.integer, np.floating)):
            numbers[n, d] = entry
        else:
            raise ValueError(f"{name} must hold numbers: row {n}, column {d} is {entry!r}")
    return numbers


def _refuse(name: str, wrong: NDArray[np.bool_], matrix: NDArray[Any], expected: str) -> None:
    if wrong.any():
        n, d = np.argwhere(wrong)[0]
        raise ValueError(f"{name} has {matrix[n, d]} in row {n}, column {d}: expected {expected}")


def binary_matrix(name: str, value: Any, num_rows: int) -> NDArray[np.uint8]:
    """A private C-ordered uint8 copy of a matrix of zeros and ones with `num_rows` rows."""
    matrix = np.asarray(value)
    if matrix.ndim != 2 or matrix.shape[0] != num_rows:
        raise ValueError(
            f"{name} must be a binary matrix with {num_rows} rows, one for each row of the data, "
            f"got shape {matrix.shape}"
        )
    if matrix.dtype.kind not in "fiub":
        raise ValueError(f"{name} must hold zeros and ones, got values of type {matrix.dtype}")
    wrong = (matrix != 0) & (matrix != 1)
    _refuse(name, wrong, matrix, "0 or 1")
    return np.array(matrix, dtype=np.uint8, order="C")


def array_of_shape(name: str, value: Any, shape: tuple[int, ...]) -> NDArray[np.float64]:
    """A private C-ordered float64 copy of a finite array of exactly this shape."""
    array = np.asarray(value)
    if array.shape != shape:
        raise ValueError(f"{name} must have shape {shape}, got {array.shape}")
    if array.dtype.kind not in "fiub":
        raise ValueError(f"{name} must hold numbers, got values of type {array.dtype}")
    array = np.array(array, dtype=np.float64, order="C")
    if not np.isfinite(array).all():
        raise ValueError(f"{name} must hold finite numbers only")
    return array


def generator(name: str, value: Any) -> np.random.Generator:
    """A random generator from a seed, a SeedSequence or a Generator."""
    if isinstance(value, np.random.Generator):
        return value
    if value is None or isinstance(value, np.random.SeedSequence):
        return np.random.default_rng(value)
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (int, np.integer)) or value < 0:
        raise ValueError(f"{name} must be a whole number of at least 0, a SeedSequence or a Generator, got {value!r}")
    return np.random.default_rng(int(value))


def truth(name: str, value: Any) -> bool:
    """True or False, nothing that merely counts as one of them."""
    if not isinstance(value, (bool, np.bool_)):
        raise ValueError(f"{name} must be True or False, got {value!r}")
    return bool(value)


def pair(name: str, value: Any) -> tuple[Any, Any]:
    """Two of something."""
    try:
        first, second = value
    except (TypeError, ValueError):
        raise ValueError(f"{name} must be a pair of numbers, got {value!r}") from None
    return first, second


def gamma_prior(name: str, value: Any) -> tuple[float, float]:
    """Shape and rate of a Gamma distribution."""
    shape, rate = pair(name, value)
    return positive(f"{name}[0] (shape)", shape), positive(f"{name}[1] (rate)", rate)


def normal_prior(name: str, value: Any) -> tuple[float, float]:
    """Mean and precision of a Normal distribution."""
    mean, precision = pair(name, value)
    return real(f"{name}[0] (mean)", mean), positive(f"{name}[1] (precision)", precision)


def distinct(name: str, labels: list[Any]) -> None:
    """Refuse labels that occur twice."""
    seen: dict[Any, int] = {}
    for i, label in enumerate(labels):
        if label in seen:
            raise ValueError(f"{name} must differ, but {label!r} is at positions {seen[label]} and {i}")
        seen[label] = i
