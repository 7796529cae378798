"""Facts: what was true when, as subject, predicate and object with a period and its sources.

A fact is the list of events that told of it (`fact_events`); from when to when it held is computed from the facts
about the same thing and is never stored. Messages are kept as they are and wait until a model has extracted their
facts, in the transaction that kept them.

Begin reading in `kg_memory`: `KGMemory` lists every verb. Each is a function `…_work` in `fact_commands` (changes),
`fact_queries` (questions) or `fact_graph` (entities and pictures). They stand on a `FactsGround` (`fact_extraction`),
read and write rows through `fact_store`, and keep messages through `source_texts`. `fact_tools` has the tools and the
node for agents, `fact_part` what search, upkeep and merging of branches know of facts.

This folder may import `base`, `messages`, `tracing`, `storage`, `threads`, `search`, `rewinding`, `conversations` and
`language_models`.
"""
