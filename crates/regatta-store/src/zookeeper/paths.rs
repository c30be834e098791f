//! Where each record is kept.
//!
//! Nobody lists the directories that grow without limit (tasks, requests, messages): what has to be found is in
//! [`entries`](super::entries).

use crate::rules::record::{Counter, Key};

pub(super) const EVENTS: &str = "/events";
/// Events are numbered from zero by the ensemble.
pub(super) const EVENT: &str = "/events/e-";
pub(super) const GATE: &str = "/gate";
pub(super) const PLANS: &str = "/plans";
pub(super) const BLOBS: &str = "/blobs";
pub(super) const BELL: &str = "/bell";
pub(super) const SCHEMA: &str = "/schema";
pub(super) const QUEUES: &str = "/q";
pub(super) const HELD: &str = "/held";
pub(super) const OPEN: &str = "/open";
pub(super) const MEMBERS: &str = "/members";
pub(super) const ACCOUNTS: &str = "/accounts";
pub(super) const SPENT: &str = "/spent";
pub(super) const CONTEXT: &str = "/context";
/// The last change of the context that was copied from another store.
pub(super) const CHANGES_BEFORE: &str = "/changes-before";
/// The oldest program that may use the store.
pub(super) const OLDEST: &str = "/oldest-program";
pub(super) const REQUESTS: &str = "/requests";
pub(super) const STARTS: &str = "/starts";

/// The directories of a store.
pub(super) const DIRECTORIES: [&str; 25] = [
    EVENTS,
    PLANS,
    BLOBS,
    BELL,
    QUEUES,
    HELD,
    OPEN,
    MEMBERS,
    ACCOUNTS,
    SPENT,
    CONTEXT,
    "/sessions",
    "/beats",
    "/holds",
    "/roles",
    "/t",
    "/cars",
    "/passes",
    "/profiles",
    "/messages",
    "/inbox",
    "/documents",
    REQUESTS,
    "/posted",
    "/written",
];

/// A name that any text can be made into: letters, digits, `_`, `-` and inner dots as they are, the rest by percent
/// signs. `~` separates the parts of a name.
pub(super) fn name(text: &str) -> String {
    use std::fmt::Write as _;
    if text.is_empty() {
        return "%".into();
    }
    let mut name = String::with_capacity(text.len());
    for (n, byte) in text.bytes().enumerate() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'_' | b'-' => name.push(char::from(byte)),
            b'.' if n > 0 => name.push('.'),
            _ => {
                let _always = write!(name, "%{byte:02X}");
            }
        }
    }
    name
}

/// The text that was made into this name.
pub(super) fn text(name: &str) -> String {
    if name == "%" {
        return String::new();
    }
    let mut bytes = Vec::with_capacity(name.len());
    let mut rest = name.as_bytes();
    while let [first, tail @ ..] = rest {
        let coded = if *first == b'%' { tail.get(..2) } else { None };
        let coded = coded.and_then(|hex| u8::from_str_radix(std::str::from_utf8(hex).ok()?, 16).ok());
        bytes.push(coded.unwrap_or(*first));
        rest = if coded.is_some() { &tail[2..] } else { tail };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// A number as part of a name: names sort as their numbers do.
pub(super) fn padded(number: u64) -> String {
    format!("{number:012}")
}

pub(super) fn task(task: &str) -> String {
    format!("/t/{}", name(task))
}

pub(super) fn of_task(of: &str, part: &str) -> String {
    format!("{}/{part}", task(of))
}

/// What a list shows of a task, apart from its spec, which is long.
pub(super) fn brief(of: &str) -> String {
    of_task(of, "brief")
}

/// How firmly an attempt was confined.
pub(super) fn confined(of: &str, attempt: u32) -> String {
    of_task(of, &format!("y{attempt}"))
}

/// The node of a request that was carried out.
pub(super) fn request(request: &str, kind: &str, task: Option<&str>) -> String {
    format!("{REQUESTS}/{}~{}~{}", name(request), name(kind), task.map_or_else(String::new, name))
}

pub(super) fn event(seq: u64) -> String {
    format!("{EVENT}{:010}", seq.saturating_sub(1))
}

pub(super) fn passes(gate: &str) -> String {
    format!("/passes/{}", name(gate))
}

pub(super) fn cars(target: &str) -> String {
    format!("/cars/{}", name(target))
}

pub(super) fn inbox(of: &str) -> String {
    format!("/inbox/{}", name(of))
}

pub(super) fn documents(kind: &str) -> String {
    format!("/documents/{}", name(kind))
}

/// The node of a record.
pub(super) fn record(key: &Key) -> String {
    match key {
        Key::Session(session) => format!("/sessions/{}", name(&session.0)),
        Key::Beat(session) => format!("/beats/{}", name(&session.0)),
        Key::Holds(session) => format!("/holds/{}", name(&session.0)),
        Key::Role(role) => format!("/roles/{}", name(role)),
        Key::Starts => STARTS.into(),
        Key::Crew => "/crew".into(),
        Key::Task(of) => task(of),
        Key::Spec(of) => of_task(of, "spec"),
        Key::Deps(of) => of_task(of, "deps"),
        Key::Attempt(of, n) => of_task(of, &format!("a{n}")),
        Key::Report(of, n) => of_task(of, &format!("r{n}")),
        Key::Prompt(of, n) => of_task(of, &format!("p{n}")),
        Key::Car(of) => of_task(of, "car"),
        Key::Pass(gate, tree) => format!("{}/{}", passes(gate), name(tree.as_str())),
        Key::Profile(profile) => format!("/profiles/{}", name(profile)),
        Key::Account(account) => {
            format!("{ACCOUNTS}/{}~{}", name(&account.profile), name(&account.agent))
        }
        Key::Member(member) => format!("{MEMBERS}/{}", name(member)),
        Key::Message(id) => format!("/messages/{}", padded(*id)),
        Key::Delivery(of, id) => format!("{}/{}", inbox(of), padded(*id)),
        Key::Context(key) => format!("{CONTEXT}/{}", name(key)),
        Key::Document(kind, id) => format!("{}/{}", documents(kind), name(id)),
        Key::Request(request, kind, task) => self::request(&request.0, kind, task.as_deref()),
        Key::Posted(request) => format!("/posted/{}", name(&request.0)),
        Key::Written(request) => format!("/written/{}", name(&request.0)),
        Key::Counter(Counter::Tasks) => "/counter-tasks".into(),
        Key::Counter(Counter::Messages) => "/counter-messages".into(),
        Key::Counter(Counter::Turns) => "/counter-turns".into(),
    }
}

/// Whether a record belongs to a task, whose version guards all of it.
pub(super) fn is_of_task(key: &Key) -> bool {
    matches!(key, Key::Spec(_) | Key::Deps(_) | Key::Attempt(..) | Key::Prompt(..) | Key::Car(_))
}

#[cfg(test)]
mod tests {
    use super::{name, text};

    #[test]
    fn any_text_becomes_a_name_and_comes_back() {
        for odd in ["", ".", "..", "a/b", "~x~", "%41", "ü\u{0}\n", ".git", "train:main", "plain-1.2_x"] {
            let made = name(odd);
            assert!(!made.contains(['/', '~', '\0', '\n']) && !made.starts_with('.'), "{made}");
            assert_eq!(text(&made), odd);
        }
        assert_eq!(name("plain-1.2_x"), "plain-1.2_x");
    }
}
