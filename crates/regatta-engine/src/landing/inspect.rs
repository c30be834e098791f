//! Checks that the objects of some commits are sound, by git's own rules, as on a server with `fsckObjects`.
//!
//! Invariant: after [`inspect`] has succeeded, every new object is what its id says, breaks no rule of git's, and is in
//! the repository's own object store.

use std::fs;
use std::path::{Path, PathBuf};

use super::gc::GcGuard;
use crate::git::{Complaint, GitError, Oid, Work, io, new_objects};

/// A file of this size is worth a warning: every clone carries it forever.
pub(super) const LARGE: u64 = 10 << 20;

/// The result of an inspection.
#[derive(Debug)]
pub(super) enum Inspected {
    /// All objects are sound. Lists files larger than [`LARGE`], with their sizes.
    Sound { large: Vec<(PathBuf, u64)> },
    /// A strict server would refuse it, for this reason.
    Unsound(String),
}

/// Checks every object that `head` has and none of `known` has.
pub(super) fn inspect(work: &Work, known: &[&Oid], head: &Oid) -> Result<Inspected, GitError> {
    let dir = work.scratch_path("inspect");
    fs::create_dir_all(&dir).map_err(io("create", &dir))?;
    let inspected = inspect_in(work, known, head, &dir);
    fs::remove_dir_all(&dir).ok();
    inspected
}

fn inspect_in(work: &Work, known: &[&Oid], head: &Oid, dir: &Path) -> Result<Inspected, GitError> {
    if let Some(why) = cut_off(work, known, head)? {
        return Ok(Inspected::Unsound(why));
    }
    // A pack of the new objects, copied and not recompressed: what is checked is what is stored.
    let prefix = dir.join("new");
    let Some(name) = pack(work, known, head, &prefix, &[])? else {
        return Ok(Inspected::Sound { large: Vec::new() });
    };
    let (packed, listed, looked_up) =
        (dir.join(format!("new-{name}.pack")), dir.join(format!("new-{name}.idx")), dir.join("seen.idx"));
    let command = work.bare().set("pack.writeReverseIndex=false").args(["index-pack", "--strict", "-o"]);
    let ran = command.arg(&looked_up).arg(&packed).run()?;
    if ran.code != Some(0) {
        return match Complaint::of(&ran.stderr) {
            Some(complaint) => Ok(Inspected::Unsound(complaint.told(&|| work.bare(), known, &[head])?)),
            None => Err(ran.into_error()),
        };
    }
    // The requested ids, and the ids computed from the content.
    let read = |path: &Path| fs::read(path).map_err(io("read", path));
    if read(&listed)? != read(&looked_up)? {
        let why = "the content of one of its objects does not match the object's id".to_owned();
        return Ok(Inspected::Unsound(why));
    }
    keep_borrowed(work, known, head, dir, &name)?;
    let size = fs::metadata(&packed).map_err(io("look at", &packed))?.len();
    let large = if size > LARGE { large_files(work, known, head)? } else { Vec::new() };
    Ok(Inspected::Sound { large })
}

/// A `git gc` deletes packs that are being written: wait for it, and write the pack again.
fn pack(
    work: &Work,
    known: &[&Oid],
    head: &Oid,
    prefix: &Path,
    flags: &[&str],
) -> Result<Option<String>, GitError> {
    match pack_once(work, known, head, prefix, flags) {
        Err(GitError::Failed { stderr, .. }) if stderr.contains("temporary file") => {
            let _nobody_collects = GcGuard::take(&work.repo.common_dir);
            pack_once(work, known, head, prefix, flags)
        }
        other => other,
    }
}

fn pack_once(
    work: &Work,
    known: &[&Oid],
    head: &Oid,
    prefix: &Path,
    flags: &[&str],
) -> Result<Option<String>, GitError> {
    let mut revisions = format!("{head}\n");
    known.iter().for_each(|oid| revisions.push_str(&format!("^{oid}\n")));
    let command = work.bare().set("pack.threads=1").set("pack.writeReverseIndex=false");
    let command = command.args(["pack-objects", "--revs", "--quiet", "--non-empty", "--no-use-bitmap-index"]);
    let command = command.args(["--window=0", "--compression=0"]).args(flags).arg(prefix);
    let name = command.stdin(revisions).text()?;
    Ok((!name.is_empty()).then_some(name))
}

/// A new commit that the agent listed in `.git/shallow`: what lies behind it would land unchecked.
fn cut_off(work: &Work, known: &[&Oid], head: &Oid) -> Result<Option<String>, GitError> {
    let path = work.repo.common_dir.join("shallow");
    let Some(shallow) = crate::git::absent_is_none(fs::read_to_string(&path)).map_err(io("read", &path))?
    else {
        return Ok(None);
    };
    let commits = work.commits_beyond(known, head)?;
    let cut = commits.iter().find(|commit| shallow.lines().any(|line| line.trim() == commit.oid.as_str()));
    Ok(cut.map(|commit| {
        format!(
            "its commit {} is listed in .git/shallow, so its history is not available",
            commit.oid.short()
        )
    }))
}

/// Copies objects that exist only in a borrowed object store into the repository's own.
fn keep_borrowed(work: &Work, known: &[&Oid], head: &Oid, dir: &Path, name: &str) -> Result<(), GitError> {
    let objects = work.objects_dir();
    if !objects.join("info/alternates").exists() {
        return Ok(());
    }
    let own = pack(work, known, head, &dir.join("own"), &["--local"])?;
    if own.as_deref() == Some(name) {
        return Ok(());
    }
    let packs = objects.join("pack");
    fs::create_dir_all(&packs).map_err(io("create", &packs))?;
    // The index comes last: git sees a pack once its index exists.
    for kind in ["pack", "idx"] {
        let (from, to) = (dir.join(format!("new-{name}.{kind}")), packs.join(format!("pack-{name}.{kind}")));
        let aside = packs.join(format!("tmp_regatta_{name}.{kind}"));
        let copied = fs::copy(&from, &aside).and_then(|_| fs::File::open(&aside)?.sync_all());
        copied.and_then(|()| fs::rename(&aside, &to)).map_err(io("keep", &to))?;
    }
    Ok(())
}

fn large_files(work: &Work, known: &[&Oid], head: &Oid) -> Result<Vec<(PathBuf, u64)>, GitError> {
    let paths = new_objects(&work.bare(), known, &[head])?;
    let asked: String = paths.keys().map(|oid| format!("{oid}\n")).collect();
    let command = work.bare().args(["cat-file", "--batch-check=%(objectname) %(objecttype) %(objectsize)"]);
    let said = command.stdin(asked).text()?;
    let mut large = Vec::new();
    for line in said.lines() {
        if let [oid, "blob", size] = line.split(' ').collect::<Vec<_>>()[..]
            && let Some(size) = size.parse().ok().filter(|size| *size > LARGE)
        {
            large.push((PathBuf::from(paths.get(oid).map_or("", String::as_str)), size));
        }
    }
    large.sort();
    Ok(large)
}
