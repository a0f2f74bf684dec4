"""The linear Gaussian model: every row of the data is the sum of its features, plus noise."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pgfa import checks
from pgfa._compile import compiled
from pgfa.adaptation import StepSize
from pgfa.columns import ColumnView
from pgfa.densities import draw_gamma, log_gamma, log_normal
from pgfa.models.base import Model, Parameters
from pgfa.models.gaussian_rows import GramRows, ResidualRows, gram_rows, make_table, residual_rows
from pgfa.priors.base import Prior
from pgfa.simulation import Simulation, make_holes, simulator
from pgfa.small_matrices import factorise, solve_lower, solve_upper
from pgfa.state import State, iterate_states

#: Beyond this many features per dimension residuals are cheaper to carry than products of features.
_FEATURES_PER_DIMENSION = 6

#: Beyond this squared size, in units of the noise, products of the data lose digits that matter.
_LARGEST_SIGNAL = 1e10

#: How often a guess at a feature is drawn towards the leading directions of the residuals.
_PULLS = 4


class LinearGaussian(Model):
    """Real-valued data with holes: ``X = Z V + noise``.

    The features V have independent Normal(0, tau_v) entries and the noise is Normal(0, tau_x), both given by mean and
    precision; tau_v and tau_x have Gamma priors.

    Parameters
    ----------
    X
        Matrix of shape (N, D), an array or a pandas table. NaN marks missing entries, which are left out of the
        likelihood; rows and columns may be missing altogether.
    intercept
        Whether to add a mean for each column, with a Normal prior. Real data are rarely centred.
    tau_v_prior, tau_x_prior
        Shape and rate of the Gamma priors.
    intercept_prior
        Mean and precision of the Normal prior of the intercept.
    singletons
        How features of a single row come and go. ``"gibbs"``: their number is drawn from its conditional distribution
        with their values integrated out, under every prior. Kept for comparison, as they mix more slowly:
        ``"collapsed"`` proposes a number from the prior and accepts it with the values integrated out, as in the paper,
        and ``"prior"`` proposes the values as well; both under the Indian buffet process only, while under a finite
        prior the row sampler treats columns that nobody else owns like any other.

    Examples
    --------
    >>> import numpy as np, pgfa
    >>> rng = np.random.default_rng(0)
    >>> X = rng.integers(0, 2, size=(50, 2)) @ np.array([[3.0, 0, 3], [0, 3, 3]]) + 0.1 * rng.normal(size=(50, 3))
    >>> X[0, 0] = np.nan
    >>> model = pgfa.LinearGaussian(X)
    >>> chain = pgfa.Chain(model, pgfa.IndianBuffet(), seed=1)
    >>> chain.step(50)
    >>> model.impute(chain.state).shape
    (50, 3)
    """

    feature_axes = {"V": (0,)}
    warmup_starts = 4
    renewal = 10

    def __init__(
        self,
        X: Any,
        intercept: bool = False,
        *,
        tau_v_prior: tuple[float, float] = (1.0, 1.0),
        tau_x_prior: tuple[float, float] = (1.0, 1.0),
        intercept_prior: tuple[float, float] = (0.0, 0.01),
        singletons: str = "gibbs",
    ) -> None:
        self.intercept = checks.truth("intercept", intercept)
        self.tau_v_prior = checks.gamma_prior("tau_v_prior", tau_v_prior)
        self.tau_x_prior = checks.gamma_prior("tau_x_prior", tau_x_prior)
        self.intercept_prior = checks.normal_prior("intercept_prior", intercept_prior)
        self.singletons = checks.one_of("singletons", singletons, ("gibbs", "collapsed", "prior"))
        self.row_labels = list(X.index) if hasattr(X, "index") and hasattr(X, "columns") else None
        self.column_labels = list(X.columns) if hasattr(X, "index") and hasattr(X, "columns") else None
        self._table = make_table(checks.numeric_matrix("X", X, missing=True))
        self._num_observed = self._table.X.size - self._table.missing_in_row.size
        self._largest_square = float(np.einsum("nd,nd->n", self._table.X, self._table.X).max())

    def __repr__(self) -> str:
        missing = self._table.missing_in_row.size
        return f"LinearGaussian({self.num_rows} rows, {self.num_columns} columns, {missing} entries missing)"

    @property
    def num_rows(self) -> int:
        return self._table.X.shape[0]

    @property
    def num_columns(self) -> int:
        """Number of columns D of the data."""
        return self._table.X.shape[1]

    @property
    def integrates_singletons(self) -> bool:
        return self.singletons == "gibbs"

    @property
    def missing(self) -> NDArray[np.bool_]:
        """Where the data are missing, of shape (N, D)."""
        mask = np.zeros(self._table.X.shape, dtype=bool)
        mask[np.repeat(np.arange(self.num_rows), np.diff(self._table.row_start)), self._table.missing_in_row] = True
        return mask

    @property
    def X(self) -> NDArray[np.float64]:
        """A copy of the data, NaN where missing."""
        X = self._table.X.copy()
        X[self.missing] = np.nan
        return X

    def sample_parameters(self, rng: np.random.Generator, num_features: int) -> Parameters:
        tau_v = draw_gamma(rng, *self.tau_v_prior)
        tau_x = draw_gamma(rng, *self.tau_x_prior)
        parameters: Parameters = {
            "V": rng.standard_normal((num_features, self.num_columns)) / np.sqrt(tau_v),
            "tau_v": tau_v,
            "tau_x": tau_x,
        }
        if self.intercept:
            mean, precision = self.intercept_prior
            parameters["intercept"] = mean + rng.standard_normal(self.num_columns) / np.sqrt(precision)
        return parameters

    def check_parameters(self, parameters: Parameters, num_features: int) -> Parameters:
        names = {"V", "tau_v", "tau_x"} | ({"intercept"} if self.intercept else set())
        if set(parameters) != names:
            raise ValueError(f"parameters must be {', '.join(sorted(names))}, got {', '.join(sorted(parameters))}")
        checked: Parameters = {
            "V": checks.array_of_shape("parameters['V']", parameters["V"], (num_features, self.num_columns)),
            "tau_v": checks.positive("parameters['tau_v']", parameters["tau_v"]),
            "tau_x": checks.positive("parameters['tau_x']", parameters["tau_x"]),
        }
        if self.intercept:
            checked["intercept"] = checks.array_of_shape(
                "parameters['intercept']", parameters["intercept"], (self.num_columns,)
            )
        return checked

    def log_prior(self, parameters: Parameters) -> float:
        V, tau_v, tau_x = parameters["V"], parameters["tau_v"], parameters["tau_x"]
        log_prob = log_normal(V, 0.0, tau_v) + log_gamma(tau_v, *self.tau_v_prior) + log_gamma(tau_x, *self.tau_x_prior)
        if self.intercept:
            log_prob += log_normal(parameters["intercept"], *self.intercept_prior)
        return log_prob

    def log_likelihood(self, Z: NDArray[np.uint8], parameters: Parameters) -> float:
        tau_x = parameters["tau_x"]
        squares = sum_of_squares(self._table, Z, parameters["V"], self._intercept_of(parameters))
        return float(0.5 * self._num_observed * np.log(tau_x / (2.0 * np.pi)) - 0.5 * tau_x * squares)

    def _intercept_of(self, parameters: Parameters) -> NDArray[np.float64]:
        return parameters["intercept"] if self.intercept else np.zeros(self.num_columns)

    def rows(self, Z: NDArray[np.uint8], parameters: Parameters) -> GramRows | ResidualRows:
        V, tau_x = parameters["V"], parameters["tau_x"]
        through_products = V.shape[0] <= _FEATURES_PER_DIMENSION * self.num_columns
        through_products &= tau_x * self._largest_square < _LARGEST_SIGNAL
        make = gram_rows if through_products else residual_rows
        collapsed = self.singletons != "prior"
        return make(self._table, V, self._intercept_of(parameters), parameters["tau_v"], tau_x, collapsed)

    def column_view(self, parameters: Parameters, power: float) -> ColumnView:
        V, tau_v = parameters["V"], parameters["tau_v"]
        return ColumnView(self._table, V, self._intercept_of(parameters), tau_v, power * parameters["tau_x"])

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
        """Exact Gibbs draws: V and the intercept together, then tau_v, then tau_x."""
        V, intercept = parameters["V"], self._intercept_of(parameters)
        draw_loadings(
            self._table, Z, V, intercept, parameters["tau_v"], power * parameters["tau_x"], self.intercept,
            *self.intercept_prior, rng,
        )  # fmt: skip
        shape, rate = self.tau_v_prior
        parameters["tau_v"] = draw_gamma(rng, shape + 0.5 * V.size, rate + 0.5 * float(np.vdot(V, V)))
        shape, rate = self.tau_x_prior
        squares = sum_of_squares(self._table, Z, V, intercept)
        parameters["tau_x"] = draw_gamma(rng, shape + 0.5 * power * self._num_observed, rate + 0.5 * power * squares)

    def guess_owners(self, state: State, rng: np.random.Generator) -> NDArray[np.bool_]:
        """Rows on one side of a direction in which many residuals lie.

        A random vector is drawn towards the leading directions of the residuals, so that guesses differ. All residuals
        count with the same length: else a few outliers would be all that is ever guessed.
        """
        residual = self.mean(state)
        np.subtract(self._table.X, residual, out=residual)
        residual[self.missing] = 0.0
        length = np.sqrt(np.einsum("nd,nd->n", residual, residual))
        residual /= np.where(length > 0.0, length, 1.0)[:, None]
        direction = rng.standard_normal(self.num_columns)
        for _ in range(_PULLS):
            direction = residual.T @ (residual @ direction)
        return np.asarray(residual @ direction > 0.0)

    def find_idlest(self, Z: NDArray[np.uint8]) -> int:
        """With an intercept, what all rows have in common needs no feature either."""
        owners = Z.sum(axis=0, dtype=np.int64)
        return int(np.argmin(np.minimum(owners, self.num_rows - owners) if self.intercept else owners))

    def mean(self, state: State) -> NDArray[np.float64]:
        """Expected data ``Z V`` plus the intercept, of shape (N, D)."""
        return state.Z @ state.parameters["V"] + self._intercept_of(state.parameters)

    def sample_data(
        self, Z: NDArray[np.uint8], parameters: Parameters, rng: np.random.Generator
    ) -> NDArray[np.float64]:
        noise = rng.standard_normal((Z.shape[0], self.num_columns)) / np.sqrt(parameters["tau_x"])
        return Z @ parameters["V"] + self._intercept_of(parameters) + noise

    def posterior_predictive(self, states: Any, rng: Any = None) -> NDArray[np.float64]:
        """Replicated data sets, one for each state, of shape (number of states, N, D).

        Parameters
        ----------
        states
            A State, several of them, or the result of `pgfa.sample`, of which every draw is taken.
        rng
            Seed or Generator.
        """
        rng = checks.generator("rng", rng)
        replicates = [self.sample_data(s.Z, s.parameters, rng) for s in iterate_states(states, self.feature_axes)]
        return np.stack(replicates)

    def impute(self, states: Any) -> NDArray[np.float64]:
        """The data with their missing entries filled by the posterior mean over these states.

        Parameters
        ----------
        states
            A State, several of them, or the result of `pgfa.sample`, of which every draw is taken.
        """
        total, count = np.zeros(self._table.X.shape), 0
        for state in iterate_states(states, self.feature_axes):
            total += self.mean(state)
            count += 1
        X, missing = self.X, self.missing
        X[missing] = total[missing] / count
        return X

    @property
    def parameter_dims(self) -> dict[str, tuple[str, ...]]:
        return {"V": ("feature", "column"), "intercept": ("column",)}

    def coords(self) -> dict[str, list[Any]]:
        labels = {"row": self.row_labels, "column": self.column_labels}
        return {name: values for name, values in labels.items() if values is not None}

    def observed_data(self) -> dict[str, tuple[tuple[str, ...], NDArray[Any]]]:
        return {"X": (("row", "column"), self.X)}

    def describe(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        words = {
            "intercept": self.intercept,
            "tau_v_prior": self.tau_v_prior,
            "tau_x_prior": self.tau_x_prior,
            "intercept_prior": self.intercept_prior,
            "singletons": self.singletons,
            "row_labels": self.row_labels,
            "column_labels": self.column_labels,
        }
        return words, {"X": self.X}

    @classmethod
    def from_description(cls, words: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> LinearGaussian:
        options = dict(words)
        row_labels, column_labels = options.pop("row_labels"), options.pop("column_labels")
        model = cls(arrays["X"], **options)
        model.row_labels, model.column_labels = row_labels, column_labels
        return model

    def with_data(self, data: Any) -> LinearGaussian:
        return LinearGaussian(
            data, self.intercept, tau_v_prior=self.tau_v_prior, tau_x_prior=self.tau_x_prior,
            intercept_prior=self.intercept_prior, singletons=self.singletons,
        )  # fmt: skip


@simulator("linear-gaussian")
def simulate_linear_gaussian(
    prior: Prior,
    rng: np.random.Generator,
    *,
    num_rows: int,
    num_columns: int,
    alpha: float = 2.0,
    tau_v: float = 0.25,
    tau_x: float = 25.0,
    missing: float = 0.1,
    intercept: bool = False,
) -> Simulation:
    """Data from the linear Gaussian model; an intercept is drawn from the model's own prior."""
    num_rows = checks.whole("num_rows", num_rows, at_least=1)
    num_columns = checks.whole("num_columns", num_columns, at_least=1)
    blank = LinearGaussian(np.zeros((num_rows, num_columns)), intercept)
    tau_v, tau_x = checks.positive("tau_v", tau_v), checks.positive("tau_x", tau_x)
    Z = prior.sample(rng, num_rows, checks.positive("alpha", alpha))
    parameters = blank.sample_parameters(rng, Z.shape[1])
    parameters |= {"V": rng.standard_normal((Z.shape[1], num_columns)) / np.sqrt(tau_v), "tau_v": tau_v, "tau_x": tau_x}
    complete = blank.sample_data(Z, parameters, rng)
    data = make_holes(complete, missing, rng)
    return Simulation(data, complete, State(Z, float(alpha), parameters), blank.with_data(data))


