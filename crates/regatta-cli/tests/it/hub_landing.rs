//! Landing at a hub: one push moves the target and the fence, a replaced lander lands nothing, and this machine's
//! branch follows without holding anything up.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use regatta_engine::clock;
use regatta_testkit::daemon::until;
use regatta_testkit::postgres::Server;
use regatta_testkit::repo::script;
use regatta_testkit::world::{Barrier, Running, World, task, text};

use crate::REGATTA;

const MAIN: &str = "refs/heads/main";
const FENCE: &str = "refs/regatta/train/main";

/// A hub with the content of the checkout; what happens to its refs is in its logs.
fn hub_of(world: &mut World) -> PathBuf {
    let hub = world.outside("hub.git");
    world.repo().git(["init", "--quiet", "--bare", "--initial-branch=main", shown(&hub)]);
    world.repo().git_in(&hub, ["config", "core.logAllRefUpdates", "always"]);
    world.repo().git(["push", "--quiet", shown(&hub), "main"]);
    world.env("REGATTA_HUB", &hub);
    hub
}

fn with_hub() -> (World, PathBuf) {
    let mut world = World::new(REGATTA);
    let hub = hub_of(&mut world);
    (world, hub)
}

fn shown(path: &Path) -> &str {
    path.to_str().expect("a path that is text")
}

/// A gate that records what it tests.
fn recorded_gate(world: &World, then: &str) {
    let (file, log) = (world.outside("gate.sh"), world.outside("gates.log"));
    script(&file, &format!("git rev-parse 'HEAD^{{tree}}' >>'{}'\n{then}\n", log.display()));
    world.config(&format!("land: {{ test_command: \"'{}'\" }}\n", file.display()));
}

/// The content that was tested.
fn tested(world: &World) -> BTreeSet<String> {
    let log = fs::read_to_string(world.outside("gates.log")).unwrap_or_default();
    log.lines().map(str::to_owned).collect()
}

/// A hook of the hub.
fn hook(hub: &Path, name: &str, body: &str) {
    script(&hub.join("hooks").join(name), body);
}

/// Every value that a ref of the hub has had, with the one before it.
fn moves(hub: &Path, name: &str) -> Vec<(String, String)> {
    let log = fs::read_to_string(hub.join("logs").join(name)).unwrap_or_default();
    let one = |line: &str| {
        let mut ids = line.split(' ').map(str::to_owned);
        ids.next().zip(ids.next()).expect("a line of a reflog")
    };
    log.lines().map(one).collect()
}

/// The value of a key in every fence that the hub has had.
fn fences(world: &World, hub: &Path, key: &str) -> Vec<String> {
    let value = |(_, oid): (String, String)| {
        let note = world.repo().git_in(hub, ["cat-file", "commit", &oid]);
        let found = note.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(": "));
        found.unwrap_or_else(|| panic!("no {key} in {note}")).to_owned()
    };
    moves(hub, FENCE).into_iter().map(value).collect()
}

/// Checks everything that must be true of a hub whatever happened: its target is one line, nothing landed twice, what
/// landed was tested, and the terms of its fence never go back.
#[track_caller]
fn assert_hub(world: &World, hub: &Path, tasks: &[&str], foreign: &[String]) {
    let git = |args: &[&str]| world.repo().git_in(hub, args);
    let line = moves(hub, MAIN);
    for pair in line.windows(2) {
        assert_eq!(pair[0].1, pair[1].0, "each move starts where the last one ended");
    }
    for (old, new) in &line[1..] {
        git(&["merge-base", "--is-ancestor", old, new]);
        let tree = git(&["rev-parse", &format!("{new}^{{tree}}")]);
        assert!(foreign.contains(new) || tested(world).contains(&tree), "{new} landed and was not tested");
    }
    assert_eq!(git(&["rev-parse", "main"]), line.last().unwrap().1);
    assert_eq!(git(&["rev-list", "--merges", "main"]), "");
    let log = git(&["log", "--format=%(trailers:key=Regatta-Task,valueonly,separator=%x2C)", "main"]);
    let mut landed: Vec<&str> = log.lines().filter(|task| !task.is_empty()).collect();
    landed.sort_unstable();
    assert_eq!(landed, tasks);
    let terms: Vec<u64> = fences(world, hub, "Term").iter().map(|term| term.parse().unwrap()).collect();
    assert!(terms.is_sorted(), "{terms:?}");
    git(&["fsck", "--full", "--strict", "--no-dangling"]);
}

