//! `--port`: ports that are no programs, as the operator writes them.
//!
//! ```text
//! KIND:NAME[,KEY=VALUE]...
//! ```

use std::str::FromStr;

use super::tap::TapOptions;

/// A port that the operator has asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PortOptions {
    /// `tap:NAME`: a network interface of this kernel.
    Tap(TapOptions),
}

impl PortOptions {
    /// What it is called in the status and in the log.
    pub fn name(&self) -> String {
        match self {
            PortOptions::Tap(options) => format!("tap:{}", options.name),
        }
    }
}

impl FromStr for PortOptions {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> anyhow::Result<PortOptions> {
        match text.split_once(':') {
            Some(("tap", rest)) => Ok(PortOptions::Tap(rest.parse()?)),
            _ => anyhow::bail!("there is no such kind of port; write tap:NAME"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_has_a_kind_and_a_name() {
        let port: PortOptions = "tap:tap0,mtu=9000".parse().unwrap();
        assert_eq!(port.name(), "tap:tap0");
        for text in ["", "tap", "tap0", "xdp:eth0", ":tap0", "TAP:tap0"] {
            let why = text.parse::<PortOptions>().unwrap_err().to_string();
            assert!(why.contains("tap:NAME"), "{text}: {why}");
        }
    }
}
