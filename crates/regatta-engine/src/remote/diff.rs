//! How a lane on another machine differs from a commit: asked for by one machine, made by the other.
//!
//! The answer is a heading in one line, then the text, then the names of the files. It is made once, masked, and has a
//! limit; the heading says what was cut.

use std::path::PathBuf;
use std::sync::Arc;

use regatta_core::attempt::Place;
use regatta_core::id::TaskId;
use serde::{Deserialize, Serialize};

use super::fetch::{NotServed, ask};
use super::{Request, Wanted};
use crate::context::{Context, config_secrets};
use crate::git::{DiffStyle, GitError, Oid};
use crate::hub::names;
use crate::lanes::{Lane, LookLimits, Looked};
use crate::redact::Redactor;
use crate::session;
use crate::travel::last_with_lane;
use regatta_store::Store;

/// The most bytes of text that are sent.
const MOST_TEXT: usize = 8 << 20;
/// The most bytes of names that are sent.
const MOST_NAMES: usize = 1 << 20;
/// The longest heading.
const MOST_HEADING: usize = 64 << 10;
/// Beyond this many bytes in uncommitted files, none is read.
const MOST_UNCOMMITTED: u64 = 256 << 20;

/// Which difference is asked for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WantedDiff {
    /// Its format.
    pub style: WantedStyle,
    /// Whether the names of the changed files are wanted as well.
    pub files: bool,
    /// Compare with the point where the work left this commit, instead of the commit the lane started from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub against: Option<Oid>,
}

/// The formats that can be asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WantedStyle {
    /// A patch.
    Patch,
    /// Files with counts and bars.
    Stat,
    /// Names of files, one per line.
    Names,
}

impl From<DiffStyle> for WantedStyle {
    fn from(style: DiffStyle) -> Self {
        match style {
            DiffStyle::Patch => WantedStyle::Patch,
            DiffStyle::Stat => WantedStyle::Stat,
            DiffStyle::Names | DiffStyle::NamesZ => WantedStyle::Names,
        }
    }
}

impl From<WantedStyle> for DiffStyle {
    fn from(style: WantedStyle) -> Self {
        match style {
            WantedStyle::Patch => DiffStyle::Patch,
            WantedStyle::Stat => DiffStyle::Stat,
            WantedStyle::Names => DiffStyle::Names,
        }
    }
}

/// What another machine says about a lane.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DiffElsewhere {
    /// The difference.
    Found {
        /// The commit that the work is compared with.
        base: Oid,
        /// The directory of the lane, on that machine.
        lane: PathBuf,
        text: Vec<u8>,
        /// The names of the changed files, if they were wanted.
        files: Vec<String>,
        /// How many bytes of the text and of the names were not sent.
        cut: u64,
        /// Whether secrets were masked.
        is_masked: bool,
    },
    /// The lane is gone.
    NoLane,
    /// That machine does not have the commit to compare with.
    UnknownCommit,
    /// There is too much to read.
    TooLarge {
        /// The bytes in uncommitted files.
        bytes: u64,
    },
    /// Git failed there.
    Failed {
        /// Why.
        why: String,
    },
}

/// The first line of an answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Heading {
    Diff { base: Oid, lane: String, text: usize, names: usize, cut: u64, masked: bool },
    NoLane,
    UnknownCommit,
    TooLarge { bytes: u64 },
    Failed { why: String },
}

/// Asks the place that has the lane of an attempt how the lane differs.
pub async fn diff_elsewhere(
    store: &Arc<dyn Store>,
    place: &Place,
    task: &TaskId,
    attempt: u32,
    wanted: &WantedDiff,
) -> Result<DiffElsewhere, NotServed> {
    let request = Request::new(task, attempt, Wanted::Diff(wanted.clone()));
    let most = MOST_HEADING + MOST_TEXT + MOST_NAMES;
    let answer = ask(store, place, request, most).await?;
    read(&answer).ok_or(NotServed::Incomplete)
}

/// Reads an answer; `None` if it is not complete.
fn read(answer: &[u8]) -> Option<DiffElsewhere> {
    let end = answer.iter().position(|byte| *byte == b'\n')?;
    let (heading, rest) = (&answer[..end], &answer[end + 1..]);
    Some(match serde_json::from_slice(heading).ok()? {
        Heading::Diff { base, lane, text, names, cut, masked } => {
            if text.checked_add(names)? != rest.len() {
                return None;
            }
            let (text, names) = rest.split_at(text);
            let names = names.split(|byte| *byte == 0).filter(|name| !name.is_empty());
            DiffElsewhere::Found {
                base,
                lane: lane.into(),
                text: text.to_vec(),
                files: names.map(|name| String::from_utf8_lossy(name).into_owned()).collect(),
                cut,
                is_masked: masked,
            }
        }
        Heading::NoLane => DiffElsewhere::NoLane,
        Heading::UnknownCommit => DiffElsewhere::UnknownCommit,
        Heading::TooLarge { bytes } => DiffElsewhere::TooLarge { bytes },
        Heading::Failed { why } => DiffElsewhere::Failed { why },
    })
}

