//! The branch that a project's work lands on: one decision, made once.
//!
//! `target:` in regatta.yaml, `$REGATTA_TARGET` and `--target` take precedence. Without them the first run decides and
//! writes its decision to `.regatta/target`; every later process reads it, whatever branch is checked out then.

use std::io::ErrorKind;
use std::path::PathBuf;

use regatta_core::config::Origin;
use regatta_engine::daemon::{Presence, presence};
use regatta_engine::files::{self, Durability};
use regatta_engine::git::{BranchTip, Head};

use crate::project::Project;
use crate::refusal::{Refusal, RefusalKind};

/// The longest branch name to read from the file.
const LONGEST_BRANCH_BYTES: u64 = 1024;

/// A target branch, and how it was chosen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// Named by a flag, a variable or regatta.yaml.
    Configured(String),
    /// Decided by an earlier run.
    Decided(String),
    /// What the first run will decide.
    Proposed(String),
}

impl Target {
    fn branch(self) -> String {
        match self {
            Target::Configured(branch) | Target::Decided(branch) | Target::Proposed(branch) => branch,
        }
    }
}

impl Project {
    /// The branch work lands on. Changes nothing.
    pub fn target(&self) -> Result<String, Refusal> {
        Ok(self.choice()?.branch())
    }

    /// The branch work lands on, and how it was chosen.
    pub fn choice(&self) -> Result<Target, Refusal> {
        if let Some(target) = &self.config.target {
            return Ok(Target::Configured(target.clone()));
        }
        if let Some(branch) = self.decided()? {
            return Ok(Target::Decided(branch));
        }
        let branch = self.repo.default_branch().ok_or_else(|| {
            Refusal::new(RefusalKind::Git, "HEAD is detached, so there is no branch to land on")
                .hinted("name one: --target BRANCH, or `target:` in regatta.yaml, or check a branch out: git switch main")
        })?;
        Ok(Target::Proposed(branch))
    }

    /// The branch work lands on, recorded as decided if it was not decided yet.
    pub fn decide_target(&self) -> Result<String, Refusal> {
        match self.choice()? {
            Target::Configured(branch) => Ok(branch),
            // An empty repository has nothing to decide between yet.
            Target::Proposed(branch) if self.repo.branch_tip(&branch)?.is_none() => Ok(branch),
            Target::Proposed(branch) => self.record_target(&branch),
            Target::Decided(branch) => {
                self.require_branch(&Target::Decided(branch.clone()))?;
                Ok(branch)
            }
        }
    }

    /// The branch that the project's train lands on now: its daemon's, unless this command names one.
    pub fn train_target(&self) -> Result<String, Refusal> {
        let named_here = matches!(self.config.origin("target"), Origin::Flag | Origin::Env);
        let serving = match presence(&self.repo) {
            Ok(Presence::Alive(info) | Presence::Stalled(info)) if !named_here => info.target,
            _ => None,
        };
        serving.map_or_else(|| self.target(), Ok)
    }

    /// Refuses a target that does not exist.
    pub fn require_branch(&self, choice: &Target) -> Result<(), Refusal> {
        let branch = choice.clone().branch();
        let found = self.repo.branch_tip(&branch)?;
        match choice {
            // A branch that exists only at the remote can be the target: it starts there.
            Target::Configured(_) | Target::Proposed(_) if found.is_some() => Ok(()),
            Target::Configured(_) | Target::Proposed(_) => {
                Err(Refusal::new(RefusalKind::Git, format!("there is no branch {branch} to land on"))
                    .hinted("name another: --target BRANCH, or `target:` in regatta.yaml"))
            }
            Target::Decided(_) if matches!(found, Some(BranchTip::Local(_))) => Ok(()),
            Target::Decided(_) => Err(Refusal::refused(format!(
                "this project lands on {branch}, and there is no branch {branch} any more"
            ))
            .hinted(format!(
                "choose another with `target: BRANCH` in regatta.yaml, or bring it back: git branch {branch} COMMIT"
            ))),
        }
    }

    /// Where work lands, if the user has another branch checked out and did not choose the target.
    pub fn lands_elsewhere(&self) -> Result<Option<String>, Refusal> {
        let (Target::Decided(target) | Target::Proposed(target)) = self.choice()? else { return Ok(None) };
        Ok(match &self.repo.head {
            Head::Branch(branch) if *branch != target => Some(format!(
                "lands on {target}; you are on {branch}; set `target:` in regatta.yaml to change it"
            )),
            _ => None,
        })
    }

    fn target_file(&self) -> PathBuf {
        self.repo.state_dir.join("target")
    }

    fn decided(&self) -> Result<Option<String>, Refusal> {
        use std::io::Read;
        let path = self.target_file();
        let mut text = String::new();
        let read = std::fs::File::open(&path)
            .and_then(|file| file.take(LONGEST_BRANCH_BYTES).read_to_string(&mut text));
        match read {
            Ok(_) => Ok(Some(text.trim().to_owned()).filter(|branch| !branch.is_empty())),
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => Ok(None),
            Err(error) => Err(Refusal::io("reading", &path, &error)),
        }
    }

    /// Records the decision durably, unless another process was faster. Returns the decision that counts.
    pub fn record_target(&self, branch: &str) -> Result<String, Refusal> {
        self.make_state_dir()?;
        let path = self.target_file();
        files::create(&path, format!("{branch}\n").as_bytes(), Durability::Durable)
            .map_err(|error| Refusal::io("writing", &path, &error))?;
        Ok(self.decided()?.unwrap_or_else(|| branch.to_owned()))
    }
}
