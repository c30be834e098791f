//! A lane's own git directory: what works in it, what comes out of it, and what does not.

use std::fs;
use std::path::{Path, PathBuf};

use regatta_engine::git::{GitError, salvages_of};
use regatta_engine::lanes::{Lane, Lanes, RetireMode, Retired};
use regatta_testkit::repo::{ScratchRepo, script, write};

use crate::fixture::{AT, Bench, id};

/// Runs a git command in the lane; it must succeed and say nothing on stderr.
fn quietly(bench: &Bench, lane: &Lane, args: &[&str]) -> String {
    let ran = bench.scratch.try_git(&lane.path, args);
    let said = String::from_utf8_lossy(&ran.stderr).into_owned();
    assert!(ran.status.success() && said.is_empty(), "git {args:?}: {said}");
    String::from_utf8_lossy(&ran.stdout).into_owned()
}

fn object_path(git_dir: &Path, oid: &str) -> PathBuf {
    git_dir.join("objects").join(&oid[..2]).join(&oid[2..])
}

/// Puts the bytes of one object under the name of another.
fn forge(git_dir: &Path, name: &str, content_of: &str) {
    let place = object_path(git_dir, name);
    fs::create_dir_all(place.parent().unwrap()).unwrap();
    fs::remove_file(&place).ok();
    fs::copy(object_path(git_dir, content_of), place).unwrap();
}

