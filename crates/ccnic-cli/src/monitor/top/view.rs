//! Draws `ccnic top`. All of it is readable without colours, on 80 columns and 24 lines.

use std::time::{Duration, Instant};

use ccnic_control::counters::Kind;
use ccnic_control::latency::LatencyStatus;
use ccnic_control::printable;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style, Stylize};
use ratatui::text::{Line, Span, Text};
use ratatui::widgets::{Block, Cell, Clear, Paragraph, Row, Table};

use super::app::App;
use super::rows::{PortRates, PortRow, Sort};

/// Columns of a core, and of its bar.
const CORE: u16 = 26;
const BAR: usize = 12;
/// Lines of cores at most.
const CORE_LINES: u16 = 3;
/// Lines for the selected port.
const DETAILS: u16 = 9;
/// Characters of its name above them.
const NAME: usize = 40;

const KEYS: &str = "q quit  \u{2191}\u{2193} select  s sort  r reverse  space pause  +- period  ? help";

const HELP: &str = "\
q, Esc      quit
\u{2191} \u{2193} j k     select a port; PgUp, PgDn, Home, End too
s S \u{2190} \u{2192}     sort by another column
r           reverse the order
space       pause, go on
+ -         longer, shorter time between two readings

TX: from the program to the NIC; RX: to the program.
/s: in a second; k, M, G: thousand, million, billion.
drop/s: packets not delivered; below, of the selected
port, for which reasons. CPU: the share of its time
that a polling core moves packets. p99: how long
packets from the port take through the NIC, of a
hundred sampled bursts the slowest but one.

docs/operations.md says what each counter means.
Any key closes this help.";

/// Draws all of it, as it is at `now`.
pub fn draw(frame: &mut Frame<'_>, app: &mut App, now: Instant) {
    let cores = core_lines(frame.area(), app);
    let areas = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(cores),
        Constraint::Min(3),
        Constraint::Length(DETAILS),
        Constraint::Length(1),
    ]);
    let [title_at, cores_at, ports_at, details_at, keys_at] = areas.areas(frame.area());
    frame.render_widget(title(app), title_at);
    frame.render_widget(core_bars(app, cores_at), cores_at);
    ports(frame, app, ports_at);
    details(frame, app, details_at);
    frame.render_widget(last_line(app, now), keys_at);
    if app.help {
        help(frame);
    }
}

/// What runs there, and for how long.
fn title(app: &App) -> Line<'static> {
    let bold = Style::new().add_modifier(Modifier::BOLD);
    let Some((status, interval)) = &app.shown else {
        return Line::styled(format!("ccnic top: waiting for {}", app.socket()), bold);
    };
    let (version, wire) = (printable(&status.version), printable(&status.wire));
    let uptime = Duration::try_from_secs_f64(status.uptime_s).unwrap_or_default();
    let mut text = format!("ccnicd {version}, {wire}, process {}, up {}", status.pid, time(uptime));
    if let Some(interval) = interval {
        text += &format!(", last {:.1} s", interval.seconds());
    }
    let mut line = Line::from(Span::styled(text, bold));
    if app.paused {
        line.push_span(Span::styled("  paused", Style::new().add_modifier(Modifier::REVERSED)));
    }
    line
}

/// A duration in its two largest units.
fn time(duration: Duration) -> String {
    let seconds = duration.as_secs();
    let (days, hours, minutes) = (seconds / 86_400, seconds / 3600 % 24, seconds / 60 % 60);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{seconds} s"),
        (0, 0, _) => format!("{minutes} min {} s", seconds % 60),
        (0, _, _) => format!("{hours} h {minutes} min"),
        _ => format!("{days} d {hours} h"),
    }
}

fn core_lines(area: Rect, app: &App) -> u16 {
    let cores = app.shown.as_ref().map_or(0, |(status, _)| status.cores.len());
    let in_a_line = usize::from((area.width / CORE).max(1));
    (cores.div_ceil(in_a_line) as u16).min(CORE_LINES)
}

