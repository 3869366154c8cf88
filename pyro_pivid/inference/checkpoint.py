"""Named tensors and a config in a folder: written atomically, checked by SHA-256, never unpickled.

The folder holds ``config.json`` and the one tensor file that it names, ``tensors-<16 hex digits>.safetensors``. Every
write makes a tensor file of a new name and then replaces ``config.json``, which is the moment of the commit: a process
killed at any time leaves the old state or the new one. Leftovers of a killed write are removed by the next one.
"""

from __future__ import annotations

import errno
import hashlib
import json
import math
import os
import re
import secrets
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

if sys.platform != "win32":
    import fcntl

_PathLike = str | os.PathLike[str]
_FORMAT, _FORMAT_VERSION, _CONFIG = "pyro_pivid folder", 1, "config.json"
_OWN_FILE = re.compile(r"tensors-[0-9a-f]{16}\.safetensors(\.tmp)?|config-[0-9a-f]{16}\.json\.tmp")
_REAL_DTYPES = {torch.float64, torch.float32, torch.float16, torch.bfloat16}
_DTYPES = _REAL_DTYPES | {torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool}


class CheckpointError(ValueError):
    """A folder of tensors and config that cannot be written, or that cannot be trusted when read.

    >>> read_folder("no-such-folder", kind="checkpoint")
    Traceback (most recent call last):
    ...
    pyro_pivid.inference.checkpoint.CheckpointError: Expected a folder at no-such-folder, but none is there. Check it.
    """


def write_folder(
    path: _PathLike, tensors: Mapping[str, Tensor], config: Mapping[str, Any], *, kind: str, overwrite: bool = False
) -> None:
    """Write tensors and a config into a folder, as one atomic step that is on disk when the call returns.

    Values come back bit for bit; tensors that shared memory come back apart, and none carries a gradient. Several
    writers of one folder take turns (on Windows and file systems without locks there must be only one).

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as place:
    ...     for step in range(3):
    ...         write_folder(place, {"x": torch.ones(2)}, {"step": step}, kind="checkpoint", overwrite=True)
    ...     read_folder(place, kind="checkpoint")
    ({'x': tensor([1., 1.])}, {'step': 2})

    :param path: the folder; it and its parents are made if they do not exist.
    :param tensors: dense tensors on any device, of dtype bool, uint8, int8 to int64, bfloat16 or float16 to float64.
    :param config: what JSON can hold: None, bool, int, finite float, str, and lists and string-keyed dicts of these. A
        tuple comes back as a list. NaN and infinity are refused, for JSON has no such numbers: store them in a tensor.
    :param kind: what the folder is, for example ``"checkpoint"`` or ``"posterior"``; reading asks for the same.
    :param overwrite: replace a folder of the same kind. A foreign folder is never touched.
    :raises CheckpointError: if it cannot be written; the old state stays unless only the last flush to disk failed.
    """
    folder, payload = Path(path), _pack_tensors(tensors)
    document = {
        "format": _FORMAT,
        "format_version": _FORMAT_VERSION,
        "kind": kind,
        "package_version": version("pyro-pivid"),
        "tensors": {"names": list(tensors), "bytes": len(payload), "sha256": hashlib.sha256(payload).hexdigest()},
        "config": _plain(dict(config), "config"),
    }
    try:
        with _made_and_locked(folder):
            _check_replaceable(folder, kind, overwrite)
            _commit(folder, payload, document)
    except OSError as error:
        raise _error(f"to write {folder}", f"the system says: {error}", "Check space and permissions.") from error


