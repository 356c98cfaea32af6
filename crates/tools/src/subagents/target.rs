//! Which children a word means.

use proto::methods::SessionInfo;
use proto::{Code, Error};
use serde_json::json;

/// The shortest end of an id that means a child.
const MIN_ENDING: usize = 4;

/// By number, `last`, `all`, exact name, then the beginning of one or the end of an id.
pub(super) fn find<'a>(children: &'a [SessionInfo], target: &str) -> Result<Vec<&'a SessionInfo>, Error> {
    let target = target.trim();
    if children.is_empty() {
        return Err(Error::not_found("this session has no children").hint("start one with sessions_spawn or task"));
    }
    match target {
        "all" | "*" => return Ok(children.iter().collect()),
        "last" | "" => return Ok(children.iter().take(1).collect()),
        _ => {}
    }
    if let Ok(number) = target.parse::<usize>() {
        return match number.checked_sub(1).and_then(|at| children.get(at)) {
            Some(child) => Ok(vec![child]),
            None => Err(Error::not_found(format!("there is no child number {number}"))
                .hint(format!("there are {}", children.len()))),
        };
    }
    let exact: Vec<&SessionInfo> = children.iter().filter(|child| names(child).any(|name| name == target)).collect();
    let begun = || children.iter().filter(|child| names(child).any(|name| name.starts_with(target))).collect();
    let ends = |child: &&SessionInfo| target.len() >= MIN_ENDING && child.session_id.as_str().ends_with(target);
    let found: Vec<&SessionInfo> = if exact.is_empty() { begun() } else { exact };
    let found = if found.is_empty() { children.iter().filter(ends).collect() } else { found };
    match found.len() {
        1 => Ok(found),
        0 => Err(Error::not_found(format!("no child is called `{target}`")).hint("list them first")),
        _ => {
            let keys: Vec<&str> = found.iter().map(|child| child.display_key.as_str()).collect();
            let error = Error::new(Code::Ambiguous, format!("`{target}` could be several children"));
            let hint = format!("use a number or one of: {}", keys.join(", "));
            Err(Error { details: Some(json!({ "candidates": keys })), ..error }.hint(hint))
        }
    }
}

fn names(child: &SessionInfo) -> impl Iterator<Item = &str> {
    let run = child.run_id.as_ref().map(proto::RunId::as_str);
    [
        child.name.as_deref(),
        child.label.as_deref(),
        Some(child.key.as_str()),
        Some(child.display_key.as_str()),
        Some(child.session_id.as_str()),
        run,
    ]
    .into_iter()
    .flatten()
}
