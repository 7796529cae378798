"""Memory that follows the thread: versioned rows on branches, and what each checkpoint shows of them.

It may import `language_models`, `search`, `threads` and the packages below them. Begin with `memory_rows.py` (versions
and views). Then read `graph_runs.py` and `sealing.py` (what a checkpoint shows), and `thread_memory.py` and
`branches.py` (the two kinds of memory position).

Everything that can be rewound is a row of the table `memory`, identified by kind and key: core memory, events, records,
facts, items of a thread, rounds and posts of its session. A *view* shows the newest version of each key. A version that
marks the key as deleted hides it. A view consists of a *lineage* and of *groups*. A lineage is a list of branches, each
up to a position. A group holds rows that have no place on a branch yet.

- A row is visible on its branch from `position` up to, but not including, `until`, where the branch's next version of
  the key begins. So the current rows at the end of a branch are one range of an index, whatever the number of earlier
  versions. A past view needs one more comparison. One recursive query resolves a lineage. A fork is one row.
- A write to a named branch (`memory.layers("user-42")`) gets its position immediately. Versions that no fork can see
  are deleted immediately.
- Each execution of a graph's task writes to a group of its own. The group's number is random, so choosing it needs no
  transaction. A token that no other run has ties the group to its run. A retry replaces the writes of the earlier
  attempt in its own run only. So two runs of one step, in threads or processes, keep their writes until their
  checkpoints are put.
- A group that ended without a result, or is older than a day, is deleted when the task is executed again. A write for
  an execution that is over raises `StepIsOver` and does not create the group again.
- The saver seals the groups that led to a checkpoint in the transaction that puts it. It records the checkpoint's
  *place*: branch and position. If there is nothing to seal, the checkpoint shares its parent's place. If the branch
  continues after that place already, a new branch begins there.
- A group that is sealed on a second branch is copied, as rows without bodies. Such copies are rare except for
  subgraphs, whose groups lie on the subgraph's branch and on that of the graph around it.
- The process that runs the graph knows which groups led to a checkpoint (`graph_runs.py`). For earlier runs, the
  database stores the finished tasks with their groups. Only those tasks apply whose results LangGraph found with the
  checkpoint and reused; only LangGraph's own loop knows that it reused one (`checkpoints/rewind_follower.py`). If two
  runs finish a task at the same time, LangGraph keeps the first result, so the memory of the first run applies.
- A run is known by an identity in its configs, which its tasks and its saver's calls share. It stays in the thread that
  its saver loaded, even if its config names only the thread's id. The docstrings of `graph_runs.py` and `sealing.py`
  give the rules and reasons.
- LangGraph does not report failed attempts, so a callback does (`checkpoints/rewind_follower.py`). It finds the run of
  the attempt by LangChain's run of the graph. Task ids do not identify it: they are equal in copied threads and in
  steps that run twice.
- `delete_for_runs` also removes what a run wrote towards the checkpoints of other runs, with the memory of those
  writes.
- A subgraph's branch records its base: the id of the checkpoint around it, that checkpoint's place as known then, and
  the groups that the tasks around it had written. The id decides whether the branch continues.
- A subgraph that keeps its state (`checkpointer=True`) continues from its own checkpoint under any outer checkpoint.
  Its new branch repeats the groups that its checkpoint showed and the new outer checkpoint does not. The thread
  receives them when the subgraph ends. If a branch of the thread begins with such older groups, its base has no place:
  the branch is not newer than the branch it was forked from.
- Expiry is judged at the time of the view's checkpoint, which is part of its id. So a node and its past view agree.
- When checkpoints are removed, rows that no remaining place, fork or subgraph can see are deleted.

Experiments with a stricter oracle corrected rules of an in-memory prototype; `tests/rewinding/` covers the corrections.

- Calls of an earlier attempt of the same run no longer apply.
- The levels around a task are the keys of LangGraph's `checkpoint_map` that match its name. The last key of each depth
  applies, since stateful subgraphs have names without task ids.
- A subgraph that a function calls carries the writes of all its callers.
- Parallel nodes of such a subgraph do not see each other.
- Called functions apply on a resume even if their caller never uses memory.

The layers (`layers/`) work on a *memory position*, a named branch or a thread's view, and do not know which.
"""
