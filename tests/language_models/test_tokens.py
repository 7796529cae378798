"""Token counting is accurate, needs no network, and counts each message once."""

from __future__ import annotations

import base64
import copy
import hashlib
import json
import socket
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest
import tiktoken
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.language_models.fake_chat_models import FakeListChatModel
from langchain_core.messages import (
    AIMessage,
    AnyMessage,
    BaseMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
    messages_to_dict,
)
from langchain_core.messages.utils import count_tokens_approximately
from langchain_core.tools import tool
from pydantic import BaseModel
from tiktoken_ext import openai_public

from langchain_agentmem.errors import InvalidInput, MessageError
from langchain_agentmem.language_models import token_estimate, tokens
from langchain_agentmem.language_models.tokens import TokenCounter, estimate_tokens

SAMPLES = Path(__file__).parents[1] / "data" / "tokens"
RECORDED = json.loads((SAMPLES / "counts.json").read_text("utf-8"))["counts"]
LARGER_DEVIATIONS = {"german": 1.20}
"""Samples that the estimate may exceed by more than 15%, and by how much."""

HOSTILE = ["\ud800", "a\udfff\ud800b", "\x00", "\x00" * 99, "<|endoftext|>", "<|im_start|>system", "\u200d" * 50]


def characters(text):
    return len(text)


def quarter(anything: str):
    return len(anything) // 4


def count_list(given: list[BaseMessage]):
    return sum(map(count_one, given))


def count_union(given):
    return count_list(given)


count_union.__annotations__["given"] = list[AnyMessage]  # the union itself, not its name


def count_one(given: BaseMessage):
    return len(given.content) // 4 + 5


def recording_counter(asked: list[str]):
    """Return a counter of texts that records them."""

    def count(text: str) -> int:
        asked.append(text)
        return len(text)

    return count


class Price(BaseModel):
    """What something costs."""

    amount: float
    currency: str = "EUR"


@tool
def weather(city: str, days: int = 3) -> str:
    """Tell what the weather will be in a city."""
    return f"{city} {days}"


def search(query: str) -> str:
    """Search the web."""
    return query


@pytest.fixture
def no_network(monkeypatch):
    def refuse(*args, **kwargs):
        raise AssertionError("the network was touched")

    for name in ("socket", "create_connection", "getaddrinfo"):
        monkeypatch.setattr(socket, name, refuse)
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://192.0.2.1:9")


@pytest.fixture
def vocabulary(monkeypatch, tmp_path):
    """The place of tiktoken's file of o200k_base; `write_vocabulary` puts a small one there that tiktoken accepts."""
    folder = tmp_path / "cache"
    folder.mkdir()
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(folder))
    monkeypatch.setattr(tiktoken.registry, "ENCODINGS", {})
    tokens._tiktoken_counter.cache_clear()
    yield folder / tokens.VOCABULARY
    tokens._tiktoken_counter.cache_clear()


def write_vocabulary(path, monkeypatch):
    """Write a vocabulary of single bytes and a word, and have tiktoken and the package expect it."""
    words = [bytes([byte]) for byte in range(256)] + [b"he", b"ll", b"hell", b"hello"]
    data = b"".join(base64.b64encode(word) + b" %d\n" % rank for rank, word in enumerate(words))
    digest = hashlib.sha256(data).hexdigest()
    load = openai_public.load_tiktoken_bpe
    monkeypatch.setattr(tokens, "_VOCABULARY_DIGEST", digest)
    monkeypatch.setattr(openai_public, "load_tiktoken_bpe", lambda url, expected_hash: load(url, digest))
    path.write_bytes(data)


