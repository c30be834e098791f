//! The rows of `regatta.yaml`.

use super::bounds::{MCP_KEYS, PERMISSION_KEYS, SANDBOXES};
use super::keys::{Key, Kind};
use super::task_keys::Place;

/// The kinds of agent this version can run.
pub(crate) const AGENT_KINDS: &[&str] = &["claude", "codex", "gemini", "opencode", "command", "sim"];
/// The landing strategies.
pub(crate) const STRATEGIES: &[&str] = &["rebase", "squash", "merge"];

/// Every key of `regatta.yaml`.
pub static CONFIG_KEYS: &[Key] = &[
    Key::new("version", Kind::Int { min: 1, max: 1 }, "1", "The version of this file's format."),
    Key::new("target", Kind::Word, "decided by the first run", "Branch that work lands on. Unset, the first run decides for good: the default branch of `origin` if it exists here, else the branch that is checked out.")
        .example("main")
        .env("REGATTA_TARGET"),
    Key::new("store", Kind::Word, "sqlite", "Where tasks and events are kept.").env("REGATTA_STORE"),
    Key::new(
        "lanes_root",
        Kind::Text,
        "../{repo}.lanes",
        "Directory of the lanes, from this file's own; `{repo}` is the repository's name.",
    )
    .example("\"../{repo}.lanes\"")
    .env("REGATTA_LANES_ROOT"),
    Key::new("max_workers", Kind::Int { min: 1, max: 1024 }, "4", "Attempts that run at once.")
        .env("REGATTA_MAX_WORKERS"),
    Key::new(
        "agents",
        Kind::Named(AGENT_KEYS),
        "`claude`, `codex`, `gemini`, `opencode`, `sim` and `sh`",
        "The programs that do the work, by name. Those built in can be changed here.",
    )
    .example("{ claude: { kind: claude, args: [] }, sh: { kind: command, argv: [sh] } }"),
    Key::new("default_agent", Kind::Text, "claude", "The agent of tasks that name none.")
        .env("REGATTA_DEFAULT_AGENT"),
    Key::new(
        "defaults",
        Kind::Defaults(Place::ConfigDefaults),
        "",
        "Task keys that hold for every task that does not say otherwise.",
    ),
    Key::new("lane", Kind::Section(LANE_KEYS), "", "How a lane is prepared."),
    Key::new("land", Kind::Section(LAND_KEYS), "", "How work reaches the target branch."),
    Key::new(
        "radar",
        Kind::Section(RADAR_KEYS),
        "",
        "How work that would conflict is found while agents are still at it.",
    ),
    Key::new(
        "watch",
        Kind::Section(WATCH_KEYS),
        "",
        "What makes an agent that runs look as if it needed a person. It is told, and never stopped for it.",
    ),
    Key::new("mcp", Kind::Section(ATTACH_KEYS), "", "Regatta's own MCP server for its agents. Servers of yours are `mcp` below an agent or in a task."),
    Key::new("limits", Kind::Section(LIMIT_KEYS), "", "What may happen at once."),
    Key::new("budget", Kind::Section(BUDGET_KEYS), "", "What agents may use, in dollars and in tokens."),
    Key::new("profiles", Kind::Rows(PROFILE_KEYS), "none", "Accounts to rotate through. The variable, and `--profiles`, are names of these with commas between them: only those, in that order; `none` is none of them.")
        .example("[{ name: max-1, env: { CLAUDE_CONFIG_DIR: ~/.claude-max-1 } }]")
        .env("REGATTA_PROFILES"),
    Key::new("models", Kind::Section(MODEL_KEYS), "", "Which model does what."),
    Key::new("roles", Kind::Section(ROLES), "", "Who plans, and who does which link of a chain."),
    Key::new("chain", Kind::Section(CHAIN_KEYS), "", "How a chain goes on where a link is not content."),
    Key::new("notify", Kind::Rows(NOTIFY_KEYS), "none", "Who is told about what.")
        .example("[{ on: [landed, blocked], webhook: \"https://hooks.example.org/x\" }]"),
];

