"""Models that users write: a likelihood of one row, a prior of one feature, and the rest is done here."""

from __future__ import annotations

import copy
import inspect
import math
import threading
from abc import abstractmethod
from collections import namedtuple
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pgfa import checks
from pgfa._compile import implements
from pgfa.adaptation import StepSize
from pgfa.models import additive_rows
from pgfa.models.additive_rows import AdditiveRows, add_up, draw_features, features_log_prior, rows_log_likelihood
from pgfa.models.base import Model, Parameters
from pgfa.models.random_walk import is_accepted, propose, walk_contributions, walk_feature_parameter
from pgfa.state import FeatureAxes

#: The compiled functions of a user, the functions that they implement, and what they are called with.
_USER_FUNCTIONS: dict[str, tuple[Callable[..., Any], tuple[str, ...]]] = {
    "row_log_likelihood": (additive_rows.user_row_log_likelihood, ("data", "parameters", "n", "predictor")),
    "feature_log_prior": (additive_rows.user_feature_log_prior, ("data", "parameters", "k")),
    "draw_feature": (additive_rows.user_draw_feature, ("data", "parameters", "k", "rng")),
}

#: Names of what a draw holds beside the parameters.
_TAKEN = ("Z", "alpha", "num_features", "singletons")

# NamedTuple classes by which compiled code tells models apart, by the user's functions and the names of the fields.
# They are kept here and not with the model, so that one which is sent to another process is registered there as well.
_tuple_classes: dict[tuple[Any, ...], Any] = {}
_lock = threading.Lock()


def _data_class(model_class: type, names: tuple[str, ...]) -> Any:
    """The NamedTuple class of a model's data, for which its compiled functions are implemented."""
    if (model_class, names) in _tuple_classes:
        return _tuple_classes[model_class, names]
    functions = tuple(_user_function(model_class, name) for name in _USER_FUNCTIONS)
    with _lock:
        if (functions, names) not in _tuple_classes:
            kind = namedtuple(f"{model_class.__name__}Data", names, module=model_class.__module__)  # type: ignore[misc]
            for (generic, _), function in zip(_USER_FUNCTIONS.values(), functions):
                implements(generic, kind)(function)
            _tuple_classes[functions, names] = kind
        _tuple_classes[model_class, names] = _tuple_classes[functions, names]
    return _tuple_classes[model_class, names]


def _parameters_class(names: tuple[str, ...]) -> Any:
    """The NamedTuple class of parameters with these names."""
    if names not in _tuple_classes:
        with _lock:
            _tuple_classes.setdefault(names, namedtuple("Parameters", names, module=""))  # type: ignore[misc]
    return _tuple_classes[names]


def _user_function(model_class: type, name: str) -> Callable[..., Any]:
    """A function of the user, as he wrote it."""
    found = inspect.getattr_static(model_class, name)
    found = found.__func__ if isinstance(found, staticmethod) else found
    function = getattr(found, "py_func", found)  # he may have compiled it himself
    arguments = _USER_FUNCTIONS[name][1]
    if not inspect.isfunction(function) or len(inspect.signature(function).parameters) != len(arguments):
        raise ValueError(f"{model_class.__name__}.{name} must be a @staticmethod of ({', '.join(arguments)})")
    return function


