//! What another machine has on its disk, and why it cannot be shown.

use std::time::Duration;

use regatta_core::attempt::{Attempt, Place};
use regatta_core::exit::Exit;
use regatta_core::id::TaskId;
use regatta_core::node::EngineStatus;
use regatta_core::time::Timestamp;
use regatta_engine::remote::NotServed;
use regatta_store::{STATUS, Store};

use crate::refusal::Refusal;
use crate::when::moment;

/// After this long without an answer, the caller hears who is asked.
const QUIET: Duration = Duration::from_secs(1);

/// Waits for what another machine sends. If that takes long, `hear` is called, once.
pub(crate) async fn hearing<T>(asked: impl Future<Output = T>, hear: impl FnOnce()) -> T {
    let mut asked = std::pin::pin!(asked);
    tokio::select! {
        answer = &mut asked => return answer,
        () = tokio::time::sleep(QUIET) => hear(),
    }
    asked.await
}

/// What of an attempt is on another machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kept {
    Log,
    Work,
}

impl Kept {
    fn name(self) -> &'static str {
        match self {
            Kept::Log => "log",
            Kept::Work => "work",
        }
    }

    /// The sentence about a machine that is asked for it.
    pub(crate) fn asking(self, (task, n): (&TaskId, u32), place: &Place) -> String {
        format!("asking {} for the {} of attempt {n} of {task}", place.node, self.name())
    }

    /// The command that shows it.
    fn command(self) -> &'static str {
        match self {
            Kept::Log => "logs",
            Kept::Work => "diff",
        }
    }
}

/// The refusal for something that its machine does not send.
pub(crate) async fn not_served(
    store: &dyn Store,
    kept: Kept,
    (task, n): (&TaskId, u32),
    place: &Place,
    attempt: Option<&Attempt>,
    error: &NotServed,
) -> Refusal {
    let (node, command, what) = (&place.node, kept.command(), kept.name());
    let subject = format!("the {what} of attempt {n} of {task} is on {node}");
    let lost = match (error, attempt) {
        (NotServed::NoEngine, Some(attempt)) => lost_since(attempt),
        _ => None,
    };
    if let Some(at) = lost {
        let refusal = Refusal::not_found(format!("{subject}, which has been lost since {}", moment(at)));
        return refusal.hinted(format!(
            "`regatta node list` shows all nodes; if {task} continues elsewhere, it does so with what was saved at the hub"
        ));
    }
    let mut message = format!("{subject}: {error}");
    if matches!(error, NotServed::Silent)
        && let Some(at) = last_word(store, place).await
    {
        message.push_str(&format!("; it was last heard from at {}", moment(at)));
    }
    let refusal = Refusal::not_found(message);
    match error {
        NotServed::NoEngine | NotServed::Silent => refusal.hinted(format!(
            "`regatta daemon` on {node} answers for it; `regatta {command} {task}` on {node} shows it too"
        )),
        NotServed::Incomplete => refusal.hinted(format!("`regatta {command} {task}` asks again")),
        NotServed::Io { .. } | NotServed::Store(_) => {
            refusal.hinted("`regatta doctor` checks the store and the disk")
        }
    }
}

/// When the engine of an attempt was found to be gone.
fn lost_since(attempt: &Attempt) -> Option<Timestamp> {
    attempt.ended_at.filter(|_| attempt.exit == Some(Exit::Lost))
}

/// When an engine of a clone last wrote its status, by the clock of its machine.
async fn last_word(store: &dyn Store, place: &Place) -> Option<Timestamp> {
    let sessions = store.sessions().await.ok()?;
    let there: Vec<_> = sessions.iter().filter(|info| info.node.place.as_ref() == Some(&place.id)).collect();
    let said = store.documents(STATUS, "").await.ok()?;
    let of_there = said.iter().filter(|said| there.iter().any(|info| info.session.0 == said.id));
    of_there.filter_map(|said| serde_json::from_str::<EngineStatus>(&said.body).ok()?.at).max()
}
