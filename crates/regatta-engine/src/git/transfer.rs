//! Copies objects from a store that an agent writes into one of Regatta's or the user's.
//!
//! Invariant: what arrives has the id of its own content. Objects travel as a pack, which names none of them: the
//! receiving git computes every id. Then everything that was wanted is found complete in the receiving store, without
//! the store it came from.

use std::fs;
use std::path::Path;
use std::time::Duration;

use super::{Complaint, GitCommand, GitError, Oid, Work, io};

/// How long packing or unpacking may take: an agent can write an object that is small on disk and endless to read.
const LONGEST: Duration = Duration::from_secs(30 * 60);
/// More objects than these stay a pack.
const MAX_LOOSE: u32 = 100;
/// The header of a pack: a word, a version and the number of objects.
const HEADER: usize = 12;

/// What to copy, and where.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Transfer<'a> {
    /// The store with the new objects.
    pub(crate) from: &'a Path,
    /// The store that gets them.
    pub(crate) to: &'a Path,
    /// Stores that complete `to`: those of the repository.
    pub(crate) behind: &'a [&'a Path],
    /// The objects to copy, with all that they need.
    pub(crate) wanted: &'a [&'a Oid],
    /// Commits that `to` has, with all that they need.
    pub(crate) known: &'a [&'a Oid],
}

impl Work {
    /// Makes everything that is wanted available in the receiving store. Returns how many objects were copied.
    pub(crate) fn transfer(&self, transfer: &Transfer<'_>) -> Result<u32, GitError> {
        self.transfer_within(LONGEST, transfer)
    }

    fn transfer_within(&self, limit: Duration, transfer: &Transfer<'_>) -> Result<u32, GitError> {
        let pack = self.scratch_path("taken-over.pack");
        let taken = self.transfer_by(limit, transfer, &pack);
        fs::remove_file(&pack).ok();
        match taken {
            Err(GitError::NoAnswer { .. }) => {
                let minutes = limit.as_secs() / 60;
                let why = format!("its git objects cannot be read within {minutes} minutes");
                Err(GitError::Damaged { why })
            }
            taken => taken,
        }
    }

    fn transfer_by(&self, limit: Duration, transfer: &Transfer<'_>, pack: &Path) -> Result<u32, GitError> {
        let Transfer { from, to, behind, wanted, known } = *transfer;
        // Their own store comes first: with `--local`, the others' objects stay out of the pack.
        let reading = || {
            let stores = behind.iter().copied().chain([to]);
            self.bare_with(from).borrowing(stores).env("GIT_NO_LAZY_FETCH", "1")
        };
        let lines: String = wanted
            .iter()
            .map(|oid| format!("{oid}\n"))
            .chain(known.iter().map(|oid| format!("^{oid}\n")))
            .collect();
        let flags = ["--revs", "--local", "--thin", "--stdout", "-q", "--window=0", "--no-use-bitmap-index"];
        let command = reading().set("pack.threads=1").set("pack.compression=1").arg("pack-objects");
        let ran = command.args(flags).stdin(lines.as_str()).into_file(pack).within(limit).run()?;
        if ran.code != Some(0) {
            return Err(damaged(ran.into_error()));
        }
        let count = count(pack)?;
        if count > 0 {
            let writing = || {
                let command = self.bare_with(to).borrowing(behind).env("GIT_NO_LAZY_FETCH", "1");
                command.durable().set("core.fsyncMethod=batch").reading_from(pack)
            };
            let command = if count > MAX_LOOSE {
                writing().args(["index-pack", "--stdin", "--strict", "--fix-thin"])
            } else {
                writing().args(["unpack-objects", "-q", "--strict"])
            };
            let ran = command.within(limit).run()?;
            if ran.code != Some(0) {
                if let Some(complaint) = Complaint::of(&ran.stderr)
                    && let Ok(why) = complaint.told(&reading, known, wanted)
                {
                    return Err(GitError::Damaged { why });
                }
                return Err(damaged(ran.into_error()));
            }
        }
        let there = self.bare_with(to).borrowing(behind).env("GIT_NO_LAZY_FETCH", "1");
        match complete(there, &lines)? {
            Ok(()) => Ok(count),
            Err(error) => Err(damaged(error)),
        }
    }
}

/// Whether all that these revisions need is there; the inner error says what is not.
fn complete(command: GitCommand, revisions: &str) -> Result<Result<(), GitError>, GitError> {
    let flags = ["rev-list", "--objects", "--quiet", "--stdin", "--missing=allow-promisor"];
    let ran = command.args(flags).stdin(revisions).run()?;
    Ok(if ran.code == Some(0) { Ok(()) } else { Err(ran.into_error()) })
}

/// How many objects a pack has.
fn count(pack: &Path) -> Result<u32, GitError> {
    use std::io::Read as _;
    let mut header = [0; HEADER];
    fs::File::open(pack).and_then(|mut file| file.read_exact(&mut header)).map_err(io("read", pack))?;
    Ok(u32::from_be_bytes([header[8], header[9], header[10], header[11]]))
}

/// A failure of git on these objects is the fault of the objects, unless the machine is to blame.
fn damaged(error: GitError) -> GitError {
    match &error {
        GitError::Failed { stderr, .. } if !error.is_environment() => {
            let said = stderr.lines().find(|line| line.starts_with("error: "));
            let said = said.or_else(|| stderr.lines().rfind(|line| !line.trim().is_empty()));
            let said = said.unwrap_or("git cannot read them");
            let said = said.trim_start_matches("error: ").trim_start_matches("fatal: ");
            GitError::Damaged { why: format!("its git objects are damaged: {said}") }
        }
        _ => error,
    }
}
