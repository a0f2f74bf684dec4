"""The PyClone feature-allocation model: which cell populations carry which mutation."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from pgfa import checks
from pgfa.adaptation import StepSize
from pgfa.densities import log_gamma
from pgfa.models import pyclone_singletons  # noqa: F401  (teaches the rows how to propose singletons)
from pgfa.models.base import Model, Parameters
from pgfa.models.pyclone_columns import Given, move_whole_columns
from pgfa.models.pyclone_genotypes import log_constant, make_layouts, put_reads
from pgfa.models.pyclone_likelihood import Density, varying_log_likelihood
from pgfa.models.pyclone_posterior import make_point, make_target, reference_information
from pgfa.models.pyclone_rows import CloneRows, clone_rows, normalise
from pgfa.models.pyclone_shares import SMALLEST
from pgfa.models.pyclone_simulation import draw_alt_counts, simulate_counts
from pgfa.models.pyclone_summary import PopulationSummary, merge_same_columns, summarise
from pgfa.models.pyclone_table import Counts, read_counts, write_counts
from pgfa.models.pyclone_updates import FIRST_STEPS, MOVES, TARGETS, update_prevalences
from pgfa.priors.base import Prior
from pgfa.simulation import Simulation, simulator
from pgfa.state import State

if TYPE_CHECKING:
    import pandas as pd

DENSITIES = ("binomial", "beta-binomial")

#: Several kinds, since each is slow somewhere; docs/pyclone.md has effective draws a second of each.
DEFAULT_MOVES = ("langevin", "langevin", "exchange", "copies")


class PyClone(Model):
    """Counts of sequencing reads with and without mutations, in samples of a tumour.

    Every sample is a mixture of cell populations. Population k makes up a share ``F[k, m]`` of sample m and carries the
    mutations n with ``Z[n, k] = 1``, so that mutation n is in a share ``(Z F)[n, m]`` of the cells, its cellular
    prevalence. Reads with the mutation follow from that, from tumour content and copy numbers, with an unknown genotype
    that is summed over. The parameters are ``V`` (populations by samples), independent Gamma variables whose shares
    ``F = V / V.sum(axis=0)`` count, and for the beta-binomial density ``precision``.

    Parameters
    ----------
    table
        A pandas table or the path of a TSV file with one row for each mutation and sample and the columns mutation_id,
        sample_id, ref_counts, alt_counts, major_cn, minor_cn (copy numbers of the tumour), normal_cn, and optionally
        tumour_content (1.0 unless given) and error_rate (0.001 unless given). A mutation without a row for some sample
        is missing there, and is used all the same.
    density
        ``"binomial"``, or ``"beta-binomial"`` for counts that vary more than a binomial would: most real ones do.
    v_prior
        Shape and rate of the Gamma prior of V.
    precision_prior
        Shape and rate of the Gamma prior of the beta-binomial precision; mean 400 and variance 1000 unless given.
    moves
        Moves of V in each update, in order: any of ``"single"``, ``"block"``, ``"exchange"``, ``"permutation"``,
        ``"multiple-try"``, ``"langevin"`` and ``"copies"`` (see `pgfa.models.pyclone_updates`).
    singletons
        How populations with a single mutation are proposed under the Indian buffet process: ``"informed"`` by all
        counts, or from the ``"prior"``, which is hardly ever accepted after warm-up and kept for comparison.
    column_moves
        How many moves of whole populations follow each sweep over the mutations: split, merge, birth, death and, where
        the number of features is fixed, regrouping of two that are told as three.

    Examples
    --------
    >>> import pgfa
    >>> truth = pgfa.simulate("pyclone", pgfa.BetaBernoulli(2, a=1.0), rng=3, num_rows=20, num_samples=3)
    >>> model = pgfa.PyClone(truth.data)
    >>> model
    PyClone(20 mutations, 3 samples, 0 missing, binomial)
    >>> chain = pgfa.Chain(model, pgfa.BetaBernoulli(2), seed=1)
    >>> chain.step(20, warmup=True)
    >>> states = []
    >>> for _ in range(20):
    ...     chain.step()
    ...     states.append(chain.state)
    >>> model.cellular_prevalence(states).columns.tolist()
    ['mutation_id', 'sample_id', 'mean', 'lower', 'upper']
    """

    feature_axes = {"V": (0,)}
    first_power = 1e-4
    warmup_starts = 4

    def __init__(
        self,
        table: Any,
        density: str = "binomial",
        *,
        v_prior: tuple[float, float] = (1.0, 1.0),
        precision_prior: tuple[float, float] = (160.0, 0.4),
        moves: Iterable[str] = DEFAULT_MOVES,
        singletons: str = "informed",
        column_moves: int = 2,
    ) -> None:
        self.density = checks.one_of("density", density, DENSITIES)
        self.v_prior = checks.gamma_prior("v_prior", v_prior)
        self.precision_prior = checks.gamma_prior("precision_prior", precision_prior)
        chosen = (moves,) if isinstance(moves, str) else tuple(moves)
        self.moves = tuple(checks.one_of("moves", move, tuple(MOVES)) for move in chosen)
        if not self.moves:
            raise ValueError("moves must name at least one move of V, got none")
        self.singletons = checks.one_of("singletons", singletons, ("informed", "prior"))
        self.column_moves = checks.whole("column_moves", column_moves, at_least=0)
        self._hold(read_counts(table))

    def _hold(self, counts: Counts) -> None:
        self._counts = counts
        self._layouts = make_layouts(counts)
        self._digest()

    def _digest(self) -> None:
        """What follows from the reads."""
        self._log_constant = log_constant(self._counts)
        self._information = reference_information(self._layouts.by_sample, self.num_samples)

    def __repr__(self) -> str:
        missing = self.num_rows * self.num_samples - self._counts.mutation.size
        return f"PyClone({self.num_rows} mutations, {self.num_samples} samples, {missing} missing, {self.density})"

    @property
    def num_rows(self) -> int:
        """Number of mutations N."""
        return len(self._counts.mutation_ids)

    @property
    def num_samples(self) -> int:
        """Number of samples M."""
        return len(self._counts.sample_ids)

    @property
    def mutation_ids(self) -> list[Any]:
        """The mutations, in the order of the rows of Z."""
        return list(self._counts.mutation_ids)

    @property
    def sample_ids(self) -> list[Any]:
        """The samples, in the order of the columns of V."""
        return list(self._counts.sample_ids)

    @property
    def table(self) -> pd.DataFrame:
        """The data as a table, ordered by mutation and sample."""
        return write_counts(self._counts)

    # --- parameters ---------------------------------------------------------------------------------------------------

    def _density_of(self, parameters: Parameters) -> Density:
        return Density(self.density == "beta-binomial", float(parameters.get("precision", 1.0)))

    def sample_parameters(self, rng: np.random.Generator, num_features: int) -> Parameters:
        shape, rate = self.v_prior
        V = rng.gamma(shape, 1.0 / rate, size=(num_features, self.num_samples))
        parameters: Parameters = {"V": np.maximum(V, SMALLEST)}
        if self.density == "beta-binomial":
            shape, rate = self.precision_prior
            parameters["precision"] = max(float(rng.gamma(shape, 1.0 / rate)), SMALLEST)
        return parameters

    def check_parameters(self, parameters: Parameters, num_features: int) -> Parameters:
        names = {"V"} | ({"precision"} if self.density == "beta-binomial" else set())
        if set(parameters) != names:
            raise ValueError(f"parameters must be {', '.join(sorted(names))}, got {', '.join(sorted(parameters))}")
        V = checks.array_of_shape("parameters['V']", parameters["V"], (num_features, self.num_samples))
        if np.any(V <= 0.0):
            k, m = np.argwhere(V <= 0.0)[0]
            raise ValueError(f"parameters['V'] must be positive, got {V[k, m]} for feature {k}, sample {m}")
        checked: Parameters = {"V": V}
        if self.density == "beta-binomial":
            checked["precision"] = checks.positive("parameters['precision']", parameters["precision"])
        return checked

    def log_prior(self, parameters: Parameters) -> float:
        V = parameters["V"]
        shape, rate = self.v_prior
        value = V.size * (shape * np.log(rate) - gammaln(shape)) + np.sum((shape - 1.0) * np.log(V) - rate * V)
        if self.density == "beta-binomial":
            value += log_gamma(parameters["precision"], *self.precision_prior)
        return float(value)

    # --- likelihood ---------------------------------------------------------------------------------------------------

    def log_likelihood(self, Z: NDArray[np.uint8], parameters: Parameters) -> float:
        return self._log_constant + self._varying_log_likelihood(Z, parameters["V"], self._density_of(parameters))

    def _varying_log_likelihood(self, Z: NDArray[np.uint8], V: NDArray[np.float64], density: Density) -> float:
        F = np.empty_like(V)
        normalise(V, F)
        return varying_log_likelihood(self._layouts.by_sample, density, Z, F)

    def rows(self, Z: NDArray[np.uint8], parameters: Parameters) -> CloneRows:
        informed = self.singletons == "informed"
        return clone_rows(self._layouts, self._density_of(parameters), Z, parameters["V"], *self.v_prior, informed)

    # --- moves --------------------------------------------------------------------------------------------------------

    def make_step_sizes(self) -> dict[str, StepSize]:
        sizes = {name: StepSize(FIRST_STEPS[name], TARGETS[name]) for name in TARGETS if name in self.moves}
        if self.density == "beta-binomial":
            sizes["precision"] = StepSize(0.1)
        # Whole columns move without a step size, but how often they do is worth counting.
        return sizes | {name: StepSize() for name in ("split", "birth", "regrouping")}

    def move_columns(
        self,
        state: State,
        prior: Prior,
        rng: np.random.Generator,
        *,
        power: float = 1.0,
        step_sizes: dict[str, StepSize] | None = None,
    ) -> State:
        """Split, merge and regroup populations, and let some be born or die."""
        density = self._density_of(state.parameters)

        def make_rows(Z: NDArray[np.uint8], V: NDArray[np.float64]) -> CloneRows:
            return clone_rows(self._layouts, density, Z, V, *self.v_prior, True)

        log_mass = prior.log_column_mass(self.num_rows, state.alpha)
        given = Given(make_rows, prior, state.alpha, log_mass, float(power))
        return move_whole_columns(given, state, self.column_moves, rng, step_sizes or {})

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
        """The chosen moves of V, each accepted or rejected sample by sample, then a random walk on log precision."""
        sizes = self.make_step_sizes() if step_sizes is None else step_sizes
        V = parameters["V"]
        if V.shape[0] > 0:
            target = make_target(
                self._layouts.by_sample,
                self._density_of(parameters),
                self._information,
                *self.v_prior,
                float(power),
                V.shape[0],
            )
            points = [make_point(target) for _ in range(3)]
            groups = [(name, len(list(repeated))) for name, repeated in groupby(self.moves)]
            kinds = tuple(MOVES[name](sizes[name].value if name in sizes else 1.0, count) for name, count in groups)
            tally = np.zeros((len(kinds), 2), dtype=np.int64)
            update_prevalences(kinds, target, *points, Z, V, tally, rng)
            for (name, _), (accepted, proposed) in zip(groups, tally.tolist(), strict=True):
                if name in sizes:
                    sizes[name].record(accepted, proposed, adapt=warmup)
        if self.density == "beta-binomial":
            self._update_precision(Z, parameters, rng, float(power), sizes["precision"], warmup)

    def _update_precision(
        self,
        Z: NDArray[np.uint8],
        parameters: Parameters,
        rng: np.random.Generator,
        power: float,
        size: StepSize,
        warmup: bool,
    ) -> None:
        shape, rate = self.precision_prior

        def log_target(precision: float) -> float:
            """In log precision, whose Jacobian makes shape of shape - 1."""
            log_lik = self._varying_log_likelihood(Z, parameters["V"], Density(True, precision))
            return power * log_lik + shape * np.log(precision) - rate * precision

        present = parameters["precision"]
        proposal = float(present * np.exp(size.value * rng.standard_normal()))
        accepted = np.log(rng.random()) < log_target(proposal) - log_target(present)
        size.record(int(accepted), 1, adapt=warmup)
        if accepted:
            parameters["precision"] = proposal

    # --- data
    # -----------------------------------------------------------------------------------------------------------

    def sample_data(
        self, Z: NDArray[np.uint8], parameters: Parameters, rng: np.random.Generator
    ) -> NDArray[np.float64]:
        """Reads with the mutation, of shape (N, M), at the depths of the data; NaN where there are no data."""
        F = np.empty_like(parameters["V"])
        normalise(parameters["V"], F)
        return draw_alt_counts(self._counts, Z @ F, parameters.get("precision"), rng)

    def with_data(self, data: Any) -> PyClone:
        """The same model for another table, or for other reads with the mutation as `sample_data` draws them."""
        if not isinstance(data, np.ndarray):
            return PyClone(data, **self._options())
        model = object.__new__(PyClone)
        model.__dict__.update(self.__dict__)
        model._counts, model._layouts = put_reads(self._counts, self._layouts, data)
        model._digest()
        return model

    def _options(self) -> dict[str, Any]:
        names = ("density", "v_prior", "precision_prior", "moves", "singletons", "column_moves")
        return {name: getattr(self, name) for name in names}

    @property
    def parameter_dims(self) -> dict[str, tuple[str, ...]]:
        return {"V": ("feature", "sample")}

    def coords(self) -> dict[str, list[Any]]:
        return {"row": self.mutation_ids, "sample": self.sample_ids}

    def observed_data(self) -> dict[str, tuple[tuple[str, ...], NDArray[Any]]]:
        tables: dict[str, tuple[tuple[str, ...], NDArray[Any]]] = {}
        for name, values in (("ref_counts", self._counts.ref), ("alt_counts", self._counts.alt)):
            matrix = np.full((self.num_rows, self.num_samples), np.nan)
            matrix[self._counts.mutation, self._counts.sample] = values
            tables[name] = (("row", "sample"), matrix)
        return tables

    def describe(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        ids = {"mutation_ids": self.mutation_ids, "sample_ids": self.sample_ids}
        return self._options() | ids, {name: getattr(self._counts, name) for name in Counts._fields[2:]}

    @classmethod
    def from_description(cls, words: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> PyClone:
        options = dict(words)
        counts = Counts(options.pop("mutation_ids"), options.pop("sample_ids"), **arrays)
        model = cls(write_counts(counts), **options)
        # A table numbers its samples as they appear, and with some missing that need not be the order they had.
        model._hold(counts)
        return model

    # --- results
    # --------------------------------------------------------------------------------------------------------

    def prevalence(self, state: State) -> NDArray[np.float64]:
        """Cellular prevalence of every mutation in every sample, of shape (N, M), for one state."""
        F = np.empty_like(state.parameters["V"])
        normalise(state.parameters["V"], F)
        return np.clip(state.Z @ F, 0.0, 1.0)

    def summarise(self, draws: Any, *, level: float = 0.95, min_prevalence: float = 0.02) -> PopulationSummary:
        """What the draws say of populations and mutations, in tables with the ids of the data.

        Labels mean nothing across draws: populations are first matched to those of one typical draw, so that as few
        entries of Z as possible differ. Of the populations so matched, those that carry the same mutations are merged
        and those that hardly any cell belongs to are left out; `notes` of the result says so.

        Parameters
        ----------
        draws
            What `pgfa.sample` returns, or states.
        level
            Probability of the credible intervals.
        min_prevalence
            Populations whose mean share is below this in every sample are left out: counts hardly tell what so few
            cells carry.
        """
        return summarise(self.mutation_ids, self.sample_ids, draws, level, min_prevalence)

    def cellular_prevalence(self, draws: Any, *, level: float = 0.95) -> pd.DataFrame:
        """Cellular prevalence of each mutation in each sample, missing ones included, with credible intervals."""
        return self.summarise(draws, level=level).cellular_prevalence

    def population_prevalences(self, draws: Any, *, level: float = 0.95, min_prevalence: float = 0.02) -> pd.DataFrame:
        """Share of each population in each sample, with credible intervals; see `summarise`."""
        return self.summarise(draws, level=level, min_prevalence=min_prevalence).population_prevalence

    def carriers(self, draws: Any, *, min_prevalence: float = 0.02) -> pd.DataFrame:
        """Probability that each population carries each mutation; see `summarise`."""
        return self.summarise(draws, min_prevalence=min_prevalence).carriers

    def merge_duplicates(self, state: State) -> State:
        """The state with populations that carry the same mutations made one; prevalences of mutations do not change."""
        return merge_same_columns(state)


@simulator("pyclone")
def simulate_pyclone(
    prior: Prior,
    rng: np.random.Generator,
    *,
    num_rows: int,
    num_samples: int,
    alpha: float = 2.0,
    density: str = "binomial",
    precision: float = 400.0,
    mean_depth: float = 1000.0,
    tumour_content: float = 1.0,
    error_rate: float = 0.001,
    v_prior: tuple[float, float] = (1.0, 1.0),
    missing: float = 0.0,
) -> Simulation:
    """Reads as in the paper: Poisson depth, two copies, major copy number 1 or 2, mutant copies uniform up to that."""
    Z = prior.sample(rng, checks.whole("num_rows", num_rows, at_least=1), checks.positive("alpha", alpha))
    shape, rate = checks.gamma_prior("v_prior", v_prior)
    num_samples = checks.whole("num_samples", num_samples, at_least=1)
    V = np.maximum(rng.gamma(shape, 1.0 / rate, size=(Z.shape[1], num_samples)), SMALLEST)
    parameters: Parameters = {"V": V}
    if checks.one_of("density", density, DENSITIES) == "beta-binomial":
        parameters["precision"] = checks.positive("precision", precision)
    F = np.empty_like(V)
    normalise(V, F)
    complete = write_counts(
        simulate_counts(
            np.asarray(Z @ F, dtype=np.float64),
            parameters.get("precision"),
            checks.positive("mean_depth", mean_depth),
            checks.positive("tumour_content", tumour_content),
            checks.positive("error_rate", error_rate),
            rng,
        )
    )
    num_missing = round(checks.unit_interval("missing", missing) * len(complete))
    holes = rng.choice(len(complete), size=num_missing, replace=False)
    data = complete.drop(index=holes.tolist()).reset_index(drop=True)
    return Simulation(data, complete, State(Z, alpha, parameters), PyClone(data, density, v_prior=(shape, rate)))
