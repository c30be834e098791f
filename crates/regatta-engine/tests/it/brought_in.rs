//! Files from the user's checkout, and submodules.

use std::fs;

use regatta_engine::landing::boarding::{Boarded, Passenger, board};
use regatta_engine::lanes::{CommitOutcome, Includes, KeptBecause, RetireMode, Retired};
use regatta_testkit::repo::{ScratchRepo, write};

use crate::fixture::{AT, Bench, id, paths};

fn strings(items: &[&str]) -> Vec<String> {
    items.iter().map(|&item| item.to_owned()).collect()
}

#[test]
fn brought_in_files_are_there_and_are_never_committed() {
    let scratch = ScratchRepo::new();
    scratch.write(".gitignore", ".env\n/node_modules/\n");
    scratch.commit_all("ignore");
    let bench = Bench::over(scratch);
    for (name, content) in [
        (".env", "SECRET=1"),
        ("sub dir/.env", "SECRET=2"),
        ("local.json", "{}"),
        ("node_modules/a/b", "x"),
        (".claude/agents/critic.md", "be kind"),
        ("README.md", "the user's own change\n"),
        ("not-this", "x"),
    ] {
        bench.scratch.write(name, content);
    }
    let lane = bench.lane("t");
    let includes = Includes {
        patterns: strings(&["# comment", ".env", "README.md"]),
        include: strings(&["local.*"]),
        link: strings(&["node_modules"]),
        personas: strings(&[".claude/agents"]),
    };
    let done = bench.lanes.bring_in(&lane, &includes).unwrap();
    assert_eq!(done.copied, paths(&[".claude/agents/critic.md", ".env", "local.json", "sub dir/.env"]));
    assert_eq!(done.linked, paths(&["node_modules"]));
    assert_eq!(fs::read_to_string(lane.path.join("README.md")).unwrap(), "hello\n");
    assert_eq!(fs::read_to_string(lane.path.join("node_modules/a/b")).unwrap(), "x");
    assert!(!lane.path.join("not-this").exists());

    assert_eq!(bench.commit(&lane, "m"), CommitOutcome::NothingToCommit);
    assert_eq!(bench.lanes.salvage(&lane, "test", AT).unwrap(), None);
    write(&lane.path.join("work"), "1");
    assert_eq!(bench.committed(&lane, "m").files, paths(&["work"]));
    let again = bench.lanes.bring_in(&lane, &includes).unwrap();
    assert!(again.copied.is_empty() && again.linked.is_empty());
    bench.lanes.set_branch(&lane).unwrap();
    assert!(matches!(
        bench.lanes.retire(&id("t"), RetireMode::IfClean, AT).unwrap(),
        Retired::Removed { .. }
    ));
    assert!(bench.scratch.root().join("node_modules/a/b").exists(), "a link was followed when its lane went");
}

#[test]
fn what_an_agent_commits_of_it_is_taken_out_again_and_its_own_git_ignores_it() {
    let bench = Bench::new();
    bench.scratch.write("local [1].json", "{}");
    let lane = bench.lane("t");
    let includes = Includes { include: strings(&["local*"]), ..Includes::default() };
    bench.lanes.bring_in(&lane, &includes).unwrap();
    let mut command = std::process::Command::new("git");
    command.current_dir(&lane.path).env_clear().envs(bench.scratch.env());
    assert_eq!(bench.lanes.agent_git_env(&lane).unwrap(), []);
    let status = command.args(["status", "--porcelain"]).output().unwrap();
    assert_eq!(String::from_utf8(status.stdout).unwrap(), "");
    bench.git_in(&lane.path, &["add", "-f", "local [1].json"]);
    bench.git_in(&lane.path, &["commit", "-q", "-m", "took it all the same"]);
    write(&lane.path.join("work"), "1");
    bench.lanes.rebuild_index(&lane).unwrap();
    let committed = bench.committed(&lane, "m");
    assert_eq!(bench.git_in(&lane.path, &["ls-tree", "--name-only", "HEAD"]), "README.md\nwork");
    let (task, target) = (&lane.task, "main");
    let work = Passenger {
        task,
        attempt: 1,
        siblings: &Default::default(),
        base: &lane.base,
        head: &committed.oid,
        target,
    };
    let Boarded::Fit { head, taken_out, large } = board(&bench.lanes, &work, &str::to_owned).unwrap() else {
        panic!("it is fit to land");
    };
    assert_eq!((taken_out, large), (paths(&["local [1].json"]), vec![]));
    let range = format!("{}..{head}", lane.base);
    assert_eq!(bench.git_in(&lane.path, &["log", "--format=", "--name-only", &range]), "work");
    assert!(lane.path.join("local [1].json").exists());
}

