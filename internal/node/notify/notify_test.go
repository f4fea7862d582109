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
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/conclave-dp/conclave/internal/testkit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// hook answers POSTs with a sequence of codes, and then with 200.
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

// notifier posts to a URL until the test ends.
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

func always() bool { return true }

func waiting(run string) Waiting {
	return Waiting{Site: "north", Node: "0", Dataset: "d", Run: run, SpecSHA256: "ab", Student: "lab",
		Purpose: "study 12",
		Since:   "2026-11-26T12:00:00Z"}
}

// A run is posted once with the token, retried after temporary failures, and posted again after Forget.
func TestARunIsPostedOnce(t *testing.T) {
	h := newHook(t, 503, 429)
	token := filepath.Join(t.TempDir(), "token")
	testkit.Must(t, os.WriteFile(token, []byte("word\n"), 0o600))
	n, log := notifier(t, Config{URL: h.URL, TokenFile: token})
	raw, err := json.Marshal(waiting("r"))
	testkit.Must(t, err)
	want := "POST Bearer word application/json " + string(raw)
	for range 3 {
		n.Tell(waiting("r"), always)
	}
	for range 3 { // two failed
		if got := testkit.Receive(t, h.posts); got != want {
			t.Errorf("posted %s, want %s", got, want)
		}
	}
	n.Tell(waiting("q"), always) // the next post is another run's
	if got := testkit.Receive(t, h.posts); !strings.Contains(got, `"run":"q"`) {
		t.Errorf("posted %s", got)
	}
	n.Forget("r")
	n.Tell(waiting("r"), always)
	if got := testkit.Receive(t, h.posts); got != want {
		t.Errorf("posted %s, want %s", got, want)
	}
	testkit.Eventually(t, "three lines of the log", func() bool {
		return log.FilterMessage("sent a notification of a waiting run").Len() == 3
	})
}

// A permanent failure is not retried, is logged without the URL, and does not stop other posts. A token goes to one
// URL only.
func TestWhatCannotBePosted(t *testing.T) {
	for _, code := range []int{401, 404, 302, 308} {
		h := newHook(t, code)
		n, log := notifier(t, Config{URL: h.URL + "/secret"})
		n.Tell(waiting("r"), always)
		n.Tell(waiting("q"), always)
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
	// The log does not repeat a response that echoes the token.
	token := filepath.Join(t.TempDir(), "token")
	testkit.Must(t, os.WriteFile(token, []byte("word"), 0o600))
	mirror := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		fmt.Fprintf(conn, "HTTP/1.1 403 no %s here\r\nContent-Length: 0\r\n\r\n", r.Header.Get("Authorization"))
	}))
	t.Cleanup(mirror.Close)
	reflected := New(Config{URL: mirror.URL, TokenFile: token}, zap.NewNop())
	t.Cleanup(reflected.client.CloseIdleConnections)
	if err := reflected.once(t.Context(), nil); err == nil || strings.Contains(err.Error(), "word") ||
		!strings.Contains(err.Error(), "403 Forbidden") {
		t.Errorf("of an answer that shows the token: %v", err)
	}
	gone := newHook(t)
	gone.Close()
	n := New(Config{URL: gone.URL + "/secret"}, zap.NewNop())
	if err := n.once(t.Context(), nil); err == nil || strings.Contains(err.Error(), "secret") {
		t.Errorf("of an address where nobody listens: %v", err)
	}
	missing := New(Config{URL: gone.URL, TokenFile: filepath.Join(t.TempDir(), "none")}, zap.NewNop())
	if err := missing.once(t.Context(), nil); err == nil || !strings.Contains(err.Error(), "make it readable") {
		t.Errorf("without the token: %v", err)
	}
}

// Tell never blocks, however many runs there are: the newest ones are posted.
func TestTellingNeverWaits(t *testing.T) {
	n := New(Config{URL: "https://alerts.example.org"}, zap.NewNop())
	for i := range 3 * mostTold {
		n.Tell(waiting(fmt.Sprint("r", i)), always)
	}
	if len(n.told) != mostTold || n.told[0].Run != fmt.Sprint("r", 2*mostTold) {
		t.Errorf("%d runs are remembered, the first is %s", len(n.told), n.told[0].Run)
	}
	for i := range 3 * mostTold {
		n.Forget(fmt.Sprint("r", i))
	}
	if len(n.told) != 0 {
		t.Errorf("%d runs are remembered", len(n.told))
	}
	var none *Notifier
	none.Tell(waiting("r"), always)
	none.Forget("r")
	none.Run(t.Context())
}

// A run that no longer waits is not posted, and is forgotten even if nobody asks, so it is posted again when it waits
// again.
func TestWhatNoLongerWaitsIsForgotten(t *testing.T) {
	h := newHook(t)
	var waits atomic.Bool
	n := New(Config{URL: h.URL}, zap.NewNop())
	t.Cleanup(n.client.CloseIdleConnections)
	post := func() {
		t.Helper()
		m, in := n.next()
		if m == nil || in > 0 {
			t.Fatalf("nothing is due: %v, %v", m, in)
		}
		n.post(t.Context(), m)
	}
	n.Tell(waiting("r"), waits.Load)
	post()
	if len(n.told) != 0 || len(h.posts) != 0 {
		t.Errorf("%d runs are remembered, %d posted", len(n.told), len(h.posts))
	}
	for again := range 2 {
		waits.Store(true)
		n.Tell(waiting("r"), waits.Load)
		post()
		n.prune()
		n.Tell(waiting("r"), waits.Load)
		if m, _ := n.next(); m != nil || len(n.told) != 1 {
			t.Errorf("%+v is to be posted again, %d runs are remembered", m, len(n.told))
		}
		waits.Store(false)
		n.prune()
		if len(n.told) != 0 || len(h.posts) != again+1 {
			t.Errorf("%d runs are remembered, %d posted", len(n.told), len(h.posts))
		}
	}
}

// A run whose POST fails repeatedly delays no other, and is posted only with its newest spec.
func TestARunThatCannotBePostedHoldsUpNoOther(t *testing.T) {
	posts := make(chan Waiting, 100)
	hook := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var m Waiting
		if err := json.NewDecoder(r.Body).Decode(&m); err != nil {
			t.Error(err)
		}
		posts <- m
		if m.Run == "bad" {
			w.WriteHeader(http.StatusBadGateway)
		}
	}))
	t.Cleanup(hook.Close)
	n, _ := notifier(t, Config{URL: hook.URL})
	n.pause = 5 * time.Minute
	bad := waiting("bad")
	n.Tell(bad, always)
	testkit.Same(t, "the run that fails", bad, testkit.Receive(t, posts))
	for _, run := range []string{"q", "r"} {
		n.Tell(waiting(run), always)
		testkit.Same(t, "the next one", waiting(run), testkit.Receive(t, posts))
	}
	bad.SpecSHA256 = "cd"
	n.Tell(bad, always)
	testkit.Same(t, "another spec", bad, testkit.Receive(t, posts))
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.told[0].over || n.told[0].SpecSHA256 == bad.SpecSHA256 {
		t.Errorf("the older spec is still to be posted: %+v", n.told[0].Waiting)
	}
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
		"token_file needs url") {
		t.Errorf("a token for nowhere: %v", err)
	}
}
