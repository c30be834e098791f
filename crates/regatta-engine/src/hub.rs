//! The hub: the git repository through which machines share work.
//!
//! Invariant: what is pushed moves a ref only from the value that the caller saw there, and what is fetched goes to
//! Regatta's own refs, never to a branch of the user. Settings, hooks and addresses are those of the trust snapshot:
//! an agent cannot redirect a push. Every command has a time limit.

mod answer;
mod find;
mod make;
pub mod names;
mod trial;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::git::{
    Expect, GitCommand, GitError, Lookout, Oid, RefEdit, RefOutcome, Repo, Work, check_ref_name,
};
use crate::session;
pub use answer::Answer;
pub use find::HubError;
pub(crate) use find::{default_remote, url_of};
pub use make::MakeError;
pub use trial::{Ability, Tried};

/// Time limit for reading refs.
const READ_LIMIT: Duration = Duration::from_secs(60);
/// Time limit for moving objects.
const TRANSFER_LIMIT: Duration = Duration::from_secs(10 * 60);
/// How often to fetch again because a ref moved while it was fetched.
const RACES: u32 = 5;
/// Maximum number of refs in one command.
const MOST_REFS: usize = 500;

/// A hub.
#[derive(Clone, Debug)]
pub struct Hub {
    repo: Repo,
    work: Work,
    /// What git gets: the name of a remote, an absolute path, or an address.
    address: String,
    /// Since when it has not answered. All clones of this share it.
    silent_since: Arc<Mutex<Option<Instant>>>,
}

/// One ref's move at the hub: from a value, or from nothing, to a value, or to nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Move {
    /// Full name of the ref.
    pub name: String,
    /// The value that the hub must have.
    pub from: Option<Oid>,
    /// The new value; `None` deletes it.
    pub to: Option<Oid>,
}

impl Move {
    /// A ref that must not exist yet.
    pub fn create(name: String, to: Oid) -> Self {
        Self { name, from: None, to: Some(to) }
    }
}

/// The result of fetching objects.
#[derive(PartialEq, Eq)]
enum Transfer {
    Done,
    /// Another fetch in this clone moved the same ref here first.
    Overtaken,
}

impl Hub {
    /// What users call it. Contains no password.
    pub fn name(&self) -> &str {
        &self.address
    }

    fn git(&self, limit: Duration) -> GitCommand {
        // Neither waits for a connection that transfers nothing.
        let slow = ["http.lowSpeedLimit=1", "http.lowSpeedTime=60"];
        let command = slow.into_iter().fold(self.work.bare(), GitCommand::set);
        command.cwd(&self.repo.toplevel).within(limit)
    }

    /// For moving objects, which may take long: a hub that answers nothing for the time of a lease is not waited for.
    fn transferring(&self) -> GitCommand {
        let (hub, lease) = (self.clone(), session::lease());
        let lookout = Lookout {
            every: lease / 6,
            silence: lease,
            ask: Arc::new(move |limit| {
                hub.git(limit).args(["ls-remote", "--quiet", "--", &hub.address, "HEAD"]).bytes().is_ok()
            }),
        };
        self.git(TRANSFER_LIMIT).watched(lookout)
    }

    /// Since when it has not answered: the beginning of the first command without an answer.
    pub(crate) fn silent_since(&self) -> Option<Instant> {
        *self.silence()
    }

    fn silence(&self) -> MutexGuard<'_, Option<Instant>> {
        self.silent_since.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records whether a command that began at this time was answered.
    fn note(&self, begun: Instant, is_answered: bool) {
        let mut silence = self.silence();
        if is_answered {
            *silence = None;
        } else {
            silence.get_or_insert(begun);
        }
    }

    /// The values of these refs (full names) at the hub; a missing one is left out.
    pub fn read<S: AsRef<str>>(&self, names: &[S]) -> Result<BTreeMap<String, Oid>, GitError> {
        let mut found = BTreeMap::new();
        for some in names.chunks(MOST_REFS) {
            for name in some {
                check_ref_name(name.as_ref())?;
            }
            let wanted = |name: &str| some.iter().any(|one| one.as_ref() == name);
            found.extend(
                self.list(some.iter().map(AsRef::as_ref))?.into_iter().filter(|(name, _)| wanted(name)),
            );
        }
        Ok(found)
    }

