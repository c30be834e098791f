//! Lanes: made, kept, healed, saved and taken away.

use std::fs;

use regatta_engine::lanes::{KeptBecause, RetireMode, Retired};
use regatta_testkit::repo::{ScratchRepo, write};

use crate::fixture::{AT, Bench, id, paths};

#[test]
fn a_lane_is_a_clean_worktree_that_git_knows_and_an_agent_can_commit_in() {
    let bench = Bench::new();
    let before = bench.scratch.snapshot();
    let lane = bench.lane("PRD-010");
    assert_eq!(bench.git_in(&lane.path, &["status", "--porcelain"]), "");
    assert!(bench.scratch.git(["worktree", "list"]).contains("PRD-010"));
    write(&lane.path.join("x"), "1");
    let commit = bench.scratch.commit_all_in(&lane.path, "agent's own");
    assert_eq!(lane.head().unwrap().as_str(), commit);
    assert_eq!(bench.scratch.snapshot(), before);
    assert_eq!(bench.scratch.git(["status", "--porcelain"]), "");
    bench.scratch.git(["fsck", "--strict"]);
}

#[test]
fn a_retry_finds_the_lane_as_the_last_attempt_left_it() {
    let bench = Bench::new();
    let lane = bench.lane("t");
    write(&lane.path.join("half"), "done");
    bench.scratch.commit_file("later", "x", "the target moved");
    let again = bench.lane("t");
    assert_eq!((&again.base, again.head().unwrap()), (&lane.base, lane.base.clone()));
    assert!(again.path.join("half").exists());
}

#[test]
fn many_lanes_at_once_never_fail() {
    let bench = Bench::new();
    let base = bench.rev("main");
    std::thread::scope(|scope| {
        for n in 0..64 {
            let (lanes, base) = (&bench.lanes, &base);
            scope.spawn(move || lanes.prepare(&id(&format!("t{n}")), base).unwrap());
        }
    });
    assert_eq!(bench.scratch.git(["worktree", "list"]).lines().count(), 65);
    assert_eq!(bench.lanes.list().unwrap().iter().filter(|lane| lane.broken.is_none()).count(), 64);
    assert!(!bench.repo.common_dir.join("regatta.aside").exists());
}

/// Git goes by times: a file that is changed in the second of the checkout, to the same length, looks unchanged to
/// whoever takes the index to be newer than that.
#[test]
fn what_was_changed_in_the_second_of_the_checkout_is_saved_and_shown_all_the_same() {
    let scratch = ScratchRepo::new();
    scratch.git(["config", "core.trustctime", "false"]);
    scratch.commit_file("file", "aaaa\n", "more");
    let bench = Bench::over(scratch);
    let lane = bench.lane("t");
    let file = lane.path.join("file");
    // An hour ago, so that the copy is made in another second.
    let at = fs::metadata(&file).unwrap().modified().unwrap() - std::time::Duration::from_secs(3600);
    let age = |path: &std::path::Path| {
        fs::File::options().write(true).open(path).unwrap().set_modified(at).unwrap();
    };
    age(&file);
    bench.git_in(&lane.path, &["update-index", "--refresh"]);
    write(&file, "bbbb\n");
    age(&file);
    age(&lane.git_dir().join("index"));
    let shown = bench.lanes.diff(&lane, &lane.base, regatta_engine::git::DiffStyle::Patch).unwrap();
    assert!(String::from_utf8_lossy(&shown).contains("+bbbb"), "the diff shows it");
    let saved = bench.lanes.salvage(&lane, "testing", AT).unwrap().unwrap();
    assert_eq!(bench.scratch.git(["show", &format!("{}:file", saved.oid)]), "bbbb");
}

#[test]
fn a_lane_whose_record_cannot_be_written_leaves_no_directory_that_nobody_knows() {
    let bench = Bench::new();
    // Nothing is there to be read, and nothing can be written, as on a full disk.
    fs::create_dir_all(&bench.repo.state_dir).unwrap();
    std::os::unix::fs::symlink("nowhere/at/all", bench.repo.state_dir.join("lanes")).unwrap();
    bench.lanes.prepare(&id("t"), &bench.rev("main")).unwrap_err();
    assert!(!bench.lanes.root().join("t").exists());
    assert_eq!(bench.scratch.git(["worktree", "list"]).lines().count(), 1);
}

