// Package tidemark is a client of Tidemark, a database that keeps every row on two time axes.
//
// It is small over the HTTP API: a Client sends calls again where that is safe, keeps the highest
// mark seen so that reads show what was written before, and lets writes share requests. A Table
// reads and writes rows as structs.
package tidemark

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	mathrand "math/rand"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

const (
	// Before the second attempt. Doubles with each, and a random half of it is left out, so that
	// clients which lost the same server do not come back together.
	pauseFirst = 50 * time.Millisecond
	pauseMax   = 2 * time.Second
)

// Options say which server, for whom, and within which limits. Only Endpoint and Project are
// required.
type Options struct {
	// Endpoint with the version, as http://127.0.0.1:8280/v1.
	Endpoint string
	Project  string
	// Key is an API key; without one the caller is a guest.
	Key string
	// Database of the tables; "main" if empty.
	Database string
	// Mark: reads show the commit of this mark and all before it. Hand on the Mark of another
	// client, and this one sees what that one has written.
	Mark int64
	// RetryFor: no attempt begins later than this after the first. 15 s if zero; a negative value
	// sends once.
	RetryFor time.Duration
	// Timeout of each attempt; 30 s if zero.
	Timeout time.Duration
	// RequestsMax is how many requests for submitted reads are under way at the same time; 4 if
	// zero. Submitted writes are one request at a time, because they keep their order.
	RequestsMax int
	// PendingMax is how many calls may be submitted and not done; 10,000 if zero. Beyond that
	// submitting waits.
	PendingMax int
	// HTTP sends the requests; a client with its own pool of connections if nil.
	HTTP *http.Client
}

// Client is one server, one project, one caller. It may be shared by goroutines.
type Client struct {
	options Options
	http    *http.Client
	mark    atomic.Int64
	lanes   lanes
}

// New makes a client. It asks nothing of the server.
func New(options Options) (*Client, error) {
	if options.Endpoint == "" || options.Project == "" {
		return nil, errors.New("tidemark: an endpoint and a project are needed")
	}
	options.Endpoint = strings.TrimRight(options.Endpoint, "/")
	options.Database = orText(options.Database, "main")
	options.RetryFor = orTime(options.RetryFor, 15*time.Second)
	options.Timeout = orTime(options.Timeout, 30*time.Second)
	options.RequestsMax = orCount(options.RequestsMax, 4)
	options.PendingMax = orCount(options.PendingMax, 10_000)
	client := &Client{options: options, http: options.HTTP}
	if client.http == nil {
		transport := http.DefaultTransport.(*http.Transport).Clone()
		// The default of two would close most connections of concurrent callers after each use.
		transport.MaxIdleConnsPerHost = 64
		client.http = &http.Client{Transport: transport}
	}
	client.mark.Store(options.Mark)
	client.lanes.init(client)
	return client, nil
}

// Mark is the highest mark of a commit seen so far; reads show it and all before it.
func (c *Client) Mark() int64 { return c.mark.Load() }

// Close waits until everything that was submitted is done, and closes idle connections.
func (c *Client) Close() {
	c.lanes.close()
	c.http.CloseIdleConnections()
}

// Now pins now: reads at these coordinates give the same answer for ever.
func (c *Client) Now(ctx context.Context) (Coordinates, error) {
	// It changes nothing that a caller can read, so it may be repeated.
	path := join("tidemark", "databases", c.options.Database, "heartbeat")
	got, err := c.do(ctx, call{method: http.MethodPost, path: path, nature: reading})
	if err != nil {
		return Coordinates{}, err
	}
	var answer struct{ Horizon Instant }
	err = json.Unmarshal(got.body, &answer)
	return Coordinates{AsOf: answer.Horizon, ValidAt: answer.Horizon}, err
}

// Request asks any other route, by its path behind the endpoint; body and answer are JSON, and
// may be nil. It is sent again when the method is safe to repeat, or nothing was sent. A route that
// commits writes of rows keeps the metadata of ctx (WithMeta) with the commit.
func (c *Client) Request(ctx context.Context, method, path string, body, answer any) error {
	nature := once
	if method == http.MethodGet || method == http.MethodHead {
		nature = reading
	}
	asked := call{method: method, path: path, nature: nature}
	if body != nil {
		content, err := json.Marshal(body)
		if err != nil {
			return err
		}
		asked.content = content
	}
	got, err := c.do(ctx, asked)
	if err != nil || answer == nil {
		return err
	}
	return json.Unmarshal(got.body, answer)
}

// nature is what sending a call twice would do.
type nature int

const (
	// reading changes nothing: repeated whenever no answer came.
	reading nature = iota
	// keyed carries a key by which the server knows it again: repeated with that key.
	keyed
	// once is repeated only while it cannot have reached the server.
	once
)

// call is one request before it is sent.
type call struct {
	method  string
	path    string
	params  url.Values
	content []byte
	nature  nature
	// marks of commits that the body names.
	marks func(body []byte) []mark
}

// reply is the answer to a call that succeeded.
type reply struct {
	body []byte
	// seen is the mark that the headers name; 0 if they name none.
	seen mark
}

