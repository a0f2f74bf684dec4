"""The command `pgfa`, one file a command. What is heavy is imported by the command that needs it."""

from pgfa.cli.app import app

__all__ = ["app"]
