//! The settings of the user's own agents: recorded before an agent starts, compared after it ended.
//!
//! A hook in `~/.claude/settings.json` would run in the user's next session: a way out with a delay. At the full level
//! what exists is read-only, so only new files matter; at the files level everything does. What an agent wrote is moved
//! away and kept, and the old content is restored.

mod live;
mod servers;

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use regatta_core::hex::hex;
use regatta_core::sandbox::{AgentState, Level, Protected};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use crate::lanes::remove_tree;
use live::Live;

/// The record in the attempt's run directory.
const RECORD: &str = "protected.json";
/// Copies of the old content, for the files level.
const COPIES: &str = "protected";
/// Where what an agent wrote is kept.
const KEPT: &str = "kept";
/// What was found after the agent ended.
const PLANTED: &str = "planted.json";
/// Largest file that is copied.
const MAX_COPY: u64 = 16 << 20;
/// The stamp of a directory, and the beginning of that of a link.
const DIR: &str = "dir";
const LINK: &str = "link ";

/// What protected files looked like before an agent started.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Survey {
    /// Whether what exists can be changed from inside.
    exposed: bool,
    /// The directories, each with its files by relative path.
    dirs: BTreeMap<PathBuf, BTreeMap<PathBuf, String>>,
    /// The MCP servers of settings files, by directory.
    #[serde(default)]
    servers: BTreeMap<PathBuf, Value>,
}

/// Records what protected files look like, in the attempt's run directory. At the files level, their content too.
/// `user` is the directory for the user's state, where the attempts that use the same files are listed.
pub(crate) fn survey(state: &AgentState, level: Level, run_dir: &Path, user: &Path) -> io::Result<()> {
    if state.protected.is_empty() {
        // Nothing will be compared.
        return Ok(());
    }
    let mut survey = Survey { exposed: level == Level::Files, ..Survey::default() };
    let mut lists = Vec::new();
    for (n, protected) in state.protected.iter().enumerate() {
        let live = Live::of(&protected.dir, user)?;
        let shared = live.oldest(run_dir).map(|other| taken_over(other, run_dir, protected, n, &mut survey));
        if !shared.transpose()?.unwrap_or(false) {
            look_at(protected, n, run_dir, &mut survey)?;
        }
        lists.push(live);
    }
    fs::write(run_dir.join(RECORD), serde_json::to_vec(&survey)?)?;
    lists.iter_mut().try_for_each(|live| live.add(run_dir))
}

/// Records what the files of one directory look like now.
fn look_at(protected: &Protected, n: usize, run_dir: &Path, survey: &mut Survey) -> io::Result<()> {
    let files = files_of(protected, survey.exposed)?;
    if survey.exposed {
        for path in files.keys() {
            let from = protected.dir.join(path);
            let meta = fs::symlink_metadata(&from)?;
            if meta.is_file() && meta.len() <= MAX_COPY {
                copy(&from, &copy_of(run_dir, n, path))?;
            }
        }
    }
    if let Some(file) = protected.servers {
        survey.servers.insert(protected.dir.clone(), servers::servers(&protected.dir.join(file))?);
    }
    survey.dirs.insert(protected.dir.clone(), files);
    Ok(())
}

/// Takes over what another attempt, which is under way, has recorded of one directory; false if it has nothing that
/// serves.
fn taken_over(
    other: &Path,
    run_dir: &Path,
    protected: &Protected,
    n: usize,
    survey: &mut Survey,
) -> io::Result<bool> {
    let recorded: Survey = match fs::read(other.join(RECORD)) {
        Ok(record) => serde_json::from_slice(&record)?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(error),
    };
    // Only a record of the same level has the same stamps.
    let Some(files) = recorded.dirs.get(&protected.dir).filter(|_| recorded.exposed == survey.exposed) else {
        return Ok(false);
    };
    for path in files.keys() {
        let from = copy_of(other, n, path);
        if from.is_file() {
            copy(&from, &copy_of(run_dir, n, path))?;
        }
    }
    survey.dirs.insert(protected.dir.clone(), files.clone());
    if let Some(servers) = recorded.servers.get(&protected.dir) {
        survey.servers.insert(protected.dir.clone(), servers.clone());
    }
    Ok(true)
}

/// Where the content of the `n`th directory's file is kept.
fn copy_of(run_dir: &Path, n: usize, path: &Path) -> PathBuf {
    run_dir.join(COPIES).join(n.to_string()).join(path)
}

fn copy(from: &Path, to: &Path) -> io::Result<()> {
    private_parent(to)?;
    fs::copy(from, to).map(drop)
}

