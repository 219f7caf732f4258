//! Operations that show the server itself, and the caller's own project with its keys.

use super::{AnswerBody, CONTAINERS, RouteDescription, deletion, read};
use crate::http::head::route::{Action, HealthPart, KeyAction};

use AnswerBody::{Json, Raw};

pub(super) fn of_server(action: Action) -> RouteDescription {
    match action {
        Action::Welcome => read(
            "welcome",
            "A page with the version, the health and links.",
            &[(200, Raw("text/html"))],
        ),
        Action::Versions => read(
            "versions",
            "Tells the versions of the protocol and of Tidemark.",
            &[(200, Json("Versions"))],
        ),
        Action::Ping => read(
            "ping",
            "Answers `Pong!`; an unknown project is refused.",
            &[(200, Raw("text/plain"))],
        ),
        Action::Health(part) => of_health(part),
        other => unreachable!("{other:?} does not show the server"),
    }
}

fn of_health(part: HealthPart) -> RouteDescription {
    const ONE: &[(u16, AnswerBody)] = &[(200, Json("Health"))];
    const PARTS: &[(u16, AnswerBody)] = &[(200, Json("HealthStatuses"))];
    let (name, summary, answers) = match part {
        HealthPart::All => ("health", "Tells whether the server is well.", ONE),
        HealthPart::Version => (
            "healthVersion",
            "Tells the version of the protocol.",
            &[(200, Json("HealthVersion"))][..],
        ),
        HealthPart::Database => (
            "healthDatabase",
            "Tells whether the database is well.",
            PARTS,
        ),
        HealthPart::Cache => (
            "healthCache",
            "Tells whether cached lists were equal to fresh reads.",
            PARTS,
        ),
        HealthPart::Pubsub => ("healthPubsub", "Tells the same as for the database.", PARTS),
        HealthPart::Storage => ("healthStorage", "Tells the same as for the database.", ONE),
        HealthPart::Time => (
            "healthTime",
            "Compares the machine's clock with the time of commits, in seconds.",
            &[(200, Json("HealthTime"))][..],
        ),
    };
    read(name, summary, answers)
}

pub(super) fn of_project(action: Action) -> RouteDescription {
    match action {
        Action::GetProject => read(
            "getProject",
            "Shows the project.",
            &[(200, Json("Project"))],
        ),
        Action::Keys(KeyAction::List) => RouteDescription {
            parameters: CONTAINERS,
            ..read(
                "listKeys",
                "Lists API keys of the project, without their secrets.",
                &[(200, Json("Keys"))],
            )
        },
        Action::Keys(KeyAction::Get) => read(
            "getKey",
            "Shows an API key without its secret.",
            &[(200, Json("Key"))],
        ),
        Action::Keys(KeyAction::Revoke) => deletion("revokeKey", "Revokes an API key."),
        other => unreachable!("{other:?} is no route of the project"),
    }
}