/// Makes the answer to a request. Every value of the request was read as an id or as one of a list.
pub(super) async fn answer(ctx: Arc<Context>, task: TaskId, wanted: WantedDiff) -> Vec<u8> {
    let (heading, body) = match made(&ctx, &task, wanted).await {
        Ok(made) => made,
        Err(why) => (Heading::Failed { why: ctx.settings.redact(&why) }, Vec::new()),
    };
    let mut answer = serde_json::to_vec(&heading).unwrap_or_default();
    answer.push(b'\n');
    answer.extend(body);
    answer
}

async fn made(ctx: &Arc<Context>, task: &TaskId, wanted: WantedDiff) -> Result<(Heading, Vec<u8>), String> {
    let store = &ctx.services.store;
    let record = store.task(task).await.map_err(|error| error.to_string())?;
    let attempts = store.attempts(task).await.map_err(|error| error.to_string())?;
    // A lane of a task that went on elsewhere says nothing about it any more.
    let is_here = last_with_lane(&attempts)
        .and_then(|last| last.place.as_ref())
        .is_some_and(|place| session::place().is_some_and(|own| own.id == place.id));
    if !is_here {
        return Ok((Heading::NoLane, Vec::new()));
    }
    let mut secrets: Vec<(String, String)> = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .collect();
    secrets.extend(ctx.settings.environment.texts().map(|(name, value)| (name.to_owned(), value.to_owned())));
    secrets.extend(ctx.memory.fleet.reloaded_settings().iter().flat_map(|newer| config_secrets(&newer.0)));
    secrets.extend(record.spec.env.clone());
    secrets.extend(record.spec.bounds.mcp.values().flat_map(|server| server.variables().clone()));
    let id = record.spec.id;
    let made = ctx.blocking(move |ctx| {
        let found = ctx.repository.lanes.find(&id)?.filter(|lane| lane.path.is_dir());
        let Some(lane) = found else { return Ok((Heading::NoLane, Vec::new())) };
        secrets.extend(ctx.secrets_in_lane(&id));
        let redactor = Redactor::for_worker(secrets, [lane.path.as_path()]);
        compared(ctx, &lane, &wanted, &redactor)
    });
    made.await.map_err(|error| error.to_string())
}

/// The difference, masked and cut.
fn compared(
    ctx: &Context,
    lane: &Lane,
    wanted: &WantedDiff,
    redactor: &Redactor,
) -> Result<(Heading, Vec<u8>), GitError> {
    let lanes = &ctx.repository.lanes;
    let base = match &wanted.against {
        None => lane.base.clone(),
        Some(named) if has(ctx, named)? => lanes.forked_from(lane, named)?.unwrap_or_else(|| named.clone()),
        Some(_) => return Ok((Heading::UnknownCommit, Vec::new())),
    };
    let (mut cut, mut masked) = (0, false);
    let mut part = |style: DiffStyle, most: usize| -> Result<Result<Vec<u8>, u64>, GitError> {
        // What is masked may become shorter.
        let diff = u64::try_from(2 * most).unwrap_or(u64::MAX);
        let limits = LookLimits { uncommitted: MOST_UNCOMMITTED, diff };
        match lanes.diff_within(lane, &base, style, limits)? {
            Looked::TooLarge { bytes } => Ok(Err(bytes)),
            Looked::Diff { bytes, left_out } => {
                let end = if style == DiffStyle::NamesZ { 0 } else { b'\n' };
                let part = Part::of(redactor, &bytes, left_out, most, end);
                masked |= part.is_masked;
                cut += part.cut;
                Ok(Ok(part.bytes))
            }
        }
    };
    let mut body = match part(wanted.style.into(), MOST_TEXT)? {
        Ok(text) => text,
        Err(bytes) => return Ok((Heading::TooLarge { bytes }, Vec::new())),
    };
    let text = body.len();
    if wanted.files {
        match part(DiffStyle::NamesZ, MOST_NAMES)? {
            Ok(names) => body.extend(names),
            Err(bytes) => return Ok((Heading::TooLarge { bytes }, Vec::new())),
        }
    }
    let names = body.len() - text;
    let lane = lane.path.to_string_lossy().into_owned();
    Ok((Heading::Diff { base, lane, text, names, cut, masked }, body))
}

/// Whether the commit is here, or on the target at the hub.
fn has(ctx: &Context, commit: &Oid) -> Result<bool, GitError> {
    let work = &ctx.repository.work;
    if work.has_commit(commit)? {
        return Ok(true);
    }
    let Some(hub) = ctx.shared_hub() else { return Ok(false) };
    // A hub that is away does not have it either, as far as can be said.
    let _ = hub.fetch(&[names::branch(&ctx.repository.target)]);
    work.has_commit(commit)
}

