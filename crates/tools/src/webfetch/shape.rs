//! How deep a page is and how large it becomes, found without taking it apart: at least as deep and as large as a parser
//! would find it. Where a parser may see it differently, what opens counts and what closes does not.

/// Elements inside each other, and elements altogether, beyond which a page is not taken apart.
const DEEPEST: usize = 400;
const MOST: usize = 300_000;

/// Tags and comments of so many bytes, and how many there may be: a few pictures are written into a page.
const LONG: usize = 32 << 10;
const MOST_LONG: usize = 32;

/// Attributes of one tag: a parser compares each with all before it.
const MOST_ATTRIBUTES: usize = 256;

/// They have no end.
const EMPTY: [&str; 13] =
    ["area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr"];

/// They end with what they are in, and with the next of their kind.
const LOOSE: [&str; 15] =
    ["p", "li", "dt", "dd", "option", "optgroup", "rb", "rp", "rt", "rtc", "tr", "td", "th", "tbody", "thead"];

/// What ends with a row or a table, and with nothing else.
const OF_TABLES: [&str; 8] = ["tr", "td", "th", "tbody", "thead", "tfoot", "caption", "colgroup"];

/// They go on in every block until they are closed, so a parser writes them again and again.
const LASTING: [&str; 14] =
    ["a", "b", "big", "code", "em", "font", "i", "nobr", "s", "small", "strike", "strong", "tt", "u"];

/// Where `<x/>` has no end either.
const DRAWN: [&str; 18] = [
    "svg",
    "g",
    "defs",
    "symbol",
    "mask",
    "clippath",
    "path",
    "circle",
    "rect",
    "line",
    "polyline",
    "polygon",
    "ellipse",
    "use",
    "stop",
    "lineargradient",
    "radialgradient",
    "filter",
];

/// In these a script is something else.
const UNLIKE: [&str; 12] = [
    "svg",
    "math",
    "textarea",
    "title",
    "xmp",
    "iframe",
    "noembed",
    "noframes",
    "noscript",
    "plaintext",
    "select",
    "template",
];

/// Whether a page is more than is taken apart.
pub(super) fn is_too_much(html: &str) -> bool {
    let mut shape = Shape { open: Vec::new(), lasting: 0, elements: 0, frozen: false };
    // Up to here the text is a tag or a comment: what looks like one there may be one to a parser, but closes nothing.
    let (mut inside, mut next, mut long) = (0, 0, 0);
    while let Some(at) = html[next..].find('<').map(|at| next + at) {
        next = at + 1;
        let rest = &html[next..];
        let end = match rest.as_bytes().first() {
            Some(b'/') => shape.close(rest, at < inside),
            Some(b'!' | b'?') => shape.comment(rest),
            Some(letter) if letter.is_ascii_alphabetic() => shape.open(rest),
            _ => continue,
        };
        let opened = rest.starts_with(|first: char| first.is_ascii_alphabetic());
        if opened
            && at >= inside
            && let Some(text) = shape.raw(&rest[end..])
        {
            next += end + text;
        }
        inside = inside.max(at + 1 + end);
        // Each is looked through to its end, and they may lie in each other.
        long += usize::from(end > LONG);
        if long > MOST_LONG {
            return true;
        }
        if shape.open.len() > DEEPEST
            || shape.elements > MOST
            || (opened && end > MOST_ATTRIBUTES && measured(rest).1 > MOST_ATTRIBUTES)
        {
            return true;
        }
    }
    false
}

struct Shape<'a> {
    open: Vec<&'a str>,
    /// Of these, those that last.
    lasting: usize,
    elements: usize,
    /// Nothing that follows is sure to be outside of something else.
    frozen: bool,
}

impl<'a> Shape<'a> {
    fn top_is(&self, names: &[&str]) -> bool {
        self.open.last().is_some_and(|top| is_in(top, names))
    }

    fn pop(&mut self) {
        if self.open.pop().is_some_and(|name| is_in(name, &LASTING)) {
            self.lasting -= 1;
        }
    }

