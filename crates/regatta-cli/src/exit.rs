//! The exit codes, published in `docs/reference/exit-codes.md`.

use std::process::ExitCode;

use regatta_ops::RefusalKind;

/// Why the program exits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Exit {
    Ok = 0,
    TaskFailed = 1,
    Usage = 2,
    CannotWork = 3,
    NotFound = 4,
    TimedOut = 5,
    Refused = 6,
    Git = 7,
    Interrupted = 130,
}

impl Exit {
    /// All codes with their meaning, as in the reference.
    #[cfg(test)]
    pub(crate) const ALL: [(Exit, &'static str); 9] = [
        (Exit::Ok, "ok"),
        (Exit::TaskFailed, "a task is not done or landed"),
        (Exit::Usage, "usage, manifest or configuration error"),
        (Exit::CannotWork, "Regatta could not do its job: a program is missing, the store is unreachable"),
        (Exit::NotFound, "not found"),
        (Exit::TimedOut, "timed out"),
        (Exit::Refused, "refused or blocked: state, conflict, policy"),
        (Exit::Git, "git or lane error"),
        (Exit::Interrupted, "interrupted"),
    ];

    /// The numeric exit code.
    pub(crate) fn code(self) -> u8 {
        self as u8
    }
}

impl From<RefusalKind> for Exit {
    fn from(kind: RefusalKind) -> Self {
        match kind {
            RefusalKind::Usage => Exit::Usage,
            RefusalKind::CannotWork => Exit::CannotWork,
            RefusalKind::NotFound => Exit::NotFound,
            RefusalKind::TimedOut => Exit::TimedOut,
            RefusalKind::Refused => Exit::Refused,
            RefusalKind::Git => Exit::Git,
            RefusalKind::Interrupted => Exit::Interrupted,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> ExitCode {
        ExitCode::from(exit.code())
    }
}
