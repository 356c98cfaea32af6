//! Jobs: what a prompt tells the scripted model to do, as text that travels through sessions and reads back.

use crate::random::Random;
use std::fmt;

/// `job id=<id> plan=<step>,<step>`: the id is unique, so that whatever a step leaves behind names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Job {
    pub(super) id: String,
    pub(super) plan: Vec<Step>,
}

/// What one reply of the model does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Step {
    /// Leaves a token in the file.
    Bash,
    /// The same, but takes a while before and after it.
    Slow,
    /// Takes longer than whoever hurries waits.
    Linger,
    /// Leaves a process behind that tries to get away.
    Stray,
    /// Leaves a token in the background, and goes on for so many milliseconds.
    Background(u64),
    /// Stops what was started so last.
    Halt,
    Read,
    Write,
    /// Reads what a person has to allow.
    Secret,
    /// Asks a person what only they can say.
    Question,
    /// So many children at once, waited for.
    Tasks(u64),
    /// A child in the background.
    Spawn,
    /// A child that is waited for, started by the other door.
    SpawnAndWait,
    /// A message to a peer, and its answer.
    Send(String),
    /// A message whose answer comes as a letter.
    Tell(String),
    /// A message whose answer is late.
    Hurry(String),
    /// A message that two sessions then talk over.
    Talk(String),
    /// The next version of several files, by one call.
    Draft(u64),
    /// Several different calls in one reply.
    Mixed,
    /// A task for the board, one taken from it, and a word to another.
    Board,
    /// Mail to a peer.
    Mail(String),
    /// Agents with names, one for each [`Manner`].
    Crew,
    /// Mail to one of them, and to everybody.
    Shout,
    /// They are asked to end.
    Dismiss,
    /// An agent that may do nothing before its plan is approved.
    Planner,
    /// A plan, put to whoever started this agent; the first one is rejected.
    Plan(u64),
    /// A worktree for this session.
    Enter,
    /// What was written is committed, in a worktree only.
    Commit,
    /// Out of the worktree, in one of three ways.
    Exit(Exit),
    /// An agent with a worktree of its own, which it changes or not.
    Isolated(bool),
    /// Five agents with names, which are to be stopped or not.
    Team(bool),
    /// A second question to one of them.
    Again(String),
}

/// How an agent takes it that it is asked to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Manner {
    Agrees,
    Refuses,
    /// Does not answer.
    Deaf,
}

impl Manner {
    pub(super) const ALL: [Self; 3] = [Self::Agrees, Self::Refuses, Self::Deaf];

    fn word(self) -> &'static str {
        match self {
            Self::Agrees => "agrees",
            Self::Refuses => "refuses",
            Self::Deaf => "deaf",
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Exit {
    Keep,
    /// Refused when anything would be lost.
    Remove,
    Discard,
}

impl Exit {
    const ALL: [Self; 3] = [Self::Keep, Self::Remove, Self::Discard];

    fn word(self) -> &'static str {
        match self {
            Self::Keep => "keep",
            Self::Remove => "remove",
            Self::Discard => "discard",
        }
    }
}

const MARK: &str = "job id=";

impl Job {
    /// The job that a text is. One that only quotes a job, as an announcement does, is none.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let rest = text.strip_prefix(MARK)?;
        let (id, rest) = rest.split_once(" plan=")?;
        let plan = rest.split_whitespace().next()?.split(',').map(Step::parse).collect::<Option<_>>()?;
        Some(Self { id: id.to_owned(), plan })
    }

    /// A job for a prompt; messages go to one of `peers`.
    pub(super) fn draw(id: String, random: &mut Random, peers: &[String]) -> Self {
        let steps = 1 + random.below(4);
        let mut plan: Vec<Step> = (0..steps).map(|_| Step::draw(random, peers)).collect();
        if random.percent(SCENES) {
            plan.splice(0..0, scene(random));
        }
        Self { id, plan }
    }

    /// What a client asks for when there are no more crashes.
    pub(super) fn last(client: &str) -> Self {
        let short = Step::Background(SHORT);
        Self { id: format!("{client}-last"), plan: vec![short.clone(), short, Step::Background(LONG), Step::Halt] }
    }

    /// The name of one of this job's agents, and what it is to do.
    pub(super) fn member(&self, manner: Manner) -> (String, Self) {
        let name = format!("{}.{}", self.id, manner.word());
        let plan = match manner {
            Manner::Deaf => vec![Step::Linger, Step::Linger],
            Manner::Agrees | Manner::Refuses => std::iter::repeat_n([Step::Slow, Step::Read], 4).flatten().collect(),
        };
        (name.clone(), Self { id: name, plan })
    }