    fn open(&mut self, rest: &'a str) -> usize {
        let (name, end) = (name(rest), tag_end(rest));
        self.elements += 1 + self.lasting;
        let drawn = rest[..end].ends_with("/>") && is_in(name, &DRAWN) && self.draws();
        if drawn || is_in(name, &EMPTY) {
            return end;
        }
        let ended: &[&str] = match name.to_ascii_lowercase().as_str() {
            "td" | "th" => &["td", "th"],
            "tr" => &["td", "th", "tr"],
            "tbody" | "thead" | "tfoot" => &OF_TABLES,
            _ if is_in(name, &LOOSE) => &[name],
            _ => &[],
        };
        while self.top_is(ended) {
            self.pop();
        }
        self.open.push(name);
        self.lasting += usize::from(is_in(name, &LASTING));
        end
    }

    /// Whether all is part of a drawing, up to the drawing itself.
    fn draws(&self) -> bool {
        let drawn = self.open.iter().rev().take_while(|name| is_in(name, &DRAWN));
        drawn.into_iter().any(|name| is_in(name, &["svg"]))
    }

    /// How much of what follows the newest tag is text that holds no tags, where that is sure.
    fn raw(&mut self, text: &str) -> Option<usize> {
        let (name, above) = self.open.split_last()?;
        if !is_in(name, &["script", "style"]) || above.iter().any(|name| is_in(name, &UNLIKE)) {
            return None;
        }
        let ends = |at: usize| text.as_bytes()[at + 2..].get(..name.len());
        let close = text
            .match_indices("</")
            .find(|(at, _)| ends(*at).is_some_and(|it| it.eq_ignore_ascii_case(name.as_bytes())));
        let length = close.map_or(text.len(), |(at, _)| at);
        // There a script may hold its own end.
        self.frozen |= text[..length].contains("<!--");
        Some(length)
    }

    fn close(&mut self, rest: &str, inside: bool) -> usize {
        let closed = name(&rest[1..]);
        let end = 1 + tag_end(&rest[1..]);
        if inside || self.frozen || closed.is_empty() {
            return end;
        }
        let of_tables = is_in(closed, &["table"]) || is_in(closed, &OF_TABLES);
        let loose = |name: &str| is_in(name, &LOOSE[..10]) || (of_tables && is_in(name, &OF_TABLES));
        let above = self.open.iter().rev().take_while(|name| !name.eq_ignore_ascii_case(closed) && loose(name)).count();
        let found = self.open.iter().rev().nth(above).is_some_and(|name| name.eq_ignore_ascii_case(closed));
        if found {
            (0..=above).for_each(|_| self.pop());
        }
        end
    }

    fn comment(&mut self, rest: &str) -> usize {
        // Drawings have another kind of text, whose end depends on where it stands.
        self.frozen |= rest.starts_with("![");
        let end = match rest.strip_prefix("!--") {
            Some(text) => [text.find("-->"), text.find("--!>")].into_iter().flatten().min().map(|at| at + 6),
            None => rest.find('>').map(|at| at + 1),
        };
        end.unwrap_or(rest.len())
    }
}

fn is_in(name: &str, names: &[&str]) -> bool {
    names.iter().any(|known| known.eq_ignore_ascii_case(name))
}

fn name(rest: &str) -> &str {
    let end = rest.bytes().position(|byte| byte.is_ascii_whitespace() || matches!(byte, b'/' | b'>'));
    &rest[..end.unwrap_or(rest.len())]
}

/// Where a tag ends, with its bracket: those in quoted values do not count.
fn tag_end(rest: &str) -> usize {
    measured(rest).0
}

