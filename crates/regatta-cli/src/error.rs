//! The one error of the command line: what went wrong, the causes, and the next step.

use regatta_core::causes::with_causes;
use regatta_core::diagnostic::Diagnostic;
use regatta_engine::engine::EngineError;
use regatta_engine::git::GitError;
use regatta_engine::landing::train::LandError;
use regatta_engine::trust::TrustError;
use regatta_store::StoreError;

use crate::exit::Exit;

/// What a command ends with when it cannot do what it was asked. It always has a next step.
#[derive(Debug)]
pub(crate) struct CliError {
    pub(crate) exit: Exit,
    pub(crate) message: String,
    pub(crate) hint: String,
    pub(crate) diagnostics: Vec<Diagnostic>,
}

impl CliError {
    pub(crate) fn new(exit: Exit, message: impl Into<String>) -> Self {
        let hint = usual_step(exit).to_owned();
        Self { exit, message: message.into(), hint, diagnostics: Vec::new() }
    }

    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self::new(Exit::Usage, message)
    }

    pub(crate) fn not_found(message: impl Into<String>) -> Self {
        Self::new(Exit::NotFound, message)
    }

    pub(crate) fn refused(message: impl Into<String>) -> Self {
        Self::new(Exit::Refused, message)
    }

    /// Files could not be understood; the diagnostics say where.
    pub(crate) fn diagnosed(diagnostics: Vec<Diagnostic>) -> Self {
        let errors = diagnostics.iter().filter(|diagnostic| diagnostic.is_error()).count();
        let plural = if errors == 1 { "" } else { "s" };
        let mut error = Self::usage(format!("{errors} mistake{plural} found; nothing was changed"));
        let wrong = |part: fn(&str) -> bool| {
            diagnostics.iter().filter(|found| found.is_error()).all(|found| part(&found.file))
        };
        let hint = if wrong(|source| source.starts_with('$')) {
            "correct the environment variable; `regatta config` shows what holds and who said so"
        } else if wrong(|source| source.starts_with('-')) {
            "correct the flag; `--help` behind the command says what it takes"
        } else if wrong(|source| source.ends_with("regatta.yaml") || source.ends_with("rookery.yaml")) {
            "correct it; `regatta config` reads it again and changes nothing"
        } else {
            "correct them; `regatta validate FILE` checks again without running anything"
        };
        error.diagnostics = diagnostics;
        error.hinted(hint)
    }

    /// The next step.
    pub(crate) fn hinted(mut self, hint: impl Into<String>) -> Self {
        self.hint = hint.into();
        self
    }

    /// A file could not be read or written.
    pub(crate) fn io(doing: &str, path: &std::path::Path, error: &std::io::Error) -> Self {
        let exit = match error.kind() {
            std::io::ErrorKind::NotFound => Exit::NotFound,
            _ => Exit::CannotWork,
        };
        let hint = match error.kind() {
            std::io::ErrorKind::NotFound => "look at the path: nothing is there",
            std::io::ErrorKind::PermissionDenied | std::io::ErrorKind::ReadOnlyFilesystem => {
                "give this user the right to it, or work in another place"
            }
            std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded => {
                "make room on that disk: `regatta lane sweep` takes away what nobody needs"
            }
            std::io::ErrorKind::IsADirectory => "that is a directory; name a file",
            _ => usual_step(Exit::CannotWork),
        };
        Self::new(exit, format!("{doing} {}: {error}", path.display())).hinted(hint)
    }
}

/// Where to look when nobody knows better.
fn usual_step(exit: Exit) -> &'static str {
    match exit {
        Exit::Usage => "`regatta --help` lists commands, `regatta COMMAND --help` what each takes",
        Exit::NotFound => "`regatta list --status all` shows what there is",
        Exit::Refused => "`regatta status ID` says what can be done now",
        Exit::TimedOut => "`regatta list` shows how far it is",
        Exit::Ok | Exit::TaskFailed | Exit::CannotWork | Exit::Git | Exit::Interrupted => {
            "`regatta doctor` looks at git, the store, the agents and the disk"
        }
    }
}

impl From<StoreError> for CliError {
    fn from(error: StoreError) -> Self {
        let exit = match &error {
            StoreError::NotFound(_) => Exit::NotFound,
            StoreError::Fenced(_)
            | StoreError::Conflict(_)
            | StoreError::Refused(_)
            | StoreError::Held(_) => Exit::Refused,
            StoreError::Invalid(_) => Exit::Usage,
            StoreError::SessionExpired
            | StoreError::Busy(_)
            | StoreError::Unavailable(_)
            | StoreError::Corrupt(_) => Exit::CannotWork,
        };
        let made = CliError::new(exit, with_causes(&error));
        match error {
            StoreError::NotFound(_) => made.hinted("`regatta list --status all` shows what there is"),
            StoreError::Unavailable(_) | StoreError::Corrupt(_) => {
                made.hinted("`regatta doctor` looks at the store")
            }
            StoreError::Busy(_) => made.hinted(
                "nothing was changed: try again when it lets go; `lsof` on .regatta/regatta.db shows who it is",
            ),
            StoreError::Fenced(_) => made.hinted("this attempt is over; what it says no longer counts"),
            _ => made,
        }
    }
}

impl From<GitError> for CliError {
    fn from(error: GitError) -> Self {
        let text = format!("could not {}", with_causes(&error));
        match &error {
            GitError::NotInstalled(_) | GitError::TooOld { .. } => {
                CliError::new(Exit::CannotWork, text).hinted("install git 2.40 or newer")
            }
            GitError::NotARepository { path } => {
                let text = format!("{} is not in a git repository", path.display());
                CliError::new(Exit::Git, text).hinted("go to a git repository, or make one: git init")
            }
            GitError::Bare { .. } => {
                CliError::new(Exit::Git, text).hinted("work from a checkout: git worktree add ../work")
            }
            _ => CliError::new(Exit::Git, text)
                .hinted("`regatta doctor` looks at the repository and its lanes"),
        }
    }
}

impl From<TrustError> for CliError {
    fn from(error: TrustError) -> Self {
        match error {
            TrustError::Refused { message, hint } => CliError::refused(message).hinted(hint),
            TrustError::NoHome(text) => CliError::new(Exit::CannotWork, text)
                .hinted("set HOME, or XDG_STATE_HOME, to a directory that you can write"),
            TrustError::Git(error) => error.into(),
        }
    }
}

impl From<EngineError> for CliError {
    fn from(error: EngineError) -> Self {
        match error {
            EngineError::Store(error) => error.into(),
            EngineError::Git(error) => error.into(),
            EngineError::Trust(error) => error.into(),
            EngineError::Refused(why) | EngineError::Repeats(why) => CliError::refused(why)
                .hinted("`regatta list` shows what there is, `regatta status ID` what to do about it"),
            EngineError::Landing(LandError::Store(error)) => error.into(),
            error @ EngineError::Io { .. } => CliError::new(Exit::CannotWork, with_causes(&error))
                .hinted("`regatta doctor` looks at the state directory and the disk"),
            EngineError::CutOff(_) => CliError::new(Exit::CannotWork, with_causes(&error))
                .hinted("nothing is lost: `regatta run --resume` with the same plan goes on"),
            other => CliError::new(Exit::Git, with_causes(&other))
                .hinted("nothing is lost: `regatta run --resume` with the same plan goes on"),
        }
    }
}
