"""Facts: statements with subject, predicate and object, the period in which they hold, and their source messages.

Begin reading in `kg_memory`: `KGMemory` has every public method. It reads and writes rows through `fact_store`, answers
queries through `fact_reader`, and extracts facts from messages through `fact_extraction`. `fact_tools` contains the
tools and the graph node for agents, `fact_part` the functions for search, verification and exported files.

This folder may import `base`, `messages`, `tracing`, `storage`, `threads`, `search`, `rewinding`, `conversations` and
`language_models`.

A fact is a row on a branch. It is rewound, forked, erased, exported and searched like all other memory. Its subject,
predicate and object are indexed columns. A JSON column contains a list of *events*: the statements of the fact, each
with role, time and period, and the corrections. No event is ever overwritten. `fact.compute_state` computes the fact
as it is known now, or as it was known at an earlier time. To undo a correction, another event is added. When a message
is erased, its statements are removed from all stored versions of all facts (`rewinding/message_sources.py`).

If a new value ends an old one, the end is not stored. `fact.apply_endings` computes the end from all values of the
same subject and predicate: a fact without a stated end ends when the next such value begins. Other systems write the
end into the old fact. They must repair the end when facts arrive late, a message is erased, names are merged or
unmerged, a predicate is declared single-valued, or a thread is rewound. A computed end needs no repair. It costs one
query by subject and predicate.

An added message is stored with a row that marks it as pending. An extraction stores the facts of a batch and deletes
these rows in one transaction, so a crash or a concurrent extraction loses and duplicates no fact. A lease decides which
process calls the model. If the answer does not name the message of a fact, the messages are sent again one at a time.

Some rows depend on several messages, such as a stored answer that cannot be used. Erasing any of the messages deletes
the row.
"""
