//! What every function finds in its environment (wire protocol, handler contract).

use engine::Specification;
use model::Function;

use super::config::API;
use crate::http::wire::WIRE_VERSION;

/// Of deployments from a repository, which there are none of here: empty, as the protocol has it.
const OF_REPOSITORIES: [&str; 12] = [
    "APPWRITE_VCS_REPOSITORY_ID",
    "APPWRITE_VCS_REPOSITORY_NAME",
    "APPWRITE_VCS_REPOSITORY_OWNER",
    "APPWRITE_VCS_REPOSITORY_URL",
    "APPWRITE_VCS_REPOSITORY_BRANCH",
    "APPWRITE_VCS_REPOSITORY_BRANCH_URL",
    "APPWRITE_VCS_COMMIT_HASH",
    "APPWRITE_VCS_COMMIT_MESSAGE",
    "APPWRITE_VCS_COMMIT_URL",
    "APPWRITE_VCS_COMMIT_AUTHOR_NAME",
    "APPWRITE_VCS_COMMIT_AUTHOR_URL",
    "APPWRITE_VCS_ROOT_DIRECTORY",
];

/// What the environment says of a function.
#[derive(Clone, Copy, Debug)]
pub struct OwnVariables<'a> {
    /// Its project.
    pub project: &'a str,
    /// Its id.
    pub id: &'a str,
    /// What people call it.
    pub name: &'a str,
    /// The id of its runtime.
    pub runtime: &'a str,
    /// The id of the deployment that runs.
    pub deployment: &'a str,
    /// Processors and memory.
    pub specification: Specification,
}

/// Those of a stored function.
pub fn own_variables(
    function: &Function,
    deployment: &str,
    specification: Specification,
) -> Vec<(String, String)> {
    OwnVariables {
        project: function.project.as_str(),
        id: function.id.as_str(),
        name: &function.definition.name,
        runtime: &function.definition.runtime,
        deployment,
        specification,
    }
    .list()
}

impl OwnVariables<'_> {
    /// Names and values.
    pub fn list(&self) -> Vec<(String, String)> {
        let runtime = self.runtime;
        let (language, version) = runtime.rsplit_once('-').unwrap_or((runtime, ""));
        let language = match language {
            "node" => "Node.js",
            "python" => "Python",
            other => other,
        };
        let of_repositories = OF_REPOSITORIES.map(|name| (name, ""));
        let own = [
            ("APPWRITE_VERSION", WIRE_VERSION),
            ("APPWRITE_REGION", "default"),
            ("APPWRITE_DEPLOYMENT_TYPE", "manual"),
            ("APPWRITE_FUNCTION_API_ENDPOINT", API),
            ("APPWRITE_FUNCTION_ID", self.id),
            ("APPWRITE_FUNCTION_NAME", self.name),
            ("APPWRITE_FUNCTION_DEPLOYMENT", self.deployment),
            ("APPWRITE_FUNCTION_PROJECT_ID", self.project),
            ("APPWRITE_FUNCTION_RUNTIME_NAME", language),
            ("APPWRITE_FUNCTION_RUNTIME_VERSION", version),
            (
                "APPWRITE_FUNCTION_CPUS",
                &self.specification.cpus.to_string(),
            ),
            (
                "APPWRITE_FUNCTION_MEMORY",
                &self.specification.memory_mb.to_string(),
            ),
        ];
        let all = own.into_iter().chain(of_repositories);
        all.map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect()
    }
}