static AGENT_KEYS: &[Key] = &[
    Key::new(
        "kind",
        Kind::OneOf(AGENT_KINDS),
        "for the built-in ones, their own",
        "`claude` (Claude Code), `codex`, `gemini` (Gemini CLI) and `opencode` are understood by their event streams, `command` is any program that reads the prompt from its standard input, `sim` is the simulated agent.",
    ),
    Key::new("argv", Kind::Texts, "", "Program and arguments. Only for `command`, and required there."),
    Key::new(
        "exe",
        Kind::Text,
        "the kind's name",
        "The program to run. Not for `command`, which has `argv`, nor for `sim`.",
    ),
    Key::new("args", Kind::Texts, "none", "Arguments added to those of Regatta."),
    Key::new("model", Kind::Word, "the program's", "The model, where the program has a choice."),
    Key::new("env", Kind::Variables, "none", "Variables for the program."),
    Key::new(
        "labels",
        Kind::Labels,
        "`models.labels`",
        "The model for tasks with a label, in this program's names.",
    ),
    Key::new(
        "escalation",
        Kind::Texts,
        "`models.escalation`",
        "The ladder of models, in this program's names.",
    ),
    Key::new(
        "follow_ups",
        Kind::Bool,
        "false",
        "Whether `regatta send` may reach tasks of a `command`: what is sent becomes its standard input, which a shell runs.",
    ),
    Key::new(
        "permissions",
        Kind::Section(PERMISSION_KEYS),
        "none",
        "Rules for its tools and commands in every task, as in a task.",
    ),
    Key::new("sandbox", Kind::OneOf(SANDBOXES), "off", "What keeps its commands in, as in a task."),
    Key::new("mcp", Kind::Named(MCP_KEYS), "none", "MCP servers for it in every task, as in a task."),
];

static ROLES: &[Key] = &[
    Key::new("planner", Kind::Section(ROLE_KEYS), "", "Who turns a goal into a plan."),
    Key::new("builder", Kind::Section(ROLE_KEYS), "", "Who does tasks with a `chain` that name no agent."),
    Key::new(
        "verifier",
        Kind::Section(ROLE_KEYS),
        "",
        "Who looks at the work before its checks run again. Without an agent nobody does, and only the checks run.",
    ),
    Key::new("reviewer", Kind::Section(ROLE_KEYS), "", "Who reads the work."),
    Key::new("accepter", Kind::Section(ROLE_KEYS), "", "Who holds the work against what was ordered."),
];

static ROLE_KEYS: &[Key] = &[
    Key::new("agent", Kind::Text, "`default_agent`", "The entry of `agents`.").example(""),
    Key::new("model", Kind::Word, "the agent's", "The model, where the agent has a choice.").example(""),
];

static CHAIN_KEYS: &[Key] = &[Key::new(
    "rounds",
    Kind::Int { min: 0, max: 100 },
    "3",
    "How often the work goes back to its builder with what a link has to say about it. After that it is blocked and waits for a person.",
)];

static LANE_KEYS: &[Key] = &[
    Key::new("include", Kind::OneOrMore, "none", "Untracked files, from the repository root, to copy into every lane. Never committed.").example("[.env]"),
    Key::new("link", Kind::OneOrMore, "none", "Untracked paths to link into every lane. Never committed.").example("[node_modules]"),
    Key::new("setup", Kind::Text, "none", "Command to run in a new lane.").example("\"npm ci\""),
    Key::new("setup_timeout", Kind::Duration, "10m", "How long that command may take."),
    Key::new("setup_inputs", Kind::OneOrMore, "none", "Files that command depends on, names or globs. With them it is not run again in a lane from the pool where these files are the same and what it left in `build_dirs` is still there.").example("[package-lock.json]"),
    Key::new("build_dirs", Kind::OneOrMore, "none", "Ignored directories that stay in a lane when it is used again, names or paths. They hold whatever earlier tasks left in them.").example("[target, node_modules]"),
    Key::new("pool", Kind::Int { min: 0, max: 1000 }, "`max_workers`", "How many lanes that are done with are kept, cleaned, to become the next ones in milliseconds; 0 keeps none. They are the first to go when the disk runs low.").example("8"),
    Key::new("max_kept", Kind::Int { min: 0, max: 100_000 }, "no limit", "How many lanes of settled tasks may stay; past that the oldest go, their work salvaged first.").example("50"),
    Key::new("keep", Kind::OneOf(&["never", "failed", "always"]), "failed", "Which lanes stay when their task is settled: none, those of tasks that neither landed nor are done, or all.").env("REGATTA_LANE_KEEP"),
];

