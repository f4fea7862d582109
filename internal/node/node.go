package node

import (
	"crypto/sha256"
	"encoding/binary"
	"sync"
	"sync/atomic"

	"go.uber.org/zap"

	"github.com/conclave-dp/conclave/internal/auditlog"
	"github.com/conclave-dp/conclave/internal/monitor"
	"github.com/conclave-dp/conclave/internal/nn"
	"github.com/conclave-dp/conclave/internal/sitepolicy"
	"github.com/conclave-dp/conclave/internal/tracing"
	"github.com/conclave-dp/conclave/partition"
)

// Node hosts the teachers of one site's process. It answers one aggregator at a
// time: its methods are not safe for use by several goroutines.
type Node struct {
	cfg      Config
	log      *zap.Logger
	schema   *partition.Schema
	features int
	classes  int
	// seed tells this node's draws from those of the other nodes of a run.
	seed uint64
	// manifest says which partitions the teachers were trained on.
	manifest *partition.Manifest
	// kept is set once the manifest is known to be stored.
	kept bool
	// ledger is what the node was told of the dataset's ledger.
	ledger *ledgerMark
	// examples holds each teacher's encoded records by class.
	examples []nn.Examples
	// numbers lists the features that are numbers, standard is the space for
	// the examples in units of a round.
	numbers  []int
	standard []nn.Examples
	// cosines are the examples as coefficients, once they were asked for.
	cosines *cosines
	// told are the examples with their classes in them, once they were asked for.
	told   []nn.Examples
	toldOf seen
	// units holds the records of each privacy unit.
	units [][]place
	// scored is the discriminator that was asked about last.
	scored *scored
	// embedded is the embedding that was asked about last.
	embedded *embedded
	// sampled picks who is in a sample, for tests of this package; nil in every program,
	// which draws it.
	sampled func(rate float64) []int
	// run and current are the run that was answered last.
	run     string
	current *runState
	// worked says that something was answered on the stream.
	worked bool

	// watched, trail and level are for the site's operator; peer and its certificate are
	// the aggregator at the other end of the stream.
	watched               *watched
	trail                 *auditlog.Log
	tracer                *tracing.Tracer
	level                 *zap.AtomicLevel
	monitor               atomic.Pointer[monitor.Server]
	peer, peerCertificate string

	// guard stands before all answers, nil without a policy; waiting holds the runs that
	// wait for the site, with the round that was asked.
	guard     *sitepolicy.Guard
	waitingMu sync.Mutex
	waiting   map[string]waitingRun
}

// place says where a record is among the examples.
type place struct{ teacher, class, at int }

// New reads the site's records, assigns them to partitions and checks these
// against the manifest of earlier starts. It fails when the data, the key, the
// schema or the number of teachers changed: disjoint partitions are promised
// for the life of the dataset.
func New(cfg Config, log *zap.Logger) (*Node, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	site, err := ReadSite(cfg)
	if err != nil {
		return nil, err
	}
	return site.Node(cfg.Aggregator, log)
}

// newNode encodes the records and sorts them by teacher and class, and by unit.
func newNode(cfg Config, table *partition.Table, assignment *partition.Assignment, manifest *partition.Manifest, log *zap.Logger) *Node {
	schema := table.Schema()
	encoder := partition.NewEncoder(schema)
	n := &Node{
		cfg: cfg, log: log, watched: newWatched(), schema: schema, manifest: manifest, seed: nodeSeed(cfg.Site, cfg.Node),
		features: encoder.Width(), classes: max(1, len(schema.Classes())), numbers: encoder.Numbers(),
	}
	encoded := encoder.Encode(table)
	n.examples = make([]nn.Examples, cfg.Teachers)
	for t := range n.examples {
		n.examples[t].ByClass = make([][]float32, n.classes)
	}
	units := map[string]int{}
	for row, t := range assignment.Of {
		class := encoded.Classes[row]
		of := n.examples[t].ByClass
		here := place{t, class, len(of[class]) / n.features}
		of[class] = append(of[class], encoded.Row(row)...)
		if cfg.Unit == partition.UnitRecord {
			n.units = append(n.units, []place{here})
			continue
		}
		u, ok := units[table.Unit(row)]
		if !ok {
			u = len(n.units)
			units[table.Unit(row)] = u
			n.units = append(n.units, nil)
		}
		n.units[u] = append(n.units[u], here)
	}
	n.guarded()
	return n
}

// nodeSeed is a number of the node's own. Without it teachers with the same
// number on different nodes would draw alike, and what their draws add to a
// histogram would grow with the number of nodes instead of averaging out.
func nodeSeed(site, node string) uint64 {
	sum := sha256.Sum256([]byte("conclave/teacher/draws/1/" + site + "/" + node))
	return binary.BigEndian.Uint64(sum[:8])
}
