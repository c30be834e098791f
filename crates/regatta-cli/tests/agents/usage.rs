//! What agents use: counted once, counted as it is reported, and no reason to discard finished work.

use std::time::{Duration, Instant};

use regatta_testkit::agents::SETTINGS;
use regatta_testkit::api::{Script, Turn};
use regatta_testkit::world::text;

use crate::scene::{DONE, LOOK_COMMAND, Scene};

const CLAUDES: [&str; 2] = ["claude", "claude-newest"];

/// What one model answer costs with these agents: a hundred tokens read, twenty written.
fn answer(agent: &str) -> f64 {
    match agent {
        "opencode" => 0.0006,
        _ => 0.0003 + 0.0003,
    }
}

/// The cost of each attempt in dollars.
fn dollars(scene: &Scene, id: &str) -> Vec<f64> {
    let task = scene.world.task(id);
    let attempts = task["attempts"].as_array().expect("attempts are a list");
    attempts.iter().map(|attempt| attempt["cost_usd"].as_f64().unwrap_or(0.0)).collect()
}

#[test]
fn a_conversation_that_goes_on_is_not_paid_for_twice() {
    let mut scene = Scene::new();
    for agent in CLAUDES {
        let work = |n: u32| Turn::run(&format!("echo {n} >>{agent}.txt && {DONE}"));
        let rounds = (1..=3).flat_map(|n| [work(n), Turn::say("It is done.")]);
        scene.task(agent, agent, "", Script::of(rounds));
    }
    let daemon = scene.world.daemon();
    scene.world.enqueue(&scene.plan());
    for agent in CLAUDES {
        for round in 1..=3 {
            scene.api.wait_asked(agent, round * 2);
            scene.world.wait_state(agent, "landed");
            if round < 3 {
                scene.world.regatta(["send", agent, "Please, one more line."]).exited(0);
            }
        }
        let spent = dollars(&scene, agent);
        assert_eq!(spent.len(), 3, "{agent}");
        for usd in spent {
            assert!((usd - 2.0 * answer(agent)).abs() < 1e-9, "{agent}: {usd}");
        }
        let tokens = scene.world.task(agent)["attempts"][2]["tokens_in"].clone();
        assert_eq!(tokens, 200, "{agent}");
    }
    daemon.signal("TERM");
    daemon.wait();
    scene.assert_tidy();
}

#[test]
fn an_agent_that_has_reported_and_said_its_last_word_is_not_waited_for() {
    let mut scene = Scene::new();
    for agent in CLAUDES {
        // The newer one would wait ten minutes for its background command.
        let turns = [
            Turn::Background("while :; do read -t 60 x </dev/zero || :; /bin/sleep 60; done".to_owned()),
            Turn::run(&format!("echo made >{agent}.txt && {DONE}")),
            Turn::say("It is done."),
        ];
        scene.task(agent, agent, "max_attempts: 1", Script::of(turns));
    }
    let began = Instant::now();
    scene.world.run(&scene.plan(), &[]).exited(0);
    assert!(began.elapsed() < Duration::from_secs(300), "{:?}", began.elapsed());
    scene.world.assert_states(["claude landed", "claude-newest landed"]);
    for agent in CLAUDES {
        assert_eq!(scene.world.attempts(agent), (1, 0));
        let attempt = scene.world.task(agent)["attempts"][0].clone();
        assert!(attempt["cost_usd"].as_f64().is_some_and(|usd| usd > 0.0), "{attempt:#}");
    }
    scene.assert_tidy();
}

#[test]
fn finished_work_is_judged_before_its_budget_is() {
    let mut scene = Scene::new();
    let agents = ["claude", "gemini", "opencode"];
    for agent in agents {
        let turns = [Turn::run(&format!("echo made >{agent}.txt && {DONE}")), Turn::say("It is done.")];
        // The last answer exceeds the budget.
        scene.task(agent, agent, "max_attempts: 1\nbudget_tokens: 200", Script::of(turns));
    }
    scene.world.run(&scene.plan(), &["--max-workers", "2"]).exited(0);
    scene.world.assert_states(["claude landed", "gemini landed", "opencode landed"]);
    scene.assert_tidy();
}

#[test]
fn a_budget_in_tokens_stops_agents_in_the_middle_that_tell_their_use_only_at_the_end() {
    let mut scene = Scene::new();
    let agents = ["codex", "gemini"];
    for agent in agents {
        // Far more than the budget allows, and each call another: gemini ends a loop of equal calls by itself.
        let turns = (0..300).map(|n| Turn::run(&format!("echo looked at file {n}")));
        scene.task(agent, agent, "max_attempts: 1\nbudget_tokens: 400", Script::of(turns));
    }
    scene.world.run(&scene.plan(), &["--max-workers", "2"]).exited(1);
    for agent in agents {
        let task = scene.world.task(agent);
        let reason = text(&task["reason"]);
        assert!(reason.contains("of 400 tokens"), "{task:#}");
        assert!(reason.contains("plan"), "the plan is where it is raised: {reason}");
        let attempt = &task["attempts"][0];
        let used = attempt["tokens_in"].as_u64().unwrap_or(0) + attempt["tokens_out"].as_u64().unwrap_or(0);
        assert!((400..100_000).contains(&used), "{attempt:#}");
        assert_eq!(attempt["charged"], false, "{attempt:#}");
    }
    scene.assert_alone();
}

#[test]
fn what_a_killed_attempt_used_is_counted_and_cached_tokens_have_a_price_of_their_own() {
    let mut scene = Scene::new();
    let prices = "models: { prices: { gpt-5.5: { in: 10, cached_input: 1, out: 100 }, gemini-2.5-pro: { in: 10, out: 100 } } }\n";
    scene.world.config(&format!("{SETTINGS}{prices}"));
    let agents = ["codex", "gemini"];
    for agent in agents {
        let turns = [
            Turn::run(LOOK_COMMAND),
            Turn::Stall,
            Turn::run(&format!("echo made >{agent}.txt && {DONE}")),
            Turn::say("It is done."),
        ];
        scene.task(agent, agent, "max_attempts: 1", Script::of(turns));
    }
    let running = scene.world.start(&scene.plan(), &["--max-workers", "2"]);
    for agent in agents {
        scene.api.wait_asked(agent, 2);
        regatta_testkit::daemon::signal(scene.world.agent_pid(agent, 1), "KILL");
    }
    running.wait().exited(0);
    for agent in agents {
        let task = scene.world.task(agent);
        let counted: Vec<u64> = (0..2).map(|n| task["attempts"][n]["tokens_in"].as_u64().unwrap()).collect();
        assert_eq!(counted, [100, 200], "{agent}");
        let spent = dollars(&scene, agent);
        // The API of these tests reports that half of what codex's model read came from its cache.
        let one = if agent == "codex" { 0.0005 + 0.00005 + 0.002 } else { 0.001 + 0.002 };
        assert!((spent[0] - one).abs() < 1e-9 && (spent[1] - 2.0 * one).abs() < 1e-9, "{agent}: {spent:?}");
    }
    scene.assert_tidy();
}
