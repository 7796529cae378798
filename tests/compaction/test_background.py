"""Summaries are made in the background: nobody waits for a model, nothing is done twice, and nothing is lost."""

from __future__ import annotations

import json
import re
from concurrent.futures import ThreadPoolExecutor

import pytest

from langchain_agentmem import AgentMemory, InvalidInput
from langchain_agentmem.compaction.role_compactor import CompactedMessage, CompactorConfig, ContextCompactor
from langchain_agentmem.conversations import session_memory
from langchain_agentmem.conversations.log_entries import post_entry, round_entry, temporal
from langchain_agentmem.language_models.model_calls import compaction_key
from langchain_agentmem.messages.role_rounds import Attachment, Post, Round
from langchain_agentmem.storage import background, query
from tests.support.models import LIMIT, ScriptedModel

pytestmark = pytest.mark.sqlite_suffices

SUMMARY = "The user asked about quince trees, and was told."
TEMPLATE = 'content: |\n  Answer {"ConversationSummary": {}}.\n  {PREVIOUS_SUMMARY}|{content}\n'


def new_model(*replies, free=True):
    model = ScriptedModel(*replies, usual=lambda messages: f"{SUMMARY} ({len(model.asked)})")
    if not free:
        model.free.clear()
    return model


@pytest.fixture
def session(memory):
    return memory.session("s")


@pytest.fixture
def started():
    """Starts compactors, and stops them at the end."""
    all_ = []

    def start(session, model=None, role="Planner", *, threshold=3, retain=1, **options):
        config = CompactorConfig(threshold=threshold, retain_recent=retain, **options)
        all_.append(ContextCompactor(session, role, model, config))
        all_[-1].start()
        return all_[-1]

    yield start
    for each in all_:
        each.stop()
        if isinstance(each._model, ScriptedModel):
            each._model.free.set()
        assert each.wait(LIMIT)


def converse(session, *numbers, role="Planner"):
    """Rounds with a word of their own, which are whole before anybody hears of them."""
    for n in numbers:
        question = Post.create(f"question{n:03}x of the user", "User", role)
        answer = Post.create(f"answer{n:03}x of the planner", role, "User")
        begun, now = Round.create(f"query{n:03}x", state="finished"), session._database.now()
        posts = [post_entry(each, begun.id, now) for each in (question, answer)]
        session._run(None, session._append_operation([round_entry(begun, now), *posts]), write=True)
        session._database.background.wake(compaction_key(session._key, session_memory.ROLE_LANE))


def queries(rounds_):
    return [each.user_query for each in rounds_]


def names(*numbers):
    return [f"query{n:03}x" for n in numbers]


def seen(session, role="Planner", **options):
    kept, summary = session.get_role_rounds_with_compaction(role, **options)
    return queries(kept), summary


@pytest.fixture
def asking(session, started):
    """A model that is being asked, and the compactor that asks it."""
    model = new_model(free=False)
    converse(session, *range(4))
    compactor = started(session, model)
    assert model.began.acquire(timeout=LIMIT)
    return model, compactor


def quiet(compactor):
    assert compactor.wait(LIMIT)
    return compactor


class TestConfig:
    def test_defaults_are_those_of_document_000_and_what_cannot_work_is_refused(self, memory, session):
        defaults = {"threshold": 10, "retain_recent": 3, "prompt_template_path": "", "enabled": True}
        assert CompactorConfig() == CompactorConfig(**defaults)
        keep = [{"retain_recent": 0}, {"retain_recent": -1}, {"threshold": 3, "retain_recent": 3}, {"threshold": 2}]
        kinds = [{"threshold": "10"}, {"threshold": True, "retain_recent": 1}, {"enabled": 1}]
        for wrong in (*keep, *kinds, {"prompt_template_path": None}):
            with pytest.raises(InvalidInput):
                pytest.fail(f"{CompactorConfig(**wrong)} of {wrong}")
        for arguments in ((memory, "Planner"), (session, ""), (session, "Planner", 3), (session, "Planner", None, {})):
            with pytest.raises(InvalidInput):
                ContextCompactor(*arguments)

    def test_the_summary_is_a_system_message_as_in_document_000(self):
        message = CompactedMessage(end_index=7, summary="Trees were planted.")
        assert message.start_index == 1
        assert message.to_system_message() == "[Conversation History Summary (Rounds 1-7)]\nTrees were planted."
        assert CompactedMessage.from_dict(json.loads(message.to_json())) == message
        with pytest.raises(InvalidInput):
            CompactedMessage.from_dict({"summary": 3})


