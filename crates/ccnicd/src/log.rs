//! Which events are logged: `warn`, or `warn,ccnicd::metrics=debug`.
//!
//! By target and level only. tracing-subscriber's `EnvFilter` also filters by the fields of spans, which there are none of here, and brings
//! an engine for regular expressions.

use anyhow::Context;
use tracing_subscriber::filter::{LevelFilter, Targets};

/// The filter that `text` describes. A target that it does not name logs errors, unless it says otherwise.
///
/// # Errors
/// When a part is neither a level nor a target, with or without a level.
pub fn filter(text: &str) -> anyhow::Result<Targets> {
    let wrong =
        || format!("{text} is no log filter; write a level, or TARGET=LEVEL, with commas between them");
    // Targets takes an empty part, or an empty level, for `error`.
    let parts: Vec<_> = text.split(',').filter(|part| !part.is_empty()).collect();
    let incomplete = parts.iter().any(|part| part.starts_with('=') || part.ends_with('='));
    anyhow::ensure!(!incomplete, wrong());
    let filter = match parts.is_empty() {
        true => Targets::new(),
        false => parts.join(",").parse::<Targets>().with_context(wrong)?,
    };
    let default = filter.default_level().unwrap_or(LevelFilter::ERROR);
    Ok(filter.with_default(default))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tracing::Level;

    #[test]
    fn a_level_for_all_and_one_for_a_target() {
        let filter = filter("warn,ccnicd::metrics=debug").unwrap();
        assert!(filter.would_enable("ccnicd::control", &Level::WARN));
        assert!(!filter.would_enable("ccnicd::control", &Level::INFO));
        assert!(filter.would_enable("ccnicd::metrics", &Level::DEBUG));
        assert!(!filter.would_enable("ccnicd::metrics", &Level::TRACE));
    }

    #[test]
    fn errors_are_logged_unless_they_are_switched_off() {
        for text in ["", ",", "ccnicd::metrics=debug"] {
            let filter = filter(text).unwrap();
            assert!(filter.would_enable("ccnicd::control", &Level::ERROR), "{text}");
            assert!(!filter.would_enable("ccnicd::control", &Level::WARN), "{text}");
        }
        assert!(!filter("off").unwrap().would_enable("ccnicd::control", &Level::ERROR));
        let one = filter("info,ccnicd::placement=off").unwrap();
        assert!(
            !one.would_enable("ccnicd::placement", &Level::ERROR) && one.would_enable("ccnicd", &Level::INFO)
        );
    }

    #[test]
    fn an_empty_part_says_nothing() {
        for text in ["info,", ",info", "info,,ccnicd::metrics=off"] {
            assert!(filter(text).unwrap().would_enable("ccnicd::control", &Level::INFO), "{text}");
        }
    }

    #[test]
    fn what_is_no_filter_is_refused_by_its_name() {
        for text in ["ccnicd=loud", "=,=", "ccnicd=", "=info", "a=b=c"] {
            assert!(filter(text).unwrap_err().to_string().starts_with(text), "{text}");
        }
    }
}
