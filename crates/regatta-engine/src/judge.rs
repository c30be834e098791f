//! The verdict on an attempt: from facts to consequences. Pure; the worker gathers the facts and executes the outcome.
//!
//! Invariant: it fails closed. An attempt is good only if the agent ended well *and* its adapter found a good
//! statement.

use std::time::Duration;

use regatta_core::exit::{Exit, Limit};
use regatta_core::failure::{Backoff, FailureClass, RateLimit};
use regatta_core::plain::joined;
use regatta_core::profiles::{Choice, believed, spread};
use regatta_core::spec::TaskSpec;
use regatta_core::state::{BlockReason, ParkReason};
use regatta_core::time::Timestamp;
use regatta_core::verdict::{Metrics, Statement, Verdict, VerdictAdapter, read_json_result, read_marker};
use regatta_store::{Outcome, Reported};

use crate::agents::AgentEnd;

/// The number of interruptions from outside in a row after which an agent is not started again.
const INTERRUPTED_LIMIT: u32 = 5;

/// Everything a judgement is based on before the work is committed and checked.
pub(crate) struct Facts<'a> {
    /// The task as ordered.
    pub(crate) spec: &'a TaskSpec,
    /// The attempt's number.
    pub(crate) attempt: u32,
    /// How the process ended.
    pub(crate) exit: &'a Exit,
    /// How the agent ended, by its own report.
    pub(crate) end: &'a AgentEnd,
    /// What the agent reported with `regatta done` and `regatta stuck`.
    pub(crate) reported: &'a Reported,
    /// The marker file it left in its lane.
    pub(crate) marker: Option<&'a str>,
    /// The end of its output.
    pub(crate) last_words: &'a str,
    /// Whether it talks to a model: then the end of its process may be the environment's fault. For a plain command it
    /// is the command's own.
    pub(crate) has_model: bool,
    /// Whether it was sent one of its own commands, such as `/compact`: that needs no report.
    pub(crate) own_command: bool,
}

/// The judgement on the attempt so far.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Judgement {
    /// Good, if it can be committed and its checks pass.
    Good {
        /// The adapter that found it.
        by: &'static str,
        /// The statement it found.
        statement: Statement,
    },
    /// The work failed.
    Bad {
        /// `block`, or `unknown` without a report.
        verdict: Verdict,
        /// The adapter that found it, if any.
        by: &'static str,
        /// What is wrong, for the user and as guidance for the next attempt.
        why: String,
    },
    /// The agent waits for a user.
    NeedsInput(String),
    /// A usage limit.
    RateLimited {
        /// Its end, if stated.
        until: Option<Timestamp>,
        /// What the limit counts.
        limit: RateLimit,
        /// In the agent's words.
        why: String,
    },
    /// Its budget is spent.
    Budget(String),
    /// The environment failed.
    Environment(String),
    /// Retrying cannot help.
    Permanent(String),
    /// Retrying with this account cannot help.
    AccountRefused(String),
    /// It was ended from outside in the middle of its work: a signal, silence.
    Interrupted(String),
    /// Stopped or lost: not its fault, and not charged.
    Uncharged(String),
}

impl Judgement {
    /// The same, with the stated end of a limit reduced to a plausible time.
    pub(crate) fn within_reason(self, now: Timestamp) -> Self {
        match self {
            Judgement::RateLimited { until: Some(until), limit, why } => {
                let (until, doubt) = believed(until, now);
                let why = doubt.map_or_else(|| why.clone(), |doubt| joined(&why, &doubt));
                Judgement::RateLimited { until: Some(until), limit, why }
            }
            other => other,
        }
    }
}

