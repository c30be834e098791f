//! Candidates and publishing.

use std::fs;

use regatta_engine::git::Oid;
use regatta_engine::landing::candidate::{Candidate, CandidateRequest, Combined, Strategy, build, combine};
use regatta_engine::landing::publish::{PublishRequest, Published, WaitingFor, publish, resume_follow};
use regatta_engine::landing::unfinished;

use regatta_testkit::repo::{ScratchRepo, script};

use crate::fixture::{AT, Bench, paths};

fn request(bench: &Bench, strategy: Strategy, base: &Oid, head: &Oid) -> CandidateRequest {
    CandidateRequest {
        strategy,
        target_tip: bench.rev("main"),
        base: base.clone(),
        head: head.clone(),
        message: "land it".into(),
        identity: bench.work.identity(),
        at: AT,
        trailers: vec![("Regatta-Task".into(), "t".into())],
    }
}

fn clean(candidate: Candidate) -> (Oid, bool) {
    match candidate {
        Candidate::Clean { commit, fast_forward, .. } => (commit, fast_forward),
        other => panic!("{other:?}"),
    }
}

fn land(bench: &Bench, old: &Oid, new: &Oid) -> Published {
    let request = PublishRequest {
        target: "main".into(),
        old: Some(old.clone()),
        new: new.clone(),
        message: "regatta: land".into(),
    };
    publish(&bench.repo, &bench.work, &request).unwrap()
}

#[test]
fn a_lane_on_the_tip_lands_as_it_is() {
    let bench = Bench::new();
    let (lane, head) = bench.lane_with("t", &[("x", "1")]);
    let plain =
        CandidateRequest { trailers: Vec::new(), ..request(&bench, Strategy::Rebase, &lane.base, &head) };
    assert_eq!(clean(build(&bench.work, &plain).unwrap()), (head.clone(), true));
    // With something to say about it, all but its message stays.
    let told = request(&bench, Strategy::Rebase, &lane.base, &head);
    let (commit, fast_forward) = clean(build(&bench.work, &told).unwrap());
    assert!(!fast_forward);
    let show = |commit: &Oid, format: &str| bench.scratch.git(["log", "-1", format, commit.as_str()]);
    assert_eq!(show(&commit, "--format=%P %T %an %ad"), show(&head, "--format=%P %T %an %ad"));
    let message = show(&head, "--format=%B");
    assert_eq!(show(&commit, "--format=%B"), format!("{}\n\nRegatta-Task: t", message.trim_end()));
}

#[test]
fn candidates_are_pure_and_keep_the_author() {
    let bench = Bench::new();
    let (lane, _) = bench.lane_with("t", &[("x", "1")]);
    fs::write(lane.path.join("y"), "2").unwrap();
    bench.git_in(&lane.path, &["add", "-A"]);
    bench.git_in(&lane.path, &["commit", "-q", "--author=Eve <eve@x>", "-m", "second\n\nwith a body"]);
    let head = bench.lanes.take_over(&lane).unwrap();
    bench.scratch.commit_file("z", "3", "target moved");
    for strategy in [Strategy::Rebase, Strategy::Squash, Strategy::Merge] {
        let request = request(&bench, strategy, &lane.base, &head);
        let (commit, fast_forward) = clean(build(&bench.work, &request).unwrap());
        assert_eq!(clean(build(&bench.work, &request).unwrap()), (commit.clone(), false));
        assert!(!fast_forward);
        assert_eq!(bench.scratch.git(["ls-tree", "--name-only", commit.as_str()]), "README.md\nx\ny\nz");
        let log = bench.scratch.git([
            "log",
            "--first-parent",
            "--format=%an|%cn|%ct|%s",
            &format!("main..{commit}"),
        ]);
        let expected = match strategy {
            Strategy::Rebase => "Eve|Ada|1763182800|second\nAda|Ada|1763182800|work of t",
            _ => "Ada|Ada|1763182800|land it",
        };
        assert_eq!(log, expected, "{strategy:?}");
    }
    assert_eq!(bench.scratch.git(["status", "--porcelain"]), "");
}

