//! Finds the texts of all eight layers for one directory, in the order in which they count.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::files::{Style, agents, commands, skills};
use crate::layer::{Layer, Source};
use crate::read::{Reading, leaves, read_shared, read_text};
use crate::{Environment, Error, Paths, document};

/// What holds when nobody says otherwise, in the form everybody else writes in.
pub(crate) const BUILTIN: &str = include_str!("builtin.jsonc");

/// A text, and what it is.
#[derive(Clone)]
pub(crate) struct Sheet {
    pub(crate) source: Arc<Source>,
    pub(crate) file: PathBuf,
    pub(crate) text: String,
    pub(crate) kind: Kind,
    /// It came with a repository, trusted or not.
    pub(crate) of_repository: bool,
}

#[derive(Clone, PartialEq, Eq)]
pub(crate) enum Kind {
    Settings,
    Agent {
        style: Style,
        /// The place whose agents must not share a name.
        base: PathBuf,
    },
    Command {
        style: Style,
        folder: PathBuf,
    },
    Skill,
}

/// Everything there is to read.
pub(crate) struct Gathered {
    pub(crate) sheets: Vec<Sheet>,
    /// From the root of the repository down to the directory.
    pub(crate) chain: Vec<PathBuf>,
}

pub(crate) struct Gather<'a> {
    pub(crate) paths: &'a Paths,
    pub(crate) env: &'a Environment,
    pub(crate) reading: &'a mut Reading,
}

impl Gather<'_> {
    pub(crate) fn all(mut self, spot: Option<Spot<'_>>) -> Result<Gathered, Error> {
        let (chain, directory) = (spot.map(chain).unwrap_or_default(), spot.map(|spot| spot.directory));
        let mut gathered = Gathered { sheets: Vec::new(), chain };
        self.own(&mut gathered)?;
        self.projects(&mut gathered)?;
        self.directories(&mut gathered)?;
        let at = directory.unwrap_or(&self.paths.config);
        if let Some(content) = self.env.filled("CONVOKE_CONFIG_CONTENT") {
            let source = Source::text(Layer::Content, "CONVOKE_CONFIG_CONTENT", at);
            gathered.push(source, PathBuf::new(), content.to_owned(), Kind::Settings);
        }
        self.settings(Layer::Managed, &self.paths.managed.clone(), None, &mut gathered)?;
        Ok(gathered)
    }

    /// Layers 1 to 4: ours, the organisation's, the user's, and the file that a variable names.
    fn own(&mut self, gathered: &mut Gathered) -> Result<(), Error> {
        let source = Source::text(Layer::Builtin, "builtin.jsonc", Path::new(""));
        gathered.push(source, PathBuf::new(), BUILTIN.to_owned(), Kind::Settings);
        let before = gathered.sheets.len();
        self.settings(Layer::User, &self.paths.config.clone(), None, gathered)?;
        if let Some(sheet) = self.organisation(gathered.sheets.get(before))? {
            gathered.sheets.insert(before, sheet);
        }
        let Some(named) = self.env.filled("CONVOKE_CONFIG") else { return Ok(()) };
        let hint = "set it to the path of a settings file, or unset it";
        let file = std::path::absolute(named)
            .map_err(|cause| Error::new(format!("`CONVOKE_CONFIG` cannot be resolved: {cause}"), hint))?;
        let Some(text) = read_text(&file, self.reading)? else {
            let what = format!("{}: `CONVOKE_CONFIG` names this file, which does not exist", file.display());
            return Err(Error::new(what, hint));
        };
        gathered.push(Source::file(Layer::File, &file), file, text, Kind::Settings);
        Ok(())
    }

    /// What was last fetched from the organisation. Fetching is not done here: reading settings never waits.
    fn organisation(&mut self, user: Option<&Sheet>) -> Result<Option<Sheet>, Error> {
        let url = match user {
            Some(sheet) => crate::organisation::url_of(&document::parse(&sheet.source, &sheet.text)?),
            None => None,
        };
        let Some(url) = crate::organisation::address(url.as_deref(), self.env) else { return Ok(None) };
        let file = self.paths.organisation(&url);
        let Some(text) = read_text(&file, self.reading)? else { return Ok(None) };
        let source = Source::text(Layer::Organisation, &url, &self.paths.config);
        Ok(Some(Sheet { source, file, text, kind: Kind::Settings, of_repository: false }))
    }

    /// Layer 5.
    fn projects(&mut self, gathered: &mut Gathered) -> Result<(), Error> {
        for directory in gathered.chain.clone() {
            self.settings(Layer::Project, &directory, gathered.root(), gathered)?;
        }
        Ok(())
    }

    /// Layer 6: the user's own, then those of the repository.
    fn directories(&mut self, gathered: &mut Gathered) -> Result<(), Error> {
        let own = &self.paths.directory;
        let own = own.canonicalize().unwrap_or_else(|_| own.clone());
        self.directory(&own, None, gathered)?;
        for directory in gathered.chain.clone() {
            if directory != own {
                self.directory(&directory, gathered.root(), gathered)?;
            }
        }
        Ok(())
    }

    fn directory(&mut self, base: &Path, root: Option<PathBuf>, gathered: &mut Gathered) -> Result<(), Error> {
        let layer = Layer::Directory;
        for (file, style) in agents::find(base, self.reading) {
            let kind = Kind::Agent { style, base: base.to_owned() };
            self.markdown(source(layer, &file, root.as_deref()), file, kind, gathered);
        }
        for (file, folder, style) in commands::find(base, self.reading) {
            let kind = Kind::Command { style, folder };
            self.markdown(source(layer, &file, root.as_deref()), file, kind, gathered);
        }
        for file in skills::find(base, self.reading) {
            self.markdown(source(layer, &file, root.as_deref()), file, Kind::Skill, gathered);
        }
        self.settings(layer, &base.join(".convoke"), root, gathered)
    }

    /// One that cannot be read is said, and only that one is left out.
    fn markdown(&mut self, source: Arc<Source>, file: PathBuf, kind: Kind, gathered: &mut Gathered) {
        if leaves(&file, source.repository.as_deref(), self.reading) {
            return;
        }
        match read_shared(&file, self.reading) {
            Ok(Some(text)) => gathered.push(source, file, text, kind),
            Ok(None) => {}
            Err(error) => self.reading.warn(format!("{} ({}); it is left out", error.message, error.hint)),
        }
    }

    /// `convoke.jsonc`, or `convoke.json` where only that exists.
    fn settings(
        &mut self,
        layer: Layer,
        directory: &Path,
        root: Option<PathBuf>,
        gathered: &mut Gathered,
    ) -> Result<(), Error> {
        let (commented, plain) = (directory.join("convoke.jsonc"), directory.join("convoke.json"));
        let read = if root.is_some() { read_shared } else { read_text };
        let found = read(&commented, self.reading)?;
        if found.is_some() && plain.is_file() {
            let name = plain.display();
            self.reading.warn(format!("{name}: not read, because `convoke.jsonc` is there as well"));
        }
        let (file, text) = match found {
            Some(text) => (commented, Some(text)),
            None => (plain.clone(), read(&plain, self.reading)?),
        };
        if let Some(text) = text
            && !leaves(&file, root.as_deref(), self.reading)
        {
            gathered.push(source(layer, &file, root.as_deref()), file, text, Kind::Settings);
        }
        Ok(())
    }
}

