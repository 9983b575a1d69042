//! Tables of plain text that fit the terminal: headings of several lines, columns as wide as their contents, long
//! texts wrapped between words or on lines of their own, and a legend below.

use super::wrapped;

/// Between two columns.
const GAP: usize = 2;
/// A column of prose that would be narrower than this is written below its row instead.
const NARROW: usize = 30;
/// Indentation of prose below a row.
const INDENT: usize = 4;

/// The kind of a column's cells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Number,
    Text,
    Prose,
}

/// A column: its heading, and the kind of its cells.
#[derive(Debug, Clone)]
pub struct Column {
    heading: Vec<String>,
    kind: Kind,
}

impl Column {
    /// Numbers, flush right. The heading may have several lines: the last ones are units.
    pub fn number(heading: &str) -> Column {
        Column::new(heading, Kind::Number)
    }

    /// Short texts, flush left.
    pub fn text(heading: &str) -> Column {
        Column::new(heading, Kind::Text)
    }

    /// Sentences, which are wrapped. At most one column, the last.
    pub fn prose(heading: &str) -> Column {
        Column::new(heading, Kind::Prose)
    }

    fn new(heading: &str, kind: Kind) -> Column {
        Column { heading: heading.split('\n').map(str::to_owned).collect(), kind }
    }
}

/// A table with its title above and its legend below.
#[derive(Debug, Clone, Default)]
pub struct Table {
    title: String,
    columns: Vec<Column>,
    rows: Vec<Vec<String>>,
    notes: Vec<String>,
}

impl Table {
    /// An empty table.
    pub fn new(title: impl Into<String>, columns: impl IntoIterator<Item = Column>) -> Table {
        let columns = columns.into_iter().collect();
        Table { title: title.into(), columns, ..Table::default() }
    }

    /// Adds a row: a cell for each column.
    pub fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().collect());
    }

    /// Adds a paragraph to the legend.
    pub fn note(&mut self, text: impl Into<String>) {
        self.notes.push(text.into());
    }

    /// The table as wide as the terminal allows.
    pub fn text(&self) -> String {
        self.in_width(super::width())
    }

    /// The table in lines of at most `width` characters, unless its short columns alone are wider.
    pub fn in_width(&self, width: usize) -> String {
        let mut lines = if self.title.is_empty() { Vec::new() } else { wrapped(&self.title, width) };
        if !lines.is_empty() {
            lines.push(String::new());
        }
        if !self.rows.is_empty() {
            lines.extend(self.body(width));
        }
        for note in &self.notes {
            if lines.last().is_some_and(|line| !line.is_empty()) {
                lines.push(String::new());
            }
            lines.extend(wrapped(note, width));
        }
        lines.join("\n")
    }

    /// Headings, a rule, and rows.
    fn body(&self, width: usize) -> Vec<String> {
        let (widths, below) = self.layout(width);
        let side_by_side = &self.columns[..widths.len()];
        let depth = side_by_side.iter().map(|c| c.heading.len()).max().unwrap_or(0);
        let headings: Vec<Vec<String>> = side_by_side
            .iter()
            .map(|c| [vec![String::new(); depth - c.heading.len()], c.heading.clone()].concat())
            .collect();
        let mut lines = self.lines(&headings, &widths);
        let total = widths.iter().sum::<usize>() + GAP * widths.len().saturating_sub(1);
        lines.push("\u{2500}".repeat(total));
        for row in &self.rows {
            let cells = row.iter().zip(&widths).zip(side_by_side);
            let cells: Vec<Vec<String>> = cells
                .map(|((cell, width), column)| match column.kind {
                    Kind::Prose => wrapped(cell, *width),
                    _ => vec![cell.clone()],
                })
                .collect();
            lines.extend(self.lines(&cells, &widths));
            let prose = row.last().filter(|text| below && !text.is_empty());
            for line in prose.map_or_else(Vec::new, |text| wrapped(text, width.saturating_sub(INDENT))) {
                lines.push(format!("{:INDENT$}{line}", ""));
            }
        }
        lines
    }

    /// The widths of the columns that are side by side, and whether the last column is written below its
    /// rows instead.
    fn layout(&self, width: usize) -> (Vec<usize>, bool) {
        let mut widths: Vec<usize> = (0..self.columns.len()).map(|i| self.natural(i)).collect();
        let gaps = GAP * widths.len().saturating_sub(1);
        let total = widths.iter().sum::<usize>() + gaps;
        let prose = self.columns.last().is_some_and(|c| c.kind == Kind::Prose);
        let Some(last) = widths.last_mut().filter(|_| prose && total > width) else {
            return (widths, false);
        };
        let room = (*last + width).saturating_sub(total);
        if room >= NARROW.min(*last) {
            *last = room;
            return (widths, false);
        }
        widths.pop();
        (widths, true)
    }

    /// The length of the longest line of a column.
    fn natural(&self, column: usize) -> usize {
        let heading = self.columns.get(column).into_iter().flat_map(|c| &c.heading);
        let cells = self.rows.iter().filter_map(|row| row.get(column));
        heading.chain(cells).map(|text| text.chars().count()).max().unwrap_or(0)
    }

    /// The lines of a row whose cells have several lines each.
    fn lines(&self, cells: &[Vec<String>], widths: &[usize]) -> Vec<String> {
        let depth = cells.iter().map(Vec::len).max().unwrap_or(0);
        let line = |n: usize| {
            let columns = cells.iter().zip(widths).zip(&self.columns).map(|((lines, width), column)| {
                let text = lines.get(n).map_or("", String::as_str);
                match column.kind {
                    Kind::Number => format!("{text:>width$}"),
                    Kind::Text | Kind::Prose => format!("{text:<width$}"),
                }
            });
            let columns: Vec<String> = columns.collect();
            columns.join(&" ".repeat(GAP)).trim_end().to_owned()
        };
        (0..depth).map(line).collect()
    }
}

