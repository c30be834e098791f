//! A model request in any dialect, reduced to what a script and a test need to know.

use serde_json::Value;

use super::dialect::Dialect;
use super::script::tag_in;

/// An earlier item of the conversation, as the client repeats it to the model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Said {
    /// From the user, or on behalf of one.
    User(String),
    /// From the model.
    Model(String),
    /// A tool call of the model, with its input.
    Call(String),
    /// The result of a tool call.
    Outcome(String),
}

/// A request.
#[derive(Clone, Debug)]
pub struct Asked {
    /// Its protocol.
    pub dialect: Dialect,
    /// The requested model.
    pub model: String,
    /// Whether the answer is streamed.
    pub streams: bool,
    /// The conversation so far.
    pub said: Vec<Said>,
    /// The key of the request.
    pub key: String,
    tools: Vec<Value>,
    system: String,
}

impl Asked {
    /// Parses a request; `path` gives the protocol. `None` if it does not ask for an answer.
    pub(super) fn read(path: &str, body: &Value, key: String) -> Option<Self> {
        if path.ends_with("/messages") {
            Some(Self::messages(body, key))
        } else if path.ends_with("/responses") {
            Some(Self::responses(body, key))
        } else {
            let (model, method) = path.split_once("/models/")?.1.split_once(':')?;
            method.ends_with("enerateContent").then(|| Self::gemini(model, method, body, key))
        }
    }

    /// The script that the conversation names.
    pub fn script(&self) -> Option<&str> {
        self.said.iter().find_map(|said| match said {
            Said::User(text) => tag_in(text),
            _ => None,
        })
    }

    /// Whether the conversation contains `part`.
    pub fn mentions(&self, part: &str) -> bool {
        self.said.iter().any(|said| said.text().contains(part))
    }

    /// Whether it is a side request, such as for a title or a summary: those offer no tools.
    pub(super) fn is_aside(&self) -> bool {
        self.tools.is_empty()
    }

    /// The names of its tools.
    pub fn tool_names(&self) -> Vec<&str> {
        self.tools.iter().filter_map(name_of).collect()
    }

    pub(super) fn has_tool(&self, name: &str) -> bool {
        self.tool(name).is_some()
    }

    /// Whether the tool has an argument with that name.
    pub(super) fn tool_takes(&self, tool: &str, argument: &str) -> bool {
        let schemas = ["input_schema", "parameters", "parametersJsonSchema"];
        let tool = self.tool(tool);
        schemas
            .into_iter()
            .any(|schema| tool.is_some_and(|tool| tool[schema]["properties"].get(argument).is_some()))
    }

    /// Whether the tool takes free text instead of JSON.
    pub(super) fn takes_text(&self, tool: &str) -> bool {
        self.tool(tool).is_some_and(|tool| tool["type"] == "custom")
    }

    /// The working directory that the client reports.
    pub(super) fn working_directory(&self) -> Option<&str> {
        let texts = std::iter::once(self.system.as_str()).chain(self.said.iter().map(Said::text));
        texts.into_iter().find_map(|text| {
            let (_, rest) = text.split_once("orking directory: /")?;
            let length = rest.find(['\n', '<', '"']).unwrap_or(rest.len());
            let start = rest.as_ptr() as usize - text.as_ptr() as usize - 1;
            Some(text[start..=start + length].trim_end())
        })
    }

    fn tool(&self, name: &str) -> Option<&Value> {
        self.tools.iter().find(|tool| name_of(tool) == Some(name))
    }

    fn messages(body: &Value, key: String) -> Self {
        let mut said = Vec::new();
        for message in list(&body["messages"]) {
            let is_user = message["role"] == "user";
            for block in blocks(&message["content"]) {
                said.push(match text(&block["type"]) {
                    "tool_use" => Said::Call(block["input"].to_string()),
                    "tool_result" => Said::Outcome(words(&block["content"])),
                    _ if is_user => Said::User(words(&block)),
                    _ => Said::Model(words(&block)),
                });
            }
        }
        Self {
            dialect: Dialect::Messages,
            model: text(&body["model"]).to_owned(),
            streams: body["stream"] == true,
            said,
            key,
            tools: list(&body["tools"]).to_vec(),
            system: words(&body["system"]),
        }
    }

    fn responses(body: &Value, key: String) -> Self {
        let mut said = Vec::new();
        for item in list(&body["input"]) {
            said.push(match (text(&item["type"]), text(&item["role"])) {
                ("function_call_output" | "custom_tool_call_output", _) => {
                    Said::Outcome(words(&item["output"]))
                }
                ("function_call", _) => Said::Call(words(&item["arguments"])),
                ("custom_tool_call", _) => Said::Call(words(&item["input"])),
                (_, "assistant") => Said::Model(words(&item["content"])),
                _ => Said::User(words(&item["content"])),
            });
        }
        Self {
            dialect: Dialect::Responses,
            model: text(&body["model"]).to_owned(),
            streams: body["stream"] == true,
            said,
            key,
            tools: list(&body["tools"]).to_vec(),
            system: text(&body["instructions"]).to_owned(),
        }
    }

    fn gemini(model: &str, method: &str, body: &Value, key: String) -> Self {
        let mut said = Vec::new();
        for content in list(&body["contents"]) {
            for part in list(&content["parts"]) {
                said.push(if let Some(call) = part.get("functionCall") {
                    Said::Call(call["args"].to_string())
                } else if let Some(outcome) = part.get("functionResponse") {
                    Said::Outcome(outcome["response"].to_string())
                } else if content["role"] == "model" {
                    Said::Model(words(part))
                } else {
                    Said::User(words(part))
                });
            }
        }
        let groups = list(&body["tools"]).iter();
        Self {
            dialect: Dialect::Gemini,
            model: model.to_owned(),
            streams: method.starts_with("stream"),
            said,
            key,
            tools: groups.flat_map(|group| list(&group["functionDeclarations"]).to_vec()).collect(),
            system: words(&body["systemInstruction"]["parts"]),
        }
    }
}

impl Said {
    /// The text of the item.
    pub fn text(&self) -> &str {
        let (Said::User(text) | Said::Model(text) | Said::Call(text) | Said::Outcome(text)) = self;
        text
    }
}

fn name_of(tool: &Value) -> Option<&str> {
    tool["name"].as_str().or(tool["type"].as_str())
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// The blocks of a message, whose content may be plain text.
fn blocks(content: &Value) -> Vec<Value> {
    match content {
        Value::Array(blocks) => blocks.clone(),
        other => vec![other.clone()],
    }
}

/// All text in a value of messages, blocks or plain strings.
fn words(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(parts) => parts.iter().map(words).collect::<Vec<_>>().join("\n"),
        Value::Object(fields) => fields.get("text").map(words).unwrap_or_default(),
        _ => String::new(),
    }
}