class TestTrigger:
    def test_at_the_threshold_all_but_the_newest_are_summarized(self, session, started):
        model = new_model()
        compactor = started(session, model)
        converse(session, 1, 2)
        quiet(compactor)
        assert (model.asked, seen(session)) == ([], (names(1, 2), None)), "below it nothing happens"
        converse(session, 3)
        quiet(compactor)
        left, summary = seen(session)
        assert left == names(3)
        assert (summary.start_index, summary.end_index, summary.summary) == (1, 2, f"{SUMMARY} (1)")
        assert queries(session.get_role_rounds("Planner")) == names(1, 2, 3), "the rounds stay as they are"

    def test_it_goes_on_from_the_summary_before(self, session, started):
        model = new_model()
        converse(session, *range(1, 6))
        compactor = quiet(started(session, model))
        assert seen(session)[1].end_index == 4
        converse(session, *range(6, 11))
        quiet(compactor)
        left, summary = seen(session)
        assert (left[-1], summary.end_index + len(left)) == ("query010x", 10)
        assert summary.summary == f"{SUMMARY} ({len(model.asked)})"
        assert f"{SUMMARY} (1)" in model.texts[1]
        assert ["question001x" in text for text in model.texts[:2]] == [True, False]
        numbers = [int(number) for asked in model.texts for number in re.findall(r"--- Round (\d+) ---", asked)]
        assert numbers == [*range(1, summary.end_index + 1)], "each by its number, once"

    def test_every_post_and_every_attachment_reaches_the_model_but_what_only_its_round_shows(self, session, started):
        model, new = new_model(), session.create_round("Plot it.")
        kinds = {"plan": "1. planword", "execution_result": "resultword", "image_url": "data:image/png;base64,AAAA"}
        attached = [Attachment.create(kind, content, extra={"key": "extraword"}) for kind, content in kinds.items()]
        text = f"{temporal('briefly')} " + "long " * 1_000 + "tailword"
        session.add_post(new.id, send_from="Planner", send_to="Worker", message=text, attachments=attached)
        converse(session, 2, 3)
        quiet(started(session, model))
        for word in ("Plot it.", "Planner -> Worker", "tailword", "planword", "resultword", "extraword", "img_"):
            assert word in model.texts[0]
        assert not any(word in model.texts[0] for word in ("AAAA", "briefly"))

    def test_each_role_has_its_own(self, session, started):
        new = session.create_round("q")
        session.add_post(new.id, send_from="Planner", send_to="Coder", message="planword of the planner")
        session.add_post(new.id, send_from="Coder", send_to="Tester", message="codeword of the coder")
        converse(session, 2, 3)
        planner, tester = new_model(), new_model()
        quiet(started(session, planner, "Planner"))
        assert seen(session, "Tester")[1] is None
        quiet(started(session, tester, "Tester"))
        said = [[word in model.texts[0] for word in ("planword", "codeword")] for model in (planner, tester)]
        assert said == [[True, False], [False, True]]

    def test_without_a_model_what_was_said_is_told_and_what_is_turned_off_does_nothing(self, session, started):
        model = new_model()
        converse(session, 1, 2, 3)
        compactor = started(session, model, enabled=False)
        compactor.notify_rounds_changed()
        quiet(compactor)
        assert (model.asked, seen(session)[1]) == ([], None)
        quiet(started(session))
        assert "query001x" in seen(session)[1].summary

    async def test_it_can_be_awaited(self, session, started):
        compactor = started(session, new_model())
        for n in range(3):
            await session.acreate_round(f"{n}")
        quiet(compactor)
        left, summary = await session.aget_role_rounds_with_compaction("Planner")
        assert (queries(left), summary.end_index) == (["2"], 2)