impl Gathered {
    fn push(&mut self, source: Arc<Source>, file: PathBuf, text: String, kind: Kind) {
        let of_repository = source.repository.is_some();
        self.sheets.push(Sheet { source, file, text, kind, of_repository });
    }

    pub(crate) fn root(&self) -> Option<PathBuf> {
        self.chain.first().cloned()
    }

    /// What came with the repository.
    pub(crate) fn foreign(&self) -> impl Iterator<Item = &Sheet> {
        self.sheets.iter().filter(|sheet| sheet.source.repository.is_some())
    }
}

fn source(layer: Layer, file: &Path, root: Option<&Path>) -> Arc<Source> {
    match root {
        Some(root) => Source::of_repository(layer, file, root),
        None => Source::file(layer, file),
    }
}

/// A directory, and the project it is a part of, if that is known: else it is looked for.
#[derive(Debug, Clone, Copy)]
pub struct Spot<'a> {
    pub directory: &'a Path,
    pub project: Option<&'a Path>,
}

impl<'a> From<&'a Path> for Spot<'a> {
    fn from(directory: &'a Path) -> Self {
        Self { directory, project: None }
    }
}

/// The root of the project that holds a directory, and every directory from there down to it. Where it is not known, that
/// is the repository around it, and outside of one the directory alone.
pub(crate) fn chain(spot: Spot<'_>) -> Vec<PathBuf> {
    let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let (directory, project) = (real(spot.directory), spot.project.map(real));
    let above: Vec<PathBuf> = directory.ancestors().map(Path::to_owned).collect();
    let known = project.and_then(|project| above.iter().position(|directory| *directory == project));
    let root = known.or_else(|| above.iter().position(|directory| directory.join(".git").exists())).unwrap_or(0);
    above[..=root].iter().rev().cloned().collect()
}
