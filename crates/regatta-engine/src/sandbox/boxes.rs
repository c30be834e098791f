//! Boxes: one private directory per attempt or command, on the lanes' disk, gone at the end.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use regatta_core::id::TaskId;
use regatta_core::sandbox::BoxDirs;
use rustix::fs::{AtFlags, CWD, Mode, OFlags, mkdirat, openat, symlinkat, unlinkat};
use rustix::io::Errno;

use crate::git::FileLock;
use crate::lanes::remove_tree;

/// The directory of all boxes, below the lanes.
const BOXES: &str = ".box";
/// The boxes of commands. No task has this name.
const COMMANDS: &str = ".commands";
/// Cargo's directory in the project's cache.
const CARGO: &str = "cargo";

/// Makes the box of an attempt. What a crashed start left in it is removed first.
pub(crate) fn agent_box(lanes_root: &Path, task: &TaskId, attempt: u32) -> io::Result<BoxDirs> {
    let root = lanes_root.join(BOXES).join(task.as_str()).join(attempt.to_string());
    remove_box(&root)?;
    let dirs = make(&root)?;
    private_dir(&dirs.door())?;
    Ok(dirs)
}

/// The box of an attempt, without making it.
pub(crate) fn agent_box_path(lanes_root: &Path, task: &TaskId, attempt: u32) -> PathBuf {
    lanes_root.join(BOXES).join(task.as_str()).join(attempt.to_string())
}

/// Where the box of a task's next attempt would be, for people.
pub(super) fn example(lanes_root: &Path, task: &str) -> PathBuf {
    lanes_root.join(BOXES).join(task).join("N")
}

/// The box of a command, removed when the command has ended. A lock shows that its engine lives.
pub(crate) struct CommandBox {
    pub(crate) dirs: BoxDirs,
    lock: PathBuf,
    _held: FileLock,
}

impl CommandBox {
    /// The next free one.
    pub(crate) fn make(lanes_root: &Path) -> io::Result<Self> {
        let dir = lanes_root.join(BOXES).join(COMMANDS);
        let mut tries = 0;
        for n in 1u32.. {
            let lock = dir.join(format!("{n}.lock"));
            private_dir(&dir)?;
            let held = match FileLock::if_free(&lock) {
                Ok(Some(held)) if held.is_at(&lock) => held,
                Ok(_) => continue,
                // The last command removed the directory in between, and another may have made it again.
                Err(_) if !lock.exists() && tries < 100 => {
                    tries += 1;
                    continue;
                }
                Err(error) => return Err(io::Error::other(error)),
            };
            let root = dir.join(n.to_string());
            remove_box(&root)?;
            return Ok(Self { dirs: make(&root)?, lock, _held: held });
        }
        unreachable!("there are more numbers than commands")
    }
}

impl Drop for CommandBox {
    fn drop(&mut self) {
        // What is left is removed when an engine starts.
        let _ = remove_box(&self.dirs.root);
        let _ = fs::remove_file(&self.lock);
        remove_if_empty(self.lock.parent());
    }
}

/// What every box has. The rest is made where it is needed: each directory costs an attempt time.
fn make(root: &Path) -> io::Result<BoxDirs> {
    let dirs = BoxDirs { root: root.to_owned() };
    private_dir(root)?;
    private_dir(&dirs.tmp())?;
    Ok(dirs)
}

/// Makes a directory. Another process may remove an empty parent in between: then it is made again.
pub(crate) fn private_dir(dir: &Path) -> io::Result<()> {
    let mut tries = 0;
    loop {
        match DirBuilder::new().recursive(true).mode(0o700).create(dir) {
            Err(error) if error.kind() == io::ErrorKind::NotFound && tries < 100 => tries += 1,
            made => return made,
        }
    }
}

/// Removes the directory of boxes of one owner, and that of all boxes, if nothing is in them.
fn remove_if_empty(owner: Option<&Path>) {
    for dir in owner.into_iter().flat_map(|owner| [Some(owner), owner.parent()]).flatten() {
        if fs::remove_dir(dir).is_err() {
            break;
        }
    }
}

/// Removes a box, whatever the agent left in it.
pub(crate) fn remove_box(root: &Path) -> io::Result<()> {
    match remove_tree(root) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        removed => removed?,
    }
    remove_if_empty(root.parent());
    Ok(())
}

/// The tasks that have boxes.
pub(crate) fn boxed_tasks(lanes_root: &Path) -> Vec<TaskId> {
    let names = entries(&lanes_root.join(BOXES)).into_iter();
    names.filter_map(|path| TaskId::parse(path.file_name()?.to_str()?).ok()).collect()
}

/// Removes all boxes of a task that no engine works on.
pub(crate) fn remove_boxes_of(lanes_root: &Path, task: &TaskId) {
    for attempt in entries(&lanes_root.join(BOXES).join(task.as_str())) {
        // What cannot be removed now is removed when the next engine starts.
        let _ = remove_box(&attempt);
    }
    remove_if_empty(Some(&lanes_root.join(BOXES).join(task.as_str())));
}

