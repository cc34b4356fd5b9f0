"""The folder of a release, whole or not at all, and its manifest: the hash of every file, signed by
the owner, checked offline.
"""

from __future__ import annotations

import glob
import json
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any

from dpsql.model.dataclass import dataclass
from dpsql.model.errors import MissingExtra

MANIFEST, SIGNATURE, PUBLIC_KEY = "manifest.json", "manifest.sig", "public_key.pem"
_SIGNED = frozenset({MANIFEST, SIGNATURE, PUBLIC_KEY})
_EXTRA = "Signatures need the extra publish: pip install 'dpsql[publish]'"


class UnusableFolder(ValueError):
    """A folder cannot hold a release: it has files, or cannot be written."""


@dataclass(frozen=True, slots=True)
class CheckedRelease:
    """The result of a check: what is wrong, the fingerprint of the signing key (empty: unsigned),
    and the title and day of the release.
    """

    problems: tuple[str, ...]
    fingerprint: str = ""
    files: int = 0
    about: str = ""


@contextmanager
def new_folder(target: Path) -> Iterator[Path]:
    """Return a folder next to `target` that takes its name at the end, whole or not at all.

    Raises `UnusableFolder` if the target is not empty, or if its parent is not writable.
    """
    target = target.absolute()
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise UnusableFolder(f"{target.name} is not an empty folder: choose another one.")
    partial = target.with_name(f".{target.name}.{os.getpid()}.partial")
    try:
        _remove_leftovers(target)
        partial.mkdir()
        yield partial
        partial.replace(target)
        _flush(target.parent)
    except OSError as error:
        raise UnusableFolder(f"{target.name} cannot be written: {error.strerror}.") from None
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _remove_leftovers(target: Path) -> None:
    """Remove the partial folders of processes that are gone, and of this one."""
    for left in target.parent.glob(f".{glob.escape(target.name)}.*.partial"):
        process = left.name.split(".")[-2]
        if process.isdigit() and (int(process) == os.getpid() or not _is_running(int(process))):
            shutil.rmtree(left, ignore_errors=True)


def _is_running(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):
        return True
    return True


def write_files(folder: Path, files: Mapping[str, bytes]) -> None:
    """Write files with these paths into a folder, durably."""
    for path, content in files.items():
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        with target.open("xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
    for each in (folder, *(path for path in folder.rglob("*") if path.is_dir())):
        _flush(each)


def _flush(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def manifest_files(
    facts: Mapping[str, Any], files: Mapping[str, bytes], key: bytes | None
) -> dict[str, bytes]:
    """Return the manifest of `files`, and its signature by a private key in PEM form.

    Raises ValueError unless the key is an Ed25519 key, and `MissingExtra`.
    """
    hashes = {path: sha256(content).hexdigest() for path, content in sorted(files.items())}
    text = json.dumps({**facts, "files": hashes}, indent=1, ensure_ascii=False) + "\n"
    written = {MANIFEST: text.encode()}
    if key is not None:
        private = read_private_key(key)
        written[SIGNATURE] = private.sign(written[MANIFEST]).hex().encode() + b"\n"
        written[PUBLIC_KEY] = _pem(private.public_key())
    return written


def check_release(folder: Path, key: bytes | None = None) -> CheckedRelease:
    """Compare a published folder with its manifest and its signature. `key` is the owner's public
    key.

    Without it, a signature proves only that one key signed all of it: compare the fingerprint.
    Raises ValueError for a folder without a manifest, or a bad key.
    """
    try:
        text = (folder / MANIFEST).read_bytes()
        document = json.loads(text)
        hashes = document["files"]
        assert isinstance(hashes, dict)
    except (OSError, ValueError, KeyError, TypeError, AssertionError):
        raise ValueError(f"{folder.name} has no manifest of a release.") from None
    present = {
        path.relative_to(folder).as_posix(): path
        for path in folder.rglob("*")
        if path.is_symlink() or not path.is_dir()
    }
    problems = [f"{path} is missing" for path in hashes if path not in present]
    problems += [
        f"{path} was added" for path in present if path not in hashes and path not in _SIGNED
    ]
    problems += [f"{path} is a link" for path, each in present.items() if each.is_symlink()]
    problems += [
        f"{path} was changed"
        for path in hashes
        if path in present
        and present[path].is_file()
        and sha256(present[path].read_bytes()).hexdigest() != hashes[path]
    ]
    signed, fingerprint = _check_signature(folder, text, key)
    title, day = (str(document.get(name, "")) for name in ("title", "published"))
    about = f" of {title or 'a release'}, published {day}"
    return CheckedRelease((*problems, *signed), fingerprint, len(hashes), about)


def _check_signature(folder: Path, text: bytes, key: bytes | None) -> tuple[list[str], str]:
    """Return what is wrong with the signature, and the fingerprint of the key that signed."""
    public, signature = folder / PUBLIC_KEY, folder / SIGNATURE
    if not public.exists() and not signature.exists():
        return (["it is not signed"] if key is not None else []), ""
    try:
        own, signed = public.read_bytes(), bytes.fromhex(signature.read_text("ascii"))
    except (OSError, ValueError):
        return ["its signature cannot be read"], ""
    released = _read_public_key(own)
    try:
        released.verify(signed, text)
    except _module("cryptography.exceptions").InvalidSignature:
        return [f"{MANIFEST} was changed: the signature is not of it"], ""
    if key is not None and _pem(_read_public_key(key)) != _pem(released):
        return ["another key signed it"], sha256(_pem(released)).hexdigest()
    return [], sha256(_pem(released)).hexdigest()


def read_private_key(key: bytes) -> Any:
    """Return an Ed25519 key from its PEM form without a password. Raises ValueError."""
    serialization = _module("cryptography.hazmat.primitives.serialization")
    try:
        private = serialization.load_pem_private_key(key, None)
    except (ValueError, TypeError):
        private = None
    ed25519 = _module("cryptography.hazmat.primitives.asymmetric.ed25519")
    if not isinstance(private, ed25519.Ed25519PrivateKey):
        raise ValueError(  # noqa: TRY004
            "The key is no Ed25519 key without a password. "
            "Make one: openssl genpkey -algorithm ed25519 -out release.pem"
        )
    return private


def _read_public_key(key: bytes) -> Any:
    serialization = _module("cryptography.hazmat.primitives.serialization")
    try:
        public = serialization.load_pem_public_key(key)
    except ValueError:
        public = None
    ed25519 = _module("cryptography.hazmat.primitives.asymmetric.ed25519")
    if not isinstance(public, ed25519.Ed25519PublicKey):
        raise ValueError("The public key is no Ed25519 key in PEM form.")  # noqa: TRY004
    return public


def _pem(public: Any) -> bytes:
    serialization = _module("cryptography.hazmat.primitives.serialization")
    form = serialization.PublicFormat.SubjectPublicKeyInfo
    return bytes(public.public_bytes(serialization.Encoding.PEM, form))


def _module(name: str) -> Any:
    from importlib import import_module  # noqa: PLC0415

    try:
        return import_module(name)
    except ModuleNotFoundError:
        raise MissingExtra(_EXTRA) from None
