use regatta_core::exit::Limit;

use super::*;

fn spec(id: &str) -> TaskSpec {
    TaskSpec::plain(regatta_core::id::TaskId::parse(id).unwrap(), "sim", "do it")
}

struct Case {
    adapter: VerdictAdapter,
    exit: Exit,
    end: AgentEnd,
    said: Option<&'static str>,
    stuck: Option<&'static str>,
    marker: Option<&'static str>,
    words: &'static str,
}

impl Case {
    fn of(adapter: VerdictAdapter) -> Self {
        Case {
            adapter,
            exit: Exit::Exited { code: 0 },
            end: AgentEnd::Success,
            said: None,
            stuck: None,
            marker: None,
            words: "",
        }
    }

    fn weigh(&self) -> Judgement {
        let mut task = spec("t");
        task.verdict_adapter = self.adapter;
        let statement = self.said.map(|word| Statement {
            verdict: word.parse().unwrap(),
            summary: String::new(),
            metrics: Metrics::default(),
        });
        let reported = Reported { statement, stuck: self.stuck.map(str::to_owned) };
        weigh(&Facts {
            spec: &task,
            attempt: 2,
            exit: &self.exit,
            end: &self.end,
            reported: &reported,
            marker: self.marker,
            last_words: self.words,
        })
    }

    fn summary(&self) -> String {
        match self.weigh() {
            Judgement::Good { by, statement } => format!("good {} by {by}", statement.verdict),
            Judgement::Bad { verdict, by, .. } => format!("bad {verdict} by {by}"),
            Judgement::NeedsInput(_) => "needs input".into(),
            Judgement::RateLimited { .. } => "rate limited".into(),
            Judgement::Environment(_) => "environment".into(),
            Judgement::Permanent(_) => "permanent".into(),
            Judgement::Uncharged(_) => "uncharged".into(),
        }
    }
}

#[test]
fn each_adapter_reads_only_its_own_source_and_fails_closed() {
    use VerdictAdapter::*;
    let full = |adapter| Case {
        said: Some("pass"),
        marker: Some("verdict: warn\n"),
        words: "{\"verdict\":\"block\"}",
        ..Case::of(adapter)
    };
    assert_eq!(full(Chain).summary(), "good pass by db");
    assert_eq!(full(Db).summary(), "good pass by db");
    assert_eq!(full(MarkerFile).summary(), "good warn by marker-file");
    assert_eq!(full(JsonResult).summary(), "bad block by json-result");
    assert_eq!(full(ExitCode).summary(), "good pass by exit-code");
    for adapter in [Chain, Db, MarkerFile, JsonResult] {
        assert!(Case::of(adapter).summary().starts_with("bad unknown"), "{adapter:?}");
    }
    assert_eq!(Case::of(ExitCode).summary(), "good pass by exit-code");
}

#[test]
fn the_chain_goes_on_where_a_link_says_nothing() {
    use VerdictAdapter::Chain;
    assert_eq!(
        Case { marker: Some("verdict: pass"), ..Case::of(Chain) }.summary(),
        "good pass by marker-file"
    );
    assert_eq!(
        Case { words: "{\"verdict\":\"pass\"}", ..Case::of(Chain) }.summary(),
        "good pass by json-result"
    );
    // A marker of another attempt says nothing about this one.
    let stale = Case { marker: Some("verdict: pass\nattempt: 1"), ..Case::of(Chain) };
    assert_eq!(stale.summary(), "bad unknown by none");
}

#[test]
fn a_good_word_does_not_help_an_agent_that_ended_badly() {
    let failed = AgentEnd::Failed { message: "is_error".into() };
    let lied = Case {
        said: Some("pass"),
        end: failed,
        exit: Exit::Exited { code: 1 },
        ..Case::of(VerdictAdapter::Db)
    };
    assert_eq!(lied.summary(), "bad block by db");
    let cut = AgentEnd::Interrupted { message: "no result".into() };
    // claude exits 0 when it is interrupted while it waits for the API.
    let interrupted = Case { end: cut, ..Case::of(VerdictAdapter::ExitCode) };
    assert_eq!(interrupted.summary(), "bad block by exit-code");
    let said_block = Case { said: Some("block"), ..Case::of(VerdictAdapter::ExitCode) };
    assert_eq!(said_block.summary(), "bad block by exit-code");
}

