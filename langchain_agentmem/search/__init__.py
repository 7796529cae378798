"""Search: the analysis of texts, the search index, and ranked results with explanations.

Allowed imports: `storage`, `messages`, `tracing` and `base`. Begin with `memory_search.py`, which finds and explains
results. `ranking.py` scores candidates without a database, and `search_index.py` updates the index at each write.
`analysis.py` turns text into terms, and `dates.py` finds the times that a query names. `vectors.py` embeds documents
in the background. Other folders register their searchable kinds (`storage/part.py`).

A *document* is one searchable text, such as a message or an item. An index *scope* holds the documents of one kind in
one namespace. A *series* is an ordered group of documents in a scope, such as a conversation. The number of a document
consists of 26 bits for the scope, 15 bits for the series and 22 bits for the place in the series. So neighbours have
adjacent numbers, and a namespace has a few ranges of numbers. FTS5 stores the documents of a term in the order of their
numbers and skips to a range, so documents of other namespaces cost nothing. On PostgreSQL, each indexed term includes
its scope for the same reason, and the pending list of the GIN index is kept short.

Python analyzes each text once, at the write. The result is a list of stemmed terms, and a few bits for features such as
a question mark or a time. A write first reserves the document's number, then inserts the row with the text, and then
the document. FTS5 has a high cost per transaction. So on SQLite, up to 64 documents wait with their terms in a table.
They are added to the index together. Searches also read this table.

The *postings* of a term are the documents that contain it. A search reads the postings of the query's terms within
its filter. It computes the rarity of each term from these postings, so no score reveals another tenant's texts. The
candidates are eighty documents with the rarest terms, documents of the times that the query names, the documents with
the nearest vectors, and their neighbours. For a very frequent term, a search reads only some documents: the oldest and
newest, those that also contain other terms, and those near the candidates. One-word queries ignore neighbours' terms.

The score of a candidate is a weighted sum of signals. The weights depend on the average length of the searched
messages. The frequency of a feature is computed by role from the documents that the search reads, so no counts are
stored. The novelty of a message is not a signal: each write would need a search, and the benchmarks gained at most
.003. The score of a conversation is relative to the highest possible score, not to the best existing conversation.

Results in the order of time (`timeline.py`) come from the same candidates, with other weights. Texts that repeat each
other are merged. For a change, the results contain the old and the new statement.

The features of a text are stored with its document. If a release extracts other terms or features from a text, opening
a database rebuilds its index (`analysis.VERSION`).

Dates such as "in May" are relative to the current time, or to the newest searched document if that is older.

*Vectors* are added after the write. The writing transaction marks the document as pending, with a ticket. A process
with the embeddings reads a batch, embeds it outside of any transaction, and stores the vectors whose tickets still
exist. A document that changed meanwhile has another ticket. A search waits up to two seconds for pending vectors, so
that new documents are found. If the model refuses a batch, its texts are retried one by one. numpy finds the nearest
vectors in the ranges of the search, and caches up to a gigabyte of vectors in memory. If PostgreSQL has pgvector when
vectors are enabled, pgvector compares them in a separate table. From 50,000 vectors on, that table has an HNSW index,
created in the background. A search uses the HNSW index only if it covers 50,000 documents and a tenth of all vectors.
If the index then returns too few results, pgvector compares every vector in the ranges.

A message's vector is used twice: alone, and mixed with its neighbours' vectors. The mixture weighs more among short
messages, and the vector alone among long ones. Keyword matches show whether the model knows the query's language. If
documents with the query's words are no nearer than others, vectors have little weight and terms their full weight.
"""