/// A part of an answer.
struct Part {
    bytes: Vec<u8>,
    /// How many bytes are missing at its end.
    cut: u64,
    is_masked: bool,
}

impl Part {
    /// At most `most` of these bytes, masked. `left_out` more follow them; a part ends with `end`.
    fn of(redactor: &Redactor, bytes: &[u8], left_out: u64, most: usize, end: u8) -> Self {
        let count = |n: usize| u64::try_from(n).unwrap_or(u64::MAX);
        let mut stream = redactor.stream();
        let mut shown = stream.push(bytes);
        // What is held back may be the beginning of a secret, whose end was left out.
        if left_out == 0 {
            shown.extend(stream.finish());
        }
        let is_masked = !bytes.starts_with(&shown);
        let all = if is_masked { count(shown.len()) } else { count(bytes.len()) } + left_out;
        if left_out > 0 || shown.len() > most {
            shown.truncate(cut_at(&shown[..shown.len().min(most)], end));
        }
        Self { cut: all - count(shown.len()), bytes: shown, is_masked }
    }
}

/// Where to cut: behind the last `end`, or else behind the last whole character.
fn cut_at(bytes: &[u8], end: u8) -> usize {
    if let Some(last) = bytes.iter().rposition(|byte| *byte == end) {
        return last + 1;
    }
    for (back, byte) in bytes.iter().rev().take(4).enumerate().map(|(n, byte)| (n + 1, byte)) {
        let needed = match byte {
            0..0x80 => 1,
            0x80..0xc0 => continue,
            0xc0..0xe0 => 2,
            0xe0..0xf0 => 3,
            0xf0.. => 4,
        };
        return if needed > back { bytes.len() - back } else { bytes.len() };
    }
    bytes.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn oid() -> Oid {
        "0123456789abcdef0123456789abcdef01234567".parse().unwrap()
    }

    #[test]
    fn a_cut_is_between_lines_or_else_between_characters() {
        assert_eq!(cut_at(b"ab\ncd", b'\n'), 3);
        assert_eq!(cut_at(&"aäää".as_bytes()[..4], b'\n'), 3);
        assert_eq!(cut_at(&"aäää".as_bytes()[..5], b'\n'), 5);
        assert_eq!(cut_at(&"a😀😀".as_bytes()[..8], b'\n'), 5);
        assert_eq!(cut_at(&[0x80; 20], b'\n'), 20, "no text at all");
        assert_eq!(cut_at(b"a\0b\0c", 0), 4);
        assert_eq!(cut_at(b"", 0), 0);
    }

    #[test]
    fn a_part_is_masked_and_says_how_much_is_missing() {
        let redactor = Redactor::new([("API_TOKEN", "sesame-open-1234")]);
        let of = |text: &str, left_out: u64, most: usize| {
            let part = Part::of(&redactor, text.as_bytes(), left_out, most, b'\n');
            (String::from_utf8(part.bytes).unwrap(), part.cut, part.is_masked)
        };
        assert_eq!(of("a\nb\n", 0, 10), ("a\nb\n".to_owned(), 0, false));
        assert_eq!(of("a\nb\n", 0, 3), ("a\n".to_owned(), 2, false));
        assert_eq!(of("a\nb\n", 7, 10), ("a\nb\n".to_owned(), 7, false));
        assert_eq!(of("a\nb", 7, 10), ("a\n".to_owned(), 8, false));
        let masked = of("a sesame-open-1234\n", 0, 100);
        assert_eq!(masked, ("a [redacted:API_TOKEN]\n".to_owned(), 0, true));
        // Half a secret at the end of what was read is not sent.
        assert_eq!(of("a sesame-op", 5, 100), ("a ".to_owned(), 14, false));
    }

    #[test]
    fn an_answer_that_is_not_complete_is_none() {
        let heading =
            Heading::Diff { base: oid(), lane: "/lanes/a".into(), text: 3, names: 4, cut: 0, masked: false };
        let mut answer = serde_json::to_vec(&heading).unwrap();
        answer.extend(b"\nabca\0b\0");
        let Some(DiffElsewhere::Found { text, files, .. }) = read(&answer) else { panic!() };
        assert_eq!((text.as_slice(), files), (&b"abc"[..], vec!["a".to_owned(), "b".to_owned()]));
        assert_eq!(read(&answer[..answer.len() - 1]), None);
        assert_eq!(read(b"{\"text\":3}\nabc"), None);
        assert_eq!(read(b""), None);
        let lie = String::from_utf8(answer).unwrap().replace("\"text\":3", "\"text\":18446744073709551615");
        assert_eq!(read(lie.as_bytes()), None);
    }
}
