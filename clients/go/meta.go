package tidemark

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf16"
)

// metaMax is how many bytes of metadata a header takes (the server's page of HTTP).
const metaMax = 1_024

type metaKey struct{}

// meta is metadata as its header holds it, or why it cannot be.
type meta struct {
	text string
	err  error
}

// WithMeta says who writes, why, in which request: each commit that a call with this context makes
// keeps it. It may have 1,024 bytes as JSON, and needs an API key. Nil takes it away.
//
//	ctx = tidemark.WithMeta(ctx, tidemark.Row{"who": "ann", "why": "ticket 7"})
//	_, err := books.Update(ctx, "dune", tidemark.Row{"title": "Dune II"})
func WithMeta(ctx context.Context, members Row) context.Context {
	return context.WithValue(ctx, metaKey{}, encodeMeta(members))
}

func encodeMeta(members Row) meta {
	if members == nil {
		return meta{}
	}
	content, err := json.Marshal(members)
	if err != nil {
		return meta{err: fmt.Errorf("tidemark: metadata: %w", err)}
	}
	text := ascii(string(content))
	if len(text) > metaMax {
		return meta{err: fmt.Errorf("tidemark: metadata has %d bytes as JSON; at most %d fit",
			len(text), metaMax)}
	}
	return meta{text: text}
}

// metaOf is the metadata that the context carries, empty if none.
func metaOf(ctx context.Context) (string, error) {
	carried, _ := ctx.Value(metaKey{}).(meta)
	return carried.text, carried.err
}

// detached is a context without an end that carries the metadata of another.
func detached(ctx context.Context) context.Context {
	carried, _ := ctx.Value(metaKey{}).(meta)
	return context.WithValue(context.Background(), metaKey{}, carried)
}

// ascii writes what no header takes as escapes: all but the visible characters of ASCII, of which
// JSON itself leaves DEL.
func ascii(text string) string {
	var escaped strings.Builder
	for _, letter := range text {
		if letter < 0x7f {
			escaped.WriteRune(letter)
			continue
		}
		for _, unit := range utf16.Encode([]rune{letter}) {
			fmt.Fprintf(&escaped, `\u%04x`, unit)
		}
	}
	return escaped.String()
}
