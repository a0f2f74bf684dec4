"""How pgfa compiles: one decorator, one dispatcher, one cache that follows the sources.

Numba's on-disk cache looks only at the file of the cached function, so a change in another module would leave stale
machine code behind. Every cached function of the package therefore lives in a directory named after a hash of all of
the package's sources, and what is compiled for classes from elsewhere, whose sources nobody watches, is not kept.
"""

from __future__ import annotations

import contextlib
import hashlib
import inspect
import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import numba
from numba import types
from numba.core.caching import FunctionCache
from numba.extending import overload

from pgfa._inner_code import InnerCompiler, OuterCompiler

Function = TypeVar("Function", bound=Callable[..., Any])

#: Liberties that compiled code may take with floating point. Never full ``fastmath=True``: that deletes the handling of
#: infinities.
LIBERTIES = {
    "none": set[str](),
    "fused": {"contract"},
    "arithmetic": {"reassoc", "contract", "arcp", "nsz", "afn"},
}

#: Options for code that only compiled code calls.
_INNER: dict[str, Any] = {"no_cpython_wrapper": True, "pipeline_class": InnerCompiler}


def _hash_sources() -> str:
    digest = hashlib.sha256()
    package = Path(__file__).parent
    for path in sorted(package.rglob("*.py")):
        digest.update(str(path.relative_to(package)).encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def _user_cache() -> Path:
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA", Path.home() / "AppData" / "Local"))
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")


def _is_writable(directory: Path) -> bool:
    try:
        directory.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=directory):
            return True
    except OSError:
        return False


def _find_cache_directory() -> str | None:
    """First writable place for compiled code, or None where there is none (then every process compiles anew)."""
    name = f"pgfa-{_hash_sources()}"
    given = os.environ.get("NUMBA_CACHE_DIR")
    candidates = [Path(given) / name] if given else []
    with contextlib.suppress(RuntimeError):  # no home directory
        candidates.append(_user_cache() / "pgfa" / name)
    candidates.append(Path(__file__).parent / "__pycache__" / name)
    return next((str(path) for path in candidates if _is_writable(path)), None)


_CACHE_DIRECTORY = _find_cache_directory()


def _is_ours(kind: Any) -> bool:
    """Whether a type of numba involves only such NamedTuple classes as can be imported from the package."""
    if isinstance(kind, (types.NamedTuple, types.NamedUniTuple)):
        cls = kind.instance_class
        in_package = cls.__module__.split(".")[0] == __name__.split(".")[0]
        if not in_package or getattr(sys.modules.get(cls.__module__), cls.__qualname__, None) is not cls:
            return False
    return all(_is_ours(part) for part in getattr(kind, "types", ()))


class _OwnTypesCache(FunctionCache):
    """Keeps on disk only what involves no class from outside the package.

    A user may change the functions of his own model between two runs, and an index that names a class which another
    process cannot import would stop that process from loading anything.
    """

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        return super().load_overload(sig, target_context) if self._is_kept(sig) else None

    def save_overload(self, sig: Any, data: Any) -> None:
        if self._is_kept(sig):
            super().save_overload(sig, data)

    @staticmethod
    def _is_kept(sig: Any) -> bool:
        return all(_is_ours(kind) for kind in getattr(sig, "args", sig))


def compiled(
    function: Function | None = None,
    *,
    liberty: str = "none",
    allocates: bool = True,
    inline: bool = False,
    brief: bool = False,
) -> Any:
    """Compile to machine code that releases the GIL and, for types of the package, is kept on disk.

    Parameters
    ----------
    liberty
        ``"fused"`` allows fused multiply-add; ``"arithmetic"`` also allows sums and products to be reordered, so that
        loops of plain arithmetic vectorise. Infinities and NaN keep their meaning. A loop that adds up must not write
        to arrays as well: where these lie close behind those that it reads it would be run number by number, and the
        last digits of the sum would depend on where in memory the arrays happen to be.
    allocates
        Whether the function makes arrays (views do not count, assignments to slices do). One that does not is spared
        the counting of references, which otherwise costs two atomic operations for each array in its arguments: for
        small functions of a row view, more than their work.
    inline
        Whether callers must take the body in. The compiler does so by itself for short functions only, and a loop that
        calls a function does not vectorise.
    brief
        Whether the GIL is kept. For a microsecond's work to let it go may mean to wait a hundred times as long for
        another thread to give it back.
    """
    if function is None:
        return lambda f: compiled(f, liberty=liberty, allocates=allocates, inline=inline, brief=brief)
    is_kept = _CACHE_DIRECTORY is not None
    options = {"nogil": not brief} | _options(liberty, allocates, inline)
    # Numba decides where a function is cached when it is decorated, so the setting can be put back right after.
    before = numba.config.CACHE_DIR
    numba.config.CACHE_DIR = _CACHE_DIRECTORY or before
    try:
        outer = numba.njit(**options, cache=is_kept, pipeline_class=OuterCompiler)(function)
        if is_kept:
            outer._cache = _OwnTypesCache(function)
        _let_compiled_code_call(outer, numba.njit(**options, **_INNER)(function))
        return outer
    finally:
        numba.config.CACHE_DIR = before


def _let_compiled_code_call(outer: Any, inner: Any) -> None:
    """Make compiled code that calls `outer` take in `inner`, one for all numbers that may be written out in a call."""

    def get_call_template(arguments: Any, keywords: dict[str, Any]) -> Any:
        plain = {name: types.unliteral(kind) for name, kind in keywords.items()}
        return inner.get_call_template(tuple(types.unliteral(kind) for kind in arguments), plain)

    outer.get_call_template, outer.get_overload = get_call_template, inner.get_overload


_IMPLEMENTED: dict[Any, set[type]] = {}


def _options(liberty: str, allocates: bool, inline: bool) -> dict[str, Any]:
    options: dict[str, Any] = {"error_model": "numpy", "fastmath": LIBERTIES[liberty], "_nrt": allocates}
    options["no_cfunc_wrapper"] = True
    return options | ({"forceinline": True} if inline else {})


def implements(
    generic: Callable[..., Any],
    kind: type | None,
    *,
    liberty: str = "none",
    allocates: bool = True,
    inline: bool = False,
) -> Callable[..., Any]:
    """Give the compiled function `generic` a body for first arguments of the NamedTuple class `kind`.

    This is multiple dispatch at compile time, without indirect calls. With ``kind=None`` the body serves every class
    that has none of its own. The compiler inlines what it finds worth it; `inline` insists. That pays for short bodies
    called once a row, since a call copies a whole row view and counts references to its arrays (0.3 microseconds), but
    each place that calls takes longer to compile.
    """
    known = _IMPLEMENTED.setdefault(generic, set())
    if kind is not None:
        known.add(kind)
    options = _options(liberty, allocates, inline)

    def register(body: Function) -> Function:
        def choose(*arguments: Any) -> Any:
            first = arguments[0]
            if not isinstance(first, (types.NamedTuple, types.NamedUniTuple)):
                return None
            mine = first.instance_class is kind if kind is not None else first.instance_class not in known
            return body if mine else None

        choose.__signature__ = inspect.signature(body)  # type: ignore[attr-defined]
        overload(generic, strict=False, jit_options=options | _INNER)(choose)
        return body

    return register
