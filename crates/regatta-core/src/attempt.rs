//! One life of one agent process on a task, and the evidence it left.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::chain::Edition;
use crate::exit::Exit;
use crate::failure::FailureClass;
use crate::oid::Oid;
use crate::repos::RepoName;
use crate::rest::Rest;
use crate::sandbox::Level;
use crate::time::Timestamp;
use crate::verdict::{Statement, Verdict};

/// Everything known about one attempt. Grows while it lives; final once `ended_at` is set.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Attempt {
    /// The attempt's number; the first is 1.
    pub n: u32,
    /// The name of the agent's entry in `agents:`.
    pub agent: String,
    /// The profile whose account it used.
    #[serde(default)]
    pub profile: Option<String>,
    /// The model, as reported by the agent.
    #[serde(default)]
    pub model: Option<String>,
    /// The model it was started with, if one was chosen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model_asked: Option<String>,
    /// Why that model, if neither the task nor the agent's entry names it: `label documentation`, `escalated after 1
    /// failure`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tier: Option<String>,
    /// The agent's own conversation id, used to resume it.
    #[serde(default)]
    pub session: Option<String>,
    /// True if its conversation must not be resumed because a user asked for a new one.
    #[serde(default, skip_serializing_if = "is_false")]
    pub conversation_over: bool,
    /// Where it ran, if machines share the store: what it left on disk is there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub place: Option<Place>,
    /// The lane it worked in.
    #[serde(default)]
    pub lane: Option<PathBuf>,
    /// The log of its standard output; its standard error is beside it, in `.stderr`.
    #[serde(default)]
    pub log: Option<PathBuf>,
    /// The commit its lane started from.
    #[serde(default)]
    pub base: Option<Oid>,
    /// The commits of the repositories beside its lane.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub siblings: BTreeMap<RepoName, Oid>,
    /// The commit it ended with.
    #[serde(default)]
    pub head: Option<Oid>,
    /// How firmly it was confined; unknown for attempts of older versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<Level>,
    /// When the agent was started.
    #[serde(default)]
    pub started_at: Option<Timestamp>,
    /// When it was settled.
    #[serde(default)]
    pub ended_at: Option<Timestamp>,
    /// How the process ended.
    #[serde(default)]
    pub exit: Option<Exit>,
    /// The verdict that counts, after checks.
    #[serde(default)]
    pub verdict: Option<Verdict>,
    /// Why it failed, if it did.
    #[serde(default)]
    pub class: Option<FailureClass>,
    /// A digest of the failure and of the work itself: attempts with the same digest failed in the same way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
    /// A summary of the result in one or two sentences.
    #[serde(default)]
    pub summary: String,
    /// What the verdict is based on.
    #[serde(default)]
    pub evidence: Vec<Evidence>,
    /// Dollars, as reported by the agent or calculated from `models.prices`.
    #[serde(default)]
    pub cost_usd: Option<f64>,
    /// True if the dollars were calculated from `models.prices`.
    #[serde(default, skip_serializing_if = "is_false")]
    pub priced: bool,
    /// Tokens read.
    #[serde(default)]
    pub tokens_in: u64,
    /// Tokens written.
    #[serde(default)]
    pub tokens_out: u64,
    /// The part of `tokens_in` that came from a cache.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub tokens_cached: u64,
    /// The agent's last message, on a few lines.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub last_words: String,
    /// Whether it counts against `max_attempts`.
    #[serde(default)]
    pub charged: bool,
    /// The follow-up it was started with, if any; see [`Prompt`](crate::prompt::Prompt).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt: Option<u32>,
    /// The edition it judged, if it is a link of a chain.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub judged: Option<Edition>,
    /// What only a newer version knows of it.
    #[serde(flatten)]
    pub rest: Rest,
}

/// A clone on a machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    /// The machine's name, for display.
    pub node: String,
    /// The clone, as its engines' sessions name it.
    pub id: String,
}

impl Attempt {
    /// What the attempt says about its work, for the message of a commit. Empty if the work did not pass: then the
    /// summary says why, not what it does.
    pub fn work_summary(&self) -> &str {
        let passed = self.verdict.is_none_or(Verdict::is_good);
        if passed { &self.summary } else { "" }
    }

    /// An attempt of which only the number and the agent are known.
    pub fn new(n: u32, agent: &str) -> Self {
        Self {
            n,
            agent: agent.to_owned(),
            profile: None,
            model: None,
            model_asked: None,
            tier: None,
            session: None,
            conversation_over: false,
            place: None,
            lane: None,
            log: None,
            base: None,
            siblings: BTreeMap::new(),
            head: None,
            sandbox: None,
            started_at: None,
            ended_at: None,
            exit: None,
            verdict: None,
            class: None,
            failure: None,
            summary: String::new(),
            evidence: Vec::new(),
            cost_usd: None,
            priced: false,
            tokens_in: 0,
            tokens_out: 0,
            tokens_cached: 0,
            last_words: String::new(),
            charged: false,
            prompt: None,
            judged: None,
            rest: Rest::default(),
        }
    }
}

impl Attempt {
    /// The model, as reported by the agent or as requested, and why it was chosen.
    pub fn model_in_words(&self) -> Option<String> {
        let named = self.model.as_ref().or(self.model_asked.as_ref())?;
        Some(match &self.tier {
            Some(why) => format!("{named} ({why})"),
            None => named.clone(),
        })
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for it")]
fn is_zero(count: &u64) -> bool {
    *count == 0
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for it")]
fn is_false(flag: &bool) -> bool {
    !flag
}

/// One piece of evidence for a verdict.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Evidence {
    /// A statement that an adapter read.
    Said {
        /// The adapter: `db`, `marker-file`, `json-result`, `exit-code` or `none`.
        by: String,
        /// The statement it read.
        statement: Statement,
    },
    /// A command that Regatta ran on the committed tree.
    Check {
        /// The command line.
        command: String,
        /// How it ended.
        exit: Exit,
        /// The tree it ran on.
        tree: Oid,
        /// How long it took.
        millis: u64,
        /// The end of its output.
        tail: String,
        /// A fingerprint of the environment it ran in.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        environment: String,
        /// The earlier attempt in which it passed on the same tree and in the same environment, so that it was not run
        /// again.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        passed_in: Option<u32>,
    },
    /// The changes between base and head.
    Diff {
        /// Number of changed files.
        files: usize,
        /// The head commit.
        head: Oid,
        /// The tree of the head commit.
        tree: Oid,
    },
    /// A note for the user.
    Note {
        /// The text of the note.
        text: String,
    },
    /// A hook or a signature refused the commit; the work is kept in the lane and under `salvage`.
    CommitRefused {
        /// The name of the hook, or `signing`.
        by: String,
        /// The end of its output.
        tail: String,
        /// The ref that holds the work.
        salvage: Option<String>,
    },
    /// The work did not merge with what had landed meanwhile; its agent is asked to resolve the conflict.
    Bounced {
        /// The target commit that it did not merge with.
        onto: Oid,
        /// The files in conflict.
        files: Vec<String>,
        /// What the target's commits did to those files.
        theirs: String,
    },
}
