//! `--sandbox`: which parts are applied, and what happens where the kernel lacks one.

use std::fmt;
use std::str::FromStr;

use anyhow::{Context, bail};

/// What is applied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SandboxOptions {
    /// What the kernel lacks.
    pub level: Level,
    /// Capabilities are dropped.
    pub capabilities: bool,
    /// Files and TCP are restricted.
    pub landlock: bool,
    /// System calls are restricted.
    pub seccomp: bool,
}

/// What the daemon does where the kernel lacks a part of the sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Level {
    /// It says so, and goes on without.
    BestEffort,
    /// It does not start.
    Require,
}

impl Default for SandboxOptions {
    fn default() -> SandboxOptions {
        SandboxOptions { level: Level::BestEffort, capabilities: true, landlock: true, seccomp: true }
    }
}

/// As it is read.
impl fmt::Display for SandboxOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.level {
            Level::BestEffort => "on",
            Level::Require => "require",
        })?;
        let parts =
            [("capabilities", self.capabilities), ("landlock", self.landlock), ("seccomp", self.seccomp)];
        parts.iter().filter(|(_, on)| !on).try_for_each(|(part, _)| write!(f, ",{part}=off"))
    }
}

impl FromStr for SandboxOptions {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> anyhow::Result<SandboxOptions> {
        const FORMS: &str = "write on, require or off, and behind on or require the parts to leave out: capabilities=off, landlock=off, \
                             seccomp=off";
        let (word, parts) = text.split_once(',').map_or((text, None), |(word, parts)| (word, Some(parts)));
        let mut options = SandboxOptions::default();
        match word {
            "on" => {}
            "require" => options.level = Level::Require,
            "off" if parts.is_none() => {
                (options.capabilities, options.landlock, options.seccomp) = (false, false, false);
            }
            _ => bail!("{text:?} is no sandbox; {FORMS}"),
        }
        for part in parts.into_iter().flat_map(|parts| parts.split(',')) {
            let name = part.strip_suffix("=off").with_context(|| format!("{part:?}: {FORMS}"))?;
            match name {
                "capabilities" => options.capabilities = false,
                "landlock" => options.landlock = false,
                "seccomp" => options.seccomp = false,
                _ => bail!("there is no part {name:?}; {FORMS}"),
            }
        }
        Ok(options)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_left_out_by_name() {
        let parse = |text: &str| text.parse::<SandboxOptions>().unwrap();
        let on = SandboxOptions::default();
        assert_eq!(parse("on"), on);
        assert_eq!(parse("require"), SandboxOptions { level: Level::Require, ..on });
        assert_eq!(parse("on,landlock=off"), SandboxOptions { landlock: false, ..on });
        let require = SandboxOptions { level: Level::Require, capabilities: false, seccomp: false, ..on };
        assert_eq!(parse("require,capabilities=off,seccomp=off"), require);
        assert_eq!(parse("off"), parse("on,capabilities=off,landlock=off,seccomp=off"));
        for text in ["", "yes", "off,landlock=off", "on,landlock", "on,landlock=on", "on,files=off", "on,"] {
            let why = format!("{:#}", text.parse::<SandboxOptions>().unwrap_err());
            assert!(why.contains("write on, require or off"), "{text}: {why}");
        }
    }
}
