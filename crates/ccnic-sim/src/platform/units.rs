//! Numbers that carry their unit and where they come from.

use super::read::{Fault, Read, string};
use toml::{Table, Value};

/// What a number of a platform file is measured in: the key that it stands under.
pub trait Unit {
    /// The key in the file, e.g. `ns`.
    const KEY: &'static str;
    /// What a program gets.
    type Value: Copy + PartialEq + std::fmt::Debug;
    /// Reads the bare value, or says in half a sentence what is wrong with it. `zero`: nought is a sensible value here.
    fn read(value: &Value, zero: bool) -> Result<Self::Value, String>;
}

/// A value of a platform file with its source.
#[derive(Clone, Debug, PartialEq)]
pub struct Given<U: Unit> {
    value: U::Value,
    source: String,
    assumed: bool,
    fitted: bool,
}

impl<U: Unit> Given<U> {
    /// The value itself.
    pub fn get(&self) -> U::Value {
        self.value
    }

    /// Where it comes from.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// General knowledge that has not been verified.
    pub fn assumed(&self) -> bool {
        self.assumed
    }

    /// Chosen so that a calibration probe comes out.
    pub fn fitted(&self) -> bool {
        self.fitted
    }
}

macro_rules! units {
    ($($(#[$doc:meta])* $name:ident = $marker:ident, $key:literal, $value:ty, $read:expr;)+) => {
        /// One type per unit.
        pub mod unit {
            use crate::platform::units::Unit;
            $($(#[$doc])*
            #[derive(Clone, Copy, Debug, PartialEq)]
            pub struct $marker;

            impl Unit for $marker {
                const KEY: &'static str = $key;
                type Value = $value;
                fn read(value: &toml::Value, zero: bool) -> Result<$value, String> {
                    ($read)(value, zero)
                }
            })+
        }

        $($(#[$doc])*
        pub type $name = Given<unit::$marker>;)+

        /// The key of every unit.
        const KEYS: &[&str] = &[$($key),+];
    };
}

// The bounds are what no machine exceeds; they keep the simulator's arithmetic far from its ends.
units! {
    /// Nanoseconds.
    Ns = Nanoseconds, "ns", f64, |v: &_, z| crate::platform::units::real(v, z, 1e-3, 1e6);
    /// Microseconds.
    Us = Microseconds, "us", f64, |v: &_, z| crate::platform::units::real(v, z, 1e-3, 1e6);
    /// Gigahertz.
    Ghz = Gigahertz, "ghz", f64, |v: &_, z| crate::platform::units::real(v, z, 0.01, 20.0);
    /// Cycles of the platform's processor.
    Cycles = ProcessorCycles, "cycles", u32, |v: &_, z| crate::platform::units::whole(v, z, 1 << 16);
    /// Gigabytes (10^9) per second.
    GbytesPerS = GigabytesPerSecond, "gbytes_per_s", f64, |v: &_, z| crate::platform::units::real(v, z, 1e-3, 1e5);
    /// Gigabits (10^9) per second.
    GbitPerS = GigabitsPerSecond, "gbit_per_s", f64, |v: &_, z| crate::platform::units::real(v, z, 1e-3, 1e6);
    /// 10^6 packets per second.
    Mpps = MillionPacketsPerSecond, "mpps", f64, |v: &_, z| crate::platform::units::real(v, z, 1e-3, 1e5);
    /// 10^6 cache lines per second, in each direction.
    Mlps = MillionLinesPerSecond, "mlps", f64, |v: &_, z| crate::platform::units::real(v, z, 1e-3, 1e5);
    /// 10^9 flits per second.
    GflitPerS = GigaflitsPerSecond, "gflit_per_s", f64, |v: &_, z| crate::platform::units::real(v, z, 1e-3, 1e4);
    /// A share of one.
    Ratio = Share, "ratio", f64, |v: &_, z| crate::platform::units::real(v, z, 1e-3, 1.0);
    /// A multiple of one.
    Multiple = Times, "times", f64, |v: &_, z| crate::platform::units::real(v, z, 1e-3, 100.0);
    /// 1024 bytes.
    Kib = Kibibytes, "kib", u32, |v: &_, z| crate::platform::units::whole(v, z, 1 << 24);
    /// A number of things.
    Count = Things, "count", u32, |v: &_, z| crate::platform::units::whole(v, z, 1 << 16);
    /// Bytes.
    Bytes = SingleBytes, "bytes", u32, |v: &_, z| crate::platform::units::whole(v, z, 1 << 16);
    /// Yes or no.
    On = YesOrNo, "on", bool, crate::platform::units::switch;
}

fn real(value: &Value, zero: bool, least: f64, most: f64) -> Result<f64, String> {
    let number = match value {
        Value::Float(x) => *x,
        Value::Integer(i) => *i as f64,
        _ => return Err("is not a number".into()),
    };
    check(number, zero, least, most)
}

fn whole(value: &Value, zero: bool, most: u32) -> Result<u32, String> {
    let Value::Integer(number) = value else {
        return Err("is not a whole number".into());
    };
    check(*number as f64, zero, 1.0, f64::from(most))?;
    u32::try_from(*number).map_err(|_| "is too large".into())
}

fn switch(value: &Value, _: bool) -> Result<bool, String> {
    value.as_bool().ok_or_else(|| "is neither true nor false".into())
}

fn check(number: f64, zero: bool, least: f64, most: f64) -> Result<f64, String> {
    if !number.is_finite() {
        return Err(format!("is {number}"));
    }
    if number < 0.0 {
        return Err(format!("is negative, {number}"));
    }
    if number == 0.0 && zero {
        return Ok(0.0);
    }
    if number == 0.0 {
        return Err("is zero".into());
    }
    if number < least || number > most {
        return Err(format!("is {number}, no machine has that: it lies between {least} and {most}"));
    }
    Ok(number)
}

impl<U: Unit> Read for Given<U> {
    fn read(value: &Value, at: &str) -> Result<Self, Fault> {
        let Some(entry) = value.as_table() else {
            return Err(Fault::new(at, "carries neither unit nor source", form::<U>(at)));
        };
        for key in entry.keys() {
            match key.as_str() {
                "source" | "assumed" | "fitted" => {}
                key if key == U::KEY => {}
                key if KEYS.contains(&key) => {
                    let reason = format!("is given in `{key}`, it wants `{}`", U::KEY);
                    return Err(Fault::new(at, reason, form::<U>(at)));
                }
                key => return Err(Fault::new(&format!("{at}.{key}"), "is unknown", form::<U>(at))),
            }
        }
        let raw = entry
            .get(U::KEY)
            .ok_or_else(|| Fault::new(at, format!("has no value in `{}`", U::KEY), form::<U>(at)))?;
        let value = U::read(raw, may_be_zero(at)).map_err(|reason| {
            Fault::new(
                at,
                reason,
                format!("give the measured value in `{}`, or mark an estimate `assumed`", U::KEY),
            )
        })?;
        let source = entry.get("source").ok_or_else(|| {
            Fault::new(at, "has no source", "add source = \"who measured it, and where it is written\"")
        })?;
        let source = string(source, &format!("{at}.source"))?;
        Ok(Given { value, source, assumed: mark(entry, at, "assumed")?, fitted: mark(entry, at, "fitted")? })
    }
}

/// How the entry is written correctly.
fn form<U: Unit>(at: &str) -> String {
    let key = at.rsplit('.').next().unwrap_or(at);
    format!("write {key} = {{ {} = ..., source = \"...\" }}", U::KEY)
}

fn mark(entry: &Table, at: &str, key: &str) -> Result<bool, Fault> {
    match entry.get(key) {
        None => Ok(false),
        Some(Value::Boolean(mark)) => Ok(*mark),
        Some(_) => Err(Fault::new(
            &format!("{at}.{key}"),
            "is neither true nor false",
            "write true, or leave it out",
        )),
    }
}

/// What a machine may do without: costs that may be free, slots and prefetches that may be absent.
fn may_be_zero(at: &str) -> bool {
    matches!(
        at,
        "core.mispredict"
            | "path.home_extra"
            | "link.spare_slots"
            | "device.pipeline"
            | "device.packet"
            | "device.segment"
            | "device.doorbell"
            | "device.fetch"
    )
}

/// Puts a number under the unit of `entry`, in the type that this unit has; the marks of the old value go.
pub(super) fn replace(entry: &mut Table, at: &str, value: f64) -> Result<(), Fault> {
    let Some(unit) = KEYS.iter().find(|unit| entry.contains_key(**unit)) else {
        return Err(Fault::new(at, "is not one number", "name a value that has a unit, e.g. link.one_way"));
    };
    let new = match *unit {
        "on" if value == 0.0 || value == 1.0 => Value::Boolean(value == 1.0),
        "on" => return Err(Fault::new(at, format!("cannot become {value}"), "a switch takes 0 or 1")),
        "kib" | "count" | "bytes" | "cycles"
            if value.fract() == 0.0 && value.abs() <= f64::from(u32::MAX) =>
        {
            Value::Integer(value as i64)
        }
        _ => Value::Float(value),
    };
    let old = entry.insert((*unit).to_string(), new);
    let old = old.map_or_else(String::new, |old| old.to_string());
    let source = entry.get("source").and_then(Value::as_str).unwrap_or_default();
    let source = format!("set for this run; the file says {old} ({source})");
    entry.insert("source".into(), Value::String(source));
    entry.remove("assumed");
    entry.remove("fitted");
    Ok(())
}
