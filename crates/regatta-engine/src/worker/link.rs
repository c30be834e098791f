//! An attempt that is a link of a chain: what it looks at, what it is told, and what follows where it is not content.
//!
//! Invariant: what a link looks at is on record before its lane is made, and the lane is made of what is there then. If
//! the build has moved on meanwhile, the record names what was there before, and the link looks again.

use regatta_core::config::AgentKind;
use regatta_core::time::counted;
use std::path::Path;

use regatta_core::attempt::{Attempt, Evidence};
use regatta_core::chain::{self, Edition};
use regatta_core::part::{Link, Part};
use regatta_core::state::{BlockReason, TaskState};
use regatta_core::verdict::Verdict;
use regatta_store::{Outcome, TaskRecord};

use super::{Site, Worker, WorkerError};
use crate::git::Oid;
use crate::judge::Judgement;
use crate::persist::until_answered;
use crate::templates::Text;

/// Most of the work that is in the prompt itself.
const IN_PROMPT: usize = 32 * 1024;
/// Most of it that is in the file beside it.
const IN_FILE: usize = 4 * 1024 * 1024;

impl Worker {
    /// The build and the link, where this attempt is one.
    fn link(&self) -> Option<(&regatta_core::id::TaskId, Link)> {
        match &self.claim.spec.part {
            Some(Part::Link { chain, link }) => Some((chain, *link)),
            _ => None,
        }
    }

    /// Whether it is one.
    pub(super) fn is_link(&self) -> bool {
        self.link().is_some()
    }

    /// Writes down what it is about to look at.
    pub(super) async fn look(&mut self) -> Result<(), WorkerError> {
        let Some((chain, _)) = self.link() else { return Ok(()) };
        let prompts = until_answered(|| self.ctx.services.store.prompts(chain)).await?;
        let build = until_answered(|| self.ctx.services.store.task(chain)).await?;
        self.record.judged = Some(Edition::of(head_of(&build), &prompts));
        Ok(())
    }

    /// How often its work has come back from its chain, where it builds one.
    pub(super) async fn rounds(&self) -> Result<u32, WorkerError> {
        match self.claim.spec.part {
            Some(Part::Builder { .. }) => Ok(chain::rounds(
                &until_answered(|| self.ctx.services.store.prompts(&self.claim.task)).await?,
            )),
            _ => Ok(0),
        }
    }

    /// What its agent is told: the task's own words, or those of its role around them.
    pub(super) async fn order(&self, site: &Site) -> Result<String, WorkerError> {
        let spec = &self.claim.spec;
        let kind = self.ctx.settings.agent(&spec.agent)?.kind;
        match &spec.part {
            // What is told a program that takes it for a script is never made of other people's words.
            Some(Part::Builder { .. }) if !matches!(kind, AgentKind::Command | AgentKind::Sim) => {
                let template = self.template(Text::Build)?;
                Ok(template.render(|name| match name {
                    "id" => spec.id.to_string(),
                    "title" => spec.title.clone(),
                    _ => spec.prompt.clone(),
                }))
            }
            Some(Part::Link { link, .. })
                if spec.verdict_adapter != regatta_core::verdict::VerdictAdapter::ExitCode =>
            {
                self.order_of_link(*link, &site.run_dir).await
            }
            _ => Ok(spec.prompt.clone()),
        }
    }

    fn template(&self, text: Text) -> Result<regatta_core::crew::Template, WorkerError> {
        text.load(&self.ctx.repository.state_dir).map_err(|fault| WorkerError::Impossible(fault.to_string()))
    }

    async fn order_of_link(&self, link: Link, run_dir: &Path) -> Result<String, WorkerError> {
        let Some((chain, _)) = self.link() else { return Ok(self.claim.spec.prompt.clone()) };
        let template = self.template(Text::of_link(link))?;
        let build = until_answered(|| self.ctx.services.store.task(chain)).await?;
        let attempts = until_answered(|| self.ctx.services.store.attempts(chain)).await?;
        let head = self.record.judged.as_ref().and_then(|edition| edition.head.clone());
        let made = attempts.iter().rev().find(|attempt| attempt.head.is_some() && attempt.head == head);
        let patch = match made.and_then(|made| made.base.as_deref().zip(made.head.as_deref())) {
            Some((base, head)) => {
                let (base, head) = (Oid::parse(base)?, Oid::parse(head)?);
                let bytes = self.blocking(move |ctx| ctx.repository.work.diff(&base, &head)).await?;
                self.redact(&String::from_utf8_lossy(&bytes))
            }
            None => String::new(),
        };
        let file = run_dir.join("work.diff");
        let whole = bounded(&patch, IN_FILE, "");
        std::fs::write(&file, whole).map_err(|source| WorkerError::Io {
            doing: "writing",
            path: file.clone(),
            source,
        })?;
        let shown = bounded(&patch, IN_PROMPT, &format!("\n[… the rest is in {}]", file.display()));
        let checks = self.checks_of(&build, made).await?;
        let summary = made.map(|made| made.summary.clone()).unwrap_or_default();
        Ok(template.render(|name| match name {
            "id" => self.claim.task.to_string(),
            "chain" => chain.to_string(),
            "title" => build.spec.title.clone(),
            "prompt" => build.spec.prompt.clone(),
            "base" => made.and_then(|made| made.base.clone()).unwrap_or_default(),
            "head" => head.clone().unwrap_or_else(|| "(it changed nothing)".to_owned()),
            "diff" => file.display().to_string(),
            "changes" => shown.trim_end().to_owned(),
            "checks" => checks.clone(),
            _ => {
                if summary.is_empty() {
                    "nothing".to_owned()
                } else {
                    summary.clone()
                }
            }
        }))
    }

