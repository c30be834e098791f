//! A repository and its remote: how its target compares with the same branch there, and how it follows.
//!
//! Invariant: looking changes no branch, and fetching only moves a ref below `refs/regatta/remote/`. A branch follows
//! by the code of a landing: forwards only, and never over something of the user's.

use std::time::Duration;

use regatta_core::causes::with_causes;
use regatta_core::repos::freshness::Freshness;

use crate::git::{Expect, GitCommand, GitError, Oid, RefEdit, Repo, Work, check_ref_name};
use crate::hub::default_remote;
use crate::landing::local::{Followed, follow};
use crate::redact::Redactor;

/// How long a remote has to name its commit.
const LOOK_LIMIT: Duration = Duration::from_secs(10);
/// How long a fetch may take.
const FETCH_LIMIT: Duration = Duration::from_secs(10 * 60);
/// How long a fetch may take while a task waits for it.
const SOON: Duration = Duration::from_secs(30);

/// The result of a comparison.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Comparison {
    /// The state of the local branch.
    pub freshness: Freshness,
    /// The name of the remote.
    pub remote: Option<String>,
    /// The local commit.
    pub here: Option<Oid>,
    /// The remote's commit.
    pub there: Option<Oid>,
    /// How many commits only the remote has, and how many only the local branch has. Unknown while the remote's commit
    /// is not here: it may then also contain commits that the local branch seems to have alone.
    pub counts: Option<(usize, usize)>,
    /// Why the state is what it is, if that needs an explanation.
    pub why: Option<String>,
}

impl Comparison {
    /// A state without a comparison.
    pub fn without(freshness: Freshness, why: impl Into<String>) -> Self {
        Self { freshness, remote: None, here: None, there: None, counts: None, why: Some(why.into()) }
    }
}

/// The result of a pull.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Pulled {
    /// There was nothing to do.
    Even,
    /// The branch moved.
    Moved {
        /// Where it was.
        from: Oid,
        /// Where it is.
        to: Oid,
        /// Files that changed at the last moment, and stay as the user has them.
        kept: Vec<std::path::PathBuf>,
    },
    /// It could not follow; nothing was changed.
    Held {
        /// As a sentence without a full stop.
        why: String,
    },
}

/// A state, how many commits each side has that the other lacks, and what to say about it.
type Relation = (Freshness, Option<(usize, usize)>, Option<String>);

/// A repository, its trusted settings, and the branch that counts.
#[derive(Clone, Copy, Debug)]
pub struct Upstream<'a> {
    /// The repository.
    pub repo: &'a Repo,
    /// Git with the settings that the user trusts.
    pub work: &'a Work,
    /// Short branch name.
    pub target: &'a str,
}

