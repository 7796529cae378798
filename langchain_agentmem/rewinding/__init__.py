"""Memory that follows the thread: what lies on branches, and what a checkpoint shows of it.

It may import `language_models`, `search`, `threads` and what is below. Begin with `memory_rows.py` (versions and
views), then `graph_runs.py` and `sealing.py` (what a checkpoint shows), `thread_memory.py` and `branches.py`
(the two standpoints).

Everything that can be rewound is a row of `memory`, known by kind and key: core memory, events, records, items of a
thread, rounds and posts of its session. Of a key the newest version counts that a *view* shows; one that says that it
is gone hides it. A view is a *line*, branches each up to a position, and *groups* of rows that have no place yet.

- A row lies on its branch from `position` up to but without `until`, where the branch's next version begins. So what
  counts at the end of a branch is a range of an index, however many versions came before, and a past view is a
  comparison more. A line is resolved by one recursive query. A fork is one row.
- A named branch (`memory.layers("user-42")`) gives rows their position at once. Versions that no fork can see go at
  once.
- What a task of a graph writes is a group, one for each execution, whose number is drawn by lot, so that it needs no
  transaction. It belongs to its run, by a token that no other run has: a retry replaces what its own run's former
  attempt wrote, and nobody else's, so two runs of one step, in threads or processes, keep theirs until their
  checkpoints are put. What ended without a result, or was left a day ago, goes when the task is executed again. Whoever
  writes for an execution that is over gets `StepIsOver`, and no group is made again. The saver seals the groups that
  led to a checkpoint in the transaction that puts it, and notes the checkpoint's *place*: branch and position. Nothing
  to seal, and the checkpoint shares its parent's place; something behind the place already, and a branch begins there.
  A group that is sealed on a second branch is copied, rows without bodies: that is rare but for subgraphs, whose groups
  lie on the subgraph's branch and on that of the graph around it.
- Which groups led to a checkpoint is known to the process that runs the graph (`graph_runs.py`), and what it must know
  of earlier runs is kept: tasks that finished, with their groups. Of these count the ones whose results LangGraph found
  with the checkpoint and took; that it took one, only its own loop knows (`checkpoints/rewind_follower.py`). Of two
  runs that finish a task at once, LangGraph keeps the first result, and so the first one's memory is the finished one.
  A run is known by an identity in its configs, which its tasks and its saver's calls share. It stays in the thread that
  its saver loaded, though its config names the thread's id alone. Rules and reasons: the docstrings of `graph_runs.py`
  and `sealing.py`.
- LangGraph says nothing of attempts that fail, so a callback does (`checkpoints/rewind_follower.py`); it is led to the
  run that made the attempt by the graph's own run of LangChain, since task ids are equal in copied threads and in steps
  that are run twice.
- `delete_for_runs` takes what a run wrote towards the checkpoints of others, too, and what it remembered with that.
- A subgraph's branch notes what it stands on: the checkpoint around it, by id, which decides whether it goes on; that
  checkpoint's place as it was known then; and what the tasks around had written.
- A subgraph that keeps its state (`checkpointer=True`) goes on from its own checkpoint under any other around it. Its
  new branch holds once more what that checkpoint showed and the new one around it does not. The thread gets it when the
  subgraph ends. A branch of the thread that so begins with older things has a base without a place: it is no newer than
  what it was forked from.
- Expiry is judged at the time of the view's checkpoint, which its id tells, so a node and its past view agree.
- What no remaining place, fork or subgraph can see is swept when checkpoints are removed.

What differs from the rules that were found by experiment (they were true of an in-memory prototype, and a stricter
oracle found more cases; `tests/rewinding/` holds them): what a former attempt of the same run called counts no more;
the levels around a task are those keys of LangGraph's `checkpoint_map` that match its name, the last of each depth,
since stateful subgraphs have names without task ids; a subgraph that is called by a function carries what all its
callers wrote; parallel nodes of such a subgraph do not see each other; what was called counts on a resume even if its
caller never asks for memory.

The layers themselves (`layers/`) work on a *standpoint*, a named branch or a thread's view, and do not know which.
"""
