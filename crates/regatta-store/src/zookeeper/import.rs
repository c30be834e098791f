//! Lines as the nodes of a store.
//!
//! Invariant: each transaction writes some lines, with all entries that follow from them, and moves the mark on by their
//! number. So a copy that is cut off continues after its last transaction.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use regatta_core::crew::MemberName;
use regatta_core::prompt::{Prompt, PromptState};
use regatta_core::time::Timestamp;
use serde_json::value::RawValue;

use super::codec::{self, Blob};
use super::commit::EventText;
use super::export::{MessageLine, SessionLine, TaskLine, fitting};
use super::link::Link;
use super::look::{Answer, Ask, Look, Seeing};
use super::ops::{ANY, Op};
use super::paths::{self, EVENTS};
use super::{entries, events, see, tasks};
use crate::rules::record::{
    Account, Counter, Delivery, Folded, Holding, Kept, Key, Pass, QueuedPrompt, Record, Registered, Said,
    Starts, StoredMessage,
};
use crate::stored::{from_json, to_json, unreadable};
use crate::transfer::{Kind, Line, derived};
use crate::{AccountKey, ContextEntry, Document, Posted, RequestId, Result, SessionId, StoreError};

/// How much a transaction takes at most, in bytes and in operations.
const LONGEST: usize = 450_000;
const MOST: usize = 1500;

/// Lines that are written by one transaction, whichever else it writes.
struct Unit {
    lines: u64,
    work: Vec<Op>,
}

/// What lines of one kind come to.
pub(super) struct Import {
    kind: Kind,
    /// Directories that have to exist before.
    pub(super) directories: Vec<String>,
    /// Pieces of long values, written before.
    pub(super) pieces: Vec<(String, String)>,
    units: Vec<Unit>,
}

/// The operations of a transaction, and how many lines they stand for.
pub(super) struct Step {
    pub(super) lines: u64,
    pub(super) work: Vec<Op>,
}

impl Import {
    /// What these lines, all of one kind, come to. Reads what they add to.
    pub(super) async fn of(link: &Link, lines: &[Line]) -> Result<Self> {
        let kind = lines.first().map_or(Kind::Counters, Line::kind);
        let mut import = Self { kind, directories: Vec::new(), pieces: Vec::new(), units: Vec::new() };
        match kind {
            Kind::Dependency => import.dependencies(link, lines).await?,
            Kind::Attempt => import.attempts(link, lines).await?,
            Kind::Cooling => import.coolings(link, lines).await?,
            Kind::Delivery => import.deliveries(link, lines).await?,
            Kind::Event => import.events(link, lines).await?,
            _ => lines.iter().try_for_each(|line| import.line(line))?,
        }
        let mut known = BTreeSet::new();
        import.directories.retain(|directory| known.insert(directory.clone()));
        Ok(import)
    }

    /// The transactions, in their order. The number of the transaction that adds a car or a passed tree is its place
    /// among the others, so each has one of its own.
    pub(super) fn steps(&mut self, chroot: &str) -> Vec<Step> {
        let is_alone = matches!(self.kind, Kind::Car | Kind::Pass);
        let mut steps: Vec<Step> = Vec::new();
        let mut size = 0;
        for unit in std::mem::take(&mut self.units) {
            let more: usize = unit.work.iter().map(|op| op.size(chroot)).sum();
            match steps.last_mut() {
                Some(step)
                    if !is_alone && size + more <= LONGEST && step.work.len() + unit.work.len() <= MOST =>
                {
                    size += more;
                    step.lines += unit.lines;
                    step.work.extend(unit.work);
                }
                _ => {
                    size = more;
                    steps.push(Step { lines: unit.lines, work: unit.work });
                }
            }
        }
        steps
    }

    fn unit(&mut self, lines: usize, work: Vec<Op>) {
        self.units.push(Unit { lines: u64::try_from(lines).unwrap_or(u64::MAX), work });
    }

