"""Facts: what was true when, as subject, predicate and object with a period and its sources.

A fact is the list of events that state it (`fact`). The period in which it held is computed from the facts about
the same thing and is never stored. Messages are kept as they are and wait until a model has extracted their facts, in
the transaction that kept them.

Begin reading in `kg_memory`: `KGMemory` has every method. It reads and writes rows through `fact_store`, answers
queries through `fact_reader`, and learns through `fact_extraction`. `fact_tools` has the tools and the node for agents,
`fact_part` the functions for search, verification and files.

This folder may import `base`, `messages`, `tracing`, `storage`, `threads`, `search`, `rewinding`, `conversations` and
`language_models`.

A fact is a row on a branch, so it rewinds, forks, and is erased, exported and found like all other memory. The keys of
its subject and object are columns; the rest is a list of *events*: who stated it, when it was learned, since when it
held, who corrected it. No event is ever overwritten, and `fact.state` computes what is known, or was known at some
time. So a correction is undone by another event, and a message that is erased is removed from every version that rests
on it (`rewinding/message_sources.py`; `memory_source` finds these versions).

The end of an old value by a new one is not stored. `fact.endings` computes it from all values of the same thing: a fact
without a stated end ends when the next lasting value begins. Other systems write the end into the old fact, and must
then repair it when facts arrive late, when a message is erased, names are merged or parted, a predicate is declared to
have one value, or a thread is rewound. Here none of these needs a repair, and the computation costs one look-up by
subject and predicate.

A row made of several messages, such as a model's answer that could not be used, is removed with any of them. If
removing a version would uncover an older one, on a fork or before a checkpoint, the version is buried: it stays as a
row that marks the removal.

An added message is kept with a row that marks it as waiting. An extraction keeps the facts of a batch and deletes these
rows in one transaction, so crashes and rivals do no harm; the lease is only the right to ask the model.
A model that does not say which message a fact comes from is shown one message at a time.
"""
