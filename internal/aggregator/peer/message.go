package peer

import (
	"fmt"

	"google.golang.org/protobuf/proto"

	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
)

// Encoded is a serialized message. A round is encoded once, however many nodes get it. It must not change after the
// first send.
type Encoded []byte

// Encode serializes a message to nodes.
func Encode(m *conclavev1.WorkResponse) (Encoded, error) {
	raw, err := proto.Marshal(m)
	if err != nil {
		return nil, fmt.Errorf("encode a message to the nodes: %w", err)
	}
	return raw, nil
}

// Stream is where a node's messages are sent; each is an [Encoded].
type Stream interface{ SendMsg(message any) error }