/// How busy each core is; where there are too many, how many more.
fn core_bars(app: &App, area: Rect) -> Text<'static> {
    let Some((status, interval)) = &app.shown else { return Text::default() };
    let in_a_line = usize::from((area.width / CORE).max(1));
    let room = in_a_line * usize::from(area.height);
    let all = status.cores.len();
    let shown = if all > room { room.saturating_sub(1) } else { all };
    let busy = |at: usize| interval.as_ref().and_then(|interval| interval.busy(at));
    let mut cells: Vec<_> =
        status.cores.iter().take(shown).enumerate().map(|(at, cpu)| core(*cpu, busy(at))).collect();
    if all > shown {
        cells.push(vec![Span::raw(format!("and {} more", all - shown))]);
    }
    cells.chunks(in_a_line).map(|cells| Line::from(cells.concat())).collect()
}

fn core(cpu: usize, busy: Option<f64>) -> Vec<Span<'static>> {
    let share = busy.map_or_else(|| "  -".to_owned(), |busy| format!("{:>3.0}", busy * 100.0));
    let full = (busy.unwrap_or(0.0) * BAR as f64) as usize;
    let colour = match busy {
        Some(busy) if busy >= 0.9 => Color::Red,
        Some(busy) if busy >= 0.6 => Color::Yellow,
        _ => Color::Green,
    };
    let bar = "\u{2588}".repeat(full) + &"\u{2591}".repeat(BAR.saturating_sub(full));
    vec![Span::raw(format!("CPU{cpu:>3} ")), Span::styled(bar, colour), Span::raw(format!(" {share}%  "))]
}

fn ports(frame: &mut Frame<'_>, app: &mut App, area: Rect) {
    let headings = [
        ("id", Some(Sort::Id)),
        ("port", Some(Sort::Name)),
        ("queues", None),
        ("TX pkt/s", Some(Sort::Tx)),
        ("TX bit/s", None),
        ("RX pkt/s", Some(Sort::Rx)),
        ("RX bit/s", None),
        ("p99", Some(Sort::Latency)),
        ("drop/s", Some(Sort::Dropped)),
    ];
    let heading = |(at, (text, sort)): (usize, (&'static str, Option<Sort>))| {
        let style = Style::new().add_modifier(if sort == Some(app.sort) {
            Modifier::REVERSED | Modifier::BOLD
        } else {
            Modifier::UNDERLINED
        });
        let line = Line::styled(text, style);
        Cell::from(if at == 1 { line } else { line.right_aligned() })
    };
    let header = Row::new(headings.into_iter().enumerate().map(heading));
    // Ports that are no programs have ids of ten digits.
    let id = app.rows.iter().map(|row| row.id.to_string().len()).max().unwrap_or(0).max(2) as u16;
    let widths = [id, 0, 6, 8, 8, 8, 8, 6, 6].map(|width| match width {
        0 => Constraint::Fill(1),
        width => Constraint::Length(width),
    });
    let table = Table::new(app.rows.iter().map(port), widths)
        .header(header)
        .highlight_symbol(">")
        .row_highlight_style(Style::new().add_modifier(Modifier::REVERSED));
    frame.render_stateful_widget(table, area, &mut app.table);
    if app.rows.is_empty() && app.shown.is_some() {
        let below = Rect { y: area.y + 1, height: area.height.saturating_sub(1), ..area };
        frame.render_widget(Paragraph::new("No program is attached."), below);
    }
}

fn port(row: &PortRow) -> Row<'static> {
    let right = |text: String| Cell::from(Line::from(text).right_aligned());
    let rate = |of: fn(&PortRates) -> f64| row.rates.as_ref().map_or_else(|| "-".to_owned(), |r| si(of(r)));
    let dropped = right(rate(|r| r.dropped));
    let drops = row.rates.is_some_and(|rates| rates.dropped > 0.0);
    Row::new([
        right(row.id.to_string()),
        Cell::from(row.name.clone()),
        right(row.queues.to_string()),
        right(rate(|r| r.tx_packets)),
        right(rate(|r| r.tx_bits)),
        right(rate(|r| r.rx_packets)),
        right(rate(|r| r.rx_bits)),
        right(row.p99().map_or_else(|| "-".to_owned(), span)),
        if drops { dropped.style(Color::Red) } else { dropped },
    ])
}

