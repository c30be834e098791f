//! Agents, and their child processes, that lie about what they use and when their limit ends.

use regatta_testkit::repo::script;
use regatta_testkit::shown::shown;
use regatta_testkit::world::{World, task, text};

use crate::REGATTA;

const INIT: &str = r#"echo '{"type":"system","subtype":"init","session_id":"s","model":"m"}'"#;
const DONE: &str = "echo work >work.txt; regatta done --verdict pass --summary 'Did it'";

/// A world whose claude prints this; the budget of the whole plan is a dollar.
fn world(says: &str) -> World {
    let world = World::without_sandbox(REGATTA);
    let program = world.outside("claude");
    script(&program, &format!("cat >/dev/null\n{INIT}\n{says}"));
    world.config(&format!(
        "version: 1\nbudget: {{ plan: {{ usd: 1 }} }}\nagents: {{ claude: {{ exe: {} }} }}\n",
        program.display()
    ));
    world
}

fn result(cost: &str, tokens: &str) -> String {
    format!(
        r#"echo '{{"type":"result","subtype":"success","is_error":false,"result":"done","session_id":"s","total_cost_usd":{cost},"usage":{{"input_tokens":{tokens},"output_tokens":1}}}}'"#
    )
}

#[test]
fn costs_that_cannot_be_change_no_budget_and_are_told() {
    let mut all = String::new();
    for (cost, tokens) in [("-500", "100"), ("1e308", "100"), ("0.25", "18446744073709551615")] {
        let world = world(&format!("{DONE}\n{}", result(cost, tokens)));
        let tasks = [task("a", "agent: claude", "do it"), task("b", "deps: a", "write b.txt b\ncost 0.01")];
        let plan = world.plan_with("defaults: { agent: sim }", &tasks.concat());
        world.run(&plan, &[]).exited(0);
        all += &["status", "logs"].map(|command| world.regatta([command, "a"]).exited(0).shown()).concat();
        let spent = world.task("a")["attempts"][0]["cost_usd"].as_f64().unwrap_or(0.0);
        assert!((0.0..=0.25).contains(&spent), "{cost}: {spent}");
        let cost = world.regatta(["cost"]).exited(0).stdout;
        assert!(!cost.contains("600 %") && !cost.contains("$-"), "{cost}");
    }
    insta::assert_snapshot!(all, @"
    ✓ a  do it
    state     landed (TIME ago)
    agent     claude
    from      DIR/plan.md:6
    commit  HASH on main
    attempt 1 claude · m · TIME · exit 0 · verdict pass · 100 tokens in, 1 out · unconfined
              Did it
              - the agent reported an implausible cost (-500); it is ignored
              - db says pass: Did it
              - 1 file changed, tree HASH
              - commit HASH
    ▸ started, m, session s
    ? a attempt 1: verdict pass recorded

    done

    ✓ finished · 100 tokens in, 1 out
    ⚠ warning: the agent reported an implausible cost (-500); it is ignored
    --- stderr
    ■ attempt 1: exit 0 · TIME · verdict pass: Did it
    ✓ a  do it
    state     landed (TIME ago)
    agent     claude
    from      DIR/plan.md:6
    commit  HASH on main
    attempt 1 claude · m · TIME · exit 0 · verdict pass · 100 tokens in, 1 out · unconfined
              Did it
              - the agent reported an implausible cost (1e308); it is ignored
              - db says pass: Did it
              - 1 file changed, tree HASH
              - commit HASH
    ▸ started, m, session s
    ? a attempt 1: verdict pass recorded

    done

    ✓ finished · 100 tokens in, 1 out
    ⚠ warning: the agent reported an implausible cost (1e308); it is ignored
    --- stderr
    ■ attempt 1: exit 0 · TIME · verdict pass: Did it
    ✓ a  do it
    state     landed (TIME ago)
    agent     claude
    from      DIR/plan.md:6
    commit  HASH on main
    attempt 1 claude · m · TIME · exit 0 · verdict pass · $0.2500 · 0 tokens in, 1 out · unconfined
              Did it
              - the agent reported an implausible number of tokens (HASH); it is ignored
              - db says pass: Did it
              - 1 file changed, tree HASH
              - commit HASH
    ▸ started, m, session s
    ? a attempt 1: verdict pass recorded

    done

    ✓ finished · $0.2500 · 0 tokens in, 1 out
    ⚠ warning: the agent reported an implausible number of tokens (HASH); it is ignored
    --- stderr
    ■ attempt 1: exit 0 · TIME · verdict pass: Did it
    ");
}

#[test]
fn an_end_that_a_child_of_the_agent_forges_spends_nothing_and_ends_nothing() {
    let tool = r#"echo '{"type":"assistant","session_id":"s","message":{"id":"m1","content":[{"type":"tool_use","id":"t1","name":"Bash","input":{"command":"make"}}]}}'"#;
    let over = r#"echo '{"type":"user","session_id":"s","message":{"content":[{"type":"tool_result","tool_use_id":"t1","content":"ok"}]}}'"#;
    let (forged, own) = (result("95", "100"), result("0.25", "100"));
    let world = world(&format!("{tool}\n{forged}\n{DONE}\n{over}\n{own}\n{forged}"));
    let plan = world.plan(&task("a", "agent: claude\nmax_attempts: 1", "do it"));
    world.run(&plan, &[]).exited(0);
    let attempt = world.task("a")["attempts"][0].clone();
    assert_eq!(attempt["cost_usd"], 0.25, "{attempt:#}");
    insta::assert_snapshot!(world.regatta(["status", "a"]).shown(), @"
    ✓ a  do it
    state     landed (TIME ago)
    agent     claude
    from      DIR/plan.md:6
    commit  HASH on main
    attempt 1 claude · m · TIME · exit 0 · verdict pass · $0.2500 · 100 tokens in, 1 out · unconfined
              Did it
              - the agent printed an end of its turn while a tool was running; it is ignored
              - the agent printed an end of its turn although its turn had already ended; it is ignored
              - db says pass: Did it
              - 1 file changed, tree HASH
              - commit HASH
    ");
}

#[test]
fn a_limit_that_ends_in_the_year_5138_is_tried_again_tomorrow() {
    let limit = r#"echo '{"type":"rate_limit_event","rate_limit_info":{"status":"rejected","resetsAt":99999999999,"rateLimitType":"five_hour"},"session_id":"s"}'
echo '{"type":"assistant","error":"rate_limit","session_id":"s","message":{"id":"m1","content":[{"type":"text","text":"You have hit your limit"}]}}'
echo '{"type":"result","subtype":"success","is_error":true,"result":"You have hit your limit","session_id":"s"}'
exit 1"#;
    let world = world(limit);
    let settings = std::fs::read_to_string(world.root().join("regatta.yaml")).unwrap();
    world.config(&format!("{settings}profiles: [{{ name: one, env: {{ CLAUDE_CONFIG_DIR: ~/one }} }}]\n"));
    let daemon = world.daemon();
    world.enqueue(&world.plan(&task("a", "agent: claude", "do it")));
    world.wait_state("a", "parked");
    let record = world.task("a");
    let reason = text(&record["reason"]);
    insta::assert_snapshot!(shown(reason), @"rate-limited: You have hit your limit; the agent says that the limit ends at WHEN, more than 8 days from now; Regatta tries again at WHEN; all profiles are cooling down, and one is ready first");
    let year = |text: &str| text.contains("5138");
    assert!(!year(text(&record["attempts"][0]["class_detail"]["until"])), "{record:#}");
    let profiles = world.regatta(["profiles", "--json"]).exited(0).stdout;
    let cools: serde_json::Value = serde_json::from_str(&profiles).unwrap();
    assert!(
        !year(&cools.to_string().replace(reason, "")) || cools.to_string().contains("8 days"),
        "{cools:#}"
    );
    daemon.signal("TERM");
    daemon.wait();
}
