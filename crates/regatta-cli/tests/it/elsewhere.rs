//! What is on the disk of another machine, shown here: work in its lanes that is not committed.

use std::fs;
use std::process::Output;
use std::sync::Arc;

use regatta_engine::clock;
use regatta_store::{DocumentWrite, LOG_PIECE, LOG_REQUEST, Store};
use regatta_testkit::daemon::until;
use regatta_testkit::postgres::Server;
use regatta_testkit::repo::{script, write};
use regatta_testkit::running::Running;
use regatta_testkit::world::{World, task, text};
use regatta_testkit::zookeeper::Ensemble;

use super::REGATTA;

/// Two clones with one store and one hub.
struct Pair {
    one: World,
    two: World,
    store: String,
}

impl Pair {
    fn new(project: &str) -> Self {
        Self::on(Server::shared().url(&format!("elsewhere_{project}")))
    }

    fn on(store: String) -> Self {
        let (mut one, mut two) = (World::new(REGATTA), World::new(REGATTA));
        let hub = one.outside("hub.git");
        let shown = hub.display().to_string();
        one.repo().git(["init", "--quiet", "--bare", "--initial-branch=main", &shown]);
        one.repo().git(["push", "--quiet", &shown, "main"]);
        for (world, name) in [(&mut one, "big-1"), (&mut two, "big-2")] {
            write(&world.outside("home/regatta/node.yaml"), format!("name: {name}\n"));
            world.env("REGATTA_STORE", &store).env("REGATTA_HUB", &hub);
            // Agents leave signs beside the first clone.
            world.env("REGATTA_SANDBOX", "off");
        }
        Self { one, two, store }
    }

    /// With a lease of six seconds.
    fn leased(project: &str) -> Self {
        let mut pair = Self::new(project);
        for world in [&mut pair.one, &mut pair.two] {
            world.env("REGATTA_TEST_FENCE_MS", "4000");
        }
        pair
    }

    /// Queues a task that works, and then waits at a barrier in its lane.
    fn at_work(&self, id: &str, work: &str) -> regatta_testkit::world::Barrier {
        let barrier = self.one.barrier(id);
        let keys = "auto_land: false\nmax_attempts: 1\nrequires: [\"node:big-1\"]";
        let plan = self.one.plan(&task(id, keys, &format!("{work}\n{}", barrier.script())));
        self.one.enqueue(&plan);
        barrier.arrived();
        barrier
    }

    /// The output of the same command on both machines.
    fn both(&self, args: &[&str]) -> (Output, Output) {
        let run = |world: &World| {
            // However long the other machine takes.
            let args = ["--quiet"].iter().chain(args);
            let output = world.command(world.root(), args.clone()).output().unwrap();
            assert!(output.status.success(), "{:?}: {}", args, String::from_utf8_lossy(&output.stderr));
            output
        };
        (run(&self.one), run(&self.two))
    }

    fn state(&self, id: &str) -> String {
        text(&self.two.regatta(["status", id, "--json"]).exited(0).json()["state"]).to_owned()
    }

    fn store<T>(&self, work: impl AsyncFnOnce(Arc<dyn Store>) -> T) -> T {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async { work(regatta_store::open(&self.store).await.unwrap()).await })
    }
}

fn stop(daemon: Running) {
    daemon.signal("TERM");
    daemon.wait().exited(0);
}

/// Committed, changed, deleted and untracked work, with odd names.
const WORK: &str = "echo one >committed.txt; git add committed.txt; git commit -qm committed\n\
                    echo more >>committed.txt; echo hallo >README.md\n\
                    printf 'soup ä 😀\\n' >'new file ü.txt'; printf 'a\\377b\\n' >latin.txt; printf 'a\\000b' >binary";

