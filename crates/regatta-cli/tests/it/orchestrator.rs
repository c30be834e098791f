//! A user of claude-orchestrator types what they always typed.

use std::process::{Command, Stdio};

use serde_json::Value;

use crate::world::World;

/// One shell, in which a member lives: lines go in, and what each prints comes out.
struct Terminal {
    child: std::process::Child,
    out: std::io::BufReader<std::process::ChildStdout>,
}

impl Terminal {
    fn open(world: &World) -> Self {
        let bin = world.outside().join("bin");
        std::fs::create_dir_all(&bin).expect("a directory can be made");
        let link = bin.join("claude-orchestrator");
        if !link.exists() {
            std::os::unix::fs::symlink(crate::REGATTA, &link).expect("a link can be made");
        }
        let found = world.env().into_iter().find(|(name, _)| name == "PATH");
        let path = found.map(|(_, value)| value.to_string_lossy().into_owned()).unwrap_or_default();
        let path = format!("{}:{path}", bin.display());
        let mut command = Command::new("sh");
        command.current_dir(world.root()).env_clear().envs(world.env()).env("PATH", path);
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("sh can be started");
        let out = std::io::BufReader::new(child.stdout.take().expect("it was piped"));
        Self { child, out }
    }

    /// Types a line; the JSON it prints.
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
    let world = World::new();
    let (mut tom, mut jerry, mut bob) =
        (Terminal::open(&world), Terminal::open(&world), Terminal::open(&world));
    let ready = tom.types("claude-orchestrator setup --leader --name Tom");
    assert_eq!((ready["name"].as_str(), ready["role"].as_str()), (Some("Tom"), Some("leader")));
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
    jerry.types("claude-orchestrator dismiss-message --message-id 1");
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
    // There, a worker's death could lose its task.
    jerry.types("claude-orchestrator claim-task");
    drop(jerry);
    let pending = tom.types("claude-orchestrator list-tasks --status pending");
    assert_eq!(pending[0]["id"], "task-0000000001");
}
