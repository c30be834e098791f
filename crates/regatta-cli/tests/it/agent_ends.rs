//! Ends of agents that are easily misread: work left elsewhere, a missing lane, a sandbox that does not work, an
//! agent's own command.

use std::path::PathBuf;

use regatta_testkit::daemon::until;
use regatta_testkit::repo::script;
use regatta_testkit::shown::shown;
use regatta_testkit::world::{World, task, text};

use crate::REGATTA;

const DONE: &str = "regatta done --verdict pass --summary 'Did it'";

/// A program that plays an agent, and the settings that name it.
fn playing(world: &World, kind: &str, body: &str) -> PathBuf {
    let program = world.outside(kind);
    script(&program, &format!("cat >/dev/null\n{body}"));
    world.config(&format!("version: 1\nagents: {{ {kind}: {{ exe: {} }} }}\n", program.display()));
    program
}

/// The notes on the first attempt of a task.
pub(crate) fn notes(world: &World, id: &str) -> String {
    let evidence = world.task(id)["attempts"][0]["evidence"].clone();
    let notes = evidence.as_array().unwrap().iter().filter(|evidence| evidence["kind"] == "note");
    shown(&notes.map(|note| text(&note["text"]).to_owned() + "\n").collect::<String>())
}

#[test]
fn commits_that_an_agent_left_elsewhere_are_found() {
    let world = World::without_sandbox(REGATTA);
    let body = format!(
        "git worktree add -q -b worktree-mine \"$REGATTA_LANE/../mine\" >/dev/null 2>&1\n\
         cd \"$REGATTA_LANE/../mine\" && echo made >made.txt && git add made.txt && git commit -qm mine\n\
         cd \"$REGATTA_LANE\" && {DONE}"
    );
    let plan = world.plan(&task("a", "agent: sh", &body));
    world.run(&plan, &[]).exited(0);
    world.assert_states(["a done"]);
    insta::assert_snapshot!(notes(&world, "a"), @r#"it changed nothing in its lane, but commits were made elsewhere in the meantime: branch worktree-mine at DIR/repo.lanes/mine; work there does not land: `regatta send a "bring your commits into this directory"`"#);
    insta::assert_snapshot!(world.regatta(["status", "a"]).shown(), @r#"
    ✓ a  git worktree add -q -b worktree-mine "$REGATTA_LANE/../mine" >/dev/null…
    state     done (TIME ago)
    agent     sh
    from      DIR/plan.md:6
    attempt 1 sh · TIME · exit 0 · verdict warn · unconfined
              Did it
              - exit-code says pass: Did it
              - it changed nothing in its lane, but commits were made elsewhere in the meantime: branch worktree-mine at DIR/repo.lanes/mine; work there does not land: `regatta send a "bring your commits into this directory"`
    salvage   refs/regatta/salvage/a/1  mine
    "#);
}

#[test]
fn commits_in_a_worktree_on_no_branch_are_found() {
    let world = World::without_sandbox(REGATTA);
    // A worktree of the user's own, at a commit that a branch has, is left alone.
    world.repo().git(["worktree", "add", "-q", "--detach", text_of(&world.outside("users"))]);
    let body = format!(
        "git worktree add -q --detach \"$REGATTA_LANE/../mine\" >/dev/null 2>&1\n\
         cd \"$REGATTA_LANE/../mine\" && echo made >made.txt && git add made.txt && git commit -qm mine\n\
         cd \"$REGATTA_LANE\" && {DONE}"
    );
    let plan = world.plan(&task("a", "agent: sh", &body));
    world.run(&plan, &[]).exited(0);
    world.assert_states(["a done"]);
    insta::assert_snapshot!(notes(&world, "a"), @r#"it changed nothing in its lane, but commits were made elsewhere in the meantime: no branch, at DIR/repo.lanes/mine; work there does not land: `regatta send a "bring your commits into this directory"`"#);
}

fn text_of(path: &std::path::Path) -> &str {
    path.to_str().expect("a path that is text")
}

#[test]
fn an_agent_whose_lane_was_taken_away_is_not_asked_for_a_verdict() {
    let world = World::without_sandbox(REGATTA);
    let plan = world.plan(&task("a", "agent: sh\nmax_attempts: 1", "cd / && rm -rf \"$REGATTA_LANE\""));
    world.run(&plan, &[]).exited(1);
    insta::assert_snapshot!(text(&world.task("a")["reason"]), @"its lane was gone when it ended: the directory was removed");
}

#[test]
fn a_sandbox_that_does_not_work_blocks_the_task_and_says_what_to_do() {
    let mut all = String::new();
    for said in [
        // As codex reports it with the system's bubblewrap 0.8 and its own directory among temporary files.
        r#"printf '%s\n' '{"type":"item.completed","item":{"id":"i1","type":"command_execution","command":"touch a","aggregated_output":"bwrap: execvp codex-linux-sandbox: No such file or directory\n","exit_code":1,"status":"failed"}}'"#,
        r#"echo "Failed to write file $REGATTA_LANE/made.txt" >&2"#,
    ] {
        let world = World::new(REGATTA);
        let body = format!(
            r#"echo '{{"type":"thread.started","thread_id":"t-1"}}'
echo '{{"type":"turn.started"}}'
{said}
{DONE}
echo '{{"type":"item.completed","item":{{"id":"i2","type":"agent_message","text":"It is done."}}}}'
echo '{{"type":"turn.completed","usage":{{"input_tokens":100,"output_tokens":20}}}}'"#
        );
        playing(&world, "codex", &body);
        let plan = world.plan(&task("a", "agent: codex\nsandbox: workspace", "do it"));
        world.run(&plan, &[]).exited(1);
        world.assert_states(["a blocked"]);
        let record = world.task("a");
        all += &format!("{}\n", shown(text(&record["reason"])));
        assert_eq!(world.attempts("a"), (1, 0));
    }
    insta::assert_snapshot!(all, @"
    policy: codex's sandbox does not work on this machine: bwrap: execvp codex-linux-sandbox: No such file or directory; `regatta doctor` tries it: update or remove bubblewrap (codex has its own), keep CODEX_HOME out of the directory for temporary files, or set `sandbox: off`, then `regatta retry a`
    policy: codex's sandbox does not work on this machine: Failed to write file DIR/repo.lanes/a/made.txt; `regatta doctor` tries it: update or remove bubblewrap (codex has its own), keep CODEX_HOME out of the directory for temporary files, or set `sandbox: off`, then `regatta retry a`
    ");
}

#[test]
fn a_command_of_the_agents_own_takes_nothing_from_a_task_that_has_landed() {
    let world = World::new(REGATTA);
    let said = world.outside("said");
    let body = format!(
        r#"cat >>'{said}'
echo '{{"type":"system","subtype":"init","session_id":"s","model":"m"}}'
if grep -q '^/compact$' '{said}'; then answer='Compacted. Shall I go on?'
else echo made >made.txt; {DONE}; answer='It is done.'; fi
echo "{{\"type\":\"assistant\",\"message\":{{\"id\":\"m1\",\"content\":[{{\"type\":\"text\",\"text\":\"$answer\"}}]}}}}"
echo "{{\"type\":\"result\",\"subtype\":\"success\",\"is_error\":false,\"result\":\"$answer\",\"session_id\":\"s\"}}""#,
        said = said.display()
    );
    let program = world.outside("claude");
    script(&program, &body);
    world.config(&format!(
        "version: 1\nland: {{ auto: true }}\nagents: {{ claude: {{ exe: {} }} }}\n",
        program.display()
    ));
    let daemon = world.daemon();
    world.enqueue(&world.plan(&task("a", "agent: claude\nmax_attempts: 1", "do it")));
    world.wait_state("a", "landed");
    world.regatta(["send", "a", "/compact"]).exited(0);
    until("the command is taken", || (world.attempts("a").0 == 2).then_some(()));
    world.wait_state("a", "landed");
    let record = world.task("a");
    assert_eq!(record["attempts"].as_array().map(Vec::len), Some(2), "{record:#}");
    // Its last question is not only in its log.
    insta::assert_snapshot!(world.regatta(["status", "a"]).shown(), @"
    ✓ a  do it
    state     landed (TIME ago)
    agent     claude
    from      DIR/plan.md:6
    commit  HASH on main
    attempt 1 claude · m · TIME · sandbox LEVEL · exit 0 · verdict pass
              Did it
              - db says pass: Did it
              - 1 file changed, tree HASH
              - last message: It is done.
              - commit HASH
    attempt 2 claude · m · TIME · sandbox LEVEL · exit 0 · verdict pass
              a command of the agent program, which changes no files
              - exit-code says pass: a command of the agent program, which changes no files
              - it changed nothing
              - last message: Compacted. Shall I go on?
    prompt 1  told by attempt 2, from ada: /compact
    ");
    daemon.signal("TERM");
    daemon.wait();
}

#[test]
fn a_file_of_terabytes_holds_nothing_up_and_stays_where_it_is() {
    let world = World::new(REGATTA);
    let body = format!("echo work >work.txt; truncate -s 3T huge.bin; {DONE}");
    let plan = world.plan(&task("a", "agent: sh\nmax_attempts: 1", &body));
    world.run(&plan, &[]).exited(1);
    insta::assert_snapshot!(world.regatta(["status", "a"]).shown(), @"
    ✕ a  echo work >work.txt; truncate -s 3T huge.bin; regatta done --verdict pa…
    state     failed: could not read 3072.0 GB of uncommitted work, most of it huge.bin: Regatta reads up to 16 GB; remove or ignore files that are not work (TIME ago)
    agent     sh
    from      DIR/plan.md:6
    lane      DIR/repo.lanes/a
    attempt 1 sh · TIME · sandbox LEVEL · exit 0 · verdict block · failure: work
              could not read 3072.0 GB of uncommitted work, most of it huge.bin: Regatta reads up to 16 GB; remove or ignore files that are not work
              - exit-code says pass: Did it
              - the commit was refused by the size of the work
                could not read 3072.0 GB of uncommitted work, most of it huge.bin: Regatta reads up to 16 GB; remove or ignore files that are not work
    next      `regatta logs a` shows why; `regatta run --resume DIR/plan.md` tries again
    ");
    insta::assert_snapshot!(world.regatta(["diff", "a"]).shown(), @"
    --- stderr
    error: could not read 3072.0 GB of uncommitted work, most of it huge.bin: Regatta reads up to 16 GB; remove or ignore files that are not work
    hint: `regatta doctor` checks the repository and its lanes
    --- exit 7
    ");
    insta::assert_snapshot!(world.regatta(["lane", "retire", "a", "--force-salvage"]).shown(), @"
    --- stderr
    error: the lane of a stays: 3072.0 GB of uncommitted work, too much to save, most of it huge.bin
    hint: Regatta cannot save this; handle it by hand (`regatta lane path a`)
    --- exit 6
    ");
    let lane = world.outside("repo.lanes/a");
    assert!(lane.join("work.txt").exists() && lane.join("huge.bin").exists());
    // Without it, everything goes on.
    std::fs::remove_file(lane.join("huge.bin")).unwrap();
    world.regatta(["lane", "retire", "a", "--force-salvage"]).exited(0);
    assert_eq!(world.repo().git(["show", "refs/regatta/salvage/a/1:work.txt"]), "work");
}

#[test]
fn a_large_file_of_terabytes_is_not_copied_into_the_project() {
    let world = World::new(REGATTA);
    let hash = "ab".repeat(32);
    let body = format!(
        "store=$(git rev-parse --git-dir)/lfs/objects/ab/ab; mkdir -p $store; truncate -s 3T $store/{hash}; \
         echo work >work.txt; git add work.txt; git commit -qm work; {DONE}"
    );
    let plan = world.plan(&task("a", "agent: sh\nmax_attempts: 1", &body));
    world.run(&plan, &[]).exited(1);
    insta::assert_snapshot!(shown(text(&world.task("a")["reason"])), @"could not read 3072.0 GB of uncommitted work, most of it DIR/repo/.git/worktrees/regatta-a/git/lfs/objects/ab/ab/TOKEN: Regatta reads up to 16 GB; remove or ignore files that are not work");
}

#[test]
fn a_list_of_refs_that_is_none_keeps_no_lane() {
    let world = World::new(REGATTA);
    let odd =
        [("fifo", "mkfifo $refs"), ("link", "ln -s /etc/passwd $refs"), ("huge", "truncate -s 3T $refs")];
    let tasks = odd.map(|(id, make)| {
        let body = format!(
            "refs=$(git rev-parse --git-dir)/packed-refs; git stash list; git switch -qc mine; \
             echo {id} >{id}.txt; git add .; git commit -qm mine; git switch -q --detach HEAD~; \
             rm -f $refs; {make}; {DONE}"
        );
        task(id, "agent: sh\nmax_attempts: 1", &body)
    });
    world.run(&world.plan(&tasks.concat()), &[]).exited(0);
    for (id, _) in odd {
        assert!(!world.lanes().join(id).exists());
        let saved = format!("refs/regatta/salvage/{id}/1:{id}.txt");
        assert_eq!(world.repo().git(["show", &saved]).trim(), id, "its other branch is saved");
    }
}
