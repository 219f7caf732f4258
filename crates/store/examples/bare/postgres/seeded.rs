//! How the seeded table is called inside the database.

use tokio_postgres::Client;

use crate::{END, Outcome, TABLE};

pub struct SeededCatalog {
    /// The catalogue's number of the table.
    pub number: i64,
    /// The table of now.
    pub now: String,
    /// All versions.
    pub versions: String,
    /// Key and physical name of each user column, in order.
    columns: Vec<(String, String)>,
    /// The ids of its rows, in order.
    pub ids: Vec<String>,
}

impl SeededCatalog {
    pub async fn find(client: &Client) -> Outcome<SeededCatalog> {
        let found = client
            .query(
                "SELECT number FROM table_ WHERE id = $1 AND st = $2",
                &[&TABLE, &END],
            )
            .await?;
        let found = found.first();
        let found = found.ok_or_else(|| format!("no table `{TABLE}`; seed the catalog first"))?;
        let number: i64 = found.get(0);
        let columns = client
            .query(
                "SELECT key, number FROM column_ WHERE tab = $1 AND st = $2 ORDER BY number",
                &[&number, &END],
            )
            .await?;
        let column = |row: &tokio_postgres::Row| {
            let number = u32::try_from(row.get::<_, i64>(1))?;
            let name = query::names::column(model::ColumnNumber(number));
            Ok((row.get(0), name))
        };
        let columns = columns.iter().map(column).collect::<Outcome<_>>()?;
        let table = model::TableNumber(number);
        let now = query::names::now(table);
        let ids = client
            .query(&format!("SELECT id FROM {now} ORDER BY seq"), &[])
            .await?;
        Ok(SeededCatalog {
            number,
            now,
            versions: query::names::versions(table),
            columns,
            ids: ids.iter().map(|row| row.get(0)).collect(),
        })
    }

    /// The physical name of the column that users call `key`.
    pub fn column(&self, key: &str) -> Outcome<&str> {
        let found = self.columns.iter().find(|(known, _)| known == key);
        let found = found.ok_or_else(|| format!("table `{TABLE}` has no column `{key}`"))?;
        Ok(&found.1)
    }

    /// The physical names of the user's columns.
    pub fn column_names(&self) -> Vec<&str> {
        self.columns.iter().map(|(_, name)| name.as_str()).collect()
    }
}
