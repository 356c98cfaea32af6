//! What stands below a run: what it used, how long it took, and how to continue.

use super::Line;
use super::doing::elapsed;
use proto::Usage;
use std::time::Duration;

pub(crate) fn footer(used: Usage, time: Duration, session: &str) -> Vec<Line> {
    let read = used.input.saturating_add(used.cache_read).saturating_add(used.cache_write);
    let cached = match used.cache_read {
        0 => String::new(),
        cached => format!(" ({} cached)", tokens(cached)),
    };
    let used = format!(
        "{} tokens in{cached}, {} out · {} · {}",
        tokens(read),
        tokens(used.output),
        money(used.cost_usd),
        elapsed(time)
    );
    vec![Line::dim(format!("— {used}")), Line::dim(format!("  continue: convoke run -s {session} \"…\""))]
}

/// `950`, `12.3k`, `1.2M`.
fn tokens(count: u64) -> String {
    match count {
        0..1_000 => count.to_string(),
        1_000..1_000_000 => format!("{:.1}k", count as f64 / 1e3),
        _ => format!("{:.1}M", count as f64 / 1e6),
    }
}

fn money(usd: f64) -> String {
    match usd {
        usd if usd <= 0.0 => "$0".to_owned(),
        usd if usd < 1.0 => format!("${usd:.4}"),
        usd => format!("${usd:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_footer_says_what_was_used_and_how_to_continue() {
        let used = Usage { input: 1_000, output: 950, cache_read: 11_300, cache_write: 0, cost_usd: 0.0312 };
        let lines = footer(used, Duration::from_secs(75), "ses_1");
        let text: Vec<String> =
            lines.iter().map(|line| line.pieces().map(|(_, text)| text).collect::<String>()).collect();
        assert_eq!(
            text,
            [
                "— 12.3k tokens in (11.3k cached), 950 out · $0.0312 · 1 min 15 s",
                "  continue: convoke run -s ses_1 \"…\"",
            ]
        );
        assert_eq!((money(0.0), money(12.345), tokens(2_000_000)), ("$0".into(), "$12.35".into(), "2.0M".into()));
    }
}
