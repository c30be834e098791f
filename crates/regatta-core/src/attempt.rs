//! One life of one agent process on a task, and the evidence it left.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::chain::Edition;
use crate::exit::Exit;
use crate::failure::FailureClass;
use crate::time::Timestamp;
use crate::verdict::{Statement, Verdict};

/// Everything known about one attempt. Grows while it lives; final once `ended_at` is set.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Attempt {
    /// 1 for the first.
    pub n: u32,
    /// The entry of `agents:` that worked.
    pub agent: String,
    /// The profile whose account it used.
    #[serde(default)]
    pub profile: Option<String>,
    /// The model, as the agent named it.
    #[serde(default)]
    pub model: Option<String>,
    /// The model it was started with, where one was chosen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model_asked: Option<String>,
    /// Why that one, where neither the task nor the agent's entry names it: `label documentation`, `escalated after 1
    /// failure`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tier: Option<String>,
    /// The agent's own conversation id, to resume it.
    #[serde(default)]
    pub session: Option<String>,
    /// Its conversation is not resumed: a person asked for a new one.
    #[serde(default, skip_serializing_if = "is_false")]
    pub conversation_over: bool,
    /// Where it worked.
    #[serde(default)]
    pub lane: Option<PathBuf>,
    /// Where its output goes; what it says on standard error is beside it, in `.stderr`.
    #[serde(default)]
    pub log: Option<PathBuf>,
    /// The commit its lane started from.
    #[serde(default)]
    pub base: Option<String>,
    /// The commit it ended with.
    #[serde(default)]
    pub head: Option<String>,
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
    /// Why it failed, where it did.
    #[serde(default)]
    pub class: Option<FailureClass>,
    /// A digest of how the work failed and of the work itself: attempts that have the same failed alike.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
    /// What was said about it, in one or two sentences.
    #[serde(default)]
    pub summary: String,
    /// What the verdict rests on.
    #[serde(default)]
    pub evidence: Vec<Evidence>,
    /// Dollars, as the agent counted them, or by `models.prices`.
    #[serde(default)]
    pub cost_usd: Option<f64>,
    /// The dollars are reckoned by `models.prices`.
    #[serde(default, skip_serializing_if = "is_false")]
    pub priced: bool,
    /// Tokens read.
    #[serde(default)]
    pub tokens_in: u64,
    /// Tokens written.
    #[serde(default)]
    pub tokens_out: u64,
    /// Those of the tokens read that came from a cache.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub tokens_cached: u64,
    /// What the agent said last, on a few lines.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub last_words: String,
    /// Whether it counts against `max_attempts`.
    #[serde(default)]
    pub charged: bool,
    /// The follow-up it was started with, if one; see [`Prompt`](crate::prompt::Prompt).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt: Option<u32>,
    /// What it looked at, where it is a link of a chain.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub judged: Option<Edition>,
}

impl Attempt {
    /// An attempt about which nothing is known yet but its number and its agent.
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
            lane: None,
            log: None,
            base: None,
            head: None,
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
        }
    }
}

impl Attempt {
    /// Its model, as the agent named it or as it was asked for, and why that one.
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

/// One thing a verdict rests on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Evidence {
    /// What an adapter read, and which one.
    Said {
        /// `db`, `marker-file`, `json-result`, `exit-code` or `none`.
        by: String,
        /// What it said.
        statement: Statement,
    },
    /// A command that Regatta ran on the committed tree.
    Check {
        /// The command.
        command: String,
        /// How it ended.
        exit: Exit,
        /// The tree it ran on.
        tree: String,
        /// How long it took.
        millis: u64,
        /// The end of its output.
        tail: String,
        /// A fingerprint of the environment it ran in.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        environment: String,
        /// It was not run again: it had passed in this attempt on the same tree, in the same environment.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        passed_in: Option<u32>,
    },
    /// What changed between base and head.
    Diff {
        /// Number of files.
        files: usize,
        /// The commit.
        head: String,
        /// Its tree.
        tree: String,
    },
    /// Something a person should read.
    Note {
        /// The sentence.
        text: String,
    },
    /// A hook or a signature refused the commit; the work is kept in the lane and under `salvage`.
    CommitRefused {
        /// Which hook, or `signing`.
        by: String,
        /// What it said.
        tail: String,
        /// The ref that holds the work.
        salvage: Option<String>,
    },
    /// It did not merge with what had landed meanwhile: its agent is asked to bring the two together.
    Bounced {
        /// The commit of the target it did not merge with.
        onto: String,
        /// The files in conflict.
        files: Vec<String>,
        /// What the other side did to them.
        theirs: String,
    },
}
