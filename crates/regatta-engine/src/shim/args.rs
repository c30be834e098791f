//! **Nothing secret is on the shim's command line.** What the shim alone needs is passed in argv, encoded and decoded
//! here; the environment is the agent's.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::process::{Launch, Stdin};

/// The shim's parameters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Args {
    pub(crate) run_dir: PathBuf,
    pub(crate) cwd: PathBuf,
    pub(crate) stdin: Stdin,
    pub(crate) stdout: PathBuf,
    pub(crate) stderr: PathBuf,
    pub(crate) run_id: String,
    pub(crate) limit: Option<Duration>,
    pub(crate) grace: Duration,
    /// Approximate number of bytes kept of each stream.
    pub(crate) log_limit: Option<u64>,
    /// The lock that the tree holds.
    pub(crate) hold: Option<PathBuf>,
    /// The launching engine: the shim starts nothing for one that has died.
    pub(crate) launcher: u32,
    /// Whether the hand-over says what the tree may reach. It is known before the hand-over is read.
    pub(crate) is_confined: bool,
    pub(crate) argv: Vec<OsString>,
}

impl Args {
    /// The parameters for a launch by this process. Paths become absolute, because the shim works from `/`.
    pub(crate) fn new(launch: &Launch) -> io::Result<Self> {
        let absolute = |path: &Path| std::path::absolute(path);
        Ok(Self {
            run_dir: absolute(&launch.run_dir)?,
            cwd: absolute(&launch.cwd)?,
            stdin: match &launch.stdin {
                Stdin::Null => Stdin::Null,
                Stdin::File(path) => Stdin::File(absolute(path)?),
            },
            stdout: absolute(&launch.stdout)?,
            stderr: absolute(&launch.stderr)?,
            run_id: launch.run_id.clone(),
            limit: launch.limit,
            grace: launch.grace,
            log_limit: launch.log_limit,
            hold: launch.hold.as_deref().map(absolute).transpose()?,
            launcher: std::process::id(),
            is_confined: launch.confine.is_some(),
            argv: launch.argv.clone(),
        })
    }

    pub(crate) fn encode(&self) -> Vec<OsString> {
        let mut args: Vec<OsString> = Vec::new();
        let mut option = |name: &str, value: OsString| args.extend([name.into(), value]);
        option("--run-dir", self.run_dir.clone().into());
        option("--cwd", self.cwd.clone().into());
        if let Stdin::File(path) = &self.stdin {
            option("--stdin", path.clone().into());
        }
        option("--stdout", self.stdout.clone().into());
        option("--stderr", self.stderr.clone().into());
        option("--run-id", self.run_id.clone().into());
        if let Some(limit) = self.limit {
            option("--limit-ms", limit.as_millis().to_string().into());
        }
        option("--grace-ms", self.grace.as_millis().to_string().into());
        if let Some(limit) = self.log_limit {
            option("--log-limit", limit.to_string().into());
        }
        if let Some(hold) = &self.hold {
            option("--hold", hold.clone().into());
        }
        option("--launcher", self.launcher.to_string().into());
        if self.is_confined {
            args.push("--confined".into());
        }
        args.push("--".into());
        args.extend(self.argv.iter().cloned());
        args
    }

    pub(crate) fn decode(mut args: impl Iterator<Item = OsString>) -> Result<Self, String> {
        let (mut run_dir, mut cwd, mut stdout, mut stderr) = (None, None, None, None);
        let (mut stdin, mut run_id, mut limit) = (Stdin::Null, None, None);
        let (mut grace, mut launcher, mut hold, mut log_limit) = (None, None, None, None);
        let mut is_confined = false;
        loop {
            let name = args.next().ok_or("no `--` before the command")?;
            let name = name.to_str().ok_or("an option that is not UTF-8")?;
            if name == "--" {
                break;
            }
            if name == "--confined" {
                is_confined = true;
                continue;
            }
            let value = args.next().ok_or_else(|| format!("{name} needs a value"))?;
            match name {
                "--run-dir" => run_dir = Some(PathBuf::from(value)),
                "--cwd" => cwd = Some(PathBuf::from(value)),
                "--stdin" => stdin = Stdin::File(PathBuf::from(value)),
                "--stdout" => stdout = Some(PathBuf::from(value)),
                "--stderr" => stderr = Some(PathBuf::from(value)),
                "--run-id" => run_id = Some(value.into_string().map_err(|_| "--run-id is not UTF-8")?),
                "--limit-ms" => limit = Some(Duration::from_millis(number(name, value)?)),
                "--grace-ms" => grace = Some(Duration::from_millis(number(name, value)?)),
                "--log-limit" => log_limit = Some(number(name, value)?),
                "--hold" => hold = Some(PathBuf::from(value)),
                "--launcher" => launcher = u32::try_from(number(name, value)?).ok(),
                _ => return Err(format!("unknown option {name}")),
            }
        }
        let argv: Vec<OsString> = args.collect();
        if argv.is_empty() {
            return Err("no command after `--`".into());
        }
        Ok(Self {
            run_dir: run_dir.ok_or("no --run-dir")?,
            cwd: cwd.ok_or("no --cwd")?,
            stdin,
            stdout: stdout.ok_or("no --stdout")?,
            stderr: stderr.ok_or("no --stderr")?,
            run_id: run_id.filter(|id| !id.is_empty()).ok_or("no --run-id")?,
            limit,
            grace: grace.ok_or("no --grace-ms")?,
            log_limit,
            hold,
            launcher: launcher.ok_or("no --launcher")?,
            is_confined,
            argv,
        })
    }
}

fn number(name: &str, value: OsString) -> Result<u64, String> {
    value.to_str().and_then(|text| text.parse().ok()).ok_or_else(|| format!("{name} needs a number"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_encoded_is_decoded_even_if_it_looks_like_an_option() {
        let args = Args {
            run_dir: "/r u n".into(),
            cwd: "/--cwd".into(),
            stdin: Stdin::File("/in".into()),
            stdout: "/out".into(),
            stderr: "/err".into(),
            run_id: "--run-id".into(),
            limit: Some(Duration::from_millis(1500)),
            grace: Duration::ZERO,
            log_limit: Some(9),
            hold: Some("/--hold".into()),
            launcher: 7,
            is_confined: true,
            argv: vec!["--".into(), "--cwd".into(), "".into()],
        };
        assert_eq!(Args::decode(args.encode().into_iter()).unwrap(), args);
    }

    #[test]
    fn a_missing_command_is_said() {
        let error = Args::decode(["--".into()].into_iter()).unwrap_err();
        assert_eq!(error, "no command after `--`");
    }
}
