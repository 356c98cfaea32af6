//! Makes new inputs of known ones: bytes and pieces changed, doubled, nested, repeated, spliced.

use crate::random::Random;

/// The longest input: faults that need more are found by what grows with length.
const LONGEST: usize = 64 * 1024;

/// Texts that readers trip over, whatever they read.
const ODD: &[&[u8]] = &[
    b"\0",
    b"\x1b[31m",
    b"\xff\xfe",
    b"\xc3",
    b"\xed\xa0\x80",
    b"\r\n",
    b"\n\n",
    b"\\\n",
    b"\\u0000",
    b"\\ud800",
    b"-1",
    b"18446744073709551616",
    b"9223372036854775807",
    b"1e999",
    b"null",
    b"[",
    b"{",
    b"(",
    b"\"",
    b"'",
    b"../",
    b"%00",
    "\u{feff}".as_bytes(),
    "\u{202e}".as_bytes(),
    "\u{1f642}".as_bytes(),
    "e\u{301}".as_bytes(),
];

/// One of the pool, changed a few times.
pub(super) fn mutate(random: &mut Random, pool: &[Vec<u8>], words: &[&str]) -> Vec<u8> {
    let mut input = random.among(pool).cloned().unwrap_or_default();
    for _ in 0..=random.below(4) {
        change(random, &mut input, pool, words);
        input.truncate(LONGEST);
    }
    input
}

fn change(random: &mut Random, input: &mut Vec<u8>, pool: &[Vec<u8>], words: &[&str]) {
    let (from, to) = span(random, input.len());
    match random.below(11) {
        0 => insert(input, from, &[random.next() as u8]),
        1 if from < input.len() => input[from] ^= 1 << random.below(8),
        2 => drop(input.drain(from..to)),
        3 => {
            let piece = input[from..to].to_vec();
            let at = random.below(input.len() as u64 + 1) as usize;
            insert(input, at, &piece);
        }
        4 => {
            // Often a few times, seldom very often: what grows faster than its input shows only then.
            let piece = input[from..to.min(from + 64)].to_vec();
            let most = if random.percent(10) { 16 } else { 5 };
            let times = 1_usize << random.below(most);
            insert(input, from, &piece.repeat(times.min(LONGEST / piece.len().max(1))));
        }
        5 => {
            let other = random.among(pool).map(Vec::as_slice).unwrap_or_default();
            let (start, end) = span(random, other.len());
            insert(input, from, &other[start..end]);
        }
        6 => {
            let word = random.pick(ODD);
            insert(input, from, word);
        }
        7 => nest(random, input, words),
        8 => input.truncate(to),
        _ => {
            let word = random.among(words).copied().unwrap_or_default();
            if random.percent(30) {
                drop(input.drain(from..to.min(from + 16)));
            }
            insert(input, from, word.as_bytes());
        }
    }
}

/// A short opening before a piece, many times.
fn nest(random: &mut Random, input: &mut Vec<u8>, words: &[&str]) {
    let (from, to) = span(random, input.len());
    let opening = match random.among(words) {
        Some(word) if random.percent(50) => word.as_bytes().to_vec(),
        _ => input[from..to.min(from + 4)].to_vec(),
    };
    let times = 1_usize << random.below(14);
    insert(input, from, &opening.repeat(times.min(LONGEST / opening.len().max(1))));
}

fn insert(input: &mut Vec<u8>, at: usize, piece: &[u8]) {
    input.splice(at..at, piece.iter().copied());
}

fn span(random: &mut Random, length: usize) -> (usize, usize) {
    let a = random.below(length as u64 + 1) as usize;
    // Mostly short pieces, as words are.
    let reach = if random.percent(70) { 16 } else { length as u64 + 1 };
    (a, (a + random.below(reach) as usize).min(length))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_makes_the_same_inputs_and_none_is_too_long() {
        let pool = vec![b"data: one\n\n".to_vec(), vec![b'x'; LONGEST], Vec::new()];
        let draw = |seed| {
            let mut random = Random::new(seed);
            (0..500).map(|_| mutate(&mut random, &pool, &["data:"])).collect::<Vec<_>>()
        };
        assert_eq!(draw(1), draw(1));
        assert_ne!(draw(1), draw(2));
        assert!(draw(3).iter().all(|input| input.len() <= LONGEST));
    }
}
