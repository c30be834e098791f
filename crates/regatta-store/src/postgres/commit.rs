//! Plans, written in one exchange.
//!
//! Invariant: everything that the plan rests on is locked before it is compared, and compared before anything is
//! written. The project's row, which numbers the events, is locked last, so that the order of events is the order of
//! commits. No lock is held over an exchange.

use std::collections::BTreeSet;

use regatta_core::time::Timestamp;

use super::bell::News;
use super::connection::Query;
use super::failure::STALE;
use super::places::{self, counter, guard_name, is_of_task, place};
use super::pool::Lease;
use super::train::MOST_PASSES;
use super::wire::{get_u64, maybe_texts, text, texts, values};
use super::{PostgresStore, spending};
use crate::fleet::{STATUS, is_aside};
use crate::rules::ledger::Committed;
use crate::rules::plan::{Plan, Write};
use crate::rules::record::{
    Account, Delivery, Fate, Folded, Holding, Key, QueuedPrompt, Record, Registered, Said, Session, Spec,
    StoredAttempt, StoredCar, StoredMessage, Task,
};
use crate::stored::{to_json, unreadable};
use crate::{AccountKey, ContextEntry, Document, Result, SessionId, StoreError};

/// Each statement sees what was committed before it: the versions are compared after the locks were waited for.
pub(super) const BEGIN: &str = "begin isolation level read committed, read write";

pub(super) async fn commit(store: &PostgresStore, plan: &Plan) -> Result<Committed> {
    let db = store.pool.lease().await?;
    commit_on(store, plan, &db, BEGIN).await
}

/// The same on a connection. `begin` is empty where its transaction has begun.
pub(super) async fn commit_on(
    store: &PostgresStore,
    plan: &Plan,
    db: &Lease,
    begin: &str,
) -> Result<Committed> {
    let mut queries = vec![places::locks(plan, &store.pool.address.schema)];
    queries.extend(places::checks(plan));
    Writes::of(plan)?.queries(&mut queries);
    queries.extend(events(plan));
    let is_loud = !plan.events.is_empty() || plan.writes.iter().any(|write| !is_quiet(&write.key));
    // A process that takes a role or gives it back needs no wake-up for it.
    let wakes_itself =
        plan.writes.iter().any(|write| !is_quiet(&write.key) && !matches!(write.key, Key::Role(_)));
    let has_documents = plan.writes.iter().any(|write| match &write.key {
        Key::Document(kind, _) => kind != STATUS,
        _ => false,
    });
    let news = match (is_loud, has_documents) {
        (false, false) => None,
        (false, true) => Some(News::Documents),
        (true, false) => Some(News::General),
        (true, true) => Some(News::Both),
    };
    let announcement = news.filter(|_| store.bell.may_ring()).map(|news| store.bell.announcement(news));
    let (answers, ended) = match db.exchange(begin, &queries, "commit", announcement.as_deref()).await {
        Ok(answers) => answers,
        Err(error) => return db.keep(Err(error)),
    };
    let mut last = Vec::new();
    for answer in answers {
        match answer {
            Ok(rows) => last = rows,
            Err(error) => return db.keep(refused(plan, error)),
        }
    }
    if let Err(error) = ended {
        // Nobody knows what happened to it.
        return db.keep(Err(StoreError::Unavailable(error.to_string())));
    }
    let committed = db.keep(Ok(Committed::Done));
    if !plan.events.is_empty() {
        for row in &last {
            store.pool.saw(get_u64(row, 0)?);
        }
    }
    if wakes_itself {
        store.bell.wake(News::General);
    }
    if has_documents {
        store.bell.wake(News::Documents);
    }
    if news.is_some() && announcement.is_none() {
        store.bell.ring_later(&store.pool);
    }
    committed
}

/// Whether a write of it wakes nobody.
fn is_quiet(key: &Key) -> bool {
    match key {
        Key::Beat(_) => true,
        Key::Document(kind, _) => is_aside(kind),
        _ => false,
    }
}

/// What the first error of a transaction means.
fn refused(plan: &Plan, error: tokio_postgres::Error) -> Result<Committed> {
    let place = error.as_db_error().and_then(|db| match db.code().code() {
        STALE => db.message().rsplit(' ').next()?.parse().ok(),
        // Another plan has created the same record.
        "23505" => Some(0),
        _ => None,
    });
    match place.and_then(|place: usize| places::expected(plan).nth(place)) {
        Some((key, _)) => Ok(Committed::Stale(key.clone())),
        None => Err(error.into()),
    }
}

