package question

import (
	"errors"
	"fmt"
	"math/rand/v2"

	"google.golang.org/protobuf/proto"

	"github.com/conclave-dp/conclave/internal/messages"
)

// Kind is a kind of question.
type Kind struct {
	// Name is the kind's name in sites' policies, audit logs and metrics.
	Name string
	// Read checks a question's parameters. Its errors are sent to the student: they say what is wrong with the
	// question, and what to do.
	Read func(p *Public, params []byte) (*Checked, error)
	// Passes is above 0 if a reducer at the aggregator asks nodes in several passes: it is the most different passes
	// that serve a question. A node counts them as one, and reveals no time of any.
	Passes int
	// Streams says that answers need [Site.Rows] alone, so that nodes that stream give them.
	Streams bool
	// Divides says that answers need the records of each teacher, or of each unit, which [Site.Divide] puts in a file
	// at nodes that stream. A unit adds so little that as many as such a node may have fit into a sum.
	Divides bool
	// Pushes says that where a database counts, answers need [Site.Counted] alone.
	Pushes bool
	// Draw puts records that chance makes in place of the generated ones that a question
	// holds; nil where it holds none. It is for rehearsals.
	Draw func(params []byte, rng *rand.Rand) []byte
}

// Checked is a question that can be answered. Votes or Sum is set, as in its Shape.
type Checked struct {
	Shape Shape
	// Baseline says that no record moves the answer. Only runs that were opened as baselines
	// may ask such questions, so that no other can pass for one.
	Baseline bool
	// Common is the part that all passes of one question share; nil if there is none.
	Common []byte
	// Votes returns the votes of all teachers, packed by [Pack].
	Votes func(s *Site, r Round) ([]byte, error)
	// Sum returns the entries of the vector, added up over the node.
	Sum func(s *Site, r Round) ([]int64, error)
}

// Round names one round of a run.
type Round struct {
	Run    string // a name that may be part of a file's name
	Number uint64
	// Digest tells the question from others. A question that is asked again in its round
	// has the same.
	Digest func() string
	// Pay charges the answer; nil if there is no account to charge.
	Pay func() error
}

// Paid charges the answer that was worked out, before it takes the place of the one that is kept. The
// answer that is paid for is then always the one that is kept, or one that never left: where another
// one is kept, the question that was charged last would be answered anew at no charge.
func (r Round) Paid() error {
	if r.Pay == nil {
		return nil
	}
	return r.Pay()
}

// ErrState is wrapped by errors about what a node keeps between rounds. Their details name
// the site's files and stay there: only this text leaves.
var ErrState = errors.New("the node cannot keep its teachers' state; its log says why")

// ErrUnknown says that a node has no such kind.
var ErrUnknown = errors.New("the question is of a kind this node does not know; update it")

// errStreams is the answer of a streaming node to a question that needs its records in memory.
var errStreams = errors.New("this node reads its records for each question and answers no fits and selections, and " +
	"from a database sums of all records alone; leave it out of the run, or have its site remove stream")

// errPushes is what a node whose database counts says to other questions.
var errPushes = errors.New("this node has its database count, and answers the questions of the pipeline marginals " +
	"and of the figure of quality alone; leave it out of the run, or have its site remove sql.pushdown")

// Typed makes the Read of a kind whose parameters are a message of type P.
func Typed[P proto.Message](read func(*Public, P) (*Checked, error)) func(*Public, []byte) (*Checked, error) {
	return func(p *Public, raw []byte) (*Checked, error) {
		var none P
		params := none.ProtoReflect().Type().New().Interface().(P)
		if err := Unmarshal(raw, params); err != nil {
			return nil, err
		}
		return read(p, params)
	}
}

// maxMessages bounds the messages in the parameters of a question. The scores of 4,096 discriminators
// have 16,385.
const maxMessages = 1 << 15

// Unmarshal reads parameters that come from outside.
func Unmarshal(raw []byte, params proto.Message) error {
	if n := messages.Count(raw, params.ProtoReflect().Descriptor(), maxMessages); n > maxMessages {
		return fmt.Errorf("the question holds more than %d messages in one; ask about fewer things in a round",
			maxMessages)
	}
	if err := proto.Unmarshal(raw, params); err != nil {
		return fmt.Errorf("the question's parameters cannot be read: %w; "+
			"install matching versions of node, aggregator and student", err)
	}
	if len(params.ProtoReflect().GetUnknown()) > 0 {
		return fmt.Errorf("%w: its parameters have fields that are not known here", ErrUnknown)
	}
	return nil
}

// Registry has the kinds that a node answers, by name.
type Registry map[string]Kind

// NewRegistry panics if two kinds have one name.
func NewRegistry(kinds ...Kind) Registry {
	r := Registry{}
	for _, k := range kinds {
		if _, taken := r[k.Name]; taken {
			panic(fmt.Sprintf("two kinds of questions are named %q", k.Name))
		}
		r[k.Name] = k
	}
	return r
}

// Read checks a question of the kind with this name.
func (r Registry) Read(p *Public, name string, params []byte) (*Checked, error) {
	if err := r.Check(p, name); err != nil {
		return nil, err
	}
	return r[name].Read(p, params)
}

// Check reports why a node answers no question of the kind with this name, whatever its parameters.
func (r Registry) Check(p *Public, name string) error {
	k, known := r[name]
	switch {
	case !known:
		return ErrUnknown
	case p.Streams && !k.Streams && !(k.Divides && p.Divides):
		return errStreams
	case p.Pushes && !k.Pushes:
		return errPushes
	}
	return nil
}
