"""The memory of langchain-agentmem as a backend of deepagents: its files rewind with the thread, its memories stay.

    with AgentMemory("agent.db") as memory:
        agent = create_deep_agent(
            model, backend=AgentMemoryBackend(memory), checkpointer=memory.checkpointer, memory=["/memories/AGENTS.md"]
        )

A path says whose a file is:

- Below `/memories/` and `/skills/` it is *shared*: by all threads of the namespace, and by every process with this
  database. It is no part of any checkpoint, so going back to one does not change it.
- Everything else is the *thread's*, as the agent's messages are: its working files, and what deepagents puts away in
  `/large_tool_results/`, `/conversation_history/` and `/blobs/`. Who goes back to a checkpoint has the files of then, a
  fork has its own, and what subagents write is there for those who called them.

The namespace is that of the run, `config["configurable"]["agentmem_namespace"]`, unless the backend was given one; no
path leads out of it. `memory.search` finds the texts of files, and `backend.at(config)` shows those of a checkpoint.

What deepagents' own backends answer, this one answers, to the word. Where they differ among themselves it does as
`StateBackend`, but for paths that name no file: `..`, relative ones, and those with control characters are refused. The
awaited methods are the protocol's: each runs its twin in a thread.
"""

from langchain_agentmem_deepagents.backend import SHARED, AgentMemoryBackend
from langchain_agentmem_deepagents.files import ENTRIES, FILES

__all__ = ["ENTRIES", "FILES", "SHARED", "AgentMemoryBackend"]
