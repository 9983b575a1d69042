//! Expressions: how the simulated value of a statement is computed from series, by sums, products and comparisons of functions.
//!
//! | function | value |
//! |---|---|
//! | `peak(s.m)` | the largest value of metric `m` in series `s` |
//! | `least(s.m)` | the smallest |
//! | `at(s.m, x)` | at the point `x`: a number (interpolated between points), or a name in quotes |
//! | `reach(s.m, share)` | the least whole `x` at which the value is `share` of the largest |
//! | `carries(s.m, value)` | the least whole `x` at which the value is as large as `value`, any expression |
//! | `crosses(s.m, t.n)` | the least `x` at which a value of `s` is as large as that of `t`, on a logarithmic scale between points |
//!
//! A comparison is 1 when it holds and 0 when it does not; `a > b > c` compares neighbours.

/// A point of a series, as expressions see it.
#[derive(Debug, Clone, PartialEq)]
pub struct Place {
    /// Its name.
    pub name: String,
    /// Its number.
    pub number: f64,
}

/// What expressions are computed from.
pub trait Source {
    /// The places and values of a metric of a series.
    fn values(&self, series: &str, metric: &str) -> Result<Vec<(Place, f64)>, String>;

    /// Those on a machine a little different; the same where there is none.
    fn neighbours(&self, series: &str, metric: &str, _: usize) -> Result<Vec<(Place, f64)>, String> {
        self.values(series, metric)
    }
}

/// How many machines a little different there are.
pub const NEIGHBOURS: usize = 2;

/// A source as it is on one of them.
pub struct Neighbour<'s>(pub &'s dyn Source, pub usize);

impl Source for Neighbour<'_> {
    fn values(&self, series: &str, metric: &str) -> Result<Vec<(Place, f64)>, String> {
        self.0.neighbours(series, metric, self.1)
    }
}

/// An expression.
#[derive(Debug, Clone, PartialEq)]
pub enum Expr {
    /// A number.
    Number(f64),
    /// An arithmetic operation on two expressions.
    Binary(Box<Expr>, char, Box<Expr>),
    /// Each is compared with the next.
    Chain(Vec<Expr>, Vec<char>),
    /// A function of a series.
    Call(Function, String, String, Argument),
}

/// A function of a series.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Function {
    /// The largest value.
    Peak,
    /// The smallest.
    Least,
    /// The value at a point.
    At,
    /// The least `x` at which the value reaches a share of the largest.
    Reach,
    /// The least `x` at which the value is as large as another one.
    Carries,
    /// The least `x` at which the value is as large as that of another series.
    Crosses,
}

/// A function's second argument.
#[derive(Debug, Clone, PartialEq)]
pub enum Argument {
    /// None.
    None,
    /// A number.
    Number(f64),
    /// A point's name.
    Name(String),
    /// A value.
    Value(Box<Expr>),
    /// A series and its metric.
    Series(String, String),
}

