package worker

import (
	"bytes"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/conclave-dp/conclave/internal/student"
	"github.com/conclave-dp/conclave/test/clustertest"
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

// has reports whether a line has all of the words.
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

// journal makes the workers' log readable for the test.
func (c *cluster) journal() *journal {
	j := new(journal)
	c.log = zap.New(zapcore.NewCore(zapcore.NewJSONEncoder(zap.NewProductionEncoderConfig()), j, zap.DebugLevel))
	return j
}

// saysOfNoEnd fails if the log claims that the run ended, which it did not.
func (j *journal) saysOfNoEnd(t *testing.T) {
	t.Helper()
	for _, lie := range []string{"run ended", "FAILED", "the queue does not accept"} {
		if j.has(lie) {
			t.Errorf("the log says %q:\n%s", lie, strings.Join(j.lines(), "\n"))
		}
	}
}

// newLink is a connection between a worker and the aggregator.
func (c *cluster) newLink() *clustertest.Proxy {
	return clustertest.NewProxy(c.t, "worker to aggregator", "127.0.0.1:0", c.config.Aggregator)
}

// through is the configuration of another worker behind the link.
func (c *cluster) through(l *clustertest.Proxy) student.Config {
	away := c.config
	away.Aggregator, away.Worker, away.Out = l.Addr(), "away", filepath.Join(c.dir, "away")
	return away
}
