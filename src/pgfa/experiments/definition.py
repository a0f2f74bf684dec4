"""What an experiment is: a TOML file that says data, model, samplers, times and what to expect of them."""

from __future__ import annotations

import hashlib
import json
import re
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from importlib import resources
from pathlib import Path
from typing import Any

from pgfa import checks
from pgfa.inference.chain import UPDATES
from pgfa.inference.warmup import check_anneal

#: In the order in which the paper has them.
SHIPPED = (
    "toy",
    "pg-num-particles", "dpf-num-particles", "pg-resample-threshold", "pg-annealing-power", "dpf-annealing-power",
    "pg-test-path", "dpf-test-path",
    "lg-5", "lg-20", "lg-ibp",
    "lfrm-5", "lfrm-20", "lfrm-ibp",
    "pyclone-4", "pyclone-8", "pyclone-12",
)  # fmt: skip

SCALES = ("smoke", "laptop", "paper")

#: Data sets, sets of initial values for each, restarts from each.
SIZES = {"smoke": (2, 2, 1), "laptop": (4, 4, 1), "paper": (4, 4, 5)}

#: At the paper scale chains run for the paper's times divided by this: a sweep takes us about so much less time.
SPEED_RATIO = 100.0

#: What every trace holds beside the metrics of the experiment.
LOG_DENSITY = "relative_log_density"


class DefinitionError(ValueError):
    """A definition that cannot be used; the message names file, table and key."""


@dataclass(frozen=True)
class Entry:
    """One sampler of a comparison.

    Attributes
    ----------
    label
        Its name in tables and figures.
    name, settings
        Class of the row sampler, or "default" for that of `pgfa.sample`, and its keywords.
    anneal
        Share of the warm-up over which the power of the likelihood rises: 0 for none, True for what suits the model.
    starts
        Whether as many starts are tried in warm-up as by `pgfa.sample`; only the first of them is the given one.
    renew
        Whether features are renewed in warm-up as by `pgfa.sample`.
    column_moves
        Whether the moves of whole columns that `pgfa.sample` makes by default are made.
    paper_moves
        Whether the model moves its parameters as in the paper ([paper_moves]) or by its own defaults.
    warmup_only
        Whether the whole run counts as warm-up, for samplers that are not valid after it.
    ours
        Whether the paper does not have this sampler.
    """

    label: str
    name: str
    settings: dict[str, Any]
    anneal: bool | float = 0.0
    starts: bool = False
    renew: bool = False
    column_moves: bool = False
    paper_moves: bool = True
    warmup_only: bool = False
    ours: bool = False

    def what_it_does(self) -> dict[str, Any]:
        """All that its chains depend on."""
        return {name: value for name, value in asdict(self).items() if name != "ours"}


@dataclass(frozen=True)
class Finding:
    """What the paper found, and the checks that tell whether we find it too (see `verdicts`)."""

    says: str
    checks: tuple[dict[str, Any], ...]


@dataclass(frozen=True)
class Experiment:
    """A definition, checked. `source` is where it was read from.

    `times`, `warmup` and sizes are those of a scale once `at_scale` has been called.
    """

    name: str
    source: str
    title: str
    about: str
    seed: int
    data: dict[str, Any]
    data_prior: dict[str, Any]
    initial: dict[str, Any]
    model: dict[str, Any]
    paper_moves: dict[str, Any]
    prior: dict[str, Any]
    update: tuple[str, ...]
    metrics: tuple[str, ...]
    samplers: tuple[Entry, ...]
    paper_times: tuple[float, ...]
    scales: dict[str, dict[str, Any]]
    findings: tuple[Finding, ...]
    scale: str = ""
    times: tuple[float, ...] = ()
    warmup: int = 0
    sizes: tuple[int, int, int] = (0, 0, 0)

    def at_scale(
        self, scale: str, *, times: Sequence[float] | None = None, samplers: Iterable[str] | None = None
    ) -> Experiment:
        """The experiment at a scale, with other times or with some of its samplers only."""
        checks.one_of("scale", scale, SCALES)
        overrides = self.scales.get(scale, {})
        default = tuple(time / SPEED_RATIO for time in self.paper_times)
        chosen = _increasing("times", overrides.get("times", default) if times is None else times)
        return replace(
            self,
            scale=scale,
            times=chosen,
            warmup=int(overrides.get("warmup", 500)),
            sizes=SIZES[scale],
            data=self.data | overrides.get("data", {}),
            samplers=self.samplers if samplers is None else self._choose(samplers),
        )

    def _choose(self, labels: Iterable[str]) -> tuple[Entry, ...]:
        known = {entry.label.lower(): entry.label for entry in self.samplers}
        wanted = set()
        for label in labels:
            if label.strip().lower() not in known:
                raise ValueError(f"{self.name} has no sampler {label!r}: it has {', '.join(known.values())}")
            wanted.add(known[label.strip().lower()])
        return tuple(entry for entry in self.samplers if entry.label in wanted)

    def entry(self, label: str) -> Entry:
        """The sampler of this label."""
        return next(entry for entry in self.samplers if entry.label == label)

    @property
    def num_chains(self) -> int:
        """Number of chains of all samplers together."""
        num_data, num_starts, num_restarts = self.sizes
        return num_data * num_starts * num_restarts * len(self.samplers)

    @property
    def seconds(self) -> float:
        """Processor time that all chains take together, at this scale."""
        return self.num_chains * self.times[-1]

    def fingerprint(self) -> str:
        """Changes with everything that a chain depends on; not with titles, findings or which samplers are run."""
        parts = [
            self.seed, self.data, self.data_prior, self.initial, self.model, self.paper_moves, self.prior, self.update,
            self.metrics, self.times, self.warmup, self.sizes,
        ]  # fmt: skip
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:16]


