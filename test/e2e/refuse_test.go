package e2e

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/conclave-dp/conclave/internal/certs"
	"github.com/conclave-dp/conclave/internal/testkit"
	"github.com/conclave-dp/conclave/test/clustertest"
)

// patienceForRefusal bounds how long a process may take to give up when it can never succeed.
const patienceForRefusal = 2 * time.Minute

// refused waits for a process to end with exit code 1 and one error message that contains all of wants: what is wrong
// and what to do.
func refused(t *testing.T, p *process, wants ...string) {
	t.Helper()
	select {
	case <-p.Done:
	case <-time.After(patienceForRefusal):
		t.Errorf("%s still runs after %v", p.name, patienceForRefusal)
		return
	}
	if code := p.Cmd.ProcessState.ExitCode(); code != 1 {
		t.Errorf("%s ended with exit code %d, want 1", p.name, code)
	}
	var messages []string
	for _, l := range p.Stderr.All() {
		if l.Message == "" && !strings.HasPrefix(l.Text, "round ") { // neither log nor progress
			messages = append(messages, l.Text)
		}
	}
	if len(messages) != 1 {
		t.Errorf("%s gave %d lines of error, want one:\n%s", p.name, len(messages), strings.Join(messages, "\n"))
	}
	for _, want := range wants {
		if !strings.Contains(strings.Join(messages, "\n"), want) {
			t.Errorf("%s does not say %q:\n%s", p.name, want, strings.Join(messages, "\n"))
		}
	}
	if p.Stdout.Len() > 0 {
		t.Errorf("%s wrote to standard output: %s", p.name, &p.Stdout)
	}
}

// A peer that may not take part is told once and ends. A later run on the same dataset shows that nothing was charged
// meanwhile.
func TestNodesAndStudentsRefused(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	aggregator := c.startAggregator(c.aggregatorFile())
	aggregator.awaitLog("listening", nil)
	north, south := c.startSites()
	north.stop()
	t.Run("cases", func(t *testing.T) {
		refusedNodes(t, c)
		refusedStudents(t, c)
	})
	refused(t, c.startNode("south"), "teacher: ", c.state("south"),
		fmt.Sprintf("the folder is in use by process %d; stop that one", south.Cmd.Process.Pid))

	north = c.startNode("north")
	north.awaitLog("joined", nil)
	j := job{name: "after-all", rounds: 2, quorum: 1}
	runFile, out := c.runFile(j), c.out(j.name)
	finish(t, c.startStudent(c.studentFile(runFile, out)), out, j)
	stop(north, south, aggregator)
}

// trusting is the TLS part of a configuration with a certificate of the foreign
// authority that trusts both.
func trusting(role certs.Role, name string) string {
	f := certs.IssuedFiles(built.foreign, role, name)
	f.CA = built.both
	return clustertest.TLS(f)
}

func foreign(role certs.Role, name string) string {
	return clustertest.TLS(certs.IssuedFiles(built.foreign, role, name))
}

// mixed is a foreign certificate with the right authority's file.
func mixed(role certs.Role, name string) string {
	f := certs.IssuedFiles(built.foreign, role, name)
	f.CA = filepath.Join(built.certs, "ca.crt")
	return clustertest.TLS(f)
}