#[test]
fn a_healing_that_was_killed_is_done_again_and_deletes_nothing() {
    let bench = Bench::new();
    let (lane, head) = bench.lane_with("t", &[("work", "1"), ("more", "2")]);
    fs::remove_dir_all(&lane.path).unwrap();
    // As a kill between the directory and the last of its files leaves it.
    fs::create_dir(&lane.path).unwrap();
    fs::write(lane.path.join(".git"), format!("gitdir: {}\n", lane.git_dir().display())).unwrap();
    fs::write(lane.path.join("work"), "1").unwrap();
    let record = bench.repo.state_dir.join("lanes/t.json");
    let mut known: serde_json::Value = serde_json::from_slice(&fs::read(&record).unwrap()).unwrap();
    known["healing"] = true.into();
    fs::write(&record, known.to_string()).unwrap();
    let lane = bench.lane("t");
    assert_eq!(lane.head().unwrap(), head);
    assert_eq!(bench.git_in(&lane.path, &["status", "--porcelain"]), "");
    assert_eq!(fs::read_to_string(lane.path.join("more")).unwrap(), "2");
    // Healed is healed: from now on what is missing was deleted by somebody.
    fs::remove_file(lane.path.join("more")).unwrap();
    assert_eq!(bench.git_in(&bench.lane("t").path, &["status", "--porcelain"]).trim(), "D more");
}

#[test]
fn salvage_keeps_untracked_staged_and_deleted_work_and_leaves_the_lane_alone() {
    let bench = Bench::new();
    bench.scratch.commit_file("doomed", "x", "more");
    let lane = bench.lane("t");
    write(&lane.path.join("README.md"), "staged\n");
    bench.git_in(&lane.path, &["add", "README.md"]);
    write(&lane.path.join("README.md"), "and changed again\n");
    write(&lane.path.join("new"), "untracked");
    fs::remove_file(lane.path.join("doomed")).unwrap();
    let before = bench.git_in(&lane.path, &["status", "--porcelain"]);
    let saved = bench.lanes.salvage(&lane, "testing", AT).unwrap().unwrap();
    assert_eq!(bench.git_in(&lane.path, &["status", "--porcelain"]), before);
    let show = |what: &str| bench.scratch.git(["show", &format!("{}{what}", saved.oid)]);
    assert_eq!((show(":README.md"), show(":new")), ("and changed again".into(), "untracked".into()));
    assert_eq!(show("^2:README.md"), "staged");
    assert_eq!(bench.scratch.git(["ls-tree", "--name-only", saved.oid.as_str()]), "README.md\nnew");
    let listed = regatta_engine::git::salvages(&bench.repo).unwrap();
    assert_eq!(
        (listed[0].task.as_str(), listed[0].subject.as_str(), listed[0].at),
        ("t", "salvage t: testing", AT)
    );
}

#[test]
fn fresh_saves_everything_first_and_starts_again_at_the_new_base() {
    let bench = Bench::new();
    let (lane, first) = bench.lane_with("t", &[("x", "committed")]);
    write(&lane.path.join("y"), "uncommitted");
    write(&lane.path.join("README.md"), "changed");
    let base = bench.scratch.commit_file("moved", "on", "target moved");
    let fresh = bench.lanes.fresh(&id("t"), &bench.rev(&base), AT).unwrap();
    assert_eq!(fresh.lane.head().unwrap().as_str(), base);
    assert_eq!(bench.git_in(&lane.path, &["status", "--porcelain", "-uall"]), "");
    assert!(!lane.path.join("y").exists() && lane.path.join("moved").exists());
    let saved = fresh.salvaged.unwrap().oid;
    assert_eq!(bench.scratch.git(["show", &format!("{saved}:y")]), "uncommitted");
    assert_eq!(bench.rev(&format!("{saved}^")), first);
}

#[test]
fn retiring_a_clean_lane_leaves_nothing_behind() {
    let bench = Bench::new();
    let lane = bench.lane("t");
    let retired = bench.lanes.retire(&id("t"), RetireMode::IfClean, AT).unwrap();
    assert_eq!(retired, Retired::Removed { salvaged: None });
    assert!(!lane.path.exists() && !lane.git_dir().exists());
    assert_eq!(bench.scratch.git(["worktree", "list"]).lines().count(), 1);
    assert_eq!(fs::read_dir(bench.lanes.root()).unwrap().count(), 0);
    assert_eq!(bench.lanes.retire(&id("t"), RetireMode::IfClean, AT).unwrap(), Retired::NoLane);
}

