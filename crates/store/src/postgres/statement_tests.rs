//! The statements of the emitter's golden cases, prepared and run by a server.

use query::emit::{self, Statement};
use query::{Dialect, lexemes};
use testing::golden::{PreparedCase, products, read_all};
use testing_postgres::Cluster;
use tokio_postgres::Client;
use tokio_postgres::types::ToSql;

use super::address::DatabaseUrl;
use super::cells;
use super::connection::connect;
use super::format::STEPS;
use super::row_tables::{create_indexes, create_tables};

/// Prepared, a statement has the parameters that the emitter says; and it runs.
async fn run(client: &Client, statement: &Statement) -> Result<(), tokio_postgres::Error> {
    let prepared = client.prepare(&statement.sql).await?;
    let types: Vec<_> = statement
        .parameters
        .iter()
        .map(cells::parameter_type)
        .collect();
    assert_eq!(prepared.params(), types, "{}", statement.sql);
    let parameters: Vec<_> = statement.parameters.iter().map(cells::parameter).collect();
    let parameters = parameters.iter().map(|one| &**one as &(dyn ToSql + Sync));
    let parameters: Vec<_> = parameters.collect();
    client.query(&prepared, &parameters).await?;
    Ok(())
}

#[test]
fn statements_of_golden_cases_run() {
    let cluster = Cluster::shared().unwrap();
    cluster
        .run_sql("postgres", &["CREATE DATABASE golden"])
        .unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let url = DatabaseUrl::parse(&cluster.url("golden")).unwrap();
    let count = runtime.block_on(async {
        let client = connect(&url, None).await.unwrap().client;
        client
            .batch_execute("CREATE SCHEMA s; SET search_path = s")
            .await
            .unwrap();
        client.batch_execute(&STEPS.join(";")).await.unwrap();
        client.batch_execute(lexemes::function()).await.unwrap();
        let mut count = 0;
        for case in read_all().iter().flat_map(|file| &file.cases) {
            let asked = PreparedCase::new(case, products());
            let Ok(query) = asked.query(&case.queries) else {
                continue;
            };
            let table = &asked.table;
            let tables = create_tables(table.number, &table.columns);
            let made = format!("BEGIN;{tables}{}", create_indexes(table));
            client.batch_execute(&made).await.unwrap();
            let mut statements = asked.statements(&query, Dialect::Postgres);
            statements.push((
                "in place",
                PreparedCase::rows_in_place(&query, Dialect::Postgres),
            ));
            statements.push(("walk", emit::walk(&query, Dialect::Postgres)));
            statements.push(("contents", emit::contents(table, &[1, 2])));
            statements.extend(emit::narrowing(&query).map(|statement| ("words", statement)));
            for (what, statement) in statements {
                let ran = run(&client, &statement).await;
                let ran = ran.map_err(|error| error.as_db_error().map(ToString::to_string));
                assert!(
                    ran.is_ok(),
                    "{}: {what}: {ran:?}\n{}",
                    case.name,
                    statement.sql
                );
                count += 1;
            }
            client.batch_execute("ROLLBACK").await.unwrap();
        }
        count
    });
    assert!(count >= 500, "only {count} statements were run");
}
