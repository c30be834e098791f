//! Submodules in a lane, without a network and without the shared configuration.
//!
//! Invariant: neither creating nor judging nor removing a lane runs a command under a submodule's own configuration
//! (agents can write it), and commits made in a submodule outlive the lane.
//!
//! A submodule's git directory in a lane borrows the objects of the main checkout's (`.git/modules/<name>`), so filling
//! it is one checkout. Only if the main checkout never had it is it fetched from its url.

use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Component, Path, PathBuf};

use regatta_core::time::Timestamp;

use super::lane_head::{Move, log_move};
use super::own::clear;
use super::{Lane, Lanes};
use crate::git::{
    CommandPlace, Expect, GitError, Identity, Oid, RefEdit, RefOutcome, Transfer, git_dir_of, io,
    read_head_in, replace_file,
};

/// A submodule as named by one superproject.
#[derive(Clone, Debug)]
struct Submodule {
    name: String,
    url: String,
    /// Below the lane's root.
    path: PathBuf,
    /// The commit that the superproject's index names.
    wanted: Oid,
    /// Its git directory in this lane.
    git_dir: PathBuf,
    /// Its git directory in the main checkout, existing or not.
    source: PathBuf,
}

impl Submodule {
    fn worktree(&self, lane: &Lane) -> PathBuf {
        lane.path.join(&self.path)
    }

    /// Whether it was filled, by us or by the agent, at the place where git would put it.
    fn is_filled(&self, lane: &Lane) -> bool {
        matches!(git_dir_of(&self.worktree(lane)), Ok(Some(dir)) if dir == self.git_dir)
            && self.git_dir.is_dir()
    }
}

impl Lanes {
    /// Fills every submodule in the lane's index. Failures are warnings: most tasks need none of them.
    pub(super) fn populate_submodules(&self, lane: &Lane) -> Result<Vec<String>, GitError> {
        let mut warnings = Vec::new();
        let mut open = self.submodules_of(lane, None)?;
        while let Some(submodule) = open.pop() {
            match self.populate(lane, &submodule) {
                Ok(None) => open.extend(self.submodules_of(lane, Some(&submodule))?),
                Ok(Some(warning)) => warnings.push(warning),
                Err(error) => warnings.push(format!("submodule {}: {error}", submodule.path.display())),
            }
        }
        Ok(warnings)
    }

    /// The first submodule with uncommitted work.
    pub(super) fn dirty_submodule(&self, lane: &Lane) -> Result<Option<PathBuf>, GitError> {
        for submodule in self.filled_submodules(lane)? {
            if self.is_dirty_inside(lane, &submodule)? {
                return Ok(Some(submodule.path));
            }
        }
        Ok(None)
    }

    /// Copies commits that exist only in the lane's submodules to a place that outlives it.
    pub(super) fn keep_submodule_work(&self, lane: &Lane) -> Result<(), GitError> {
        for submodule in self.filled_submodules(lane)? {
            let Some(head) = read_head_in(&submodule.git_dir)? else { continue };
            // The main checkout's own directory if there is one, else the superproject's.
            let home = if submodule.source.is_dir() { &submodule.source } else { &self.repo.common_dir };
            let objects = home.join("objects");
            if self.has_commit(&objects, &head)? {
                continue;
            }
            let own = submodule.git_dir.join("objects");
            let known = [&submodule.wanted];
            let known = if self.has_commit(&objects, &submodule.wanted)? { &known[..] } else { &[] };
            let transfer = Transfer { from: &own, to: &objects, behind: &[], wanted: &[&head], known };
            match self.work.transfer(&transfer) {
                // Not what its id says, or incomplete: nothing that could be kept.
                Err(GitError::Damaged { .. }) => continue,
                taken => taken?,
            };
            let name = format!("refs/regatta/submodule/{}/{}", lane.task, head.short());
            let edit = RefEdit { name, new: Some(head), old: Expect::Absent };
            // The name contains the id: an existing ref is the same one.
            let (RefOutcome::Done | RefOutcome::Moved { .. }) =
                self.repo.update_refs_in(home, &[edit], "regatta: kept")?;
        }
        Ok(())
    }

    fn filled_submodules(&self, lane: &Lane) -> Result<Vec<Submodule>, GitError> {
        let mut found = Vec::new();
        if !lane.git_dir.join("modules").is_dir() {
            return Ok(found);
        }
        let mut open = self.submodules_of(lane, None)?;
        while let Some(submodule) = open.pop() {
            if submodule.is_filled(lane) {
                open.extend(self.submodules_of(lane, Some(&submodule))?);
                found.push(submodule);
            }
        }
        Ok(found)
    }

    fn is_dirty_inside(&self, lane: &Lane, submodule: &Submodule) -> Result<bool, GitError> {
        let Some(head) = read_head_in(&submodule.git_dir)? else { return Ok(true) };
        let (worktree, index, objects) = places(lane, submodule);
        let place = CommandPlace { worktree: &worktree, index: &index, objects: &objects, head: Some(&head) };
        Ok(!self.work.status_at(&place)?.is_clean())
    }

