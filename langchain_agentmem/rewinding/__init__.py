"""Memory that follows the thread: versioned rows on branches, and the rows that each checkpoint shows.

The package may import `language_models`, `search`, `threads` and the packages below them. Begin with `memory_rows.py`
(versions and views). Then read `graph_runs.py` and `sealing.py` (the memory that a checkpoint shows), and
`thread_memory.py` and `branches.py` (the two kinds of memory position). The layers (`layers/`) use both kinds alike.

Everything that can be rewound is a row of the table `memory`, identified by kind and key: core memory, events, records,
facts, and a thread's messages, items, rounds and posts. A *view* shows the newest version of each key. If that version
is a deletion mark, the view shows no entry. A view consists of a *lineage* and of *groups*. A lineage is a list of
branches, each up to a position. A group holds rows that have no position on a branch yet.

- A row is visible on its branch from `position` up to, but not including, `until`, where the branch's next version of
  the key begins. So the current rows at the end of a branch are one range of an index, whatever the number of earlier
  versions. A past view needs one more comparison. One recursive query returns a lineage. A fork is one row.
- A write to a named branch (`memory.layers("user-42")`) gets its position immediately, and versions that no fork can
  see are deleted.
- Each execution of a graph's task writes to a group of its own. The group's number is random, so choosing it needs no
  transaction. Each group is stored with the random token of its run. A retry replaces the groups of earlier attempts in
  its own run only. So two runs of one step, in threads or processes, keep their writes until their checkpoints are put.
- A group that ended without a result, or is older than a day, is deleted when the task is executed again. A write for
  an execution that is over raises `StepIsOver` and does not create the group again.
- The transaction that puts a checkpoint *seals* the groups that led to it: their rows get a position. The checkpoint's
  *place* is this branch and position. If there is nothing to seal, the checkpoint shares its parent's place. Otherwise,
  if the parent's branch already has later positions, a new branch begins at the parent's place.
- A group that is sealed on a second branch is copied, as rows without bodies. Most copies come from subgraphs: their
  groups are sealed on the subgraph's branch and on the branch of the graph that called it.
- The process that runs the graph knows which groups led to a checkpoint (`graph_runs.py`). For earlier runs, the
  database stores the finished tasks with their groups. These groups are sealed only if LangGraph reuses the stored
  results of the tasks (`checkpoints/rewind_follower.py`). If two runs finish a task at the same time, LangGraph keeps
  the first result, so the groups of the first run are sealed.
- A run has an identity in its config, which LangGraph copies to the configs of its tasks and saver calls. The run stays
  in the thread that its saver loaded, even if its config names only the thread's id.
- LangGraph does not report failed attempts, so a callback handler does (`checkpoints/rewind_follower.py`). It finds the
  run of an attempt by LangChain's run of the graph. Task ids do not identify the run: they are equal in copied threads
  and in steps that run twice.
- `delete_for_runs` also deletes pending writes that the runs stored under checkpoints of other runs, and the memory of
  the tasks that wrote them.
- A subgraph's branch records its *base*: the id of the outer graph's checkpoint, the place of that checkpoint when the
  branch began, and the groups that the calling task had written. A call under another checkpoint uses another branch.
- A subgraph that keeps its state (`checkpointer=True`) continues from its own checkpoint under any outer checkpoint.
  Its new branch repeats the groups that its own checkpoint shows and the new outer checkpoint does not. The thread
  receives these groups when the subgraph ends. Then rows of a fork may be older than rows of its parent branch. Such a
  fork has a base without a place.
- The time of a view is the time in its checkpoint's id. So a task and a later view of its checkpoint agree on which
  entries have expired.
- When checkpoints are removed, rows that no remaining place, fork or subgraph can see are deleted.

LangGraph's behaviour requires some rules that are not obvious (`tests/rewinding/` covers them):

- The functions (LangGraph's `@task`) that an earlier attempt called do not apply to later attempts of the same run.
- The loops around a task are the keys of LangGraph's `checkpoint_map` that match its name. Of several keys with the
  same depth, the last one applies, since subgraphs that keep their state have names without task ids.
- A subgraph that a function calls sees and seals the writes of all its callers.
- Parallel nodes of such a subgraph do not see each other's writes.
- If LangGraph reuses the result of a function, the memory of the function applies, even if the caller uses no memory.
"""
