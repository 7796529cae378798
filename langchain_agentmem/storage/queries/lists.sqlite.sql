-- Fragments for lists, which are passed as JSON, and for joins. `:list` stands for the parameter that a query names in
-- braces, as in `{numbers ids}`. `the_table` and `the_row` stand for a table and its alias, as in `{lookup memory x}`.

-- fragment: texts
select value from json_each(:list)

-- fragment: numbers
select value from json_each(:list)

-- fragment: in_texts
in (select value from json_each(:list))

-- fragment: in_numbers
in (select value from json_each(:list))

-- fragment: bytes
-- Bytes are passed in hexadecimal.
select from_hex(value) as value from json_each(:list)

-- fragment: pairs
select json_extract(value, '$[0]') as first, json_extract(value, '$[1]') as second from json_each(:list)

-- fragment: triples
select json_extract(value, '$[0]') as first, json_extract(value, '$[1]') as second, json_extract(value, '$[2]') as third
from json_each(:list)

-- fragment: ranges
-- Pairs of numbers.
select json_extract(value, '$[0]') as low, json_extract(value, '$[1]') as high from json_each(:list)

-- fragment: blob
blob

-- fragment: lookup
-- `a cross join {lookup memory x} x.branch_id = a.id {end_lookup x}` looks up the rows x of memory for each row a.
the_table the_row on (

-- fragment: end_lookup
)

-- fragment: left_lookup
-- The same as `lookup`, for a left join.
left join the_table the_row on (

-- fragment: end_left_lookup
)

-- fragment: lookup_first
-- The same as `lookup`, for the rows whose ids a subquery returns for each row a, such as its first ones:
-- `a cross join {lookup_first memory x} (...) {end_first x}`.
the_table the_row on the_row.id in

-- fragment: end_first

-- fragment: for_update
-- A writing transaction already holds SQLite's only lock.

-- fragment: for_update_of
-- A writing transaction already holds SQLite's only lock.

-- fragment: for_update_of_free
-- A writing transaction already holds SQLite's only lock.

-- fragment: for_no_key_update_of
-- A writing transaction already holds SQLite's only lock.