    /// Creates a node; a long value is kept in pieces.
    fn create(&mut self, path: String, text: String) -> Op {
        let text = self.kept(&path, text);
        Op::create(path, text)
    }

    fn kept(&mut self, path: &str, text: String) -> String {
        match Blob::of(path, &text) {
            Some(blob) => {
                self.pieces.extend(blob.pieces);
                blob.reference
            }
            None => text,
        }
    }

    /// Replaces the text of a node, or creates it, and removes the pieces of a long value.
    fn replace(&mut self, path: String, before: Option<&str>, text: String) -> Vec<Op> {
        let Some(before) = before else { return vec![self.create(path, text)] };
        let gone = Blob::of(&path, before).into_iter().flat_map(|blob| blob.pieces);
        let mut work: Vec<Op> = gone.map(|(node, _)| Op::delete(node, ANY)).collect();
        let text = self.kept(&path, text);
        work.push(Op::set(path, text, ANY));
        work
    }

    fn record(&mut self, key: &Key, record: &Record) -> Result<Op> {
        let text = codec::encode(record)?;
        Ok(self.create(paths::record(key), text))
    }

    /// A line that stands for itself.
    fn line(&mut self, line: &Line) -> Result<()> {
        let work = match line.kind() {
            Kind::Session => self.session(line)?,
            Kind::Role => {
                let session = line.maybe_text("session").map(|session| SessionId(session.to_owned()));
                let held = Holding { session, term: fitting(line, "term")? };
                vec![self.record(&Key::Role(line.text("role").to_owned()), &held.record())?]
            }
            Kind::Start => {
                vec![self.record(&Key::Starts, &Starts { last: Some(time(line, "at")) }.record())?]
            }
            Kind::Task => self.task(line)?,
            Kind::Spec => {
                let (task, body) = (line.text("task"), line.text("body"));
                let brief = tasks::brief_text(&derived::task_spec(line)?);
                let brief = Op::create(paths::brief(task), brief);
                vec![self.create(paths::of_task(task, "spec"), body.to_owned()), brief]
            }
            Kind::Report => {
                let text = |field| line.maybe_text(field).map(str::to_owned);
                let said = Said { statement: text("statement"), stuck: text("stuck") };
                let key = Key::Report(line.text("task").into(), fitting(line, "attempt")?);
                vec![self.record(&key, &said.record())?]
            }
            Kind::Prompt => vec![self.prompt(line)?],
            Kind::Car => self.car(line)?,
            Kind::Pass => {
                let directory = paths::passes(line.text("gate"));
                let path = format!("{directory}/{}", paths::name(line.text("tree")));
                self.directories.push(directory);
                let text = codec::encode(&Pass { at: time(line, "at") }.record())?;
                vec![self.create(path, text)]
            }
            Kind::Account => {
                let account = Account { turn: fitting(line, "turn")?, coolings: Vec::new() };
                vec![self.record(&Key::Account(account_of(line)), &account.record())?]
            }
            Kind::Member => {
                let name = derived::member(line)?;
                let role = line.text("role");
                let role = role.parse().map_err(|error| unreadable(&format!("the role {role:?}"), error))?;
                let key = Key::Member(name.folded().into());
                let registered = Registered {
                    name,
                    role,
                    session: SessionId(line.text("session").to_owned()),
                    lease_ms: line.maybe_int("lease_ms"),
                    since: time(line, "since"),
                };
                vec![self.record(&key, &registered.record())?]
            }
            Kind::Message => self.message(line)?,
            Kind::Context => {
                let entry = ContextEntry {
                    key: line.text("key").to_owned(),
                    value: line.maybe_text("value").map(str::to_owned),
                    version: fitting(line, "version")?,
                    change: fitting(line, "change")?,
                    by: line.text("author").to_owned(),
                    at: time(line, "at"),
                };
                vec![self.record(&Key::Context(entry.key.clone()), &entry.record())?]
            }
            Kind::Written => {
                let key = Key::Written(RequestId(line.text("request").to_owned()));
                vec![self.create(paths::record(&key), fitting::<u64>(line, "version")?.to_string())]
            }
            Kind::Document => {
                let (kind, id) = (line.text("kind").to_owned(), line.text("id").to_owned());
                self.directories.push(paths::documents(&kind));
                let document = Document {
                    id: id.clone(),
                    body: line.text("body").to_owned(),
                    version: fitting(line, "version")?,
                    at: time(line, "at"),
                };
                vec![self.record(&Key::Document(kind, id), &document.record())?]
            }
            Kind::Request => {
                let task = line.maybe_text("task");
                if task.is_some_and(|task| task.starts_with('#')) {
                    return Err(derived::no_task(Kind::Request));
                }
                let mut work =
                    vec![Op::create(paths::request(line.text("request"), line.text("kind"), task), "")];
                work.extend(task.map(|task| Op::check(paths::task(task), ANY)));
                work
            }
            Kind::Counters => self.counters(line)?,
            Kind::Dependency | Kind::Attempt | Kind::Cooling | Kind::Delivery | Kind::Event => Vec::new(),
        };
        self.unit(1, work);
        Ok(())
    }

