//! Skills: folders with a `SKILL.md`. A model is told their names and what they are for, and reads one when it needs it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Serialize;

use super::{Style, folders, markdown};
use crate::Error;
use crate::layer::Source;
use crate::read::{Reading, entries};

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Skill {
    pub name: String,
    pub description: String,
    /// The `SKILL.md`; what it speaks of lies beside it.
    pub path: PathBuf,
}

const FOLDERS: &[(&str, Style)] = &[
    (".claude/skills", Style::Claude),
    (".opencode/skill", Style::Opencode),
    (".opencode/skills", Style::Opencode),
    (".convoke/skills", Style::Convoke),
];

/// Every model call carries the list.
pub(crate) const MOST: usize = 100;
const LONGEST_DESCRIPTION: usize = 1000;

/// The files of the skills of one place.
pub(crate) fn find(base: &Path, reading: &mut Reading) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for (folder, _) in folders(base, FOLDERS) {
        found.extend(entries(&folder, reading).into_iter().map(|directory| directory.join("SKILL.md")));
    }
    found
}

pub(crate) fn read(source: &Arc<Source>, text: &str, file: &Path) -> Result<Skill, Error> {
    let read = markdown::parse(source, text, "skill")?;
    let folder = file.parent().and_then(Path::file_name).map(|name| name.to_string_lossy().into_owned());
    let (mut name, mut description) = (folder.unwrap_or_default(), String::new());
    for field in &read.front {
        match field.key.as_str() {
            "name" => one_line(field.node.text()?, 64).clone_into(&mut name),
            "description" => description = one_line(field.node.text()?, LONGEST_DESCRIPTION),
            _ => {}
        }
    }
    if description.is_empty() {
        let hint = "say in a line what it is for: models choose by that";
        return Err(crate::document::place(source, "", 0).error("the skill has no `description`", hint));
    }
    Ok(Skill { name, description, path: file.to_owned() })
}

/// It is put into a list that a model reads, one line each.
fn one_line(text: &str, longest: usize) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    words.join(" ").chars().take(longest).collect()
}
