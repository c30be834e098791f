//! Agents can write the shared `.git`: what they plant there must never run in Regatta's own git.

use std::fs;
use std::path::{Path, PathBuf};

use regatta_engine::landing::candidate::{CandidateRequest, Strategy, build};
use regatta_engine::landing::publish::{PublishRequest, Published, publish};
use regatta_engine::lanes::RetireMode;
use regatta_testkit::repo::{ScratchRepo, script, write};

use crate::fixture::{AT, Bench, id};

/// Plants everything git is known to run, so that each leaves `sentinel` behind.
fn plant(bench: &Bench, git_dir: &Path, sentinel: &Path) {
    let evil = bench.scratch.outside().join("evil.sh");
    script(&evil, &format!("echo \"$0 $*\" >> '{}'; cat", sentinel.display()));
    let evil = evil.to_str().unwrap();
    let config = git_dir.join("config");
    let config = config.to_str().unwrap();
    let settings = [
        ("filter.evil.clean", evil),
        ("filter.evil.smudge", evil),
        ("filter.evil.process", evil),
        ("core.fsmonitor", evil),
        ("core.sshCommand", evil),
        ("core.pager", evil),
        ("core.editor", evil),
        ("diff.evil.textconv", evil),
        ("diff.external", evil),
        ("merge.evil.driver", evil),
        ("gpg.program", evil),
        ("commit.gpgsign", "true"),
        ("core.alternateRefsCommand", evil),
        ("gc.auto", "1"),
        ("user.name", "Mallory"),
    ];
    for (key, value) in settings {
        bench.scratch.git(["config", "-f", config, key, value]);
    }
    let all = [
        "applypatch-msg",
        "pre-commit",
        "prepare-commit-msg",
        "commit-msg",
        "post-commit",
        "post-checkout",
        "post-merge",
        "reference-transaction",
        "post-index-change",
        "pre-auto-gc",
        "post-rewrite",
        "fsmonitor-watchman",
    ];
    for hook in all {
        script(&git_dir.join("hooks").join(hook), &format!("echo {hook} >> '{}'", sentinel.display()));
    }
    write(&git_dir.join("info/attributes"), "* filter=evil diff=evil merge=evil\n");
}

#[test]
fn nothing_an_agent_plants_ever_runs() {
    let bench = Bench::new();
    bench.scratch.commit_file("both", "1\n2\n3\n4\n5\n", "more");
    let lane = bench.lane("t");
    let sentinel: PathBuf = bench.scratch.outside().join("sentinel");
    plant(&bench, &bench.repo.common_dir, &sentinel);
    write(&lane.path.join(".gitattributes"), "* filter=evil diff=evil merge=evil\n");
    write(&lane.path.join("both"), "1\n2\n3\n4\nlane\n");

    assert!(bench.work.is_dirty(&lane.path).unwrap());
    assert!(bench.work.is_dirty(bench.scratch.root()).is_ok());
    bench.lanes.salvage(&lane, "test", AT).unwrap().unwrap();
    let committed = bench.committed(&lane, "m");
    bench.lanes.set_branch(&lane).unwrap();
    bench.lane("other");
    let other = bench.lanes.reader(&lane.task, &bench.rev("main"), AT).unwrap();
    bench.work.diff(&other.base, &committed.oid).unwrap();
    bench.work.changed_paths(&lane.path, &lane.base).unwrap();
    assert!(!sentinel.exists(), "{}", fs::read_to_string(&sentinel).unwrap());

    // The user's own git may run what is planted; it is Regatta's that must not.
    let rival = bench.scratch.git([
        "-c",
        "core.hooksPath=/dev/null",
        "commit-tree",
        "main^{tree}",
        "-p",
        "main",
        "-m",
        "rival",
    ]);
    let tip = bench.rev(&rival);
    fs::remove_file(&sentinel).ok();
    let request = CandidateRequest {
        strategy: Strategy::Rebase,
        target_tip: tip,
        base: lane.base.clone(),
        head: committed.oid,
        message: "m".into(),
        identity: bench.work.identity(),
        at: AT,
        trailers: vec![],
    };
    let built = build(&bench.work, &request).unwrap();
    let regatta_engine::landing::candidate::Candidate::Clean { commit, .. } = built else {
        panic!("{built:?}")
    };
    let request = PublishRequest {
        target: "main".into(),
        old: Some(lane.base.clone()),
        new: commit,
        message: "m".into(),
    };
    let published = publish(&bench.repo, &bench.work, &request).unwrap();
    assert_eq!(published, Published::Moved { followed: vec![bench.scratch.root().to_owned()], kept: vec![] });
    bench.lanes.fresh(&id("t"), &lane.base, AT).unwrap();
    bench.lanes.retire(&id("t"), RetireMode::SalvageFirst, AT).unwrap();
    assert!(!sentinel.exists(), "{}", fs::read_to_string(&sentinel).unwrap());
    assert_eq!(fs::read_to_string(bench.scratch.root().join("both")).unwrap(), "1\n2\n3\n4\nlane\n");
}