/// Checks that the store and the hub say the same.
#[track_caller]
fn assert_landed(world: &World, hub: &Path, tasks: &[&str]) {
    for id in tasks {
        let task = world.task(id);
        assert_eq!(text(&task["state"]), "landed", "{task:#}");
        let commit = text(&task["landed_commit"]);
        world.repo().git_in(hub, ["merge-base", "--is-ancestor", commit, "main"]);
    }
}

#[test]
fn work_lands_at_the_hub_and_the_branch_here_follows() {
    let mut world = World::new(REGATTA);
    recorded_gate(&world, "");
    let hub = hub_of(&mut world);
    let plan =
        world.plan(&[task("a", "", "echo a >a.txt"), task("b", "deps: [a]", "cat a.txt >b.txt")].concat());
    world.run(&plan, &[]).exited(0);
    assert_landed(&world, &hub, &["a", "b"]);
    assert_hub(&world, &hub, &["a", "b"], &[]);
    assert_eq!(world.repo().rev("main"), world.repo().git_in(&hub, ["rev-parse", "main"]));
    assert_eq!(world.repo().git(["status", "--porcelain"]), "");
    assert_eq!(world.landed("b.txt").as_deref(), Some("a\n"));
    // One term for the whole run: the train is taken once.
    assert_eq!(fences(&world, &hub, "Term"), ["1", "1", "1"]);
    assert_eq!(fences(&world, &hub, "Landing"), ["0", "1", "2"]);
    let candidates: Vec<String> = moves(&hub, MAIN).into_iter().skip(1).map(|(_, new)| new).collect();
    assert_eq!(fences(&world, &hub, "Candidate")[1..], candidates);
    assert_eq!(world.repo().git_in(&hub, ["ls-tree", FENCE]), "", "a fence has no content");
    let note = world.repo().git_in(&hub, ["cat-file", "commit", FENCE]);
    assert!(note.contains("\nregatta train main\n\nTerm: 1\nSession: "), "{note}");
    world.assert_tidy();
}

/// Real git alone: why the fence has to move with every landing.
#[test]
fn a_hub_compares_a_fence_only_if_the_push_moves_it() {
    for changed in [false, true] {
        let (world, hub) = with_hub();
        let git = |args: &[&str]| world.repo().git(args);
        let blob = |text: &str| {
            let file = world.outside("note");
            fs::write(&file, text).unwrap();
            world.repo().git(["hash-object", "-w", shown(&file)])
        };
        let tip = world.repo().rev("main");
        let first = blob("term 1 landing 0");
        git(&["push", "-q", shown(&hub), &format!("{first}:{FENCE}")]);
        let inside = world.barrier("inside");
        // It waits between reading the commands and carrying them out.
        let waits = inside.script();
        hook(
            &hub,
            "pre-receive",
            &format!("while read -r _ _ name; do [ $name = {MAIN} ] && {{ {waits}; }}; done; exit 0"),
        );
        let candidate = git(&["commit-tree", "-p", &tip, "-m", "c", &format!("{tip}^{{tree}}")]);
        let next = if changed { blob("term 1 landing 1") } else { first.clone() };
        let mut push = Command::new("git");
        push.current_dir(world.root()).env_clear().envs(world.repo().env());
        push.args(["push", "--porcelain", "--atomic"]);
        push.args([
            format!("--force-with-lease={MAIN}:{tip}"),
            format!("--force-with-lease={FENCE}:{first}"),
        ]);
        push.args([shown(&hub), &format!("{candidate}:{MAIN}"), &format!("{next}:{FENCE}")]);
        let replaced = Running::start(push);
        inside.arrived();
        let second = blob("term 2 landing 0");
        let lease = format!("--force-with-lease={FENCE}:{first}");
        git(&["push", "-q", &lease, shown(&hub), &format!("{second}:{FENCE}")]);
        inside.open();
        let code = replaced.wait().code;
        let now = world.repo().git_in(&hub, ["rev-parse", "main"]);
        assert_eq!((code == 0, now == candidate), (!changed, !changed));
    }
}

