//! Answers many questions about commits with one process each: what changed, and would it merge.
//!
//! No process is kept running to talk to: `merge-tree --stdin` does not flush, so whole batches are sent. What merging
//! writes goes into the [`Quarantine`], never into the repository.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};

use regatta_core::radar::{Outcome, Touch, Touched};

use super::{GitCommand, GitError, Oid, Work, io};

/// A directory for short-lived objects, with access to the repository's own.
#[derive(Clone, Debug)]
pub(crate) struct Quarantine {
    objects: PathBuf,
    /// Objects that merges wrote; they are never read.
    merged: PathBuf,
}

/// Maximum number of pairs per process. What it writes stays until it has ended.
const BATCH: usize = 512;
/// Beyond this, the objects that merges wrote are deleted at once; many deleted files make new ones slow on ext4.
const MOST_MERGED: (usize, u64) = (10_000, 64 << 20);

impl Quarantine {
    /// Uses `dir`, creating it if it is missing.
    pub(crate) fn open(dir: &Path) -> Result<Self, GitError> {
        let (objects, merged) = (dir.join("objects"), dir.join("merged"));
        for dir in [&objects, &merged] {
            fs::create_dir_all(dir).map_err(io("create", dir))?;
        }
        Ok(Self { objects, merged })
    }

    /// Lets `command` write here and read the repository.
    fn around(&self, work: &Work, command: GitCommand, also: &[PathBuf]) -> GitCommand {
        let stores = [self.objects.clone(), work.objects_dir()].into_iter().chain(also.iter().cloned());
        command
            .set("core.looseCompression=0")
            .borrowing(stores)
            .env("GIT_OPTIONAL_LOCKS", "0")
            .env("GIT_NO_LAZY_FETCH", "1")
    }

    /// A command on objects alone.
    pub(crate) fn bare(&self, work: &Work) -> GitCommand {
        self.around(work, work.bare_with(&self.objects), &[])
    }

    /// A command that merges.
    fn merging(&self, work: &Work) -> GitCommand {
        self.around(work, work.bare_with(&self.merged), &[])
    }

    /// Deletes the objects that merges wrote if there are many.
    fn tidy(&self) -> Result<(), GitError> {
        let (mut files, mut bytes) = (0, 0);
        for dir in fs::read_dir(&self.merged).map_err(io("list", &self.merged))?.flatten() {
            for file in fs::read_dir(dir.path()).into_iter().flatten().flatten() {
                files += 1;
                bytes += file.metadata().map_or(0, |meta| meta.len());
            }
        }
        if files > MOST_MERGED.0 || bytes > MOST_MERGED.1 {
            fs::remove_dir_all(&self.merged).ok();
            fs::create_dir_all(&self.merged).map_err(io("create", &self.merged))?;
        }
        Ok(())
    }

    /// A command on the files at `worktree` with our own index. It leaves no trace there, nor in what other commands
    /// know about that worktree: an agent, or Regatta itself, may be working in it.
    /// `stores` are read last: those with the lane's own objects.
    pub(crate) fn beside(
        &self,
        work: &Work,
        worktree: &Path,
        index: &Path,
        stores: &[PathBuf],
    ) -> GitCommand {
        let command = work.bare_with(&self.objects).env("GIT_WORK_TREE", worktree);
        self.around(work, command.env("GIT_INDEX_FILE", index).cwd(worktree), stores)
    }

    /// The store for new objects.
    pub(crate) fn objects(&self) -> &Path {
        &self.objects
    }
}

/// A directory for a colon-separated list, quoted as git expects.
pub(crate) fn quoted(dir: &Path) -> OsString {
    let mut text = vec![b'"'];
    for byte in dir.as_os_str().as_bytes() {
        if matches!(byte, b'"' | b'\\') {
            text.push(b'\\');
        }
        text.push(*byte);
    }
    text.push(b'"');
    OsString::from_vec(text)
}

/// The paths that each of `steps`, given as (from, to), touches.
pub(crate) fn touched(
    work: &Work,
    quarantine: &Quarantine,
    steps: &[(Oid, Oid)],
) -> Result<Vec<Touched>, GitError> {
    if steps.is_empty() {
        return Ok(Vec::new());
    }
    // A commit and the commit to take for its parent.
    let lines: String = steps.iter().map(|(from, to)| format!("{to} {from}\n")).collect();
    let flags = ["diff-tree", "--stdin", "-r", "-z", "--name-status", "--no-renames", "--always"];
    let listed = quarantine.bare(work).args(flags).stdin(lines).bytes()?;
    let mut found: Vec<Touched> = Vec::with_capacity(steps.len());
    let mut fields = listed.split(|b| *b == 0).filter(|field| !field.is_empty());
    while let Some(field) = fields.next() {
        if field.len() >= 40 {
            found.push(BTreeMap::new());
            continue;
        }
        let touch = match field {
            b"A" => Touch::Added,
            b"D" => Touch::Deleted,
            _ => Touch::Changed,
        };
        let (Some(path), Some(last)) = (fields.next(), found.last_mut()) else {
            return Err(odd("git diff-tree", "a change without its path"));
        };
        last.insert(String::from_utf8_lossy(path).into_owned(), touch);
    }
    if found.len() == steps.len() {
        Ok(found)
    } else {
        Err(odd("git diff-tree", "another number of answers than of questions"))
    }
}

