//! What the client of a server may do.

use regatta_core::id::TaskId;

/// The authority of a server's client. It does not change while the server runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Authority {
    /// A person, who may do everything the commands can.
    Operator,
    /// The agent of one attempt: its own report, its own messages, and reading.
    Worker {
        /// Its task.
        task: TaskId,
        /// Its attempt.
        attempt: u32,
        /// The SHA-256 of the attempt's token, which the store checks.
        token_hash: String,
    },
}

/// The tools that the agent of an attempt may call.
const OF_WORKERS: [&str; 18] = [
    "ask",
    "dismiss_message",
    "done",
    "get_context",
    "heartbeat",
    "list_context_keys",
    "list_instances",
    "list_tasks",
    "mark_read",
    "poll_messages",
    "progress",
    "radar",
    "send_message",
    "server_status",
    "set_context",
    "status",
    "stuck",
    "wait_for_message",
];

/// The tools that only the agent of an attempt may call.
const OF_WORKERS_ALONE: [&str; 3] = ["done", "progress", "stuck"];

impl Authority {
    /// Whether this authority may use a tool.
    pub(super) fn allows(&self, tool: &str) -> bool {
        match self {
            Authority::Operator => !OF_WORKERS_ALONE.contains(&tool),
            Authority::Worker { .. } => OF_WORKERS.contains(&tool),
        }
    }

    /// Why this authority may not use a tool.
    pub(super) fn refusal(&self, tool: &str) -> String {
        match self {
            Authority::Operator => {
                format!("{tool} is for the agent of an attempt, and this server is a person's")
            }
            Authority::Worker { task, .. } => format!("{tool} is not for the agent of a task ({task})"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_agent_can_neither_take_nor_order_work() {
        let task = TaskId::parse("a").unwrap();
        let worker = Authority::Worker { task, attempt: 1, token_hash: String::new() };
        for tool in
            ["enqueue", "push_task", "claim_task", "complete_task", "register_instance", "delete_context"]
        {
            assert!(!worker.allows(tool) && Authority::Operator.allows(tool), "{tool}");
        }
        for tool in OF_WORKERS_ALONE {
            assert!(worker.allows(tool) && !Authority::Operator.allows(tool), "{tool}");
        }
    }
}
