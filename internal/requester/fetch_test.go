package requester

import (
	"bytes"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"google.golang.org/grpc"

	"github.com/conclave-dp/conclave/internal/certs"
	"github.com/conclave-dp/conclave/internal/certs/authority"
	"github.com/conclave-dp/conclave/internal/certs/tlsconfig/tlsconfigtest"
	"github.com/conclave-dp/conclave/internal/local"
	"github.com/conclave-dp/conclave/internal/proof"
	"github.com/conclave-dp/conclave/internal/runfile"
	"github.com/conclave-dp/conclave/internal/student"
	"github.com/conclave-dp/conclave/internal/testkit"
	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
	"github.com/conclave-dp/conclave/proto/conclave/v1/rpc"
)

// gaveOut is the bundle of a small run, with the authority of its signatures and that authority's folder.
func gaveOut(t *testing.T) (proof.Bundle, *x509.CertPool, string) {
	t.Helper()
	dir, err := os.MkdirTemp("", "fetch") // short, for the Unix socket below it
	testkit.Must(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	rows := "age,label\n"
	for i := range 60 {
		rows += fmt.Sprintf("%d,%d\n", 20+i, i%2)
	}
	for name, text := range map[string]string{
		"rows.csv": rows,
		"schema.yaml": "name: tiny\nlabel: label\ncolumns:\n  - {name: age, kind: integer, lower: 0, upper: 120}\n" +
			"  - {name: label, kind: binary}\n",
		"run.yaml": "name: small\nschema: schema.yaml\nteachers: 2\nrelease: {rows: 20}\n" +
			"privacy: {epsilon: 1, delta: 1e-3}\ndata: [{site: s, file: rows.csv}]\n" +
			"pipeline: marginals\nevaluate: {hold_out: 0}\n",
	} {
		testkit.Must(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	spec, err := runfile.Load(filepath.Join(dir, "run.yaml"))
	testkit.Must(t, err)
	out := filepath.Join(dir, "out")
	_, err = local.Run(t.Context(), spec, local.Options{Out: out})
	testkit.Must(t, err)
	b, _, err := proof.Pack(os.DirFS(out))
	testkit.Must(t, err)
	signed := filepath.Join(out, "state", "certs")
	roots, err := proof.Authorities(filepath.Join(signed, "ca.crt"))
	testkit.Must(t, err)
	return b, roots, signed
}

// relaying is an aggregator that passes on a bundle, and calls a function meanwhile.
type relaying struct {
	rpc.UnimplementedRunServiceServer
	bundle    []byte
	head      string
	meanwhile func()
}

func (s *relaying) FetchRun(_ *conclavev1.FetchRunRequest, stream rpc.RunService_FetchRunServer) error {
	s.meanwhile()
	return errors.Join(
		stream.Send(&conclavev1.FetchRunResponse{Message: &conclavev1.FetchRunResponse_Size{
			Size: &conclavev1.BundleSize{Bytes: uint64(len(s.bundle))}}}),
		stream.Send(&conclavev1.FetchRunResponse{Message: &conclavev1.FetchRunResponse_Chunk{Chunk: s.bundle}}))
}

func (s *relaying) ShowRun(context.Context, *conclavev1.ShowRunRequest) (*conclavev1.ShowRunResponse, error) {
	return &conclavev1.ShowRunResponse{Run: &conclavev1.RunStatus{LedgerHead: s.head}}, nil
}

// Both tests fetch what one run gave out.
func TestFetching(t *testing.T) {
	b, roots, dir := gaveOut(t)
	t.Run("what is written", func(t *testing.T) { testWhatIsWritten(t, b, roots, dir) })
	t.Run("what comes is the run's", func(t *testing.T) { testWhatComesIsTheRuns(t, b, roots) })
}

// A bundle is written only to an unused path, and files created there meanwhile are kept. One that lacks a signature
// is written only on request.
func testWhatIsWritten(t *testing.T, b proof.Bundle, roots *x509.CertPool, dir string) {
	s := &relaying{head: proof.VerifyBundle(b, roots).Head}
	testkit.Must(t, authority.Issue(dir, certs.RoleAggregator, "here", []string{"127.0.0.1"}, time.Hour))
	testkit.Must(t, authority.Issue(dir, certs.RoleStudent, "desk", nil, time.Hour))
	address, _ := tlsconfigtest.Serve(t, certs.IssuedFiles(dir, certs.RoleAggregator, "here"), "127.0.0.1:0",
		func(server *grpc.Server) { rpc.RegisterRunServiceServer(server, s) })
	config := student.DefaultConfig()
	config.Aggregator, config.Dataset, config.TLS = address, "d", certs.IssuedFiles(dir, certs.RoleStudent, "desk")
	dialled, err := student.Dial(config, zap.NewNop())
	testkit.Must(t, err)
	q := dialled.Queue()
	defer q.Close()
	unsigned := maps.Clone(b)
	signatures, err := proof.ParseSignatures(b[proof.SignaturesFile])
	testkit.Must(t, err)
	signatures.Release = nil
	unsigned[proof.SignaturesFile] = testkit.Value(signatures.Canonical())
	mine := func(path string) { testkit.Must(t, os.WriteFile(path, []byte("mine"), 0o600)) }
	for name, c := range map[string]struct {
		bundle    proof.Bundle
		out       string
		force     bool
		unproven  bool
		meanwhile func(out string)
		want      string // empty if it is written
	}{
		"a file":   {bundle: b, out: "a.zip"},
		"a folder": {bundle: b, out: "a"},
		"unsigned": {bundle: unsigned, out: "b.zip",
			want: "NOT PROVEN: a signature is missing, and nothing was"},
		"unsigned, a folder":                   {bundle: unsigned, out: "b", force: true, want: "NOT PROVEN"},
		"unsigned and taken":                   {bundle: unsigned, out: "c.zip", unproven: true},
		"a file that came meanwhile":           {bundle: b, out: "d.zip", meanwhile: mine, want: "file exists"},
		"a file in the place of a folder":      {bundle: b, out: "d", meanwhile: mine, want: "not a directory"},
		"a file that came meanwhile, by force": {bundle: b, out: "e.zip", force: true, meanwhile: mine},
		"a folder that came meanwhile": {bundle: b, out: "f", want: "file exists", meanwhile: func(out string) {
			testkit.Must(t, os.Mkdir(out, 0o700))
			mine(filepath.Join(out, proof.ManifestFile))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			var packed bytes.Buffer
			testkit.Must(t, c.bundle.Write(&packed))
			in := t.TempDir()
			out := filepath.Join(in, c.out)
			s.bundle, s.meanwhile = packed.Bytes(), func() {
				if c.meanwhile != nil {
					c.meanwhile(out)
				}
			}
			f := Fetching{Run: "small", Out: out, Authority: config.TLS.CA, Force: c.force, Unproven: c.unproven}
			testkit.Must(t, f.Check())
			_, err := f.Fetch(t.Context(), q)
			switch {
			case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
				t.Errorf("%v, want %q", err, c.want)
			case c.want == "":
				testkit.Must(t, err)
			}
			found, err := os.ReadDir(in)
			testkit.Must(t, err)
			if nothing := c.want != "" && c.meanwhile == nil; nothing != (len(found) == 0) || len(found) > 1 {
				t.Errorf("the folder has %v", found)
			}
			if c.want != "" && c.meanwhile != nil {
				at := out
				if info, err := os.Stat(at); err == nil && info.IsDir() {
					at = filepath.Join(at, proof.ManifestFile)
				}
				testkit.Same(t, "the earlier files", "mine", string(testkit.Read(t, at)))
			}
		})
	}
}

// A bundle must match the run by authority, name and ledger entry, or it is refused.
func testWhatComesIsTheRuns(t *testing.T, b proof.Bundle, roots *x509.CertPool) {
	head := proof.VerifyBundle(b, roots).Head
	for name, c := range map[string]struct {
		alter     func(proof.Bundle)
		run, head string
		roots     *x509.CertPool
		want      string
	}{
		"as it was given out": {want: ""},
		"another run's":       {run: "other", want: `it is for run "small"`},
		"another ledger's":    {head: strings.Repeat("0", 64), want: "another entry than the aggregator's"},
		"other rows": {want: "altered", alter: func(b proof.Bundle) {
			b["synthetic.csv"] = []byte("age,label\n")
		}},
		"a file too many": {want: "x.csv: no signed list includes it", alter: func(b proof.Bundle) {
			b["x.csv"] = []byte("x")
		}},
		"another authority's": {roots: x509.NewCertPool(), want: "signatures.json"},
	} {
		altered := maps.Clone(b)
		if c.alter != nil {
			c.alter(altered)
		}
		if c.run == "" {
			c.run = "small"
		}
		if c.head == "" {
			c.head = head
		}
		if c.roots == nil {
			c.roots = roots
		}
		var packed bytes.Buffer
		testkit.Must(t, altered.Write(&packed))
		got, worst, err := genuine(bytes.NewReader(packed.Bytes()), int64(packed.Len()), c.roots, c.run, c.head)
		switch {
		case c.want == "" && (err != nil || worst != proof.Proven || !maps.EqualFunc(got, b, bytes.Equal)):
			t.Errorf("%s: %v, %v", name, worst, err)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
	raw := []byte("PK\x05\x06 no zip file")
	if _, _, err := genuine(bytes.NewReader(raw), int64(len(raw)), roots, "small", head); err == nil {
		t.Error("what is no zip file is a bundle")
	}
}

// A folder is created atomically, and replaced only if nothing but bundle files is lost.
func TestUnpack(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	out := filepath.Join(dir, "out")
	b := proof.Bundle{"a.csv": []byte("1"), "model/x": []byte("2")}
	read := func() map[string]string {
		found := map[string]string{}
		testkit.Must(t, filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error {
			if err == nil && !e.IsDir() {
				found[strings.TrimPrefix(path, dir+"/")] = string(testkit.Read(t, path))
			}
			return err
		}))
		return found
	}
	testkit.Must(t, unpack(b, out, false))
	b["a.csv"] = []byte("3")
	testkit.Must(t, unpack(b, out+"/", true))
	testkit.Same(t, "the folder", map[string]string{"out/a.csv": "3", "out/model/x": "2"}, read())
	for _, mine := range []string{"mine.txt", "model/mine"} {
		path := filepath.Join(out, mine)
		testkit.Must(t, os.WriteFile(path, []byte("m"), 0o600))
		err := unpack(b, out, true)
		if err == nil || !strings.Contains(err.Error(), mine+" is not a file of the bundle") {
			t.Errorf("over %s: %v", mine, err)
		}
		testkit.Must(t, os.Remove(path))
	}
	testkit.Must(t, os.Remove(filepath.Join(out, "a.csv")))
	testkit.Must(t, os.Symlink("/etc/passwd", filepath.Join(out, "a.csv")))
	if err := unpack(b, out, true); err == nil || !strings.Contains(err.Error(), "a.csv is not a file") {
		t.Errorf("over a link: %v", err)
	}
	file := filepath.Join(dir, "file")
	testkit.Must(t, os.WriteFile(file, nil, 0o600))
	if err := unpack(b, file, true); err == nil {
		t.Error("a file was replaced by a folder")
	}
	same := proof.Bundle{"a": nil, "./a": nil} // as "a" and "A" are the same on some file systems
	if err := unpack(same, filepath.Join(dir, "same"), false); !errors.Is(err, fs.ErrExist) {
		t.Errorf("two names of one file: %v", err)
	}
	entries, err := os.ReadDir(dir)
	testkit.Must(t, err)
	if names := slices.Sorted(func(yield func(string) bool) {
		for _, e := range entries {
			if !yield(e.Name()) {
				return
			}
		}
	}); !slices.Equal(names, []string{"file", "out"}) {
		t.Errorf("left are %v", names)
	}
}
