package encode

import "github.com/conclave-dp/conclave/partition"

// Schema is that of the rows.
func (e *Encoder) Schema() *partition.Schema { return e.schema }
