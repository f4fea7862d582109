package faults

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/conclave-dp/conclave/internal/certs"
	"github.com/conclave-dp/conclave/partition/encode"
	"github.com/conclave-dp/conclave/test/clustertest"
)

// kind is a kind of run. pipeline is the part of its run.yaml that says what it does.
type kind struct {
	name, dataset string
	epsilon       float64
	pipeline      string
	readers       bool // two readers instead of students
	alone         bool // without a second student, because its answers are dropped
}

const (
	small = "quorum: 0.5, deadline: 1.5, student: {hidden: 8, layers: 1, generator_steps: 2"
	fit   = "embed: {quorum: 0.5, deadline: 1.5, fit: {steps: 20, batch: 32}, student: {hidden: 8}}\n"
	// The quality of students does not matter here: they take small steps, one per round.
	answer = "pategan: {labels: 128, queries: 16, teacher: {steps: 2, training: 16}, " + small + ", step: 0.01"
)

// The runs on the wide dataset, in two concurrent rows.
var rows = [][]kind{
	{
		{name: "votes", pipeline: "pipeline: pategan\nwarm_start: {embed: 0}\n" + answer + "}}\n"},
		{name: "stages", pipeline: "pipeline: pategan\nwarm_start: {embed: 0}\npost: [pgb]\nweights: logreg-noised\n" +
			"pgb: {rounds: 5, candidates: 400}\n" + answer + ", keep: 4}}\n"},
		{name: "steps", alone: true, pipeline: "pipeline: dpgan\nwarm_start: {embed: 0}\n" + steps},
	},
	{
		{name: "readers", readers: true},
		{name: "sums", pipeline: "pipeline: gpate\n" + fit +
			"gpate: {rounds: 8, records: 16, teacher: {steps: 2, training: 16}, " + small + "}}\n"},
		{name: "embedding", pipeline: "pipeline: embed\n" + fit},
	},
}

const steps = "dpgan: {steps: 12, quorum: 0.5, deadline: 1.5, discriminator: {layers: 1, hidden: 6, loss: logistic, " +
	"fourier: 0, generated: 40, reuse: 1}, student: {hidden: 8, batch: 20, steps: 1}}\n"

// overdrawn is the run repeated on the tight dataset until its budget is used up.
var overdrawn = kind{name: "tight", dataset: tight, epsilon: 3, pipeline: rows[0][0].pipeline}

// work starts the runs of a row one after the other: on the tight dataset until its budget is used up, with a gap
// before each, on the other one until stop is closed. It returns when the last one has ended.
func (c *cluster) work(ctx context.Context, row []kind, gap time.Duration, stop <-chan struct{}) {
	for i := 0; ctx.Err() == nil; i++ {
		select {
		case <-stop:
			if i >= len(row) && row[0].dataset != tight {
				return // each kind at least once
			}
		default:
		}
		k := row[i%len(row)]
		if k.dataset == tight {
			select {
			case <-time.After(gap):
			case <-stop:
			}
		}
		if c.run(ctx, k, fmt.Sprintf("%s-%d", k.name, i/len(row))) {
			return
		}
	}
}

// run lets two students make one run concurrently and independently, and checks their results. It reports whether the
// budget of the dataset was used up.
func (c *cluster) run(ctx context.Context, k kind, name string) (over bool) {
	switch k.dataset {
	case "":
		k.dataset, k.epsilon = wide, 10
	case hidden:
		k.pipeline += c.aggregation()
	}
	who := []string{"lab", "reader"}
	if k.alone {
		who = who[:1]
	}
	began := time.Now()
	var pair []*process
	for _, student := range who {
		p := c.student(k, name, student)
		pair = append(pair, p)
		c.mu.Lock()
		c.readers = append(c.readers, p)
		c.mu.Unlock()
		p.supervise(ctx)
	}
	for _, p := range pair {
		<-p.done
	}
	c.mu.Lock()
	c.readers = slices.DeleteFunc(c.readers, func(p *process) bool { return slices.Contains(pair, p) })
	c.mu.Unlock()
	if ctx.Err() != nil {
		return true
	}
	for _, p := range pair {
		over = over || p.code != 0
	}
	switch {
	case over:
		c.told.count("runs that ended because the budget was used up", 1)
	default:
		c.told.count("runs that ended: "+k.name, 1)
		c.t.Logf("run %s ended after %v", name, time.Since(began).Round(time.Second/10))
		if !k.readers {
			c.checkResults(name, who)
		}
	}
	return over
}