impl Expr {
    /// Reads an expression.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(text: &str) -> Result<Expr, String> {
        let mut parser = Parser { text, at: 0 };
        let expr = parser.chain()?;
        match parser.peek() {
            None => Ok(expr),
            Some(_) => Err(parser.complain("an operator")),
        }
    }

    /// The series that it names.
    pub fn series(&self) -> Vec<&str> {
        match self {
            Expr::Number(_) => Vec::new(),
            Expr::Binary(a, _, b) => [a.series(), b.series()].concat(),
            Expr::Chain(parts, _) => parts.iter().flat_map(Expr::series).collect(),
            Expr::Call(_, series, _, Argument::Value(value)) => {
                [vec![series.as_str()], value.series()].concat()
            }
            Expr::Call(_, series, _, Argument::Series(other, _)) => vec![series, other],
            Expr::Call(_, series, ..) => vec![series],
        }
    }

    /// Its value.
    ///
    /// # Errors
    /// When a series or a point that it needs is missing.
    pub fn value(&self, source: &dyn Source) -> Result<f64, String> {
        match self {
            Expr::Number(number) => Ok(*number),
            Expr::Binary(a, operator, b) => {
                let (a, b) = (a.value(source)?, b.value(source)?);
                Ok(match operator {
                    '+' => a + b,
                    '-' => a - b,
                    '*' => a * b,
                    _ => a / b,
                })
            }
            Expr::Chain(parts, operators) => {
                let values = parts.iter().map(|part| part.value(source)).collect::<Result<Vec<_>, _>>()?;
                let holds = values.windows(2).zip(operators).all(|(pair, operator)| match operator {
                    '<' => pair[0] < pair[1],
                    _ => pair[0] > pair[1],
                });
                Ok(f64::from(u8::from(holds)))
            }
            Expr::Call(function, series, metric, argument) => {
                let points = source.values(series, metric)?;
                let found = match argument {
                    Argument::Value(wanted) => reach(&points, wanted.value(source)?),
                    Argument::Series(other, metric) => crosses(&points, &source.values(other, metric)?),
                    _ => call(*function, &points, argument),
                };
                found.map_err(|reason| format!("{series}.{metric}: {reason}"))
            }
        }
    }
}

fn call(function: Function, points: &[(Place, f64)], argument: &Argument) -> Result<f64, String> {
    let values = || points.iter().map(|(_, value)| *value);
    let peak = values().reduce(f64::max).ok_or("there are no points")?;
    match (function, argument) {
        (Function::Peak, _) => Ok(peak),
        (Function::Least, _) => Ok(values().fold(peak, f64::min)),
        (Function::At, Argument::Name(name)) => points
            .iter()
            .find(|(place, _)| place.name == *name)
            .map(|(_, value)| *value)
            .ok_or(format!("there is no point {name:?}")),
        (Function::At, Argument::Number(x)) => at(points, *x),
        (_, Argument::Number(share)) => reach(points, peak * share),
        _ => Err("an argument is missing".into()),
    }
}

fn at(points: &[(Place, f64)], x: f64) -> Result<f64, String> {
    if let Some((_, value)) = points.iter().find(|(place, _)| place.number == x) {
        return Ok(*value);
    }
    let around = points.windows(2).find(|pair| pair[0].0.number < x && x < pair[1].0.number);
    let [(a, from), (b, to)] = around.ok_or(format!("there is no point {x}"))? else {
        return Err("there is no point".into());
    };
    Ok(from + (x - a.number) / (b.number - a.number) * (to - from))
}

fn reach(points: &[(Place, f64)], wanted: f64) -> Result<f64, String> {
    let i = points.iter().position(|(_, value)| *value >= wanted).ok_or("it is not reached")?;
    let (here, value) = &points[i];
    let Some((before, below)) = i.checked_sub(1).map(|i| &points[i]) else { return Ok(here.number) };
    let share = (wanted - below) / (value - below);
    Ok((before.number + share * (here.number - before.number)).ceil())
}

fn crosses(points: &[(Place, f64)], others: &[(Place, f64)]) -> Result<f64, String> {
    // How far the first is above the second, where both have a point.
    let above = |(place, value): &(Place, f64)| {
        let other = others.iter().find(|(other, _)| other.number == place.number)?;
        Some((place.number, (value / other.1).ln()))
    };
    let above: Vec<(f64, f64)> = points.iter().filter_map(above).collect();
    let i = above.iter().position(|(_, by)| *by >= 0.0).ok_or("it is always below")?;
    let (x, by) = above[i];
    let Some((before, below)) = i.checked_sub(1).map(|i| above[i]) else { return Ok(x) };
    Ok(before * (x / before).powf(below / (below - by)))
}

struct Parser<'t> {
    text: &'t str,
    at: usize,
}

impl<'t> Parser<'t> {
    fn peek(&mut self) -> Option<char> {
        let rest = self.text[self.at..].trim_start();
        self.at = self.text.len() - rest.len();
        rest.chars().next()
    }

