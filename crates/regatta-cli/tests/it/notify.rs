//! `notify` in `regatta.yaml`: which sink gets what, how often, and what happens when none listens.

pub(crate) mod hook;

use std::path::Path;

use regatta_testkit::daemon::until;
use regatta_testkit::repo::script;
use regatta_testkit::shown::shown;
use regatta_testkit::world::{World, task, text};
use serde_json::{Value, json};

use crate::REGATTA;
use hook::{Hook, Mood, line};

const EVERYTHING: &str = "[landed, done, blocked, failed, parked, needs-input, idle]";

/// One task that lands, one that fails, one that has a question, one with nothing to land.
fn four_ends(world: &World) -> std::path::PathBuf {
    let stuck = "agent: sim\nverdict_adapter: chain";
    world.plan(
        &[
            task("good", "", "# Bake the bread\necho good >good.txt"),
            task("bad", "", "# Burn it\nexit 3"),
            task("ask", stuck, "# Ask\nstuck which colour?"),
            task("look", "read_only: true", "# Look at it\ntrue"),
        ]
        .concat(),
    )
}

fn webhook(world: &World, on: &str, url: &str) {
    world.config(&format!("notify: [{{ on: {on}, webhook: \"{url}\", allow_private: true }}]\n"));
}

#[test]
fn each_transition_is_posted_once_and_not_again_by_the_next_run() {
    let world = World::new(REGATTA);
    let hook = Hook::new(Mood::Answers(200));
    webhook(&world, EVERYTHING, &hook.url("hooks/very-secret-path"));
    let plan = four_ends(&world);
    let ran = world.run(&plan, &[]).exited(1);
    assert!(!format!("{}{}", ran.stdout, ran.stderr).contains("very-secret"), "{ran:?}");
    assert_eq!(hook.told(), ["done look", "failed bad", "idle", "landed good", "needs-input ask"]);
    let posts = hook.posts();
    let find = |wanted: &str| posts.iter().find(|post| line(&post.body) == wanted).unwrap();
    let landed = find("landed good");
    assert!(landed.head.starts_with("POST /hooks/very-secret-path HTTP/1.1\r\n"), "{}", landed.head);
    let head = landed.head.to_ascii_lowercase();
    let content = head.lines().find_map(|line| line.strip_prefix("content-type: "));
    assert_eq!(content, Some("application/json"), "{}", landed.head);
    let project = world.root().file_name().unwrap().to_str().unwrap();
    let commit = world.repo().git(["rev-parse", "main"]);
    for (key, value) in
        [("title", "Bake the bread"), ("state", "landed"), ("project", project), ("commit", commit.trim())]
    {
        assert_eq!(landed.body[key], value, "{key}");
    }
    assert!(text(&landed.body["at"]).ends_with('Z') && landed.body["reason"].is_null());
    assert_eq!(find("needs-input ask").body["state"], "blocked");
    insta::assert_snapshot!(text(&find("needs-input ask").body["reason"]), @"needs-input: which colour?");
    insta::assert_snapshot!(text(&find("failed bad").body["reason"]), @"the agent failed (exit 3)");
    let idle = &posts.last().unwrap().body;
    assert_eq!(idle["kind"], "idle", "it comes last");
    assert_eq!(idle["counts"], json!({ "blocked": 1, "done": 1, "failed": 1, "landed": 1 }));

    // A retried task ends again; a landed one is not reported again.
    world.run(&plan, &["--resume"]).exited(1);
    let again: Vec<String> = hook.posts()[posts.len()..].iter().map(|post| line(&post.body)).collect();
    assert_eq!(again.len(), 3, "{again:?}");
    assert!(["failed bad", "needs-input ask", "idle"].iter().all(|told| again.iter().any(|a| a == told)));
    // A run with nothing to do has nothing to report.
    let settled = world.plan(&task("good", "", "# Bake the bread\necho good >good.txt"));
    world.run(&settled, &["--resume"]).exited(0);
    let seqs: Vec<Value> = hook.posts().iter().map(|post| post.body["seq"].clone()).collect();
    assert_eq!(seqs.len(), posts.len() + 3, "nothing more");
    for (n, seq) in seqs.iter().enumerate().filter(|(_, seq)| !seq.is_null()) {
        assert!(!seqs[..n].contains(seq), "{seq} was told twice");
    }
}

