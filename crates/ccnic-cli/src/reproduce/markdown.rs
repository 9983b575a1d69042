//! The statements as tables of Markdown: what a page of `docs/` has is a copy of this.

use std::fmt::Write;

use ccnic_sim::figures::statement::Verdict;

use super::text;

/// Kinds of statements, and the headings of their tables.
const KINDS: [(&str, &str); 3] =
    [("predicted", "Predictions"), ("calibrated", "Inputs"), ("own", "This project's default design")];

/// A table for each kind of statement that occurs.
pub fn tables(verdicts: &[&Verdict]) -> String {
    let mut markdown = String::new();
    for (kind, heading) in KINDS {
        let mut these = verdicts.iter().filter(|v| v.calibration == kind).peekable();
        if these.peek().is_none() {
            continue;
        }
        let _ = write!(
            markdown,
            "{}## {heading}\n\n| figure | | statement | published | simulated | error | |\n|---|---|---|---:|---:|---:|---|\n",
            if markdown.is_empty() { "" } else { "\n" }
        );
        these.for_each(|v| row(&mut markdown, v));
    }
    markdown
}

fn row(markdown: &mut String, v: &Verdict) {
    let cells = [
        v.figure.clone(),
        v.statement.clone(),
        v.text.clone(),
        text::published(v),
        text::simulated(v),
        text::error(v),
        text::verdict(v).to_owned(),
    ];
    cells.iter().for_each(|cell| _ = write!(markdown, "| {} ", cell.replace('|', "\\|")));
    markdown.push_str("|\n");
}

#[cfg(test)]
mod tests {
    use ccnic_sim::figures::all;
    use ccnic_sim::figures::statement::{Published, Tolerance};

    use super::*;

    #[test]
    fn each_kind_has_a_table() {
        let verdict = |calibration, published, tolerance, within| Verdict {
            figure: "12".to_owned(),
            statement: "N17".to_owned(),
            text: "a | b".to_owned(),
            section: "5.3".to_owned(),
            published,
            simulated: Some(700.0),
            unit: "ns".to_owned(),
            error: Some(0.1),
            tolerance,
            range: Some([690.0, 720.0]),
            within: Some(within),
            tie: false,
            calibration,
            cause: String::new(),
        };
        let input = verdict("calibrated", Published::Value(650.0), Tolerance::Ratio, true);
        let predicted = verdict("predicted", Published::Range([600.0, 640.0]), Tolerance::Ratio, false);
        assert_eq!(
            tables(&[&input, &predicted]),
            "## Predictions\n\n| figure | | statement | published | simulated | error | |\n|---|---|---|---:|---:|---:|---|\n\
             | 12 | N17 | a \\| b | 600 ns to 640 ns | 700 ns (690 ns to 720 ns) | +10.0 % | OUT |\n\n\
             ## Inputs\n\n| figure | | statement | published | simulated | error | |\n|---|---|---|---:|---:|---:|---|\n\
             | 12 | N17 | a \\| b | 650 ns | 700 ns (690 ns to 720 ns) | +10.0 % | within |\n"
        );
    }

    /// The page of docs has every statement as its plan has it; the values are those of a run.
    #[test]
    fn the_laboratorys_page_has_every_statement() {
        let page = include_str!("../../../../docs/laboratory-cc-nic.md");
        for figure in all().unwrap() {
            for statement in &figure.statements {
                let row = format!("| {} | {} | {} |", figure.id, statement.id, statement.text);
                let rows = page.lines().filter(|line| line.starts_with(&row)).count();
                assert_eq!(rows, 1, "docs/laboratory-cc-nic.md, a copy of statements.md, has: {row}");
            }
        }
    }
}