def read_folder(
    path: _PathLike, *, kind: str, device: torch.device | str | None = None
) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Read the tensors and the config of a folder; everything is checked before anything is returned.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as place:
    ...     write_folder(place, {"scores": torch.tensor([0.5, 2.0])}, {"step": 7}, kind="checkpoint")
    ...     read_folder(place, kind="checkpoint")
    ({'scores': tensor([0.5000, 2.0000])}, {'step': 7})

    :param path: a folder written by :func:`write_folder`; it is not modified, and may be in use by a writer.
    :param kind: the kind it was written with.
    :param device: where to put the tensors; the CPU if not given.
    :raises CheckpointError: if the folder is missing, of another kind or a newer format, incomplete or damaged.
    """
    folder = Path(path)
    try:
        document, payload = _read_files(folder, kind)
    except OSError as error:
        raise _error(f"to read {folder}", f"the system says: {error}", "Check the path and its permissions.") from error
    tensors, target = _unpack_tensors(folder, payload, document["tensors"]), "cpu" if device is None else device
    return {name: tensor.to(target) for name, tensor in tensors.items()}, document["config"]


def _error(expected: str, came: str, remedy: str) -> CheckpointError:
    return CheckpointError(f"Expected {expected}, but {came}. {remedy}")


def _damaged(where: Path, expected: str, came: str) -> CheckpointError:
    return _error(f"{expected} in {where}", came, "It is damaged: restore a copy, or fit again into a new folder.")


def _pack_tensors(tensors: Mapping[str, Tensor]) -> bytes:
    copies = {}
    for name, tensor in tensors.items():
        if not isinstance(name, str) or name == "__metadata__":  # safetensors keeps this one name for itself
            raise _error("texts other than '__metadata__' as tensor names", f"got {name!r}", "Rename it.")
        if not isinstance(tensor, Tensor):
            raise _error(f"a tensor named {name!r}", f"got {type(tensor).__name__}", "Put it in the config.")
        if tensor.dtype not in _DTYPES or tensor.layout != torch.strided or tensor.is_meta:
            came = f"got {tensor.dtype}, {tensor.layout} on device {tensor.device}"
            raise _error(f"dense real, integer or bool values in tensor {name!r}", came, "Convert it first.")
        # A fresh tensor for each name: contiguous, on the CPU and sharing memory with nothing, as safetensors demands.
        copies[name] = torch.empty(tensor.shape, dtype=tensor.dtype, device="cpu").copy_(tensor.detach())
    try:
        return save(copies)
    except (SafetensorError, ValueError) as error:
        raise _error("tensors that safetensors can store", f"it says: {error}", "Use plain text as names.") from error


def _unpack_tensors(folder: Path, payload: bytes, entry: dict[str, Any]) -> dict[str, Tensor]:
    where, digest = folder / entry["file"], hashlib.sha256(payload).hexdigest()
    if len(payload) != entry.get("bytes"):
        raise _damaged(where, f"{entry.get('bytes')} bytes", f"got {len(payload)}")
    if digest != entry.get("sha256"):
        raise _damaged(where, f"content of SHA-256 {entry.get('sha256')}", f"got {digest}")
    try:
        tensors = load(payload)
        return {name: tensors[name] for name in entry["names"]}
    except (SafetensorError, LookupError, ValueError, RuntimeError, AssertionError, TypeError) as error:
        raise _damaged(where, f"safetensors named {entry.get('names')}", f"reading gave {error!r}") from error


def _plain(value: Any, where: str) -> Any:
    """The same value in plain dicts and lists, after a check that JSON gives it back unchanged."""
    if isinstance(value, Mapping):
        if others := [key for key in value if not isinstance(key, str)]:
            raise _error(f"texts as keys of {where}", f"got {others}", "Use str(key).")
        return {key: _plain(item, f"{where}[{key!r}]") for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item, f"{where}[{index}]") for index, item in enumerate(value)]
    if isinstance(value, float) and not math.isfinite(value):
        raise _error(f"a finite number at {where}", f"got {value}", "Store it in a tensor instead.")
    if value is not None and not isinstance(value, bool | int | float | str):
        raise _error(f"a value of JSON at {where}", f"got {type(value).__name__}", "Convert it or use a tensor.")
    return value


def _digest(document: Mapping[str, Any]) -> str:
    """The SHA-256 of all entries but the digest itself: of their content, however the JSON is laid out."""
    content = {key: value for key, value in document.items() if key != "sha256"}
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()


def _read_files(folder: Path, kind: str) -> tuple[dict[str, Any], bytes]:
    while True:
        document = _read_checked_config(folder, kind)
        where = folder / document["tensors"]["file"]
        try:
            return document, where.read_bytes()
        except FileNotFoundError as error:
            # A writer may have replaced the state after we read config.json: then read the new one.
            if _read_checked_config(folder, kind) == document:
                raise _damaged(where, "the tensors that config.json names", "the file is missing") from error


def _read_checked_config(folder: Path, kind: str) -> dict[str, Any]:
    where = folder / _CONFIG
    if not folder.is_dir():
        raise _error(f"a folder at {folder}", f"{'a file' if folder.exists() else 'none'} is there", "Check it.")
    if not where.exists():
        raise _error(f"{_CONFIG} in {folder}", "it is missing", "Check the path, or fit again.")
    document = _read_config(where, kind)
    if document.get("sha256") != (digest := _digest(document)):
        raise _damaged(where, f"content of SHA-256 {document.get('sha256')}", f"got {digest}")
    config, entry = document.get("config"), document.get("tensors")
    # The digest guards against accidents alone: whoever wrote the file name, it must not lead out of the folder.
    if not (isinstance(config, dict) and isinstance(entry, dict) and _OWN_FILE.fullmatch(str(entry.get("file")))):
        raise _damaged(where, "a config and the name of a tensor file", f"got {config!r} and {entry!r}")
    return document


def _read_config(where: Path, kind: str) -> dict[str, Any]:
    """The content of a config.json that names our format, a known version and this kind; damage is not yet excluded."""
    try:
        document = json.loads(where.read_bytes().decode())
    except (ValueError, RecursionError) as error:
        raise _damaged(where, "JSON written by pyro_pivid", f"got invalid JSON: {error}") from error
    if not isinstance(document, dict) or document.get("format") != _FORMAT:
        raise _error(f"format {_FORMAT!r} in {where}", "it was written by something else", "Choose another folder.")
    if document.get("format_version") not in range(1, _FORMAT_VERSION + 1):
        came = f"got {document.get('format_version')!r}, of pyro_pivid {document.get('package_version')}"
        raise _error(f"format version {_FORMAT_VERSION} or older in {where}", came, "Upgrade pyro_pivid.")
    if document.get("kind") != kind:
        raise _error(f"kind {kind!r} in {where}", f"got {document.get('kind')!r}", "Choose another folder.")
    return document


@contextmanager
def _made_and_locked(folder: Path) -> Iterator[None]:
    """Make the folder and hold its lock, so that writers take turns; the system frees the lock of a killed process."""
    new = [part for part in (folder, *folder.parents) if not part.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    for part in new:
        _sync_folder(part.parent)
    if sys.platform == "win32":
        yield
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        with suppress(OSError):  # some network file systems have no locks
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        with suppress(OSError):  # closing alone would not free it if a child process was forked meanwhile
            fcntl.flock(handle, fcntl.LOCK_UN)
        os.close(handle)


def _check_replaceable(folder: Path, kind: str, overwrite: bool) -> None:
    if (folder / _CONFIG).exists():
        if not overwrite:
            raise _error("a new folder", f"{folder} has a {_CONFIG}", "Pass overwrite=True or choose another folder.")
        _read_config(folder / _CONFIG, kind)
    elif foreign := sorted(set(os.listdir(folder)) - set(_own_files(folder))):
        raise _error(f"{_CONFIG} or nothing in {folder}", f"it holds {foreign[0]!r}", "Choose another folder.")


def _own_files(folder: Path) -> list[str]:
    with os.scandir(folder) as entries:
        return [e.name for e in entries if _OWN_FILE.fullmatch(e.name) and e.is_file(follow_symlinks=False)]


def _commit(folder: Path, payload: bytes, document: dict[str, Any]) -> None:
    token = secrets.token_hex(8)  # a new name for each write, and no draw from any seeded generator
    tensor_file, config_file = f"tensors-{token}.safetensors", f"config-{token}.json.tmp"
    document["tensors"]["file"] = tensor_file
    document["sha256"] = _digest(document)
    lines = ",\n".join(f"{json.dumps(key)}: {json.dumps(value)}" for key, value in document.items())
    try:
        _write_synced(folder / f"{tensor_file}.tmp", payload)
        os.rename(folder / f"{tensor_file}.tmp", folder / tensor_file)
        _sync_folder(folder)  # the tensor file has its name on disk before config.json can refer to it
        _write_synced(folder / config_file, f"{{\n{lines}\n}}\n".encode())
        os.replace(folder / config_file, folder / _CONFIG)
    except BaseException:
        _remove_unnamed(folder, [f"{tensor_file}.tmp", tensor_file, config_file])
        raise
    _sync_folder(folder)  # only when the new state cannot be lost may the old one go
    _remove_unnamed(folder, _own_files(folder))


def _remove_unnamed(folder: Path, names: list[str]) -> None:
    """Remove files of ours that config.json does not name. It is read anew: an interrupt may follow the commit."""
    text = (folder / _CONFIG).read_bytes() if (folder / _CONFIG).exists() else b""
    for name in names:
        if name.encode() not in text:
            with suppress(OSError):  # what cannot go now is tried again by the next write
                os.unlink(folder / name)


def _write_synced(where: Path, content: bytes) -> None:
    with open(where, "xb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def _sync_folder(folder: Path) -> None:
    """Bring the names in a folder to disk, where the system can (Windows and some network file systems cannot)."""
    if sys.platform == "win32":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):
            raise
    finally:
        os.close(handle)