#[test]
fn a_landing_that_is_under_way_when_another_takes_the_fence_is_refused_by_the_hub() {
    let mut world = World::new(REGATTA);
    recorded_gate(&world, "");
    let hub = hub_of(&mut world);
    let inside = world.barrier("inside");
    let once = world.outside("once");
    hook(
        &hub,
        "pre-receive",
        &format!(
            "while read -r _ _ name; do if [ $name = {MAIN} ] && mkdir '{}' 2>/dev/null; then {}; fi; done; exit 0",
            once.display(),
            inside.script()
        ),
    );
    let before = world.repo().git_in(&hub, ["rev-parse", "main"]);
    let run = world.start(&world.plan(&task("a", "", "echo a >a.txt")), &[]);
    inside.arrived();
    // Another store, in a later term.
    let tree = world.repo().git(["hash-object", "-t", "tree", "-w", "/dev/null"]);
    let note = "regatta train main\n\nTerm: 9\nSession: run-elsewhere\nLanding: 0\nCandidate: none";
    let other = world.repo().git(["commit-tree", "-m", note, &tree]);
    let lease = format!("--force-with-lease={FENCE}:{}", world.repo().git_in(&hub, ["rev-parse", FENCE]));
    world.repo().git(["push", "-q", &lease, shown(&hub), &format!("{other}:{FENCE}")]);
    inside.open();
    let ran = run.wait();
    assert_eq!(world.repo().git_in(&hub, ["rev-parse", "main"]), before, "{}", ran.stdout);
    assert_eq!(world.repo().git_in(&hub, ["rev-parse", FENCE]), other);
    world.assert_states(["a landing"]);
    let status = world.regatta(["land", "status"]).exited(0).stdout;
    let shown = status.replace(&other[..12], "FENCE");
    assert!(
        shown.contains(
            "another store lands on main at the hub: the fence there (FENCE) is in term 9 of session run-elsewhere"
        ),
        "{status}"
    );
    // A person says that the other one is gone.
    let resumed = world.regatta(["land", "resume"]).exited(0).stdout;
    assert!(resumed.starts_with("the train continues from main"), "{resumed}");
    world.regatta(["land", "a"]).exited(0);
    assert_landed(&world, &hub, &["a"]);
    assert_eq!(moves(&hub, MAIN).len(), 2);
    assert_eq!(world.repo().rev("main"), world.repo().git_in(&hub, ["rev-parse", "main"]));
    let status = world.regatta(["land", "status"]).exited(0).stdout;
    assert!(!status.contains("another store"), "{status}");
}