/// Numbers the events and appends them.
fn events(plan: &Plan) -> Option<Query> {
    let events = &plan.events;
    (!events.is_empty()).then(|| Query {
        sql: "with p as (update project set event_seq = event_seq + cardinality($1::bigint[]) \
              returning event_seq - cardinality($1::bigint[]) as before) \
              insert into event(seq, at, task, attempt, body) select p.before + k.n, k.at, k.task, k.attempt, k.body \
              from p, unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::text[]) \
              with ordinality k(at, task, attempt, body, n) returning seq"
            .into(),
        values: vec![
            values(events, |event| event.at.millis()),
            values(events, |event| event.task.as_ref().map(|(seq, _)| seq.cast_signed())),
            values(events, |event| event.attempt.map(i64::from)),
            texts(events, |event| event.body.as_str()),
        ],
    })
}

/// What a plan writes, by table.
#[derive(Default)]
struct Writes<'a> {
    sessions: Vec<(&'a SessionId, &'a Session, bool)>,
    beats: Vec<(&'a SessionId, u64)>,
    guards: Vec<(String, Option<Timestamp>)>,
    roles: Vec<(&'a String, &'a Holding)>,
    new_tasks: Vec<TaskRow<'a>>,
    tasks: Vec<TaskRow<'a>>,
    /// Tasks of which only the version moves.
    touched: BTreeSet<&'a str>,
    specs: Vec<(&'a Folded, &'a Spec)>,
    deps: Vec<&'a Folded>,
    dependencies: Vec<(&'a Folded, &'a Folded)>,
    attempts: Vec<(&'a Folded, &'a StoredAttempt)>,
    reports: Vec<(&'a Folded, u32, &'a Said)>,
    new_prompts: Vec<(&'a Folded, &'a QueuedPrompt)>,
    prompts: Vec<(&'a Folded, &'a QueuedPrompt)>,
    new_cars: Vec<(&'a Folded, &'a StoredCar)>,
    cars: Vec<(&'a Folded, &'a StoredCar)>,
    lost_cars: Vec<&'a Folded>,
    passes: Vec<(&'a String, String, Timestamp)>,
    accounts: Vec<(&'a AccountKey, &'a Account)>,
    members: Vec<(&'a Folded, &'a Registered)>,
    messages: Vec<(u64, &'a StoredMessage)>,
    deliveries: Vec<(&'a Folded, u64, &'a Delivery)>,
    requests: Vec<[String; 3]>,
    written: Vec<(&'a str, u64)>,
    counters: Vec<(&'static str, u64)>,
    context: Vec<&'a ContextEntry>,
    documents: Vec<(&'a str, &'a Document)>,
    lost_documents: Vec<(&'a str, &'a str)>,
}

struct TaskRow<'a> {
    name: &'a Folded,
    task: &'a Task,
    /// A state that only a newer version can read stays as it is.
    keeps_state: bool,
}

impl<'a> Writes<'a> {
    fn of(plan: &'a Plan) -> Result<Self> {
        let mut writes = Self::default();
        for write in &plan.writes {
            writes.add(write)?;
        }
        let rows = writes.new_tasks.iter().chain(&writes.tasks);
        let whole: BTreeSet<&str> = rows.map(|row| &**row.name).collect();
        // What belongs to a task has the version of the task.
        for write in plan.writes.iter().filter(|write| is_of_task(&write.key)) {
            if let Key::Spec(task)
            | Key::Deps(task)
            | Key::Attempt(task, _)
            | Key::Prompt(task, _)
            | Key::Car(task) = &write.key
            {
                writes.touched.insert(task);
            }
        }
        writes.touched.retain(|task| !whole.contains(task));
        Ok(writes)
    }

    fn add(&mut self, write: &'a Write) -> Result<()> {
        match (&write.key, &write.before, &write.after) {
            (Key::Session(id), before, Some(Record::Session(session))) => {
                self.sessions.push((id, session, before.is_none()));
            }
            (Key::Beat(id), Some(_), Some(Record::Number(beat))) => self.beats.push((id, beat.0)),
            (Key::Role(role), _, Some(Record::Role(held))) => self.roles.push((role, held)),
            (key @ Key::Starts, _, Some(Record::Starts(starts))) => {
                self.guards.extend(guard_name(key).map(|name| (name, starts.last)));
            }
            (key @ (Key::Holds(_) | Key::Crew | Key::Profile(_)), _, Some(_)) => {
                self.guards.extend(guard_name(key).map(|name| (name, None)));
            }
            (Key::Task(name), None, Some(Record::Task(task))) => {
                self.new_tasks.push(TaskRow { name, task, keeps_state: false });
            }
            (Key::Task(name), Some(Record::Task(before)), Some(Record::Task(task))) => {
                if before == task {
                    self.touched.insert(name);
                } else {
                    let state = |task: &'a Task| (&task.state, &task.standing);
                    self.tasks.push(TaskRow { name, task, keeps_state: state(before) == state(task) });
                }
            }
            // Only the version of the task moves.
            (key, Some(before), Some(after)) if is_of_task(key) && before == after => {}
            (Key::Spec(task), _, Some(Record::Spec(spec))) => self.specs.push((task, spec)),
            (Key::Deps(task), _, Some(Record::Deps(deps))) => {
                self.deps.push(task);
                self.dependencies.extend(deps.parents.iter().map(|parent| (task, parent)));
            }
            (Key::Attempt(task, _), _, Some(Record::Attempt(attempt))) => self.attempts.push((task, attempt)),
            (Key::Report(task, n), _, Some(Record::Report(said))) => self.reports.push((task, *n, said)),
            (Key::Prompt(task, _), None, Some(Record::Prompt(queued))) => {
                self.new_prompts.push((task, queued));
            }
            (Key::Prompt(task, _), Some(_), Some(Record::Prompt(queued))) => {
                self.prompts.push((task, queued));
            }
            (Key::Car(task), None, Some(Record::Car(car))) => self.new_cars.push((task, car)),
            (Key::Car(task), Some(_), Some(Record::Car(car))) => self.cars.push((task, car)),
            (Key::Car(task), _, None) => self.lost_cars.push(task),
            (Key::Pass(gate, tree), _, Some(Record::Pass(pass))) => {
                self.passes.push((gate, tree.as_str().to_owned(), pass.at));
            }
            (Key::Account(key), _, Some(Record::Account(account))) => self.accounts.push((key, account)),
            (Key::Member(name), _, Some(Record::Member(member))) => self.members.push((name, member)),
            (Key::Message(id), _, Some(Record::Message(message))) => self.messages.push((*id, message)),
            (Key::Delivery(name, id), _, Some(Record::Delivery(delivery))) => {
                self.deliveries.push((name, *id, delivery));
            }
            (Key::Context(_), _, Some(Record::Context(entry))) => self.context.push(entry),
            (Key::Document(kind, _), _, Some(Record::Document(document))) => {
                self.documents.push((kind, document));
            }
            (Key::Document(kind, id), _, None) => self.lost_documents.push((kind, id)),
            (key @ Key::Request(..), None, Some(_)) => self.requests.push(place(key).key),
            (Key::Written(request), _, Some(Record::Number(version))) => {
                self.written.push((&request.0, version.0));
            }
            (Key::Counter(which), _, Some(Record::Number(last))) => {
                self.counters.push((counter(*which), last.0));
            }
            // A message's own row has its request; a session's row has its beat.
            (Key::Posted(_) | Key::Beat(_), ..) => {}
            (key, _, after) => {
                return Err(unreadable("a plan", format!("{key:?} cannot become {after:?}")));
            }
        }
        Ok(())
    }

    /// The statements in the order of the tables; those that need the project's row come last.
    fn queries(self, queries: &mut Vec<Query>) {
        let mut add = |is_needed: bool, sql: &str, values: &dyn Fn() -> Vec<super::wire::Param>| {
            if is_needed {
                queries.push(Query { sql: sql.to_owned(), values: values() });
            }
        };
        let (new, ended): (Vec<_>, Vec<_>) = self.sessions.iter().partition(|session| session.2);
        add(
            !new.is_empty(),
            "insert into session(id, node, beat, ended, version) \
             select k.id, k.node, 0, k.ended, 1 from unnest($1::text[], $2::text[], $3::text[]) k(id, node, ended)",
            &|| session_values(&new),
        );
        add(
            !ended.is_empty(),
            "update session s set ended = k.ended, version = s.version + 1 \
             from unnest($1::text[], $2::text[], $3::text[]) k(id, node, ended) where s.id = k.id",
            &|| session_values(&ended),
        );
        add(
            !self.beats.is_empty(),
            "update session s set beat = k.beat from unnest($1::text[], $2::bigint[]) k(id, beat) where s.id = k.id",
            &|| vec![texts(&self.beats, |row| &row.0.0), values(&self.beats, |row| row.1.cast_signed())],
        );
        add(
            !self.guards.is_empty(),
            "insert into guard(name, version, at) select k.name, 1, k.at \
             from unnest($1::text[], $2::bigint[]) k(name, at) \
             on conflict(name) do update set version = guard.version + 1, at = excluded.at",
            &|| {
                vec![
                    texts(&self.guards, |row| &row.0),
                    values(&self.guards, |row| row.1.map(Timestamp::millis)),
                ]
            },
        );
        add(
            !self.roles.is_empty(),
            "insert into role(role, session, term, version) select k.role, k.session, k.term, 1 \
             from unnest($1::text[], $2::text[], $3::bigint[]) k(role, session, term) \
             on conflict(role) do update set session = excluded.session, term = excluded.term, \
             version = role.version + 1",
            &|| {
                vec![
                    texts(&self.roles, |row| row.0),
                    maybe_texts(&self.roles, |row| row.1.session.as_ref().map(|session| &session.0)),
                    values(&self.roles, |row| row.1.term.cast_signed()),
                ]
            },
        );
        add(!self.new_tasks.is_empty(), &format!("{INSERT_TASKS} from {TASK_ROWS}"), &|| {
            task_values(&self.new_tasks)
        });
        add(
            !self.tasks.is_empty(),
            &format!("{UPDATE_TASKS} from {TASK_ROWS} where t.folded = k.folded"),
            &|| task_values(&self.tasks),
        );
        add(
            !self.touched.is_empty(),
            "update task set version = version + 1 where folded = any($1::text[])",
            &|| vec![texts(&self.touched.iter().collect::<Vec<_>>(), |name| name)],
        );
        self.of_tasks(&mut add);
        add(
            !self.passes.is_empty(),
            "insert into pass(gate, tree, at) select * from unnest($1::text[], $2::text[], $3::bigint[]) \
             on conflict(gate, tree) do nothing",
            &|| {
                vec![
                    texts(&self.passes, |row| row.0),
                    texts(&self.passes, |row| &row.1),
                    values(&self.passes, |row| row.2.millis()),
                ]
            },
        );
        add(
            !self.passes.is_empty(),
            "delete from pass where seq <= (select max(seq) from pass) - $1",
            &|| vec![Box::new(MOST_PASSES)],
        );
        self.of_crew(&mut add);
        add(
            !self.requests.is_empty(),
            "insert into request(request, kind, task) select * from unnest($1::text[], $2::text[], $3::text[])",
            &|| [0, 1, 2].map(|n| texts(&self.requests, |row| &row[n])).into(),
        );
        add(
            !self.documents.is_empty(),
            "insert into document(kind, id, body, version, at) \
             select * from unnest($1::text[], $2::text[], $3::text[], $4::bigint[], $5::bigint[]) \
             on conflict(kind, id) do update set body = excluded.body, version = excluded.version, \
             at = excluded.at",
            &|| {
                let documents = &self.documents;
                vec![
                    texts(documents, |row| row.0),
                    texts(documents, |row| &row.1.id),
                    texts(documents, |row| &row.1.body),
                    values(documents, |row| row.1.version.cast_signed()),
                    values(documents, |row| row.1.at.millis()),
                ]
            },
        );
        add(
            !self.lost_documents.is_empty(),
            "delete from document r using unnest($1::text[], $2::text[]) k(kind, id) \
             where r.kind = k.kind and r.id = k.id",
            &|| vec![texts(&self.lost_documents, |row| row.0), texts(&self.lost_documents, |row| row.1)],
        );
        for (column, last) in &self.counters {
            add(true, &format!("update project set {column} = $1"), &|| vec![Box::new(last.cast_signed())]);
        }
        for entry in &self.context {
            add(
                true,
                "with p as (update project set change_seq = change_seq + 1 returning change_seq) \
                 insert into context(key, value, version, change, author, at) \
                 select $1::text, $2::text, $3::bigint, p.change_seq, $4::text, $5::bigint from p \
                 on conflict(key) do update set value = excluded.value, version = excluded.version, \
                 change = excluded.change, author = excluded.author, at = excluded.at",
                &|| {
                    let value = entry.value.as_deref().map(|value| super::wire::escaped(value).into_owned());
                    vec![
                        text(&entry.key),
                        Box::new(value),
                        Box::new(entry.version.cast_signed()),
                        text(&entry.by),
                        Box::new(entry.at.millis()),
                    ]
                },
            );
        }
    }

    /// What belongs to tasks, by their folded ids.
    fn of_tasks(&self, add: &mut Add<'_>) {
        add(
            !self.specs.is_empty(),
            "insert into spec(task, body, plan) select t.seq, k.body, k.plan \
             from unnest($1::text[], $2::text[], $3::text[]) k(task, body, plan) join task t on t.folded = k.task \
             on conflict(task) do update set body = excluded.body, plan = excluded.plan",
            &|| {
                vec![
                    texts(&self.specs, |row| &**row.0),
                    texts(&self.specs, |row| &row.1.body),
                    maybe_texts(&self.specs, |row| row.1.spec.plan.as_ref().map(ToString::to_string)),
                ]
            },
        );
        add(
            !self.specs.is_empty(),
            "update task t set title = k.title, agent = k.agent, labels = k.labels, part = k.part, \
             read_only = k.read_only from unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[], \
             $6::boolean[]) k(task, title, agent, labels, part, read_only) where t.folded = k.task",
            &|| {
                let specs = &self.specs;
                vec![
                    texts(specs, |row| &**row.0),
                    texts(specs, |row| &row.1.spec.title),
                    texts(specs, |row| &row.1.spec.agent),
                    maybe_texts(specs, |row| {
                        (!row.1.spec.labels.is_empty()).then(|| to_json(&row.1.spec.labels))
                    }),
                    maybe_texts(specs, |row| row.1.spec.part.as_ref().map(to_json)),
                    values(specs, |row| row.1.spec.read_only),
                ]
            },
        );
        add(
            !self.deps.is_empty(),
            "delete from dependency d using task t where t.folded = any($1::text[]) and d.child = t.seq",
            &|| vec![texts(&self.deps, |task| &***task)],
        );
        add(
            !self.dependencies.is_empty(),
            "insert into dependency(child, parent) select c.seq, p.seq from unnest($1::text[], $2::text[]) \
             k(child, parent) join task c on c.folded = k.child join task p on p.folded = k.parent",
            &|| vec![texts(&self.dependencies, |row| &**row.0), texts(&self.dependencies, |row| &**row.1)],
        );
        add(
            !self.attempts.is_empty(),
            "insert into attempt(task, n, body, sandbox) select t.seq, k.n, k.body, k.sandbox \
             from unnest($1::text[], $2::bigint[], $3::text[], $4::text[]) k(task, n, body, sandbox) \
             join task t on t.folded = k.task \
             on conflict(task, n) do update set body = excluded.body, sandbox = excluded.sandbox",
            &|| {
                let level = |attempt: &StoredAttempt| {
                    attempt.attempt.sandbox.map(|level| to_json(&level).trim_matches('"').to_owned())
                };
                vec![
                    texts(&self.attempts, |row| &**row.0),
                    values(&self.attempts, |row| i64::from(row.1.attempt.n)),
                    texts(&self.attempts, |row| &row.1.body),
                    maybe_texts(&self.attempts, |row| level(row.1)),
                ]
            },
        );
        add(!self.attempts.is_empty(), spending::PUT, &|| {
            spending::values_of(&self.attempts.iter().map(|row| (row.0, &row.1.attempt)).collect::<Vec<_>>())
        });
        add(
            !self.reports.is_empty(),
            "insert into report(task, attempt, statement, stuck, version) \
             select t.seq, k.attempt, k.statement, k.stuck, 1 \
             from unnest($1::text[], $2::bigint[], $3::text[], $4::text[]) k(task, attempt, statement, stuck) \
             join task t on t.folded = k.task on conflict(task, attempt) do update \
             set statement = excluded.statement, stuck = excluded.stuck, version = report.version + 1",
            &|| {
                vec![
                    texts(&self.reports, |row| &**row.0),
                    values(&self.reports, |row| i64::from(row.1)),
                    maybe_texts(&self.reports, |row| row.2.statement.as_ref()),
                    maybe_texts(&self.reports, |row| row.2.stuck.as_ref()),
                ]
            },
        );
        add(
            !self.new_prompts.is_empty(),
            &format!(
                "insert into prompt(task, n, state, attempt, text, author, at, urgent, request, place, rearmed) \
                 select t.seq, k.n, k.state, k.attempt, k.text, k.author, k.at, k.urgent, k.request, k.place, \
                 k.rearmed from {PROMPT_ROWS} join task t on t.folded = k.task"
            ),
            &|| prompt_values(&self.new_prompts),
        );
        add(
            !self.prompts.is_empty(),
            &format!(
                "update prompt p set state = k.state, attempt = k.attempt from {PROMPT_ROWS} \
                 join task t on t.folded = k.task where p.task = t.seq and p.n = k.n"
            ),
            &|| prompt_values(&self.prompts),
        );
        add(
            !self.new_cars.is_empty(),
            &format!(
                "insert into car(task, target, attempt, request, step) \
                 select t.seq, k.target, k.attempt, k.request, k.step from {CAR_ROWS} join task t on t.folded = k.task"
            ),
            &|| car_values(&self.new_cars),
        );
        add(
            !self.cars.is_empty(),
            &format!(
                "update car c set step = k.step from {CAR_ROWS} join task t on t.folded = k.task where c.task = t.seq"
            ),
            &|| car_values(&self.cars),
        );
        add(
            !self.lost_cars.is_empty(),
            "delete from car c using task t where t.folded = any($1::text[]) and c.task = t.seq",
            &|| vec![texts(&self.lost_cars, |task| &***task)],
        );
    }

    /// Accounts, members, messages and requests of the context.
    fn of_crew(&self, add: &mut Add<'_>) {
        let coolings = self
            .accounts
            .iter()
            .flat_map(|(key, account)| account.coolings.iter().map(move |(limit, body)| (*key, limit, body)));
        let coolings: Vec<_> = coolings.collect();
        add(
            !self.accounts.is_empty(),
            "insert into profile(name, agent, turn, version) select k.name, k.agent, k.turn, 1 \
             from unnest($1::text[], $2::text[], $3::bigint[]) k(name, agent, turn) \
             on conflict(name, agent) do update set turn = excluded.turn, version = profile.version + 1",
            &|| {
                vec![
                    texts(&self.accounts, |row| &row.0.profile),
                    texts(&self.accounts, |row| &row.0.agent),
                    values(&self.accounts, |row| row.1.turn.cast_signed()),
                ]
            },
        );
        add(
            !self.accounts.is_empty(),
            "delete from cooling c using unnest($1::text[], $2::text[]) k(name, agent) \
             where c.name = k.name and c.agent = k.agent",
            &|| vec![texts(&self.accounts, |row| &row.0.profile), texts(&self.accounts, |row| &row.0.agent)],
        );
        add(
            !coolings.is_empty(),
            "insert into cooling(name, agent, \"limit\", body) \
             select * from unnest($1::text[], $2::text[], $3::text[], $4::text[])",
            &|| {
                vec![
                    texts(&coolings, |row| &row.0.profile),
                    texts(&coolings, |row| &row.0.agent),
                    texts(&coolings, |row| row.1),
                    texts(&coolings, |row| row.2),
                ]
            },
        );
        add(
            !self.members.is_empty(),
            "insert into member(folded, name, role, session, lease_ms, since, version) \
             select k.folded, k.name, k.role, k.session, k.lease_ms, k.since, 1 \
             from unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::bigint[], $6::bigint[]) \
             k(folded, name, role, session, lease_ms, since) \
             on conflict(folded) do update set name = excluded.name, role = excluded.role, \
             session = excluded.session, lease_ms = excluded.lease_ms, since = excluded.since, \
             version = member.version + 1",
            &|| {
                let members = &self.members;
                vec![
                    texts(members, |row| &**row.0),
                    texts(members, |row| row.1.name.as_str()),
                    texts(members, |row| row.1.role.as_str()),
                    texts(members, |row| &row.1.session.0),
                    values(members, |row| row.1.lease_ms),
                    values(members, |row| row.1.since.millis()),
                ]
            },
        );
        add(
            !self.messages.is_empty(),
            "insert into message(seq, request, at, author, kind, reply_to, body) select * \
             from unnest($1::bigint[], $2::text[], $3::bigint[], $4::text[], $5::text[], $6::bigint[], $7::text[])",
            &|| {
                let messages = &self.messages;
                vec![
                    values(messages, |row| row.0.cast_signed()),
                    texts(messages, |row| &row.1.request.0),
                    values(messages, |row| row.1.at.millis()),
                    texts(messages, |row| row.1.author.as_str()),
                    texts(messages, |row| to_json(&row.1.kind)),
                    values(messages, |row| row.1.reply_to.map(u64::cast_signed)),
                    texts(messages, |row| &row.1.text),
                ]
            },
        );
        add(
            !self.deliveries.is_empty(),
            "insert into delivery(folded, message, name, read_at, dismissed_at, version) \
             select k.folded, k.message, k.name, k.read_at, k.dismissed_at, 1 \
             from unnest($1::text[], $2::bigint[], $3::text[], $4::bigint[], $5::bigint[]) \
             k(folded, message, name, read_at, dismissed_at) \
             on conflict(folded, message) do update set read_at = excluded.read_at, \
             dismissed_at = excluded.dismissed_at, version = delivery.version + 1",
            &|| {
                let deliveries = &self.deliveries;
                vec![
                    texts(deliveries, |row| &**row.0),
                    values(deliveries, |row| row.1.cast_signed()),
                    texts(deliveries, |row| row.2.name.as_str()),
                    values(deliveries, |row| row.2.read_at.map(Timestamp::millis)),
                    values(deliveries, |row| row.2.dismissed_at.map(Timestamp::millis)),
                ]
            },
        );
        add(
            !self.written.is_empty(),
            "insert into context_write(request, version) select * from unnest($1::text[], $2::bigint[])",
            &|| vec![texts(&self.written, |row| row.0), values(&self.written, |row| row.1.cast_signed())],
        );
    }
}

/// Adds a statement, if it is needed.
type Add<'a> = dyn FnMut(bool, &str, &dyn Fn() -> Vec<super::wire::Param>) + 'a;

fn session_values(rows: &[&(&SessionId, &Session, bool)]) -> Vec<super::wire::Param> {
    vec![
        texts(rows, |row| &row.0.0),
        texts(rows, |row| to_json(&row.1.node)),
        maybe_texts(rows, |row| row.1.ended.as_ref().map(to_json)),
    ]
}

const TASK_ROWS: &str = "unnest($1::text[], $2::bigint[], $3::text[], $4::text[], $5::bigint[], $6::text[], \
    $7::text[], $8::bigint[], $9::bigint[], $10::bigint[], $11::bigint[], $12::bigint[], $13::bigint[], \
    $14::bigint[], $15::bigint[], $16::text[], $17::text[], $18::text[], $19::text[], $20::text[], $21::text[], \
    $22::bigint[], $23::text[], $24::text[], $25::bigint[], $26::bigint[], $27::boolean[]) \
    k(folded, seq, id, queue, rank, name, state, fate, wakes_at, unmet, attempts, charged, environment_failures, \
    lost, fence, session, claim_request, token_hash, cancel_asked, interrupt_asked, standing, counted_from, \
    concurrency_group, writes, created_at, updated_at, keeps_state)";

const INSERT_TASKS: &str = "insert into task(folded, seq, id, queue, rank, name, state, fate, wakes_at, unmet, \
    attempts, charged, environment_failures, lost, fence, session, claim_request, token_hash, cancel_asked, \
    interrupt_asked, standing, counted_from, concurrency_group, writes, created_at, updated_at, version) \
    select k.folded, k.seq, k.id, k.queue, k.rank, k.name, k.state, k.fate, k.wakes_at, k.unmet, k.attempts, \
    k.charged, k.environment_failures, k.lost, k.fence, k.session, k.claim_request, k.token_hash, k.cancel_asked, \
    k.interrupt_asked, k.standing, k.counted_from, k.concurrency_group, k.writes, k.created_at, k.updated_at, 1";

const UPDATE_TASKS: &str = "update task t set queue = k.queue, rank = k.rank, \
    name = case when k.keeps_state then t.name else k.name end, \
    state = case when k.keeps_state then t.state else k.state end, \
    fate = case when k.keeps_state then t.fate else k.fate end, \
    wakes_at = case when k.keeps_state then t.wakes_at else k.wakes_at end, \
    standing = case when k.keeps_state then t.standing else k.standing end, \
    unmet = k.unmet, attempts = k.attempts, charged = k.charged, environment_failures = k.environment_failures, \
    lost = k.lost, fence = k.fence, session = k.session, claim_request = k.claim_request, \
    token_hash = k.token_hash, cancel_asked = k.cancel_asked, interrupt_asked = k.interrupt_asked, \
    counted_from = k.counted_from, concurrency_group = k.concurrency_group, writes = k.writes, \
    updated_at = k.updated_at, version = t.version + 1";

fn task_values(rows: &[TaskRow<'_>]) -> Vec<super::wire::Param> {
    let fate = |task: &Task| match task.fate() {
        Fate::Open => 0_i64,
        Fate::Met => 1,
        Fate::Dead => 2,
    };
    vec![
        texts(rows, |row| &**row.name),
        values(rows, |row| row.task.seq.cast_signed()),
        texts(rows, |row| row.task.id.as_str()),
        texts(rows, |row| &row.task.queue),
        values(rows, |row| -i64::from(row.task.priority)),
        texts(rows, |row| row.task.state.name()),
        texts(rows, |row| to_json(&row.task.state)),
        values(rows, |row| fate(row.task)),
        values(rows, |row| row.task.state.wakes_at().map(Timestamp::millis)),
        values(rows, |row| i64::from(row.task.unmet)),
        values(rows, |row| i64::from(row.task.attempts)),
        values(rows, |row| i64::from(row.task.charged)),
        values(rows, |row| i64::from(row.task.environment_failures)),
        values(rows, |row| i64::from(row.task.lost)),
        values(rows, |row| row.task.fence.cast_signed()),
        maybe_texts(rows, |row| row.task.session.as_ref().map(|session| &session.0)),
        maybe_texts(rows, |row| row.task.claim_request.as_ref()),
        maybe_texts(rows, |row| row.task.token_hash.as_ref()),
        maybe_texts(rows, |row| row.task.cancel_asked.as_ref()),
        maybe_texts(rows, |row| row.task.interrupt_asked.as_ref()),
        maybe_texts(rows, |row| row.task.standing.as_ref().map(to_json)),
        values(rows, |row| row.task.counted_from.millis()),
        maybe_texts(rows, |row| row.task.group.as_ref()),
        maybe_texts(rows, |row| (!row.task.writes.is_empty()).then(|| to_json(&row.task.writes))),
        values(rows, |row| row.task.created_at.millis()),
        values(rows, |row| row.task.updated_at.millis()),
        values(rows, |row| row.keeps_state),
    ]
}

const PROMPT_ROWS: &str = "unnest($1::text[], $2::bigint[], $3::text[], $4::bigint[], $5::text[], $6::text[], \
    $7::bigint[], $8::boolean[], $9::text[], $10::bigint[], $11::boolean[]) \
    k(task, n, state, attempt, text, author, at, urgent, request, place, rearmed)";

fn prompt_values(rows: &[(&Folded, &QueuedPrompt)]) -> Vec<super::wire::Param> {
    vec![
        texts(rows, |row| &**row.0),
        values(rows, |row| i64::from(row.1.prompt.n)),
        texts(rows, |row| row.1.prompt.state.as_str()),
        values(rows, |row| row.1.prompt.attempt.map(i64::from)),
        texts(rows, |row| &row.1.prompt.text),
        texts(rows, |row| &row.1.prompt.by),
        values(rows, |row| row.1.prompt.at.millis()),
        values(rows, |row| row.1.urgent),
        texts(rows, |row| &row.1.request.0),
        values(rows, |row| i64::from(row.1.position)),
        values(rows, |row| row.1.rearmed),
    ]
}

const CAR_ROWS: &str = "unnest($1::text[], $2::text[], $3::bigint[], $4::text[], $5::text[]) \
    k(task, target, attempt, request, step)";

fn car_values(rows: &[(&Folded, &StoredCar)]) -> Vec<super::wire::Param> {
    vec![
        texts(rows, |row| &**row.0),
        texts(rows, |row| &row.1.target),
        values(rows, |row| i64::from(row.1.attempt)),
        texts(rows, |row| &row.1.request),
        texts(rows, |row| to_json(&row.1.step)),
    ]
}
