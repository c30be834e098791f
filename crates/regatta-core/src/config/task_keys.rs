//! The rows of task files and plans, Regatta's own and parallel-orchestra's.

use super::bounds::{MCP_KEYS, PERMISSION_KEYS, SANDBOXES};
use super::config_keys::MAX_TOKENS;
use super::keys::{Key, Kind};

/// A place where task keys may occur.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyPlace {
    /// The frontmatter of a task file.
    TaskFile,
    /// An entry of a plan's `tasks`.
    PlanTask,
    /// A plan's `defaults`.
    PlanDefaults,
    /// `defaults` of `regatta.yaml`.
    ConfigDefaults,
}

use KeyPlace::{ConfigDefaults, PlanDefaults, PlanTask, TaskFile};

const ONE_TASK: &[KeyPlace] = &[TaskFile, PlanTask];
const ONE_PLAN: &[KeyPlace] = &[TaskFile, PlanTask, PlanDefaults];
const EVERYWHERE: &[KeyPlace] = &[TaskFile, PlanTask, PlanDefaults, ConfigDefaults];

/// The names of the verdict adapters.
pub(crate) const ADAPTERS: &[&str] = &["chain", "db", "marker-file", "exit-code", "json-result"];
/// Largest accepted number of attempts.
pub(crate) const MAX_ATTEMPTS: i64 = 1000;

const RETRIES: Kind = Kind::Int { min: 0, max: MAX_ATTEMPTS - 1 };

/// Every key of a task, wherever it occurs.
pub static TASK_KEYS: &[Key] = &[
    Key::new("id", Kind::Text, "the file's name without its ending", "The task's id: at most 64 of `A-Z a-z 0-9 . _ -`, unique regardless of case. Required in a plan.")
        .places(ONE_TASK),
    Key::new("title", Kind::Text, "the prompt's first heading or line", "One line for people.").places(ONE_TASK),
    Key::new("prompt", Kind::Text, "", "The prompt for the agent. Required in a plan; in a task file the body is the prompt.")
        .places(&[PlanTask]),
    Key::new("repo", Kind::Text, "the project's own", "The repository to work in, by its name in `repos` of `regatta.yaml`. `writes`, `checks` and `cwd` are relative to its root.")
        .places(ONE_PLAN),
    Key::new("agent", Kind::Text, "`default_agent`", "The entry of `agents` in `regatta.yaml` that does the work.")
        .places(ONE_PLAN),
    Key::new("model", Kind::Word, "the agent's", "The model, if the agent has a choice.").places(ONE_PLAN),
    Key::new("labels", Kind::Names, "none", "Labels for the kind of work. `models.labels` in `regatta.yaml` can choose the model by label.").places(ONE_PLAN),
    Key::new("budget_usd", Kind::Number, "`budget.task`", "Maximum cost of all its attempts together, in dollars.").places(ONE_PLAN),
    Key::new("budget_tokens", Kind::Int { min: 0, max: MAX_TOKENS }, "`budget.task`", "Maximum number of tokens, input and output, of all its attempts together.").places(ONE_PLAN),
    Key::new("persona", Kind::Word, "none", "The agent's own persona, as in `claude --agent NAME`, `opencode run --agent NAME` or `codex exec --profile NAME`. gemini has no personas, so such a task is blocked.").places(ONE_PLAN),
    Key::new("priority", Kind::Int { min: -9999, max: 9999 }, "0", "Higher starts first.").places(ONE_PLAN),
    Key::new("deps", Kind::Names, "none", "Tasks that must land before this one starts, or be done if they do not land.")
        .alias(&["depends_on"])
        .places(ONE_TASK),
    Key::new("max_attempts", Kind::Int { min: 1, max: MAX_ATTEMPTS }, "3", "How often the work may fail in total.")
        .places(EVERYWHERE),
    Key::new("max_retries", RETRIES, "", "The same without the first attempt: `max_attempts` minus one. Set only one of the two.")
        .example("")
        .places(EVERYWHERE),
    Key::new("auto_land", Kind::Bool, "`land.auto`", "Whether work that passes lands on the target branch.").places(ONE_PLAN),
    Key::new("verdict_adapter", Kind::OneOf(ADAPTERS), "by the agent: `chain`, or `exit-code` for commands", "Where Regatta reads the verdict.")
        .example("")
        .places(EVERYWHERE),
    Key::new("writes", Kind::OneOrMore, "none", "Files, directories and globs, relative to the repository root, that the task will change. Tasks that overlap never run at the same time.")
        .places(ONE_TASK),
    Key::new("checks", Kind::OneOrMore, "none", "Commands that must succeed before a pass counts. Regatta runs them at the root of a clean checkout of the commit. Dependencies come from `lane.setup`, `lane.include` or `lane.build_dirs`.")
        .places(EVERYWHERE),
    Key::new("chain", Kind::Links, "none", "Steps after the build. `verify` runs the `checks` again in a separate checkout; `review` and `accept` are other agents that read the work and decide whether it may land. `true` means all three. The work lands when the last step has passed.")
        .example("[verify, review]")
        .places(ONE_PLAN),
    Key::new("timeout", Kind::Duration, "90m", "Time limit for one attempt.").places(EVERYWHERE),
    Key::new("first_output_timeout", Kind::Duration, "none", "Time limit for the first output.").places(EVERYWHERE),
    Key::new("idle_timeout", Kind::Duration, "15m", "Time limit for silence while no tool is running.").places(EVERYWHERE),
    Key::new("read_only", Kind::Bool, "false", "Whether the task only reads: it has no lane of its own and lands nothing.").places(ONE_PLAN),
    Key::new("permissions", Kind::Section(PERMISSION_KEYS), "none", "Rules for the agent's tools and commands, in Claude Code's syntax: `allow` (only these; the most specific list wins) and `deny` (the lists of the task, the defaults and the agent together). If an agent cannot enforce them, it is not started.")
        .example("{ deny: [\"Bash(git push:*)\"] }")
        .places(EVERYWHERE),
    Key::new("sandbox", Kind::OneOf(SANDBOXES), "the agent's `sandbox`, else `workspace`", "What the agent is kept in: with `workspace` it can write its lane, temporary files and its own state; with `read-only` not its lane; with `off` everything you can. `off` also applies to the task's `lane.setup`, checks and hooks.")
        .places(EVERYWHERE),
    Key::new("mcp", Kind::Named(MCP_KEYS), "none", "MCP servers for the agent, by name, in addition to those of the defaults and the agent: `command`, `args` and `env`, or `url` and `headers`. For claude, codex and opencode; a read-only task gets none.")
        .example("{ docs: { command: docs-mcp, args: [--stdio] } }")
        .places(EVERYWHERE),
    Key::new("env", Kind::Variables, "none", "Environment variables for the agent, in addition to those of the defaults. Variables that can take over programs are refused.")
        .places(EVERYWHERE),
    Key::new("concurrency_group", Kind::Text, "none", "A group whose tasks share a limit on how many run at the same time; without a limit, one.")
        .places(ONE_PLAN),
    Key::new("requires", Kind::Names, "none", "What the machine that works on the task must have: a label of its `node.yaml` (`gpu`), or a fact: `agent:NAME`, `node:NAME`, `os:linux`, `arch:x86_64`, `profile:NAME`, `cpus>=N`, `memory_gb>=N`. The task is held while no machine has all of it. Its own agent need not be listed.")
        .example("[gpu, \"memory_gb>=32\"]")
        .places(EVERYWHERE),
    Key::new("verification_enabled", Kind::Bool, "true", "A key of rookery: `false` skips the `checks` of this task and of `regatta.yaml`.")
        .places(&[TaskFile]),
    Key::new("notes", Kind::Text, "none", "Notes for people. Regatta ignores them.").places(ONE_TASK),
    Key::new("auto_commit", Kind::Bool, "true", "Whether Regatta commits what the agent left uncommitted. If not, uncommitted work fails the attempt.").places(EVERYWHERE),
];

