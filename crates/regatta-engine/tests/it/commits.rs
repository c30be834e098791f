//! Committing on the user's behalf what an agent left uncommitted.

use std::fs;
use std::path::Path;

use regatta_engine::lanes::CommitOutcome;
use regatta_testkit::repo::{ScratchRepo, script, write};

use crate::fixture::{AT, Bench, paths};

#[test]
fn uncommitted_work_is_committed_without_markers() {
    let bench = Bench::new();
    bench.scratch.commit_file("gone", "x", "to be deleted");
    let lane = bench.lane("t");
    write(&lane.path.join("README.md"), "changed\n");
    write(&lane.path.join("dir/new"), "new");
    fs::remove_file(lane.path.join("gone")).unwrap();
    for marker in ["PARCEL_DONE-t.md", "REGATTA_DONE-t.md", ".regatta/report"] {
        write(&lane.path.join(marker), "done");
    }
    let committed = bench.committed(&lane, "subject\n\nbody");
    let mut files = committed.files.clone();
    files.sort();
    assert_eq!(files, paths(&["README.md", "dir/new", "gone"]));
    assert_eq!(lane.head().unwrap(), committed.oid);
    assert_eq!(bench.work.tree_of(&committed.oid).unwrap(), committed.tree);
    let log = bench.git_in(&lane.path, &["log", "-1", "--format=%an %ae %at %s|%b"]);
    assert_eq!(log, "Ada ada@example.org 1763182800 subject|body");
    assert_eq!(bench.commit(&lane, "again"), CommitOutcome::NothingToCommit);
    assert!(bench.git_in(&lane.path, &["reflog", "-1"]).contains("regatta: subject"));
}

/// Takes a file's content out of the repository, as a `git gc --prune=now` does that began before anything named it.
fn take_away(bench: &Bench, content: &Path, git_dir: &Path) {
    let oid = bench.git_in(bench.scratch.root(), &["hash-object", &content.display().to_string()]);
    let object = git_dir.join("objects").join(&oid[..2]).join(&oid[2..]);
    fs::remove_file(object).unwrap();
}

#[test]
fn what_gc_took_from_a_lanes_index_is_read_from_its_files_again() {
    let bench = Bench::new();
    let lane = bench.lane("t");
    write(&lane.path.join("new.txt"), "new\n");
    bench.git_in(&lane.path, &["add", "new.txt"]);
    take_away(&bench, &lane.path.join("new.txt"), lane.git_dir());
    let saved = bench.lanes.salvage(&lane, "to be sure", AT).unwrap().expect("there is work");
    assert_eq!(bench.scratch.git(["show", &format!("{}:new.txt", saved.name)]), "new");
    bench.scratch.git(["update-ref", "-d", &saved.name]);
    take_away(&bench, &lane.path.join("new.txt"), &bench.repo.common_dir);
    let committed = bench.committed(&lane, "work");
    assert_eq!(committed.files, paths(&["new.txt"]));
    assert_eq!(bench.git_in(&lane.path, &["show", "HEAD:new.txt"]), "new");
    assert_eq!(bench.git_in(&lane.path, &["status", "--porcelain"]), "");
}

#[test]
fn what_gc_took_of_a_commit_before_head_held_it_is_written_again() {
    let scratch = ScratchRepo::new();
    let (bin, once) = (scratch.outside().join("bin"), scratch.outside().join("once"));
    let objects = scratch.root().join(".git/objects");
    // The object id of "new\n".
    let blob = objects.join("3e/757656cf36eca53338e520d134963a44f793f8");
    script(
        &bin.join("git"),
        &format!(
            "real=$(PATH=${{PATH#*:}} command -v git)\n\
             case \" $* \" in *' commit-tree '*) if [ ! -e '{0}' ]; then touch '{0}'\n\
             rm -f '{1}'; touch '{2}/pack/x'; rm '{2}/pack/x'; fi;; esac\nexec \"$real\" \"$@\"",
            once.display(),
            blob.display(),
            objects.display()
        ),
    );
    let bench = Bench::with_programs(scratch, &bin);
    let lane = bench.lane("t");
    write(&lane.path.join("new.txt"), "new\n");
    let committed = bench.committed(&lane, "work");
    assert!(once.exists());
    assert_eq!(lane.head().unwrap(), committed.oid);
    assert_eq!(bench.git_in(&lane.path, &["show", "HEAD:new.txt"]), "new");
    bench.git_in(&lane.path, &["fsck", "--full", "--no-dangling"]);
}

#[test]
fn directories_and_files_may_change_places() {
    let bench = Bench::new();
    bench.scratch.write("d/inner", "x");
    bench.scratch.write("f", "x");
    bench.scratch.write("l/inner", "x");
    bench.scratch.commit_all("shapes");
    let lane = bench.lane("t");
    fs::remove_dir_all(lane.path.join("d")).unwrap();
    write(&lane.path.join("d"), "now a file");
    fs::remove_file(lane.path.join("f")).unwrap();
    write(&lane.path.join("f/inner"), "now a directory");
    fs::remove_dir_all(lane.path.join("l")).unwrap();
    std::os::unix::fs::symlink("d", lane.path.join("l")).unwrap();
    bench.committed(&lane, "swap");
    assert_eq!(
        bench.git_in(&lane.path, &["ls-tree", "-r", "--name-only", "HEAD"]),
        "README.md\nd\nf/inner\nl"
    );
    assert_eq!(bench.git_in(&lane.path, &["status", "--porcelain"]), "");
}