/// Weighs the facts.
pub(crate) fn weigh(facts: &Facts<'_>) -> Judgement {
    match facts.exit {
        Exit::Stopped { why } => return Judgement::Uncharged(format!("stopped: {why}")),
        Exit::Lost => {
            return Judgement::Uncharged("the agent was lost with its machine or its shim".to_owned());
        }
        // It had sent its last message, and only its process continued: it has finished.
        Exit::TimedOut { limit: Limit::Lingering } => {}
        Exit::TimedOut { .. } if *facts.end == AgentEnd::Success => {}
        // Silence is not the work's fault: a server that does not answer, a machine that sleeps.
        Exit::TimedOut { limit: limit @ (Limit::Idle | Limit::FirstOutput) }
            if facts.has_model && !is_outside(facts.end) && facts.reported.stuck.is_none() =>
        {
            return Judgement::Interrupted(format!("the agent went silent and reached its {limit}"));
        }
        // The error that an agent kept running into is the cause, not that it was ended in the middle of it.
        Exit::TimedOut { limit } if !is_outside(facts.end) => {
            return Judgement::Bad {
                verdict: Verdict::Block,
                by: "exit-code",
                why: format!("reached its {limit}"),
            };
        }
        _ => {}
    }
    match facts.end {
        AgentEnd::RateLimited { until, limit, message } => {
            return Judgement::RateLimited { until: *until, limit: *limit, why: message.clone() };
        }
        AgentEnd::AccountRefused { message, hint } => {
            return Judgement::AccountRefused(with_hint(message, hint, facts.spec));
        }
        // What it had reported by then is judged first; the budget stops what would come after.
        AgentEnd::Budget { .. } if has_finished(facts.reported) => {}
        AgentEnd::Budget { message } => return Judgement::Budget(message.clone()),
        AgentEnd::Environment { message } => return Judgement::Environment(message.clone()),
        AgentEnd::Permanent { message, hint } => {
            return Judgement::Permanent(with_hint(message, hint, facts.spec));
        }
        AgentEnd::NoSession | AgentEnd::SessionExists => {
            return Judgement::Uncharged("the agent could not find or start its conversation".to_owned());
        }
        AgentEnd::Success | AgentEnd::Failed { .. } | AgentEnd::Interrupted { .. } => {}
    }
    if let Some(why) = &facts.reported.stuck {
        return Judgement::NeedsInput(why.clone());
    }
    let (by, statement) = read(facts);
    let ended_badly = match facts.end {
        AgentEnd::Success => None,
        AgentEnd::Failed { message } => {
            // A command's message begins with its exit.
            let exit = facts.exit.to_string();
            let rest = message.strip_prefix(&exit).unwrap_or(message).trim_start_matches(':').trim();
            let rest = if rest.is_empty() { String::new() } else { format!(": {rest}") };
            Some(format!("the agent failed ({exit}){rest}"))
        }
        AgentEnd::Interrupted { message } => {
            // Most messages begin with the exit.
            let exit = facts.exit.to_string();
            let rest = message.strip_prefix(&exit).map_or(format!(": {message}"), |_| String::new());
            Some(format!("the agent ended before it had finished ({exit}){rest}"))
        }
        _ => None,
    };
    if let (AgentEnd::Interrupted { .. }, Some(end), true) = (facts.end, &ended_badly, facts.has_model) {
        // Interrupted from outside: a reported failure counts, and finished work is found again.
        match &statement {
            Some(statement) if !statement.verdict.is_good() => {}
            Some(statement) => {
                return Judgement::Interrupted(format!("it reported {} but {end}", statement.verdict));
            }
            None => return Judgement::Interrupted(end.clone()),
        }
    }
    match (statement, ended_badly) {
        (Some(statement), None) if statement.verdict.is_good() => Judgement::Good { by, statement },
        (Some(statement), Some(end)) if statement.verdict.is_good() => Judgement::Bad {
            verdict: Verdict::Block,
            by,
            why: format!("it reported {} but {end}", statement.verdict),
        },
        (Some(statement), end) => Judgement::Bad {
            verdict: statement.verdict,
            by,
            why: match (statement.summary.is_empty(), end) {
                (false, _) => format!("the agent reported {}: {}", statement.verdict, statement.summary),
                (true, Some(end)) => end,
                (true, None) => format!("the agent reported {}", statement.verdict),
            },
        },
        (None, None) if facts.own_command => {
            let summary = "a command of the agent program, which changes no files".to_owned();
            let statement = Statement { verdict: Verdict::Pass, summary, metrics: Metrics::default() };
            Judgement::Good { by: "exit-code", statement }
        }
        (None, Some(end)) => Judgement::Bad { verdict: Verdict::Block, by: "exit-code", why: end },
        (None, None) => Judgement::Bad {
            verdict: Verdict::Unknown,
            by: "none",
            why: match facts.spec.verdict_adapter {
                VerdictAdapter::JsonResult => {
                    "no verdict was found; the answer must end with a line such as \
                     {\"verdict\":\"pass\",\"summary\":\"…\"}, where the verdict is pass, warn or block"
                        .to_owned()
                }
                adapter => format!(
                    "no verdict was found (verdict_adapter {}); finish with `regatta done --verdict pass --summary …`",
                    adapter.as_str()
                ),
            },
        },
    }
}

