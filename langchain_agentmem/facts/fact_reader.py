"""`FactReader`: queries for facts: by time, contradictions, evidence, and connected entities.

`KGMemory` is a `FactReader` that keeps and learns facts, too. `find_facts` searches, for prompts as well.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from datetime import datetime
from functools import partial
from typing import Any

from langchain_agentmem.base.argument_checks import ALL, EVERYTHING, check_whole, limit_given, text_given, texts_given
from langchain_agentmem.base.clock import moment, time_given
from langchain_agentmem.base.concurrency import awaited
from langchain_agentmem.base.fencing import fenced, harmless, on_one_line
from langchain_agentmem.base.namespaces import Namespace, ThreadKey, namespace_of
from langchain_agentmem.conversations import message_log
from langchain_agentmem.errors import InvalidInput, MissingExtra, safe_repr
from langchain_agentmem.facts import fact as fact_values
from langchain_agentmem.facts import fact_store
from langchain_agentmem.facts.fact import Contradiction, Entity, Evidence, Fact, Neighbour, entity_key, predicate_key
from langchain_agentmem.facts.fact_store import FactsContext, FactView
from langchain_agentmem.language_models.tokens import Budget, BudgetLike, Measure
from langchain_agentmem.messages.message import body_text
from langchain_agentmem.rewinding import outlook
from langchain_agentmem.rewinding.memory_rows import FACT, TEXT
from langchain_agentmem.storage import query
from langchain_agentmem.tracing import documents, outcome

USUAL_LIMIT = 10
MOST_STEPS = 1_000
"""The most facts that a walk follows one after the other, whatever depth is requested."""


class FactReader:
    """The facts on a branch, or of a thread, to be read.

    Every method that reads has an awaited twin, with an `a` before its name. Times without a time zone are taken as
    UTC.
    """

    _ground: FactsContext

    @property
    def name(self) -> str:
        """The name of the branch, or the thread's id."""
        return self._ground.point.name

    @property
    def namespace(self) -> Namespace:
        """The namespace of this memory."""
        return namespace_of(self._ground.point.path)

    @property
    def now(self) -> datetime:
        """The current time of this memory, in UTC."""
        return moment(self._ground.now())

    def __repr__(self) -> str:
        return f"{type(self).__name__}({safe_repr(self.name)}, namespace={safe_repr(self.namespace)})"

    def get(self, fact_id: str) -> Fact | None:
        """Return a fact or a message by its id; None if it is missing or was taken back."""
        key = text_given(fact_id, "An id")
        return self._ground.look("facts.get", lambda facts: facts.fact(key), fact_id=key)

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
        """Return the facts that held at a time, as far as they were known at another.

        Args:
            valid: The time at which the facts held. Default: now.
            recorded: Ignore what was learned later. Default: nothing is ignored. Facts that were removed or erased are
                not known at any time.
            subject: Only facts about this. Default: any.
            predicate: Only facts with this predicate. Default: any.
            obj: Only facts with this object. Default: any.
            limit: Most facts. Default: all. All matching facts are read to sort them by their start; `latest(valid=…)`
                reads pages.

        Returns:
            The facts, the one that began first at the front.

        Raises:
            InvalidInput: An argument is wrong.
        """
        by, at = fact_values.maybe_time(recorded, "recorded"), fact_values.maybe_time(valid, "valid")
        most, named = limit_given(limit), _named(subject=subject, predicate=predicate, obj=obj)
        find = partial(matching, **named, recorded=by, at=self._ground.now() if at is None else at, most=most)
        return self._ground.look("facts.as_of", find, **named, valid=valid, recorded=recorded)

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
        """Return the facts that were learned last, a page at a time.

        Args:
            limit: Most facts. Default: 10.
            before: The id of a fact: only facts learned before it, for the next page. Default: from the last on.
            entity: Only facts that have this as subject or object. Default: any.
            predicate: Only facts with this predicate. Default: any.
            valid: Only facts that held at this time. Default: all, ended ones included.
            recorded: Ignore what was learned later. Default: nothing is ignored.

        Returns:
            The facts, the one learned last at the front.

        Raises:
            InvalidInput: An argument is wrong, or there is no such fact.
        """
        most = USUAL_LIMIT if limit is None else limit_given(limit)
        by, at = fact_values.maybe_time(recorded, "recorded"), fact_values.maybe_time(valid, "valid")
        named = _named(before=before, entity=entity, predicate=predicate)

        def find(facts: FactView) -> list[Fact]:
            behind = fact_store.BEHIND_ALL if by is None else (by + 1, 0)
            if before is not None:
                there = facts.named(FACT, [before]).get(before)
                if there is None:
                    raise InvalidInput(f"There is no fact {safe_repr(before)} here: begin with the last again.")
                behind = min(behind, (there.created_at, there.number))
            names = None if entity is None else facts.rules.keys_of([facts.rules.canonical(entity)])
            labels = None if predicate is None else [predicate_key(predicate)]
            found: list[Fact] = []
            for rows in facts.pages(FACT, most, behind, names=names, predicates=labels):
                found += facts.settled(rows, by, at=at)  # without facts that were taken back or did not hold
                if len(found) >= most:
                    break
            return found[:most]

        return self._ground.look("facts.latest", find, limit=most, **named, valid=valid, recorded=recorded)

    alatest = awaited(latest)

    def history(self, subject: str, predicate: str | None = None, *, recorded: datetime | None = None) -> list[Fact]:
        """Return all facts about a subject that ever held, ended ones included.

        Args:
            subject: The subject.
            predicate: Only facts with this predicate. Default: any.
            recorded: Ignore what was learned later. Default: nothing is ignored.

        Returns:
            The facts, the one that began first at the front.

        Raises:
            InvalidInput: An argument is wrong.
        """
        named = _named(subject=text_given(subject, "The subject"), predicate=predicate)
        find = partial(matching, **named, recorded=fact_values.maybe_time(recorded, "recorded"))
        return self._ground.look("facts.history", find, **named, recorded=recorded)

    ahistory = awaited(history)

    def contradictions(
        self, subject: str | Sequence[str] | None = None, predicate: str | None = None
    ) -> list[Contradiction]:
        """Find values of single-valued predicates with overlapping periods. Both are kept.

        Args:
            subject: Only facts about this subject, or about any of these. Default: any.
            predicate: Only facts with this predicate. Default: any.

        Raises:
            InvalidInput: An argument is wrong.
        """
        subjects = None if subject is None else texts_given(subject, "Subjects")
        _named(predicate=predicate)

        def find(facts: FactView) -> list[Contradiction]:
            agreed = facts.rules
            keys = None if subjects is None else agreed.keys_of(map(agreed.canonical, subjects))
            predicates = agreed.single if predicate is None else agreed.single & {predicate_key(predicate)}
            there = facts.settled(facts.about(subjects=keys, predicates=predicates), whole=True)
            found: list[Contradiction] = []
            lasting: dict[tuple[str, str], list[Fact]] = defaultdict(list)
            for fact in sorted(there, key=lambda fact: (fact.valid_from, fact.recorded_at)):
                thing = agreed.canonical(fact.subject), predicate_key(fact.predicate)
                lasting[thing] = [each for each in lasting[thing] if each.holds_at(fact.valid_from)]
                for other in lasting[thing]:
                    ends = [end for end in (fact.valid_to, other.valid_to) if end is not None]
                    if fact.holds_at(fact.valid_from) and agreed.canonical(fact.object) != agreed.canonical(
                        other.object
                    ):
                        stop = min(ends, default=None)
                        found.append(Contradiction(facts=(other, fact), valid_from=fact.valid_from, valid_to=stop))
                lasting[thing].append(fact)
            return found

        return self._ground.look("facts.contradictions", find, subject=subject, predicate=predicate)

    acontradictions = awaited(contradictions)

    def evidence(self, fact_id: str) -> list[Evidence]:
        """Return the sources of a fact, with the texts of messages that are kept.

        Args:
            fact_id: The id of the fact.

        Returns:
            The sources in the order in which they came; empty if there is no such fact.
        """
        text_given(fact_id, "An id")

        def find(facts: FactView) -> list[Evidence]:
            fact = facts.fact(fact_id)
            sources = () if fact is None else fact.told
            here = facts.texts(
                [(each.message_id, each.conversation_id) for each in sources if each.message_id is not None]
            )
            found: list[Evidence] = []
            for each in sources:
                key, conversation, text = each.message_id, each.conversation_id, None
                if key is not None and (kept := here.get((key, conversation))) is not None:
                    text = fact_store.message_of(kept).text
                elif key is not None and conversation is not None:
                    entry = message_log.get(facts.tx, ThreadKey(self._ground.point.path, conversation), key)
                    text = None if entry is None else body_text(entry.body)
                found.append(Evidence(**asdict(each), text=text))
            return found

        return self._ground.look("facts.evidence", find, fact_id=fact_id)

    aevidence = awaited(evidence)

    def from_message(self, message_id: str) -> list[Fact]:
        """Return the facts that a message states.

        Args:
            message_id: The id of the message.
        """
        key, path = text_given(message_id, "An id"), self._ground.point.path
        return self._ground.look("facts.from_message", lambda facts: facts.told_by(key, path), message_id=key)

    afrom_message = awaited(from_message)

    def search(self, query: str, limit: int | None = None, *, valid: datetime | None = None) -> list[Fact]:
        """Find facts and messages without a model.

        Args:
            query: Any text; "*" for all, the newest first.
            limit: Most results. Default: 10.
            valid: Only facts that held at this time. Default: any, ended ones included.

        Returns:
            The best first. `why` explains each result; messages have `raw` set.

        Raises:
            InvalidInput: An argument is wrong.
        """
        return find_facts(self._ground, query, limit, valid=valid)

    asearch = awaited(search)

    def format_for_prompt(
        self, query: str | None = None, budget: BudgetLike | None = None, *, valid: datetime | None = None
    ) -> str:
        """Return facts about a query as a section of a prompt, fenced as data, a line each.

        Args:
            query: The subject of the prompt. Default: the facts learned last.
            budget: The most characters, or a `Budget`, such as one that counts tokens. The worst matches are left out.
                Default: no limit.
            valid: Only facts that held at this time. Default: all; ended facts are marked.

        Returns:
            The section; "" if nothing is known.

        Raises:
            InvalidInput: An argument is wrong.
        """
        limits = Budget.of(budget)
        question = "" if query is None else text_given(query, "A query").strip()
        at = None if valid is None else moment(time_given(valid, "valid"))
        now = self.now if at is None else at
        measure, text = Measure(limits), ""
        lines: list[str] = []
        asked: dict[str, Any] = {"query": question, "valid": at, f"most_{limits.unit}": limits.total}
        with self._ground.step("facts.format_for_prompt", **asked) as step:
            for fact in find_facts(self._ground, question or EVERYTHING, 50, valid=at, raw=False):
                more = fenced("facts", "\n".join([*lines, _fact_line(fact, now)]))
                if limits.total is None or measure.size(more) <= limits.total:
                    lines.append(_fact_line(fact, now))
                    text = more
            step.finish(lambda: {"text": text})
        return text

    aformat_for_prompt = awaited(format_for_prompt)

    def aliases(self) -> list[fact_values.Alias]:
        """List the names that are merged."""
        shown = partial(outcome, name="alias", into="same_as")
        return self._ground.look("facts.aliases", lambda facts: list(facts.rules.aliases.values()), outputs=shown)

    aaliases = awaited(aliases)

    def entities(self, prefix: str = "", limit: int | None = None) -> list[Entity]:
        """List subjects and objects of facts by the beginning of their names.

        Args:
            prefix: The beginning of the name, in any case. Default: any name.
            limit: Most entities. Default: all.
        """
        low = entity_key(prefix) if text_given(prefix, "A prefix").strip() else ""
        most = limit_given(limit)

        def find(facts: FactView) -> list[Entity]:
            agreed = facts.rules
            counts: dict[str, int] = defaultdict(int)
            samples: dict[str, str] = {}
            for name, facts_there, sample in _names(facts, low):
                key = agreed.followed(name)
                counts[key] += facts_there
                if key not in samples or name == key:
                    samples[key] = sample
            chosen_keys = sorted(counts)[:most]
            rows = facts.named(FACT, {samples[key] for key in chosen_keys})
            shown: list[Entity] = []
            for key in chosen_keys:
                subject, _, obj = fact_values.names_of(rows[samples[key]].extra)
                name = next((each for each in (subject, obj) if agreed.canonical(each) == key), key)
                others = sorted(
                    {alias.name for alias in agreed.aliases.values() if agreed.canonical(alias.name) == key}
                )
                shown.append(Entity(name=agreed.spelled(name), aliases=tuple(sorted(others)), facts=counts[key]))
            return shown

        return self._ground.look("facts.entities", find, prefix=prefix)

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
            depth: The most facts between the two; values over 1,000 are taken as 1,000. Default: 1.
            predicates: Only facts with these predicates. Default: any.
            valid: Only facts that held at this time. Default: now.
            recorded: Ignore what was learned later. Default: nothing is ignored.

        Returns:
            The nearest first, by name.

        Raises:
            InvalidInput: An argument is wrong.
        """
        wanted = None if predicates is None else texts_given(predicates, "Predicates")
        labels = None if wanted is None else [predicate_key(each) for each in wanted]
        by = fact_values.maybe_time(recorded, "recorded")
        at = self._ground.now() if valid is None else time_given(valid, "valid")
        check_whole("depth", depth, 1)
        text_given(entity, "An entity")

        def find(facts: FactView) -> list[Neighbour]:
            return walk(facts, entity, depth, predicates=labels, recorded=by, at=at)[1]

        return self._ground.look("facts.neighbours", find, entity=entity, depth=depth)

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

        Each edge has the fields of its fact.

        Args:
            entity: Only facts around this entity. Default: all.
            depth: The most facts from the entity; values over 1,000 are taken as 1,000. Default: 2.
            valid: Only facts that held at this time. Default: now.
            recorded: Ignore what was learned later. Default: nothing is ignored.

        Raises:
            MissingExtra: networkx is not installed.
        """
        by, named = fact_values.maybe_time(recorded, "recorded"), _named(entity=entity)
        at = self._ground.now() if valid is None else time_given(valid, "valid")
        check_whole("depth", depth, 1)

        def find(facts: FactView) -> list[Fact]:
            if entity is None:
                return matching(facts, recorded=by, at=at)
            return walk(facts, entity, depth, recorded=by, at=at)[0]

        facts = self._ground.look("facts.draw", find, **named, depth=depth, valid=valid, recorded=recorded)
        try:
            import networkx as nx  # type: ignore[import-untyped]  # noqa: PLC0415 - an extra
        except ImportError as error:
            raise MissingExtra("A graph of networkx", "graph") from error
        graph = nx.MultiDiGraph()
        for fact in facts:
            graph.add_edge(fact.subject, fact.object, key=fact.id, **fact.to_dict())
        return graph

    ato_networkx = awaited(to_networkx)


