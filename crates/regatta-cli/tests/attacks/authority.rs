//! An agent with the command line: it may report on its own task and read, and nothing else.

use std::fs;

use regatta_testkit::world::{World, task};

use super::REGATTA;

/// Commands that are reserved for people.
const PEOPLES: [&str; 14] = [
    "cancel victim",
    "requeue victim",
    "retry victim",
    "send victim hello",
    "broadcast hello",
    "add more",
    "land victim",
    "daemon start",
    "daemon stop --kill",
    "trust --yes",
    "park victim",
    "task push x",
    "crew register Mallory",
    "lane sweep",
];

#[test]
fn an_agent_has_an_agents_authority_with_and_without_its_variables() {
    let world = World::without_sandbox(REGATTA);
    let codes = world.outside("codes");
    let all = PEOPLES.map(|command| format!("try '{command}' regatta {command}\n")).concat();
    let stripped = PEOPLES
        .map(|command| {
            format!(
                "try 'stripped {command}' $strip '{REGATTA}' --project '{}' {command}\n",
                world.root().display()
            )
        })
        .concat();
    let script = format!(
        "try() {{ name=$1; shift; \"$@\" </dev/null >/dev/null 2>&1; echo \"$? $name\" >>'{codes}'; }}\n\
         strip='env -u REGATTA_TASK -u REGATTA_ATTEMPT -u REGATTA_TOKEN -u REGATTA_RUN_ID -u REGATTA_STORE'\n\
         {all}{stripped}try 'mcp' $strip '{REGATTA}' --project '{root}' mcp\n\
         try 'orphan' setsid $strip '{REGATTA}' --project '{root}' cancel victim\n\
         regatta list >/dev/null && regatta status victim >/dev/null && regatta progress half && echo a > a.txt",
        codes = codes.display(),
        root = world.root().display(),
    );
    let tasks = task("victim", "agent: sh\npriority: -1\ndeps: [a]", "echo v > v.txt")
        + &task("a", "max_attempts: 1", &script);
    world.run(&world.plan(&tasks), &[]).exited(0);
    world.assert_states(["a landed", "victim landed"]);
    let codes = fs::read_to_string(codes).expect("the agent wrote it");
    assert_eq!(codes.lines().count(), PEOPLES.len() * 2 + 2, "{codes}");
    assert!(codes.lines().all(|line| line.starts_with("6 ")), "{codes}");
}

#[test]
fn what_is_sent_to_a_command_is_not_run() {
    let world = World::without_sandbox(REGATTA);
    world.run(&world.plan(&task("a", "", "echo a > a.txt")), &["--no-land"]).exited(0);
    let words = format!("touch '{}'", world.outside("pwned").display());
    insta::assert_snapshot!(world.regatta(["send", "a", &words]).shown(), @"
    --- stderr
    error: a: its agent sh is a command, which would run what is sent as its input
    hint: if sh reads words and not scripts, set `agents.sh.follow_ups: true` in regatta.yaml; `regatta requeue a` runs the task again
    --- exit 6
    ");
    insta::assert_snapshot!(world.regatta(["broadcast", "--status", "done", &words]).shown(), @"
    --- stderr
    not sent: a: its agent sh is a command, which would run what is sent as its input
    no agent could receive it; `regatta list --status all` shows all tasks
    ");
    world.regatta(["retry", "a"]);
    assert!(!world.outside("pwned").exists());
    assert!(!world.regatta(["status", "a"]).stdout.contains("pwned"));
}

#[test]
fn no_way_into_a_server_of_state_reaches_an_agent() {
    let mut world = World::without_sandbox(REGATTA);
    world
        .env("PGPASSWORD", "sesame1234")
        .env("DATABASE_URL", "postgres://u:sesame1234@h/d")
        .env("ZOOKEEPER_AUTH", "x");
    let seen = world.outside("seen");
    world
        .run(&world.plan(&task("a", "", &format!("env > '{}'; echo a > a.txt", seen.display()))), &[])
        .exited(0);
    let seen = fs::read_to_string(seen).expect("the agent wrote it");
    for name in ["PGPASSWORD=", "DATABASE_URL=", "ZOOKEEPER_AUTH="] {
        assert!(!seen.contains(name), "{seen}");
    }
}
