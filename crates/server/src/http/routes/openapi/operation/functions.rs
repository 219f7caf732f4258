//! Operations on functions, their variables and deployments.

use super::{AnswerBody, Answers, CONTAINERS, RouteDescription, deletion, read, sent};
use crate::http::head::route::FunctionAction;

use AnswerBody::{Json, Raw};

const TAKEN: &[u16] = &[409];

pub(super) fn of_functions(action: FunctionAction) -> RouteDescription {
    use FunctionAction as F;
    match action {
        F::List | F::Create | F::Get | F::Update | F::Delete => of_definitions(action),
        F::ListRuntimes => read(
            "listRuntimes",
            "Lists the runtimes of this host.",
            &[(200, Json("Runtimes"))],
        ),
        F::ListSpecifications => read(
            "listSpecifications",
            "Lists processors and memory that a function can name.",
            &[(200, Json("Specifications"))],
        ),
        F::Options => read(
            "functionOptions",
            "Tells what its owner decided about a function beyond the protocol.",
            &[(200, Json("FunctionOptions"))],
        ),
        F::SetOptions => sent(
            "setFunctionOptions",
            "Decides about a function beyond the protocol.",
            "FunctionOptionsChange",
            &[(200, Json("FunctionOptions"))],
        ),
        F::Output => read(
            "functionOutput",
            "Tells what the processes of a function wrote outside of any execution.",
            &[(200, Json("FunctionOutput"))],
        ),
        F::ListVariables
        | F::CreateVariable
        | F::GetVariable
        | F::UpdateVariable
        | F::DeleteVariable => of_variables(action),
        F::ListDeployments
        | F::CreateDeployment
        | F::GetDeployment
        | F::DeleteDeployment
        | F::DownloadDeployment
        | F::DuplicateDeployment
        | F::CancelDeployment
        | F::ActivateDeployment => of_deployments(action),
        F::Execute | F::ListExecutions | F::GetExecution | F::DeleteExecution => {
            of_executions(action)
        }
    }
}

fn of_definitions(action: FunctionAction) -> RouteDescription {
    use FunctionAction as F;
    const ONE: Answers = &[(200, Json("Function"))];
    match action {
        F::List => RouteDescription {
            parameters: CONTAINERS,
            ..read(
                "listFunctions",
                "Lists functions.",
                &[(200, Json("Functions"))],
            )
        },
        F::Create => RouteDescription {
            refusals: TAKEN,
            ..sent(
                "createFunction",
                "Creates a function.",
                "NewFunction",
                &[(201, Json("Function"))],
            )
        },
        F::Get => read("getFunction", "Shows a function.", ONE),
        F::Update => RouteDescription {
            needs_body: false,
            ..sent(
                "updateFunction",
                "Changes a function; what is not named stays.",
                "FunctionChange",
                ONE,
            )
        },
        F::Delete => deletion(
            "deleteFunction",
            "Deletes a function with its variables and deployments.",
        ),
        other => unreachable!("{other:?} is no route of functions"),
    }
}

fn of_variables(action: FunctionAction) -> RouteDescription {
    use FunctionAction as F;
    const ONE: Answers = &[(200, Json("Variable"))];
    match action {
        F::ListVariables => RouteDescription {
            parameters: CONTAINERS,
            ..read(
                "listVariables",
                "Lists variables of a function.",
                &[(200, Json("Variables"))],
            )
        },
        F::CreateVariable => RouteDescription {
            refusals: TAKEN,
            ..sent(
                "createVariable",
                "Creates a variable of a function.",
                "NewVariable",
                &[(201, Json("Variable"))],
            )
        },
        F::GetVariable => read("getVariable", "Shows a variable.", ONE),
        F::UpdateVariable => RouteDescription {
            needs_body: false,
            refusals: TAKEN,
            ..sent(
                "updateVariable",
                "Changes a variable; what is not named stays.",
                "VariableChange",
                ONE,
            )
        },
        F::DeleteVariable => deletion("deleteVariable", "Deletes a variable."),
        other => unreachable!("{other:?} is no route of variables"),
    }
}

fn of_executions(action: FunctionAction) -> RouteDescription {
    use FunctionAction as F;
    match action {
        F::Execute => sent(
            "createExecution",
            "Executes a function, and waits for its answer or queues it.",
            "NewExecution",
            &[(201, Json("Execution")), (202, Json("Execution"))],
        ),
        F::ListExecutions => RouteDescription {
            parameters: CONTAINERS,
            ..read(
                "listExecutions",
                "Lists records of executions of a function.",
                &[(200, Json("Executions"))],
            )
        },
        F::GetExecution => read(
            "getExecution",
            "Shows the record of an execution.",
            &[(200, Json("Execution"))],
        ),
        F::DeleteExecution => deletion(
            "deleteExecution",
            "Deletes an execution that waits, or its record.",
        ),
        other => unreachable!("{other:?} is no route of executions"),
    }
}

fn of_deployments(action: FunctionAction) -> RouteDescription {
    use FunctionAction as F;
    const ONE: Answers = &[(200, Json("Deployment"))];
    const MADE: Answers = &[(202, Json("Deployment"))];
    match action {
        F::ListDeployments => RouteDescription {
            parameters: CONTAINERS,
            ..read(
                "listDeployments",
                "Lists deployments of a function.",
                &[(200, Json("Deployments"))],
            )
        },
        F::CreateDeployment => RouteDescription {
            parameters: &["contentRange", "deploymentId"],
            is_form: true,
            ..sent(
                "createDeployment",
                "Takes an archive of code, whole or in parts.",
                "NewDeployment",
                MADE,
            )
        },
        F::GetDeployment => read("getDeployment", "Shows a deployment.", ONE),
        F::DeleteDeployment => deletion("deleteDeployment", "Deletes a deployment."),
        F::DownloadDeployment => RouteDescription {
            parameters: &["archive"],
            ..read(
                "downloadDeployment",
                "Sends the archive of a deployment.",
                &[(200, Raw("application/gzip"))],
            )
        },
        F::DuplicateDeployment => sent(
            "duplicateDeployment",
            "Makes a deployment with the archive of another one.",
            "DeploymentChoice",
            MADE,
        ),
        F::CancelDeployment => read(
            "cancelDeployment",
            "Gives up a deployment that is not built.",
            ONE,
        ),
        F::ActivateDeployment => sent(
            "activateDeployment",
            "Makes a deployment the one that is executed.",
            "DeploymentChoice",
            &[(200, Json("Function"))],
        ),
        other => unreachable!("{other:?} is no route of deployments"),
    }
}
