"""The state of LangGraph threads: checkpoints that store only what changed.

This folder may import `storage` and the folders below it. Begin with `checkpoint_log.py` (put, get, list) and
`value_store.py` (recipes of values, and the store of their parts).

A thread has *checkpoint namespaces* (`ns`): the root, and one for each call of a subgraph. The parts of its values are
in a *part store*, numbered in the order of insertion. A copy of a thread shares the part store. A part is one of
these: a message, with the same body that a conversation would store; a chunk of a long list or dictionary; or the
serializer's output for any other value. A value is a *recipe*: ranges of parts in the store, with small values inline,
and, for dictionaries and `Send`, recipes within recipes.

- Appending to a list of any length adds its new parts and one recipe of about ten bytes. Edits and removals split a
  range. If a list has more than 64 ranges, the 32 neighbouring ranges with the fewest parts are copied in the store to
  form one range. A copied part refers to the same bytes. Lists without messages are cut into chunks at boundaries that
  the checksum of an element determines, so an insertion changes only the chunk around it.
- There are two series of part numbers. Lists in channels use the first series, so they stay one range even if many
  tasks write in parallel. Task writes and everything else use the second.
- A checkpoint is a row with its channel versions as JSON, and a header (everything else except values). A value is a
  row with the key that LangGraph uses: checkpoint namespace, channel and version. Later checkpoints and forks
  therefore share unchanged values. Reading a checkpoint takes at most six queries, however long its history.
- A pending write may arrive before its checkpoint, so its row has no foreign key to the checkpoint. LangGraph's special
  writes, such as errors, have negative indexes and replace earlier ones. For other writes, the first one is kept.
- Headers, metadata, recipes and parts carry checksums, since LangGraph's serializer turns some damage into None.
  Unreadable data raises `CheckpointUnreadable` with the thread and checkpoint.
- Removed checkpoints leave values and parts behind. A *sweep* deletes the values that no checkpoint has, the parts that
  no value needs, and the contents without references. It runs after every 32 removals, and immediately for `prune` and
  deletions. `sweep_count` counts the sweeps that deleted parts. If it has changed, a process checks the part numbers
  that it has cached. Every removal locks the part store first, which prevents deadlocks.
- A thread belongs to the memory namespace of the run that created it. LangGraph's own tools know only thread ids. A
  call without a namespace therefore refers to the thread of that id in the root, else to the only thread of that id.

There are two caches. A message that was read or stored has a *stamp* with its part number, in the set in which pydantic
records the explicitly set fields. When a checkpoint is put, each message is compared with its stamp, usually by one
comparison of lists, and changed messages are serialized again. Recently read messages are cached as *prototypes*, and
callers receive copies. Parts never change, so prototypes cannot be stale. The cached prototypes use at most 32 MB.

`put` and `put_writes` call functions of `rewinding` in their transaction, which record the memory that is visible at
the checkpoint. The saver's calls are not traced, since there are many.
"""