def _named(**names: str | None) -> dict[str, Any]:
    """Check the names in a query, each a text or None, and return them."""
    whats = {"before": "An id", "entity": "An entity", "obj": "The object"}
    for name, value in names.items():
        if value is not None:
            text_given(value, whats.get(name, f"The {name}"))
    return names


def listing(
    facts: FactView,
    *,
    limit: int | None = None,
    wanted: Callable[[Fact], bool] = lambda _: True,
    kinds: Sequence[str] = (FACT, TEXT),
) -> list[Fact]:
    """Return facts and messages in the order in which they came: all, or the last ones."""
    shown: list[tuple[int, int, Fact]] = []
    for kind in kinds:
        count = 0
        pages = [{kept.key: kept for kept in facts.every(kind)}] if limit is None else facts.pages(kind, limit)
        for rows in pages:
            if kind == FACT:
                there = facts.settled(rows, whole=limit is None)
            else:
                there = [fact_store.raw_fact(kept) for kept in rows.values() if kept.label is None]
            there = [fact for fact in there if wanted(fact)]
            shown += [(rows[fact.id].created_at, rows[fact.id].number, fact) for fact in there]
            count += len(there)
            if limit is not None and count >= limit:
                break
    shown.sort(key=lambda each: each[:2])
    return [fact for *_, fact in (shown if limit is None else shown[max(0, len(shown) - limit) :])]


