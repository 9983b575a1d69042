//! Which tuning a program uses: its own, or the NIC's with what the environment changes of it.

use ccnic::Tuning;

use crate::error::Error;

/// The environment variable that changes what a NIC has measured.
const VARIABLE: &str = "CCNIC_TUNING";

/// What is chosen of the tunings that NICs tell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Choice {
    /// The program's own, which leaves nothing of them.
    own: Option<Tuning>,
    /// What the environment changes of them.
    changes: Option<String>,
}

impl Choice {
    /// Of a program that may have one of its own, in this process's environment.
    ///
    /// # Errors
    /// [`Error::Tuning`] when the environment says nothing that can be.
    pub(crate) fn new(own: Option<Tuning>) -> Result<Choice, Error> {
        let changes = std::env::var_os(VARIABLE).map(|text| text.to_string_lossy().into_owned());
        Choice::within(own, changes)
    }

    /// As `new`, in an environment where the variable is `changes`. An empty one is none.
    fn within(own: Option<Tuning>, changes: Option<String>) -> Result<Choice, Error> {
        let changes = changes.filter(|text| !text.is_empty());
        if let Some(text) = &changes
            && let Err(why) = Tuning::default().with(text)
        {
            return Err(Error::Tuning { text: text.clone(), why });
        }
        Ok(Choice { own, changes })
    }

    /// The tuning for a NIC that tells this one.
    pub(crate) fn of(&self, told: Option<u32>) -> Tuning {
        if let Some(own) = self.own {
            return own;
        }
        let known = told.map_or(Some(Tuning::default()), Tuning::from_word).unwrap_or_else(|| {
            tracing::warn!(
                "the NIC tells a tuning that this release does not know: the default is used; use the same release on both sides, or \
                 set {VARIABLE}"
            );
            Tuning::default()
        });
        // The text has been checked: it is valid whatever it changes.
        self.changes.as_deref().map_or(known, |text| known.with(text).unwrap_or(known))
    }
}

/// The tuning of a NIC that measures nothing: the default, with what the environment (`CCNIC_TUNING`) changes.
///
/// ```
/// use ccnic_client::{Tuning, tuning_of_environment};
///
/// // Where the variable is not set:
/// assert_eq!(tuning_of_environment()?, Tuning::default());
/// # Ok::<(), ccnic_client::Error>(())
/// ```
///
/// # Errors
/// [`Error::Tuning`] when the environment says nothing that can be.
pub fn tuning_of_environment() -> Result<Tuning, Error> {
    Ok(Choice::new(None)?.of(None))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tuning(text: &str) -> Tuning {
        text.parse().unwrap()
    }

    #[test]
    fn the_programs_own_goes_before_the_environment_and_that_before_the_nic() {
        let told = Some(tuning("fetch=read,ahead=2").word());
        for (own, changes, chosen) in [
            (None, None, "fetch=read,ahead=2"),
            (None, Some(""), "fetch=read,ahead=2"),
            (None, Some("ahead=0"), "fetch=read"),
            (None, Some("default"), "default"),
            (None, Some("default,idle=spin"), "idle=spin"),
            (Some("demote=on"), None, "demote=on"),
            (Some("demote=on"), Some("idle=spin"), "demote=on"),
        ] {
            let choice = Choice::within(own.map(tuning), changes.map(str::to_owned)).unwrap();
            assert_eq!(choice.of(told), tuning(chosen), "{own:?} {changes:?}");
        }
    }

    #[test]
    fn a_nic_that_tells_none_or_an_unknown_one_gets_the_default() {
        let choice = Choice::within(None, None).unwrap();
        assert_eq!([None, Some(u32::MAX), Some(7)].map(|told| choice.of(told)), [Tuning::default(); 3]);
        let choice = Choice::within(None, Some("idle=spin".to_owned())).unwrap();
        assert_eq!(choice.of(Some(u32::MAX)), tuning("idle=spin"));
    }

    #[test]
    fn what_the_environment_cannot_mean_is_an_error_that_names_the_variable() {
        let error = Choice::within(None, Some("idle=sleep".to_owned())).unwrap_err();
        assert_eq!(
            error.to_string(),
            r#"CCNIC_TUNING is "idle=sleep": unknown idle; choose one of pause, spin"#
        );
    }
}