/// The hub goes away in the middle of a push, before or after it has moved its refs.
#[test]
fn a_push_without_an_answer_is_resolved_by_the_fence() {
    for arrives in [false, true] {
        let mut world = World::new(REGATTA);
        recorded_gate(&world, "");
        let hub = hub_of(&mut world);
        let once = world.outside("once");
        let die = format!("mkdir '{}' 2>/dev/null && kill -9 $PPID", once.display());
        if arrives {
            let body = format!("[ $1 = committed ] && grep -q {MAIN} && {die}; exit 0");
            hook(&hub, "reference-transaction", &body);
        } else {
            hook(&hub, "pre-receive", &format!("grep -q {MAIN} && {die}; exit 0"));
        }
        let plan = world.plan(&[task("a", "", "echo a >a.txt"), task("b", "", "echo b >b.txt")].concat());
        let ran = world.run(&plan, &[]).exited(0);
        assert!(once.exists(), "the hub was never cut off: {}", ran.stdout);
        assert_landed(&world, &hub, &["a", "b"]);
        assert_hub(&world, &hub, &["a", "b"], &[]);
        assert_eq!(world.repo().rev("main"), world.repo().git_in(&hub, ["rev-parse", "main"]));
        let landings = moves(&hub, MAIN).len() - 1;
        let doubtful = fences(&world, &hub, "Candidate").iter().skip(1).filter(|of| *of == "none").count();
        // One that did not arrive cannot any more: the fence has moved on.
        assert_eq!(doubtful, usize::from(!arrives), "{landings} landings");
    }
}

#[test]
fn a_commit_that_is_pushed_to_the_hub_meanwhile_stays_and_the_car_is_tested_on_it() {
    let mut world = World::new(REGATTA);
    let gate = world.barrier("gate");
    let once = world.outside("once");
    let waits = format!("if mkdir '{}' 2>/dev/null; then {}; fi", once.display(), gate.script());
    recorded_gate(&world, &waits);
    let hub = hub_of(&mut world);
    let other = world.outside("other");
    world.repo().git(["clone", "--quiet", shown(&hub), shown(&other)]);
    world.repo().git_in(&other, ["config", "user.name", "Bob"]);
    world.repo().git_in(&other, ["config", "user.email", "bob@example.org"]);
    let run = world.start(&world.plan(&task("a", "", "echo a >a.txt")), &[]);
    gate.arrived();
    fs::write(other.join("bob.txt"), "bob\n").unwrap();
    let theirs = world.repo().commit_all_in(&other, "bob's");
    world.repo().git_in(&other, ["push", "--quiet", "origin", "main"]);
    gate.open();
    run.wait().exited(0);
    assert_landed(&world, &hub, &["a"]);
    assert_hub(&world, &hub, &["a"], std::slice::from_ref(&theirs));
    assert_eq!(world.repo().git_in(&hub, ["rev-parse", "main~1"]), theirs);
    assert_eq!(tested(&world).len(), 2, "it was tested on both tips");
    assert_eq!(world.repo().rev("main"), world.repo().git_in(&hub, ["rev-parse", "main"]));
    assert_eq!(world.repo().git(["status", "--porcelain"]), "");
}

#[test]
fn a_hub_without_atomic_pushes_is_refused_unless_that_is_accepted() {
    let mut world = World::new(REGATTA);
    recorded_gate(&world, "");
    let hub = hub_of(&mut world);
    world.repo().git_in(&hub, ["config", "receive.advertiseAtomic", "false"]);
    let plan = world.plan(&task("a", "", "echo a >a.txt"));
    world.run(&plan, &[]);
    world.assert_states(["a landing"]);
    let waits = text(&world.task("a")["reason"]).replace(shown(&hub), "HUB");
    insta::assert_snapshot!(waits, @"the hub HUB does not support atomic pushes, so a landing there cannot be protected from a lander that was replaced; use another hub, or accept that with `land.fence: best-effort`");
    assert_eq!(moves(&hub, MAIN).len(), 1);
    let file = world.outside("gate.sh");
    let yaml = format!("land: {{ test_command: \"'{}'\", fence: best-effort }}\n", file.display());
    world.repo().commit_file("regatta.yaml", &yaml, "settings");
    world.repo().git(["push", "--quiet", shown(&hub), "main"]);
    let mine = world.repo().rev("main");
    world.regatta(["land", "a"]).exited(0);
    assert_landed(&world, &hub, &["a"]);
    assert_hub(&world, &hub, &["a"], &[mine]);
}

