"""A selection template is validated when built, and filled values are never formatted."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from langchain_agentmem.errors import InvalidInput
from langchain_agentmem.experiences.model_choice import DEFAULT_TEMPLATE, SelectionTemplate

from .conftest import TEXTS


def filled(text, experiences="E", user_query="Q", context="C"):
    return SelectionTemplate(text).fill(experiences=experiences, user_query=user_query, context=context)


class TestFilling:
    def test_fill_puts_values_in_their_places(self):
        assert filled("{context}|{experiences}|{user_query}|{experiences}") == "C|E|Q|E"

    def test_doubled_braces_become_single(self):
        for text, meant in {
            '{{"a": true}} {experiences}': '{"a": true} E', "{{{experiences}}}": "{E}",
            "{{{{}}}}{experiences}": "{{}}E",
            "{{experiences}} {experiences}": "{experiences} E", "x{experiences}": "xE",
        }.items():  # fmt: skip
            assert filled(text) == meant

    @given(st.text(), st.text(alphabet="{}user_qycontxpi.[]!:0"), st.text(alphabet="{}%$\\n"))
    def test_filled_values_are_not_formatted_again(self, experiences, query, context):
        text = filled("<{experiences}|{user_query}|{context}>", experiences, query, context)
        assert text == f"<{experiences}|{query}|{context}>"


class TestValidation:
    def test_invalid_template_is_rejected_with_advice(self):
        for text, named in TEXTS["templates_refused"]:
            with pytest.raises(InvalidInput, match=named) as raised:
                SelectionTemplate(text)
            assert "{experiences}, {user_query} and {context}" in str(raised.value)
        for text in (None, 7, b"{experiences}", ["{experiences}"]):
            with pytest.raises(InvalidInput, match="must be text, got"):
                SelectionTemplate(text)

    @given(
        st.permutations(["{experiences}", "{user_query}", "{context}"]),
        st.lists(st.sampled_from(["", "", "", "{{", "}}", "E {", "}", "!r", ":0", "[0]"]), min_size=3, max_size=3),
    )
    def test_any_text_is_accepted_or_rejected(self, places, between):
        text = "".join(map("".join, zip(places, between, strict=True)))
        try:
            template = SelectionTemplate(text)
        except InvalidInput:
            return
        assert "E" in template.fill(experiences="E", user_query="", context="")


class TestFiles:
    def test_yaml_and_text_files_are_read(self, tmp_path):
        for name in ("prompt.yaml", "prompt.YML"):
            path = tmp_path / name
            path.write_text("version: 0.1\ncontent: |-\n  Größe: {experiences}\n  {{}}\n", encoding="utf-8")
            assert SelectionTemplate.from_file(path).text == "Größe: {experiences}\n{{}}"
        for name in ("prompt.txt", "prompt.md", "prompt"):
            path = tmp_path / name
            path.write_bytes("\ufeffcontent: {experiences}\n".encode())
            assert SelectionTemplate.from_file(str(path)).text == "content: {experiences}\n"

    def test_unusable_file_is_named(self, tmp_path):
        for name, data, said in (
            ("a.yaml", b"content: {experiences", "Invalid YAML"), ("a.yaml", b"text: '{experiences}'",
            "must be text, got NoneType"),
            ("a.yaml", b"content: 7", "must be text, got int"), ("a.yaml", b"- '{experiences}'",
            "must be text, got NoneType"),
            ("a.yaml", b"", "must be text, got NoneType"), ("a.yaml", b"content: 'no place'", "needs {experiences}"),
            ("a.yaml", b"content: !!python/object/apply:os.getcwd []", "Invalid YAML"), ("a.txt", b"{experiences} {x}",
            "cannot be filled"),
            ("a.txt", b"\xff{experiences}", "cannot be used"), ("b/a.txt", None, "cannot be used"),
            ("", None, "cannot be used"), ("a\0.txt", None, "cannot be used"),
        ):  # fmt: skip
            path = tmp_path / name
            if data is not None:
                path.write_bytes(data)
            with pytest.raises(InvalidInput, match=said) as raised:
                SelectionTemplate.from_file(path)
            assert str(path) in str(raised.value)
        with pytest.raises(InvalidInput, match="cannot be used"):
            SelectionTemplate.from_file(7)


class TestDefaultTemplate:
    def test_default_template_asks_for_a_boolean_object(self):
        text = DEFAULT_TEMPLATE.fill(experiences="<<E>>", user_query="<<Q>>", context="<<C>>")
        assert all(text.count(each) == 1 for each in ("<<E>>", "<<Q>>", "<<C>>"))
        assert '{"first-id": true, "second-id": false}' in text
        assert "only the conditions" in text
