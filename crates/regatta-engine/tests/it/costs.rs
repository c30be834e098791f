//! How many git processes the hot path starts. Each costs milliseconds, and there are dozens of lanes.

use std::fs;
use std::path::Path;

use regatta_engine::git::{GitEnv, Repo, TrustSnapshot, Work};
use regatta_engine::landing::candidate::{Candidate, CandidateRequest, Strategy, build};
use regatta_engine::landing::publish::{PublishRequest, Published, publish};
use regatta_engine::lanes::{CommitOutcome, CommitRequest, Hooks, Lanes, RetireMode, Retired};
use regatta_testkit::repo::{ScratchRepo, script, write};

use crate::fixture::{AT, id, oid};

/// A `git` that writes down its arguments before it becomes the real one.
fn counting_env(scratch: &ScratchRepo, log: &Path) -> GitEnv {
    let bin = scratch.outside().join("bin");
    let path = std::env::var("PATH").unwrap();
    let real = path.split(':').map(|dir| Path::new(dir).join("git")).find(|git| git.exists()).unwrap();
    script(
        &bin.join("git"),
        &format!("echo \"$*\" >> '{}'; exec '{}' \"$@\"", log.display(), real.display()),
    );
    let env = scratch.env().into_iter().filter(|(name, _)| name != "PATH");
    GitEnv::new(env.chain([("PATH".into(), format!("{}:{path}", bin.display()).into())]))
}

#[test]
fn the_hot_path_starts_few_processes() {
    let scratch = ScratchRepo::new();
    let log = scratch.outside().join("git.log");
    let repo = Repo::discover_in(scratch.root(), None, counting_env(&scratch, &log)).unwrap();
    repo.exclude(&["/.regatta/"]).unwrap();
    let work = Work::new(&repo, TrustSnapshot::take(&repo).unwrap());
    let lanes = Lanes::new(&repo, &work, &Lanes::default_root(&repo)).unwrap();
    let count = |what: &str, at_most: usize| {
        let said = fs::read_to_string(&log).unwrap_or_default();
        assert!(
            said.lines().count() <= at_most,
            "{what} took {} of {at_most}:\n{said}",
            said.lines().count()
        );
        fs::remove_file(&log).ok();
    };
    count("discovery and snapshot", 6);
    let base = oid(&scratch.rev("main"));
    let lane = lanes.prepare(&id("t"), &base).unwrap();
    count("a lane", 1);
    lanes.prepare(&id("t"), &base).unwrap();
    count("the same lane again", 0);
    write(&lane.path.join("x"), "1");
    let request = || CommitRequest { message: "m".into(), at: AT, exclude: vec![], hooks: Hooks::Skip };
    let CommitOutcome::Committed(committed) = lanes.commit(&lane, request()).unwrap() else {
        panic!("not committed")
    };
    count("a commit", 4);
    assert_eq!(lanes.commit(&lane, request()).unwrap(), CommitOutcome::NothingToCommit);
    count("nothing to commit", 1);
    lanes.set_branch(&lane).unwrap();
    count("the branch", 1);
    let request = CandidateRequest {
        strategy: Strategy::Rebase,
        target_tip: base.clone(),
        base: base.clone(),
        head: committed.oid,
        message: "m".into(),
        identity: work.identity(),
        at: AT,
        trailers: vec![],
    };
    let Candidate::Clean { commit, .. } = build(&work, &request).unwrap() else { panic!("not clean") };
    count("a fast-forward candidate", 1);
    let request = PublishRequest { target: "main".into(), old: Some(base), new: commit, message: "m".into() };
    assert!(
        matches!(publish(&repo, &work, &request).unwrap(), Published::Moved { followed, .. } if followed.len() == 1)
    );
    // The index moves before the files: a git that is killed between the two leaves nothing staged against the landing.
    count("publishing with one clean checkout", 5);
    assert_eq!(lanes.retire(&id("t"), RetireMode::IfClean, AT).unwrap(), Retired::Removed { salvaged: None });
    // Its branch is the user's to delete, so a ref of our own holds the work as well.
    count("retiring", 3);
}
