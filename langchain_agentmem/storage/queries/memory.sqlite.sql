-- fragment: view
-- The lineage and the open groups of a view, from the JSON lists `lineage` and `groups`; see memory.sql.
lineage (depth, branch_id, up_to) as materialized (
    select key, json_extract(value, '$[0]'), json_extract(value, '$[1]') from json_each(:lineage)
),
{open_groups}

-- fragment: open_groups
open_groups (group_id, up_to) as materialized (
    select json_extract(value, '$[0]'), json_extract(value, '$[1]') from json_each(:groups)
)