#[test]
fn the_users_hooks_run_and_what_they_stage_is_committed() {
    let scratch = ScratchRepo::new();
    let hooks = scratch.root().join(".git/hooks");
    script(
        &hooks.join("pre-commit"),
        "git rev-parse --show-toplevel > formatted && git add formatted && git diff --cached --name-only >&2",
    );
    script(&hooks.join("commit-msg"), "echo 'Reviewed-by: hook' >> \"$1\"; echo '# a comment' >> \"$1\"");
    script(&hooks.join("post-commit"), "git log -1 --format=%s > .git-post-commit");
    let bench = Bench::over(scratch);
    let lane = bench.lane("t");
    write(&lane.path.join("x"), "1");
    let committed = bench.committed(&lane, "#7: subject");
    assert_eq!(committed.files, paths(&["formatted", "x"]));
    assert_eq!(bench.git_in(&lane.path, &["log", "-1", "--format=%B"]), "#7: subject\nReviewed-by: hook");
    assert_eq!(
        fs::read_to_string(lane.path.join(".git-post-commit")).unwrap(),
        "#7: subject Reviewed-by: hook\n"
    );
    assert_eq!(fs::read_to_string(lane.path.join("formatted")).unwrap().trim(), lane.path.to_str().unwrap());
}

#[test]
fn a_refusing_hook_keeps_the_work_in_the_lane_and_in_one_salvage() {
    let scratch = ScratchRepo::new();
    script(&scratch.root().join(".git/hooks/pre-commit"), "echo no good; exit 1");
    let bench = Bench::over(scratch);
    let lane = bench.lane("t");
    write(&lane.path.join("x"), "work");
    for _ in 0..2 {
        let CommitOutcome::HookRefused { hook, output, salvaged } = bench.commit(&lane, "m") else {
            panic!("not refused")
        };
        assert_eq!((hook.as_str(), output.as_str()), ("pre-commit", "no good\n"));
        let saved = salvaged.unwrap();
        assert_eq!(bench.scratch.git(["show", &format!("{}:x", saved.oid)]), "work");
        assert_eq!(saved.name, "refs/regatta/salvage/t/1");
    }
    assert_eq!(fs::read_to_string(lane.path.join("x")).unwrap(), "work");
    assert_eq!(lane.head().unwrap(), lane.base);
}

#[test]
fn failed_signing_is_an_answer_and_the_work_stays() {
    let scratch = ScratchRepo::new();
    scratch.git(["config", "gpg.program", "/bin/false"]);
    scratch.git(["config", "commit.gpgsign", "true"]);
    let bench = Bench::over(scratch);
    let lane = bench.lane("t");
    write(&lane.path.join("x"), "work");
    let CommitOutcome::SigningFailed { salvaged, .. } = bench.commit(&lane, "m") else {
        panic!("signed with /bin/false")
    };
    assert!(salvaged.is_some());
    assert_eq!(lane.head().unwrap(), lane.base);
}

#[test]
fn the_work_is_heads_even_on_a_branch_of_the_agents_own() {
    let bench = Bench::new();
    let lane = bench.lane("t");
    bench.git_in(&lane.path, &["switch", "-q", "-c", "mine"]);
    write(&lane.path.join("x"), "1");
    let own = bench.scratch.commit_all_in(&lane.path, "agent's own");
    assert_eq!(lane.head().unwrap().as_str(), own);
    write(&lane.path.join("y"), "2");
    let committed = bench.committed(&lane, "the rest");
    let mine = bench.git_in(&lane.path, &["rev-parse", "mine"]);
    assert_eq!((lane.head().unwrap(), mine), (committed.oid, own));
}

#[test]
fn an_unfinished_rebase_is_not_taken_for_the_work() {
    let bench = Bench::new();
    let (lane, head) = bench.lane_with("t", &[("README.md", "lane\n")]);
    let rival = bench.scratch.commit_file("README.md", "target\n", "rival");
    assert!(!bench.scratch.try_git(&lane.path, &["rebase", "-q", &rival]).status.success());
    let outcome = bench.commit(&lane, "m");
    assert!(
        matches!(&outcome, CommitOutcome::Unfinished { paths: found, .. } if *found == paths(&["README.md"])),
        "{outcome:?}"
    );
    bench.git_in(&lane.path, &["rebase", "--abort"]);
    assert_eq!(lane.head().unwrap(), head);
}

#[test]
fn a_merge_the_agent_resolved_is_committed_as_a_merge() {
    let bench = Bench::new();
    let (lane, head) = bench.lane_with("t", &[("README.md", "lane\n")]);
    let rival = bench.scratch.commit_file("README.md", "target\n", "rival");
    assert!(!bench.scratch.try_git(&lane.path, &["merge", "-q", &rival]).status.success());
    write(&lane.path.join("README.md"), "both\n");
    bench.git_in(&lane.path, &["add", "README.md"]);
    bench.committed(&lane, "merge");
    assert_eq!(bench.git_in(&lane.path, &["log", "-1", "--format=%P"]), format!("{head} {rival}"));
    assert_eq!(bench.git_in(&lane.path, &["status", "--porcelain", "--branch"]), "## HEAD (no branch)");
}
