//! Statements about a piece of work, and how they are read.
//!
//! Invariant: reading fails closed. A missing or unreadable statement is [`Verdict::Unknown`], and work with an unknown
//! verdict never lands.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::time::counted;

/// The four verdicts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// The work is good.
    Pass,
    /// Good enough to land, with a remark to read.
    Warn,
    /// The work is not good.
    Block,
    /// There is no readable statement.
    Unknown,
}

impl Verdict {
    /// The words accepted for each verdict, Regatta's own first.
    pub const ALIASES: [(&'static str, Verdict); 15] = [
        ("pass", Verdict::Pass),
        ("success", Verdict::Pass),
        ("go", Verdict::Pass),
        ("approve", Verdict::Pass),
        ("approved", Verdict::Pass),
        ("warn", Verdict::Warn),
        ("pass_with_warnings", Verdict::Warn),
        ("pass-with-warnings", Verdict::Warn),
        ("block", Verdict::Block),
        ("failed", Verdict::Block),
        ("fail", Verdict::Block),
        ("no-go", Verdict::Block),
        ("request-changes", Verdict::Block),
        ("request_changes", Verdict::Block),
        ("unknown", Verdict::Unknown),
    ];

    /// Its name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Verdict::Pass => "pass",
            Verdict::Warn => "warn",
            Verdict::Block => "block",
            Verdict::Unknown => "unknown",
        }
    }

    /// Whether work with this verdict may proceed to checks and landing.
    pub const fn is_good(self) -> bool {
        matches!(self, Verdict::Pass | Verdict::Warn)
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// A word that is not in [`Verdict::ALIASES`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a verdict; use pass, warn, block or unknown")]
pub struct NoVerdict(pub String);

impl FromStr for Verdict {
    type Err = NoVerdict;
    fn from_str(text: &str) -> Result<Self, NoVerdict> {
        let word = text.trim().to_ascii_lowercase();
        Verdict::ALIASES
            .iter()
            .find(|(alias, _)| *alias == word)
            .map(|(_, verdict)| *verdict)
            .ok_or_else(|| NoVerdict(text.to_owned()))
    }
}

/// Where a task's verdict is read from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum VerdictAdapter {
    /// The store first, then the marker file, then a JSON result; unknown if none is found.
    #[default]
    Chain,
    /// Only what the agent reported with `regatta done`.
    Db,
    /// Only `PARCEL_DONE-<id>.md` or `REGATTA_DONE-<id>.md` in the lane.
    MarkerFile,
    /// How the agent ended: its own terminal event where it has one, and its exit status.
    ExitCode,
    /// Only a JSON object with a `verdict` in the agent's last message.
    JsonResult,
}

impl VerdictAdapter {
    /// All names, as written in a task file.
    pub const NAMES: [(&'static str, VerdictAdapter); 5] = [
        ("chain", VerdictAdapter::Chain),
        ("db", VerdictAdapter::Db),
        ("marker-file", VerdictAdapter::MarkerFile),
        ("exit-code", VerdictAdapter::ExitCode),
        ("json-result", VerdictAdapter::JsonResult),
    ];

    /// The name as written in a task file.
    pub fn as_str(self) -> &'static str {
        Self::NAMES.iter().find(|(_, adapter)| *adapter == self).map_or("chain", |(name, _)| name)
    }
}

/// Numbers that an agent may report with its verdict. All optional.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Metrics {
    /// Tokens read by the model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokens_in: Option<u64>,
    /// Tokens written by the model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokens_out: Option<u64>,
    /// Seconds of work.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duration_s: Option<f64>,
    /// Tests that passed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tests_passed: Option<u64>,
    /// Tests that failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tests_failed: Option<u64>,
    /// Files changed, by the agent's own count.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub files_changed: Option<u64>,
    /// Dollars, by the agent's own count.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<f64>,
}

impl Metrics {
    /// The reported numbers in words; empty if there are none.
    pub fn describe(&self) -> String {
        let mut parts = Vec::new();
        let mut add = |value: Option<u64>, thing: &str, what: &str| {
            parts.extend(value.map(|n| format!("{} {what}", counted(n, thing))));
        };
        add(self.tests_passed, "test", "passed");
        add(self.tests_failed, "test", "failed");
        add(self.files_changed, "file", "changed");
        add(self.tokens_in, "token", "in");
        add(self.tokens_out, "token", "out");
        parts.extend(self.duration_s.map(|seconds| format!("{seconds} s")));
        parts.extend(self.cost_usd.map(|usd| format!("${usd:.4}")));
        parts.join(", ")
    }
}

/// A verdict with its explanation: as the agent reported it or an adapter read it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Statement {
    pub verdict: Verdict,
    /// One line, or a short paragraph.
    #[serde(default)]
    pub summary: String,
    /// The agent's numbers.
    #[serde(default)]
    pub metrics: Metrics,
}