fn why(error: &GitError) -> String {
    match error {
        GitError::Damaged { why } => why.clone(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn whatever_an_agent_does_with_git_works_and_stays_in_the_lane() {
    let bench = Bench::new();
    bench.scratch.git(["tag", "-a", "-m", "one", "v1"]);
    let before = bench.scratch.git(["for-each-ref"]);
    let lane = bench.lane("t");
    let git = |args: &[&str]| quietly(&bench, &lane, args);
    assert_eq!(git(&["status", "--porcelain"]), "");
    assert_eq!(git(&["tag"]), "v1\n");
    write(&lane.path.join("a.txt"), "1\n");
    git(&["add", "a.txt"]);
    git(&["commit", "-q", "-m", "one"]);
    write(&lane.path.join("a.txt"), "2\n");
    git(&["commit", "-q", "-a", "--amend", "-m", "one, amended"]);
    write(&lane.path.join("b.txt"), "b\n");
    git(&["add", "-A"]);
    git(&["stash", "-q"]);
    git(&["stash", "pop", "-q"]);
    git(&["commit", "-q", "-m", "two"]);
    git(&["reset", "-q", "--soft", "HEAD~1"]);
    git(&["commit", "-q", "-m", "two again"]);
    git(&["switch", "-q", "-c", "topic"]);
    git(&["tag", "mine"]);
    write(&lane.path.join("c.txt"), "c\n");
    git(&["add", "-A"]);
    git(&["commit", "-q", "-m", "three"]);
    git(&["rebase", "-q", "--onto", "main", "HEAD~1"]);
    let copy = bench.scratch.outside().join("copy");
    git(&["clone", "-q", ".", copy.to_str().unwrap()]);
    git(&["gc", "-q"]);
    assert_eq!(git(&["fsck", "--no-dangling"]), "");
    assert_eq!(git(&["branch", "--show-current"]), "topic\n");
    assert_eq!(lane.branch().unwrap().as_deref(), Some("topic"));
    // Nothing of it is in the project until it is taken over.
    assert_eq!(bench.scratch.git(["for-each-ref"]), before);
    let head = lane.head().unwrap();
    assert!(!bench.work.has_commit(&head).unwrap());
    assert_eq!(bench.lanes.take_over(&lane).unwrap(), head);
    assert!(bench.work.has_commit(&head).unwrap());
    for check in [&["fsck", "--no-dangling"][..], &["gc", "-q", "--prune=now"], &["worktree", "prune", "-v"]]
    {
        let ran = bench.scratch.try_git(bench.scratch.root(), check);
        assert!(ran.status.success() && ran.stderr.is_empty(), "{check:?}: {ran:?}");
    }
    assert!(bench.scratch.git(["worktree", "list"]).contains("repo.lanes/t"));
    // The registration holds what was taken over, although no ref does.
    assert!(bench.work.has_commit(&head).unwrap());
    assert_eq!(git(&["log", "-1", "--format=%s"]), "three\n");
}

#[test]
fn what_a_lane_forges_or_loses_is_not_taken_over() {
    type Deed = fn(&Bench, &Lane);
    let deeds: [(&str, Deed); 7] = [
        ("damaged", |bench, lane| {
            let blob = bench.git_in(&lane.path, &["rev-parse", "HEAD:a.txt"]);
            fs::write(bench.scratch.outside().join("evil"), "evil\n").unwrap();
            let evil = bench.scratch.outside().join("evil");
            let evil = bench.git_in(&lane.path, &["hash-object", "-w", evil.to_str().unwrap()]);
            forge(lane.git_dir(), &blob, &evil);
        }),
        ("damaged", |bench, lane| {
            let blob = bench.git_in(&lane.path, &["rev-parse", "HEAD:a.txt"]);
            fs::remove_file(object_path(lane.git_dir(), &blob)).unwrap();
        }),
        ("damaged", |bench, lane| {
            let tree = bench.git_in(&lane.path, &["rev-parse", "HEAD^{tree}"]);
            let place = object_path(lane.git_dir(), &tree);
            fs::remove_file(&place).unwrap();
            fs::write(place, "junk").unwrap();
        }),
        ("not a plain file", |bench, lane| {
            let blob = bench.git_in(&lane.path, &["rev-parse", "HEAD:a.txt"]);
            let place = object_path(lane.git_dir(), &blob);
            let elsewhere = bench.scratch.outside().join("elsewhere");
            fs::rename(&place, &elsewhere).unwrap();
            std::os::unix::fs::symlink(elsewhere, place).unwrap();
        }),
        ("not a plain file", |_, lane| {
            let pipe = lane.git_dir().join("objects/00");
            fs::create_dir_all(&pipe).unwrap();
            let pipe = pipe.join("0".repeat(38));
            assert!(std::process::Command::new("mkfifo").arg(pipe).status().unwrap().success());
        }),
        ("objects/info/alternates", |bench, lane| {
            let other = bench.lane("other");
            let list = lane.git_dir().join("objects/info/alternates");
            let mut lines = fs::read_to_string(&list).unwrap();
            lines.push_str(&format!("{}\n", other.git_dir().join("objects").display()));
            fs::write(list, lines).unwrap();
        }),
        (".git/shallow", |_, lane| {
            fs::write(lane.git_dir().join("shallow"), format!("{}\n", lane.head().unwrap())).unwrap();
        }),
    ];
    for (n, (said, deed)) in deeds.into_iter().enumerate() {
        let bench = Bench::new();
        let (lane, known) = bench.lane_with("t", &[("x", "1")]);
        write(&lane.path.join("a.txt"), "honest\n");
        bench.scratch.commit_all_in(&lane.path, "one");
        let head = lane.head().unwrap();
        deed(&bench, &lane);
        let error = bench.lanes.take_over(&lane).unwrap_err();
        assert!(why(&error).contains(said), "{n}: {error}");
        assert!(!bench.work.has_commit(&head).unwrap(), "{n}");
        // The lane goes on at the last commit that was taken over, with its files as uncommitted work.
        assert_eq!(why(&bench.lanes.damage(&lane).unwrap().unwrap()), why(&error), "{n}");
        assert_eq!(lane.head().unwrap(), known, "{n}");
        assert_eq!(bench.git_in(&lane.path, &["status", "--porcelain"]), "?? a.txt", "{n}");
        let committed = bench.committed(&lane, "again");
        assert_eq!(bench.scratch.git(["show", &format!("{}:a.txt", committed.oid)]), "honest", "{n}");
        assert_eq!(bench.scratch.git(["fsck", "--no-dangling"]), "", "{n}");
    }
}

#[test]
fn an_object_of_the_project_cannot_be_shadowed() {
    let bench = Bench::new();
    let lane = bench.lane("t");
    let own = bench.scratch.git(["rev-parse", "main:README.md"]);
    fs::write(bench.scratch.outside().join("evil"), "evil\n").unwrap();
    let evil = bench.scratch.outside().join("evil");
    let evil = bench.git_in(&lane.path, &["hash-object", "-w", evil.to_str().unwrap()]);
    forge(lane.git_dir(), &own, &evil);
    write(&lane.path.join("x"), "1");
    bench.scratch.commit_all_in(&lane.path, "work");
    let head = bench.lanes.take_over(&lane).unwrap();
    assert_eq!(bench.scratch.git(["show", &format!("{head}:README.md")]), "hello");
    assert_eq!(bench.scratch.git(["fsck", "--no-dangling"]), "");
}

#[test]
fn replaced_objects_and_grafts_of_a_lane_have_no_say() {
    let bench = Bench::new();
    let (lane, _) = bench.lane_with("t", &[("a.txt", "evil\n")]);
    let good = bench.scratch.outside().join("good");
    fs::write(&good, "good\n").unwrap();
    let good = bench.git_in(&lane.path, &["hash-object", "-w", good.to_str().unwrap()]);
    let evil = bench.git_in(&lane.path, &["rev-parse", "HEAD:a.txt"]);
    bench.git_in(&lane.path, &["replace", &evil, &good]);
    write(&lane.git_dir().join("info/grafts"), format!("{}\n", lane.head().unwrap()));
    let head = bench.lanes.take_over(&lane).unwrap();
    assert_eq!(bench.scratch.git(["show", &format!("{head}:a.txt")]), "evil");
    assert_eq!(bench.scratch.git(["rev-list", "--count", head.as_str()]), "2");
    assert_eq!(bench.scratch.git(["for-each-ref", "refs/replace"]), "");
}

#[test]
fn many_objects_come_as_one_pack() {
    let bench = Bench::new();
    let lane = bench.lane("t");
    for n in 0..300 {
        write(&lane.path.join(format!("many/{n}.txt")), format!("{n}\n"));
    }
    bench.scratch.commit_all_in(&lane.path, "many");
    let head = bench.lanes.take_over(&lane).unwrap();
    let packs = bench.scratch.root().join(".git/objects/pack");
    assert!(
        fs::read_dir(packs).unwrap().flatten().any(|entry| entry.path().extension() == Some("pack".as_ref()))
    );
    assert_eq!(bench.scratch.git(["ls-tree", "-r", "--name-only", head.as_str()]).lines().count(), 301);
    assert_eq!(bench.scratch.git(["fsck", "--no-dangling"]), "");
}

#[test]
fn branches_and_stashes_of_an_agent_outlive_its_lane() {
    let bench = Bench::new();
    let (lane, head) = bench.lane_with("t", &[("x", "1")]);
    bench.git_in(&lane.path, &["switch", "-q", "-c", "side", "main"]);
    write(&lane.path.join("side.txt"), "side\n");
    bench.scratch.commit_all_in(&lane.path, "on a side branch");
    bench.git_in(&lane.path, &["checkout", "-q", "--detach", head.as_str()]);
    for content in ["first\n", "second\n"] {
        write(&lane.path.join("README.md"), content);
        bench.git_in(&lane.path, &["stash", "push", "-q", "-m", content.trim()]);
    }
    // Packed refs hide nothing.
    bench.git_in(&lane.path, &["pack-refs", "--all"]);
    assert!(matches!(
        bench.lanes.retire(&id("t"), RetireMode::SalvageFirst, AT).unwrap(),
        Retired::Removed { .. }
    ));
    assert!(!lane.admin_dir().exists());
    bench.scratch.git(["gc", "-q", "--prune=now"]);
    let saved = salvages_of(&bench.repo, &id("t")).unwrap();
    let subjects: Vec<&str> = saved.iter().map(|salvage| salvage.subject.as_str()).collect();
    assert!(subjects.contains(&"on a side branch"), "{subjects:?}");
    for content in ["first", "second"] {
        let stash = saved.iter().find(|salvage| salvage.subject.ends_with(content)).unwrap();
        assert_eq!(bench.scratch.git(["show", &format!("{}:README.md", stash.name)]), content);
    }
    // The stashes were made on its HEAD, and hold that, too.
    assert_eq!(saved.len(), 3, "{subjects:?}");
}

#[test]
fn a_lane_with_nothing_of_its_own_leaves_no_salvage() {
    let bench = Bench::new();
    bench.scratch.git(["branch", "users"]);
    let lane = bench.lane("t");
    bench.scratch.git(["branch", "-D", "users"]);
    bench.git_in(&lane.path, &["switch", "-q", "-c", "empty"]);
    bench.git_in(&lane.path, &["gc", "-q"]);
    bench.lanes.retire(&id("t"), RetireMode::SalvageFirst, AT).unwrap();
    assert_eq!(salvages_of(&bench.repo, &id("t")).unwrap(), []);
}

#[test]
fn what_an_agent_plants_in_its_git_directory_runs_nothing_afterwards() {
    let scratch = ScratchRepo::new();
    let hook = scratch.root().join(".git/hooks/post-commit");
    script(&hook, "true");
    let bench = Bench::over(scratch);
    let lane = bench.lane("t");
    let proof = bench.scratch.outside().join("executed");
    let evil = bench.scratch.outside().join("evil.sh");
    script(&evil, &format!("echo ran >> '{}'; cat", proof.display()));
    let program = evil.to_str().unwrap();
    for setting in ["core.fsmonitor", "filter.evil.clean", "filter.evil.smudge", "core.pager"] {
        bench.git_in(&lane.path, &["config", setting, program]);
    }
    let hooks = bench.scratch.outside().join("hooks");
    script(&hooks.join("post-index-change"), &format!("echo ran >> '{}'", proof.display()));
    bench.git_in(&lane.path, &["config", "core.hooksPath", hooks.to_str().unwrap()]);
    script(&lane.git_dir().join("hooks/post-index-change"), &format!("echo ran >> '{}'", proof.display()));
    write(&lane.git_dir().join("info/attributes"), "* filter=evil\n");
    let elsewhere = bench.scratch.outside().join("elsewhere");
    bench.git_in(&lane.path, &["clone", "-q", "--bare", ".", elsewhere.to_str().unwrap()]);
    fs::copy(lane.git_dir().join("config"), elsewhere.join("config")).unwrap();
    fs::write(lane.git_dir().join("commondir"), elsewhere.to_str().unwrap()).unwrap();
    fs::remove_file(&proof).ok();
    bench.lanes.refresh_git(&lane).unwrap();
    write(&lane.path.join("README.md"), "changed\n");
    bench.git_in(&lane.path, &["status"]);
    bench.git_in(&lane.path, &["add", "-A"]);
    bench.git_in(&lane.path, &["checkout", "-q", "-f", "HEAD"]);
    assert!(!proof.exists(), "what was planted ran");
    assert!(lane.git_dir().join("hooks/post-commit").is_file(), "the user's own hooks are there");
    assert_eq!(bench.git_in(&lane.path, &["config", "user.name"]), "Ada");
}

#[test]
fn a_damaged_git_directory_is_healed() {
    let bench = Bench::new();
    type Deed = fn(&Path);
    let deeds: [Deed; 6] = [
        |dir| fs::remove_dir_all(dir).unwrap(),
        |dir| fs::write(dir.join("HEAD"), "garbage").unwrap(),
        |dir| fs::write(dir.join("config"), "[garbage").unwrap(),
        |dir| fs::remove_dir_all(dir.join("refs")).unwrap(),
        |dir| {
            fs::remove_file(dir.join("HEAD")).unwrap();
            std::os::unix::fs::symlink("/dev/zero", dir.join("HEAD")).unwrap();
        },
        |dir| fs::write(dir.join("objects/info/alternates"), "/nowhere\n").unwrap(),
    ];
    for (n, deed) in deeds.into_iter().enumerate() {
        let task = format!("t{n}");
        let lane = bench.lane(&task);
        write(&lane.path.join("x"), "1");
        let committed = bench.committed(&lane, "work").oid;
        write(&lane.path.join("y"), "2");
        deed(lane.git_dir());
        let lane = bench.lane(&task);
        bench.lanes.refresh_git(&lane).unwrap();
        assert_eq!(lane.head().unwrap(), committed, "{n}");
        assert_eq!(bench.git_in(&lane.path, &["status", "--porcelain"]), "?? y", "{n}");
    }
}

#[test]
fn a_lane_follows_a_project_that_was_moved() {
    let bench = Bench::new();
    let lane = bench.lane("t");
    write(&lane.path.join("x"), "1");
    bench.scratch.commit_all_in(&lane.path, "work");
    let head = lane.head().unwrap();
    let moved = bench.scratch.outside().join("moved");
    fs::rename(bench.scratch.root(), &moved).unwrap();
    fs::rename(bench.lanes.root(), bench.scratch.outside().join("moved.lanes")).unwrap();
    let repo = regatta_engine::git::Repo::discover_in(
        &moved,
        None,
        regatta_engine::git::GitEnv::new(bench.scratch.env()),
    )
    .unwrap();
    let trust = regatta_engine::git::TrustSnapshot::take(&repo).unwrap();
    let work = regatta_engine::git::Work::new(&repo, trust);
    let lanes = Lanes::new(&repo, &work, &Lanes::default_root(&repo)).unwrap();
    let lane = lanes.prepare(&id("t"), &lane.base).unwrap();
    assert_eq!(lanes.take_over(&lane).unwrap(), head);
    assert_eq!(bench.git_in(&lane.path, &["status", "--porcelain"]), "");
    assert_eq!(bench.git_in(&lane.path, &["log", "-1", "--format=%s"]), "work");
}

#[test]
fn a_command_in_a_lane_finds_the_project() {
    let bench = Bench::new();
    let lane = bench.lane("t");
    let env = || regatta_engine::git::GitEnv::new(bench.scratch.env());
    for found in [
        regatta_engine::git::Repo::discover_in(&lane.path, None, env()).unwrap(),
        regatta_engine::git::Repo::find(&lane.path).unwrap(),
    ] {
        assert_eq!(found.common_dir, bench.repo.common_dir);
        assert_eq!((found.root, found.toplevel), (bench.repo.root.clone(), lane.path.clone()));
        assert_eq!(found.state_dir, bench.repo.state_dir);
    }
}

/// A lane as older versions made it: a linked worktree, and a record without a word about its git directory.
fn old_lane(bench: &Bench, task: &str) -> Lane {
    let (path, base) = (bench.lanes.root().join(task), bench.scratch.rev("main"));
    let name = format!("regatta-{task}");
    let made = path.with_file_name(&name);
    bench.scratch.git(["worktree", "add", "-q", "--detach", made.to_str().unwrap()]);
    bench.scratch.git(["worktree", "move", made.to_str().unwrap(), path.to_str().unwrap()]);
    let record = format!(r#"{{"base":"{base}","admin":"{name}","ready":true,"hooks":{{}},"fence":0}}"#);
    write(&bench.repo.state_dir.join(format!("lanes/{task}.json")), &record);
    bench.lanes.find(&id(task)).unwrap().unwrap()
}

#[test]
fn a_lane_of_an_older_version_ends_as_it_began() {
    let bench = Bench::new();
    let lane = old_lane(&bench, "t");
    assert!(!lane.has_own_git() && lane.git_dir() == lane.admin_dir());
    assert_eq!(bench.lanes.prepare(&id("t"), &lane.base).unwrap().git_dir(), lane.git_dir());
    assert!(!bench.lanes.agent_git_env(&lane).unwrap().is_empty());
    write(&lane.path.join("a"), "1");
    bench.scratch.commit_all_in(&lane.path, "agent's own");
    write(&lane.path.join("b"), "2");
    bench.lanes.refresh_git(&lane).unwrap();
    bench.lanes.rebuild_index(&lane).unwrap();
    assert!(bench.lanes.damage(&lane).unwrap().is_none());
    let committed = bench.committed(&lane, "the rest");
    assert_eq!(bench.scratch.git(["ls-tree", "--name-only", committed.oid.as_str()]), "README.md\na\nb");
    write(&lane.path.join("c"), "3");
    let retired = bench.lanes.retire(&id("t"), RetireMode::SalvageFirst, AT).unwrap();
    assert!(matches!(retired, Retired::Removed { salvaged: Some(_) }), "{retired:?}");
    assert!(!lane.path.exists() && !lane.admin_dir().exists());
    assert!(bench.lane("t").has_own_git(), "the next one is of the new kind");
}

#[test]
fn a_lane_in_a_repository_with_many_refs_is_made_fast() {
    let bench = Bench::new();
    let head = bench.scratch.rev("main");
    let packed: String = (0..20_000).map(|n| format!("{head} refs/tags/many/{n:05}\n")).collect();
    write(&bench.repo.common_dir.join("packed-refs"), format!("# pack-refs with: sorted \n{packed}"));
    let begun = std::time::Instant::now();
    let lane = bench.lane("t");
    let took = begun.elapsed();
    assert!(took.as_millis() < 2_000, "{took:?}");
    assert_eq!(bench.git_in(&lane.path, &["tag"]).lines().count(), 20_000);
}
