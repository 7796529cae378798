"""Encrypted texts: only the key shows them, and nothing can be changed, cut off or moved unnoticed."""

import pickle
import random
import sys

import pytest

from langchain_agentmem.base import encrypted_file
from langchain_agentmem.base.encrypted_file import BEGIN, CHUNK, TAG, decrypted_text
from langchain_agentmem.base.encryption_key import EncryptionKey, key_in_environment
from langchain_agentmem.base.files import is_database, whole_file
from langchain_agentmem.errors import InvalidInput, MissingExtra

RAW = bytes(range(32))
HEAD = len(BEGIN) + 1 + 16 + 16


@pytest.fixture(autouse=True)
def _quick(monkeypatch):
    """A passphrase that costs little."""
    monkeypatch.setitem(encrypted_file._COST, "n", 2**4)


def written(path, text, key):
    with whole_file(path, EncryptionKey.of(key)) as file:
        for start in range(0, len(text), 1000):
            file.write(text[start : start + 1000])
    return path


def read(path, key):
    with decrypted_text(path, EncryptionKey.of(key)) as file:
        return file.read()


class TestWhatIsWritten:
    @pytest.mark.parametrize("key", [RAW, "a passphrase, with ü and 🪶"])
    def test_is_read_again_with_the_key(self, tmp_path, key):
        for size in (0, 1, CHUNK - 1, CHUNK, CHUNK + 1, 3 * CHUNK):
            text = "heron\n" * (size // 6) + "x" * (size % 6)
            path = written(tmp_path / "text", text, key)
            assert read(path, key) == text
            assert path.stat().st_size == HEAD + size + max(1, -(-size // CHUNK)) * TAG
            assert b"heron" not in path.read_bytes()
            assert not is_database(path)

    def test_is_never_twice_the_same_and_plain_without_a_key(self, tmp_path):
        assert read(written(tmp_path / "text", "a heron\n", None), RAW) == "a heron\n"
        one, other = (written(tmp_path / name, "a heron", RAW).read_bytes() for name in "ab")
        assert one[len(BEGIN) + 1 :] != other[len(BEGIN) + 1 :]

    def test_is_not_there_where_writing_it_failed(self, tmp_path):
        with pytest.raises(UnicodeEncodeError):
            written(tmp_path / "text", "a heron" * CHUNK + "\ud83d", RAW)
        assert list(tmp_path.iterdir()) == []


class TestWhatIsNotRead:
    TEXT = "".join(random.Random(1).choices("abc\n", k=3 * CHUNK + 100))

    @pytest.fixture
    def path(self, tmp_path):
        return written(tmp_path / "text", self.TEXT, RAW)

    def test_with_another_key_or_none(self, path):
        for key in (bytes(32), "a passphrase"):
            with pytest.raises(InvalidInput, match="The key does not fit"):
                read(path, key)
        with pytest.raises(InvalidInput, match=r"is encrypted. Give its key \(key=…, or AGENTMEM_KEY\)"):
            read(path, None)

    def test_cut_off_with_a_bit_flipped_or_with_chunks_exchanged(self, path, tmp_path):
        whole, luck, step = path.read_bytes(), random.Random(2), CHUNK + TAG
        head, chunks = whole[:HEAD], [whole[start : start + step] for start in range(HEAD, len(whole), step)]
        other = written(tmp_path / "other", self.TEXT, RAW).read_bytes()[HEAD : HEAD + step]
        one, two, three, last = chunks
        ends = (*range(len(BEGIN), HEAD + TAG + 2, 9), HEAD + CHUNK + TAG, HEAD + 3 * step, -1)
        damaged = [(whole[:end], "cut off") for end in ends]
        for kept in (
            [two, one, three, last], [one, three, last], [one, one, two, three, last], [last], [one, two, three],
            [other, two, three, last], [*chunks, last],
        ):  # fmt: skip
            damaged.append((head + b"".join(kept), "changed"))
        for place in [*range(len(BEGIN), HEAD), *(luck.randrange(HEAD, len(whole)) for _ in range(40))]:
            flipped = whole[:place] + bytes([whole[place] ^ 1 << luck.randrange(8)]) + whole[place + 1 :]
            damaged.append((flipped, r"does not fit|was changed|cut off or changed"))
        for content, says in damaged:
            path.write_bytes(content)
            with pytest.raises(InvalidInput, match=says):
                read(path, RAW)

    def test_where_cryptography_is_missing(self, path, monkeypatch):
        monkeypatch.setitem(sys.modules, "cryptography.hazmat.primitives.ciphers.aead", None)
        with pytest.raises(MissingExtra, match=r"langchain-agentmem\[encryption\]"):
            read(path, RAW)
        with pytest.raises(MissingExtra, match=r"langchain-agentmem\[encryption\]"):
            written(path.with_name("new"), "a heron", RAW)
        assert not path.with_name("new").exists()


class TestKeys:
    def test_what_is_none_is_refused_and_not_shown(self):
        for given in ("", b"", b"short", RAW + b"\0", 5, [RAW], "half of \ud83d", bytearray(RAW), True):
            with pytest.raises(InvalidInput, match="A key is a passphrase, 32 bytes, or a function") as refused:
                EncryptionKey.of(given).check()
            assert "short" not in str(refused.value)
            with pytest.raises(InvalidInput, match="A key is a passphrase"):
                EncryptionKey.of(lambda given=given: given).asked()

    def test_nothing_shows_one(self):
        key = EncryptionKey.of("hunter2 hunter2")
        assert repr(key) == str(key) == f"{key}" == "EncryptionKey(…)"
        with pytest.raises(TypeError, match="not written down"):
            pickle.dumps(key)

    def test_sqlciphers_own_form_is_bytes_and_a_function_is_asked_each_time(self):
        assert EncryptionKey.of(f"x'{RAW.hex()}'")() == RAW
        assert EncryptionKey.of("x'12'")() == "x'12'"

        given = iter(["one", "two"])
        key = EncryptionKey.of(lambda: next(given))
        assert (key.asked()(), key.asked()()) == ("one", "two")
        with pytest.raises(InvalidInput, match="failed with StopIteration"):
            key.asked()

    def test_the_environment_gives_one_in_three_ways(self, monkeypatch, tmp_path):
        assert key_in_environment() is None
        (tmp_path / "key").write_text("of a file\n")
        for name, value, found in (
            ("AGENTMEM_KEY", "as it is", "as it is"),
            ("AGENTMEM_KEY_FILE", str(tmp_path / "key"), "of a file"),
            ("AGENTMEM_KEY_COMMAND", "printf 'of a command\\n'", "of a command"),
        ):
            with monkeypatch.context() as patch:
                patch.setenv(name, value)
                assert key_in_environment().asked()() == found

    def test_what_the_environment_cannot_give_is_told_and_not_shown(self, monkeypatch, tmp_path):
        monkeypatch.chdir(tmp_path)
        (tmp_path / "binary").write_bytes(b"hunter2\xff")
        (tmp_path / "empty").write_bytes(b"\n")
        for names, says in (
            ({"_FILE": "nowhere"}, "The file that AGENTMEM_KEY_FILE names cannot be read: No such file"),
            ({"_FILE": "binary"}, "cannot be read: it is no text in UTF-8"),
            ({"_FILE": "empty"}, "not an empty text"),
            ({"_COMMAND": "no-such-command"}, "The command that AGENTMEM_KEY_COMMAND names gives no key: No such file"),
            ({"_COMMAND": "sh -c 'echo hunter2; exit 3'"}, "gives no key: it ended with 3"),
            ({"_COMMAND": "'unbalanced"}, "gives no key: ValueError"),
            ({"": "hunter2", "_FILE": "empty"}, "given 2 times: by AGENTMEM_KEY and AGENTMEM_KEY_FILE"),
        ):
            with monkeypatch.context() as patch:
                for name, value in names.items():
                    patch.setenv(f"AGENTMEM_KEY{name}", value)
                with pytest.raises(InvalidInput, match=says) as refused:
                    key_in_environment().asked()
            assert refused.value.__context__ is None
            assert "hunter2" not in str(refused.value)
