"""LangGraph's checkpointer over the thread log.

Begin with `checkpoint_saver`, which is LangGraph's `BaseCheckpointSaver`, and copies the threads of other savers.
`checkpoint_codec` converts between its values and the log of threads: it reads configs, serializes values, and decides
which classes are imported. `checkpoint_listing` returns `list` and `history` a page at a time. `rewind_follower` makes
memory and traces follow each call.

Imports base, language_models, messages, storage, threads, rewinding and tracing, and LangGraph.
"""
