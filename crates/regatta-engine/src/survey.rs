//! What a repository is without running anything of it: its remotes, its manifests, its state.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use regatta_core::repos::detected::Surveyed;
use regatta_core::repos::manifests::{MAX_BYTES, Manifest, ManifestKind};
use regatta_core::repos::remote::RemoteAddress;

use crate::git::{GitError, Repo};

/// At most this many manifests of a repository are read, the outermost first.
const MAX_MANIFESTS: usize = 500;

/// The names that manifests have, as git finds them at any depth.
const PATTERNS: [&str; 8] = [
    ":(glob).gitmodules",
    ":(glob)**/Cargo.toml",
    ":(glob)**/package.json",
    ":(glob)**/pnpm-workspace.yaml",
    ":(glob)**/go.mod",
    ":(glob)**/go.work",
    ":(glob)**/pyproject.toml",
    ":(glob)**/requirements*.txt",
];

/// Reads the manifests of a checkout, as far as git tracks them.
pub fn survey(repo: &Repo, name: &str) -> Result<Surveyed, GitError> {
    let root = repo.toplevel.canonicalize().unwrap_or_else(|_| repo.toplevel.clone());
    let mut files = tracked(repo)?;
    files.sort_by_key(|path| (path.matches('/').count(), path.clone()));
    files.truncate(MAX_MANIFESTS);
    let manifests = files.iter().filter_map(|path| read(&root, path)).collect();
    let remotes = addresses(repo)?.iter().filter_map(|(_, url)| RemoteAddress::parse(url)).collect();
    Ok(Surveyed { name: name.to_owned(), root, remotes, manifests })
}

/// The remotes and their addresses, `origin` first.
pub fn addresses(repo: &Repo) -> Result<Vec<(String, String)>, GitError> {
    let asked = repo.real_in(&repo.git_dir).args(["config", "-z", "--get-regexp", r"^remote\..*\.url$"]);
    let ran = asked.run()?;
    let text = String::from_utf8_lossy(&ran.stdout).into_owned();
    let settings = text.split('\0').filter_map(|setting| setting.split_once('\n'));
    let mut found: Vec<(String, String)> = settings
        .filter_map(|(key, url)| {
            let name = key.strip_prefix("remote.")?.strip_suffix(".url")?;
            Some((name.to_owned(), url.to_owned()))
        })
        .collect();
    found.sort_by_key(|(name, _)| name != "origin");
    Ok(found)
}

/// The paths of the submodules of a checkout.
pub fn submodules(root: &Path) -> Vec<PathBuf> {
    let Ok(text) = bounded(&root.join(".gitmodules")) else { return Vec::new() };
    let paths = regatta_core::repos::manifests::submodule_paths(&text);
    paths.into_iter().map(PathBuf::from).filter(|path| is_plain(path)).map(|path| root.join(path)).collect()
}

fn tracked(repo: &Repo) -> Result<Vec<String>, GitError> {
    let listed = repo.real_in(&repo.git_dir).args(["ls-files", "-z", "--"]).args(PATTERNS).bytes()?;
    let paths = listed.split(|byte| *byte == 0).filter_map(|path| std::str::from_utf8(path).ok());
    let mut found: Vec<String> =
        paths.filter(|path| ManifestKind::of(path).is_some()).map(str::to_owned).collect();
    // A file with a conflict is listed once for each side.
    found.dedup();
    Ok(found)
}

/// `None` if the file is gone, or is not a file inside the checkout.
fn read(root: &Path, path: &str) -> Option<Manifest> {
    let file = root.join(path);
    let inside = file.parent()?.canonicalize().ok()?.starts_with(root);
    if !inside || !file.symlink_metadata().ok()?.is_file() {
        return None;
    }
    match bounded(&file) {
        Ok(text) => Manifest::parse(path, &text),
        Err(why) => Some(Manifest::unread(path, &why)),
    }
}

/// The text of a file of a bounded length.
fn bounded(path: &Path) -> Result<String, String> {
    let file = File::open(path).map_err(|error| error.to_string())?;
    let mut bytes = Vec::new();
    file.take(MAX_BYTES + 1).read_to_end(&mut bytes).map_err(|error| error.to_string())?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err("longer than 1 MiB; it is not read".to_owned());
    }
    String::from_utf8(bytes).map_err(|_| "not UTF-8; it is not read".to_owned())
}

fn is_plain(path: &Path) -> bool {
    path.components().all(|part| matches!(part, std::path::Component::Normal(_)))
}
