//! The `notify` rows of `regatta.yaml`: where notifications go, and about what.

use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};

use crate::diagnostic::{Pos, Report, nearest};
use crate::notify::{NotifyKind, WebhookUrl, is_public};

use super::fields::{Fields, Spot};
use super::file::texts;
use super::yaml::quoted;

/// One destination of notifications.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notify {
    /// The kinds to send.
    pub on: Vec<NotifyKind>,
    /// Where to send them.
    pub sink: Sink,
}

/// A destination of notifications.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sink {
    /// An HTTP request.
    Webhook {
        /// The address to call.
        url: WebhookUrl,
        /// Whether the address may be in the user's own network, or this machine.
        allow_private: bool,
    },
    /// A program and its arguments.
    Command(Vec<String>),
    /// A desktop notification, if there is a desktop.
    Desktop,
    /// A line in Regatta's normal output.
    Log,
    /// The one comment on the pull request of the task.
    GithubComment,
}

impl Sink {
    /// The keys of which a row needs exactly one.
    const KEYS: [&'static str; 5] = ["webhook", "command", "desktop", "log", "github"];
}

impl Serialize for Notify {
    /// As written in the file. Code that displays it masks the path of `webhook`.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("on", &self.on)?;
        match &self.sink {
            Sink::Webhook { url, allow_private } => {
                map.serialize_entry("webhook", url.as_str())?;
                map.serialize_entry("allow_private", allow_private)?;
            }
            Sink::Command(argv) => map.serialize_entry("command", argv)?,
            Sink::Desktop => map.serialize_entry("desktop", &true)?,
            Sink::Log => map.serialize_entry("log", &true)?,
            Sink::GithubComment => map.serialize_entry("github", "comment")?,
        }
        map.end()
    }
}

/// A mistake in a row.
struct Mistake {
    pos: Pos,
    field: String,
    message: String,
    hint: Option<String>,
}

/// The row, if it is usable.
pub(super) fn row(fields: &Fields) -> Option<Notify> {
    Some(Notify { on: kinds(fields).ok()?, sink: sink(fields).ok()?? })
}

/// Reports mistakes in the rows.
pub(super) fn check(rows: &[Fields], report: &mut Report) {
    for fields in rows {
        let mistakes = [kinds(fields).err(), sink(fields).err()];
        for Mistake { pos, field, message, hint } in mistakes.into_iter().flatten().flatten() {
            report.error(pos, &field, message).hint = hint;
        }
    }
}

fn kinds(fields: &Fields) -> Result<Vec<NotifyKind>, Vec<Mistake>> {
    let names = || NotifyKind::NAMES.iter().map(|(name, _)| *name);
    let known = || format!("one or more of {}", names().collect::<Vec<_>>().join(", "));
    let field = fields.path_of("on");
    let given: &[Spot<String>] = fields.texts("on").unwrap_or_default();
    if given.is_empty() {
        let message = match fields.field("on") {
            Some(_) => "`on` is empty, so nothing would ever be sent",
            // It has a mistake, which has been reported already.
            None if !fields.lacks("on") => return Err(Vec::new()),
            None => "`on` is missing",
        };
        let (pos, message) = (fields.pos_of("on"), message.to_owned());
        return Err(vec![Mistake { pos, field, message, hint: Some(known()) }]);
    }
    let mut kinds = Vec::new();
    let mut mistakes = Vec::new();
    for Spot { pos, value } in given {
        match NotifyKind::named(value) {
            Some(kind) if kinds.contains(&kind) => {}
            Some(kind) => kinds.push(kind),
            None => mistakes.push(Mistake {
                pos: *pos,
                field: field.clone(),
                message: format!("unknown event {}", quoted(value)),
                hint: Some(match nearest(value, names()) {
                    Some(near) => format!("did you mean `{near}`?"),
                    None => known(),
                }),
            }),
        }
    }
    if mistakes.is_empty() { Ok(kinds) } else { Err(mistakes) }
}

/// The single sink of a row; `None` if its key has a mistake, which has been reported already.
fn sink(fields: &Fields) -> Result<Option<Sink>, Vec<Mistake>> {
    let wrong = |pos, field: &str, message: String, hint: &str| {
        let hint = (!hint.is_empty()).then(|| hint.to_owned());
        Err(vec![Mistake { pos, field: fields.path_of(field), message, hint }])
    };
    // `desktop: false` and `log: false` count as absent.
    let given: Vec<_> = Sink::KEYS
        .into_iter()
        .filter_map(|key| fields.field(key))
        .filter(|field| fields.bool(field.key.name) != Some(false))
        .collect();
    let allow_private = fields.bool("allow_private");
    let found = match given.as_slice() {
        [] if Sink::KEYS.iter().any(|key| fields.broken.contains(key)) => return Ok(None),
        [] => {
            let message = "no recipient is named".to_owned();
            let hint = "add one of `webhook: https://…`, `command: [program, argument]`, `desktop: true`, `log: true`, `github: comment`";
            return Err(vec![Mistake {
                pos: fields.pos,
                field: fields.path.clone(),
                message,
                hint: Some(hint.into()),
            }]);
        }
        [only] => only,
        [first, second, ..] => {
            let (first, second, pos) = (first.key.name, second.key.name, first.key_pos.max(second.key_pos));
            let message = format!("`{first}` and `{second}` cannot be in the same entry; give each its own");
            return wrong(pos, second, message, "");
        }
    };
    if allow_private.is_some() && found.key.name != "webhook" {
        let pos = fields.field("allow_private").map_or(fields.pos, |field| field.key_pos);
        return wrong(pos, "allow_private", "`allow_private` is only for webhooks".to_owned(), "");
    }
    match found.key.name {
        "webhook" => {
            let text = fields.text("webhook").unwrap_or_default();
            let allow_private = allow_private.unwrap_or(false);
            let url = match WebhookUrl::parse(text) {
                Ok(url) => url,
                // The text may be a secret, so it is not repeated.
                Err(why) => {
                    return wrong(
                        found.pos,
                        "webhook",
                        format!("the address {why}"),
                        "such as https://HOST/PATH",
                    );
                }
            };
            let hint = "add `allow_private: true` if it is a machine of your own";
            if !url.is_https() && !allow_private {
                let message =
                    "the address is not https, so others on the network could read what is sent".to_owned();
                return wrong(found.pos, "webhook", message, hint);
            }
            if !allow_private && url.ip().is_some_and(|ip| !is_public(ip)) {
                let message = "the address is on this machine or its network".to_owned();
                return wrong(found.pos, "webhook", message, hint);
            }
            Ok(Some(Sink::Webhook { url, allow_private }))
        }
        "command" => {
            let argv = texts(fields.texts("command").unwrap_or_default());
            match argv.first().map(|program| program.trim()) {
                None | Some("") => {
                    let hint = "such as `command: [ntfy, publish, builds]`";
                    wrong(found.pos, "command", "`command` has no program".to_owned(), hint)
                }
                Some(program) if program.starts_with('-') => {
                    let message = format!("program {program:?} begins with a dash, as an option would");
                    wrong(found.pos, "command", message, "")
                }
                Some(_) => Ok(Some(Sink::Command(argv))),
            }
        }
        "desktop" => Ok(Some(Sink::Desktop)),
        "github" => Ok(Some(Sink::GithubComment)),
        _ => Ok(Some(Sink::Log)),
    }
}
