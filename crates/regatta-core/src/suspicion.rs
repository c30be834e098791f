//! Signs that a running agent may need a user. Suspicions change no state and stop no agent.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::event::{Event, EventBody};
use crate::time::Timestamp;

/// What looks wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Sign {
    /// It repeats the same call and gets the same answer.
    SameCommand,
    /// It is silent while no tool is running.
    Silence,
    /// A tool has been running for very long.
    LongTool,
    /// Its permission rules refuse its calls.
    Denials,
    /// It takes many turns without changing a file.
    NoChange,
    /// It waits at a question, a login or a trust prompt.
    Prompt,
}

impl Sign {
    /// All signs, by name.
    pub const NAMES: [(&'static str, Sign); 6] = [
        ("same-command", Sign::SameCommand),
        ("silence", Sign::Silence),
        ("long-tool", Sign::LongTool),
        ("denials", Sign::Denials),
        ("no-change", Sign::NoChange),
        ("prompt", Sign::Prompt),
    ];

    /// Its name.
    pub fn as_str(self) -> &'static str {
        Self::NAMES.iter().find(|(_, sign)| *sign == self).map_or("", |(name, _)| name)
    }
}

impl fmt::Display for Sign {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// One suspicion that still holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Suspicion {
    /// What looks wrong.
    pub sign: Sign,
    /// A sentence about what was observed.
    pub why: String,
    /// When it began.
    pub at: Timestamp,
}

/// Updates the open suspicions about an attempt with the next event of its task.
pub fn note(open: &mut Vec<Suspicion>, event: &Event, attempt: u32) {
    if event.attempt != Some(attempt) {
        return;
    }
    match &event.body {
        EventBody::Suspected { sign, why } => {
            open.push(Suspicion { sign: *sign, why: why.clone(), at: event.at });
        }
        EventBody::WentOn { sign } => open.retain(|suspicion| suspicion.sign != *sign),
        EventBody::Exited { .. } | EventBody::Released { .. } => open.clear(),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exit::Exit;

    #[test]
    fn a_suspicion_holds_until_the_agent_goes_on_or_ends() {
        let mut open = Vec::new();
        let mut tell = |attempt, body| {
            let (task, at) = (None, Timestamp::from_millis(0));
            note(&mut open, &Event { seq: 1, at, task, attempt: Some(attempt), body }, 2);
            open.iter().map(|suspicion| suspicion.sign.to_string()).collect::<Vec<_>>().join(" ")
        };
        let suspected = |sign| EventBody::Suspected { sign, why: "why".into() };
        assert_eq!(tell(1, suspected(Sign::Prompt)), "");
        assert_eq!(tell(2, suspected(Sign::Silence)), "silence");
        assert_eq!(tell(2, suspected(Sign::Denials)), "silence denials");
        assert_eq!(tell(2, EventBody::WentOn { sign: Sign::Silence }), "denials");
        assert_eq!(tell(2, EventBody::Exited { exit: Exit::Lost }), "");
    }

    #[test]
    fn the_names_are_those_of_the_json() {
        for (name, sign) in Sign::NAMES {
            assert_eq!(serde_json::to_value(sign).unwrap(), name);
        }
    }
}
