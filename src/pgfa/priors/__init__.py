"""Priors over binary feature matrices."""

from pgfa.priors.base import Prior
from pgfa.priors.beta_bernoulli import BetaBernoulli
from pgfa.priors.indian_buffet import IndianBuffet

__all__ = ["BetaBernoulli", "IndianBuffet", "Prior"]
