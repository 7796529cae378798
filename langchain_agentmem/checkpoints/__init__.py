"""LangGraph's checkpointer on top of the thread log.

Begin with `checkpoint_saver`, which implements LangGraph's `BaseCheckpointSaver` and imports the threads of other
savers. `checkpoint_codec` converts between LangGraph's values and the log: it parses configs, serializes values, and
decides which classes are imported. `checkpoint_listing` returns `list` and `history` a page at a time.
`rewind_follower` reports each call to memory and traces.

It may import `base`, `language_models`, `messages`, `storage`, `threads`, `rewinding`, `tracing` and LangGraph.
"""