/// The longest line of a text, in characters.
#[cfg(test)]
pub fn longest_line(text: &str) -> usize {
    text.lines().map(|line| line.chars().count()).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        let columns = [Column::text("design"), Column::number("rate\nMpps"), Column::prose("what it is")];
        let mut table = Table::new("Rates", columns);
        let about = "grouped descriptors with a signal that carries the parity of the lap";
        table.row(["ccnic".to_owned(), "24.3".to_owned(), about.to_owned()]);
        table.row(["e810".to_owned(), "8".to_owned(), "doorbells".to_owned()]);
        table.note("Mpps: million packets per second.");
        table
    }

    #[test]
    fn columns_are_as_wide_as_their_contents() {
        let expected = "\
Rates

        rate
design  Mpps  what it is
────────────────────────────────────────────────────────────────────────────────────
ccnic   24.3  grouped descriptors with a signal that carries the parity of the lap
e810       8  doorbells

Mpps: million packets per second.";
        let wide = table().in_width(120);
        let rule = wide.lines().nth(4).map(str::len);
        let same =
            |text: &str| text.lines().filter(|l| !l.starts_with('\u{2500}')).collect::<Vec<_>>().join("\n");
        assert_eq!(same(&wide), same(expected));
        assert_eq!(rule, Some(3 * longest_line(&wide)), "the rule is as long as the longest line");
    }

    #[test]
    fn prose_is_wrapped_between_words_or_goes_below() {
        let wrapped = table().in_width(50);
        assert!(wrapped.contains("ccnic   24.3  grouped descriptors with a signal\n"), "{wrapped}");
        assert!(wrapped.contains("\n              that carries the parity of the lap\n"), "{wrapped}");
        let below = table().in_width(40);
        assert!(
            below.contains("ccnic   24.3\n    grouped descriptors with a signal\n    that carries"),
            "{below}"
        );
        assert!(!below.contains("what it is"), "{below}");
        for width in [40, 50, 80] {
            assert!(longest_line(&table().in_width(width)) <= width, "{width}");
        }
    }

    #[test]
    fn a_table_without_rows_has_no_heading() {
        let mut empty = Table::new("Rates", [Column::text("a"), Column::number("b")]);
        empty.note("There is nothing to show.");
        assert_eq!(empty.in_width(80), "Rates\n\nThere is nothing to show.");
    }
}
