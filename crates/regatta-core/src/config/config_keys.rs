//! The rows of `regatta.yaml`.

use super::bounds::{MCP_KEYS, PERMISSION_KEYS, SANDBOXES};
use super::github::GITHUB_KEYS;
use super::keys::{Key, Kind};
use super::pull_requests::{PULL_REQUEST_KEYS, WAYS};
use super::repos::REPO_KEYS;
use super::sandbox::SANDBOX_KEYS;
use super::task_keys::KeyPlace;

/// The kinds of agent this version can run.
pub(crate) const AGENT_KINDS: &[&str] = &["claude", "codex", "gemini", "opencode", "command", "sim"];
/// The landing strategies, and another word for `via: pr`.
pub(crate) const STRATEGIES: &[&str] = &["rebase", "squash", "merge", "pr"];

/// Every key of `regatta.yaml`.
pub static CONFIG_KEYS: &[Key] = &[
    Key::new("version", Kind::Int { min: 1, max: 1 }, "1", "The version of this file's format."),
    Key::new("target", Kind::Word, "decided by the first run", "The branch that work lands on. If it is not set, the first run decides, and the decision stays: the default branch of `origin` if it exists here, otherwise the branch that is checked out.")
        .example("main")
        .env("REGATTA_TARGET"),
    Key::new("store", Kind::Word, "sqlite", "Where tasks and events are stored: `sqlite`, `sqlite:PATH`, `postgres://USER@HOST/DATABASE` or `zookeeper://HOST,HOST/CHROOT`.").env("REGATTA_STORE"),
    Key::new(
        "hub",
        Kind::Word,
        "none with `sqlite`; otherwise `origin`, or the only remote",
        "The git repository through which machines share work: the name of a remote, a path, an address that git understands, or `none`. A relative path starts at the repository root.",
    )
    .example("origin")
    .env("REGATTA_HUB"),
    Key::new("hub_checkpoint", Kind::Duration, "5m", "How often the unfinished work of running agents is saved at the hub, if it changed. `none` saves nothing before an attempt ends."),
    Key::new("hub_patience", Kind::Duration, "none", "How long finished work waits for a hub that cannot be reached. After that its task is parked, and its agent starts again later."),
    Key::new(
        "lanes_root",
        Kind::Text,
        "../{repo}.lanes",
        "Directory of the lanes, relative to this file's directory; `{repo}` is the repository's name.",
    )
    .example("\"../{repo}.lanes\"")
    .env("REGATTA_LANES_ROOT"),
    Key::new("max_workers", Kind::Int { min: 1, max: 1024 }, "4", "How many attempts can run at the same time; where machines share the store, on each of them.")
        .env("REGATTA_MAX_WORKERS"),
    Key::new(
        "agents",
        Kind::Named(AGENT_KEYS),
        "`claude`, `codex`, `gemini`, `opencode`, `sim` and `sh`",
        "The programs that do the work, by name. Entries for built-in agents change them.",
    )
    .example("{ claude: { kind: claude, args: [] }, sh: { kind: command, argv: [sh] } }"),
    Key::new("default_agent", Kind::Text, "claude", "The agent for tasks that do not name one.")
        .env("REGATTA_DEFAULT_AGENT"),
    Key::new(
        "defaults",
        Kind::Defaults(KeyPlace::ConfigDefaults),
        "",
        "Default task keys. A task can override each of them.",
    ),
    Key::new("repos", Kind::Rows(REPO_KEYS), "none", "The repositories of the project, if it has several: one store, one daemon, and one train for each repository and target.")
        .example("[{ name: shared, path: ../shared }, { name: api, path: ../api, depends_on: [shared] }]"),
    Key::new("lane", Kind::Section(LANE_KEYS), "", "How a lane is prepared."),
    Key::new("land", Kind::Section(LAND_KEYS), "", "How work reaches the target branch."),
    Key::new("github", Kind::Section(GITHUB_KEYS), "", "How Regatta uses GitHub."),
    Key::new(
        "radar",
        Kind::Section(RADAR_KEYS),
        "",
        "How Regatta finds conflicts while agents are still working.",
    ),
    Key::new(
        "watch",
        Kind::Section(WATCH_KEYS),
        "",
        "Signs that a running agent may need attention. You are notified; the agent is never stopped.",
    ),
    Key::new("mcp", Kind::Section(ATTACH_KEYS), "", "Regatta's own MCP server for its agents. To add other servers, use `mcp` in an agent or in a task."),
    Key::new("sandbox", Kind::Section(SANDBOX_KEYS), "", "What agents, `lane.setup`, checks, hooks and gates can reach."),
    Key::new("limits", Kind::Section(LIMIT_KEYS), "", "Limits on what runs at the same time, and on disk use."),
    Key::new("budget", Kind::Section(BUDGET_KEYS), "", "Budgets, in dollars and in tokens."),
    Key::new("profiles", Kind::Rows(PROFILE_KEYS), "none", "Accounts that agents rotate through. The environment variable and `--profiles` take names of these, separated by commas, and use only those, in that order; `none` uses no account.")
        .example("[{ name: max-1, env: { CLAUDE_CONFIG_DIR: ~/.claude-max-1 } }]")
        .env("REGATTA_PROFILES"),
    Key::new("models", Kind::Section(MODEL_KEYS), "", "Which model is used for which work."),
    Key::new("roles", Kind::Section(ROLES), "", "Which agent plans, and which agent does each link of a chain."),
    Key::new("chain", Kind::Section(CHAIN_KEYS), "", "What happens when a link of a chain asks for changes."),
    Key::new("notify", Kind::Rows(NOTIFY_KEYS), "none", "Where to send notifications, and about what.")
        .example("[{ on: [landed, blocked], webhook: \"https://hooks.example.org/x\" }]"),
];