// student makes a student that runs until its run has ended, or is over the budget. who distinguishes the students of
// one run. They share a certificate, because a run belongs to the certificate that opened it.
func (c *cluster) student(k kind, name, who string) *process {
	out := c.path("out-" + name + "-" + who)
	file := c.write("student-"+name+"-"+who+".yaml",
		fmt.Sprintf("aggregator: '%s'\ndataset: %s\nrun: %s\nout: %s\ntls: %s\nretry: 500ms\npatience: 10m\nlog: "+
			"{format: json}\n",
			c.labs, k.dataset, c.path(name+".yaml"), out, c.tls(certs.RoleStudent, "lab")))
	command, environment := []string{filepath.Join(c.bin, "student"), "--config", file}, []string(nil)
	if k.readers {
		raw, err := json.Marshal(reading{
			Run: name, Dataset: k.dataset, Schema: c.schema.SHA256, Teachers: c.teachers(k.dataset),
			Features: encode.New(c.schema).Width(),
			Rounds:   12, Queries: 16, Quorum: 0.5, Log: c.path("read-" + name + "-" + who + ".txt"),
		})
		if err != nil {
			c.told.blame("%v", err)
		}
		command = []string{executable(c.t), file, c.write(name+"-"+who+".json", string(raw))}
		environment = []string{clustertest.RoleVariable + "=" + readerRole}
	}
	// Both write the same file, the second while the first may read it.
	c.write(name+".yaml", fmt.Sprintf("name: %s\nschema: %s\nprivacy: {epsilon: %v, delta: 1e-5}\nteachers: "+
		"%d\nrelease: {rows: 100}\n%s",
		name, c.path("schema.yaml"), k.epsilon, c.teachers(k.dataset), k.pipeline))
	p := c.process(name+"-"+who, "", environment, command...)
	p.once = true
	p.failed = func(code int, said string) bool {
		switch {
		case k.dataset == tight && strings.Contains(said, "budget"):
		default:
			c.told.blame("%s ended with code %d: %s", p.name, code, said)
		}
		return true
	}
	return p
}

// checkResults checks a run's certificate against its ledger as a user does, and that both students have the same
// results. Training is deterministic, so a different answer would give another model, table and checkpoint, which
// contains every answer.
func (c *cluster) checkResults(name string, who []string) {
	for _, student := range who {
		out := c.path("out-" + name + "-" + student)
		verify := exec.Command(filepath.Join(c.bin, "conclave"), "ledger", "verify",
			"--ledger", filepath.Join(out, "ledger.jsonl"), "--certificate", filepath.Join(out, "certificate.json"))
		if said, err := verify.CombinedOutput(); err != nil {
			c.told.blame("run %s of %s: ledger verify: %v\n%s", name, student, err, said)
		} else {
			c.told.count("certificates verified", 1)
		}
	}
	if len(who) < 2 {
		return
	}
	for _, file := range []string{"synthetic.csv", "state/student.safetensors"} {
		var same [2][]byte
		for i, student := range who {
			raw, err := os.ReadFile(filepath.Join(c.path("out-"+name+"-"+student), file))
			if err != nil {
				c.told.blame("run %s of %s: %v", name, student, err)
			}
			same[i] = raw
		}
		if !bytes.Equal(same[0], same[1]) {
			c.told.blame("run %s: two students have two versions of %s", name, file)
		}
	}
}
