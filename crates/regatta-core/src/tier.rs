//! Which model an attempt uses, and why: the task's choice, its labels, the agent's, the project's; and one step up the
//! ladder for every work failure.

use crate::config::{Agent, AgentKind, Models};
use crate::spec::TaskSpec;

/// The model of an attempt.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tier {
    /// Its name; `None` leaves the choice to the agent's program.
    pub model: Option<String>,
    /// What chose it, unless it was the task or the agent's own entry.
    pub why: Option<String>,
}

/// Chooses the model for the attempt after `failures` work failures.
///
/// A model that is not on the ladder is not changed, since nothing is known to be above it. If no model is named at
/// all, the first step of the ladder is used.
pub fn choose(spec: &TaskSpec, agent: &Agent, models: &Models, failures: u32) -> Tier {
    if agent.kind == AgentKind::Command {
        return Tier::default();
    }
    let labels = agent.labels.as_ref().unwrap_or(&models.labels);
    let labelled = || spec.labels.iter().find_map(|label| Some((label, labels.get(label)?)));
    let ladder = agent.escalation.as_ref().unwrap_or(&models.escalation);
    let begun = if let Some(model) = &spec.model {
        Tier { model: Some(model.clone()), why: None }
    } else if let Some((label, model)) = labelled() {
        Tier { model: Some(model.clone()), why: Some(format!("label {label}")) }
    } else if let Some(model) = agent.model.as_ref() {
        Tier { model: Some(model.clone()), why: None }
    } else if let Some(model) = models.default.as_ref() {
        Tier { model: Some(model.clone()), why: Some("default".to_owned()) }
    } else {
        let foot = ladder.first().cloned();
        Tier { why: foot.as_ref().map(|_| "first step of the ladder".to_owned()), model: foot }
    };
    let at = begun.model.as_ref().and_then(|model| ladder.iter().position(|rung| rung == model));
    let (Some(at), 1..) = (at, failures) else { return begun };
    let reached = at.saturating_add(usize::try_from(failures).unwrap_or(usize::MAX)).min(ladder.len() - 1);
    if reached == at {
        return begun;
    }
    let times = if failures == 1 { "1 failure".to_owned() } else { format!("{failures} failures") };
    Tier { model: ladder.get(reached).cloned(), why: Some(format!("escalated after {times}")) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::TaskId;

    fn models() -> Models {
        Models {
            default: Some("sonnet".into()),
            labels: [("documentation".to_owned(), "haiku".to_owned())].into(),
            escalation: ["haiku", "sonnet", "opus"].map(str::to_owned).into(),
            ..Models::default()
        }
    }

    fn spec(model: Option<&str>, labels: &[&str]) -> TaskSpec {
        let mut spec = TaskSpec::plain(TaskId::parse("a").unwrap(), "claude", "do it");
        spec.model = model.map(str::to_owned);
        spec.labels = labels.iter().map(|label| (*label).to_owned()).collect();
        spec
    }

    #[track_caller]
    fn check(spec: &TaskSpec, agent: &Agent, models: &Models, failures: u32, expected: (&str, &str)) {
        let tier = choose(spec, agent, models, failures);
        let said = (tier.model.as_deref().unwrap_or("-"), tier.why.as_deref().unwrap_or("-"));
        assert_eq!(said, expected);
    }

    #[test]
    fn the_nearest_word_counts_and_failures_climb() {
        let claude = Agent::of_kind(AgentKind::Claude);
        let own = Agent { model: Some("opus".into()), ..claude.clone() };
        let models = models();
        for (spec, agent, failures, expected) in [
            (spec(Some("opus"), &["documentation"]), &claude, 0, ("opus", "-")),
            (spec(None, &["other", "documentation"]), &own, 0, ("haiku", "label documentation")),
            (spec(None, &[]), &own, 0, ("opus", "-")),
            (spec(None, &[]), &claude, 0, ("sonnet", "default")),
            (spec(None, &["documentation"]), &claude, 1, ("sonnet", "escalated after 1 failure")),
            (spec(None, &["documentation"]), &claude, 2, ("opus", "escalated after 2 failures")),
            (spec(None, &["documentation"]), &claude, 9, ("opus", "escalated after 9 failures")),
            // A model at the top of the ladder, or not on it, stays.
            (spec(Some("opus"), &[]), &claude, 3, ("opus", "-")),
            (spec(Some("fable"), &[]), &claude, 3, ("fable", "-")),
        ] {
            check(&spec, agent, &models, failures, expected);
        }
    }

    #[test]
    fn an_agent_whose_models_have_other_names_has_its_own_ladder() {
        let codex = Agent {
            labels: Some([("documentation".to_owned(), "gpt-mini".to_owned())].into()),
            escalation: Some(vec!["gpt-mini".into(), "gpt".into()]),
            ..Agent::of_kind(AgentKind::Codex)
        };
        let models = Models { default: None, ..models() };
        let documentation = spec(None, &["documentation"]);
        check(&documentation, &codex, &models, 0, ("gpt-mini", "label documentation"));
        check(&documentation, &codex, &models, 1, ("gpt", "escalated after 1 failure"));
        check(&spec(None, &[]), &codex, &models, 0, ("gpt-mini", "first step of the ladder"));
        let none = Agent { escalation: Some(Vec::new()), ..Agent::of_kind(AgentKind::Gemini) };
        check(&spec(None, &[]), &none, &models, 2, ("-", "-"));
        check(&spec(Some("x"), &[]), &Agent::of_kind(AgentKind::Command), &models, 2, ("-", "-"));
    }
}
