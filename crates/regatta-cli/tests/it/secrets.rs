//! Secrets, in whatever form an agent prints them, are in nothing that Regatta stores, shows or sends.

use std::fs;
use std::path::Path;

use regatta_testkit::repo::write;
use regatta_testkit::world::{World, task};

use crate::REGATTA;

/// In the environment, in the agent's settings, in `.env`, and recognized by its form.
const INHERITED: &str = "inherited-4f1b0c9e";
const CONFIGURED: &str = "configured \"quoted\" \\ 77";
const IN_ENV_FILE: &str = "of-the-env-file-93ac";
const TOKEN: &str = "ghp_0123456789abcdefghijABCDEFGHIJ012345";
/// The part of each secret to search for, however it is escaped.
const SIGNS: [&str; 4] = [INHERITED, "77", IN_ENV_FILE, "0123456789abcdefghij"];

const AGENT: &str = r#"
one=${SERVICE_TOKEN%????}; two=${SERVICE_TOKEN#"$one"}
printf 'in two parts: %s' "$one"; sleep 0.05; printf '%s\n' "$two"
printf '%s\n%s\n' "$SERVICE_TOKEN" "$DEPLOY_PASSWORD"
printf '{"type":"text","text":"%s"}\n' "$(printf '%s' "$DEPLOY_PASSWORD" | sed 's/[\\"]/\\&/g')"
cat .env; cat .env >&2
echo TOKEN_BY_SHAPE
echo "$REGATTA_TOKEN"; echo "$REGATTA_TOKEN" >&2
. ./.env
regatta progress "at $SERVICE_TOKEN" --detail "$API_SECRET and $REGATTA_TOKEN"
echo work >made
regatta done --verdict pass --summary "Made it with $API_SECRET, TOKEN_BY_SHAPE and $DEPLOY_PASSWORD $SERVICE_TOKEN"
"#;

fn world() -> World {
    let mut world = World::new(REGATTA);
    world.env("SERVICE_TOKEN", INHERITED);
    let yaml = format!(
        "lane: {{ include: [.env] }}\nagents: {{ sh: {{ kind: command, argv: [sh], env: {{ DEPLOY_PASSWORD: {CONFIGURED:?} }} }} }}\n"
    );
    // It is the user's own file and not tested here.
    write(&world.root().join("regatta.yaml"), yaml);
    write(&world.root().join(".env"), format!("API_SECRET='{IN_ENV_FILE}'\nPORT=8080\n"));
    write(&world.root().join(".git/info/exclude"), ".env\nregatta.yaml\n");
    world
}

/// Every file below `dir` that contains one of the signs.
fn found_below(dir: &Path, signs: &[&str]) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).unwrap().flatten() {
        let path = entry.path();
        if path.symlink_metadata().unwrap().is_dir() {
            found.extend(found_below(&path, signs));
        } else if let Ok(bytes) = fs::read(&path) {
            let text = String::from_utf8_lossy(&bytes);
            found.extend(
                signs
                    .iter()
                    .filter(|sign| text.contains(**sign))
                    .map(|sign| format!("{sign} in {}", path.display())),
            );
        }
    }
    found
}

#[test]
fn no_secret_is_kept_or_shown_anywhere() {
    let world = world();
    let script = AGENT.replace("TOKEN_BY_SHAPE", TOKEN);
    let check =
        "checks: 'cat .env; echo \"$SERVICE_TOKEN\" >&2; test \"$REGATTA_ATTEMPT\" != 1'\nmax_attempts: 2";
    let ran = world.run(&world.plan(&task("a", check, &script)), &["--keep-lanes"]).exited(0);
    world.assert_states(["a landed"]);

    let signs = [INHERITED, CONFIGURED, "configured \\\"quoted", IN_ENV_FILE, TOKEN];
    let kept: Vec<String> = found_below(&world.root().join(".regatta"), &signs)
        .into_iter()
        // What the user wrote is stored as written, readable only by its owner.
        .filter(|place| {
            !(place.starts_with(TOKEN) && (place.contains("regatta.db") || place.ends_with("prompt.md")))
        })
        .collect();
    assert_eq!(kept, [""; 0]);

    let log = fs::read_to_string(world.root().join(".regatta/logs/a/2.jsonl")).unwrap();
    insta::assert_snapshot!(log, @r#"
    in two parts: [redacted:SERVICE_TOKEN]
    [redacted:SERVICE_TOKEN]
    [redacted:DEPLOY_PASSWORD]
    {"type":"text","text":"[redacted:DEPLOY_PASSWORD]"}
    API_SECRET='[redacted:API_SECRET]'
    PORT=8080
    [redacted:github-token]

    a attempt 2: progress recorded
    a attempt 2: verdict pass recorded
    "#);

    let mut shown = format!("{}{}", ran.stdout, ran.stderr);
    for args in [
        &["report", "--json"][..],
        &["report"],
        &["logs", "a"],
        &["logs", "a", "--raw"],
        &["events", "--json"],
        &["status", "--json"],
    ] {
        let ran = world.regatta(args);
        shown += &format!("{}{}", ran.stdout, ran.stderr);
    }
    shown += &world.repo().git(["log", "--all", "--format=%B"]);
    for sign in SIGNS.into_iter().filter(|sign| *sign != "77").chain(["quoted"]) {
        assert!(!shown.contains(sign), "{sign} in {shown}");
    }
    insta::assert_snapshot!(world.repo().git(["log", "-1", "--format=%B", "main"]), @"
    feat(a): Made it with [redacted:API_SECRET], [redacted:github-token] an…

    Regatta-Task: a
    Regatta-Attempt: 2
    Regatta-Verdict: pass
    ");
}

#[test]
fn a_secret_in_base64_is_masked_alone_and_with_anything_around_it() {
    let mut world = World::new(REGATTA);
    world.env("SERVICE_TOKEN", INHERITED);
    // As in `Authorization: Basic`, with one, two and three bytes in front, and for addresses.
    let script = "for before in '' u: me: ada:; do printf '%s%s\\n' \"$before\" \"$SERVICE_TOKEN\" | base64; done\n\
                  printf '{\"auth\":\"%s\"}\\n' \"$(printf '%s' \"$SERVICE_TOKEN\" | base64 | tr '+/' '-_')\"\n\
                  echo x >x.txt\n\
                  regatta done --verdict pass --summary \"sent $(printf 'u:%s' \"$SERVICE_TOKEN\" | base64)\"";
    world.run(&world.plan(&task("a", "", script)), &[]).exited(0);
    let log = fs::read_to_string(world.root().join(".regatta/logs/a/1.jsonl")).unwrap();
    // What is left at either end belongs to the neighbours.
    insta::assert_snapshot!(log, @r#"
    [redacted:SERVICE_TOKEN]Cg==
    dTp[redacted:SERVICE_TOKEN]UK
    bWU6[redacted:SERVICE_TOKEN]Cg==
    YWRhOm[redacted:SERVICE_TOKEN]Qo=
    {"auth":"[redacted:SERVICE_TOKEN]"}
    a attempt 1: verdict pass recorded
    "#);
    let subject = world.repo().git(["log", "-1", "--format=%s", "main"]);
    insta::assert_snapshot!(subject, @"feat(a): sent dTp[redacted:SERVICE_TOKEN]U=");
}