static AGENT_KEYS: &[Key] = &[
    Key::new(
        "kind",
        Kind::OneOf(AGENT_KINDS),
        "for the built-in ones, their own",
        "`claude` (Claude Code), `codex`, `gemini` (Gemini CLI) and `opencode` are read through their event streams. `command` is any program that reads the prompt from standard input. `sim` is the simulated agent.",
    ),
    Key::new("argv", Kind::Texts, "", "Program and arguments. Only for `command`, where it is required."),
    Key::new(
        "exe",
        Kind::Text,
        "the kind's name",
        "The program to run. Not for `command`, which has `argv`, nor for `sim`.",
    ),
    Key::new("args", Kind::Texts, "none", "Arguments to add to those that Regatta passes."),
    Key::new("model", Kind::Word, "the program's", "The model, if the program has a choice."),
    Key::new("env", Kind::Variables, "none", "Environment variables for the program."),
    Key::new(
        "labels",
        Kind::Labels,
        "`models.labels`",
        "The model for tasks with a label, by this program's model names.",
    ),
    Key::new(
        "escalation",
        Kind::Texts,
        "`models.escalation`",
        "The escalation ladder, by this program's model names.",
    ),
    Key::new(
        "follow_ups",
        Kind::Bool,
        "false",
        "Whether `regatta send` may reach tasks of a `command` agent. The message becomes its standard input, and a shell would run it.",
    ),
    Key::new(
        "permissions",
        Kind::Section(PERMISSION_KEYS),
        "none",
        "Rules for its tools and commands in every task. The keys are those of a task.",
    ),
    Key::new(
        "sandbox",
        Kind::OneOf(SANDBOXES),
        "workspace",
        "What it is kept in. The values are those of a task.",
    ),
    Key::new(
        "mcp",
        Kind::Named(MCP_KEYS),
        "none",
        "MCP servers for it in every task. The keys are those of a task.",
    ),
];

static ROLES: &[Key] = &[
    Key::new("planner", Kind::Section(ROLE_KEYS), "", "The agent that turns a goal into a plan."),
    Key::new(
        "builder",
        Kind::Section(ROLE_KEYS),
        "",
        "The agent for tasks with a `chain` that do not name one.",
    ),
    Key::new(
        "verifier",
        Kind::Section(ROLE_KEYS),
        "",
        "The agent that examines the work before its checks run again. Without one, only the checks run.",
    ),
    Key::new("reviewer", Kind::Section(ROLE_KEYS), "", "The agent that reviews the work."),
    Key::new("accepter", Kind::Section(ROLE_KEYS), "", "The agent that compares the work with the order."),
];

static ROLE_KEYS: &[Key] = &[
    Key::new("agent", Kind::Text, "`default_agent`", "The entry of `agents`.").example(""),
    Key::new("model", Kind::Word, "the agent's", "The model, if the agent has a choice.").example(""),
];

