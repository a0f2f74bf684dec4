"""A run as a Zarr store.

Layout: the root's attributes hold the settings, ``model`` the data, and ``chain-i`` of each chain its draws in segments
(``segment-00000``, ...) and its last snapshot (``snapshot-00007``; the number is that of segments it comes after).

Nothing is ever changed in place. A segment or snapshot is written under another name and then renamed, which the file
system does as a whole or not at all; a snapshot is written after the segments that it relies on. Whenever the process
dies, the last snapshot and the segments before it are complete, and what lies beyond is dropped on resumption.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import uuid
from pathlib import Path
from typing import Any

import numpy as np
import zarr
from numpy.typing import NDArray
from zarr.codecs import BloscCodec, Crc32cCodec

_FORMAT = "pgfa-run"
_VERSION = 3
#: Chunks of about this many bytes, so that a draw can be read without reading them all.
_CHUNK_BYTES = 16_000_000


class StoreError(ValueError):
    """A store that is not there, not ours, or damaged."""


class RunStore:
    """A run on disk.

    Parameters
    ----------
    path
        Folder of the store.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)

    @classmethod
    def create(
        cls, path: str | os.PathLike[str], settings: dict[str, Any], model_arrays: dict[str, NDArray[Any]]
    ) -> RunStore:
        """Make a new store; an existing one is never overwritten."""
        store = cls(path)
        if store.path.exists() and (not store.path.is_dir() or any(store.path.iterdir())):
            kind = "a run already: go on with pgfa.resume, or" if store._is_ours() else "something else:"
            raise StoreError(f"checkpoint {store.path} holds {kind} choose another path")
        store.path.mkdir(parents=True, exist_ok=True)
        for name, array in model_arrays.items():
            store._write("model/" + name, {}, {"values": array})
        # The settings make it a store, so they come last.
        zarr.create_group(
            store=store._scratch("settings"), attributes={"format": _FORMAT, "version": _VERSION, "settings": settings}
        )
        os.replace(store.path / "settings.partial" / "zarr.json", store.path / "zarr.json")
        (store.path / "settings.partial").rmdir()
        return store

    def _is_ours(self) -> bool:
        try:
            return self._attributes()["format"] == _FORMAT
        except (StoreError, KeyError):
            return False

    def _attributes(self) -> dict[str, Any]:
        file = self.path / "zarr.json"
        if not file.is_file():
            raise StoreError(f"{self.path} is not a run of pgfa: it has no zarr.json")
        try:
            attributes = json.loads(file.read_text())["attributes"]
        except (ValueError, KeyError, TypeError):
            raise StoreError(f"{self.path} is damaged: its zarr.json cannot be read") from None
        if not isinstance(attributes, dict):
            raise StoreError(f"{self.path} is damaged: its zarr.json cannot be read")
        return attributes

    def settings(self) -> dict[str, Any]:
        """Settings of the run."""
        attributes = self._attributes()
        if attributes.get("format") != _FORMAT:
            raise StoreError(f"{self.path} is not a run of pgfa")
        if attributes.get("version") != _VERSION:
            raise StoreError(f"{self.path} has format version {attributes.get('version')}; this pgfa reads {_VERSION}")
        settings = attributes.get("settings")
        if not isinstance(settings, dict):
            raise StoreError(f"{self.path} is damaged: it holds no settings")
        return settings

    def model_arrays(self) -> dict[str, NDArray[Any]]:
        """The data of the model."""
        folder = self.path / "model"
        names = sorted(entry.name for entry in folder.iterdir()) if folder.is_dir() else []
        return {name: self._read(f"model/{name}")[1]["values"] for name in names}

    # --- segments and snapshots ---------------------------------------------------------------------------------------

    def _numbers(self, chain: int, kind: str) -> list[int]:
        folder = self.path / f"chain-{chain}"
        names = [entry.name for entry in folder.iterdir()] if folder.is_dir() else []
        return sorted(int(found[1]) for name in names if (found := re.fullmatch(rf"{kind}-(\d+)", name)))

    def add_segment(self, chain: int, number: int, segment: dict[str, NDArray[Any]]) -> None:
        """Save draws of a chain."""
        self._write(f"chain-{chain}/segment-{number:05d}", {}, segment)

    def save_snapshot(
        self, chain: int, num_segments: int, words: dict[str, Any], arrays: dict[str, NDArray[Any]]
    ) -> None:
        """Save where a chain stands after so many segments; earlier snapshots are dropped."""
        serial = max(self._numbers(chain, "snapshot"), default=-1) + 1
        self._write(f"chain-{chain}/snapshot-{serial:05d}", {"num_segments": num_segments, "words": words}, arrays)
        for number in self._numbers(chain, "snapshot"):
            if number < serial:
                shutil.rmtree(self.path / f"chain-{chain}" / f"snapshot-{number:05d}", ignore_errors=True)

    def load_snapshot(self, chain: int) -> tuple[int, dict[str, Any], dict[str, NDArray[Any]]] | None:
        """Number of segments, words and arrays of the last snapshot, or None if the chain has not got so far."""
        numbers = self._numbers(chain, "snapshot")
        if not numbers:
            return None
        attributes, arrays = self._read(f"chain-{chain}/snapshot-{numbers[-1]:05d}")
        return attributes["num_segments"], attributes["words"], arrays

    def drop_after(self, chain: int, num_segments: int) -> None:
        """Remove segments that no snapshot vouches for."""
        for number in self._numbers(chain, "segment"):
            if number >= num_segments:
                shutil.rmtree(self.path / f"chain-{chain}" / f"segment-{number:05d}")

    def open_segments(self, chain: int) -> list[dict[str, Any]]:
        """The segments that the last snapshot vouches for, as Zarr arrays that read on demand."""
        snapshot = self.load_snapshot(chain)
        num_segments = 0 if snapshot is None else snapshot[0]
        present = self._numbers(chain, "segment")
        for number in range(num_segments):
            if number not in present:
                raise StoreError(f"{self.path} is damaged: segment {number} of chain {chain} is missing")
        return [dict(self._open(f"chain-{chain}/segment-{number:05d}").arrays()) for number in range(num_segments)]

    # --- groups of arrays
    # -----------------------------------------------------------------------------------------------

    def _scratch(self, name: str) -> Path:
        scratch = self.path / f"{name}.partial"
        shutil.rmtree(scratch, ignore_errors=True)
        return scratch

    def _write(self, name: str, attributes: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
        scratch = self._scratch(f"{uuid.uuid4().hex}")
        group = zarr.create_group(store=scratch, attributes=attributes)
        for key, array in arrays.items():
            values = np.asarray(array)
            chunks = values.shape
            if values.ndim and values.nbytes > _CHUNK_BYTES:
                leading = max(1, int(values.shape[0] * _CHUNK_BYTES / values.nbytes))
                chunks = (leading, *values.shape[1:])
            group.create_array(
                key,
                data=values,
                chunks=tuple(max(1, size) for size in chunks),
                compressors=[
                    BloscCodec(cname="zstd", clevel=5, shuffle="bitshuffle", typesize=values.dtype.itemsize),
                    Crc32cCodec(),
                ],
                config={"write_empty_chunks": True},  # so that a chunk that is not there is known to be lost
            )
        final = self.path / name
        final.parent.mkdir(parents=True, exist_ok=True)
        _flush(scratch)
        os.rename(scratch, final)

    def _open(self, name: str) -> zarr.Group:
        try:
            return zarr.open_group(self.path / name, mode="r")
        except Exception as error:
            raise StoreError(f"{self.path} is damaged: {name} cannot be read ({error})") from error

    def _read(self, name: str) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        group = self._open(name)
        return dict(group.attrs), {key: self.read_array(array) for key, array in group.arrays()}

    def read_array(self, array: Any) -> NDArray[Any]:
        """All values of a Zarr array, checked."""
        try:
            if array.nchunks_initialized != array.nchunks:
                raise FileNotFoundError("chunks are missing")
            return np.asarray(array[...])
        except Exception as error:
            raise StoreError(f"{self.path} is damaged: {array.store_path} cannot be read ({error})") from error


def _flush(folder: Path) -> None:
    """Ask the system to put files on disk before the rename that declares them complete."""
    for file in folder.rglob("*"):
        if file.is_file():
            descriptor = os.open(file, os.O_RDONLY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
