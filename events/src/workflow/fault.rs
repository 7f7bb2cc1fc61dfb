//! Faults of a definition.

use std::fmt;

/// A place in a file; both count from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
pub struct Place {
    /// The line.
    pub line: u64,
    /// The column.
    pub column: u64,
}

/// One thing that is wrong.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Fault {
    /// Where in the file, when it was read from one.
    pub place: Option<Place>,
    /// Where in the definition, for example `nodes[2].llm.user_prompt`.
    pub path: String,
    /// The fault.
    pub message: String,
    /// The fix.
    pub hint: Option<String>,
}

impl Fault {
    /// A fault at a path.
    pub fn new(path: impl Into<String>, message: impl Into<String>) -> Self {
        Self { place: None, path: path.into(), message: message.into(), hint: None }
    }

    /// Adds a hint for the fix.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(place) = self.place {
            write!(f, "{}:{}: ", place.line, place.column)?;
        }
        if !self.path.is_empty() {
            write!(f, "{}: ", self.path)?;
        }
        f.write_str(&self.message)?;
        if let Some(hint) = &self.hint {
            write!(f, " ({hint})")?;
        }
        Ok(())
    }
}

/// The most faults that are reported; the last one says how many more there are.
pub const FAULTS_MAX: usize = 100;

/// The faults of a definition, all of them up to [`FAULTS_MAX`]; never empty.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Faults(pub Vec<Fault>);

impl Faults {
    /// A single fault.
    pub fn one(fault: Fault) -> Self {
        Self(vec![fault])
    }

    /// The first ones of these, and how many more there are.
    #[must_use]
    pub(super) fn first_of(mut faults: Vec<Fault>) -> Self {
        let n_more = faults.len().saturating_sub(FAULTS_MAX);
        faults.truncate(FAULTS_MAX);
        if let Some(last) = faults.last_mut().filter(|_| n_more > 0) {
            last.hint = Some(format!("and {n_more} more faults, which are not shown"));
        }
        Self(faults)
    }
}

impl fmt::Display for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, fault) in self.0.iter().enumerate() {
            if i > 0 {
                f.write_str("\n")?;
            }
            write!(f, "{fault}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Faults {}
