//! All refs of a git directory with ref files, read without a process, and written as one file.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use super::refs::{MAX_PACKED, MAX_REF, check_ref_name, read_users};
use super::{GitError, Oid, Repo, read_if_plain, read_plain};

/// Depth of the search for refs.
const DEPTH: u8 = 16;

/// The refs of a repository.
#[derive(Clone, Debug, Default)]
pub(crate) struct RefList {
    /// Packed refs: each id, and what an annotated tag peels to.
    packed: BTreeMap<String, (Oid, Option<Oid>)>,
    /// Refs with a file each.
    loose: BTreeMap<String, Oid>,
    /// Symbolic refs, with their targets.
    symbolic: BTreeMap<String, String>,
    /// Whether the packed file says what every ref peels to.
    peeled: bool,
}

impl RefList {
    /// The refs of the project itself, as they are now. Regatta's own refs and the user's stash are left out.
    pub(crate) fn of_project(repo: &Repo) -> Result<Self, GitError> {
        let mut list = if repo.reftable { Self::by_git(repo)? } else { Self::users(&repo.common_dir)? };
        let wanted = |name: &str| !name.starts_with("refs/regatta/") && name != "refs/stash";
        list.packed.retain(|name, _| wanted(name));
        list.loose.retain(|name, _| wanted(name));
        list.symbolic.retain(|name, _| wanted(name));
        Ok(list)
    }

    fn users(dir: &Path) -> Result<Self, GitError> {
        let mut list = Self::default();
        if let Some(packed) = read_users(&dir.join("packed-refs"), MAX_PACKED)? {
            list.parse(&packed);
        }
        list.visit(&dir.join("refs"), "refs/", 0, usize::MAX);
        Ok(list)
    }

    fn by_git(repo: &Repo) -> Result<Self, GitError> {
        let format = "--format=%(objectname) %(refname) %(symref)";
        let listed = repo.real().args(["for-each-ref", format]).text()?;
        let mut list = Self::default();
        for line in listed.lines() {
            let mut fields = line.split(' ');
            let (Some(oid), Some(name)) = (fields.next(), fields.next()) else { continue };
            match fields.next().filter(|target| !target.is_empty()) {
                Some(target) => _ = list.symbolic.insert(name.to_owned(), target.to_owned()),
                None => _ = list.loose.insert(name.to_owned(), Oid::parse(oid)?),
            }
        }
        Ok(list)
    }

    /// The refs below `dir`. What is not a ref is ignored: an agent may have written there.
    pub(crate) fn load(dir: &Path) -> Result<Self, GitError> {
        let mut list = Self::default();
        if let Some(packed) = read_if_plain(&dir.join("packed-refs"), MAX_PACKED)? {
            list.parse(&packed);
        }
        list.visit(&dir.join("refs"), "refs/", 0, usize::MAX);
        Ok(list)
    }

    fn parse(&mut self, packed: &[u8]) {
        let mut last: Option<String> = None;
        for line in packed.split(|byte| *byte == b'\n') {
            let Ok(line) = std::str::from_utf8(line) else { continue };
            if let Some(traits) = line.strip_prefix("# pack-refs with:") {
                self.peeled = traits.split(' ').any(|word| word == "fully-peeled");
            } else if let Some(peeled) = line.strip_prefix('^') {
                let entry = last.as_ref().and_then(|name| self.packed.get_mut(name));
                if let (Some(entry), Ok(peeled)) = (entry, Oid::parse(peeled)) {
                    entry.1 = Some(peeled);
                }
            } else if let Some((oid, name)) = line.split_once(' ')
                && let Ok(oid) = Oid::parse(oid)
                && check_ref_name(name).is_ok()
            {
                self.packed.insert(name.to_owned(), (oid, None));
                last = Some(name.to_owned());
            }
        }
    }

