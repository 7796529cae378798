"""Where messages arrive: conversations of messages and sessions of rounds, two views of one append-only log.

Begin with `message_log` (what is written and read) and `conversation_memory` (who calls it); `log_entries` turns a
message or a round into an entry of the log and back. `session_memory` is the view of rounds between roles, with
the log of a session that rewinds with its thread and the summaries of a role's rounds. `persistence` holds what both
views share: steps and events. `conversation_part` tells search, upkeep and export about messages.
`compaction_records` reads and writes what was compacted, `prompt_notes` what was put into prompts.

Imports base, language_models, messages, storage, search, rewinding and tracing. It needs no LangGraph.
"""