#[test]
fn only_what_was_asked_for_is_told_and_the_past_is_not() {
    let world = World::new(REGATTA);
    let plan = four_ends(&world);
    world.run(&plan, &[]).exited(1);
    let hook = Hook::new(Mood::Answers(204));
    let url = hook.url("x");
    // Two rows with one address are one sink.
    world.config(&format!(
        "notify:\n  - {{ on: blocked, webhook: \"{url}\", allow_private: true }}\n  - {{ on: needs-input, webhook: \"{url}\", allow_private: true }}\n"
    ));
    world.run(&plan, &["--resume"]).exited(1);
    let told: Vec<String> = hook.posts().iter().map(|post| line(&post.body)).collect();
    assert_eq!(told, ["needs-input ask"]);
}

#[test]
fn a_server_that_hangs_does_not_hold_the_run_up_and_the_next_one_tells_it() {
    let world = World::new(REGATTA);
    let hook = Hook::new(Mood::Hangs);
    webhook(&world, "[landed]", &hook.url("x"));
    let plan = world.plan(&task("a", "", "echo a >a.txt"));
    let ran = world.run(&plan, &[]).exited(0);
    insta::assert_snapshot!(hook.without_port(&ran), @"notify: 1 not sent to http://127.0.0.1:PORT/… in time; the next run or daemon of this project sends them");
    assert_eq!(hook.posts().len(), 1, "nobody waited for a second try");
    hook.set(Mood::Answers(200));
    world.run(&plan, &["--resume"]).exited(0);
    world.run(&plan, &["--resume"]).exited(0);
    assert_eq!(hook.told(), ["landed a"]);
}

#[test]
fn what_a_killed_run_left_untold_is_told_by_the_next() {
    let world = World::new(REGATTA);
    let hook = Hook::new(Mood::Hangs);
    webhook(&world, "[landed, idle]", &hook.url("x"));
    let second = world.barrier("second");
    let plan = world.plan(
        &[
            task("a", "priority: 9", "echo a >a.txt"),
            task("b", "deps: [a]", &format!("{}\necho b >b.txt", second.script())),
        ]
        .concat(),
    );
    let run = world.start(&plan, &[]);
    second.arrived();
    hook.wait(1);
    run.kill();
    hook.set(Mood::Answers(200));
    second.open();
    world.run(&plan, &["--resume"]).exited(0);
    assert_eq!(hook.told(), ["idle", "landed a", "landed b"]);
}

