//! A program as a child that is given one task a line, and answers each by a line of JSON.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::process::ProcessNumber;

/// The running child; it ends when its input does.
pub struct TaskChild {
    child: Child,
    tasks: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
    /// What it is, in its own words.
    pub name: String,
}

impl TaskChild {
    /// Starts it, and hears what it is.
    ///
    /// # Errors
    /// When it does not start, or is another program.
    pub fn start(mut command: Command) -> Result<TaskChild> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let cannot = || format!("{} does not start", command.get_program().display());
        let failed = cannot();
        let mut child = command.spawn().context(failed)?;
        let pipes = child.stdin.take().zip(child.stdout.take());
        let (tasks, answers) = pipes.context("it has no pipes")?;
        let mut started = TaskChild {
            child,
            tasks: Some(tasks),
            answers: BufReader::new(answers),
            name: String::new(),
        };
        let hello = started.hear()?;
        let name = hello["name"].as_str();
        let name = name.context("it does not say what it is")?;
        name.clone_into(&mut started.name);
        Ok(started)
    }

    /// Its process.
    pub fn process(&self) -> ProcessNumber {
        ProcessNumber(self.child.id())
    }

    /// Any task, as its text says.
    ///
    /// # Errors
    /// When it fails.
    pub fn ask(&mut self, task: &Value) -> Result<Value> {
        let tasks = self.tasks.as_mut().context("it is at its end")?;
        writeln!(tasks, "{task}").context("it is gone")?;
        self.hear().with_context(|| format!("the task {task}"))
    }

    fn hear(&mut self) -> Result<Value> {
        let mut line = String::new();
        self.answers.read_line(&mut line)?;
        if line.is_empty() {
            bail!("the program of hand-written statements has ended");
        }
        serde_json::from_str(&line).with_context(|| format!("it says `{}`", line.trim()))
    }
}

impl Drop for TaskChild {
    fn drop(&mut self) {
        // The end of its input is what it waits for.
        drop(self.tasks.take());
        drop(self.child.wait());
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn shell(script: &str) -> Result<TaskChild> {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        TaskChild::start(command)
    }

    #[test]
    fn a_task_is_answered_by_a_line_until_the_child_ends() {
        let hello = r#"echo '{"name":"a shell"}'"#;
        let mut child = shell(&format!("{hello}; read task; echo \"[$task]\"")).unwrap();
        assert_eq!(child.name, "a shell");
        assert_eq!(child.ask(&json!({"n": 1})).unwrap(), json!([{"n": 1}]));
        assert!(child.ask(&json!(2)).is_err());
        let error = shell("echo '{}'").err().unwrap().to_string();
        assert_eq!(error, "it does not say what it is");
    }
}
