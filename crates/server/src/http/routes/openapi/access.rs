//! Who may call each route, as the document says it. A test sends every route with every scope.

use model::Scope;
use serde_json::{Map, Value, json};

use crate::http::head::route::{Action, FunctionAction, HealthPart, KeyAction};

/// Who may call a route. Of several scopes one is enough.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Audience {
    /// All, without a project.
    Public,
    /// All who name a project.
    Project,
    /// All who name a project, where permissions decide, and keys with a scope.
    Guests(&'static [Scope]),
    /// Keys with a scope.
    Keys(&'static [Scope]),
    /// Keys with all of these scopes.
    KeysWithAll(&'static [Scope]),
}

const READ_ROWS: &[Scope] = &[Scope::RowsRead];
const WRITE_ROWS: &[Scope] = &[Scope::RowsWrite];
const READ_TABLES: &[Scope] = &[Scope::TablesRead];
const WRITE_TABLES: &[Scope] = &[Scope::TablesWrite];
const READ_INDEXES: &[Scope] = &[Scope::IndexesRead, Scope::TablesRead];

impl Audience {
    /// Of a route with this action; `None` where every request is refused.
    pub fn of(action: Action) -> Option<Audience> {
        use Action as A;
        Some(match action {
            A::Welcome | A::Versions | A::Ping | A::Describe | A::Health(HealthPart::Version) => {
                Audience::Public
            }
            A::Health(_) => Audience::Keys(&[Scope::HealthRead]),
            A::TidemarkStatus => Audience::Project,
            A::ListRows
            | A::QueryRows
            | A::GetRow
            | A::ListTransactions
            | A::GetTransaction
            | A::BatchRead
            | A::Heartbeat => Audience::Guests(READ_ROWS),
            A::CreateRows
            | A::UpsertRow
            | A::UpdateRow
            | A::DeleteRow
            | A::IncrementColumn
            | A::DecrementColumn
            | A::CreateTransaction
            | A::UpdateTransaction
            | A::DeleteTransaction
            | A::StageOperations
            | A::BatchWrite => Audience::Guests(WRITE_ROWS),
            A::UpsertRows | A::UpdateRows | A::DeleteRows | A::Transact => {
                Audience::Keys(WRITE_ROWS)
            }
            A::Undo => Audience::KeysWithAll(&[Scope::RowsRead, Scope::RowsWrite]),
            A::ReadAtTimes => Audience::Keys(READ_ROWS),
            A::ListDatabases | A::GetDatabase => Audience::Keys(&[Scope::DatabasesRead]),
            A::CreateDatabase | A::UpdateDatabase | A::DeleteDatabase | A::ResetTests => {
                Audience::Keys(&[Scope::DatabasesWrite])
            }
            A::Explain => Audience::KeysWithAll(&[Scope::TablesRead, Scope::RowsRead]),
            A::ListTables | A::GetTable | A::TableOptions => Audience::Keys(READ_TABLES),
            A::CreateTable | A::UpdateTable | A::DeleteTable | A::SetTableOptions => {
                Audience::Keys(WRITE_TABLES)
            }
            A::ListColumns | A::GetColumn => {
                Audience::Keys(&[Scope::ColumnsRead, Scope::TablesRead])
            }
            A::CreateColumn(_)
            | A::UpdateColumn(_)
            | A::DeleteColumn
            | A::CreateRelationship
            | A::UpdateRelationship => Audience::Keys(&[Scope::ColumnsWrite, Scope::TablesWrite]),
            A::ListIndexes | A::GetIndex | A::ListConstraints => Audience::Keys(READ_INDEXES),
            A::CreateIndex | A::DeleteIndex => {
                Audience::Keys(&[Scope::IndexesWrite, Scope::TablesWrite])
            }
            A::Constrain | A::AddConstraints | A::RemoveConstraints => {
                Audience::Keys(&[Scope::IndexesWrite])
            }
            A::GetProject => Audience::Keys(&[Scope::ProjectRead]),
            A::Keys(KeyAction::List | KeyAction::Get) => Audience::Keys(&[Scope::KeysRead]),
            A::Keys(KeyAction::Revoke) => Audience::Keys(&[Scope::KeysWrite]),
            A::Function(action) => of_functions(action),
            A::DenyKey | A::NotBuilt | A::NotSupported(_) => return None,
        })
    }

    /// As the document says it: each element is one way to be let in.
    pub(super) fn security(self) -> Value {
        let keyed = |scopes: &[&str]| json!({"project": [], "key": scopes});
        let guest = json!({"project": []});
        let names = |scopes: &[Scope]| -> Vec<&str> {
            let each = scopes.iter().map(|scope| scope.as_str());
            each.collect()
        };
        let by_scopes = |scopes: &[Scope]| -> Vec<Value> {
            let each = names(scopes).into_iter();
            each.map(|scope| keyed(&[scope])).collect()
        };
        match self {
            Audience::Public => json!([]),
            Audience::Project => json!([guest, keyed(&[])]),
            Audience::Guests(scopes) => Value::Array([vec![guest], by_scopes(scopes)].concat()),
            Audience::Keys(scopes) => Value::Array(by_scopes(scopes)),
            Audience::KeysWithAll(scopes) => json!([keyed(&names(scopes))]),
        }
    }
}

fn of_functions(action: FunctionAction) -> Audience {
    use FunctionAction as F;
    match action {
        F::ListRuntimes | F::ListSpecifications => Audience::Project,
        F::List
        | F::Get
        | F::ListVariables
        | F::GetVariable
        | F::Options
        | F::Output
        | F::ListDeployments
        | F::GetDeployment
        | F::DownloadDeployment => Audience::Keys(&[Scope::FunctionsRead]),
        F::Create
        | F::Update
        | F::Delete
        | F::CreateVariable
        | F::UpdateVariable
        | F::DeleteVariable
        | F::SetOptions
        | F::CreateDeployment
        | F::DeleteDeployment
        | F::DuplicateDeployment
        | F::CancelDeployment
        | F::ActivateDeployment => Audience::Keys(&[Scope::FunctionsWrite]),
        F::Execute => Audience::Guests(&[Scope::ExecutionsWrite]),
        F::ListExecutions | F::GetExecution => Audience::Guests(&[Scope::ExecutionsRead]),
        F::DeleteExecution => Audience::Keys(&[Scope::ExecutionsWrite]),
    }
}

/// How a request names its project and its key.
pub(super) fn schemes() -> Map<String, Value> {
    let header = |name: &str| json!({"type": "apiKey", "in": "header", "name": name});
    let schemes = [
        ("project", header("X-Appwrite-Project")),
        ("key", header("X-Appwrite-Key")),
    ];
    let schemes = schemes.map(|(name, scheme)| (name.to_owned(), scheme));
    schemes.into_iter().collect()
}
