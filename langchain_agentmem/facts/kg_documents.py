"""What is added to facts, and what they give to a provider: a memory as documents 001 and 003 have them."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from langchain_agentmem.base.apart import aside
from langchain_agentmem.base.events import MemoryResetEvent
from langchain_agentmem.conversations.persistence import additional_in, document_of, read_document, write_document
from langchain_agentmem.facts import fact_commands, source_documents
from langchain_agentmem.facts.kg_memory_base import LearningFacts
from langchain_agentmem.language_models.model_calls import Work
from langchain_agentmem.messages import Message

if TYPE_CHECKING:
    from langchain_core.messages import BaseMessage

TYPE = "kg"


class AddedFacts(LearningFacts):
    """What is added and retrieved; see `KGMemory`."""

    memory_type = TYPE

    def add(
        self,
        message: Message | BaseMessage | Mapping[str, Any] | None = None,
        *,
        role: str | None = None,
        content: Any = None,
        name: str | None = None,
        tool_calls: Sequence[Any] | None = None,
        agent_calls: Sequence[Any] | None = None,
        images: Sequence[str] | None = None,
        tool_call_id: str | None = None,
    ) -> str:
        """Keep what was said, and have facts extracted from it later; nobody waits for a model.

        The same message added again, by its id, is kept once.

        Args:
            message: A `Message`, a LangChain message or a dictionary of `Message`'s fields. It takes precedence.
            role: "user", "assistant", "system", "tool", or another; needed when there is no `message`.
            content: Text, a dictionary, or a list of content blocks.
            name: The name of the speaker or of the tool.
            tool_calls: Tool calls, as values or dictionaries.
            agent_calls: Agent calls, as values or dictionaries.
            images: Paths or URLs.
            tool_call_id: Which call a tool's message answers.

        Returns:
            The message's id.

        Raises:
            MessageError: Neither message nor role is given, the message is malformed, or its id is taken by other
                content.
        """
        said = self._said(message, role, content, name, tool_calls, agent_calls, images, tool_call_id)
        self._do(fact_commands.keeping(self._ground, [said], description=self._description))
        self._attendant.notify()
        return said.message_id

    async def aadd(
        self,
        message: Message | BaseMessage | Mapping[str, Any] | None = None,
        *,
        role: str | None = None,
        content: Any = None,
        name: str | None = None,
        tool_calls: Sequence[Any] | None = None,
        agent_calls: Sequence[Any] | None = None,
        images: Sequence[str] | None = None,
        tool_call_id: str | None = None,
    ) -> str:
        """`add`, awaited."""
        said = await aside(self._said, message, role, content, name, tool_calls, agent_calls, images, tool_call_id)
        await self._ado(fact_commands.keeping(self._ground, [said], description=self._description))
        self._attendant.notify()
        return said.message_id

    def update(self, message_id: str, **changes: Any) -> None:
        """Change what was said, and have it extracted anew; or correct a fact.

        Args:
            message_id: The id of either.
            **changes: Of what was said, fields of `Message`; of a fact, `role`, `subject`, `predicate`, `obj`,
                `valid_from`, `valid_to` (None: it goes on) and `confidence`.

        Raises:
            InvalidInput: A value cannot be one.
            MessageError: There is neither, the fact was taken back, or a change does not fit.
        """
        if self._do(fact_commands.updating(self._ground, message_id, changes)):
            self._attendant.notify()

    async def aupdate(self, message_id: str, **changes: Any) -> None:
        """`update`, awaited."""
        if await self._ado(fact_commands.updating(self._ground, message_id, changes)):
            self._attendant.notify()

    def replace_memory(self, idx: int, **changes: Any) -> None:
        """`update`, of what stands at an index of `retrieve_all`.

        Args:
            idx: The index; negative ones count from the end.
            **changes: As for `update`.

        Raises:
            MessageError: Nothing stands there, or a change does not fit.
        """
        self.update(self._do(source_documents.at_index(self._ground, idx)), **changes)

    async def areplace_memory(self, idx: int, **changes: Any) -> None:
        """`replace_memory`, awaited."""
        await self.aupdate(await self._ado(source_documents.at_index(self._ground, idx)), **changes)

    def remove_by_id(self, message_id: str) -> bool:
        """Delete a fact; or what was said, with the facts that no other message tells of. What it had ended goes on.

        Args:
            message_id: The id of either.

        Returns:
            Whether it was there.
        """
        return self._do(fact_commands.removing(self._ground, message_id))

    async def aremove_by_id(self, message_id: str) -> bool:
        """`remove_by_id`, awaited."""
        return await self._ado(fact_commands.removing(self._ground, message_id))

    def delete_memory(self, idx: int) -> None:
        """`remove_by_id`, of what stands at an index of `retrieve_all`.

        Args:
            idx: The index; negative ones count from the end.

        Raises:
            MessageError: Nothing stands there.
        """
        self.remove_by_id(self._do(source_documents.at_index(self._ground, idx)))

    async def adelete_memory(self, idx: int) -> None:
        """`delete_memory`, awaited."""
        await self.aremove_by_id(await self._ado(source_documents.at_index(self._ground, idx)))

    def reset_memory(self) -> None:
        """Delete everything but the description, and what is declared of predicates. Listeners are told."""
        self._do(fact_commands.resetting(self._ground, self._description))
        self._announce_reset()

    async def areset_memory(self) -> None:
        """`reset_memory`, awaited."""
        await self._ado(fact_commands.resetting(self._ground, self._description))
        self._announce_reset()

    def retrieve_all(self, *, include_ids: bool = False) -> list[dict[str, Any]]:
        """The description, what was said and the facts, as a provider takes them, oldest first.

        Args:
            include_ids: Whether to tell each one's "message_id". Default: False.
        """
        return self._dicts(self._do(self._everything()), include_ids)

    async def aretrieve_all(self, *, include_ids: bool = False) -> list[dict[str, Any]]:
        """`retrieve_all`, awaited."""
        return await aside(self._dicts, await self._ado(self._everything()), include_ids)

    def get_messages(self) -> list[dict[str, Any]]:
        """The same as `retrieve_all`."""
        return self.retrieve_all()

    async def aget_messages(self) -> list[dict[str, Any]]:
        """`get_messages`, awaited."""
        return await self.aretrieve_all()

    def retrieve_recent(self, n: int = 1, *, include_ids: bool = False) -> list[dict[str, Any]]:
        """The last of what was said and of the facts, oldest first.

        Args:
            n: How many. Default: 1.
            include_ids: Whether to tell each one's "message_id". Default: False.

        Raises:
            InvalidInput: n is no whole number of 0 or more.
        """
        return self._dicts(self._do(source_documents.shown(self._ground, limit=n)), include_ids)

    async def aretrieve_recent(self, n: int = 1, *, include_ids: bool = False) -> list[dict[str, Any]]:
        """`retrieve_recent`, awaited."""
        return await aside(self._dicts, await self._ado(source_documents.shown(self._ground, limit=n)), include_ids)

    def retrieve_by_id(self, message_id: str, *, include_ids: bool = False) -> dict[str, Any] | None:
        """What was said, or the fact, under an id; None where there is none.

        Args:
            message_id: The id.
            include_ids: Whether to tell its "message_id". Default: False.
        """
        return next(iter(self._dicts(self._do(source_documents.one(self._ground, message_id)), include_ids)), None)

    async def aretrieve_by_id(self, message_id: str, *, include_ids: bool = False) -> dict[str, Any] | None:
        """`retrieve_by_id`, awaited."""
        return next(
            iter(self._dicts(await self._ado(source_documents.one(self._ground, message_id)), include_ids)), None
        )

    def retrieve_by_role(self, role: str, n: int | None = None, *, include_ids: bool = False) -> list[dict[str, Any]]:
        """What somebody said, and the facts that they stated, oldest first.

        Args:
            role: Who, such as "user".
            n: The last of them, at most so many. Default: all.
            include_ids: Whether to tell each one's "message_id". Default: False.

        Raises:
            InvalidInput: An argument is wrong.
        """
        work = source_documents.shown(self._ground, limit=n, role=fact_commands.role_given(role))
        return self._dicts(self._do(work), include_ids)

    async def aretrieve_by_role(
        self, role: str, n: int | None = None, *, include_ids: bool = False
    ) -> list[dict[str, Any]]:
        """`retrieve_by_role`, awaited."""
        work = source_documents.shown(self._ground, limit=n, role=fact_commands.role_given(role))
        return await aside(self._dicts, await self._ado(work), include_ids)

    def save_to_file(self, path: str | os.PathLike[str], additional_state: Mapping[str, Any] | None = None) -> None:
        """Write this memory to a JSON file, whole or not at all: facts with their history, and what waits.

        Args:
            path: Where to. A file that is there is replaced.
            additional_state: What to keep beside it; JSON must be able to hold it. Default: nothing.

        Raises:
            InvalidInput: The additional state is not JSON, or the file cannot be written.
        """
        write_document(path, document_of(TYPE, self._do(source_documents.dumping(self._ground)), additional_state))

    async def asave_to_file(
        self, path: str | os.PathLike[str], additional_state: Mapping[str, Any] | None = None
    ) -> None:
        """`save_to_file`, awaited."""
        there = await self._ado(source_documents.dumping(self._ground))
        document = await aside(document_of, TYPE, there, additional_state)
        await asyncio.to_thread(write_document, path, document)

    def load_from_file(self, path: str | os.PathLike[str]) -> dict[str, Any] | None:
        """Take the place of what this memory holds with what a file holds.

        Args:
            path: A file that `save_to_file` wrote.

        Returns:
            The additional state in the file, or None.

        Raises:
            InvalidInput: The file is missing, damaged or of another kind. This memory is as it was.
        """
        document = read_document(path, TYPE)
        self._do(source_documents.loading(self._ground, document["entries"]))
        self._attendant.notify()
        return additional_in(document)

    async def aload_from_file(self, path: str | os.PathLike[str]) -> dict[str, Any] | None:
        """`load_from_file`, awaited."""
        document = await asyncio.to_thread(read_document, path, TYPE)
        await self._ado(source_documents.loading(self._ground, document["entries"]))
        self._attendant.notify()
        return additional_in(document)

    def _dicts(self, there: Sequence[source_documents.Given], include_ids: bool) -> list[dict[str, Any]]:  # noqa: FBT001
        return [{**each.told, "message_id": each.key} if include_ids else each.told for each in there]

    def _everything(self) -> Work[list[source_documents.Given]]:
        there = yield from source_documents.everything(self._ground)
        begins = self._description is not None and not (there and there[0].key == fact_commands.DESCRIPTION)
        if begins:  # it is written with the first change
            there.insert(
                0, source_documents.Given(fact_commands.DESCRIPTION, {"role": "system", "content": self._description})
            )
        return there

    def _announce_reset(self) -> None:
        now = self._database.clock()
        self._tell(lambda agent_name: MemoryResetEvent(agent_name=agent_name, timestamp=now))
