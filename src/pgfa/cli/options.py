"""Options that several commands share, as dataclasses whose fields say everything about them."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable
from dataclasses import MISSING, dataclass, fields
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer
from typer.core import TyperCommand, TyperGroup

if TYPE_CHECKING:
    from pgfa.priors.base import Prior
    from pgfa.samplers.base import RowSampler

PRIOR_PANEL = "Prior and sampler"
RUN_PANEL = "Run"
OUTPUT_PANEL = "Output"
TUNING_PANEL = "Tuning of samplers"


class _PlainFlags:
    """Help in which a flag is a flag, without the type of a value that it does not take."""

    def get_params(self, ctx: Any) -> list[Any]:
        params: list[Any] = super().get_params(ctx)  # type: ignore[misc]
        for param in params:
            if getattr(param, "is_flag", False):
                param.metavar = ""
        return params


class Command(_PlainFlags, TyperCommand):
    """A command."""


class Group(_PlainFlags, TyperGroup):
    """Commands of a kind."""


class BadOption(ValueError):
    """Options that do not fit together."""


class PriorName(StrEnum):
    finite = "finite"
    ibp = "ibp"


class SamplerName(StrEnum):
    dpf = "dpf"
    pg = "pg"
    gibbs = "gibbs"
    row_gibbs = "row-gibbs"


class TestPath(StrEnum):
    zeros = "zeros"
    ones = "ones"
    random = "random"
    unconditional = "unconditional"
    conditional = "conditional"
    two_stage = "two-stage"


class Resampling(StrEnum):
    multinomial = "multinomial"
    stratified = "stratified"


def parse_seconds(text: str | float) -> float:
    """Seconds from a number of seconds, or from one with s, m, h or d after it."""
    found = re.fullmatch(r"(\d+\.?\d*|\.\d+)([smhd]?)", str(text).strip())
    seconds = float(found[1]) * {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}[found[2]] if found else 0.0
    if seconds <= 0.0:
        raise typer.BadParameter(f"expected a time such as 90, 30s, 10m or 2h, got {text!r}")
    return seconds


def parse_delimiter(text: str) -> str:
    """One character; a tab may be written as \\t or tab."""
    delimiter = {"\\t": "\t", "tab": "\t"}.get(text, text)
    if len(delimiter) != 1 or delimiter in '"\r\n':
        raise typer.BadParameter(f"expected one character, or tab, got {text!r}")
    return delimiter


Delimiter = Annotated[
    str | None,
    typer.Option(
        parser=parse_delimiter,
        metavar="CHARACTER",
        help="What separates columns, where the name of the file does not say it. [dim](.csv: comma, .tsv: tab)[/]",
    ),
]
NoHeader = Annotated[bool, typer.Option("--no-header", help="The first line holds data, not the names of the columns.")]
Cores = Annotated[
    int | None,
    typer.Option(
        min=1,
        metavar="N",
        help="Chains that run at the same time. Draws do not depend on it.",
        show_default="all",
        rich_help_panel=RUN_PANEL,
    ),
]
MaxTime = Annotated[
    float | None,
    typer.Option(
        parser=parse_seconds,
        metavar="TIME",
        help="Stop after 90, 30s, 10m or 2h; [bold]pgfa resume[/] goes on from there.",
        rich_help_panel=RUN_PANEL,
    ),
]
NoProgress = Annotated[
    bool, typer.Option("--no-progress", help="Do not show how far the chains are.", rich_help_panel=OUTPUT_PANEL)
]


@dataclass(frozen=True)
class RunOptions:
    """How to fit, whatever the model."""

    prior: Annotated[
        PriorName | None,
        typer.Option(
            metavar="NAME",
            help="[bold]finite[/]: a given number of features. [bold]ibp[/]: the Indian buffet process, which finds "
            "out how many there are.",
            show_default="finite with --features, else ibp",
            rich_help_panel=PRIOR_PANEL,
        ),
    ] = None
    features: Annotated[
        int | None,
        typer.Option(min=1, metavar="K", help="Number of features of the finite prior.", rich_help_panel=PRIOR_PANEL),
    ] = None
    sampler: Annotated[
        SamplerName,
        typer.Option(
            metavar="NAME",
            help="How rows move: [bold]dpf[/], discrete particle filter; [bold]pg[/], particle Gibbs; [bold]gibbs[/], "
            "one entry at a time; [bold]row-gibbs[/], among all of their 2^K vectors.",
            rich_help_panel=PRIOR_PANEL,
        ),
    ] = SamplerName.dpf
    no_column_moves: Annotated[
        bool,
        typer.Option(
            "--no-column-moves",
            help="Leave out the moves of whole features, which bring chains out of local modes.",
            rich_help_panel=PRIOR_PANEL,
        ),
    ] = False
    chains: Annotated[int, typer.Option(min=1, metavar="N", help="Number of chains.", rich_help_panel=RUN_PANEL)] = 4
    draws: Annotated[
        int, typer.Option(min=1, metavar="N", help="Draws kept from each chain.", rich_help_panel=RUN_PANEL)
    ] = 1000
    warmup: Annotated[
        int | None,
        typer.Option(
            min=0,
            metavar="N",
            help="Iterations of each chain before the first draw.",
            show_default="by model",
            rich_help_panel=RUN_PANEL,
        ),
    ] = None
    no_anneal: Annotated[
        bool,
        typer.Option(
            "--no-anneal",
            help="Let the data count in full from the start. Annealing, which lets them count little at first in "
            "warm-up, brings chains out of bad starts.",
            rich_help_panel=RUN_PANEL,
        ),
    ] = False
    starts: Annotated[
        int | None,
        typer.Option(
            min=1,
            metavar="N",
            help="Starts that each chain tries in its warm-up; the best goes on.",
            show_default="by model",
            rich_help_panel=RUN_PANEL,
        ),
    ] = None
    no_renew: Annotated[
        bool,
        typer.Option(
            "--no-renew",
            help="Do not put guesses in the place of wasted features in warm-up (matrices and networks).",
            rich_help_panel=RUN_PANEL,
        ),
    ] = False
    thin: Annotated[
        int, typer.Option(min=1, metavar="N", help="Keep every N-th iteration.", rich_help_panel=RUN_PANEL)
    ] = 1
    seed: Annotated[
        int | None,
        typer.Option(
            min=0,
            metavar="N",
            help="The same seed gives the same draws.",
            show_default="random",
            rich_help_panel=RUN_PANEL,
        ),
    ] = None
    cores: Cores = None
    max_time: MaxTime = None
    out: Annotated[
        Path | None,
        typer.Option(
            file_okay=False,
            help="Folder for draws, tables and pictures.",
            show_default="FILE without ending, -fit added",
            rich_help_panel=OUTPUT_PANEL,
        ),
    ] = None
    overwrite: Annotated[
        bool,
        typer.Option("--overwrite", help="Replace a run that is in that folder already.", rich_help_panel=OUTPUT_PANEL),
    ] = False
    no_progress: NoProgress = False
    particles: Annotated[
        int | None,
        typer.Option(
            min=2, metavar="N", help="Particles of dpf and pg.", show_default="20", rich_help_panel=TUNING_PANEL
        ),
    ] = None
    annealing_power: Annotated[
        float | None,
        typer.Option(
            min=0.0,
            metavar="X",
            help="Power of the intermediate targets of dpf and pg.",
            show_default="1",
            rich_help_panel=TUNING_PANEL,
        ),
    ] = None
    test_path: Annotated[
        TestPath | None,
        typer.Option(
            metavar="NAME",
            help="What particles of dpf and pg assume of columns not decided yet: zeros, ones, random, unconditional; "
            "in warm-up only, conditional or two-stage.",
            show_default="zeros",
            rich_help_panel=TUNING_PANEL,
        ),
    ] = None
    resample_threshold: Annotated[
        float | None,
        typer.Option(
            min=0.0,
            max=1.0,
            metavar="X",
            help="Relative effective sample size below which pg resamples.",
            show_default="0.5",
            rich_help_panel=TUNING_PANEL,
        ),
    ] = None
    resampling: Annotated[
        Resampling | None,
        typer.Option(
            metavar="NAME",
            help="How pg resamples: multinomial or stratified.",
            show_default="multinomial",
            rich_help_panel=TUNING_PANEL,
        ),
    ] = None
    max_columns: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=24,
            metavar="N",
            help="row-gibbs takes more columns than this in random blocks.",
            show_default="16",
            rich_help_panel=TUNING_PANEL,
        ),
    ] = None

    def make_prior(self) -> Prior:
        """The prior that was asked for."""
        from pgfa.priors import BetaBernoulli, IndianBuffet

        kind = self.prior or (PriorName.finite if self.features is not None else PriorName.ibp)
        if kind is PriorName.finite:
            if self.features is None:
                raise BadOption("--prior finite needs the number of features: give --features K")
            return BetaBernoulli(self.features)
        if self.features is not None:
            raise BadOption("--features is for --prior finite; the Indian buffet process finds the number itself")
        return IndianBuffet()

    def make_sampler(self) -> RowSampler:
        """The sampler that was asked for, with those of its settings that were given."""
        from pgfa.samplers import DiscreteParticleFilter, Gibbs, ParticleGibbs, RowGibbs

        of_particles = {"particles": "num_particles", "annealing_power": "annealing_power", "test_path": "test_path"}
        kinds: dict[SamplerName, tuple[Callable[..., RowSampler], dict[str, str]]] = {
            SamplerName.dpf: (DiscreteParticleFilter, of_particles),
            SamplerName.pg: (
                ParticleGibbs,
                of_particles | {"resample_threshold": "resample_threshold", "resampling": "resampling"},
            ),
            SamplerName.gibbs: (Gibbs, {}),
            SamplerName.row_gibbs: (RowGibbs, {"max_columns": "max_columns"}),
        }
        kind, known = kinds[self.sampler]
        names = {name for _, settings in kinds.values() for name in settings}
        for name in sorted(names - known.keys()):
            if getattr(self, name) is not None:
                raise BadOption(f"--{name.replace('_', '-')} has no meaning for --sampler {self.sampler.value}")
        given = {word: getattr(self, name) for name, word in known.items() if getattr(self, name) is not None}
        return kind(**{word: value.value if isinstance(value, StrEnum) else value for word, value in given.items()})


def unwrapped(text: str | None) -> str:
    """Paragraphs of a docstring as one line each, for typer keeps the breaks of lines."""
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in (text or "").split("\n\n"))


def takes(options: type) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Let a command take the fields of a dataclass as options, after its own; it gets them as its last argument.

    Typer reads options from the signature of a function. This writes the signature, so that commands need not repeat
    it.
    """

    def decorate(function: Callable[..., None]) -> Callable[..., None]:
        own = list(inspect.signature(function).parameters.values())
        hints = get_type_hints(function, include_extras=True)
        field_hints = get_type_hints(options, include_extras=True)
        last = own.pop().name
        parameters = [
            parameter.replace(annotation=hints[parameter.name], kind=inspect.Parameter.KEYWORD_ONLY)
            for parameter in own
        ] + [
            inspect.Parameter(
                field.name,
                inspect.Parameter.KEYWORD_ONLY,
                default=inspect.Parameter.empty if field.default is MISSING else field.default,
                annotation=field_hints[field.name],
            )
            for field in fields(options)
        ]

        @functools.wraps(function)
        def command(**values: Any) -> None:
            taken = {field.name: values.pop(field.name) for field in fields(options)}
            function(**values, **{last: options(**taken)})

        command.__doc__ = unwrapped(function.__doc__)
        del command.__wrapped__  # type: ignore[attr-defined]
        command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        command.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        return command

    return decorate