    /// How this job's agent takes it that it is asked to end; most are no crew, and agree.
    pub(super) fn manner(&self) -> Manner {
        let named = |manner: &Manner| self.id.rsplit('.').next() == Some(manner.word());
        Manner::ALL.into_iter().find(named).unwrap_or(Manner::Agrees)
    }

    /// What an agent is to do that has its plan approved first.
    pub(super) fn planned(&self) -> (String, Self) {
        let name = format!("{}.planner", self.id);
        (name.clone(), Self { id: name, plan: vec![Step::Plan(0), Step::Plan(1), Step::Write] })
    }

    /// What an agent with a worktree of its own does.
    pub(super) fn alone(&self, name: &str, changes: bool) -> Self {
        let plan = if changes { vec![Step::Write, Step::Commit, Step::Write] } else { vec![Step::Read] };
        Self { id: format!("{}.{name}", self.id), plan }
    }

    /// What a child or a peer is asked to do by this job: it follows from the names alone.
    pub(super) fn piece(&self, name: &str) -> Self {
        let id = format!("{}.{name}", self.id);
        let mut random = Random::named(&id);
        let steps = 1 + random.below(2);
        // Children have children of their own, but not without end.
        let nested = self.id.matches('.').count() == 0 && random.percent(20);
        let mut plan: Vec<Step> = (0..steps).map(|_| random.pick(&LOCAL).clone()).collect();
        if nested {
            plan.push(Step::Tasks(2));
        }
        Self { id, plan }
    }

    /// A piece that takes its time.
    pub(super) fn slow_piece(&self, name: &str) -> Self {
        Self { id: format!("{}.{name}", self.id), plan: vec![Step::Linger] }
    }

    /// The line that this step leaves in the file.
    pub(super) fn token(&self, step: usize) -> String {
        format!("token-{}-{step}", self.id)
    }
}

impl fmt::Display for Job {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plan: Vec<String> = self.plan.iter().map(Step::to_string).collect();
        write!(f, "{MARK}{} plan={}", self.id, plan.join(","))
    }
}

/// How many jobs in a hundred begin with a scene.
const SCENES: u64 = 40;

/// How long a command in the background goes on: until it is soon over, or until a crash may meet it.
const SHORT: u64 = 50;
const LONG: u64 = 700;

/// Steps that only make sense one after the other.
fn scene(random: &mut Random) -> Vec<Step> {
    let there = || vec![Step::Enter, Step::Write];
    match random.below(11) {
        0 | 1 => vec![Step::Crew, Step::Shout, Step::Slow, Step::Dismiss],
        2 | 3 => vec![Step::Planner, Step::Read],
        4 => [there(), vec![Step::Exit(Exit::Remove), Step::Exit(Exit::Discard), Step::Write]].concat(),
        5 => [there(), vec![Step::Commit, Step::Write, Step::Exit(*random.pick(&Exit::ALL))]].concat(),
        6 => vec![Step::Enter, Step::Exit(Exit::Remove)],
        7 => vec![Step::Isolated(true), Step::Isolated(false)],
        8 => vec![Step::Background(LONG), Step::Background(SHORT), Step::Halt],
        9 => vec![Step::Background(LONG), Step::Slow],
        _ => vec![Step::Question, Step::Question],
    }
}

/// Steps that need nobody else.
const LOCAL: [Step; 9] = [
    Step::Bash,
    Step::Bash,
    Step::Slow,
    Step::Read,
    Step::Write,
    Step::Stray,
    Step::Background(SHORT),
    Step::Board,
    Step::Board,
];

impl Step {
    fn draw(random: &mut Random, peers: &[String]) -> Self {
        match random.below(100) {
            0..36 => random.pick(&LOCAL).clone(),
            36..42 => Self::Secret,
            42..48 => Self::Question,
            48..58 => Self::Tasks(1 + random.below(4)),
            58..68 => Self::Spawn,
            68..73 => Self::SpawnAndWait,
            73..80 => Self::Mixed,
            _ if peers.is_empty() => Self::Bash,
            80..86 => Self::Send(random.pick(peers).clone()),
            86..90 => Self::Mail(random.pick(peers).clone()),
            90..96 => Self::Tell(random.pick(peers).clone()),
            96..98 => Self::Talk(random.pick(peers).clone()),
            _ => Self::Hurry(random.pick(peers).clone()),
        }
    }

