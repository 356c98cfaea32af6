//! Changing one setting in the user's file, and nothing else in it: comments and layout stay.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use jsonc_parser::cst::{CstInputValue, CstObject, CstRootNode};
use serde_json::Value;

use crate::document::{excerpt, strict};
use crate::layer::{Layer, Source};
use crate::read::{Reading, read_text};
use crate::section::Stray;
use crate::{Environment, Error, Paths, private, resolve};

/// What was changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Edited {
    pub file: PathBuf,
    /// What is odd about the file now.
    pub warnings: Vec<String>,
}

/// Sets a key, such as `limits.depth`, in the user's file, or takes it out. A value that would be refused when it is
/// read is refused here, and the file stays as it is.
pub fn edit(paths: &Paths, env: &Environment, key: &str, value: Option<&Value>) -> Result<Edited, Error> {
    let file = paths.config_file();
    // A link stays a link: what it points to is written.
    let file = file.canonicalize().unwrap_or(file);
    let before = read_text(&file, &mut Reading::default())?;
    let source = Source::file(Layer::User, &file);
    // Broken syntax is told with its place, as everywhere.
    crate::document::parse(&source, before.as_deref().unwrap_or_default())?;
    let keys = keys(key)?;
    let before = before.as_deref().unwrap_or("{}\n");
    let text = changed(before, &keys, value)?;
    if value.is_none() && text == before {
        let what = format!("{}: `{}` is not set there", file.display(), excerpt(key));
        return Err(Error::new(what, "`convoke config show --origin` lists what is set, and where"));
    }
    let (warnings, strays) = resolve::check(&source, &text, env)?;
    if value.is_some() {
        refuse_strays(&keys.join("."), &strays)?;
    }
    if let Some(directory) = file.parent() {
        let made = fs::create_dir_all(directory);
        made.map_err(|cause| cannot(&file, &cause))?;
    }
    let mode = fs::metadata(&file).map_or(0o600, |meta| meta.permissions().mode() & 0o777);
    private::replace(&file, &text, mode).map_err(|cause| cannot(&file, &cause))?;
    Ok(Edited { file, warnings })
}

/// A key nobody reads is no setting, whether it is a part of this one's name or of its value.
fn refuse_strays(path: &str, strays: &[Stray]) -> Result<(), Error> {
    let below = |path: &str, above: &str| path.strip_prefix(above).is_some_and(|rest| rest.starts_with('.'));
    let here = |stray: &&Stray| stray.path == path || below(&stray.path, path) || below(path, &stray.path);
    strays.iter().find(here).map_or(Ok(()), |stray| {
        let what = format!("`{}` is no setting", excerpt(&stray.path));
        let above = stray.path.rsplit_once('.').map(|(above, _)| format!("{above}.")).unwrap_or_default();
        Err(Error::new(what, format!("the nearest is `{above}{}`; docs/config.md lists them all", stray.nearest)))
    })
}

fn cannot(file: &std::path::Path, cause: &std::io::Error) -> Error {
    Error::new(format!("cannot write `{}`: {cause}", file.display()), "make it writable for this user")
}

/// `agent.build.steps`, and `permission.bash."git push*"` where a key holds a dot.
fn keys(key: &str) -> Result<Vec<String>, Error> {
    let (mut keys, mut word, mut quoted) = (Vec::new(), String::new(), false);
    for c in key.chars() {
        match c {
            '"' => quoted = !quoted,
            '.' if !quoted => keys.push(std::mem::take(&mut word)),
            c => word.push(c),
        }
    }
    keys.push(word);
    if quoted || keys.iter().any(String::is_empty) {
        let what = format!("`{}` is not the name of a setting", excerpt(key));
        return Err(Error::new(what, "join keys by dots, as in `limits.depth`; quote a key that holds one"));
    }
    Ok(keys)
}

fn changed(text: &str, keys: &[String], value: Option<&Value>) -> Result<String, Error> {
    let root = CstRootNode::parse(text, &strict())
        .map_err(|error| Error::new(format!("the settings cannot be edited: {error}"), "mend the file first"))?;
    let mut object = root.object_value_or_set();
    let (last, above) = keys.split_last().expect("a name has at least one part");
    for (depth, key) in above.iter().enumerate() {
        object = match (value, object.object_value(key)) {
            (_, Some(inner)) => inner,
            (None, None) => return Ok(root.to_string()),
            (Some(_), None) if object.get(key).is_some() => {
                let path = keys[..=depth].join(".");
                let what = format!("`{}` is set to a single value", excerpt(&path));
                return Err(Error::new(what, format!("take it out first: `convoke config edit {path} --unset`")));
            }
            (Some(_), None) => object.object_value_or_set(key),
        };
    }
    match value {
        Some(value) => set(&object, last, value),
        None => object.get(last).into_iter().for_each(jsonc_parser::cst::CstObjectProp::remove),
    }
    Ok(root.to_string())
}

fn set(object: &CstObject, key: &str, value: &Value) {
    match object.get(key) {
        Some(property) => property.set_value(input(value)),
        None => drop(object.append(key, input(value))),
    }
}

