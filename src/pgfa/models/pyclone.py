"""The PyClone feature-allocation model: which cell populations carry which mutation."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from pgfa import checks
from pgfa.adaptation import StepSize
from pgfa.models import pyclone_singletons  # noqa: F401  (teaches the rows how to propose singletons)
from pgfa.models.base import Model, Parameters
from pgfa.models.pyclone_columns import be_born_or_die, split_or_merge
from pgfa.models.pyclone_genotypes import log_constant, make_layouts
from pgfa.models.pyclone_likelihood import Density, make_scratch
from pgfa.models.pyclone_rows import CloneRows, clone_rows, normalise
from pgfa.models.pyclone_table import Counts, read_counts
from pgfa.models.pyclone_updates import (
    MOVES,
    TARGETS,
    make_point,
    make_target,
    reference_information,
    total_log_likelihood,
    update_prevalences,
)
from pgfa.priors.base import Prior
from pgfa.state import State

DENSITIES = ("binomial", "beta-binomial")
_SMALLEST = 1e-290


class PyClone(Model):
    feature_axes = {"V": (0,)}

    def __init__(
        self,
        table: Any,
        density: str = "binomial",
        *,
        v_prior: tuple[float, float] = (1.0, 1.0),
        precision_prior: tuple[float, float] = (160.0, 0.4),
        moves: Iterable[str] = ("langevin",),
        singletons: str = "informed",
        num_splits=4,
        num_births=1,
    ) -> None:
        self.num_splits=num_splits;self.num_births=num_births
        self.density = checks.one_of("density", density, DENSITIES)
        self.v_prior = v_prior
        self.precision_prior = precision_prior
        self.moves = tuple(checks.one_of("moves", move, MOVES) for move in moves)
        self.singletons = checks.one_of("singletons", singletons, ("informed", "prior"))
        self._set_counts(read_counts(table))

    def _set_counts(self, counts: Counts) -> None:
        self._counts = counts
        self._layouts = make_layouts(counts)
        self._log_constant = log_constant(counts)
        self._information = reference_information(self._layouts.by_sample, self.num_samples)

    @property
    def num_rows(self) -> int:
        return len(self._counts.mutation_ids)

    @property
    def num_samples(self) -> int:
        return len(self._counts.sample_ids)

    def _density_of(self, parameters: Parameters) -> Density:
        return Density(self.density == "beta-binomial", float(parameters.get("precision", 1.0)))

    def sample_parameters(self, rng: np.random.Generator, num_features: int) -> Parameters:
        shape, rate = self.v_prior
        V = np.maximum(rng.gamma(shape, 1.0 / rate, size=(num_features, self.num_samples)), _SMALLEST)
        parameters: Parameters = {"V": V}
        if self.density == "beta-binomial":
            shape, rate = self.precision_prior
            parameters["precision"] = max(float(rng.gamma(shape, 1.0 / rate)), _SMALLEST)
        return parameters

    def check_parameters(self, parameters: Parameters, num_features: int) -> Parameters:
        names = {"V"} | ({"precision"} if self.density == "beta-binomial" else set())
        if set(parameters) != names:
            raise ValueError(f"parameters must be {', '.join(sorted(names))}, got {', '.join(sorted(parameters))}")
        V = checks.array_of_shape("parameters['V']", parameters["V"], (num_features, self.num_samples))
        if np.any(V <= 0.0):
            raise ValueError("parameters['V'] must be positive")
        checked: Parameters = {"V": V}
        if self.density == "beta-binomial":
            checked["precision"] = checks.positive("parameters['precision']", parameters["precision"])
        return checked

    def log_prior(self, parameters: Parameters) -> float:
        shape, rate = self.v_prior
        value = stats.gamma.logpdf(parameters["V"], shape, scale=1.0 / rate).sum()
        if self.density == "beta-binomial":
            shape, rate = self.precision_prior
            value += stats.gamma.logpdf(parameters["precision"], shape, scale=1.0 / rate)
        return float(value)

    def log_likelihood(self, Z: NDArray[np.uint8], parameters: Parameters) -> float:
        return self._log_constant + self._varying_log_likelihood(Z, parameters["V"], self._density_of(parameters))

    def _varying_log_likelihood(self, Z: NDArray[np.uint8], V: NDArray[np.float64], density: Density) -> float:
        F = np.empty_like(V)
        normalise(V, F)
        layout = self._layouts.by_sample
        widest = max(int(np.diff(layout.sample_start).max(initial=0)), 1)
        return float(total_log_likelihood(layout, density, Z, F, make_scratch(widest), np.empty(widest)))

    def rows(self, Z: NDArray[np.uint8], parameters: Parameters) -> CloneRows:
        return clone_rows(
            self._layouts, self._density_of(parameters), Z, parameters["V"], *self.v_prior, self.singletons == "informed"
        )

    def move_columns(
        self,
        state: State,
        prior: Prior,
        rng: np.random.Generator,
        *,
        power: float = 1.0,
        step_sizes: dict[str, StepSize] | None = None,
    ) -> State:
        sizes = {} if step_sizes is None else step_sizes
        density = self._density_of(state.parameters)

        def make_rows(Z: NDArray[np.uint8], V: NDArray[np.float64]) -> CloneRows:
            return clone_rows(self._layouts, density, Z, V, *self.v_prior, True)

        Z, V = state.Z, state.parameters["V"]
        for name, move, count in (("split", split_or_merge, self.num_splits), ("birth", be_born_or_die, self.num_births)):
            for _ in range(count):
                Z, V, accepted = move(make_rows, Z, V, prior, state.alpha, rng, power)
                if name in sizes:
                    sizes[name].record(int(accepted), 1, adapt=False)
        return State(Z, state.alpha, state.parameters | {"V": V})

    def make_step_sizes(self) -> dict[str, StepSize]:
        sizes = {name: StepSize(1.0 if name == "langevin" else 0.2, target) for name, target in TARGETS.items() if name in self.moves}
        if self.density == "beta-binomial":
            sizes["precision"] = StepSize(0.1)
        sizes |= {"split":StepSize(),"birth":StepSize()}
        return sizes

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
        sizes = self.make_step_sizes() if step_sizes is None else step_sizes
        V = parameters["V"]
        num_features = V.shape[0]
        target = make_target(
            self._layouts.by_sample, self._density_of(parameters), self._information, self.v_prior[1], float(power), num_features
        )
        points = [make_point(num_features, target.z.shape[1]) for _ in range(3)]
        codes = np.array([MOVES.index(name) for name in self.moves], dtype=np.int64)
        steps = np.array([sizes[name].value if name in sizes else 1.0 for name in MOVES])
        counts = np.zeros((len(MOVES), 2), dtype=np.int64)
        update_prevalences(target, *points, Z, V, self.v_prior[0], codes, steps, counts, rng)
        for name, (accepted, proposed) in zip(MOVES, counts.tolist(), strict=True):
            if name in sizes:
                sizes[name].record(accepted, proposed, adapt=warmup)
        if self.density == "beta-binomial":
            self._update_precision(Z, parameters, rng, power, sizes["precision"], warmup)

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
        V, old = parameters["V"], parameters["precision"]
        new = float(old * np.exp(size.value * rng.standard_normal()))
        values = [
            power * self._varying_log_likelihood(Z, V, Density(True, s)) + shape * np.log(s) - rate * s for s in (new, old)
        ]
        accepted = np.log(rng.random()) < values[0] - values[1]
        size.record(int(accepted), 1, adapt=warmup)
        if accepted:
            parameters["precision"] = new

    def sample_data(self, Z: NDArray[np.uint8], parameters: Parameters, rng: np.random.Generator) -> Any:
        raise NotImplementedError

    def with_data(self, data: Any) -> PyClone:
        raise NotImplementedError