// sent is what a request has beside its call, the same in each attempt.
type sent struct {
	// key of a keyed call.
	key string
	// meta is metadata that the commit keeps, as its header holds it.
	meta string
}

// do sends the call until it is answered, as its nature allows.
func (c *Client) do(ctx context.Context, asked call) (reply, error) {
	var with sent
	if asked.nature == keyed {
		with.key = NewID()
	}
	if asked.nature != reading {
		var err error
		if with.meta, err = metaOf(ctx); err != nil {
			return reply{}, err
		}
	}
	began, pause := time.Now(), pauseFirst
	for {
		got, err := c.attempt(ctx, asked, with)
		if err == nil {
			if asked.marks != nil {
				c.saw(asked.marks(got.body)...)
			}
			return got, nil
		}
		wait := pause/2 + time.Duration(mathrand.Int63n(int64(pause/2)))
		late := time.Since(began)+wait > c.options.RetryFor
		if late || ctx.Err() != nil || !again(err, asked.nature) {
			return reply{}, err
		}
		select {
		case <-ctx.Done():
			return reply{}, err
		case <-time.After(wait):
		}
		if pause *= 2; pause > pauseMax {
			pause = pauseMax
		}
	}
}

// again says whether a failed call may be sent once more.
func again(err error, nature nature) bool {
	var refused *Error
	if errors.As(err, &refused) {
		// The server did nothing, and the same request may succeed later.
		return refused.Code == http.StatusServiceUnavailable ||
			refused.Code == http.StatusTooManyRequests
	}
	var silent *NoAnswerError
	return errors.As(err, &silent) && (nature != once || !silent.Sent)
}

func (c *Client) attempt(ctx context.Context, asked call, with sent) (reply, error) {
	ctx, cancel := context.WithTimeout(ctx, c.options.Timeout)
	defer cancel()
	address := c.options.Endpoint + asked.path
	if len(asked.params) > 0 {
		address += "?" + asked.params.Encode()
	}
	request, err := http.NewRequestWithContext(
		ctx, asked.method, address, bytes.NewReader(asked.content))
	if err != nil {
		return reply{}, err
	}
	c.head(request.Header, asked.nature, with)
	response, err := c.http.Do(request)
	if err != nil {
		return reply{}, &NoAnswerError{Sent: !isOfDialing(err), Err: err}
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return reply{}, &NoAnswerError{Sent: true, Err: err}
	}
	seen := stated(response.Header)
	c.saw(seen)
	if response.StatusCode < 200 || response.StatusCode > 299 {
		err := refusal(body, response.StatusCode, response.Header.Get("X-Request-Id"))
		return reply{}, err
	}
	return reply{body: body, seen: seen}, nil
}

func (c *Client) head(header http.Header, nature nature, with sent) {
	header.Set("Content-Type", "application/json")
	header.Set("X-Appwrite-Project", c.options.Project)
	if c.options.Key != "" {
		header.Set("X-Appwrite-Key", c.options.Key)
	}
	if nature == keyed {
		header.Set("Idempotency-Key", with.key)
	}
	if with.meta != "" {
		header.Set("X-Tidemark-Meta", with.meta)
	}
	if mark := c.Mark(); nature == reading && mark > 0 {
		header.Set("X-Tidemark-Min-Mark", strconv.FormatInt(mark, 10))
	}
}

// saw raises the mark to the highest of these.
func (c *Client) saw(marks ...mark) {
	for _, one := range marks {
		for {
			known := c.mark.Load()
			if int64(one) <= known || c.mark.CompareAndSwap(known, int64(one)) {
				break
			}
		}
	}
}

var markOfCache = regexp.MustCompile(`\bmark=(\d+)`)

// stated is the mark that an answer's headers name, for which the answer is true; 0 if they name
// none.
func stated(header http.Header) mark {
	named := header.Get("X-Tidemark-Mark")
	if found := markOfCache.FindStringSubmatch(header.Get("X-Tidemark-Cache")); found != nil {
		named = found[1]
	}
	seen, err := strconv.ParseInt(named, 10, 64)
	if err != nil {
		return 0
	}
	return mark(seen)
}

// isOfDialing says that the connection was never made, so that nothing was sent.
func isOfDialing(err error) bool {
	var failed *net.OpError
	return errors.As(err, &failed) && failed.Op == "dial"
}

// NewID is an id for a row, of 32 hexadecimal digits. Rows get one here and not by the server, so
// that a creation whose answer is lost can be sent again.
func NewID() string {
	var bytes [16]byte
	if _, err := rand.Read(bytes[:]); err != nil {
		panic(fmt.Sprintf("the operating system gives no random bytes: %v", err))
	}
	return hex.EncodeToString(bytes[:])
}

// join is a path of these segments, whatever letters they hold.
func join(segments ...string) string {
	var path strings.Builder
	for _, segment := range segments {
		path.WriteByte('/')
		path.WriteString(url.PathEscape(segment))
	}
	return path.String()
}

func orText(given, usual string) string {
	if given == "" {
		return usual
	}
	return given
}

func orTime(given, usual time.Duration) time.Duration {
	if given == 0 {
		return usual
	}
	return given
}

func orCount(given, usual int) int {
	if given <= 0 {
		return usual
	}
	return given
}
