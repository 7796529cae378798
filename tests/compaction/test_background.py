"""Background summarization of rounds: turns do not wait for the model, and nothing is lost or done twice."""

from __future__ import annotations

import json
import re
from concurrent.futures import ThreadPoolExecutor

import pytest

from langchain_agentmem import AgentMemory, InvalidInput
from langchain_agentmem.compaction.role_compactor import CompactedMessage, CompactorConfig, ContextCompactor
from langchain_agentmem.conversations import session_memory
from langchain_agentmem.conversations.log_entries import make_post_entry, make_round_entry, temporal
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
def start_compactor():
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


def add_rounds(session, *numbers, role="Planner"):
    """Add finished rounds, each with a word of its own, in one write each."""
    for n in numbers:
        question = Post.create(f"question{n:03}x of the user", "User", role)
        answer = Post.create(f"answer{n:03}x of the planner", role, "User")
        begun, now = Round.create(f"query{n:03}x", state="finished"), session._database.now()
        posts = [make_post_entry(each, begun.id, now) for each in (question, answer)]
        session._run(None, session._append_operation([make_round_entry(begun, now), *posts]), write=True)
        session._database.background.wake(compaction_key(session._key, session_memory.ROLE_LANE))


def queries(rounds_):
    return [each.user_query for each in rounds_]


def names(*numbers):
    return [f"query{n:03}x" for n in numbers]


def seen(session, role="Planner", **options):
    kept, summary = session.get_role_rounds_with_compaction(role, **options)
    return queries(kept), summary


@pytest.fixture
def blocked_model(session, start_compactor):
    """A model that is blocked in a call, and the compactor that waits for it."""
    model = new_model(free=False)
    add_rounds(session, *range(4))
    compactor = start_compactor(session, model)
    assert model.began.acquire(timeout=LIMIT)
    return model, compactor


def wait_until_idle(compactor):
    assert compactor.wait(LIMIT)
    return compactor


class TestConfig:
    def test_defaults_hold_and_invalid_options_are_rejected(self, memory, session):
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

    def test_summary_formats_as_a_system_message(self):
        message = CompactedMessage(end_index=7, summary="Trees were planted.")
        assert message.start_index == 1
        assert message.to_system_message() == "[Conversation History Summary (Rounds 1-7)]\nTrees were planted."
        assert CompactedMessage.from_dict(json.loads(message.to_json())) == message
        with pytest.raises(InvalidInput):
            CompactedMessage.from_dict({"summary": 3})


class TestTrigger:
    def test_threshold_summarizes_all_but_the_newest_rounds(self, session, start_compactor):
        model = new_model()
        compactor = start_compactor(session, model)
        add_rounds(session, 1, 2)
        wait_until_idle(compactor)
        assert (model.asked, seen(session)) == ([], (names(1, 2), None)), "below it nothing happens"
        add_rounds(session, 3)
        wait_until_idle(compactor)
        left, summary = seen(session)
        assert left == names(3)
        assert (summary.start_index, summary.end_index, summary.summary) == (1, 2, f"{SUMMARY} (1)")
        assert queries(session.get_role_rounds("Planner")) == names(1, 2, 3), "the rounds stay as they are"

    def test_summary_continues_from_the_previous_one(self, session, start_compactor):
        model = new_model()
        add_rounds(session, *range(1, 6))
        compactor = wait_until_idle(start_compactor(session, model))
        assert seen(session)[1].end_index == 4
        add_rounds(session, *range(6, 11))
        wait_until_idle(compactor)
        left, summary = seen(session)
        assert (left[-1], summary.end_index + len(left)) == ("query010x", 10)
        assert summary.summary == f"{SUMMARY} ({len(model.asked)})"
        assert f"{SUMMARY} (1)" in model.texts[1]
        assert ["question001x" in text for text in model.texts[:2]] == [True, False]
        numbers = [int(number) for asked in model.texts for number in re.findall(r"--- Round (\d+) ---", asked)]
        assert numbers == [*range(1, summary.end_index + 1)], "each by its number, once"

    def test_posts_and_attachments_reach_the_model(self, session, start_compactor):
        model, new = new_model(), session.create_round("Plot it.")
        kinds = {"plan": "1. planword", "execution_result": "resultword", "image_url": "data:image/png;base64,AAAA"}
        attached = [Attachment.create(kind, content, extra={"key": "extraword"}) for kind, content in kinds.items()]
        text = f"{temporal('briefly')} " + "long " * 1_000 + "tailword"
        session.add_post(new.id, send_from="Planner", send_to="Worker", message=text, attachments=attached)
        add_rounds(session, 2, 3)
        wait_until_idle(start_compactor(session, model))
        for word in ("Plot it.", "Planner -> Worker", "tailword", "planword", "resultword", "extraword", "img_"):
            assert word in model.texts[0]
        assert not any(word in model.texts[0] for word in ("AAAA", "briefly"))

    def test_roles_have_separate_summaries(self, session, start_compactor):
        new = session.create_round("q")
        session.add_post(new.id, send_from="Planner", send_to="Coder", message="planword of the planner")
        session.add_post(new.id, send_from="Coder", send_to="Tester", message="codeword of the coder")
        add_rounds(session, 2, 3)
        planner, tester = new_model(), new_model()
        wait_until_idle(start_compactor(session, planner, "Planner"))
        assert seen(session, "Tester")[1] is None
        wait_until_idle(start_compactor(session, tester, "Tester"))
        said = [[word in model.texts[0] for word in ("planword", "codeword")] for model in (planner, tester)]
        assert said == [[True, False], [False, True]]

    def test_no_model_extracts_and_disabled_does_nothing(self, session, start_compactor):
        model = new_model()
        add_rounds(session, 1, 2, 3)
        compactor = start_compactor(session, model, enabled=False)
        compactor.notify_rounds_changed()
        wait_until_idle(compactor)
        assert (model.asked, seen(session)[1]) == ([], None)
        wait_until_idle(start_compactor(session))
        assert "query001x" in seen(session)[1].summary

    async def test_async_rounds_are_compacted(self, session, start_compactor):
        compactor = start_compactor(session, new_model())
        for n in range(3):
            await session.acreate_round(f"{n}")
        wait_until_idle(compactor)
        left, summary = await session.aget_role_rounds_with_compaction("Planner")
        assert (queries(left), summary.end_index) == (["2"], 2)