#[test]
fn what_is_planted_in_a_submodule_does_not_run_either() {
    let (scratch, other) = (ScratchRepo::new(), ScratchRepo::new());
    scratch.git([
        "-c",
        "protocol.file.allow=always",
        "submodule",
        "add",
        "-q",
        other.root().to_str().unwrap(),
        "sub",
    ]);
    scratch.commit_all("with a submodule");
    let bench = Bench::over(scratch);
    let lane = bench.lane("t");
    let sentinel = bench.scratch.outside().join("sentinel");
    plant(&bench, &lane.git_dir().join("modules/sub"), &sentinel);
    write(&lane.path.join("sub/README.md"), "dirty\n");
    write(&lane.path.join("x"), "work");
    assert!(bench.work.is_dirty(&lane.path).unwrap());
    let outcome = bench.commit(&lane, "m");
    assert!(matches!(outcome, regatta_engine::lanes::CommitOutcome::DirtySubmodule { .. }), "{outcome:?}");
    bench.lanes.salvage(&lane, "test", AT).unwrap().unwrap();
    bench.lanes.retire(&id("t"), RetireMode::SalvageFirst, AT).unwrap();
    assert!(!sentinel.exists(), "{}", fs::read_to_string(&sentinel).unwrap());
}

#[test]
fn the_users_own_filters_work() {
    let scratch = ScratchRepo::new();
    scratch.git(["config", "filter.shout.clean", "tr a-z A-Z"]);
    scratch.git(["config", "filter.shout.smudge", "tr A-Z a-z"]);
    scratch.write(".gitattributes", "*.txt filter=shout\n");
    scratch.write("a.txt", "hello\n");
    scratch.commit_all("filtered");
    let bench = Bench::over(scratch);
    let lane = bench.lane("t");
    assert_eq!(fs::read_to_string(lane.path.join("a.txt")).unwrap(), "hello\n");
    assert!(!bench.work.is_dirty(&lane.path).unwrap());
    write(&lane.path.join("a.txt"), "bye\n");
    let committed = bench.committed(&lane, "m");
    assert_eq!(bench.scratch.git(["cat-file", "blob", &format!("{}:a.txt", committed.oid)]), "BYE");
}

#[test]
fn a_changed_shared_hook_gives_way_to_the_copy_taken_before() {
    let scratch = ScratchRepo::new();
    let hook = scratch.root().join(".git/hooks/pre-commit");
    script(&hook, "echo the user > hook-ran");
    let bench = Bench::over(scratch);
    let lane = bench.lane("t");
    script(&hook, "echo the agent > hook-ran");
    write(&lane.path.join("x"), "1");
    bench.committed(&lane, "m");
    assert_eq!(fs::read_to_string(lane.path.join("hook-ran")).unwrap(), "the user\n");
}

#[test]
fn a_hook_of_the_lane_runs_only_while_the_agent_left_it_alone() {
    let scratch = ScratchRepo::new();
    scratch.git(["config", "core.hooksPath", ".githooks"]);
    script(&scratch.root().join(".githooks/pre-commit"), "echo ran >> ../ran");
    scratch.git(["-c", "core.hooksPath=/dev/null", "add", "-A"]);
    scratch.git(["-c", "core.hooksPath=/dev/null", "commit", "-q", "-m", "hooks"]);
    let bench = Bench::over(scratch);
    let ran = || fs::read_to_string(bench.lanes.root().join("ran")).unwrap_or_default();
    let lane = bench.lane("t");
    write(&lane.path.join("x"), "1");
    bench.committed(&lane, "m");
    assert_eq!(ran(), "ran\n");
    script(&lane.path.join(".githooks/pre-commit"), "echo evil >> ../ran");
    let outcome = bench.commit(&lane, "m");
    assert!(matches!(outcome, regatta_engine::lanes::CommitOutcome::HookChanged { .. }), "{outcome:?}");
    assert_eq!(ran(), "ran\n");
}
