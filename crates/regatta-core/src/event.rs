//! What happened: appended in the transaction that changed the state, never changed afterwards.

use serde::{Deserialize, Serialize};

use crate::exit::Exit;
use crate::failure::FailureClass;
use crate::id::TaskId;
use crate::node::Requirement;
use crate::oid::Oid;
use crate::radar::Other;
use crate::state::{BlockReason, ParkReason, StateName};
use crate::suspicion::Sign;
use crate::time::Timestamp;
use crate::train::LandStep;
use crate::verdict::{Statement, Verdict};

/// An event read back from the log.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// Its position in the log; read without gaps by `seq > last`.
    pub seq: u64,
    /// When, by the clock of the process that wrote it. No decision depends on it.
    pub at: Timestamp,
    /// The task it is about, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<TaskId>,
    /// The attempt it is about, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempt: Option<u32>,
    /// What happened.
    #[serde(flatten)]
    pub body: EventBody,
}

/// What happened. Names are in the past tense; the JSON name is the `kind`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum EventBody {
    /// The task was queued or queued again.
    Enqueued {
        /// The name of the queue.
        queue: String,
    },
    /// A node claimed it.
    Claimed { node: String },
    /// Its lane is ready.
    LaneReady {
        /// The lane's path.
        lane: String,
        /// The commit it starts from.
        #[serde(with = "crate::oid::or_empty")]
        base: Option<Oid>,
    },
    /// The agent runs.
    Started {
        /// The agent's process id.
        pid: u32,
    },
    /// The agent's process tree is gone.
    Exited {
        /// How it ended.
        exit: Exit,
    },
    /// The agent reported progress.
    Progressed {
        /// In a few words.
        label: String,
        /// More detail.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        detail: Option<String>,
        /// The phase it belongs to.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        phase: Option<String>,
    },
    /// The agent reported a verdict.
    Reported {
        /// The reported statement.
        statement: Statement,
    },
    /// The agent cannot continue without a user.
    Stuck {
        /// The reason.
        why: String,
    },
    /// Regatta judged the attempt.
    Judged {
        /// The verdict that counts.
        verdict: Verdict,
        /// In one sentence.
        summary: String,
    },
    /// The work failed and will be tried again.
    Retrying {
        /// The earliest time of the next attempt.
        not_before: Option<Timestamp>,
        /// The class of the failure.
        class: FailureClass,
        /// What failed.
        why: String,
    },
    /// The attempt ended without a result through no fault of its own; not charged.
    Released {
        /// The reason.
        why: String,
    },
    /// The task waits for a time.
    Parked {
        /// The time it waits for.
        until: Timestamp,
        /// The reason.
        why: ParkReason,
        /// The reason in words.
        detail: String,
    },
    /// The time it waited for has come.
    Due,
    /// Good work joined the train.
    Approved {
        /// The commit to land.
        head: Oid,
    },
    /// Good work that is not meant to land, or an attempt with nothing to land.
    Done {
        /// The commit, if there is one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        head: Option<Oid>,
    },
    /// The lander took a step.
    Landing {
        /// The step.
        landing: LandStep,
        /// The branch it lands on; missing in older events.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        target: Option<String>,
    },
    /// Its attempts are used up, or the run fails fast.
    Failed {
        /// The reason.
        why: String,
    },
    /// It needs a user.
    Blocked {
        reason: BlockReason,
        /// The reason in words.
        detail: String,
    },
    /// A dependency failed or was cancelled.
    Skipped {
        /// The first one.
        dependency: TaskId,
        /// How that one ended; `None` in records of older versions.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        was: Option<StateName>,
    },
    /// The dependency that caused the skip is available again.
    Rearmed,
    /// The process that works on it was asked to cancel it; changes no state. Older versions wrote a note instead.
    CancelAsked {
        /// Who asked.
        by: String,
    },
    /// It is for one node only, or for any node again; changes no state.
    Assigned {
        /// The node's name.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        node: Option<String>,
        /// Who assigned it.
        by: String,
    },
    /// It was cancelled.
    Cancelled {
        /// Who cancelled it.
        by: String,
    },
    /// Its claim moved to another session of the same node, whether or not the agent is alive.
    Adopted {
        /// The session that holds it now.
        session: String,
    },
    /// Its work would conflict with other work if both landed; changes no state. Recorded once per pair of attempts.
    ConflictAhead {
        /// The other side: another task, or the target branch.
        with: Other,
        /// The files in conflict, as many as are worth a line.
        files: Vec<String>,
    },
    /// Its agent may need a user; changes no state and stops nothing. Recorded once per sign and attempt.
    Suspected {
        /// What looks wrong.
        sign: Sign,
        /// A sentence about what was observed.
        why: String,
    },
    /// The suspicion is over: the agent visibly continues.
    WentOn {
        /// What looked wrong.
        sign: Sign,
    },
    /// Most of a budget is spent; changes no state.
    BudgetWarned {
        /// The budget: `task a`, `plan night`, `this run`, `today`.
        scope: String,
        /// The amount spent and the ceiling.
        detail: String,
    },
    /// A budget is spent: nothing more starts under it. Changes no state.
    BudgetSpent {
        /// The budget.
        scope: String,
        /// The amount spent and the ceiling, and what to do.
        detail: String,
    },
    /// Work that would have been lost was salvaged.
    Salvaged {
        /// The ref that holds it.
        reference: String,
        /// Why it had to be salvaged.
        why: String,
    },
    /// A follow-up for the task's agent was queued; kept until an attempt has delivered it.
    PromptQueued {
        /// The follow-up's number, counted from 1.
        prompt: u32,
        /// Who sent it.
        by: String,
        /// Its beginning, without secrets.
        beginning: String,
        /// True if the task had ended, and became pending again because of it.
        rearmed: bool,
    },
    /// The attempt or the landing did not end the task, because a follow-up waits for its agent.
    FollowingUp {
        /// The result the task would have had.
        after: String,
    },
    /// A follow-up succeeded without changes: the earlier landing remains valid.
    Stands {
        /// The attempt that landed.
        made_by: u32,
        /// The commit on the target.
        commit: Oid,
        /// The target branch; missing in older events.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        target: Option<String>,
    },
    /// Its commit is no longer on the target branch; changes no state.
    TakenBack {
        /// The branch it had landed on.
        target: String,
    },
    /// No running node has what the task requires; changes no state. Recorded once, and again only after a node could
    /// serve it.
    Unserved {
        /// Everything it requires.
        requires: Vec<Requirement>,
        /// What is missing, in a sentence.
        why: String,
    },
    /// A running node can serve a task that none could before; changes no state.
    Servable {
        /// The node's name.
        node: String,
    },
    /// An engine started on a node that had none, where machines share the store.
    NodeJoined {
        /// The node's name.
        node: String,
    },
    /// The last engine of a node went away and did not end its session; others ended it.
    NodeLost {
        /// The node's name.
        node: String,
        /// How many tasks it worked on; they are released.
        released: u64,
    },
    /// A person allowed the merge of its pull request at this commit; changes no state.
    MergeAllowed {
        /// Who says so.
        by: String,
        /// The number of the pull request.
        number: u64,
        /// The commit; another one needs another word.
        head: Oid,
    },
    /// A note for the user; changes no state.
    Noted {
        /// The text of the note.
        text: String,
    },
    /// An event written by a newer version, of an unknown kind or with unknown fields. Shown as it is.
    #[serde(untagged)]
    Unknown(serde_json::Map<String, serde_json::Value>),
}

