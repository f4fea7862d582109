package question

import (
	"crypto/sha256"
	"encoding/binary"
	"reflect"

	"github.com/conclave-dp/conclave/internal/nn"
	"github.com/conclave-dp/conclave/partition"
	"github.com/conclave-dp/conclave/partition/encode"
)

// Public holds the public facts against which a question's parameters are checked.
type Public struct {
	Schema *partition.Schema
	// Features is the width of an encoded record. Numbers lists the features that are numbers and not categories.
	// Classes is 1 without a label.
	Features int
	Numbers  []int
	Classes  int
	Teachers int
	// MaxSteps is the largest number of steps that a teacher may be asked to train in a round, 0 for the kind's
	// own limit.
	MaxSteps int
	// Streams says that the node does not hold its records in memory.
	Streams bool
	// Divides says that a streaming node can divide its records among its teachers, on the disk.
	Divides bool
	// Pushes says that a database counts instead of the node.
	Pushes bool
	// Seed is the seed of the node's draws; they protect nothing.
	Seed uint64

	memory map[reflect.Type]any
}

// NewPublic describes a node with the given number of teachers whose records have this schema.
func NewPublic(schema *partition.Schema, teachers int, seed uint64) *Public {
	encoder := encode.New(schema)
	return &Public{
		Schema: schema, Features: encoder.Width(), Numbers: encoder.Numbers(), Classes: max(1, len(schema.Classes())),
		Teachers: teachers, Seed: seed, memory: map[reflect.Type]any{},
	}
}

// Seed is a number specific to the node. Without it, teachers with the same number on different nodes would make
// the same draws, and the effect of the draws on a histogram would grow with the number of nodes instead of
// averaging out.
func Seed(site, node string) uint64 {
	sum := sha256.Sum256([]byte("conclave/teacher/draws/1/" + site + "/" + node))
	return binary.BigEndian.Uint64(sum[:8])
}

// Image is the shape of a record that is an image, zero for others.
func (p *Public) Image() nn.Shape {
	i := p.Schema.Image
	if i == nil {
		return nn.Shape{}
	}
	return nn.Shape{Height: i.Height, Width: i.Width, Channels: i.Channels}
}

// Memory returns what a kind stores at this node: a T that is empty at first. Each kind uses its own types, so
// kinds do not see each other's memory.
func Memory[T any](p *Public) *T {
	key := reflect.TypeFor[T]()
	m, ok := p.memory[key].(*T)
	if !ok {
		m = new(T)
		p.memory[key] = m
	}
	return m
}
