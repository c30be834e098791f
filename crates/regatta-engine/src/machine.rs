//! Whether this machine has room for one more agent: memory, load and disk against the user's limits.

use std::path::Path;

use regatta_core::config::Limits as Lines;

const GIB: f64 = 1024.0 * 1024.0 * 1024.0;

/// The machine's current values. A value that cannot be read is absent and holds nothing back.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Reading {
    pub(crate) memory_gb: Option<f64>,
    pub(crate) load: Option<f64>,
    pub(crate) disk_gb: Option<f64>,
}

impl Reading {
    /// Reads the values for which a limit is set.
    pub(crate) fn take(lines: &Lines, lanes_root: &Path) -> Self {
        Self {
            memory_gb: lines.min_free_memory_gb.and_then(|_| available_memory()),
            load: lines.max_load.and_then(|_| load()),
            disk_gb: lines.min_free_disk_gb.and_then(|_| free_disk(lanes_root)),
        }
    }

    /// Whether less disk is free than required.
    pub(crate) fn disk_is_low(&self, lines: &Lines) -> bool {
        self.disk_gb.zip(lines.min_free_disk_gb).is_some_and(|(has, wants)| has < wants)
    }

    /// Why nothing may start, if a limit is exceeded.
    pub(crate) fn crossed(&self, lines: &Lines) -> Option<String> {
        let low = |what: &str, has: Option<f64>, wants: Option<f64>| match (has, wants) {
            (Some(has), Some(wants)) if has < wants => {
                Some(format!("{what}: {has:.1} GiB free, {wants} GiB required"))
            }
            _ => None,
        };
        low("memory", self.memory_gb, lines.min_free_memory_gb)
            .or_else(|| low("disk", self.disk_gb, lines.min_free_disk_gb))
            .or_else(|| match (self.load, lines.max_load) {
                (Some(load), Some(most)) if load > most => {
                    Some(format!("load: {load:.1}, at most {most} allowed"))
                }
                _ => None,
            })
    }
}

fn available_memory() -> Option<f64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kib: f64 = line.split_whitespace().next()?.parse().ok()?;
    Some(kib * 1024.0 / GIB)
}

/// A test may name another file in `REGATTA_LOADAVG`. Debug builds only.
fn load() -> Option<f64> {
    let other = std::env::var_os("REGATTA_LOADAVG").filter(|_| cfg!(debug_assertions));
    std::fs::read_to_string(other.unwrap_or_else(|| "/proc/loadavg".into()))
        .ok()?
        .split_whitespace()
        .next()?
        .parse()
        .ok()
}

#[expect(clippy::cast_precision_loss, reason = "a disk is not measured to the byte here")]
pub(crate) fn free_disk(lanes_root: &Path) -> Option<f64> {
    // The lanes' directory may not exist yet; its nearest ancestor is on the same disk.
    let there = lanes_root.ancestors().find(|path| path.exists())?;
    let stat = rustix::fs::statvfs(there).ok()?;
    Some((stat.f_bavail * stat.f_frsize) as f64 / GIB)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_lines_that_were_drawn_can_be_crossed() {
        let lines = |memory, load, disk| {
            let mut lines = regatta_core::config::Config::default().limits;
            (lines.min_free_memory_gb, lines.max_load, lines.min_free_disk_gb) = (memory, load, disk);
            lines
        };
        let reading = Reading { memory_gb: Some(1.5), load: Some(9.0), disk_gb: Some(3.0) };
        let check = |lines: &Lines, expected: Option<&str>| {
            assert_eq!(reading.crossed(lines).as_deref(), expected);
        };
        check(&lines(None, None, None), None);
        check(&lines(Some(1.0), Some(10.0), Some(2.0)), None);
        check(&lines(Some(2.0), None, None), Some("memory: 1.5 GiB free, 2 GiB required"));
        check(&lines(None, Some(8.0), None), Some("load: 9.0, at most 8 allowed"));
        check(&lines(None, None, Some(5.5)), Some("disk: 3.0 GiB free, 5.5 GiB required"));
        assert_eq!(Reading::default().crossed(&lines(Some(2.0), Some(0.0), Some(5.0))), None);
    }

    #[test]
    fn this_machine_can_be_read() {
        let mut lines = regatta_core::config::Config::default().limits;
        (lines.min_free_memory_gb, lines.max_load, lines.min_free_disk_gb) =
            (Some(0.0), Some(0.0), Some(0.0));
        let reading = Reading::take(&lines, Path::new("/nowhere/at/all"));
        assert!(reading.memory_gb.is_some_and(|gb| gb > 0.0));
        assert!(reading.load.is_some());
        assert!(reading.disk_gb.is_some_and(|gb| gb > 0.0));
    }
}
