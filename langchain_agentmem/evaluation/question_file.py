"""A file of questions for a database, one JSON object a line."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from langchain_agentmem.base.files import path_of_file
from langchain_agentmem.base.namespaces import namespace_named, namespace_of, path_of
from langchain_agentmem.base.safe_repr import safe_repr
from langchain_agentmem.errors import InvalidInput
from langchain_agentmem.evaluation.recall_report import EvaluationQuestion


def read_questions(path: str | os.PathLike[str]) -> list[EvaluationQuestion]:
    """Read a file of questions; empty lines are left out.

        {"question": "Where does Ana live?", "evidence": ["m17"]}
        {"question": "And last week?", "evidence": ["m12"], "namespace": ["users", "ana"], "category": "time",
         "at": "2026-03-02T18:30+01:00"}

    (each on one line). "evidence" has the ids of messages, facts, records, events or items, or "conversation:ID", of
    which any message counts; a namespace may be written as "users/ana", too; a time without a zone is in UTC. Other
    keys are not looked at. `EvaluationQuestion` says what each means.

    Args:
        path: The file, in UTF-8.

    Raises:
        InvalidInput: It cannot be read, or a line is no such object; the line is told.
    """
    questions = []
    try:
        with path_of_file(path).open(encoding="utf-8-sig") as file:
            for number, line in enumerate(file, 1):
                if line.strip():
                    questions.append(_question(line, f"Line {number} of {safe_repr(os.fspath(path))}"))
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput(f"{safe_repr(os.fspath(path))} cannot be read: {error}.") from error
    if not questions:
        raise InvalidInput(f"{safe_repr(os.fspath(path))} holds no questions: write a JSON object on each line.")
    return questions


def _question(line: str, where: str) -> EvaluationQuestion:
    try:
        given = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise InvalidInput(f"{where} is not JSON: {error}.") from error
    if not isinstance(given, Mapping):
        raise InvalidInput(f'{where} is no object: write {{"question": "…", "evidence": ["…"]}}.')
    text, evidence = given.get("question"), given.get("evidence")
    if not isinstance(text, str) or not text.strip():
        raise InvalidInput(f'{where} has no "question", which is a text.')
    if not isinstance(evidence, list) or not all(isinstance(each, str | int) for each in evidence):
        raise InvalidInput(f'{where} has no "evidence", which is a list of ids; [] where nothing answers the question.')
    category = given.get("category")
    try:
        return EvaluationQuestion(
            text=text,
            evidence=frozenset(map(str, evidence)),
            namespace=_namespace(given.get("namespace")),
            category=None if category is None else str(category),
            at=_time(given.get("at")),
            answer=None if given.get("answer") is None else str(given["answer"]),
        )
    except InvalidInput as error:
        raise InvalidInput(f"{where}: {error}") from error


def _namespace(given: Any) -> tuple[str, ...] | None:
    if given is None or given == "/":
        return None
    return namespace_of(path_of(namespace_named(given) if isinstance(given, str) else given))


def _time(given: Any) -> datetime | None:
    if given is None:
        return None
    try:
        time = datetime.fromisoformat(given)
    except (TypeError, ValueError) as error:
        raise InvalidInput(f'"at" is a time as in 2026-03-02T18:30+01:00, not {safe_repr(given)}.') from error
    return time.replace(tzinfo=UTC) if time.tzinfo is None else time
