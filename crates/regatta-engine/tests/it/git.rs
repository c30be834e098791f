//! Finding the repository, trusting only what was there before, and looking without being fooled.

use regatta_engine::git::{BranchTip, GitEnv, GitError, Head, Repo, TrustSnapshot, Work};
use regatta_testkit::repo::{ScratchRepo, script, write};

use crate::fixture::{Bench, discover, oid};

#[test]
fn the_repository_is_found_from_a_subdirectory_with_an_odd_name() {
    let scratch = ScratchRepo::at("my répo -x \"q\"", "trunk", &[]);
    scratch.commit_file("a dir/file", "x", "first");
    let repo = discover(&scratch, &scratch.root().join("a dir"));
    assert_eq!(repo.toplevel, scratch.root());
    assert_eq!(repo.root, scratch.root());
    assert_eq!(repo.common_dir, scratch.root().join(".git"));
    assert_eq!(repo.head, Head::Branch("trunk".into()));
    assert_eq!(repo.default_branch(), Some("trunk".into()));
    assert!(!repo.is_bare);
}

#[test]
fn a_linked_worktree_knows_the_main_one() {
    let scratch = ScratchRepo::new();
    let linked = scratch.outside().join("linked");
    scratch.git(["worktree", "add", "-q", "-b", "side", linked.to_str().unwrap()]);
    let repo = discover(&scratch, &linked);
    assert_eq!((repo.toplevel.as_path(), repo.root.as_path()), (linked.as_path(), scratch.root()));
    assert_eq!(repo.state_dir, scratch.root().join(".regatta"));
    assert_eq!(repo.default_branch(), Some("main".into()));
}

#[test]
fn no_repository_a_bare_one_and_an_empty_one_are_told_apart() {
    let scratch = ScratchRepo::empty("main");
    let env = || GitEnv::new(scratch.env());
    let outside = Repo::discover_in(&scratch.outside(), None, env()).unwrap_err();
    assert!(matches!(outside, GitError::NotARepository { .. }), "{outside}");
    let bare = scratch.outside().join("bare.git");
    scratch.git(["init", "-q", "--bare", bare.to_str().unwrap()]);
    let error = Repo::discover_in(&bare, None, env()).unwrap_err();
    assert!(matches!(error, GitError::Bare { .. }), "{error}");
    assert_eq!(discover(&scratch, scratch.root()).head, Head::Unborn("main".into()));
}

#[test]
fn a_worktree_of_a_bare_repository_works() {
    let scratch = ScratchRepo::new();
    let (bare, tree) = (scratch.outside().join("bare"), scratch.outside().join("tree"));
    scratch.git(["clone", "-q", "--bare", ".", bare.to_str().unwrap()]);
    scratch.git_in(&bare, ["worktree", "add", "-q", tree.to_str().unwrap(), "main"]);
    let repo = discover(&scratch, &tree);
    assert!(repo.is_bare && repo.main_worktree.is_none());
    assert_eq!(repo.root, tree);
}

#[test]
fn a_submodule_is_a_repository_of_its_own() {
    let scratch = ScratchRepo::new();
    let other = ScratchRepo::new();
    scratch.git([
        "-c",
        "protocol.file.allow=always",
        "submodule",
        "add",
        "-q",
        other.root().to_str().unwrap(),
        "sub",
    ]);
    let repo = discover(&scratch, &scratch.root().join("sub"));
    assert_eq!(repo.root, scratch.root().join("sub"));
    assert_eq!(repo.common_dir, scratch.root().join(".git/modules/sub"));
    assert_eq!(repo.main_worktree, Some(scratch.root().join("sub")));
}

