//! `ui`: the server before a real API server, and its pages in a real browser. The latter needs Chromium: `make ui-test` installs and
//! uses it.

mod browser;
mod command;
mod pages;
mod scene;
mod streams;
