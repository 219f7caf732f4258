package tidemark_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// reader is a program that uses the types of clients/schema-file.json.
const reader = `package main

import (
	"fmt"

	"reader/models"
	"tidemark"
)

func main() {
	client, err := tidemark.New(tidemark.Options{
		Endpoint: "http://localhost:1/v1", Project: "p", Key: "k", Database: "shop",
	})
	if err != nil {
		panic(err)
	}
	if _, err := tidemark.NewTable[models.OrderLines](client, "order_lines"); err != nil {
		panic(err)
	}
	line := models.OrderLines{Number: 7, Times: nil, Price: 1.5}
	fmt.Print(line.Number, line.At == nil)
}
`

// The structs that tidemark schema types go prints are in the form of gofmt, compile, and are rows
// to this package.
func TestStructsOfASchemaFileAreRows(test *testing.T) {
	schema, err := filepath.Abs("../schema-file.json")
	must(test, err)
	client, err := filepath.Abs(".")
	must(test, err)
	made, err := exec.Command(os.Getenv("TIDEMARK_BIN"), "schema", "types", "go",
		"--file", schema).Output()
	must(test, err)
	folder := test.TempDir()
	write := func(name string, text []byte) {
		path := filepath.Join(folder, name)
		must(test, os.MkdirAll(filepath.Dir(path), 0o755))
		must(test, os.WriteFile(path, text, 0o644))
	}
	write("go.mod", []byte("module reader\n\ngo 1.19\n\nrequire tidemark v0.0.0\n\n"+
		"replace tidemark => "+client+"\n"))
	write("main.go", []byte(reader))
	write("models/rows.go", made)
	run := func(program string, words ...string) string {
		command := exec.Command(program, words...)
		command.Dir = folder
		command.Env = append(os.Environ(), "GOTOOLCHAIN=local", "GOPROXY=off", "GOFLAGS=-mod=mod")
		printed, err := command.CombinedOutput()
		if err != nil {
			test.Fatalf("%s %v: %v\n%s", program, words, err, printed)
		}
		return string(bytes.TrimSpace(printed))
	}
	gofmt := filepath.Join(filepath.Dir(goProgram()), "gofmt")
	equal(test, run(gofmt, "-l", "."), "")
	equal(test, run(goProgram(), "vet", "./..."), "")
	equal(test, run(goProgram(), "run", "."), "7 true")
}