#[test]
fn the_remotes_default_wins_and_a_branch_only_there_is_found() {
    let scratch = ScratchRepo::new();
    scratch.git(["branch", "release/1"]);
    let clone = scratch.outside().join("clone");
    scratch.git(["clone", "-q", ".", clone.to_str().unwrap()]);
    scratch.git_in(&clone, ["switch", "-q", "-c", "topic"]);
    let repo = discover(&scratch, &clone);
    assert_eq!(repo.default_branch(), Some("main".into()));
    let tip = oid(&scratch.rev("main"));
    assert_eq!(repo.branch_tip("topic").unwrap(), Some(BranchTip::Local(tip.clone())));
    assert_eq!(repo.branch_tip("release/1").unwrap(), Some(BranchTip::Remote(tip)));
    assert_eq!(repo.branch_tip("nope").unwrap(), None);
    assert!(repo.branch_tip("../../config").is_err());
    scratch.git_in(&clone, ["pack-refs", "--all"]);
    assert!(matches!(repo.branch_tip("topic").unwrap(), Some(BranchTip::Local(_))));
}

#[test]
fn a_detached_head_names_no_default_branch() {
    let scratch = ScratchRepo::new();
    scratch.git(["checkout", "-q", "--detach"]);
    let repo = discover(&scratch, scratch.root());
    assert_eq!(repo.head, Head::Detached(oid(&scratch.rev("HEAD"))));
    assert_eq!(repo.default_branch(), None);
}

#[test]
fn excluding_twice_writes_once() {
    let bench = Bench::new();
    let path = bench.repo.common_dir.join("info/exclude");
    let before = std::fs::read(&path).unwrap();
    bench.repo.exclude(&["/.regatta/"]).unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), before);
    assert!(String::from_utf8(before).unwrap().contains("/.regatta/\n"));
}

#[test]
fn settings_of_all_sorts_survive_the_snapshot() {
    let scratch = ScratchRepo::new();
    let values = [
        ("filter.a \"b\\.clean", "sed 's/\\t/\"x\"/' # no; comment"),
        ("x.y", " spaces "),
        ("merge.m.driver", "a\nb"),
    ];
    for (key, value) in values {
        scratch.git(["config", key, value]);
    }
    let bench = Bench::over(scratch);
    let config = bench.work.trust().private_dir().join("config");
    for (key, value) in values {
        let read = bench
            .scratch
            .try_git(bench.scratch.root(), &["config", "-z", "-f", config.to_str().unwrap(), "--get", key]);
        assert_eq!(String::from_utf8(read.stdout).unwrap(), format!("{value}\0"), "{key}");
    }
}

#[test]
fn what_was_planted_after_the_snapshot_is_named() {
    let bench = Bench::new();
    let trust = bench.work.trust();
    assert_eq!(trust.changed_since().unwrap(), []);
    bench.scratch.git(["config", "filter.evil.clean", "touch /tmp/x"]);
    bench.scratch.git(["config", "core.fsmonitor", "evil"]);
    bench.scratch.git(["config", "color.ui", "never"]);
    bench.scratch.git(["config", "remote.origin.pushurl", "/elsewhere"]);
    script(&bench.repo.common_dir.join("hooks/pre-commit"), "exit 0");
    let changed = trust.changed_since().unwrap();
    let names: Vec<&str> = changed.iter().map(|one| one.what.as_str()).collect();
    assert_eq!(names, ["core.fsmonitor", "filter.evil.clean", "remote.origin.pushurl", "hooks/pre-commit"]);
    assert_eq!((changed[1].was.as_deref(), changed[1].is.as_deref()), (None, Some("touch /tmp/x")));
}

#[test]
fn a_snapshot_outlives_what_happens_to_its_private_directory() {
    let bench = Bench::new();
    script(&bench.repo.common_dir.join("hooks/pre-commit"), "exit 0");
    let trust = TrustSnapshot::take(&bench.repo).unwrap();
    let kept = bench.scratch.outside().join("kept");
    trust.save(&kept).unwrap();
    // An agent may write to the copy that git reads; the next process finds it as it was.
    write(&trust.private_dir().join("config"), "[core]\n\tsshCommand = evil\n");
    script(&trust.private_dir().join("hooks/pre-commit"), "evil");
    bench.scratch.git(["config", "user.name", "Mallory"]);
    let loaded = TrustSnapshot::load(&bench.repo, &kept, trust.digest()).unwrap().unwrap();
    assert_eq!(loaded.identity().name, "Ada");
    let read = |name: &str| std::fs::read_to_string(loaded.private_dir().join(name)).unwrap();
    assert!(!read("config").contains("evil") && !read("hooks/pre-commit").contains("evil"));
    // What the user keeps is only believed whole.
    write(&kept.join(trust.digest()).join("config"), "[core]\n\tsshCommand = evil\n");
    assert!(TrustSnapshot::load(&bench.repo, &kept, trust.digest()).unwrap().is_none());
}