#[test]
fn conflicts_name_their_files_exactly() {
    let bench = Bench::new();
    let name = "ünï \"q\"";
    bench.scratch.commit_file(name, "base\n", "odd");
    let (lane, head) = bench.lane_with("t", &[(name, "lane\n"), ("fine", "x")]);
    bench.scratch.commit_file(name, "target\n", "rival");
    for strategy in [Strategy::Rebase, Strategy::Squash, Strategy::Merge] {
        match build(&bench.work, &request(&bench, strategy, &lane.base, &head)).unwrap() {
            Candidate::Conflict { paths: found, details } => {
                assert_eq!(found, paths(&[name]));
                assert!(details.contains("CONFLICT"), "{details}");
            }
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn nothing_to_land_and_already_landed_are_told_apart() {
    let bench = Bench::new();
    let (lane, head) = bench.lane_with("t", &[("x", "1")]);
    let ask = |head: &Oid| build(&bench.work, &request(&bench, Strategy::Rebase, &lane.base, head)).unwrap();
    assert_eq!(ask(&lane.base), Candidate::Empty);
    bench.scratch.commit_file("x", "1", "somebody did the same");
    assert_eq!(ask(&head), Candidate::AlreadyIn);
    bench.scratch.git(["reset", "-q", "--hard", head.as_str()]);
    bench.scratch.commit_file("more", "1", "on top");
    assert_eq!(ask(&head), Candidate::AlreadyIn);
}

#[test]
fn a_range_with_a_merge_is_squashed() {
    let bench = Bench::new();
    let (lane, _) = bench.lane_with("t", &[("x", "1")]);
    bench.git_in(&lane.path, &["switch", "-q", "-c", "side", lane.base.as_str()]);
    fs::write(lane.path.join("y"), "2").unwrap();
    let side = bench.scratch.commit_all_in(&lane.path, "side");
    bench.git_in(&lane.path, &["checkout", "-q", "--detach", "HEAD@{2}"]);
    bench.git_in(&lane.path, &["merge", "-q", "--no-edit", &side]);
    bench.scratch.commit_file("z", "3", "target moved");
    let (commit, _) = clean(
        build(
            &bench.work,
            &request(&bench, Strategy::Rebase, &lane.base, &bench.lanes.take_over(&lane).unwrap()),
        )
        .unwrap(),
    );
    assert_eq!(
        bench.scratch.git(["log", "-1", "--format=%B", commit.as_str()]),
        "land it\n\nRegatta-Task: t"
    );
    assert_eq!(bench.rev(&format!("{commit}^")), bench.rev("main"));
}

#[test]
fn dependencies_are_combined_into_one_base() {
    let bench = Bench::new();
    let (_, a) = bench.lane_with("a", &[("a", "1")]);
    let (_, b) = bench.lane_with("b", &[("b", "1")]);
    let (_, c) = bench.lane_with("c", &[("a", "2")]);
    let tip = bench.rev("main");
    let put = |heads: &[Oid]| combine(&bench.work, &tip, heads, &bench.work.identity(), AT).unwrap();
    assert_eq!(put(std::slice::from_ref(&tip)), Combined::Base(tip.clone()));
    assert_eq!(put(std::slice::from_ref(&a)), Combined::Base(a.clone()));
    let Combined::Base(both) = put(&[a.clone(), b.clone()]) else { panic!("conflict") };
    assert_eq!(put(&[a.clone(), b]), Combined::Base(both.clone()));
    assert_eq!(bench.scratch.git(["ls-tree", "--name-only", both.as_str()]), "README.md\na\nb");
    assert!(matches!(put(&[a, c]), Combined::Conflict { paths: found, .. } if found == paths(&["a"])));
}

#[test]
fn a_clean_checkout_follows_the_target() {
    let bench = Bench::new();
    let old = bench.rev("main");
    let (_, new) = bench.lane_with("t", &[("README.md", "landed\n"), ("new", "1")]);
    let root = bench.scratch.root().to_owned();
    assert_eq!(land(&bench, &old, &new), Published::Moved { followed: vec![root.clone()], kept: vec![] });
    assert_eq!(bench.rev("main"), new);
    assert_eq!(bench.scratch.git(["status", "--porcelain"]), "");
    assert_eq!(fs::read_to_string(root.join("README.md")).unwrap(), "landed\n");
    assert!(bench.scratch.git(["reflog", "-1", "main"]).contains("regatta: land"));
    assert!(!root.join(".git/index.lock").exists());
}

#[test]
fn changes_elsewhere_stay_and_changes_in_the_way_make_it_wait() {
    let bench = Bench::new();
    bench.scratch.commit_file("other", "o\n", "more");
    let old = bench.rev("main");
    let (_, new) = bench.lane_with("t", &[("README.md", "landed\n"), ("new", "1")]);
    let root = bench.scratch.root().to_owned();
    let waits_for = |names: &[&str]| {
        let before = (bench.scratch.snapshot(), bench.scratch.git(["status", "--porcelain", "--ignored"]));
        let expected = Published::WaitingForCheckout {
            worktree: root.clone(),
            paths: paths(names),
            why: WaitingFor::LocalChanges,
        };
        assert_eq!(land(&bench, &old, &new), expected);
        assert_eq!(bench.rev("main"), old);
        assert_eq!(
            (bench.scratch.snapshot(), bench.scratch.git(["status", "--porcelain", "--ignored"])),
            before
        );
    };
    bench.scratch.write("README.md", "mine\n");
    waits_for(&["README.md"]);
    bench.scratch.git(["add", "README.md"]);
    waits_for(&["README.md"]);
    bench.scratch.git(["reset", "-q", "--hard"]);
    bench.scratch.write("new", "mine");
    waits_for(&["new"]);
    bench.scratch.write(".git/info/exclude", "new\n/.regatta/\n");
    waits_for(&["new"]);
    fs::remove_file(root.join("new")).unwrap();
    bench.scratch.write("other", "mine\n");
    bench.scratch.write("staged", "mine\n");
    bench.scratch.git(["add", "staged"]);
    bench.scratch.write("untracked", "mine\n");
    // Touched without a change: only the times differ.
    bench.scratch.write("README.md", "hello\n");
    assert_eq!(land(&bench, &old, &new), Published::Moved { followed: vec![root.clone()], kept: vec![] });
    assert_eq!(bench.scratch.git(["status", "--porcelain"]), " M other\nA  staged\n?? untracked");
    assert_eq!(fs::read_to_string(root.join("README.md")).unwrap(), "landed\n");
}

#[test]
fn an_ignored_file_in_the_way_is_as_much_the_users_as_any_other() {
    let bench = Bench::new();
    bench.scratch.commit_file(".gitignore", "build.log\n", "ignore");
    let old = bench.rev("main");
    let lane = bench.lane("t");
    regatta_testkit::repo::write(&lane.path.join("build.log"), "the agent's");
    bench.git_in(&lane.path, &["add", "-f", "build.log"]);
    let new = bench.committed(&lane, "forced").oid;
    bench.scratch.write("build.log", "the user's");
    let root = bench.scratch.root().to_owned();
    let waiting = Published::WaitingForCheckout {
        worktree: root,
        paths: paths(&["build.log"]),
        why: WaitingFor::LocalChanges,
    };
    assert_eq!(land(&bench, &old, &new), waiting);
    assert_eq!(bench.rev("main"), old);
    bench.scratch.write("build.log", "the agent's");
    assert!(matches!(land(&bench, &old, &new), Published::Moved { followed, .. } if followed.len() == 1));
    assert_eq!(bench.scratch.git(["status", "--porcelain"]), "");
}

#[test]
fn a_sparse_checkout_follows_and_stays_sparse() {
    let scratch = regatta_testkit::repo::ScratchRepo::new();
    scratch.write("in/file", "1");
    scratch.write("out/file", "1");
    scratch.commit_all("two directories");
    scratch.git(["sparse-checkout", "set", "in"]);
    let bench = Bench::over(scratch);
    let old = bench.rev("main");
    let (lane, new) = bench.lane_with("t", &[("in/file", "2"), ("out/file", "2"), ("out/new", "2")]);
    assert_eq!(bench.git_in(&lane.path, &["status", "--porcelain"]), "");
    assert!(matches!(land(&bench, &old, &new), Published::Moved { followed, .. } if followed.len() == 1));
    assert_eq!(bench.scratch.git(["status", "--porcelain"]), "");
    assert_eq!(fs::read_to_string(bench.scratch.root().join("in/file")).unwrap(), "2");
    assert!(!bench.scratch.root().join("out").exists(), "files outside the sparse patterns were written");
}

#[test]
fn a_checkout_with_a_split_index_follows() {
    let scratch = regatta_testkit::repo::ScratchRepo::new();
    scratch.git(["update-index", "--split-index"]);
    let bench = Bench::over(scratch);
    let old = bench.rev("main");
    let (_, new) = bench.lane_with("t", &[("README.md", "2\n")]);
    assert!(matches!(land(&bench, &old, &new), Published::Moved { followed, .. } if followed.len() == 1));
    assert_eq!(bench.scratch.git(["status", "--porcelain"]), "");
}

#[test]
fn a_merge_in_progress_or_a_held_index_makes_it_wait() {
    let bench = Bench::new();
    let old = bench.rev("main");
    let (_, new) = bench.lane_with("t", &[("new", "1")]);
    bench.scratch.write(".git/MERGE_HEAD", format!("{new}\n"));
    assert!(matches!(
        land(&bench, &old, &new),
        Published::WaitingForCheckout { why: WaitingFor::Unfinished(_), .. }
    ));
    fs::remove_file(bench.scratch.root().join(".git/MERGE_HEAD")).unwrap();
    bench.scratch.write(".git/index.lock", "regatta landing {\"boot_id\":\"b\",\"pid\":1,\"starttime\":1}\n");
    bench.scratch.write("new", "in the way: the dead lock of a landing of ours is not");
    assert!(matches!(
        land(&bench, &old, &new),
        Published::WaitingForCheckout { why: WaitingFor::LocalChanges, .. }
    ));
    bench.scratch.write(".git/index.lock", "");
    assert!(matches!(
        land(&bench, &old, &new),
        Published::WaitingForCheckout { why: WaitingFor::Locked, .. }
    ));
    assert!(bench.scratch.root().join(".git/index.lock").exists(), "the user's lock is the user's");
    assert_eq!(bench.rev("main"), old);
}

#[test]
fn a_target_nobody_has_checked_out_just_moves() {
    let bench = Bench::new();
    bench.scratch.git(["switch", "-q", "-c", "elsewhere"]);
    let before = bench.scratch.snapshot();
    let old = bench.rev("main");
    let (_, new) = bench.lane_with("t", &[("new", "1")]);
    assert_eq!(land(&bench, &old, &new), Published::Moved { followed: vec![], kept: vec![] });
    assert_eq!((bench.rev("main"), bench.scratch.snapshot()), (new, before));
}

#[test]
fn a_target_that_moved_under_us_is_left_where_it_is() {
    let bench = Bench::new();
    let old = bench.rev("main");
    let (_, new) = bench.lane_with("t", &[("new", "1")]);
    bench.scratch.commit_file("rival", "x", "rival");
    let now = bench.rev("main");
    assert_eq!(land(&bench, &old, &new), Published::TargetMoved { now: Some(now.clone()) });
    assert_eq!(bench.rev("main"), now);
    let create =
        PublishRequest { target: "release/x".into(), old: None, new: new.clone(), message: "m".into() };
    assert!(matches!(publish(&bench.repo, &bench.work, &create).unwrap(), Published::Moved { .. }));
    assert_eq!(bench.rev("release/x"), new);
}

#[test]
fn after_a_crash_the_checkout_follows_unless_the_user_changed_it() {
    let bench = Bench::new();
    let old = bench.rev("main");
    let (_, new) = bench.lane_with("t", &[("README.md", "landed\n"), ("new", "1")]);
    let root = bench.scratch.root().to_owned();
    let crash = || {
        bench.scratch.git(["reset", "-q", "--hard", old.as_str()]);
        bench.scratch.git(["clean", "-qfd"]);
        bench.scratch.git(["update-ref", "refs/heads/main", new.as_str()]);
        bench.scratch.write(".git/index.lock", "regatta landing 1\n");
    };
    let resume = || resume_follow(&bench.repo, &bench.work, "main", &old, &new).unwrap();
    crash();
    assert_eq!(resume(), vec![root.clone()]);
    assert_eq!(bench.scratch.git(["status", "--porcelain"]), "");
    assert_eq!(resume(), Vec::<std::path::PathBuf>::new());
    // The process died between two files.
    crash();
    bench.scratch.write("new", "1");
    assert_eq!(resume(), vec![root]);
    assert_eq!(bench.scratch.git(["status", "--porcelain"]), "");
    // What the user wrote meanwhile stays, and nothing of the landing is staged to be taken back.
    crash();
    bench.scratch.write("README.md", "the user's\n");
    assert_eq!(resume(), vec![bench.scratch.root().to_owned()]);
    assert_eq!(bench.scratch.git(["status", "--porcelain"]).trim(), "M README.md");
    assert_eq!(bench.scratch.git(["diff", "--cached", "--name-only"]), "");
    assert_eq!(fs::read_to_string(bench.scratch.root().join("README.md")).unwrap(), "the user's\n");
    // An index that is neither the old one nor on record is the user's.
    crash();
    bench.scratch.write("README.md", "the user's\n");
    fs::remove_file(bench.scratch.root().join(".git/index.lock")).unwrap();
    bench.scratch.git(["add", "README.md"]);
    let before = bench.scratch.snapshot();
    assert!(resume().is_empty());
    assert_eq!(bench.scratch.snapshot(), before);
}

#[test]
fn a_checkout_that_a_full_disk_stopped_half_way_follows_once_there_is_room() {
    let scratch = ScratchRepo::new();
    let (bin, full) = (scratch.outside().join("bin"), scratch.outside().join("full"));
    fs::create_dir(&bin).unwrap();
    // As git does on a full disk: one file whole, of the next only the beginning, no index.
    let half = format!("cd '{}'; echo new >b; printf ne >c", scratch.root().display());
    let failing = "echo 'error: unable to write file c' >&2; exit 128";
    script(
        &bin.join("git"),
        &format!(
            "PATH=${{PATH#*:}}\ncase \" $* \" in *' checkout '*|*' checkout-index '*) if [ -e '{}' ]; then {half}; {failing}; fi;; esac\nexec git \"$@\"",
            full.display()
        ),
    );
    let bench = Bench::with_programs(scratch, &bin);
    bench.scratch.commit_file("b", "old\n", "b");
    bench.scratch.commit_file("mine", "old\n", "mine");
    let old = bench.rev("main");
    let (_, new) = bench.lane_with("t", &[("b", "new\n"), ("c", "new\n"), ("d", "new\n")]);
    bench.scratch.write("mine", "changed\n");
    fs::write(&full, "").unwrap();
    let Published::HalfWay { why } = land(&bench, &old, &new) else { panic!("it cannot have followed") };
    assert!(why.contains("unable to write file c"), "{why}");
    assert_eq!(bench.rev("main"), new);
    assert_eq!(
        bench.scratch.git(["diff", "--cached", "--name-only"]),
        "",
        "nothing is staged to be taken back"
    );
    let waits = land(&bench, &new, &old);
    assert!(matches!(waits, Published::Unfinished { .. }), "nobody overtakes: {waits:?}");
    fs::remove_file(&full).unwrap();
    let looked = unfinished::finish(&bench.repo, &bench.work).unwrap();
    assert_eq!(looked.finished, [(bench.scratch.root().to_owned(), Vec::new())]);
    assert_eq!(unfinished::finish(&bench.repo, &bench.work).unwrap(), unfinished::Looked::default());
    assert_eq!(bench.scratch.git(["status", "--porcelain"]).trim(), "M mine");
    assert_eq!(fs::read_to_string(bench.scratch.root().join("mine")).unwrap(), "changed\n");
}

#[test]
fn git_that_a_killed_landing_left_in_the_checkout_is_waited_for() {
    let bench = Bench::new();
    let old = bench.rev("main");
    let (_, new) = bench.lane_with("t", &[("new", "1")]);
    bench.scratch.git(["update-ref", "refs/heads/main", new.as_str()]);
    let root = bench.scratch.root();
    let done = bench.scratch.outside().join("done");
    let mut orphan = std::process::Command::new("sh")
        .args(["-c", &format!("sleep 0.5; printf 1 >new; touch '{}'", done.display())])
        .current_dir(root)
        .env("GIT_INDEX_FILE", root.join(".git/index.regatta-7-1"))
        .spawn()
        .unwrap();
    // For a moment after its start a process has no environment that anybody could see.
    let environ = format!("/proc/{}/environ", orphan.id());
    while !fs::read_to_string(&environ).unwrap().contains("index.regatta-7-1") {
        std::thread::yield_now();
    }
    let followed = resume_follow(&bench.repo, &bench.work, "main", &old, &new).unwrap();
    assert!(done.exists(), "it was not waited for");
    orphan.wait().unwrap();
    assert_eq!(followed, [root]);
    assert_eq!(bench.scratch.git(["status", "--porcelain"]), "");
}

#[test]
fn a_change_of_the_same_length_in_the_same_moment_is_the_users() {
    let bench = Bench::new();
    bench.scratch.commit_file("same.txt", "one\n", "before");
    let (_, head) = bench.lane_with("t", &[("same.txt", "two\n")]);
    // Written right after the checkout, with the very times the index has: only its content tells.
    let root = bench.scratch.root();
    let index = fs::metadata(root.join(".git/index")).unwrap().modified().unwrap();
    let path = root.join("same.txt");
    let known = fs::metadata(&path).unwrap().modified().unwrap();
    fs::write(&path, "ten\n").unwrap();
    let file = fs::File::options().write(true).open(&path).unwrap();
    file.set_modified(known.max(index)).unwrap();
    bench.scratch.git(["update-index", "-q", "--refresh"]);
    let old = bench.rev("main");
    let waits = land(&bench, &old, &head);
    assert!(
        matches!(waits, Published::WaitingForCheckout { why: WaitingFor::LocalChanges, .. }),
        "{waits:?}"
    );
    assert_eq!(fs::read_to_string(&path).unwrap(), "ten\n");
}
