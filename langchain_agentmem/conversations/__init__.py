"""Conversations of messages and sessions of rounds: two views of one append-only log.

Begin with `message_log`, which reads and writes the entries of the log, and `conversation_memory`, which calls it.
`log_entries` converts a message or a round to an entry of the log and back. `session_memory` is the view of rounds
between roles. It also has the log of a session that rewinds with its thread, and the summaries of a role's rounds.
`log_memory` has the common parts of both views: traced operations, events and files. `recorded_messages` adds the
messages of checkpoints to the log. `conversation_part` connects messages with search, upkeep and export.
`compaction_records` reads and writes the results of compactions. `prompt_notes` reads and writes the notes on memory
in prompts.

Imports base, language_models, messages, storage, search, rewinding and tracing. It needs no LangGraph.
"""