fn shows_a_lane_as_it_is_there(pair: &Pair) {
    let daemon = pair.one.daemon();
    let barrier = pair.at_work("long", WORK);
    for args in [
        &["diff", "long"][..],
        &["diff", "long", "--stat"],
        &["diff", "long", "--name-only"],
        &["diff", "long", "--against", "main"],
    ] {
        let (there, here) = pair.both(args);
        assert!(!there.stdout.is_empty() && there.stdout == here.stdout, "{args:?}");
        assert_eq!(String::from_utf8_lossy(&here.stderr), "", "{args:?}");
    }
    let patch = pair.two.regatta(["diff", "long"]).exited(0).shown();
    insta::allow_duplicates! {
        insta::assert_snapshot!(patch, @"
        diff --git a/README.md b/README.md
        index HASH..HASH 100644
        --- a/README.md
        +++ b/README.md
        @@ -1 +1 @@
        -hello
        +hallo
        diff --git a/binary b/binary
        new file mode 100644
        index HASH..HASH
        Binary files /dev/null and b/binary differ
        diff --git a/committed.txt b/committed.txt
        new file mode 100644
        index HASH..HASH
        --- /dev/null
        +++ b/committed.txt
        @@ -0,0 +1,2 @@
        +one
        +more
        diff --git a/latin.txt b/latin.txt
        new file mode 100644
        index HASH..HASH
        --- /dev/null
        +++ b/latin.txt
        @@ -0,0 +1 @@
        +a�b
        diff --git a/new file ü.txt b/new file ü.txt
        new file mode 100644
        index HASH..HASH
        --- /dev/null
        +++ b/new file ü.txt
        @@ -0,0 +1 @@
        +soup ä 😀
        ");
    }
    let (there, here) = pair.both(&["diff", "long", "--json"]);
    let json = |output: Output| serde_json::from_slice::<serde_json::Value>(&output.stdout).unwrap();
    let (mut there, here) = (json(there), json(here));
    there["node"] = "big-1".into();
    assert_eq!(there, here);
    assert_eq!(here["files"].as_array().unwrap().len(), 5);
    let (there, here) = pair.both(&["diff", "long", "--stat", "--json"]);
    assert_eq!(json(there)["stat"], json(here)["stat"]);
    barrier.open();
    until("it is done", || (pair.state("long") == "done").then_some(()));
    stop(daemon);
    // Finished work is at the hub: nobody is asked.
    let done = pair.two.regatta(["diff", "long", "--name-only"]).exited(0).stdout;
    assert!(done.contains("committed.txt") && done.contains("README.md"), "{done}");
}

#[test]
fn work_that_is_not_committed_is_shown_from_another_machine() {
    shows_a_lane_as_it_is_there(&Pair::new("diff"));
}

#[test]
fn work_that_is_not_committed_is_shown_through_zookeeper() {
    shows_a_lane_as_it_is_there(&Pair::on(Ensemble::shared().url("elsewhere_diff")));
}

#[test]
fn a_diff_of_many_pieces_is_whole_and_one_that_is_too_long_says_so() {
    let pair = Pair::new("large");
    let daemon = pair.one.daemon();
    // Every piece of 32 KiB ends inside a character somewhere.
    let big = "i=0; while [ $i -lt 6000 ]; do echo \"$i äöü😀😀😀 soupe à l’oignon 汤汤汤汤汤\"; i=$((i+1)); done >big.txt";
    let first = pair.at_work("big", big);
    let (there, here) = pair.both(&["diff", "big"]);
    assert!(here.stdout.len() > 10 * 32 * 1024, "{}", here.stdout.len());
    assert!(there.stdout == here.stdout, "they differ");

    // One line of 12 million bytes, and many lines before it.
    let huge = "yes '汤ä' | head -n 1200000 >a.txt; yes 汤 | head -n 2000000 | tr -d '\\n' >b.txt; yes 汤 | head -n 2000000 | tr -d '\\n' >c.txt";
    let second = pair.at_work("huge", huge);
    let cut = pair.two.regatta(["--quiet", "diff", "huge"]).exited(0);
    let (there, here) = pair.both(&["diff", "huge"]);
    assert!(here.stdout.len() <= 8 << 20 && here.stdout.len() > 7 << 20, "{}", here.stdout.len());
    assert!(there.stdout.starts_with(&here.stdout) && here.stdout.ends_with(b"\n"));
    assert!(String::from_utf8(here.stdout).is_ok(), "cut between characters");
    insta::assert_snapshot!(cut.stderr, @"warning: the diff is cut: 12.1 MB more are on big-1, where `regatta diff huge` shows all of it; `--stat` is shorter");
    let json = pair.two.regatta(["diff", "huge", "--json"]).exited(0).json();
    let shown = text(&json["patch"]).len() as u64;
    assert_eq!(json["cut_bytes"].as_u64().unwrap() + shown, there.stdout.len() as u64);
    assert_eq!(json["files"].as_array().unwrap().len(), 3);
    let (there, here) = pair.both(&["diff", "huge", "--stat"]);
    assert_eq!((there.stdout, String::from_utf8_lossy(&here.stderr).as_ref()), (here.stdout, ""));
    first.open();
    second.open();
    until("both are done", || (pair.state("big") == "done" && pair.state("huge") == "done").then_some(()));
    stop(daemon);
}

#[test]
fn secrets_in_a_lane_do_not_leave_its_machine() {
    let mut pair = Pair::new("masked");
    pair.one.env("SHOP_API_KEY", "from-the-environment-1234");
    pair.one.repo().write(".worktreeinclude", ".env\n");
    pair.one.repo().write(".env", "DB_PASSWORD=brought-into-the-lane-5678\n");
    let daemon = pair.one.daemon();
    let work = "echo key=from-the-environment-1234 >leak.txt\n\
                echo password: brought-into-the-lane-5678 >>leak.txt\n\
                echo TOKEN=made-by-the-agent-9012 >made.env; echo made-by-the-agent-9012 >copy.txt\n\
                echo ghp_0123456789abcdefghijABCDEFGHIJ012345 >>leak.txt";
    let barrier = pair.at_work("leaks", work);
    let shown = pair.two.regatta(["--quiet", "diff", "leaks"]).exited(0);
    insta::assert_snapshot!(shown.shown(), @"
    diff --git a/copy.txt b/copy.txt
    new file mode 100644
    index HASH..HASH
    --- /dev/null
    +++ b/copy.txt
    @@ -0,0 +1 @@
    +[redacted:TOKEN]
    diff --git a/leak.txt b/leak.txt
    new file mode 100644
    index HASH..HASH
    --- /dev/null
    +++ b/leak.txt
    @@ -0,0 +1,3 @@
    +key=[redacted:SHOP_API_KEY]
    +password: [redacted:DB_PASSWORD]
    +[redacted:github-token]
    diff --git a/made.env b/made.env
    new file mode 100644
    index HASH..HASH
    --- /dev/null
    +++ b/made.env
    @@ -0,0 +1 @@
    +TOKEN=[redacted:TOKEN]
    --- stderr
    warning: secrets in the diff are masked; `regatta diff leaks` on big-1 shows the files as they are
    ");
    for secret in ["environment-1234", "lane-5678", "agent-9012", "ghp_0123"] {
        assert!(!shown.stdout.contains(secret), "{}", shown.stdout);
    }
    let json = pair.two.regatta(["diff", "leaks", "--json"]).exited(0);
    assert!(!json.stdout.contains("1234") && json.stderr.contains("masked"), "{}", json.stderr);
    barrier.open();
    until("it is done", || (pair.state("leaks") == "done").then_some(()));
    stop(daemon);
}

#[test]
fn work_on_a_node_that_is_lost_or_stopped_is_refused_with_a_sentence() {
    let pair = Pair::leased("lost");
    let in_one = pair.one.daemon();
    let _barrier = pair.at_work("long", "echo begun >begun.txt");
    let in_two = pair.two.daemon();
    in_one.kill();
    until("its task was taken back", || (pair.state("long") == "pending").then_some(()));
    let refused = pair.two.regatta(["diff", "long"]).exited(4).stderr;
    insta::assert_snapshot!(without_times(&refused), @"
    error: the work of attempt 1 of long is on big-1, which has been lost since TIME
    hint: `regatta node list` shows all nodes; if long continues elsewhere, it does so with what was saved at the hub
    ");
    let refused = pair.two.regatta(["logs", "long"]).exited(4).stderr;
    insta::assert_snapshot!(without_times(&refused), @"
    error: the log of attempt 1 of long is on big-1, which has been lost since TIME
    hint: `regatta node list` shows all nodes; if long continues elsewhere, it does so with what was saved at the hub
    ");
    let error = pair.two.regatta(["diff", "long", "--json"]).exited(4).error();
    assert!(text(&error["error"]).contains("lost since"), "{error:#}");
    stop(in_two);
    // There the lane is as it was left.
    assert!(pair.one.regatta(["diff", "long"]).exited(0).stdout.contains("begun.txt"));

    let pair = Pair::new("stopped");
    let daemon = pair.one.daemon();
    let failing = task("fails", "max_attempts: 1\nagent: sh", "echo left >left.txt; exit 1");
    pair.one.enqueue(&pair.one.plan(&failing));
    until("it has failed", || matches!(&*pair.state("fails"), "failed" | "blocked").then_some(()));
    let left = pair.two.regatta(["diff", "fails", "--name-only"]).exited(0).stdout;
    assert_eq!(left, "left.txt\n", "its lane is kept there");
    stop(daemon);
    let refused = pair.two.regatta(["diff", "fails"]).exited(4).stderr;
    insta::assert_snapshot!(refused, @"
    error: the work of attempt 1 of fails is on big-1: no engine runs there now
    hint: `regatta daemon` on big-1 answers for it; `regatta diff fails` on big-1 shows it too
    ");
}

#[test]
fn work_on_a_node_that_does_not_answer_is_not_waited_for_long() {
    let pair = Pair::new("silent");
    let daemon = pair.one.daemon();
    let barrier = pair.at_work("long", "echo begun >begun.txt");
    until("the node has said what it does", || {
        let node = pair.two.regatta(["node", "show", "big-1", "--json"]).exited(0).json();
        (!node["last_beat"].is_null()).then_some(())
    });
    daemon.signal("STOP");
    let soon = [("REGATTA_TEST_PATIENCE_MS", "1500")];
    let refused = pair.two.regatta_with(&soon, ["diff", "long"]).exited(4).stderr;
    insta::assert_snapshot!(without_times(&refused), @"
    asking big-1 for the work of attempt 1 of long
    error: the work of attempt 1 of long is on big-1: its engine does not answer; it was last heard from at TIME
    hint: `regatta daemon` on big-1 answers for it; `regatta diff long` on big-1 shows it too
    ");
    let refused = pair.two.regatta_with(&soon, ["logs", "long"]).exited(4).stderr;
    insta::assert_snapshot!(without_times(&refused), @"
    asking big-1 for the log of attempt 1 of long
    error: the log of attempt 1 of long is on big-1: its engine does not answer; it was last heard from at TIME
    hint: `regatta daemon` on big-1 answers for it; `regatta logs long` on big-1 shows it too
    ");
    let quiet = pair.two.regatta_with(&soon, ["--quiet", "logs", "long"]).exited(4).stderr;
    assert!(!quiet.contains("asking"), "{quiet}");
    daemon.signal("CONT");
    // It drops what is no longer asked for, and answers again.
    assert!(pair.two.regatta(["diff", "long"]).exited(0).stdout.contains("begun.txt"));
    barrier.open();
    until("it is done", || (pair.state("long") == "done").then_some(()));
    stop(daemon);
}

#[test]
fn a_lane_is_compared_with_commits_that_its_node_can_have_and_read_up_to_a_limit() {
    let pair = Pair::new("against");
    let daemon = pair.one.daemon();
    let huge = "echo work >work.txt; truncate -s 300M sparse; trap 'rm -f sparse' EXIT";
    let barrier = pair.at_work("long", huge);
    let refused = pair.two.regatta(["--quiet", "diff", "long", "--stat"]).exited(6).stderr;
    insta::assert_snapshot!(refused, @"
    error: the lane of long on big-1 has 314.6 MB in uncommitted files, more than is read for another machine
    hint: `regatta diff long` on big-1 shows it
    ");
    fs::remove_file(pair.one.lanes().join("long/sparse")).unwrap();
    // Landed by another machine meanwhile, and not fetched by the first.
    pair.two.repo().commit_file("landed.txt", "landed\n", "landed");
    let refused = pair.two.regatta(["--quiet", "diff", "long", "--against", "main"]).exited(4);
    insta::assert_snapshot!(refused.shown(), @"
    --- stderr
    error: the work of long is on big-1, which does not have the commit HASH to compare it with
    hint: push the commit to the target at the hub, or leave out --against
    --- exit 4
    ");
    let hub = pair.one.outside("hub.git").display().to_string();
    pair.two.repo().git(["push", "--quiet", &hub, "main"]);
    let names = pair.two.regatta(["diff", "long", "--against", "main", "--name-only"]).exited(0).stdout;
    assert_eq!(names, "work.txt\n", "what landed since is not its work");
    let unknown = pair.two.regatta(["diff", "long", "--against", "nowhere"]).exited(4).stderr;
    assert!(unknown.contains("there is no branch, tag or commit"), "{unknown}");
    barrier.open();
    until("it is done", || (pair.state("long") == "done").then_some(()));
    stop(daemon);
}

/// Times of the day as `TIME`.
fn without_times(text: &str) -> String {
    let mut words: Vec<String> = Vec::new();
    for line in text.lines() {
        let line = line.split(' ').map(|word| {
            let is_time = word.len() == 5 && word.as_bytes()[2] == b':';
            if is_time { "TIME" } else { word }
        });
        words.push(line.collect::<Vec<_>>().join(" "));
    }
    words.join("\n")
}

#[test]
fn a_hostile_request_gets_nothing_and_a_hostile_lane_runs_nothing() {
    let pair = Pair::new("hostile");
    let daemon = pair.one.daemon();
    let ran = pair.one.outside("ran");
    let planted = format!(
        "echo work >work.txt; printf '#!/bin/sh\\ntouch {ran}\\n' >trap; chmod +x trap\n\
         for key in core.fsmonitor diff.external core.sshCommand diff.x.textconv diff.x.command filter.x.clean; do git config $key \"$PWD/trap\"; done\n\
         echo '*.txt diff=x filter=x' >.gitattributes; mkdir -p hooks; git config core.hooksPath \"$PWD/hooks\"; cp trap hooks/post-index-change",
        ran = ran.display()
    );
    let barrier = pair.at_work("long", &planted);
    // What the agent's own git ran is not the question.
    let _ = fs::remove_file(&ran);
    let place = pair.store(async |store| {
        let sessions = store.sessions().await.unwrap();
        sessions.iter().find_map(|info| info.node.place.clone()).unwrap()
    });
    let body = |task: &str, wanted: &str, taken: u64| {
        format!(
            r#"{{"task":"{task}","attempt":1,"stream":{wanted},"taken":{taken},"reached":{taken},"finish":true,"renewed":1}}"#
        )
    };
    let out = pair.one.outside("written");
    let option =
        format!(r#"{{"diff":{{"style":"patch","files":true,"against":"--output={}"}}}}"#, out.display());
    let requests = [
        ("0a", "{".to_owned()),
        ("0b", body("../../../etc/passwd", r#""stdout""#, 0)),
        ("0c", body("long", r#""/etc/passwd""#, 0)),
        ("0d", body("long", &option, 0)),
        ("0e", body("long", r#"{"diff":{"style":"patch","files":true,"path":"/etc/passwd"}}"#, 0)),
        ("0f", body("long", r#"{"diff":{"style":"--ext-diff","files":true}}"#, 0)),
        ("10", body("long", r#"{"diff":{"style":"patch","files":true,"against":"HEAD"}}"#, 0)),
        ("11", body("long", r#""stdout""#, u64::MAX)),
        ("../../x", body("long", r#""stdout""#, 0)),
        (&"0".repeat(200), body("long", r#""stdout""#, 0)),
    ];
    pair.store(async |store| {
        for (id, body) in &requests {
            let write = DocumentWrite::new(LOG_REQUEST, &format!("{place}/{id}"), body.clone());
            store.put_document(&write, clock::now()).await.unwrap();
        }
    });
    until("all of them are dropped", || {
        let left = pair.store(async |store| store.documents(LOG_REQUEST, "").await.unwrap());
        left.is_empty().then_some(())
    });
    let pieces = pair.store(async |store| store.documents(LOG_PIECE, "").await.unwrap());
    assert_eq!(pieces, []);
    let names = pair.two.regatta(["diff", "long", "--name-only"]).exited(0).stdout;
    assert_eq!(names, ".gitattributes\nhooks/post-index-change\ntrap\nwork.txt\n");
    assert!(pair.two.regatta(["diff", "long"]).exited(0).stdout.contains("+work"));
    assert!(!ran.exists() && !out.exists());
    barrier.open();
    until("it is settled", || matches!(&*pair.state("long"), "done" | "blocked" | "failed").then_some(()));
    stop(daemon);
}

#[test]
fn a_conversation_on_another_node_is_continued_over_ssh() {
    let mut pair = Pair::new("attach");
    let bin = pair.one.outside("bin");
    let body = r#"cat >/dev/null
echo '{"type":"thread.started","thread_id":"01a1dd00-7e6c-72b3-ad81-c47430c45ccc"}'
regatta stuck 'which one?' >&2
echo '{"type":"turn.completed","usage":{}}'"#;
    script(&bin.join("codex"), body);
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap_or_default());
    pair.one.env("PATH", path);
    let daemon = pair.one.daemon();
    pair.one.enqueue(&pair.one.plan(&task("asks", "agent: codex", "do it")));
    until("it asks", || (pair.state("asks") == "blocked").then_some(()));
    let lane = pair.one.lanes().join("asks");
    let shown = pair.two.regatta(["attach", "asks"]).exited(0);
    insta::assert_snapshot!(shown.stdout.replace(&lane.display().to_string(), "LANE"), @"
    lane     big-1:LANE
    session  01a1dd00-7e6c-72b3-ad81-c47430c45ccc (codex, attempt 1)
    ssh -t big-1 'cd LANE && codex resume 01a1dd00-7e6c-72b3-ad81-c47430c45ccc'
    ");
    let there = pair.one.regatta(["attach", "asks", "--json"]).exited(0).json();
    let here = pair.two.regatta(["attach", "asks", "--json"]).exited(0).json();
    assert_eq!((&there["node"], text(&here["node"])), (&serde_json::Value::Null, "big-1"));
    assert_eq!(there["argv"], here["argv"]);
    assert_eq!(there["worktree_path"], here["worktree_path"]);
    for flag in ["--restore", "--open"] {
        let refused = pair.two.regatta(["attach", "asks", flag]).exited(6).stderr;
        assert!(refused.contains("big-1"), "{refused}");
    }
    stop(daemon);
}

#[test]
fn the_output_of_a_gate_names_the_node_that_has_it() {
    let pair = Pair::new("gate");
    pair.one.config("land: { test_command: \"test ! -e bad.txt || { echo broken; exit 1; }\" }\n");
    let hub = pair.one.outside("hub.git").display().to_string();
    pair.one.repo().git(["push", "--quiet", &hub, "main"]);
    let daemon = pair.one.daemon();
    pair.one.enqueue(&pair.one.plan(&task("bad", "auto_land: true", "echo bad >bad.txt")));
    until("its gate has failed", || (pair.state("bad") == "blocked").then_some(()));
    let status = pair.two.regatta(["status", "bad", "--json"]).exited(0).json();
    insta::assert_snapshot!(regatta_testkit::shown::shown(text(&status["reason"])), @"tests: the gate `test ! -e bad.txt || { echo broken; exit 1; }` ended with exit 1 on HASH (full output: big-1:.regatta/gates/HASH): broken");
    stop(daemon);
}

#[test]
fn a_wait_reports_what_an_agent_on_another_machine_says() {
    let pair = Pair::new("wait");
    let daemon = pair.one.daemon();
    let barrier = pair.at_work("long", "echo hello from there");
    let mut wait = pair.two.begin(["wait", "long", "--granularity", "all"]);
    wait.until(|line| line == "LOG task=long: hello from there");
    barrier.open();
    let (lines, code) = wait.rest();
    assert_eq!(
        (lines.last().map(String::as_str), code),
        (Some("EXITED task=long state=done"), 0),
        "{lines:?}"
    );
    assert!(
        !pair.two.root().join(".regatta/elsewhere").read_dir().is_ok_and(|mut left| left.next().is_some())
    );
    stop(daemon);
}

#[test]
fn a_wait_for_an_agent_that_its_machine_does_not_show_still_reports_the_end() {
    let mut pair = Pair::new("unseen");
    pair.two.env("REGATTA_TEST_PATIENCE_MS", "300");
    let daemon = pair.one.daemon();
    let barrier = pair.at_work("long", "echo hello");
    // The engine there is stopped, so nobody answers; its agent works on.
    daemon.signal("STOP");
    let mut wait = pair.two.begin(["wait", "long", "--granularity", "tool"]);
    wait.until(|line| line.starts_with("UNSEEN task=long reason=the log of attempt 1 of long is on big-1: "));
    daemon.signal("CONT");
    barrier.open();
    let (lines, code) = wait.rest();
    assert_eq!((lines, code), (vec!["EXITED task=long state=done".to_owned()], 0));
    stop(daemon);
}
