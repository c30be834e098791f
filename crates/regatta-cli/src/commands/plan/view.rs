//! A proposal on the screen, with its plan as a graph.

use regatta_core::graph;
use regatta_core::id::TaskId;
use regatta_core::taskfile::Loaded;
use regatta_core::time::counted;
use regatta_ops::Refusal;
use regatta_ops::documents::plans::{PlanDocument, ProposalState};
use regatta_ops::plans::{Proposal, first_line};

use crate::exit::Exit;
use crate::project::shown;
use crate::ui::{Style, Ui};

/// Shows a proposal and what to do with it. An unusable proposal is an error.
pub(crate) fn show(proposal: &Proposal, ui: &Ui) -> Result<Exit, Refusal> {
    let document = &proposal.document;
    if ui.json {
        ui.document(document);
    } else {
        print(document, proposal.plan.as_ref(), ui);
    }
    match (document.state, proposal.mistakes()) {
        (ProposalState::Failed, _) => Ok(Exit::TaskFailed),
        // They are in the document.
        (_, Some(refusal)) if ui.json => Err(Refusal { diagnostics: Vec::new(), ..refusal }),
        (_, Some(refusal)) => Err(refusal),
        (_, None) => Ok(Exit::Ok),
    }
}

fn print(document: &PlanDocument, loaded: Option<&Loaded>, ui: &Ui) {
    let id = &document.id;
    let reason = document.reason.as_ref().map_or_else(String::new, |reason| format!(" ({reason})"));
    ui.line(format!(
        "{} {}{reason}: {}",
        ui.paint(Style::Strong, id.as_str()),
        document.state,
        first_line(&document.goal)
    ));
    if let (Some(loaded), false) = (loaded, document.tasks.is_empty()) {
        let label = |id: &TaskId| {
            let spec = loaded.tasks.iter().find(|spec| spec.id == *id);
            spec.map_or_else(|| id.to_string(), |spec| format!("{id}  ({})  {}", spec.agent, spec.title))
        };
        ui.line("");
        ui.out(&graph::render(&loaded.tasks, label));
        ui.line("");
        let n_tasks = document.tasks.len();
        let plural = if n_tasks == 1 { "" } else { "s" };
        ui.line(format!(
            "{n_tasks} task{plural} in {}; {}",
            counted(document.stages.len(), "stage"),
            file(document)
        ));
    }
    if ui.quiet {
        return;
    }
    match document.state {
        ProposalState::Proposed => ui.line(format!(
            "`regatta approve {id}` enqueues it, `regatta plan edit {id}` changes it, `regatta reject {id} \"WHY\"` asks for another"
        )),
        ProposalState::Failed => ui.line(format!("`regatta logs {id}` shows what its planner said, `regatta retry {id}` tries again")),
        _ => {}
    }
}

fn file(document: &PlanDocument) -> String {
    document.file.as_ref().map_or_else(String::new, |file| format!("the plan is {}", shown(file.as_ref())))
}
