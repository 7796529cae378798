"""`FactReader`: the queries for facts, by time, text, source, contradiction and connected entities.

`KGMemory` is a `FactReader` that also writes and extracts facts. In parameters, `valid` is the time at which a fact
held, and `recorded` the time up to which recorded statements and corrections are used.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from datetime import datetime
from functools import partial
from typing import Any

from langchain_agentmem.base.argument_checks import MATCH_ALL, check_integer, check_text, parse_limit, parse_texts
from langchain_agentmem.base.clock import check_time, from_micros
from langchain_agentmem.base.concurrency import awaited
from langchain_agentmem.base.fencing import fence_text, sanitize_line, sanitize_text
from langchain_agentmem.base.namespaces import ThreadKey
from langchain_agentmem.conversations import message_log
from langchain_agentmem.errors import InvalidInput, MissingExtra, safe_repr
from langchain_agentmem.facts import fact as fact_values
from langchain_agentmem.facts import fact_store
from langchain_agentmem.facts.fact import Contradiction, Entity, Evidence, Fact, Neighbour, entity_key, predicate_key
from langchain_agentmem.facts.fact_store import FactsContext, FactView
from langchain_agentmem.language_models.tokens import Budget, BudgetLike, Measure
from langchain_agentmem.messages.message import body_text
from langchain_agentmem.rewinding import search_view
from langchain_agentmem.rewinding.branches import BranchMemory
from langchain_agentmem.rewinding.memory_rows import FACT, FACT_TEXT
from langchain_agentmem.storage import query
from langchain_agentmem.tracing import document_outputs, format_result

DEFAULT_LIMIT = 10
"""The default `limit` of `search` and `latest`."""
MAX_DEPTH = 1_000
"""The maximum depth of `neighbours` and `to_networkx`. A greater depth is reduced to this number."""


class FactReader(BranchMemory):
    """A reader of the facts on a branch, or of a thread.

    Each query has an async twin, prefixed with `a`. Times without a time zone are read as UTC.
    """

    _context: FactsContext

    @property
    def now(self) -> datetime:
        """The current time of this memory, in UTC."""
        return from_micros(self._context.now())

    def get(self, fact_id: str) -> Fact | None:
        """Return a fact or a message by its id; None if it does not exist or was undone."""
        id_ = check_text(fact_id, "An id")
        return self._context.read_facts("facts.get", lambda facts: facts.fact(id_), fact_id=id_)

    aget = awaited(get)

    def as_of(
        self,
        valid: datetime | None = None,
        recorded: datetime | None = None,
        *,
        subject: str | None = None,
        predicate: str | None = None,
        obj: str | None = None,
        limit: int | None = None,
    ) -> list[Fact]:
        """Return the facts that held at a time, as they were known at another time.

        Args:
            valid: The time at which the facts held. Default: now.
            recorded: The time at which the facts were known. Default: now. A fact that was removed or erased is not
                returned for any time.
            subject: Only facts with this subject. Default: any.
            predicate: Only facts with this predicate. Default: any.
            obj: Only facts with this object. Default: any.
            limit: The maximum number of facts. Default: no limit. All matching facts are read in any case, to sort
                them. To read only a page, use `latest(valid=…)`.

        Returns:
            The facts, sorted by their start, the earliest first.

        Raises:
            InvalidInput: An argument is wrong.
        """
        recorded_at = fact_values.parse_optional_time(recorded, "recorded")
        at = self._context.now() if valid is None else check_time(valid, "valid")
        names = _check_names(subject=subject, predicate=predicate, obj=obj)
        find = partial(match_facts, **names, recorded=recorded_at, at=at, limit=parse_limit(limit))
        return self._context.read_facts("facts.as_of", find, **names, valid=valid, recorded=recorded)

    aas_of = awaited(as_of)

    def latest(
        self,
        limit: int | None = None,
        *,
        before: str | None = None,
        entity: str | None = None,
        predicate: str | None = None,
        valid: datetime | None = None,
        recorded: datetime | None = None,
    ) -> list[Fact]:
        """Return a page of the facts that were recorded last.

        Args:
            limit: The maximum number of facts. Default: 10.
            before: The id of the last fact of the previous page. Default: the first page is returned.
            entity: Only facts with this subject or object. Default: any.
            predicate: Only facts with this predicate. Default: any.
            valid: Only facts that held at this time. Default: all, including ended ones.
            recorded: The time at which the facts were known. Default: now.

        Returns:
            The facts, sorted from the newest to the oldest.

        Raises:
            InvalidInput: An argument is wrong, or the fact `before` does not exist.
        """
        max_facts = DEFAULT_LIMIT if limit is None else parse_limit(limit)
        recorded_at = fact_values.parse_optional_time(recorded, "recorded")
        at = fact_values.parse_optional_time(valid, "valid")
        inputs = _check_names(before=before, entity=entity, predicate=predicate)

        def find(facts: FactView) -> list[Fact]:
            page_start = fact_store.PAGE_START if recorded_at is None else (recorded_at + 1, 0)
            if before is not None:
                row = facts.rows_by_key(FACT, [before]).get(before)
                if row is None:
                    raise InvalidInput(f"There is no fact {safe_repr(before)} here. Begin with the first page again.")
                page_start = min(page_start, (row.created_at, row.number))
            names = None if entity is None else facts.rules.expand_entities([facts.rules.resolve(entity)])
            predicates = None if predicate is None else [predicate_key(predicate)]
            page: list[Fact] = []
            for rows in facts.pages(FACT, max_facts, page_start, names=names, predicates=predicates):
                page += facts.resolve_facts(rows, recorded_at, at=at)  # may return fewer facts than rows
                if len(page) >= max_facts:
                    break
            return page[:max_facts]

        return self._context.read_facts("facts.latest", find, limit=max_facts, **inputs, valid=valid, recorded=recorded)

    alatest = awaited(latest)

    def history(self, subject: str, predicate: str | None = None, *, recorded: datetime | None = None) -> list[Fact]:
        """Return all facts about a subject, including ended ones.

        Args:
            subject: The subject.
            predicate: Only facts with this predicate. Default: any.
            recorded: The time at which the facts were known. Default: now.

        Returns:
            The facts, sorted by their start, the earliest first.

        Raises:
            InvalidInput: An argument is wrong.
        """
        names = _check_names(subject=check_text(subject, "The subject"), predicate=predicate)
        find = partial(match_facts, **names, recorded=fact_values.parse_optional_time(recorded, "recorded"))
        return self._context.read_facts("facts.history", find, **names, recorded=recorded)

    ahistory = awaited(history)

    def contradictions(
        self, subject: str | Sequence[str] | None = None, predicate: str | None = None
    ) -> list[Contradiction]:
        """Find facts with different values of a single-valued predicate at the same time.

        Args:
            subject: Only facts about this subject, or about one of these. Default: any.
            predicate: Only facts with this predicate. Default: any.

        Raises:
            InvalidInput: An argument is wrong.
        """
        subjects = None if subject is None else parse_texts(subject, "Subjects")
        _check_names(predicate=predicate)

        def find(facts: FactView) -> list[Contradiction]:
            rules = facts.rules
            keys = None if subjects is None else rules.expand_entities(map(rules.resolve, subjects))
            predicates = rules.single if predicate is None else rules.single & {predicate_key(predicate)}
            candidates = facts.resolve_facts(facts.rows_about(subjects=keys, predicates=predicates), is_complete=True)
            contradictions: list[Contradiction] = []
            open_facts: dict[tuple[str, str], list[Fact]] = defaultdict(list)  # by subject and predicate
            for fact in sorted(candidates, key=lambda fact: (fact.valid_from, fact.recorded_at)):
                topic, start = (rules.resolve(fact.subject), predicate_key(fact.predicate)), fact.valid_from
                open_facts[topic] = [other for other in open_facts[topic] if other.holds_at(start)]
                for other in open_facts[topic]:
                    # A fact that ended when it began never held, so it contradicts nothing.
                    if fact.holds_at(start) and rules.resolve(fact.object) != rules.resolve(other.object):
                        end = min((each for each in (fact.valid_to, other.valid_to) if each is not None), default=None)
                        contradictions.append(Contradiction(facts=(other, fact), valid_from=start, valid_to=end))
                open_facts[topic].append(fact)
            return contradictions

        return self._context.read_facts("facts.contradictions", find, subject=subject, predicate=predicate)

    acontradictions = awaited(contradictions)

    def evidence(self, fact_id: str) -> list[Evidence]:
        """Return the sources of a fact, with the texts of the messages that are stored.

        Args:
            fact_id: The id of the fact.

        Returns:
            The sources, in the order in which they were added; empty if the fact does not exist.

        Raises:
            InvalidInput: The id is not text.
        """
        check_text(fact_id, "An id")

        def find(facts: FactView) -> list[Evidence]:
            fact = facts.fact(fact_id)
            mentions = () if fact is None else fact.mentions
            sources = [(each.message_id, each.conversation_id) for each in mentions if each.message_id is not None]
            messages = facts.message_rows(sources)
            evidence: list[Evidence] = []
            for mention in mentions:
                id_, conversation, text = mention.message_id, mention.conversation_id, None
                if id_ is not None and (version := messages.get((id_, conversation))) is not None:
                    text = fact_store.decode_message(version).text
                elif id_ is not None and conversation is not None:  # the message is stored only in its conversation
                    entry = message_log.get(facts.tx, ThreadKey(self._context.point.path, conversation), id_)
                    text = None if entry is None else body_text(entry.body)
                evidence.append(Evidence(**asdict(mention), text=text))
            return evidence

        return self._context.read_facts("facts.evidence", find, fact_id=fact_id)

    aevidence = awaited(evidence)

    def from_message(self, message_id: str) -> list[Fact]:
        """Return the facts that a message states.

        Args:
            message_id: The id of the message.
        """
        id_, path = check_text(message_id, "An id"), self._context.point.path
        find = partial(FactView.facts_of_message, message_id=id_, path=path)
        return self._context.read_facts("facts.from_message", find, message_id=id_)

    afrom_message = awaited(from_message)

    def search(self, query: str, limit: int | None = None, *, valid: datetime | None = None) -> list[Fact]:
        """Find facts and messages without a model.

        Args:
            query: Any text. "*" matches everything; the newest results are first.
            limit: The maximum number of results. Default: 10.
            valid: Return only facts that held at this time, and any messages. Default: all, including ended facts.

        Returns:
            The facts and messages, the best first. `why` explains the score of a result; None for "*".
            `raw` is True for messages.

        Raises:
            InvalidInput: An argument is wrong.
        """
        return find_facts(self._context, query, limit, valid=valid)

    asearch = awaited(search)

    def format_for_prompt(
        self, query: str | None = None, budget: BudgetLike | None = None, *, valid: datetime | None = None
    ) -> str:
        """Return at most 50 facts as a section of a prompt, fenced as data, one per line.

        Args:
            query: The topic of the prompt. Default: the facts recorded last are used.
            budget: The maximum number of characters, or a `Budget`, for example in tokens. Facts are added in the order
                of their relevance. A fact that would exceed the budget is omitted. Default: no limit.
            valid: Only facts that held at this time. Default: all; ended facts are marked.

        Returns:
            The section; "" if no facts match.

        Raises:
            InvalidInput: An argument is wrong.
        """
        limits = Budget.of(budget)
        query_text = "" if query is None else check_text(query, "A query").strip()
        at = None if valid is None else from_micros(check_time(valid, "valid"))
        now = self.now if at is None else at
        measure, text = Measure(limits), ""
        lines: list[str] = []
        inputs: dict[str, Any] = {"query": query_text, "valid": at, f"most_{limits.unit}": limits.total}
        with self._context.step("facts.format_for_prompt", **inputs) as step:
            for fact in find_facts(self._context, query_text or MATCH_ALL, 50, valid=at, raw=False):
                extended = fence_text("facts", "\n".join([*lines, _format_line(fact, now)]))
                if limits.total is None or measure.size(extended) <= limits.total:
                    lines.append(_format_line(fact, now))
                    text = extended
            step.finish(lambda: {"text": text})
        return text

    aformat_for_prompt = awaited(format_for_prompt)

    def aliases(self) -> list[fact_values.Alias]:
        """List the names that were merged into other names."""
        outputs = partial(format_result, name="alias", into="same_as")
        return self._context.read_facts("facts.aliases", lambda facts: [*facts.rules.aliases.values()], outputs=outputs)

    aaliases = awaited(aliases)

    def entities(self, prefix: str = "", limit: int | None = None) -> list[Entity]:
        """List the entities of facts (subjects and objects) whose names begin with a prefix.

        Args:
            prefix: The prefix; case is ignored. Default: any name.
            limit: The maximum number of entities. Default: no limit.
        """
        prefix_key = entity_key(prefix) if check_text(prefix, "A prefix").strip() else ""
        max_entities = parse_limit(limit)

        def find(facts: FactView) -> list[Entity]:
            rules = facts.rules
            counts: dict[str, int] = defaultdict(int)
            example_ids: dict[str, str] = {}  # the id of one fact of each entity, which has the spelling of the name
            for name_key, count, fact_id in _count_facts_by_name(facts, prefix_key):
                key = rules.follow_merges(name_key)
                counts[key] += count
                if key not in example_ids or name_key == key:
                    example_ids[key] = fact_id
            keys = sorted(counts)[:max_entities]
            rows = facts.rows_by_key(FACT, {example_ids[key] for key in keys})
            entities: list[Entity] = []
            for key in keys:
                subject, _, obj = fact_values.get_indexed_names(rows[example_ids[key]].extra)
                name = next((each for each in (subject, obj) if rules.resolve(each) == key), key)
                others = {alias.name for alias in rules.aliases.values() if rules.resolve(alias.name) == key}
                entities.append(Entity(name=rules.display_name(name), aliases=tuple(sorted(others)), facts=counts[key]))
            return entities

        return self._context.read_facts("facts.entities", find, prefix=prefix)

    aentities = awaited(entities)

    def neighbours(
        self,
        entity: str,
        depth: int = 1,
        *,
        predicates: Sequence[str] | None = None,
        valid: datetime | None = None,
        recorded: datetime | None = None,
    ) -> list[Neighbour]:
        """Find the entities that facts connect with an entity, in either direction.

        Args:
            entity: The name of the entity.
            depth: The maximum number of facts on the path between the two. Above 1,000, 1,000 is used. Default: 1.
            predicates: Only facts with these predicates. Default: any.
            valid: The time at which the facts held. Default: now.
            recorded: The time at which the facts were known. Default: now.

        Returns:
            The entities, sorted by distance, then by name.

        Raises:
            InvalidInput: An argument is wrong.
        """
        names = None if predicates is None else parse_texts(predicates, "Predicates")
        predicate_keys = None if names is None else [predicate_key(name) for name in names]
        recorded_at = fact_values.parse_optional_time(recorded, "recorded")
        at = self._context.now() if valid is None else check_time(valid, "valid")
        check_integer("depth", depth, 1)
        check_text(entity, "An entity")

        def find(facts: FactView) -> list[Neighbour]:
            return follow_facts(facts, entity, depth, predicates=predicate_keys, recorded=recorded_at, at=at)[1]

        return self._context.read_facts("facts.neighbours", find, entity=entity, depth=depth)

    aneighbours = awaited(neighbours)

    def to_networkx(
        self,
        entity: str | None = None,
        depth: int = 2,
        *,
        valid: datetime | None = None,
        recorded: datetime | None = None,
    ) -> Any:
        """Return the facts as edges of a `networkx.MultiDiGraph` (extra `[graph]`).

        Each edge has the fields of its fact as attributes.

        Args:
            entity: Only facts that connect other entities with this one. Default: all facts.
            depth: The maximum number of facts on the path from `entity`. Above 1,000, 1,000 is used. Default: 2.
            valid: The time at which the facts held. Default: now.
            recorded: The time at which the facts were known. Default: now.

        Raises:
            InvalidInput: An argument is wrong.
            MissingExtra: networkx is not installed.
        """
        recorded_at, inputs = fact_values.parse_optional_time(recorded, "recorded"), _check_names(entity=entity)
        at = self._context.now() if valid is None else check_time(valid, "valid")
        check_integer("depth", depth, 1)

        def find(facts: FactView) -> list[Fact]:
            if entity is None:
                return match_facts(facts, recorded=recorded_at, at=at)
            return follow_facts(facts, entity, depth, recorded=recorded_at, at=at)[0]

        facts = self._context.read_facts("facts.draw", find, **inputs, depth=depth, valid=valid, recorded=recorded)
        try:
            import networkx as nx  # type: ignore[import-untyped]  # noqa: PLC0415 - an extra
        except ImportError as error:
            raise MissingExtra("A graph of networkx", "graph") from error
        graph = nx.MultiDiGraph()
        for fact in facts:
            graph.add_edge(fact.subject, fact.object, key=fact.id, **fact.to_dict())
        return graph

    ato_networkx = awaited(to_networkx)


def _check_names(**names: str | None) -> dict[str, Any]:
    """Return the names in a query after checking that each is text or None."""
    labels = {"before": "An id", "entity": "An entity", "obj": "The object"}
    for name, value in names.items():
        if value is not None:
            check_text(value, labels.get(name, f"The {name}"))
    return names


def list_facts(
    facts: FactView,
    *,
    limit: int | None = None,
    is_match: Callable[[Fact], bool] = lambda _: True,
    kinds: Sequence[str] = (FACT, FACT_TEXT),
) -> list[Fact]:
    """Return all or the newest matching facts and messages, in the order of their addition."""
    entries: list[tuple[int, int, Fact]] = []  # each with the time and the row number by which entries are sorted
    for kind in kinds:
        count = 0
        pages = [{row.key: row for row in facts.rows_of_kind(kind)}] if limit is None else facts.pages(kind, limit)
        for rows in pages:
            if kind == FACT:
                page = facts.resolve_facts(rows, is_complete=limit is None)
            else:
                page = [fact_store.message_to_fact(version) for version in rows.values() if version.label is None]
            page = [fact for fact in page if is_match(fact)]
            entries += [(rows[fact.id].created_at, rows[fact.id].number, fact) for fact in page]
            count += len(page)
            if limit is not None and count >= limit:
                break
    entries.sort(key=lambda entry: entry[:2])
    return [fact for *_, fact in (entries if limit is None else entries[max(0, len(entries) - limit) :])]


def match_facts(
    facts: FactView,
    subject: str | None = None,
    predicate: str | None = None,
    obj: str | None = None,
    *,
    recorded: int | None = None,
    at: int | None = None,
    limit: int | None = None,
) -> list[Fact]:
    """Return the facts with the passed names that held at `at` (None: any time), by start."""
    rules = facts.rules
    predicates = None if predicate is None else [predicate_key(predicate)]
    subjects = None if subject is None else rules.expand_entities([rules.resolve(subject)])
    objects = None if obj is None else rules.expand_entities([rules.resolve(obj)])
    rows = facts.rows_about(subjects=subjects, predicates=predicates, objects=objects, recorded=recorded)
    matches = facts.resolve_facts(rows, recorded, is_complete=obj is None, at=at)
    return sorted(matches, key=lambda fact: (fact.valid_from, fact.recorded_at, fact.id))[:limit]


def find_facts(
    context: FactsContext, text: str, limit: int | None, *, valid: datetime | None = None, raw: bool = True
) -> list[Fact]:
    """Search for facts, and with `raw` also for messages, as `FactReader.search` does."""
    match_all = check_text(text, "A query").strip() == MATCH_ALL
    max_facts = DEFAULT_LIMIT if limit is None else parse_limit(limit)
    at = None if valid is None else from_micros(check_time(valid, "valid"))
    kinds = (FACT, FACT_TEXT) if raw else (FACT,)

    def is_match(fact: Fact) -> bool:
        return fact.raw or at is None or fact.holds_at(at)

    with context.step("facts.search", "retriever", query=text, limit=max_facts, valid=at) as step:
        if match_all:
            find = partial(list_facts, limit=max_facts, is_match=is_match, kinds=kinds)
            facts = context.read_facts(None, find)[::-1]
        else:
            extended = context.read_facts(None, lambda facts: _add_aliases(text, facts.rules))
            # Some hits may not have held at `valid`, so load four times as many.
            hits = search_view.find_versions(context, kinds, extended, max_facts if at is None else 4 * max_facts)
            by_key = context.read_facts(None, lambda facts: facts.to_facts(row for row, _ in hits))
            results = [replace(by_key[row.key], score=hit.score, why=hit.why) for row, hit in hits if row.key in by_key]
            facts = [fact for fact in results if is_match(fact)][:max_facts]
        step.finish(lambda: document_outputs(facts, "fact"))
    return facts


def _add_aliases(text: str, rules: fact_values.FactRules) -> str:
    """Return a query, extended with the aliases of the names that it contains."""
    lowered = f" {text.casefold()} "
    aliases = rules.aliases.values()
    pairs = [pair for alias in aliases for pair in ((alias.name, alias.into), (alias.into, alias.name))]
    return " ".join([text, *dict.fromkeys(other for name, other in pairs if name.casefold() in lowered)])


def _format_line(fact: Fact, now: datetime) -> str:
    """Format a fact on one line, with its period."""
    past = ", past" if fact.valid_to is not None and fact.valid_to <= now else ""
    confidence = "" if fact.confidence is None else f", confidence {fact.confidence:.2g}"
    return f"- {sanitize_line(sanitize_text(fact.text))} ({fact.period}{past}{confidence})"


def follow_facts(
    facts: FactView, entity: str, depth: int, *, predicates: Sequence[str] | None = None, recorded: int | None, at: int
) -> tuple[list[Fact], list[Neighbour]]:
    """Follow facts that held at a time from an entity to other entities, in either direction.

    Returns:
        The facts, sorted by their start, and the entities that they connect, the nearest first.
    """
    rules = facts.rules
    visited: dict[str, Fact] = {}
    neighbours: list[Neighbour] = []
    frontier = {rules.resolve(entity)}  # the entities at the current distance
    reached = set(frontier)
    for distance in range(1, min(depth, MAX_DEPTH) + 1):
        keys = rules.expand_entities(frontier)
        rows = facts.rows_about(subjects=keys, predicates=predicates, recorded=recorded)
        rows |= facts.rows_about(objects=keys, predicates=predicates, recorded=recorded)
        nearest: dict[str, Neighbour] = {}
        for fact in facts.resolve_facts(rows, recorded, at=at):
            visited[fact.id] = fact
            for name, other in ((fact.object, fact.subject), (fact.subject, fact.object)):
                key = rules.resolve(name)
                if rules.resolve(other) in frontier and key not in reached:
                    nearest.setdefault(key, Neighbour(name=rules.display_name(name), distance=distance, fact=fact))
        neighbours += sorted(nearest.values(), key=lambda neighbour: neighbour.name)
        frontier = set(nearest)
        reached |= frontier
        if not frontier:
            break
    return sorted(visited.values(), key=lambda fact: (fact.valid_from, fact.recorded_at, fact.id)), neighbours


def _count_facts_by_name(facts: FactView, prefix: str) -> list[tuple[str, int, str]]:
    """Return each entity key with a prefix, its number of facts, and the id of one of them."""
    if facts.view.scope is None:
        bounds = {"low": prefix, "high": prefix + "\U0010ffff"}  # the highest character, after all continuations
        rows = query.entities_in_range(facts.tx, **facts.view.parameters(), kind=FACT, **bounds)
        return [(row["name"], row["facts"], row["sample"]) for row in rows]
    ids: dict[str, list[str]] = defaultdict(list)
    for version in facts.fact_rows.values():
        subject, _, obj = fact_values.get_indexed_names(version.extra)
        for key in {entity_key(subject), entity_key(obj)}:
            if key.startswith(prefix):
                ids[key].append(version.key)
    return [(key, len(fact_ids), min(fact_ids)) for key, fact_ids in sorted(ids.items())]
