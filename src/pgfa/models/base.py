"""What every model offers to a chain."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pgfa.adaptation import StepSize
from pgfa.columns import ColumnView
from pgfa.priors.base import Prior
from pgfa.rows import RowView
from pgfa.state import FeatureAxes, State

Parameters = dict[str, Any]


class Model(ABC):
    """Data, and their likelihood given a feature matrix Z and the model's parameters.

    A model never knows which sampler moves its rows: it hands out a row view (`rows`) and updates its own parameters.
    """

    #: Which axes of which parameter run over the features.
    feature_axes: FeatureAxes

    #: Power of the likelihood from which annealing rises by a constant factor; zero for a linear rise. Where counts are
    #: so deep that a hundredth of the likelihood decides already, a linear rise would hardly anneal at all.
    first_power: float = 0.0

    #: Iterations of warm-up, unless told otherwise.
    warmup: int = 500

    #: Share of the warm-up over which the power rises, unless told otherwise.
    annealed_share: float = 0.6

    #: How many starts a chain tries in its warm-up, unless told otherwise: more for models whose chains end far apart.
    warmup_starts: int = 1

    #: Iterations in warm-up after which a chain with a renewed feature has to be better than the one without; zero for
    #: models that have no guess at what is missing (`guess_owners`).
    renewal: int = 0

    @property
    @abstractmethod
    def num_rows(self) -> int:
        """Number of rows N of Z."""

    @abstractmethod
    def sample_parameters(self, rng: np.random.Generator, num_features: int) -> Parameters:
        """Draw all parameters from their prior."""

    @abstractmethod
    def check_parameters(self, parameters: Parameters, num_features: int) -> Parameters:
        """Private copies of the parameters, or a ValueError that names the one that does not fit."""

    @abstractmethod
    def log_prior(self, parameters: Parameters) -> float:
        """Log prior density of the parameters."""

    @abstractmethod
    def log_likelihood(self, Z: NDArray[np.uint8], parameters: Parameters) -> float:
        """Log likelihood of the observed data."""

    @abstractmethod
    def rows(self, Z: NDArray[np.uint8], parameters: Parameters) -> RowView:
        """View of the rows for these parameters. Sweeps that add features write their parameters in place."""

    @abstractmethod
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
        """Move the parameters, in place, leaving invariant their posterior with the likelihood raised to `power`."""

    def column_view(self, parameters: Parameters, power: float) -> ColumnView:
        """Data as Gaussian in the values of the features, for column moves."""
        raise NotImplementedError(f"{type(self).__name__} has no column moves")

    def move_columns(
        self,
        state: State,
        prior: Prior,
        rng: np.random.Generator,
        *,
        power: float = 1.0,
        step_sizes: dict[str, StepSize] | None = None,
    ) -> State:
        """Moves of whole columns that the model itself knows of, after each sweep; returns the new state."""
        return state

    def guess_owners(self, state: State, rng: np.random.Generator) -> NDArray[np.bool_] | None:
        """Owners that a further feature may have, guessed from what the state leaves unexplained; None for no idea.

        The feature that they get starts with parameters of zero, which must be values that it may have.
        """
        return None

    def find_idlest(self, Z: NDArray[np.uint8]) -> int:
        """The feature that tells rows apart least: the one with the fewest owners, unless the model knows better."""
        return int(np.argmin(Z.sum(axis=0)))

    @property
    def integrates_singletons(self) -> bool:
        """Whether the row view can `weigh_singletons`; their number is then drawn from its conditional distribution."""
        return False

    @property
    def has_guesses(self) -> bool:
        """Whether the model can `guess_owners`."""
        return type(self).guess_owners is not Model.guess_owners

    @property
    def has_column_moves(self) -> bool:
        """Whether the model offers a `column_view`."""
        return type(self).column_view is not Model.column_view

    def make_step_sizes(self) -> dict[str, StepSize]:
        """Step sizes of the model's random-walk moves, to be tuned in warm-up."""
        return {}

    @property
    def parameter_dims(self) -> dict[str, tuple[str, ...]]:
        """Names of the axes of each parameter that is an array; those over features are feature and feature_2."""
        return {name: ("feature", "feature_2")[: len(axes)] for name, axes in self.feature_axes.items()}

    def coords(self) -> dict[str, list[Any]]:
        """Labels of the axes of the data and of the parameters."""
        return {}

    def observed_data(self) -> dict[str, tuple[tuple[str, ...], NDArray[Any]]]:
        """The data by name, each with the names of its axes."""
        return {}

    def describe(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Settings in plain words (JSON) and arrays from which `from_description` makes the model again."""
        raise NotImplementedError(f"{type(self).__name__} does not say how it is stored")

    @classmethod
    def from_description(cls, words: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> Model:
        """The model that was described."""
        raise NotImplementedError(f"{cls.__name__} does not say how it is stored")

    @abstractmethod
    def sample_data(self, Z: NDArray[np.uint8], parameters: Parameters, rng: np.random.Generator) -> Any:
        """Draw a complete data set from the likelihood."""

    @abstractmethod
    def with_data(self, data: Any) -> Model:
        """The same model for other data."""
