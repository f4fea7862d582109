package aggregator

// maxOwed bounds the rounds that are remembered of a stream. A node has one in hand and
// few that wait.
const maxOwed = 64

// asking is a round as it was sent down one stream.
type asking struct {
	key     roundKey
	attempt uint64
}

// owed are the answers that a stream may give: one to each round that it was sent. Whether
// the round is still open is for others to know; without this a node could send late
// answers without end, each of which looks like normal work. It is not safe for use by
// several goroutines.
type owed struct {
	open     []asking // sent and not answered, oldest first
	answered []asking // the last few
	newest   uint64   // attempt sent last
	// forgotten is how many answers may still come to rounds that are not remembered.
	forgotten int
}

// ask notes a round that is sent. Attempts grow.
func (o *owed) ask(a asking) {
	if len(o.open) == maxOwed {
		o.open = append(o.open[:0], o.open[1:]...)
		o.forgotten++
	}
	o.open = append(o.open, a)
	o.newest = a.attempt
}

// answer uses up the answer to a round: lateKind where the round was sent so long ago that
// it is not remembered, otherwise empty, or why there is none.
func (o *owed) answer(a asking) (kind string) {
	const remembered = 16
	for i, b := range o.open {
		if b.attempt != a.attempt {
			continue
		}
		if b.key != a.key {
			return foreignKind
		}
		o.open = append(o.open[:i], o.open[i+1:]...)
		if len(o.answered) == remembered {
			o.answered = append(o.answered[:0], o.answered[1:]...)
		}
		o.answered = append(o.answered, b)
		return ""
	}
	for _, b := range o.answered {
		if a == b {
			return duplicateKind
		}
	}
	if o.forgotten > 0 && a.attempt > 0 && a.attempt < o.newest {
		o.forgotten--
		return lateKind
	}
	return foreignKind
}
