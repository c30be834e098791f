//! Why an operation was refused: the kind of refusal, the state that prevented it, and the next steps, as data.

use regatta_core::causes::with_causes;
use regatta_core::diagnostic::Diagnostic;
use regatta_core::id::TaskId;
use regatta_engine::engine::EngineError;
use regatta_engine::git::GitError;
use regatta_engine::landing::train::LandError;
use regatta_engine::trust::TrustError;
use regatta_store::{StoreError, TaskRecord};
use serde::{Deserialize, Serialize};
use tokio::sync::watch::error::RecvError;

use crate::step::{Act, Step};

/// The kind of a refusal. Each has its own exit code on the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RefusalKind {
    /// The request itself is wrong: a value, a file, a setting.
    Usage,
    /// Regatta could not do its job: a program is missing, the store is unreachable, the disk is full.
    CannotWork,
    /// There is no such task, member, message or file.
    NotFound,
    /// It did not happen in time.
    TimedOut,
    /// The state, a conflict or a policy forbids it.
    Refused,
    /// Git or a lane failed.
    Git,
    /// The caller interrupted it.
    Interrupted,
}

/// The error of an operation. It always has a next step.
#[derive(Clone, Debug)]
pub struct Refusal {
    pub kind: RefusalKind,
    /// What prevented the operation, in one sentence.
    pub message: String,
    /// The task it is about, and the name of its state.
    pub task: Option<(TaskId, &'static str)>,
    /// What can be done next; never empty.
    pub next: Vec<Step>,
    /// Mistakes in files, with file, line and column.
    pub diagnostics: Vec<Diagnostic>,
}

impl Refusal {
    /// A refusal with the default next step of its kind.
    pub fn new(kind: RefusalKind, message: impl Into<String>) -> Self {
        let next = vec![Step::Advice(usual_step(kind).to_owned())];
        Self { kind, message: message.into(), task: None, next, diagnostics: Vec::new() }
    }

    /// The request is wrong.
    pub fn usage(message: impl Into<String>) -> Self {
        Self::new(RefusalKind::Usage, message)
    }

    /// Something does not exist.
    pub fn not_found(message: impl Into<String>) -> Self {
        Self::new(RefusalKind::NotFound, message)
    }

    /// The state forbids the operation.
    pub fn refused(message: impl Into<String>) -> Self {
        Self::new(RefusalKind::Refused, message)
    }

    /// Names the task it is about, and the task's state.
    pub fn about(mut self, task: &TaskRecord) -> Self {
        self.task = Some((task.spec.id.clone(), task.state.name()));
        self
    }

    /// Offers these acts on the task as the next steps.
    pub fn offering(mut self, task: &TaskId, acts: impl IntoIterator<Item = Act>) -> Self {
        self.next = acts.into_iter().map(|act| Step::Act { act, task: task.clone() }).collect();
        self
    }

    /// Gives the next step as a sentence.
    pub fn hinted(mut self, hint: impl Into<String>) -> Self {
        self.next = vec![Step::Advice(hint.into())];
        self
    }

    /// The next steps on one line, for people.
    pub fn hint(&self) -> String {
        let steps: Vec<String> = self.next.iter().map(ToString::to_string).collect();
        steps.join("; ")
    }

    /// Files could not be parsed; the diagnostics say where.
    pub fn diagnosed(diagnostics: Vec<Diagnostic>) -> Self {
        let errors = diagnostics.iter().filter(|diagnostic| diagnostic.is_error()).count();
        let plural = if errors == 1 { "" } else { "s" };
        let mut error = Self::usage(format!("{errors} mistake{plural} found; nothing was changed"));
        let wrong = |part: fn(&str) -> bool| {
            diagnostics.iter().filter(|found| found.is_error()).all(|found| part(&found.file))
        };
        let hint = if wrong(|source| source.starts_with('$')) {
            "correct the environment variable; `regatta config` shows every setting and where it came from"
        } else if wrong(|source| source.starts_with('-')) {
            "correct the flag; `regatta help COMMAND` lists the options"
        } else if wrong(|source| {
            source.ends_with("regatta.yaml")
                || source.ends_with("rookery.yaml")
                || source.ends_with("node.yaml")
        }) {
            "correct it; `regatta config` reads it again and changes nothing"
        } else if errors == 1 {
            "correct it; `regatta validate FILE` checks again without running anything"
        } else {
            "correct them; `regatta validate FILE` checks again without running anything"
        };
        error.diagnostics = diagnostics;
        error.hinted(hint)
    }

    /// A file could not be read or written.
    pub fn io(doing: &str, path: &std::path::Path, error: &std::io::Error) -> Self {
        let kind = match error.kind() {
            std::io::ErrorKind::NotFound => RefusalKind::NotFound,
            _ => RefusalKind::CannotWork,
        };
        let hint = match error.kind() {
            std::io::ErrorKind::NotFound => "check the path",
            std::io::ErrorKind::PermissionDenied | std::io::ErrorKind::ReadOnlyFilesystem => {
                "give this user permission, or use another place"
            }
            std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded => {
                "free space on that disk: `regatta lane sweep` removes lanes that are no longer needed"
            }
            std::io::ErrorKind::IsADirectory => "that is a directory; name a file",
            _ => usual_step(RefusalKind::CannotWork),
        };
        Self::new(kind, format!("{doing} {}: {error}", path.display())).hinted(hint)
    }
}

/// The default next step of each kind.
fn usual_step(kind: RefusalKind) -> &'static str {
    match kind {
        RefusalKind::Usage => "`regatta help` lists the commands, `regatta help COMMAND` explains one",
        RefusalKind::NotFound => "`regatta list --status all` shows all tasks",
        RefusalKind::Refused => "`regatta status ID` shows what you can do now",
        RefusalKind::TimedOut => "`regatta list` shows its progress",
        RefusalKind::CannotWork | RefusalKind::Git | RefusalKind::Interrupted => {
            "`regatta doctor` checks git, the store, the agents and the disk"
        }
    }
}