/// The message with its hint, as one sentence.
fn with_hint(message: &str, hint: &str, spec: &TaskSpec) -> String {
    joined(message, &hint.replace("retry TASK", &format!("retry {}", spec.id)))
}

/// Whether the agent has reported that its work is good.
pub(crate) fn has_finished(reported: &Reported) -> bool {
    reported.stuck.is_none() && reported.statement.as_ref().is_some_and(|said| said.verdict.is_good())
}

/// Whether the agent reports that something other than its work failed.
fn is_outside(end: &AgentEnd) -> bool {
    match end {
        AgentEnd::RateLimited { .. }
        | AgentEnd::Budget { .. }
        | AgentEnd::Environment { .. }
        | AgentEnd::AccountRefused { .. }
        | AgentEnd::Permanent { .. } => true,
        AgentEnd::Success
        | AgentEnd::Failed { .. }
        | AgentEnd::NoSession
        | AgentEnd::SessionExists
        | AgentEnd::Interrupted { .. } => false,
    }
}

/// Asks the task's adapter, or the chain of them, for a statement.
fn read(facts: &Facts<'_>) -> (&'static str, Option<Statement>) {
    let db = || facts.reported.statement.clone();
    let marker = || facts.marker.and_then(|text| read_marker(text, facts.attempt));
    let json = || read_json_result(facts.last_words);
    match facts.spec.verdict_adapter {
        VerdictAdapter::Db => ("db", db()),
        VerdictAdapter::MarkerFile => ("marker-file", marker()),
        VerdictAdapter::JsonResult => ("json-result", json()),
        VerdictAdapter::ExitCode => ("exit-code", exit_statement(facts)),
        VerdictAdapter::Chain => {
            let found = [("db", db()), ("marker-file", marker()), ("json-result", json())];
            found.into_iter().find(|(_, said)| said.is_some()).unwrap_or(("none", None))
        }
    }
}

/// The agent's end as a statement. Its own report only adds text and warnings to it.
fn exit_statement(facts: &Facts<'_>) -> Option<Statement> {
    if !matches!(facts.end, AgentEnd::Success) {
        return None;
    }
    let plain = Statement { verdict: Verdict::Pass, summary: String::new(), metrics: Metrics::default() };
    Some(facts.reported.statement.clone().unwrap_or(plain))
}

