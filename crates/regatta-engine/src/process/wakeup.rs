//! **One watcher for all files.** A user usually has 128 inotify instances, fewer than the files of a busy node; so the
//! whole process has one, read by one sleeping thread that wakes the followers of a file.
//!
//! A thread and not a task, so that it belongs to no runtime and ends with none.

use std::collections::HashMap;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use inotify::{EventMask, Inotify, WatchDescriptor, WatchMask, Watches};
use tokio::sync::Notify;

/// Which followers to wake for which file.
type Sleepers = HashMap<WatchDescriptor, Vec<Arc<Notify>>>;

struct Watcher {
    watches: Watches,
    sleepers: Sleepers,
}

static WATCHER: Mutex<Option<Watcher>> = Mutex::new(None);

/// Where the user has no more watchers or watches, a file is looked at this often.
const LOOK: Duration = Duration::from_millis(200);

/// Wakes its holder after each change of one file, until dropped.
pub(super) struct Wakeup {
    /// `None` where none can be had: an agent can use up all that its user may have.
    watch: Option<WatchDescriptor>,
    changed: Arc<Notify>,
}

impl Wakeup {
    /// Once this returns, no change is missed.
    pub(super) fn watch(path: &Path) -> io::Result<Self> {
        let changed = Arc::new(Notify::new());
        let watch = match Self::watched(path, &changed) {
            Err(error) if is_used_up(&error) => None,
            watch => Some(watch?),
        };
        Ok(Self { watch, changed })
    }

    fn watched(path: &Path, changed: &Arc<Notify>) -> io::Result<WatchDescriptor> {
        let mut guard = lock();
        let watcher = match &mut *guard {
            Some(watcher) => watcher,
            none => none.insert(start()?),
        };
        let watch = watcher.watches.add(path, WatchMask::MODIFY)?;
        watcher.sleepers.entry(watch.clone()).or_default().push(Arc::clone(changed));
        Ok(watch)
    }

    /// Resolves after a change since it last resolved, or now and then. Cancel-safe.
    pub(super) async fn changed(&self) {
        match &self.watch {
            Some(_) => self.changed.notified().await,
            None => tokio::time::sleep(LOOK).await,
        }
    }
}

impl Drop for Wakeup {
    fn drop(&mut self) {
        let mut guard = lock();
        let Some(watcher) = &mut *guard else { return };
        let Some(watch) = &self.watch else { return };
        let Some(sleepers) = watcher.sleepers.get_mut(watch) else { return };
        sleepers.retain(|sleeper| !Arc::ptr_eq(sleeper, &self.changed));
        // The kernel gives one watch per file to all who ask, so the last follower removes it.
        if sleepers.is_empty() {
            watcher.sleepers.remove(watch);
            // It fails if the file is gone, and its watch with it.
            drop(watcher.watches.remove(watch.clone()));
        }
    }
}

/// Whether there is a limit, and it is reached.
fn is_used_up(error: &io::Error) -> bool {
    use rustix::io::Errno;
    matches!(Errno::from_io_error(error), Some(Errno::MFILE | Errno::NFILE | Errno::NOSPC))
}

fn start() -> io::Result<Watcher> {
    let inotify = Inotify::init()?;
    let watches = inotify.watches();
    std::thread::Builder::new().name("file-changes".into()).spawn(move || dispatch(inotify))?;
    Ok(Watcher { watches, sleepers: Sleepers::new() })
}

fn dispatch(mut inotify: Inotify) {
    let mut buffer = [0; 16 * 1024];
    loop {
        let events = match inotify.read_events_blocking(&mut buffer) {
            Ok(events) => events,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            // The descriptor is ours and open, so this does not happen; if it does, a fresh watcher is created, and all
            // sleepers check once more.
            Err(_) => {
                let watcher = lock().take();
                let sleepers = watcher.iter().flat_map(|watcher| watcher.sleepers.values().flatten());
                sleepers.for_each(|sleeper| sleeper.notify_one());
                return;
            }
        };
        let guard = lock();
        let Some(watcher) = &*guard else { return };
        for event in events {
            if event.mask.contains(EventMask::Q_OVERFLOW) {
                // Which files changed is lost, so all may have.
                watcher.sleepers.values().flatten().for_each(|sleeper| sleeper.notify_one());
            } else {
                watcher
                    .sleepers
                    .get(&event.wd)
                    .into_iter()
                    .flatten()
                    .for_each(|sleeper| sleeper.notify_one());
            }
        }
    }
}

fn lock() -> MutexGuard<'static, Option<Watcher>> {
    WATCHER.lock().unwrap_or_else(PoisonError::into_inner)
}
