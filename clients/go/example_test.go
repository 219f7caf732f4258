package tidemark_test

import (
	"os/exec"
	"strings"
	"testing"
)

func TestThePerformanceExampleRuns(test *testing.T) {
	words := []string{"run", "./examples/thousand", "-endpoint", shared.Endpoint,
		"-project", shared.Project, "-key", shared.Key,
		"-objects", "120", "-warm-ups", "0", "-runs", "1", "-clients", "2"}
	printed, err := exec.Command(goProgram(), words...).CombinedOutput()
	if err != nil {
		test.Fatalf("%v: %s", err, printed)
	}
	equal(test, strings.Count(string(printed), "\n"), 8)
}
