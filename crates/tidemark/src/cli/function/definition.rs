//! Brings the definition of a function on the server to that of its file.

use anyhow::Result;
use hyper::Method;
use serde_json::{Map, Value, json};
use transfer::remote::segment;

use super::function_file::{FileNetwork, FunctionFile};
use super::routes::{FunctionRoutes, route_of};

/// Creates the function, or changes what differs. Says on standard error what was done.
///
/// # Errors
/// When the server refuses.
pub async fn bring(routes: &mut FunctionRoutes<'_>, file: &FunctionFile) -> Result<()> {
    bring_definition(routes, file).await?;
    let Some(network) = file.network.map(FileNetwork::as_str) else {
        return Ok(());
    };
    let route = format!("/tidemark/functions/{}/options", segment(&file.id));
    let about = format!("setting the network of `{}`", file.id);
    let known = routes.read(&route, &about).await?;
    if known["network"] != network {
        let body = json!({ "network": network });
        let set = routes.send(Method::PATCH, &route, Some(&body)).await?;
        set.accepted(&about)?;
        eprintln!("  ~ network: {} -> \"{network}\"", known["network"]);
    }
    Ok(())
}

async fn bring_definition(routes: &mut FunctionRoutes<'_>, file: &FunctionFile) -> Result<()> {
    let mut settings = file.settings();
    let Some(known) = routes.function(&file.id).await? else {
        settings.insert("functionId".into(), Value::from(file.id.as_str()));
        let body = Value::Object(settings);
        let made = routes.send(Method::POST, "/functions", Some(&body)).await?;
        made.accepted(&format!("creating function `{}`", file.id))?;
        eprintln!("Created function `{}` for {}.", file.id, file.runtime);
        return Ok(());
    };
    let changes = changes(&known, &settings);
    if changes.is_empty() {
        return Ok(());
    }
    let body = Value::Object(settings);
    let route = route_of(&file.id, "");
    let answer = routes.send(Method::PUT, &route, Some(&body)).await?;
    answer.accepted(&format!("changing function `{}`", file.id))?;
    eprintln!("Changed function `{}`:\n{}", file.id, changes.join("\n"));
    Ok(())
}

/// A line for each setting that differs.
fn changes(known: &Value, wanted: &Map<String, Value>) -> Vec<String> {
    let differs = |(name, wanted): (&String, &Value)| {
        let known = &known[name];
        let line = || format!("  ~ {name}: {known} -> {wanted}");
        (!is_same(name, known, wanted)).then(line)
    };
    wanted.iter().filter_map(differs).collect()
}

/// Lists are compared without their order; `node-20` is another word for `node-20.0`.
fn is_same(name: &str, known: &Value, wanted: &Value) -> bool {
    let sorted = |list: &Value| {
        let mut items: Vec<String> = list.as_array()?.iter().map(Value::to_string).collect();
        items.sort();
        Some(items)
    };
    match (sorted(known), sorted(wanted)) {
        (Some(known), Some(wanted)) => known == wanted,
        _ if name == "runtime" => {
            let wanted = wanted.as_str().unwrap_or_default();
            known == wanted || *known == format!("{wanted}.0")
        }
        _ => known == wanted,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_settings_that_differ_are_changed() {
        let known = json!({"name": "a", "runtime": "node-20.0", "timeout": 15,
            "execute": ["users", "any"], "scopes": []});
        let lines = |wanted: Value| changes(&known, wanted.as_object().unwrap());
        let same = json!({"name": "a", "runtime": "node-20", "execute": ["any", "users"],
            "scopes": []});
        assert!(lines(same).is_empty());
        let other = json!({"name": "b", "runtime": "node-2", "timeout": 20, "execute": ["any"],
            "scopes": ["rows.read"]});
        assert_eq!(
            lines(other),
            [
                "  ~ execute: [\"users\",\"any\"] -> [\"any\"]",
                "  ~ name: \"a\" -> \"b\"",
                "  ~ runtime: \"node-20.0\" -> \"node-2\"",
                "  ~ scopes: [] -> [\"rows.read\"]",
                "  ~ timeout: 15 -> 20",
            ]
        );
    }
}
