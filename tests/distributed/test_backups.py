"""PostgreSQL's own backups restore a memory, as the documentation says."""

from langchain_agentmem import AgentMemory

from .servers import Postgres, folder, postgres, program, run, until


def say(url, text):
    with AgentMemory(url) as memory:
        memory.conversation("c").add_user_message(text)


def said(url):
    with AgentMemory(url) as memory:
        assert memory.admin.verify().problems == ()
        assert len(memory.search("apple")) == len(memory.conversation("c").messages)
        return [each.content for each in memory.conversation("c").messages]


def test_pg_dump_is_restored(server, database):
    say(server.url(database), "an apple")
    other = server.create()
    with folder() as place:
        dump = place / "memory.dump"
        run(program("pg_dump"), "--format=custom", "--schema=agentmem", f"--file={dump}", server.url(database))
        say(server.url(database), "another apple")
        run(program("pg_restore"), f"--dbname={server.url(other)}", dump)
    assert said(server.url(other)) == ["an apple"]
    say(server.url(other), "a red apple")
    assert said(server.url(other)) == ["an apple", "a red apple"]


def test_backup_is_restored_to_a_point_in_time():
    with folder() as archive, folder() as place:
        with postgres(archive_mode="on", archive_command=f"cp %p {archive}/%f") as server:
            say(server.url(), "an apple")
            restored = Postgres(place)
            run(program("pg_basebackup"), f"--pgdata={restored.data}", f"--dbname={server.url()}", "--checkpoint=fast")
            say(server.url(), "another apple")
            [(moment,)] = server.run_sql("select clock_timestamp()::text")
            say(server.url(), "too many apples")
            [(log,)] = server.run_sql("select pg_walfile_name(pg_switch_wal())")
            archived = f"select last_archived_wal >= '{log}' from pg_stat_archiver"
            until(lambda: server.run_sql(archived) == [(True,)], "the log is archived")
        settings = {
            "restore_command": f"cp {archive}/%f %p",
            "recovery_target_time": moment,
            "recovery_target_action": "promote",
            "archive_mode": "off",
        }
        with (restored.data / "postgresql.conf").open("a", encoding="utf-8") as file:
            file.writelines(f"{name} = '{value}'\n" for name, value in settings.items())
        (restored.data / "recovery.signal").touch()
        try:
            restored.start()
            until(lambda: restored.run_sql("select pg_is_in_recovery()") == [(False,)], "it takes writes")
            assert said(restored.url()) == ["an apple", "another apple"]
        finally:
            restored.stop()
