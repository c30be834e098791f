//! A user of claude-orchestrator types the commands of that tool.

use std::process::{Command, Stdio};

use regatta_testkit::world::World;
use regatta_testkit::zookeeper::Ensemble;
use serde_json::Value;

use crate::REGATTA;

/// One shell, in which a member lives: lines go in, and the output of each comes out.
struct Terminal {
    child: std::process::Child,
    out: std::io::BufReader<std::process::ChildStdout>,
}

impl Terminal {
    fn open(world: &World) -> Self {
        let bin = world.outside("bin");
        std::fs::create_dir_all(&bin).expect("a directory can be made");
        let link = bin.join("claude-orchestrator");
        if !link.exists() {
            std::os::unix::fs::symlink(crate::REGATTA, &link).expect("a link can be made");
        }
        let found = world.variables().into_iter().find(|(name, _)| name == "PATH");
        let path = found.map(|(_, value)| value.to_string_lossy().into_owned()).unwrap_or_default();
        let path = format!("{}:{path}", bin.display());
        let mut command = Command::new("sh");
        command.current_dir(world.root()).env_clear().envs(world.variables()).env("PATH", path);
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("sh can be started");
        let out = std::io::BufReader::new(child.stdout.take().expect("it was piped"));
        Self { child, out }
    }

