//! Runs the user's commit hooks as git would, through a caller that can supervise them.
//!
//! Invariant: only hooks with content that the user trusts are passed to the caller (see `git/trusted_hooks.rs`), and
//! git commands inside them obey the trust snapshot, not what an agent wrote.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use regatta_core::time::Timestamp;

use super::{Lane, Lanes};
use crate::git::{GitError, HookSource, Oid, hook_fingerprint, is_executable};

/// Whether hooks run, and how.
pub enum Hooks<'a> {
    /// No hooks run.
    Skip,
    /// The caller runs each hook: it can time it out, sandbox it and kill its tree.
    Run(&'a mut dyn FnMut(HookCall) -> HookResult),
}

impl std::fmt::Debug for Hooks<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if matches!(self, Self::Skip) { "Skip" } else { "Run" })
    }
}

/// One program to run.
#[derive(Clone, Debug)]
pub struct HookCall {
    /// `pre-commit`, `commit-msg`, …
    pub hook: &'static str,
    /// The file to execute.
    pub program: PathBuf,
    /// Its arguments.
    pub args: Vec<OsString>,
    /// The lane's root.
    pub cwd: PathBuf,
    /// The whole environment: clear the inherited one.
    pub env: Vec<(OsString, OsString)>,
}

/// The result of a hook.
#[derive(Clone, Debug)]
pub struct HookResult {
    /// Whether it exited with 0.
    pub ok: bool,
    /// Its output.
    pub output: String,
}

/// The hooks to run for one commit.
pub(super) enum InForce {
    From(PathBuf),
    /// There were none when the agent started; these exist now and do not run.
    Unknown(Vec<String>),
    /// These have changed.
    Changed(Vec<String>),
}

impl Lanes {
    pub(super) fn hooks_in_force(&self, lane: &Lane) -> Result<InForce, GitError> {
        match self.work.trust().hooks() {
            None => Ok(InForce::Unknown(Vec::new())),
            Some(HookSource::Shared(dir)) => self.trusted_hooks(lane, dir).map(InForce::From),
            Some(HookSource::InLane(dir)) => {
                let dir = lane.path.join(dir);
                let then = self.load_record(&lane.task)?.map(|record| record.hooks).unwrap_or_default();
                let now = hook_fingerprint(&dir)?;
                let trusted = self.work.trust().hook_files();
                if now == *trusted {
                    return Ok(InForce::From(dir));
                }
                // The agent did not change them, but they are not the ones the user trusts: other hooks have landed.
                if then == now && !trusted.is_empty() {
                    return self.trusted_hooks(lane, &dir).map(InForce::From);
                }
                if then == now {
                    return Ok(InForce::Unknown(now.into_keys().collect()));
                }
                let differs = |name: &&String| then.get(*name) != now.get(*name);
                let mut names: Vec<String> = now.keys().chain(then.keys()).filter(differs).cloned().collect();
                names.sort();
                names.dedup();
                Ok(if then.is_empty() { InForce::Unknown(names) } else { InForce::Changed(names) })
            }
        }
    }

    /// The directory from which hooks run: `dir` while its content is trusted, else the trusted copy.
    fn trusted_hooks(&self, lane: &Lane, dir: &Path) -> Result<PathBuf, GitError> {
        let trusted = self.work.trust().trusted_hooks_dir(dir)?;
        // The copy in the lane was written again after its agent ended.
        Ok(if lane.own && trusted != dir { lane.git_dir.join("hooks") } else { trusted })
    }

    /// The environment in which a hook sees this lane.
    pub(super) fn hook_env(
        &self,
        lane: &Lane,
        head: &Oid,
        at: Timestamp,
    ) -> Result<Vec<(OsString, OsString)>, GitError> {
        let who = self.work.identity();
        let mut env = self.repo.env.variables().to_vec();
        let date = format!("{} +0000", at.seconds());
        let places = if lane.own {
            self.own_hook_places(lane)
        } else {
            self.work.child_env(&lane.path, &lane.git_dir, head)?
        };
        env.extend(places.into_iter().map(|(name, path)| (name.into(), path.into_os_string())));
        let said = [
            ("GIT_EDITOR", ":"),
            ("GIT_PREFIX", ""),
            ("GIT_TERMINAL_PROMPT", "0"),
            ("GIT_AUTHOR_NAME", &who.name),
            ("GIT_AUTHOR_EMAIL", &who.email),
            ("GIT_AUTHOR_DATE", &date),
            ("GIT_COMMITTER_NAME", &who.name),
            ("GIT_COMMITTER_EMAIL", &who.email),
        ];
        env.extend(said.map(|(name, value)| (name.into(), value.into())));
        Ok(env)
    }
}

/// The hooks of one commit, called one after the other.
pub(super) struct HookRun<'a, 'b> {
    pub(super) dir: &'a Path,
    pub(super) lane: &'a Lane,
    pub(super) env: Vec<(OsString, OsString)>,
    pub(super) run: &'a mut (dyn FnMut(HookCall) -> HookResult + 'b),
}

impl HookRun<'_, '_> {
    /// Whether this hook exists.
    pub(super) fn has(&self, hook: &str) -> bool {
        is_executable(&self.dir.join(hook))
    }

    /// Runs a hook if it exists; `Err` contains the output of a refusing one.
    pub(super) fn call(&mut self, hook: &'static str, args: &[&std::ffi::OsStr]) -> Result<(), String> {
        if !self.has(hook) {
            return Ok(());
        }
        let args = args.iter().map(|arg| (*arg).to_owned()).collect();
        let (program, cwd, env) = (self.dir.join(hook), self.lane.path.clone(), self.env.clone());
        let result = (self.run)(HookCall { hook, program, args, cwd, env });
        if result.ok { Ok(()) } else { Err(result.output) }
    }
}
