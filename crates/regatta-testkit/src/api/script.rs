//! The model's answers, turn by turn.

use serde_json::{Value, json};

use super::asked::Asked;
use super::dialect::Dialect;

/// One answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Turn {
    /// Text, and nothing more to do.
    Say(String),
    /// A shell command to run.
    Run(String),
    /// A shell command to leave running in the background.
    Background(String),
    /// A file to write with the client's own tool, relative to its directory.
    Write {
        /// The path.
        path: String,
        /// The content.
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
    /// Only an error status.
    Refuse(Refusal),
    /// The answer starts and never continues.
    Stall,
    /// The answer starts, and the connection breaks.
    Break,
}

/// Why a request is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Too many requests; retry after this many seconds.
    Traffic(u64),
    /// The account's allowance is used up until this second since 1970.
    UsageLimit(u64),
    /// The server is overloaded.
    Overloaded,
    /// The key is wrong.
    Login,
}

/// The turns of one conversation, and the answer after the last of them.
#[derive(Clone, Debug)]
pub struct Script {
    turns: Vec<Turn>,
    last: Option<Turn>,
    taken: usize,
}

impl Script {
    /// These turns; a further request gets an answer that says there are none left.
    pub fn of(turns: impl IntoIterator<Item = Turn>) -> Self {
        Self { turns: turns.into_iter().collect(), last: None, taken: 0 }
    }

    /// The same answer every time.
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
    /// A text.
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

/// The tag in a prompt that selects this script.
pub fn tag(script: &str) -> String {
    format!("[[script {script}]]")
}

/// The script that a text names.
pub(super) fn tag_in(text: &str) -> Option<&str> {
    let (_, rest) = text.split_once("[[script ")?;
    Some(rest.split_once("]]")?.0)
}

/// A part of an answer, independent of the dialect.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Part {
    Text(String),
    Call { tool: String, input: Value },
}

/// The answer to `asked`, using the tools that its client has.
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

/// Clients name the tools of servers alike. Those that speak Responses let the model search for them first, but also
/// accept a call without a search.
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
    // Some clients accept only absolute paths; all of those tell the model their directory.
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