    fn session(&mut self, line: &Line) -> Result<Vec<Op>> {
        let id = SessionId(line.text("id").to_owned());
        let (node, ended) = (raw(line, "node")?, maybe_raw(line, "ended")?);
        let beat = line.int("beat");
        let text =
            to_json(&SessionLine { node, ended, beat: ended.is_some().then_some(beat).filter(|n| *n != 0) });
        // Refuses what cannot be read back.
        codec::session(&text)?;
        let mut work = vec![self.create(paths::record(&Key::Session(id.clone())), text)];
        if ended.is_none() {
            let (open, nothing) = entries::of_session(&id);
            work.push(Op::create(open, nothing));
            work.push(Op::create(paths::record(&Key::Beat(id)), fitting::<u64>(line, "beat")?.to_string()));
        }
        Ok(work)
    }

    fn task(&mut self, line: &Line) -> Result<Vec<Op>> {
        let owned = |field| line.maybe_text(field).map(str::to_owned);
        let text = to_json(&TaskLine {
            seq: line.int("seq"),
            id: line.text("id").to_owned(),
            queue: line.text("queue").to_owned(),
            priority: line.int("priority"),
            state: raw(line, "state")?,
            unmet: line.int("unmet"),
            attempts: line.int("attempts"),
            charged: line.int("charged"),
            environment_failures: line.int("environment_failures"),
            lost: line.int("lost"),
            fence: line.int("fence"),
            session: owned("session"),
            claim_request: owned("claim_request"),
            token_hash: owned("token_hash"),
            cancel_asked: owned("cancel_asked"),
            interrupt_asked: owned("interrupt_asked"),
            standing: maybe_raw(line, "standing")?,
            counted_from: time(line, "counted_from"),
            group: owned("group"),
            writes: maybe_raw(line, "writes")?,
            created_at: time(line, "created_at"),
            updated_at: time(line, "updated_at"),
        });
        let columns = derived::task(line)?;
        let task = codec::task(&text)?;
        let folded: Folded = columns.folded.into();
        self.directories.extend(entries::directories_of(&task, &columns.name));
        let mut work = vec![self.create(paths::task(&folded), text)];
        let found_by = entries::of_task(&folded, &task, &columns.name);
        work.extend(found_by.into_iter().map(|(path, data)| Op::create(path, data)));
        Ok(work)
    }