#[test]
fn two_snapshots_of_different_settings_do_not_touch_each_other() {
    let bench = Bench::new();
    let before = std::fs::read(bench.work.trust().private_dir().join("config")).unwrap();
    bench.scratch.git(["config", "filter.evil.clean", "touch /tmp/x"]);
    let other = TrustSnapshot::take(&bench.repo).unwrap();
    assert_ne!(other.private_dir(), bench.work.trust().private_dir());
    assert_eq!(std::fs::read(bench.work.trust().private_dir().join("config")).unwrap(), before);
}

#[test]
fn who_the_user_is_comes_from_the_snapshot_or_the_fallback() {
    let bench = Bench::new();
    bench.scratch.git(["config", "user.name", "Mallory"]);
    assert_eq!(bench.work.identity().name, "Ada");
    bench.scratch.git(["config", "--unset", "user.email"]);
    assert_eq!(TrustSnapshot::take(&bench.repo).unwrap().identity().email, "regatta@localhost");
}

#[test]
fn dirty_counts_untracked_files_whatever_the_user_configured() {
    let scratch = ScratchRepo::new();
    scratch.git(["config", "status.showUntrackedFiles", "no"]);
    let bench = Bench::over(scratch);
    assert!(!bench.work.is_dirty(bench.scratch.root()).unwrap());
    bench.scratch.write("new file", "x");
    assert!(bench.work.is_dirty(bench.scratch.root()).unwrap());
}

#[test]
fn sha256_repositories_and_shallow_clones_work() {
    let sha256 = ScratchRepo::at("repo", "main", &["--object-format=sha256"]);
    sha256.commit_file("a", "1", "first");
    let bench = Bench::over(sha256);
    let (lane, head) = bench.lane_with("t", &[("b", "2")]);
    assert_eq!((head.as_str().len(), lane.head().unwrap()), (64, head));

    let scratch = ScratchRepo::new();
    scratch.commit_file("a", "1", "second");
    let clone = scratch.outside().join("shallow");
    let url = format!("file://{}", scratch.root().display());
    scratch.git(["clone", "-q", "--depth=1", &url, clone.to_str().unwrap()]);
    let repo = discover(&scratch, &clone);
    let work = Work::new(&repo, TrustSnapshot::take(&repo).unwrap());
    let tip = oid(&scratch.rev("main"));
    assert_eq!(work.commits_between(&oid(&scratch.rev("main~1")), &tip).map(|c| c.len()).unwrap_or(1), 1);
    assert!(work.tree_of(&tip).is_ok());
}

#[test]
fn names_with_newlines_quotes_and_dashes_are_reported_as_they_are() {
    let bench = Bench::new();
    let lane = bench.lane("t");
    let odd = ["-rf", "a b", "ünï", "q\"uote", "tab\tline\nbreak", ":(exclude)x", "glob*"];
    for name in odd {
        write(&lane.path.join(name), "x");
    }
    let committed = bench.committed(&lane, "odd names");
    let mut files: Vec<_> = committed.files.iter().map(|path| path.to_str().unwrap()).collect();
    let mut expected = odd.to_vec();
    files.sort_unstable();
    expected.sort_unstable();
    assert_eq!(files, expected);
    assert_eq!(bench.work.changed_paths(&lane.path, &lane.base).unwrap().len(), odd.len());
}
