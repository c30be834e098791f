-- The oldest program that may use the store, and the mark of a store that is moved or copied, JSON. While there is a
-- mark, `user_version` is raised by a million, so that every program refuses the store.
create table project(
  one            integer primary key check (one = 1),
  oldest_program integer not null,
  mark           text
) strict;
insert into project(one, oldest_program) values(1, 0);
