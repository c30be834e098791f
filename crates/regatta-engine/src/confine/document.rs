//! Reads the document and refuses one that makes no sense, before anything is done.

use std::fs::File;
use std::io::Read;
use std::path::{Component, Path};

use regatta_core::sandbox::plan::VERSION;
use regatta_core::sandbox::{Confinement, Level, Net, PathAccess};

use super::net;
use super::report::Fault;

/// The largest document: far above any real one.
const LARGEST: u64 = 8 * 1024 * 1024;

/// Places that have a content of their own inside.
const OWN: [&str; 3] = ["/", "/dev", "/proc"];

pub(super) fn read(file: File) -> Result<Confinement, Fault> {
    let refuse = |why: String| Fault::because("read the document", why);
    let mut text = String::new();
    file.take(LARGEST + 1)
        .read_to_string(&mut text)
        .map_err(|error| Fault::new("read the document", error))?;
    if text.len() as u64 > LARGEST {
        return Err(refuse("it is too large".into()));
    }
    let document: Confinement = serde_json::from_str(&text).map_err(|error| refuse(error.to_string()))?;
    check(&document).map_err(refuse)?;
    Ok(document)
}

fn check(document: &Confinement) -> Result<(), String> {
    if document.version != VERSION {
        return Err(format!("its version is {}, and this program reads {VERSION}", document.version));
    }
    if document.level == Level::Off {
        return Err("the level off confines nothing".into());
    }
    if document.level == Level::Files {
        if document.nested {
            return Err("nested sandboxes need the level full".into());
        }
        if matches!(document.network, Net::Own { .. }) {
            return Err("a network of its own needs the level full".into());
        }
    }
    if net::ports(&document.network).len() > net::MOST_LISTENERS {
        return Err(format!("more than {} local ports", net::MOST_LISTENERS));
    }
    if net::ports(&document.network).contains(&0) {
        return Err("port 0 is no port".into());
    }
    if document.processes == Some(0) || document.memory == Some(0) {
        return Err("a limit of 0 lets nothing run".into());
    }
    real(&document.tmp)?;
    for path in document.sockets.iter().chain(&document.devices) {
        real(path)?;
    }
    for rule in &document.rules {
        real(&rule.path)?;
        if OWN.iter().any(|own| rule.path == Path::new(own)) && rule.access != PathAccess::Read {
            return Err(format!("{} can only be read", rule.path.display()));
        }
        if OWN[1..].iter().any(|own| rule.path == Path::new(own)) {
            return Err(format!("{} has a content of its own", rule.path.display()));
        }
        if let PathAccess::Copy { upper, work } = &rule.access {
            real(upper)?;
            real(work)?;
            if upper == work {
                return Err(format!("the layers of {} are one directory", rule.path.display()));
            }
        }
    }
    Ok(())
}

/// Absolute, without `..`, and something that the system takes.
fn real(path: &Path) -> Result<(), String> {
    use std::os::unix::ffi::OsStrExt;
    let plain = path.components().all(|part| matches!(part, Component::RootDir | Component::Normal(_)));
    if path.is_absolute() && plain && !path.as_os_str().as_bytes().contains(&0) {
        Ok(())
    } else {
        Err(format!("{path:?} is not an absolute path without links"))
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Seek, Write};

    use serde_json::{Value, json};

    use super::*;

    fn sample() -> Value {
        json!({
            "version": 1, "level": "full", "tmp": "/box/tmp", "network": "host",
            "rules": [{"path": "/lane", "access": "write"}],
        })
    }

    fn read_text(text: &[u8]) -> Result<Confinement, Fault> {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(text).unwrap();
        file.rewind().unwrap();
        read(file)
    }

    #[test]
    fn a_document_that_makes_no_sense_is_refused_with_a_sentence() {
        assert!(read_text(sample().to_string().as_bytes()).is_ok());
        let cases: &[(&str, Value, &str)] = &[
            ("/version", json!(2), "its version is 2"),
            ("/level", json!("off"), "confines nothing"),
            ("/level", json!("most"), "unknown variant"),
            ("/tmp", json!("tmp"), "not an absolute path"),
            ("/tmp", json!("/a/../b"), "not an absolute path"),
            ("/tmp", json!("/a\u{0}b"), "not an absolute path"),
            ("/rules/0/path", json!("lane"), "not an absolute path"),
            ("/rules/0/path", json!("/"), "can only be read"),
            ("/rules/0/path", json!("/dev"), "can only be read"),
            ("/rules/0/access", json!("execute"), "unknown variant"),
            ("/rules/0/access", json!({"copy": {"upper": "/a", "work": "/a"}}), "are one directory"),
            ("/rules", json!("all"), "invalid type"),
            ("/network", json!({"own": {"proxy": true, "local": [0]}}), "port 0"),
            ("/network", json!({"own": {"proxy": true, "local": [70000]}}), "invalid value"),
            (
                "/network",
                json!({"own": {"proxy": false, "local": (1..200).collect::<Vec<_>>()}}),
                "more than",
            ),
        ];
        for (at, value, why) in cases {
            let mut document = sample();
            *document.pointer_mut(at).unwrap() = value.clone();
            let fault = read_text(document.to_string().as_bytes()).unwrap_err();
            assert!(fault.to_string().contains(why), "{at} = {value}: {fault}");
        }
        for extra in [
            json!({"processes": 0}),
            json!({"memory": 0}),
            json!({"allow": true}),
            json!({"level": "files", "nested": true}),
            json!({"level": "files", "network": {"own": {"proxy": true, "local": []}}}),
        ] {
            let mut document = sample();
            document.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
            assert!(read_text(document.to_string().as_bytes()).is_err(), "{extra}");
        }
    }

    #[test]
    fn noise_is_refused() {
        for text in [&b""[..], b"{", b"null", b"[]", b"\xff\xfe", b"{}{}", b"{\"version\":1}"] {
            assert!(read_text(text).is_err());
        }
        let whole = sample().to_string();
        for cut in 0..whole.len() {
            assert!(read_text(&whole.as_bytes()[..cut]).is_err(), "cut at {cut}");
        }
        let deep = "[".repeat(100_000);
        assert!(read_text(deep.as_bytes()).is_err());
    }
}
