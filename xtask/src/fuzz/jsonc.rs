//! Settings as somebody wrote them: read whole, with all sections, from a repository's file and from the user's.

use super::{Target, Trial, signature};
use config::{Environment, Paths};
use std::fs;
use std::path::Path;

pub(super) const TARGET: Target = Target {
    name: "jsonc",
    words: &[
        "{",
        "}",
        "[",
        "]",
        ":",
        ",",
        "//",
        "/*",
        "*/",
        "\"",
        "\\u",
        "{env:A}",
        "{file:a}",
        "\"permission\":",
        "\"agent\":",
        "\"provider\":",
        "\"limits\":",
        "\"tools\":",
        "\"hooks\":",
        "\"model\":",
        "\"*\":",
        "\"allow\"",
        "\"deny\"",
        "1e5",
        "-0",
        "true",
        "null",
    ],
    folders: &[],
    open,
};

fn open(scratch: &Path) -> anyhow::Result<Trial> {
    let (home, project) = (scratch.join("home"), scratch.join("project"));
    let paths = Paths::under(&home);
    let user = paths.config_file();
    fs::create_dir_all(user.parent().unwrap_or(&home))?;
    fs::create_dir_all(project.join(".git"))?;
    fs::write(project.join(".git/HEAD"), "ref: refs/heads/main\n")?;
    let env = Environment::default();
    Ok(Box::new(move |input| {
        // The length chooses whose file it is, so that both are tried.
        let of_project = input.len() % 2 == 1;
        let file = if of_project { project.join("convoke.jsonc") } else { user.clone() };
        let _ = fs::remove_file(project.join("convoke.jsonc"));
        let _ = fs::remove_file(&user);
        fs::write(&file, input).map_err(|error| format!("cannot write the input: {error}"))?;
        let loaded = config::load_at(&paths, &env, project.as_path(), &config::reads_all);
        Ok(match loaded {
            Ok(loaded) => signature((of_project, loaded.warnings.len().min(4), loaded.origins().len().min(8))),
            Err(error) => {
                let error = error.to_string();
                // The words without what was quoted and where.
                let words: String = error.chars().filter(|c| c.is_ascii_lowercase() || *c == ' ').take(40).collect();
                signature((of_project, words))
            }
        })
    }))
}
