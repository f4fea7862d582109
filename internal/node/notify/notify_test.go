package notify

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/conclave-dp/conclave/internal/testkit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// hook answers POSTs with codes, one after the other, and then with 200.
type hook struct {
	*httptest.Server
	posts chan string
	codes chan int
}

func newHook(t *testing.T, codes ...int) *hook {
	h := &hook{posts: make(chan string, 2*mostTold), codes: make(chan int, len(codes))}
	for _, code := range codes {
		h.codes <- code
	}
	h.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		h.posts <- r.Method + " " + r.Header.Get("Authorization") + " " + r.Header.Get("Content-Type") + " " +
			"" + string(body)
		select {
		case code := <-h.codes:
			w.Header().Set("Location", h.URL+"/elsewhere")
			w.WriteHeader(code)
		default:
		}
	}))
	t.Cleanup(h.Close)
	return h
}

// notifier runs one that posts to an address until the test ends.
func notifier(t *testing.T, c Config) (*Notifier, *observer.ObservedLogs) {
	t.Helper()
	testkit.Must(t, c.Validate())
	core, log := observer.New(zap.InfoLevel)
	n := New(c, zap.New(core))
	n.pause = time.Millisecond
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { n.Run(ctx) })
	t.Cleanup(func() {
		stop()
		running.Wait()
		n.client.CloseIdleConnections()
	})
	return n, log
}

func waiting(run string) Waiting {
	return Waiting{Site: "north", Node: "0", Dataset: "d", Run: run, SpecSHA256: "ab", Student: "lab",
		Purpose: "study 12",
		Since:   "2026-11-26T12:00:00Z"}
}

// A run is posted once, with the token, again after failures that pass, and again once it was forgotten.
func TestARunIsPostedOnce(t *testing.T) {
	h := newHook(t, 503, 429)
	token := filepath.Join(t.TempDir(), "token")
	testkit.Must(t, os.WriteFile(token, []byte("word\n"), 0o600))
	n, log := notifier(t, Config{URL: h.URL, TokenFile: token})
	raw, err := json.Marshal(waiting("r"))
	testkit.Must(t, err)
	want := "POST Bearer word application/json " + string(raw)
	for range 3 {
		n.Tell(waiting("r"))
	}
	for range 3 { // two failed
		if got := testkit.Receive(t, h.posts); got != want {
			t.Errorf("posted %s, want %s", got, want)
		}
	}
	n.Tell(waiting("q")) // the next one is another run's
	if got := testkit.Receive(t, h.posts); !strings.Contains(got, `"run":"q"`) {
		t.Errorf("posted %s", got)
	}
	n.Forget("r")
	n.Tell(waiting("r"))
	if got := testkit.Receive(t, h.posts); got != want {
		t.Errorf("posted %s, want %s", got, want)
	}
	testkit.Eventually(t, "three lines of the log", func() bool {
		return log.FilterMessage("people were told that a run waits for them").Len() == 3
	})
}

// What does not pass is not tried again, is in the log without the address, and keeps nobody from being told of others.
// A
// token goes to one address alone.
func TestWhatCannotBePosted(t *testing.T) {
	for _, code := range []int{401, 404, 302, 308} {
		h := newHook(t, code)
		n, log := notifier(t, Config{URL: h.URL + "/secret"})
		n.Tell(waiting("r"))
		n.Tell(waiting("q"))
		for _, run := range []string{"r", "q"} {
			if got := testkit.Receive(t, h.posts); !strings.Contains(got, fmt.Sprintf(`"run":"%s"`, run)) {
				t.Errorf("posted %s, want run %s", got, run)
			}
		}
		testkit.Eventually(t, "a line of the log", func() bool { return log.Len() == 2 })
		said := fmt.Sprint(log.All()[0].ContextMap())
		if !strings.Contains(said, fmt.Sprint(code)) || strings.Contains(said, "secret") {
			t.Errorf("the log says %s", said)
		}
	}
	gone := newHook(t)
	gone.Close()
	n := New(Config{URL: gone.URL + "/secret"}, zap.NewNop())
	if err := n.once(t.Context(), nil); err == nil || strings.Contains(err.Error(), "secret") {
		t.Errorf("of an address where nobody listens: %v", err)
	}
	missing := New(Config{URL: gone.URL, TokenFile: filepath.Join(t.TempDir(), "none")}, zap.NewNop())
	if err := missing.once(t.Context(), nil); err == nil || !strings.Contains(err.Error(), "let this process read it") {
		t.Errorf("without the token: %v", err)
	}
}

// Telling never waits, however many runs there are and whoever reads them.
func TestTellingNeverWaits(t *testing.T) {
	n := New(Config{URL: "https://alerts.example.org"}, zap.NewNop())
	for i := range 3 * mostTold {
		n.Tell(waiting(fmt.Sprint("r", i)))
	}
	if len(n.told) != mostTold || len(n.queue) != mostTold {
		t.Errorf("%d runs are remembered, %d wait to be posted", len(n.told), len(n.queue))
	}
	for i := range 2 * mostTold {
		n.Forget(fmt.Sprint("r", i))
	}
	if n.size != 0 || len(n.told) != 0 {
		t.Errorf("%d runs are remembered", n.size)
	}
	var none *Notifier
	none.Tell(waiting("r"))
	none.Forget("r")
	none.Run(t.Context())
}

func TestWhereItIsPosted(t *testing.T) {
	for address, good := range map[string]bool{
		"": true, "https://alerts.example.org/x?y=z": true, "http://127.0.0.1:8080": true, "http://localhost/x": true,
		"http://[::1]:80": true, "http://alerts.example.org": false, "http://10.0.0.1": false, "ftp://localhost": false,
		"alerts.example.org": false, "https://": false, "http://localhost.example.org": false, "https:///x": false,
		":": false,
	} {
		if err := (Config{URL: address}).Validate(); (err == nil) != good {
			t.Errorf("%q: %v", address, err)
		}
	}
	if err := (Config{TokenFile: "token"}).Validate(); err == nil || !strings.Contains(err.Error(),
		"url, which is missing") {
		t.Errorf("a token for nowhere: %v", err)
	}
}