    /// Submodules of the lane itself, or of one of its submodules.
    fn submodules_of(&self, lane: &Lane, above: Option<&Submodule>) -> Result<Vec<Submodule>, GitError> {
        let (worktree, index, objects) = match above {
            None => (lane.path.clone(), lane.git_dir.join("index"), self.work.objects_dir()),
            Some(above) => places(lane, above),
        };
        let modules = worktree.join(".gitmodules");
        if !modules.symlink_metadata().is_ok_and(|meta| meta.is_file()) {
            return Ok(Vec::new());
        }
        let place = CommandPlace { worktree: &worktree, index: &index, objects: &objects, head: None };
        let listed = self.work.at_place(&place)?.args(["ls-files", "-s", "-z"]).bytes()?;
        let links =
            listed.split(|b| *b == 0).filter(|line| line.starts_with(b"160000 ")).filter_map(|line| {
                let (entry, path) = line.split_at(line.iter().position(|b| *b == b'\t')?);
                let wanted = Oid::parse(std::str::from_utf8(entry).ok()?.split(' ').nth(1)?).ok()?;
                Some((PathBuf::from(std::ffi::OsStr::from_bytes(&path[1..])), wanted))
            });
        let named = self.load_gitmodules(&modules)?;
        let (prefix, git_dir, source) = match above {
            None => (PathBuf::new(), lane.git_dir.clone(), self.repo.common_dir.clone()),
            Some(above) => (above.path.clone(), above.git_dir.clone(), above.source.clone()),
        };
        let mut found = Vec::new();
        for (path, wanted) in links {
            let Some((name, _, url)) = named.iter().find(|(_, its_path, _)| *its_path == path) else {
                continue;
            };
            let (name, url) = (name.clone(), url.clone());
            let git_dir = git_dir.join("modules").join(&name);
            let source = source.join("modules").join(&name);
            found.push(Submodule { name, url, path: prefix.join(path), wanted, git_dir, source });
        }
        Ok(found)
    }

    /// Name, path and url of each section; those that would leave their place are skipped.
    fn load_gitmodules(&self, file: &Path) -> Result<Vec<(String, PathBuf, String)>, GitError> {
        let ran = self.work.bare().args(["config", "-z", "--no-includes", "--list", "-f"]).arg(file).run()?;
        let text = String::from_utf8_lossy(&ran.stdout).into_owned();
        let mut found: Vec<(String, PathBuf, String)> = Vec::new();
        for (key, value) in text.split('\0').filter_map(|entry| entry.split_once('\n')) {
            let Some((name, variable)) =
                key.strip_prefix("submodule.").and_then(|rest| rest.rsplit_once('.'))
            else {
                continue;
            };
            let at = found.iter().position(|(its_name, ..)| its_name == name).unwrap_or_else(|| {
                found.push((name.to_owned(), PathBuf::new(), String::new()));
                found.len() - 1
            });
            match variable {
                "path" => found[at].1 = value.into(),
                "url" => found[at].2 = value.to_owned(),
                _ => {}
            }
        }
        found.retain(|(name, path, _)| stays_inside(Path::new(name)) && stays_inside(path));
        Ok(found)
    }

    fn populate(&self, lane: &Lane, submodule: &Submodule) -> Result<Option<String>, GitError> {
        let (worktree, index, objects) = places(lane, submodule);
        let shown = submodule.path.display();
        if !is_real_dir(&lane.path, &submodule.path) {
            return Ok(Some(format!("submodule {shown}: its directory is not one")));
        }
        if submodule.is_filled(lane) {
            return self.refill(lane, submodule);
        }
        let occupied = fs::read_dir(&worktree).is_ok_and(|mut entries| entries.next().is_some());
        if occupied {
            return Ok(Some(format!("submodule {shown}: something is already there")));
        }
        self.make_git_dir(submodule, &worktree)?;
        if !self.has_commit(&objects, &submodule.wanted)?
            && let Err(error) = self.fetch(submodule, &objects)
        {
            fs::remove_dir_all(&submodule.git_dir).ok();
            let hint = "run `git submodule update --init` in the main checkout";
            return Ok(Some(format!("submodule {shown} stays empty, {hint}: {error}")));
        }
        let dot_git = worktree.join(".git");
        fs::write(&dot_git, super::register::dot_git_content(&submodule.git_dir))
            .map_err(io("write", &dot_git))?;
        let place = CommandPlace { worktree: &worktree, index: &index, objects: &objects, head: None };
        self.work.at_place(&place)?.args(["read-tree", "-m", "-u"]).arg(&submodule.wanted).bytes()?;
        Ok(None)
    }

