//! Lines, made of pieces that are set off from each other. What may be foreign in them is written out by the terminal.

/// How a piece of a line looks, where colours can be shown.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Style {
    #[default]
    Plain,
    /// What passes by.
    Dim,
    Bold,
    /// What went wrong.
    Error,
    /// Lines of a diff: what comes, what goes, and where.
    Added,
    Removed,
    Place,
}

/// One line. Lines that were broken inside stay one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Line(Vec<(Style, String)>);

impl Line {
    pub(crate) fn new(style: Style, text: impl Into<String>) -> Self {
        Self(vec![(style, text.into())])
    }

    pub(crate) fn dim(text: impl Into<String>) -> Self {
        Self::new(Style::Dim, text)
    }

    /// The same behind something that is set off.
    #[must_use]
    pub(crate) fn behind(mut self, style: Style, text: impl Into<String>) -> Self {
        self.0.insert(0, (style, text.into()));
        self
    }

    pub(crate) fn pieces(&self) -> impl Iterator<Item = (Style, &str)> {
        self.0.iter().map(|(style, text)| (*style, text.as_str()))
    }
}
