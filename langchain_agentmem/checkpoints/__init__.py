"""LangGraph's checkpointer over the thread log.

Begin with `checkpoint_saver`, which is LangGraph's `BaseCheckpointSaver`. `checkpoint_codec` stands between its values
and the log of threads: what a config names, how values are serialized, which classes are imported, and how a checkpoint
of another saver is taken apart. `checkpoint_listing` gives `list` and `history` a page at a time, `rewind_follower` has
memory and traces follow each call, and `saver_import` copies the threads of other savers.

Imports base, language_models, messages, storage, threads, rewinding and tracing, and LangGraph.
"""