    /// Moves a filled, clean submodule to the commit that the superproject now names.
    fn refill(&self, lane: &Lane, submodule: &Submodule) -> Result<Option<String>, GitError> {
        let head = read_head_in(&submodule.git_dir)?;
        if head.as_ref() == Some(&submodule.wanted) {
            return Ok(None);
        }
        let Some(head) = head.filter(|_| !self.is_dirty_inside(lane, submodule).unwrap_or(true)) else {
            return Ok(Some(format!(
                "submodule {} has uncommitted work and stays as it is",
                submodule.path.display()
            )));
        };
        let (worktree, index, objects) = places(lane, submodule);
        let place = CommandPlace { worktree: &worktree, index: &index, objects: &objects, head: None };
        let two_way = self.work.at_place(&place)?.args(["read-tree", "-m", "-u"]);
        two_way.arg(&head).arg(&submodule.wanted).bytes()?;
        let (who, at) = (Identity::fallback(), Timestamp::from_millis(0));
        let step = Move { from: &head, to: &submodule.wanted, who: &who, at, why: "fresh start" };
        replace_file(&submodule.git_dir.join("HEAD"), format!("{}\n", submodule.wanted).as_bytes())?;
        log_move(&submodule.git_dir, &step).map_err(io("write the reflog in", &submodule.git_dir))?;
        Ok(None)
    }

    /// A separate git directory for the lane, which borrows the main checkout's objects.
    fn make_git_dir(&self, submodule: &Submodule, worktree: &Path) -> Result<(), GitError> {
        let dir = &submodule.git_dir;
        for part in ["objects/info", "objects/pack", "refs/heads", "refs/tags", "info"] {
            let part = dir.join(part);
            fs::create_dir_all(&part).map_err(io("create", &part))?;
        }
        let source_objects = submodule.source.join("objects");
        if source_objects.is_dir() {
            let mut line = source_objects.as_os_str().as_bytes().to_vec();
            line.push(b'\n');
            let alternates = dir.join("objects/info/alternates");
            fs::write(&alternates, line).map_err(io("write", &alternates))?;
        }
        let head = dir.join("HEAD");
        fs::write(&head, format!("{}\n", submodule.wanted)).map_err(io("write", &head))?;
        let path = dir.join("config");
        fs::write(&path, self.submodule_config(submodule, worktree)).map_err(io("write", &path))
    }

    /// Writes again what git obeys in the submodules of a lane: `git status` looks into them.
    pub(super) fn refresh_submodules(&self, lane: &Lane) -> Result<(), GitError> {
        // If its index cannot be read, git does not find any submodules either.
        for submodule in self.filled_submodules(lane).unwrap_or_default() {
            let dir = &submodule.git_dir;
            for name in ["hooks", "info", "commondir", "config.worktree"] {
                clear(&dir.join(name))?;
            }
            let path = dir.join("config");
            replace_file(&path, self.submodule_config(&submodule, &submodule.worktree(lane)).as_bytes())?;
        }
        Ok(())
    }

    fn submodule_config(&self, submodule: &Submodule, worktree: &Path) -> String {
        let sha256 = submodule.wanted.as_str().len() == 64;
        let quote = |text: &str| text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
        let mut config = format!(
            "[core]\n\trepositoryformatversion = {}\n\tbare = false\n\tworktree = \"{}\"\n",
            u8::from(sha256),
            quote(&worktree.to_string_lossy()),
        );
        if sha256 {
            config.push_str("[extensions]\n\tobjectFormat = sha256\n");
        }
        config.push_str(&format!(
            "[remote \"origin\"]\n\turl = \"{}\"\n\tfetch = +refs/heads/*:refs/remotes/origin/*\n",
            quote(&self.work.trust().submodule_url(&submodule.name, &submodule.url)),
        ));
        config
    }

    fn fetch(&self, submodule: &Submodule, objects: &Path) -> Result<(), GitError> {
        let url = self.work.trust().submodule_url(&submodule.name, &submodule.url);
        let fetch = [
            "fetch",
            "--quiet",
            "--no-tags",
            "--no-write-fetch-head",
            "--depth=1",
            "--no-recurse-submodules",
        ];
        // The url is in a file that any landed change can edit: only network protocols are allowed.
        let command = self.work.bare_with(objects).env("GIT_PROTOCOL_FROM_USER", "0").args(fetch);
        command.arg("--end-of-options").arg(&url).arg(&submodule.wanted).bytes().map(drop)
    }

    fn has_commit(&self, objects: &Path, commit: &Oid) -> Result<bool, GitError> {
        let name = format!("{commit}^{{commit}}");
        Ok(self
            .work
            .bare_with(objects)
            .env("GIT_NO_LAZY_FETCH", "1")
            .args(["cat-file", "-e", &name])
            .run()?
            .code
            == Some(0))
    }
}

fn places(lane: &Lane, submodule: &Submodule) -> (PathBuf, PathBuf, PathBuf) {
    (submodule.worktree(lane), submodule.git_dir.join("index"), submodule.git_dir.join("objects"))
}

fn stays_inside(path: &Path) -> bool {
    !path.as_os_str().is_empty()
        && path.components().all(|part| matches!(part, Component::Normal(name) if name != ".git"))
}

/// Whether every part of the path is a directory and none is a link.
fn is_real_dir(root: &Path, below: &Path) -> bool {
    let mut at = root.to_owned();
    below.components().all(|part| {
        at.push(part);
        at.symlink_metadata().is_ok_and(|meta| meta.is_dir())
    })
}