class TestEstimate:
    def test_estimate_is_close_to_the_recorded_counts(self):
        estimates = {path.stem: estimate_tokens(path.read_text("utf-8")) for path in SAMPLES.glob("*.txt")}
        assert estimates.keys() == RECORDED.keys()
        for kind, estimate in estimates.items():
            assert 0.95 <= estimate / RECORDED[kind] <= LARGER_DEVIATIONS.get(kind, 1.15), kind
        assert sum(estimates.values()) > sum(RECORDED.values())

    @given(st.text())
    def test_pieces_join_to_the_whole_text(self, text):
        pieces = (token_estimate._ASCII_PIECE if text.isascii() else token_estimate._PIECE).findall(text)
        assert "".join(pieces) == text

    @given(st.text(st.characters(codec=None)), st.text(st.characters(codec=None)))
    def test_estimate_never_raises_and_is_deterministic(self, text, more):
        first = estimate_tokens(text)
        estimate_tokens(more)
        assert estimate_tokens(text) == first >= (1 if text else 0)

    @pytest.mark.slow
    @pytest.mark.parametrize("unit", ["a", " ", "\n", "A", "é", "語", "🎉", "#@!%", "'", "\x00", "ab "])
    def test_repeated_text_has_a_plausible_estimate(self, unit):
        text = unit * (1_000_000 // len(unit))
        assert 1_000 < estimate_tokens(text) <= 4 * len(text)

    def test_a_giant_text_is_sampled_and_still_scales(self):
        line = "The quick brown fox jumps over the lazy dog, 42 times.\n"
        whole = estimate_tokens(line * 1_000) / 1_000
        giant = estimate_tokens(line * 200_000) / 200_000
        assert giant == pytest.approx(whole, rel=0.01)

    def test_piece_cache_is_bounded(self):
        estimate_tokens(" ".join(f"w{'abcdefghij'[i % 10]}{chr(97 + i // 10 % 26)}{i:x}" for i in range(80_000)))
        assert len(token_estimate._COSTS) <= token_estimate._CACHE_SIZE


class TestMessages:
    counter = TokenCounter("estimate")

    def test_text_name_and_overhead_count(self):
        plain = self.counter.count_message(HumanMessage("Hello there"))
        assert plain == estimate_tokens("Hello there") + 3
        assert self.counter.count_message(HumanMessage("Hello there", name="Ada")) == plain + estimate_tokens("Ada")

    def test_tool_calls_and_results_count(self):
        call = {"name": "weather", "args": {"city": "Lisbon"}, "id": "call_1", "type": "tool_call"}
        bare = self.counter.count_message(AIMessage(""))
        assert self.counter.count_message(AIMessage("", tool_calls=[call])) >= bare + 10
        old = {"function_call": {"name": "weather", "arguments": '{"city": "Lisbon"}'}}
        assert self.counter.count_message(AIMessage("", additional_kwargs=old)) >= bare + 10
        assert self.counter.count_message({"role": "assistant", "content": None, **old}) >= bare + 10
        result = ToolMessage("ok", tool_call_id="call_1")
        assert self.counter.count_message(result) == 3 + estimate_tokens("call_1") + estimate_tokens("ok")

    def test_call_repeated_in_content_counts_once(self):
        call = {"name": "weather", "args": {"city": "Lisbon"}, "id": "toolu_1", "type": "tool_call"}
        block = {"type": "tool_use", "id": "toolu_1", "name": "weather", "input": {"city": "Lisbon"}}
        once = self.counter.count_message(AIMessage("", tool_calls=[call]))
        assert self.counter.count_message(AIMessage([block], tool_calls=[call])) == once
        assert self.counter.count_message({"role": "assistant", "content": [block]}) == once

    def test_dictionaries_cost_the_same_as_messages(self):
        call = {"name": "weather", "args": {"city": "Lisbon"}, "id": "c1", "type": "tool_call"}
        message = AIMessage("Let me see", tool_calls=[call])
        calls = [{"id": "c1", "type": "function", "function": {"name": "weather", "arguments": '{"city": "Lisbon"}'}}]
        provider = {"role": "assistant", "content": "Let me see", "tool_calls": calls}
        for shape in (provider, messages_to_dict([message])[0]):
            assert self.counter.count_message(shape) == self.counter.count_message(message)
        said = {"role": "user", "content": "Hello"}
        for shape in ("Hello", ("user", "Hello"), SimpleNamespace(content="Hello"), said):
            assert self.counter.count_message(shape) == self.counter.count_message(HumanMessage("Hello"))

    def test_image_cost_is_independent_of_its_data(self):
        counter = TokenCounter("estimate", image_tokens=1_234)
        for block in (
            {"type": "image_url", "image_url": {"url": "data:image/png;base64," + "A" * 400_000}},
            {"type": "image", "base64": "A" * 400_000, "mime_type": "image/png"},
            {"type": "input_image", "image_url": "https://example.com/a.png"},
        ):
            cost = counter.count_message(HumanMessage([{"type": "text", "text": "Look"}, block]))
            assert cost == counter.count_message(HumanMessage("Look")) + 1_234, block["type"]

    def test_binary_data_cost_is_bounded(self):
        data = "A" * 9_000_000
        for block in (
            {"type": "file", "base64": data, "mime_type": "application/pdf"},
            {"type": "file", "file": {"file_data": "data:application/pdf;base64," + data}},
            {"type": "input_audio", "input_audio": {"data": data, "format": "wav"}},
            {"type": "video", "url": "https://example.com/a.mp4"},
            {"type": "document", "source": {"type": "base64", "data": data}},
            {"type": "brand_new", "payload": {"bytes": data}},
            {"type": "redacted_thinking", "data": data},
        ):
            assert 200 <= self.counter.count_message({"role": "user", "content": [block]}) <= 10_100, block["type"]

    def test_text_documents_and_thinking_count_their_text(self):
        block = {"type": "document", "source": {"type": "text", "data": "Hello there"}}
        assert self.counter.count_message({"role": "user", "content": [block]}) == estimate_tokens("Hello there") + 3
        block = {"type": "thinking", "thinking": "Let me think about it.", "signature": "A" * 5_000}
        assert self.counter.count_message(AIMessage([block])) == estimate_tokens("Let me think about it.") + 3

    def test_invalid_messages_are_rejected(self):
        for wrong in (None, 7, object(), {"text": "no content"}, b"bytes"):
            with pytest.raises(MessageError, match="as a message"):
                self.counter.count_message(wrong)
        block: dict = {"type": "odd"}
        block["self"] = block
        with pytest.raises(MessageError, match="nested"):
            self.counter.count_message({"role": "user", "content": [block]})

    @pytest.mark.parametrize("text", HOSTILE)
    def test_hostile_text_is_counted(self, text):
        call = {"name": text, "args": {text: text}, "id": text, "type": "tool_call"}
        assert self.counter.count_message(AIMessage(text, tool_calls=[call])) > 3
        assert self.counter.count_message(HumanMessage(text * 5_000)) > 3


class TestContext:
    def test_system_and_tools_count(self):
        counter = TokenCounter("estimate")
        alone = counter.count([HumanMessage("Hi")])
        both = [SystemMessage("Be brief."), HumanMessage("Hi")]
        assert counter.count([HumanMessage("Hi")], system="Be brief.") == counter.count(both)
        schema = {"type": "function", "function": {"name": "f", "description": "Does it", "parameters": {}}}
        for one in (weather, Price, search, schema, {"type": "web_search_20250305", "name": "web_search"}):
            assert counter.count([HumanMessage("Hi")], tools=[one]) > alone + 8
        endless: dict[str, object] = {"type": "endless"}
        endless["self"] = endless
        of_a_provider = SimpleNamespace(description="Searches. " * 100)
        assert counter.count([], tools=[endless]) > 8
        assert counter.count([], tools=[of_a_provider]) > 200

    def test_tool_cost_follows_its_description(self):
        counter = TokenCounter("estimate")
        changing = copy.copy(weather)
        before = counter.count([], tools=[changing])
        changing.description += " It knows every city on earth and is never wrong about rain."
        assert counter.count([], tools=[changing]) > before + 5

    def test_only_new_messages_are_counted(self):
        asked: list[str] = []
        counter = TokenCounter(recording_counter(asked))
        messages = [HumanMessage(f"message {i}") for i in range(100)]
        counter.count(messages, tools=[weather], system="Be brief.")
        assert len(asked) == 102
        asked.clear()
        messages.append(HumanMessage("a new one"))
        total = counter.count([copy.deepcopy(m) for m in messages], tools=[weather], system="Be brief.")
        assert asked == ["a new one"]
        assert total == TokenCounter(characters).count(messages, tools=[weather], system="Be brief.")

    @pytest.mark.parametrize("long", [False, True])
    def test_a_message_changed_in_place_is_counted_anew(self, long):
        counter = TokenCounter(characters)
        filler = "x" * (9_000 if long else 5)
        message = AIMessage([{"type": "text", "text": filler}], tool_calls=[])
        before = counter.count([message])
        message.content[0]["text"] = filler[:-1] + "yz"
        assert counter.count([message]) == before + 1
        message.content.append({"type": "image_url", "image_url": {"url": "https://example.com"}})
        assert counter.count([message]) == before + 801
        message.tool_calls.append({"name": "f", "args": {"a": 1}, "id": "1", "type": "tool_call"})
        with_call = counter.count([message])
        message.tool_calls[0]["args"]["a"] = 12
        assert counter.count([message]) == with_call + 1

    def test_differently_split_texts_are_cached_separately(self):
        def count(text):
            return len(text) ** 2

        counter = TokenCounter(count)
        for a, b in ((["ab", "c"], ["abc"]), (["x" * 5_000, "y"], ["x" * 4_999, "xy"])):
            for texts in (a, b):
                message = HumanMessage([{"type": "text", "text": text} for text in texts])
                assert counter.count_message(message) == sum(map(count, texts)) + 3

    def test_message_cache_is_bounded(self, monkeypatch):
        monkeypatch.setattr(tokens, "CACHE_SIZE", 3)
        asked: list[str] = []
        counter = TokenCounter(recording_counter(asked))
        for text in ["a", "b", "c", "a", "d", "a", "b"]:
            counter.count_message(text)
        assert asked == ["a", "b", "c", "d", "b"]
        assert len(counter._counts) == 3

    def test_concurrent_counts_agree(self, monkeypatch):
        monkeypatch.setattr(tokens, "CACHE_SIZE", 50)
        counter, messages = TokenCounter("estimate"), [HumanMessage(f"message number {i} of many") for i in range(200)]
        with ThreadPoolExecutor(8) as pool:
            found = list(pool.map(lambda _: counter.count(messages), range(40)))
        assert {*found} == {TokenCounter("estimate").count(messages)}


class TestCalibration:
    messages = (HumanMessage("Tell me a long story about the sea. " * 40),)

    def test_factor_follows_the_provider_count(self):
        counter = TokenCounter("estimate")
        raw = counter.count(self.messages)
        counter.learn(raw, round(raw * 1.2))
        assert counter.factor() == pytest.approx(1.2, rel=0.01)
        assert counter.count(self.messages) == pytest.approx(raw * 1.2, rel=0.01)

    def test_factor_is_bounded(self):
        for reported, factor in ((10**9, 2.0), (1, 0.5)):
            counter = TokenCounter("estimate")
            for _ in range(5):
                counter.learn(400, reported)
            assert counter.factor() == factor

    def test_invalid_counts_and_tiny_contexts_are_ignored(self):
        counter = TokenCounter("estimate")
        for reported in (0, -5, None, "many", float("nan"), float("inf")):
            counter.learn(400, reported)
        counter.learn(4, 40)
        assert counter.factor() == 1.0

    def test_factor_resists_outliers_and_follows_changes(self):
        counter = TokenCounter("estimate")
        for _ in range(20):
            counter.learn(400, 400)
        counter.learn(400, 800)
        assert 1.0 < counter.factor() < 1.25
        for _ in range(30):
            counter.learn(400, 800)
        assert counter.factor() == pytest.approx(2.0, rel=0.01)


class TestCounters:
    @pytest.mark.parametrize(
        "counter",
        [
            count_tokens_approximately, "approximate", partial(count_tokens_approximately, count_name=False),
            lambda messages: 3 + count_tokens_approximately(messages), count_list, count_union, count_one,
            lambda message: len(message.content) // 4 + 9, quarter, lambda text: len(text) // 4,
        ],
    )  # fmt: skip
    def test_counters_of_texts_messages_or_lists_work(self, counter):
        counter = TokenCounter(counter)
        assert counter.count_text("word " * 80) == 100
        assert counter.count([HumanMessage("word " * 80), AIMessage("word " * 80)]) == 206
        assert counter.count_text("") == 0

    def test_callables_and_langchain_models_are_accepted(self, monkeypatch):
        monkeypatch.setattr(FakeListChatModel, "get_num_tokens", lambda self, text: 7)
        fake = FakeListChatModel(responses=[])
        for one, count in ((characters, 4), (fake, 7)):
            assert TokenCounter(one).count_text("four") == count

    def test_model_without_tokenizer_fetches_none(self, no_network, caplog):
        counter = TokenCounter(FakeListChatModel(responses=[]))
        assert counter.count_text("Hello, how are you?") == estimate_tokens("Hello, how are you?")
        [record] = caplog.records
        assert "cannot count tokens offline" in record.getMessage()

    @pytest.mark.parametrize("answer", [None, "many", float("nan"), ZeroDivisionError()])
    def test_failing_counter_falls_back_to_the_estimate(self, answer, caplog):
        def count(text):
            if isinstance(answer, Exception):
                raise answer
            return answer

        counter = TokenCounter(count)
        assert {counter.count_text("Hello, how are you?") for _ in range(3)} == {estimate_tokens("Hello, how are you?")}
        assert len(caplog.records) == 1

    def test_invalid_counters_are_rejected(self):
        for wrong in ("gpt-4", 7, object(), ""):
            with pytest.raises(InvalidInput, match="cannot count"):
                TokenCounter(wrong)
        for letters in (len, lambda x: 0 + len(x)):
            with pytest.raises(InvalidInput, match="Cannot determine what"):
                TokenCounter(letters)
        with pytest.raises(InvalidInput, match="image_tokens"):
            TokenCounter(image_tokens=-1)


class TestTiktoken:
    def test_missing_vocabulary_falls_back_to_the_estimate(self, vocabulary, no_network):
        counter = TokenCounter()
        assert counter.count_text("Hello, how are you?") == estimate_tokens("Hello, how are you?")
        with pytest.raises(InvalidInput, match="TIKTOKEN_CACHE_DIR"):
            TokenCounter("tiktoken")

    def test_cached_vocabulary_is_used_offline(self, vocabulary, no_network, monkeypatch):
        write_vocabulary(vocabulary, monkeypatch)
        for counter in (TokenCounter(), TokenCounter("tiktoken")):
            assert counter.count_text("hello") == 1
            assert counter.count_text("jelly") == 4
            assert counter.count_text("<|endoftext|>") > 1
            assert all(counter.count_text(text) >= 1 for text in HOSTILE)
            assert counter.count_text(" " * 1_000_000) == 1_000_000
        assert TokenCounter("estimate").count_text("jelly") == estimate_tokens("jelly")

    @pytest.mark.parametrize("damage", ["shortened", "folder", "no cache"])
    def test_damaged_vocabulary_falls_back_to_the_estimate(self, vocabulary, no_network, monkeypatch, damage):
        write_vocabulary(vocabulary, monkeypatch)
        if damage == "shortened":
            vocabulary.write_bytes(vocabulary.read_bytes()[:-9])
        elif damage == "folder":
            vocabulary.unlink()
            vocabulary.mkdir()
        else:
            monkeypatch.setenv("TIKTOKEN_CACHE_DIR", "")
        assert TokenCounter().count_text("Hello, how are you?") == estimate_tokens("Hello, how are you?")
        with pytest.raises(InvalidInput, match="never downloads it"):
            TokenCounter("tiktoken")

    def test_vocabulary_is_found_in_the_temporary_folder(self, vocabulary, no_network, monkeypatch, tmp_path):
        write_vocabulary(vocabulary, monkeypatch)
        monkeypatch.delenv("TIKTOKEN_CACHE_DIR")
        monkeypatch.delenv("DATA_GYM_CACHE_DIR", raising=False)
        monkeypatch.setattr(tokens.tempfile, "tempdir", str(tmp_path))
        vocabulary.parent.rename(tmp_path / "data-gym-cache")
        assert TokenCounter().count_text("hello") == 1
