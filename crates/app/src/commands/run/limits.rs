//! What the command line says about one run: how long, for how much, with which prompt, and what needs no question.

use super::Request;
use crate::failure::Failure;
use client::Client;
use proto::methods::{AgentInput, CreateInput, SessionsCreate};
use proto::{Action, Error, Rule};

#[derive(Default)]
pub(in crate::commands) struct Limits {
    pub(super) max_turns: Option<u32>,
    pub(super) max_budget_usd: Option<f64>,
    pub(super) system_prompt: Option<String>,
    pub(super) append_system_prompt: Option<String>,
    pub(super) allowed: Vec<Rule>,
}

impl Limits {
    /// Whether something in them belongs to the session and not to the run.
    pub(super) fn are_of_a_session(&self) -> bool {
        self.system_prompt.is_some() || self.append_system_prompt.is_some() || !self.allowed.is_empty()
    }
}

/// Makes the session first. A command that dies in between leaves one that was asked nothing.
pub(super) async fn create(client: &Client, request: &Request, input: AgentInput) -> Result<AgentInput, Failure> {
    let limits = &request.limits;
    let new = CreateInput {
        agent_id: input.agent_id.clone(),
        model: input.model.clone(),
        cwd: input.cwd.clone(),
        label: input.label.clone(),
        permission: limits.allowed.clone(),
        system_prompt: limits.system_prompt.clone(),
        append_system_prompt: limits.append_system_prompt.clone(),
        idempotency_key: input.idempotency_key.clone(),
        ..CreateInput::default()
    };
    let made = client.call::<SessionsCreate>(new).await?;
    let session_id = Some(made.session_id.to_string());
    Ok(AgentInput { session_id, cwd: None, label: None, ..input })
}

pub(super) fn dollars(text: &str) -> Result<f64, String> {
    let amount: f64 = text.trim_start_matches('$').parse().map_err(|_| "not an amount in US dollars".to_owned())?;
    if amount.is_finite() && amount > 0.0 { Ok(amount) } else { Err("give more than 0".to_owned()) }
}

/// `read, bash(git log *)` as rules. Claude Code's names and its `git log:*` mean the same.
pub(super) fn allowed(given: &[String]) -> Result<Vec<Rule>, Error> {
    given.iter().flat_map(|text| split(text)).map(|one| rule(&one)).collect()
}

/// At commas and spaces that stand outside of brackets.
fn split(text: &str) -> Vec<String> {
    let (mut all, mut one, mut depth) = (Vec::new(), String::new(), 0_usize);
    for c in text.chars() {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth == 0 && (c == ',' || c.is_whitespace()) {
            all.push(std::mem::take(&mut one));
        } else {
            one.push(c);
        }
    }
    all.push(one);
    all.retain(|one| !one.is_empty());
    all
}

fn rule(text: &str) -> Result<Rule, Error> {
    let (name, pattern) = match text.split_once('(') {
        Some((name, rest)) => {
            let pattern = rest.strip_suffix(')').ok_or_else(|| {
                Error::invalid(format!("`{text}` of `--allowed-tools` has no closing bracket"))
                    .hint("write `bash(git log *)`")
            })?;
            (name, pattern.strip_suffix(":*").map_or_else(|| pattern.to_owned(), |start| format!("{start} *")))
        }
        None => (text, "*".to_owned()),
    };
    let known = session::permissions();
    let permission = match tools::find(name) {
        Some(tool) => tool.spec().permission.to_owned(),
        None if known.contains(name) => name.to_owned(),
        None => {
            let all = tools::BUILTIN.iter().map(|tool| tool.spec().name).chain(known);
            let error = Error::not_found(format!("unknown tool `{name}` in `--allowed-tools`"));
            return Err(match proto::nearest::nearest(name, all) {
                Some(near) => error.hint(format!("did you mean `{near}`?")),
                None => error.hint("`convoke tools` lists them"),
            });
        }
    };
    Ok(Rule::new(&permission, &pattern, Action::Allow))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tools_are_allowed_by_name_and_pattern() {
        let told = |texts: &[&str]| {
            let texts: Vec<String> = texts.iter().map(|text| (*text).to_owned()).collect();
            let rules = allowed(&texts).map_err(|error| error.message)?;
            Ok::<_, String>(
                rules.iter().map(|rule| format!("{} {}", rule.permission, rule.pattern)).collect::<Vec<_>>(),
            )
        };
        let rules = told(&["read, Bash(git log:*) bash(ls -l, x)", "Write"]);
        assert_eq!(rules.unwrap(), ["read *", "bash git log *", "bash ls -l, x", "edit *"]);
        assert!(told(&["raed"]).unwrap_err().contains("unknown tool `raed`"));
        assert!(told(&["bash(ls"]).unwrap_err().contains("no closing bracket"));
        assert!(dollars("0").is_err() && dollars("x").is_err() && dollars("0.5") == Ok(0.5));
    }
}
