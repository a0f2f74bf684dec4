"""One Markov chain, driven by hand."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from pgfa import checks
from pgfa.adaptation import StepSize
from pgfa.models.base import Model
from pgfa.priors.base import Prior
from pgfa.samplers.base import RowSampler
from pgfa.samplers.column_moves import ColumnMove
from pgfa.samplers.discrete_particle_filter import DiscreteParticleFilter
from pgfa.samplers.singletons import ROOM, make_conditional, propose_births
from pgfa.samplers.sweep import sweep
from pgfa.state import State, add_features, drop_unused_features, put_features, select_features

UPDATES = ("features", "parameters", "concentration")
#: Updates of the parameters before the rows move again around a renewed feature.
_UPDATES_OF_A_GUESS = 2


class Chain:
    """A Markov chain over feature matrices, parameters and concentration.

    One iteration is one sweep over the rows of Z (one compiled call), one update of the model's parameters and one of
    the concentration alpha.

    Parameters
    ----------
    model
        Data and likelihood, for instance `LinearGaussian`.
    prior
        `BetaBernoulli` or `IndianBuffet`.
    sampler
        How rows are moved; `DiscreteParticleFilter` unless given.
    seed
        A whole number, SeedSequence or Generator. The same seed gives the same draws.
    update
        What moves: any of ``"features"``, ``"parameters"``, ``"concentration"``.
    column_moves
        Moves of whole columns that follow each sweep over the rows (`ColumnBlock`, `SingletonExchange`,
        `JointFlip`, `ThreeAndTwo`), part of updating the features. They come beside those that the model makes of its
        own accord (`PyClone`, `Relational`); False leaves out these as well.
    state
        Where to start; drawn from the prior unless given.

    Examples
    --------
    >>> import numpy as np, pgfa
    >>> X = np.random.default_rng(0).normal(size=(30, 4))
    >>> chain = pgfa.Chain(pgfa.LinearGaussian(X), pgfa.BetaBernoulli(num_features=3), seed=1)
    >>> chain.step(10)
    >>> chain.state.Z.shape
    (30, 3)
    >>> bool(np.isfinite(chain.log_density()))
    True
    """

    def __init__(
        self,
        model: Model,
        prior: Prior,
        sampler: RowSampler | None = None,
        *,
        seed: Any = None,
        update: Iterable[str] = UPDATES,
        column_moves: Sequence[ColumnMove] | Literal[False] = (),
        state: State | None = None,
    ) -> None:
        sampler = DiscreteParticleFilter() if sampler is None else sampler
        for name, value, kind in (("model", model, Model), ("prior", prior, Prior), ("sampler", sampler, RowSampler)):
            checks.of_kind(name, value, kind)
        self.prior = prior
        self.sampler = sampler
        self.update = _check_update(update)
        self.column_moves = check_column_moves(column_moves, model)
        self.rng = checks.generator("seed", seed)
        self.step_sizes: dict[str, StepSize] = {"alpha": StepSize(), **model.make_step_sizes()}
        self.num_iterations = 0
        self.num_singleton_proposals = 0
        self.num_singletons_accepted = 0
        self._model = model
        self._state = self._draw_state() if state is None else self._check_state(state)

    def __repr__(self) -> str:
        return f"Chain({self.model}, {self.prior}, {self.sampler}, after {self.num_iterations} iterations)"

    @property
    def model(self) -> Model:
        """The model; another one may be put in its place as long as the present state fits it."""
        return self._model

    @model.setter
    def model(self, model: Model) -> None:
        self._model, before = model, self._model
        try:
            self._state = self._check_state(self._state)
        except ValueError:
            self._model = before
            raise

    @property
    def state(self) -> State:
        """A copy of the present state."""
        return self._state.copy()

    def step(self, count: int = 1, *, warmup: bool = False, power: float = 1.0) -> None:
        """Run some iterations.

        Parameters
        ----------
        count
            How many.
        warmup
            Allow what is valid in warm-up only: tuning of step sizes, and the test paths "conditional" and "two-stage".
        power
            Power of the likelihood, between 0 (the prior) and 1 (the posterior).
        """
        checks.whole("count", count, at_least=0)
        checks.unit_interval("power", power)
        for _ in range(count):
            if "features" in self.update:
                self._update_features(power, warmup)
                if self.column_moves is not False:
                    self._state = self._model.move_columns(
                        self._state, self.prior, self.rng, power=power, step_sizes=self.step_sizes
                    )
                for move in self.column_moves or ():
                    self._state = move.apply(self._model, self.prior, self._state, self.rng, power)
            if "parameters" in self.update:
                self._model.update_parameters(
                    self._state.Z, self._state.parameters, self.rng,
                    power=power, step_sizes=self.step_sizes, warmup=warmup,
                )  # fmt: skip
            if "concentration" in self.update:
                self._state.alpha = self.prior.update_alpha(
                    self._state.Z, self._state.alpha, self.rng, self.step_sizes["alpha"], warmup=warmup
                )
            self.num_iterations += 1

    def log_density(self) -> float:
        """log p(X, Z, parameters, alpha), normalised."""
        state = self._state
        return (
            self._model.log_likelihood(state.Z, state.parameters)
            + self._model.log_prior(state.parameters)
            + self.prior.log_prob(state.Z, state.alpha)
            + self.prior.log_prob_alpha(state.alpha)
        )

    def snapshot(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """All that is needed to go on later: settings in plain words, random stream included, and arrays."""
        state = self._state
        arrays = {name: value for name, value in state.parameters.items() if isinstance(value, np.ndarray)}
        words = {
            "alpha": state.alpha,
            "scalars": {name: value for name, value in state.parameters.items() if name not in arrays},
            "random_stream": self.rng.bit_generator.state,
            "step_sizes": {name: asdict(step_size) for name, step_size in self.step_sizes.items()},
            "num_iterations": self.num_iterations,
            "num_singleton_proposals": self.num_singleton_proposals,
            "num_singletons_accepted": self.num_singletons_accepted,
        }
        return words, {"Z": state.Z, **arrays}

    def restore(self, words: dict[str, Any], arrays: dict[str, Any]) -> None:
        """Go back to a snapshot; what follows is what followed then."""
        parameters = {name: np.array(value) for name, value in arrays.items() if name != "Z"} | words["scalars"]
        self._state = self._check_state(State(arrays["Z"], words["alpha"], parameters))
        self.rng.bit_generator.state = words["random_stream"]
        self.step_sizes = {name: StepSize(**fields) for name, fields in words["step_sizes"].items()}
        self.num_iterations = words["num_iterations"]
        self.num_singleton_proposals = words["num_singleton_proposals"]
        self.num_singletons_accepted = words["num_singletons_accepted"]

    def follow(self, other: Chain) -> None:
        """Go to where another chain is, with a random stream of one's own."""
        words, arrays = other.snapshot()
        self.restore(words | {"random_stream": self.rng.bit_generator.state}, arrays)

    def renew_feature(self) -> None:
        """Put a guess at what is missing in the place of a feature; for warm-up only.

        Every other time that is the idlest, with the fewest owners, and else any of them: the idlest may hold a few
        outliers that nothing else tells of, while another one is waste. Where the number of features is free, chains
        are more often caught with too many than with too few, and every other time a random feature goes without
        anything in its place. Nothing happens where the model has no guess to make.
        """
        state, model = self._state, self._model
        if not model.has_guesses or state.num_features == 0:
            return
        if self.prior.grows and self.rng.random() < 0.5:
            gone = self._random_feature()
            state = select_features(state, model.feature_axes, np.delete(np.arange(state.num_features), gone))
        else:
            owners = model.guess_owners(state, self.rng)
            if owners is None:
                return
            k = model.find_idlest(state.Z) if self.rng.random() < 0.5 else self._random_feature()
            state.Z[:, k] = owners
            for name, axes in model.feature_axes.items():
                for axis in axes:
                    np.moveaxis(state.parameters[name], axis, 0)[k] = 0.0
        for _ in range(_UPDATES_OF_A_GUESS):
            model.update_parameters(state.Z, state.parameters, self.rng, step_sizes=self.step_sizes, warmup=True)
        self._state = drop_unused_features(state, model.feature_axes) if self.prior.grows else state

    def _random_feature(self) -> int:
        return int(self.rng.integers(self._state.num_features))

    def _update_features(self, power: float, warmup: bool) -> None:
        state, model, prior = self._state, self._model, self.prior
        axes = model.feature_axes
        sampler = self.sampler.choose(self.rng)
        log_odds = prior.log_odds(state.num_rows, state.alpha)
        births: Any = None
        if self._integrates_singletons:
            births = make_conditional(*prior.singleton_rate(state.num_rows, state.alpha), self.rng)
        elif prior.grows:
            births = propose_births(state.num_rows, state.alpha, self.rng)
            state = add_features(state, axes, int(births.counts.sum()))
        row = 0
        while row < state.num_rows:
            at_hand, columns = state, None
            if self._integrates_singletons and prior.grows:
                state = at_hand = add_features(drop_unused_features(state, axes), axes, ROOM)
            elif self._integrates_singletons:
                columns = self._columns_at_hand(state)
                at_hand = select_features(state, axes, columns)
            rows = model.rows(at_hand.Z, at_hand.parameters)
            kernel = sampler.make_kernel(rows, at_hand.num_features, warmup=warmup)
            owners = at_hand.Z.sum(axis=0, dtype=np.int64)
            row, tried, changed = sweep(
                kernel, rows, at_hand.Z, owners, log_odds, births, rows.make_block(1), float(power), self.rng, row
            )
            self.num_singleton_proposals += tried
            self.num_singletons_accepted += changed
            if columns is not None:
                put_features(state, axes, columns, at_hand)
        self._state = drop_unused_features(state, axes) if prior.grows else state

    @property
    def _integrates_singletons(self) -> bool:
        """Under a finite prior that moves parameters, those of columns without owner too; not where they are held."""
        return self._model.integrates_singletons and (self.prior.grows or "parameters" in self.update)

    def _columns_at_hand(self, state: State) -> NDArray[np.intp]:
        """The columns in use and a few random ones of the others: empty ones take time, and one is like another."""
        is_used = state.Z.any(axis=0)
        empty = np.flatnonzero(~is_used)
        some = self.rng.choice(empty, size=min(ROOM, empty.size), replace=False)
        return np.concatenate([np.flatnonzero(is_used), some])

    def _draw_state(self) -> State:
        alpha = self.prior.sample_alpha(self.rng)
        Z = self.prior.sample(self.rng, self._model.num_rows, alpha)
        return State(Z, alpha, self._model.sample_parameters(self.rng, Z.shape[1]))

    def _check_state(self, state: Any) -> State:
        if not isinstance(state, State):
            raise ValueError(f"state must be a pgfa.State, got {state!r}")
        Z = checks.binary_matrix("state.Z", state.Z, self._model.num_rows)
        self.prior.check(Z)
        alpha = checks.positive("state.alpha", state.alpha)
        checked = State(Z, alpha, self._model.check_parameters(state.parameters, Z.shape[1]))
        return drop_unused_features(checked, self._model.feature_axes) if self.prior.grows else checked


#: Moves of whole columns beside the model's own, or False for none at all.
ColumnMoves = tuple[ColumnMove, ...] | Literal[False]


def check_column_moves(column_moves: Any, model: Model) -> ColumnMoves:
    """Column moves that the model can make."""
    if column_moves is False:
        return False
    moves = (column_moves,) if isinstance(column_moves, ColumnMove) else tuple(column_moves)
    for move in moves:
        if not isinstance(move, ColumnMove):
            raise ValueError(f"column_moves must be ColumnBlocks or the like, got {move!r}")
    if moves and not model.has_column_moves:
        raise ValueError(
            f"column_moves do not work for {type(model).__name__}: its data are not Gaussian in the features"
        )
    return moves


def _check_update(update: Iterable[str]) -> tuple[str, ...]:
    chosen = (update,) if isinstance(update, str) else tuple(update)
    for name in chosen:
        checks.one_of("update", name, UPDATES)
    return chosen
