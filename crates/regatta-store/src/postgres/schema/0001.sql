-- Version 1.
-- Instants are milliseconds since the epoch. JSON is what regatta-core's types serialise to, kept as text: `jsonb`
-- refuses an escaped NUL. Text is compared byte by byte. Bodies are written through `wire::escaped`.
--
-- A record that plans check or write has a version. What belongs to a task (its spec, dependencies, attempts, prompts,
-- car) has the version of the task; a beat and a context value count by themselves; what never changes has version 1.

-- The last numbers that were given. The row is locked by the last statement of a commit, so that the order of events
-- is the order of commits.
create table project(
  one         boolean primary key default true check (one),
  event_seq   bigint not null default 0,
  task_seq    bigint not null default 0,
  message_seq bigint not null default 0,
  turn_seq    bigint not null default 0,
  change_seq  bigint not null default 0,
  schema      bigint not null
) with (fillfactor = 10);

-- Records that only have to have a version: guards of sets, and when an engine last started something.
create table guard(
  name    text collate "C" primary key,
  version bigint not null,
  at      bigint
) with (fillfactor = 50);

create table session(
  id      text collate "C" primary key,
  node    text not null,             -- JSON
  beat    bigint not null,
  ended   text,                      -- null while open; then the JSON list of the tasks it held at its end
  version bigint not null
) with (fillfactor = 50);

create table role(
  role    text collate "C" primary key,
  session text,
  term    bigint not null,
  version bigint not null
);

create table task(
  seq                  bigint primary key,
  id                   text not null,
  folded               text collate "C" not null unique,
  queue                text collate "C" not null,
  rank                 bigint not null,    -- minus the priority, so that claim order is ascending
  name                 text collate "C" not null,      -- the state's name
  state                text not null,      -- the state, JSON
  fate                 bigint not null,    -- 0 open, 1 met, 2 dead
  wakes_at             bigint,             -- the time it waits for
  unmet                bigint not null,    -- how many of its dependencies are not met
  attempts             bigint not null,
  charged              bigint not null,
  environment_failures bigint not null,
  lost                 bigint not null,    -- how often in a row its holders were lost
  fence                bigint not null,
  session              text collate "C",   -- the holder; set exactly while a claim holds it
  claim_request        text,               -- the request behind the last claim
  token_hash           text,
  cancel_asked         text,
  interrupt_asked      text,
  standing             text,               -- JSON: done or landed work that remains valid during a follow-up
  counted_from         bigint not null,    -- attempts count against its budget from this time on
  concurrency_group    text,
  writes               text,               -- JSON; null if it declares none
  created_at           bigint not null,
  updated_at           bigint not null,
  version              bigint not null,
  -- What a list shows, apart from the spec, which is long.
  title                text not null default '',
  agent                text not null default '',
  labels               text,               -- JSON
  part                 text,               -- JSON
  read_only            boolean not null default false
) with (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02, autovacuum_analyze_scale_factor = 0.05);

create index task_ready on task(queue, rank, seq) where name = 'pending' and wakes_at is null and unmet = 0;
create index task_timer on task(queue, wakes_at, seq) where wakes_at is not null;
create index task_held on task(session) where session is not null;
create index task_state on task(name, seq);
create index task_updated on task(updated_at, seq);

create table spec(task bigint primary key, body text not null, plan text);

create table dependency(child bigint not null, parent bigint not null, primary key(child, parent));
create index dependency_parent on dependency(parent, child);

create table attempt(
  task    bigint not null,
  n       bigint not null,
  body    text not null,                   -- JSON
  sandbox text,
  primary key(task, n)
);

-- The last verdict of an attempt's agent, and whether it reported itself stuck after that.
create table report(
  task      bigint not null,
  attempt   bigint not null,
  statement text,
  stuck     text,
  version   bigint not null,
  primary key(task, attempt)
);

create table event(
  seq     bigint primary key,
  at      bigint not null,
  task    bigint,
  attempt bigint,
  body    text not null
);
create index event_task on event(task, seq) where task is not null;

-- Every request that was carried out, so that a repeat of it changes nothing.
create table request(
  request text collate "C" not null,
  kind    text collate "C" not null,
  task    text collate "C" not null,       -- folded, or empty
  primary key(request, kind, task)
);

