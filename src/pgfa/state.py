"""The state of a chain, and the one place where its columns are added, removed and permuted."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

#: For each parameter that has one value per feature: the axes that run over the features.
FeatureAxes = Mapping[str, tuple[int, ...]]


@dataclass
class State:
    """A feature allocation, its concentration and the parameters of the model.

    Parameters
    ----------
    Z
        Binary matrix of shape (N, K): row n owns feature k where the entry is one.
    alpha
        Concentration of the prior on Z. Plays no part where the prior has none (`BetaBernoulli` with `a` given).
    parameters
        The model's parameters by name, for instance ``{"V": V, "tau_v": 0.25, "tau_x": 25.0}``.

    Examples
    --------
    >>> import numpy as np
    >>> from pgfa import State
    >>> state = State(Z=np.eye(3, 2), alpha=2.0, parameters={"V": np.zeros((2, 4)), "tau_v": 1.0, "tau_x": 1.0})
    >>> state.num_features
    2
    """

    Z: NDArray[np.uint8]
    alpha: float = 1.0
    parameters: dict[str, Any] = field(default_factory=dict)

    @property
    def num_rows(self) -> int:
        return int(np.shape(self.Z)[0])

    @property
    def num_features(self) -> int:
        return int(np.shape(self.Z)[1])

    def copy(self) -> State:
        """An independent copy."""
        parameters = {
            name: value.copy() if isinstance(value, np.ndarray) else value for name, value in self.parameters.items()
        }
        return State(Z=np.array(self.Z), alpha=self.alpha, parameters=parameters)


def add_features(state: State, axes: FeatureAxes, count: int) -> State:
    """Append `count` empty columns whose parameters are zero."""
    if count == 0:
        return state
    parameters = dict(state.parameters)
    for name, over in axes.items():
        value = parameters[name]
        parameters[name] = np.pad(value, [(0, count if axis in over else 0) for axis in range(value.ndim)])
    return State(Z=np.pad(state.Z, ((0, 0), (0, count))), alpha=state.alpha, parameters=parameters)


def select_features(state: State, axes: FeatureAxes, columns: NDArray[np.intp]) -> State:
    """Keep only these columns, in this order."""
    parameters = dict(state.parameters)
    for name, over in axes.items():
        value = parameters[name]
        for axis in over:
            value = np.take(value, columns, axis=axis)
        parameters[name] = value
    return State(Z=np.ascontiguousarray(state.Z[:, columns]), alpha=state.alpha, parameters=parameters)


def put_features(state: State, axes: FeatureAxes, columns: NDArray[np.intp], part: State) -> None:
    """Write what `select_features` took out back to these columns, in place."""
    state.Z[:, columns] = part.Z
    for name, over in axes.items():
        value = state.parameters[name]
        value[np.ix_(*(columns if axis in over else np.arange(size) for axis, size in enumerate(value.shape)))] = (
            part.parameters[name]
        )


def drop_unused_features(state: State, axes: FeatureAxes) -> State:
    """Remove the columns that no row uses."""
    used = np.flatnonzero(state.Z.any(axis=0))
    return state if used.size == state.num_features else select_features(state, axes, used)


def iterate_states(states: Any, axes: FeatureAxes) -> Iterator[State]:
    """The states in what a user hands in: one state, several of them, or the result of `pgfa.sample`.

    Parameters
    ----------
    states
        A State, an iterable of them, or a DataTree with the group posterior, of which every draw is taken.
    axes
        Which axes of which parameter run over features, to cut off what pads them to a common number.
    """
    if isinstance(states, State):
        yield states
    elif "posterior" in getattr(states, "children", ()):
        yield from _states_of_draws(states["posterior"], axes)
    elif isinstance(states, Iterable) and not isinstance(states, (str, bytes, Mapping)):
        count = 0
        for state in states:
            if not isinstance(state, State):
                raise ValueError(f"states must hold States only, got {state!r}")
            count += 1
            yield state
        if count == 0:
            raise ValueError("states must hold at least one state")
    else:
        raise ValueError(f"states must be a State, several of them or the result of pgfa.sample, got {states!r}")


def _states_of_draws(posterior: Any, axes: FeatureAxes) -> Iterator[State]:
    names = [name for name in posterior.data_vars if name not in ("Z", "alpha", "num_features")]
    for chain in range(posterior.sizes["chain"]):
        draws = {name: posterior[name][chain].values for name in ("Z", "alpha", "num_features", *names)}
        for draw in range(posterior.sizes["draw"]):
            width = slice(0, int(draws["num_features"][draw]))
            parameters: dict[str, Any] = {}
            for name in names:
                value = draws[name][draw]
                cut = tuple(width if axis in axes.get(name, ()) else slice(None) for axis in range(np.ndim(value)))
                parameters[name] = float(value) if np.ndim(value) == 0 else value[cut]
            yield State(draws["Z"][draw][:, width], float(draws["alpha"][draw]), parameters)
