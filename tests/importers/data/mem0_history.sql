BEGIN TRANSACTION;
CREATE TABLE history (
                        id           TEXT PRIMARY KEY,
                        memory_id    TEXT,
                        old_memory   TEXT,
                        new_memory   TEXT,
                        event        TEXT,
                        created_at   DATETIME,
                        updated_at   DATETIME,
                        is_deleted   INTEGER,
                        actor_id     TEXT,
                        role         TEXT
                    );
INSERT INTO "history" VALUES('8e7ae29b-a02f-42be-b1d0-93f67034cd99','0961a05b-d6bb-489f-9055-d5d4b5d3cf32',NULL,'My sister Ana lives in Lisbon.','ADD','2026-11-25T20:37:10.162705+00:00','2026-11-25T20:37:10.162705+00:00',0,NULL,'user');
INSERT INTO "history" VALUES('af17872e-efb9-4f9d-91c5-70727f734d90','aad0b3f5-9f0a-46a5-bcc5-47b62492c8af',NULL,'Noted: Ana lives in Lisbon.','ADD','2026-11-25T20:37:10.230420+00:00','2026-11-25T20:37:10.230420+00:00',0,NULL,'assistant');
INSERT INTO "history" VALUES('b24abb49-cad0-4912-998a-df4b8f7f685f','1d1b91d2-9d33-4696-a20e-6209cfee8951',NULL,'Prefers tea to coffee.','ADD','2026-11-25T20:37:10.296864+00:00','2026-11-25T20:37:10.296864+00:00',0,NULL,'user');
INSERT INTO "history" VALUES('ece7c66f-96d8-4144-a3b9-9e92f31002fd','b3fde003-3675-467a-9349-fce1205b4f38',NULL,'Wants to be forgotten.','ADD','2026-11-25T20:37:10.350334+00:00','2026-11-25T20:37:10.350334+00:00',0,NULL,'user');
INSERT INTO "history" VALUES('f4766418-8351-4a2a-86f2-e81d1e39aa47','0961a05b-d6bb-489f-9055-d5d4b5d3cf32','My sister Ana lives in Lisbon.','My sister Ana lives in Porto now.','UPDATE','2026-11-25T20:37:10.162705+00:00','2026-11-25T20:37:10.413126+00:00',0,NULL,'user');
INSERT INTO "history" VALUES('58b0942c-fe1a-4950-b4db-c827672004eb','b3fde003-3675-467a-9349-fce1205b4f38','Wants to be forgotten.',NULL,'DELETE','2026-11-25T20:37:10.350334+00:00','2026-11-25T20:37:10.490806+00:00',1,NULL,'user');
CREATE TABLE messages (
                        id TEXT PRIMARY KEY,
                        session_scope TEXT,
                        role TEXT,
                        content TEXT,
                        name TEXT,
                        created_at DATETIME
                    );
INSERT INTO "messages" VALUES('d3f5966f-159e-46d4-b870-48f510422a58','agent_id=waiter&user_id=ada','user','My sister moved to Porto.',NULL,'2026-11-25T20:39:02.065596+00:00');
INSERT INTO "messages" VALUES('56709c46-c532-4aaf-81fc-95954451fcf5','agent_id=waiter&user_id=ada','assistant','Noted.','waiter','2026-11-25T20:39:02.065596+00:00');
COMMIT;
