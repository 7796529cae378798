"""The state of LangGraph threads: checkpoints that cost only what changed.

It may import `storage` and what is below. Begin with `checkpoint_log.py` (put, get, list) and `value_store.py`
(recipes of values, and the shelf of their parts).

A thread has *lines* of checkpoints: its own, and one for each call of a subgraph. It keeps the parts of its values on a
*shelf*, where they are numbered in the order in which they came; a copy of a thread shares the shelf. A part is a
message (its body is the very content that a conversation would store), a chunk of a long list or dictionary, or
whatever the serializer wrote of anything else. A value is a *recipe*: ranges of the shelf, with small things written
out, and, for dictionaries and `Send`, recipes within recipes.

- Appending to a list of any length adds its new parts and one recipe of some ten bytes. Edits and removals cut a range
  in two. A list of more than 64 ranges has the lightest half of them put on the shelf once more, as one; only
  references are written. Ordinary lists are cut into chunks where an element's own checksum says so, so that an
  insertion changes the chunk it falls into and no other.
- There are two rows of numbers. Channels that are lists use the first, so that they stay one range however many tasks
  write in parallel; what tasks write, and everything else, uses the second.
- A checkpoint is a row with its channels' versions as JSON, and a head (everything else but the values). A value is a
  row by line, channel and version, as LangGraph identifies it, which also carries values that did not change to the
  next checkpoint, through forks and `__copy__`. Reading a checkpoint takes six queries, whatever its history.
- Writes may come before their checkpoint, so nothing refers from one to the other. Special writes have places below
  zero, and replace; of the others the first one counts.
- Heads, metadata, recipes and parts carry checksums, since LangGraph's serializer turns some damage into None. What
  cannot be read raises `CheckpointUnreadable`, which names thread and checkpoint.
- Removing checkpoints leaves *litter*; every 32 removals, or at once for `prune` and the deletes, a sweep takes away
  the values that no checkpoint has, the parts that no value needs and the contents that nothing refers to. `swept`
  counts the sweeps that took parts, so that no process trusts numbers that it remembers from before without a look.
  Whoever removes anything holds the shelf first, so that no two of them wait for each other.
- A thread belongs to the namespace of the run that made it. A call that names no namespace means the root's thread of
  that id, else the only one there is, since LangGraph's own tools know thread ids only.

Two things make it quick, and neither is ever trusted without a look. A message that was read or stored carries a
*stamp* on the set in which pydantic notes the given fields; a checkpoint that is put compares each message with what
its stamp says was stored, in one comparison of lists for the usual case, and writes out anew what differs. And messages
that were read lately are kept as *prototypes* of which copies are handed out; parts never change, so they cannot be
stale, and at most 32 MB of them are kept.

What else has to happen with a call of the saver happens in its transaction: memory that rewinds is sealed there. The
saver's calls are no steps of a trace, since there are many.
"""