    fn take(&mut self, wanted: &[char]) -> Option<char> {
        let next = self.peek().filter(|c| wanted.contains(c))?;
        self.at += next.len_utf8();
        Some(next)
    }

    fn expect(&mut self, wanted: char) -> Result<(), String> {
        self.take(&[wanted]).map(|_| ()).ok_or_else(|| self.complain(&format!("{wanted:?}")))
    }

    fn complain(&self, wanted: &str) -> String {
        format!("expected {wanted} at {:?} in {:?}", &self.text[self.at..], self.text)
    }

    /// What goes on as long as `part` of a character holds.
    fn word(&mut self, part: fn(char) -> bool) -> &'t str {
        self.peek();
        let rest = &self.text[self.at..];
        let end = rest.find(|c| !part(c)).unwrap_or(rest.len());
        self.at += end;
        &rest[..end]
    }

    fn chain(&mut self) -> Result<Expr, String> {
        let first = self.sum()?;
        let (mut parts, mut operators) = (vec![first], Vec::new());
        while let Some(operator) = self.take(&['<', '>']) {
            operators.push(operator);
            parts.push(self.sum()?);
        }
        match parts.pop() {
            Some(only) if parts.is_empty() => Ok(only),
            last => Ok(Expr::Chain(parts.into_iter().chain(last).collect(), operators)),
        }
    }

    fn sum(&mut self) -> Result<Expr, String> {
        let mut left = self.product()?;
        while let Some(operator) = self.take(&['+', '-']) {
            left = Expr::Binary(Box::new(left), operator, Box::new(self.product()?));
        }
        Ok(left)
    }

    fn product(&mut self) -> Result<Expr, String> {
        let mut left = self.atom()?;
        while let Some(operator) = self.take(&['*', '/']) {
            left = Expr::Binary(Box::new(left), operator, Box::new(self.atom()?));
        }
        Ok(left)
    }

    fn atom(&mut self) -> Result<Expr, String> {
        match self.peek() {
            Some('(') => {
                self.expect('(')?;
                let inner = self.chain()?;
                self.expect(')')?;
                Ok(inner)
            }
            Some('0'..='9') => self.number().map(Expr::Number),
            Some(_) => self.call(),
            None => Err(self.complain("a value")),
        }
    }

    fn number(&mut self) -> Result<f64, String> {
        let word = self.word(|c| c.is_ascii_digit() || c == '.');
        word.parse().map_err(|_| self.complain("a number"))
    }

    fn call(&mut self) -> Result<Expr, String> {
        let name = self.word(|c| c.is_ascii_lowercase());
        let function = match name {
            "peak" => Function::Peak,
            "least" => Function::Least,
            "at" => Function::At,
            "reach" => Function::Reach,
            "carries" => Function::Carries,
            "crosses" => Function::Crosses,
            _ => return Err(self.complain("a number, or peak, least, at, reach, carries, crosses")),
        };
        self.expect('(')?;
        let (series, metric) = self.path()?;
        let argument = match function {
            Function::Peak | Function::Least => Argument::None,
            Function::At | Function::Reach => self.argument()?,
            Function::Carries => {
                self.expect(',')?;
                Argument::Value(Box::new(self.sum()?))
            }
            Function::Crosses => {
                self.expect(',')?;
                let (series, metric) = self.path()?;
                Argument::Series(series.into(), metric.into())
            }
        };
        self.expect(')')?;
        Ok(Expr::Call(function, series.into(), metric.into(), argument))
    }

    /// A series and its metric.
    fn path(&mut self) -> Result<(&'t str, &'t str), String> {
        let path = self.word(|c| c.is_ascii_alphanumeric() || c == '_' || c == '.');
        path.split_once('.').ok_or_else(|| self.complain("series.metric"))
    }

    fn argument(&mut self) -> Result<Argument, String> {
        self.expect(',')?;
        if self.take(&['\'']).is_none() {
            return self.number().map(Argument::Number);
        }
        let rest = &self.text[self.at..];
        let end = rest.find('\'').ok_or_else(|| self.complain("a closing quote"))?;
        self.at += end + 1;
        Ok(Argument::Name(rest[..end].into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Ramp;

    impl Source for Ramp {
        fn values(&self, series: &str, metric: &str) -> Result<Vec<(Place, f64)>, String> {
            let place = |n: u32| Place { name: format!("n{n}"), number: f64::from(n) };
            match (series, metric) {
                ("ramp", "rtt_ns.p50") => {
                    Ok([1, 2, 4, 8].map(|n| (place(n), f64::from(n.min(5)) * 10.0)).into())
                }
                ("flat", "ns") => Ok([1, 2, 4].map(|n| (place(n), 20.0 * 2f64.sqrt())).into()),
                _ => Err(format!("no {series}.{metric}")),
            }
        }
    }

    #[track_caller]
    fn value(text: &str) -> f64 {
        Expr::parse(text).unwrap().value(&Ramp).unwrap()
    }

    #[test]
    fn values() {
        assert_eq!(value("1 + 2 * 3 - 4 / 2"), 5.0);
        assert_eq!(value("(1 + 2) * 3"), 9.0);
        assert_eq!(value("peak(ramp.rtt_ns.p50)"), 50.0);
        assert_eq!(value("1 - least(ramp.rtt_ns.p50) / peak(ramp.rtt_ns.p50)"), 0.8);
        assert_eq!(value("at(ramp.rtt_ns.p50, 2)"), 20.0);
        assert_eq!(value("at(ramp.rtt_ns.p50, 3)"), 30.0);
        assert_eq!(value("at(ramp.rtt_ns.p50, 'n8')"), 50.0);
        assert_eq!(value("reach(ramp.rtt_ns.p50, 0.9)"), 6.0);
        assert_eq!(value("reach(ramp.rtt_ns.p50, 0.1)"), 1.0);
        assert_eq!(value("carries(ramp.rtt_ns.p50, 20)"), 2.0);
        assert_eq!(value("carries(ramp.rtt_ns.p50, peak(ramp.rtt_ns.p50) * 0.6)"), 3.0);
        assert!((value("crosses(ramp.rtt_ns.p50, flat.ns)") - 2.0 * 2f64.sqrt()).abs() < 1e-9);
        assert_eq!(value("crosses(flat.ns, ramp.rtt_ns.p50)"), 1.0);
        assert_eq!(value("3 > 2 > 1"), 1.0);
        assert_eq!(value("3 > 2 > 2"), 0.0);
        assert_eq!(value("at(ramp.rtt_ns.p50, 1) < 11"), 1.0);
    }

    #[test]
    fn what_is_wrong_is_said() {
        for (text, word) in [
            ("", "a value"),
            ("1 +", "a value"),
            ("1 2", "an operator"),
            ("median(ramp.x)", "peak, least, at, reach"),
            ("peak(ramp)", "series.metric"),
            ("at(ramp.x)", "','"),
            ("at(ramp.x, 'y)", "closing quote"),
            ("(1", "')'"),
            ("carries(ramp.x)", "','"),
            ("crosses(ramp.x, 3)", "series.metric"),
        ] {
            let message = Expr::parse(text).unwrap_err();
            assert!(message.contains(word), "{text:?}: {message}");
        }
        for (text, word) in [
            ("at(ramp.rtt_ns.p50, 9)", "no point 9"),
            ("peak(flat.x)", "no flat.x"),
            ("carries(ramp.rtt_ns.p50, 51)", "not reached"),
            ("carries(ramp.rtt_ns.p50, peak(flat.x))", "no flat.x"),
        ] {
            let message = Expr::parse(text).unwrap().value(&Ramp).unwrap_err();
            assert!(message.contains(word), "{text:?}: {message}");
        }
    }
}