#[test]
fn a_checkout_in_the_way_holds_up_only_itself() {
    let mut world = World::new(REGATTA);
    world.repo().commit_file("menu.txt", "soup\n", "menu");
    let hub = hub_of(&mut world);
    let before = world.repo().rev("main");
    world.repo().write("menu.txt", "salad\n");
    let both = [task("a", "", "echo stew >menu.txt"), task("b", "deps: [a]", "echo b >b.txt")];
    let plan = world.plan(&both.concat());
    let ran = world.run(&plan, &[]).exited(0);
    assert_landed(&world, &hub, &["a", "b"]);
    assert!(ran.stderr.contains("main is behind the hub: the checkout at"), "{}", ran.stderr);
    assert_eq!(world.repo().rev("main"), before);
    assert_eq!(fs::read_to_string(world.root().join("menu.txt")).unwrap(), "salad\n");
    let behind = "main is 2 commits behind the hub: the checkout at";
    for command in [&["land", "status"][..], &["status"], &["doctor"]] {
        let ran = world.regatta(command);
        assert!(ran.stdout.contains(behind), "{command:?}: {}", ran.stdout);
    }
    assert!(text(&world.regatta(["land", "status", "--json"]).json()["behind"]).starts_with(behind));
    let status = world.regatta(["status", "a"]).exited(0).stdout;
    assert!(!status.contains("taken back"), "it is at the hub: {status}");
    // The next engine brings it along.
    world.repo().git(["checkout", "--quiet", "--", "menu.txt"]);
    world.run(&world.plan(&task("c", "", "echo c >c.txt")), &[]).exited(0);
    assert_eq!(world.repo().rev("main"), world.repo().git_in(&hub, ["rev-parse", "main"]));
    assert_eq!(world.repo().git(["status", "--porcelain"]), "");
    let ran = world.regatta(["land", "status"]).exited(0);
    assert!(!ran.stdout.contains("behind"), "{}", ran.stdout);
}

#[test]
fn a_branch_with_commits_of_its_own_holds_up_only_itself() {
    let (world, hub) = with_hub();
    let mine = world.repo().commit_file("mine.txt", "mine\n", "mine");
    let ran = world.run(&world.plan(&task("a", "", "echo a >a.txt")), &[]).exited(0);
    assert_landed(&world, &hub, &["a"]);
    assert_eq!(world.repo().rev("main"), mine, "{}", ran.stdout);
    let has = world.repo().try_git(&hub, &["cat-file", "-e", &mine]);
    assert!(!has.status.success(), "a commit of the user's is not pushed by itself");
    let at = world.repo().git_in(&hub, ["rev-parse", "main"]);
    let doctor = world.regatta(["doctor"]).stdout.replace(&mine[..12], "MINE").replace(&at[..12], "HUB");
    assert!(doctor.contains("main (MINE) has commits that the hub (HUB) does not have"), "{doctor}");
}

#[test]
fn land_push_must_not_name_another_place_than_the_hub() {
    let mut world = World::new(REGATTA);
    let origin = world.remote();
    let hub = hub_of(&mut world);
    world.run(&world.plan(&task("a", "", "echo a >a.txt")), &[]);
    world.assert_states(["a landing"]);
    let waits = text(&world.task("a")["reason"]).replace(shown(&hub), "HUB");
    insta::assert_snapshot!(waits, @"work lands at the hub HUB, but land.push names the remote origin; turn land.push off, or use origin as the hub");
    // With the same place there is nothing to contradict.
    world.env("REGATTA_HUB", "origin");
    world.regatta(["land", "a"]).exited(0);
    assert_landed(&world, &origin, &["a"]);
    assert!(!world.repo().git_in(&origin, ["rev-parse", FENCE]).is_empty());
}

