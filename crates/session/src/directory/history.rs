//! A page of a session's messages (S5). Reads the log from the page's end backwards, and no further than it has to.

use proto::message::{self, Before, History, Message};
use proto::methods::HistoryInput;
use proto::{Entry, Error, Stored};
use store::{Session, Span, Store};

/// Messages of a page, when nobody says how many.
const PAGE: usize = 50;

const MAX_PAGE: usize = 1000;

/// Entries read at a time.
const CHUNK: usize = 256;

/// Entries looked at for one page. A longer stretch without a word ends the page early; the next one goes on there.
const MAX_SCAN: usize = 20_000;

/// Reads for the agent of a page that begins in the middle of a turn.
const MAX_LOOKS: usize = 8;

/// Reads for one page, of at most [`store::PAGE_BYTES`] or one entry each.
const MAX_READS: usize = 80;

pub(super) async fn page(
    store: &dyn Store,
    session: &Session,
    input: &HistoryInput,
    redact: &Redact<'_>,
) -> Result<History, Error> {
    let limit = input.limit.map_or(PAGE, |limit| limit as usize).clamp(1, MAX_PAGE);
    let undone = crate::undo::at(store, &session.id, session.undone).await?;
    // What was undone is not shown.
    let counts = |stored: &Stored| undone.as_ref().is_none_or(|undone| !undone.sets_aside(stored.seq));
    let read = match input.after {
        Some(after) => forwards(store, session, after, input, limit, &counts).await?,
        None => backwards(store, session, input, limit, &counts).await?,
    };
    let by = before(store, session, &read, &counts).await?;
    Ok(finish(session, input, (read, &by), limit, redact))
}

/// Who was at work where a stretch begins. A stretch that begins with an input says so itself; of others the entry is
/// looked for that says it, no further back than a few reads.
async fn before(store: &dyn Store, session: &Session, read: &Read, counts: &Counts<'_>) -> Result<Before, Error> {
    let begins = read.entries.first().filter(|first| !matches!(first.entry, Entry::Input(_)));
    let Some(mut before) = begins.map(|first| first.seq) else { return Ok(Before::default()) };
    let name = session.name.clone();
    for _ in 0..MAX_LOOKS {
        let chunk = store.entries(&session.id, Span::Before { seq: before, limit: CHUNK }).await?;
        let said = |stored: &Stored| match &stored.entry {
            Entry::Input(input) => Some(input.agent.clone()),
            Entry::Switch(switch) => switch.agent.clone(),
            _ => None,
        };
        if let Some(agent) = chunk.iter().rev().filter(|stored| counts(stored)).find_map(said) {
            return Ok(Before { agent, name });
        }
        match chunk.first() {
            Some(first) if first.seq > 1 => before = first.seq,
            _ => break,
        }
    }
    Ok(Before { agent: session.agent.clone(), name })
}

/// Blanks secrets; true when there were some.
type Redact<'a> = dyn Fn(&mut Message) -> bool + Send + Sync + 'a;

/// A stretch of the log.
struct Read {
    entries: Vec<Stored>,
    /// Where older entries begin, if there are any.
    older: Option<u64>,
    newest_first: bool,
}

/// Whether an entry is shown.
type Counts<'a> = dyn Fn(&Stored) -> bool + Send + Sync + 'a;

async fn backwards(
    store: &dyn Store,
    session: &Session,
    input: &HistoryInput,
    limit: usize,
    counts: &Counts<'_>,
) -> Result<Read, Error> {
    let mut before = input.before.unwrap_or(u64::MAX);
    // Newest chunk first; put in order at the end.
    let (mut chunks, mut messages, mut scanned) = (Vec::new(), 0, 0);
    let older = loop {
        if chunks.len() >= MAX_READS {
            break Some(before);
        }
        let mut chunk = store.entries(&session.id, Span::Before { seq: before, limit: CHUNK }).await?;
        let at_start = chunk.first().is_none_or(|first| first.seq <= 1);
        before = chunk.first().map_or(before, |first| first.seq);
        scanned += chunk.len();
        chunk.retain(counts);
        messages += count(&chunk, input.include_tools);
        chunks.push(chunk);
        if at_start {
            break None;
        }
        if messages >= limit || scanned >= MAX_SCAN {
            break Some(before);
        }
    };
    let mut entries: Vec<Stored> = chunks.into_iter().rev().flatten().collect();
    if input.include_tools && input.before.is_some() {
        add_results(store, session, &mut entries).await?;
    }
    Ok(Read { entries, older, newest_first: true })
}