/// How long packets of the selected port take, and its counters.
fn details(frame: &mut Frame<'_>, app: &App, area: Rect) {
    let Some((port, latency, details)) = app.selected() else { return };
    let name: String = printable(&port.name).chars().take(NAME).collect();
    let title = format!(" {} {name}: latency, drops and other events ", port.id);
    let block = Block::new().borders(ratatui::widgets::Borders::TOP).title(title);
    let inner = block.inner(area);
    frame.render_widget(block, area);
    let [latency_at, inner] = Layout::vertical([Constraint::Length(1), Constraint::Min(0)]).areas(inner);
    frame.render_widget(latency_line(&latency), latency_at);
    if details.is_empty() {
        return frame.render_widget(Paragraph::new("Every packet was delivered at once."), inner);
    }
    let room = usize::from(inner.height).saturating_sub(1);
    let more = details.len().saturating_sub(room);
    let rows = details.iter().take(if more > 0 { room.saturating_sub(1) } else { room }).map(|detail| {
        let number = |text: String| Cell::from(Line::from(text).right_aligned());
        let what = if detail.counter.kind == Kind::Drop { "dropped: " } else { "" };
        Row::new([
            Cell::from(format!("{what}{}", detail.counter.title)),
            number(detail.rate.map_or_else(|| "-".to_owned(), si)),
            number(detail.total.to_string()),
        ])
    });
    let rest = (more > 0).then(|| Row::new([Cell::from(format!("and {} more (`ccnic stats`)", more + 1))]));
    let heading = |text| Cell::from(Line::from(text).right_aligned().underlined());
    let header = Row::new([Cell::from(Line::from("counter").underlined()), heading("/s"), heading("total")]);
    let widths = [Constraint::Fill(1), Constraint::Length(8), Constraint::Length(16)];
    frame.render_widget(Table::new(rows.chain(rest), widths).header(header), inner);
}

/// How long packets take from a port, by samples.
fn latency_line(latency: &LatencyStatus) -> Line<'static> {
    let (Some(mean), Some(p50), Some(p99)) =
        (latency.mean_ns(), latency.quantile_ns(0.5), latency.quantile_ns(0.99))
    else {
        return Line::raw("latency: no burst was sampled");
    };
    let (mean, p50, p99) = (span(mean), span(p50), span(p99));
    let bursts = match latency.samples() {
        1 => "1 sampled burst".to_owned(),
        n => format!("{n} sampled bursts"),
    };
    Line::raw(format!("latency of {bursts}: p50 {p50}, p99 {p99}, mean {mean}"))
}

/// A time in at most six characters: 85ns, 1.23us, 45.6ms.
fn span(ns: f64) -> String {
    let text = si(ns);
    let (number, unit) = text.split_at(text.find(char::is_alphabetic).unwrap_or(text.len()));
    let unit = match unit {
        "" => "ns",
        "k" => "\u{b5}s",
        "M" => "ms",
        _ => "s",
    };
    format!("{number}{unit}")
}

/// What is wrong, or what one can do.
fn last_line(app: &App, now: Instant) -> Line<'static> {
    let silent = app.silence(now).map(|silence| format!("no answer for {}", time(silence)));
    match app.trouble.as_ref().map(|why| format!("trying again: {why}")).or(silent) {
        Some(wrong) => Line::styled(wrong, Style::new().red().bold()),
        None => Line::styled(KEYS, Style::new().add_modifier(Modifier::DIM)),
    }
}

fn help(frame: &mut Frame<'_>) {
    let text = Text::from(HELP);
    let area = frame.area();
    let (width, height) = (text.width() as u16 + 4, text.height() as u16 + 2);
    let area =
        area.centered(Constraint::Length(width.min(area.width)), Constraint::Length(height.min(area.height)));
    frame.render_widget(Clear, area);
    let block = Block::bordered().title(" ccnic top ").padding(ratatui::widgets::Padding::horizontal(1));
    frame.render_widget(Paragraph::new(text).block(block), area);
}

/// A rate in at most five characters: 0, 0.04, 12, 1.23k, 45.6M.
pub fn si(value: f64) -> String {
    let units = ["", "k", "M", "G", "T", "P", "E"];
    let (mut value, mut unit) = (value, units.iter());
    let mut name = unit.next().copied().unwrap_or_default();
    while value >= 999.5
        && let Some(next) = unit.next()
    {
        (value, name) = (value / 1000.0, *next);
    }
    let digits = match value {
        v if v == 0.0 || v >= 99.95 || (name.is_empty() && v >= 0.995) => 0,
        v if v >= 9.995 => 1,
        _ => 2,
    };
    format!("{value:.digits$}{name}")
}
