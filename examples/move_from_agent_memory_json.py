"""Import an `agent_memory.json` of prompts and replies, even if it is damaged.

Run it with `python examples/move_from_agent_memory_json.py`. It needs no extra and no key. The equivalent command of
the extra `[cli]` is `agentmem audit import agent.db agent_memory.json`.
"""

import json
import tempfile
from pathlib import Path

from langchain_agentmem import AgentMemory

HISTORY = [
    {"prompt": "How many trees are there?", "reply": "42", "timestamp": 1738439400, "conversation_id": "trees"},
    {"prompt": "thanks", "reply": "You're welcome!", "timestamp": 1738439410, "conversation_id": "trees"},
    {"prompt": "[TODO] Count the quinces", "reply": "", "timestamp": 1738439420, "conversation_id": "todo-capture"},
    {"prompt": "Where is the medlar?", "reply": "At the wall.", "timestamp": 1738439430, "conversation_id": "trees"},
    {"prompt": "Which one is the oldest?", "reply": "The quince by the gate.", "timestamp": 1738439440},
]


def main(folder: Path) -> None:
    path = folder / "agent_memory.json"
    path.write_text(json.dumps({"history": HISTORY})[:-30], encoding="utf-8")  # as after a crash during the write

    with AgentMemory(folder / "agent.db") as memory:
        trail = memory.audit
        report = trail.import_document(path)
        print(f"{report.added} entries added, {len(report.lost)} lost:", *report.lost)
        print("a copy of the damaged file is kept:", report.copy_path is not None)
        print(f"once more: {trail.import_document(path).added} are new")

        print("--- the same calls as before")
        trail.add("Is it ripe?", "In October.", conversation_id="trees")
        print([entry.prompt for entry in trail.last(5, conversation_id="trees")])
        print("hidden:", [(e.prompt, e.junk) for e in trail.last(9, include_junk=True) if e.junk])
        [todo] = trail.todos()
        print("to be done:", todo.prompt, f"({todo.created_at:%d %B %Y})")
        trail.complete(todo.id)

        print("--- and what the file could not do")
        print("found:", trail.search("wall tree medlar")[0].value.reply)
        print("nothing was changed:", trail.verify().ok)
        print(trail.export_document(folder / "back.json"), "entries written back")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary:
        main(Path(temporary))
