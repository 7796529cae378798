-- The document behind which documents have only what an older version kept beside them; null when there are none. They are
-- given the rest in the background.
alter table search_state add column behind bigint;
update search_state set behind = -1 where exists (select 1 from search_document);