    fn parse(text: &str) -> Option<Self> {
        let (name, about) = text.split_once(':').unwrap_or((text, ""));
        Some(match name {
            "bash" => Self::Bash,
            "slow" => Self::Slow,
            "linger" => Self::Linger,
            "stray" => Self::Stray,
            "background" => Self::Background(about.parse().ok()?),
            "halt" => Self::Halt,
            "read" => Self::Read,
            "write" => Self::Write,
            "secret" => Self::Secret,
            "question" => Self::Question,
            "tasks" => Self::Tasks(about.parse().ok()?),
            "spawn" => Self::Spawn,
            "spawn-and-wait" => Self::SpawnAndWait,
            "send" => Self::Send(about.to_owned()),
            "tell" => Self::Tell(about.to_owned()),
            "hurry" => Self::Hurry(about.to_owned()),
            "talk" => Self::Talk(about.to_owned()),
            "draft" => Self::Draft(about.parse().ok()?),
            "mixed" => Self::Mixed,
            "board" => Self::Board,
            "mail" => Self::Mail(about.to_owned()),
            "crew" => Self::Crew,
            "shout" => Self::Shout,
            "dismiss" => Self::Dismiss,
            "planner" => Self::Planner,
            "plan" => Self::Plan(about.parse().ok()?),
            "enter" => Self::Enter,
            "commit" => Self::Commit,
            "exit" => Self::Exit(Exit::ALL.into_iter().find(|exit| exit.word() == about)?),
            "isolated" => Self::Isolated(about.parse().ok()?),
            "team" => Self::Team(about.parse().ok()?),
            "again" => Self::Again(about.to_owned()),
            _ => return None,
        })
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bash => f.write_str("bash"),
            Self::Slow => f.write_str("slow"),
            Self::Linger => f.write_str("linger"),
            Self::Stray => f.write_str("stray"),
            Self::Background(ms) => write!(f, "background:{ms}"),
            Self::Halt => f.write_str("halt"),
            Self::Read => f.write_str("read"),
            Self::Write => f.write_str("write"),
            Self::Secret => f.write_str("secret"),
            Self::Question => f.write_str("question"),
            Self::Tasks(count) => write!(f, "tasks:{count}"),
            Self::Spawn => f.write_str("spawn"),
            Self::SpawnAndWait => f.write_str("spawn-and-wait"),
            Self::Send(peer) => write!(f, "send:{peer}"),
            Self::Tell(peer) => write!(f, "tell:{peer}"),
            Self::Hurry(peer) => write!(f, "hurry:{peer}"),
            Self::Talk(peer) => write!(f, "talk:{peer}"),
            Self::Draft(version) => write!(f, "draft:{version}"),
            Self::Mixed => f.write_str("mixed"),
            Self::Board => f.write_str("board"),
            Self::Mail(peer) => write!(f, "mail:{peer}"),
            Self::Crew => f.write_str("crew"),
            Self::Shout => f.write_str("shout"),
            Self::Dismiss => f.write_str("dismiss"),
            Self::Planner => f.write_str("planner"),
            Self::Plan(nth) => write!(f, "plan:{nth}"),
            Self::Enter => f.write_str("enter"),
            Self::Commit => f.write_str("commit"),
            Self::Exit(exit) => write!(f, "exit:{}", exit.word()),
            Self::Isolated(changes) => write!(f, "isolated:{changes}"),
            Self::Team(stops) => write!(f, "team:{stops}"),
            Self::Again(member) => write!(f, "again:{member}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_reads_back_and_a_quoted_one_is_none() {
        let peers = ["peer-0-1".to_owned()];
        let mut random = Random::new(1);
        for n in 0..200 {
            let job = Job::draw(format!("j{n}"), &mut random, &peers);
            assert_eq!(Job::parse(&format!("you were asked: {job}\nthank you")), None);
            assert_eq!(Job::parse(&job.to_string()), Some(job));
        }
        assert_eq!(Job::parse("done j1"), None);
        assert_eq!(Job::parse("job id=1 plan=fly"), None);
    }

    #[test]
    fn pieces_follow_from_names_and_end() {
        let job = Job { id: "j1".into(), plan: vec![Step::Spawn] };
        assert_eq!(job.piece("0.a"), job.piece("0.a"));
        for name in 0..100 {
            let piece = job.piece(&name.to_string());
            assert!(!piece.piece("0").plan.iter().any(|step| matches!(step, Step::Tasks(_))), "{piece}");
        }
    }
}
