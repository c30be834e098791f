//! What agents reach by default, what the settings change, and what is said where it is weaker or refused.

use std::fs;

use regatta_testkit::repo::script;
use regatta_testkit::world::{World, task};
use serde_json::Value;

use crate::REGATTA;

/// A world whose agents do not even see the directory around it.
fn closed(config: &str) -> World {
    let mut world = World::new(REGATTA);
    world.env("REGATTA_TEST_SANDBOX_WRITE", "");
    world.config(config);
    world
}

fn home(world: &World) -> std::path::PathBuf {
    let found = world.variables().into_iter().find(|(name, _)| name == "HOME");
    found.map(|(_, value)| value.into()).expect("a world has a home")
}

#[test]
fn a_rule_is_shown_and_explained() {
    let world = closed("sandbox: { network: list, hosts: ['*.example.org'], hide: [NOTES] }\n");
    fs::create_dir_all(world.root().join("NOTES")).unwrap();
    fs::create_dir_all(home(&world).join(".ssh")).unwrap();
    let why = |what: &str| world.regatta(["sandbox", "why", what]).exited(0).shown();
    insta::assert_snapshot!(why("~/.ssh/id_ed25519"), @"DIR/home/.ssh/id_ed25519: hide (DIR/home/.ssh): SSH keys");
    insta::assert_snapshot!(why("NOTES"), @"DIR/repo/NOTES: hide (DIR/repo/NOTES): `sandbox.hide`");
    insta::assert_snapshot!(why("./.regatta"), @"DIR/repo/.regatta: hide (DIR/repo/.regatta): Regatta's store, prompts and logs");
    insta::assert_snapshot!(why("/usr/bin"), @"/usr/bin: read: no rule names it, and everything else is read-only");
    insta::assert_snapshot!(why("api.example.org"), @"api.example.org: allowed: `sandbox.hosts` names it");
    insta::assert_snapshot!(why("example.com:8443"), @"example.com:8443: refused: no rule names it; add it to `sandbox.hosts` in regatta.yaml");
    insta::assert_snapshot!(world.regatta(["sandbox", "why", "a b"]).shown(), @r#"
    --- stderr
    error: "a b" is neither a path nor a host
    hint: a path begins with `/`, `./` or `~/`; a host is a name such as example.org
    --- exit 2
    "#);
    let shown = world.regatta(["sandbox", "show", "--json"]).exited(0).json();
    assert_eq!((&shown["network"], &shown["hosts"]), (&"list".into(), &serde_json::json!(["*.example.org"])));
    let access = |path: &std::path::Path| {
        let rules = shown["rules"].as_array().unwrap();
        let found = rules.iter().find(|rule| rule["path"] == path.to_str().unwrap());
        found.map_or("-", |rule| rule["access"].as_str().unwrap()).to_owned()
    };
    let places =
        [world.root().to_owned(), world.root().join(".regatta"), world.lanes().join("ID"), world.lanes()];
    assert_eq!(places.map(|path| access(&path)), ["read", "hide", "write", "hide"]);
}

#[test]
fn a_command_is_tried_as_an_agent_would_run_it() {
    let world = closed("version: 1\n");
    let text = "test ! -e .regatta/regatta.db && ! cat \"$1\" 2>/dev/null && echo x > made && git status --short && exit 3";
    let store = world.state_dir().join("regatta.db");
    let tried = world.regatta(["sandbox", "run", "--", "sh", "-c", text, "sh", store.to_str().unwrap()]);
    insta::assert_snapshot!(tried.shown(), @"
    ?? made
    --- exit 1
    ");
    assert!(!world.root().join("made").exists());
    world.assert_tidy();
}

#[test]
fn credentials_of_the_user_s_accounts_stay_outside() {
    let mut world = closed("version: 1\nsandbox: { env: [NPM_TOKEN] }\n");
    for name in ["GITHUB_TOKEN", "AWS_SECRET_ACCESS_KEY", "NPM_TOKEN", "ANTHROPIC_API_KEY"] {
        world.env(name, "correct-horse-battery");
    }
    let (ssh, kept) = (home(&world).join(".ssh"), home(&world).join("dotfiles"));
    [&ssh, &kept].iter().for_each(|dir| fs::create_dir_all(dir).unwrap());
    fs::write(kept.join("id"), "the key").unwrap();
    std::os::unix::fs::symlink(kept.join("id"), ssh.join("id")).unwrap();
    let body = "env | sed -n 's/=correct.*//p' | sort; cat ~/dotfiles/id; echo done >done.txt";
    world.run(&world.plan(&task("a", "agent: sh", body)), &[]).exited(0);
    insta::assert_snapshot!(world.regatta(["logs", "a"]).exited(0).stdout, @"
    ANTHROPIC_API_KEY
    NPM_TOKEN
    ");
    let shown = world.regatta(["sandbox", "show"]).exited(0).stdout;
    assert!(shown.ends_with("\nnot in the environment: AWS_SECRET_ACCESS_KEY, GITHUB_TOKEN\n"), "{shown}");
}

#[test]
fn settings_that_no_task_could_have_are_refused_before_anything_starts() {
    let world = closed("sandbox:\n  write:\n    - /\n    - \"~\"\n");
    let plan = world.plan(&task("a", "", "echo a >a.txt"));
    insta::assert_snapshot!(world.run(&plan, &[]).shown(), @r#"
    --- stderr
    regatta.yaml:3:7: error: "/" is the whole disk, so there would be no sandbox
      hint: name the directories to write to, or set `mode: off`
    regatta.yaml:4:7: error: "~" is your whole home directory, so there would be no sandbox
      hint: name the directories to write to, or set `mode: off`
    error: 2 mistakes found; nothing was changed
    hint: correct it; `regatta config` reads it again and changes nothing
    --- exit 2
    "#);
    insta::assert_snapshot!(world.regatta(["daemon"]).shown(), @r#"
    --- stderr
    regatta.yaml:3:7: error: "/" is the whole disk, so there would be no sandbox
      hint: name the directories to write to, or set `mode: off`
    regatta.yaml:4:7: error: "~" is your whole home directory, so there would be no sandbox
      hint: name the directories to write to, or set `mode: off`
    error: 2 mistakes found; nothing was changed
    hint: correct it; `regatta config` reads it again and changes nothing
    --- exit 2
    "#);
    world.config("sandbox:\n  write: [no-such-place]\n  show: [.regatta]\n  devices: [/etc/passwd]\n");
    insta::assert_snapshot!(world.run(&plan, &[]).shown(), @"
    --- stderr
    error: regatta.yaml:2: `sandbox.write`: `no-such-place` does not exist (DIR/repo/no-such-place); create it, or remove it here
    regatta.yaml:3: `sandbox.show`: `.regatta` belongs to Regatta, and no agent may read it; remove it
    regatta.yaml:4: `sandbox.devices`: `/etc/passwd` is not below /dev
    hint: correct it; `regatta sandbox show` shows what agents can reach
    --- exit 2
    ");
    insta::assert_snapshot!(world.regatta(["daemon"]).shown(), @"
    --- stderr
    error: regatta.yaml:2: `sandbox.write`: `no-such-place` does not exist (DIR/repo/no-such-place); create it, or remove it here
    regatta.yaml:3: `sandbox.show`: `.regatta` belongs to Regatta, and no agent may read it; remove it
    regatta.yaml:4: `sandbox.devices`: `/etc/passwd` is not below /dev
    hint: correct it; `regatta sandbox show` shows what agents can reach
    --- exit 2
    ");
    assert!(!world.lanes().exists());
}

#[test]
fn where_nothing_confines_an_agent_none_starts() {
    let plan = |world: &World| {
        world.plan(&[task("a", "", "echo a >a.txt"), task("free", "sandbox: off", "echo b >b.txt")].concat())
    };
    let mut world = closed("version: 1\n");
    world.env("REGATTA_TEST_SANDBOX", "no-userns,no-landlock");
    insta::assert_snapshot!(world.run(&plan(&world), &["-j", "1"]).shown(), @"
    test → main: 2 tasks
        TIME a  blocked (policy): this machine has no way to confine an agent (namespaces: the kernel or a container refuses user namespaces (operation not permitted); Landlock: the kernel does not have it); `sandbox: { mode: off }` in regatta.yaml runs it without a sandbox
        TIME free  agent started, process PID
        TIME free  landed on main as HASH

    ⚠ a blocked
    ✓ free landed HASH

    ⚠ a blocked: policy: this machine has no way to confine an agent (namespaces: the kernel or a container refuses user namespaces (operation not permitted); Landlock: the kernel does not have it); `sandbox: { mode: off }` in regatta.yaml runs it without a sandbox
    1 blocked, 1 landed in TIME on main
    --- stderr
    hint: `regatta status ID` and `regatta logs ID` show why; `regatta run --resume DIR/plan.md` retries
    --- exit 1
    ");
    // Full is asked for, and only files are confined.
    let mut world = closed("sandbox: { mode: full }\n");
    world.env("REGATTA_TEST_SANDBOX", "no-userns");
    insta::assert_snapshot!(world.run(&plan(&world), &["-j", "1"]).shown(), @"
    test → main: 2 tasks
        TIME a  blocked (policy): `sandbox.mode: full` needs namespaces, and this machine refuses them (the kernel or a container refuses user namespaces (operation not permitted)); `regatta doctor` says what to do
        TIME free  agent started, process PID
        TIME free  landed on main as HASH

    ⚠ a blocked
    ✓ free landed HASH

    ⚠ a blocked: policy: `sandbox.mode: full` needs namespaces, and this machine refuses them (the kernel or a container refuses user namespaces (operation not permitted)); `regatta doctor` says what to do
    1 blocked, 1 landed in TIME on main
    --- stderr
    hint: `regatta status ID` and `regatta logs ID` show why; `regatta run --resume DIR/plan.md` retries
    --- exit 1
    ");
}

#[test]
fn what_is_weaker_is_said_once() {
    let mut world = closed("version: 1\n");
    world.env("REGATTA_TEST_SANDBOX", "no-userns");
    let plan = world.plan(&[task("a", "", "echo a >a.txt"), task("b", "", "echo b >b.txt")].concat());
    let ran = world.run(&plan, &["-j", "1"]).exited(0);
    let said = format!("{}{}", ran.stdout, ran.stderr);
    assert_eq!(said.matches("files and system calls only").count(), 1, "{said}");
    let levels = ["a", "b"].map(|id| world.task(id)["attempts"][0]["sandbox"].clone());
    assert_eq!(levels, ["files", "files"]);
}

#[test]
fn without_a_sandbox_every_screen_says_so() {
    let world = World::new(REGATTA);
    let fifo = world.fifo("go");
    let plan = world.waiting_plan(&fifo);
    let run = world.start(&plan, &["--no-sandbox"]);
    world.agent_pid("waiter", 1);
    world.wait_state("waiter", "running");
    insta::assert_snapshot!(world.regatta(["list"]).shown(), @"
      TASK    STATE    TRY  AGENT  TIME  TITLE            NOW
    ● waiter  running  1    sh  TIME  Wait for a word  ⚠ unconfined; hello
    ");
    insta::assert_snapshot!(world.regatta(["top", "--once"]).shown(), @"
    repo → main  ● 1 running
    [1 lanes] 2 board  3 train  4 crew  5 events  6 cost
    ▸● waiter running  TIME  unconfined · hello


    ── waiter: Wait for a word · attempt 1 by sh ───────────────────────────────────
    hello
















    Enter detail  l logs  d diff  / filter  s send  m msg  C cancel  ? help  q quit
    ");
    regatta_testkit::world::let_go(&fifo);
    run.wait().exited(0);
    insta::assert_snapshot!(world.regatta(["report", "waiter"]).shown(), @"
    # Run of plan

    - target: main
    - tasks: 1 (1 landed)
    - time: WHEN to WHEN (TIME)
    - cost: $0.0000, 0 tokens in, 0 tokens out

    | task | state | attempts | verdict | cost | commit | reason |
    |---|---|---|---|---|---|---|
    | waiter | landed | 1 | pass | $0.0000 | HASH |  |

    ## waiter: Wait for a word

    Attempt 1 by sh (TIME, unconfined, exit 0, verdict pass)
    - exit-code says pass
    - 1 file changed, tree HASH
    - commit HASH

    landed on main as HASH (attempt 1).

    ## Time line

    - WHEN waiter: enqueued
    - WHEN waiter: claimed by HOST
    - WHEN waiter: lane DIR/repo.lanes/waiter at HASH
    - WHEN waiter: agent started, process PID
    - WHEN waiter: agent ended: exit 0
    - WHEN waiter: verdict pass
    - WHEN waiter: approved, joins the train with HASH
    - WHEN waiter: landing on main at HASH
    - WHEN waiter: candidate HASH: no gate
    - WHEN waiter: landed on main as HASH
    ");
    insta::assert_snapshot!(world.regatta(["status", "waiter"]).shown(), @"
    ✓ waiter  Wait for a word
    state     landed (TIME ago)
    agent     sh
    from      DIR/plan.md:4
    commit  HASH on main
    attempt 1 sh · TIME · exit 0 · verdict pass · unconfined
              - exit-code says pass
              - 1 file changed, tree HASH
              - commit HASH
    ");
}

#[test]
fn work_that_changes_what_regatta_runs_waits_for_a_person() {
    let world = closed("land: { guard: ['ci/**'] }\n");
    let plan = world.plan(
        &[
            task("settings", "", "echo 'notify: { command: touch /tmp/x }' >> regatta.yaml"),
            task("guarded", "", "mkdir ci; echo x > ci/run"),
            task("plain", "", "echo x > plain.txt"),
        ]
        .concat(),
    );
    insta::assert_snapshot!(world.run(&plan, &["-j", "1"]).shown(), @"
    test → main: 3 tasks
        TIME settings  agent started, process PID
        TIME settings  blocked (policy): it changes regatta.yaml, and so what Regatta or your own agents run; `regatta diff settings` shows it, `regatta land settings` lands it
        TIME guarded  agent started, process PID
        TIME guarded  blocked (policy): it changes ci/run, and so what Regatta or your own agents run; `regatta diff guarded` shows it, `regatta land guarded` lands it
        TIME plain  agent started, process PID
        TIME plain  landed on main as HASH

    ⚠ settings blocked
    ⚠ guarded blocked
    ✓ plain landed HASH

    ⚠ settings blocked: policy: it changes regatta.yaml, and so what Regatta or your own agents run; `regatta diff settings` shows it, `regatta land settings` lands it
    ⚠ guarded blocked: policy: it changes ci/run, and so what Regatta or your own agents run; `regatta diff guarded` shows it, `regatta land guarded` lands it
    2 blocked, 1 landed in TIME on main
    --- stderr
    hint: `regatta status ID` and `regatta logs ID` show why; `regatta run --resume DIR/plan.md` retries
    --- exit 1
    ");
    world.regatta(["land", "guarded"]).exited(0);
    assert_eq!(world.landed("ci/run").as_deref(), Some("x\n"));
    assert!(!world.landed("regatta.yaml").unwrap().contains("notify"));
}

#[test]
fn settings_of_the_users_own_agents_stay_as_they_are() {
    let mut world = closed("version: 1\n");
    let claude = "cat >/dev/null; dir=$CLAUDE_CONFIG_DIR\n\
                  echo evil > $dir/settings.json; echo evil > $dir/settings.local.json\n\
                  mkdir -p $dir/projects/p; echo fine > $dir/projects/p/x\n\
                  echo x > made.txt; regatta done --verdict pass --summary made >&2\n\
                  echo '{\"type\":\"result\",\"subtype\":\"success\",\"is_error\":false,\"result\":\"done\"}'";
    script(&world.outside("bin/claude"), claude);
    let path = format!("{}:{}", world.outside("bin").display(), std::env::var("PATH").unwrap_or_default());
    world.env("PATH", path);
    let dir = home(&world).join(".claude");
    fs::create_dir_all(&dir).unwrap();
    fs::write(dir.join("settings.json"), "{}").unwrap();
    world.run(&world.plan_with("", &task("a", "agent: claude", "x")), &[]).exited(1);
    let task = world.task("a");
    let reason = task["reason"].as_str().unwrap().replace(world.outside("").to_str().unwrap(), "DIR/");
    insta::assert_snapshot!(reason, @"policy: the agent wrote DIR/home/.claude/settings.local.json, which your own sessions would run; the old content was restored, and what it wrote is in DIR/repo/.regatta/runs/a/1/kept");
    assert_eq!(fs::read_to_string(dir.join("settings.json")).unwrap(), "{}");
    assert!(!dir.join("settings.local.json").exists() && dir.join("projects/p/x").exists());
}

/// Asks the proxy for a host, with the shell alone.
const ASK: &str = "ask() { exec 9<>/dev/tcp/127.0.0.1/3128; printf 'CONNECT %s HTTP/1.1\\r\\n\\r\\n' $1 >&9; head -1 <&9; }\n";

#[test]
fn a_limited_network_lets_only_its_hosts_through() {
    let server = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = server.local_addr().unwrap().port();
    let served = std::thread::spawn(move || {
        for _ in 0..2 {
            use std::io::Write as _;
            let (mut client, _) = server.accept().unwrap();
            client.write_all(b"hello\n").unwrap();
        }
    });
    let world = closed(&format!(
        "sandbox: {{ network: list, hosts: ['127.0.0.1:{port}'], local: [{port}] }}\n\
         agents: {{ bash: {{ kind: command, argv: [bash] }} }}\n"
    ));
    let body = format!(
        "{ASK}ask 127.0.0.1:{port} | tee allowed; ask example.com:443 | tee refused; ask 169.254.169.254:80\n\
         head -1 < /dev/tcp/127.0.0.1/{port} > local; ! echo < /dev/udp/192.0.2.1/53; ! getent hosts example.com\n"
    );
    world.run(&world.plan_with("", &task("a", "agent: bash", &body)), &[]).exited(0);
    served.join().unwrap();
    assert_eq!(world.landed("local").as_deref(), Some("hello\n"));
    assert_eq!(world.landed("allowed").as_deref(), Some("HTTP/1.1 200 Connection established\r\n"));
    assert_eq!(world.landed("refused").as_deref(), Some("HTTP/1.1 403 Forbidden\r\n"));
    insta::assert_snapshot!(world.regatta(["status", "a"]).shown(), @r"
    ✓ a  ask() { exec 9<>/dev/tcp/127.0.0.1/3128; printf 'CONNECT %s HTTP/1.1\r\…
    state     landed (TIME ago)
    agent     bash
    from      DIR/plan.md:6
    commit  HASH on main
    attempt 1 bash · TIME · sandbox LEVEL · exit 0 · verdict pass
              - refused by the sandbox: example.com:443 (not in sandbox.hosts); 169.254.169.254:80 (not in sandbox.hosts)
              - exit-code says pass
              - 3 files changed, tree HASH
              - commit HASH
    ");
    let events = world.regatta(["events", "--json", "--task", "a"]).exited(0).json_lines();
    let notes: Vec<&Value> =
        events.iter().filter(|event| event["kind"] == "noted").map(|event| &event["text"]).collect();
    assert_eq!(
        notes,
        [
            "the sandbox refused example.com:443 (not in sandbox.hosts)",
            "the sandbox refused 169.254.169.254:80 (not in sandbox.hosts)"
        ]
    );
}

#[test]
fn checks_hooks_setup_and_gates_are_confined_too() {
    let world = closed("version: 1\n");
    let tries = "cat ../../repo/.regatta/regatta.db >/dev/null 2>&1 && exit 1; touch ../../repo/planted 2>/dev/null && exit 1; test ! -e ../other";
    fs::create_dir_all(world.lanes().join("other")).unwrap();
    world.config(&format!("lane: {{ setup: \"{tries}\" }}\nland: {{ test_command: \"{tries}\" }}\n"));
    script(&world.root().join(".git/hooks/pre-commit"), tries);
    let keys = format!("checks: [\"{tries}\"]");
    world.run(&world.plan(&task("a", &keys, "echo x >x.txt")), &[]).exited(0);
    world.assert_states(["a landed"]);
    assert!(!world.root().join("planted").exists());
}

#[test]
fn small_builds_work_inside_and_leave_the_users_caches_alone() {
    let mut world = closed("version: 1\n");
    let own = |name: &str, usual: &str| {
        let home = std::env::var("HOME").unwrap_or_default();
        std::env::var(name).unwrap_or_else(|_| format!("{home}/{usual}"))
    };
    world.env("RUSTUP_HOME", own("RUSTUP_HOME", ".rustup"));
    let repo = world.repo();
    repo.commit_file("Cargo.toml", "[package]\nname = \"tiny\"\nedition = \"2021\"\n", "cargo");
    repo.commit_file("src/main.rs", "fn main() { println!(\"built\"); }\n", "cargo");
    repo.commit_file("dep/package.json", "{ \"name\": \"dep\", \"version\": \"1.0.0\" }\n", "npm");
    repo.commit_file("package.json", "{ \"dependencies\": { \"dep\": \"file:dep\" } }\n", "npm");
    repo.commit_file(".gitignore", "target\nnode_modules\n", "built");
    let build = "cargo run -q --offline > cargo.txt && npm install --offline --no-audit --no-fund >&2 \\\n\
                 && node -e 'console.log(require.resolve(\"dep/package.json\").length > 0)' > npm.txt \\\n\
                 && cc -x c -o target/c - <<< 'int main(void) { return 0; }' && target/c";
    world.config("agents: { bash: { kind: command, argv: [bash] } }\n");
    let keys = "agent: bash\nchecks: [\"cargo build -q --offline\"]";
    world.run(&world.plan_with("", &task("a", keys, build)), &[]).exited(0);
    assert_eq!(world.landed("cargo.txt").as_deref(), Some("built\n"));
    assert_eq!(world.landed("npm.txt").as_deref(), Some("true\n"));
    let left: Vec<_> =
        [".cargo", ".npm", ".cache"].into_iter().filter(|dir| home(&world).join(dir).exists()).collect();
    assert!(left.is_empty(), "{left:?}");
}