def matching(
    facts: FactView,
    subject: str | None = None,
    predicate: str | None = None,
    obj: str | None = None,
    *,
    recorded: int | None = None,
    at: int | None = None,
    most: int = ALL,
) -> list[Fact]:
    """Return the facts with some names that held at a time, sorted by their start."""
    agreed = facts.rules
    predicates = None if predicate is None else [predicate_key(predicate)]
    subjects, objects = (None if name is None else agreed.keys_of([agreed.canonical(name)]) for name in (subject, obj))
    rows = facts.about(subjects=subjects, predicates=predicates, objects=objects, recorded=recorded)
    found = facts.settled(rows, recorded, whole=obj is None, at=at)
    return sorted(found, key=lambda fact: (fact.valid_from, fact.recorded_at, fact.id))[:most]


def find_facts(
    ground: FactsContext, asked: str, limit: int | None, *, valid: datetime | None = None, raw: bool = True
) -> list[Fact]:
    """Search for facts, and with `raw` for messages too; see `FactReader.search`."""
    everything = text_given(asked, "A query").strip() == EVERYTHING
    most = USUAL_LIMIT if limit is None else limit_given(limit)
    at = None if valid is None else moment(time_given(valid, "valid"))
    kinds = (FACT, TEXT) if raw else (FACT,)

    def counts(fact: Fact) -> bool:
        return fact.raw or at is None or fact.holds_at(at)

    with ground.step("facts.search", "retriever", query=asked, limit=most, valid=at) as step:
        if everything:
            facts = ground.look(None, partial(listing, limit=most, wanted=counts, kinds=kinds))[::-1]
        else:
            # Some of the best matches may not have held then.
            words = ground.look(None, lambda facts: _more_names(asked, facts.rules))
            hits = outlook.found(ground, kinds, words, most if at is None else 4 * most)
            known = ground.look(None, lambda facts: facts.shown(kept for kept, _ in hits))
            found = [replace(known[kept.key], score=hit.score, why=hit.why) for kept, hit in hits if kept.key in known]
            facts = [fact for fact in found if counts(fact)][:most]
        step.finish(lambda: documents(facts, "fact"))
    return facts