async fn forwards(
    store: &dyn Store,
    session: &Session,
    after: u64,
    input: &HistoryInput,
    limit: usize,
    counts: &Counts<'_>,
) -> Result<Read, Error> {
    let before = input.before.unwrap_or(u64::MAX);
    let (mut entries, mut last, mut messages, mut reads) = (Vec::<Stored>::new(), after, 0, 0);
    loop {
        let chunk = store.entries(&session.id, Span::After { seq: last, limit: CHUNK }).await?;
        reads += 1;
        let at_end = chunk.last().is_none_or(|newest| newest.seq >= session.seq);
        last = chunk.last().map_or(last, |stored| stored.seq);
        let chunk: Vec<Stored> = chunk.into_iter().take_while(|stored| stored.seq < before).filter(counts).collect();
        messages += count(&chunk, input.include_tools);
        entries.extend(chunk);
        // One more than asked for, so that the last one of the page has its results.
        if at_end || last >= before || messages > limit || entries.len() >= MAX_SCAN || reads >= MAX_READS {
            return Ok(Read { entries, older: None, newest_first: false });
        }
    }
}

fn count(entries: &[Stored], include_tools: bool) -> usize {
    entries.iter().filter(|stored| message::is_message(&stored.entry, include_tools)).count()
}

/// A page that ends between a call and its result would show it under way: read on to the next message.
async fn add_results(store: &dyn Store, session: &Session, entries: &mut Vec<Stored>) -> Result<(), Error> {
    let Some(last) = entries.last().map(|stored| stored.seq) else { return Ok(()) };
    let more = store.entries(&session.id, Span::After { seq: last, limit: CHUNK }).await?;
    entries.extend(more.into_iter().take_while(|stored| !matches!(stored.entry, Entry::Input(_) | Entry::Reply(_))));
    Ok(())
}

fn finish(
    session: &Session,
    input: &HistoryInput,
    (read, by): (Read, &Before),
    limit: usize,
    redact: &Redact<'_>,
) -> History {
    let (mut content_truncated, mut content_redacted) = (false, false);
    let mut show = |mut message: Message| {
        // First: a secret that a cut goes through must not be half left.
        content_redacted |= redact(&mut message);
        let (message, shortened) = message::readable(message, input.include_tools)?;
        content_truncated |= shortened;
        Some(message)
    };
    let projected = message::project_after(by, &read.entries);
    let mut older = read.older;
    // Looking for secrets is most of the work, so only what is on the page is looked at.
    let messages: Vec<Message> = if read.newest_first {
        let mut rest = projected.into_iter().rev();
        let mut page: Vec<Message> = rest.by_ref().filter_map(&mut show).take(limit).collect();
        page.reverse();
        // The page begins with its first message, and what is older lies before that.
        if rest.any(|message| message::readable(message, input.include_tools).is_some()) {
            older = page.first().map(|first| first.seq);
        }
        page
    } else {
        projected.into_iter().filter_map(&mut show).take(limit).collect()
    };
    let messages = messages.into_iter().map(|message| spoken_by(session, message)).collect();
    let capped = message::cap(messages);
    if capped.dropped > 0 {
        older = capped.messages.first().map(|first| first.seq);
    }
    History {
        session_key: session.key.clone(),
        hard_capped: capped.dropped > 0,
        total_bytes: capped.bytes,
        truncated: capped.dropped > 0 || content_truncated,
        dropped_messages: capped.dropped,
        content_truncated,
        content_redacted,
        next_before: older,
        messages: capped.messages,
    }
}

/// A page that begins within a run has not seen who the session was called then.
fn spoken_by(session: &Session, message: Message) -> Message {
    if !message.sender.is_empty() {
        return message;
    }
    let own = crate::identity::called(session).unwrap_or(&session.agent);
    Message { sender: own.clone(), ..message }
}
