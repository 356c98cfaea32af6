//! Mentions: which agents a person's text calls by name (A4).

use proto::letter::InputPart;

/// A mention of a known agent, by where it stands in the text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Mention {
    pub(crate) agent: String,
    /// Byte range of `@name`.
    pub(crate) start: usize,
    pub(crate) end: usize,
}

/// Finds `@` plus the longest known name, not inside a word or backticks. A file of that name wins over the agent.
pub(crate) fn find(text: &str, agents: &[&str], is_file: impl Fn(&str) -> bool) -> Vec<Mention> {
    let mut found = Vec::new();
    let mut quoted = false;
    let mut before: Option<char> = None;
    for (at, c) in text.char_indices() {
        if c == '`' {
            quoted = !quoted;
        }
        let in_word = before.is_some_and(|b| b.is_alphanumeric() || matches!(b, '_' | '-' | '.'));
        if c == '@' && !quoted && !in_word {
            found.extend(at_sign(text, at, agents, &is_file));
        }
        before = Some(c);
    }
    found
}

fn at_sign(text: &str, at: usize, agents: &[&str], is_file: impl Fn(&str) -> bool) -> Option<Mention> {
    let rest = &text[at + 1..];
    // What a name can hold; it ends at the first character a name cannot, so `@explore帮我` is a mention.
    let word: &str =
        &rest[..rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_' && c != '-').unwrap_or(rest.len())];
    let agent = agents.iter().find(|name| name.eq_ignore_ascii_case(word))?;
    let path: &str = &rest[..rest.find(char::is_whitespace).unwrap_or(rest.len())];
    if is_file(path) || is_file(word) {
        return None;
    }
    Some(Mention { agent: (*agent).to_owned(), start: at, end: at + 1 + word.len() })
}

/// The parts of a prompt: the text as written, and a subtask for each mention.
pub(crate) fn parts(text: &str, mentions: &[Mention]) -> Vec<InputPart> {
    let mut parts = vec![InputPart::Text { text: text.into() }];
    for (n, mention) in mentions.iter().enumerate() {
        let prompt = prompt_for(text, mentions, n);
        let description = prompt.split_whitespace().take(6).collect::<Vec<_>>().join(" ");
        parts.push(InputPart::Subtask { agent: mention.agent.clone(), prompt, description });
    }
    parts
}

/// What the child is asked: the text without the mention. With several mentions each gets what follows its own name,
/// after whatever was said before the first.
fn prompt_for(text: &str, mentions: &[Mention], n: usize) -> String {
    let shared = text[..mentions[0].start].trim();
    let next = mentions.get(n + 1).map_or(text.len(), |mention| mention.start);
    let own = text[mentions[n].end..next].trim();
    let words = if own.is_empty() { without(text, mentions) } else { format!("{shared} {own}") };
    words.trim().to_owned()
}

fn without(text: &str, mentions: &[Mention]) -> String {
    let mut out = String::new();
    let mut from = 0;
    for mention in mentions {
        out.push_str(&text[from..mention.start]);
        from = mention.end;
    }
    out.push_str(&text[from..]);
    out.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    const AGENTS: &[&str] = &["explore", "general", "explore-deep"];

    #[track_caller]
    fn check(text: &str, expected: &[(&str, &str)]) {
        let mentions = find(text, AGENTS, |path| path == "general.md");
        let prompts: Vec<_> =
            mentions.iter().enumerate().map(|(n, m)| (m.agent.clone(), prompt_for(text, &mentions, n))).collect();
        let expected: Vec<_> = expected.iter().map(|(a, p)| ((*a).to_owned(), (*p).to_owned())).collect();
        assert_eq!(prompts, expected, "{text}");
    }

    #[test]
    fn a_mention_names_the_agent_and_the_rest_is_its_prompt() {
        check("@explore find it", &[("explore", "find it")]);
        check("please @explore find it", &[("explore", "please find it")]);
        check("@explore帮我查找", &[("explore", "帮我查找")]);
        check("@Explore find it", &[("explore", "find it")]);
        check("@explore-deep go", &[("explore-deep", "go")]);
    }

    #[test]
    fn words_quotes_files_and_strangers_are_no_mentions() {
        check("mail me@explore now", &[]);
        check("say `@explore` twice", &[]);
        check("read @general.md", &[]);
        check("@nobody there", &[]);
        check("@exploreX", &[]);
    }

    #[test]
    fn several_mentions_make_several_subtasks_in_order() {
        check("@explore find A then @general write B", &[("explore", "find A then"), ("general", "write B")]);
        check("@explore @general look at C", &[("explore", "look at C"), ("general", "look at C")]);
    }
}
