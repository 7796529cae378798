"""Memory that follows the thread: the rows on branches, and what a checkpoint shows of them.

It may import `language_models`, `search`, `threads` and the packages below them. Begin with `memory_rows.py`
(versions and views), then `graph_runs.py` and `sealing.py` (what a checkpoint shows), `thread_memory.py` and
`branches.py` (the two standpoints).

Everything that can be rewound is a row of `memory`, known by kind and key: core memory, events, records, items of a
thread, rounds and posts of its session. Of each key, the newest version that a *view* shows counts; a version that
marks the key as deleted hides it. A view is a *line*, branches each up to a position, and *groups* of rows that have no
place yet.

- A row lies on its branch from `position` up to but without `until`, where the branch's next version begins. So the
  rows that count at the end of a branch are a range of an index, however many versions came before. A past view needs
  one more comparison. A line is resolved by one recursive query. A fork is one row.
- A named branch (`memory.layers("user-42")`) gives rows their position immediately. Versions that no fork can
  see are deleted immediately.
- Each execution of a graph's task writes to a group of its own. The group's number is random, so that it needs no
  transaction. It belongs to its run, by a token that no other run has. A retry replaces the writes of its own run's
  former attempt, and no others, so two runs of one step, in threads or processes, keep theirs until their checkpoints
  are put. A group that ended without a result, or was left a day ago, is deleted when the task is executed again.
  Writes for an execution that is over raise `StepIsOver`, and create no group again. The saver seals the groups that
  led to a checkpoint in the transaction that puts it, and notes the checkpoint's *place*: branch and position. Without
  anything to seal, the checkpoint shares its parent's place. If something lies behind that place already, a branch
  begins there. A group that is sealed on a second branch is copied, rows without bodies. That is rare except for
  subgraphs, whose groups lie on the subgraph's branch and on that of the graph around it.
- The process that runs the graph knows which groups led to a checkpoint (`graph_runs.py`). Of earlier runs, the
  database keeps the tasks that finished, with their groups. Of these tasks, those count whose results LangGraph found
  with the checkpoint and took; only its own loop knows that it took one (`checkpoints/rewind_follower.py`). If two runs
  finish a task at the same time, LangGraph keeps the first result, and so the first one's memory is the finished one.
  A run is known by an identity in its configs, which its tasks and its saver's calls share. It stays in the thread that
  its saver loaded, though its config names the thread's id alone. Rules and reasons: the docstrings of `graph_runs.py`
  and `sealing.py`.
- LangGraph does not report attempts that fail, so a callback does (`checkpoints/rewind_follower.py`). It finds the run
  that made the attempt by the graph's own run of LangChain, since task ids are equal in copied threads and in steps
  that are run twice.
- `delete_for_runs` also removes what a run wrote towards the checkpoints of others, with the memory that belongs to it.
- A subgraph's branch notes its base: the checkpoint around it, by id, which decides whether the branch goes on; that
  checkpoint's place as it was known then; and what the tasks around had written.
- A subgraph that keeps its state (`checkpointer=True`) continues from its own checkpoint under any other around it. Its
  new branch repeats what that checkpoint showed and the new one around it does not. The thread gets it when the
  subgraph ends. A branch of the thread that thus begins with older things has a base without a place: it is no newer
  than the branch it was forked from.
- Expiry is judged at the time of the view's checkpoint, which is part of its id, so a node and its past view agree.
- Rows that no remaining place, fork or subgraph can see are deleted when checkpoints are removed.

Differences from the rules that were found by experiment (they were true of an in-memory prototype, and a stricter
oracle found more cases; `tests/rewinding/` holds them): calls of a former attempt of the same run no longer count;
the levels around a task are those keys of LangGraph's `checkpoint_map` that match its name, the last of each depth,
since stateful subgraphs have names without task ids; a subgraph that is called by a function carries what all its
callers wrote; parallel nodes of such a subgraph do not see each other; called functions count on a resume even if
their caller never asks for memory.

The layers themselves (`layers/`) work on a *standpoint*, a named branch or a thread's view, and do not know which.
"""
