"""Chains."""

from pgfa.inference.chain import Chain

__all__ = ["Chain"]