static LAND_KEYS: &[Key] = &[
    Key::new(
        "auto",
        Kind::Bool,
        "`regatta run` lands, the daemon does not",
        "Whether passing work lands when its task does not say.",
    )
    .example("true")
    .env("REGATTA_LAND_AUTO"),
    Key::new("strategy", Kind::OneOf(STRATEGIES), "rebase", "How commits reach the target branch.")
        .env("REGATTA_LAND_STRATEGY"),
    Key::new(
        "test_command",
        Kind::Text,
        "none",
        "Command that must succeed on exactly the commit that lands.",
    )
    .example("\"cargo test\"")
    .env("REGATTA_LAND_TEST_COMMAND"),
    Key::new("test_timeout", Kind::Duration, "30m", "How long that command may take.")
        .env("REGATTA_LAND_TEST_TIMEOUT"),
    Key::new("parallel", Kind::Int { min: 1, max: 64 }, "4", "Candidates tested side by side."),
    Key::new(
        "push",
        Kind::Bool,
        "false",
        "Whether what lands is pushed: the target moves at the remote first, then here.",
    )
    .env("REGATTA_LAND_PUSH"),
    Key::new(
        "retries",
        Kind::Int { min: 0, max: 100 },
        "0",
        "How often a gate that failed is run again before that counts; a pass then is recorded as flaky.",
    ),
    Key::new(
        "bounces",
        Kind::Int { min: 0, max: 20 },
        "none",
        "How often work that conflicts with the target goes back to its agent; unset, once to one that can resume its session.",
    )
    .example("1"),
];

static RADAR_KEYS: &[Key] = &[
    Key::new(
        "enabled",
        Kind::Bool,
        "true",
        "Whether runs and the daemon keep looking. `regatta radar` looks when it is asked, whatever is said here.",
    )
    .env("REGATTA_RADAR_ENABLED"),
    Key::new(
        "interval",
        Kind::Duration,
        "30s",
        "How often lanes are looked at while two or more agents are at work; `none` is only when something ends, lands or joins the train.",
    )
    .env("REGATTA_RADAR_INTERVAL"),
    Key::new(
        "tell",
        Kind::Bool,
        "false",
        "Whether an agent is told, at the start of its next attempt, with whose work its own would conflict.",
    )
    .env("REGATTA_RADAR_TELL"),
];

static ATTACH_KEYS: &[Key] = &[
    Key::new(
        "attach",
        Kind::Bool,
        "true",
        "Whether claude and codex are given `regatta mcp` as the server `regatta`, where they report with `regatta done`: `done`, `progress`, `ask` and others as tools of theirs.",
    )
    .env("REGATTA_MCP_ATTACH"),
];

static WATCH_KEYS: &[Key] = &[
    Key::new("enabled", Kind::Bool, "true", "Whether agents that run are watched.")
        .env("REGATTA_WATCH_ENABLED"),
    Key::new(
        "same_command",
        Kind::Int { min: 0, max: 1000 },
        "3",
        "How often in a row the same call of a tool has to get the same answer; 0 is never.",
    ),
    Key::new(
        "silence",
        Kind::Duration,
        "5m",
        "For how long nothing has to be heard while no tool is open; `none` is never.",
    )
    .env("REGATTA_WATCH_SILENCE"),
    Key::new("tool", Kind::Duration, "30m", "For how long a tool has to be open; `none` is never."),
    Key::new(
        "turns_without_change",
        Kind::Int { min: 0, max: 100_000 },
        "30",
        "How many turns in a row have to leave every file of the lane as it was; 0 is never.",
    ),
    Key::new(
        "denials",
        Kind::Int { min: 0, max: 1000 },
        "3",
        "How many calls have to be refused by the agent's permission rules; 0 is never.",
    ),
];

static LIMIT_KEYS: &[Key] = &[
    Key::new("groups", Kind::Counts, "none", "How many tasks of each `concurrency_group` may run at once.")
        .example("{ db: 1 }"),
    Key::new("stagger", Kind::Duration, "none", "Pause between two starts.").example("2s"),
    Key::new(
        "min_free_memory_gb",
        Kind::Number,
        "none",
        "Start nothing while less memory than this is available.",
    )
    .example("2"),
    Key::new(
        "max_load",
        Kind::Number,
        "none",
        "Start nothing while the load of the last minute is above this.",
    )
    .example("8"),
    Key::new(
        "min_free_disk_gb",
        Kind::Number,
        "none",
        "Start nothing while less disk than this is free where lanes are made.",
    )
    .example("5"),
    Key::new(
        "max_log_mb",
        Kind::Int { min: 4, max: 1_000_000 },
        "256",
        "How many megabytes of disk each log of an attempt takes at most, one for standard output and one for standard error. Of a longer one the beginning and the end stay.",
    ),
    Key::new(
        "budget_usd",
        Kind::Number,
        "none",
        "What all attempts together may cost: those of a `regatta run`, or those of the daemon in one day.",
    )
    .example("50"),
];

