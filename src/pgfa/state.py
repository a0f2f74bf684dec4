"""The state of a chain, and the one place where its columns are added, removed and permuted."""

from __future__ import annotations

from collections.abc import Mapping
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


def drop_unused_features(state: State, axes: FeatureAxes) -> State:
    """Remove the columns that no row uses."""
    used = np.flatnonzero(state.Z.any(axis=0))
    return state if used.size == state.num_features else select_features(state, axes, used)


def as_states(draws: Any) -> list[State]:
    """States from one state, several of them, or what `pgfa.sample` returns (one chain after the other)."""
    if isinstance(draws, State):
        return [draws]
    if hasattr(draws, "children"):
        return _states_of_tree(draws)
    states = list(draws)
    if not states or not all(isinstance(state, State) for state in states):
        raise ValueError(f"expected a state, states or what pgfa.sample returns, got {draws!r}")
    return states


def _states_of_tree(tree: Any) -> list[State]:
    posterior = tree["posterior"].dataset
    names = [name for name in posterior.data_vars if name not in ("Z", "num_features", "alpha")]
    values = {name: np.asarray(posterior[name]) for name in ("Z", "num_features", "alpha", *names)}
    over = {
        name: [axis for axis, dim in enumerate(posterior[name].dims) if str(dim).startswith("feature")]
        for name in names
    }
    states = []
    for i in np.ndindex(values["alpha"].shape):
        size = int(values["num_features"][i])
        parameters: dict[str, Any] = {}
        for name in names:
            value = values[name][i]
            for axis in over[name]:
                value = np.take(value, np.arange(size), axis=axis - len(i))
            parameters[name] = value if np.ndim(value) else float(value)
        states.append(State(values["Z"][i][:, :size], float(values["alpha"][i]), parameters))
    return states
