package console

import (
	"bufio"
	"net/http"
	"testing"

	"github.com/conclave-dp/conclave/internal/testkit"
)

// A page is notified at once of each change and of the end; too many streams are refused.
func TestEvents(t *testing.T) {
	s := serve(t)
	s.open(t)
	stream, err := s.browser.Get(s.base + "/events")
	testkit.Must(t, err)
	defer stream.Body.Close()
	if kind := stream.Header.Get("Content-Type"); kind != "text/event-stream" {
		t.Errorf("the stream is %s", kind)
	}
	lines := bufio.NewScanner(stream.Body)
	next := func(want string) {
		t.Helper()
		for lines.Scan() {
			if lines.Text() == want {
				return
			}
		}
		t.Fatalf("the stream ended before %q: %v", want, lines.Err())
	}
	next("retry: 2000")
	for range 3 {
		s.changes <- struct{}{}
		next("event: change")
	}
	for range mostStreams - 1 {
		s.streams <- struct{}{}
	}
	if a := s.ask(t, http.MethodGet, "/events", ""); a.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("one stream too many: %s", a.Status)
	}
	close(s.changes)
	next("event: change")
	next("event: end")
}
