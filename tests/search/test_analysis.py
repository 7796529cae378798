"""Text analysis: terms, features and queries."""

from concurrent.futures import ThreadPoolExecutor

from hypothesis import given
from hypothesis import strategies as st

from langchain_agentmem.messages.message import Message, ToolCallMsg, body_text, encode_body, search_text
from langchain_agentmem.search.analysis import (
    MAX_QUERY_TERMS,
    MAX_TERM_CHARS,
    MAX_TEXT_CHARS,
    analyze_query,
    analyze_text,
    extract_terms,
)


class TestTerms:
    def test_text_is_split_into_expected_terms(self):
        for text, found in {
            "Hello, World": ["hello", "world"], "snake_case and-dash": ["snake", "case", "and", "dash"],
            "Café ÉCOLE naïve": ["cafe", "ecol", "naiv"], "STRASSE Straße": ["strass", "strass"],
            "\ufb01ne \uff12\uff10\uff12\uff16": ["fine", "2026"], "v2.0 x86": ["v2", "0", "x86"],
            "北京大学": ["北", "京", "大", "学", "北京", "京大", "大学"], "猫": ["猫"], "😀 ! \0 \ud800": ["😀"],
            "": [], "домами x2ing 2021s": ["домами", "x2ing", "2021s"],
        }.items():  # fmt: skip
            assert extract_terms(text) == found, text
        assert set(extract_terms("ภาษา")) <= set(extract_terms("ฉันพูดภาษาไทย"))

    @given(st.text())
    def test_terms_of_any_text_are_index_safe(self, text):
        for term in extract_terms(text):
            assert term
            assert len(term) <= MAX_TERM_CHARS
            assert not set(term) & set(" \"'*\\()\0")
        assert extract_terms(text) == extract_terms(text)

    @given(st.text(max_size=200))
    def test_terms_ignore_case(self, text):
        assert set(extract_terms(text.upper().lower())) == set(extract_terms(text.upper()))

    def test_long_texts_and_terms_are_truncated(self):
        assert len(extract_terms("ab " * MAX_TEXT_CHARS)) <= MAX_TEXT_CHARS
        assert extract_terms("x" * 1000) == ["x" * MAX_TERM_CHARS]

    def test_inflected_forms_share_a_stem(self):
        for one, other in (("walking", "walked"), ("went", "going"), ("children", "child")):
            assert extract_terms(one) == extract_terms(other)

    def test_concurrent_stemming_is_thread_safe(self):
        words = [f"{chr(97 + n % 26)}{chr(97 + n // 26 % 26)}xyzings" for n in range(600)]
        with ThreadPoolExecutor(8) as threads:
            together = list(threads.map(lambda word: extract_terms(word + "zqed"), words))
        assert together == [extract_terms(word + "zqed") for word in words]
        assert len({str(each) for each in together}) == len(words)


class TestTextAnalysis:
    def test_analysis_counts_words_and_sets_feature_bits(self):
        plain, told = analyze_text("Blue paper"), analyze_text("Did I see Ana in 2021?")
        assert (plain.length, plain.features) == (2, 0)
        assert (told.length, told.features) == (6, 0b1111)

    def test_self_statements_are_detected_in_user_messages_only(self):
        text = "I prefer tea, and always answer in French."
        assert analyze_text(text, "user").features - analyze_text(text, "assistant").features == 0b1110000
        assert analyze_text(text).features == analyze_text(text, "assistant").features

    @given(st.text(max_size=300))
    def test_analysis_returns_the_extracted_terms(self, text):
        assert analyze_text(text).terms == extract_terms(text)


class TestQueryAnalysis:
    def test_query_terms_are_unique_without_stop_words(self):
        assert analyze_query("Where is the cat? The CAT!").terms == ("cat",)

    def test_query_of_stop_words_keeps_its_terms(self):
        assert analyze_query("To be or not to be").terms == ("to", "be", "or", "not")

    def test_query_maps_words_to_their_terms(self):
        assert analyze_query("Walking dogs").words == {"walking": "walk", "dogs": "dog"}

    def test_only_a_single_word_query_is_a_lookup(self):
        for text in ("cat", "Cat?", "猫", "东京大学", "แมว"):
            assert analyze_query(text).is_lookup, text
        for text in (
            "the cat",
            "What can you tell me about cats?",
            "my cat sleeps",
            "书房有多大?",
            "豆包有多重?",
            "猫はどこですか",
            "猫 2",
            "我的 猫",
        ):
            assert not analyze_query(text).is_lookup, text

    def test_long_query_keeps_its_last_terms_and_its_question(self):
        asked = analyze_query(" ".join(f"w{n}" for n in range(1_000)) + ". When did we meet?")
        assert asked.terms == (*(f"w{n}" for n in range(1_001 - MAX_QUERY_TERMS, 1_000)), "meet")
        assert (asked.asking, asked.answer_kinds) == ("When did we meet?", {"time"})
        assert analyze_query("No question. " * 40).asking == ""
        assert analyze_query("这是很长的一段话。" * 30 + "我们几点见面\uff1f好的。").asking == "我们几点见面\uff1f"

    @given(st.text())
    def test_any_text_can_be_analyzed_as_query(self, text):
        assert set(analyze_query(text).terms) <= set(extract_terms(text))


CALLS = st.fixed_dictionaries(
    {"type": st.sampled_from(["tool_use", "function_call", "tool_call", "text"])},
    optional={
        "name": st.text() | st.lists(st.text(), max_size=1),
        "input": st.text() | st.dictionaries(st.text(), st.integers() | st.text(), max_size=2),
    },
)


@given(
    st.text() | st.lists(st.dictionaries(st.sampled_from(["type", "text"]), st.text(), max_size=2) | CALLS, max_size=3),
    st.none() | st.text(),
    st.lists(st.builds(ToolCallMsg, id=st.just("c"), name=st.text(min_size=1), arguments=st.text()), max_size=2),
)
def test_stored_body_yields_the_same_indexed_text(content, name, calls):
    """Entries are removed from the index by their terms, so both texts must be equal."""
    message = Message(role="user", content=content, name=name, tool_calls=calls)
    assert body_text(encode_body(message)) == message.text
    assert body_text(encode_body(message), with_calls=True) == search_text(message)
