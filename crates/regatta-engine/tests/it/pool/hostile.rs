use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::SystemTime;

use regatta_engine::lanes::Lane;
use regatta_testkit::repo::write;

use super::{bench, differences, directory, let_go, move_on};
use crate::fixture::{Bench, id};

/// What an agent does in its lane before it ends.
type Deed = fn(&Bench, &Lane);

fn chmod(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

/// Writes as many bytes in place and puts the old time back.
fn forge(path: &Path, content: &str) {
    let before = path.metadata().unwrap();
    assert_eq!(before.len(), content.len() as u64);
    let file = fs::OpenOptions::new().write(true).open(path).unwrap();
    std::io::Write::write_all(&mut &file, content.as_bytes()).unwrap();
    file.set_times(fs::FileTimes::new().set_modified(before.modified().unwrap())).unwrap();
}

fn git(bench: &Bench, lane: &Lane, args: &[&str]) {
    bench.git_in(&lane.path, args);
}

const DEEDS: &[(&str, Deed)] = &[
    ("nothing", |_, _| {}),
    ("edits and new files", |_, lane| {
        write(&lane.path.join("src/main.c"), "other\n");
        write(&lane.path.join("new/file.txt"), "new\n");
        fs::remove_file(lane.path.join("docs/page.md")).unwrap();
    }),
    ("commits", |bench, lane| {
        write(&lane.path.join("fresh/new.txt"), "its own\n");
        git(bench, lane, &["rm", "-q", "-r", "src/lib"]);
        git(bench, lane, &["add", "-A"]);
        git(bench, lane, &["commit", "-q", "-m", "work"]);
    }),
    ("a change with the old size and time", |_, lane| {
        forge(&lane.path.join("src/lib/deep/a.c"), "X\n");
    }),
    ("modes", |_, lane| {
        chmod(&lane.path.join("src/lib/deep/a.c"), 0o666);
        chmod(&lane.path.join("docs/page.md"), 0o755);
        chmod(&lane.path.join("run.sh"), 0o644);
        chmod(&lane.path.join("deps.lock"), 0o4755);
        chmod(&lane.path.join(".gitignore"), 0);
    }),
    ("times", |_, lane| {
        let file = fs::File::open(lane.path.join("docs/page.md")).unwrap();
        file.set_times(fs::FileTimes::new().set_modified(SystemTime::UNIX_EPOCH)).unwrap();
    }),
    ("hard links", |bench, lane| {
        fs::hard_link(lane.path.join("src/main.c"), bench.scratch.outside().join("linked")).unwrap();
    }),
    ("files replaced by their likes", |_, lane| {
        let path = lane.path.join("src/lib/deep/b.c");
        fs::copy(&path, lane.path.join("copy")).unwrap();
        fs::rename(lane.path.join("copy"), &path).unwrap();
        let link = lane.path.join("link");
        fs::remove_file(&link).unwrap();
        symlink("/etc/passwd", &link).unwrap();
    }),
    ("links for files and directories", |bench, lane| {
        let outside = bench.scratch.outside().join("deep");
        fs::rename(lane.path.join("src/lib/deep"), &outside).unwrap();
        symlink(&outside, lane.path.join("src/lib/deep")).unwrap();
        write(&outside.join("kept.txt"), "nobody's to delete\n");
        fs::rename(lane.path.join("docs"), bench.scratch.outside().join("docs")).unwrap();
        symlink(bench.scratch.outside().join("docs"), lane.path.join("docs")).unwrap();
        fs::remove_file(lane.path.join("README.md")).unwrap();
        symlink(bench.scratch.root().join("README.md"), lane.path.join("README.md")).unwrap();
    }),
    ("directories for files and files for directories", |_, lane| {
        fs::remove_file(lane.path.join("README.md")).unwrap();
        write(&lane.path.join("README.md/nested/file"), "x\n");
        fs::remove_dir_all(lane.path.join("src/lib")).unwrap();
        write(&lane.path.join("src/lib"), "x\n");
    }),
    ("empty directories, sockets and pipes", |_, lane| {
        fs::create_dir_all(lane.path.join("empty/er")).unwrap();
        fs::create_dir_all(lane.path.join("src/empty")).unwrap();
        std::os::unix::net::UnixListener::bind(lane.path.join("x.log")).unwrap();
        assert!(Command::new("mkfifo").arg(lane.path.join("pipe.log")).status().unwrap().success());
    }),
    ("ignored files", |_, lane| {
        write(&lane.path.join("a.log"), "x\n");
        write(&lane.path.join("src/lib/.env"), "SECRET=1\n");
        write(&lane.path.join("fresh/new.txt/x.log"), "in the way\n");
    }),
    ("read-only leavings", |_, lane| {
        write(&lane.path.join("cache.log/x/y"), "x\n");
        chmod(&lane.path.join("cache.log/x"), 0o555);
    }),
    ("rules of its own", |_, lane| {
        write(&lane.path.join(".gitattributes"), "* text eol=crlf\n");
        write(&lane.path.join("src/.gitattributes"), "*.c filter=evil\n");
        write(&lane.path.join(".gitignore"), "*\n");
        write(&lane.path.join("docs/.gitignore"), "!*\n*\n");
        write(&lane.path.join("docs/hidden.txt"), "x\n");
    }),
    ("a repository inside", |bench, lane| {
        git(bench, lane, &["init", "-q", "src/lib"]);
        write(&lane.path.join("src/lib/.git/hooks/post-checkout"), "#!/bin/sh\ntouch ../planted\n");
        chmod(&lane.path.join("src/lib/.git/hooks/post-checkout"), 0o755);
    }),
    ("flags in the index", |bench, lane| {
        git(bench, lane, &["update-index", "--assume-unchanged", "src/main.c", "docs/page.md"]);
        git(bench, lane, &["update-index", "--skip-worktree", "src/lib/deep/a.c"]);
        write(&lane.path.join("src/main.c"), "hidden\n");
        write(&lane.path.join("src/lib/deep/a.c"), "hidden\n");
        fs::remove_file(lane.path.join("docs/page.md")).unwrap();
    }),
    ("an index that lies", |bench, lane| {
        // Content that the index believes in, under ids of other content.
        write(&lane.path.join("src/main.c"), "a lie!!!!\n");
        git(bench, lane, &["add", "src/main.c"]);
        let wanted = bench.git_in(&lane.path, &["rev-parse", "HEAD:src/main.c"]);
        let info = format!("100644,{},src/main.c", wanted.trim());
        git(bench, lane, &["update-index", "--cacheinfo", &info]);
        git(bench, lane, &["update-index", "--assume-unchanged", "src/main.c"]);
    }),
    ("no index", |_, lane| fs::write(lane.git_dir().join("index"), "junk").unwrap()),
    ("a git directory full of surprises", |_, lane| {
        let git_dir = lane.git_dir();
        write(&git_dir.join("config.worktree"), "[core]\n\thooksPath = /tmp\n");
        write(&git_dir.join("hooks/post-checkout"), "#!/bin/sh\ntouch planted\n");
        chmod(&git_dir.join("hooks/post-checkout"), 0o755);
        write(&git_dir.join("info/exclude"), "*\n");
        write(&git_dir.join("info/attributes"), "* filter=evil\n");
        write(&git_dir.join("info/sparse-checkout"), "/docs\n");
        write(&git_dir.join("MERGE_MSG"), "x\n");
    }),
    ("a build directory that leads elsewhere", |bench, lane| {
        write(&bench.scratch.outside().join("precious/file"), "precious\n");
        symlink(bench.scratch.outside().join("precious"), lane.path.join("target")).unwrap();
        symlink(bench.scratch.outside().join("precious"), lane.path.join("src/node_modules")).unwrap();
    }),
    ("a build directory that is work", |bench, lane| {
        write(&lane.path.join("target/kept.txt"), "x\n");
        git(bench, lane, &["add", "-f", "target/kept.txt"]);
        fs::remove_dir_all(lane.path.join("target")).unwrap();
    }),
    ("directories with modes of their own", |_, lane| {
        chmod(&lane.path.join("src/lib"), 0o777);
        chmod(&lane.path, 0o700);
    }),
    ("a directory with attributes", |_, lane| {
        let note = rustix_set(&lane.path.join("src/lib"));
        assert!(note, "this file system takes attributes");
    }),
];

fn rustix_set(dir: &Path) -> bool {
    let flags = rustix::fs::XattrFlags::empty();
    rustix::fs::setxattr(dir, "user.note", b"x", flags).is_ok()
}

/// Trees at once: most of the time goes by in git.
const AT_ONCE: usize = 4;

#[test]
fn whatever_was_done_in_a_lane_the_next_one_is_as_a_fresh_checkout() {
    let next = AtomicUsize::new(0);
    let (wrong, used_again) = (Mutex::new(Vec::new()), Mutex::new(BTreeSet::new()));
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                while let Some((what, deed)) = DEEDS.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let (differences, is_used_again) = after(what, *deed);
                    wrong.lock().unwrap().extend(differences.iter().map(|text| format!("{what}: {text}")));
                    if is_used_again {
                        used_again.lock().unwrap().insert(*what);
                    }
                }
            });
        }
    });
    let wrong = wrong.into_inner().unwrap();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let in_doubt: Vec<&str> = DEEDS.iter().map(|(what, _)| *what).collect();
    let used_again = used_again.into_inner().unwrap();
    let in_doubt: Vec<&str> = in_doubt.into_iter().filter(|what| !used_again.contains(what)).collect();
    assert_eq!(in_doubt, ["directories with modes of their own", "a directory with attributes"]);
}

/// What is wrong with the lane after one in which the deed was done, and whether it was made from the same tree.
fn after(what: &str, deed: Deed) -> (Vec<String>, bool) {
    let bench = bench();
    let first = bench.lane("first");
    let before = directory(&first.path);
    deed(&bench, &first);
    let_go(&bench, "first");
    assert!(!first.path.exists(), "{what}: its place is free again");
    let base = move_on(&bench);
    let next = bench.lanes.prepare(&id("next"), &base).unwrap();
    assert!(bench.lanes.pooled().is_empty(), "{what}");
    let precious = bench.scratch.outside().join("precious/file");
    assert!(!precious.parent().unwrap().exists() || precious.exists(), "{what}: a link was followed");
    (differences(&bench, &next), directory(&next.path) == before)
}