/// Text for an event of an unknown kind: its kind and its fields.
pub fn describe_unknown(fields: &serde_json::Map<String, serde_json::Value>) -> String {
    let kind = fields.get("kind").and_then(|kind| kind.as_str()).unwrap_or("something");
    let rest: Vec<String> = fields
        .iter()
        .filter(|(name, _)| *name != "kind")
        .map(|(name, value)| format!("{name}: {value}"))
        .collect();
    if rest.is_empty() {
        format!("{kind} (recorded by a newer version of Regatta)")
    } else {
        format!("{kind} (recorded by a newer version of Regatta): {}", rest.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_of_a_newer_version_is_read_and_written_as_it_is() {
        let newer = r#"{"kind":"teleported","to":"mars","n":3}"#;
        let body: EventBody = serde_json::from_str(newer).unwrap();
        let EventBody::Unknown(fields) = &body else { panic!("{body:?}") };
        assert_eq!(
            describe_unknown(fields),
            "teleported (recorded by a newer version of Regatta): n: 3, to: \"mars\""
        );
        let again: serde_json::Value = serde_json::to_value(&body).unwrap();
        assert_eq!(again, serde_json::from_str::<serde_json::Value>(newer).unwrap());
        // A known kind with an unknown reason.
        let blocked: EventBody =
            serde_json::from_str(r#"{"kind":"blocked","reason":"moonlight","detail":"x"}"#).unwrap();
        assert!(matches!(blocked, EventBody::Unknown(_)));
        // The same within the line that programs read.
        let line = r#"{"seq":7,"at":"2026-11-15T12:00:00.000Z","task":"a","kind":"teleported","to":"mars"}"#;
        let event: Event = serde_json::from_str(line).unwrap();
        assert_eq!((event.seq, event.task.map(|id| id.to_string()).as_deref()), (7, Some("a")));
        assert!(matches!(event.body, EventBody::Unknown(_)));
        // Known kinds are unaffected.
        let known: EventBody = serde_json::from_str(r#"{"kind":"noted","text":"x"}"#).unwrap();
        assert_eq!(known, EventBody::Noted { text: "x".into() });
    }
}
