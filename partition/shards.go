package partition

import "fmt"

// Shards divides a table among the nodes of a site: all rows of a privacy unit (the unit
// column's text where the schema has one, else each record) go to one of n tables, in
// their order. Shard i has the rows of the share [i/n, (i+1)/n), see Options. A unit
// that is added or removed moves no other, so that it changes one shard and one partition
// of it.
//
// How many rows a shard has depends on the rows, and is as private as they are. A shard
// without rows is an error: no node could start with it.
func (t *Table) Shards(n int) ([]*Table, error) {
	if n < 1 {
		return nil, fmt.Errorf("divide the table: %d shards; ask for 1 or more", n)
	}
	rows := make([][]int, n)
	for row, at := range SharePositions(t) {
		shard := min(int(at*float64(n)), n-1)
		rows[shard] = append(rows[shard], row)
	}
	shards := make([]*Table, n)
	for i := range shards {
		if len(rows[i]) == 0 {
			return nil, fmt.Errorf("divide the table: shard %d of %d has no row; ask for fewer shards", i, n)
		}
		shards[i] = t.Subset(rows[i])
	}
	return shards, nil
}
