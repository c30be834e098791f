//! An attempt that is a link of a chain: what it judges, its prompt, and what happens when it asks for changes.
//!
//! Invariant: the edition that a link judges is on record before its lane is made, and the lane is made from the
//! current work. If the build has moved on meanwhile, the record names the earlier edition, and the link judges again.

use regatta_core::config::AgentKind;
use regatta_core::time::counted;
use std::path::Path;

use regatta_core::attempt::{Attempt, Evidence};
use regatta_core::chain::{self, Edition};
use regatta_core::part::{Link, Part};
use regatta_core::plain::joined;
use regatta_core::state::{BlockReason, TaskState};
use regatta_core::verdict::Verdict;
use regatta_store::{Outcome, TaskRecord};

use super::{Site, Worker, WorkerError};
use crate::git::Oid;
use crate::judge::Judgement;
use crate::persist::until_answered;
use crate::templates::Text;

/// Maximum length of the diff in the prompt itself.
const IN_PROMPT: usize = 32 * 1024;
/// Maximum length of the diff in the file beside it.
const IN_FILE: usize = 4 * 1024 * 1024;

impl Worker {
    /// The build and the link, if this attempt is one.
    fn link(&self) -> Option<(&regatta_core::id::TaskId, Link)> {
        match &self.claim.spec.part {
            Some(Part::Link { chain, link }) => Some((chain, *link)),
            _ => None,
        }
    }

    /// Whether it is a link.
    pub(super) fn is_link(&self) -> bool {
        self.link().is_some()
    }

    /// Records the edition it is about to judge.
    pub(super) async fn look(&mut self) -> Result<(), WorkerError> {
        let Some((chain, _)) = self.link() else { return Ok(()) };
        let prompts = until_answered(|| self.ctx.services.store.prompts(chain)).await?;
        let build = until_answered(|| self.ctx.services.store.task(chain)).await?;
        self.record.judged = Some(Edition::of(head_of(&build), &prompts));
        Ok(())
    }

    /// How often its work was sent back by its chain, if it is a build.
    pub(super) async fn rounds(&self) -> Result<u32, WorkerError> {
        match self.claim.spec.part {
            Some(Part::Builder { .. }) => Ok(chain::rounds(
                &until_answered(|| self.ctx.services.store.prompts(&self.claim.task)).await?,
            )),
            _ => Ok(0),
        }
    }

    /// The agent's prompt: the task's own text, or its role's text around it.
    pub(super) async fn order(&self, site: &Site) -> Result<String, WorkerError> {
        let spec = &self.claim.spec;
        let kind = self.ctx.settings.agent(&spec.agent)?.kind;
        match &spec.part {
            // A prompt that a program executes as a script never contains other people's text.
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
        text.load(&self.ctx.repository.project_dir)
            .map_err(|fault| WorkerError::Impossible(fault.to_string()))
    }

    async fn order_of_link(&self, link: Link, run_dir: &Path) -> Result<String, WorkerError> {
        let Some((chain, _)) = self.link() else { return Ok(self.claim.spec.prompt.clone()) };
        let template = self.template(Text::of_link(link))?;
        let build = until_answered(|| self.ctx.services.store.task(chain)).await?;
        let attempts = until_answered(|| self.ctx.services.store.attempts(chain)).await?;
        let head = self.record.judged.as_ref().and_then(|edition| edition.head.clone());
        let made = attempts.iter().rev().find(|attempt| attempt.head.is_some() && attempt.head == head);
        let patch = match made.and_then(|made| made.base.clone().zip(made.head.clone())) {
            Some((base, head)) => {
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
            "base" => made.and_then(|made| made.base.as_ref()).map_or_else(String::new, Oid::to_string),
            "head" => head.as_ref().map_or_else(|| "(it changed nothing)".to_owned(), Oid::to_string),
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

    /// The results of the build's checks, in its own attempt and in the link that ran them again.
    async fn checks_of(&self, build: &TaskRecord, made: Option<&Attempt>) -> Result<String, WorkerError> {
        let mut lines: Vec<String> = made.into_iter().flat_map(|made| checks(made, "the build")).collect();
        if let Some(id) = Link::Verify.task(&build.spec.id)
            && self.claim.spec.deps.contains(&id)
        {
            let attempts = until_answered(|| self.ctx.services.store.attempts(&id)).await?;
            let last = attempts.iter().rev().find(|attempt| attempt.judged == self.record.judged);
            lines.extend(last.into_iter().flat_map(|last| checks(last, "verify")));
        }
        Ok(if lines.is_empty() {
            "No checks were run.".to_owned()
        } else {
            format!("Checks that were run on it:\n\n{}", lines.join("\n"))
        })
    }

    /// What happens when a link asks for changes: the work goes back to its builder, or to a user. `None` if the link
    /// failed itself or reported nothing.
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
                Some(format!("the check `{command}` {}:\n{}", exit.predicate(), tail.trim_end()))
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
            Some(joined(&first, &format!("{chain} has no conversation that could continue")))
        } else if used >= most {
            let times = counted(used, "time");
            let why = format!("{chain} was sent back {times}, which is as often as `chain.rounds` allows");
            Some(joined(&first, &why))
        } else {
            None
        };
        Ok(Some(match person {
            Some(detail) => Outcome::Block { reason: BlockReason::Verdict, detail },
            None => Outcome::Block { reason: BlockReason::Changes, detail: first },
        }))
    }
}

/// The commit of a build whose work is available.
fn head_of(build: &TaskRecord) -> Option<Oid> {
    match build.met() {
        Some(TaskState::Done { head, .. }) => head.clone(),
        Some(TaskState::Landed { commit, .. }) => Some(commit.clone()),
        _ => None,
    }
}

fn checks(attempt: &Attempt, whose: &str) -> Vec<String> {
    let line = |evidence: &Evidence| match evidence {
        Evidence::Check { command, exit, .. } => {
            Some(format!("- `{command}` {} ({whose})", exit.predicate()))
        }
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
