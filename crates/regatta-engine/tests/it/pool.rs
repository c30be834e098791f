//! Lanes that are used again: the next agent sees what it would see in a fresh checkout, whatever the last one did.

mod bounds;
mod hostile;
mod setup;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use regatta_engine::git::Oid;
use regatta_engine::lanes::{Lane, Lanes, PoolOptions, RetireMode, Retired};
use regatta_testkit::repo::{ScratchRepo, write};

use crate::fixture::{AT, Bench, id};

/// A repository with all that git can hold, and lanes that keep `target` and `node_modules`.
pub(crate) fn bench() -> Bench {
    bench_with(4)
}

pub(crate) fn bench_with(size: usize) -> Bench {
    // Beside what was built, which is on a disk where the system's temporary directory may not be.
    let scratch = ScratchRepo::below(Path::new(env!("CARGO_TARGET_TMPDIR")));
    for (name, content) in [
        (".gitignore", "target\nnode_modules\n*.log\n.env\n"),
        ("deps.lock", "one\n"),
        ("src/main.c", "int main;\n"),
        ("src/lib/deep/a.c", "a\n"),
        ("src/lib/deep/b.c", "b\n"),
        ("src/lib-x/c.c", "c\n"),
        ("docs/page.md", "page\n"),
        ("docs/old/gone.md", "gone soon\n"),
        ("quiet/untouched.txt", "nobody writes here\n"),
        ("with space/ünïcode.txt", "bytes\n"),
    ] {
        scratch.write(name, content);
    }
    let script = scratch.root().join("run.sh");
    write(&script, "#!/bin/sh\n");
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    std::os::unix::fs::symlink("src/main.c", scratch.root().join("link")).unwrap();
    scratch.commit_all("all kinds");
    let Bench { scratch, repo, work, lanes } = Bench::over(scratch);
    let lanes = lanes.with_pool(options(size));
    Bench { scratch, repo, work, lanes }
}

pub(crate) fn options(size: usize) -> PoolOptions {
    let texts = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
    PoolOptions::new(size, &texts(&["target/", "node_modules"]), &texts(&["deps.lock"]))
}

/// Moves main on: files changed, added, removed, a directory for a file and a file for a directory.
pub(crate) fn move_on(bench: &Bench) -> Oid {
    bench.scratch.git(["rm", "-q", "-r", "docs/old"]);
    bench.scratch.write("docs/page.md", "another page\n");
    bench.scratch.git(["rm", "-q", "src/main.c"]);
    bench.scratch.write("src/main.c/now/a/directory.c", "x\n");
    bench.scratch.git(["rm", "-q", "-r", "src/lib-x"]);
    bench.scratch.write("src/lib-x", "now a file\n");
    bench.scratch.write("fresh/new.txt", "new\n");
    bench.scratch.commit_all("moved on");
    bench.rev("main")
}

pub(crate) fn let_go(bench: &Bench, task: &str) {
    let retired = bench.lanes.retire(&id(task), RetireMode::SalvageFirst, AT).unwrap();
    assert!(matches!(retired, Retired::Removed { .. }), "{retired:?}");
}

/// What tells a directory from all others, also from one that got its number when it was gone.
pub(crate) fn directory(path: &Path) -> (u64, Option<std::time::SystemTime>) {
    let meta = path.symlink_metadata().unwrap();
    (meta.ino(), meta.created().ok())
}

/// Every path with its type, mode and content, without the `.git` file.
pub(crate) fn tree(root: &Path) -> BTreeMap<PathBuf, (u32, Vec<u8>)> {
    fn add(root: &Path, dir: &Path, found: &mut BTreeMap<PathBuf, (u32, Vec<u8>)>) {
        for entry in fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            let meta = path.symlink_metadata().unwrap();
            let content = match () {
                () if meta.is_dir() => Vec::new(),
                () if meta.is_symlink() => {
                    fs::read_link(&path).unwrap().into_os_string().into_encoded_bytes()
                }
                () if meta.is_file() => fs::read(&path).unwrap(),
                () => b"something else".to_vec(),
            };
            found.insert(path.strip_prefix(root).unwrap().to_owned(), (meta.mode(), content));
            if meta.is_dir() {
                add(root, &path, found);
            }
        }
    }
    let mut found = BTreeMap::new();
    add(root, root, &mut found);
    found.insert(PathBuf::new(), (root.metadata().unwrap().mode(), Vec::new()));
    assert!(found.remove(Path::new(".git")).is_some(), "a checkout has a .git");
    found
}

/// What differs between the lane and a fresh one of the same commit, as an agent would see both.
pub(crate) fn differences(bench: &Bench, lane: &Lane) -> Vec<String> {
    let root = bench.scratch.outside().join("fresh-lanes");
    let lanes = Lanes::new(&bench.repo, &bench.work, &root).unwrap();
    let fresh = lanes.prepare(&id("fresh"), &lane.base).unwrap();
    let (there, wanted) = (tree(&lane.path), tree(&fresh.path));
    let paths = there.keys().chain(wanted.keys()).filter(|path| there.get(*path) != wanted.get(*path));
    let mut wrong: Vec<String> = paths
        .map(|path| format!("{}: {:?} instead of {:?}", path.display(), there.get(path), wanted.get(path)))
        .collect();
    wrong.sort();
    wrong.dedup();
    for args in [
        &["status", "--porcelain", "--ignored"][..],
        &["ls-files", "-v"],
        &["ls-files", "-s"],
        &["rev-parse", "HEAD"],
        &["config", "--list"],
        &["stash", "list"],
        &["for-each-ref"],
        &["count-objects"],
    ] {
        let said = |lane: &Lane| {
            let name = lane.admin_dir().file_name().unwrap().to_str().unwrap();
            bench.git_in(&lane.path, args).replace(name, "LANE")
        };
        let (there, wanted) = (said(lane), said(&fresh));
        if there != wanted {
            wrong.push(format!("git {args:?}: {there:?} instead of {wanted:?}"));
        }
    }
    let names = |dir: &Path| -> BTreeSet<String> {
        let entries = fs::read_dir(dir).into_iter().flatten().flatten();
        entries.map(|entry| entry.file_name().into_string().unwrap()).collect()
    };
    for part in ["", "hooks", "info", "objects", "objects/info", "objects/pack", "refs", "refs/heads"] {
        let (there, wanted) = (names(&lane.git_dir().join(part)), names(&fresh.git_dir().join(part)));
        if there != wanted {
            wrong.push(format!("{there:?} instead of {wanted:?} in {part:?} of its git directory"));
        }
    }
    lanes.retire(&id("fresh"), RetireMode::SalvageFirst, AT).unwrap();
    wrong
}
