"""LangGraph's checkpointer over the thread log.

Begin with `checkpoint_saver`, which is LangGraph's `BaseCheckpointSaver`, and copies the threads of other savers.
`checkpoint_codec` stands between its values and the log of threads: what a config names, how values are serialized, and
which classes are imported. `checkpoint_listing` gives `list` and `history` a page at a time, and `rewind_follower` has
memory and traces follow each call.

Imports base, language_models, messages, storage, threads, rewinding and tracing, and LangGraph.
"""