impl From<StoreError> for Refusal {
    fn from(error: StoreError) -> Self {
        let kind = match &error {
            StoreError::NotFound(_) => RefusalKind::NotFound,
            StoreError::Fenced(_)
            | StoreError::Conflict(_)
            | StoreError::Refused(_)
            | StoreError::Held(_) => RefusalKind::Refused,
            StoreError::Invalid(_) => RefusalKind::Usage,
            StoreError::SessionExpired
            | StoreError::Busy(_)
            | StoreError::Unavailable(_)
            | StoreError::Corrupt(_) => RefusalKind::CannotWork,
        };
        let made = Refusal::new(kind, with_causes(&error));
        match error {
            StoreError::NotFound(_) => made.hinted("`regatta list --status all` shows all tasks"),
            StoreError::Unavailable(_) | StoreError::Corrupt(_) => {
                made.hinted("`regatta doctor` checks the store")
            }
            StoreError::Busy(_) => made.hinted(
                "nothing was changed; another process holds the store: `lsof .regatta/regatta.db` shows which",
            ),
            StoreError::Fenced(_) => made.hinted("this attempt is over; its reports no longer count"),
            _ => made,
        }
    }
}

/// The store ended a subscription.
impl From<RecvError> for Refusal {
    fn from(_: RecvError) -> Self {
        Refusal::new(RefusalKind::CannotWork, "the store stopped reporting changes")
    }
}

impl From<GitError> for Refusal {
    fn from(error: GitError) -> Self {
        let text = format!("could not {}", with_causes(&error));
        match &error {
            GitError::NotInstalled(_) | GitError::TooOld { .. } => {
                Refusal::new(RefusalKind::CannotWork, text).hinted("install git 2.40 or newer")
            }
            GitError::NotARepository { path } => {
                let text = format!("{} is not in a git repository", path.display());
                Refusal::new(RefusalKind::Git, text)
                    .hinted("change to a git repository, or create one: git init")
            }
            GitError::Bare { .. } => {
                Refusal::new(RefusalKind::Git, text).hinted("work from a checkout: git worktree add ../work")
            }
            GitError::BadMove { path, .. } => {
                let path = path.display();
                Refusal::new(RefusalKind::Git, text).hinted(format!(
                    "move it aside (mv {path} {path}.old); then `git status` in your checkouts shows what is missing"
                ))
            }
            _ => Refusal::new(RefusalKind::Git, text)
                .hinted("`regatta doctor` checks the repository and its lanes"),
        }
    }
}

impl From<TrustError> for Refusal {
    fn from(error: TrustError) -> Self {
        match error {
            TrustError::Refused { message, hint } => Refusal::refused(message).hinted(hint),
            TrustError::NoHome(text) => Refusal::new(RefusalKind::CannotWork, text).hinted(
                "set HOME to your home directory, or XDG_STATE_HOME to where your Regatta keeps its records",
            ),
            TrustError::Git(error) => error.into(),
        }
    }
}

impl From<EngineError> for Refusal {
    fn from(error: EngineError) -> Self {
        match error {
            EngineError::Store(error) => error.into(),
            EngineError::Git(error) => error.into(),
            EngineError::Trust(error) => error.into(),
            EngineError::Refused(why) | EngineError::Repeats(why) => Refusal::refused(why)
                .hinted("`regatta list` shows the tasks, `regatta status ID` shows what to do"),
            EngineError::Elsewhere(why) => Refusal::refused(why).hinted(
                "`regatta enqueue` and all commands that read work from here; machines share work through a git repository that all of them reach: `hub` in regatta.yaml",
            ),
            EngineError::NoNode(why) => Refusal::refused(why)
                .hinted("`regatta node list` shows all nodes, `regatta doctor` checks this one"),
            EngineError::Landing(LandError::Store(error)) => error.into(),
            error @ EngineError::Io { .. } => Refusal::new(RefusalKind::CannotWork, with_causes(&error))
                .hinted("`regatta doctor` checks the state directory and the disk"),
            EngineError::Hub(error) => Refusal::usage(with_causes(&error))
                .hinted("set `hub` in regatta.yaml to a remote, a path or an address; `git remote -v` lists remotes"),
            EngineError::CutOff(_) => Refusal::new(RefusalKind::CannotWork, with_causes(&error)).hinted(
                "nothing is lost: `regatta run --resume` with the same plan continues, or `regatta daemon start`",
            ),
            other => Refusal::new(RefusalKind::Git, with_causes(&other))
                .hinted("nothing is lost: `regatta run --resume` with the same plan continues"),
        }
    }
}