    fn prompt(&mut self, line: &Line) -> Result<Op> {
        let state = line.text("state");
        let state = PromptState::parse(state)
            .ok_or_else(|| unreadable("the state of a prompt", format!("{state:?}")))?;
        let n: u32 = fitting(line, "n")?;
        let attempt = match line.maybe_int("attempt") {
            Some(_) => Some(fitting(line, "attempt")?),
            None => None,
        };
        let queued = QueuedPrompt {
            prompt: Prompt {
                n,
                text: line.text("text").to_owned(),
                by: line.text("by").to_owned(),
                at: time(line, "at"),
                state,
                attempt,
            },
            urgent: line.flag("urgent"),
            request: RequestId(line.text("request").to_owned()),
            position: fitting(line, "place")?,
            rearmed: line.flag("rearmed"),
        };
        self.record(&Key::Prompt(line.text("task").into(), n), &queued.record())
    }

    fn car(&mut self, line: &Line) -> Result<Vec<Op>> {
        let (task, target) = (line.text("task"), line.text("target"));
        let text = to_json(&codec::CarText {
            target: target.to_owned(),
            attempt: fitting(line, "attempt")?,
            request: line.text("request").to_owned(),
            step: raw(line, "step")?,
            rest: Default::default(),
        });
        self.directories.push(paths::cars(target));
        let (entry, nothing) = entries::of_car(target, task);
        Ok(vec![self.create(paths::of_task(task, "car"), text), Op::create(entry, nothing)])
    }

    fn message(&mut self, line: &Line) -> Result<Vec<Op>> {
        let text = to_json(&MessageLine {
            request: line.text("request").to_owned(),
            at: time(line, "at"),
            author: line.text("author").to_owned(),
            kind: raw(line, "kind")?,
            reply_to: line.maybe_int("reply_to"),
            text: line.text("body").to_owned(),
        });
        codec::message(&text)?;
        let id = fitting(line, "seq")?;
        // Its recipients follow.
        let posted = Posted { id, to: Vec::new() };
        let request = RequestId(line.text("request").to_owned());
        Ok(vec![
            self.create(paths::record(&Key::Message(id)), text),
            self.record(&Key::Posted(request), &posted.record())?,
        ])
    }

    fn counters(&mut self, line: &Line) -> Result<Vec<Op>> {
        let counters = [
            (paths::record(&Key::Counter(Counter::Tasks)), "tasks"),
            (paths::record(&Key::Counter(Counter::Messages)), "messages"),
            (paths::record(&Key::Counter(Counter::Turns)), "turns"),
            (paths::CHANGES_BEFORE.to_owned(), "changes"),
        ];
        let mut work = Vec::new();
        for (path, field) in counters {
            let last: u64 = fitting(line, field)?;
            if last > 0 {
                work.push(Op::create(path, last.to_string()));
            }
        }
        // Events are numbered by their directory.
        let last: u64 = fitting(line, "events")?;
        if last > 0 {
            work.push(Op::check(paths::event(last), ANY));
        }
        Ok(work)
    }

    /// A task's dependencies are one node.
    async fn dependencies(&mut self, link: &Link, lines: &[Line]) -> Result<()> {
        let mut children: Vec<(&str, Vec<&str>)> = Vec::new();
        for line in lines {
            let (task, on) = (line.text("task"), line.text("on"));
            match children.last_mut().filter(|(last, _)| *last == task) {
                Some((_, parents)) => parents.push(on),
                None => children.push((task, vec![on])),
            }
        }
        let asks = children.iter().map(|(task, _)| Ask::Data(paths::of_task(task, "deps"))).collect();
        for ((task, parents), before) in children.into_iter().zip(texts(link, asks).await?) {
            let mut all = match &before {
                Some(text) => codec::parents(text)?,
                None => Vec::new(),
            };
            all.extend(parents.iter().map(|parent| Folded::from(*parent)));
            let mut work = self.replace(paths::of_task(task, "deps"), before.as_deref(), to_json(&all));
            let below = parents.iter().map(|parent| entries::of_dependency(parent, task));
            work.extend(below.map(|(path, data)| Op::create(path, data)));
            self.unit(parents.len(), work);
        }
        Ok(())
    }

