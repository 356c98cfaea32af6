//! A page as a model reads it.

use super::shape;

/// Elements that say nothing to a reader.
const MUTE: [&str; 8] = ["script", "style", "noscript", "template", "svg", "iframe", "object", "head"];

/// The page as markdown; as bare text when nobody can take it apart, or whoever wrote it means harm by that.
pub(super) fn markdown(html: &str) -> String {
    if shape::is_too_much(html) {
        return text(html);
    }
    let converter = htmd::HtmlToMarkdown::builder().skip_tags(MUTE.to_vec()).build();
    converter.convert(html).unwrap_or_else(|_| text(html))
}

/// The words of a page, without any marks.
pub(super) fn text(html: &str) -> String {
    let mut out = String::new();
    let mut rest = html;
    while let Some(start) = rest.find('<') {
        out.push_str(&rest[..start]);
        let tag = &rest[start..];
        let name = name(tag);
        let end = tag.find('>').map_or(tag.len(), |end| end + 1);
        rest = &tag[end..];
        if MUTE.contains(&name.as_str()) {
            let close = format!("</{name}");
            rest = find_close(rest, &close).map_or("", |at| &rest[at..]);
        } else if BLOCKS.contains(&name.trim_start_matches('/')) {
            out.push('\n');
        }
    }
    out.push_str(rest);
    tidy(&unescape(&out))
}

const BLOCKS: [&str; 18] = [
    "p",
    "br",
    "div",
    "li",
    "ul",
    "ol",
    "tr",
    "table",
    "h1",
    "h2",
    "h3",
    "h4",
    "h5",
    "h6",
    "section",
    "article",
    "pre",
    "blockquote",
];

fn name(tag: &str) -> String {
    let name = tag[1..].chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '/').take(16);
    name.collect::<String>().to_ascii_lowercase()
}

fn find_close(text: &str, close: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    let fits =
        |at: &usize| bytes[*at..].get(..close.len()).is_some_and(|part| part.eq_ignore_ascii_case(close.as_bytes()));
    (0..bytes.len()).filter(|at| bytes[*at] == b'<').find(fits)
}

fn unescape(text: &str) -> String {
    let pairs = [("&nbsp;", " "), ("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&#39;", "'"), ("&amp;", "&")];
    pairs.iter().fold(text.to_owned(), |text, (name, letter)| text.replace(name, letter))
}

/// No blanks at the ends of lines, and no two empty ones in a row.
fn tidy(text: &str) -> String {
    let mut out = String::new();
    for line in text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")) {
        if !line.is_empty() || !(out.is_empty() || out.ends_with("\n\n")) {
            out.push_str(&line);
            out.push('\n');
        }
    }
    out.trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "<html><head><title>t</title><style>x{}</style></head><body><h1>Head &amp; more</h1>\
        <script>alert('<p>no</p>')</script><p>One <a href=\"/x\">link</a>.</p><ul><li>a</li><li>b</li></ul></body></html>";

    #[test]
    fn a_page_becomes_markdown() {
        let text = markdown(PAGE);
        assert!(text.starts_with("# Head & more"), "{text}");
        assert!(text.contains("[link](/x)") && !text.contains("alert") && !text.contains("x{}"), "{text}");
    }

    #[test]
    fn a_page_becomes_words() {
        assert_eq!(text(PAGE), "Head & more\n\nOne link.\n\na\n\nb");
        assert_eq!(text("a <b"), "a");
    }

    #[test]
    fn a_page_without_a_bottom_does_no_harm() {
        let page = format!("{}end{}", "<div>".repeat(200_000), "</div>".repeat(200_000));
        assert_eq!(markdown(&page).trim(), "end");
        let page = "<b".repeat(500_000);
        assert_eq!(markdown(&page).trim(), "");
    }
}
