package tidemark_test

import (
	"context"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"tidemark"
)

// limit is how long the binary may take until it serves, or until it has ended; a hang fails.
const limit = 20 * time.Second

var shared *server

// TestMain serves one data directory to all tests; each works in a database of its own.
func TestMain(main *testing.M) {
	os.Exit(func() int {
		var err error
		if shared, err = start(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer shared.remove()
		return main.Run()
	}())
}

// server is the real binary over one data directory.
type server struct {
	directory string
	process   *exec.Cmd
	Endpoint  string `json:"endpoint"`
	Project   string `json:"projectId"`
	Key       string `json:"apiKey"`
}

// start serves a new data directory at a port chosen by the system.
func start() (*server, error) {
	directory, err := os.MkdirTemp("", "tidemark-client-")
	if err != nil {
		return nil, err
	}
	it := &server{directory: directory}
	if err := it.run("127.0.0.1:0"); err != nil {
		return nil, err
	}
	bootstrap := func() bool {
		text, err := os.ReadFile(filepath.Join(directory, "bootstrap.json"))
		return err == nil && json.Unmarshal(text, it) == nil
	}
	if err := poll("writing the bootstrap file", bootstrap); err != nil {
		return nil, err
	}
	return it, it.untilHealthy()
}

func (s *server) run(listen string) error {
	binary := os.Getenv("TIDEMARK_BIN")
	if binary == "" {
		return fmt.Errorf("TIDEMARK_BIN must name the tidemark binary to test")
	}
	s.process = exec.Command(binary, "serve", "--listen", listen,
		"--data", filepath.Join(s.directory, "data"),
		"--bootstrap-file", filepath.Join(s.directory, "bootstrap.json"))
	// Without the settings that the binary would read from the environment.
	s.process.Env = []string{}
	for _, setting := range os.Environ() {
		if !strings.HasPrefix(setting, "TIDEMARK_") {
			s.process.Env = append(s.process.Env, setting)
		}
	}
	return s.process.Start()
}

func poll(what string, attempt func() bool) error {
	for deadline := time.Now().Add(limit); time.Now().Before(deadline); {
		if attempt() {
			return nil
		}
		time.Sleep(20 * time.Millisecond)
	}
	return fmt.Errorf("%s took more than %v", what, limit)
}

func (s *server) untilHealthy() error {
	return poll("answering", func() bool {
		answer, err := http.Get(s.Endpoint + "/health/version")
		if err != nil {
			return false
		}
		answer.Body.Close()
		return answer.StatusCode == http.StatusOK
	})
}

// stop ends the process as an operator does, and demands a clean end.
func (s *server) stop() error {
	if err := s.process.Process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	return s.process.Wait()
}

// serveAgain serves the data of this stopped server at the same address.
func (s *server) serveAgain() error {
	address := strings.TrimSuffix(strings.TrimPrefix(s.Endpoint, "http://"), "/v1")
	if err := s.run(address); err != nil {
		return err
	}
	return s.untilHealthy()
}

func (s *server) remove() {
	if s.process.ProcessState == nil {
		if err := s.stop(); err != nil {
			fmt.Fprintln(os.Stderr, "after SIGTERM:", err)
		}
	}
	os.RemoveAll(s.directory)
}

// client is one of the shared server, over the test's own database.
func client(test *testing.T, change func(*tidemark.Options)) *tidemark.Client {
	test.Helper()
	options := tidemark.Options{
		Endpoint: shared.Endpoint, Project: shared.Project, Key: shared.Key,
		Database: database(test),
	}
	if change != nil {
		change(&options)
	}
	made, err := tidemark.New(options)
	must(test, err)
	test.Cleanup(made.Close)
	return made
}

// goProgram is the Go that runs the tests, which need not be on the path.
func goProgram() string { return filepath.Join(runtime.GOROOT(), "bin", "go") }

// database is the test's own; names of tests are longer than ids may be.
func database(test *testing.T) string {
	return fmt.Sprintf("d%08x", crc32.ChecksumIEEE([]byte(test.Name())))
}

func must(test *testing.T, err error) {
	test.Helper()
	if err != nil {
		test.Fatal(err)
	}
}

func equal[T comparable](test *testing.T, got, wanted T) {
	test.Helper()
	if got != wanted {
		test.Fatalf("got %v, wanted %v", got, wanted)
	}
}

// same compares what cannot be compared by ==.
func same(test *testing.T, got, wanted any) {
	test.Helper()
	equal(test, fmt.Sprintf("%+v", got), fmt.Sprintf("%+v", wanted))
}

var ctx = context.Background()

// Author and Book are the rows of most tests.
type Author struct {
	ID   string `tidemark:"$id"`
	Name string `tidemark:"name,size=100"`
	Mail string `tidemark:"mail"`
}

type Book struct {
	tidemark.ReadAt
	ID      string     `tidemark:"$id"`
	Title   string     `tidemark:"title,size=200"`
	Author  *string    `tidemark:"author"`
	Shelf   string     `tidemark:"shelf"`
	Slot    int        `tidemark:"slot"`
	Price   *float64   `tidemark:"price"`
	Printed *time.Time `tidemark:"printed"`
	Lent    bool       `tidemark:"lent"`
	Tags    []string   `tidemark:"tags"`
	Note    string
}

type Slot struct {
	Shelf string
	Slot  int
}

type Authors struct {
	*tidemark.Table[Author]
	ByMail tidemark.Unique[Author, string] `tidemark:"mail"`
}

type Books struct {
	*tidemark.Table[Book]
	BySlot   tidemark.Unique[Book, Slot]      `tidemark:"shelf,slot"`
	ByTitle  tidemark.Index[Book, string]     `tidemark:"title"`
	ByAuthor tidemark.Reference[Book, Author] `tidemark:"author,table=authors"`
}

// library makes both tables in the client's database.
func library(test *testing.T, client *tidemark.Client) (Authors, Books) {
	test.Helper()
	var authors Authors
	var books Books
	must(test, tidemark.Bind(client, "authors", &authors))
	must(test, tidemark.Bind(client, "books", &books))
	must(test, client.CreateDatabase(ctx))
	must(test, authors.CreateTable(ctx))
	must(test, books.CreateTable(ctx))
	return authors, books
}

func book(id, title string, slot int) Book {
	return Book{ID: id, Title: title, Slot: slot, Shelf: "A", Tags: []string{}}
}

func slots(books []Book) []int {
	found := []int{}
	for _, one := range books {
		found = append(found, one.Slot)
	}
	return found
}