/// What an agent wrote into protected files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Found {
    /// The paths.
    pub(crate) paths: Vec<PathBuf>,
    /// Whether some were found just now, and not by an engine that died afterwards.
    pub(crate) is_new: bool,
}

/// Compares protected files with the record, moves away what an agent wrote, and restores what was there. What was
/// found is recorded too, so that a second look after a crash has the same result.
pub(crate) fn compare(state: &AgentState, run_dir: &Path) -> io::Result<Found> {
    let file = run_dir.join(PLANTED);
    let mut paths: Vec<PathBuf> = match fs::read(&file) {
        Ok(text) => serde_json::from_slice(&text).unwrap_or_default(),
        Err(_) => Vec::new(),
    };
    let changed = changed(state, run_dir)?;
    let is_new = !changed.is_empty();
    if is_new {
        paths.extend(changed);
        fs::write(&file, serde_json::to_vec(&paths)?)?;
    }
    if run_dir.join(RECORD).exists() {
        live::is_compared(run_dir)?;
    }
    Ok(Found { paths, is_new })
}

/// Undoes and returns what differs from the record. Without a record there was no sandbox.
fn changed(state: &AgentState, run_dir: &Path) -> io::Result<Vec<PathBuf>> {
    let record = match fs::read(run_dir.join(RECORD)) {
        Ok(record) => record,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let before: Survey = serde_json::from_slice(&record)?;
    let mut changed = Vec::new();
    for (n, protected) in state.protected.iter().enumerate() {
        let Some(old) = before.dirs.get(&protected.dir) else { continue };
        let kept = run_dir.join(KEPT).join(n.to_string());
        if let (Some(file), Some(servers)) = (protected.servers, before.servers.get(&protected.dir)) {
            let path = protected.dir.join(file);
            if servers::restore(&path, servers, &kept.join(file))? {
                changed.push(path);
            }
        }
        for path in added(protected, old)? {
            keep(&protected.dir.join(&path), &kept.join(&path))?;
            changed.push(protected.dir.join(path));
        }
        // A directory comes before what was in it.
        for (path, stamp) in old {
            let target = stamp.strip_prefix(LINK);
            // At the full level all but a link is read-only: a mount covers what the link leads to, not the link.
            if !before.exposed && target.is_none() {
                continue;
            }
            let place = protected.dir.join(path);
            let now = stamp_of(&place, before.exposed)?;
            if now.as_ref() == Some(stamp) {
                continue;
            }
            if now.is_some() {
                keep(&place, &kept.join(path))?;
            }
            private_parent(&place)?;
            let copy = copy_of(run_dir, n, path);
            match target {
                Some(target) => std::os::unix::fs::symlink(target, &place)?,
                None if stamp == DIR => fs::DirBuilder::new().mode(0o700).create(&place)?,
                None if copy.is_file() => drop(fs::copy(&copy, &place)?),
                None => {}
            }
            changed.push(place);
        }
    }
    Ok(changed)
}

/// What is there and was not: the topmost paths, in which everything is new.
fn added(protected: &Protected, old: &BTreeMap<PathBuf, String>) -> io::Result<Vec<PathBuf>> {
    let mut added = Vec::new();
    let mut waiting = covered(protected)?;
    while let Some(path) = waiting.pop() {
        if is_free(protected, &path) {
            continue;
        }
        let is_dir = match fs::symlink_metadata(protected.dir.join(&path)) {
            Ok(meta) => meta.is_dir(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(error),
        };
        let was = old.get(&path);
        let goes_in = was.is_some_and(|was| was == DIR)
            || protected.except.iter().any(|free| Path::new(free).starts_with(&path));
        if is_dir && goes_in {
            waiting.extend(entries(&protected.dir, &path)?);
        } else if was.is_none() && !(is_dir && is_empty(&protected.dir.join(&path))) {
            added.push(path);
        }
    }
    added.sort();
    Ok(added)
}

/// Whether a directory has nothing but directories in it: agents make some at their start. One that cannot be read is
/// not empty.
fn is_empty(dir: &Path) -> bool {
    let mut waiting = vec![dir.to_owned()];
    while let Some(dir) = waiting.pop() {
        let Ok(entries) = fs::read_dir(&dir) else { return false };
        for entry in entries {
            match entry.and_then(|entry| Ok((entry.file_type()?, entry.path()))) {
                Ok((kind, path)) if kind.is_dir() => waiting.push(path),
                _ => return false,
            }
        }
    }
    true
}

/// Moves a file or directory away, across disks if necessary.
fn keep(from: &Path, to: &Path) -> io::Result<()> {
    private_parent(to)?;
    // What an earlier look moved away stays.
    let name = to.as_os_str();
    let numbered = (1..).map(|n: u32| {
        let mut numbered = name.to_owned();
        numbered.push(format!("~{n}"));
        PathBuf::from(numbered)
    });
    let to = std::iter::once(to.to_owned()).chain(numbered).find(|to| fs::symlink_metadata(to).is_err());
    let to = to.ok_or(io::ErrorKind::AlreadyExists)?;
    let is_dir = fs::symlink_metadata(from)?.is_dir();
    if is_dir {
        // To move a directory one has to be able to write to it.
        let _ = fs::set_permissions(from, fs::Permissions::from_mode(0o700));
    }
    match fs::rename(from, &to) {
        Err(error) if error.kind() == io::ErrorKind::CrossesDevices => {
            // It has to go, whether or not it can be kept.
            let _ = copy_tree(from, &to);
            if is_dir { remove_tree(from) } else { fs::remove_file(from) }
        }
        moved => moved,
    }
}

/// Copies plain files and directories.
fn copy_tree(from: &Path, to: &Path) -> io::Result<()> {
    let mut waiting = vec![(from.to_owned(), to.to_owned())];
    while let Some((from, to)) = waiting.pop() {
        let meta = fs::symlink_metadata(&from)?;
        if meta.is_file() {
            fs::copy(&from, &to)?;
        } else if meta.is_dir() {
            fs::DirBuilder::new().mode(0o700).create(&to)?;
            for entry in fs::read_dir(&from)? {
                let name = entry?.file_name();
                waiting.push((from.join(&name), to.join(&name)));
            }
        }
    }
    Ok(())
}

fn private_parent(path: &Path) -> io::Result<()> {
    match path.parent() {
        Some(parent) => fs::DirBuilder::new().recursive(true).mode(0o700).create(parent),
        None => Ok(()),
    }
}

/// All files and directories at and below the protected entries of a directory, each with what identifies its content.
fn files_of(protected: &Protected, exposed: bool) -> io::Result<BTreeMap<PathBuf, String>> {
    let mut found = BTreeMap::new();
    let mut waiting = covered(protected)?;
    while let Some(path) = waiting.pop() {
        if is_free(protected, &path) {
            continue;
        }
        let Some(stamp) = stamp_of(&protected.dir.join(&path), exposed)? else { continue };
        if stamp == DIR {
            waiting.extend(entries(&protected.dir, &path)?);
        }
        found.insert(path, stamp);
    }
    Ok(found)
}

/// The protected entries of a directory.
fn covered(protected: &Protected) -> io::Result<Vec<PathBuf>> {
    let mut names = match entries(&protected.dir, Path::new("")) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
        names => names?,
    };
    names.retain(|name| {
        let is_linked = protected.excepts(name) && !is_free(protected, name);
        is_linked || protected.covers(&name.to_string_lossy())
    });
    Ok(names)
}

/// Whether the agent may change this path although it is below a protected entry. A link in its place leads elsewhere.
fn is_free(protected: &Protected, path: &Path) -> bool {
    protected.excepts(path)
        && !fs::symlink_metadata(protected.dir.join(path)).is_ok_and(|meta| meta.is_symlink())
}

/// The entries of `root/path`, as paths below `root`. An agent may have closed its directory to everybody.
fn entries(root: &Path, path: &Path) -> io::Result<Vec<PathBuf>> {
    let dir = root.join(path);
    let listed = match fs::read_dir(&dir) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            fs::set_permissions(&dir, fs::Permissions::from_mode(0o700))?;
            fs::read_dir(&dir)?
        }
        listed => listed?,
    };
    listed.map(|entry| Ok(path.join(entry?.file_name()))).collect()
}

