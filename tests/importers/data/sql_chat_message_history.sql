BEGIN TRANSACTION;
CREATE TABLE message_store (
	id INTEGER NOT NULL, 
	session_id TEXT, 
	message TEXT, 
	PRIMARY KEY (id)
);
INSERT INTO "message_store" VALUES(1,'ada','{"type": "human", "data": {"content": "My sister Ana lives in Lisbon.", "additional_kwargs": {}, "response_metadata": {}, "type": "human", "name": null, "id": "m1"}}');
INSERT INTO "message_store" VALUES(2,'ada','{"type": "ai", "data": {"content": "Noted.", "additional_kwargs": {}, "response_metadata": {}, "type": "ai", "name": null, "id": null, "tool_calls": [{"name": "save", "args": {"x": 1}, "id": "c1", "type": "tool_call"}], "invalid_tool_calls": [], "usage_metadata": null}}');
INSERT INTO "message_store" VALUES(3,'ada','{"type": "tool", "data": {"content": "done", "additional_kwargs": {}, "response_metadata": {}, "type": "tool", "name": null, "id": null, "tool_call_id": "c1", "artifact": null, "status": "success"}}');
INSERT INTO "message_store" VALUES(4,'ada','{"type": "ai", "data": {"content": "ok", "additional_kwargs": {}, "response_metadata": {}, "type": "ai", "name": null, "id": null, "tool_calls": [], "invalid_tool_calls": [], "usage_metadata": null}}');
INSERT INTO "message_store" VALUES(5,'ada','{"type": "human", "data": {"content": "Hi", "additional_kwargs": {}, "response_metadata": {}, "type": "human", "name": null, "id": null}}');
INSERT INTO "message_store" VALUES(6,'ada','{"type": "human", "data": {"content": "Hi", "additional_kwargs": {}, "response_metadata": {}, "type": "human", "name": null, "id": null}}');
INSERT INTO "message_store" VALUES(7,'bob','{"type": "human", "data": {"content": "My sister Ana lives in Lisbon.", "additional_kwargs": {}, "response_metadata": {}, "type": "human", "name": null, "id": null}}');
INSERT INTO "message_store" VALUES(8,'bob','{"type": "ai", "data": {"content": "Noted.", "additional_kwargs": {}, "response_metadata": {}, "type": "ai", "name": null, "id": null, "tool_calls": [{"name": "save", "args": {"x": 1}, "id": "c1", "type": "tool_call"}], "invalid_tool_calls": [], "usage_metadata": null}}');
INSERT INTO "message_store" VALUES(9,'bob','{"type": "tool", "data": {"content": "done", "additional_kwargs": {}, "response_metadata": {}, "type": "tool", "name": null, "id": null, "tool_call_id": "c1", "artifact": null, "status": "success"}}');
INSERT INTO "message_store" VALUES(10,'bob','{"type": "ai", "data": {"content": "ok", "additional_kwargs": {}, "response_metadata": {}, "type": "ai", "name": null, "id": null, "tool_calls": [], "invalid_tool_calls": [], "usage_metadata": null}}');
INSERT INTO "message_store" VALUES(11,'bob','{"type": "human", "data": {"content": "Hi", "additional_kwargs": {}, "response_metadata": {}, "type": "human", "name": null, "id": null}}');
INSERT INTO "message_store" VALUES(12,'bob','{"type": "human", "data": {"content": "Hi", "additional_kwargs": {}, "response_metadata": {}, "type": "human", "name": null, "id": null}}');
COMMIT;
