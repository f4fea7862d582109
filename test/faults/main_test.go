package faults

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/conclave-dp/conclave/internal/testkit"
	"github.com/conclave-dp/conclave/test/clustertest"
)

var (
	seed       = flag.Uint64("seed", 1, "seed of the faults; 0 takes a new one")
	faultCount = flag.Int("faults", 0, "how many faults TestFaults draws; 0 takes one of each kind, all short")
	nodeCount  = flag.Int("nodes", 0, "how many nodes there are; 0 takes 20 from 100 faults on, else 4")
	loopback   = flag.Bool("loopback", false, "use no namespaces, and leave partitions of the network out")
	keep       = flag.String("keep", "", "folder in which everything is left, for a look afterwards")
	results    = flag.String("results", "", "full path of a file to which TestFaults adds its result, a line of JSON")
)

const (
	// readerRole is the role of a reader; see readOverAndOver.
	readerRole = "reader"
	// enclosed is the role of the tests themselves inside namespaces.
	enclosed = "enclosed"
	// dirVariable tells the enclosed tests where the programs are.
	dirVariable = "FAULTS_DIR"
)

// built is the folder of the programs and certificates.
var built string

// open says why there are no namespaces, or is empty.
var open string

func TestMain(m *testing.M) {
	role := os.Getenv(clustertest.RoleVariable)
	if role != "" && role != enclosed {
		os.Exit(clustertest.Play(role, map[string]func(context.Context) error{readerRole: readOverAndOver}))
	}
	flag.Parse()
	testkit.WaitTogether()
	if role == enclosed {
		built = os.Getenv(dirVariable)
		if err := enclose(); err != nil {
			fmt.Fprintln(os.Stderr, "namespaces:", err)
			os.Exit(1)
		}
		os.Exit(m.Run())
	}
	os.Exit(prepare(m))
}

// prepare builds what all tests need and runs them, in namespaces if possible.
func prepare(m *testing.M) int {
	dir, err := os.MkdirTemp("", "faults")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	built = dir
	programs := []string{"aggregator", "teacher", "student", "conclave"}
	if err := testkit.Programs(filepath.Join(dir, "bin"), programs); err != nil {
		fmt.Fprintln(os.Stderr, "prepare the faults tests:", err)
		return 1
	}
	if *loopback {
		open = "-loopback"
	} else if code, err := runEnclosed(dir); err == nil {
		return code
	} else {
		open = err.Error()
	}
	return m.Run()
}

// drawFrom is the seed of a test.
func drawFrom(t *testing.T) uint64 {
	from := *seed
	for from == 0 {
		from = uint64(time.Now().UnixNano()) % 1_000_000
	}
	t.Logf("to draw the same again: -seed %s", strconv.FormatUint(from, 10))
	return from
}
