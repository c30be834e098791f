//! Whether a run would repeat what an earlier one has done, or start over what one has left running.

use regatta_core::report::landed_as;
use regatta_core::spec::TaskSpec;
use regatta_core::state::TaskState;
use regatta_store::{SessionInfo, Store, StoreError, TaskRecord};

use crate::persist::until_answered;
use crate::records::Records;

/// Maximum number of tasks named.
const NAMED: usize = 5;

/// What earlier runs did with some tasks.
#[derive(Clone, Debug, Default)]
pub struct Earlier {
    /// What is done, landed or running, each in a few words.
    done: Vec<String>,
    /// The number of other tasks.
    pub unfinished: usize,
}

impl Earlier {
    /// Checks the tasks. If a session that may be `alive` holds one of them, that is refused elsewhere, and nothing is
    /// returned here.
    pub async fn look(
        store: &dyn Store,
        tasks: &[TaskSpec],
        alive: impl Fn(&SessionInfo) -> bool,
    ) -> Result<Self, StoreError> {
        let mut earlier = Self::default();
        let mut sessions = until_answered(|| store.sessions()).await?;
        sessions.retain(|info| alive(info));
        let records = Records::load(store, tasks.iter().map(|spec| &spec.id)).await?;
        for record in tasks.iter().filter_map(|spec| records.get(&spec.id)) {
            if sessions.iter().any(|info| record.session.as_ref() == Some(&info.session)) {
                return Ok(Self::default());
            }
            match why(record) {
                Some(why) => earlier.done.push(why),
                None => earlier.unfinished += 1,
            }
        }
        Ok(earlier)
    }

    /// Why a run that neither resumes nor repeats refuses these tasks, in a sentence.
    pub fn refusal(&self) -> Option<String> {
        let mut named: Vec<String> = self.done.iter().take(NAMED).cloned().collect();
        match self.done.len() - named.len() {
            0 => {}
            more => named.push(format!("and {more} more")),
        }
        (!named.is_empty()).then(|| format!("these tasks have run before: {}", named.join("; ")))
    }
}

fn why(record: &TaskRecord) -> Option<String> {
    let id = &record.spec.id;
    Some(match (&record.state, record.met()) {
        (_, Some(TaskState::Landed { commit, target, .. })) => {
            format!("{id} {}", landed_as(target.as_deref(), commit.short()))
        }
        (_, Some(_)) => format!("{id} is done"),
        (TaskState::Landing { .. }, None) => format!("{id} waits in the train to land"),
        (state, None) if state.is_claimed() => {
            format!("{id} was running when its run died, and its agent may still be running")
        }
        _ => return None,
    })
}
