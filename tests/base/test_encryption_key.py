"""Encryption keys: valid forms, sources, and secrecy."""

import pickle

import pytest

from langchain_agentmem.base.encryption_key import EncryptionKey, key_from_env
from langchain_agentmem.errors import InvalidInput

RAW = bytes(range(32))


class TestKeys:
    def test_invalid_key_is_rejected_and_not_shown(self):
        for given in ("", b"", b"short", RAW + b"\0", 5, [RAW], "half of \ud83d", bytearray(RAW), True):
            with pytest.raises(InvalidInput, match="A key is a passphrase, 32 bytes, or a function") as refused:
                EncryptionKey.of(given).check()
            assert "short" not in str(refused.value)
            with pytest.raises(InvalidInput, match="A key is a passphrase"):
                EncryptionKey.of(lambda given=given: given).resolve()

    def test_key_is_never_shown_or_pickled(self):
        key = EncryptionKey.of("hunter2 hunter2")
        assert repr(key) == str(key) == f"{key}" == "EncryptionKey(…)"
        with pytest.raises(TypeError, match="cannot be pickled"):
            pickle.dumps(key)

    def test_raw_key_syntax_and_functions_are_supported(self):
        assert EncryptionKey.of(f"x'{RAW.hex()}'")() == RAW
        assert EncryptionKey.of("x'12'")() == "x'12'"

        given = iter(["one", "two"])
        key = EncryptionKey.of(lambda: next(given))
        assert (key.resolve()(), key.resolve()()) == ("one", "two")
        with pytest.raises(InvalidInput, match="failed with StopIteration"):
            key.resolve()

    def test_environment_gives_keys_in_three_ways(self, monkeypatch, tmp_path):
        assert key_from_env() is None
        (tmp_path / "key").write_text("of a file\n")
        for name, value, found in (
            ("AGENTMEM_KEY", "as it is", "as it is"),
            ("AGENTMEM_KEY_FILE", str(tmp_path / "key"), "of a file"),
            ("AGENTMEM_KEY_COMMAND", "printf 'of a command\\n'", "of a command"),
        ):
            with monkeypatch.context() as patch:
                patch.setenv(name, value)
                assert key_from_env().resolve()() == found

    def test_environment_errors_hide_the_key(self, monkeypatch, tmp_path):
        monkeypatch.chdir(tmp_path)
        (tmp_path / "binary").write_bytes(b"hunter2\xff")
        (tmp_path / "empty").write_bytes(b"\n")
        for names, says in (
            ({"_FILE": "nowhere"}, "AGENTMEM_KEY_FILE provides no key: No such file"),
            ({"_FILE": "binary"}, "provides no key: UnicodeDecodeError"),
            ({"_FILE": "empty"}, "not an empty text"),
            ({"_COMMAND": "no-such-command"}, "AGENTMEM_KEY_COMMAND provides no key: No such file"),
            ({"_COMMAND": "sh -c 'echo hunter2; exit 3'"}, "provides no key: CalledProcessError"),
            ({"_COMMAND": "'unbalanced"}, "provides no key: ValueError"),
            ({"": "hunter2", "_FILE": "empty"}, "Set only one of AGENTMEM_KEY and AGENTMEM_KEY_FILE"),
        ):
            with monkeypatch.context() as patch:
                for name, value in names.items():
                    patch.setenv(f"AGENTMEM_KEY{name}", value)
                with pytest.raises(InvalidInput, match=says) as refused:
                    key_from_env().resolve()
            assert refused.value.__context__ is None
            assert "hunter2" not in str(refused.value)
