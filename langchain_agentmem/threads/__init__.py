"""The state of LangGraph threads: checkpoints that store only what changed.

It may import `storage` and the packages below it. Begin with `checkpoint_log.py` (put, get, list) and `value_store.py`
(recipes of values, and the store of their parts).

A thread has *checkpoint namespaces* (`ns`): its own, and one for each call of a subgraph. It keeps the parts of its
values in a *part store*, numbered in the order of insertion. A copy of a thread shares the store. A part is one of
these: a message, with the same body that a conversation would store; a chunk of a long list or dictionary; or the
serializer's output for any other value. A value is a *recipe*: ranges of parts in the store, with small values inline,
and, for dictionaries and `Send`, recipes within recipes.

- Appending to a list of any length adds its new parts and one recipe of about ten bytes. Edits and removals split a
  range. If a list has more than 64 ranges, the 32 neighbouring ranges with the fewest parts are copied in the store to
  form one range. A copy writes only references. Ordinary lists are cut into chunks at boundaries that an element's own
  checksum determines. So an insertion changes only the chunk around it.
- There are two number series. Lists in channels use the first series, so they stay one range even if many tasks write
  in parallel. Task writes and everything else use the second.
- A checkpoint is a row with its channel versions as JSON, and a head (everything else except the values). A value is a
  row by namespace, channel and version, LangGraph's own identification. So unchanged values carry over to later
  checkpoints, through forks and `__copy__`. Reading a checkpoint takes six queries, whatever its history.
- Writes may arrive before their checkpoint, so neither refers to the other. Special writes have indexes below zero, and
  replace earlier ones; of the others the first one applies.
- Heads, metadata, recipes and parts carry checksums, since LangGraph's serializer turns some damage into None.
  Unreadable data raises `CheckpointUnreadable` with the thread and checkpoint.
- Removed checkpoints leave values and parts behind. A sweep deletes the values that no checkpoint has, the parts that
  no value needs, and the contents without references. It runs after every 32 removals, and immediately for `prune` and
  the deletes. `sweep_count` counts the sweeps that deleted parts, so that no process trusts remembered part numbers
  without a check. Every removal locks the part store first, which prevents deadlocks.
- A thread belongs to the namespace of the run that created it. LangGraph's own tools know only thread ids. A call
  without a namespace therefore refers to the root's thread of that id, else to the only thread of that id.

Two caches make it fast; neither is used without a check. A message that was read or stored carries a *stamp* on the set
in which pydantic records the given fields. When a checkpoint is put, each message is compared with its stamp, usually
by one comparison of lists, and changed messages are serialized again. Recently read messages are cached as
*prototypes*, and callers receive copies. Parts never change, so prototypes cannot be stale; they use at most 32 MB.

Further steps of a saver's call run in its transaction: memory that rewinds is sealed there. The saver's calls are not
traced steps, since there are many.
"""