    /// Types a line; returns the JSON it prints.
    fn types(&mut self, line: &str) -> Value {
        use std::io::{BufRead as _, Write as _};
        let stdin = self.child.stdin.as_mut().expect("it was piped");
        writeln!(stdin, "{line}; echo \"= $?\"").expect("the shell reads");
        let mut printed = String::new();
        loop {
            let mut read = String::new();
            assert!(self.out.read_line(&mut read).expect("the shell prints") > 0, "it ended: {printed}");
            match read.strip_prefix("= ") {
                Some(code) => {
                    assert_eq!(code.trim(), "0", "{line}: {printed}");
                    return serde_json::from_str(&printed)
                        .unwrap_or_else(|error| panic!("{error}: {printed}"));
                }
                None => printed.push_str(&read),
            }
        }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn the_example_session_works_word_for_word() {
    the_example_session(&World::new(REGATTA));
}

#[test]
fn the_example_session_works_on_three_servers_of_zookeeper() {
    let mut world = World::new(REGATTA);
    let ensemble = Ensemble::start(3);
    world.env("ZK_HOSTS", ensemble.hosts());
    the_example_session(&world);
    assert!(!world.state_dir().join("regatta.db").exists(), "nothing is stored beside it");
    // -z names the same store, and a store of Regatta's own is stronger than the variable.
    let hosts = format!("{}/regatta", ensemble.hosts());
    let there = world.regatta(["-z", &hosts, "list-tasks"]).exited(0).json();
    assert_eq!(there.as_array().map(Vec::len), Some(2), "{there}");
    assert_eq!(world.regatta(["list-tasks"]).exited(0).json(), there);
    world.env("REGATTA_STORE", "sqlite");
    assert_eq!(world.regatta(["list-tasks"]).exited(0).json().as_array().map(Vec::len), Some(0));
}

fn the_example_session(world: &World) {
    let (mut tom, mut jerry, mut bob) = (Terminal::open(world), Terminal::open(world), Terminal::open(world));
    let ready = tom.types("claude-orchestrator setup --leader --name Tom");
    assert_eq!((ready["name"].as_str(), ready["role"].as_str()), (Some("Tom"), Some("leader")));
    let templates = std::path::Path::new(ready["templates"].as_str().unwrap());
    let message = std::fs::read_to_string(templates.join("message.md")).unwrap();
    assert!(message.contains("{{text}}"), "{message}");
    let health = tom.types("claude-orchestrator status");
    assert_eq!((health["total"].as_u64(), health["daemon"].is_null()), (Some(0), true), "{health}");
    assert!(tom.types("claude-orchestrator config -z 127.0.0.1:2181").is_array());
    assert_eq!(jerry.types("claude-orchestrator setup --name Jerry --role developer")["role"], "developer");
    tom.types("claude-orchestrator register --name Tom --role leader");
    let registered = jerry.types("claude-orchestrator register --name Jerry --role developer");
    assert_eq!((registered["name"].as_str(), registered["status"].as_str()), (Some("Jerry"), Some("idle")));
    bob.types("claude-orchestrator register --name Bob --role tester");
    assert_eq!(tom.types("claude-orchestrator list-instances").as_array().map(Vec::len), Some(3));
    tom.types(
        "claude-orchestrator push-task --title \"Implement POST /api/auth/login\" \
         --description \"Email+password login, return JWT.\" --priority 0",
    );
    let claimed = jerry.types("claude-orchestrator claim-task");
    assert_eq!(
        (claimed["id"].as_str(), claimed["state"].as_str()),
        (Some("task-0000000000"), Some("claimed"))
    );
    let working = jerry.types("claude-orchestrator heartbeat --current-task task-0000000000");
    assert_eq!(working["task"], "task-0000000000");
    assert_eq!(tom.types("claude-orchestrator list-tasks --status in_progress")[0]["holder"], "Jerry");
    let blocked = jerry
        .types("claude-orchestrator task-block --task-id task-0000000000 --reason \"Waiting for API key\"");
    assert_eq!(blocked["state"], "blocked");
    tom.types(
        "claude-orchestrator send-message --to-name Jerry \
         --content \"API key is in 1Password: auth/third-party/google-oauth\"",
    );
    let message = jerry.types("claude-orchestrator wait-for-message --timeout 60");
    assert_eq!((message["from"].as_str(), message["id"].as_u64()), (Some("Tom"), Some(1)));
    jerry.types("claude-orchestrator dismiss-message --message-id msg-0000000000");
    assert_eq!(jerry.types("claude-orchestrator poll-messages").as_array().map(Vec::len), Some(0));
    let done = jerry.types(
        "claude-orchestrator complete-task --task-id task-0000000000 --result \"PR #42 — login endpoint with tests\"",
    );
    assert_eq!(done["state"], "done");
    tom.types("claude-orchestrator push-task --title \"Test it\" --assignee Bob");
    assert_eq!(bob.types("claude-orchestrator claim-task")["id"], "task-0000000001");
    bob.types(
        "claude-orchestrator task-fail --task-id task-0000000001 --reason \"Test environment unavailable\"",
    );
    let again = bob.types("claude-orchestrator task-retry --task-id task-0000000001");
    assert_eq!((again["state"].as_str(), again["charged"].as_u64()), (Some("pending"), Some(1)));
    jerry.types("claude-orchestrator request-help --question \"HS256 or RS256?\" --context \"100K DAU\"");
    assert_eq!(bob.types("claude-orchestrator poll-messages")[0]["text"], "HS256 or RS256?\n\n100K DAU");
    jerry.types("claude-orchestrator set-context --key jwt_strategy --value RS256");
    assert_eq!(bob.types("claude-orchestrator get-context --key jwt_strategy")["value"], "RS256");
    assert_eq!(bob.types("claude-orchestrator list-context-keys")[0]["key"], "jwt_strategy");
    bob.types("claude-orchestrator delete-context --key jwt_strategy");
    bob.types("claude-orchestrator unregister");
    assert_eq!(tom.types("claude-orchestrator list-instances").as_array().map(Vec::len), Some(2));
    // In that tool, a worker's death could lose its task.
    jerry.types("claude-orchestrator claim-task");
    drop(jerry);
    let pending = tom.types("claude-orchestrator list-tasks --status pending");
    assert_eq!(pending[0]["id"], "task-0000000001");
}

/// A worker that stays; it is ended with its test.
struct Worker {
    child: std::process::Child,
    out: std::io::BufReader<std::process::ChildStdout>,
}

impl Worker {
    fn start(command: &mut Command) -> Self {
        let mut child =
            command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().expect("it can be started");
        let out = std::io::BufReader::new(child.stdout.take().expect("it was piped"));
        Self { child, out }
    }

    /// The next object that it prints.
    fn next(&mut self) -> Value {
        use std::io::BufRead as _;
        let mut line = String::new();
        self.out.read_line(&mut line).expect("it prints");
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"))
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Plays `claude -p`: prints its arguments, its directory, and its prompt.
const CLAUDE: &str = "echo \"args: $*\"; echo \"dir: $PWD\"; echo \"as: $REGATTA_MEMBER\"; cat";

#[test]
fn a_worker_with_a_directory_hands_every_message_to_claude_there_and_keeps_what_it_prints() {
    let world = World::new(REGATTA);
    let bin = world.outside("bin");
    regatta_testkit::repo::script(&bin.join("claude"), CLAUDE);
    let other = bin.join("my-claude");
    regatta_testkit::repo::script(&other, CLAUDE);
    let mut boss = Terminal::open(&world);
    boss.types("regatta() { claude-orchestrator \"$@\"; }; claude-orchestrator register --name Boss");
    let cache = world.outside("cache");
    let dir = world.root().join("sub");
    std::fs::create_dir_all(&dir).unwrap();
    let own = world.root().join(".regatta/crew/Jerry");
    let line = format!("{} --verbose", other.display());
    let chosen = ["--command", &line, "--cache-dir", cache.to_str().unwrap()];
    let workers = [("Jerry", &[][..], &own, "args: -p"), ("Bob", &chosen, &cache, "args: --verbose -p")];
    for (n, (name, flags, kept, argv)) in workers.into_iter().enumerate() {
        let place = ["--role", "developer", "--work-dir", dir.to_str().unwrap()];
        let who = ["register", "--name", name];
        let args = who.iter().chain(&place).chain(flags);
        let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap_or_default());
        let mut worker = Worker::start(world.command(world.root(), args).env("PATH", path));
        assert_eq!(worker.next()["name"], name);
        boss.types(&format!("claude-orchestrator send-message --to-name {name} --content \"look at PR 42\""));
        assert_eq!(worker.next()["text"], "look at PR 42");
        // The next one comes when the first has been handled.
        boss.types(&format!("claude-orchestrator send-message --to-name {name} --content \"and 43\""));
        assert_eq!(worker.next()["text"], "and 43");
        let log = std::fs::read_to_string(kept.join(format!("msg-{:010}.log", 2 * n))).unwrap();
        let expected = [argv.to_owned(), format!("dir: {}", dir.display()), format!("as: {name}")];
        assert_eq!(log.lines().take(3).collect::<Vec<_>>(), expected);
        assert!(log.contains("look at PR 42"), "{log}");
    }
    let refused =
        world.regatta(["register", "--name", "Al", "--work-dir", ".", "--command", "no-such-program"]);
    insta::assert_snapshot!(refused.shown(), @r#"
    --- stderr
    error: the program "no-such-program" was not found
    hint: install it, or name another with --command
    --- exit 3
    "#);
    insta::assert_snapshot!(world.regatta(["register", "--name", "Al", "--cache-dir", "x"]).shown(), @"
    --- stderr
    error: the following required arguments were not provided:
      --work-dir <DIR>

    Usage: regatta register --name <NAME> --work-dir <DIR> --cache-dir <DIR>

    For more information, try '--help'.
    --- exit 2
    ");
}

#[test]
fn whoever_is_called_leader_leads_until_it_ends() {
    let world = World::new(REGATTA);
    let mut leader = world.begin(["leader", "--name", "Tom"]);
    let first: serde_json::Value = serde_json::from_str(&leader.next_line().unwrap()).unwrap();
    assert_eq!((&first["name"], &first["role"]), (&"Tom".into(), &"leader".into()), "{first}");
    assert_eq!(world.regatta(["crew", "leader", "--json"]).exited(0).json()["leader"]["name"], "Tom");
    insta::assert_snapshot!(world.regatta(["leader", "--name", "Jerry"]).shown(), @"
    --- stderr
    error: Tom is the leader; there is one at a time
    hint: `regatta crew list` shows the members, `regatta list` shows tasks
    --- exit 6
    ");
    leader.signal("INT");
    leader.rest();
    assert!(world.regatta(["crew", "leader", "--json"]).exited(0).json()["leader"].is_null());
}

#[test]
fn its_other_flags_are_accepted_for_what_they_mean() {
    let world = World::new(REGATTA);
    insta::assert_snapshot!(world.regatta(["-z", "127.0.0.1:1", "list-instances"]).shown(), @"
    --- stderr
    error: store unavailable: zookeeper://127.0.0.1:1/regatta: ZooKeeper: no available hosts
    hint: `regatta doctor` checks the store
    --- exit 3
    ");
    insta::assert_snapshot!(world.regatta(["-z", "zoo.example", "list-instances"]).shown(), @"
    --- stderr
    error: the store's address names zoo.example:2181, and Regatta has no TLS for ZooKeeper: others in the network could read and change what is sent; add ?plain=true if the network is yours alone, or use postgres://
    hint: correct the address: zookeeper://HOST,HOST/CHROOT?plain=true, with auth_file=PATH for a login
    --- exit 2
    ");
    insta::assert_snapshot!(world.regatta(["setup", "--global", "--dry-run"]).shown(), @"
    would write DIR/home/.claude/skills/regatta/SKILL.md
    would write DIR/home/.claude/commands/regatta-run.md
    would write DIR/home/.claude/commands/regatta-report.md
    would write DIR/home/.claude/commands/regatta-review.md
    --- stderr
    for the MCP server run: claude mcp add --scope user regatta -- regatta mcp
    ");
    assert_eq!(
        world.regatta(["status"]).exited(0).stdout.lines().next().unwrap().split(':').next(),
        Some("the store answers")
    );
}

#[test]
fn commands_work_after_a_wait_in_a_repository_that_regatta_has_not_used() {
    let mut world = World::new(REGATTA);
    world.env("REGATTA_STORE", Ensemble::shared().url("unused"));
    let mut jerry = Terminal::open(&world);
    jerry.types("claude-orchestrator register --name Jerry --role developer");
    jerry.types("claude-orchestrator send-message --to-name Jerry --content hi --instance-id Jerry");
    jerry.types("claude-orchestrator wait-for-message --timeout 60");
    assert_eq!(jerry.types("claude-orchestrator list-tasks").as_array().map(Vec::len), Some(0));
}