static CHAIN_KEYS: &[Key] = &[Key::new(
    "rounds",
    Kind::Int { min: 0, max: 100 },
    "3",
    "How often a link can send the work back to its builder. After that the task is blocked and needs a person.",
)];

static LANE_KEYS: &[Key] = &[
    Key::new("include", Kind::OneOrMore, "none", "Untracked files to copy from the repository root into every lane. They are never committed.").example("[.env]"),
    Key::new("link", Kind::OneOrMore, "none", "Untracked paths to link into every lane. They are never committed.").example("[node_modules]"),
    Key::new("setup", Kind::Text, "none", "Command to run in a new lane.").example("\"npm ci\""),
    Key::new("setup_timeout", Kind::Duration, "10m", "Time limit for `setup`."),
    Key::new("setup_inputs", Kind::OneOrMore, "none", "Files that `setup` depends on, as names or globs. If they are set, `setup` is skipped in a pooled lane where these files are unchanged and the content of `build_dirs` is still there.").example("[package-lock.json]"),
    Key::new("build_dirs", Kind::OneOrMore, "none", "Ignored directories that stay in a lane when it is used again, as names or paths. They keep what earlier tasks left in them.").example("[target, node_modules]"),
    Key::new("pool", Kind::Int { min: 0, max: 1000 }, "`max_workers`", "How many used lanes to keep, cleaned, so that the next task gets its lane in milliseconds; 0 keeps none. They are the first to be removed when the disk runs low.").example("8"),
    Key::new("max_kept", Kind::Int { min: 0, max: 100_000 }, "no limit", "How many lanes of settled tasks to keep. Beyond that the oldest are removed, after their work is saved.").example("50"),
    Key::new("keep", Kind::OneOf(&["never", "failed", "always"]), "failed", "Which lanes to keep when their task is settled: none, those of tasks that are neither landed nor done, or all.").env("REGATTA_LANE_KEEP"),
];

pub(super) static LAND_KEYS: &[Key] = &[
    Key::new(
        "auto",
        Kind::Bool,
        "`regatta run` lands, the daemon does not",
        "Whether work that passes lands, if its task does not say.",
    )
    .example("true")
    .env("REGATTA_LAND_AUTO"),
    Key::new("via", Kind::OneOf(WAYS), "here", "Which way work takes to the target branch. `here`: Regatta moves the branch. `push`: the same, and the remote's branch first. `pr`: by pull requests, which are merged on GitHub.")
        .env("REGATTA_LAND_VIA"),
    Key::new("strategy", Kind::OneOf(STRATEGIES), "rebase", "How commits reach the target branch, also by pull requests. `pr` means the same as `via: pr`.")
        .env("REGATTA_LAND_STRATEGY"),
    Key::new(
        "test_command",
        Kind::Text,
        "none",
        "The gate: a command that must succeed on exactly the commit that lands.",
    )
    .example("\"cargo test\"")
    .env("REGATTA_LAND_TEST_COMMAND"),
    Key::new("test_timeout", Kind::Duration, "30m", "Time limit for `test_command`.")
        .env("REGATTA_LAND_TEST_TIMEOUT"),
    Key::new("parallel", Kind::Int { min: 1, max: 64 }, "4", "How many candidates are tested at the same time."),
    Key::new(
        "push",
        Kind::Bool,
        "false",
        "Whether to push what lands, as with `via: push`. The target moves at the remote first, then here. Where a `hub` is used, work always lands there, and this must not name another remote.",
    )
    .env("REGATTA_LAND_PUSH"),
    Key::new(
        "fence",
        Kind::OneOf(&["atomic", "best-effort"]),
        "atomic",
        "What a landing at the `hub` requires. `atomic`: one push moves the target and the fence, so that a replaced lander can land nothing; a hub without atomic pushes is refused. `best-effort`: such a hub is used all the same, with two pushes.",
    ),
    Key::new(
        "retries",
        Kind::Int { min: 0, max: 100 },
        "0",
        "How often to repeat a failed gate before the failure counts. A pass after a failure is recorded as flaky.",
    ),
    Key::new(
        "bounces",
        Kind::Int { min: 0, max: 20 },
        "none",
        "How often work that conflicts with the target goes back to its agent. If it is not set: once, if the agent can resume its session.",
    )
    .example("1"),
    Key::new(
        "guard",
        Kind::OneOrMore,
        "none",
        "More files that only a person lands, as paths or globs. Work that changes `regatta.yaml`, `.worktreeinclude`, the repository's own hooks or the settings of your own agents in it always waits for `regatta land ID`.",
    )
    .example("[.github, Dockerfile]"),
    Key::new("pr", Kind::Section(PULL_REQUEST_KEYS), "", "Pull requests, with `via: pr`.")
        .example("{ merge: approved }"),
];