func refusedNodes(t *testing.T, c *cluster) {
	otherSchema := changed(t, c, built.schema, "schema.yaml", "name: flchain", "name: other")
	for _, test := range []struct {
		name string
		// stateful cases use the state of the admitted node, the others an empty folder.
		stateful bool
		changes  settings
		wants    []string
	}{
		{"expired certificate", false, settings{"tls": issued(certs.RoleNode, "expired")},
			[]string{"node-expired.crt", "expired", "issue a new one"}},
		{"foreign authority", false, settings{"tls": foreign(certs.RoleNode, "north")},
			[]string{"another authority", "use files from the same authority on both sides"}},
		{"foreign certificate, right authority", false, settings{"tls": mixed(certs.RoleNode, "north")},
			[]string{"node-north.crt", "another authority", "use files from the same authority on both sides"}},
		{"foreign certificate that the aggregator sees", false, settings{"tls": trusting(certs.RoleNode, "north")},
			[]string{"not accepted by the other side", "ask the aggregator's operator"}},
		{"another site's certificate", true, settings{"tls": issued(certs.RoleNode, "south")},
			[]string{`"north"`, `"south"`, "use the site's own certificate"}},
		{"student's certificate", true, settings{"tls": issued(certs.RoleStudent, "lab")},
			[]string{`student "lab"`, "role node"}},
		{"key of another certificate", true, settings{"tls": clustertest.TLS(certs.Files{
			CA:   filepath.Join(built.certs, "ca.crt"),
			Cert: certs.IssuedFiles(built.certs, certs.RoleNode, "north").Cert,
			Key:  certs.IssuedFiles(built.certs, certs.RoleNode, "south").Key,
		})}, []string{"do not match", "use the two files that were issued together"}},
		{"other data", true, settings{"data": built.south},
			[]string{"manifest.json", "data differs", "restore the table"}},
		{"other number of teachers", true, settings{"teachers": "19"},
			[]string{"manifest.json", "partition count differs", "use the number of teachers of the first run"}},
		{"other data and no memory of the first", false, settings{"data": built.south},
			[]string{`node "0" of site "north"`, "partition manifest", "start it with its old data file"}},
		{"the same data and no memory of the first", false, nil,
			[]string{`node "0" of site "north"`, "partition manifest", "start it with its old data file"}},
		{"other schema", false, settings{"schema": otherSchema},
			[]string{"north/0", "schema", "use the same schema file everywhere"}},
		{"dataset that is not served", false, settings{"dataset": "unknown"},
			[]string{`"unknown"`, "add it to the aggregator's datasets"}},
		{"missing data", false, settings{"data": filepath.Join(c.dir, "missing.csv")},
			[]string{"missing.csv"}},
		{"more teachers than records", false, settings{"teachers": "5000"},
			[]string{"5000", "teachers"}},
		{"host that the aggregator's certificate does not name", false, settings{"server_name": "elsewhere.example"},
			[]string{"elsewhere.example", "connect to a name in its certificate"}},
	} {
		t.Run("node/"+test.name, func(t *testing.T) {
			t.Parallel()
			state := t.TempDir()
			if test.stateful {
				copyState(t, state, c.state("north"), 0o600)
			}
			file := c.nodeFile("north", settings{"state": state}, test.changes)
			refused(t, start(t, "teacher", binary("teacher"), "--config", file), append(test.wants, "teacher: ")...)
		})
	}
	t.Run("node/partition key that everybody can read", func(t *testing.T) {
		t.Parallel()
		state := t.TempDir()
		copyState(t, state, c.state("north"), 0o644)
		file := c.nodeFile("north", settings{"state": state})
		refused(t, start(t, "teacher", binary("teacher"), "--config", file), "teacher: ", "partition.key", "chmod 600")
	})
}

// copyState copies a node's state folder.
func copyState(t *testing.T, to, from string, mode os.FileMode) {
	t.Helper()
	files, err := os.ReadDir(from)
	testkit.Must(t, err)
	for _, f := range files {
		raw := testkit.Read(t, filepath.Join(from, f.Name()))
		testkit.Must(t, os.WriteFile(filepath.Join(to, f.Name()), raw, mode))
	}
}