/// How each of `pairs` would merge; `None` if git could not merge it at all.
pub(crate) fn merges(
    work: &Work,
    quarantine: &Quarantine,
    pairs: &[(Oid, Oid)],
) -> Result<Vec<Option<Outcome>>, GitError> {
    let mut found: Vec<Option<Outcome>> = Vec::with_capacity(pairs.len());
    while found.len() < pairs.len() {
        let batch = &pairs[found.len()..pairs.len().min(found.len() + BATCH)];
        let lines: String = batch.iter().map(|(a, b)| format!("{a} {b}\n")).collect();
        let flags = ["merge-tree", "--stdin", "--write-tree", "--allow-unrelated-histories"];
        let ran = quarantine.merging(work).args(flags).stdin(lines).run()?;
        let answered = outcomes(&ran.stdout);
        let good = ran.code == Some(0);
        if good && answered.len() != batch.len() {
            return Err(odd("git merge-tree", "another number of answers than of questions"));
        }
        let n_left = batch.len().saturating_sub(answered.len());
        found.extend(answered.into_iter().map(Some).take(batch.len()));
        if !good && n_left > 0 {
            // Git exits at the first pair that it cannot merge (a pruned commit of a lane): continue with the rest.
            found.push(None);
        }
        quarantine.tidy()?;
    }
    Ok(found)
}

/// Parses, for each merge, `1 NUL tree NUL NUL`, or the same with `0` and before the last NUL `(<mode> <oid> <stage>
/// TAB <path> NUL)* NUL (<n> NUL <path>{n} NUL <type> NUL <message> NUL)*`.
fn outcomes(said: &[u8]) -> Vec<Outcome> {
    // Anything after the last NUL is not a field, or an incomplete one.
    let Some(end) = said.iter().rposition(|b| *b == 0) else { return Vec::new() };
    let mut fields = said[..end].split(|b| *b == 0);
    let mut found = Vec::new();
    loop {
        match fields.next() {
            Some(b"1") => {
                // Its tree, and the end; messages come only on request.
                let (Some(_), Some(b"")) = (fields.next(), fields.next()) else { return found };
                found.push(Outcome::Clean);
            }
            Some(b"0") => match conflict(&mut fields) {
                Some(files) => found.push(Outcome::conflict(files)),
                // The output was cut off.
                None => return found,
            },
            _ => return found,
        }
    }
}

fn conflict<'a>(fields: &mut impl Iterator<Item = &'a [u8]>) -> Option<Vec<String>> {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let mut files = Vec::new();
    fields.next()?;
    loop {
        let entry = fields.next()?;
        match entry.iter().position(|b| *b == b'\t') {
            Some(at) => files.push(text(&entry[at + 1..])),
            None => break,
        }
    }
    loop {
        let count = fields.next()?;
        if count.is_empty() {
            break;
        }
        let count: usize = std::str::from_utf8(count).ok()?.parse().ok()?;
        let mut named = Vec::with_capacity(count.min(64));
        for _ in 0..count {
            named.push(text(fields.next()?));
        }
        let (kind, _message) = (fields.next()?, fields.next()?);
        // Conflicts of whole directories have no entry above; "Auto-merging x" is not a conflict.
        if kind.starts_with(b"CONFLICT") {
            files.extend(named);
        }
    }
    files.sort_unstable();
    files.dedup();
    Some(files)
}

fn odd(command: &str, what: &str) -> GitError {
    GitError::Unexpected { command: command.into(), what: what.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(said: &str, expected: &[Outcome]) {
        assert_eq!(outcomes(said.replace('|', "\0").as_bytes()), expected, "{said}");
    }

    #[test]
    fn a_batch_of_merges_is_read_to_where_it_was_cut_off() {
        let conflict =
            |files: &[&str]| Outcome::conflict(files.iter().map(|file| (*file).to_owned()).collect());
        check("", &[]);
        check("1|tree||", &[Outcome::Clean]);
        let both = "0|tree|100644 o 1\tf|100644 o 2\tf|100644 o 3\ta b||1|f|Auto-merging|Auto-merging f\n|\
                    1|f|CONFLICT (contents)|CONFLICT: f\n||";
        check(both, &[conflict(&["a b", "f"])]);
        let moved = "0|tree||2|e/new|d/new|CONFLICT (directory rename suggested)|d/new\n||";
        check(
            &format!("1|tree||{moved}1|tree||"),
            &[Outcome::Clean, conflict(&["d/new", "e/new"]), Outcome::Clean],
        );
        for end in 1..both.len() {
            check(&format!("1|tree||{}", &both[..end]), &[Outcome::Clean]);
        }
    }
}