/// Removes the boxes of commands whose engine has ended.
pub(crate) fn remove_dead_commands(lanes_root: &Path) {
    let dir = lanes_root.join(BOXES).join(COMMANDS);
    for lock in entries(&dir).into_iter().filter(|path| path.extension().is_some_and(|end| end == "lock")) {
        if let Ok(Some(_held)) = FileLock::if_free_at(&lock) {
            let _ = remove_box(&lock.with_extension(""));
            let _ = fs::remove_file(&lock);
        }
    }
    remove_if_empty(Some(&dir));
}

fn entries(dir: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).collect()
}

/// Makes the project's cache. Cargo finds the user's own settings in it, not their token.
///
/// Agents write to the cache, so what is in cargo's place may be anything. A link or a file there is removed: otherwise
/// one agent would keep all others from starting, or lead this elsewhere.
pub(super) fn make_cache(lanes_root: &Path, home: &Path) -> io::Result<()> {
    let cache = lanes_root.join(".cache");
    if fs::symlink_metadata(cache.join(CARGO)).is_ok_and(|found| found.is_dir()) {
        return Ok(());
    }
    private_dir(&cache)?;
    let dir = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let cache = openat(CWD, &cache, dir, Mode::empty())?;
    let mut tries = 0;
    let cargo = loop {
        match mkdirat(&cache, CARGO, Mode::RWXU) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(error) => return Err(error.into()),
        }
        match openat(&cache, CARGO, dir, Mode::empty()) {
            Ok(cargo) => break cargo,
            Err(Errno::NOTDIR | Errno::LOOP) if tries < 100 => {
                let _ = unlinkat(&cache, CARGO, AtFlags::empty());
                tries += 1;
            }
            // An agent that keeps replacing it has a cache without the user's settings.
            Err(_) => return Ok(()),
        }
    };
    let settings = home.join(".cargo").join("config.toml");
    if settings.is_file() {
        match symlinkat(&settings, &cargo, "config.toml") {
            Ok(()) | Err(Errno::EXIST | Errno::NOENT) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_box_is_private_and_leaves_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let task = TaskId::parse("a").unwrap();
        let made = agent_box(dir.path(), &task, 1).unwrap();
        assert!(made.tmp().is_dir() && made.door().is_dir());
        let locked = made.tmp().join("cache");
        fs::create_dir(&locked).unwrap();
        fs::write(locked.join("x"), "x").unwrap();
        fs::set_permissions(&locked, std::os::unix::fs::PermissionsExt::from_mode(0o500)).unwrap();
        let command = CommandBox::make(dir.path()).unwrap();
        let other = CommandBox::make(dir.path()).unwrap();
        assert_ne!(command.dirs.root, other.dirs.root);
        remove_dead_commands(dir.path());
        assert!(made.root.is_dir() && command.dirs.root.is_dir(), "its engine lives");
        remove_boxes_of(dir.path(), &task);
        assert!(!made.root.exists() && command.dirs.root.is_dir());
        let root = command.dirs.root.clone();
        drop(command);
        assert!(!root.exists());
    }

    #[test]
    fn what_a_killed_engine_left_is_removed() {
        let dir = tempfile::tempdir().unwrap();
        let left = dir.path().join(".box/.commands/7");
        fs::create_dir_all(left.join("tmp")).unwrap();
        fs::write(left.with_extension("lock"), "").unwrap();
        remove_dead_commands(dir.path());
        assert!(!left.exists() && !left.with_extension("lock").exists());
    }

    #[test]
    fn whatever_an_agent_puts_in_the_place_of_a_cache_keeps_nobody_out_and_leads_nowhere() {
        let dir = tempfile::tempdir().unwrap();
        let (home, elsewhere) = (dir.path().join("home"), dir.path().join("elsewhere"));
        fs::create_dir_all(home.join(".cargo")).unwrap();
        fs::create_dir(&elsewhere).unwrap();
        fs::write(home.join(".cargo/config.toml"), "[net]\n").unwrap();
        let lanes = dir.path().join("lanes");
        let cargo = lanes.join(".cache/cargo");
        make_cache(&lanes, &home).unwrap();
        assert_eq!(fs::read_link(cargo.join("config.toml")).unwrap(), home.join(".cargo/config.toml"));
        let plant: [&dyn Fn(); 3] = [
            &|| std::os::unix::fs::symlink(elsewhere.join("missing"), &cargo).unwrap(),
            &|| std::os::unix::fs::symlink(&elsewhere, &cargo).unwrap(),
            &|| fs::write(&cargo, "x").unwrap(),
        ];
        for plant in plant {
            remove_tree(&cargo).unwrap();
            plant();
            make_cache(&lanes, &home).unwrap();
            assert!(fs::symlink_metadata(&cargo).unwrap().is_dir());
        }
        assert_eq!(fs::read_dir(&elsewhere).unwrap().count(), 0);
    }
}
