//! A prompt that starts with `/name`: the user's own command of that name, written out.

use config::{Command, Commands};
use proto::letter::InputPart;

/// The command a text names, and the arguments behind it. Anything else that starts with a slash is just text.
pub(crate) fn find<'a>(text: &'a str, commands: &'a Commands) -> Option<(&'a Command, &'a str)> {
    let rest = text.trim_start().strip_prefix('/')?;
    let (name, arguments) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
    Some((commands.get(name)?, arguments))
}

/// The prompt as a piece of work for a child, beside what was typed.
pub(crate) fn subtask(typed: &str, prompt: String, command: &Command, agent: &str) -> Vec<InputPart> {
    let description =
        if command.description.is_empty() { format!("/{}", command.name) } else { command.description.clone() };
    let subtask = InputPart::Subtask { agent: agent.to_owned(), prompt, description };
    vec![InputPart::Text { text: typed.into() }, subtask]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_known_name_is_a_command() {
        let commands: Commands = [("tidy".to_owned(), Command { name: "tidy".into(), ..Command::default() })].into();
        for (text, expected) in [
            ("/tidy src now", Some("src now")),
            (" /tidy\nsrc", Some("src")),
            ("/tidy", Some("")),
            ("/tidyup", None),
            ("/etc/hosts", None),
            ("do /tidy", None),
        ] {
            assert_eq!(find(text, &commands).map(|(_, arguments)| arguments), expected, "{text}");
        }
    }
}
