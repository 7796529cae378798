"""Search: texts are analysed and indexed, and what answers a question best is ranked and explained.

It may import `storage`, `messages`, `tracing` and `base`. Begin with `memory_search.py` (candidates and reasons), then
`ranking.py` (pure arithmetic over them) and `search_index.py` (how the index follows what is stored). `analysis.py`
turns text into terms, `dates.py` reads the times that a question names, and `vectors.py` adds vectors in the
background. Which kinds can be found is told by the parts (`storage/part.py`).

A *document* is anything that can be found: a message, an item. Its number says where it stands: 26 bits of its *scope*
(the documents of one kind in one namespace), 15 of its *series* there (a conversation), 22 of its place in the series.
So neighbours are neighbours by arithmetic, a namespace is a few ranges of numbers, and FTS5, which keeps the documents
of a term in the order of their numbers, skips to a range: what other namespaces hold costs nothing. On PostgreSQL a
term is indexed together with its scope, for the same end, and the index's list of pending entries is kept short.

Text is analysed once, in Python (`analysis.py`): terms with their stems, and a few bits of what else the text has, such
as a question mark or a time. A row that can be found has its place made first (`places`: one statement, which also
counts the series' words), then its own row, then its document. FTS5 pays for each transaction, so on SQLite up to 64
documents wait with their terms, are found there, and enter the index together.

A search asks where the question's terms stand within its walls. How rare they are is judged there too, so no score
tells of another tenant's texts. The first eighty documents by rarity, those said at a time that the question names,
and the nearest vectors are looked at closely, with their neighbours. Of a term in very many documents only some are
looked at: the newest, those that hold other terms as well, and those near the candidates. `ranking.py` is pure
arithmetic over that, and gives every result its reasons. A question of one word is a look-up: what it finds holds the
word.

The ranking is one weighted sum, whose weights depend on how long messages are where the search looks (`ranking.py`).
How common a feature is, so how little it tells, is judged by the documents that are looked at, those of one role
together; nothing is counted beside a scope for it. What earlier messages hold (how much of a message is new) was left
out: it would be looked up at every write, and brought .003 on LoCoMo and nothing on chats with an assistant. How well a
conversation fits is measured against the best it could be, not against the best one there is.

In the order of time (`timeline.py`) the same candidates are weighed otherwise, and what is found is the evidence of a
topic: near repeats are one, and of a change both sides are there.

The features of a text are kept beside its document. Where a release reads other terms or features from a text, opening
a database indexes it anew (`analysis.VERSION`).

Dates are reckoned from now, or from the last thing that was said where the search looks if that is earlier: a question
about May means the May that the memory knows.

*Vectors* come behind the write: the transaction that writes a document notes that it waits for one, with a ticket;
whoever has the embeddings takes a batch, embeds it outside of any transaction, and keeps the vectors of those whose
tickets are still there. A document that changed meanwhile has another ticket. A search hurries the worker and waits for
it up to two seconds, so that what was just stored is found. A batch that the model refuses is tried again text by text.
Nearest vectors are computed with numpy over the ranges of the search, from blocks that are kept in memory, up to a
gigabyte, and read on where something was added. Where
PostgreSQL has pgvector when vectors are first wanted, it compares them in a table of its own. From 50,000 on that has
an HNSW index, made in the background and used only by searches through as many and through a tenth of all: where a
filter leaves out nearly everything, or too little is found, each vector is compared.

A message's vector counts twice: by itself, and mixed with its neighbours'. In short talk the mixture tells more, and in
long replies the message itself. Whether a model knows the language of a question is told from the words: if what holds
one of them lies no nearer than the rest, its vectors count for little, and the words for what they do without.
"""
