//! The link itself: two directions, each a queue of frames with the moment at which each is due.

use std::collections::VecDeque;
use std::fs::File;
use std::future::poll_fn;
use std::io::{self, Read as _, Write as _};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use smol::{Async, Timer};
use wattle::crypto::rng::Rng;
use wattle::os::signals::{Signal, Signals};

use crate::control::Control;

/// What a direction does to frames.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Settings {
    /// Milliseconds one way.
    delay: f64,
    /// Milliseconds more or less, evenly spread; frames keep their order.
    jitter: f64,
    /// Percent.
    loss: f64,
    /// Kilobits a second; 0 is no limit.
    rate: f64,
    /// Frames that wait at most.
    queue: f64,
}

#[derive(Debug)]
pub(super) struct Direction {
    settings: Settings,
    /// In the order of their moments.
    waiting: VecDeque<(Instant, Vec<u8>)>,
    /// When the rate lets the next frame begin.
    free: Option<Instant>,
    taken: u32,
    given: u32,
    lost: u32,
    overflown: u32,
}

/// Takes `delay=20` or `delay_ab=20`.
///
/// # Errors
/// An unknown key, or a value that is not a number from 0 on.
pub(super) fn apply(settings: &mut [Settings; 2], setting: &str) -> Result<(), String> {
    let (key, value) = setting.split_once('=').ok_or_else(|| format!("not a setting: {setting}"))?;
    let value: f64 = value.parse().map_err(|_| format!("not a number: {setting}"))?;
    if !(0.0..=1e9).contains(&value) {
        return Err(format!("out of range: {setting}"));
    }
    let (key, only) = match (key.strip_suffix("_ab"), key.strip_suffix("_ba")) {
        (Some(key), _) => (key, Some(0)),
        (_, Some(key)) => (key, Some(1)),
        _ => (key, None),
    };
    for (index, one) in settings.iter_mut().enumerate() {
        if only.is_some_and(|only| only != index) {
            continue;
        }
        *match key {
            "delay" => &mut one.delay,
            "jitter" => &mut one.jitter,
            "loss" => &mut one.loss,
            "rate" => &mut one.rate,
            "queue" => &mut one.queue,
            _ => return Err(format!("unknown key: {setting}")),
        } = value;
    }
    Ok(())
}

/// Carries frames until a signal says to end.
///
/// # Errors
/// When a device is taken away.
pub(super) async fn carry(
    ends: [Async<File>; 2],
    mut directions: [Direction; 2],
    mut control: Option<Control>,
    mut signals: Signals,
) -> io::Result<()> {
    crate::say("ready");
    let mut rng = Rng::from_os().map_err(io::Error::other)?;
    let mut frame = vec![0; 65536];
    let mut timer = Timer::never();
    loop {
        for (from, to, direction) in [(0, 1, 0), (1, 0, 1)] {
            directions[direction].give(&ends[to]);
            directions[direction].take(&ends[from], &mut rng, &mut frame)?;
            directions[direction].give(&ends[to]);
        }
        let next = directions.iter().filter_map(Direction::next).min();
        let ended = poll_fn(|context| {
            if signals.poll(context).is_some_and(|signal| signal == Signal::Terminate) {
                return Poll::Ready(true);
            }
            if let Some(control) = &mut control {
                control.serve(context, &mut directions);
            }
            let mut ready = false;
            for end in &ends {
                ready |= end.poll_readable(context).is_ready();
            }
            if ready || is_due(&mut timer, next, context) { Poll::Ready(false) } else { Poll::Pending }
        })
        .await;
        if ended {
            return Ok(());
        }
    }
}

impl Direction {
    pub(super) fn new(settings: Settings) -> Direction {
        Direction { settings, waiting: VecDeque::new(), free: None, taken: 0, given: 0, lost: 0, overflown: 0 }
    }

    pub(super) fn settings(&self) -> Settings {
        self.settings
    }

    pub(super) fn set(&mut self, settings: Settings) {
        self.settings = settings;
    }

    pub(super) fn report(&self) -> Value {
        let Settings { delay, jitter, loss, rate, queue } = self.settings;
        json!({
            "settings": { "delay": delay, "jitter": jitter, "loss": loss, "rate": rate, "queue": queue },
            "counters": { "in": self.taken, "out": self.given, "lost": self.lost, "overflow": self.overflown },
            "queued": self.waiting.len(),
        })
    }

    fn next(&self) -> Option<Instant> {
        self.waiting.front().map(|(due, _)| *due)
    }

    fn take(&mut self, end: &Async<File>, rng: &mut Rng, frame: &mut [u8]) -> io::Result<()> {
        for _ in 0..BATCH {
            let length = match end.get_ref().read(frame) {
                Ok(length) => length,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                // Somebody has set the device down; frames come again when it is up.
                Err(error) if error.raw_os_error() == Some(libc::EIO) => return Ok(()),
                Err(error) => return Err(error),
            };
            self.taken = self.taken.wrapping_add(1);
            if f64::from(rng.u32()) / TWO_TO_32 * 100.0 < self.settings.loss {
                self.lost = self.lost.wrapping_add(1);
            } else if self.waiting.len() as f64 >= self.settings.queue {
                self.overflown = self.overflown.wrapping_add(1);
            } else {
                let due = self.due(length, rng);
                self.waiting.push_back((due, frame[..length].to_vec()));
            }
        }
        Ok(())
    }

    /// When a frame that comes now is at the other end.
    fn due(&mut self, length: usize, rng: &mut Rng) -> Instant {
        let mut start = now();
        if self.settings.rate > 0.0 {
            start = self.free.map_or(start, |free| free.max(start));
            start += Duration::from_secs_f64(length as f64 * 8.0 / (self.settings.rate * 1000.0));
            self.free = Some(start);
        }
        let spread = (f64::from(rng.u32()) / TWO_TO_32 * 2.0 - 1.0) * self.settings.jitter;
        let due = start + Duration::from_secs_f64((self.settings.delay + spread).max(0.0) / 1000.0);
        // A wire does not let frames overtake each other.
        self.waiting.back().map_or(due, |(last, _)| due.max(*last))
    }

    fn give(&mut self, end: &Async<File>) {
        while self.next().is_some_and(|due| due <= now()) {
            let Some((_, frame)) = self.waiting.pop_front() else { break };
            let counter = if end.get_ref().write(&frame).is_ok() { &mut self.given } else { &mut self.lost };
            *counter = counter.wrapping_add(1);
        }
    }
}

impl Default for Settings {
    fn default() -> Settings {
        Settings { delay: 0.0, jitter: 0.0, loss: 0.0, rate: 0.0, queue: 1000.0 }
    }
}

fn is_due(timer: &mut Timer, next: Option<Instant>, context: &mut Context<'_>) -> bool {
    let Some(next) = next else { return false };
    timer.set_at(next);
    Pin::new(timer).poll(context).is_ready()
}

#[expect(clippy::disallowed_methods, reason = "a link is made of time")]
fn now() -> Instant {
    Instant::now()
}

/// Frames from one end before the other has its turn.
const BATCH: usize = 64;
const TWO_TO_32: f64 = 4_294_967_296.0;
