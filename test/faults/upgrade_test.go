package faults

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/conclave-dp/conclave/internal/testkit"
	"github.com/conclave-dp/conclave/internal/version"
)

// nextSoftware matches the version text in programs of the other version, which has the same length.
var nextSoftware = regexp.MustCompile("[0-9]").ReplaceAllString(version.Software, "9")

// A run survives the restart of every process, one by one, into another version: etcd's members, standbys, the
// leader, nodes, and its own student. Old and new run together meanwhile, and rounds are released after each step.
func TestUpgradeOneByOne(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "darwin" {
		t.Skip("programs are signed there, and cannot be changed")
	}
	c := newCluster(t, 4, "10s", false, false) // the default
	next := c.variant()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	auditor := c.audit()
	c.paceStudents(200 * time.Millisecond) // so that few rounds are asked while the test looks
	ended := make(chan bool, 1)
	k := kind{name: "upgrade", pipeline: strings.Replace(rows[0][0].pipeline, "labels: 128", "labels: 960", 1)}
	go func() { ended <- c.run(ctx, k, "upgrade") }()
	c.awaitReleases(auditor, 3)

	began := time.Now()
	mixed := func(what string) {
		c.awaitReleases(auditor, 2)
		if len(c.running()) == 0 {
			c.told.blame("the run was over before %s", what)
		}
		t.Logf("%6.1fs  %3d releases when %s", time.Since(began).Seconds(), auditor.Released(), what)
	}
	step := func(p *process, back func() bool) {
		t.Helper()
		starts := p.started()
		students := func(s syscall.Signal) {
			for _, student := range c.running() {
				if student != p {
					student.signal(s)
				}
			}
		}
		students(syscall.SIGSTOP) // the run waits, however long this takes
		p.replace(syscall.SIGTERM, p.commandFrom(c.bin, next))
		testkit.Eventually(t, p.name+" to be back", func() bool { return p.started() > starts && back() })
		students(syscall.SIGCONT)
		mixed(p.name + " was restarted")
	}
	for i, p := range c.etcds {
		step(p, func() bool { return c.serves(ctx, i) })
	}
	leader := func() (leads *process) {
		testkit.Eventually(t, "one aggregator to lead", func() bool { // one that lost its lease is about to end
			n := 0
			for _, p := range c.aggregators {
				if p.logged("listening") > 0 {
					leads, n = p, n+1
				}
			}
			return n == 1
		})
		return leads
	}
	first := leader()
	for _, p := range c.aggregators {
		if p != first {
			step(p, func() bool { return p.logged("waiting for leadership") > 0 })
		}
	}
	step(first, func() bool { return first.logged("waiting for leadership") > 0 })
	if now := leader(); now == first {
		t.Errorf("%s leads again: a standby should have taken over from it", now.name)
	}
	for _, p := range c.nodes {
		step(p, func() bool { return p.logged("joined") > 0 })
	}
	for _, p := range c.running() {
		step(p, func() bool { return p.logged("continuing from the checkpoint") > 0 })
	}
	c.paceStudents(0)
	select {
	case <-ended:
	case <-time.After(2 * testkit.Patience):
		c.showLogs()
		t.Fatal("the run does not end")
	}
	if err := c.check(ctx, auditor); err != nil {
		t.Error(err)
	}
	// The old version has verified what the new one wrote.
	for _, student := range []string{"lab", "reader"} {
		checkSoftware(t, c.path("out-upgrade-"+student, "certificate.json"))
	}
	for _, wrong := range c.told.blamed() {
		t.Error(wrong)
	}
	if t.Failed() {
		c.showLogs()
	}
	t.Logf("every process was restarted in the middle of the run:\n%s\n%6d  releases charged",
		listed(c.told.counted()), auditor.Released())
}

// variant copies the programs with another version in them, and returns their folder.
func (c *cluster) variant() string {
	c.t.Helper()
	dir := c.path("next")
	testkit.Must(c.t, os.Mkdir(dir, 0o700))
	for _, program := range []string{"aggregator", "teacher", "student"} {
		raw := testkit.Read(c.t, filepath.Join(c.bin, program))
		if !bytes.Contains(raw, []byte(version.Software)) {
			c.t.Fatalf("%s does not say %q", program, version.Software)
		}
		next := bytes.ReplaceAll(raw, []byte(version.Software), []byte(nextSoftware))
		testkit.Must(c.t, os.WriteFile(filepath.Join(dir, program), next, 0o700))
	}
	return dir
}

// commandFrom is the process's command with its program from another folder.
func (p *process) commandFrom(old, dir string) []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	command := make([]string, len(p.command))
	for i, word := range p.command {
		if filepath.Dir(word) == old {
			word = filepath.Join(dir, filepath.Base(word))
		}
		command[i] = word
	}
	return command
}

// serves reports whether an etcd member answers and knows who leads.
func (c *cluster) serves(ctx context.Context, i int) bool {
	client, err := clientv3.New(clientv3.Config{Endpoints: c.endpoints()[i : i+1], DialTimeout: time.Second,
		Logger: zap.NewNop()})
	if err != nil {
		return false
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	r, err := client.Status(ctx, c.endpoints()[i])
	return err == nil && r.Leader != 0
}

func checkSoftware(t *testing.T, path string) {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Error(err)
		return
	}
	var certificate struct{ Software string }
	if err := json.Unmarshal(raw, &certificate); err != nil || certificate.Software != nextSoftware {
		t.Errorf("the certificate is by %q (%v), want the version that ended the run", certificate.Software, err)
	}
}
