//! `.regatta`: only a directory that this user's Regatta created is used.
//!
//! Invariant: nothing below it came with a commit, an archive or a copy. Its content is obeyed: tasks of the store, the
//! programs in `bin`, the token of the MCP server.

use std::fs;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::Path;

use regatta_core::hex::hex;

use super::TrustError;
use super::record::{Book, StateMark, inode};
use crate::git::{Repo, absent_is_none, io, replace_file};

/// The state of the directory.
#[derive(Debug)]
pub enum StateDirStanding {
    /// It does not exist.
    Absent,
    /// This user's Regatta created it.
    Ours,
    /// A directory of this user's that Regatta did not create here, or created before it kept records.
    Foreign,
    /// It must never be used, for this reason.
    Refused(String),
}

/// The file with the random id that ties the directory to its record.
const ID: &str = "id";

/// Checks without changing anything and without running git.
pub fn standing(repo: &Repo) -> Result<StateDirStanding, TrustError> {
    let dir = &repo.state_dir;
    let Some(meta) = absent_is_none(fs::symlink_metadata(dir)).map_err(io("look at", dir))? else {
        return Ok(StateDirStanding::Absent);
    };
    let shown = dir.display();
    if meta.is_symlink() {
        return Ok(StateDirStanding::Refused(format!("{shown} is a symbolic link")));
    }
    if !meta.is_dir() {
        return Ok(StateDirStanding::Refused(format!("{shown} is not a directory")));
    }
    if meta.uid() != rustix::process::geteuid().as_raw() {
        return Ok(StateDirStanding::Refused(format!("{shown} belongs to another user")));
    }
    let book = Book::open(repo)?;
    let id = id_in(dir);
    let known = book.states().iter().any(|mark| mark.inode == meta.ino() && Some(&mark.id) == id.as_ref());
    if known {
        return Ok(StateDirStanding::Ours);
    }
    // A process that died while it created the directory leaves it empty; this gives an attacker nothing.
    let entries = fs::read_dir(dir).map_err(io("list", dir))?;
    let is_empty = entries.flatten().all(|entry| entry.file_name() == ID);
    Ok(if is_empty { StateDirStanding::Absent } else { StateDirStanding::Foreign })
}

/// Creates the directory, or checks that it may be used. Paths below it that git tracks are refused.
pub fn make(repo: &Repo) -> Result<(), TrustError> {
    refuse_tracked(repo)?;
    if let StateDirStanding::Ours = standing(repo)? {
        return protect(&repo.state_dir);
    }
    Book::open(repo)?.update(repo, |book| match standing(repo)? {
        StateDirStanding::Ours => protect(&repo.state_dir),
        StateDirStanding::Absent => claim(repo, book),
        other => Err(refusal(repo, &other)),
    })
}

/// Refuses a directory that may not be used, for commands that only read it.
pub fn check(repo: &Repo) -> Result<(), TrustError> {
    match standing(repo)? {
        StateDirStanding::Ours | StateDirStanding::Absent => Ok(()),
        other => Err(refusal(repo, &other)),
    }
}

/// Takes over a directory that Regatta did not create here: the user agreed to it.
pub fn adopt(repo: &Repo) -> Result<(), TrustError> {
    refuse_tracked(repo)?;
    match standing(repo)? {
        refused @ StateDirStanding::Refused(_) => Err(refusal(repo, &refused)),
        _ => Book::open(repo)?.update(repo, |book| claim(repo, book)),
    }
}

fn refusal(repo: &Repo, standing: &StateDirStanding) -> TrustError {
    let shown = repo.state_dir.display();
    match standing {
        StateDirStanding::Refused(why) => TrustError::Refused {
            message: format!("{why}, so Regatta does not use it"),
            hint: format!("look at {shown}, and remove it if you do not need it"),
        },
        _ => TrustError::Refused {
            message: format!(
                "{shown} was not created here by your Regatta: it came with a copy or an archive, or from an \
                 older version"
            ),
            hint: format!("`regatta trust` shows it and takes it over; or remove it: rm -r {shown}"),
        },
    }
}

/// Refuses a repository that contains a state directory.
pub fn refuse_tracked(repo: &Repo) -> Result<(), TrustError> {
    match repo.tracked_state()? {
        None => Ok(()),
        Some(path) => Err(TrustError::Refused {
            message: format!("git tracks {path}, but Regatta's state must never be committed"),
            hint: "look at it, then remove it from the repository: git rm -r --cached .regatta, commit, and delete \
                   .regatta"
                .to_owned(),
        }),
    }
}

/// Creates the directory if it is missing, gives it a fresh id, and records both.
fn claim(repo: &Repo, book: &mut Book) -> Result<(), TrustError> {
    let dir = &repo.state_dir;
    fs::DirBuilder::new().recursive(true).mode(0o700).create(dir).map_err(io("create", dir))?;
    protect(dir)?;
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).expect("the system has random bytes");
    let id = hex(&bytes);
    replace_file(&dir.join(ID), id.as_bytes())?;
    book.add_state(StateMark { inode: inode(dir)?, id });
    Ok(())
}

/// Makes the directory private to this user.
fn protect(dir: &Path) -> Result<(), TrustError> {
    let mode = fs::metadata(dir).map_err(io("look at", dir))?.mode();
    if mode & 0o077 != 0 {
        fs::set_permissions(dir, fs::Permissions::from_mode(0o700)).map_err(io("protect", dir))?;
    }
    Ok(())
}

/// The id in a state directory.
pub(super) fn id_in(dir: &Path) -> Option<String> {
    let text = fs::read_to_string(dir.join(ID)).ok()?;
    (text.len() == 32).then_some(text)
}

/// A directory for lanes must be this user's own, too; a link may lead to one.
pub fn check_lanes_root(root: &Path) -> Result<(), TrustError> {
    let Some(meta) = absent_is_none(fs::metadata(root)).map_err(io("look at", root))? else { return Ok(()) };
    if meta.uid() == rustix::process::geteuid().as_raw() {
        return Ok(());
    }
    Err(TrustError::Refused {
        message: format!("the lanes' directory {} belongs to another user", root.display()),
        hint: "name another one: `lanes_root` in regatta.yaml, or $REGATTA_LANES_ROOT".to_owned(),
    })
}
