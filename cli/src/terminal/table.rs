//! Tables, as kubectl prints them: columns with three spaces between them, no lines.

use std::io;

use bounded_text::printable;

use super::{
    style::{Style, Styles},
    writer::Writer,
};

const GAP: usize = 3;

/// A cell, and what it means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cell {
    /// Its text, a single line.
    pub text: String,
    /// Its style, if it has one.
    pub style: Option<Style>,
}

impl Cell {
    pub fn styled(style: Style, text: impl Into<String>) -> Self {
        Self {
            style: Some(style),
            ..Self::from(text.into())
        }
    }

    /// A text that may be empty and stays so, for a column at the end: a message, a detail.
    pub fn or_blank(text: impl Into<String>) -> Self {
        let text = text.into();
        if text.is_empty() {
            Self { text, style: None }
        } else {
            Self::from(text)
        }
    }

    fn width(&self) -> usize {
        self.text.chars().count()
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Self {
        let is_empty = text.is_empty();
        Self {
            // As kubectl: an empty cell would look as if the next column were in its place.
            text: if is_empty {
                "<none>".into()
            } else {
                one_line(&text)
            },
            style: is_empty.then_some(Style::Faint),
        }
    }
}

impl From<&str> for Cell {
    fn from(text: &str) -> Self {
        Self::from(text.to_owned())
    }
}

/// Texts of others keep to their line, and are as wide as what is shown of them.
pub fn one_line(text: &str) -> String {
    printable(text).replace(['\n', '\t'], " ")
}

/// Rows under headings.
#[derive(Clone, Debug)]
pub struct Table {
    headings: Vec<&'static str>,
    rows: Vec<Vec<Cell>>,
}

impl Table {
    /// A table without rows. Headings are upper case.
    pub fn new(headings: &[&'static str]) -> Self {
        Self {
            headings: headings.to_vec(),
            rows: Vec::new(),
        }
    }

    /// Adds a row, with a cell for each heading.
    pub fn row(&mut self, cells: impl IntoIterator<Item = Cell>) {
        self.rows.push(cells.into_iter().collect());
    }

    /// Whether there is no row.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Writes the headings and rows. The last column is not padded.
    pub fn write(&self, out: &mut Writer<'_>, styles: Styles) -> io::Result<()> {
        self.write_indented(out, styles, "")
    }

    /// What is written, for tests.
    #[cfg(test)]
    pub fn text(&self, styles: Styles) -> String {
        let mut written = Vec::new();
        self.write(&mut Writer::new(&mut written), styles).unwrap();
        String::from_utf8(written).unwrap()
    }

    /// Writes the headings and rows, each after an indentation.
    pub fn write_indented(&self, out: &mut Writer<'_>, styles: Styles, indentation: &str) -> io::Result<()> {
        self.write_with(out, styles, indentation, &self.widths())
    }

    /// Writes the headings and rows. More rows can follow.
    pub fn begin(&self, out: &mut Writer<'_>, styles: Styles) -> io::Result<MoreRows> {
        let widths = self.widths();
        self.write_with(out, styles, "", &widths)?;
        Ok(MoreRows { widths })
    }

    fn write_with(
        &self,
        out: &mut Writer<'_>,
        styles: Styles,
        indentation: &str,
        widths: &[usize],
    ) -> io::Result<()> {
        for row in std::iter::once(&self.heading()).chain(&self.rows) {
            writeln!(out, "{indentation}{}", line(row, widths, styles))?;
        }
        Ok(())
    }

    fn heading(&self) -> Vec<Cell> {
        self.headings.iter().map(|&text| Cell::from(text)).collect()
    }

    fn widths(&self) -> Vec<usize> {
        let mut widths: Vec<_> = self.heading().iter().map(Cell::width).collect();
        for row in &self.rows {
            widen(&mut widths, row);
        }
        widths
    }
}

/// Rows that become known after the others of their table.
#[derive(Clone, Debug)]
pub struct MoreRows {
    widths: Vec<usize>,
}

impl MoreRows {
    /// Writes a row. A column that is too narrow becomes wider from here on.
    pub fn row(&mut self, cells: &[Cell], out: &mut Writer<'_>, styles: Styles) -> io::Result<()> {
        widen(&mut self.widths, cells);
        writeln!(out, "{}", line(cells, &self.widths, styles))
    }
}

fn widen(widths: &mut [usize], row: &[Cell]) {
    for (width, cell) in widths.iter_mut().zip(row) {
        *width = cell.width().max(*width);
    }
}

fn line(row: &[Cell], widths: &[usize], styles: Styles) -> String {
    let mut line = String::new();
    let mut gap = 0;
    for (cell, width) in row.iter().zip(widths) {
        line.extend(std::iter::repeat_n(' ', gap));
        line.push_str(&match cell.style {
            Some(style) => styles.paint(style, &cell.text),
            None => cell.text.clone(),
        });
        gap = width + GAP - cell.width();
    }
    line.truncate(line.trim_end_matches(' ').len());
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell_and_colors_do_not_count() {
        let mut table = Table::new(&["NAME", "READY", "MESSAGE"]);
        table.row([
            "web".into(),
            Cell::styled(Style::Good, "1/1"),
            "a\nb\u{1b}[2J".into(),
        ]);
        table.row(["longer-name".into(), "".into(), "".into()]);
        assert_eq!(
            table.text(Styles::new(false)),
            "NAME          READY    MESSAGE\nweb           1/1      a b\nlonger-name   <none>   <none>\n"
        );
        assert!(
            table
                .text(Styles::new(true))
                .contains("\u{1b}[32m1/1\u{1b}[0m      a b\n")
        );
    }
}