# --- reading ----------------------------------------------------------------------------------------------------------


def load(name: str | Path) -> Experiment:
    """The experiment of this name, or that of a file of the user's own.

    Examples
    --------
    >>> experiment = load("lg-5")
    >>> [entry.label for entry in experiment.samplers]
    ['Gibbs', 'RG', 'PG', 'DPF', 'DPF annealed', 'pgfa default']
    >>> experiment.at_scale("paper").times
    (1.0, 10.0, 100.0)
    """
    if str(name) in SHIPPED:
        file = resources.files("pgfa.experiments") / "definitions" / f"{name}.toml"
        return parse(file.read_text(encoding="utf-8"), source=f"{name}.toml", name=str(name))
    path = Path(name)
    if path.suffix != ".toml":
        raise DefinitionError(f"there is no experiment {str(name)!r}: expected a file .toml or {', '.join(SHIPPED)}")
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise DefinitionError(f"{path} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise DefinitionError(f"{path} is not text in UTF-8") from None
    return parse(text, source=str(path), name=path.stem)


def parse(text: str, *, source: str, name: str) -> Experiment:
    """The experiment that a text in TOML defines."""
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise DefinitionError(f"{source} is not valid TOML: {error}") from None
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", name):
        raise DefinitionError(f"{source}: its name must consist of letters, digits, '.', '_' and '-'")
    top = _Table(source, "", document)
    data = top.table("data", required=True)
    initial = top.table("initial")
    prior = top.table("prior", required=True)
    experiment = Experiment(
        name=name,
        source=source,
        title=top.text("title"),
        about=top.text("about", ""),
        seed=top.get("seed", 1, lambda key, value: checks.whole(key, value, at_least=0)),
        data_prior=data.pop_table("prior", prior.values),
        data={"simulation": data.text("simulation"), **data.rest()},
        initial={"from": initial.get("from", "prior", _one_of("prior", "truth")), **initial.rest()},
        model=top.table("model").rest(),
        paper_moves=top.table("paper_moves").rest(),
        prior=prior.rest(),
        update=top.get("update", UPDATES, _subset(UPDATES)),
        metrics=top.get("metrics", (), _metrics),
        samplers=_samplers(top),
        paper_times=top.get("times", None, _increasing),
        scales=_scales(top),
        findings=_findings(top),
    )
    top.finish()
    _check_findings(experiment)
    return experiment


class _Table:
    """A table of a TOML file whose keys are taken out one by one; what is left over at the end is an error."""

    def __init__(self, source: str, name: str, values: Mapping[str, Any]) -> None:
        self.source, self.name, self.values = source, name, dict(values)
        self.known: list[str] = []

    def fail(self, message: str) -> DefinitionError:
        return DefinitionError(f"{self.source}: {f'[{self.name}] ' if self.name else ''}{message}")

    def get(self, key: str, default: Any, check: Callable[[str, Any], Any]) -> Any:
        """The value of a key, checked; `default` where it is missing, or an error if that is None."""
        self.known.append(key)
        if key not in self.values:
            if default is None:
                raise self.fail(f"needs the key {key!r}")
            return default
        try:
            return check(key, self.values.pop(key))
        except ValueError as error:
            raise self.fail(str(error)) from None

    def text(self, key: str, default: str | None = None) -> str:
        return str(self.get(key, default, _text))

    def table(self, key: str, *, required: bool = False) -> _Table:
        name = f"{self.name}.{key}" if self.name else key
        return _Table(self.source, name, self.get(key, None if required else {}, _mapping))

    def pop_table(self, key: str, default: Mapping[str, Any]) -> dict[str, Any]:
        return dict(self.get(key, dict(default), _mapping))

    def tables(self, key: str, *, required: bool = False) -> list[_Table]:
        found = self.get(key, None if required else [], _mappings)
        name = f"{self.name}.{key}" if self.name else key
        return [_Table(self.source, f"{name} {i + 1}", values) for i, values in enumerate(found)]

    def rest(self) -> dict[str, Any]:
        """All keys not taken yet: settings that the thing which is made from them will check."""
        taken, self.values = self.values, {}
        return taken

    def finish(self) -> None:
        """Refuse keys that nobody has asked for."""
        for key in self.values:
            raise self.fail(f"has no key {key!r}: it takes {', '.join(dict.fromkeys(self.known))}")


def _samplers(top: _Table) -> tuple[Entry, ...]:
    entries = []
    for table in top.tables("samplers", required=True):
        entries.append(
            Entry(
                label=table.text("label"),
                name=table.get("name", None, _one_of("default", *_SAMPLERS)),
                anneal=table.get("anneal", 0.0, check_anneal),
                starts=table.get("starts", False, checks.truth),
                renew=table.get("renew", False, checks.truth),
                column_moves=table.get("column_moves", False, checks.truth),
                paper_moves=table.get("paper_moves", True, checks.truth),
                warmup_only=table.get("warmup_only", False, checks.truth),
                ours=table.get("ours", False, checks.truth),
                settings=table.rest(),
            )
        )
    if not entries:
        raise top.fail("needs at least one table [[samplers]]")
    seen: dict[str, str] = {}
    for label in (entry.label for entry in entries):
        if slug(label) in seen:
            other = seen[slug(label)]
            raise top.fail(f"[[samplers]] labels {other!r} and {label!r} cannot be told apart in names of files")
        seen[slug(label)] = label
    return tuple(entries)


_SAMPLERS = ("Gibbs", "RowGibbs", "ParticleGibbs", "DiscreteParticleFilter")


def _scales(top: _Table) -> dict[str, dict[str, Any]]:
    scales = {}
    table = top.table("scales")
    for scale in SCALES:
        inner = table.table(scale)
        found = {
            "times": inner.get("times", (), _increasing),
            "warmup": inner.get("warmup", -1, lambda key, value: checks.whole(key, value, at_least=0)),
            "data": dict(inner.get("data", {}, _mapping)),
        }
        inner.finish()
        scales[scale] = {key: value for key, value in found.items() if value not in ((), -1, {})}
    table.finish()
    return scales


def _findings(top: _Table) -> tuple[Finding, ...]:
    findings = []
    for table in top.tables("findings"):
        says = table.text("says")
        found = table.get("checks", None, _mappings)
        table.finish()
        findings.append(Finding(says, tuple(dict(check) for check in found)))
    return tuple(findings)


#: Keys of each kind of check beside kind, metric and times: those that it needs, and those that it may have.
CHECK_KEYS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "better": (("samplers", "than"), ("at_least",)),
    "alike": (("samplers",), ()),
    "not-better": (("samplers", "than"), ()),
    "within": (("samplers",), ("low", "high")),
}

