//! What gateway, reaper and runner say to each other. Bytes and not JSON: a runner starts once per call and must be cheap.

use super::{Command, Error};
use std::ffi::OsString;
use std::io::{self, Read};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

/// One packet from the gateway to the reaper.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Note {
    /// The gateway lives: expect the next one within so many milliseconds.
    Feed(u64),
    /// Start a runner with the two descriptors that come along (control socket, write end of the output pipe).
    Run(u64),
    /// This runner does not answer: end it from outside.
    Kill(u64),
}

/// Length of a [`Note`].
pub(super) const NOTE: usize = 9;

impl Note {
    pub(super) fn to_bytes(self) -> [u8; NOTE] {
        let (kind, value) = match self {
            Self::Feed(ms) => (b'f', ms),
            Self::Run(id) => (b'r', id),
            Self::Kill(id) => (b'k', id),
        };
        let mut bytes = [kind; NOTE];
        bytes[1..].copy_from_slice(&value.to_le_bytes());
        bytes
    }

    pub(super) fn parse(bytes: &[u8]) -> Option<Self> {
        let (kind, value) = bytes.split_first()?;
        let value = u64::from_le_bytes(value.try_into().ok()?);
        match kind {
            b'f' => Some(Self::Feed(value)),
            b'r' => Some(Self::Run(value)),
            b'k' => Some(Self::Kill(value)),
            _ => None,
        }
    }
}

/// What a runner starts, as it arrives: any bytes without NUL.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Order {
    pub(super) dir: OsString,
    pub(super) program: OsString,
    pub(super) args: Vec<OsString>,
    pub(super) env: Vec<(OsString, OsString)>,
    /// For its standard input; with it, standard error is kept apart.
    pub(super) input: Option<OsString>,
}

/// The most an order may hold; the kernel refuses longer argument lists anyway.
const MAX_ORDER: usize = 16 << 20;

/// A length, then NUL-ended fields: directory, program, input (behind a `+`, or empty), number of arguments, arguments,
/// names and values in turn.
pub(super) fn encode(command: &Command) -> Result<Vec<u8>, Error> {
    let count = command.args.len().to_string();
    let input = command.input.as_ref().map(|input| format!("+{input}")).unwrap_or_default();
    let head = [command.dir.as_os_str().as_bytes(), command.program.as_bytes(), input.as_bytes(), count.as_bytes()];
    let args = command.args.iter().map(String::as_bytes);
    let env = command.env.iter().flat_map(|(name, value)| [name.as_bytes(), value.as_bytes()]);
    let mut bytes = vec![0; 4];
    for field in head.into_iter().chain(args).chain(env) {
        if field.contains(&0) {
            return Err(refused(command, "it contains a NUL byte, which no command line can hold"));
        }
        bytes.extend_from_slice(field);
        bytes.push(0);
    }
    let length = bytes.len() - 4;
    if length > MAX_ORDER {
        return Err(refused(command, "the command is too long; put its text into a file"));
    }
    bytes[..4].copy_from_slice(&u32::try_from(length).expect("bounded above").to_le_bytes());
    Ok(bytes)
}

fn refused(command: &Command, reason: &str) -> Error {
    Error::Start { program: command.program.clone(), reason: reason.into() }
}

pub(super) fn read_order(from: &mut impl Read) -> io::Result<Order> {
    let mut length = [0; 4];
    from.read_exact(&mut length)?;
    let length = u32::from_le_bytes(length) as usize;
    if length > MAX_ORDER {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut bytes = vec![0; length];
    from.read_exact(&mut bytes)?;
    decode(&bytes).ok_or_else(|| io::ErrorKind::InvalidData.into())
}

fn decode(bytes: &[u8]) -> Option<Order> {
    let mut fields = bytes.strip_suffix(&[0])?.split(|byte| *byte == 0).map(|field| OsString::from_vec(field.to_vec()));
    let (dir, program, input, count) = (fields.next()?, fields.next()?, fields.next()?, fields.next()?);
    let input = input.as_bytes().strip_prefix(b"+").map(|input| OsString::from_vec(input.to_vec()));
    let count: usize = count.to_str()?.parse().ok()?;
    let args: Vec<OsString> = fields.by_ref().take(count).collect();
    let mut env = Vec::new();
    while let Some(name) = fields.next() {
        env.push((name, fields.next()?));
    }
    (args.len() == count).then_some(Order { dir, program, args, env, input })
}

/// What a runner says before it exits, in one line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Report {
    Exit(i32),
    Signal(i32),
    /// It did not die in time; the reaper goes on trying.
    Stuck,
    /// It was never started.
    Refused(String),
}

