"""A file backend for deepagents: working files rewind with the thread, memories are shared.

    with AgentMemory("agent.db") as memory:
        agent = create_deep_agent(
            model, backend=AgentMemoryBackend(memory), checkpointer=memory.checkpointer, memory=["/memories/AGENTS.md"]
        )

The path of a file decides who can use it:

- Files below `/memories/` and `/skills/` are *shared* by all threads of the namespace, and by every process with this
  database. They belong to no checkpoint, so a rewind does not change them.
- All other files belong to the *thread*, like the agent's messages: its working files, and the files that deepagents
  writes to `/large_tool_results/`, `/conversation_history/` and `/blobs/`. A rewind to a checkpoint restores the files
  of that checkpoint. A fork has its own files. Callers see the files that their subagents write.

The namespace is that of the run, `config["configurable"]["agentmem_namespace"]`, or the argument of the backend. No
path can leave the namespace. `memory.search` finds the texts of files, and `backend.at(config)` returns the files of a
checkpoint.

Results and errors are worded exactly as those of deepagents' own backends. If these differ, this backend follows
`StateBackend`, except for invalid paths: relative paths, `..` and control characters are refused. The async methods are
those of the protocol: each runs the sync method in a thread.
"""

from langchain_agentmem_deepagents.backend import SHARED, AgentMemoryBackend
from langchain_agentmem_deepagents.files import ENTRIES, FILES

__all__ = ["ENTRIES", "FILES", "SHARED", "AgentMemoryBackend"]