#[test]
fn a_run_waits_for_a_hub_that_is_away() {
    let mut world = World::new(REGATTA);
    let gate = world.barrier("gate");
    recorded_gate(&world, &gate.script());
    let hub = hub_of(&mut world);
    let mut run = world.start(&world.plan(&task("a", "", "echo a >a.txt")), &[]);
    gate.arrived();
    let away = world.outside("away.git");
    fs::rename(&hub, &away).unwrap();
    gate.open();
    run.wait_line("waits to land: could not reach the hub");
    fs::rename(&away, &hub).unwrap();
    run.wait().exited(0);
    assert_landed(&world, &hub, &["a"]);
    assert_hub(&world, &hub, &["a"], &[]);
    assert_eq!(world.repo().rev("main"), world.repo().git_in(&hub, ["rev-parse", "main"]));
}

#[test]
fn a_lander_that_cannot_reach_the_hub_gives_up_the_train() {
    let mut world = World::new(REGATTA);
    let gate = world.barrier("gate");
    recorded_gate(&world, &gate.script());
    let hub = hub_of(&mut world);
    world.env("REGATTA_TEST_FENCE_MS", "2000");
    let run = world.start(&world.plan(&task("a", "", "echo a >a.txt")), &[]);
    gate.arrived();
    let holder = || -> Option<String> {
        let sql = "select session from role where role = 'train:main'";
        world.database().query_row(sql, [], |row| row.get(0)).unwrap()
    };
    assert!(holder().is_some());
    let away = world.outside("away.git");
    fs::rename(&hub, &away).unwrap();
    gate.open();
    until("the train is free", || holder().is_none().then_some(()));
    fs::rename(&away, &hub).unwrap();
    run.wait().exited(0);
    assert_landed(&world, &hub, &["a"]);
    assert_hub(&world, &hub, &["a"], &[]);
    assert_ne!(fences(&world, &hub, "Term").last().map(String::as_str), Some("1"), "it was taken again");
}

#[test]
fn a_target_that_lost_landed_work_at_the_hub_stops_the_train() {
    let (world, hub) = with_hub();
    let before = world.repo().rev("main");
    world.run(&world.plan(&task("a", "", "echo a >a.txt")), &[]).exited(0);
    let at = world.repo().git_in(&hub, ["rev-parse", "main"]);
    world.repo().git_in(&hub, ["update-ref", MAIN, &before]);
    world.run(&world.plan(&task("b", "", "echo b >b.txt")), &[]);
    world.assert_states(["a landed", "b landing"]);
    let waits = text(&world.task("b")["reason"]).replace(shown(&hub), "HUB").replace(&at, "LANDED");
    let waits = waits.replace(&at[..12], "LANDED").replace(&before[..12], "BEFORE");
    insta::assert_snapshot!(waits, @"main at the hub HUB no longer has what landed on it: it was at LANDED and is at BEFORE without a; `regatta land resume` continues from there, `git push --force-with-lease HUB LANDED:main` brings it back");
    world.regatta(["land", "resume"]).exited(0);
    world.regatta(["land", "b"]).exited(0);
    assert_landed(&world, &hub, &["b"]);
    assert_eq!(world.repo().git_in(&hub, ["rev-parse", "main~1"]), before);
    // Here the branch still has what the hub lost: that is for a person to decide.
    assert_eq!(world.repo().rev("main"), at);
    let status = world.regatta(["land", "status"]).exited(0).stdout;
    assert!(status.contains("has commits that the hub"), "{status}");
}

