"""The audit trail: every prompt and reply in a chain of digests. Junk is hidden, never deleted.

Begin with `audit_trail.AuditTrail`, the public class. Below it:

- `audit_entry`, `audit_rows`, `audit_store`: an entry and its chain, its rows, and the statements on them, including
  search, verification and erasure;
- `model_call_capture`: the LangChain callback handler that records model calls;
- `junk_rules`: the rules that hide entries, and the detection of todos in a text;
- `audit_report`: the health report;
- `legacy_json`: reads and writes `agent_memory.json`, even if it is damaged.

It imports storage, threads, search, messages and language_models, and no higher layer.

An entry is a row of one chain, in the order of the commits. Its digest is keyed by a random salt. An erasure also
removes the salt, so that the remaining digest reveals nothing, and the next link stays valid. The digest excludes
everything that may change later: whether the entry is junk, done or archived. Verification only checks that these
columns have possible values. A chain proves nothing against an attacker who can write to the database and recompute
it; a head stored elsewhere does.

- Adding an entry inserts a row and moves the head. Indexing it for the search would take longer. So new rows are
  indexed when 128 of them wait, or before a search that could find them.
- A model call's prompt is the whole history. Each message is stored once as a part of a part store, which refers to
  contents shared with conversations (`threads/value_store.py`). A call names ranges of parts.
- The last entries of each kind, conversation and visibility are one range of an index. Python merges the ranges.
- `memory.search` finds entries only on request, since they repeat the texts of messages.
"""
