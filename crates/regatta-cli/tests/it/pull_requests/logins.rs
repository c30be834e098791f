//! The user's logins are not for those whose work others have to accept.

use std::fs;

use regatta_testkit::forge::{Ci, Forge};
use regatta_testkit::world::{World, task};

use crate::REGATTA;

/// Writes which logins it has to a file beside the repository.
const LOOK: &str = r#"
exec >"$2/$1.txt"
for name in GH_TOKEN GITHUB_TOKEN GH_ENTERPRISE_TOKEN GITHUB_ENTERPRISE_TOKEN SSH_AUTH_SOCK SSH_ASKPASS; do
  test -z "$(printenv "$name")" || echo "$name"
done
test -n "$(ls -A "$GH_CONFIG_DIR")" && echo "gh's own"
test -d "$GH_CONFIG_DIR" || echo "no directory of gh"
for host in github.com example.org; do
  printf 'protocol=https\nhost=%s\n\n' "$host" | GIT_TERMINAL_PROMPT=0 git credential fill | grep password=
done
exit 0
"#;

/// What the agent, the setup, the check and the gate of a task see.
fn seen(mut world: World, github: &str, keys: &str) -> Vec<String> {
    let forge = Forge::start();
    forge.ci(Ci::Passes("ci".to_owned()));
    let outside = world.outside("");
    let outside = outside.to_str().unwrap().trim_end_matches('/').to_owned();
    let look = |name: &str| format!("sh {outside}/look.sh {name} {outside}");
    world.config(&format!(
        "version: 1\nland: {{ via: pr, auto: true, test_command: '{}', pr: {{ merge: green }} }}\ngithub: {{ {github} }}\n\
         lane: {{ setup: '{}' }}\nagents:\n  sh: {{ kind: command, argv: [sh] }}\n",
        look("gate"),
        look("setup"),
    ));
    forge.furnish(&mut world);
    fs::write(world.outside("look.sh"), LOOK).unwrap();
    fs::create_dir_all(world.outside("home")).unwrap();
    let helper = "helper = \"!echo password=stolen; echo username=octo; :\"";
    let helpers = format!("[credential]\n{helper}\n[credential \"https://github.com\"]\n{helper}\n");
    fs::write(world.outside("home/.gitconfig"), helpers).unwrap();
    fs::create_dir_all(forge.dir().join("gh")).unwrap();
    fs::write(forge.dir().join("gh/config.yml"), "version: 1\n").unwrap();
    for name in
        ["GITHUB_TOKEN", "GH_ENTERPRISE_TOKEN", "GITHUB_ENTERPRISE_TOKEN", "SSH_AUTH_SOCK", "SSH_ASKPASS"]
    {
        world.env(name, "/nowhere");
    }
    let keys = format!("checks: [\"{}\"]\n{keys}", look("check"));
    let plan = world.plan(&task("a", &keys, &format!("{}\necho a >a.txt", look("agent"))));
    world.run(&plan, &[]).exited(0);
    world.assert_states(["a landed"]);
    let read = |name: &str| fs::read_to_string(world.outside(&format!("{name}.txt"))).unwrap_or_default();
    ["setup", "agent", "check", "gate"]
        .map(|name| format!("{name}: {}", read(name).lines().collect::<Vec<_>>().join(", ")))
        .to_vec()
}

const NOTHING: [&str; 4] = ["setup: ", "agent: ", "check: ", "gate: "];

#[test]
fn what_runs_for_a_task_that_lands_by_pull_request_has_no_login() {
    assert_eq!(seen(World::new(REGATTA), "every: 60s", ""), NOTHING, "in the sandbox");
    assert_eq!(seen(World::without_sandbox(REGATTA), "every: 60s", ""), NOTHING, "without one");
}

#[test]
fn logins_are_kept_on_request_and_by_tasks_that_land_otherwise() {
    let all = "GH_TOKEN, GITHUB_TOKEN, GH_ENTERPRISE_TOKEN, GITHUB_ENTERPRISE_TOKEN, SSH_AUTH_SOCK, SSH_ASKPASS, gh's own, \
               password=stolen, password=stolen";
    let kept = ["setup", "agent", "check", "gate"].map(|name| format!("{name}: {all}"));
    assert_eq!(seen(World::without_sandbox(REGATTA), "agents_see_token: true", ""), kept);
    let confined = seen(World::new(REGATTA), "agents_see_token: true", "");
    let tokens = "agent: GH_TOKEN, GITHUB_TOKEN, GH_ENTERPRISE_TOKEN, GITHUB_ENTERPRISE_TOKEN";
    assert!(confined[1].starts_with(tokens), "{confined:?}");
    let pushed = seen(World::without_sandbox(REGATTA), "every: 60s", "via: push");
    // The gate runs `lane.setup` too.
    assert_eq!(pushed[1..3], kept[1..3]);
    assert_eq!(pushed[3], NOTHING[3], "a gate tests the work of all tasks");
    let own = seen(World::new(REGATTA), "every: 60s", "env: { GH_TOKEN: of-the-task }");
    assert_eq!(own[1..3], ["agent: GH_TOKEN", "check: GH_TOKEN"]);
}
