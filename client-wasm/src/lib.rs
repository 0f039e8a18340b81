//! The client's engine (`samekey_core::intent`) as JavaScript sees it, and nothing else.
//!
//! One call crosses the border: [`Engine::step`] takes an event and gives back actions, both as frames: lists of
//! numbers, texts, bytes and lists of texts, whose first text names the event or the action. The shell in TypeScript
//! performs the actions by these names and decides nothing.
//!
//! Everything here is chosen for its weight, which every visitor of a page downloads: a typed border of some thirty
//! functions and callbacks weighed as much as the engine's JSON, and std's panics and formatting more than that.

#![cfg_attr(target_arch = "wasm32", no_std)]

extern crate alloc;

mod actions;
mod events;
mod frame;
mod settings;

use alloc::vec::Vec;

use samekey_core::intent;
use wasm_bindgen::prelude::*;

use frame::Reader;

/// One engine, for one page or worker.
#[wasm_bindgen]
pub struct Engine(intent::Engine);

#[wasm_bindgen]
impl Engine {
    /// `settings`: see settings.rs; `seed`: 32 bytes of `getRandomValues`. Nothing: a list of significant fields makes
    /// no sense.
    pub fn open(settings: &[u8], seed: &[u8]) -> Option<Self> {
        let seed = seed.try_into().ok()?;
        intent::Engine::new(settings::read(&mut Reader::new(settings)), seed).ok().map(Self)
    }

    /// An event, by the device's clock in Unix milliseconds; the actions that it brings.
    pub fn step(&mut self, now: f64, event: &[u8]) -> Vec<u8> {
        let Some(event) = events::read(&mut Reader::new(event)) else { return Vec::new() };
        let actions = self.0.step(now as i64, event);
        actions::write(&self.0, actions)
    }

    /// Whether `fetch` makes an intent of a request: method, URL and headers.
    pub fn covers(&self, request: &[u8]) -> bool {
        let mut request = Reader::new(request);
        let (method, url) = (request.text(), request.text());
        self.0.covers(&method, &url, &request.pairs())
    }
}

#[cfg(target_arch = "wasm32")]
mod bare {
    #[global_allocator]
    static ALLOCATOR: dlmalloc::GlobalDlmalloc = dlmalloc::GlobalDlmalloc;

    /// Without a message, so that none is in the module, nor what would write it.
    #[panic_handler]
    fn trap(_: &core::panic::PanicInfo<'_>) -> ! {
        core::arch::wasm32::unreachable()
    }
}
