//! Statements whose text depends on how many names an operation has: made once for each number, because making
//! the text costs more than running it.

use std::borrow::Cow;
use std::sync::OnceLock;

/// Operations have one or two names; more come from renaming again and again.
const KEPT: usize = 8;

/// The text for each number of names.
pub(super) struct ByNames {
    make: fn(&str) -> String,
    /// The number of the first name's parameter.
    first: usize,
    kept: [OnceLock<String>; KEPT],
}

impl ByNames {
    /// `make` gets the names' parameters, `?3,?4`.
    pub(super) const fn new(first: usize, make: fn(&str) -> String) -> Self {
        Self { make, first, kept: [const { OnceLock::new() }; KEPT] }
    }

    pub(super) fn text(&self, names: usize) -> Cow<'_, str> {
        match self.kept.get(names) {
            Some(kept) => kept.get_or_init(|| self.made(names)).as_str().into(),
            None => self.made(names).into(),
        }
    }

    fn made(&self, names: usize) -> String {
        let parameters: Vec<String> = (self.first..self.first + names).map(|number| format!("?{number}")).collect();
        (self.make)(&parameters.join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_number_of_names_has_its_text() {
        let statement = ByNames::new(3, |names| format!("IN ({names})"));
        for names in [1, 2, 1, KEPT, KEPT + 1] {
            let text = statement.text(names);
            assert_eq!(text.matches('?').count(), names);
            assert!(text.starts_with("IN (?3") && text.ends_with(&format!("?{})", names + 2)), "{text}");
        }
    }
}
