//! Lets the server's own vacuuming of a table give way to a change of it.
//!
//! A vacuum that the server began by itself is ended by a session that it holds up, once that has
//! waited for `deadlock_timeout`: a second, unless the server is set otherwise, and only a
//! superuser sets another one (`ProcSleep` in `proc.c`). A change of tables must not wait so long,
//! because all reads and writes of the table wait behind it. So another session waits in its place,
//! for SHARE UPDATE EXCLUSIVE: a vacuum holds that itself, no read or write of rows meets it, and
//! the owner of a table may have it. A vacuum against the end of transaction numbers gives way to
//! no session.

use std::collections::BTreeSet;
use std::path::Path;

use model::TableNumber;
use query::names;

use crate::StoreError;
use crate::postgres::address::DatabaseUrl;
use crate::postgres::checks;
use crate::postgres::connection::connect;
use crate::postgres::fault::is_outage;

/// It waits as long as the server takes to look who is in its way, and a little for that to end.
const PATIENT: &str = "SELECT set_config('lock_timeout', setting::int + 1000 || 'ms', false) \
                       FROM pg_settings WHERE name = 'deadlock_timeout'";

/// Ends what the server vacuums of these tables by itself.
///
/// # Errors
/// What the database says. Then the change is tried again all the same.
pub(super) async fn end_vacuums(
    url: &DatabaseUrl,
    password_file: Option<&Path>,
    tables: &BTreeSet<TableNumber>,
) -> Result<(), StoreError> {
    let connection = connect(url, password_file).await;
    let connection = connection.map_err(|fault| checks::not_connected(url, &fault))?;
    let client = &connection.client;
    client.batch_execute(PATIENT).await?;
    let all = tables.iter().flat_map(|table| {
        let of = [names::now, names::versions, names::grants, names::schedule];
        of.map(|name| name(*table))
    });
    for name in all {
        let wait = format!("BEGIN; LOCK TABLE {name} IN SHARE UPDATE EXCLUSIVE MODE; COMMIT");
        match client.batch_execute(&wait).await {
            Ok(()) => {}
            Err(error) if is_outage(&error) => return Err(error.into()),
            // Who holds it does not give way, or the table is gone by now.
            Err(_) => client.batch_execute("ROLLBACK").await?,
        }
    }
    Ok(())
}