    /// What the checks of the build came to, in its own attempt and in the link that ran them again.
    async fn checks_of(&self, build: &TaskRecord, made: Option<&Attempt>) -> Result<String, WorkerError> {
        let mut lines: Vec<String> = made.into_iter().flat_map(|made| checks(made, "the build")).collect();
        if let Some(id) = Link::Verify.task(&build.spec.id)
            && self.claim.spec.deps.contains(&id)
        {
            let attempts = until_answered(|| self.ctx.services.store.attempts(&id)).await?;
            let last = attempts.iter().rev().find(|attempt| attempt.judged == self.record.judged);
            lines.extend(last.into_iter().flat_map(|last| checks(last, "verify")));
        }
        Ok(match lines.is_empty() {
            true => "No checks were run.".to_owned(),
            false => format!("Checks that were run on it:\n\n{}", lines.join("\n")),
        })
    }

    /// What follows where a link has found something: its builder is told, or a person. `None` where it has not, and
    /// failed itself or said nothing.
    pub(super) async fn not_content(
        &mut self,
        judgement: &Judgement,
        answer: &str,
    ) -> Result<Option<Outcome>, WorkerError> {
        let Some((chain, link)) = self.link() else { return Ok(None) };
        let chain = chain.clone();
        let Judgement::Bad { verdict: Verdict::Block, by, why } = judgement else { return Ok(None) };
        let said = self.record.evidence.iter().rev().find_map(|evidence| match evidence {
            Evidence::Check { command, exit, tail, .. } if *by == "check" && !exit.success() => {
                Some(format!("the check `{command}` ended with {exit}:\n{}", tail.trim_end()))
            }
            _ => None,
        });
        let feedback = match said {
            Some(failed) if link == Link::Verify => failed,
            _ if *by == "json-result" => {
                let said = regatta_core::verdict::read_json_result(answer).map(|statement| statement.summary);
                chain::findings(said.as_deref().unwrap_or(why), answer)
            }
            _ => return Ok(None),
        };
        let feedback = self.redact(&feedback);
        let first = feedback.lines().next().unwrap_or_default().to_owned();
        self.record.verdict = Some(Verdict::Block);
        self.record.summary = feedback;
        let build = until_answered(|| self.ctx.services.store.task(&chain)).await?;
        let prompts = until_answered(|| self.ctx.services.store.prompts(&chain)).await?;
        let (used, most) = (chain::rounds(&prompts), self.ctx.settings.config.chain.rounds);
        let kind = self.ctx.settings.agent(&build.spec.agent)?.kind;
        let person = if matches!(kind, AgentKind::Command | AgentKind::Sim) {
            Some(format!("{first}; {chain} has no conversation to go back to"))
        } else if used >= most {
            Some(format!(
                "{first}; {chain} was sent back {}, which is as often as `chain.rounds` allows",
                counted(used, "time")
            ))
        } else {
            None
        };
        Ok(Some(match person {
            Some(detail) => Outcome::Block { reason: BlockReason::Verdict, detail },
            None => Outcome::Block { reason: BlockReason::Changes, detail: first },
        }))
    }
}

/// The commit of a build whose work can be had.
fn head_of(build: &TaskRecord) -> Option<String> {
    match build.met() {
        Some(TaskState::Done { head, .. }) => head.clone(),
        Some(TaskState::Landed { commit, .. }) => Some(commit.clone()),
        _ => None,
    }
}

fn checks(attempt: &Attempt, whose: &str) -> Vec<String> {
    let line = |evidence: &Evidence| match evidence {
        Evidence::Check { command, exit, .. } => Some(format!("- `{command}` ended with {exit} ({whose})")),
        _ => None,
    };
    attempt.evidence.iter().filter_map(line).collect()
}

fn bounded(text: &str, most: usize, more: &str) -> String {
    if text.len() <= most {
        return text.to_owned();
    }
    format!("{}{more}", &text[..text.floor_char_boundary(most)])
}
