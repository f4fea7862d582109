package worker

import (
	"bytes"
	"io"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/conclave-dp/conclave/internal/student"
	"github.com/conclave-dp/conclave/internal/testkit"
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
	testkit.Must(t, err)
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

// set cuts the link, or fixes it.
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
