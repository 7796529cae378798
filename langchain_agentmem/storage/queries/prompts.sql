-- Notes on the memory that was inserted into prompts. `reader` names the memory that was the source of the text. `part`
-- is the kind of text: "start" and "changes" are core memory. Keys of messages are passed as JSON.

-- name: prompt_notes
-- The notes on some or all messages of a thread since a time, oldest first. With a `reader`, only its notes.
select p.key, p.part, p.reader, p.tokens, p.in_prompt, p.created_at, p.body
from namespace n
join prompt_note p on p.namespace_id = n.id
where n.path = :path and p.name = :name and (cast(:reader as text) is null or p.reader = :reader)
    and p.created_at >= :after and (cast(:all_keys as bigint) = 1 or p.key {in_texts keys})
order by p.created_at, p.key, p.reader, p.part;

-- name: prompt_note_tokens
-- The number of tokens of the texts that prompts show before some messages of a thread. A prompt shows only one text of
-- the part "start", so only the largest "start" is counted.
select coalesce(cast(sum(case when p.part = 'start' then 0 else p.tokens end) as bigint), 0)
    + coalesce(max(case when p.part = 'start' then p.tokens end), 0) as tokens
from namespace n
join prompt_note p on p.namespace_id = n.id
where n.path = :path and p.name = :name and p.in_prompt = 1 and p.key {in_texts keys};

-- name: save_prompt_note
insert into prompt_note (namespace_id, name, key, part, reader, tokens, in_prompt, created_at, body)
values (:namespace, :name, :key, :part, :reader, :tokens, :in_prompt, :now, :body)
on conflict (namespace_id, name, key, part, reader) do update set
    tokens = excluded.tokens, in_prompt = excluded.in_prompt, body = excluded.body;

-- name: delete_prompt_notes
delete from prompt_note where namespace_id = (select id from namespace where path = :path) and name = :name;

-- name: delete_old_prompt_notes
delete from prompt_note where created_at < :before;

-- name: erase_prompt_notes
-- Delete the notes on one thread, and all notes on core memory, which may contain texts of that thread. Without a name,
-- all notes in the range are deleted.
delete from prompt_note
where namespace_id in (select id from namespace where path >= :low and path < :high)
    and (cast(:name as text) is null or name = :name or part in ('start', 'changes'));

-- name: erase_notes_on_memory
-- Delete the notes of any thread on memories in a range of paths: all notes, or only those on core memory.
delete from prompt_note
where reader > :low and reader < :high and (:everything = 1 or part in ('start', 'changes'))
returning key;
