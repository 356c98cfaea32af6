//! Skills: folders with a `SKILL.md`. A model is told their names and what they are for, and reads one when it needs it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::{Style, folders, markdown};
use crate::Error;
use crate::layer::{Layer, Source};
use crate::read::{Reading, entries, leaves, read_text};

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
const MOST: usize = 100;
const LONGEST_DESCRIPTION: usize = 1000;

/// Adds the skills of one place; one of the same name is replaced.
pub(crate) fn find(base: &Path, root: Option<&Path>, skills: &mut BTreeMap<String, Skill>, reading: &mut Reading) {
    for (folder, _) in folders(base, FOLDERS) {
        for directory in entries(&folder, reading) {
            let file = directory.join("SKILL.md");
            if leaves(&file, root, reading) {
                continue;
            }
            match read(&file, reading) {
                Ok(Some(_)) if skills.len() >= MOST => {
                    reading.warn(format!("{}: left out, as there are {MOST} skills already", file.display()));
                }
                Ok(Some(skill)) => drop(skills.insert(skill.name.clone(), skill)),
                Ok(None) => {}
                Err(error) => reading.warn(format!("{} ({}); this skill is left out", error.message, error.hint)),
            }
        }
    }
}

fn read(file: &Path, reading: &mut Reading) -> Result<Option<Skill>, Error> {
    let Some(text) = read_text(file, reading)? else { return Ok(None) };
    let source = Source::file(Layer::Directory, file);
    let read = markdown::parse(&source, &text, "skill")?;
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
        return Err(crate::document::place(&source, "", 0).error("the skill has no `description`", hint));
    }
    Ok(Some(Skill { name, description, path: file.to_owned() }))
}

/// It is put into a list that a model reads, one line each.
fn one_line(text: &str, longest: usize) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    words.join(" ").chars().take(longest).collect()
}
