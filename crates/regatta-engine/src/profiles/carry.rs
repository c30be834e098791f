//! Moves a conversation along when its task changes accounts: the agent's conversation file is copied.
//!
//! Invariants: nothing existing is overwritten (an older copy is only extended); only plain files below the agent's own
//! directory are read and written, and no link is followed to get there.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use regatta_core::config::AgentKind;

use crate::agents::is_session_id;

/// How deep below its directory an agent stores conversations: codex has year, month, day.
const DEPTH: usize = 4;
/// Maximum size of a conversation in bytes.
const MAX_CONVERSATION_BYTES: u64 = 1 << 30;

/// The result for a conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Carried {
    /// It is in place, and can be resumed.
    There,
    /// It could not be copied: the agent starts a new one.
    Not,
}

/// Copies conversation `id` from one directory of an agent of `kind` to another.
pub(crate) fn carry(kind: AgentKind, from: &Path, to: &Path, id: &str) -> Carried {
    let below = match kind {
        AgentKind::Claude => "projects",
        AgentKind::Codex => "sessions",
        // It is not known whether the others would find a copied conversation.
        AgentKind::Gemini | AgentKind::Opencode | AgentKind::Command | AgentKind::Sim => return Carried::Not,
    };
    if !is_session_id(id) || id.contains(['/', '\\']) || id.contains("..") {
        return Carried::Not;
    }
    let is_it = |name: &str| match kind {
        AgentKind::Claude => name.strip_suffix(".jsonl") == Some(id),
        _ => name.strip_suffix(".jsonl").is_some_and(|name| {
            name.strip_suffix(id).is_some_and(|name| name.starts_with("rollout-") && name.ends_with('-'))
        }),
    };
    let Some(found) = find(&from.join(below), &is_it, DEPTH) else { return Carried::Not };
    match found.strip_prefix(from).map(|place| copy(&found, to, place)) {
        Ok(Ok(())) => Carried::There,
        _ => Carried::Not,
    }
}

/// The first plain file below `dir` with a matching name.
pub(super) fn find(dir: &Path, is_it: &dyn Fn(&str) -> bool, depth: usize) -> Option<PathBuf> {
    let mut below = Vec::new();
    for entry in fs::read_dir(dir).ok()?.flatten() {
        let Ok(kind) = entry.file_type() else { continue };
        if kind.is_file() && entry.file_name().to_str().is_some_and(is_it) {
            return Some(entry.path());
        }
        if kind.is_dir() && depth > 0 {
            below.push(entry.path());
        }
    }
    // If directories are days, the newest come first.
    below.sort_unstable_by(|a, b| b.cmp(a));
    below.iter().find_map(|dir| find(dir, is_it, depth - 1))
}

/// Copies `source` to `place` below `to`, or extends an existing copy.
fn copy(source: &Path, to: &Path, place: &Path) -> io::Result<()> {
    let mut source = open_plain(OpenOptions::new().read(true), source)?;
    if source.metadata()?.len() > MAX_CONVERSATION_BYTES {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    let mut dir = to.to_owned();
    fs::create_dir_all(&dir)?;
    for part in place.parent().into_iter().flat_map(Path::iter) {
        dir.push(part);
        match fs::DirBuilder::new().mode(0o700).create(&dir) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ if fs::symlink_metadata(&dir)?.is_dir() => {}
            _ => return Err(io::ErrorKind::NotADirectory.into()),
        }
    }
    let target = dir.join(place.file_name().unwrap_or_default());
    let mut options = OpenOptions::new();
    let mut copy =
        open_plain(options.read(true).write(true).create(true).truncate(false).mode(0o600), &target)?;
    if !is_beginning(&mut copy, &mut source)? {
        return Err(io::ErrorKind::AlreadyExists.into());
    }
    // Both are positioned behind their common part. If a crash cuts the copy short, it is still a valid beginning.
    io::copy(&mut source, &mut copy)?;
    copy.flush()?;
    copy.sync_all()
}

/// Opens a file that is not a link, a device or a pipe.
fn open_plain(options: &mut OpenOptions, path: &Path) -> io::Result<File> {
    let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
    let flags = i32::try_from(flags.bits()).unwrap_or_default();
    let file = options.custom_flags(flags).open(path)?;
    if file.metadata()?.is_file() { Ok(file) } else { Err(io::ErrorKind::InvalidInput.into()) }
}