#[test]
fn nothing_is_written_outside_the_lane() {
    let scratch = ScratchRepo::new();
    std::os::unix::fs::symlink("../../outside", scratch.root().join("link")).unwrap();
    scratch.commit_all("a link that leads out");
    fs::remove_file(scratch.root().join("link")).unwrap();
    let bench = Bench::over(scratch);
    bench.scratch.write("link/.env", "x");
    let outside = bench.scratch.outside().join("outside");
    fs::create_dir(&outside).unwrap();
    let lane = bench.lane("t");
    for bad in ["../x", "/etc/passwd", "a/../../x", ".git/config", ""] {
        let includes = Includes { include: strings(&[bad]), ..Includes::default() };
        assert!(bench.lanes.bring_in(&lane, &includes).is_err(), "{bad}");
        let includes = Includes { link: strings(&[bad]), ..Includes::default() };
        assert!(bench.lanes.bring_in(&lane, &includes).is_err(), "{bad}");
    }
    let includes = Includes { patterns: strings(&[".env"]), ..Includes::default() };
    let done = bench.lanes.bring_in(&lane, &includes).unwrap();
    assert_eq!(done.skipped, vec![("link/.env".into(), "a link or a file is in its way")]);
    assert_eq!(fs::read_dir(outside).unwrap().count(), 0);
}

fn with_submodule() -> (Bench, ScratchRepo) {
    let (scratch, other) = (ScratchRepo::new(), ScratchRepo::new());
    let url = other.root().to_str().unwrap();
    scratch.git([
        "-c",
        "protocol.file.allow=always",
        "submodule",
        "add",
        "-q",
        "--name",
        "a/name",
        url,
        "deep/sub",
    ]);
    scratch.commit_all("with a submodule");
    (Bench::over(scratch), other)
}

#[test]
fn submodules_are_filled_without_a_network() {
    let (bench, other) = with_submodule();
    fs::rename(other.root(), other.outside().join("gone")).unwrap();
    let lane = bench.lane("t");
    assert_eq!(lane.warnings, Vec::<String>::new());
    assert_eq!(fs::read_to_string(lane.path.join("deep/sub/README.md")).unwrap(), "hello\n");
    assert_eq!(bench.git_in(&lane.path, &["status", "--porcelain"]), "");
    assert!(bench.git_in(&lane.path, &["submodule", "status"]).contains("deep/sub"));
    let retired = bench.lanes.retire(&id("t"), RetireMode::IfClean, AT).unwrap();
    assert_eq!(retired, Retired::Removed { salvaged: None });
}

#[test]
fn a_submodule_nobody_has_is_a_warning() {
    let (bench, _other) = with_submodule();
    fs::remove_dir_all(bench.repo.common_dir.join("modules")).unwrap();
    let lane = bench.lane("t");
    assert_eq!(lane.warnings.len(), 1, "{:?}", lane.warnings);
    assert!(lane.warnings[0].contains("deep/sub"));
    write(&lane.path.join("x"), "1");
    assert_eq!(bench.committed(&lane, "m").files, paths(&["x"]));
}

#[test]
fn commits_made_in_a_submodule_outlive_the_lane_and_uncommitted_work_keeps_it() {
    let (bench, _other) = with_submodule();
    let lane = bench.lane("t");
    let sub = lane.path.join("deep/sub");
    write(&sub.join("new"), "1");
    let kept = bench.lanes.retire(&id("t"), RetireMode::SalvageFirst, AT).unwrap();
    assert_eq!(kept, Retired::Kept(KeptBecause::DirtySubmodule { path: "deep/sub".into() }));
    assert_eq!(bench.commit(&lane, "m"), CommitOutcome::DirtySubmodule { path: "deep/sub".into() });
    bench.git_in(&sub, &["config", "user.name", "Ada"]);
    bench.git_in(&sub, &["config", "user.email", "ada@example.org"]);
    let inner = bench.scratch.commit_all_in(&sub, "in the submodule");
    let committed = bench.committed(&lane, "m");
    assert_eq!(committed.files, paths(&["deep/sub"]));
    assert!(bench.scratch.git(["ls-tree", committed.oid.as_str(), "deep/sub"]).contains(&inner));
    bench.lanes.set_branch(&lane).unwrap();
    assert!(matches!(
        bench.lanes.retire(&id("t"), RetireMode::IfClean, AT).unwrap(),
        Retired::Removed { .. }
    ));
    let modules = bench.repo.common_dir.join("modules/a/name");
    assert_eq!(bench.git_in(&modules, &["show", "-s", "--format=%s", &inner]), "in the submodule");
    assert!(bench.git_in(&modules, &["for-each-ref"]).contains("refs/regatta/submodule/t/"));
    // The next lane starts from a commit that only `modules` has.
    let next = bench.lanes.prepare(&id("next"), &committed.oid).unwrap();
    assert!(next.path.join("deep/sub/new").exists(), "{:?}", next.warnings);
}
