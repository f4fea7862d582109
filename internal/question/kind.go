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
	// Name is the kind's name in site policies, audit logs and metrics.
	Name string
	// Read checks a question's parameters. Its errors are sent to the student: they say what is wrong with the
	// question, and what to do.
	Read func(p *Public, params []byte) (*Checked, error)
	// Passes is above 0 if a reducer at the aggregator asks nodes in several passes: it is the largest number of
	// different passes for one question. A node counts them as one, and does not reveal the time of a single pass.
	Passes int
	// Streams says that answers need only [Site.Rows], so streaming nodes can give them.
	Streams bool
	// Divides says that answers need the records by teacher or by unit, which [Site.Divide] stores in a file at
	// streaming nodes. A unit's contribution is small enough that a sum holds as many units as such a node may
	// have.
	Divides bool
	// Pushes says that answers need only [Site.Counted] at a node whose database counts.
	Pushes bool
	// Draw replaces the generated records in a question by random ones; nil if it has none. It is for rehearsals.
	Draw func(params []byte, rng *rand.Rand) []byte
}

// Checked is a question that can be answered. Votes or Sum is set, according to its Shape.
type Checked struct {
	Shape Shape
	// Baseline says that no record moves the answer. Only runs opened as baselines may ask such questions, so that
	// no other run can be mistaken for one.
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
	Run    string // safe as part of a file name
	Number uint64
	// Digest identifies the question. A question that is asked again in its round has the same digest.
	Digest func() string
	// Pay charges the answer; nil if there is no account to charge.
	Pay func() error
}

// Paid charges the computed answer before it replaces the stored one. So the answer that is paid for is always the
// stored one, or one that never left. Otherwise, with another answer stored, the last charged question could be
// answered anew for free.
func (r Round) Paid() error {
	if r.Pay == nil {
		return nil
	}
	return r.Pay()
}

// ErrState is wrapped by errors about what a node stores between rounds. Their details name the site's files and
// stay there: only this text leaves.
var ErrState = errors.New("the node cannot store its teachers' state; its log says why")

// ErrUnknown says that a node does not know the kind.
var ErrUnknown = errors.New("the question has a kind that is unknown to this node; update the node")

// The answers of nodes that do not hold their records in memory to questions that they cannot answer. Aggregators cut
// reasons of more than 200 bytes.
var (
	errStreams = errors.New("this node streams its records and answers no fits or selections; leave it out of the " +
		"run, or have its site remove stream")
	errCursor = errors.New("this node streams a database and answers only sums of all records; leave it out of the " +
		"run, or have its site remove stream")
	errPushes = errors.New("this node has its database count, and answers only marginals and the quality figure; " +
		"leave it out, or have its site remove sql.pushdown")
)

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

// maxMessages bounds the messages in the parameters of a question. The scores of 4,096 discriminators have 16,385.
const maxMessages = 1 << 15

// Unmarshal reads parameters from outside.
func Unmarshal(raw []byte, params proto.Message) error {
	if n := messages.Count(raw, params.ProtoReflect().Descriptor(), maxMessages); n > maxMessages {
		return fmt.Errorf("the question has more than %d nested messages; ask for less in a round",
			maxMessages)
	}
	if err := proto.Unmarshal(raw, params); err != nil {
		return fmt.Errorf("the question's parameters cannot be read: %w; "+
			"install matching versions of node, aggregator and student", err)
	}
	if messages.Unknown(params.ProtoReflect()) > 0 {
		return fmt.Errorf("%w: its parameters have unknown fields", ErrUnknown)
	}
	return nil
}

// Registry holds the kinds that a node answers, by name.
type Registry map[string]Kind

// NewRegistry panics if two kinds have the same name.
func NewRegistry(kinds ...Kind) Registry {
	r := Registry{}
	for _, k := range kinds {
		if _, taken := r[k.Name]; taken {
			panic(fmt.Sprintf("two kinds of questions have the name %q", k.Name))
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
	case p.Streams && !p.Divides && !k.Streams:
		return errCursor
	case p.Streams && !k.Streams && !k.Divides:
		return errStreams
	case p.Pushes && !k.Pushes:
		return errPushes
	}
	return nil
}
