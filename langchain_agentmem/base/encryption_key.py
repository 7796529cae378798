"""Keys that encrypt data on disk, and their sources. The keys are never shown.

A key is a passphrase (a text) or 32 random bytes. The bytes may be written in SQLCipher's form: "x'", 64 hexadecimal
digits, "'". Bytes are used unchanged; from a passphrase, a key is derived slowly, once for each opened file.
The package holds a function that returns the key, so that the key appears in no `repr` and, once handed over, in no
local variable of a traceback. A user's function is called each time that a database or file is opened.
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
"""A passphrase, 32 bytes, or a function that returns one of these."""

KEY_BYTES = 32
"""The length of a binary key."""
KEY_VARIABLE, NEW_KEY_VARIABLE, EXPORT_KEY_VARIABLE = "AGENTMEM_KEY", "AGENTMEM_NEW_KEY", "AGENTMEM_EXPORT_KEY"
"""The environment variables with the current key of a database, its new key, and the key of an export. With the suffix
_FILE, the variable holds the path of a file with the key; with _COMMAND, a command that prints the key."""
_COMMAND_TIMEOUT = 60.0
"""The maximum seconds that a command may take."""
_RAW_KEY = re.compile(r"[xX]'([0-9a-fA-F]{64})'")


class EncryptionKey:
    """A key that is never shown. Calling it returns a passphrase or 32 bytes.

    Args:
        key: The key, or a function that returns it.
    """

    __slots__ = ("_get_key", "_is_callable")

    def __init__(self, key: KeyLike) -> None:
        self._is_callable = callable(key)
        self._get_key: Callable[[], str | bytes] = key if callable(key) else lambda: key

    @classmethod
    def of(cls, key: KeyLike | None) -> EncryptionKey | None:
        """Wrap a given key, or return None. `check` and `resolve` validate the key."""
        return key if key is None or isinstance(key, cls) else cls(key)

    def check(self) -> None:
        """Check a constant key; a function that provides a key is not called.

        Raises:
            InvalidInput: The value cannot be a key.
        """
        if not self._is_callable and (problem := _find_key_problem(self._get_key())):
            raise InvalidInput(problem)

    def resolve(self) -> EncryptionKey:
        """Return the current key as a constant, calling the function that provides it once.

        Raises:
            InvalidInput: The value cannot be a key, or the function that provides it failed.
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
    """Return why a value cannot be a key, without any part of the value; "" if it can."""
    if isinstance(key, str):
        has_surrogates = any("\ud800" <= each <= "\udfff" for each in key)
        problem = "a text with half of a surrogate pair" if has_surrogates else "" if key else "an empty text"
    elif isinstance(key, bytes):
        problem = "" if len(key) == KEY_BYTES else f"{len(key)} bytes"
    else:
        problem = f"a {type(key).__name__}"
    return problem and f"A key is a passphrase, {KEY_BYTES} bytes, or a function that returns one, not {problem}."


def key_from_env(variable: str = KEY_VARIABLE) -> EncryptionKey | None:
    """Return the key that the environment specifies, or None.

    The file is read, or the command run, when the key is needed.

    Args:
        variable: The variable with the key itself.

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
        # Neither shows any part of the key.
        completed, reason = None, getattr(error, "strerror", None) or type(error).__name__
    else:
        return key
    raise InvalidInput(f"{name} provides no key: {reason}.")
