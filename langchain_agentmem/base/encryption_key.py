"""Keys that encrypt data on disk, and their sources. Keys are never shown.

A key is a passphrase (a text) or 32 random bytes. The bytes may also be a text in SQLCipher's form: `x'…'`
with 64 hexadecimal digits. Bytes are used unchanged. A passphrase passes through a slow key derivation, once for each
opened file.

`EncryptionKey` stores a function that returns the key instead of the key itself. So neither a `repr` nor the local
variables in a traceback show the key. If the caller passes a function, this function is called each time that a
database or file is opened.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import NoReturn, TypeAlias

from langchain_agentmem.errors import InvalidInput

KeyLike: TypeAlias = str | bytes | Callable[[], str | bytes]
"""A passphrase, 32 bytes, or a function that returns either."""

KEY_BYTES = 32
"""The length of a binary key, in bytes."""
KEY_VARIABLE, NEW_KEY_VARIABLE, EXPORT_KEY_VARIABLE = "AGENTMEM_KEY", "AGENTMEM_NEW_KEY", "AGENTMEM_EXPORT_KEY"
"""The environment variables for a database's current key, its new key, and the key of an export.

A variable with the suffix _FILE contains the path of a file with the key. One with the suffix _COMMAND contains a
command that prints the key.
"""
_COMMAND_TIMEOUT = 60.0
"""The timeout of a command that prints a key, in seconds."""
_RAW_KEY = re.compile(r"[xX]'([0-9a-fA-F]{64})'")


class EncryptionKey:
    """An encryption key that is never shown. Calling it returns a passphrase or 32 bytes.

    Args:
        key: The key, or a function that returns it.
    """

    __slots__ = ("_get_key", "_is_callable")

    def __init__(self, key: KeyLike) -> None:
        self._is_callable = callable(key)
        self._get_key: Callable[[], str | bytes] = key if callable(key) else lambda: key

    @classmethod
    def of(cls, key: KeyLike | None) -> EncryptionKey | None:
        """Wrap a key. An `EncryptionKey` or None is returned unchanged.

        The key is not validated here, but by `check` and `resolve`.
        """
        return key if key is None or isinstance(key, cls) else cls(key)

    def check(self) -> None:
        """Check a constant key. A function that returns the key is not called.

        Raises:
            InvalidInput: The value cannot be a key.
        """
        if not self._is_callable and (problem := _find_key_problem(self._get_key())):
            raise InvalidInput(problem)

    def resolve(self) -> EncryptionKey:
        """Return an `EncryptionKey` with the current key as a constant.

        A function that returns the key is called once.

        Raises:
            InvalidInput: The value cannot be a key, or the function failed.
        """
        try:
            key = self._get_key()
        except InvalidInput:
            raise
        except Exception as error:
            raise InvalidInput(f"The function that returns the key failed with {type(error).__name__}.") from error
        if problem := _find_key_problem(key):
            del key
            raise InvalidInput(problem)
        return EncryptionKey(key)

    def __call__(self) -> str | bytes:
        """Return the passphrase, or the 32 bytes."""
        key = self._get_key()
        raw = _RAW_KEY.fullmatch(key) if isinstance(key, str) else None
        return key if raw is None else bytes.fromhex(raw[1])

    def __repr__(self) -> str:
        return "EncryptionKey(…)"

    def __reduce__(self) -> NoReturn:
        raise TypeError("An encryption key cannot be pickled.")


def _find_key_problem(key: object) -> str:
    """Return the reason why a value cannot be a key, or "" if it can.

    The reason contains no part of the value.
    """
    if isinstance(key, str):
        has_surrogates = any("\ud800" <= each <= "\udfff" for each in key)
        problem = "a text with half of a surrogate pair" if has_surrogates else ("" if key else "an empty text")
    elif isinstance(key, bytes):
        problem = "" if len(key) == KEY_BYTES else f"{len(key)} bytes"
    else:
        problem = f"a {type(key).__name__}"
    return problem and f"A key is a passphrase, {KEY_BYTES} bytes, or a function that returns one, not {problem}."


def key_from_env(variable: str = KEY_VARIABLE) -> EncryptionKey | None:
    """Return the key that the environment specifies, or None.

    The variable, its file or its command is read each time that the key is needed.

    Args:
        variable: The variable that contains the key. The suffixes _FILE and _COMMAND are also tried. Default:
            `KEY_VARIABLE`.

    Raises:
        InvalidInput: More than one variable specifies a key.
    """
    variables = [name for name in (variable, f"{variable}_FILE", f"{variable}_COMMAND") if os.environ.get(name)]
    if len(variables) > 1:
        raise InvalidInput(f"Set only one of {' and '.join(variables)}: each specifies the key.")
    return EncryptionKey(partial(_read_variable, variables[0])) if variables else None


def _read_variable(name: str) -> str:
    """Return the key from a variable, or from its file or command."""
    key = os.environ[name]
    try:
        if name.endswith("_FILE"):
            key = Path(key).read_text(encoding="utf-8").rstrip("\r\n")
        elif name.endswith("_COMMAND"):
            completed = subprocess.run(shlex.split(key), stdout=subprocess.PIPE, check=True, timeout=_COMMAND_TIMEOUT)  # noqa: S603
            key = completed.stdout.decode("utf-8").rstrip("\r\n")
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        # A traceback shows the local `completed`, which contains the key. The reason does not contain the key.
        completed, reason = None, getattr(error, "strerror", None) or type(error).__name__
    else:
        return key
    raise InvalidInput(f"{name} provides no key: {reason}.")