/// The outcome for a failure, given what was charged so far. The flag says whether this attempt is charged.
pub(crate) fn after_failure(judgement: &Judgement, so_far: &SoFar<'_>) -> (Outcome, FailureClass, bool) {
    let backoff = so_far.backoff;
    match judgement {
        Judgement::Good { .. } => unreachable!("good work is not a failure"),
        Judgement::Uncharged(why) => {
            (Outcome::Release { why: why.clone() }, FailureClass::Environment, false)
        }
        Judgement::NeedsInput(why) => (
            Outcome::Block { reason: BlockReason::NeedsInput, detail: why.clone() },
            FailureClass::Work,
            false,
        ),
        Judgement::Permanent(why) => (
            Outcome::Block { reason: BlockReason::Policy, detail: why.clone() },
            FailureClass::Permanent,
            false,
        ),
        Judgement::RateLimited { until, limit, why } => {
            let class = FailureClass::RateLimited { until: *until, limit: *limit };
            // An end in the past is ignored: without a pause the same failure would recur at once.
            let until = until.filter(|until| *until > so_far.now);
            let outcome = match (limit, elsewhere(why, &class, so_far), until) {
                // A limit per minute says nothing about another account.
                (RateLimit::Quota, Some(outcome), _) => outcome,
                (_, _, Some(until)) => Outcome::Park {
                    until: until.plus(so_far.spread(until)),
                    why: ParkReason::RateLimited,
                    detail: why.clone(),
                },
                (_, _, None) => match environment(why, so_far).0 {
                    Outcome::Park { until, detail, .. } => {
                        Outcome::Park { until, why: ParkReason::RateLimited, detail }
                    }
                    given_up => given_up,
                },
            };
            (outcome, class, false)
        }
        Judgement::AccountRefused(why) => {
            let class = FailureClass::Permanent;
            let blocked = || Outcome::Block { reason: BlockReason::Policy, detail: why.clone() };
            (elsewhere(why, &class, so_far).unwrap_or_else(blocked), class, false)
        }
        Judgement::Budget(why) => {
            let detail = joined(why, "raise its budget, then `regatta retry`");
            (Outcome::Block { reason: BlockReason::Budget, detail }, FailureClass::Budget, false)
        }
        Judgement::Environment(why) => {
            let (outcome, class) = environment(why, so_far);
            (outcome, class, false)
        }
        Judgement::Interrupted(why) => {
            let times = so_far.environment_failures + 1;
            let outcome = if times >= INTERRUPTED_LIMIT {
                let step = format!(
                    "it was interrupted {times} times in a row; find out what stops it, then `regatta retry {}`",
                    so_far.spec.id
                );
                let detail = joined(why, &step);
                Outcome::Block { reason: BlockReason::Policy, detail }
            } else {
                let until = so_far.now.plus(backoff.after_work(times));
                Outcome::Park { until, why: ParkReason::Environment, detail: why.clone() }
            };
            (outcome, FailureClass::Environment, false)
        }
        Judgement::Bad { verdict, why, .. } => {
            let failures = so_far.charged + 1;
            let outcome = if failures < so_far.spec.max_attempts {
                Outcome::Retry {
                    not_before: Some(so_far.now.plus(backoff.after_work(failures))),
                    class: FailureClass::Work,
                    why: why.clone(),
                }
            } else if *verdict == Verdict::Unknown {
                Outcome::Block { reason: BlockReason::Verdict, detail: why.clone() }
            } else {
                Outcome::Fail { why: why.clone() }
            };
            (outcome, FailureClass::Work, true)
        }
    }
}

/// What was known about the task before this attempt.
pub(crate) struct SoFar<'a> {
    /// The task as ordered.
    pub(crate) spec: &'a TaskSpec,
    /// Work failures charged before.
    pub(crate) charged: u32,
    /// Environment failures in a row before.
    pub(crate) environment_failures: u32,
    /// The backoff settings.
    pub(crate) backoff: &'a Backoff,
    /// The current time.
    pub(crate) now: Timestamp,
    /// What the next attempt could run with, given the limits of this one's account.
    pub(crate) next: &'a Choice,
}

impl SoFar<'_> {
    /// The extra wait beyond a stated end, so that not all tasks start at once.
    fn spread(&self, until: Timestamp) -> Duration {
        spread(&self.spec.id, until.since(self.now))
    }
}

/// The outcome if there are other accounts; `None` if there are none.
fn elsewhere(why: &str, class: &FailureClass, so_far: &SoFar<'_>) -> Option<Outcome> {
    match so_far.next {
        Choice::Unbound => None,
        Choice::Use(profile) => Some(Outcome::Retry {
            not_before: None,
            class: class.clone(),
            why: joined(why, &format!("it continues with profile {profile}")),
        }),
        Choice::Wait { profile, until, .. } => Some(Outcome::Park {
            until: *until,
            why: ParkReason::RateLimited,
            detail: joined(why, &format!("all profiles are cooling down, and {profile} is ready first")),
        }),
        Choice::SetAside { profile, .. } => Some(Outcome::Block {
            reason: BlockReason::Policy,
            detail: joined(
                why,
                &format!("no profile is left; fix the account, then `regatta profiles warm {profile}`"),
            ),
        }),
    }
}

fn environment(why: &str, so_far: &SoFar<'_>) -> (Outcome, FailureClass) {
    let failures = so_far.environment_failures + 1;
    let outcome = if failures >= so_far.backoff.environment_limit {
        Outcome::Block {
            reason: BlockReason::Policy,
            detail: format!("{failures} environment failures in a row, the last: {why}"),
        }
    } else {
        Outcome::Park {
            until: so_far.now.plus(so_far.backoff.after_environment(failures)),
            why: ParkReason::Environment,
            detail: why.to_owned(),
        }
    };
    (outcome, FailureClass::Environment)
}

#[cfg(test)]
mod tests;