    /// What an attempt has used counts against its task's plan.
    async fn attempts(&mut self, link: &Link, lines: &[Line]) -> Result<()> {
        let briefs = lines.iter().map(|line| Ask::Data(paths::brief(line.text("task")))).collect();
        for (line, brief) in lines.iter().zip(texts(link, briefs).await?) {
            let attempt = derived::attempt(line)?;
            let task = line.text("task");
            let plan = match brief {
                Some(text) => tasks::brief_of(&text)?.plan,
                None => None,
            };
            let n: u32 = fitting(line, "n")?;
            let key = Key::Attempt(task.into(), n);
            let mut work = vec![self.create(paths::record(&key), line.text("body").to_owned())];
            self.directories.push(entries::spent_directory(&attempt));
            work.push(Op::create(entries::spent_node(task, &attempt), entries::spent(&attempt, plan)));
            if let Some(level) = entries::confinement(&attempt) {
                work.push(Op::create(paths::confined(task, n), level));
            }
            self.unit(1, work);
        }
        Ok(())
    }

    /// The limits of an account are part of its node.
    async fn coolings(&mut self, link: &Link, lines: &[Line]) -> Result<()> {
        let mut accounts: Vec<(AccountKey, Vec<(String, String)>)> = Vec::new();
        for line in lines {
            let key = account_of(line);
            let cooling = (line.text("limit").to_owned(), line.text("body").to_owned());
            match accounts.last_mut().filter(|(last, _)| *last == key) {
                Some((_, coolings)) => coolings.push(cooling),
                None => accounts.push((key, vec![cooling])),
            }
        }
        let path = |key: &AccountKey| paths::record(&Key::Account(key.clone()));
        let asks = accounts.iter().map(|(key, _)| Ask::Data(path(key))).collect();
        for ((key, coolings), before) in accounts.iter().zip(texts(link, asks).await?) {
            let Some(before) = before else {
                return Err(StoreError::Invalid(format!(
                    "a limit belongs to the account {}/{}, which does not exist",
                    key.profile, key.agent
                )));
            };
            let mut account = codec::account(&before)?;
            account.coolings.extend(coolings.iter().cloned());
            let text = codec::encode(&account.record())?;
            let work = self.replace(path(key), Some(&before), text);
            self.unit(coolings.len(), work);
        }
        Ok(())
    }

    /// The answer to the request of a message names its recipients.
    async fn deliveries(&mut self, link: &Link, lines: &[Line]) -> Result<()> {
        let mut names: BTreeMap<u64, Vec<MemberName>> = BTreeMap::new();
        for line in lines {
            names.entry(fitting(line, "message")?).or_default().push(derived::member(line)?);
        }
        let asks = names.keys().map(|id| Ask::Data(paths::record(&Key::Message(*id)))).collect();
        let mut requests: Vec<(u64, String)> = Vec::new();
        for (id, text) in names.keys().zip(texts(link, asks).await?) {
            let Some(text) = text else {
                return Err(StoreError::Invalid(format!("message {id} in an inbox does not exist")));
            };
            let StoredMessage { request, .. } = codec::message(&text)?;
            requests.push((*id, paths::record(&Key::Posted(request))));
        }
        let asks = requests.iter().map(|(_, path)| Ask::Data(path.clone())).collect();
        let mut posted: HashMap<u64, (String, String, Posted)> = HashMap::new();
        for ((id, path), text) in requests.into_iter().zip(texts(link, asks).await?) {
            let text =
                text.ok_or_else(|| unreadable(&format!("the answer to message {id}"), "it is missing"))?;
            let answer = codec::posted(&text)?;
            posted.insert(id, (path, text, answer));
        }
        for line in lines {
            let (id, name) = (fitting(line, "message")?, derived::member(line)?);
            let maybe_time = |field| line.maybe_int(field).map(Timestamp::from_millis);
            let folded: Folded = name.folded().into();
            self.directories.push(paths::inbox(&folded));
            let delivery = Delivery {
                name: name.clone(),
                read_at: maybe_time("read_at"),
                dismissed_at: maybe_time("dismissed_at"),
            };
            let mut work = vec![self.record(&Key::Delivery(folded, id), &delivery.record())?];
            if let Some((path, text, answer)) = posted.get_mut(&id) {
                answer.to.push(name);
                answer.to.sort_by_key(MemberName::folded);
                let now = codec::encode(&answer.clone().record())?;
                let before = std::mem::replace(text, now.clone());
                work.extend(self.replace(path.clone(), Some(&before), now));
            }
            self.unit(1, work);
        }
        Ok(())
    }

