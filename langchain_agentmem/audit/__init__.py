"""The audit trail: every prompt and reply, kept in a chain of digests, hidden where it is junk, never destroyed.

Begin with `audit_trail.AuditTrail`, the public class. Below it:

- `audit_entry`, `audit_rows`, `audit_store`: an entry and its chain, its rows, and the statements on them;
- `model_call_capture`: the LangChain callback handler that records model calls;
- `junk_rules`, `audit_todos`: which entries are hidden, and which todos a text asks for;
- `audit_report`, `audit_digest`: health, insights, and summaries of a conversation or a span of time;
- `legacy_json`: reads and writes `agent_memory.json`, however damaged;
- `audit_part`: searches, verifies and transfers the trail.

It imports storage, search, messages and language_models, and nothing of the layers above.
"""