#[test]
fn the_train_stays_with_its_holder_and_the_branch_of_another_clone_follows() {
    let mut world = World::new(REGATTA);
    let agent = world.barrier("agent");
    recorded_gate(&world, "");
    let hub = hub_of(&mut world);
    let other = world.outside("other");
    world.repo().git(["clone", "--quiet", shown(&hub), shown(&other)]);
    world.env("REGATTA_TRUST", "1");
    world.env("REGATTA_STORE", format!("sqlite:{}", world.outside("shared.db").display()));
    let last = format!("{}\necho b >b.txt", agent.script());
    let plan = world.plan(&[task("a", "", "echo a >a.txt"), task("b", "deps: [a]", &last)].concat());
    let run = world.start(&plan, &[]);
    agent.arrived();
    let has_followed = || {
        let at = |dir: &Path| world.repo().git_in(dir, ["rev-parse", "main"]);
        (at(&other) == at(&hub)).then_some(())
    };
    let daemon = world.begin_in(&other, ["daemon"]);
    until("what landed before is here", has_followed);
    assert!(other.join("a.txt").exists());
    agent.open();
    run.wait().exited(0);
    assert_landed(&world, &hub, &["a", "b"]);
    assert_hub(&world, &hub, &["a", "b"], &[]);
    // Between the two landings the run kept the train, though the daemon was there.
    assert_eq!(fences(&world, &hub, "Term"), ["1", "1", "1"]);
    until("what landed elsewhere is here", has_followed);
    until("the checkout has it too", || other.join("b.txt").exists().then_some(()));
    assert_eq!(world.repo().git_in(&other, ["status", "--porcelain"]), "");
    daemon.signal("TERM");
    daemon.wait().exited(0);
}

/// A second clone of the hub that uses the same store.
struct Clones {
    world: World,
    hub: PathBuf,
    other: PathBuf,
    store: String,
}

impl Clones {
    /// Two tasks are done in the first clone, and nothing has landed.
    fn with_work(project: &str) -> Self {
        let mut world = World::new(REGATTA);
        recorded_gate(&world, "");
        let hub = hub_of(&mut world);
        let other = world.outside("other");
        world.repo().git(["clone", "--quiet", shown(&hub), shown(&other)]);
        world.env("REGATTA_TRUST", "1");
        let store = Server::shared().url(&format!("hubl_{project}"));
        world.env("REGATTA_STORE", &store);
        let both =
            [task("a", "auto_land: false", "echo a >a.txt"), task("b", "auto_land: false", "echo b >b.txt")];
        world.run(&world.plan(&both.concat()), &[]).exited(0);
        world.assert_states(["a done", "b done"]);
        Self { world, hub, other, store }
    }

    /// Starts to land in the first clone, until this place is reached.
    fn land_until(&mut self, place: &str) -> (Running, Barrier) {
        let root = self.world.root().to_owned();
        self.land_in_until(&root, place, place)
    }

    /// The same in one of the clones; the barrier gets this name.
    fn land_in_until(&mut self, clone: &Path, place: &str, name: &str) -> (Running, Barrier) {
        let barrier = self.world.barrier(name);
        let path = self.world.outside(name);
        self.world.env("REGATTA_PAUSEPOINT", format!("{place}:{}", path.display()));
        let lander = self.world.begin_in(clone, ["land", "a", "b"]);
        self.world.env("REGATTA_PAUSEPOINT", "");
        barrier.arrived();
        (lander, barrier)
    }

    /// The lander at this barrier continues, and does not pause there again.
    fn go_on(&self, barrier: &Barrier, name: &str) {
        barrier.open();
        for end in ["arrive", "leave"] {
            fs::remove_file(self.world.outside(&format!("{name}.{end}"))).unwrap();
        }
    }

    /// Ends the sessions of all landers, as another node does when it hears nothing of them.
    fn expire_landers(&self) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let store = regatta_store::open(&self.store).await.unwrap();
            let mut ended = 0;
            for info in store.sessions().await.unwrap() {
                if info.session.0.starts_with("land") {
                    store.expire_session(&info.session, info.beat, None, clock::now()).await.unwrap();
                    ended += 1;
                }
            }
            assert_eq!(ended, 1);
        });
    }
}