class AdditiveModel(Model):
    """Base class for a model of your own: the features of a row add up, and you say how likely its data are then.

    The predictor of row n is the vector ``sum_k Z[n, k] * V[k]``. A subclass gives three functions that are compiled,
    as static methods in the part of Python and NumPy that numba knows:

    - ``row_log_likelihood(data, parameters, n, predictor)`` returns the log likelihood of row n of ``data.X``. It must
      be finite for every predictor that can occur, and leave out what is missing (NaN).
    - ``feature_log_prior(data, parameters, k)`` returns the log prior density of feature k, normalised.
    - ``draw_feature(data, parameters, k, rng)`` draws feature k from that prior: it writes ``parameters.V[k]``.

    and one in plain Python:

    - ``sample_data(self, Z, parameters, rng)`` returns a complete data set drawn from the likelihood.

    Where there are parameters that belong to no feature, such as a noise precision, two more in plain Python:

    - ``draw_shared(self, rng)`` returns them by name, floats or arrays, drawn from their prior.
    - ``shared_log_prior(self, parameters)`` returns the log density of that prior, normalised.

    Parameters move by random-walk Metropolis, which is exact; override `update_parameters` where you know better, and
    use `random_walk` for those where you do not. `check_model` tells whether what you wrote fits together.

    Parameters
    ----------
    X
        Matrix of shape (N, D), an array or a pandas table; NaN marks missing entries.
    **constants
        Numbers and arrays that compiled functions can look up as ``data.name``, beside ``data.X``.

    Attributes
    ----------
    positive : tuple of str
        Names of parameters all of whose entries are positive; they walk on their logarithm.

    Examples
    --------
    >>> import math, numpy as np, pgfa
    >>> class Counts(pgfa.AdditiveModel):
    ...     positive = ("V",)
    ...     @staticmethod
    ...     def row_log_likelihood(data, parameters, n, predictor):
    ...         total = 0.0
    ...         for d in range(predictor.size):
    ...             mean = data.background + predictor[d]
    ...             total += data.X[n, d] * math.log(mean) - mean - math.lgamma(data.X[n, d] + 1.0)
    ...         return total
    ...     @staticmethod
    ...     def feature_log_prior(data, parameters, k):
    ...         return -np.sum(parameters.V[k])
    ...     @staticmethod
    ...     def draw_feature(data, parameters, k, rng):
    ...         for d in range(parameters.V.shape[1]):
    ...             parameters.V[k, d] = rng.standard_exponential()
    ...     def sample_data(self, Z, parameters, rng):
    ...         return rng.poisson(self.data.background + Z @ parameters["V"])
    >>> model = Counts(np.array([[3, 0], [4, 1], [0, 2]]), background=0.1)
    >>> chain = pgfa.Chain(model, pgfa.BetaBernoulli(2), seed=1)
    >>> chain.step(10)
    >>> chain.state.parameters["V"].shape
    (2, 2)
    """

    positive: tuple[str, ...] = ()

    def __init__(self, X: Any, **constants: Any) -> None:
        is_table = hasattr(X, "index") and hasattr(X, "columns")
        self.row_labels: list[Any] | None = list(X.index) if is_table else None
        self.column_labels: list[Any] | None = list(X.columns) if is_table else None
        self._values: dict[str, Any] = {"X": checks.numeric_matrix("X", X, missing=True)}
        for name, value in constants.items():
            self._values[name] = _constant(name, value)
        self.data  # noqa: B018  (complains at once of functions that will not do)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.num_rows} rows, {self.num_columns} columns)"

    # --- what a subclass writes -------------------------------------------------------------------------------------

    @staticmethod
    @abstractmethod
    def row_log_likelihood(data: Any, parameters: Any, n: int, predictor: Any) -> float:
        """Log likelihood of row n of the data. Compiled; `predictor` is a scratch copy."""

    @staticmethod
    @abstractmethod
    def feature_log_prior(data: Any, parameters: Any, k: int) -> float:
        """Log prior density of feature k, given the shared parameters. Compiled."""

    @staticmethod
    @abstractmethod
    def draw_feature(data: Any, parameters: Any, k: int, rng: Any) -> None:
        """Write a draw of feature k from its prior to ``parameters.V[k]``. Compiled."""

    def draw_shared(self, rng: np.random.Generator) -> Parameters:
        """Draw the parameters that belong to no feature from their prior; there are none unless a subclass says so."""
        return {}

    def shared_log_prior(self, parameters: Parameters) -> float:
        """Log prior density of the parameters that belong to no feature."""
        return 0.0

    @property
    def feature_shapes(self) -> dict[str, tuple[int, ...]]:
        """For each parameter of the features the shape of one feature's part.

        V must be there, as a vector. Others enter `feature_log_prior` only, for instance as the scale of V[k].
        """
        return {"V": (self.num_columns,)}

    # --- what follows from it ---------------------------------------------------------------------------------------

    @property
    def data(self) -> Any:
        """The data X and the constants, as compiled functions see them."""
        return _data_class(type(self), tuple(self._values))(**self._values)

    @property
    def num_rows(self) -> int:
        return int(self._values["X"].shape[0])

    @property
    def num_columns(self) -> int:
        """Number of columns D of the data."""
        return int(self._values["X"].shape[1])

    @property
    def X(self) -> NDArray[np.float64]:
        """A copy of the data, NaN where missing."""
        return np.array(self._values["X"])

    @property
    def feature_axes(self) -> FeatureAxes:  # type: ignore[override]
        return {name: (0,) for name in self.feature_shapes}

    def sample_parameters(self, rng: np.random.Generator, num_features: int) -> Parameters:
        parameters: Parameters = {name: np.zeros((num_features, *shape)) for name, shape in self.feature_shapes.items()}
        for name, value in self.draw_shared(rng).items():
            value = np.maximum(value, np.finfo(float).tiny) if name in self.positive else np.asarray(value, dtype=float)
            parameters[name] = value if value.ndim else float(value)
        draw_features(self._rows(parameters), rng)
        return parameters

    @property
    def _shared_shapes(self) -> dict[str, tuple[int, ...]]:
        if "_known_shared_shapes" not in self.__dict__:
            draw = self.draw_shared(np.random.default_rng(0))
            self._known_shared_shapes = {name: np.shape(value) for name, value in draw.items()}
        return self._known_shared_shapes

    def _shapes(self, num_features: int) -> dict[str, tuple[int, ...]]:
        """Shapes of all parameters."""
        of_features, shared = self.feature_shapes, self._shared_shapes
        kind = type(self).__name__
        if len(of_features.get("V", ())) != 1:
            raise ValueError(f"{kind}.feature_shapes must give V the shape of a vector, got {of_features.get('V')}")
        for name in (*of_features, *shared):
            if name in _TAKEN or (name in of_features and name in shared):
                raise ValueError(f"{kind} has a parameter {name!r}: that name is taken, choose another")
        unknown = sorted(set(self.positive) - of_features.keys() - shared.keys())
        if unknown:
            raise ValueError(f"{kind}.positive names {unknown[0]!r}, which is no parameter")
        return {name: (num_features, *shape) for name, shape in of_features.items()} | shared

    def check_parameters(self, parameters: Parameters, num_features: int) -> Parameters:
        shapes = self._shapes(num_features)
        if set(parameters) != set(shapes):
            raise ValueError(f"parameters must be {', '.join(sorted(shapes))}, got {', '.join(sorted(parameters))}")
        checked: Parameters = {}
        for name, shape in shapes.items():
            where = f"parameters[{name!r}]"
            value = checks.array_of_shape(where, parameters[name], shape)
            if name in self.positive and np.any(value <= 0.0):
                raise ValueError(f"{where} must be positive")
            checked[name] = value if shape else float(value)
        return checked

    def log_prior(self, parameters: Parameters) -> float:
        return float(features_log_prior(self._rows(parameters))) + float(self.shared_log_prior(parameters))

    def log_likelihood(self, Z: NDArray[np.uint8], parameters: Parameters) -> float:
        return float(rows_log_likelihood(self._rows(parameters), self._predictors(Z, parameters)))

    def rows(self, Z: NDArray[np.uint8], parameters: Parameters) -> AdditiveRows:
        return self._rows(parameters)

    def _rows(self, parameters: Parameters) -> AdditiveRows:
        V = parameters["V"]
        kind = _parameters_class(tuple(parameters))
        lowest = np.finfo(float).tiny if "V" in self.positive else -np.inf
        return AdditiveRows(self.data, kind(*parameters.values()), V, lowest, np.empty(V.shape[1]))

    def _predictors(self, Z: NDArray[np.uint8], parameters: Parameters) -> NDArray[np.float64]:
        predictors = np.empty((Z.shape[0], parameters["V"].shape[1]))
        add_up(Z, parameters["V"], predictors)
        return predictors

    # --- moves of the parameters ------------------------------------------------------------------------------------

    def make_step_sizes(self) -> dict[str, StepSize]:
        return {name: StepSize(0.5) for name in self._shapes(0)}

    def update_parameters(
        self,
        Z: NDArray[np.uint8],
        parameters: Parameters,
        rng: np.random.Generator,
        *,
        power: float = 1.0,
        step_sizes: dict[str, StepSize] | None = None,
        warmup: bool = False,
    ) -> None:
        """Random-walk Metropolis on all parameters."""
        self.random_walk(Z, parameters, rng, power=power, step_sizes=step_sizes, warmup=warmup)

    def random_walk(
        self,
        Z: NDArray[np.uint8],
        parameters: Parameters,
        rng: np.random.Generator,
        names: Iterable[str] | None = None,
        *,
        power: float = 1.0,
        step_sizes: dict[str, StepSize] | None = None,
        warmup: bool = False,
    ) -> None:
        """Move every entry of these parameters (of all, unless named) once by random-walk Metropolis, in place.

        The step size of each parameter is tuned in warm-up. Features that nobody owns are drawn from their prior.
        """
        sizes = self.make_step_sizes() if step_sizes is None else step_sizes
        shapes = self._shapes(0)
        predictors = self._predictors(Z, parameters)
        for name in shapes if names is None else names:
            size = sizes[checks.one_of("names", name, tuple(shapes))]
            is_positive = name in self.positive
            if name == "V":
                rows = self._rows(parameters)
                moved = walk_contributions(rows, Z, predictors, is_positive, size.value, float(power), rng)
            elif name in self.feature_shapes:
                values = parameters[name].reshape(Z.shape[1], math.prod(self.feature_shapes[name]))
                moved = walk_feature_parameter(self._rows(parameters), values, is_positive, size.value, rng)
            else:
                moved = self._walk_shared(name, parameters, predictors, is_positive, size.value, float(power), rng)
            size.record(*moved, adapt=warmup)

    def _walk_shared(
        self,
        name: str,
        parameters: Parameters,
        predictors: NDArray[np.float64],
        is_positive: bool,
        step: float,
        power: float,
        rng: np.random.Generator,
    ) -> tuple[int, int]:
        def evaluate() -> tuple[float, float]:
            rows = self._rows(parameters)
            log_prior = float(features_log_prior(rows)) + float(self.shared_log_prior(parameters))
            return log_prior, float(rows_log_likelihood(rows, predictors))

        accepted = 0
        present = evaluate()
        shape = np.shape(parameters[name])
        entries = list(np.ndindex(shape))
        for entry in entries:
            old = parameters[name][entry] if shape else parameters[name]
            new, log_ratio = propose(float(old), is_positive, step, rng)
            _set_entry(parameters, name, entry, new)
            with np.errstate(all="ignore"):
                proposed = evaluate()
            log_ratio += proposed[0] - present[0]
            if is_accepted(float(log_ratio), power, proposed[1] - present[1], rng):
                accepted += 1
                present = proposed
            else:
                _set_entry(parameters, name, entry, old)
        return accepted, len(entries)

    # --- draws and other data ---------------------------------------------------------------------------------------

    @property
    def parameter_dims(self) -> dict[str, tuple[str, ...]]:
        return {"V": ("feature", "column")} if self.feature_shapes["V"] == (self.num_columns,) else {}

    def coords(self) -> dict[str, list[Any]]:
        labels = {"row": self.row_labels, "column": self.column_labels}
        return {name: values for name, values in labels.items() if values is not None}

    def observed_data(self) -> dict[str, tuple[tuple[str, ...], NDArray[Any]]]:
        return {"X": (("row", "column"), self.X)}

    def with_data(self, data: Any) -> AdditiveModel:
        X = checks.numeric_matrix("data", data, missing=True)
        if X.shape[1] != self.num_columns:
            raise ValueError(f"data must have {self.num_columns} columns, got {X.shape[1]}")
        other = copy.copy(self)
        other.row_labels, other.column_labels = None, None
        other._values = self._values | {"X": X}
        return other


def _constant(name: str, value: Any) -> Any:
    if name.startswith("_"):
        raise ValueError(f"{name}: names of constants may not begin with an underscore")
    if isinstance(value, (bool, int, float)):
        return value
    if isinstance(value, (np.ndarray, np.generic)) and value.dtype.kind in "fiub":
        return np.array(value, order="C") if value.ndim else value.item()
    raise ValueError(f"{name} must be a number or an array of numbers, got {value!r}")


def _set_entry(parameters: Parameters, name: str, entry: tuple[int, ...], value: float) -> None:
    if entry:
        parameters[name][entry] = value
    else:
        parameters[name] = value