@compiled(liberty="arithmetic")
def sum_of_squares(table, Z, V, intercept):  # type: ignore[no-untyped-def]
    """Squared residuals summed over the observed entries."""
    num_rows, num_dims = table.X.shape
    residual = np.empty(num_dims)
    total = 0.0
    for n in range(num_rows):
        for d in range(num_dims):
            residual[d] = table.X[n, d] - intercept[d]
        for k in range(Z.shape[1]):
            if Z[n, k] == 1:
                for d in range(num_dims):
                    residual[d] -= V[k, d]
        for i in range(table.row_start[n], table.row_start[n + 1]):
            residual[table.missing_in_row[i]] = 0.0
        for d in range(num_dims):
            total += residual[d] * residual[d]
    return total


@compiled(liberty="arithmetic")
def _list_owned(Z, n, with_intercept, owned):  # type: ignore[no-untyped-def]
    """The columns of row n that are on, and after them the intercept; returns how many there are."""
    count = 0
    for k in range(Z.shape[1]):
        if Z[n, k] == 1:
            owned[count] = k
            count += 1
    if with_intercept:
        owned[count] = Z.shape[1]
        count += 1
    return count


@compiled(liberty="arithmetic")
def draw_loadings(table, Z, V, intercept, tau_v, tau_x, with_intercept, intercept_mean, intercept_precision, rng):  # type: ignore[no-untyped-def]
    """Draw V, and with it the intercept, from their joint posterior given Z, in place.

    Each column d of the data is a regression on the features of the rows that are observed there, so its coefficients
    have precision ``tau_v I + tau_x Z_d' Z_d``. Columns without holes share one factorisation.
    """
    num_rows, num_dims = table.X.shape
    num_features = Z.shape[1]
    size = num_features + (1 if with_intercept else 0)
    gram = np.zeros((size, size))
    moments = np.zeros((size, num_dims))
    owned = np.empty(size, dtype=np.int64)
    for n in range(num_rows):
        count = _list_owned(Z, n, with_intercept, owned)
        for i in range(count):
            for j in range(i + 1):
                gram[owned[i], owned[j]] += 1.0
            for d in range(num_dims):
                moments[owned[i], d] += table.X[n, d]

    shared = np.zeros((size, size))
    own = np.zeros((size, size))
    coefficients = np.empty(size)
    have_shared = False
    for d in range(num_dims):
        first, last = table.column_start[d], table.column_start[d + 1]
        factor = shared if first == last else own
        if first < last or not have_shared:
            # Not as whole arrays: what is said where shapes do not fit would take longer to compile than all else.
            for a in range(size):
                for b in range(a + 1):
                    factor[a, b] = gram[a, b]
            for i in range(first, last):
                count = _list_owned(Z, table.missing_in_column[i], with_intercept, owned)
                for a in range(count):
                    for b in range(a + 1):
                        factor[owned[a], owned[b]] -= 1.0
            for a in range(size):
                for b in range(a + 1):
                    factor[a, b] *= tau_x
            for k in range(num_features):
                factor[k, k] += tau_v
            if with_intercept:
                factor[num_features, num_features] += intercept_precision
            factorise(factor)
            have_shared = have_shared or first == last
        for i in range(size):
            coefficients[i] = tau_x * moments[i, d]
        if with_intercept:
            coefficients[num_features] += intercept_precision * intercept_mean
        solve_lower(factor, coefficients, coefficients)
        for i in range(size):
            coefficients[i] += rng.standard_normal()
        solve_upper(factor, coefficients, coefficients)
        for k in range(num_features):
            V[k, d] = coefficients[k]
        if with_intercept:
            intercept[d] = coefficients[num_features]
