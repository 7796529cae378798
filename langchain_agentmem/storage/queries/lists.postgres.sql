-- Fragments for lists, which are passed as JSON, and for joins. `:list` stands for the parameter that a query names in
-- braces, as in `{numbers ids}`. `the_table` and `the_row` stand for a table and its alias, as in `{lookup memory x}`.

-- fragment: texts
select value from json_array_elements_text(cast(:list as json))

-- fragment: numbers
select cast(value as bigint) as value from json_array_elements_text(cast(:list as json))

-- fragment: in_texts
= any (array(select value from json_array_elements_text(cast(:list as json))))

-- fragment: in_numbers
= any (array(select cast(value as bigint) from json_array_elements_text(cast(:list as json))))

-- fragment: bytes
-- Bytes are passed in hexadecimal.
select decode(value, 'hex') as value from json_array_elements_text(cast(:list as json))

-- fragment: pairs
select value ->> 0 as first, value ->> 1 as second from json_array_elements(cast(:list as json))

-- fragment: triples
select value ->> 0 as first, value ->> 1 as second, value ->> 2 as third from json_array_elements(cast(:list as json))

-- fragment: ranges
-- Pairs of numbers.
select cast(value ->> 0 as bigint) as low, cast(value ->> 1 as bigint) as high from json_array_elements(cast(:list as json))

-- fragment: blob
bytea

-- fragment: lookup
-- `a cross join {lookup memory x} x.branch_id = a.id {end_lookup x}` looks up the rows x of memory for each row a.
-- `offset 0` prevents the planner from choosing another join, which would read the memory of all users.
lateral (select * from the_table the_row where

-- fragment: end_lookup
offset 0) as the_row

-- fragment: left_lookup
-- The same as `lookup`, for a left join.
left join lateral (select * from the_table the_row where

-- fragment: end_left_lookup
offset 0) as the_row on true

-- fragment: lookup_first
-- The same as `lookup`, for the rows that a subquery returns for each row a, such as its first ones:
-- `a cross join {lookup_first memory x} (...) {end_first x}`.
lateral

-- fragment: end_first
as the_row

-- fragment: for_update
for update

-- fragment: for_update_of
for update of the_row

-- fragment: for_update_of_free
for update of the_row skip locked

-- fragment: for_no_key_update_of
for no key update of the_row
