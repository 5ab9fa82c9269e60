//! Tables and paragraphs that fit the width of the screen.

pub(super) struct Column {
    pub head: &'static str,
    pub fit: Fit,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Fit {
    /// As wide as its widest cell.
    Whole,
    /// Made narrower, down to this width, when the table is too wide; long cells end in `…`.
    Cut(usize),
    /// Never wider than this; a longer cell has a line of its own before the rest of its row.
    Break(usize),
}

#[derive(Default)]
pub(super) struct Row {
    pub cells: Vec<String>,
    /// Below the row, wrapped, indented.
    pub notes: Vec<String>,
}

/// Lines without blanks at their ends, each with its newline.
pub(super) fn table(columns: &[Column], rows: &[Row], width: usize) -> String {
    let widths = widths(columns, rows, width);
    let mut out = String::new();
    line(&mut out, columns.iter().zip(&widths).map(|(column, width)| (column.head, *width)));
    for row in rows {
        let mut cells: Vec<String> = Vec::with_capacity(row.cells.len());
        for ((cell, column), width) in row.cells.iter().zip(columns).zip(&widths) {
            if matches!(column.fit, Fit::Break(_)) && length(cell) > *width {
                line(&mut out, cells.iter().map(String::as_str).chain([cell.as_str()]).zip(widths.iter().copied()));
                cells.iter_mut().for_each(String::clear);
                cells.push(String::new());
            } else {
                cells.push(cut(cell, *width));
            }
        }
        line(&mut out, cells.iter().map(String::as_str).zip(widths.iter().copied()));
        let indent = NOTE_INDENT.min(widths.first().copied().unwrap_or_default() + GAP);
        for note in &row.notes {
            paragraph(&mut out, note, indent, width);
        }
    }
    out
}

/// Words of `text`, wrapped at `width`, each line after `indent` blanks.
pub(super) fn paragraph(out: &mut String, text: &str, indent: usize, width: usize) {
    hanging(out, "", text, indent, width);
}

/// `head` in the indentation of the first line, then the paragraph.
pub(super) fn hanging(out: &mut String, head: &str, text: &str, indent: usize, width: usize) {
    let room = width.saturating_sub(indent).max(1);
    let mut column = length(head);
    out.push_str(head);
    let mut start = true;
    for word in text.split_whitespace() {
        let size = length(word);
        if !start && column + 1 + size > indent + room {
            out.push('\n');
            column = 0;
            start = true;
        }
        let gap = if start { indent.saturating_sub(column) } else { 1 };
        out.extend(std::iter::repeat_n(' ', gap));
        out.push_str(word);
        column += gap + size;
        start = false;
    }
    out.push('\n');
}

/// `parts` with three blanks between them, in as many lines as they need.
pub(super) fn parts(out: &mut String, parts: &[String], width: usize) {
    let mut column = 0;
    for part in parts {
        let size = length(part);
        if column > 0 && column + 3 + size > width {
            out.push_str("\n   ");
            column = 3;
        } else if column > 0 {
            out.push_str("   ");
            column += 3;
        }
        out.push_str(part);
        column += size;
    }
    out.push('\n');
}

pub(super) fn cut(text: &str, width: usize) -> String {
    if length(text) <= width {
        return text.to_owned();
    }
    let mut cut: String = text.chars().take(width.saturating_sub(1)).collect();
    cut.push('…');
    cut
}

fn widths(columns: &[Column], rows: &[Row], width: usize) -> Vec<usize> {
    let mut widths: Vec<usize> = columns
        .iter()
        .enumerate()
        .map(|(index, column)| {
            let cells = rows.iter().filter_map(|row| row.cells.get(index)).map(|cell| length(cell));
            match column.fit {
                Fit::Whole | Fit::Cut(_) => cells.chain([length(column.head)]).max().unwrap_or_default(),
                Fit::Break(most) => {
                    cells.filter(|cell| *cell <= most).chain([length(column.head)]).max().unwrap_or_default()
                }
            }
        })
        .collect();
    let gaps = GAP * columns.len().saturating_sub(1);
    let mut over = (widths.iter().sum::<usize>() + gaps).saturating_sub(width);
    while over > 0 {
        // The widest gives way first.
        let narrowable = columns.iter().zip(&mut widths).filter_map(|(column, width)| match column.fit {
            Fit::Cut(least) if *width > least => Some(width),
            Fit::Cut(_) | Fit::Whole | Fit::Break(_) => None,
        });
        let Some(widest) = narrowable.max() else { break };
        *widest -= 1;
        over -= 1;
    }
    widths
}

fn line<'a>(out: &mut String, cells: impl Iterator<Item = (&'a str, usize)>) {
    let mut blanks = 0;
    for (cell, width) in cells {
        if !cell.is_empty() {
            out.extend(std::iter::repeat_n(' ', blanks));
            out.push_str(cell);
            blanks = 0;
        }
        blanks += (width + GAP).saturating_sub(length(cell));
    }
    out.push('\n');
}

fn length(text: &str) -> usize {
    text.chars().count()
}

const GAP: usize = 2;
const NOTE_INDENT: usize = 11;
