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
    has_model: bool,
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
            has_model: true,
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
            has_model: self.has_model,
            own_command: false,
        })
    }

    fn summary(&self) -> String {
        match self.weigh() {
            Judgement::Good { by, statement } => format!("good {} by {by}", statement.verdict),
            Judgement::Bad { verdict, by, .. } => format!("bad {verdict} by {by}"),
            Judgement::NeedsInput(_) => "needs input".into(),
            Judgement::RateLimited { .. } => "rate limited".into(),
            Judgement::Budget(_) => "budget".into(),
            Judgement::Environment(_) => "environment".into(),
            Judgement::Permanent(_) => "permanent".into(),
            Judgement::AccountRefused(_) => "account refused".into(),
            Judgement::Interrupted(_) => "interrupted".into(),
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
    assert_eq!(interrupted.summary(), "interrupted");
    let interrupted = Case { said: Some("pass"), adapter: VerdictAdapter::Db, ..interrupted };
    assert_eq!(interrupted.summary(), "interrupted");
    assert_eq!(Case { said: Some("block"), ..interrupted }.summary(), "bad block by db");
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
    let limited = AgentEnd::RateLimited { until: None, limit: RateLimit::Quota, message: "429".into() };
    assert_eq!(Case { end: limited, ..Case::of(VerdictAdapter::Db) }.summary(), "rate limited");
    let spent = AgentEnd::Budget { message: "Reached maximum budget ($1)".into() };
    assert_eq!(Case { end: spent, ..Case::of(VerdictAdapter::Db) }.summary(), "budget");
    // Its report is judged before its budget.
    let spent = AgentEnd::Budget { message: "Reached maximum budget ($1)".into() };
    let reported = Case { end: spent, said: Some("pass"), ..Case::of(VerdictAdapter::Db) };
    assert_eq!(reported.summary(), "good pass by db");
    assert_eq!(Case { said: Some("block"), ..reported }.summary(), "budget");
    let silent = AgentEnd::Failed { message: "idle timeout".into() };
    let timed_out = Case {
        exit: Exit::TimedOut { limit: Limit::Idle },
        said: Some("pass"),
        end: silent.clone(),
        ..Case::of(VerdictAdapter::Db)
    };
    assert_eq!(timed_out.summary(), "interrupted");
    assert_eq!(Case { has_model: false, ..timed_out }.summary(), "bad block by exit-code");
    let timed_out = Case { exit: Exit::TimedOut { limit: Limit::Total }, end: silent, ..timed_out };
    assert_eq!(timed_out.summary(), "bad block by exit-code");
    // The error it kept running into until it was ended is the cause.
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
fn an_agent_that_had_said_its_last_word_has_finished_however_its_process_ends() {
    for limit in [Limit::Lingering, Limit::Idle, Limit::Total] {
        let ended =
            Case { exit: Exit::TimedOut { limit }, said: Some("pass"), ..Case::of(VerdictAdapter::Chain) };
        assert_eq!(ended.summary(), "good pass by db", "{limit}");
        let failed = AgentEnd::Failed { message: "is_error".into() };
        assert_ne!(Case { end: failed, ..ended }.summary(), "good pass by db", "{limit}");
    }
}

#[test]
fn an_interrupted_agent_comes_back_at_once_and_free_but_not_for_ever() {
    let cut = Judgement::Interrupted("killed by signal 9".into());
    let followed = |times| followed(&cut, 2, times, &Choice::Unbound);
    assert_eq!(followed(0), "park until 1, environment, free");
    assert_eq!(followed(3), "park until 8, environment, free");
    assert_eq!(followed(4), "blocked policy, environment, free");
}

#[test]
fn nobody_is_parked_until_the_year_5138() {
    let now = Timestamp::from_millis(1_000_000);
    let limited = |until: u64| Judgement::RateLimited {
        until: Some(now.plus(Duration::from_secs(until))),
        limit: RateLimit::Quota,
        why: "spent".into(),
    };
    assert_eq!(limited(7 * 86_400).within_reason(now), limited(7 * 86_400));
    match limited(90_000_000_000).within_reason(now) {
        Judgement::RateLimited { until, why, .. } => {
            assert_eq!(until, Some(now.plus(Duration::from_secs(86_400))));
            assert!(why.starts_with("spent; ") && why.contains("more than 8 days from now"), "{why}");
        }
        other => panic!("{other:?}"),
    }
}

/// The outcome of a failure at time zero, in a few words.
fn followed(judgement: &Judgement, charged: u32, environment_failures: u32, next: &Choice) -> String {
    let so_far = SoFar {
        spec: &spec("t"),
        charged,
        environment_failures,
        backoff: &Backoff::default(),
        now: Timestamp::from_millis(0),
        next,
    };
    let (outcome, class, charged) = after_failure(judgement, &so_far);
    let outcome = match outcome {
        Outcome::Retry { not_before: None, .. } => "retry".into(),
        Outcome::Retry { not_before: Some(at), .. } => format!("retry at {}", at.seconds()),
        Outcome::Park { until, .. } => format!("park until {}", until.seconds()),
        Outcome::Block { reason, .. } => format!("blocked {reason}"),
        Outcome::Fail { .. } => "failed".into(),
        Outcome::Release { .. } => "released".into(),
        other => format!("{other:?}"),
    };
    format!("{outcome}, {class}, {}", if charged { "charged" } else { "free" })
}

#[test]
fn what_an_account_runs_into_leads_to_another_where_there_is_one() {
    let until = Some(Timestamp::from_millis(7_200_000));
    let limited = |limit| Judgement::RateLimited { until, limit, why: "x".into() };
    let (quota, busy) = (limited(RateLimit::Quota), limited(RateLimit::Traffic));
    let refused = Judgement::AccountRefused("401; sign in".into());
    let back = Timestamp::from_millis(600_000);
    let another = Choice::Use("two".into());
    let wait = Choice::Wait { profile: "two".into(), until: back, why: "spent".into() };
    let aside = Choice::SetAside { profile: "one".into(), why: "401".into() };
    for (judgement, next, expected) in [
        (&quota, &Choice::Unbound, "park until 7218, rate-limited, free"),
        (&quota, &another, "retry, rate-limited, free"),
        (&quota, &wait, "park until 600, rate-limited, free"),
        // A limit per minute is waited for, even if there are other accounts.
        (&busy, &another, "park until 7218, rate-limited, free"),
        (&refused, &Choice::Unbound, "blocked policy, permanent, free"),
        (&refused, &another, "retry, permanent, free"),
        (&refused, &wait, "park until 600, permanent, free"),
        (&refused, &aside, "blocked policy, permanent, free"),
    ] {
        assert_eq!(followed(judgement, 2, 0, next), expected, "{judgement:?} {next:?}");
    }
}

#[test]
fn a_clock_that_ran_out_while_a_request_kept_failing_is_not_the_cause() {
    let timed_out =
        |end| Case { exit: Exit::TimedOut { limit: Limit::Idle }, end, ..Case::of(VerdictAdapter::Chain) };
    let message = || "kept retrying".to_owned();
    assert_eq!(timed_out(AgentEnd::Environment { message: message() }).summary(), "environment");
    let refused = AgentEnd::AccountRefused { message: message(), hint: String::new() };
    assert_eq!(timed_out(refused).summary(), "account refused");
    assert_eq!(timed_out(AgentEnd::Failed { message: message() }).summary(), "interrupted");
}

#[test]
fn failures_lead_where_the_table_of_classes_says() {
    let after = |judgement: Judgement, charged: u32, environment_failures: u32| {
        followed(&judgement, charged, environment_failures, &Choice::Unbound)
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
        after(Judgement::RateLimited { until, limit: RateLimit::Quota, why: "x".into() }, 0, 0),
        "park until 3618, rate-limited, free"
    );
    // A time in the past is not waited for.
    let past = Some(Timestamp::from_millis(0));
    for limit in [RateLimit::Quota, RateLimit::Traffic] {
        let limited = Judgement::RateLimited { until: past, limit, why: "x".into() };
        assert_eq!(after(limited, 0, 0), "park until 60, rate-limited, free");
    }
    // A limit without a time is still shown as a limit, and not as an environment failure.
    let unstated = Judgement::RateLimited { until: None, limit: RateLimit::Quota, why: "daily quota".into() };
    let so_far = SoFar {
        spec: &spec("t"),
        charged: 0,
        environment_failures: 2,
        backoff: &Backoff::default(),
        now: Timestamp::from_millis(0),
        next: &Choice::Unbound,
    };
    let (outcome, ..) = after_failure(&unstated, &so_far);
    let until = Timestamp::from_millis(240_000);
    assert_eq!(outcome, Outcome::Park { until, why: ParkReason::RateLimited, detail: "daily quota".into() });
    assert_eq!(after(Judgement::Permanent("x".into()), 0, 0), "blocked policy, permanent, free");
    assert_eq!(after(Judgement::Budget("x".into()), 0, 0), "blocked budget, budget, free");
    assert_eq!(after(Judgement::NeedsInput("x".into()), 0, 0), "blocked needs-input, work, free");
    assert_eq!(after(Judgement::Uncharged("x".into()), 2, 0), "released, environment, free");
}