impl Upstream<'_> {
    /// Compares the target with the remote's. With `fetch` the remote's commits are brought here first, so that they
    /// can be counted. Trouble with the remote is part of the result.
    pub fn compare(&self, fetch: bool) -> Result<Comparison, GitError> {
        self.compared(fetch.then_some(FETCH_LIMIT))
    }

    /// The same with the remote's commits, while a task waits: they come soon or not at all.
    pub(crate) fn compare_soon(&self) -> Result<Comparison, GitError> {
        self.compared(Some(SOON))
    }

    fn compared(&self, fetch: Option<Duration>) -> Result<Comparison, GitError> {
        let here = self.repo.read_ref(&self.branch())?;
        let Some(remote) = default_remote(self.work)? else {
            let none =
                Comparison::without(Freshness::NoRemote, "it has no remote, or several and no `origin`");
            return Ok(Comparison { here, ..none });
        };
        let unknown = |why: String| {
            let unknown = Comparison::without(Freshness::Unknown, why);
            Comparison { here: here.clone(), remote: Some(remote.clone()), ..unknown }
        };
        let Some(local) = here.clone() else {
            let missing =
                Comparison::without(Freshness::Missing, format!("it has no branch {}", self.target));
            return Ok(Comparison { remote: Some(remote), ..missing });
        };
        let there = match self.ask(&remote) {
            Ok(Some(there)) => there,
            Ok(None) => return Ok(unknown(format!("{remote} has no branch {}", self.target))),
            Err(error) => return Ok(unknown(complaint(&error))),
        };
        if let Some(limit) = fetch
            && !self.work.has_commit(&there)?
            && let Err(error) = self.fetch_from(&remote, &there, limit)
        {
            return Ok(unknown(complaint(&error)));
        }
        let (freshness, counts, why) = self.relation(&remote, &local, &there)?;
        Ok(Comparison { freshness, remote: Some(remote), here, there: Some(there), counts, why })
    }

    /// Fetches the target and moves the local branch forwards, with its checkouts, unless something is in the way.
    pub fn pull(&self) -> Result<(Comparison, Pulled), GitError> {
        let compared = self.compare(true)?;
        let (Some(remote), Some(from), Some(to)) = (&compared.remote, &compared.here, &compared.there) else {
            let why = compared.why.clone().unwrap_or_else(|| "its remote has nothing to pull".to_owned());
            return Ok((compared, Pulled::Held { why }));
        };
        let pulled = match follow(self.repo, self.work, self.target, to, remote)? {
            Followed::Even => Pulled::Even,
            Followed::Moved { kept } => Pulled::Moved { from: from.clone(), to: to.clone(), kept },
            Followed::Behind { why } => Pulled::Held { why },
        };
        Ok((compared, pulled))
    }

    /// The target at the remote, brought here without touching the user's branches. `None` if there is none.
    pub fn fetch(&self) -> Result<Option<Oid>, GitError> {
        let Some(remote) = default_remote(self.work)? else { return Ok(None) };
        let Some(there) = self.ask(&remote)? else { return Ok(None) };
        if !self.work.has_commit(&there)? {
            self.fetch_from(&remote, &there, FETCH_LIMIT)?;
        }
        Ok(Some(there))
    }

    fn branch(&self) -> String {
        format!("refs/heads/{}", self.target)
    }

    fn git(&self, limit: Duration) -> GitCommand {
        self.work.bare().cwd(&self.repo.toplevel).within(limit)
    }

    fn ask(&self, remote: &str) -> Result<Option<Oid>, GitError> {
        check_ref_name(&self.branch())?;
        let listed =
            self.git(LOOK_LIMIT).args(["ls-remote", "--quiet", "--", remote, &self.branch()]).text()?;
        let lines = listed.lines().filter_map(|line| line.split_once('\t'));
        let found = lines.filter(|(_, name)| *name == self.branch()).map(|(oid, _)| Oid::parse(oid)).next();
        Ok(found.transpose()?)
    }

    /// Brings a commit of the remote here, and holds it with a ref, so that no `git gc` removes it.
    fn fetch_from(&self, remote: &str, there: &Oid, limit: Duration) -> Result<(), GitError> {
        let held = format!("refs/regatta/remote/{}", self.target);
        let quiet = ["fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--no-recurse-submodules"];
        let mut command = self.git(limit).args(quiet).args(["--no-auto-maintenance", "--refmap="]);
        // Regatta's own git directory has few refs: these say what need not be sent.
        let known = [self.branch(), self.tracking(remote)];
        for tip in known.iter().filter_map(|name| self.repo.read_ref(name).ok().flatten()) {
            command = command.arg(format!("--negotiation-tip={tip}"));
        }
        command.args(["--", remote]).arg(format!("+{}:{held}", self.branch())).bytes()?;
        if !self.work.has_commit(there)? {
            let what = format!("{} moved while it was fetched", self.target);
            return Err(GitError::Unexpected { command: format!("git fetch {remote}"), what });
        }
        let old = self.repo.read_ref(&held)?.map_or(Expect::Absent, Expect::Is);
        let edit = RefEdit { name: held, new: Some(there.clone()), old };
        // Another process that holds another commit of the remote at the same moment does no harm.
        let _ = self.repo.update_refs(&[edit], &format!("regatta: fetched from {remote}"))?;
        Ok(())
    }

    fn tracking(&self, remote: &str) -> String {
        format!("refs/remotes/{remote}/{}", self.target)
    }

    fn relation(&self, remote: &str, here: &Oid, there: &Oid) -> Result<Relation, GitError> {
        if here == there {
            return Ok((Freshness::Current, Some((0, 0)), None));
        }
        if self.work.has_commit(there)? {
            let behind = self.work.commits_between(here, there)?.len();
            let ahead = self.work.commits_between(there, here)?.len();
            return Ok((Freshness::of_counts(behind, ahead), Some((behind, ahead)), None));
        }
        // What was there when the user last fetched says whether the local branch has commits of its own.
        let seen = self.repo.read_ref(&self.tracking(remote))?;
        let is_contained = match seen {
            Some(seen) => self.work.is_ancestor(here, &seen)?,
            None => true,
        };
        let state = if is_contained { Freshness::Behind } else { Freshness::Diverged };
        Ok((
            state,
            None,
            Some("the commits of the remote are not here; --fetch brings and counts them".to_owned()),
        ))
    }
}

/// What git said about a remote, in one line and without a password.
pub(crate) fn complaint(error: &GitError) -> String {
    let text = match error {
        GitError::Failed { stderr, .. } => {
            let lines = stderr.lines().map(str::trim).filter(|line| !line.is_empty());
            let fatal = lines.clone().find_map(|line| line.strip_prefix("fatal: "));
            fatal.or_else(|| lines.clone().next_back()).unwrap_or("git failed").to_owned()
        }
        GitError::NoAnswer { limit, .. } => format!("no answer within {} s", limit.as_secs()),
        error => format!("could not {}", with_causes(error)),
    };
    Redactor::new(std::iter::empty::<(String, String)>()).redact(&text).into()
}
