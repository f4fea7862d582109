package e2e

import (
	"bytes"
	"compress/gzip"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/conclave-dp/conclave/internal/certs"
	"github.com/conclave-dp/conclave/internal/certs/authority"
	"github.com/conclave-dp/conclave/internal/testkit"
	"github.com/conclave-dp/conclave/test/clustertest"
)

// seed chooses the random moments of kills.
var seed = flag.Uint64("seed", 1, "seed of the random moments; 0 takes a new one")

// built has what the tests share and never change: the binaries, the certificates, and the two sites' data.
var built struct {
	dir     string
	schema  string
	test    string // real rows that belong to no site
	north   string // the first half of the rows, plain
	south   string // the second half, gzipped
	certs   string
	foreign string // another authority with the same roles and names
	both    string // one file with the certificates of both authorities
}

func TestMain(m *testing.M) {
	if role := os.Getenv(clustertest.RoleVariable); role != "" {
		os.Exit(clustertest.Play(role, nil))
	}
	flag.Parse()
	testkit.WaitTogether()
	for _, setting := range os.Environ() { // commands in this process read theirs
		if name, _, _ := strings.Cut(setting, "="); strings.HasPrefix(name, "CONCLAVE_") {
			os.Unsetenv(name)
		}
	}
	dir, err := os.MkdirTemp("", "e2e")
	if err == nil {
		err = prepare(dir)
	}
	code := 1
	if err != nil {
		fmt.Fprintln(os.Stderr, "prepare the end-to-end tests:", err)
	} else {
		code = m.Run()
	}
	os.RemoveAll(dir)
	os.Exit(code)
}

func binary(name string) string { return filepath.Join(built.dir, "bin", name) }

func prepare(dir string) error {
	built.dir = dir
	if err := testkit.Programs(filepath.Join(dir, "bin"), slices.Collect(maps.Keys(programs))); err != nil {
		return err
	}
	if err := splitExample(); err != nil {
		return err
	}
	built.certs, built.foreign = filepath.Join(dir, "certs"), filepath.Join(dir, "foreign")
	for _, folder := range []string{built.certs, built.foreign} {
		if err := clustertest.Certificates(folder, []string{"127.0.0.1", "localhost"}, "north", "south"); err != nil {
			return err
		}
	}
	// Validity is counted in whole seconds, so this one has ended already.
	for _, c := range []struct {
		role certs.Role
		name string
	}{{certs.RoleAggregator, "expired"}, {certs.RoleNode, "expired"}, {certs.RoleStudent, "expired"}} {
		if err := authority.Issue(built.certs, c.role, c.name, []string{"127.0.0.1"}, time.Nanosecond); err != nil {
			return err
		}
	}
	var bundle []byte
	for _, folder := range []string{built.certs, built.foreign} {
		raw, err := os.ReadFile(filepath.Join(folder, "ca.crt"))
		if err != nil {
			return err
		}
		bundle = append(bundle, raw...)
	}
	built.both = filepath.Join(dir, "both.crt")
	return os.WriteFile(built.both, bundle, 0o600)
}

// splitExample gives each half of the example's rows to a site.
func splitExample() error {
	example, err := filepath.Abs("../../examples/flchain")
	if err != nil {
		return err
	}
	built.schema, built.test = filepath.Join(example, "schema.yaml"), filepath.Join(example, "test.csv.gz")
	packed, err := os.Open(filepath.Join(example, "train.csv.gz"))
	if err != nil {
		return err
	}
	defer packed.Close()
	unpacked, err := gzip.NewReader(packed)
	if err != nil {
		return err
	}
	raw, err := io.ReadAll(unpacked)
	if err != nil {
		return err
	}
	lines := bytes.SplitAfter(raw, []byte("\n"))
	header, rows := lines[0], lines[1:]
	half := len(rows) / 2
	north := append(bytes.Clone(header), bytes.Join(rows[:half], nil)...)
	south := append(bytes.Clone(header), bytes.Join(rows[half:], nil)...)

	built.north, built.south = filepath.Join(built.dir, "north.csv"), filepath.Join(built.dir, "south.csv.gz")
	var zipped bytes.Buffer
	w := gzip.NewWriter(&zipped)
	_, err = w.Write(south)
	return errors.Join(err, w.Close(),
		os.WriteFile(built.north, north, 0o600),
		os.WriteFile(built.south, zipped.Bytes(), 0o600))
}