    /// All refs below a prefix that ends in `/`.
    pub fn read_below(&self, prefix: &str) -> Result<BTreeMap<String, Oid>, GitError> {
        check_ref_name(prefix.trim_end_matches('/'))?;
        let mut found = self.list([format!("{prefix}*").as_str()])?;
        found.retain(|name, _| name.starts_with(prefix));
        Ok(found)
    }

    fn list<'a>(
        &self,
        patterns: impl IntoIterator<Item = &'a str>,
    ) -> Result<BTreeMap<String, Oid>, GitError> {
        // One that was silent has not much time to prove that it is back.
        let limit = if self.silent_since().is_some() { READ_LIMIT / 6 } else { READ_LIMIT };
        let command = self.git(limit).args(["ls-remote", "--quiet", "--", &self.address]).args(patterns);
        let begun = Instant::now();
        let listed = self.reached(begun, command.text())?;
        let mut found = BTreeMap::new();
        for line in listed.lines() {
            let Some((oid, name)) = line.split_once('\t') else { continue };
            // The commit of a tag is listed beside the tag.
            if name.ends_with("^{}") || check_ref_name(name).is_err() {
                continue;
            }
            found.insert(name.to_owned(), Oid::parse(oid)?);
        }
        Ok(found)
    }

    /// Brings these refs here, complete, and returns their values; one that the hub does not have is left out. Each is
    /// held by a ref of the repository ([`names::here`]) until it is fetched again or forgotten.
    pub fn fetch<S: AsRef<str>>(&self, names: &[S]) -> Result<BTreeMap<String, Oid>, GitError> {
        for _ in 0..RACES {
            let there = self.read(names)?;
            let mut missing = Vec::new();
            for (name, oid) in &there {
                if self.repo.read_ref(&names::here(name))?.as_ref() != Some(oid) {
                    missing.push((name, oid));
                }
            }
            if missing.is_empty() {
                return Ok(there);
            }
            if self.transfer(missing.iter().map(|(name, _)| name.as_str()))? == Transfer::Overtaken {
                continue;
            }
            let wanted: Vec<Oid> = missing.iter().map(|(_, oid)| (*oid).clone()).collect();
            if !self.work.missing(&wanted)?.is_empty() {
                // It moved in between.
                continue;
            }
            for (name, oid) in missing {
                self.hold(name, oid)?;
            }
            return Ok(there);
        }
        let first = names.first().map_or("", AsRef::as_ref);
        Err(GitError::HubAway { hub: self.address.clone(), why: format!("{first} moves all the time") })
    }

    fn transfer<'a>(&self, names: impl Iterator<Item = &'a str>) -> Result<Transfer, GitError> {
        let flags = [
            "fetch",
            "--quiet",
            "--no-tags",
            "--no-write-fetch-head",
            "--no-recurse-submodules",
            "--no-auto-maintenance",
            "--refmap=",
        ];
        let mut command = self.transferring().args(flags);
        // Regatta's own git directory has few refs: these say what need not be sent.
        for tip in self.known()? {
            command = command.arg(format!("--negotiation-tip={tip}"));
        }
        // A branch also gets a ref in Regatta's own git directory: git checks what is new since then, not everything.
        let refspec = |name: &str| match name.strip_prefix("refs/heads/") {
            Some(_) => format!("+{name}:{}", names::here(name)),
            None => name.to_owned(),
        };
        let command = command.args(["--", &self.address]).args(names.map(refspec));
        let begun = Instant::now();
        match command.bytes() {
            Err(GitError::Failed { stderr, .. }) if stderr.contains("cannot lock ref") => {
                Ok(Transfer::Overtaken)
            }
            fetched => self.reached(begun, fetched).map(|_| Transfer::Done),
        }
    }

    /// Commits that are here with everything before them.
    fn known(&self) -> Result<Vec<Oid>, GitError> {
        let mut tips = Vec::new();
        for prefix in ["refs/heads/", names::HERE] {
            tips.extend(self.repo.refs_below(prefix)?.into_iter().map(|(_, oid)| oid));
        }
        tips.sort();
        tips.dedup();
        tips.truncate(MOST_REFS);
        let gone = self.work.missing(&tips)?;
        tips.retain(|tip| !gone.contains(tip));
        Ok(tips)
    }

    /// Holds a fetched commit in the repository, so that no `git gc` removes it.
    pub(crate) fn hold(&self, name: &str, oid: &Oid) -> Result<(), GitError> {
        let here = names::here(name);
        for _ in 0..RACES {
            let now = self.repo.read_ref(&here)?;
            if now.as_ref() == Some(oid) {
                return Ok(());
            }
            let old = now.map_or(Expect::Absent, Expect::Is);
            let edit = RefEdit { name: here.clone(), new: Some(oid.clone()), old };
            if self.repo.update_refs(&[edit], "regatta: fetched from the hub")? == RefOutcome::Done {
                return Ok(());
            }
        }
        Err(GitError::RefMoved { name: here, now: None })
    }

    /// Lets go of fetched refs that are held by others by now.
    pub fn forget<S: AsRef<str>>(&self, names: &[S]) -> Result<(), GitError> {
        let mut edits = Vec::new();
        for name in names {
            let here = names::here(name.as_ref());
            if let Some(now) = self.repo.read_ref(&here)? {
                edits.push(RefEdit { name: here, new: None, old: Expect::Is(now) });
            }
        }
        if edits.is_empty() {
            return Ok(());
        }
        // One that moved meanwhile is still needed.
        self.repo.update_refs(&edits, "regatta: no longer needed").map(drop)
    }

    /// Moves refs at the hub, each only from the value it must have; with `atomic` all of them or none.
    pub fn push(&self, moves: &[Move], atomic: bool) -> Result<Answer, GitError> {
        self.push_with(moves, atomic, &[])
    }

    /// The same with commits from other object stores, too.
    pub(crate) fn push_with(
        &self,
        moves: &[Move],
        atomic: bool,
        stores: &[&Path],
    ) -> Result<Answer, GitError> {
        let quiet = ["push.followTags=false", "push.gpgSign=false"];
        let command = quiet.into_iter().fold(self.transferring(), GitCommand::set).borrowing(stores);
        let mut command = command.args(["push", "--porcelain", "--no-verify", "--recurse-submodules=no"]);
        if atomic {
            command = command.arg("--atomic");
        }
        for one in moves {
            check_ref_name(&one.name)?;
            let from = one.from.as_ref().map_or("", Oid::as_str);
            command = command.arg(format!("--force-with-lease={}:{from}", one.name));
        }
        command = command.args(["--", &self.address]);
        for one in moves {
            let to = one.to.as_ref().map_or("", Oid::as_str);
            command = command.arg(format!("{to}:{}", one.name));
        }
        let begun = Instant::now();
        let answer = match command.run() {
            Ok(ran) => Ok(answer::read(&self.address, &ran)),
            Err(GitError::NoAnswer { limit, .. }) => Ok(Answer::Unknown(format!(
                "the hub {} did not answer within {} s",
                self.address,
                limit.as_secs()
            ))),
            Err(error) => Err(error),
        };
        self.note(begun, !matches!(answer, Ok(Answer::Unknown(_))));
        answer
    }

    /// A failure of a command that only asks is the hub's absence, and not a fault of the task that asked.
    fn reached<T>(&self, begun: Instant, answer: Result<T, GitError>) -> Result<T, GitError> {
        let answer = answer.map_err(|error| match error {
            GitError::Failed { stderr, .. } => {
                GitError::HubAway { hub: self.address.clone(), why: answer::last_words(&stderr) }
            }
            GitError::NoAnswer { limit, .. } => GitError::HubAway {
                hub: self.address.clone(),
                why: format!("no answer within {} s", limit.as_secs()),
            },
            GitError::Killed { .. } => {
                GitError::HubAway { hub: self.address.clone(), why: "git was killed".to_owned() }
            }
            error => error,
        });
        self.note(begun, !matches!(answer, Err(GitError::HubAway { .. })));
        answer
    }
}