#[test]
fn a_webhook_that_fails_is_tried_three_times_and_one_that_refuses_once() {
    let mut said = String::new();
    for (status, tries) in [(503, 3), (404, 1), (302, 1)] {
        let world = World::new(REGATTA);
        let hook = Hook::new(Mood::Answers(status));
        webhook(&world, "[failed]", &hook.url("hooks/very-secret-path"));
        // Another task keeps the run going, so that there is time for all tries.
        let barrier = world.barrier("tried");
        let (bad, slow) = (task("bad", "", "exit 1"), task("slow", "", &barrier.script()));
        let run = world.start(&world.plan(&[bad, slow.clone()].concat()), &[]);
        hook.wait(tries);
        barrier.arrived();
        barrier.open();
        let ran = run.wait().exited(1);
        assert!(!format!("{}{}", ran.stdout, ran.stderr).contains("very-secret"), "{ran:?}");
        said += &hook.without_port(&ran);
        assert_eq!(hook.posts().len(), tries, "{status}");
        // A notification that was given up is not sent later.
        hook.set(Mood::Answers(200));
        let settled = world.plan(&slow);
        world.run(&settled, &["--resume"]).exited(0);
        assert!(hook.told().is_empty());
    }
    insta::assert_snapshot!(said, @"
    notify: bad failed was not sent to http://127.0.0.1:PORT/…: it answers 503
    hint: `regatta status ID` and `regatta logs ID` show why; `regatta run --resume DIR/plan.md` retries
    notify: bad failed was not sent to http://127.0.0.1:PORT/…: it answers 404
    hint: `regatta status ID` and `regatta logs ID` show why; `regatta run --resume DIR/plan.md` retries
    notify: bad failed was not sent to http://127.0.0.1:PORT/…: it answers 302, and redirects are not followed
    hint: `regatta status ID` and `regatta logs ID` show why; `regatta run --resume DIR/plan.md` retries
    ");
}

#[test]
fn a_name_that_leads_to_this_machine_is_refused() {
    let world = World::new(REGATTA);
    let hook = Hook::new(Mood::Answers(200));
    let url = format!("https://localhost:{}/very-secret-path", hook.port());
    world.config(&format!("notify: [{{ on: landed, webhook: \"{url}\" }}]\n"));
    let ran = world.run(&world.plan(&task("a", "", "echo a >a.txt")), &[]).exited(0);
    insta::assert_snapshot!(hook.without_port(&ran), @"notify: a landed was not sent to https://localhost:PORT/…: its name leads to 127.0.0.1, on this machine or its network; `allow_private: true` allows that");
    assert!(!ran.stdout.contains("very-secret"), "{ran:?}");
    assert!(hook.posts().is_empty());
}

#[test]
fn over_https_only_a_trusted_certificate_will_do() {
    let (hook, pem) = Hook::with_tls();
    for trusted in [false, true] {
        let mut world = World::new(REGATTA);
        let certificate = world.outside("ca.pem");
        std::fs::write(&certificate, &pem).unwrap();
        if trusted {
            world.env("SSL_CERT_FILE", &certificate);
        }
        webhook(&world, "[landed]", &format!("https://localhost:{}/x", hook.port()));
        let ran = world.run(&world.plan(&task("a", "", "echo a >a.txt")), &[]).exited(0);
        assert_eq!(hook.posts().len(), usize::from(trusted), "{ran:?}");
        let said = ran.shown().replace(&hook.port().to_string(), "PORT");
        if trusted {
            insta::assert_snapshot!(said, @"
            test → main: 1 task
                TIME a  agent started, process PID
                TIME a  landed on main as HASH

            ✓ a landed HASH

            1 landed in TIME on main
            ");
        } else {
            insta::assert_snapshot!(said, @"
            test → main: 1 task
                TIME a  agent started, process PID
                TIME a  landed on main as HASH

            ✓ a landed HASH

            1 landed in TIME on main
            --- stderr
            notify: a landed was not sent to https://localhost:PORT/…: io: invalid peer certificate: UnknownIssuer
            ");
        }
    }
}

#[test]
fn a_command_reads_the_payload_and_secrets_are_masked() {
    let mut world = World::new(REGATTA);
    world.env("SOME_API_KEY", "hunter2hunter2");
    let (out, env) = (world.outside("out"), world.outside("env"));
    let line = "cat >>\"$0\"; echo \"$REGATTA_NOTIFY_KIND $REGATTA_NOTIFY_TASK $REGATTA_NOTIFY_TITLE\" >>\"$1\"; pwd >>\"$1\"";
    world.config(&format!(
        "notify: [{{ on: failed, command: [sh, -c, {}, {}, {}] }}, {{ on: failed, log: true }}]\n",
        json!(line),
        json!(out),
        json!(env)
    ));
    let ran = world.run(&world.plan(&task("bad", "", "# Use hunter2hunter2 now\nexit 3")), &[]).exited(1);
    let payload: Value = serde_json::from_str(&read(&out)).unwrap();
    assert_eq!((text(&payload["kind"]), text(&payload["task"])), ("failed", "bad"));
    assert_eq!(payload["title"], "Use [redacted:SOME_API_KEY] now");
    let root = world.root().canonicalize().unwrap();
    let expected = format!("failed bad Use [redacted:SOME_API_KEY] now\n{}\n", root.display());
    assert_eq!(read(&env), expected);
    // The log has the same.
    insta::assert_snapshot!(ran.shown(), @"
    test → main: 1 task
        TIME bad  agent started, process PID
        TIME bad  failed: the agent failed (exit 3)

    ✕ bad failed

    ✕ bad failed: the agent failed (exit 3)
    1 failed in TIME on main
    --- stderr
    repo: bad failed: the agent failed (exit 3) (Use [redacted:SOME_API_KEY] now)
    hint: `regatta status ID` and `regatta logs ID` show why; `regatta run --resume DIR/plan.md` retries
    --- exit 1
    ");
    world.assert_no_process();
    let runs = world.root().join(".regatta/notify/runs");
    assert_eq!(std::fs::read_dir(runs).unwrap().count(), 0);
}

#[test]
fn a_command_that_hangs_is_ended_with_its_tree_and_one_that_fails_is_said() {
    let world = World::new(REGATTA);
    world.config(
        "notify: [{ on: landed, command: [sh, -c, \"sleep 600 & sleep 600\"] }, { on: landed, command: [sh, -c, \"echo no such thing >&2; exit 4\"] }, { on: landed, command: [no-such-program-anywhere] }]\n",
    );
    // It does not wait for ten minutes, because the run would have to wait for it.
    let ran = world.run(&world.plan(&task("a", "", "echo a >a.txt")), &[]).exited(0);
    let mut lines: Vec<&str> = ran.stderr.lines().collect();
    lines.sort_unstable();
    insta::assert_snapshot!(shown(&lines.join("\n")), @"
    notify: 1 not sent to sh in time; the next run or daemon of this project sends them
    notify: a landed was not sent to no-such-program-anywhere: No such file or directory (os error 2)
    notify: a landed was not sent to sh: exit 4: no such thing
    ");
    world.assert_no_process();
}

#[test]
fn the_desktop_is_told_where_there_is_one() {
    let mut world = World::new(REGATTA);
    let bin = world.outside("bin");
    let shown = world.outside("shown");
    std::fs::create_dir_all(&bin).unwrap();
    script(
        &bin.join("notify-send"),
        &format!("for word in \"$@\"; do echo \"$word\" >>'{}'; done", shown.display()),
    );
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap_or_default());
    world.env("PATH", path);
    world.config("notify: [{ on: failed, desktop: true }]\n");
    world.run(&world.plan(&task("bad", "", "# Burn it\nexit 3")), &[]).exited(1);
    let words = read(&shown);
    insta::assert_snapshot!(words, @"
    --app-name=regatta
    --urgency=critical
    --
    bad: failed
    repo: bad failed: the agent failed (exit 3) (Burn it)
    ");
}

#[test]
fn a_daemon_tells_once_that_nothing_is_left_to_do_also_when_it_is_started_again() {
    let world = World::new(REGATTA);
    let hook = Hook::new(Mood::Answers(200));
    webhook(&world, EVERYTHING, &hook.url("x"));
    let add = |id: &str| {
        world.regatta(["add", "echo hello", "--id", id, "--agent", "sh"]).exited(0);
    };
    let daemon = |word: &str| {
        world.regatta(["daemon", word]).exited(0);
    };
    daemon("start");
    add("a");
    hook.wait(2);
    assert_eq!(hook.told(), ["done a", "idle"]);
    daemon("stop");
    // What happens while no engine runs is reported by the next one; that nothing is left to do is known already.
    add("b");
    world.regatta(["park", "b", "--until", "1h"]).exited(0);
    daemon("start");
    hook.wait(3);
    daemon("stop");
    assert_eq!(hook.told(), ["done a", "idle", "parked b"]);
    daemon("start");
    world.regatta(["unpark", "b"]).exited(0);
    hook.wait(5);
    daemon("stop");
    assert_eq!(hook.told(), ["done a", "done b", "idle", "idle", "parked b"]);
}

#[test]
fn a_desktop_that_is_not_there_is_said_once() {
    let mut world = World::new(REGATTA);
    // Everything that a run needs, and nothing else.
    let bin = world.outside("bin");
    std::fs::create_dir_all(&bin).unwrap();
    for name in ["git", "sh", "cat"] {
        let path = std::env::var_os("PATH").unwrap();
        let mut places = std::env::split_paths(&path).map(|dir| dir.join(name));
        let program = places.find(|path| path.is_file()).expect("it is installed");
        std::os::unix::fs::symlink(program, bin.join(name)).unwrap();
    }
    world.env("PATH", &bin);
    world.config("notify: [{ on: [landed, idle], desktop: true }]\n");
    let plan = world.plan(&[task("a", "", "echo a >a.txt"), task("b", "", "echo b >b.txt")].concat());
    let ran = world.run(&plan, &[]).exited(0);
    let said = format!("{}{}", ran.stdout, ran.stderr);
    assert_eq!(said.matches("there is no notify-send on PATH").count(), 1, "{said}");
}

#[test]
fn of_too_many_that_wait_the_oldest_are_not_told_and_that_is_said() {
    let world = World::new(REGATTA);
    world.config("notify: [{ on: [parked], log: true }]\n");
    let daemon = world.daemon();
    daemon.signal("TERM");
    daemon.wait().exited(0);
    let tasks: String = (0..300).map(|n| task(&format!("t{n:03}"), "", "true")).collect();
    world.enqueue(&world.plan(&tasks));
    world.regatta(["park", "--all"]).exited(0);
    let mut daemon = world.daemon();
    daemon.wait_line("too far behind: 44 older notifications are not sent");
    daemon.wait_line("t299");
    daemon.signal("TERM");
    let said = daemon.wait().exited(0).stdout;
    let told = |id: &str| said.lines().filter(|line| line.contains("\"said\"") && line.contains(id)).count();
    assert_eq!((told("t043"), told("t044"), told("t150"), told("t299")), (0, 1, 1, 1));
}

#[test]
fn a_daemon_tells_whoever_the_settings_name_after_sighup() {
    let world = World::new(REGATTA);
    let (first, second) = (world.outside("first"), world.outside("second"));
    let tell = |path: &Path| {
        format!(
            "land: {{ auto: true }}\nnotify: [{{ on: [landed], command: [sh, -c, \"cat >>{}\"] }}]\n",
            path.display()
        )
    };
    let land = |id: &str| {
        world.enqueue(&world.plan(&task(id, "", &format!("echo {id} >{id}.txt"))));
        world.wait_state(id, "landed");
    };
    world.repo().write("regatta.yaml", tell(&first));
    let mut daemon = world.daemon();
    land("a");
    until("the first is told", || so_far(&first).contains("\"a\"").then_some(()));
    world.repo().write("regatta.yaml", tell(&second));
    daemon.signal("HUP");
    daemon.wait_line("settings reloaded");
    land("b");
    until("the second is told", || so_far(&second).contains("\"b\"").then_some(()));
    world.repo().write("regatta.yaml", "land: { auto: true }\n");
    daemon.signal("HUP");
    daemon.wait_line("settings reloaded");
    land("c");
    daemon.signal("TERM");
    daemon.wait().exited(0);
    let all = format!("{}{}", read(&first), read(&second));
    assert_eq!(
        (all.matches("\"kind\":\"landed\"").count(), read(&first).contains("\"b\"")),
        (2, false),
        "{all}"
    );
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The content so far; empty if there is none.
fn so_far(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_default()
}
