//! Answers that are kept with their versions: a host does not count a request that finds nothing new.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::forge::wire::Answer;

pub(super) const FILE: &str = "etags.json";
/// Most answers that are kept.
const MOST: usize = 100;
/// Longest answer that is kept.
const LONGEST: usize = 512 * 1024;

/// The answers of one login: versions depend on it.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Cache {
    login: String,
    /// Counts up with every use, so that the oldest goes first.
    clock: u64,
    kept: BTreeMap<String, Kept>,
}

#[derive(Debug, Serialize, Deserialize)]
struct Kept {
    etag: String,
    link: Option<String>,
    body: String,
    used: u64,
}

impl Cache {
    pub(super) fn read(bytes: &[u8]) -> Self {
        serde_json::from_slice(bytes).unwrap_or_default()
    }

    pub(super) fn bytes(&self) -> Vec<u8> {
        serde_json::to_vec(self).unwrap_or_default()
    }

    /// What is known about a path, with its version.
    pub(super) fn get(&mut self, login: &str, path: &str) -> Option<(String, Answer)> {
        self.belong_to(login);
        self.clock += 1;
        let kept = self.kept.get_mut(path)?;
        kept.used = self.clock;
        let links: Vec<(&str, &str)> = kept.link.iter().map(|link| ("link", link.as_str())).collect();
        Some((kept.etag.clone(), Answer::new(200, &links, kept.body.as_bytes())))
    }

    /// Keeps an answer, if it has a version and is not too long.
    pub(super) fn put(&mut self, login: &str, path: &str, answer: &Answer) {
        self.belong_to(login);
        self.kept.remove(path);
        let (Some(etag), Ok(body)) = (answer.header("etag"), std::str::from_utf8(&answer.body)) else {
            return;
        };
        // A version goes into an argument and a header.
        let is_version = etag.bytes().all(|byte| byte.is_ascii_graphic()) && etag.len() <= 200;
        if body.len() > LONGEST || !is_version {
            return;
        }
        self.clock += 1;
        let link = answer.header("link").map(str::to_owned);
        let kept = Kept { etag: etag.to_owned(), link, body: body.to_owned(), used: self.clock };
        self.kept.insert(path.to_owned(), kept);
        while self.kept.len() > MOST {
            let oldest = self.kept.iter().min_by_key(|(_, kept)| kept.used).map(|(path, _)| path.clone());
            if let Some(oldest) = oldest {
                self.kept.remove(&oldest);
            }
        }
    }

    fn belong_to(&mut self, login: &str) {
        if self.login != login {
            *self = Self { login: login.to_owned(), ..Self::default() };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(etag: &str, body: &str) -> Answer {
        Answer::new(200, &[("ETag", etag)], body)
    }

    #[test]
    fn what_another_login_read_is_forgotten() {
        let mut cache = Cache::default();
        cache.put("one", "user", &answer("W/\"1\"", "{}"));
        assert_eq!(cache.get("one", "user").unwrap().0, "W/\"1\"");
        let mut read = Cache::read(&cache.bytes());
        assert_eq!(read.get("one", "user").unwrap().1.body, b"{}");
        assert!(read.get("two", "user").is_none());
        assert!(read.get("one", "user").is_none());
    }

    #[test]
    fn it_is_bounded_and_the_oldest_goes_first() {
        let mut cache = Cache::default();
        for n in 0..MOST {
            cache.put("a", &n.to_string(), &answer("\"x\"", "[]"));
        }
        assert!(cache.get("a", "0").is_some());
        cache.put("a", "new", &answer("\"x\"", "[]"));
        assert!(cache.get("a", "0").is_some() && cache.get("a", "1").is_none());
        cache.put("a", "long", &answer("\"x\"", &"x".repeat(LONGEST + 1)));
        cache.put("a", "odd", &answer("\"x\r\nHost: evil\"", "[]"));
        assert!(cache.get("a", "long").is_none() && cache.get("a", "odd").is_none());
        assert!(Cache::read(b"half of a fi").kept.is_empty());
    }
}