fn input(value: &Value) -> CstInputValue {
    match value {
        Value::Null => CstInputValue::Null,
        Value::Bool(flag) => CstInputValue::Bool(*flag),
        Value::Number(number) => CstInputValue::Number(number.to_string()),
        Value::String(text) => CstInputValue::String(text.clone()),
        Value::Array(items) => CstInputValue::Array(items.iter().map(input).collect()),
        Value::Object(fields) => {
            CstInputValue::Object(fields.iter().map(|(key, value)| (key.clone(), input(value))).collect())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[track_caller]
    fn check(before: &str, key: &str, value: Option<Value>, after: &str) {
        assert_eq!(changed(before, &keys(key).unwrap(), value.as_ref()).unwrap(), after, "{key}");
    }

    #[test]
    fn comments_and_layout_stay() {
        let file = "// mine\n{\n  // deep\n  \"limits\": { \"depth\": 3 /* so */, },\n}\n";
        check(file, "limits.depth", Some(json!(5)), &file.replace('3', "5"));
        check(
            file,
            "model",
            Some(json!("a/b")),
            "// mine\n{\n  // deep\n  \"limits\": { \"depth\": 3 /* so */, },\n  \"model\": \"a/b\",\n}\n",
        );
        check(file, "limits.none", None, file);
        check(file, "no.such", None, file);
    }

    #[test]
    fn what_is_missing_is_made() {
        check(
            "{}\n",
            "agent.build.steps",
            Some(json!(4)),
            "{\n  \"agent\": {\n    \"build\": {\n      \"steps\": 4\n    }\n  }\n}\n",
        );
        check(
            "{}\n",
            "permission.bash.\"git *.sh\"",
            Some(json!("ask")),
            "{\n  \"permission\": {\n    \"bash\": {\n      \"git *.sh\": \"ask\"\n    }\n  }\n}\n",
        );
    }

    #[test]
    fn names_that_cannot_be_are_refused() {
        for key in ["", "a..b", ".a", "a.\"b"] {
            assert!(keys(key).is_err(), "{key}");
        }
        assert!(changed("{\"permission\": \"ask\"}", &keys("permission.bash").unwrap(), Some(&json!("ask"))).is_err());
    }

    #[test]
    fn a_value_that_would_be_refused_changes_nothing() {
        let home = tempfile::tempdir().unwrap();
        let (paths, env) = (Paths::under(home.path()), Environment::default());
        edit(&paths, &env, "limits.depth", Some(&json!(4))).unwrap();
        let file = paths.config_file();
        let (before, mode) = (fs::read_to_string(&file).unwrap(), fs::metadata(&file).unwrap().permissions().mode());
        assert_eq!(mode & 0o777, 0o600);
        let error = edit(&paths, &env, "limits.depth", Some(&json!("x"))).unwrap_err();
        assert!(error.message.contains("`limits.depth` must be a whole number"), "{error}");
        assert_eq!(fs::read_to_string(&file).unwrap(), before);
    }

    #[test]
    fn a_key_nobody_reads_is_refused_with_the_nearest_one() {
        let home = tempfile::tempdir().unwrap();
        let (paths, env) = (Paths::under(home.path()), Environment::default());
        for (key, value, nearest) in [
            ("limits.dept", json!(1), "`limits.depth`"),
            ("modle", json!("a/b"), "`model`"),
            ("modle.x.y", json!(1), "`model`"),
            ("sandbox", json!({ "mod": "off" }), "`sandbox.mode`"),
            ("agent.build.permision", json!({ "edit": "deny" }), "`agent.build.permission`"),
        ] {
            let error = edit(&paths, &env, key, Some(&value)).unwrap_err();
            assert!(error.message.contains("is no setting") && error.hint.contains(nearest), "{error}");
            assert!(!paths.config_file().exists(), "{key}");
        }
        for (key, value) in [
            ("agent.build.reasoningEffort", json!("low")),
            ("provider.mine", json!({ "base_url": "http://h" })),
            ("permission.bash.\"git *.sh\"", json!("ask")),
        ] {
            edit(&paths, &env, key, Some(&value)).unwrap();
        }
        // A file that has one already can still be changed, and mended.
        fs::write(paths.config_file(), "{\"modle\": 1}").unwrap();
        edit(&paths, &env, "limits.depth", Some(&json!(2))).unwrap();
        edit(&paths, &env, "modle", None).unwrap();
    }

    #[test]
    fn what_is_not_set_cannot_be_taken_out() {
        let home = tempfile::tempdir().unwrap();
        let (paths, env) = (Paths::under(home.path()), Environment::default());
        for key in ["model", "limits.depth"] {
            let error = edit(&paths, &env, key, None).unwrap_err();
            assert!(error.message.contains(&format!("`{key}` is not set there")), "{error}");
        }
        edit(&paths, &env, "limits.depth", Some(&json!(2))).unwrap();
        edit(&paths, &env, "limits.depth", None).unwrap();
    }
}
