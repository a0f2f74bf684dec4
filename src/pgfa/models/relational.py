"""The latent feature relational model: links between nodes are likely or not by the features that both ends own."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from pgfa import checks
from pgfa.adaptation import StepSize
from pgfa.columns import draw_number_of_moves
from pgfa.densities import draw_gamma, log_gamma, log_normal
from pgfa.link_prediction import LinkPrediction
from pgfa.models import relational_singletons  # noqa: F401  (adds births and deaths to the row view)
from pgfa.models.base import Model, Parameters
from pgfa.models.edges import adjacency_from_edges, edges_of_graph
from pgfa.models.network import dense, make_network
from pgfa.models.relational_columns import exchange_columns
from pgfa.models.relational_rows import LinkRows, link_rows
from pgfa.models.relational_weights import move_weights, sum_of_log_likelihoods
from pgfa.priors.base import Prior
from pgfa.simulation import Simulation, simulator
from pgfa.state import State, drop_unused_features, iterate_states

#: Passes over the weights in one update: cheap beside the sweep over the rows, and the weights should keep up with it.
_PASSES = 3
#: How often a guess at a feature is pulled towards what is unexplained.
_PULLS = 1


class Relational(Model):
    """Latent feature relational model (LFRM) of a network, directed or not, with missing links.

    Nodes i and j are linked with probability ``1 / (1 + exp(-s_ij))``, where ``s_ij = bias + sum_kl z_ik v_kl z_jl``.
    The weights v_kl are Normal(0, tau), given by mean and precision, and tau has a Gamma prior.

    Parameters
    ----------
    X
        Square matrix of 0, 1 and NaN for unknown, an array or a pandas table whose rows and columns carry the same
        labels: entry (i, j) says whether there is a link from i to j.
    symmetric
        Whether links have no direction. Then ``v_kl = v_lk`` and every pair of nodes counts once; X must be symmetric.
    self_links
        Whether the links of nodes with themselves, on the diagonal, count. If not, the diagonal is ignored.
    bias
        Whether to add a constant to all scores, with a Normal prior. Sparse networks are fitted better with one.
    tau_prior
        Shape and rate of the Gamma prior of tau.
    bias_prior
        Mean and precision of the Normal prior of the bias.
    singletons
        How the weights of features of a single node are proposed under the Indian buffet process: ``"fitted"`` to the
        links of that node, or from their ``"prior"`` as in the paper, which is rarely accepted and kept for comparison.
    column_moves
        Proposals after each sweep to replace a column by its symmetric difference with another or by its complement, or
        three columns by two and back; a fraction is the probability of one more.

    See Also
    --------
    Relational.from_edges : for a list of edges.
    Relational.from_networkx : for a graph.

    References
    ----------
    K. Miller, T. Griffiths, M. Jordan (2009). Nonparametric latent feature models for link prediction. NIPS.

    Examples
    --------
    >>> import numpy as np, pgfa
    >>> team = np.repeat([0, 1], 10)
    >>> X = (team[:, None] == team).astype(float)
    >>> X[0, 1] = np.nan
    >>> model = pgfa.Relational(X)
    >>> chain = pgfa.Chain(model, pgfa.BetaBernoulli(num_features=2), seed=1)
    >>> chain.step(100)
    >>> bool(model.predict_links(chain.state).probability[0, 1] > 0.5)
    True
    """

    feature_axes = {"V": (0, 1)}
    warmup = 1000  # after 300, three of eight chains were home on a network of ten features, after 1000 seven
    annealed_share = 0.3
    renewal = 10

    def __init__(
        self,
        X: Any,
        symmetric: bool = False,
        self_links: bool = True,
        bias: bool = False,
        *,
        tau_prior: tuple[float, float] = (1.0, 1.0),
        bias_prior: tuple[float, float] = (0.0, 0.1),
        singletons: str = "fitted",
        column_moves: float = 0.25,
    ) -> None:
        self.symmetric = checks.truth("symmetric", symmetric)
        self.self_links = checks.truth("self_links", self_links)
        self.bias = checks.truth("bias", bias)
        self.tau_prior = checks.gamma_prior("tau_prior", tau_prior)
        self.bias_prior = checks.normal_prior("bias_prior", bias_prior)
        self.singletons = checks.one_of("singletons", singletons, ("fitted", "prior"))
        self.column_moves = checks.non_negative("column_moves", column_moves)
        self.row_labels = _labels_of(X)
        matrix = _check_adjacency(X, self.symmetric, self.self_links)
        self._network = make_network(matrix, self.symmetric)

    @classmethod
    def from_edges(
        cls,
        edges: Any,
        symmetric: bool = False,
        self_links: bool = False,
        bias: bool = False,
        *,
        nodes: Sequence[Hashable] | None = None,
        unlisted: float = 0.0,
        **priors: Any,
    ) -> Relational:
        """The model of a list of edges.

        Parameters
        ----------
        edges
            A pandas table with the columns source, target and, if you like, value; or rows ``(source, target)`` or
            ``(source, target, value)``. The value is 1 for a link, 0 for none and NaN for unknown; without it, 1.
        symmetric, self_links, bias
            As for `Relational`. An edge from a node to itself is refused unless `self_links`.
        nodes
            All nodes, in the order that you want; those that occur in `edges`, in that order, unless given.
        unlisted
            What a pair means that is not listed: 0 for no link, NaN for unknown.
        **priors
            `tau_prior` and `bias_prior`, as for `Relational`.

        Examples
        --------
        >>> import numpy as np, pgfa
        >>> edges = [("ann", "bob", 1), ("bob", "cleo", 1), ("ann", "cleo", np.nan)]
        >>> model = pgfa.Relational.from_edges(edges, symmetric=True)
        >>> model.row_labels
        ['ann', 'bob', 'cleo']
        """
        symmetric = checks.truth("symmetric", symmetric)
        self_links = checks.truth("self_links", self_links)
        X, labels = adjacency_from_edges(edges, symmetric, self_links, nodes, unlisted)
        model = cls(X, symmetric, self_links, bias, **priors)
        model.row_labels = labels
        return model

    @classmethod
    def from_networkx(
        cls,
        graph: Any,
        self_links: bool = False,
        bias: bool = False,
        *,
        value: str | None = None,
        unobserved: Iterable[tuple[Hashable, Hashable]] = (),
        **priors: Any,
    ) -> Relational:
        """The model of a networkx graph: symmetric for a `Graph`, directed for a `DiGraph`.

        Parameters
        ----------
        graph
            The graph. Parallel edges count once.
        self_links, bias
            As for `Relational`. A graph with self-loops is refused unless `self_links`.
        value
            Name of an edge attribute that holds 1, 0 or NaN for unknown. Without it every edge is a link.
        unobserved
            Pairs of nodes of which it is not known whether they are linked.
        **priors
            `tau_prior` and `bias_prior`, as for `Relational`.

        Examples
        --------
        >>> import networkx, pgfa
        >>> model = pgfa.Relational.from_networkx(networkx.karate_club_graph())
        >>> model.num_rows, model.symmetric
        (34, True)
        """
        edges, nodes, directed = edges_of_graph(graph, value, unobserved)
        return cls.from_edges(edges, not directed, self_links, bias, nodes=nodes, **priors)

    def __repr__(self) -> str:
        kind = "symmetric" if self.symmetric else "directed"
        return (
            f"Relational({self.num_rows} nodes, {kind}, {self.num_links} links, "
            f"{self.num_pairs - self.num_links} known absent)"
        )

    @property
    def num_rows(self) -> int:
        return self._network.diagonal.size

    @property
    def X(self) -> NDArray[np.float64]:
        """A copy of the network's matrix; NaN where a link is unknown, and on the diagonal if it does not count."""
        return dense(self._network)

    @property
    def observed(self) -> NDArray[np.bool_]:
        """Which entries enter the likelihood; of a symmetric network both (i, j) and (j, i) are marked."""
        return ~np.isnan(self.X)

    @property
    def num_pairs(self) -> int:
        """Number of pairs that enter the likelihood; a symmetric network has one for both directions."""
        known = self.observed
        return int(np.count_nonzero(np.triu(known) if self.symmetric else known))

    @property
    def num_links(self) -> int:
        """Number of links among them."""
        links = self.X == 1.0
        return int(np.count_nonzero(np.triu(links) if self.symmetric else links))

    def sample_parameters(self, rng: np.random.Generator, num_features: int) -> Parameters:
        tau = draw_gamma(rng, *self.tau_prior)
        parameters: Parameters = {"V": self._draw_weights(rng, num_features, tau), "tau": tau}
        if self.bias:
            parameters["bias"] = float(rng.normal(self.bias_prior[0], 1.0 / np.sqrt(self.bias_prior[1])))
        return parameters

    def _draw_weights(self, rng: np.random.Generator, num_features: int, tau: float) -> NDArray[np.float64]:
        V = rng.standard_normal((num_features, num_features)) / np.sqrt(tau)
        return _mirrored(V) if self.symmetric else V

    def check_parameters(self, parameters: Parameters, num_features: int) -> Parameters:
        names = {"V", "tau"} | ({"bias"} if self.bias else set())
        if set(parameters) != names:
            raise ValueError(f"parameters must be {', '.join(sorted(names))}, got {', '.join(sorted(parameters))}")
        V = checks.array_of_shape("parameters['V']", parameters["V"], (num_features, num_features))
        if self.symmetric and not np.array_equal(V, V.T):
            raise ValueError("parameters['V'] must be symmetric, as the network is")
        checked: Parameters = {"V": V, "tau": checks.positive("parameters['tau']", parameters["tau"])}
        if self.bias:
            checked["bias"] = checks.real("parameters['bias']", parameters["bias"])
        return checked

    def _free_weights(self, V: NDArray[np.float64]) -> NDArray[np.float64]:
        """The weights that are parameters of their own."""
        return V[np.triu_indices(V.shape[0])] if self.symmetric else V.ravel()

    def log_prior(self, parameters: Parameters) -> float:
        tau = parameters["tau"]
        log_prob = log_normal(self._free_weights(parameters["V"]), 0.0, tau) + log_gamma(tau, *self.tau_prior)
        return log_prob + (log_normal(parameters["bias"], *self.bias_prior) if self.bias else 0.0)

    def log_likelihood(self, Z: NDArray[np.uint8], parameters: Parameters) -> float:
        return sum_of_log_likelihoods(self._network, Z, parameters["V"], self._bias_of(parameters), self.symmetric)

    def _bias_of(self, parameters: Parameters) -> float:
        return float(parameters["bias"]) if self.bias else 0.0

    def rows(self, Z: NDArray[np.uint8], parameters: Parameters) -> LinkRows:
        return link_rows(
            self._network, Z, parameters["V"], float(parameters["tau"]), self._bias_of(parameters), self.symmetric,
            fitted_singletons=self.singletons == "fitted",
        )  # fmt: skip

    def make_step_sizes(self) -> dict[str, StepSize]:
        return {"columns": StepSize()}

    def move_columns(
        self,
        state: State,
        prior: Prior,
        rng: np.random.Generator,
        *,
        power: float = 1.0,
        step_sizes: dict[str, StepSize] | None = None,
    ) -> State:
        """Exchange columns for symmetric differences and complements, three for two and back, with their weights."""
        parameters = state.parameters
        num_proposals = draw_number_of_moves(self.column_moves, rng)
        Z, V, accepted = exchange_columns(
            self._network, state.Z, parameters["V"],
            tau=float(parameters["tau"]), bias=self._bias_of(parameters), symmetric=self.symmetric,
            grows=prior.grows, log_column_mass=prior.log_column_mass(self.num_rows, state.alpha), power=float(power),
            num_proposals=num_proposals, rng=rng,
        )  # fmt: skip
        if step_sizes is not None and "columns" in step_sizes:
            step_sizes["columns"].record(accepted, num_proposals, adapt=False)
        moved = State(Z, state.alpha, {**parameters, "V": V})
        return drop_unused_features(moved, self.feature_axes) if prior.grows else moved

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
        """Metropolis-Hastings steps for the bias and each weight, then an exact draw of tau."""
        V = parameters["V"]
        bias = move_weights(
            self._network, Z, V, float(parameters["tau"]), self._bias_of(parameters), self.symmetric,
            self.bias_prior if self.bias else None, float(power), _PASSES, rng,
        )  # fmt: skip
        if self.bias:
            parameters["bias"] = bias
        weights = self._free_weights(V)
        shape = self.tau_prior[0] + 0.5 * weights.size
        rate = self.tau_prior[1] + 0.5 * float(np.vdot(weights, weights))
        parameters["tau"] = draw_gamma(rng, shape, rate)

    def guess_owners(self, state: State, rng: np.random.Generator) -> NDArray[np.bool_]:
        """Nodes on one side of a direction in which links differ much from what is expected of them.

        A random vector is drawn towards the leading singular vectors of the differences, so that guesses differ.
        """
        X = self.X
        surprise = np.where(np.isnan(X), 0.0, X - self.link_probability(state))
        if rng.random() < 0.5:
            surprise = surprise.T
        direction = rng.standard_normal(self.num_rows)
        for _ in range(_PULLS):
            direction = surprise.T @ (surprise @ direction)
        return np.asarray(direction > 0.0)

    def link_probability(self, state: State) -> NDArray[np.float64]:
        """Probability of a link from each node to each other, of shape (N, N), under one state."""
        Z = checks.binary_matrix("state.Z", state.Z, self.num_rows).astype(float)
        return expit(Z @ state.parameters["V"] @ Z.T + self._bias_of(state.parameters))

    def predict_links(self, states: Any) -> LinkPrediction:
        """Posterior mean of the link probabilities, with the labels of the nodes, ready to be scored.

        Parameters
        ----------
        states
            A State, several of them, or what `pgfa.sample` returned.

        Examples
        --------
        >>> import numpy as np, pgfa
        >>> X = (np.random.default_rng(0).random((20, 20)) < 0.3).astype(float)
        >>> held_out = X.copy()
        >>> held_out[:3] = np.nan
        >>> model = pgfa.Relational(held_out, bias=True)
        >>> chain = pgfa.Chain(model, pgfa.IndianBuffet(), seed=1)
        >>> prediction = model.predict_links(chain.state)
        >>> scores = prediction.score(X)
        >>> scores.num_pairs
        60
        """
        total = np.zeros((self.num_rows, self.num_rows))
        count = 0
        for state in iterate_states(states, self.feature_axes):
            total += self.link_probability(state)
            count += 1
        probability = total / count
        if not self.self_links:
            np.fill_diagonal(probability, np.nan)
        return LinkPrediction(probability, self.X, self.symmetric, self.row_labels)

    def sample_data(
        self, Z: NDArray[np.uint8], parameters: Parameters, rng: np.random.Generator
    ) -> NDArray[np.float64]:
        """Draw a complete network; its diagonal is NaN where it does not count."""
        probability = self.link_probability(State(Z=Z, parameters=parameters))
        X = (rng.random(probability.shape) < probability).astype(float)
        if self.symmetric:
            X = _mirrored(X)
        if not self.self_links:
            np.fill_diagonal(X, np.nan)
        return X

    def with_data(self, data: Any) -> Relational:
        return Relational(data, **self._settings())

    def _settings(self) -> dict[str, Any]:
        names = ("symmetric", "self_links", "bias", "tau_prior", "bias_prior", "singletons", "column_moves")
        return {name: getattr(self, name) for name in names}

    def coords(self) -> dict[str, list[Any]]:
        if self.row_labels is None:
            return {}
        # An axis is labelled with numbers or text; tuples, which name the nodes of many a graph, would make a table.
        is_plain = all(isinstance(label, (str, int, float)) for label in self.row_labels)
        labels = list(self.row_labels) if is_plain else [str(label) for label in self.row_labels]
        return {"row": labels, "column": labels}

    def observed_data(self) -> dict[str, tuple[tuple[str, ...], NDArray[Any]]]:
        return {"X": (("row", "column"), self.X)}

    def describe(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        labels = None if self.row_labels is None else [_to_words(label) for label in self.row_labels]
        return {**self._settings(), "row_labels": labels}, {"X": self.X}

    @classmethod
    def from_description(cls, words: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> Relational:
        options = dict(words)
        row_labels = options.pop("row_labels")
        model = cls(arrays["X"], **options)
        model.row_labels = None if row_labels is None else [_from_words(label) for label in row_labels]
        return model


@simulator("relational")
def simulate_relational(
    prior: Prior,
    rng: np.random.Generator,
    *,
    num_rows: int,
    symmetric: bool = False,
    self_links: bool = True,
    alpha: float = 2.0,
    tau: float = 0.25,
    bias: float | None = None,
    missing: float = 0.0,
) -> Simulation:
    """Draw a network; of its pairs of nodes a share `missing` goes unknown. A number for `bias` turns the bias on."""
    rows = checks.whole("num_rows", num_rows, at_least=1)
    concentration = checks.positive("alpha", alpha)
    precision = checks.positive("tau", tau)
    share = checks.unit_interval("missing", missing)
    template = Relational(np.zeros((rows, rows)), symmetric, self_links, bias is not None)
    Z = prior.sample(rng, rows, concentration)
    parameters: Parameters = {"V": template._draw_weights(rng, Z.shape[1], precision), "tau": precision}
    if bias is not None:
        parameters["bias"] = checks.real("bias", bias)
    complete = template.sample_data(Z, parameters, rng)

    data = complete.copy()
    known = ~np.isnan(complete)
    pairs = np.argwhere(np.triu(known) if template.symmetric else known)
    i, j = pairs[rng.choice(len(pairs), size=round(share * len(pairs)), replace=False)].T
    data[i, j] = np.nan
    if template.symmetric:
        data[j, i] = np.nan
    return Simulation(data, complete, State(Z, concentration, parameters), template.with_data(data))


def _mirrored(matrix: NDArray[np.float64]) -> NDArray[np.float64]:
    """The symmetric matrix with the same upper triangle."""
    return np.triu(matrix) + np.triu(matrix, 1).T


def _to_words(label: Any) -> Any:
    """A label that survives being written as JSON; what is neither number, text nor a tuple of such turns to text."""
    if isinstance(label, tuple):
        return [_to_words(part) for part in label]
    plain = label.item() if isinstance(label, np.generic) else label
    return plain if isinstance(plain, (str, int, float)) else str(plain)


def _from_words(label: Any) -> Hashable:
    return tuple(_from_words(part) for part in label) if isinstance(label, list) else label


def _labels_of(X: Any) -> list[Hashable] | None:
    """The labels of a table; rows and columns must carry the same, each once."""
    if not (hasattr(X, "index") and hasattr(X, "columns")):
        return None
    labels, columns = list(X.index), list(X.columns)
    if len(labels) == len(columns) and labels != columns:
        i = next(i for i, (row, column) in enumerate(zip(labels, columns, strict=True)) if row != column)
        raise ValueError(
            f"X must have the same labels on rows and columns, in the same order: row {i} is {labels[i]!r}, "
            f"column {i} is {columns[i]!r}"
        )
    checks.distinct("labels of X", labels)
    return labels


def _check_adjacency(X: Any, symmetric: bool, self_links: bool) -> NDArray[np.float64]:
    matrix = checks.numeric_matrix("X", X, missing=True)
    if matrix.shape[0] != matrix.shape[1]:
        raise ValueError(f"X must be square, one row and one column for each node, got shape {matrix.shape}")
    wrong = (matrix != 0.0) & (matrix != 1.0) & ~np.isnan(matrix)
    if wrong.any():
        i, j = np.argwhere(wrong)[0]
        raise ValueError(f"X has {matrix[i, j]:g} in row {i}, column {j}: expected 0, 1 or NaN for an unknown link")
    if symmetric:
        unlike = (matrix != matrix.T) & ~(np.isnan(matrix) & np.isnan(matrix.T))
        if unlike.any():
            i, j = np.argwhere(unlike)[0]
            raise ValueError(
                f"X is declared symmetric, but has {matrix[i, j]:g} in row {i}, column {j} "
                f"and {matrix[j, i]:g} in row {j}, column {i}"
            )
    if not self_links:
        np.fill_diagonal(matrix, np.nan)
    return matrix
