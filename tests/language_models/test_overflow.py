"""What providers say when a prompt does not fit is known for that, and what sounds like it is not taken for it."""

from pathlib import Path

import yaml
from langchain_core.exceptions import ContextOverflowError

from langchain_agentmem.base.data_tables import load_data_table
from langchain_agentmem.language_models.model_calls import is_too_large, refusal_kind

SEEN = yaml.safe_load((Path(__file__).parent / "overflow_seen.yaml").read_text(encoding="utf-8"))


class Refused(Exception):
    """What a provider's client raises."""

    def __init__(self, text, **told):
        super().__init__(text)
        self.__dict__.update(told)


class TestARefusal:
    def test_is_known_as_its_client_raises_it_and_by_its_words_alone(self):
        for seen in SEEN:
            status, code, said = seen["status"], seen["code"], seen["said"]
            told = {"status_code": status, "code": code, "body": {"message": said, "code": code}}
            assert refusal_kind(Refused(f"Error code: {status} - {told['body']}", **told)) == seen["kind"], said
            kind = seen.get("alone", seen["kind"])
            error = RuntimeError(said)
            assert refusal_kind(error) == ("other" if kind == "unclear" else kind), said
            wrapped = ValueError("wrapped")
            wrapped.__cause__ = error
            assert refusal_kind(wrapped) == refusal_kind(error), said

    def test_is_known_wherever_a_client_keeps_it(self):
        for told, kind in (
            ({"status_code": 413}, "bytes"),
            ({"code": "context_length_exceeded"}, "tokens"),
            ({"body": {"error": {"type": "request_too_large"}}}, "bytes"),
            ({"response": {"Error": {"Code": "ThrottlingException"}}}, "other"),
            ({"response": {"Error": {"Code": "E"}, "ResponseMetadata": {"HTTPStatusCode": 400}}}, "unclear"),
            ({"code": 400, "status": "INVALID_ARGUMENT"}, "unclear"),
            ({"code": True}, "other"),
            ({"body": [], "response": None, "status": object()}, "other"),
        ):
            assert refusal_kind(Refused("no", **told)) == kind, told

    def test_is_known_by_its_class(self):
        assert refusal_kind(ContextOverflowError("x")) == "tokens"
        assert refusal_kind(type("RequestTooLargeError", (Exception,), {})()) == "bytes"

    def test_of_another_model_that_was_asked_next_is_what_that_says(self):
        asked_next = (400, 401, "other"), (400, 503, "other"), (400, 422, "unclear"), (429, 400, "other")
        for context, status, kind in asked_next:
            error = Refused("no", status_code=status)
            error.__context__ = Refused("no", status_code=context)
            assert refusal_kind(error) == kind, (context, status)

    def test_that_is_not_to_be_told_is_not_looked_at(self):
        error = Refused("no", status_code=500)
        error.__context__ = ContextOverflowError("x")
        assert refusal_kind(error) == "tokens"
        error.__suppress_context__ = True  # as `from None` does
        assert refusal_kind(error) == "other"

    def test_is_nothing_else(self):
        assert not any(map(is_too_large, (TimeoutError("too late"), RuntimeError("rate limit"), ValueError("413"))))


def test_the_table_has_some_thirty_providers_and_says_where_each_row_was_seen():
    rows = load_data_table("language_models/overflow.yaml")
    for row in rows:
        assert row["source"].startswith("https://")
        assert row["kind"] in {"tokens", "bytes", "rate", "other"}
    assert len({name for row in rows for name in row["provider"].split(", ")}) >= 30