/// A lander stops at this place, another one in another clone takes over and lands everything, and the first one
/// continues.
fn replaced_at(place: &str) {
    let mut clones = Clones::with_work(&place.replace('-', "_"));
    let (first, barrier) = clones.land_until(place);
    first.signal("STOP");
    clones.expire_landers();
    let Clones { world, hub, other, .. } = &clones;
    // What the first one has recorded already is refused; the rest lands.
    let ran = world.regatta_in(other, ["land", "a", "b"]);
    assert!(ran.code == 0 || place == "landed", "{} {}", ran.stdout, ran.stderr);
    assert_landed(world, hub, &["a", "b"]);
    let then = world.repo().git_in(hub, ["rev-parse", "main"]);
    let fence = world.repo().git_in(hub, ["rev-parse", FENCE]);
    first.signal("CONT");
    clones.go_on(&barrier, place);
    let ran = first.wait();
    assert_eq!(world.repo().git_in(hub, ["rev-parse", "main"]), then, "{} {}", ran.stdout, ran.stderr);
    assert_eq!(world.repo().git_in(hub, ["rev-parse", FENCE]), fence, "{} {}", ran.stdout, ran.stderr);
    assert_landed(world, hub, &["a", "b"]);
    assert_hub(world, hub, &["a", "b"], &[]);
    world.assert_sound();
}

/// Taking the train alone is enough: the target is still where the first lander saw it.
#[test]
fn a_lander_whose_successor_has_not_landed_yet_lands_nothing() {
    let mut clones = Clones::with_work("early");
    let (first, barrier) = clones.land_until("gated");
    first.signal("STOP");
    clones.expire_landers();
    let other = clones.other.clone();
    let (second, next) = clones.land_in_until(&other, "gated", "second");
    let Clones { world, hub, .. } = &clones;
    let then = world.repo().git_in(hub, ["rev-parse", "main"]);
    first.signal("CONT");
    clones.go_on(&barrier, "gated");
    let ran = first.wait();
    assert_eq!(moves(hub, MAIN).len(), 1, "{} {}", ran.stdout, ran.stderr);
    assert_eq!(world.repo().git_in(hub, ["rev-parse", "main"]), then);
    clones.go_on(&next, "second");
    second.wait().exited(0);
    assert_landed(world, hub, &["a", "b"]);
    assert_hub(world, hub, &["a", "b"], &[]);
}

/// The same with a successor that only knows that it hears nothing of the first one.
#[test]
fn a_lander_that_falls_silent_is_replaced_from_another_clone() {
    let mut clones = Clones::with_work("silent");
    clones.world.env("REGATTA_TEST_FENCE_MS", "2000");
    let (first, barrier) = clones.land_until("gated");
    first.signal("STOP");
    let Clones { world, hub, other, .. } = &clones;
    world.regatta_in(other, ["land", "a", "b"]).exited(0);
    let then = world.repo().git_in(hub, ["rev-parse", "main"]);
    first.signal("CONT");
    barrier.open();
    first.wait();
    assert_eq!(world.repo().git_in(hub, ["rev-parse", "main"]), then);
    assert_landed(world, hub, &["a", "b"]);
    assert_hub(world, hub, &["a", "b"], &[]);
    assert_eq!(fences(world, hub, "Term").first().map(String::as_str), Some("1"));
    assert_eq!(fences(world, hub, "Term").last().map(String::as_str), Some("2"));
}

#[test]
fn a_lander_that_was_replaced_after_its_intent_lands_nothing() {
    replaced_at("intended");
}

#[test]
fn a_lander_that_was_replaced_after_a_test_lands_nothing() {
    replaced_at("tested");
}

#[test]
fn a_lander_that_was_replaced_before_its_push_lands_nothing() {
    replaced_at("gated");
}

#[test]
fn a_lander_that_was_replaced_after_its_push_has_landed_once() {
    replaced_at("pushed");
}

#[test]
fn a_lander_that_was_replaced_after_it_recorded_the_landing_has_landed_once() {
    replaced_at("landed");
}

#[test]
fn a_lander_that_was_replaced_while_its_branch_followed_has_landed_once() {
    replaced_at("ref-moved");
}
