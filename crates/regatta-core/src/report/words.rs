//! Evidence and events in one line each, for display. The caller removes secrets and control characters.

use crate::attempt::Evidence;
use crate::event::{EventBody, describe_unknown};
use crate::oid::Oid;
use crate::state::how_it_ended;
use crate::time::counted;
use crate::train::LandStep;
use crate::train::history::merged_how;

/// Text on one line.
fn line(text: &str) -> String {
    text.replace(['\n', '\r'], " ")
}

/// A piece of evidence in one line.
pub fn describe_evidence(evidence: &Evidence) -> String {
    match evidence {
        Evidence::Said { by, statement } => {
            let mut text = format!("{by} says {}", statement.verdict);
            if !statement.summary.is_empty() {
                text.push_str(&format!(": {}", line(&statement.summary)));
            }
            match statement.metrics.describe() {
                numbers if numbers.is_empty() => text,
                numbers => format!("{text} ({numbers})"),
            }
        }
        Evidence::Check { command, tree, passed_in: Some(n), .. } => {
            let tree = tree.short();
            format!("check `{command}`: not run again, it passed in attempt {n} on the same tree {tree}")
        }
        Evidence::Check { command, exit, millis, tree, .. } => {
            format!("check `{command}`: {exit} in {millis} ms on tree {}", tree.short())
        }
        Evidence::Diff { files, tree, .. } => {
            let plural = if *files == 1 { "" } else { "s" };
            format!("{files} file{plural} changed, tree {}", tree.short())
        }
        Evidence::Note { text } => line(text),
        Evidence::CommitRefused { by, salvage, .. } => {
            let kept = salvage.as_deref().map_or_else(String::new, |salvage| format!("; kept as {salvage}"));
            format!("the commit was refused by {by}{kept}")
        }
        Evidence::Bounced { onto, files, .. } => {
            format!("it conflicts with {} in {}", onto.short(), line(&files.join(", ")))
        }
    }
}

/// The text for a landing: the target and the commit.
pub fn landed_as(target: Option<&str>, commit: &str) -> String {
    match target {
        Some(target) => format!("landed on {target} as {commit}"),
        None => format!("landed as {commit}"),
    }
}

