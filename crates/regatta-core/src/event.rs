//! What happened: appended in the transaction that changed the state, never changed afterwards.

use serde::{Deserialize, Serialize};

use crate::exit::Exit;
use crate::failure::FailureClass;
use crate::id::TaskId;
use crate::radar::Other;
use crate::state::{BlockReason, ParkReason};
use crate::suspicion::Sign;
use crate::time::Timestamp;
use crate::train::LandStep;
use crate::verdict::{Statement, Verdict};

/// An event as it is read back: its place in the log, when, about whom, and what.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// Place in the log; gap-free reading is by `seq > last`.
    pub seq: u64,
    /// When, by the clock of whoever wrote it. Decides nothing.
    pub at: Timestamp,
    /// About which task, if one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<TaskId>,
    /// In which attempt, if one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempt: Option<u32>,
    /// What.
    #[serde(flatten)]
    pub body: EventBody,
}

/// What happened. Names are in the past tense; the JSON name is the `kind`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum EventBody {
    /// The task entered the queue, or entered it anew.
    Enqueued {
        /// The queue.
        queue: String,
    },
    /// A node took it.
    Claimed {
        /// Which.
        node: String,
    },
    /// Its lane is ready.
    LaneReady {
        /// Where.
        lane: String,
        /// From which commit.
        base: String,
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
    /// The worker told how far it is.
    Progressed {
        /// In a few words.
        label: String,
        /// More of it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        detail: Option<String>,
        /// The phase it belongs to.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        phase: Option<String>,
    },
    /// The worker handed in a verdict.
    Reported {
        /// What it said.
        statement: Statement,
    },
    /// The worker cannot go on without a person.
    Stuck {
        /// Why.
        why: String,
    },
    /// Regatta made up its mind about the attempt.
    Judged {
        /// The verdict that counts.
        verdict: Verdict,
        /// In one sentence.
        summary: String,
    },
    /// The work failed and will be tried again.
    Retrying {
        /// Not before.
        not_before: Option<Timestamp>,
        /// Which class of failure.
        class: FailureClass,
        /// What failed.
        why: String,
    },
    /// The attempt came to nothing through no fault of its own; not charged.
    Released {
        /// Why.
        why: String,
    },
    /// It waits for a time.
    Parked {
        /// Until then.
        until: Timestamp,
        /// Why.
        why: ParkReason,
        /// In words.
        detail: String,
    },
    /// The time it waited for has come.
    Due,
    /// Good work joined the train.
    Approved {
        /// The commit to land.
        head: String,
    },
    /// Good work that is not to be landed, or nothing to land.
    Done {
        /// The commit, if there is one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        head: Option<String>,
    },
    /// A lander took a step.
    Landing {
        /// Which.
        landing: LandStep,
        /// The branch it lands on; older events do not say.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        target: Option<String>,
    },
    /// Attempts used up, or the run was told to fail fast.
    Failed {
        /// Why.
        why: String,
    },
    /// It needs a person.
    Blocked {
        /// The reason.
        reason: BlockReason,
        /// In words.
        detail: String,
    },
    /// A dependency will not come.
    Skipped {
        /// Which.
        dependency: TaskId,
    },
    /// The dependency that made it skip came back.
    Rearmed,
    /// Somebody cancelled it.
    Cancelled {
        /// Who.
        by: String,
    },
    /// Its claim went over to another session of the same node, with the worker alive or not.
    Adopted {
        /// The session that holds it now.
        session: String,
    },
    /// Its work and other work would conflict if both landed; changes no state. Told once for a pair of attempts.
    ConflictAhead {
        /// With whom: another task, or what is on the target branch.
        with: Other,
        /// Where, as far as it is worth a line.
        files: Vec<String>,
    },
    /// Its agent may need a person; changes no state and stops nobody. Told once for a sign and an attempt.
    Suspected {
        /// What looks wrong.
        sign: Sign,
        /// In a sentence, with what was seen.
        why: String,
    },
    /// What was suspected is over: the agent visibly goes on.
    WentOn {
        /// What looked wrong.
        sign: Sign,
    },
    /// Most of a budget is spent; changes no state.
    BudgetWarned {
        /// Whose: `task a`, `plan night`, `this run`, `today`.
        scope: String,
        /// What was spent of what.
        detail: String,
    },
    /// A budget is spent: nothing more starts under it. Changes no state.
    BudgetSpent {
        /// Whose.
        scope: String,
        /// What was spent of what, and what to do.
        detail: String,
    },
    /// Work that would have been lost was kept.
    Salvaged {
        /// The ref.
        reference: String,
        /// Why it was needed.
        why: String,
    },
    /// Somebody said more to the task's agent; kept until an attempt has told it.
    PromptQueued {
        /// Which of the task's follow-ups it is, from 1.
        prompt: u32,
        /// Who.
        by: String,
        /// How it begins, without secrets.
        beginning: String,
        /// The task had ended, and is pending again because of it.
        rearmed: bool,
    },
    /// The attempt or the landing did not end the task, because a follow-up waits for its agent.
    FollowingUp {
        /// What would have come of it.
        after: String,
    },
    /// A follow-up ended well and changed nothing: what had landed before stands.
    Stands {
        /// The attempt that made it.
        made_by: u32,
        /// The commit on the target.
        commit: String,
        /// The target; older events do not say.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        target: Option<String>,
    },
    /// Something a person should know; changes no state.
    Noted {
        /// The sentence.
        text: String,
    },
    /// Of a kind that this version does not know, or told otherwise than it knows: by a newer one. Shown as it is.
    #[serde(untagged)]
    Unknown(serde_json::Map<String, serde_json::Value>),
}

/// What an event of a kind that this version does not know says: its kind, and its fields as they are.
pub fn describe_unknown(fields: &serde_json::Map<String, serde_json::Value>) -> String {
    let kind = fields.get("kind").and_then(|kind| kind.as_str()).unwrap_or("something");
    let rest: Vec<String> = fields
        .iter()
        .filter(|(name, _)| *name != "kind")
        .map(|(name, value)| format!("{name}: {value}"))
        .collect();
    match rest.is_empty() {
        true => format!("{kind} (told by a newer version of Regatta)"),
        false => format!("{kind} (told by a newer version of Regatta): {}", rest.join(", ")),
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
            "teleported (told by a newer version of Regatta): n: 3, to: \"mars\""
        );
        let again: serde_json::Value = serde_json::to_value(&body).unwrap();
        assert_eq!(again, serde_json::from_str::<serde_json::Value>(newer).unwrap());
        // A kind that is known, with a reason that is not.
        let blocked: EventBody =
            serde_json::from_str(r#"{"kind":"blocked","reason":"moonlight","detail":"x"}"#).unwrap();
        assert!(matches!(blocked, EventBody::Unknown(_)));
        // As part of the line that programs read.
        let line = r#"{"seq":7,"at":"2026-11-15T12:00:00.000Z","task":"a","kind":"teleported","to":"mars"}"#;
        let event: Event = serde_json::from_str(line).unwrap();
        assert_eq!((event.seq, event.task.map(|id| id.to_string()).as_deref()), (7, Some("a")));
        assert!(matches!(event.body, EventBody::Unknown(_)));
        // Those that are known stay what they are.
        let known: EventBody = serde_json::from_str(r#"{"kind":"noted","text":"x"}"#).unwrap();
        assert_eq!(known, EventBody::Noted { text: "x".into() });
    }
}