class TestChangedRounds:
    @pytest.mark.parametrize("afterwards", [False, True])
    def test_failed_rounds_do_not_shift_the_summary(self, session, start_compactor, afterwards):
        add_rounds(session, *range(6))
        if afterwards:
            wait_until_idle(start_compactor(session, new_model()))
        session.fail_round(session.rounds[1].id)
        wait_until_idle(start_compactor(session, new_model()))
        left, summary = seen(session)
        assert left == names(5)
        assert afterwards or summary.end_index == 4
        failed = [] if afterwards else [1]  # otherwise it was in no summary
        assert seen(session, include_failure_rounds=True)[0] == names(*failed, 5)

    def test_extended_round_is_summarized_again(self, session, start_compactor):
        add_rounds(session, *range(4))
        model = new_model()
        compactor = wait_until_idle(start_compactor(session, model))
        session.add_post(session.rounds[0].id, send_from="Planner", send_to="User", message="lateword")
        assert seen(session)[0] == names(0, 3)
        add_rounds(session, 4)
        wait_until_idle(compactor)
        assert seen(session)[0] == names(4)
        assert "lateword" in model.texts[-1]

    def test_edits_and_resets_invalidate_the_summary(self, memory, session, start_compactor):
        add_rounds(session, *range(4))
        wait_until_idle(start_compactor(session, new_model()))
        for number, left in ((3, names(3)), (0, names(*range(4)))):
            memory.conversation("s").update(session.rounds[number].post_list[0].id, content="something else")
            assert seen(session)[0] == left
        session.reset_memory()
        assert seen(session) == ([], None)


class TestFailures:
    def test_failed_summary_is_retried(self, session, start_compactor, monkeypatch):
        monkeypatch.setattr(background, "backoff", lambda failures: 0.001)
        model = new_model(RuntimeError("busy"), "", "   ", "[]")
        add_rounds(session, *range(4))
        wait_until_idle(start_compactor(session, model))
        assert len(model.asked) == 5
        assert seen(session)[1].summary == f"{SUMMARY} (5)"

    def test_unusable_template_falls_back_to_the_default(self, memory, session, start_compactor, tmp_path, raw):
        path, number = tmp_path / "template.yaml", 0
        for text in (None, "content: 3", "other: x", "content: without a place", "{", "- a"):
            if text is not None:
                path.write_text(text)
            model = new_model()
            number += 4
            add_rounds(session, *range(number, number + 4))
            compactor = wait_until_idle(start_compactor(session, model, prompt_template_path=str(path)))
            compactor.stop()
            assert "You keep the record" in model.texts[0], text
            assert seen(session)[1].end_index == number - 1, text
        assert len(raw(memory, "select id from compaction")) == session_memory.MAX_COMPACTIONS, (
            "and few compactions are kept"
        )

    def test_braces_in_a_template_are_literal(self, session, start_compactor, tmp_path):
        path = tmp_path / "template.yaml"
        path.write_text(TEMPLATE)
        model = new_model(json.dumps({"ConversationSummary": "Trees were planted.", "Variables": [{"name": "df"}]}))
        add_rounds(session, *range(4))
        wait_until_idle(start_compactor(session, model, prompt_template_path=str(path)))
        assert 'Answer {"ConversationSummary": {}}.' in model.texts[0]
        assert "question001x" in model.texts[0]
        assert all(word in seen(session)[1].summary for word in ("Trees were planted.", "df"))

    @pytest.mark.parametrize("erased", [True, False])
    def test_changes_during_summarization_are_respected(self, session, blocked_model, erased):
        model, compactor = blocked_model
        if erased:
            session.reset_memory()
            add_rounds(session, 7)
        else:
            session.add_post(session.rounds[0].id, send_from="Planner", send_to="User", message="lateword")
        model.free.set()
        wait_until_idle(compactor)
        if erased:
            assert seen(session) == (names(7), None)
        else:
            assert ["lateword" in asked for asked in model.texts] == [False, True]
            assert seen(session)[1].summary == f"{SUMMARY} (2)"


