"""A summary is one message that introduces itself, is recognized, and is read back exactly."""

import json
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import HumanMessage, convert_to_openai_messages, messages_from_dict, messages_to_dict

from langchain_agentmem.messages.message_marks import Summary, SummaryImage, summary_in, summary_message
from tests.support.fences import unfenced

IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}}
OTHER = {"type": "image", "base64": "/9j/4AAQ", "mime_type": "image/jpeg"}
SUMMARY = Summary(
    user_request="Plant two quince trees.",
    summary="Maya bought two trees in Kassel.",
    salient_facts=("The trees cost 80 €.", "They stand in the north."),
    open_threads=("Water them.",),
    kept_images=(
        SummaryImage(image_id="img_00000001", context="the garden", block=IMAGE),
        SummaryImage(image_id="img_00000002", context="", block=OTHER),
    ),
    stands_for=12,
    provisional=True,
)

TEXTS = st.text()
IMAGES = st.builds(
    SummaryImage, image_id=st.from_regex(r"img_[0-9a-f]{8}", fullmatch=True), context=TEXTS, block=st.just(IMAGE)
)
SUMMARIES = st.builds(
    Summary,
    user_request=TEXTS,
    summary=TEXTS,
    salient_facts=st.lists(TEXTS, max_size=3).map(tuple),
    open_threads=st.lists(TEXTS, max_size=3).map(tuple),
    kept_images=st.lists(IMAGES, max_size=3).map(tuple),
    stands_for=st.integers(0, 10**6),
    provisional=st.booleans(),
)


class TestSummaryValue:
    @given(SUMMARIES)
    def test_summary_survives_json_and_its_message(self, summary):
        images = tuple(replace(image, block={}) for image in summary.kept_images)
        assert Summary.from_dict(json.loads(json.dumps(summary.to_dict()))) == replace(summary, kept_images=images)
        assert summary_in(summary_message(summary, id="s")) == summary

    def test_model_values_are_coerced_to_texts(self):
        facts = [{"fact": "Two trees"}, {"name": "Maya", "age": 40, "x": None}, 7, None, ["a", ["b"]], " "]
        for written, expected in (
            ({"salient_facts": "Maya is 40."}, {"salient_facts": ("Maya is 40.",)}),
            ({"open_threads": "x"}, {"open_threads": ("x",)}),
            (
                {"salient_facts": facts},
                {"salient_facts": ("fact: Two trees", "name: Maya; age: 40; x: ", "7", "a", "b")},
            ),
            ({"user_request_summary": ["Plant.", "Water."]}, {"user_request": "Plant.\nWater."}),
            ({"summary": {"done": "planted"}, "unknown": {"a": 1}}, {"summary": "done: planted"}),
        ):
            assert Summary.from_dict(written) == Summary(**expected)

    def test_image_references_are_read_in_every_form(self):
        named = {"image_id": "img_00000001", "context": "garden"}
        odd = [{"image_id": " img_00000001", "context": ["garden"]}, {"context": "no id"}, None, 3]
        for images in ([named], odd):
            assert Summary.from_dict({"keep_images": images}).kept_images == (SummaryImage(**named),), images
        assert Summary.from_dict({"keep_images": ["img_00000001"]}).kept_images[0].image_id == "img_00000001"

    @given(st.dictionaries(
        st.sampled_from(list(SUMMARY.to_dict())),
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.text(),
            lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
        ),
    ))  # fmt: skip
    def test_malformed_model_output_never_raises(self, given):
        assert isinstance(Summary.from_dict(given), Summary)

    def test_nul_and_surrogate_characters_are_sanitized(self):
        assert Summary(summary="a\x00b\ud800c").summary == "ab\ufffdc"


class TestSummaryMessage:
    def test_stored_summary_message_is_recognized(self):
        [stored] = messages_from_dict(json.loads(json.dumps(messages_to_dict([summary_message(SUMMARY, id="s")]))))
        assert summary_in(stored) == SUMMARY

    def test_message_has_an_introduction_and_fenced_content(self):
        message = summary_message(replace(SUMMARY, kept_images=()), id="s")
        sentence, _, block = message.content.partition("\n")
        assert sentence == "This is a record of 12 earlier messages of this conversation that are not shown."
        assert unfenced("record", block) == (
            "[User Requests Summary]\nPlant two quince trees.\n\n"
            "[Compacted Context Summary]\nMaya bought two trees in Kassel.\n\n"
            "[Key Facts]\n- The trees cost 80 €.\n- They stand in the north.\n\n"
            "[Open Threads]\n- Water them."
        )
        assert message.name is None
        assert message.id == "s"

    def test_images_follow_in_order_with_their_names(self):
        message = summary_message(SUMMARY, id="s")
        assert message.content[1:] == [
            {"type": "text", "text": "[Retained image img_00000001]: the garden"},
            IMAGE,
            {"type": "text", "text": "[Retained image img_00000002]: "},
            OTHER,
        ]
        assert "base64" not in json.dumps(message.additional_kwargs)
        assert [part["type"] for part in convert_to_openai_messages(message)["content"]] == [
            "text", "text", "image_url", "text", "image_url",
        ]  # fmt: skip

    def test_removed_images_are_not_restored(self):
        message = summary_message(SUMMARY, id="s")
        text_only = HumanMessage(message.text, additional_kwargs=message.additional_kwargs)
        assert summary_in(text_only) == replace(SUMMARY, kept_images=())
