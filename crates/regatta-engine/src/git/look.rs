//! Looks up commits by names that users give, and formats differences for display.

use super::{GitCommand, GitEnv, GitError, GitVersion, Identity, Oid, Repo, Work, config, oid_line, version};

/// The format of a difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiffStyle {
    /// A patch.
    Patch,
    /// Files with counts and bars.
    Stat,
    /// Names of files, one per line.
    Names,
    /// Names of files, each followed by a NUL.
    NamesZ,
}

impl DiffStyle {
    /// Adds `diff-tree` with every option off that could run a program.
    pub(crate) fn apply(self, command: GitCommand) -> GitCommand {
        let command = command.args(["diff-tree", "-r", "--no-ext-diff", "--no-textconv", "--no-color"]);
        match self {
            DiffStyle::Patch => command.args(["-p", "--find-renames"]),
            DiffStyle::Stat => command.args(["--stat=100", "--find-renames"]),
            DiffStyle::Names => command.args(["--name-only", "--no-renames"]),
            DiffStyle::NamesZ => command.args(["--name-only", "--no-renames", "-z"]),
        }
    }
}

impl Work {
    /// The difference between two commits or trees.
    pub fn diff_styled(&self, from: &Oid, to: &Oid, style: DiffStyle) -> Result<Vec<u8>, GitError> {
        style.apply(self.bare()).arg(from).arg(to).arg("--").bytes()
    }

    /// The first parent of a commit, if it has one.
    pub fn parent_of(&self, commit: &Oid) -> Result<Option<Oid>, GitError> {
        verified(&self.bare(), &format!("{commit}^"))
    }

    /// Whether the commit is still in the repository.
    pub fn has_commit(&self, commit: &Oid) -> Result<bool, GitError> {
        Ok(verified(&self.bare(), commit.as_str())?.is_some())
    }
}

impl Repo {
    /// The commit that a user's name for it means: a branch, a tag, an id. The name is data, never an option.
    pub fn resolve(&self, name: &str) -> Result<Option<Oid>, GitError> {
        if name.is_empty() || name.contains('\0') {
            return Ok(None);
        }
        verified(&self.real(), name)
    }
}

fn verified(command: &GitCommand, name: &str) -> Result<Option<Oid>, GitError> {
    let name = format!("{name}^{{commit}}");
    let ran = command.clone().args(["rev-parse", "--verify", "--quiet", "--end-of-options", &name]).run()?;
    if ran.code == Some(0) { oid_line(&ran.stdout).map(Some) } else { Ok(None) }
}

/// The git on PATH, if it is new enough.
pub fn installed() -> Result<GitVersion, GitError> {
    version::require(GitCommand::new(&GitEnv::inherited()))
}

impl Repo {
    /// The committer from the user's own settings; `None` if they do not set one.
    pub fn configured_identity(&self) -> Result<Option<Identity>, GitError> {
        let settings = config::load(self.real())?;
        let text = |key: &str| config::last(&settings, key).map(|setting| setting.text());
        Ok(text("user.name").zip(text("user.email")).map(|(name, email)| Identity { name, email }))
    }
}