/// The keys of Regatta's own plans.
pub static PLAN_KEYS: &[Key] = &[
    Key::new("regatta", Kind::Int { min: 1, max: 1 }, "1", "The version of the format."),
    Key::new("name", Kind::Text, "the file's name without its ending", "The plan's name, for people."),
    Key::new(
        "cwd",
        Kind::Text,
        "the repository root",
        "The directory in which agents start, relative to the repository root.",
    ),
    Key::new(
        "defaults",
        Kind::Defaults(PlanDefaults),
        "none",
        "Default task keys. A task can override each of them.",
    ),
    Key::new(
        "concurrency_limits",
        Kind::Counts,
        "`limits.groups`",
        "How many tasks of each `concurrency_group` can run at the same time.",
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
        "The directory with the project's `.claude`, relative to the plan's directory. Read-only tasks start there. Required.",
    ),
    Key::new("defaults", Kind::Section(PO_DEFAULT_KEYS), "", "Only `max_retries`."),
    Key::new(
        "concurrency_limits",
        Kind::Counts,
        "",
        "How many tasks of each `concurrency_group` can run at the same time. Required for every group in use.",
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
        "A webhook that `regatta run` calls at the end if a task failed.",
    ),
    Key::new("tasks", Kind::Anything, "", "The tasks, at least one."),
];

static PO_DEFAULT_KEYS: &[Key] = &[Key::new("max_retries", RETRIES, "1", "Retries after the first attempt.")];

static PO_WEBHOOK_KEYS: &[Key] = &[Key::new(
    "webhook_url",
    Kind::Text,
    "",
    "A public `https` address, or one that `notify` in `regatta.yaml` lists with `allow_private`.",
)];

/// The keys of a task in parallel-orchestra's format.
pub static PO_TASK_KEYS: &[Key] = &[
    Key::new("id", Kind::Text, "", "The task's name. Required."),
    Key::new("agent", Kind::Text, "", "The persona; the program is `claude`. Required."),
    Key::new(
        "read_only",
        Kind::Bool,
        "",
        "Whether the task only reads: it has no lane of its own and lands nothing. Required.",
    ),
    Key::new("prompt", Kind::Text, "`/agent-<agent>`", "The prompt for the agent."),
    Key::new("env", Kind::Variables, "none", "Environment variables for the agent."),
    Key::new(
        "writes",
        Kind::Texts,
        "none",
        "Files and directories that the task will change, relative to the plan's directory.",
    ),
    Key::new("depends_on", Kind::Texts, "none", "Tasks that must succeed before this one starts."),
    Key::new("max_retries", RETRIES, "1", "Retries after the first attempt."),
    Key::new("concurrency_group", Kind::Text, "none", "Needs an entry in `concurrency_limits`."),
];

/// Keys that parallel-orchestra reserves and refuses in a task.
pub(crate) const PO_FORBIDDEN: [&str; 5] =
    ["cwd", "timeout_sec", "idle_timeout_sec", "retry_delay_sec", "retry_backoff_factor"];

/// The task keys that may occur in `place`.
pub fn in_place(place: KeyPlace) -> Vec<&'static Key> {
    TASK_KEYS.iter().filter(|key| key.places.contains(&place)).collect()
}