    /// Events are numbered without gaps.
    async fn events(&mut self, link: &Link, lines: &[Line]) -> Result<()> {
        let names: BTreeSet<&str> = lines.iter().filter_map(|line| line.maybe_text("task")).collect();
        let names: Vec<&str> = names.into_iter().collect();
        let asks: Vec<Ask> = names.iter().map(|name| Ask::Data(paths::task(name))).collect();
        let (last, found) = see!(link, look => numbered(&look, &asks))?;
        let mut ids: HashMap<&str, String> = HashMap::new();
        for (name, text) in names.into_iter().zip(found) {
            let text = text.ok_or_else(|| derived::no_task(Kind::Event))?;
            let task: TaskLine<'_> = from_json("a task", &text)?;
            ids.insert(name, task.id);
        }
        for (next, line) in (last + 1..).zip(lines) {
            let seq: u64 = fitting(line, "seq")?;
            if seq != next {
                return Err(StoreError::Invalid(format!(
                    "event {seq} follows event {}; `regatta store check` lists what is wrong with the store",
                    next - 1
                )));
            }
            let attempt = match line.maybe_int("attempt") {
                Some(_) => Some(fitting(line, "attempt")?),
                None => None,
            };
            let task = line.maybe_text("task").and_then(|task| ids.get(task)).map(String::as_str);
            let text = to_json(&EventText { at: line.int("at"), task, attempt, body: raw(line, "body")? });
            let work = self.create(paths::event(seq), text);
            self.unit(1, vec![work]);
        }
        Ok(())
    }
}

fn account_of(line: &Line) -> AccountKey {
    AccountKey { profile: line.text("profile").to_owned(), agent: line.text("agent").to_owned() }
}

fn time(line: &Line, field: &str) -> Timestamp {
    Timestamp::from_millis(line.int(field))
}

/// A field that is JSON, as it is.
fn raw<'a>(line: &'a Line, field: &str) -> Result<&'a RawValue> {
    from_json(&format!("the {field} of a {}", line.kind()), line.text(field))
}

fn maybe_raw<'a>(line: &'a Line, field: &str) -> Result<Option<&'a RawValue>> {
    line.maybe_text(field).map(|_| raw(line, field)).transpose()
}

/// The texts of nodes, as far as they exist.
async fn texts(link: &Link, asks: Vec<Ask>) -> Result<Vec<Option<String>>> {
    see!(link, look => found(&look, &asks))
}

async fn found(look: &Look<'_>, asks: &[Ask]) -> Seeing<Vec<Option<String>>> {
    let answers = look.read(asks).await?.into_iter();
    Ok(answers.map(|answer| answer.data().map(|(text, _)| text)).collect())
}

/// The number of the last event, and the texts of nodes.
async fn numbered(look: &Look<'_>, asks: &[Ask]) -> Seeing<(u64, Vec<Option<String>>)> {
    let mut all = vec![Ask::Data(EVENTS.to_owned())];
    all.extend(asks.iter().cloned());
    let mut answers = look.read(&all).await?.into_iter();
    let last = answers.next().and_then(Answer::data).map_or(0, |(_, stat)| events::last(&stat));
    Ok((last, answers.map(|answer| answer.data().map(|(text, _)| text)).collect()))
}
