"""Classification of provider errors: context overflows, payload limits, and other errors."""

from pathlib import Path

import yaml
from langchain_core.exceptions import ContextOverflowError

from langchain_agentmem.base.data_tables import load_data_table
from langchain_agentmem.language_models.model_calls import is_too_large, refusal_kind

RECORDED_ERRORS = yaml.safe_load((Path(__file__).parent / "overflow_seen.yaml").read_text(encoding="utf-8"))


class Refused(Exception):
    """An error of a provider's client."""

    def __init__(self, text, **told):
        super().__init__(text)
        self.__dict__.update(told)


class TestRefusalKind:
    def test_recorded_errors_are_classified(self):
        for seen in RECORDED_ERRORS:
            status, code, said = seen["status"], seen["code"], seen["said"]
            told = {"status_code": status, "code": code, "body": {"message": said, "code": code}}
            assert refusal_kind(Refused(f"Error code: {status} - {told['body']}", **told)) == seen["kind"], said
            kind = seen.get("alone", seen["kind"])
            error = RuntimeError(said)
            assert refusal_kind(error) == ("other" if kind == "unclear" else kind), said
            wrapped = ValueError("wrapped")
            wrapped.__cause__ = error
            assert refusal_kind(wrapped) == refusal_kind(error), said

    def test_every_error_attribute_is_read(self):
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

    def test_exception_classes_are_classified(self):
        assert refusal_kind(ContextOverflowError("x")) == "tokens"
        assert refusal_kind(type("RequestTooLargeError", (Exception,), {})()) == "bytes"

    def test_chained_errors_use_the_latest_refusal(self):
        asked_next = (400, 401, "other"), (400, 503, "other"), (400, 422, "unclear"), (429, 400, "other")
        for context, status, kind in asked_next:
            error = Refused("no", status_code=status)
            error.__context__ = Refused("no", status_code=context)
            assert refusal_kind(error) == kind, (context, status)

    def test_suppressed_context_is_ignored(self):
        error = Refused("no", status_code=500)
        error.__context__ = ContextOverflowError("x")
        assert refusal_kind(error) == "tokens"
        error.__suppress_context__ = True  # as `from None` does
        assert refusal_kind(error) == "other"

    def test_unrelated_errors_are_not_too_large(self):
        assert not any(map(is_too_large, (TimeoutError("too late"), RuntimeError("rate limit"), ValueError("413"))))


def test_overflow_table_covers_thirty_providers_with_sources():
    rows = load_data_table("language_models/overflow.yaml")
    for row in rows:
        assert row["source"].startswith("https://")
        assert row["kind"] in {"tokens", "bytes", "rate", "other"}
    assert len({name for row in rows for name in row["provider"].split(", ")}) >= 30