static BUDGET_KEYS: &[Key] = &[
    Key::new(
        "task",
        Kind::Section(CEILING_KEYS),
        "none",
        "What all attempts of one task may use, `usd` or `tokens` or both, unless the task says so itself.",
    )
    .example("{ usd: 5, tokens: 4000000 }"),
    Key::new("plan", Kind::Section(CEILING_KEYS), "none", "What all tasks of one plan may use together.")
        .example("{ usd: 40 }"),
    Key::new(
        "day",
        Kind::Section(CEILING_KEYS),
        "none",
        "What everything may use in one day of this machine's calendar.",
    )
    .example("{ usd: 100 }"),
    Key::new("warn_at", Kind::Number, "0.8", "From which share of a budget on people are told."),
    Key::new(
        "stop_at",
        Kind::Number,
        "1.1",
        "From which share on agents at work are stopped. From 1 on nothing new starts; what runs may end until here.",
    ),
];

static CEILING_KEYS: &[Key] = &[
    Key::new("usd", Kind::Number, "none", "Dollars."),
    Key::new("tokens", Kind::Int { min: 0, max: MAX_TOKENS }, "none", "Tokens, read and written."),
];

/// Largest accepted number of tokens.
pub(crate) const MAX_TOKENS: i64 = 1_000_000_000_000;

static PROFILE_KEYS: &[Key] = &[
    Key::new("name", Kind::Word, "", "The profile's name. Required."),
    Key::new(
        "env",
        Kind::Variables,
        "none",
        "Variables that select the account, over those of the agent. `~/` at the beginning of a value is the home directory.",
    ),
    Key::new(
        "agents",
        Kind::Names,
        "by its variables, else all",
        "The agents that may use it, by name or kind. Unset, `CLAUDE_CONFIG_DIR` and claude's keys mean `claude`, and so on.",
    )
    .example("[claude]"),
];

static MODEL_KEYS: &[Key] = &[
    Key::new("default", Kind::Word, "the program's", "The model of agents whose entry names none.")
        .example("sonnet"),
    Key::new("labels", Kind::Labels, "none", "The model for tasks with a label; the first of a task's labels that stands here counts.")
        .example("{ documentation: haiku }"),
    Key::new("escalation", Kind::Texts, "none", "Models from the cheapest to the best: one step up after every failure of the work. One that does not stand here stays; where none is named at all, the first one begins.")
        .example("[haiku, sonnet, opus]"),
    Key::new("prices", Kind::Named(PRICE_KEYS), "none", "Dollars per million tokens, `in`, `out` and `cached_input`, for models whose agent does not count dollars itself.")
        .example("{ gpt-5: { in: 1.25, cached_input: 0.125, out: 10 } }"),
];

static PRICE_KEYS: &[Key] = &[
    Key::new("in", Kind::Number, "", "Dollars for a million tokens read. Required."),
    Key::new("out", Kind::Number, "", "Dollars for a million tokens written. Required."),
    Key::new(
        "cached_input",
        Kind::Number,
        "",
        "Dollars for a million tokens read from a cache; as `in` where it is not given.",
    ),
];

static NOTIFY_KEYS: &[Key] = &[
    Key::new(
        "on",
        Kind::OneOrMore,
        "",
        "What to tell about: `landed`, `done`, `blocked`, `failed`, `parked`, `needs-input`, `conflict-ahead`, `budget`, `idle`. Required.",
    ),
    Key::new(
        "webhook",
        Kind::Text,
        "",
        "An `https` address that is sent a JSON object. A row has exactly one of `webhook`, `command`, `desktop` and `log`.",
    ),
    Key::new(
        "allow_private",
        Kind::Bool,
        "false",
        "Whether the webhook may be on this machine or its network; there `http` will do.",
    ),
    Key::new("command", Kind::Texts, "", "Program and arguments; the JSON object is its standard input."),
    Key::new("desktop", Kind::Bool, "", "`true` shows it on the desktop, through `notify-send`."),
    Key::new("log", Kind::Bool, "", "`true` writes a line among those of the run or the daemon."),
];