static RADAR_KEYS: &[Key] = &[
    Key::new(
        "enabled",
        Kind::Bool,
        "true",
        "Whether runs and the daemon check for conflicts. `regatta radar` works in either case.",
    )
    .env("REGATTA_RADAR_ENABLED"),
    Key::new(
        "interval",
        Kind::Duration,
        "30s",
        "How often to check while two or more agents are running; `none` checks only when a task ends, lands or joins the train.",
    )
    .env("REGATTA_RADAR_INTERVAL"),
    Key::new(
        "tell",
        Kind::Bool,
        "false",
        "Whether an agent's next prompt names the tasks that its work would conflict with.",
    )
    .env("REGATTA_RADAR_TELL"),
];

static ATTACH_KEYS: &[Key] = &[
    Key::new(
        "attach",
        Kind::Bool,
        "true",
        "Whether claude and codex get Regatta's MCP server, so that `done`, `progress`, `ask` and others are tools of theirs.",
    )
    .env("REGATTA_MCP_ATTACH"),
];

static WATCH_KEYS: &[Key] = &[
    Key::new("enabled", Kind::Bool, "true", "Whether to watch running agents.").env("REGATTA_WATCH_ENABLED"),
    Key::new(
        "same_command",
        Kind::Int { min: 0, max: 1000 },
        "3",
        "Warn after this many identical tool calls in a row with the same answer; 0 turns the warning off.",
    ),
    Key::new(
        "silence",
        Kind::Duration,
        "5m",
        "Warn after this much silence while no tool is running; `none` turns the warning off.",
    )
    .env("REGATTA_WATCH_SILENCE"),
    Key::new(
        "tool",
        Kind::Duration,
        "30m",
        "Warn when a tool has been running for this long; `none` turns the warning off.",
    ),
    Key::new(
        "turns_without_change",
        Kind::Int { min: 0, max: 100_000 },
        "30",
        "Warn after this many turns in a row that change no file; 0 turns the warning off.",
    ),
    Key::new(
        "denials",
        Kind::Int { min: 0, max: 1000 },
        "3",
        "Warn after the agent's permission rules refused this many calls; 0 turns the warning off.",
    ),
];

static LIMIT_KEYS: &[Key] = &[
    Key::new("groups", Kind::Counts, "none", "How many tasks of each `concurrency_group` can run at the same time.")
        .example("{ db: 1 }"),
    Key::new("workers_total", Kind::Int { min: 1, max: 100_000 }, "none", "How many attempts can run at the same time on all nodes that share the store. `max_workers`, or `slots` in `node.yaml`, limits each node.")
        .example("64"),
    Key::new("stagger", Kind::Duration, "none", "Minimum time between two starts.").example("2s"),
    Key::new(
        "min_free_memory_gb",
        Kind::Number,
        "none",
        "Start no agent while less memory than this is available.",
    )
    .example("2"),
    Key::new(
        "max_load",
        Kind::Number,
        "none",
        "Start no agent while the load average of the last minute is above this.",
    )
    .example("8"),
    Key::new(
        "min_free_disk_gb",
        Kind::Number,
        "none",
        "Start no agent while the disk of the lanes has less free space than this.",
    )
    .example("5"),
    Key::new(
        "max_log_mb",
        Kind::Int { min: 4, max: 1_000_000 },
        "256",
        "Maximum size of each log on disk, in megabytes. An attempt has one for standard output and one for standard error. A longer log keeps its beginning and its end.",
    ),
    Key::new(
        "budget_usd",
        Kind::Number,
        "none",
        "Maximum cost of all attempts together: those of one `regatta run`, or those of the daemon in one day.",
    )
    .example("50"),
];

