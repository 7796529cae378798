"""The audit trail: every prompt and reply, kept in a chain of digests, hidden where it is junk, never destroyed.

Begin with `audit_trail.AuditTrail`, the public class. Below it:

- `audit_entry`, `audit_rows`, `audit_store`: an entry and its chain, its rows, and the statements on them, also of
  search, verification and erasure;
- `model_call_capture`: the LangChain callback handler that records model calls;
- `junk_rules`: which entries are hidden, and which todos a text asks for;
- `audit_report`: the health report;
- `legacy_json`: reads and writes `agent_memory.json`, however damaged.

It imports storage, threads, search, messages and language_models, and nothing of the layers above.

An entry is a row of one chain, in the order of the commits. Its digest is keyed by a random salt, so that of what was
erased, salt and all, nothing can be learned from the digest that stays; the link after it still follows. What changes
later, whether it is junk, done or archived, is no part of it; of that the check sees only whether it is something that
is ever written. A chain proves nothing against somebody who may write to the database and computes it anew; a head that
was kept elsewhere does.

- To add an entry alone is to insert a row and move the head. Entering the search would take longer than that, so new
  rows enter it together with the entry that makes them 128, or when a search could find them.
- A model call's prompt is the whole history. Its messages are parts of a shelf, each once, as references to contents
  that conversations share (`threads/value_store.py`); a call names ranges of them.
- The last entries of any kind, conversation and visibility are one range of an index each; they are put together in
  Python.
- `memory.search` finds entries only where they are asked for, since they repeat what messages say.
"""
