//! The text of a filter.

use std::net::IpAddr;
use std::str::FromStr;

use anyhow::{Context, bail, ensure};

use super::{ARP, Expr, Filter, IPV4, IPV6, Primitive, SCTP, Side, TCP, UDP};

/// Parentheses and `not`s in each other.
const DEEPEST: usize = 64;

/// Words that say which kind of packet: its EtherType, the protocol inside, or both.
const KINDS: [(&str, Option<u16>, Option<u8>); 8] = [
    ("ip", Some(IPV4), None),
    ("ip6", Some(IPV6), None),
    ("arp", Some(ARP), None),
    ("tcp", None, Some(TCP)),
    ("udp", None, Some(UDP)),
    ("sctp", None, Some(SCTP)),
    ("icmp", Some(IPV4), Some(1)),
    ("icmp6", Some(IPV6), Some(58)),
];

/// What such a word asks for.
fn kind(word: &str) -> Option<Expr> {
    let (_, ether, inside) = KINDS.iter().find(|(name, ..)| *name == word)?;
    let ether = ether.map(|number| Expr::Is(Primitive::EtherType(number)));
    let inside = inside.map(|number| Expr::Is(Primitive::Protocol(number)));
    match (ether, inside) {
        (Some(ether), Some(inside)) => Some(Expr::And(Box::new(ether), Box::new(inside))),
        (ether, inside) => ether.or(inside),
    }
}

/// What may stand behind such a word, and then asks for something else of that kind of packet.
const ASKS: [&str; 7] = ["src", "dst", "host", "net", "port", "portrange", "proto"];

const KNOWN: &str = "known are [src|dst] host, net, port, portrange; ether [src|dst] host, ether proto; proto; ip, ip6, arp, tcp, udp, sctp, \
                     icmp, icmp6; vlan; less, greater; broadcast, multicast; and, or, not, parentheses";

impl FromStr for Filter {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> anyhow::Result<Filter> {
        let words = words(text);
        let mut rest = Rest { words: &words, depth: 0 };
        if words.is_empty() {
            return Ok(Filter(None));
        }
        let expr = rest.expr()?;
        match rest.peek() {
            None => Ok(Filter(Some(expr))),
            Some(word) => bail!("{word:?} comes too late in the filter: write \"and\" or \"or\" before it"),
        }
    }
}

/// Words, and parentheses and `!` by themselves.
fn words(text: &str) -> Vec<&str> {
    let mut words = Vec::new();
    for part in text.split_whitespace() {
        let mut from = 0;
        for (at, sign) in part.match_indices(['(', ')', '!']) {
            words.extend([&part[from..at], sign]);
            from = at + sign.len();
        }
        words.push(&part[from..]);
    }
    words.retain(|word| !word.is_empty());
    words
}

/// What has not been read.
struct Rest<'a> {
    words: &'a [&'a str],
    depth: usize,
}