/// What identifies the content of a file or directory, if there is one.
fn stamp_of(place: &Path, exposed: bool) -> io::Result<Option<String>> {
    let meta = match fs::symlink_metadata(place) {
        Ok(meta) => meta,
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            return Ok(None);
        }
        Err(error) => return Err(error),
    };
    if meta.is_dir() {
        return Ok(Some(DIR.into()));
    }
    if meta.is_symlink() {
        return Ok(Some(format!("{LINK}{}", fs::read_link(place)?.display())));
    }
    if exposed
        && meta.is_file()
        && meta.len() <= MAX_COPY
        && let Ok(content) = fs::read(place)
    {
        let digest = Sha256::digest(content);
        return Ok(Some(hex(&digest)));
    }
    Ok(Some(format!("{} {} {}", meta.ino(), meta.size(), meta.ctime_nsec())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use regatta_core::config::AgentKind;
    use regatta_core::sandbox::state_of;

    fn setting() -> (tempfile::TempDir, AgentState, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let state = state_of(AgentKind::Claude, dir.path(), &|_| None);
        let claude = dir.path().join(".claude");
        fs::create_dir_all(claude.join("hooks")).unwrap();
        fs::write(claude.join("settings.json"), "{}").unwrap();
        fs::write(claude.join("hooks/a.sh"), "old").unwrap();
        let run_dir = dir.path().join("run");
        fs::create_dir(&run_dir).unwrap();
        (dir, state, run_dir)
    }

    #[test]
    fn what_an_agent_plants_is_moved_away() {
        let (dir, state, run_dir) = setting();
        let claude = dir.path().join(".claude");
        survey(&state, Level::Full, &run_dir, dir.path()).unwrap();
        assert_eq!(compare(&state, &run_dir).unwrap(), Found::default());
        fs::write(claude.join("settings.local.json"), "evil").unwrap();
        fs::create_dir(claude.join("commands")).unwrap();
        fs::write(claude.join("commands/x.md"), "evil").unwrap();
        fs::create_dir_all(claude.join("plugins/empty")).unwrap();
        fs::create_dir(claude.join("projects")).unwrap();
        fs::write(claude.join("projects/y.jsonl"), "fine").unwrap();
        let changed = compare(&state, &run_dir).unwrap().paths;
        assert_eq!(changed, [claude.join("commands"), claude.join("settings.local.json")]);
        assert!(!claude.join("settings.local.json").exists() && claude.join("projects/y.jsonl").exists());
        assert_eq!(fs::read_to_string(run_dir.join("kept/0/settings.local.json")).unwrap(), "evil");
        assert_eq!(fs::read_to_string(claude.join("settings.json")).unwrap(), "{}");
        let again = compare(&state, &run_dir).unwrap();
        assert!(again.paths.len() == 2 && !again.is_new, "a second look has the same result: {again:?}");
    }

    #[test]
    fn what_one_agent_plants_is_not_taken_for_the_user_s_by_the_next() {
        let (dir, state, first) = setting();
        let claude = dir.path().join(".claude");
        let second = dir.path().join("second");
        fs::create_dir(&second).unwrap();
        for level in [Level::Full, Level::Files] {
            let planted = claude.join("commands/x.md");
            survey(&state, level, &first, dir.path()).unwrap();
            fs::create_dir(claude.join("commands")).unwrap();
            fs::write(&planted, "evil").unwrap();
            fs::write(claude.join(".claude.json"), r#"{"mcpServers":{"evil":{}}}"#).unwrap();
            survey(&state, level, &second, dir.path()).unwrap();
            let found = compare(&state, &second).unwrap().paths;
            assert_eq!(found, [claude.join(".claude.json"), claude.join("commands")]);
            assert!(!planted.exists());
            assert!(compare(&state, &first).unwrap().paths.is_empty(), "nothing is left");
            // With nobody at work, what is there is the user's.
            fs::create_dir(claude.join("commands")).unwrap();
            fs::write(&planted, "mine").unwrap();
            for run_dir in [&first, &second] {
                fs::remove_dir_all(run_dir).unwrap();
                fs::create_dir(run_dir).unwrap();
            }
            survey(&state, level, &first, dir.path()).unwrap();
            assert!(compare(&state, &first).unwrap().paths.is_empty() && planted.exists());
            fs::remove_dir_all(claude.join("commands")).unwrap();
            fs::remove_dir_all(&first).unwrap();
            fs::create_dir(&first).unwrap();
        }
    }

    #[test]
    fn a_link_in_the_place_of_what_an_agent_may_write_goes_unless_it_is_the_user_s() {
        let dir = tempfile::tempdir().unwrap();
        let state = state_of(AgentKind::Opencode, dir.path(), &|_| None);
        let config = dir.path().join(".config/opencode");
        fs::create_dir_all(&config).unwrap();
        let link = |name: &str| std::os::unix::fs::symlink("/etc", config.join(name)).unwrap();
        link("node_modules");
        for (level, name) in [(Level::Full, "full"), (Level::Files, "files")] {
            let run_dir = dir.path().join(name);
            fs::create_dir(&run_dir).unwrap();
            survey(&state, level, &run_dir, dir.path()).unwrap();
            link("package.json");
            fs::write(config.join("bun.lock"), "own").unwrap();
            let found = compare(&state, &run_dir).unwrap().paths;
            assert_eq!(found, [config.join("package.json")]);
            assert!(config.join("node_modules").is_symlink() && config.join("bun.lock").exists());
        }
        let claude = state_of(AgentKind::Claude, dir.path(), &|_| None);
        let run_dir = dir.path().join("claude");
        fs::create_dir_all(dir.path().join(".claude")).unwrap();
        fs::create_dir(&run_dir).unwrap();
        survey(&claude, Level::Full, &run_dir, dir.path()).unwrap();
        let plugins = dir.path().join(".claude/plugins");
        fs::create_dir(&plugins).unwrap();
        std::os::unix::fs::symlink("/etc", plugins.join("store")).unwrap();
        assert_eq!(compare(&claude, &run_dir).unwrap().paths, [plugins.join("store")]);
    }

    #[test]
    fn what_an_agent_changes_is_restored() {
        let (dir, state, run_dir) = setting();
        let claude = dir.path().join(".claude");
        survey(&state, Level::Files, &run_dir, dir.path()).unwrap();
        fs::write(claude.join("settings.json"), "evil").unwrap();
        fs::remove_file(claude.join("hooks/a.sh")).unwrap();
        let mut changed = compare(&state, &run_dir).unwrap().paths;
        changed.sort();
        assert_eq!(changed, [claude.join("hooks/a.sh"), claude.join("settings.json")]);
        assert_eq!(fs::read_to_string(claude.join("settings.json")).unwrap(), "{}");
        assert_eq!(fs::read_to_string(claude.join("hooks/a.sh")).unwrap(), "old");
        assert_eq!(fs::read_to_string(run_dir.join("kept/0/settings.json")).unwrap(), "evil");
        assert_eq!(super::changed(&state, &run_dir).unwrap(), Vec::<PathBuf>::new(), "once");
    }

    #[test]
    fn whatever_an_agent_puts_in_the_place_of_its_settings_goes() {
        let (dir, state, run_dir) = setting();
        let claude = dir.path().join(".claude");
        survey(&state, Level::Files, &run_dir, dir.path()).unwrap();
        fs::remove_file(claude.join("settings.json")).unwrap();
        fs::create_dir_all(claude.join("settings.json/deep")).unwrap();
        fs::rename(claude.join("hooks"), claude.join("gone")).unwrap();
        std::os::unix::fs::symlink("/tmp", claude.join("hooks")).unwrap();
        fs::create_dir_all(claude.join("commands/a/b")).unwrap();
        fs::write(claude.join("commands/a/b/c.md"), "evil").unwrap();
        fs::set_permissions(claude.join("commands"), fs::Permissions::from_mode(0o000)).unwrap();
        let mut changed = compare(&state, &run_dir).unwrap().paths;
        changed.sort();
        let expected = ["commands", "hooks", "hooks/a.sh", "settings.json"].map(|name| claude.join(name));
        assert_eq!(changed, expected);
        assert!(!claude.join("commands").exists());
        assert!(fs::symlink_metadata(claude.join("hooks")).unwrap().is_dir());
        assert_eq!(fs::read_to_string(claude.join("hooks/a.sh")).unwrap(), "old");
        assert_eq!(fs::read_to_string(claude.join("settings.json")).unwrap(), "{}");
    }

    #[test]
    fn a_link_to_settings_cannot_be_replaced() {
        let (dir, state, run_dir) = setting();
        let claude = dir.path().join(".claude");
        fs::rename(claude.join("settings.json"), dir.path().join("mine.json")).unwrap();
        let link = |to: &str| {
            let _ = fs::remove_file(claude.join("settings.json"));
            std::os::unix::fs::symlink(to, claude.join("settings.json")).unwrap();
        };
        link("../mine.json");
        survey(&state, Level::Full, &run_dir, dir.path()).unwrap();
        fs::write(dir.path().join("mine.json"), "by the user").unwrap();
        assert_eq!(compare(&state, &run_dir).unwrap(), Found::default());
        link("projects/evil.json");
        assert_eq!(compare(&state, &run_dir).unwrap().paths, [claude.join("settings.json")]);
        assert_eq!(fs::read_to_string(claude.join("settings.json")).unwrap(), "by the user");
        fs::remove_file(claude.join("settings.json")).unwrap();
        fs::write(claude.join("settings.json"), "evil").unwrap();
        assert_eq!(super::changed(&state, &run_dir).unwrap(), [claude.join("settings.json")]);
        assert_eq!(fs::read_to_string(claude.join("settings.json")).unwrap(), "by the user");
    }

    #[test]
    fn without_a_record_nothing_is_compared() {
        let (_dir, state, run_dir) = setting();
        assert_eq!(compare(&state, &run_dir).unwrap(), Found::default());
    }
}