class TestLifecycle:
    def test_compactor_runs_only_between_start_and_stop(self, session):
        model = new_model()
        compactor = ContextCompactor(session, "Planner", model, CompactorConfig(threshold=3, retain_recent=1))
        add_rounds(session, *range(4))
        compactor.notify_rounds_changed()
        compactor.stop()
        compactor.start()
        wait_until_idle(compactor)
        compactor.stop()
        compactor.stop()
        add_rounds(session, *range(4, 10))
        compactor.notify_rounds_changed()
        wait_until_idle(compactor)
        assert len(model.asked) == 1

    def test_stop_neither_blocks_nor_duplicates_the_worker(self, session, blocked_model):
        model, compactor = blocked_model
        add_rounds(session, 4)  # no turn waits for the model
        compactor.start()  # starting twice is starting once
        compactor.stop()
        assert not model.free.is_set()
        compactor.start()
        compactor.notify_rounds_changed()
        model.free.set()
        wait_until_idle(compactor)
        assert len(model.asked) == 1
        assert seen(session)[1].end_index == 3

    def test_wait_after_stop_keeps_the_pending_answer(self, session, blocked_model):
        model, compactor = blocked_model
        compactor.stop()
        assert not compactor.wait(0)
        model.free.set()
        wait_until_idle(compactor)
        assert seen(session)[1].end_index == 3

    def test_memory_can_close_during_a_model_call(self, url, start_compactor):
        model = new_model(free=False)
        with AgentMemory(url) as memory:
            add_rounds(memory.session("s"), *range(4))
            compactor = start_compactor(memory.session("s"), model)
            assert model.began.acquire(timeout=LIMIT)
        model.free.set()
        wait_until_idle(compactor)
        with AgentMemory(url) as memory:
            assert memory.admin.verify().ok
            wait_until_idle(start_compactor(memory.session("s"), new_model()))
            assert seen(memory.session("s"))[1].end_index == 3

    def test_restart_continues_from_the_stored_summary(self, url, start_compactor):
        with AgentMemory(url) as memory:
            session = memory.session("s")
            add_rounds(session, *range(4))
            wait_until_idle(start_compactor(session, new_model()))
        with AgentMemory(url) as memory:
            model, session = new_model(), memory.session("s")
            assert seen(session)[1].end_index == 3
            compactor = start_compactor(session, model)
            add_rounds(session, 4, 5)
            wait_until_idle(compactor)
            assert len(model.asked) == 1
            assert "question001x" not in model.texts[0]
            assert seen(session)[1].end_index == 5

    def test_two_memories_ask_the_model_once(self, url, start_compactor):
        model = new_model(free=False)
        with AgentMemory(url) as one, AgentMemory(url) as other:
            add_rounds(one.session("s"), *range(4))
            compactors = [start_compactor(each.session("s"), model) for each in (one, other)]
            assert model.began.acquire(timeout=LIMIT)
            model.free.set()
            for each in compactors:
                wait_until_idle(each)
            assert len(model.asked) == 1
            assert seen(other.session("s"))[1].end_index == 3

    def test_expired_lease_lets_another_process_summarize(self, url, start_compactor):
        gone, model = new_model(free=False), new_model()
        with AgentMemory(url) as one, AgentMemory(url) as other:
            add_rounds(one.session("s"), *range(4))
            start_compactor(one.session("s"), gone)
            assert gone.began.acquire(timeout=LIMIT)
            one.database.engine.write(lambda tx: query.erase_leases(tx, low="", high="~"))  # it has run out
            wait_until_idle(start_compactor(other.session("s"), model))
            assert (len(model.asked), seen(other.session("s"))[1].end_index) == (1, 3)
            gone.free.set()

    def test_concurrent_writers_lose_no_rounds(self, session, start_compactor):
        compactor = start_compactor(session, new_model(), threshold=5, retain=2)
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(lambda n: add_rounds(session, n, n + 1, n + 2), range(0, 12, 3)))
        compactor.notify_rounds_changed()
        wait_until_idle(compactor)
        left, summary = session.get_role_rounds_with_compaction("Planner")
        assert queries(left) == queries(session.rounds[summary.end_index :])
        assert summary.end_index + len(left) == 12
