//! What callers and projects may take, as typed.

use clap::{Args, value_parser};
use engine::{Quotas, TransactionsBound};
use server::serve::Limits;

use super::limits::within;

/// Most bytes of one setting.
const BYTES_MAX: u64 = 1 << 50;

/// Quotas; over one is 429 or 507.
#[derive(Args)]
#[command(next_help_heading = "Quotas")]
pub struct QuotaArgs {
    /// Most requests a second from one address without an API key; 0 for any number; 429 beyond
    ///
    /// Behind a proxy it needs --trust-proxy: otherwise all clients are one address.
    #[arg(
        long,
        env = "TIDEMARK_GUEST_RATE",
        value_name = "N",
        default_value_t = 0
    )]
    #[arg(value_parser = value_parser!(u32).range(..=1_000_000))]
    guest_rate: u32,
    /// Most executions of functions without an API key that one address has at once; 429 beyond
    ///
    /// Behind a proxy it needs --trust-proxy, as --guest-rate does.
    #[arg(
        long,
        env = "TIDEMARK_GUEST_EXECUTIONS",
        value_name = "N",
        default_value_t = 100
    )]
    guest_executions: u32,
    /// Most bytes of the bodies of these executions together; 429 beyond
    #[arg(
        long,
        env = "TIDEMARK_GUEST_EXECUTIONS_MEMORY",
        value_name = "SIZE",
        default_value = "32MiB"
    )]
    #[arg(value_parser = |text: &str| within(text, 0, BYTES_MAX))]
    guest_executions_memory: usize,
    /// Most open transactions of one address without an API key; 429 beyond
    #[arg(
        long,
        env = "TIDEMARK_GUEST_TRANSACTIONS",
        value_name = "N",
        default_value_t = 50
    )]
    guest_transactions: u32,
    /// Most bytes in these transactions together; 429 beyond
    #[arg(
        long,
        env = "TIDEMARK_GUEST_TRANSACTIONS_MEMORY",
        value_name = "SIZE",
        default_value = "32MiB"
    )]
    #[arg(value_parser = |text: &str| within(text, 0, BYTES_MAX))]
    guest_transactions_memory: usize,
    /// Most open transactions of one API key; 429 beyond
    #[arg(
        long,
        env = "TIDEMARK_KEY_TRANSACTIONS",
        value_name = "N",
        default_value_t = 5_000
    )]
    key_transactions: u32,
    /// Most bytes in these transactions together; 429 beyond
    #[arg(
        long,
        env = "TIDEMARK_KEY_TRANSACTIONS_MEMORY",
        value_name = "SIZE",
        default_value = "1GiB"
    )]
    #[arg(value_parser = |text: &str| within(text, 0, BYTES_MAX))]
    key_transactions_memory: usize,
    /// Most bytes of answers kept for one API key under its Idempotency-Keys; beyond, the oldest
    /// are removed
    #[arg(
        long,
        env = "TIDEMARK_KEY_ANSWERS_MAX",
        value_name = "SIZE",
        default_value = "256MiB"
    )]
    #[arg(value_parser = |text: &str| within(text, 0, BYTES_MAX))]
    key_answers_max: usize,
    /// Most rows of one project; 0 for any number; 507 beyond
    #[arg(
        long,
        env = "TIDEMARK_PROJECT_ROWS",
        value_name = "N",
        default_value_t = 0
    )]
    project_rows: u64,
    /// Most bytes of one project's rows, present and past; 0 for any number; 507 beyond
    #[arg(
        long,
        env = "TIDEMARK_PROJECT_BYTES",
        value_name = "SIZE",
        default_value = "0"
    )]
    #[arg(value_parser = |text: &str| within(text, 0, BYTES_MAX))]
    project_bytes: usize,
    /// Most bytes stored, all projects and their past together; 0 for any number; 507 beyond
    #[arg(
        long,
        env = "TIDEMARK_DATA_MAX",
        value_name = "SIZE",
        default_value = "0"
    )]
    #[arg(value_parser = |text: &str| within(text, 0, BYTES_MAX))]
    data_max: usize,
}

impl QuotaArgs {
    /// The limits of requests, with what callers without an API key may take.
    pub fn of_guests(&self, limits: Limits) -> Limits {
        Limits {
            guest_rate: self.guest_rate,
            guest_executions: self.guest_executions as usize,
            guest_executions_bytes_max: self.guest_executions_memory,
            ..limits
        }
    }

    /// As the engine takes them, with a bound of archives that stands elsewhere.
    pub fn quotas(&self, source_bytes: u64) -> Quotas {
        let bound = |open: u32, bytes| TransactionsBound {
            open: open as usize,
            bytes,
        };
        Quotas {
            guest_transactions: bound(self.guest_transactions, self.guest_transactions_memory),
            key_transactions: bound(self.key_transactions, self.key_transactions_memory),
            key_answers_bytes: self.key_answers_max as u64,
            project_rows: self.project_rows,
            project_bytes: self.project_bytes as u64,
            data_bytes: self.data_max as u64,
            source_bytes,
        }
    }
}