#: Which of the times a check looks at.
TIMES = ("first", "middle", "last", "later", "all")


def _check_findings(experiment: Experiment) -> None:
    labels = [entry.label for entry in experiment.samplers if not entry.ours]
    for i, finding in enumerate(experiment.findings):
        for found in finding.checks:
            table = _Table(experiment.source, f"findings {i + 1}.checks", found)
            kind = table.get("kind", None, _one_of(*CHECK_KEYS))
            table.get("metric", LOG_DENSITY, _one_of(LOG_DENSITY, *experiment.metrics))
            table.get("times", "last", _one_of(*TIMES))
            needed, possible = CHECK_KEYS[kind]
            for key in (*needed, *possible):
                check: Callable[[str, Any], Any] = _subset(labels) if key in ("samplers", "than") else checks.real
                if key == "at_least":
                    check = _at_least_one
                table.get(key, None if key in needed else 0.0, check)
            table.finish()


# --- checks of single values ------------------------------------------------------------------------------------------


def _text(key: str, value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{key} must be text, got {value!r}")
    return value


def _mapping(key: str, value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError(f"{key} must be a table, got {value!r}")
    return value


def _mappings(key: str, value: Any) -> list[dict[str, Any]]:
    if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
        raise ValueError(f"{key} must be a list of tables, got {value!r}")
    return value


def _one_of(*choices: str) -> Callable[[str, Any], str]:
    return lambda key, value: checks.one_of(key, value, choices)


def _subset(choices: Sequence[str]) -> Callable[[str, Any], tuple[str, ...]]:
    def check(key: str, value: Any) -> tuple[str, ...]:
        if not isinstance(value, list) or not value:
            raise ValueError(f"{key} must be a list with at least one item, got {value!r}")
        return tuple(checks.one_of(key, item, tuple(choices)) for item in value)

    return check


def _at_least_one(key: str, value: Any) -> int:
    return checks.whole(key, value, at_least=1)


def _metrics(key: str, value: Any) -> tuple[str, ...]:
    from pgfa.experiments.scores import SCORES

    return _subset(tuple(SCORES))(key, value)


def _increasing(key: str, value: Any) -> tuple[float, ...]:
    if not isinstance(value, (list, tuple)) or not value:
        raise ValueError(f"{key} must be a list of seconds, got {value!r}")
    times = tuple(checks.positive(key, time) for time in value)
    if list(times) != sorted(set(times)):
        raise ValueError(f"{key} must increase, got {list(value)!r}")
    return times


def slug(label: str) -> str:
    """A label as part of the name of a file."""
    return re.sub(r"[^a-z0-9.]+", "-", label.lower()).strip("-.") or "sampler"