    fn visit(&mut self, dir: &Path, prefix: &str, depth: u8, most: usize) {
        for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
            if self.loose.len() >= most {
                return;
            }
            let (Ok(kind), Some(name)) = (entry.file_type(), entry.file_name().to_str().map(str::to_owned))
            else {
                continue;
            };
            let name = format!("{prefix}{name}");
            if kind.is_dir() && depth < DEPTH {
                self.visit(&entry.path(), &format!("{name}/"), depth + 1, most);
                continue;
            }
            if !kind.is_file() || check_ref_name(&name).is_err() {
                continue;
            }
            let Ok(Some(content)) = read_plain(&entry.path(), MAX_REF) else { continue };
            let text = String::from_utf8_lossy(&content).into_owned();
            match text.strip_prefix("ref:") {
                Some(target) => _ = self.symbolic.insert(name, target.trim().to_owned()),
                None => {
                    if let Ok(oid) = Oid::parse(&text) {
                        self.loose.insert(name, oid);
                    }
                }
            }
        }
    }

    /// At most `most` tips of the project's branches, its own and its remotes'.
    pub(crate) fn some_tips(repo: &Repo, most: usize) -> Vec<Oid> {
        if repo.reftable {
            return Vec::new();
        }
        let mut list = Self::default();
        for dir in ["refs/heads/", "refs/remotes/"] {
            list.visit(&repo.common_dir.join(dir), dir, 0, most);
        }
        let packed = read_users(&repo.common_dir.join("packed-refs"), MAX_PACKED).ok().flatten();
        list.parse(&packed.unwrap_or_default());
        let branch = |name: &&str| name.starts_with("refs/heads/") || name.starts_with("refs/remotes/");
        let tips = list.loose().chain(list.packed.iter().map(|(name, (oid, _))| (name.as_str(), oid)));
        tips.filter(|(name, _)| branch(name)).map(|(_, oid)| oid.clone()).take(most).collect()
    }

    /// Refs with a file each: all that git has moved since the list was packed.
    pub(crate) fn loose(&self) -> impl Iterator<Item = (&str, &Oid)> {
        self.loose.iter().map(|(name, oid)| (name.as_str(), oid))
    }

    /// Every ref that is not symbolic.
    pub(crate) fn all(&self) -> BTreeMap<&str, &Oid> {
        let packed = self.packed.iter().map(|(name, (oid, _))| (name.as_str(), oid));
        packed.chain(self.loose()).collect()
    }

    /// Symbolic refs, with their targets.
    pub(crate) fn symbolic(&self) -> &BTreeMap<String, String> {
        &self.symbolic
    }

    /// All refs that are not symbolic, as a file of packed refs.
    pub(crate) fn packed(&self) -> Vec<u8> {
        // A branch is a commit; any other ref may be a tag that has to be peeled.
        let plain = |name: &String| name.starts_with("refs/heads/") || name.starts_with("refs/remotes/");
        let peeled = self.peeled && self.loose.keys().all(plain);
        let traits = if peeled { " peeled fully-peeled sorted " } else { " sorted " };
        let mut text = format!("# pack-refs with:{traits}\n");
        for (name, oid) in self.all() {
            text.push_str(&format!("{oid} {name}\n"));
            let is_loose = self.loose.contains_key(name);
            if let Some((_, Some(peeled))) = self.packed.get(name).filter(|_| !is_loose) {
                text.push_str(&format!("^{peeled}\n"));
            }
        }
        text.into_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_packed_is_what_git_lists() {
        let repo = regatta_testkit::repo::ScratchRepo::new();
        repo.git(["tag", "-a", "-m", "t", "annotated"]);
        repo.git(["branch", "b/one"]);
        repo.git(["pack-refs", "--all"]);
        repo.commit_file("a.txt", "a", "a");
        repo.git(["tag", "-a", "-m", "t", "later"]);
        repo.git(["branch", "b/two"]);
        repo.git(["update-ref", "refs/regatta/keep/a/1", "HEAD"]);
        repo.git(["symbolic-ref", "refs/remotes/origin/HEAD", "refs/heads/main"]);
        let found = Repo::discover(repo.root(), None).unwrap();
        let list = RefList::of_project(&found).unwrap();
        assert_eq!(list.symbolic().len(), 1);
        let said = repo.git(["for-each-ref", "--format=%(objectname) %(refname) %(*objectname)"]);
        let mut said: Vec<&str> = said.lines().map(str::trim_end).collect();
        said.retain(|line| !line.contains("regatta/keep") && !line.contains("origin/HEAD"));
        // The same directory with the packed file alone.
        let other = repo.outside().join("other.git");
        repo.git(["clone", "-q", "--bare", ".", other.to_str().unwrap()]);
        fs::remove_dir_all(other.join("refs")).unwrap();
        fs::create_dir_all(other.join("refs")).unwrap();
        fs::write(other.join("packed-refs"), list.packed()).unwrap();
        let packed =
            repo.git_in(&other, ["for-each-ref", "--format=%(objectname) %(refname) %(*objectname)"]);
        assert_eq!(packed.lines().map(str::trim_end).collect::<Vec<_>>(), said);
    }
}
