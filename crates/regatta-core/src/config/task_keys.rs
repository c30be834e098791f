//! The rows of task files and plans, Regatta's own and parallel-orchestra's.

use super::bounds::{MCP_KEYS, PERMISSION_KEYS, SANDBOXES};
use super::config_keys::MAX_TOKENS;
use super::keys::{Key, Kind};

/// A place where task keys may occur.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// The frontmatter of a task file.
    TaskFile,
    /// An entry of a plan's `tasks`.
    PlanTask,
    /// A plan's `defaults`.
    PlanDefaults,
    /// `defaults` of `regatta.yaml`.
    ConfigDefaults,
}

use Place::{ConfigDefaults, PlanDefaults, PlanTask, TaskFile};

const ONE_TASK: &[Place] = &[TaskFile, PlanTask];
const ONE_PLAN: &[Place] = &[TaskFile, PlanTask, PlanDefaults];
const EVERYWHERE: &[Place] = &[TaskFile, PlanTask, PlanDefaults, ConfigDefaults];

/// The names of the verdict adapters.
pub(crate) const ADAPTERS: &[&str] = &["chain", "db", "marker-file", "exit-code", "json-result"];
/// Largest accepted number of attempts.
pub(crate) const MAX_ATTEMPTS: i64 = 1000;

const RETRIES: Kind = Kind::Int { min: 0, max: MAX_ATTEMPTS - 1 };

/// Every key of a task, wherever it occurs.
pub static TASK_KEYS: &[Key] = &[
    Key::new("id", Kind::Text, "the file's name without its ending", "The task's name: up to 64 of `A-Z a-z 0-9 . _ -`, unique without regard to case. Required in a plan.")
        .places(ONE_TASK),
    Key::new("title", Kind::Text, "the prompt's first heading or line", "One line for people.").places(ONE_TASK),
    Key::new("prompt", Kind::Text, "", "What the agent is told. Required in a plan; in a task file the body is the prompt.")
        .places(&[PlanTask]),
    Key::new("agent", Kind::Text, "`default_agent`", "The entry of `agents` in `regatta.yaml` that does the work.")
        .places(ONE_PLAN),
    Key::new("model", Kind::Word, "the agent's", "The model, where the agent has a choice.").places(ONE_PLAN),
    Key::new("labels", Kind::Names, "none", "What kind of work it is; `models.labels` in `regatta.yaml` may choose the model by it.").places(ONE_PLAN),
    Key::new("budget_usd", Kind::Number, "`budget.task`", "Dollars that all its attempts together may cost.").places(ONE_PLAN),
    Key::new("budget_tokens", Kind::Int { min: 0, max: MAX_TOKENS }, "`budget.task`", "Tokens that all its attempts together may read and write.").places(ONE_PLAN),
    Key::new("persona", Kind::Word, "none", "The agent's own persona, as in `claude --agent NAME`, `opencode run --agent NAME` or `codex exec --profile NAME`; gemini has none and is not started.").places(ONE_PLAN),
    Key::new("priority", Kind::Int { min: -9999, max: 9999 }, "0", "Higher starts first.").places(ONE_PLAN),
    Key::new("deps", Kind::Names, "none", "Tasks that have to be landed, or done where they land nothing, before this one starts.")
        .alias(&["depends_on"])
        .places(ONE_TASK),
    Key::new("max_attempts", Kind::Int { min: 1, max: MAX_ATTEMPTS }, "3", "Work failures allowed in all.")
        .places(EVERYWHERE),
    Key::new("max_retries", RETRIES, "", "The same, not counting the first: `max_attempts` less one. Give one of the two.")
        .example("")
        .places(EVERYWHERE),
    Key::new("auto_land", Kind::Bool, "`land.auto`", "Whether passing work is landed on the target branch.").places(ONE_PLAN),
    Key::new("verdict_adapter", Kind::OneOf(ADAPTERS), "by the agent: `chain`, or `exit-code` for commands", "Where the verdict is read from.")
        .example("")
        .places(EVERYWHERE),
    Key::new("writes", Kind::OneOrMore, "none", "Files, directories and globs, from the repository root, that the task will write. Tasks that overlap never run at once.")
        .places(ONE_TASK),
    Key::new("checks", Kind::OneOrMore, "none", "Commands that Regatta runs on a clean checkout of the commit, at its root, before it believes a pass. Dependencies come from `lane.setup`, `lane.include` or `lane.build_dirs`.")
        .places(EVERYWHERE),
    Key::new("chain", Kind::Links, "none", "What follows the build: `verify` runs the `checks` again in a checkout of their own, `review` and `accept` are other agents in conversations of their own, who read the work and say whether it may land. `true` is all three. The work lands when the last has passed.")
        .example("[verify, review]")
        .places(ONE_PLAN),
    Key::new("timeout", Kind::Duration, "90m", "From start to end of one attempt.").places(EVERYWHERE),
    Key::new("first_output_timeout", Kind::Duration, "none", "From start to the first output.").places(EVERYWHERE),
    Key::new("idle_timeout", Kind::Duration, "15m", "Silence while no tool is at work.").places(EVERYWHERE),
    Key::new("read_only", Kind::Bool, "false", "Reads only: no lane of its own, nothing to land.").places(ONE_PLAN),
    Key::new("permissions", Kind::Section(PERMISSION_KEYS), "none", "Rules for the agent's tools and commands, as Claude Code writes them: `allow` (nothing but these; the nearest list wins) and `deny` (of the task, the defaults and the agent together). An agent that cannot keep to them is not started.")
        .example("{ deny: [\"Bash(git push:*)\"] }")
        .places(EVERYWHERE),
    Key::new("sandbox", Kind::OneOf(SANDBOXES), "the agent's `sandbox`, else `off`", "What keeps the agent's commands in: `workspace` lets them write in the lane alone, `read-only` nowhere. Only codex has one that Regatta can set; others are not started with it.")
        .places(EVERYWHERE),
    Key::new("mcp", Kind::Named(MCP_KEYS), "none", "MCP servers for the agent, by name, added to those of the defaults and the agent: `command`, `args` and `env`, or `url` and `headers`. For claude, codex and opencode; a read-only task gets none.")
        .example("{ docs: { command: docs-mcp, args: [--stdio] } }")
        .places(EVERYWHERE),
    Key::new("env", Kind::Variables, "none", "Variables for the agent, added to those of the defaults. Those that hijack programs are refused.")
        .places(EVERYWHERE),
    Key::new("concurrency_group", Kind::Text, "none", "At most as many tasks of one group at once as its limit says; without a limit, one.")
        .places(ONE_PLAN),
    Key::new("verification_enabled", Kind::Bool, "true", "rookery's: `false` leaves the `checks` of this task and of `regatta.yaml` out.")
        .places(&[TaskFile]),
    Key::new("notes", Kind::Text, "none", "For people. Regatta does not read them.").places(ONE_TASK),
    Key::new("auto_commit", Kind::Bool, "true", "Whether Regatta commits what the agent left uncommitted. Where it does not, such work fails the attempt.").places(EVERYWHERE),
];

