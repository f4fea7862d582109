package progress

import (
	"fmt"
	"io"
	"os"
	"time"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"
	"golang.org/x/term"
)

// Bytes shows how much of a file came. Write to it what comes; it is for one goroutine.
type Bytes struct {
	out       io.Writer
	all, came int64
	printed   time.Time
	bars      *mpb.Progress // nil where there is no terminal
	bar       *mpb.Bar
}

// NewBytes shows the progress of a file of a size in bytes on f.
func NewBytes(f *os.File, all int64) *Bytes {
	if term.IsTerminal(int(f.Fd())) {
		return newBytesBar(f, all)
	}
	return &Bytes{out: f, all: all}
}

func newBytesBar(out io.Writer, all int64, options ...mpb.ContainerOption) *Bytes {
	b := &Bytes{out: out, all: all, bars: newBar(out, options...).bars}
	b.bar = b.bars.AddBar(all, mpb.PrependDecorators(decor.CountersKibiByte("% .1f / % .1f")),
		mpb.AppendDecorators(decor.AverageSpeed(decor.SizeB1024(0), "% .1f")))
	return b
}

// Write counts what came.
func (b *Bytes) Write(p []byte) (int, error) {
	b.came += int64(len(p))
	switch {
	case b.bar != nil:
		b.bar.IncrBy(len(p))
	case b.came == b.all || time.Since(b.printed) >= plainEvery:
		b.printed = time.Now()
		_, err := fmt.Fprintf(b.out, "%.1f of %.1f MiB\n", float64(b.came)/(1<<20), float64(b.all)/(1<<20))
		return len(p), err
	}
	return len(p), nil
}

// Close ends the display.
func (b *Bytes) Close() {
	if b == nil || b.bars == nil {
		return
	}
	if !b.bar.Completed() {
		b.bar.Abort(false)
	}
	b.bars.Wait()
}