func refusedStudents(t *testing.T, c *cluster) {
	otherSchema := changed(t, c, built.schema, "schema-of-run.yaml", "name: flchain", "name: other")
	for _, test := range []struct {
		name    string
		student settings
		run     settings
		wants   []string
	}{
		{"expired certificate", settings{"tls": issued(certs.RoleStudent, "expired")}, nil,
			[]string{"student-expired.crt", "expired", "issue a new one"}},
		{"node's certificate", settings{"tls": issued(certs.RoleNode, "north")}, nil,
			[]string{`node "north"`, "role student"}},
		{"other schema", nil, settings{"schema": otherSchema},
			[]string{"schema", "use the same schema file everywhere"}},
		{"dataset that is not served", settings{"dataset": "unknown"}, nil,
			[]string{`"unknown"`, "add it to the aggregator's datasets"}},
		{"more than the dataset's budget", nil, settings{"privacy": "{epsilon: 30, delta: 1e-4}"},
			[]string{"epsilon 30", "20", "lower the run's epsilon"}},
		{"pipeline that is not there", nil, settings{"pipeline": "magic"},
			[]string{`"magic"`, "use pategan"}},
		{"missing test rows", nil, settings{"evaluate": "{test: missing.csv}"},
			[]string{"missing.csv"}},
		{"nobody at the address", settings{"aggregator": "127.0.0.1:1", "patience": "300ms"}, nil,
			[]string{"127.0.0.1:1", "start it, or fix the address"}},
	} {
		t.Run("student/"+test.name, func(t *testing.T) {
			t.Parallel()
			j := job{name: "refused", rounds: 2, quorum: 1, changes: test.run}
			out := filepath.Join(t.TempDir(), "out")
			file := c.studentFile(c.runFile(j), out, test.student)
			refused(t, start(t, "student", binary("student"), "--config", file), append(test.wants, "student: ")...)
			for _, name := range []string{"synthetic.csv", "ledger.jsonl", "certificate.json"} {
				if _, err := os.Stat(filepath.Join(out, name)); err == nil {
					t.Errorf("a refused student wrote %s", name)
				}
			}
		})
	}
}

// changed writes a copy of a file with one text replaced.
func changed(t *testing.T, c *cluster, path, name, old, new string) string {
	t.Helper()
	raw := testkit.Read(t, path)
	if !bytes.Contains(raw, []byte(old)) {
		t.Fatalf("%s does not hold %q", path, old)
	}
	to := filepath.Join(c.dir, name)
	testkit.Must(t, os.WriteFile(to, bytes.Replace(raw, []byte(old), []byte(new), 1), 0o600))
	return to
}

// More teachers than a run expects would make the noise too small for the guarantee: the run is refused at its first
// round, before anything is charged.
func TestMoreTeachersThanTheRunExpects(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	aggregator := c.startAggregator(c.aggregatorFile())
	aggregator.awaitLog("listening", nil)
	_, audited := c.audit(c.embeddedEndpoint())
	north, south := c.startSites()
	j := job{name: "too-many", rounds: 2, quorum: 0.9, changes: settings{"teachers": "30"}}
	student := c.startStudent(c.studentFile(c.runFile(j), c.out(j.name)))
	refused(t, student, "student: ", `"too-many"`, "30 teachers", "north/0 with 20", "south/0 with 20",
		"stop some nodes, or open a run with more teachers")
	// The run stays open, and other runs get their certificates. Only a reader without a certificate cannot tell the
	// open run from a truncated ledger.
	good, out := job{name: "enough", rounds: 2, quorum: 0.9}, c.out("enough")
	if code := c.startStudent(c.studentFile(c.runFile(good), out)).wait(); code != 0 {
		t.Fatalf("the run beside an open one ended with exit code %d", code)
	}
	ledger, certificate := filepath.Join(out, "ledger.jsonl"), filepath.Join(out, "certificate.json")
	if _, stderr, code := called("conclave", "ledger", "verify", "--ledger", ledger, "--certificate",
		certificate); code != 0 {
		t.Errorf("ledger verify with a certificate: exit code %d: %s", code, stderr)
	}
	if _, stderr, code := called("conclave", "ledger", "verify", "--ledger", ledger); code != 1 ||
		!strings.Contains(stderr, "too-many") {
		t.Errorf("ledger verify without a certificate: exit code %d, says %q; want it to name the open run",
			code, stderr)
	}
	audited(good.rounds + 1)
	stop(north, south, aggregator)
}

