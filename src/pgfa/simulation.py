"""Data sets with a known truth, drawn from each model.

A model adds itself here from its own file with `@simulator("its-name")`; nothing else has a list of models.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pgfa import checks
from pgfa.priors.base import Prior
from pgfa.state import State

if TYPE_CHECKING:
    from pgfa.models.base import Model


@dataclass(frozen=True)
class Simulation:
    """A simulated data set and the truth behind it.

    Attributes
    ----------
    data
        What a model would be fitted to, with missing entries.
    complete
        The same data without anything missing.
    state
        The feature matrix, concentration and parameters that the data were drawn from.
    model
        The model, holding `data`.
    """

    data: Any
    complete: Any
    state: State
    model: Model


_SIMULATORS: dict[str, Callable[..., Simulation]] = {}


def simulator(name: str) -> Callable[[Callable[..., Simulation]], Callable[..., Simulation]]:
    """Let `simulate` find a function by the name of its model.

    The function takes the prior and a generator, then sizes and settings as keyword-only arguments.
    """

    def register(function: Callable[..., Simulation]) -> Callable[..., Simulation]:
        _SIMULATORS[name] = function
        return function

    return register


def simulate(model_name: str, prior: Prior, *, rng: Any = None, **sizes: Any) -> Simulation:
    """Draw a data set from a model.

    Parameters
    ----------
    model_name
        Name of the model, for instance ``"linear-gaussian"``.
    prior
        Prior from which the feature matrix is drawn.
    rng
        A whole number, SeedSequence or Generator.
    **sizes
        Sizes and settings of the model. For ``"linear-gaussian"``: `num_rows`, `num_columns`, `alpha`, `tau_v`,
        `tau_x`, `missing` (share of the entries that go missing) and `intercept`. For ``"relational"``: `num_rows`,
        `symmetric`, `self_links`, `alpha`, `tau`, `bias` and `missing`.

    Examples
    --------
    >>> import pgfa
    >>> truth = pgfa.simulate("linear-gaussian", pgfa.BetaBernoulli(5), rng=1, num_rows=100, num_columns=10)
    >>> truth.data.shape, truth.state.Z.shape
    ((100, 10), (100, 5))
    >>> chain = pgfa.Chain(truth.model, pgfa.BetaBernoulli(5), seed=1, state=truth.state)
    """
    import pgfa.models  # noqa: F401  (models register themselves when they are imported)

    function = _SIMULATORS[checks.one_of("model_name", model_name, tuple(sorted(_SIMULATORS)))]
    if not isinstance(prior, Prior):
        raise ValueError(f"prior must be a Prior, got {prior!r}")
    _check_names(f"simulate({model_name!r}, ...)", function, sizes)
    return function(prior, checks.generator("rng", rng), **sizes)


def _check_names(call: str, function: Callable[..., Any], given: dict[str, Any]) -> None:
    parameters = inspect.signature(function).parameters.values()
    named = {p.name: p.default for p in parameters if p.kind is inspect.Parameter.KEYWORD_ONLY}
    unknown = sorted(given.keys() - named.keys())
    if unknown:
        raise ValueError(f"{call} has no argument {unknown[0]!r}: it takes {', '.join(named)}")
    lacking = [name for name, default in named.items() if default is inspect.Parameter.empty and name not in given]
    if lacking:
        raise ValueError(f"{call} needs {' and '.join(lacking)}")


def make_holes(X: NDArray[np.float64], missing: float, rng: np.random.Generator) -> NDArray[np.float64]:
    """A copy with a share of the entries, chosen uniformly at random, set to NaN."""
    share = checks.unit_interval("missing", missing)
    data = X.copy()
    data.flat[rng.choice(X.size, size=round(share * X.size), replace=False)] = np.nan
    return data
