//! What the model says, turn by turn.

use serde_json::{Value, json};

use super::asked::Asked;
use super::dialect::Dialect;

/// One answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Turn {
    /// Words, and nothing more to do.
    Say(String),
    /// A shell command to run.
    Run(String),
    /// A shell command to leave running in the background.
    Background(String),
    /// A file to write with the client's own tool for that, relative to its directory.
    Write {
        /// Where.
        path: String,
        /// What.
        text: String,
    },
    /// A tool of an MCP server to call.
    Call {
        /// The server.
        server: String,
        /// Its tool.
        tool: String,
        /// The arguments, as JSON.
        input: String,
    },
    /// No answer but a status.
    Refuse(Refusal),
    /// The answer begins, and never goes on.
    Stall,
    /// The answer begins, and the connection breaks.
    Break,
}

/// Why a request is turned away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Too many at once; come back after that many seconds.
    Traffic(u64),
    /// The account's allowance is spent until this second since 1970.
    UsageLimit(u64),
    /// The server has too much to do.
    Overloaded,
    /// The key is wrong.
    Login,
}

/// The turns of one conversation, and what is answered when they have all been taken.
#[derive(Clone, Debug)]
pub struct Script {
    turns: Vec<Turn>,
    last: Option<Turn>,
    taken: usize,
}

impl Script {
    /// These turns; whoever asks for more is told that there are none.
    pub fn of(turns: impl IntoIterator<Item = Turn>) -> Self {
        Self { turns: turns.into_iter().collect(), last: None, taken: 0 }
    }

    /// The same answer for ever.
    pub fn always(turn: Turn) -> Self {
        Self { turns: Vec::new(), last: Some(turn), taken: 0 }
    }

    /// How many requests it has answered.
    pub(super) fn taken(&self) -> usize {
        self.taken
    }

    pub(super) fn next(&mut self) -> Option<Turn> {
        let turn = self.turns.get(self.taken).or(self.last.as_ref()).cloned();
        self.taken += 1;
        turn
    }
}

impl Turn {
    /// Words.
    pub fn say(words: &str) -> Self {
        Turn::Say(words.to_owned())
    }

    /// A shell command.
    pub fn run(command: &str) -> Self {
        Turn::Run(command.to_owned())
    }

    /// A tool of an MCP server.
    pub fn call(server: &str, tool: &str, input: &Value) -> Self {
        Turn::Call { server: server.to_owned(), tool: tool.to_owned(), input: input.to_string() }
    }

    /// A file.
    pub fn write(path: &str, text: &str) -> Self {
        Turn::Write { path: path.to_owned(), text: text.to_owned() }
    }
}

/// What a prompt has in it so that this script answers it.
pub fn tag(script: &str) -> String {
    format!("[[script {script}]]")
}

/// The script that a text asks for.
pub(super) fn tag_in(text: &str) -> Option<&str> {
    let (_, rest) = text.split_once("[[script ")?;
    Some(rest.split_once("]]")?.0)
}

/// A piece of an answer, in no dialect yet.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Part {
    Text(String),
    Call { tool: String, input: Value },
}

/// The answer to `asked`, with the tools that its client has.
pub(super) fn parts(turn: &Turn, asked: &Asked) -> Vec<Part> {
    let call = match turn {
        Turn::Say(words) => return vec![Part::Text(words.clone())],
        Turn::Stall | Turn::Break => return vec![Part::Text("I was about to".to_owned())],
        Turn::Refuse(_) => return Vec::new(),
        Turn::Run(command) => run(command, asked),
        Turn::Background(command) => run(command, asked).map(|(tool, mut input)| {
            input["run_in_background"] = true.into();
            (tool, input)
        }),
        Turn::Write { path, text } => write(path, text, asked),
        Turn::Call { server, tool, input } => call(server, tool, input, asked),
    };
    let Some((tool, input)) = call else {
        return vec![Part::Text(format!("none of my tools can do that: {:?}", asked.tool_names()))];
    };
    vec![Part::Text("I will use a tool.".to_owned()), Part::Call { tool, input }]
}

fn run(command: &str, asked: &Asked) -> Option<(String, Value)> {
    let known = ["Bash", "bash", "run_shell_command", "exec_command", "shell_command"];
    let tool = known.into_iter().find(|name| asked.has_tool(name))?;
    let mut input = serde_json::Map::new();
    let argument = if asked.tool_takes(tool, "cmd") { "cmd" } else { "command" };
    input.insert(argument.to_owned(), command.into());
    if asked.tool_takes(tool, "description") {
        input.insert("description".to_owned(), "what the script says".into());
    }
    Some((tool.to_owned(), input.into()))
}

/// Clients name the tools of servers alike; those that speak Responses let the model search for them first, and take a
/// call without that too.
fn call(server: &str, tool: &str, input: &str, asked: &Asked) -> Option<(String, Value)> {
    let name = format!("mcp__{server}__{tool}");
    let is_known = asked.dialect == Dialect::Responses || asked.has_tool(&name);
    let input = serde_json::from_str(input).expect("arguments are JSON");
    is_known.then_some((name, input))
}

fn write(path: &str, text: &str, asked: &Asked) -> Option<(String, Value)> {
    if asked.dialect == Dialect::Responses {
        let lines: String = text.lines().map(|line| format!("+{line}\n")).collect();
        let patch = format!("*** Begin Patch\n*** Add File: {path}\n{lines}*** End Patch");
        return asked.has_tool("apply_patch").then(|| ("apply_patch".to_owned(), patch.into()));
    }
    let tool = ["Write", "write", "write_file"].into_iter().find(|name| asked.has_tool(name))?;
    let argument = ["file_path", "filePath"].into_iter().find(|name| asked.tool_takes(tool, name))?;
    // Some take only whole paths; all of those tell the model where they are.
    let path = asked.working_directory().map_or_else(|| path.to_owned(), |dir| format!("{dir}/{path}"));
    Some((tool.to_owned(), json!({ argument: path, "content": text })))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turns_are_taken_in_order_and_the_last_one_of_always_stays() {
        let mut script = Script::of([Turn::say("a"), Turn::Stall]);
        assert_eq!(
            [script.next(), script.next(), script.next()],
            [Some(Turn::say("a")), Some(Turn::Stall), None]
        );
        let mut always = Script::always(Turn::Break);
        assert_eq!([always.next(), always.next()], [Some(Turn::Break), Some(Turn::Break)]);
        assert_eq!(always.taken(), 2);
    }

    #[test]
    fn a_tag_is_found_where_it_stands() {
        assert_eq!(tag_in(&format!("do it {} now", tag("edit-claude"))), Some("edit-claude"));
        assert_eq!(tag_in("[[script torn"), None);
    }
}