func TestAggregatorsRefused(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	running := c.startAggregator(c.aggregatorFile())
	running.awaitLog("listening", nil)
	t.Run("cases", func(t *testing.T) {
		nobody := testkit.FreeAddress(t, "127.0.0.1")
		for _, test := range []struct {
			name    string
			changes settings
			wants   []string
		}{
			{"etcd unreachable", settings{"etcd": "{endpoints: ['http://" + nobody + "']}"},
				[]string{"etcd", nobody, "check that etcd runs and is reachable"}},
			{"port in use", settings{"listen": c.address},
				[]string{c.address, "address already in use", "set listen to a free address"}},
			{"etcd's folder in use", settings{"etcd": c.etcd},
				[]string{"in use by another process", "stop the other aggregator or use another folder"}},
			{"node's certificate", settings{"tls": issued(certs.RoleNode, "north")},
				[]string{"node-north.crt", "wrong role", "use the file issued for that role"}},
			{"foreign certificate", settings{"tls": mixed(certs.RoleAggregator, "aggregator")},
				[]string{"aggregator-aggregator.crt", "another authority"}},
			{"missing schema", settings{"datasets": "[{name: d, schema: missing.yaml, budget: {epsilon: 1, " +
				"delta: 1e-5}}]"},
				[]string{`"d"`, "missing.yaml"}},
		} {
			t.Run(test.name, func(t *testing.T) {
				t.Parallel()
				own := newCluster(t)
				refused(t, own.startAggregator(own.aggregatorFile(test.changes)), append(test.wants, "aggregator: ")...)
			})
		}
		// A new file fixes this one: the aggregator says so, does not campaign, and waits.
		t.Run("expired certificate", func(t *testing.T) {
			t.Parallel()
			own := newCluster(t)
			p := own.startAggregator(own.aggregatorFile(settings{"tls": issued(certs.RoleAggregator, "expired")}))
			why := p.awaitLog("no peer could connect; this aggregator does not campaign for leadership until its "+
				"certificate files can be used", nil).Text
			for _, want := range []string{"aggregator-expired.crt", "expired", "issue a new one"} {
				if !strings.Contains(why, want) {
					t.Errorf("%q does not say %q", why, want)
				}
			}
			if n := len(p.logged("listening")); n != 0 {
				t.Error("it listens")
			}
			p.stop()
		})
		for _, role := range []string{"aggregator", "teacher", "student"} {
			t.Run("unknown field/"+role, func(t *testing.T) {
				t.Parallel()
				own := newCluster(t)
				file := own.write(role, settings{"surprise": "1"})
				p := start(t, role, binary(role), "--config", file)
				if code := p.wait(); code != 1 {
					t.Errorf("exit code %d, want 1", code)
				}
				for _, want := range []string{role + ": ", file, "surprise"} {
					if !p.said(want) {
						t.Errorf("does not say %q:\n%s", want, p.Stderr.Text())
					}
				}
			})
		}
	})
	if running.ended() {
		t.Errorf("the running aggregator ended: %v", running.Cmd.ProcessState)
	}
	running.stop()

	// A dataset's budget is permanent: the same folder with a larger one is refused.
	refused(t, c.startAggregator(c.aggregatorFile(settings{
		"datasets": "[{name: " + dataset + ", schema: " + built.schema + ", budget: {epsilon: 21, delta: 1e-4}}]",
	})), "aggregator: ", dataset, "budget", "restore the old value")
}

// A listener that is not an aggregator is distinguished from an absent one.
func TestAddressThatDoesNotSpeakTLS(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	testkit.Must(t, err)
	defer listener.Close()
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			_, _ = conn.Write([]byte("220 mail.example ready\r\n"))
			conn.Close()
		}
	}()
	j := job{name: "plain", rounds: 2, quorum: 1}
	wrong := settings{"aggregator": listener.Addr().String()}
	refused(t, c.startStudent(c.studentFile(c.runFile(j), c.out(j.name), wrong)), "student: ", "does not use TLS",
		"give the aggregator's own port")
	refused(t, c.startNode("north", wrong), "teacher: ", "does not use TLS", "give the aggregator's own port")
}
