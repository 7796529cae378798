"""Import lists of a program without a database: message dictionaries, and facts as triplets.

Run it with `python examples/move_from_message_dicts.py`. It needs no extra and no key, because a function replaces the
model that extracts facts.
"""

import json
import tempfile
from pathlib import Path

from langchain_agentmem import AgentMemory, ManagedMemoryConfig

LOOKUP = {"id": "call-1", "type": "function", "function": {"name": "lookup", "arguments": '{"town": "Lisbon"}'}}
MESSAGES = [
    {"role": "system", "content": "You plan trips."},
    {"role": "user", "content": "How warm is it in Lisbon?"},
    {"role": "assistant", "content": None, "tool_calls": [LOOKUP]},
    {"role": "tool", "content": "24 degrees", "tool_call_id": "call-1", "name": "lookup"},
    {"role": "assistant", "content": "It has 24 degrees."},
]
FACTS = [{"role": "user", "subject": "Paris", "predicate": "is capital of", "object": "France", "message_id": "m-1"}]


def extract(_: object) -> str:
    """Stand in for the model that extracts facts."""
    return '{"facts": [{"message": 1, "subject": "Lisbon", "predicate": "is capital of", "object": "Portugal"}]}'


def main(folder: Path) -> None:
    (folder / "messages.json").write_text(json.dumps(MESSAGES), encoding="utf-8")
    (folder / "facts.json").write_text(json.dumps(FACTS), encoding="utf-8")

    with AgentMemory(folder / "agent.db") as memory:
        chat = memory.managed_conversation("trip", config=ManagedMemoryConfig(threshold_tokens=100_000))
        for message in json.loads((folder / "messages.json").read_text(encoding="utf-8")):
            chat.add(**message)
        print("given back as it was:", chat.retrieve_all() == MESSAGES)

        asked = chat.add(role="user", content="And in Porto?")
        chat.update(asked, content="And in Porto, in May?")
        print(chat.retrieve_recent(1), "was", chat.history_of(asked)[0].message.content)
        chat.save_to_file(folder / "memory.json", {"step": 3})  # the old methods still exist
        print("additional state:", memory.managed_conversation("copy").load_from_file(folder / "memory.json"))

        print("--- facts")
        facts = memory.facts(model=extract)
        for fact in json.loads((folder / "facts.json").read_text(encoding="utf-8")):
            facts.add_fact(fact["role"], fact["subject"], fact["predicate"], fact["object"], source=fact["message_id"])
        facts.add(role="user", content="Lisbon is the capital of Portugal.")
        facts.drain()  # a background job extracts the fact; wait for the job
        print([message["content"] for message in facts.retrieve_all()])
        print("beside Portugal:", *facts.neighbours("Portugal"))

    print("--- all of it is still there when it is opened again")
    with AgentMemory(folder / "agent.db") as memory:
        [found] = memory.search("How warm is Lisbon?", roles=["user"], kinds=["message"], limit=1)
        print(len(memory.conversation("trip").messages), "messages, and a search finds:", found.text)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary:
        main(Path(temporary))
