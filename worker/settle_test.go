package worker

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/conclave-dp/conclave/certs"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
	"github.com/conclave-dp/conclave/student"
)

// journal is a log as JSON.
type journal struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (j *journal) Write(line []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.Write(line)
}

func (j *journal) Sync() error { return nil }

func (j *journal) lines() []string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return strings.Split(strings.TrimSpace(j.text.String()), "\n")
}

// has says whether a line has all of the words.
func (j *journal) has(words ...string) bool {
lines:
	for _, line := range j.lines() {
		for _, word := range words {
			if !strings.Contains(line, word) {
				continue lines
			}
		}
		return true
	}
	return false
}

// journal makes the workers' log one that can be read.
func (c *cluster) journal() *journal {
	j := new(journal)
	c.log = zap.New(zapcore.NewCore(zapcore.NewJSONEncoder(zap.NewProductionEncoderConfig()), j, zap.DebugLevel))
	return j
}

// saysOfNoEnd fails where the log claims that the run ended, which it did not.
func (j *journal) saysOfNoEnd(t *testing.T) {
	t.Helper()
	for _, lie := range []string{"run ended", "FAILED", "the queue does not take"} {
		if j.has(lie) {
			t.Errorf("the log says %q:\n%s", lie, strings.Join(j.lines(), "\n"))
		}
	}
}

// link is a network between a worker and the aggregator that can be cut.
type link struct {
	net.Listener
	to string

	mu    sync.Mutex
	cut   bool
	conns []net.Conn
	work  sync.WaitGroup
}

func newLink(t *testing.T, to string) *link {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	l := &link{Listener: listener, to: to}
	l.work.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			l.join(conn)
		}
	})
	t.Cleanup(func() {
		listener.Close()
		l.set(true)
		l.work.Wait()
	})
	return l
}

func (l *link) join(near net.Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cut {
		near.Close()
		return
	}
	far, err := net.Dial("tcp", l.to)
	if err != nil {
		near.Close()
		return
	}
	l.conns = append(l.conns, near, far)
	for _, pair := range [][2]net.Conn{{near, far}, {far, near}} {
		l.work.Go(func() {
			_, _ = io.Copy(pair[0], pair[1])
			pair[0].Close()
		})
	}
}

// set cuts the link, or mends it.
func (l *link) set(cut bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cut = cut
	for _, conn := range l.conns {
		conn.Close()
	}
	l.conns = nil
}

// through is the configuration of a worker of another name behind the link.
func (c *cluster) through(l *link) student.Config {
	away := c.config
	away.Aggregator, away.Worker, away.Out = l.Addr().String(), "away", filepath.Join(c.dir, "away")
	return away
}

func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(60 * time.Second); !holds(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("not within a minute: " + what)
		}
	}
}

// A worker that was cut off for longer than its grace has lost the run, which has not ended.
func TestAWorkerThatWasCutOffSaysSo(t *testing.T) {
	c := newCluster(t)
	wire, log := newLink(t, c.config.Aggregator), c.journal()
	c.submit("a", same)
	stopAway, _ := c.work(c.through(wire))
	c.await("a", func(r *conclavev1.RunStatus) bool { return r.GetOpened() && r.GetWorker() == "away" })
	wire.set(true)
	c.await("a", in(conclavev1.RunState_RUN_STATE_WAITING))
	c.log = zap.NewNop()
	stop, _ := c.work(c.config)
	c.await("a", func(r *conclavev1.RunStatus) bool { return r.GetWorker() == "w" })
	wire.set(false)
	eventually(t, "the worker hears of it", func() bool { return log.has("run left", "not this worker's any more") })
	if r := c.await("a", in(conclavev1.RunState_RUN_STATE_RUNNING)); r.GetWorker() != "w" {
		t.Errorf("the run is %v", r)
	}
	must(t, stopAway())
	must(t, stop())
	log.saysOfNoEnd(t)
}

// A run whose aggregator is away is not given back, and the log does not say so.
func TestAWorkerThatIsStoppedWhileTheAggregatorIsAway(t *testing.T) {
	c := newCluster(t)
	wire, log := newLink(t, c.config.Aggregator), c.journal()
	c.submit("a", same)
	stop, _ := c.work(c.through(wire))
	c.await("a", func(r *conclavev1.RunStatus) bool { return r.GetOpened() })
	wire.set(true)
	must(t, stop())
	if !log.has("run left: told to stop", "could not be told", "worker_grace") || log.has("given back") {
		t.Errorf("the log is\n%s", strings.Join(log.lines(), "\n"))
	}
	log.saysOfNoEnd(t)
	c.await("a", in(conclavev1.RunState_RUN_STATE_WAITING))
}

// A worker whose certificate is revoked ends; the run does not.
func TestAWorkerWhoseCertificateIsRevoked(t *testing.T) {
	c := newCluster(t)
	log := c.journal()
	authority := filepath.Join(c.dir, "certs")
	hired := c.config
	hired.TLS = certs.IssuedFiles(authority, certs.RoleStudent, "hired")
	c.submit("a", same)
	_, ended := c.work(hired)
	c.await("a", func(r *conclavev1.RunStatus) bool { return r.GetOpened() })
	_, err := certs.Revoke(authority, certs.Revocation{Role: certs.RoleStudent, Name: "hired", Reason: certs.ReasonWithdrawn})
	must(t, err)
	select {
	case err := <-ended:
		if !errors.Is(err, student.ErrCertificate) || !strings.Contains(err.Error(), `run "a" was `) {
			t.Errorf("the worker ended with %v", err)
		}
	case <-time.After(60 * time.Second):
		t.Fatalf("the worker goes on:\n%s", strings.Join(log.lines(), "\n"))
	}
	log.saysOfNoEnd(t)
	c.await("a", in(conclavev1.RunState_RUN_STATE_WAITING))
}

// Each line names the run at most once, and lines of the run itself name it.
func TestLogLinesNameTheRunOnce(t *testing.T) {
	c := newCluster(t)
	log := c.journal()
	c.submit("a", same)
	stop, _ := c.work(c.config)
	c.await("a", func(r *conclavev1.RunStatus) bool { return r.GetOpened() })
	eventually(t, "the run is open", func() bool { return log.has(`"run open"`) })
	must(t, stop())
	for _, line := range log.lines() {
		fields := map[string]bool{}
		read := json.NewDecoder(strings.NewReader(line))
		_, err := read.Token()
		must(t, err)
		for read.More() {
			key, err := read.Token()
			must(t, err)
			if fields[key.(string)] {
				t.Errorf("field %v is there twice: %s", key, line)
			}
			fields[key.(string)] = true
			must(t, read.Decode(new(any)))
		}
		if strings.Contains(line, `"run open"`) && (!fields["run"] || !fields["worker"]) {
			t.Errorf("no run or worker in %s", line)
		}
	}
}
