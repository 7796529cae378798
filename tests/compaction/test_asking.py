"""What a model is asked: images by their names, and a user's own instructions as they stand."""

from __future__ import annotations

import json

import pytest
from langchain_core.messages import HumanMessage

from langchain_agentmem.language_models.summarization import image_id
from langchain_agentmem.messages.message_marks import KeptImage, Summary

from .asked import REPLY, Counting, image, summarized, tool_rounds, with_image

IDS = [image_id(image(n)) for n in range(4)]


class TestImages:
    def reply(self, named):
        return json.dumps({**json.loads(REPLY), "keep_images": named})

    def history(self):
        return [*(with_image(n) for n in range(4)), *tool_rounds(10)]

    def kept(self, named, **how):
        return summarized(self.history(), Counting(self.reply(named)), room=100_000, **how).summary.kept_images

    def test_those_that_are_named_are_kept_oldest_first(self):
        named = [{"image_id": IDS[2], "context": "the map"}, f"Image {IDS[0]}", "img_ffffffff"]
        assert self.kept(named) == (
            KeptImage(image_id=IDS[0], context="Look at picture 0.", block=image(0)),
            KeptImage(image_id=IDS[2], context="the map", block=image(2)),
        )

    @pytest.mark.parametrize(("most", "left"), [(0, []), (1, [3]), (2, [1, 3]), (9, [0, 1, 3]), (None, [0, 1, 3])])
    def test_of_too_many_the_newest_stay(self, most, left):
        kept = self.kept([IDS[n] for n in (3, 1, 0)], max_retained_images=most)
        assert [each.image_id for each in kept] == [IDS[n] for n in left]

    def test_an_earlier_one_stays_until_the_model_leaves_it_out(self):
        old = KeptImage(image_id=image_id(image(9)), context="old", block=image(9))
        earlier = Summary(summary="before", kept_images=(old,))
        silent = json.dumps({key: value for key, value in json.loads(REPLY).items() if key != "keep_images"})
        for reply, left in ((self.reply([old.image_id]), (old,)), (silent, (old,)), (self.reply([]), ()), ("", (old,))):
            model = Counting(reply)
            result = summarized(self.history(), model, earlier=earlier, room=100_000)
            assert result.summary.kept_images == left
            assert f"[Image ID: {old.image_id}] old" in model.text

    def test_the_model_sees_names_and_the_words_beside_them_but_no_data(self):
        model = Counting()
        summarized(self.history(), model, room=100_000)
        assert f"Look at picture 1.\n[Image ID: {IDS[1]}]" in model.text
        assert "base64" not in str(model.seen)

    def test_or_the_images_themselves(self):
        model = Counting()
        summarized(self.history(), model, room=100_000, include_image_payload_bytes=True)
        content = model.seen[0][-1].content
        assert [block for block in content if block["type"] == "image_url"] == [image(n) for n in range(4)]
        assert content[1] == {"type": "text", "text": f"[Image ID: {IDS[0]}]"}

    def test_more_than_fit_are_shown_in_several_calls(self):
        model = Counting()
        many = HumanMessage([{"type": "text", "text": "See."}, *map(image, range(8))])
        summarized([many, *tool_rounds(3)], model, room=3_000, include_image_payload_bytes=True)
        shown = [block for messages in model.seen for block in messages[-1].content if isinstance(block, dict)]
        assert [block for block in shown if block["type"] == "image_url"] == [image(n) for n in range(8)]
        assert len(model.seen) > 2


class TestPrompt:
    EARLIER = Summary(summary="Old deeds.", stands_for=1)

    def test_of_the_users_own_is_filled_by_plain_replacement(self):
        prompt = 'Sum {up} "{{x}}" {0}: {content} after {PREVIOUS_SUMMARY}. Give {"summary": "..."}.'
        model = Counting()
        messages = [HumanMessage("I say {PREVIOUS_SUMMARY} and {content} {braces}."), *tool_rounds(5)]
        summarized(messages, model, earlier=self.EARLIER, prompt=prompt)
        [[message]] = model.seen
        assert message.text.startswith('Sum {up} "{{x}}" {0}: <conversation>')
        assert message.text.endswith('. Give {"summary": "..."}.')
        assert "I say {PREVIOUS_SUMMARY} and {content} {braces}." in message.text
        assert message.text.count("Old deeds.") == 1

    def test_that_has_no_place_for_the_earlier_summary_loses_nothing(self):
        model = Counting()
        summarized(tool_rounds(5), model, earlier=self.EARLIER, prompt="Sum up: {content}")
        assert "Old deeds." in model.text

    def test_of_ours_says_how_long_the_answer_may_be(self):
        model = Counting()
        summarized(tool_rounds(5), model, output=1_000, room=100_000)
        assert f"at most {int(1_000 * 0.75 * 0.9)} words" in model.seen[0][0].text
