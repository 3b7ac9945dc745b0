//! One replica of a Raft group by tikv's `raft` crate, sans-IO, for Python.
//!
//! A message crosses as a tuple of its fields, so that the test sees and translates each of them:
//! (kind, to, from, term, log_term, index, commit, reject, reject_hint, context, entries), an entry as
//! (term, index, data). Membership is fixed. The log lies in memory and survives `restart`.

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use raft::eraftpb::{Entry, HardState, Message, MessageType};
use raft::storage::MemStorage;
use raft::{Config, GetEntriesContext, RawNode, StateRole, Storage};

type EntryFields<'py> = (u64, u64, Bound<'py, PyBytes>);
type MessageFields<'py> = (
    i32,
    u64,
    u64,
    u64,
    u64,
    u64,
    u64,
    bool,
    u64,
    Bound<'py, PyBytes>,
    Vec<EntryFields<'py>>,
);
type GivenEntry = (u64, u64, Vec<u8>);
type GivenMessage = (i32, u64, u64, u64, u64, u64, u64, bool, u64, Vec<u8>, Vec<GivenEntry>);

fn failed(error: raft::Error) -> PyErr {
    PyRuntimeError::new_err(error.to_string())
}

fn fields_of_entry<'py>(py: Python<'py>, entry: &Entry) -> EntryFields<'py> {
    (entry.term, entry.index, PyBytes::new(py, &entry.data))
}

fn fields_of<'py>(py: Python<'py>, message: &Message) -> MessageFields<'py> {
    (
        message.get_msg_type() as i32,
        message.to,
        message.from,
        message.term,
        message.log_term,
        message.index,
        message.commit,
        message.reject,
        message.reject_hint,
        PyBytes::new(py, &message.context),
        message.entries.iter().map(|entry| fields_of_entry(py, entry)).collect(),
    )
}

fn entry_of((term, index, data): GivenEntry) -> Entry {
    let mut entry = Entry::default();
    entry.term = term;
    entry.index = index;
    entry.data = data.into();
    entry
}

fn message_type(number: i32) -> PyResult<MessageType> {
    use MessageType::*;
    [
        MsgAppend,
        MsgAppendResponse,
        MsgRequestVote,
        MsgRequestVoteResponse,
        MsgHeartbeat,
        MsgHeartbeatResponse,
        MsgTimeoutNow,
        MsgRequestPreVote,
        MsgRequestPreVoteResponse,
    ]
    .into_iter()
    .find(|kind| *kind as i32 == number)
    .ok_or_else(|| PyRuntimeError::new_err(format!("no message of kind {number} is expected here")))
}

/// A replica; `timeout_ticks` is its election time-out, always the same, because the crate draws it
/// from a generator that nobody can seed.
#[pyclass]
struct Replica {
    node: RawNode<MemStorage>,
    storage: MemStorage,
    config: Config,
}

fn started(config: &Config, storage: &MemStorage) -> PyResult<RawNode<MemStorage>> {
    let silent = slog::Logger::root(slog::Discard, slog::o!());
    RawNode::new(config, storage.clone(), &silent).map_err(failed)
}

#[pymethods]
impl Replica {
    /// A member of `voters` whose log begins with `first`, the data of entry 1 of term 1.
    #[new]
    fn new(
        id: u64,
        voters: Vec<u64>,
        first: Vec<u8>,
        election_ticks: usize,
        timeout_ticks: usize,
        heartbeat_ticks: usize,
    ) -> PyResult<Self> {
        let storage = MemStorage::new_with_conf_state((voters, vec![]));
        let mut hard_state = HardState::default();
        hard_state.term = 1;
        {
            let mut core = storage.wl();
            core.append(&[entry_of((1, 1, first))]).map_err(failed)?;
            core.set_hardstate(hard_state);
        }
        let config = Config {
            id,
            election_tick: election_ticks,
            heartbeat_tick: heartbeat_ticks,
            min_election_tick: timeout_ticks,
            max_election_tick: timeout_ticks + 1,
            max_size_per_msg: 64,
            max_inflight_msgs: 4,
            check_quorum: true,
            pre_vote: true,
            ..Config::default()
        };
        let node = started(&config, &storage)?;
        Ok(Self { node, storage, config })
    }

    /// A crash and a new start: what was not stored is lost, and everything is applied anew.
    fn restart(&mut self) -> PyResult<()> {
        self.node = started(&self.config, &self.storage)?;
        Ok(())
    }

    fn tick(&mut self) {
        self.node.tick();
    }

    fn step(&mut self, given: GivenMessage) -> PyResult<()> {
        let mut message = Message::default();
        message.set_msg_type(message_type(given.0)?);
        message.to = given.1;
        message.from = given.2;
        message.term = given.3;
        message.log_term = given.4;
        message.index = given.5;
        message.commit = given.6;
        message.reject = given.7;
        message.reject_hint = given.8;
        message.context = given.9.into();
        message.entries = given.10.into_iter().map(entry_of).collect::<Vec<_>>().into();
        match self.node.step(message) {
            // An answer of one that is no member: the crate ignores it, and says so.
            Err(raft::Error::StepPeerNotFound) => Ok(()),
            other => other.map_err(failed),
        }
    }

    /// Whether this replica leads and took the command; a follower would forward it.
    fn propose(&mut self, data: Vec<u8>) -> bool {
        self.leads() && self.node.propose(vec![], data).is_ok()
    }

    fn transfer_leadership(&mut self, to: u64) {
        self.node.transfer_leader(to);
    }

    fn has_ready(&self) -> bool {
        self.node.has_ready()
    }

    /// Stores what is to be stored; returns (messages, committed entries).
    fn turn<'py>(
        &mut self,
        py: Python<'py>,
    ) -> PyResult<(Vec<MessageFields<'py>>, Vec<EntryFields<'py>>)> {
        let mut ready = self.node.ready();
        let mut messages = ready.take_messages();
        let mut committed = ready.take_committed_entries();
        {
            let mut core = self.storage.wl();
            core.append(ready.entries()).map_err(failed)?;
            if let Some(hard_state) = ready.hs() {
                core.set_hardstate(hard_state.clone());
            }
        }
        messages.extend(ready.take_persisted_messages());
        let mut light = self.node.advance(ready);
        if let Some(commit) = light.commit_index() {
            self.storage.wl().mut_hard_state().commit = commit;
        }
        messages.extend(light.take_messages());
        committed.extend(light.take_committed_entries());
        self.node.advance_apply();
        Ok((
            messages.iter().map(|message| fields_of(py, message)).collect(),
            committed.iter().map(|entry| fields_of_entry(py, entry)).collect(),
        ))
    }

    /// The stored log.
    fn log<'py>(&self, py: Python<'py>) -> PyResult<Vec<EntryFields<'py>>> {
        let first = self.storage.first_index().map_err(failed)?;
        let last = self.storage.last_index().map_err(failed)?;
        let entries = self
            .storage
            .entries(first, last + 1, None, GetEntriesContext::empty(false))
            .map_err(failed)?;
        Ok(entries.iter().map(|entry| fields_of_entry(py, entry)).collect())
    }

    #[getter]
    fn term(&self) -> u64 {
        self.node.raft.term
    }

    #[getter]
    fn leads(&self) -> bool {
        self.node.raft.state == StateRole::Leader
    }

    #[getter]
    fn commit(&self) -> u64 {
        self.node.raft.raft_log.committed
    }
}

#[pymodule]
mod zonequake_raft_rs {
    #[pymodule_export]
    use super::Replica;
}