#[test]
fn what_is_nobodys_fault_is_not_charged() {
    let stopped = Case {
        exit: Exit::Stopped { why: "Ctrl-C".into() },
        said: Some("pass"),
        ..Case::of(VerdictAdapter::Db)
    };
    assert_eq!(stopped.summary(), "uncharged");
    assert_eq!(Case { exit: Exit::Lost, ..Case::of(VerdictAdapter::Db) }.summary(), "uncharged");
    let limited = AgentEnd::RateLimited { until: None, message: "429".into() };
    assert_eq!(Case { end: limited, ..Case::of(VerdictAdapter::Db) }.summary(), "rate limited");
    let timed_out = Case {
        exit: Exit::TimedOut { limit: Limit::Idle },
        said: Some("pass"),
        ..Case::of(VerdictAdapter::Db)
    };
    assert_eq!(timed_out.summary(), "bad block by exit-code");
    // What it kept running into until it was ended is the cause.
    let overloaded = AgentEnd::Environment { message: "idle timeout while it kept retrying".into() };
    assert_eq!(Case { end: overloaded, ..timed_out }.summary(), "environment");
    let locked_out = AgentEnd::Permanent { message: "401".into(), hint: "sign in".into() };
    let exit = Exit::TimedOut { limit: Limit::Retries };
    assert_eq!(Case { exit, end: locked_out, ..Case::of(VerdictAdapter::Db) }.summary(), "permanent");
    assert_eq!(
        Case { stuck: Some("which port?"), ..Case::of(VerdictAdapter::Chain) }.summary(),
        "needs input"
    );
}

#[test]
fn failures_lead_where_the_table_of_classes_says() {
    let task = spec("t");
    let backoff = Backoff::default();
    let after = |judgement: Judgement, charged: u32, environment_failures: u32| {
        let so_far = SoFar {
            spec: &task,
            charged,
            environment_failures,
            backoff: &backoff,
            now: Timestamp::from_millis(0),
            jitter: 0.5,
        };
        let (outcome, class, charged) = after_failure(&judgement, &so_far);
        let outcome = match outcome {
            Outcome::Retry { not_before, .. } => format!("retry at {}", not_before.unwrap().seconds()),
            Outcome::Park { until, .. } => format!("park until {}", until.seconds()),
            Outcome::Block { reason, .. } => format!("blocked {reason}"),
            Outcome::Fail { .. } => "failed".into(),
            Outcome::Release { .. } => "released".into(),
            other => format!("{other:?}"),
        };
        format!("{outcome}, {class}, {}", if charged { "charged" } else { "free" })
    };
    let bad = |verdict| Judgement::Bad { verdict, by: "db", why: "w".into() };
    assert_eq!(after(bad(Verdict::Block), 0, 0), "retry at 1, work, charged");
    assert_eq!(after(bad(Verdict::Block), 1, 0), "retry at 2, work, charged");
    assert_eq!(after(bad(Verdict::Block), 2, 0), "failed, work, charged");
    assert_eq!(after(bad(Verdict::Unknown), 2, 0), "blocked verdict, work, charged");
    assert_eq!(after(Judgement::Environment("x".into()), 0, 0), "park until 60, environment, free");
    assert_eq!(after(Judgement::Environment("x".into()), 0, 19), "blocked policy, environment, free");
    let until = Some(Timestamp::from_millis(3_600_000));
    assert_eq!(
        after(Judgement::RateLimited { until, why: "x".into() }, 0, 0),
        "park until 3615, rate-limited, free"
    );
    assert_eq!(after(Judgement::Permanent("x".into()), 0, 0), "blocked policy, permanent, free");
    assert_eq!(after(Judgement::NeedsInput("x".into()), 0, 0), "blocked needs-input, work, free");
    assert_eq!(after(Judgement::Uncharged("x".into()), 2, 0), "released, environment, free");
}