#[test]
fn retiring_never_deletes_unsaved_work() {
    let bench = Bench::new();
    let lane = bench.lane("t");
    write(&lane.path.join("x"), "work");
    let kept = bench.lanes.retire(&id("t"), RetireMode::IfClean, AT).unwrap();
    assert_eq!(kept, Retired::Kept(KeptBecause::Uncommitted { paths: paths(&["x"]) }));
    bench.committed(&lane, "m");
    let kept = bench.lanes.retire(&id("t"), RetireMode::IfClean, AT).unwrap();
    assert_eq!(kept, Retired::Kept(KeptBecause::Unreferenced));
    let head = lane.head().unwrap();
    write(&lane.path.join("nested/file"), "x");
    bench.git_in(&lane.path.join("nested"), &["init", "-q"]);
    let kept = bench.lanes.retire(&id("t"), RetireMode::SalvageFirst, AT).unwrap();
    assert_eq!(kept, Retired::Kept(KeptBecause::NestedRepository { paths: paths(&["nested"]) }));
    fs::remove_dir_all(lane.path.join("nested")).unwrap();
    let Retired::Removed { salvaged: Some(saved) } =
        bench.lanes.retire(&id("t"), RetireMode::SalvageFirst, AT).unwrap()
    else {
        panic!("not salvaged")
    };
    assert_eq!(saved.oid, head);
    assert!(!lane.path.exists());
}

#[test]
fn the_branch_follows_the_lane_and_a_tip_made_by_hand_is_saved() {
    let bench = Bench::new();
    let (lane, head) = bench.lane_with("t", &[("x", "1")]);
    bench.lanes.set_branch(&lane).unwrap();
    assert_eq!(bench.rev("regatta/t"), head);
    let by_hand = bench.scratch.git(["commit-tree", "main^{tree}", "-p", "main", "-m", "by hand"]);
    bench.scratch.git(["update-ref", "refs/heads/regatta/t", &by_hand]);
    bench.lanes.set_branch(&lane).unwrap();
    assert_eq!(bench.rev("regatta/t"), head);
    assert_eq!(bench.scratch.rev("refs/regatta/salvage/t/1"), by_hand);
    let retired = bench.lanes.retire(&id("t"), RetireMode::IfClean, AT).unwrap();
    assert_eq!(retired, Retired::Removed { salvaged: None });
}

#[test]
fn broken_lanes_are_healed_with_their_work() {
    for breakage in 0..6 {
        let bench = Bench::new();
        let (lane, head) = bench.lane_with("t", &[("x", "committed")]);
        write(&lane.path.join("y"), "uncommitted");
        match breakage {
            0 => fs::remove_file(lane.path.join(".git")).unwrap(),
            1 => fs::write(lane.git_dir().join("index"), "").unwrap(),
            2 => fs::write(lane.git_dir().join("HEAD"), "").unwrap(),
            3 => fs::remove_dir_all(&lane.path).unwrap(),
            4 => fs::write(lane.path.join(".git"), "gitdir: /somewhere/else\n").unwrap(),
            _ => fs::write(lane.git_dir().join("index.lock"), "").unwrap(),
        }
        let healed = bench.lane("t");
        assert_eq!(healed.head().unwrap(), head, "{breakage}");
        if breakage == 5 {
            bench.committed(&healed, "despite a stale lock");
            continue;
        }
        let expected = if breakage == 3 { "" } else { "?? y" };
        assert_eq!(bench.git_in(&healed.path, &["status", "--porcelain"]), expected, "{breakage}");
        assert_eq!(fs::read_to_string(healed.path.join("x")).unwrap(), "committed");
    }
}

#[test]
fn a_lane_that_git_forgot_keeps_its_files() {
    let bench = Bench::new();
    let (lane, head) = bench.lane_with("t", &[("x", "committed")]);
    bench.lanes.set_branch(&lane).unwrap();
    write(&lane.path.join("y"), "uncommitted");
    fs::remove_dir_all(lane.git_dir()).unwrap();
    let healed = bench.lane("t");
    assert_eq!(healed.head().unwrap(), head);
    assert_eq!(bench.git_in(&healed.path, &["status", "--porcelain"]), "?? y");
}

#[test]
fn lanes_inside_the_checkout_are_refused() {
    let bench = Bench::new();
    for inside in ["lanes", ".git/lanes", "a/../lanes"] {
        let error =
            regatta_engine::lanes::Lanes::new(&bench.repo, &bench.work, &bench.scratch.root().join(inside));
        assert!(error.is_err(), "{inside}");
    }
}

