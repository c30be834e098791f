-- Prompts that must not wait for the attempt under way: they are taken before the others.
alter table prompt add column urgent integer not null default 0;
-- Who asked for the attempt under way to be interrupted, so that its agent continues with an urgent prompt.
alter table task add column interrupt_asked text;
