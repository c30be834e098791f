BEGIN TRANSACTION;
CREATE TABLE attempt(task integer not null, n integer not null, body text not null, unique(task, n)) strict;
INSERT INTO "attempt" VALUES(2,1,'{"n":1,"agent":"fake","model":null,"session":null,"lane":null,"base":null,"head":null,"started_at":null,"ended_at":null,"exit":null,"verdict":null,"class":null,"summary":"","evidence":[],"cost_usd":null,"tokens_in":0,"tokens_out":0,"charged":false}');
INSERT INTO "attempt" VALUES(3,1,'{"n":1,"agent":"fake","model":null,"session":null,"lane":null,"base":null,"head":null,"started_at":null,"ended_at":null,"exit":null,"verdict":null,"class":null,"summary":"","evidence":[],"cost_usd":null,"tokens_in":0,"tokens_out":0,"charged":false}');
INSERT INTO "attempt" VALUES(4,1,'{"n":1,"agent":"fake","model":null,"session":null,"lane":null,"base":null,"head":null,"started_at":null,"ended_at":null,"exit":null,"verdict":null,"class":null,"summary":"","evidence":[],"cost_usd":null,"tokens_in":0,"tokens_out":0,"charged":false}');
INSERT INTO "attempt" VALUES(5,1,'{"n":1,"agent":"fake","model":null,"session":null,"lane":null,"base":null,"head":null,"started_at":null,"ended_at":null,"exit":null,"verdict":null,"class":null,"summary":"","evidence":[],"cost_usd":null,"tokens_in":0,"tokens_out":0,"charged":false}');
INSERT INTO "attempt" VALUES(6,1,'{"n":1,"agent":"fake","model":null,"session":null,"lane":null,"base":null,"head":null,"started_at":null,"ended_at":null,"exit":null,"verdict":null,"class":null,"summary":"","evidence":[],"cost_usd":null,"tokens_in":0,"tokens_out":0,"charged":false}');
INSERT INTO "attempt" VALUES(7,1,'{"n":1,"agent":"fake","model":null,"session":null,"lane":null,"base":null,"head":null,"started_at":null,"ended_at":null,"exit":null,"verdict":null,"class":null,"summary":"","evidence":[],"cost_usd":null,"tokens_in":0,"tokens_out":0,"charged":false}');
INSERT INTO "attempt" VALUES(8,1,'{"n":1,"agent":"fake","model":null,"session":null,"lane":null,"base":null,"head":null,"started_at":null,"ended_at":null,"exit":null,"verdict":null,"class":null,"summary":"","evidence":[],"cost_usd":null,"tokens_in":0,"tokens_out":0,"charged":false}');
INSERT INTO "attempt" VALUES(12,1,'{"n":1,"agent":"fake","model":null,"session":null,"lane":null,"base":null,"head":null,"started_at":null,"ended_at":null,"exit":null,"verdict":null,"class":null,"summary":"","evidence":[],"cost_usd":null,"tokens_in":0,"tokens_out":0,"charged":false}');
CREATE TABLE car(
  seq     integer primary key autoincrement,
  task    integer not null unique,
  target  text not null,
  attempt integer not null,
  request text not null,           -- JSON
  step    text not null            -- JSON
) strict;
INSERT INTO "car" VALUES(1,5,'main',1,'{"target":"main","strategy":"rebase","base":"6261736500000000000000000000000000000000","head":"68656164206f66206c616e64696e670000000000","message":"m"}','{"step":"queued"}');
CREATE TABLE dependency(child integer not null, parent integer not null, primary key(child, parent)) without rowid, strict;
INSERT INTO "dependency" VALUES(10,8);
CREATE TABLE event(
  seq     integer primary key autoincrement,
  at      integer not null,
  task    integer,
  attempt integer,
  body    text not null
) strict;
INSERT INTO "event" VALUES(1,1,1,NULL,'{"kind":"enqueued","queue":"main"}');
INSERT INTO "event" VALUES(2,1,2,NULL,'{"kind":"enqueued","queue":"main"}');
INSERT INTO "event" VALUES(3,1,3,NULL,'{"kind":"enqueued","queue":"main"}');
INSERT INTO "event" VALUES(4,1,4,NULL,'{"kind":"enqueued","queue":"main"}');
INSERT INTO "event" VALUES(5,1,5,NULL,'{"kind":"enqueued","queue":"main"}');
INSERT INTO "event" VALUES(6,1,6,NULL,'{"kind":"enqueued","queue":"main"}');
INSERT INTO "event" VALUES(7,1,7,NULL,'{"kind":"enqueued","queue":"main"}');
INSERT INTO "event" VALUES(8,1,8,NULL,'{"kind":"enqueued","queue":"main"}');
INSERT INTO "event" VALUES(9,1,9,NULL,'{"kind":"enqueued","queue":"main"}');
INSERT INTO "event" VALUES(10,1,10,NULL,'{"kind":"enqueued","queue":"main"}');
INSERT INTO "event" VALUES(11,1,11,NULL,'{"kind":"enqueued","queue":"main"}');
INSERT INTO "event" VALUES(12,1,12,NULL,'{"kind":"enqueued","queue":"main"}');
INSERT INTO "event" VALUES(13,2,2,1,'{"kind":"claimed","node":"old"}');
INSERT INTO "event" VALUES(14,2,3,1,'{"kind":"claimed","node":"old"}');
INSERT INTO "event" VALUES(15,3,3,1,'{"kind":"started","pid":7}');
INSERT INTO "event" VALUES(16,9,3,1,'{"kind":"reported","statement":{"verdict":"pass","summary":"ok","metrics":{}}}');
INSERT INTO "event" VALUES(17,2,4,1,'{"kind":"claimed","node":"old"}');
INSERT INTO "event" VALUES(18,3,4,1,'{"kind":"started","pid":7}');
INSERT INTO "event" VALUES(19,3,4,1,'{"kind":"exited","exit":{"kind":"exited","code":0}}');
INSERT INTO "event" VALUES(20,2,5,1,'{"kind":"claimed","node":"old"}');
INSERT INTO "event" VALUES(21,3,5,1,'{"kind":"exited","exit":{"kind":"lost"}}');
INSERT INTO "event" VALUES(22,3,5,1,'{"kind":"approved","head":"68656164206f66206c616e64696e670000000000"}');
INSERT INTO "event" VALUES(23,2,6,1,'{"kind":"claimed","node":"old"}');
INSERT INTO "event" VALUES(24,3,6,1,'{"kind":"exited","exit":{"kind":"lost"}}');
INSERT INTO "event" VALUES(25,3,6,1,'{"kind":"done"}');
INSERT INTO "event" VALUES(26,2,7,1,'{"kind":"claimed","node":"old"}');
INSERT INTO "event" VALUES(27,3,7,1,'{"kind":"exited","exit":{"kind":"lost"}}');
INSERT INTO "event" VALUES(28,3,7,1,'{"kind":"approved","head":"68656164206f66206c616e646564000000000000"}');
INSERT INTO "event" VALUES(29,7,7,1,'{"kind":"landing","landing":{"kind":"intend","intent":{"onto":null,"at":"1970-01-01T00:00:00.005Z"}}}');
INSERT INTO "event" VALUES(30,7,7,1,'{"kind":"landing","landing":{"kind":"gate","candidate":"6300000000000000000000000000000000000000","note":"ok"}}');
INSERT INTO "event" VALUES(31,7,7,1,'{"kind":"landing","landing":{"kind":"landed","commit":"6300000000000000000000000000000000000000"}}');
INSERT INTO "event" VALUES(32,2,8,1,'{"kind":"claimed","node":"old"}');
INSERT INTO "event" VALUES(33,3,8,1,'{"kind":"failed","why":"no"}');
INSERT INTO "event" VALUES(34,3,10,NULL,'{"kind":"skipped","dependency":"failed"}');
INSERT INTO "event" VALUES(35,4,9,NULL,'{"kind":"cancelled","by":"me"}');
INSERT INTO "event" VALUES(36,4,11,NULL,'{"kind":"parked","until":"1970-01-01T00:00:00.099Z","why":"operator","detail":"later"}');
INSERT INTO "event" VALUES(37,2,12,1,'{"kind":"claimed","node":"old"}');
INSERT INTO "event" VALUES(38,3,12,1,'{"kind":"blocked","reason":"policy","detail":"no key"}');
CREATE TABLE report(
  task integer not null, attempt integer not null, statement text, stuck text,
  primary key(task, attempt)
) without rowid, strict;
INSERT INTO "report" VALUES(3,1,'{"verdict":"pass","summary":"ok","metrics":{}}',NULL);
CREATE TABLE request(
  request text not null, kind text not null, task integer not null,
  primary key(request, kind, task)
) without rowid, strict;
INSERT INTO "request" VALUES('0009e5785cc49211be744ba1c7e52b60','enqueue',1);
INSERT INTO "request" VALUES('0009e5785cc49211be744ba1c7e52b60','enqueue',2);
INSERT INTO "request" VALUES('0009e5785cc49211be744ba1c7e52b60','enqueue',3);
INSERT INTO "request" VALUES('0009e5785cc49211be744ba1c7e52b60','enqueue',4);
INSERT INTO "request" VALUES('0009e5785cc49211be744ba1c7e52b60','enqueue',5);
INSERT INTO "request" VALUES('0009e5785cc49211be744ba1c7e52b60','enqueue',6);
INSERT INTO "request" VALUES('0009e5785cc49211be744ba1c7e52b60','enqueue',7);
INSERT INTO "request" VALUES('0009e5785cc49211be744ba1c7e52b60','enqueue',8);
INSERT INTO "request" VALUES('0009e5785cc49211be744ba1c7e52b60','enqueue',9);
INSERT INTO "request" VALUES('0009e5785cc49211be744ba1c7e52b60','enqueue',10);
INSERT INTO "request" VALUES('0009e5785cc49211be744ba1c7e52b60','enqueue',11);
INSERT INTO "request" VALUES('0009e5785cc49211be744ba1c7e52b60','enqueue',12);
INSERT INTO "request" VALUES('00469ed8d3d9f2e3aa62f6beb12f89f4','advance',6);
INSERT INTO "request" VALUES('17a6eb57f3a1b9bd9b2a754c44a99c5b','operate',11);
INSERT INTO "request" VALUES('2000eb7dacc181d530de509acc631899','report',3);
INSERT INTO "request" VALUES('4b5434ba80256af6028b740ec33ab16b','advance',12);
INSERT INTO "request" VALUES('4bfebdd0d3b1764eff142f462369c482','advance',5);
INSERT INTO "request" VALUES('52a976349c76d27176835ef342f37276','advance',4);
INSERT INTO "request" VALUES('569d7a6259284623b012272db02cac47','advance',8);
INSERT INTO "request" VALUES('930e5dffb410064e609a86f5d33756d3','advance',7);
INSERT INTO "request" VALUES('ec0437cf40c380c5316a0a0b2c88b111','operate',9);
INSERT INTO "request" VALUES('f22110c6ce8a0957c8f8d4b94efea5a7','advance',4);
INSERT INTO "request" VALUES('f5312a1a3a6a9898a0e75010156bae91','advance',3);
CREATE TABLE role(role text primary key, session text, term integer not null) without rowid, strict;
INSERT INTO "role" VALUES('train:main','old-f873321dd5fb13266dbf813a8255ea62',1);
CREATE TABLE session(
  id    text primary key,
  node  text not null,             -- JSON
  beat  integer not null,
  ended text                       -- null while open; then the JSON list of the tasks it held at its end
) without rowid, strict;
INSERT INTO "session" VALUES('gone-aac496306cd0045ba594d0f2f61d2a58','{"node":"gone","what":"daemon","boot_id":"boot","pid":1,"starttime":2}',0,'[]');
INSERT INTO "session" VALUES('old-f873321dd5fb13266dbf813a8255ea62','{"node":"old","what":"daemon","boot_id":"boot","pid":1,"starttime":2}',0,NULL);
CREATE TABLE spec(task integer primary key, body text not null) strict;
INSERT INTO "spec" VALUES(1,'{"id":"pending","title":"pending","prompt":"do pending","agent":"fake","priority":0,"deps":[],"writes":[],"read_only":false,"env":{},"checks":[],"max_attempts":3,"limits":{"total":null,"first_output":null,"idle":null},"verdict_adapter":"chain","auto_commit":true,"land":true,"workdir":"","source":""}');
INSERT INTO "spec" VALUES(2,'{"id":"claimed","title":"claimed","prompt":"do claimed","agent":"fake","priority":0,"deps":[],"writes":[],"read_only":false,"env":{},"checks":[],"max_attempts":3,"limits":{"total":null,"first_output":null,"idle":null},"verdict_adapter":"chain","auto_commit":true,"land":true,"workdir":"","source":""}');
INSERT INTO "spec" VALUES(3,'{"id":"running","title":"running","prompt":"do running","agent":"fake","priority":0,"deps":[],"writes":[],"read_only":false,"env":{},"checks":[],"max_attempts":3,"limits":{"total":null,"first_output":null,"idle":null},"verdict_adapter":"chain","auto_commit":true,"land":true,"workdir":"","source":""}');
INSERT INTO "spec" VALUES(4,'{"id":"judging","title":"judging","prompt":"do judging","agent":"fake","priority":0,"deps":[],"writes":[],"read_only":false,"env":{},"checks":[],"max_attempts":3,"limits":{"total":null,"first_output":null,"idle":null},"verdict_adapter":"chain","auto_commit":true,"land":true,"workdir":"","source":""}');
INSERT INTO "spec" VALUES(5,'{"id":"landing","title":"landing","prompt":"do landing","agent":"fake","priority":0,"deps":[],"writes":[],"read_only":false,"env":{},"checks":[],"max_attempts":3,"limits":{"total":null,"first_output":null,"idle":null},"verdict_adapter":"chain","auto_commit":true,"land":true,"workdir":"","source":""}');
INSERT INTO "spec" VALUES(6,'{"id":"done","title":"done","prompt":"do done","agent":"fake","priority":0,"deps":[],"writes":[],"read_only":false,"env":{},"checks":[],"max_attempts":3,"limits":{"total":null,"first_output":null,"idle":null},"verdict_adapter":"chain","auto_commit":true,"land":true,"workdir":"","source":""}');
INSERT INTO "spec" VALUES(7,'{"id":"landed","title":"landed","prompt":"do landed","agent":"fake","priority":0,"deps":[],"writes":[],"read_only":false,"env":{},"checks":[],"max_attempts":3,"limits":{"total":null,"first_output":null,"idle":null},"verdict_adapter":"chain","auto_commit":true,"land":true,"workdir":"","source":""}');
INSERT INTO "spec" VALUES(8,'{"id":"failed","title":"failed","prompt":"do failed","agent":"fake","priority":0,"deps":[],"writes":[],"read_only":false,"env":{},"checks":[],"max_attempts":3,"limits":{"total":null,"first_output":null,"idle":null},"verdict_adapter":"chain","auto_commit":true,"land":true,"workdir":"","source":""}');
INSERT INTO "spec" VALUES(9,'{"id":"cancelled","title":"cancelled","prompt":"do cancelled","agent":"fake","priority":0,"deps":[],"writes":[],"read_only":false,"env":{},"checks":[],"max_attempts":3,"limits":{"total":null,"first_output":null,"idle":null},"verdict_adapter":"chain","auto_commit":true,"land":true,"workdir":"","source":""}');
INSERT INTO "spec" VALUES(10,'{"id":"skipped","title":"skipped","prompt":"do skipped","agent":"fake","priority":0,"deps":["failed"],"writes":[],"read_only":false,"env":{},"checks":[],"max_attempts":3,"limits":{"total":null,"first_output":null,"idle":null},"verdict_adapter":"chain","auto_commit":true,"land":true,"workdir":"","source":""}');
INSERT INTO "spec" VALUES(11,'{"id":"parked","title":"parked","prompt":"do parked","agent":"fake","priority":0,"deps":[],"writes":[],"read_only":false,"env":{},"checks":[],"max_attempts":3,"limits":{"total":null,"first_output":null,"idle":null},"verdict_adapter":"chain","auto_commit":true,"land":true,"workdir":"","source":""}');
INSERT INTO "spec" VALUES(12,'{"id":"blocked","title":"blocked","prompt":"do blocked","agent":"fake","priority":0,"deps":[],"writes":[],"read_only":false,"env":{},"checks":[],"max_attempts":3,"limits":{"total":null,"first_output":null,"idle":null},"verdict_adapter":"chain","auto_commit":true,"land":true,"workdir":"","source":""}');
CREATE TABLE task(
  seq                  integer primary key autoincrement,
  id                   text not null,
  folded               text not null unique,
  queue                text not null,
  rank                 integer not null,   -- minus the priority, so that claim order is ascending
  name                 text not null,      -- the state's name
  state                text not null,      -- the state, JSON
  fate                 integer not null,   -- 0 open, 1 met, 2 dead
  wakes_at             integer,            -- the time it waits for
  unmet                integer not null,   -- how many of its dependencies are not met
  attempts             integer not null,
  charged              integer not null,
  environment_failures integer not null,
  fence                integer not null,
  session              text,               -- the holder; set exactly while a claim holds it
  claim_request        text,               -- the request behind the last claim
  token_hash           text,
  cancel_asked         text,
  created_at           integer not null,
  updated_at           integer not null
) strict;
INSERT INTO "task" VALUES(1,'pending','pending','main',0,'pending','{"state":"pending"}',0,NULL,0,0,0,0,0,NULL,NULL,NULL,NULL,1,1);
INSERT INTO "task" VALUES(2,'claimed','claimed','main',0,'claimed','{"state":"claimed","attempt":1}',0,NULL,0,1,0,0,1,'old-f873321dd5fb13266dbf813a8255ea62','f90d97df30f14f16672f62dec719740b','token of claimed',NULL,1,2);
INSERT INTO "task" VALUES(3,'running','running','main',0,'running','{"state":"running","attempt":1,"since":"1970-01-01T00:00:00.003Z"}',0,NULL,0,1,0,0,1,'old-f873321dd5fb13266dbf813a8255ea62','a09ac7d526a3d506ee62ba62d570699c','token of running',NULL,1,3);
INSERT INTO "task" VALUES(4,'judging','judging','main',0,'judging','{"state":"judging","attempt":1,"exit":{"kind":"exited","code":0}}',0,NULL,0,1,0,0,1,'old-f873321dd5fb13266dbf813a8255ea62','6ca6bc641f654b44f81c02ef292eabc6','token of judging',NULL,1,3);
INSERT INTO "task" VALUES(5,'landing','landing','main',0,'landing','{"state":"landing","attempt":1,"head":"68656164206f66206c616e64696e670000000000"}',0,NULL,0,1,0,0,1,NULL,'910ef06a784d322091bb07c48e0d4cb9',NULL,NULL,1,3);
INSERT INTO "task" VALUES(6,'done','done','main',0,'done','{"state":"done","attempt":1}',1,NULL,0,1,0,0,1,NULL,'f8348334ae4b521b2570255bcaf727b6',NULL,NULL,1,3);
INSERT INTO "task" VALUES(7,'landed','landed','main',0,'landed','{"state":"landed","attempt":1,"commit":"6300000000000000000000000000000000000000"}',1,NULL,0,1,0,0,1,NULL,'aaef08681d0a3700e9b2be8eb91c2860',NULL,NULL,1,7);
INSERT INTO "task" VALUES(8,'failed','failed','main',0,'failed','{"state":"failed","why":"no"}',2,NULL,0,1,0,0,1,NULL,'c431b678e0f7de066055058dfe498d69',NULL,NULL,1,3);
INSERT INTO "task" VALUES(9,'cancelled','cancelled','main',0,'cancelled','{"state":"cancelled","by":"me"}',2,NULL,0,0,0,0,0,NULL,NULL,NULL,NULL,1,4);
INSERT INTO "task" VALUES(10,'skipped','skipped','main',0,'skipped','{"state":"skipped","dependency":"failed"}',2,NULL,1,0,0,0,0,NULL,NULL,NULL,NULL,1,3);
INSERT INTO "task" VALUES(11,'parked','parked','main',0,'parked','{"state":"parked","until":"1970-01-01T00:00:00.099Z","why":"operator","detail":"later"}',0,99,0,0,0,0,0,NULL,NULL,NULL,NULL,1,4);
INSERT INTO "task" VALUES(12,'blocked','blocked','main',0,'blocked','{"state":"blocked","reason":"policy","detail":"no key"}',0,NULL,0,1,0,0,1,NULL,'7a754785b83e3dff97f4440d0c471021',NULL,NULL,1,3);
CREATE INDEX task_ready on task(queue, rank, seq) where name = 'pending' and wakes_at is null and unmet = 0;
CREATE INDEX task_timer on task(queue, wakes_at) where wakes_at is not null;
CREATE INDEX task_held on task(session) where session is not null;
CREATE INDEX task_state on task(queue, name);
CREATE INDEX dependency_parent on dependency(parent, child);
CREATE INDEX event_task on event(task, seq) where task is not null;
CREATE INDEX car_target on car(target, seq);
DELETE FROM "sqlite_sequence";
INSERT INTO "sqlite_sequence" VALUES('task',12);
INSERT INTO "sqlite_sequence" VALUES('event',38);
INSERT INTO "sqlite_sequence" VALUES('car',2);
COMMIT;
pragma user_version = 1;
