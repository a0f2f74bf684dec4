"""`python -m pgfa` is the command `pgfa`."""

from pgfa.cli import app

if __name__ == "__main__":
    app(prog_name="pgfa")