/// The most a report may hold.
pub(super) const MAX_REPORT: u64 = 4096;

/// The most of a command's standard error that comes back apart from its output.
pub(super) const MAX_ERRORS: usize = 16 << 10;

/// In front of the report: how many bytes of standard error follow, and these.
pub(super) fn errors(bytes: &[u8]) -> Vec<u8> {
    let mut out = format!("{ERRORS}{}\n", bytes.len()).into_bytes();
    out.extend_from_slice(bytes);
    out
}

/// How many bytes of standard error follow this line, if any do.
pub(super) fn errors_after(line: &str) -> Option<usize> {
    let count = line.strip_prefix(ERRORS)?.trim_end().parse().ok()?;
    (count <= MAX_ERRORS).then_some(count)
}

const ERRORS: &str = "errors ";

impl Report {
    pub(super) fn to_line(&self) -> String {
        match self {
            Self::Exit(code) => format!("exit {code}\n"),
            Self::Signal(signal) => format!("signal {signal}\n"),
            Self::Stuck => "stuck\n".into(),
            Self::Refused(reason) => format!("refused {}\n", reason.replace('\n', " ")),
        }
    }

    pub(super) fn parse(line: &str) -> Option<Self> {
        let line = line.strip_suffix('\n')?;
        let (kind, rest) = line.split_once(' ').unwrap_or((line, ""));
        match kind {
            "exit" => Some(Self::Exit(rest.parse().ok()?)),
            "signal" => Some(Self::Signal(rest.parse().ok()?)),
            "stuck" => Some(Self::Stuck),
            "refused" => Some(Self::Refused(rest.into())),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn command(args: &[&str]) -> Command {
        Command {
            program: "echo".into(),
            args: args.iter().map(|arg| (*arg).to_owned()).collect(),
            dir: "/some where".into(),
            env: vec![("A".into(), String::new()), ("B".into(), "x=y\nz".into())],
            timeout: Duration::from_secs(1),
            limit: 0,
            spill: None,
            live: None,
            confine: None,
            input: None,
        }
    }

    #[test]
    fn an_input_arrives_with_its_order() {
        for input in [None, Some(String::new()), Some("{\"a\":\n1}".to_owned())] {
            let bytes = encode(&Command { input: input.clone(), ..command(&["x"]) }).unwrap();
            let order = read_order(&mut bytes.as_slice()).unwrap();
            assert_eq!((order.input.map(|input| input.into_string().unwrap()), order.args.len()), (input, 1));
        }
        assert_eq!(errors_after("errors 12\n"), Some(12));
        assert_eq!((errors_after("exit 0\n"), errors_after("errors 99999999\n")), (None, None));
    }

    #[test]
    fn an_order_arrives_as_it_was_sent() {
        let bytes = encode(&command(&["", "two words", "ü"])).unwrap();
        let order = read_order(&mut bytes.as_slice()).unwrap();
        assert_eq!(order.dir, "/some where");
        assert_eq!(order.args, ["", "two words", "ü"]);
        assert_eq!(order.env, [("A".into(), "".into()), ("B".into(), "x=y\nz".into())]);
    }

    #[test]
    fn a_nul_byte_is_refused_and_half_an_order_is_an_error() {
        assert!(matches!(encode(&command(&["a\0b"])), Err(Error::Start { .. })));
        let bytes = encode(&command(&["a"])).unwrap();
        assert!(read_order(&mut &bytes[..bytes.len() - 1]).is_err());
    }

    #[test]
    fn notes_and_reports_survive_the_way() {
        for note in [Note::Feed(10_000), Note::Run(u64::MAX), Note::Kill(7)] {
            assert_eq!(Note::parse(&note.to_bytes()), Some(note));
        }
        assert_eq!(Note::parse(b"r1"), None);
        for report in [Report::Exit(3), Report::Signal(9), Report::Stuck, Report::Refused("no such file".into())] {
            assert_eq!(Report::parse(&report.to_line()), Some(report));
        }
        assert_eq!(Report::parse("exit 0"), None, "a line without its end was cut off");
    }
}