class TestByIds:
    @pytest.mark.parametrize("afterwards", [False, True])
    def test_failed_rounds_move_no_other_and_are_still_known(self, session, started, afterwards):
        converse(session, *range(6))
        if afterwards:
            quiet(started(session, new_model()))
        session.fail_round(session.rounds[1].id)
        quiet(started(session, new_model()))
        left, summary = seen(session)
        assert left == names(5)
        assert afterwards or summary.end_index == 4
        failed = [] if afterwards else [1]  # otherwise it was in no summary
        assert seen(session, include_failure_rounds=True)[0] == names(*failed, 5)

    def test_a_round_that_is_added_to_afterwards_comes_back(self, session, started):
        converse(session, *range(4))
        model = new_model()
        compactor = quiet(started(session, model))
        session.add_post(session.rounds[0].id, send_from="Planner", send_to="User", message="lateword")
        assert seen(session)[0] == names(0, 3)
        converse(session, 4)
        quiet(compactor)
        assert seen(session)[0] == names(4)
        assert "lateword" in model.texts[-1]

    def test_only_an_edit_of_what_was_summarized_takes_the_summary_and_so_does_a_reset(self, memory, session, started):
        converse(session, *range(4))
        quiet(started(session, new_model()))
        for number, left in ((3, names(3)), (0, names(*range(4)))):
            memory.conversation("s").update(session.rounds[number].post_list[0].id, content="something else")
            assert seen(session)[0] == left
        session.reset_memory()
        assert seen(session) == ([], None)


class TestFailing:
    def test_it_leaves_everything_as_it_was_and_is_tried_again(self, session, started, monkeypatch):
        monkeypatch.setattr(background, "backoff", lambda failures: 0.001)
        model = new_model(RuntimeError("busy"), "", "   ", "[]")
        converse(session, *range(4))
        quiet(started(session, model))
        assert len(model.asked) == 5
        assert seen(session)[1].summary == f"{SUMMARY} (5)"

    def test_a_template_that_cannot_be_used_is_passed_over(self, memory, session, started, tmp_path, raw):
        path, number = tmp_path / "template.yaml", 0
        for text in (None, "content: 3", "other: x", "content: without a place", "{", "- a"):
            if text is not None:
                path.write_text(text)
            model = new_model()
            number += 4
            converse(session, *range(number, number + 4))
            compactor = quiet(started(session, model, prompt_template_path=str(path)))
            compactor.stop()
            assert "You keep the record" in model.texts[0], text
            assert seen(session)[1].end_index == number - 1, text
        assert len(raw(memory, "select id from compaction")) == session_memory.MAX_COMPACTIONS, (
            "and few compactions are kept"
        )

    def test_braces_in_a_template_mean_themselves(self, session, started, tmp_path):
        path = tmp_path / "template.yaml"
        path.write_text(TEMPLATE)
        model = new_model(json.dumps({"ConversationSummary": "Trees were planted.", "Variables": [{"name": "df"}]}))
        converse(session, *range(4))
        quiet(started(session, model, prompt_template_path=str(path)))
        assert 'Answer {"ConversationSummary": {}}.' in model.texts[0]
        assert "question001x" in model.texts[0]
        assert all(word in seen(session)[1].summary for word in ("Trees were planted.", "df"))

    @pytest.mark.parametrize("erased", [True, False])
    def test_what_is_erased_meanwhile_is_not_kept_and_what_is_added_to_is_whole(self, session, asking, erased):
        model, compactor = asking
        if erased:
            session.reset_memory()
            converse(session, 7)
        else:
            session.add_post(session.rounds[0].id, send_from="Planner", send_to="User", message="lateword")
        model.free.set()
        quiet(compactor)
        if erased:
            assert seen(session) == (names(7), None)
        else:
            assert ["lateword" in asked for asked in model.texts] == [False, True]
            assert seen(session)[1].summary == f"{SUMMARY} (2)"