/// An event in one line.
pub fn describe(body: &EventBody) -> String {
    match body {
        EventBody::Enqueued { .. } => "enqueued".to_owned(),
        EventBody::Claimed { node } => format!("claimed by {node}"),
        EventBody::LaneReady { lane, base } => {
            format!("lane {lane} at {}", base.as_ref().map_or("no commit", Oid::short))
        }
        EventBody::Started { pid } => format!("agent started, process {pid}"),
        EventBody::Exited { exit } => format!("agent ended: {exit}"),
        EventBody::Progressed { label, detail, .. } => match detail {
            Some(detail) => format!("{} ({})", line(label), line(detail)),
            None => line(label),
        },
        EventBody::Reported { statement } => {
            format!("reported {}: {}", statement.verdict, line(&statement.summary))
        }
        EventBody::Stuck { why } => format!("stuck: {}", line(why)),
        EventBody::Judged { verdict, summary } if summary.is_empty() => format!("verdict {verdict}"),
        EventBody::Judged { verdict, summary } => format!("verdict {verdict}: {}", line(summary)),
        EventBody::Retrying { class, why, .. } => format!("will be retried ({class}): {}", line(why)),
        EventBody::Released { why } => format!("back in the queue, not charged: {}", line(why)),
        EventBody::Parked { until, detail, .. } => {
            format!("parked until {}: {}", until.in_utc(), line(detail))
        }
        EventBody::Due => "due again".to_owned(),
        EventBody::Approved { head } => format!("approved, joins the train with {}", head.short()),
        EventBody::Done { .. } => "done".to_owned(),
        EventBody::Landing { landing, target } => match landing {
            LandStep::Intend { intent } => match (&intent.onto, target) {
                (Some(onto), Some(target)) => format!("landing on {target} at {}", onto.short()),
                (Some(onto), None) => format!("landing on {}", onto.short()),
                (None, Some(target)) => format!("landing on {target}, a new branch"),
                (None, None) => "landing on a new branch".to_owned(),
            },
            LandStep::Tested { candidate, cars, outcome, millis, note } => format!(
                "gate {} in {} on {} ({}){}",
                outcome.as_str(),
                crate::time::human(std::time::Duration::from_millis(*millis)),
                candidate.short(),
                if cars.len() == 1 { "alone".to_owned() } else { format!("{} cars", cars.len()) },
                if note.is_empty() { String::new() } else { format!(": {}", line(note)) },
            ),
            LandStep::Bounce { detail, .. } => format!("back to its agent: {}", line(detail)),
            LandStep::Gate { candidate, note } => format!("candidate {}: {}", candidate.short(), line(note)),
            LandStep::Wait { why, .. } => format!("waits to land: {}", line(why)),
            LandStep::Propose { head, branch } => format!("pushing {} as {branch}", head.short()),
            LandStep::Proposed { number, url, is_new: true, .. } => {
                format!("pull request #{number} is open: {}", line(url))
            }
            LandStep::Proposed { head, number, .. } => {
                format!("pull request #{number} is open at {}", head.short())
            }
            LandStep::Merge { head, method } => {
                format!("merging its pull request at {} ({})", head.short(), method.as_str())
            }
            LandStep::Merged { commit, number, tested } => format!(
                "{} by pull request #{number} ({})",
                landed_as(target.as_deref(), commit.short()),
                merged_how(*tested)
            ),
            LandStep::Landed { commit } => landed_as(target.as_deref(), commit.short()),
            LandStep::AlreadyIn { commit } => {
                format!("nothing left to land: {} already has it", commit.short())
            }
            LandStep::Reject { reason, detail, .. } => {
                format!("refused by the train ({reason}): {}", line(detail))
            }
        },
        EventBody::Failed { why } => format!("failed: {}", line(why)),
        EventBody::Blocked { reason, detail } => format!("blocked ({reason}): {}", line(detail)),
        EventBody::Skipped { dependency, was } => {
            format!("skipped: its dependency {dependency} {}", how_it_ended(*was))
        }
        EventBody::Rearmed => "waiting again: its dependency was retried".to_owned(),
        EventBody::Assigned { node: Some(node), by } => format!("assigned to {node} by {by}"),
        EventBody::Assigned { node: None, by } => format!("assigned to any node by {by}"),
        EventBody::CancelAsked { by } => format!("{by} asked to cancel it"),
        EventBody::Cancelled { by } => format!("cancelled by {by}"),
        EventBody::Adopted { session } => format!("adopted by {session}"),
        EventBody::ConflictAhead { with, files } => {
            format!("would conflict with {with} in {}", line(&files.join(", ")))
        }
        EventBody::Suspected { sign, why } => format!("may need attention ({sign}): {}", line(why)),
        EventBody::WentOn { sign } => format!("active again ({sign})"),
        EventBody::BudgetWarned { scope, detail } => {
            format!("budget of {scope} nearly spent: {}", line(detail))
        }
        EventBody::BudgetSpent { scope, detail } => format!("budget of {scope} spent: {}", line(detail)),
        EventBody::Salvaged { reference, why } => format!("work kept as {reference}: {}", line(why)),
        EventBody::PromptQueued { prompt, by, beginning, .. } => {
            format!("follow-up {prompt} from {by}: {}", line(beginning))
        }
        EventBody::FollowingUp { after } => {
            format!("continues with a follow-up; its own result: {}", line(after))
        }
        EventBody::Stands { commit, .. } => format!("changed nothing; {} stays landed", commit.short()),
        EventBody::TakenBack { target } => format!("taken back: it is no longer on {target}"),
        EventBody::Unserved { why, .. } => format!("cannot start: {}", line(why)),
        EventBody::Servable { node } => format!("can start on {node}"),
        EventBody::NodeJoined { node } => format!("node {node} joined"),
        EventBody::NodeLost { node, released: 0 } => format!("node {node} was lost; it worked on nothing"),
        EventBody::NodeLost { node, released } => {
            format!("node {node} was lost; {} it worked on can start elsewhere", counted(*released, "task"))
        }
        EventBody::MergeAllowed { by, number, head } => {
            format!("{} allowed the merge of #{number} at {}", line(by), head.short())
        }
        // The lines after the first are only shown with the full note.
        EventBody::Noted { text } => line(text.lines().next().unwrap_or_default()),
        EventBody::Unknown(fields) => line(&describe_unknown(fields)),
    }
}