impl<'a> Rest<'a> {
    fn peek(&self) -> Option<&'a str> {
        self.words.first().copied()
    }

    fn take(&mut self) -> Option<&'a str> {
        let (first, rest) = self.words.split_first()?;
        self.words = rest;
        Some(first)
    }

    /// Takes the next word if it is one of these.
    fn take_if(&mut self, any: &[&str]) -> Option<&'a str> {
        self.peek().filter(|word| any.contains(word))?;
        self.take()
    }

    fn value(&mut self, behind: &str) -> anyhow::Result<&'a str> {
        self.take().with_context(|| format!("the filter ends behind {behind:?}, which needs a value"))
    }

    /// `and` and `or` bind equally, from the left.
    fn expr(&mut self) -> anyhow::Result<Expr> {
        let mut left = self.factor()?;
        while let Some(word) = self.take_if(&["and", "&&", "or", "||"]) {
            let right = Box::new(self.factor()?);
            left = match word {
                "and" | "&&" => Expr::And(Box::new(left), right),
                _ => Expr::Or(Box::new(left), right),
            };
        }
        Ok(left)
    }

    fn factor(&mut self) -> anyhow::Result<Expr> {
        self.depth += 1;
        ensure!(
            self.depth <= DEEPEST,
            "the filter has more than {DEEPEST} parentheses and nots in each other"
        );
        let expr = if self.take_if(&["not", "!"]).is_some() {
            Expr::Not(Box::new(self.factor()?))
        } else if self.take_if(&["("]).is_some() {
            let inner = self.expr()?;
            ensure!(self.take() == Some(")"), "a parenthesis of the filter is not closed");
            inner
        } else {
            self.primitive()?
        };
        self.depth -= 1;
        Ok(expr)
    }

    fn primitive(&mut self) -> anyhow::Result<Expr> {
        let word = self.take().context("the filter ends where something to look for is expected")?;
        if let Some(kind) = kind(word) {
            let asks = self.peek().is_some_and(|next| ASKS.contains(&next));
            return if asks { Ok(Expr::And(Box::new(kind), Box::new(self.primitive()?))) } else { Ok(kind) };
        }
        let primitive = match word {
            "ether" => self.ether()?,
            "vlan" => {
                let id = self.peek().and_then(|next| next.parse().ok());
                if id.is_some() {
                    self.take();
                }
                ensure!(id.is_none_or(|id: u16| id < 4096), "vlan: the number of a VLAN is below 4096");
                Primitive::Vlan(id)
            }
            "less" => Primitive::Less(number(word, self.value(word)?)?),
            "greater" => Primitive::Greater(number(word, self.value(word)?)?),
            "broadcast" => Primitive::Broadcast,
            "multicast" => Primitive::Multicast,
            "proto" => Primitive::Protocol(protocol(self.value(word)?)?),
            "src" => self.end(Side::Source, word)?,
            "dst" => self.end(Side::Destination, word)?,
            "host" | "net" | "port" | "portrange" => ask(Side::Either, word, self.value(word)?)?,
            _ => bail!("{word:?} is no word of a filter; {KNOWN}"),
        };
        Ok(Expr::Is(primitive))
    }

    /// Behind `src` or `dst`; `host` may be left out.
    fn end(&mut self, side: Side, word: &str) -> anyhow::Result<Primitive> {
        let what = self.take_if(&["host", "net", "port", "portrange"]).unwrap_or("host");
        let value = self.value(word)?;
        ask(side, what, value)
    }

    /// Behind `ether`.
    fn ether(&mut self) -> anyhow::Result<Primitive> {
        match self.value("ether")? {
            "broadcast" => Ok(Primitive::Broadcast),
            "multicast" => Ok(Primitive::Multicast),
            "proto" => Ok(Primitive::EtherType(ether_type(self.value("ether proto")?)?)),
            "host" => Ok(Primitive::Ether { side: Side::Either, mac: mac(self.value("ether host")?)? }),
            word @ ("src" | "dst") => {
                self.take_if(&["host"]);
                let side = if word == "src" { Side::Source } else { Side::Destination };
                Ok(Primitive::Ether { side, mac: mac(self.value(word)?)? })
            }
            other => bail!("{other:?} behind \"ether\": write host, src, dst, proto, broadcast or multicast"),
        }
    }
}

fn ask(side: Side, what: &str, value: &str) -> anyhow::Result<Primitive> {
    let whole = |address: IpAddr| if address.is_ipv4() { 32 } else { 128 };
    match what {
        "host" => {
            let address = ip(value)?;
            Ok(Primitive::Net { side, address, bits: whole(address) })
        }
        "net" => {
            let (address, bits) = value.split_once('/').map_or((value, None), |(a, bits)| (a, Some(bits)));
            let address = ip(address)?;
            let bits = bits.map_or(Ok(whole(address)), |bits| number("net", bits))?;
            ensure!(bits <= whole(address), "net {value}: a prefix has {} bits at most", whole(address));
            Ok(Primitive::Net { side, address, bits })
        }
        "port" => {
            let port = number(what, value)?;
            Ok(Primitive::Port { side, from: port, to: port })
        }
        _ => {
            let (from, to) =
                value.split_once('-').with_context(|| format!("portrange {value}: write FROM-TO"))?;
            Ok(Primitive::Port { side, from: number(what, from)?, to: number(what, to)? })
        }
    }
}

fn ip(text: &str) -> anyhow::Result<IpAddr> {
    text.parse().ok().with_context(|| format!("{text:?} is no IP address, such as 10.0.0.1 or fd00::1"))
}

fn number<N: FromStr>(what: &str, text: &str) -> anyhow::Result<N> {
    text.parse().ok().with_context(|| format!("{what}: {text:?} is no number that can be there"))
}

fn protocol(text: &str) -> anyhow::Result<u8> {
    let named = KINDS.iter().find(|(name, ..)| *name == text).and_then(|(.., inside)| *inside);
    named.map_or_else(|| number("proto", text), Ok)
}

fn ether_type(text: &str) -> anyhow::Result<u16> {
    let named = KINDS.iter().find(|(name, _, inside)| *name == text && inside.is_none());
    let named = named.and_then(|(_, ether, _)| *ether);
    match (named, text.strip_prefix("0x")) {
        (Some(number), _) => Ok(number),
        (None, Some(digits)) => u16::from_str_radix(digits, 16)
            .ok()
            .with_context(|| format!("ether proto: {text:?} is no number")),
        (None, None) => number("ether proto", text),
    }
}

fn mac(text: &str) -> anyhow::Result<[u8; 6]> {
    let byte = |part: &str| u8::from_str_radix(part, 16).ok().filter(|_| part.len() <= 2);
    let bytes: Option<Vec<u8>> = text.split(':').map(byte).collect();
    let bytes = bytes.and_then(|bytes| bytes.try_into().ok());
    bytes.with_context(|| format!("{text:?} is no MAC address, such as 02:00:00:00:00:01"))
}