class TestLifecycle:
    def test_before_start_and_after_stop_nothing_happens(self, session):
        model = new_model()
        compactor = ContextCompactor(session, "Planner", model, CompactorConfig(threshold=3, retain_recent=1))
        converse(session, *range(4))
        compactor.notify_rounds_changed()
        compactor.stop()
        compactor.start()
        quiet(compactor)
        compactor.stop()
        compactor.stop()
        converse(session, *range(4, 10))
        compactor.notify_rounds_changed()
        quiet(compactor)
        assert len(model.asked) == 1

    def test_stop_while_the_model_is_asked_neither_waits_nor_leaves_a_second_worker(self, session, asking):
        model, compactor = asking
        converse(session, 4)  # no turn waits for the model
        compactor.start()  # starting twice is starting once
        compactor.stop()
        assert not model.free.is_set()
        compactor.start()
        compactor.notify_rounds_changed()
        model.free.set()
        quiet(compactor)
        assert len(model.asked) == 1
        assert seen(session)[1].end_index == 3

    def test_who_waits_after_stop_waits_for_the_answer_that_is_kept(self, session, asking):
        model, compactor = asking
        compactor.stop()
        assert not compactor.wait(0)
        model.free.set()
        quiet(compactor)
        assert seen(session)[1].end_index == 3

    def test_closing_the_memory_while_the_model_is_asked_breaks_nothing(self, url, started):
        model = new_model(free=False)
        with AgentMemory(url) as memory:
            converse(memory.session("s"), *range(4))
            compactor = started(memory.session("s"), model)
            assert model.began.acquire(timeout=LIMIT)
        model.free.set()
        quiet(compactor)
        with AgentMemory(url) as memory:
            assert memory.admin.verify().ok
            quiet(started(memory.session("s"), new_model()))
            assert seen(memory.session("s"))[1].end_index == 3

    def test_a_restart_goes_on(self, url, started):
        with AgentMemory(url) as memory:
            session = memory.session("s")
            converse(session, *range(4))
            quiet(started(session, new_model()))
        with AgentMemory(url) as memory:
            model, session = new_model(), memory.session("s")
            assert seen(session)[1].end_index == 3
            compactor = started(session, model)
            converse(session, 4, 5)
            quiet(compactor)
            assert len(model.asked) == 1
            assert "question001x" not in model.texts[0]
            assert seen(session)[1].end_index == 5

    def test_two_memories_on_one_database_ask_the_model_once(self, url, started):
        model = new_model(free=False)
        with AgentMemory(url) as one, AgentMemory(url) as other:
            converse(one.session("s"), *range(4))
            compactors = [started(each.session("s"), model) for each in (one, other)]
            assert model.began.acquire(timeout=LIMIT)
            model.free.set()
            for each in compactors:
                quiet(each)
            assert len(model.asked) == 1
            assert seen(other.session("s"))[1].end_index == 3

    def test_what_a_process_that_is_gone_was_asking_for_is_made_by_the_next(self, url, started):
        gone, model = new_model(free=False), new_model()
        with AgentMemory(url) as one, AgentMemory(url) as other:
            converse(one.session("s"), *range(4))
            started(one.session("s"), gone)
            assert gone.began.acquire(timeout=LIMIT)
            one.database.engine.write(lambda tx: query.erase_leases(tx, low="", high="~"))  # it has run out
            quiet(started(other.session("s"), model))
            assert (len(model.asked), seen(other.session("s"))[1].end_index) == (1, 3)
            gone.free.set()

    def test_many_who_write_at_once_lose_nothing(self, session, started):
        compactor = started(session, new_model(), threshold=5, retain=2)
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(lambda n: converse(session, n, n + 1, n + 2), range(0, 12, 3)))
        compactor.notify_rounds_changed()
        quiet(compactor)
        left, summary = session.get_role_rounds_with_compaction("Planner")
        assert queries(left) == queries(session.rounds[summary.end_index :])
        assert summary.end_index + len(left) == 12