/// The same, and how many attributes it has at most: each begins after a blank, a slash or a value in quotes.
fn measured(rest: &str) -> (usize, usize) {
    let bytes = rest.as_bytes();
    let (mut at, mut attributes) = (name(rest).len(), 0);
    // Whether a value begins here.
    let mut value = false;
    while let Some(byte) = bytes.get(at) {
        at += 1;
        let begins = bytes.get(at).is_some_and(|next| !next.is_ascii_whitespace() && !matches!(next, b'>' | b'/'));
        match byte {
            b'>' => return (at, attributes),
            b'"' | b'\'' if value => {
                at += bytes[at..].iter().position(|it| it == byte).map_or(bytes.len() - at, |quote| quote + 1);
                value = false;
                attributes += 1;
            }
            b'=' if !value => value = true,
            b'/' if !value => attributes += usize::from(begins),
            byte if byte.is_ascii_whitespace() => attributes += usize::from(begins),
            _ if value => {
                // A bare value goes on up to a blank or the end.
                at += bytes[at..]
                    .iter()
                    .position(|it| it.is_ascii_whitespace() || *it == b'>')
                    .unwrap_or(bytes.len() - at);
                value = false;
            }
            _ => {}
        }
    }
    (bytes.len(), attributes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usual_pages_are_not_too_much() {
        let row = "<tr><td>a<td>b";
        let script = "<script>if (a < b) document.write('<div><div>');</script>";
        let drawing = format!("<svg><path d=\"{}\"/></svg>", "M 0 0 ".repeat(2_000));
        assert!(!is_too_much(&drawing));
        let icon = "<svg viewBox=\"0 0 1 1\"><g><path d=\"M0>0\"/><circle r=1 /></g></svg>";
        for piece in [
            "<div><p>one<p>two</div>",
            "<ul><li>a<li>b</ul>",
            "<p>a <b>b</b> <a href='x?a=1&b=2'>c</a><br><img src=x>",
            script,
            icon,
            "<style>a > b {}</style><!-- <div> </div> -->",
            "<x-card title=\"</x-card>\"></x-card>",
        ] {
            assert!(!is_too_much(&piece.repeat(300)), "{piece}");
        }
        assert!(!is_too_much(&format!("<table>{}</table>", row.repeat(300)).repeat(3)));
    }

    #[test]
    fn no_trick_hides_how_deep_a_page_is() {
        for piece in [
            "<div>",
            "<div></x>",
            "<div/>",
            "<div title='</div>'>",
            "<div x\" y=\">\" z=\"</div>\">",
            "<div><!--</div>-->",
            "<!--><div>-->",
            "<div><!x </div>",
            "<div><script></div></script>",
            "<div><script><!--<script></script></div></script>",
            "<div><svg><![CDATA[></svg></div>]]>",
            "<svg><p><path/>",
            "<path/>",
            "<x-a></x-b>",
            "<div =\"><div title=\"> </div></div>\">",
            "<title><script></title><div></script>",
            "<svg><style><div></style>",
            "<div><table><td></div>",
            "<aaaaaaaaaaaaaaaaaaa1></aaaaaaaaaaaaaaaaaaa2>",
        ] {
            assert!(is_too_much(&piece.repeat(5_000)), "{piece}");
        }
        // What lasts is written again in every block.
        let lasting: String = (0..300).map(|n| format!("<p><b id={n}></p>")).collect();
        assert!(is_too_much(&(lasting + &"<p>x</p>".repeat(5_000))));
        assert!(is_too_much(&format!("<script><a x=\"</script>{}", "<div>".repeat(5_000))));
        assert!(is_too_much(&format!("<a x=\"{}", "<div>".repeat(5_000))));
        for endless in ["<br ", "<!--", "<!x ", "</br ", "<a x='", "<b"] {
            assert!(is_too_much(&endless.repeat(500_000)), "{endless}");
        }
        for attributes in [" a", "/a", " a=''", "a=''", "\na=b"] {
            assert!(is_too_much(&format!("<br {}>", attributes.repeat(10_000))), "{attributes}");
        }
        assert!(!is_too_much(&"<b".repeat(100)) && is_too_much(&"<b".repeat(500_000)));
    }
}
