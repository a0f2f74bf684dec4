"""Models: the likelihood of the data given the features."""

from pgfa.models.additive import AdditiveModel
from pgfa.models.base import Model
from pgfa.models.linear_gaussian import LinearGaussian
from pgfa.models.pyclone import PyClone

__all__ = ["AdditiveModel", "LinearGaussian", "Model", "PyClone"]