/// The keys of Regatta's own plans.
pub static PLAN_KEYS: &[Key] = &[
    Key::new("regatta", Kind::Int { min: 1, max: 1 }, "1", "The version of the format."),
    Key::new("name", Kind::Text, "the file's name without its ending", "The plan's name, for people."),
    Key::new(
        "cwd",
        Kind::Text,
        "the repository root",
        "Directory, from the repository root, in which the agents start.",
    ),
    Key::new(
        "defaults",
        Kind::Defaults(PlanDefaults),
        "none",
        "Task keys that hold for every task that does not say otherwise.",
    ),
    Key::new(
        "concurrency_limits",
        Kind::Counts,
        "`limits.groups`",
        "How many tasks of each `concurrency_group` may run at once.",
    ),
    Key::new("tasks", Kind::Anything, "", "The tasks, at least one."),
];

/// The keys of a plan in parallel-orchestra's format.
pub static PO_PLAN_KEYS: &[Key] = &[
    Key::new("po_plan_version", Kind::OneOf(&["0.1"]), "", "The version of the format, as a string."),
    Key::new("name", Kind::Text, "", "The plan's name, for people."),
    Key::new(
        "cwd",
        Kind::Text,
        "",
        "Directory, from the plan's own, with the project's `.claude`, in which tasks start that only read. Required.",
    ),
    Key::new("defaults", Kind::Section(PO_DEFAULT_KEYS), "", "Only `max_retries`."),
    Key::new(
        "concurrency_limits",
        Kind::Counts,
        "",
        "How many tasks of each `concurrency_group` may run at once. Required for every group in use.",
    ),
    Key::new(
        "on_complete",
        Kind::Section(PO_WEBHOOK_KEYS),
        "",
        "A webhook that `regatta run` calls at the end.",
    ),
    Key::new(
        "on_failure",
        Kind::Section(PO_WEBHOOK_KEYS),
        "",
        "A webhook that `regatta run` calls at an end with a failed task.",
    ),
    Key::new("tasks", Kind::Anything, "", "The tasks, at least one."),
];

static PO_DEFAULT_KEYS: &[Key] = &[Key::new("max_retries", RETRIES, "1", "Retries after the first attempt.")];

static PO_WEBHOOK_KEYS: &[Key] = &[Key::new(
    "webhook_url",
    Kind::Text,
    "",
    "An `https` address of the open internet, or one that `notify` in `regatta.yaml` has with `allow_private`.",
)];

/// The keys of a task in parallel-orchestra's format.
pub static PO_TASK_KEYS: &[Key] = &[
    Key::new("id", Kind::Text, "", "The task's name. Required."),
    Key::new("agent", Kind::Text, "", "The persona; the program is `claude`. Required."),
    Key::new("read_only", Kind::Bool, "", "Reads only: no lane of its own, nothing to land. Required."),
    Key::new("prompt", Kind::Text, "`/agent-<agent>`", "What the agent is told."),
    Key::new("env", Kind::Variables, "none", "Variables for the agent."),
    Key::new(
        "writes",
        Kind::Texts,
        "none",
        "Files and directories, from the plan's own directory, that the task will write.",
    ),
    Key::new("depends_on", Kind::Texts, "none", "Tasks that have to succeed before this one starts."),
    Key::new("max_retries", RETRIES, "1", "Retries after the first attempt."),
    Key::new("concurrency_group", Kind::Text, "none", "Needs an entry in `concurrency_limits`."),
];

/// Keys that parallel-orchestra reserves and refuses in a task.
pub(crate) const PO_FORBIDDEN: [&str; 5] =
    ["cwd", "timeout_sec", "idle_timeout_sec", "retry_delay_sec", "retry_backoff_factor"];

/// The task keys that may occur in `place`.
pub fn in_place(place: Place) -> Vec<&'static Key> {
    TASK_KEYS.iter().filter(|key| key.places.contains(&place)).collect()
}
