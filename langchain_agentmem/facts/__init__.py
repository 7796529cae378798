"""Facts: statements with subject, predicate and object, the period in which they held, and their sources.

A fact is stored as the list of events that state it (`fact`). The period in which it held is computed from the facts
with the same subject and predicate, and is never stored. Messages are stored unchanged, and queued for extraction in
the same transaction.

Begin reading in `kg_memory`: `KGMemory` has every method. It reads and writes rows through `fact_store`, answers
queries through `fact_reader`, and extracts facts through `fact_extraction`. `fact_tools` contains the tools and the
node for agents, `fact_part` the functions for search, verification and files.

This folder may import `base`, `messages`, `tracing`, `storage`, `threads`, `search`, `rewinding`, `conversations` and
`language_models`.

A fact is a row on a branch. It is rewound, forked, erased, exported and searched like all other memory. The keys of its
subject and object are columns. The rest is a list of *events*: statements with role, time and period, and corrections.
No event is ever overwritten. `fact.compute_state` computes the fact as it is known now, or as it was known at some
time. A correction is undone by another event. An erased message is removed from every version that depends on it
(`rewinding/message_sources.py`; the table `memory_source` finds these versions).

If a new value ends an old one, the end is not stored. `fact.apply_endings` computes it from all values of the same
subject and predicate: a fact without a stated end ends when the next lasting value begins. Other systems write the end
into the old fact. They must repair it when facts arrive late, a message is erased, names are merged or unmerged, a
predicate is declared single-valued, or a thread is rewound. Here none of these needs a repair, and the computation
costs one look-up by subject and predicate.

A row that depends on several messages, such as an unusable answer of a model, is removed with any of them. If removing
a version would make an older one visible, on a fork or before a checkpoint, a row that marks the removal replaces it.

An added message is stored with a row that marks it as pending. An extraction stores the facts of a batch and deletes
these rows in one transaction, so a crash or a concurrent extraction does no harm. The lease only decides which process
calls the model. If a model does not report the message of a fact, it gets one message at a time.
"""
