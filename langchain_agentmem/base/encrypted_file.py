"""Encrypted texts: a file whose content only the key shows, and which nobody can change, shorten or reorder unnoticed.

    BEGIN · 1 byte: how the key is made · 16 bytes salt · 16 bytes that tell whether a key fits · sealed chunks

Of a passphrase scrypt (N 2**17, r 8, p 1) makes the key of the file, of 32 bytes HKDF alone; either with the salt, so
that no two files have one. Each chunk of 64 KiB is sealed with AES-256-GCM. Its nonce is its number and whether it is
the last, and what stands before the chunks is authenticated with each: so a chunk is read only in its own place of its
own file, and a file without its end is no whole one.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import io
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, TextIO

from langchain_agentmem.base.encryption_key import EncryptionKey, key_in_environment
from langchain_agentmem.base.safe_repr import safe_repr
from langchain_agentmem.errors import InvalidInput, MissingExtra

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

BEGIN = b"agentmem encrypted 1\n"
CHUNK = 64 * 1024
"""Bytes of the text in a chunk; the last one has fewer, or as many."""
TAG = 16
"""Bytes that sealing adds."""
_SALT = _CHECK = 16
_HEAD = len(BEGIN) + 1 + _SALT + _CHECK
_RAW, _SCRYPT = b"k", b"p"
_COST = {"n": 2**17, "r": 8, "p": 1, "maxmem": 256 * 2**20}


def is_encrypted(path: Path) -> bool:
    """Whether a file is one of these."""
    with path.open("rb") as file:
        return file.read(len(BEGIN)) == BEGIN


@contextlib.contextmanager
def encrypted_text(file: BinaryIO, key: EncryptionKey | None) -> Iterator[TextIO]:
    """Write a text into a file, in UTF-8.

    Args:
        file: The file, which stays open.
        key: What encrypts it. Default: nothing does.

    Raises:
        MissingExtra: There is a key, and `cryptography` is not installed.
        InvalidInput: The key cannot be one.
    """
    if key is None:
        text = io.TextIOWrapper(file, encoding="utf-8")
        try:
            yield text
            text.flush()
        finally:
            text.detach()
        return
    key = key.asked()
    sealing = _Sealing(file, _Chunks(key, _how(key), os.urandom(_SALT)))
    text = io.TextIOWrapper(io.BufferedWriter(sealing, CHUNK), encoding="utf-8")
    try:
        yield text
        text.flush()
        sealing.end()
    finally:
        sealing.abandon()
        text.close()


@contextlib.contextmanager
def decrypted_text(path: Path, key: EncryptionKey | None) -> Iterator[TextIO]:
    """Read a text, whether it is encrypted or not.

    Args:
        path: The file.
        key: What it was encrypted with. Default: the environment's.

    Raises:
        MissingExtra: It is encrypted, and `cryptography` is not installed.
        InvalidInput: The key does not fit or is missing, or the file was changed or cut off.
    """
    with path.open("rb") as file:
        if file.read(len(BEGIN)) != BEGIN:
            file.seek(0)
            yield io.TextIOWrapper(file, encoding="utf-8")
            return
        key = key or key_in_environment()
        if key is None:
            raise InvalidInput(f"{safe_repr(str(path))} is encrypted. Give its key (key=…, or AGENTMEM_KEY).")
        file.seek(0)
        with io.BufferedReader(_Opening(file, key.asked(), str(path)), CHUNK) as opened:
            yield io.TextIOWrapper(opened, encoding="utf-8")


class _Chunks:
    """Seals and opens the chunks of one file."""

    def __init__(self, key: EncryptionKey, how: bytes, salt: bytes) -> None:
        sealing, self.check = _keys(key, how, salt)
        self.head = BEGIN + how + salt + self.check
        self._cipher = _cipher(sealing)
        self._number = 0

    def seal(self, chunk: bytes, *, last: bool) -> bytes:
        """Seal the next chunk."""
        return self._cipher.encrypt(self._nonce(last=last), chunk, self.head)

    def open(self, chunk: bytes, *, last: bool) -> bytes | None:
        """Open the next chunk; None where it is not that one."""
        from cryptography.exceptions import InvalidTag  # noqa: PLC0415 - an extra

        try:
            return self._cipher.decrypt(self._nonce(last=last), chunk, self.head)
        except InvalidTag:
            return None

    def _nonce(self, *, last: bool) -> bytes:
        self._number += 1
        return self._number.to_bytes(11) + bytes([last])


def _cipher(key: bytes) -> AESGCM:
    try:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM  # noqa: PLC0415 - an extra
    except ImportError as error:
        raise MissingExtra("An encrypted file", "encryption") from error
    return AESGCM(key)


def _how(key: EncryptionKey) -> bytes:
    return _SCRYPT if isinstance(key(), str) else _RAW


def _keys(key: EncryptionKey, how: bytes, salt: bytes) -> tuple[bytes, bytes]:
    """What seals, and what tells whether a key fits."""
    given = key()
    secret = hashlib.scrypt(given.encode(), salt=salt, **_COST, dklen=32) if isinstance(given, str) else given
    made: Callable[[bytes], bytes] = lambda use: hmac.digest(hmac.digest(salt, secret, "sha256"), use + b"\1", "sha256")  # noqa: E731
    return made(b"agentmem chunks " + how), made(b"agentmem check " + how)[:_CHECK]


class _Sealing(io.RawIOBase):
    """Takes a text, and writes it sealed."""

    def __init__(self, file: BinaryIO, chunks: _Chunks) -> None:
        self._chunks, self._file, self._waiting = chunks, file, bytearray()
        file.write(chunks.head)

    def writable(self) -> bool:
        return True

    def write(self, more: object) -> int:
        taken = bytes(more)  # type: ignore[call-overload]  # any buffer
        self._waiting += taken
        while len(self._waiting) > CHUNK:  # one more is not the last
            self._file.write(self._chunks.seal(bytes(self._waiting[:CHUNK]), last=False))
            del self._waiting[:CHUNK]
        return len(taken)

    def end(self) -> None:
        """Write the last chunk."""
        self._file.write(self._chunks.seal(bytes(self._waiting), last=True))

    def abandon(self) -> None:
        """Write nothing any more."""
        self._file, self._waiting = io.BytesIO(), bytearray()


class _Opening(io.RawIOBase):
    """Reads what was sealed, and gives the text."""

    def __init__(self, file: BinaryIO, key: EncryptionKey, name: str) -> None:
        self._file, self._name = file, safe_repr(name)
        head = file.read(_HEAD)
        how, salt = head[len(BEGIN) : len(BEGIN) + 1], head[len(BEGIN) + 1 : -_CHECK]
        if len(head) < _HEAD:
            raise InvalidInput(f"{self._name} was cut off: its end is missing. Export it again.")
        self._chunks = _Chunks(key, _how(key), salt)
        if how != _how(key) or not hmac.compare_digest(head, self._chunks.head):
            raise InvalidInput(f"The key does not fit {self._name}. Give the one that it was encrypted with.")
        self._next, self._ready = file.read(CHUNK + TAG), b""
        self._over = False

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: object) -> int:
        view = memoryview(buffer)  # type: ignore[arg-type]  # any buffer
        while not self._ready and not self._over:
            sealed, self._next = self._next, self._file.read(CHUNK + TAG)
            self._over = not self._next
            opened = self._chunks.open(sealed, last=self._over)
            if opened is None:
                what = "was cut off or changed" if self._over else "was changed"
                raise InvalidInput(f"{self._name} {what} since it was written. Nothing of it can be trusted.")
            self._ready = opened
        given, self._ready = self._ready[: len(view)], self._ready[len(view) :]
        view[: len(given)] = given
        return len(given)