static BUDGET_KEYS: &[Key] = &[
    Key::new(
        "task",
        Kind::Section(CEILING_KEYS),
        "none",
        "Budget for all attempts of one task: `usd`, `tokens` or both. A task can set its own.",
    )
    .example("{ usd: 5, tokens: 4000000 }"),
    Key::new("plan", Kind::Section(CEILING_KEYS), "none", "Budget for all tasks of one plan together.")
        .example("{ usd: 40 }"),
    Key::new(
        "day",
        Kind::Section(CEILING_KEYS),
        "none",
        "Budget for everything in one calendar day of this machine.",
    )
    .example("{ usd: 100 }"),
    Key::new("warn_at", Kind::Number, "0.8", "Notify when this share of a budget is used."),
    Key::new(
        "stop_at",
        Kind::Number,
        "1.1",
        "Stop running agents when this share of a budget is used. At a share of 1 no new agent starts, and running agents may finish.",
    ),
];

static CEILING_KEYS: &[Key] = &[
    Key::new("usd", Kind::Number, "none", "Dollars."),
    Key::new("tokens", Kind::Int { min: 0, max: MAX_TOKENS }, "none", "Tokens, input and output."),
];

/// Largest accepted number of tokens.
pub(crate) const MAX_TOKENS: i64 = 1_000_000_000_000;

static PROFILE_KEYS: &[Key] = &[
    Key::new("name", Kind::Word, "", "The name of the profile. Required."),
    Key::new(
        "env",
        Kind::Variables,
        "none",
        "Environment variables that select the account; they override those of the agent. `~/` at the beginning of a value means the home directory.",
    ),
    Key::new(
        "agents",
        Kind::Names,
        "by its variables, else all",
        "The agents that can use it, by name or kind. If it is not set, the variables decide: `CLAUDE_CONFIG_DIR` and claude's keys mean `claude`, and so on.",
    )
    .example("[claude]"),
];

static MODEL_KEYS: &[Key] = &[
    Key::new("default", Kind::Word, "the program's", "The model for agents that do not name one.")
        .example("sonnet"),
    Key::new("labels", Kind::Labels, "none", "The model for tasks with a label. The first label of a task that is listed here decides.")
        .example("{ documentation: haiku }"),
    Key::new("escalation", Kind::Texts, "none", "Models from the cheapest to the best. Every failure of the work moves one step up. A task whose model is not listed keeps it; a task without a model starts with the first.")
        .example("[haiku, sonnet, opus]"),
    Key::new("prices", Kind::Named(PRICE_KEYS), "none", "Dollars per million tokens (`in`, `out` and `cached_input`), for models whose agent does not report dollars.")
        .example("{ gpt-5: { in: 1.25, cached_input: 0.125, out: 10 } }"),
];

static PRICE_KEYS: &[Key] = &[
    Key::new("in", Kind::Number, "", "Dollars for a million input tokens. Required."),
    Key::new("out", Kind::Number, "", "Dollars for a million output tokens. Required."),
    Key::new(
        "cached_input",
        Kind::Number,
        "",
        "Dollars for a million cached input tokens; the default is `in`.",
    ),
];

static NOTIFY_KEYS: &[Key] = &[
    Key::new(
        "on",
        Kind::OneOrMore,
        "",
        "Events to notify about: `landed`, `done`, `blocked`, `failed`, `parked`, `needs-input`, `conflict-ahead`, `budget`, `proposed`, `review-wanted`, `ready`, `declined`, `unserved`, `node-joined`, `node-lost`, `idle`. Required.",
    ),
    Key::new(
        "webhook",
        Kind::Text,
        "",
        "An `https` address that receives a JSON object. An entry has exactly one of `webhook`, `command`, `desktop`, `log` and `github`.",
    ),
    Key::new(
        "allow_private",
        Kind::Bool,
        "false",
        "Whether the webhook may be on this machine or in its network; `http` is allowed there.",
    ),
    Key::new("command", Kind::Texts, "", "Program and arguments. The JSON object is its standard input."),
    Key::new("desktop", Kind::Bool, "", "`true` shows a desktop notification, with `notify-send`."),
    Key::new("log", Kind::Bool, "", "`true` prints a line in the output of the run or the daemon."),
    Key::new(
        "github",
        Kind::OneOf(&["comment"]),
        "",
        "`comment` keeps one comment on the pull request of each task and edits it. Tasks without a pull request get none.",
    ),
];
