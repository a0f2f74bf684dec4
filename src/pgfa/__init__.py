"""Bayesian feature allocation: every row of the data owns a subset of latent features.

Nothing heavy is imported until it is used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

_PUBLIC = {
    "AdditiveModel": "pgfa.models",
    "BetaBernoulli": "pgfa.priors",
    "Chain": "pgfa.inference",
    "ColumnBlock": "pgfa.samplers",
    "DiscreteParticleFilter": "pgfa.samplers",
    "Gibbs": "pgfa.samplers",
    "HammingBall": "pgfa.samplers",
    "IndianBuffet": "pgfa.priors",
    "JointFlip": "pgfa.samplers",
    "LinearGaussian": "pgfa.models",
    "LocallyBalanced": "pgfa.samplers",
    "MetropolisFlips": "pgfa.samplers",
    "Mixture": "pgfa.samplers",
    "ParticleGibbs": "pgfa.samplers",
    "PyClone": "pgfa.models",
    "Relational": "pgfa.models",
    "RowGibbs": "pgfa.samplers",
    "SingletonExchange": "pgfa.samplers",
    "Simulation": "pgfa.simulation",
    "State": "pgfa.state",
    "ThreeAndTwo": "pgfa.samplers",
    "check_model": "pgfa.checking",
    "simulate": "pgfa.simulation",
    "diagnose": "pgfa.inference.diagnostics",
    "load": "pgfa.inference.sampling",
    "resume": "pgfa.inference.sampling",
    "sample": "pgfa.inference.sampling",
    "standardise": "pgfa.preprocessing",
    "summarise": "pgfa.summary",
}

_MODULES = ("datasets", "metrics", "plots")

__all__ = [*_PUBLIC, *_MODULES, "__version__"]

if TYPE_CHECKING:
    from pgfa import datasets as datasets
    from pgfa import metrics as metrics
    from pgfa import plots as plots
    from pgfa.checking import check_model as check_model
    from pgfa.inference import Chain as Chain
    from pgfa.inference.diagnostics import diagnose as diagnose
    from pgfa.inference.sampling import load as load
    from pgfa.inference.sampling import resume as resume
    from pgfa.inference.sampling import sample as sample
    from pgfa.models import AdditiveModel as AdditiveModel
    from pgfa.models import LinearGaussian as LinearGaussian
    from pgfa.models import PyClone as PyClone
    from pgfa.models import Relational as Relational
    from pgfa.preprocessing import standardise as standardise
    from pgfa.priors import BetaBernoulli as BetaBernoulli
    from pgfa.priors import IndianBuffet as IndianBuffet
    from pgfa.samplers import ColumnBlock as ColumnBlock
    from pgfa.samplers import DiscreteParticleFilter as DiscreteParticleFilter
    from pgfa.samplers import Gibbs as Gibbs
    from pgfa.samplers import HammingBall as HammingBall
    from pgfa.samplers import JointFlip as JointFlip
    from pgfa.samplers import LocallyBalanced as LocallyBalanced
    from pgfa.samplers import MetropolisFlips as MetropolisFlips
    from pgfa.samplers import Mixture as Mixture
    from pgfa.samplers import ParticleGibbs as ParticleGibbs
    from pgfa.samplers import RowGibbs as RowGibbs
    from pgfa.samplers import SingletonExchange as SingletonExchange
    from pgfa.samplers import ThreeAndTwo as ThreeAndTwo
    from pgfa.simulation import Simulation as Simulation
    from pgfa.simulation import simulate as simulate
    from pgfa.state import State as State
    from pgfa.summary import summarise as summarise


def __getattr__(name: str) -> Any:
    if name in _PUBLIC:
        return getattr(importlib.import_module(_PUBLIC[name]), name)
    if name in _MODULES:
        return importlib.import_module(f"pgfa.{name}")
    raise AttributeError(f"module 'pgfa' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
