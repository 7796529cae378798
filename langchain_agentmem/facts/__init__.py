"""Facts: what was true when, as subject, predicate and object with a period and its sources.

A fact is the list of events that told of it (`fact`); from when to when it held is computed from the facts about
the same thing and is never stored. Messages are kept as they are and wait until a model has extracted their facts, in
the transaction that kept them.

Begin reading in `kg_memory`: `KGMemory` has every method. It reads and writes rows through `fact_store`, asks through
`fact_reader`, and learns through `fact_extraction`. `fact_tools` has the tools and the node for agents, `fact_part`
what search and upkeep know of facts.

This folder may import `base`, `messages`, `tracing`, `storage`, `threads`, `search`, `rewinding`, `conversations` and
`language_models`.

A fact is a row on a branch, so it rewinds, forks, and is erased, exported and found as everything else that is
remembered. Its subject and object, as they are compared, stand in columns; the rest is a list of *events*: who said so,
when we learned it, since when it held, who corrected it. Nothing of that is ever overwritten, and `fact.state`
makes of it what is known, or was known at some time. So a correction is undone by another event, and a message that is
erased is taken out of every version that rests on it (`rewinding/message_sources.py`; `memory_source` says which those
are).

That a new value ended an old one is stored nowhere. `fact.endings` finds it out from all values of the same
thing: a fact that nobody gave an end ends where the next value begins that was said to last. Other systems write the
end into the old fact, and must then repair it when facts arrive late, when a message is erased, names are merged or
parted, a predicate is declared to have one value, or a thread is rewound. Here all of that is right by itself, and
costs one look-up by subject and predicate.

What was made of several messages, such as a model's answer that could not be used, goes
with any of them. Where a version that is taken away would uncover an older one, on a fork
or before a checkpoint, it is buried: it stays as a row that says that the thing is gone.

What is added is kept with a row that says that it waits. Whoever extracts keeps the facts of a batch and deletes these
rows in one transaction, so crashes and rivals can do no harm; the lease is only the right to ask the model.
A model that does not say which message a fact comes from is shown one message at a time.
"""
