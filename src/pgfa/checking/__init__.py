"""Is a model right? Deterministic and statistical tests of any model: `check_model` and what it is made of."""

from pgfa.checking.report import Check, CheckFailed, ModelReport
from pgfa.checking.suite import TESTS, check_model

__all__ = ["TESTS", "Check", "CheckFailed", "ModelReport", "check_model"]
