"""The audit trail: every prompt and reply in a chain of digests. Rules hide junk entries but never delete them.

Begin with `audit_trail.AuditTrail`, the public class. Below it:

- `audit_entry`: an entry and its digest; `audit_rows`: conversion between entries and rows; `audit_store`: all database
  operations, including search, verification and erasure;
- `model_call_capture`: the LangChain callback handler that records model calls;
- `junk_rules`: the rules that hide entries, and the detection of todos in a text;
- `audit_report`: the health report;
- `legacy_json`: reads and writes `agent_memory.json`, the file of the original audit memory, even if it is damaged.

Allowed imports: `rewinding`, `threads`, `search`, `language_models` and the folders that these may import.

The entries of a database form one chain, in the order of the commits. The digest of an entry is keyed by a random salt.
An erasure removes the content and the salt, so that the remaining digest reveals nothing and the chain stays valid. The
digest excludes values that may change: whether the entry is junk, done or archived. For these, verification only checks
that the values are possible. An attacker who can write to the database can recompute the chain. Only a comparison with
a head that is stored elsewhere detects this.

- Adding an entry inserts a row and moves the head. Updating the search index would take longer. So new entries are
  indexed when 128 of them wait, or before a search that could find them.
- The prompt of a model call is the whole history. Each message is stored once, as a part in a part store, and a call
  lists ranges of parts. Part stores and conversations share the contents of messages (`threads/value_store.py`).
- The last entries are read from one index range for each kind and visibility. Python merges these ranges.
- `memory.search` finds entries only on request, since they repeat the texts of messages.
"""
