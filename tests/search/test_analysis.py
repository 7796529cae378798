"""Text becomes terms the same way everywhere, and no text is invalid."""

from concurrent.futures import ThreadPoolExecutor

from hypothesis import given
from hypothesis import strategies as st

from langchain_agentmem.messages.message import Message, ToolCallMsg, body_text, encode_body, searchable_text
from langchain_agentmem.search.analysis import (
    MAX_TERM_CHARS,
    MAX_TEXT_CHARS,
    analyze_query,
    analyze_text,
    extract_terms,
)


class TestTerms:
    def test_a_text_has_these_terms(self):
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
    def test_every_text_is_valid_and_terms_hold_nothing_an_index_could_misread(self, text):
        for term in extract_terms(text):
            assert term
            assert len(term) <= MAX_TERM_CHARS
            assert not set(term) & set(" \"'*\\()\0")
        assert extract_terms(text) == extract_terms(text)

    @given(st.text(max_size=200))
    def test_case_and_form_do_not_matter(self, text):
        assert set(extract_terms(text.upper().lower())) == set(extract_terms(text.upper()))

    def test_a_very_long_text_is_cut(self):
        assert len(extract_terms("ab " * MAX_TEXT_CHARS)) <= MAX_TEXT_CHARS
        assert extract_terms("x" * 1000) == ["x" * MAX_TERM_CHARS]

    def test_forms_of_a_word_are_one_term(self):
        for one, other in (("walking", "walked"), ("went", "going"), ("children", "child")):
            assert extract_terms(one) == extract_terms(other)

    def test_threads_that_stem_at_once_do_not_mix_words_up(self):
        words = [f"{chr(97 + n % 26)}{chr(97 + n // 26 % 26)}xyzings" for n in range(600)]
        with ThreadPoolExecutor(8) as threads:
            together = list(threads.map(lambda word: extract_terms(word + "zqed"), words))
        assert together == [extract_terms(word + "zqed") for word in words]
        assert len({str(each) for each in together}) == len(words)


class TestAnalysed:
    def test_its_length_counts_words_and_its_features_are_bits(self):
        plain, told = analyze_text("Blue paper"), analyze_text("Did I see Ana in 2021?")
        assert (plain.length, plain.features) == (2, 0)
        assert (told.length, told.features) == (6, 0b11111)

    def test_what_people_say_of_themselves_is_looked_for_in_what_the_user_said(self):
        text = "I prefer tea, and always answer in French."
        assert analyze_text(text, "user").features - analyze_text(text, "assistant").features == 0b11100000
        assert analyze_text(text).features == analyze_text(text, "assistant").features

    @given(st.text(max_size=300))
    def test_it_has_the_terms_of_the_text(self, text):
        assert analyze_text(text).terms == extract_terms(text)


class TestQuestion:
    def test_each_counts_once_without_the_words_every_question_has(self):
        assert analyze_query("Where is the cat? The CAT!").terms == ("cat",)

    def test_a_query_of_nothing_but_stop_words_is_kept(self):
        assert analyze_query("To be or not to be").terms == ("to", "be", "or", "not")

    def test_words_are_told_with_the_terms_they_became(self):
        assert analyze_query("Walking dogs").words == {"walking": "walk", "dogs": "dog"}

    def test_one_word_is_looked_up_and_more_is_a_question_without_spaces_too(self):
        for text in ("cat", "the cat?", "猫", "东京大学", "แมว"):
            assert analyze_query(text).is_lookup, text
        for text in ("my cat sleeps", "书房有多大?", "豆包有多重?", "猫はどこですか", "猫 2", "我的 猫"):
            assert not analyze_query(text).is_lookup, text

    def test_phrases_stand_in_quotation_marks_of_any_kind(self):
        asked = analyze_query('say "Red Foxes" and “blue dog” or «le chat» or "" or "open')
        assert asked.phrases == (("red", "fox"), ("blue", "dog"), ("le", "chat"))

    @given(st.text())
    def test_any_text_is_a_question(self, text):
        assert set(analyze_query(text).terms) <= set(extract_terms(text))


CALLS = st.fixed_dictionaries(
    {"type": st.sampled_from(["tool_use", "function_call", "tool_call", "text"])},
    optional={
        "name": st.text() | st.lists(st.text(), max_size=1),
        "input": st.text() | st.dictionaries(st.text(), st.integers() | st.text(), max_size=2),
    },
)


class TestWhatIsIndexed:
    @given(
        st.text()
        | st.lists(st.dictionaries(st.sampled_from(["type", "text"]), st.text(), max_size=2) | CALLS, max_size=3),
        st.none() | st.text(),
        st.lists(st.builds(ToolCallMsg, id=st.just("c"), name=st.text(min_size=1), arguments=st.text()), max_size=2),
    )
    def test_a_message_and_its_stored_body_have_the_same_words(self, content, name, calls):
        """The index takes an entry out by its terms, so what went in must be what the body says."""
        message = Message(role="user", content=content, name=name, tool_calls=calls)
        assert body_text(encode_body(message)) == message.text
        assert body_text(encode_body(message), with_calls=True) == searchable_text(message)
