//! Problems of a configuration, with their places, as `wattle check` shows them.

use std::fmt;
use std::rc::Rc;

use serde::Serialize;

use super::json::Position;

/// Everything that was found, in the order of the files.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Report {
    /// The configuration cannot be used.
    pub errors: Vec<Problem>,
    /// It can be used, but probably does not do what was meant.
    pub warnings: Vec<Problem>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Problem {
    pub file: String,
    /// Such as `nodes[2].endpoints[0]`; empty for the file as a whole.
    pub path: String,
    pub line: Option<u32>,
    pub column: Option<u32>,
    /// At most 160 characters.
    pub message: String,
}

/// Where a value stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    pub file: Rc<str>,
    pub path: String,
    pub position: Option<Position>,
}

impl Report {
    pub fn error(&mut self, place: &Place, message: impl Into<String>) {
        self.errors.push(problem(place, message.into()));
    }

    pub fn warning(&mut self, place: &Place, message: impl Into<String>) {
        self.warnings.push(problem(place, message.into()));
    }

    /// `first` before other files, and each from top to bottom.
    pub(super) fn sort(&mut self, first: &str) {
        let order = |p: &Problem| (p.file != first, p.file.clone(), p.line, p.column);
        self.errors.sort_by_key(order);
        self.warnings.sort_by_key(order);
    }
}

impl Place {
    pub fn file(name: &str) -> Place {
        Place { file: name.into(), path: String::new(), position: None }
    }

    /// A field of the object that stands here.
    pub(super) fn field(&self, name: &str, position: Position) -> Place {
        let path = if self.path.is_empty() { name.to_owned() } else { format!("{}.{name}", self.path) };
        Place { file: self.file.clone(), path, position: Some(position) }
    }

    pub(super) fn item(&self, index: usize, position: Position) -> Place {
        Place { file: self.file.clone(), path: format!("{}[{index}]", self.path), position: Some(position) }
    }

    /// For a message about something else: `nodes[3] in line 17 of registry.json`.
    pub(super) fn seen_from(&self, other: &Place) -> String {
        let line = self.position.map_or(String::new(), |p| format!(" in line {}", p.line));
        let file = if self.file == other.file { String::new() } else { format!(" of {}", short_file(&self.file)) };
        format!("{}{line}{file}", self.path)
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.file)?;
        if let Some(line) = self.line {
            write!(f, ":{line}")?;
        }
        if let Some(column) = self.column {
            write!(f, ":{column}")?;
        }
        if !self.path.is_empty() {
            write!(f, ": {}", self.path)?;
        }
        write!(f, ": {}", self.message)
    }
}

fn problem(place: &Place, message: String) -> Problem {
    Problem {
        file: place.file.to_string(),
        path: clip(&place.path, MAX_PATH),
        line: place.position.map(|p| p.line),
        column: place.position.map(|p| p.column),
        message: clip(&message, MAX_MESSAGE),
    }
}

/// One line, at most `max` characters, and nothing that a terminal would obey.
pub(crate) fn clip(text: &str, max: usize) -> String {
    let clean = |c: char| if c.is_control() { ' ' } else { c };
    if text.chars().count() <= max {
        return text.chars().map(clean).collect();
    }
    text.chars().take(max.saturating_sub(1)).map(clean).chain(['…']).collect()
}

fn short_file(file: &str) -> &str {
    file.rsplit('/').next().unwrap_or(file)
}

const MAX_MESSAGE: usize = 160;
const MAX_PATH: usize = 80;
