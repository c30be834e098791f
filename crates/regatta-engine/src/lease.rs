//! The lease of an engine's session, where machines share the store: until when its process trees may live.
//!
//! Another machine may start a task again once its engine's beat has stayed the same for the lease. So the trees of
//! that engine must have ended by then, also if the engine hangs, is stopped or was killed: each shim enforces the lease
//! by itself. After every answered beat the engine writes how long its trees may live into a file of its session,
//! counted from the moment at which the beat was *sent*. A shim finds that file through a link in its run directory; an
//! engine that adopts a tree replaces the link. Times are since the machine's start and include the time it was
//! suspended: others were awake.
//!
//! One machine that has its store alone has no lease: its locks decide.

use std::io;
use std::os::unix::fs::{DirBuilderExt, symlink};
use std::path::{Path, PathBuf};
use std::time::Duration;

use regatta_store::SessionId;

use crate::clock;
use crate::files::{self, Durability};

/// The directory of all leases in a project's state directory.
const DIRECTORY: &str = "leases";

/// The link in a run directory.
const LINK: &str = "lease";

/// How often a shim looks at the clock at least: timers stand still while the machine is suspended.
const INTERVAL: Duration = Duration::from_secs(1);

/// The lease of one session.
#[derive(Clone, Debug)]
pub(crate) struct Lease {
    path: PathBuf,
}

impl Lease {
    /// The lease of `session`, in the project's state directory.
    pub(crate) fn of(state_dir: &Path, session: &SessionId) -> Self {
        Self { path: state_dir.join(DIRECTORY).join(&session.0) }
    }

    /// Lets its trees live until this time since the machine's start.
    pub(crate) fn extend(&self, until: Duration) -> io::Result<()> {
        if let Some(dir) = self.path.parent() {
            std::fs::DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
        }
        let text = until.as_millis().to_string();
        files::replace_as(&self.path, text.as_bytes(), Durability::Volatile, Some(0o600))
    }

    /// Puts the tree of this run directory under the lease.
    pub(crate) fn cover(&self, run_dir: &Path) -> io::Result<()> {
        let target = std::path::absolute(&self.path)?;
        files::replace_by(&run_dir.join(LINK), |aside| symlink(&target, aside))
    }

    /// Removes it when no tree is left.
    pub(crate) fn end(&self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

/// Removes the files of leases that are over: a lease without one is over too.
pub(crate) fn sweep(state_dir: &Path) {
    let Ok(files) = std::fs::read_dir(state_dir.join(DIRECTORY)) else { return };
    for path in files.flatten().map(|file| file.path()) {
        if read(&path) <= clock::since_boot() {
            let _ = std::fs::remove_file(path);
        }
    }
}

/// The lease as the shim of a run directory sees it.
pub(crate) struct Leased {
    link: PathBuf,
}

impl Leased {
    /// The lease of a tree, if it has one.
    pub(crate) fn of(run_dir: &Path) -> Option<Self> {
        let link = run_dir.join(LINK);
        link.symlink_metadata().is_ok().then_some(Self { link })
    }

    /// The time until the shim looks again; `None` if the lease is over. Read each time: an heir's lease may be shorter.
    pub(crate) fn left(&self) -> Option<Duration> {
        let left = read(&self.link).saturating_sub(clock::since_boot());
        (!left.is_zero()).then(|| left.min(INTERVAL))
    }
}

/// Until when the trees may live. A lease that cannot be read is over.
fn read(link: &Path) -> Duration {
    let text = std::fs::read_to_string(link).unwrap_or_default();
    text.trim().parse().map_or(Duration::ZERO, Duration::from_millis)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tree_lives_while_its_lease_is_extended_and_follows_its_heir() {
        let dir = tempfile::tempdir().unwrap();
        let run_dir = dir.path().join("run");
        std::fs::create_dir(&run_dir).unwrap();
        assert!(Leased::of(&run_dir).is_none(), "without a lease nothing ends it");

        let first = Lease::of(dir.path(), &SessionId("first".into()));
        first.cover(&run_dir).unwrap();
        assert!(Leased::of(&run_dir).unwrap().left().is_none(), "a lease that was never written is over");
        let now = clock::since_boot();
        first.extend(now + Duration::from_secs(600)).unwrap();
        let leased = Leased::of(&run_dir).unwrap();
        assert_eq!(leased.left(), Some(INTERVAL));

        // An heir's lease counts as soon as it covers the tree, also if it is shorter.
        let heir = Lease::of(dir.path(), &SessionId("heir".into()));
        heir.extend(now).unwrap();
        heir.cover(&run_dir).unwrap();
        assert_eq!(leased.left(), None);
        heir.extend(now + Duration::from_secs(600)).unwrap();
        first.end();
        assert_eq!(leased.left(), Some(INTERVAL));
        sweep(dir.path());
        assert_eq!(leased.left(), Some(INTERVAL), "only what is over is swept");
        heir.extend(now).unwrap();
        sweep(dir.path());
        assert!(!heir.path.exists());
        assert_eq!(leased.left(), None);
    }
}
