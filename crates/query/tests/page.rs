//! The page of query methods against the code.

use query::ast::Method;
use testing::assert_rows;

const PAGE: &str = include_str!("../../../docs/reference/queries.md");

#[test]
fn methods_on_the_page_are_those_of_the_code() {
    let rows = PAGE.lines().filter_map(|line| line.strip_prefix("| `"));
    let listed: Vec<&str> = rows.filter_map(|row| row.split('`').next()).collect();
    let known: Vec<&str> = Method::ALL.iter().map(|method| method.as_str()).collect();
    assert_rows("docs/reference/queries.md", &listed, &known);
}