create table car(
  seq     bigserial primary key,
  task    bigint not null unique,
  target  text collate "C" not null,
  attempt bigint not null,
  request text not null,                   -- JSON
  step    text not null                    -- JSON
);
create index car_target on car(target, seq);

-- Content that passed a gate, so that it is never tested twice.
create table pass(
  seq  bigserial primary key,
  gate text collate "C" not null,          -- a hash of all that the gate does
  tree text collate "C" not null,
  at   bigint not null,
  unique(gate, tree)
);

-- What users sent to a task's agent after its order: delivered one per attempt, in order.
create table prompt(
  task     bigint not null,
  n        bigint not null,                -- from 1, per task
  text     text not null,
  author   text not null,
  at       bigint not null,
  state    text collate "C" not null,      -- queued, taken, told
  attempt  bigint,                         -- the last that took it
  urgent   boolean not null,
  request  text not null,                  -- the request that brought it, and its answer:
  place    bigint not null,
  rearmed  boolean not null,
  primary key(task, n),
  unique(task, request)
);
create index prompt_taken on prompt(task) where state = 'taken';

create table profile(
  name    text collate "C" not null,
  agent   text collate "C" not null,
  turn    bigint not null,                 -- the highest was used last
  version bigint not null,
  primary key(name, agent)
);

create table cooling(
  name  text collate "C" not null,
  agent text collate "C" not null,
  "limit" text collate "C" not null,
  body  text not null,                     -- JSON
  primary key(name, agent, "limit")
);

-- What each attempt used, apart from its record, which is long: sums are read often.
create table spent(
  task       bigint not null,
  n          bigint not null,
  agent      text collate "C" not null,
  model      text collate "C" not null,    -- as the agent named it, else as it was asked for, else empty
  plan       text collate "C",
  at         bigint,                       -- when it ended, else when it was started
  usd        float8,                       -- null if unknown
  priced     boolean not null,             -- true if the dollars are computed from the tokens
  tokens_in  bigint not null,
  tokens_out bigint not null,
  primary key(task, n)
);
create index spent_at on spent(at);
create index spent_plan on spent(plan) where plan is not null;

create table member(
  folded   text collate "C" primary key,
  name     text not null,
  role     text not null,
  session  text collate "C" not null unique,   -- open while the member is there
  lease_ms bigint,                         -- null if a process represents it
  since    bigint not null,
  version  bigint not null
);

create table message(
  seq      bigint primary key,
  request  text collate "C" not null unique,
  at       bigint not null,
  author   text not null,
  kind     text not null,                  -- JSON
  reply_to bigint,
  body     text not null
);

create table delivery(
  folded       text collate "C" not null,  -- in whose inbox
  message      bigint not null,
  name         text not null,
  read_at      bigint,
  dismissed_at bigint,
  version      bigint not null,
  primary key(folded, message)
);
create index delivery_of on delivery(message, folded);

-- A deleted key stays behind without a value, so that its versions continue to grow.
create table context(
  key     text collate "C" primary key,
  value   text,
  version bigint not null,
  change  bigint not null unique,
  author  text not null,
  at      bigint not null
);

-- What machines leave for each other: texts by kind and id.
create table document(
  kind    text collate "C" not null,
  id      text collate "C" not null,
  body    text not null,
  version bigint not null,
  at      bigint not null,
  primary key(kind, id)
) with (fillfactor = 50);

create table context_write(request text collate "C" primary key, version bigint not null);

-- Locks the keys of a plan by their hashes, in the order given, until the end of the transaction.
create function lock_keys(keys bigint[], are_written boolean[]) returns void language plpgsql as $$
begin
  for i in 1 .. coalesce(array_length(keys, 1), 0) loop
    if are_written[i] then
      perform pg_advisory_xact_lock(keys[i]);
    else
      perform pg_advisory_xact_lock_shared(keys[i]);
    end if;
  end loop;
end $$;

-- Ends the transaction because a record has changed, and names it by its place in the plan.
create function refuse(place bigint) returns void language plpgsql as $$
begin
  raise exception 'stale %', place using errcode = 'RG001';
end $$;