/// Whether `longer` begins with all of `shorter`. Both are then positioned right behind it.
fn is_beginning(shorter: &mut File, longer: &mut File) -> io::Result<bool> {
    let mut left = shorter.metadata()?.len();
    if left > longer.metadata()?.len() {
        return Ok(false);
    }
    let (mut ours, mut theirs) = ([0; 64 * 1024], [0; 64 * 1024]);
    while left > 0 {
        let n = usize::try_from(left).unwrap_or(usize::MAX).min(ours.len());
        shorter.read_exact(&mut ours[..n])?;
        longer.read_exact(&mut theirs[..n])?;
        if ours[..n] != theirs[..n] {
            return Ok(false);
        }
        left -= n as u64;
    }
    shorter.seek(SeekFrom::End(0))?;
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "398d1177-83ca-4030-b7de-39deb75b63e2";

    struct Homes {
        _dir: tempfile::TempDir,
        one: PathBuf,
        two: PathBuf,
    }

    fn homes() -> Homes {
        let dir = tempfile::tempdir().unwrap();
        let (one, two) = (dir.path().join("one"), dir.path().join("two"));
        Homes { _dir: dir, one, two }
    }

    fn put(home: &Path, place: &str, text: &str) -> PathBuf {
        let file = home.join(place);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(&file, text).unwrap();
        file
    }

    #[test]
    fn a_conversation_goes_along_and_comes_back_with_what_was_said_meanwhile() {
        let homes = homes();
        for (kind, place) in [
            (AgentKind::Claude, format!("projects/-lane-a/{ID}.jsonl")),
            (AgentKind::Codex, format!("sessions/2026/11/15/rollout-2026-11-15T10-00-00-{ID}.jsonl")),
        ] {
            let first = put(&homes.one, &place, "hello\n");
            assert_eq!(carry(kind, &homes.one, &homes.two, ID), Carried::There);
            let second = homes.two.join(&place);
            assert_eq!(fs::read_to_string(&second).unwrap(), "hello\n");
            fs::write(&second, "hello\nworld\n").unwrap();
            assert_eq!(carry(kind, &homes.two, &homes.one, ID), Carried::There);
            assert_eq!(fs::read_to_string(&first).unwrap(), "hello\nworld\n");
            // The second time there is nothing to add.
            assert_eq!(carry(kind, &homes.two, &homes.one, ID), Carried::There);
            assert_eq!(fs::read_to_string(&first).unwrap(), "hello\nworld\n");
        }
    }

    #[test]
    fn another_conversation_under_the_same_name_is_left_as_it_is() {
        let homes = homes();
        let place = format!("projects/-lane-a/{ID}.jsonl");
        put(&homes.one, &place, "hello\n");
        for theirs in ["other\n", "hello\nand more than that\n"] {
            let file = put(&homes.two, &place, theirs);
            assert_eq!(carry(AgentKind::Claude, &homes.one, &homes.two, ID), Carried::Not);
            assert_eq!(fs::read_to_string(file).unwrap(), theirs);
        }
    }

    #[test]
    fn no_link_is_followed_and_nothing_outside_is_touched() {
        use std::os::unix::fs::symlink;
        let homes = homes();
        let place = format!("projects/-lane-a/{ID}.jsonl");
        let outside = put(homes.one.parent().unwrap(), "outside/secret", "");
        // The source is a link.
        fs::create_dir_all(homes.one.join("projects/-lane-a")).unwrap();
        symlink(&outside, homes.one.join(&place)).unwrap();
        assert_eq!(carry(AgentKind::Claude, &homes.one, &homes.two, ID), Carried::Not);
        fs::remove_file(homes.one.join(&place)).unwrap();
        put(&homes.one, &place, "hello\n");
        // The copy would be a link.
        fs::create_dir_all(homes.two.join("projects/-lane-a")).unwrap();
        symlink(&outside, homes.two.join(&place)).unwrap();
        assert_eq!(carry(AgentKind::Claude, &homes.one, &homes.two, ID), Carried::Not);
        // A directory on the way is a link.
        fs::remove_dir_all(homes.two.join("projects")).unwrap();
        symlink(outside.parent().unwrap(), homes.two.join("projects")).unwrap();
        assert_eq!(carry(AgentKind::Claude, &homes.one, &homes.two, ID), Carried::Not);
        assert_eq!(fs::read_to_string(&outside).unwrap(), "");
        assert_eq!(fs::read_dir(outside.parent().unwrap()).unwrap().count(), 1);
        for id in ["../x", "a/b", "", "-x"] {
            assert_eq!(carry(AgentKind::Claude, &homes.one, &homes.two, id), Carried::Not);
        }
    }
}
