//! Why a call has no answer: the gateway said no, or there was nobody to say anything.

use std::io;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The gateway understood the call and did not do it.
    #[error("{0}")]
    Refused(proto::Error),
    /// Nobody listens: no gateway runs there.
    #[error("no gateway answers at `{address}`: {source}")]
    Unreachable { address: String, source: io::Error },
    /// What was given as an address, or as a token, is none.
    #[error("{0}")]
    Address(String),
    /// The gateway went away in the middle. What it had acknowledged is kept.
    #[error("the connection to the gateway broke: {0}")]
    Broken(String),
    /// The gateway is there and says nothing: it was stopped, or it hangs.
    #[error("the gateway does not answer: it is stopped or it hangs")]
    Silent,
    /// Something answered, but not as a gateway does.
    #[error("the gateway sent something that is not an answer: {0}")]
    Garbage(String),
}

impl Error {
    /// Another gateway, or the same one a little later, may answer the same call.
    pub fn is_lost(&self) -> bool {
        match self {
            Self::Unreachable { .. } | Self::Broken(_) => true,
            Self::Refused(error) => error.code == proto::Code::Unavailable && error.retryable,
            // The next one could not start while this one has the home.
            Self::Silent | Self::Garbage(_) | Self::Address(_) => false,
        }
    }
}

impl From<Error> for proto::Error {
    fn from(error: Error) -> Self {
        match error {
            Error::Refused(error) => error,
            Error::Garbage(_) => {
                Self::internal(error.to_string()).hint("the gateway may be of another version: stop it and try again")
            }
            Error::Silent => Self::new(proto::Code::Timeout, error.to_string())
                .hint("continue its process or end it; nothing that was acknowledged is lost"),
            Error::Address(message) => {
                Self::invalid(message).hint("use the `url` and the token file that `convoke serve --json` prints")
            }
            Error::Unreachable { .. } | Error::Broken(_) => {
                Self { retryable: true, ..Self::new(proto::Code::Unavailable, error.to_string()) }
                    .hint("look into the gateway's log, or start one with `convoke serve`")
            }
        }
    }
}