def _more_names(asked: str, agreed: fact_values.FactRules) -> str:
    """Return a query extended with the aliases of the names in it."""
    words = f" {asked.casefold()} "
    aliases = agreed.aliases.values()
    pairs = [pair for alias in aliases for pair in ((alias.name, alias.into), (alias.into, alias.name))]
    return " ".join([asked, *dict.fromkeys(other for one, other in pairs if one.casefold() in words)])


def _fact_line(fact: Fact, now: datetime) -> str:
    """Return a fact on one line, with its period."""
    past = ", past" if fact.valid_to is not None and fact.valid_to <= now else ""
    sure = "" if fact.confidence is None else f", confidence {fact.confidence:.2g}"
    return f"- {on_one_line(harmless(fact.text))} ({fact.period}{past}{sure})"


def walk(
    facts: FactView,
    entity: str,
    depth: int,
    *,
    predicates: Sequence[str] | None = None,
    recorded: int | None = None,
    at: int,
) -> tuple[list[Fact], list[Neighbour]]:
    """Follow the facts around an entity that held at a time, in either direction.

    Returns:
        The facts, sorted by their start; and the entities that they lead to, the nearest first.
    """
    agreed = facts.rules
    passed: dict[str, Fact] = {}
    neighbours: list[Neighbour] = []
    frontier = {agreed.canonical(entity)}
    reached = set(frontier)
    for distance in range(1, min(depth, MOST_STEPS) + 1):
        keys = agreed.keys_of(frontier)
        rows = facts.about(subjects=keys, predicates=predicates, recorded=recorded)
        rows |= facts.about(objects=keys, predicates=predicates, recorded=recorded)
        near: dict[str, Neighbour] = {}
        for fact in facts.settled(rows, recorded, at=at):
            passed[fact.id] = fact
            for name, other in ((fact.object, fact.subject), (fact.subject, fact.object)):
                key = agreed.canonical(name)
                if agreed.canonical(other) in frontier and key not in reached:
                    near.setdefault(key, Neighbour(name=agreed.spelled(name), distance=distance, fact=fact))
        neighbours += sorted(near.values(), key=lambda each: each.name)
        frontier = set(near)
        reached |= frontier
        if not frontier:
            break
    return sorted(passed.values(), key=lambda fact: (fact.valid_from, fact.recorded_at, fact.id)), neighbours


def _names(facts: FactView, low: str) -> list[tuple[str, int, str]]:
    """Return the keys of names with a prefix, the count of facts, and the id of one fact."""
    if facts.view.scope is None:
        rows = query.entities_named(facts.tx, **facts.view.parameters(), kind=FACT, low=low, high=low + "\U0010ffff")
        return [(row["name"], row["facts"], row["sample"]) for row in rows]
    naming: dict[str, list[str]] = defaultdict(list)
    for kept in facts.stored.values():
        subject, _, obj = fact_values.names_of(kept.extra)
        for name in {entity_key(subject), entity_key(obj)}:
            if name.startswith(low):
                naming[name].append(kept.key)
    return [(name, len(keys), min(keys)) for name, keys in sorted(naming.items())]
