//! What `gh api -i` prints.

use std::time::Duration;

use regatta_core::forge::quota::Left;
use regatta_core::time::Timestamp;

/// An answer of a forge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Its status.
    pub status: u16,
    headers: Vec<(String, String)>,
    /// Its body.
    pub body: Vec<u8>,
}

impl Answer {
    /// An answer that was kept, or that a test makes.
    pub fn new(status: u16, headers: &[(&str, &str)], body: impl Into<Vec<u8>>) -> Self {
        let headers =
            headers.iter().map(|(name, value)| (name.to_lowercase(), (*value).to_owned())).collect();
        Self { status, headers, body: body.into() }
    }

    /// Reads a status line, headers, an empty line and a body; `None` if there is no status line.
    pub fn parse(output: &[u8]) -> Option<Self> {
        let mut rest = output;
        let line = next_line(&mut rest)?;
        let mut words = line.split_whitespace();
        words.next().filter(|version| version.starts_with("HTTP/"))?;
        let status = words.next()?.parse().ok().filter(|status| (100..600).contains(status))?;
        let mut headers = Vec::new();
        loop {
            let line = next_line(&mut rest)?;
            if line.is_empty() {
                break;
            }
            if let Some((name, value)) = line.split_once(':') {
                headers.push((name.trim().to_lowercase(), value.trim().to_owned()));
            }
        }
        Some(Self { status, headers, body: rest.to_vec() })
    }

    /// The value of a header.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// The body as JSON.
    pub fn json(&self) -> Option<serde_json::Value> {
        serde_json::from_slice(&self.body).ok()
    }

    /// What the forge says in an error.
    pub fn message(&self) -> String {
        let json = self.json().unwrap_or_default();
        let text = json["message"].as_str().unwrap_or_default();
        let details = json["errors"].as_array().into_iter().flatten();
        let details = details.filter_map(|one| one["message"].as_str().or(one.as_str()));
        let mut parts: Vec<&str> =
            std::iter::once(text).chain(details).filter(|part| !part.is_empty()).collect();
        parts.dedup();
        regatta_core::plain::clean_line(&parts.join(": ")).chars().take(500).collect()
    }

    /// What is left of the quota it counted against.
    pub fn left(&self) -> Option<Left> {
        let number = |name: &str| self.header(name)?.parse::<u64>().ok();
        let reset = i64::try_from(number("x-ratelimit-reset")?).ok()?;
        Some(Left {
            limit: number("x-ratelimit-limit")?,
            remaining: number("x-ratelimit-remaining")?,
            reset: Timestamp::from_millis(reset.saturating_mul(1000)),
        })
    }

    /// How long the forge wants to be left alone.
    pub fn retry_after(&self) -> Option<Duration> {
        self.header("retry-after")?.parse().ok().map(Duration::from_secs)
    }

    /// The path of the next page, below the address of the API, if there is one.
    pub fn next_page(&self) -> Option<String> {
        let links = self.header("link")?.split(',');
        let next = links.into_iter().find(|link| {
            link.split(';').skip(1).any(|part| matches!(part.trim(), r#"rel="next""# | "rel=next"))
        })?;
        let url = next.split(';').next()?.trim().strip_prefix('<')?.strip_suffix('>')?;
        let path = url.split_once("://")?.1.split_once('/')?.1;
        Some(path.strip_prefix("api/v3/").unwrap_or(path).to_owned())
    }
}

/// The next line without its ending; moves past it.
fn next_line(rest: &mut &[u8]) -> Option<String> {
    let end = rest.iter().position(|byte| *byte == b'\n')?;
    let line = String::from_utf8_lossy(&rest[..end]).trim_end_matches('\r').to_owned();
    *rest = &rest[end + 1..];
    Some(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_read_whatever_its_status() {
        let answer =
            Answer::parse(b"HTTP/2.0 304 Not Modified\nEtag: W/\"abc\"\r\nX-RateLimit-Limit: 5000\r\n\r\n");
        let answer = answer.unwrap();
        assert_eq!((answer.status, answer.header("etag"), answer.body.len()), (304, Some("W/\"abc\""), 0));
        let answer = Answer::parse(b"HTTP/1.1 422 Unprocessable Entity\nA: b\r\n\r\n{\"message\":\"Validation Failed\",\"errors\":[{\"message\":\"No commits between main and x\"}]}").unwrap();
        assert_eq!(
            (answer.status, answer.message().as_str()),
            (422, "Validation Failed: No commits between main and x")
        );
    }

    #[test]
    fn what_has_no_status_line_is_no_answer() {
        for text in [
            "",
            "gh: not logged in\n",
            "{\"a\":1}",
            "\u{1b}[1mHTTP/1.1 200 OK\n\n",
            "HTTP/1.1 abc\n\n",
            "HTTP/1.1 200 OK\nA: b\n",
        ] {
            assert_eq!(Answer::parse(text.as_bytes()), None, "{text:?}");
        }
    }

    #[test]
    fn the_next_page_is_a_path_below_the_api() {
        for (link, path) in [
            (
                "<https://api.github.com/repositories/1/issues?page=2>; rel=\"next\", <https://api.github.com/x?page=9>; rel=\"last\"",
                Some("repositories/1/issues?page=2"),
            ),
            (
                "<https://ghe.acme.test/api/v3/repos/a/b/pulls?page=3>; rel=\"next\"",
                Some("repos/a/b/pulls?page=3"),
            ),
            ("<https://api.github.com/x?page=1>; rel=\"prev\"", None),
            ("nonsense", None),
        ] {
            let answer = Answer::new(200, &[("Link", link)], "");
            assert_eq!(answer.next_page().as_deref(), path, "{link}");
        }
    }
}
