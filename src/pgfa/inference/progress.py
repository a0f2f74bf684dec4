"""Progress of several chains: one line each in a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import Any

from pgfa.inference.run import Progress

#: Seconds between plain lines.
_PLAIN_INTERVAL = 10.0


def _duration(seconds: float) -> str:
    if seconds != seconds or seconds == float("inf"):
        return "-"
    minutes, rest = divmod(int(seconds + 0.5), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


def _columns(chain: int, progress: Progress, total: int, warmup: int) -> list[str]:
    rate = progress.iterations_per_second
    has_rate = rate > 0.0  # neither before the first iteration nor right after it
    left = (total - progress.iteration) / rate if has_rate else float("nan")
    running = "warm-up" if progress.iteration < warmup else "draws"
    phase = running if progress.status == "running" else progress.status
    return [
        f"chain {chain}",
        f"{progress.iteration}/{total}",
        phase,
        f"{progress.log_density:.1f}",
        f"{progress.num_features}",
        f"{rate:.1f}" if has_rate else "-",
        _duration(left) if progress.status == "running" else "-",
    ]


_HEADINGS = ("", "iteration", "phase", "log density", "features", "it/s", "left")


class Display:
    """Shows where chains stand while inside a `with` block."""

    def __init__(self, watched: list[Progress], total: int, warmup: int, *, enabled: bool) -> None:
        self._watched = watched
        self._total = total
        self._warmup = warmup
        self._enabled = enabled
        self._live: Any = None
        self._last_line = time.monotonic()

    def __enter__(self) -> Display:
        if self._enabled and sys.stderr.isatty():
            from rich.console import Console
            from rich.live import Live

            self._live = Live(self._table(), console=Console(stderr=True), refresh_per_second=4, transient=False)
            self._live.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.update(last=True)
        if self._live is not None:
            self._live.__exit__(kind, error, trace)

    def _table(self) -> Any:
        from rich.table import Table

        table = Table(box=None, pad_edge=False)
        for heading in _HEADINGS:
            table.add_column(heading, justify="left" if heading in ("", "phase") else "right")
        for chain, progress in enumerate(self._watched):
            table.add_row(*_columns(chain, progress, self._total, self._warmup))
        return table

    def update(self, *, last: bool = False) -> None:
        """Show the present state of affairs."""
        if self._live is not None:
            self._live.update(self._table())
        elif self._enabled and (last or time.monotonic() - self._last_line > _PLAIN_INTERVAL):
            self._last_line = time.monotonic()
            for chain, progress in enumerate(self._watched):
                if progress.iteration:
                    texts = _columns(chain, progress, self._total, self._warmup)
                    words = [texts[0], texts[2], f"iteration {texts[1]}", f"log density {texts[3]}",
                             f"{texts[4]} features", f"{texts[5]} it/s", f"{texts[6]} left"]  # fmt: skip
                    known = [word for word in words if not word.startswith("- ")]
                    print(", ".join(known), file=sys.stderr, flush=True)
