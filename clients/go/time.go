package tidemark

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// Instant is a point in valid or system time. The zero value is none: each use says what that
// means there.
type Instant struct {
	text   string
	micros int64
	is     bool
}

// At is the instant of a time, to the microsecond.
func At(when time.Time) Instant { return Micros(when.UnixMicro()) }

// Micros is an instant in microseconds since 1970, as marks are.
func Micros(micros int64) Instant { return Instant{micros: micros, is: true} }

// Text is an instant as the server reads it: a date and time, or a date.
func Text(text string) Instant { return Instant{text: text, is: true} }

var (
	// Beginning is the beginning of time.
	Beginning = Text("min")
	// Next stands for the row's next scheduled change, as the end of a Period.
	Next = Text("next")
)

// IsZero says that there is no instant.
func (i Instant) IsZero() bool { return !i.is }

// MarshalJSON writes the instant as the server reads it, none as null.
func (i Instant) MarshalJSON() ([]byte, error) {
	switch {
	case !i.is:
		return []byte("null"), nil
	case i.text != "":
		return json.Marshal(i.text)
	}
	return json.Marshal(i.micros)
}

// UnmarshalJSON reads what the server writes.
func (i *Instant) UnmarshalJSON(text []byte) error {
	*i = Instant{}
	if string(text) == "null" {
		return nil
	}
	i.is = true
	if text[0] == '"' {
		return json.Unmarshal(text, &i.text)
	}
	return json.Unmarshal(text, &i.micros)
}

// forms are the texts that an instant may be; without an offset they are UTC.
var forms = []string{
	time.RFC3339Nano, "2006-01-02", "2006-01-02T15:04:05", "2006-01-02T15:04",
}

// Time is the instant as a time of UTC. An error for none, for Beginning and for Next.
func (i Instant) Time() (time.Time, error) {
	if !i.is {
		return time.Time{}, errors.New("tidemark: there is no instant")
	}
	if i.text == "" {
		return time.UnixMicro(i.micros).UTC(), nil
	}
	for _, form := range forms {
		if when, err := time.Parse(form, i.text); err == nil {
			return when.UTC(), nil
		}
	}
	return time.Time{}, fmt.Errorf("tidemark: %.60q is no date or time", i.text)
}

// mark of a commit, which the server writes as microseconds or as a text.
type mark int64

// UnmarshalJSON reads both forms.
func (m *mark) UnmarshalJSON(text []byte) error {
	var when Instant
	if err := json.Unmarshal(text, &when); err != nil || when.text == "" {
		*m = mark(when.micros)
		return err
	}
	parsed, err := when.Time()
	*m = mark(parsed.UnixMicro())
	return err
}

// Coordinates are the point a read looks through: what was known at AsOf about ValidAt. Without
// ValidAt the server takes what was valid at AsOf, and without AsOf what is known now. The answer
// of a read at an AsOf that has passed never changes.
type Coordinates struct {
	AsOf    Instant
	ValidAt Instant
}

// Queries are what a read at the coordinates takes.
func (c Coordinates) Queries() []Query {
	var queries []Query
	if !c.AsOf.IsZero() {
		queries = append(queries, AsOf(c.AsOf))
	}
	if !c.ValidAt.IsZero() {
		queries = append(queries, ValidAt(c.ValidAt))
	}
	return queries
}

// ReadAt, embedded in a row's struct, says where the row was read, and where it stands on both time
// axes.
type ReadAt struct {
	// Coordinates that the read named; zero for a row read as of now.
	Coordinates Coordinates
	// Mark of the commit that the answer is true for.
	Mark int64
	// Version names this version, for CursorAfter. It and the instants are there if the read named
	// a time.
	Version string
	// ValidFrom is the first instant at which the row is valid; Beginning is that of time.
	ValidFrom Instant
	// ValidTo is the first instant at which it is not; none for no end.
	ValidTo Instant
	// SystemFrom: known as exactly this since then.
	SystemFrom Instant
	// SystemTo: replaced then. None if it is not, and where the read did not ask for Versions.
	SystemTo Instant
}

// readAt is where a row stands, from the members that the server sent.
func readAt(sent json.RawMessage, at Coordinates, seen mark) (ReadAt, error) {
	var members struct {
		ValidFrom  Instant `json:"$validFrom"`
		ValidTo    Instant `json:"$validTo"`
		SystemFrom Instant `json:"$systemFrom"`
		SystemTo   Instant `json:"$systemTo"`
		Version    string  `json:"$version"`
	}
	err := json.Unmarshal(sent, &members)
	return ReadAt{
		Coordinates: at, Mark: int64(seen), Version: members.Version,
		ValidFrom: members.ValidFrom, ValidTo: members.ValidTo,
		SystemFrom: members.SystemFrom, SystemTo: members.SystemTo,
	}, err
}

// Period is the valid time that a write is for: from ValidFrom up to, and without, ValidTo.
//
// Without ValidFrom it begins with the commit. Without ValidTo it has no end, and writes over
// whatever was scheduled; Next stops where the row's next scheduled change begins.
type Period struct {
	ValidFrom Instant
	ValidTo   Instant
}
