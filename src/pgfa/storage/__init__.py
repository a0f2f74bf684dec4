"""Runs on disk: draws and the state of every chain, so that nothing reported as saved is ever lost."""

from pgfa.storage.store import RunStore, StoreError

__all__ = ["RunStore", "StoreError"]
