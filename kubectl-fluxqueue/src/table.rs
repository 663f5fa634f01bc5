//! Tables: columns as wide as their widest cell, and on a terminal the last one cut to the line.

use anstyle::Style;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use fluxqueue_api::text;

use crate::console::Look;

/// The space between two columns, as kubectl has it.
const GAP: usize = 3;

/// The least width in columns to which a column is cut: below it the line is wrapped instead.
const CUT_TO_AT_LEAST: usize = 8;

/// The widest column that later lines below a table keep: one long name does not widen them for
/// good.
const KEPT_WIDTH_MAX: usize = 40;

/// A cell: a text without control characters, and its style.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Cell {
    text: String,
    style: Style,
}

/// Rows under headings.
#[derive(Debug, Clone)]
pub(crate) struct Table {
    headings: Vec<&'static str>,
    rows: Vec<Vec<Cell>>,
    /// True if the headings are shown.
    has_headings: bool,
}

impl Cell {
    /// Makes a cell of a text that may come from outside; an empty text is `-`.
    pub(crate) fn new(text: impl AsRef<str>) -> Self {
        let text = text::message(text.as_ref()).into_owned();
        let text = if text.is_empty() { "-".to_owned() } else { text };
        Cell { text, style: Style::new() }
    }

    /// Makes a cell with a style.
    pub(crate) fn styled(text: impl AsRef<str>, style: Style) -> Self {
        Cell { style, ..Cell::new(text) }
    }
}

impl<T: AsRef<str>> From<Option<T>> for Cell {
    fn from(text: Option<T>) -> Self {
        text.map_or_else(|| Cell::new("-"), Cell::new)
    }
}

impl Table {
    /// Makes a table without rows.
    pub(crate) fn new(headings: &[&'static str]) -> Self {
        Table { headings: headings.to_vec(), rows: Vec::new(), has_headings: true }
    }

    /// Shows or hides the headings.
    pub(crate) fn with_headings(mut self, wanted: bool) -> Self {
        self.has_headings = wanted;
        self
    }

    /// Adds a row, which has as many cells as there are headings.
    pub(crate) fn push(&mut self, row: Vec<Cell>) {
        debug_assert_eq!(row.len(), self.headings.len(), "a cell for each heading");
        self.rows.push(row);
    }

    /// True if there is no row.
    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Returns the lines. A table without rows is no text.
    pub(crate) fn render(&self, look: &Look) -> String {
        self.render_below(&mut Vec::new(), look)
    }

    /// Does the same below lines with columns of these widths. A column that has to be wider grows;
    /// wider than [`KEPT_WIDTH_MAX`] it is in these lines alone.
    pub(crate) fn render_below(&self, widths: &mut Vec<usize>, look: &Look) -> String {
        if self.rows.is_empty() {
            return String::new();
        }
        let headings: Vec<Cell> = self.headings.iter().map(Cell::new).collect();
        let all = || self.has_headings.then_some(&headings).into_iter().chain(&self.rows);
        let columns = self.headings.len();
        widths.resize(columns, 0);
        for row in all() {
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = cell.text.width().max(*width);
            }
        }
        let before_last: usize = widths[..columns - 1].iter().map(|width| width + GAP).sum();
        let for_last = look
            .width
            .map(|width| width.saturating_sub(before_last))
            .filter(|left| *left >= CUT_TO_AT_LEAST);
        let mut text = String::new();
        for row in all() {
            let last = columns - 1;
            for (cell, width) in row[..last].iter().zip(&*widths) {
                text.push_str(&look.paint(cell.style, &cell.text));
                text.push_str(&" ".repeat(width + GAP - cell.text.width()));
            }
            let cut = for_last.map_or(row[last].text.clone(), |width| cut(&row[last].text, width));
            text.push_str(&look.paint(row[last].style, &cut));
            text.push('\n');
        }
        for width in widths {
            *width = (*width).min(KEPT_WIDTH_MAX);
        }
        text
    }
}

/// Returns the beginning of a text that takes at most `width` columns, with an ellipsis if that is
/// not all.
pub(crate) fn cut(text: &str, width: usize) -> String {
    if text.width() <= width {
        return text.to_owned();
    }
    let (mut kept, mut taken) = (String::new(), 0);
    for c in text.chars() {
        taken += c.width().unwrap_or(0);
        if taken >= width {
            break;
        }
        kept.push(c);
    }
    kept + "…"
}

#[cfg(test)]
mod tests {
    use super::*;
    use anstyle::AnsiColor;

    fn table() -> Table {
        let mut table = Table::new(&["JOB", "STATE", "MESSAGE"]);
        let red = AnsiColor::Red.on_default();
        table.push(vec![Cell::new("job/größer"), Cell::styled("Failed", red), Cell::new("")]);
        table.push(vec![
            Cell::new("pod/a\u{1b}[2J"),
            Cell::new("Running"),
            Cell::new("x".repeat(90)),
        ]);
        table
    }

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let text = table().render(&Look::plain());
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "JOB              STATE     MESSAGE");
        assert_eq!(lines[1], "job/größer       Failed    -");
        assert_eq!(lines[2], format!(r"pod/a\u{{1b}}[2J   Running   {}", "x".repeat(90)));
        assert_eq!(table().with_headings(false).render(&Look::plain()).lines().count(), 2);
        assert_eq!(Table::new(&["JOB"]).render(&Look::plain()), "");
    }

    #[test]
    fn a_terminal_has_colours_and_lines_that_are_not_longer_than_it() {
        let look = Look { width: Some(60), colours: true, ..Look::plain() };
        let text = table().render(&look);
        assert!(text.contains("\u{1b}[31mFailed\u{1b}[0m"), "{text:?}");
        let last = text.lines().last().unwrap();
        assert_eq!(last.width(), 60);
        assert!(last.ends_with("x…"), "{last}");
        // The line is too narrow for anything: the terminal wraps it.
        let narrow = Look { width: Some(10), ..Look::plain() };
        assert_eq!(table().render(&narrow), table().render(&Look::plain()));
    }

    #[test]
    fn wide_characters_take_two_columns() {
        assert_eq!(cut("日本語", 6), "日本語");
        assert_eq!(cut("日本語", 5), "日本…");
        assert_eq!(cut("abc", 2), "a…");
    }
}
