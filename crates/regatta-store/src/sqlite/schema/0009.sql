-- What a list says of a task, apart from its spec: a long queue is listed without reading one.
alter table task add column title text not null default '';
alter table task add column agent text not null default '';
alter table task add column labels text;             -- JSON; null where it has none
alter table task add column part text;               -- JSON; null where it plays none
alter table task add column read_only integer not null default 0;
update task set
  title = coalesce(json_extract(s.body, '$.title'), ''),
  agent = coalesce(json_extract(s.body, '$.agent'), ''),
  labels = nullif(json_extract(s.body, '$.labels'), '[]'),
  part = json_extract(s.body, '$.part'),
  read_only = coalesce(json_extract(s.body, '$.read_only'), 0)
from spec s where s.task = task.seq;