/// Reads a marker file: frontmatter or plain `verdict:` line, and the text under `## Summary`.
///
/// A marker that names another attempt than `attempt` is ignored.
pub fn read_marker(text: &str, attempt: u32) -> Option<Statement> {
    let mut verdict = None;
    let mut summary = None;
    let mut in_summary = false;
    for line in text.lines() {
        let plain = line.trim().trim_start_matches(['#', '*', '-', ' ']).trim();
        if line.trim_start().starts_with('#') {
            in_summary = plain.to_ascii_lowercase().starts_with("summary");
            if let Some(word) = value_of(plain, "verdict") {
                verdict = verdict.or_else(|| word.parse().ok());
            }
            continue;
        }
        if in_summary && summary.is_none() && !plain.is_empty() {
            summary = Some(plain.to_owned());
        }
        if let Some(word) = value_of(plain, "verdict") {
            verdict = verdict.or_else(|| word.parse().ok());
        }
        if let Some(word) = value_of(plain, "summary") {
            summary = summary.or_else(|| Some(word.to_owned()));
        }
        if let Some(word) = value_of(plain, "attempt")
            && word.parse::<u32>().is_ok_and(|named| named != attempt)
        {
            return None;
        }
    }
    verdict.map(|verdict| Statement {
        verdict,
        summary: summary.unwrap_or_default(),
        metrics: Metrics::default(),
    })
}

/// The value for `key` in a line such as `Verdict: PASS`, `**Verdict**: PASS` or `verdict = "pass"`.
fn value_of<'a>(line: &'a str, key: &str) -> Option<&'a str> {
    let head = line.get(..key.len())?;
    if !head.eq_ignore_ascii_case(key) {
        return None;
    }
    let rest = line[key.len()..].trim_start_matches('*').trim_start();
    let rest = rest.strip_prefix([':', '='])?;
    Some(rest.trim().trim_matches(['"', '\'', '*', '`', ' ']))
}

/// Finds the last JSON object with a `verdict` in `text`: a whole line, a fenced block or the tail.
pub fn read_json_result(text: &str) -> Option<Statement> {
    let starts: Vec<usize> = text.char_indices().filter(|(_, c)| *c == '{').map(|(at, _)| at).collect();
    for start in starts.into_iter().rev() {
        let mut stream = serde_json::Deserializer::from_str(&text[start..]).into_iter::<serde_json::Value>();
        let Some(Ok(value)) = stream.next() else { continue };
        let Some(word) = value.get("verdict").and_then(|word| word.as_str()) else { continue };
        let Ok(verdict) = word.parse() else { return None };
        let summary = value.get("summary").and_then(|text| text.as_str()).unwrap_or_default().to_owned();
        let metrics = serde_json::from_value(value.clone()).unwrap_or_default();
        return Some(Statement { verdict, summary, metrics });
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_alias_of_the_tools_we_replace_is_read() {
        for (word, verdict) in [
            ("PASS", Verdict::Pass),
            ("PASS_WITH_WARNINGS", Verdict::Warn),
            ("BLOCK", Verdict::Block),
            ("UNKNOWN", Verdict::Unknown),
            ("SUCCESS", Verdict::Pass),
            ("FAILED", Verdict::Block),
            ("GO", Verdict::Pass),
            ("NO-GO", Verdict::Block),
            ("approve", Verdict::Pass),
            (" request-changes ", Verdict::Block),
        ] {
            assert_eq!(word.parse(), Ok(verdict), "{word}");
        }
        assert!("great".parse::<Verdict>().is_err());
    }

    #[test]
    fn a_marker_is_read_in_all_its_forms_and_bound_to_its_attempt() {
        let check = |text: &str, expected: Option<(Verdict, &str)>| {
            let read = read_marker(text, 2);
            assert_eq!(read.as_ref().map(|s| (s.verdict, s.summary.as_str())), expected, "{text}");
        };
        check(
            "# PARCEL DONE\n\nVerdict: PASS\n\n## Summary\n\nAdded it.\n",
            Some((Verdict::Pass, "Added it.")),
        );
        check("---\nverdict: block\nsummary: no way\n---\n", Some((Verdict::Block, "no way")));
        check("**Verdict**: PASS_WITH_WARNINGS\n", Some((Verdict::Warn, "")));
        check("## Verdict: PASS\n", Some((Verdict::Pass, "")));
        check("verdict: pass\nattempt: 1\n", None);
        check("verdict: pass\nattempt: 2\n", Some((Verdict::Pass, "")));
        check("all good, trust me\n", None);
        check("verdict: splendid\n", None);
        check("", None);
    }

    #[test]
    fn a_json_result_is_the_last_object_with_a_verdict() {
        let check = |text: &str, expected: Option<Verdict>| {
            assert_eq!(read_json_result(text).map(|s| s.verdict), expected, "{text}");
        };
        check("chatter\n{\"verdict\":\"PASS\",\"summary\":\"x\",\"tests_passed\":3}\n", Some(Verdict::Pass));
        check("```json\n{\n \"verdict\": \"block\"\n}\n```", Some(Verdict::Block));
        check("{\"verdict\":\"pass\"} then {\"verdict\":\"block\"}", Some(Verdict::Block));
        check("{\"verdict\":\"pass\", \"nested\": {\"a\": 1}}", Some(Verdict::Pass));
        check("{\"verdict\":\"lovely\"}", None);
        check("{\"result\":\"pass\"}", None);
        check("{\"verdict\":\"pass\"", None);
    }
}