#[test]
fn each_reader_has_a_checkout_of_its_own() {
    let bench = Bench::new();
    let base = bench.rev("main");
    let one = bench.lanes.reader(&id("one"), &base, AT).unwrap();
    let two = bench.lanes.reader(&id("two"), &base, AT).unwrap();
    write(&one.path.join("oops"), "x");
    assert!(!two.path.join("oops").exists());
    // Whoever adopts its agent finds it as it is.
    let adopted = bench.lanes.find_reader(&id("one"), &base).unwrap().unwrap();
    assert!(adopted.path.join("oops").exists());
    let again = bench.lanes.reader(&id("one"), &base, AT).unwrap();
    assert!(!again.path.join("oops").exists());
    assert_eq!(regatta_engine::git::salvages(&bench.repo).unwrap().len(), 1);
    bench.lanes.give_back_reader(&again, AT).unwrap();
    assert!(!again.path.exists() && two.path.join("README.md").exists());
}

#[test]
fn a_first_checkout_that_never_ended_is_begun_again() {
    let bench = Bench::new();
    let lane = bench.lane("t");
    let record = bench.repo.state_dir.join("lanes/t.json");
    let text = fs::read_to_string(&record).unwrap().replace("\"ready\":true", "\"ready\":false");
    fs::write(&record, text).unwrap();
    fs::remove_file(lane.git_dir().join("index")).unwrap();
    fs::write(lane.git_dir().join("index.lock"), "").unwrap();
    fs::remove_file(lane.path.join("README.md")).unwrap();
    let again = bench.lane("t");
    assert_eq!(bench.git_in(&again.path, &["status", "--porcelain"]), "");
    assert!(again.path.join("README.md").exists());
}

#[test]
fn a_lane_at_a_commit_that_does_not_exist_leaves_nothing_behind() {
    let bench = Bench::new();
    let nowhere = crate::fixture::oid(&"1".repeat(40));
    bench.lanes.prepare(&id("t"), &nowhere).unwrap_err();
    assert!(bench.lanes.list().unwrap().is_empty());
    assert_eq!(bench.scratch.git(["worktree", "list"]).lines().count(), 1);
    bench.lane("t");
}

#[test]
fn a_foreign_directory_in_the_lanes_place_is_left_alone() {
    let bench = Bench::new();
    let place = bench.lanes.root().join("t");
    write(&place.join("precious"), "x");
    bench.lanes.prepare(&id("t"), &bench.rev("main")).unwrap_err();
    assert!(place.join("precious").exists());
}

#[test]
fn other_ref_storages_work() {
    let scratch = ScratchRepo::at("repo", "main", &["--ref-format=reftable"]);
    scratch.commit_file("a", "1", "first");
    let bench = Bench::over(scratch);
    let (lane, head) = bench.lane_with("t", &[("b", "2")]);
    bench.lanes.set_branch(&lane).unwrap();
    assert_eq!((lane.head().unwrap(), bench.rev("regatta/t")), (head.clone(), head.clone()));
    assert_eq!(bench.git_in(&lane.path, &["status", "--porcelain"]), "");
    let old = bench.rev("main");
    let request = regatta_engine::landing::publish::PublishRequest {
        target: "main".into(),
        old: Some(old),
        new: head,
        message: "m".into(),
    };
    let published = regatta_engine::landing::publish::publish(&bench.repo, &bench.work, &request).unwrap();
    assert!(
        matches!(published, regatta_engine::landing::publish::Published::Moved { followed, .. } if followed.len() == 1)
    );
    assert_eq!(bench.scratch.git(["status", "--porcelain"]), "");
    assert_eq!(
        bench.lanes.retire(&id("t"), RetireMode::IfClean, AT).unwrap(),
        Retired::Removed { salvaged: None }
    );
}

#[test]
fn a_lane_of_which_only_gits_side_is_left_loses_nothing_when_it_is_made_anew() {
    let bench = Bench::new();
    let (lane, head) = bench.lane_with("t", &[("x", "committed")]);
    write(&lane.path.join("y"), "staged");
    bench.git_in(&lane.path, &["add", "y"]);
    fs::remove_dir_all(&lane.path).unwrap();
    fs::remove_file(bench.repo.state_dir.join("lanes/t.json")).unwrap();
    assert_eq!(bench.lane("t").head().unwrap(), bench.rev("main"));
    assert_eq!(bench.rev("refs/regatta/salvage/t/1"), head);
    assert_eq!(bench.scratch.git(["show", "refs/regatta/salvage/t/2:y"]), "staged");
}
