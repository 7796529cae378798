"""Search: the analysis and the index of texts, and ranked results with reasons.

It may import `storage`, `messages`, `tracing` and `base`. Begin with `memory_search.py` (candidates and reasons), then
`ranking.py` (pure arithmetic over them) and `search_index.py` (how writes update the index). `analysis.py`
turns text into terms, `dates.py` reads the times in a question, and `vectors.py` adds vectors in the
background. The parts register the searchable kinds (`storage/part.py`).

A *document* is anything searchable: a message, an item. Its number encodes its place: 26 bits of its *scope* (the
documents of one kind in one namespace), 15 of its *series* there (a conversation), 22 of its place in the series. So
neighbours follow from arithmetic, and a namespace is a few ranges of numbers. FTS5 stores the documents of a term in
the order of their numbers and skips to a range, so other namespaces cost nothing. On PostgreSQL, a term is indexed
together with its scope, for the same purpose, and the index's list of pending entries is kept short.

Text is analysed once, in Python (`analysis.py`): terms with their stems, and a few bits for features such as a question
mark or a time. A searchable row gets its place first (`places`: one statement, which also counts the series' words),
then its own row, then its document. The cost of FTS5 is per transaction, so on SQLite up to 64 documents wait with
their terms, remain searchable, and enter the index together.

A search reads the postings of the question's terms within its filter. Rarity is computed there too, so no score reveals
another tenant's texts. The candidates are the first eighty documents by rarity, documents of the times that the
question names, the nearest vectors, and their neighbours. For a term in very many documents, only some are read: the
newest, those that contain other terms as well, and those near the candidates. `ranking.py` is pure arithmetic over
them, and returns the reasons of every result. A question of one word is a look-up: its results contain the word.

The ranking is one weighted sum, whose weights depend on the message length in the searched documents (`ranking.py`).
The frequency of a feature is computed from the documents that are read, by role; no counts are stored for it. The
novelty of a message compared with earlier ones is no signal: it would require a look-up at every write, and improved
LoCoMo by .003 and chats with an assistant not at all. The score of a conversation is relative to the highest possible
score, not to the best existing conversation.

In the order of time (`timeline.py`), the same candidates have other weights, and the results are the evidence of a
topic: near repeats are merged, and changes have both sides.

The features of a text are stored with its document. If a release reads other terms or features from a text, opening a
database rebuilds its index (`analysis.VERSION`).

Dates are relative to now, or to the last document in the search's ranges if that is earlier: a question about May
refers to the May that the memory knows.

*Vectors* are added after the write. The transaction that writes a document marks it as pending, with a ticket. A
process with the embeddings takes a batch, embeds it outside of any transaction, and stores the vectors whose tickets
still exist. A document that changed meanwhile has another ticket. A search wakes the worker and waits for it up to two
seconds, so that newly stored documents are found. A batch that the model refuses is retried text by text. numpy
computes the nearest vectors over the ranges of the search. Their blocks are cached in memory, up to a gigabyte, and
extended by new vectors. If PostgreSQL has pgvector when vectors are first wanted, pgvector compares them in a table of
its own. From 50,000 vectors on, the table has an HNSW index, created in the background. Only searches through as many
vectors and through a tenth of all use the index. If a filter leaves out nearly everything, or too little is found, each
vector is compared.

A message's vector is used twice: alone, and mixed with its neighbours'. In short talk, the mixture weighs more, and in
long replies the message itself. The words show how well a model knows the language of a question. If documents with one
of the words are no nearer than the rest, vectors weigh little, and words as much as without vectors.
"""
